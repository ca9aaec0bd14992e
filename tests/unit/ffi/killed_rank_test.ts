/** A rank that is killed is told of by its shell, and no other, also if what has started it has waited for it by then. */
import { assertEquals, assertMatch } from "@std/assert";
import { fileURLToPath } from "node:url";

const fixture = fileURLToPath(new URL("./fixtures/ends.ts", import.meta.url));

async function outputOf(way: string): Promise<string> {
  // The one who waits for the process is there for longer.
  const script = '"$0" run -A --no-check "$1" "$2" & wait $!; sleep 2';
  const args = ["-c", script, Deno.execPath(), fixture, way];
  const { stderr } = await new Deno.Command("bash", { args, stdin: "null" }).output();
  return new TextDecoder().decode(stderr);
}

for (const way of ["exits", "throws", "ends at once"]) {
  Deno.test(`the shell of a rank that ${way} tells of nobody`, async () => {
    assertEquals((await outputOf(way)).match(/distmath: rank.*/), null);
  });
}

Deno.test("the shell of a rank that is killed tells so", async () => {
  assertMatch(await outputOf("is killed"), /^distmath: rank 7, process \d+, was (ended by signal 9 |killed; )/m);
});
