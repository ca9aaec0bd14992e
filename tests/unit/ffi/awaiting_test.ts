import { assertEquals } from "@std/assert";
import { type AwaitedCall, beginAwaiting, endAwaiting, watchAwaiting } from "../../../ffi/awaiting.ts";

const [sum, barrier, message] = ["sum", "barrier", "message"].map((name): AwaitedCall => ({
  name,
  scope: 1,
  turn: name === "message" ? 0 : 1,
  line: "",
}));

Deno.test("of what is awaited the first collective call is told, until it is asked for no more", async () => {
  const told: string[] = [];
  watchAwaiting({
    begin: ({ name }) => told.push(name),
    goOn: () => told.push("again"),
    end: () => told.push("end"),
  });
  const since = () => told.splice(0);
  beginAwaiting(message);
  beginAwaiting(message);
  beginAwaiting(sum);
  assertEquals(since(), ["message", "again", "end", "sum"]);
  for (const other of [message, barrier, sum]) beginAwaiting(other);
  assertEquals(since(), ["again"]);
  endAwaiting(barrier);
  assertEquals(since(), []);
  await new Promise((resolve) => setTimeout(resolve, 1100));
  beginAwaiting(barrier);
  beginAwaiting(sum);
  assertEquals(since(), ["end", "barrier"]);
  endAwaiting(barrier);
  assertEquals(since(), ["end"]);
});
