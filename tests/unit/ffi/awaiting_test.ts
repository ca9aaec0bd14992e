import { assertEquals } from "@std/assert";
import { Asking, type AwaitedCall, beginAwaiting, endAwaiting, watchAwaiting } from "../../../ffi/awaiting.ts";

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

Deno.test("what is asked for ten times, for a second, is awaited, until it is there", async () => {
  const told: string[] = [];
  watchAwaiting({
    begin: ({ name }) => told.push(name),
    goOn: () => {},
    end: () => told.push("end"),
  });
  const asking = new Asking(() => ({ ...sum, name: `${told.length}` }));
  for (let i = 0; i < 100; i++) asking.again();
  assertEquals(told, []);
  await new Promise((resolve) => setTimeout(resolve, 1100));
  asking.again();
  assertEquals(told, ["0"]);
  asking.end();
  asking.again();
  await new Promise((resolve) => setTimeout(resolve, 1100));
  for (let i = 0; i < 8; i++) asking.again();
  assertEquals(told, ["0", "end"]);
  asking.again();
  asking.end();
  assertEquals(told, ["0", "end", "2", "end"]);
});
