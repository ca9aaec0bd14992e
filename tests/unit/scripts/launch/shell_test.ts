import { assertEquals } from "@std/assert";
import { withoutColons } from "../../../../scripts/launch/shell.ts";

Deno.test("withoutColons() has a shell start a program with a word that launchers take for their own", async () => {
  const words = ["printf", "%s|", ":", "it's", "", "a\nb", "$HOME", "::", '"'];
  const program = withoutColons(words);
  assertEquals([program.length, program.includes(":")], [3, false]);
  const { stdout } = await new Deno.Command(program[0], { args: program.slice(1) }).output();
  assertEquals(new TextDecoder().decode(stdout), words.slice(2).map((word) => `${word}|`).join(""));
  assertEquals(withoutColons(["a", "b:", "::"]), ["a", "b:", "::"]);
});
