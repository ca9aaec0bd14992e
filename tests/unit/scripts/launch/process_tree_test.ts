import { assert, assertEquals } from "@std/assert";
import { runTree } from "../../../../scripts/launch/process_tree.ts";

const sh = (script: string) => ({ command: "sh", args: ["-c", script], env: {} });

Deno.test("runTree() ends what a program has left behind that holds its output open", async () => {
  for (const script of ["sleep 60 & exit 0", "trap '' TERM; sleep 60 & sleep 60 & wait"]) {
    const { code, isTimedOut, ownSignal, seconds } = await runTree(sh(script), {
      timeoutSeconds: 0.3,
      onLine: () => {},
    });
    assertEquals([code, isTimedOut, ownSignal], [124, true, null], script);
    assert(seconds < 30, `${script}: ${seconds} s`);
  }
});

Deno.test("runTree() tells every line with its stream, and the exit code", async () => {
  const told: unknown[] = [];
  const { code, isTimedOut } = await runTree(sh("echo a; echo b >&2; printf c; exit 3"), {
    onLine: (...line) => told.push(line),
  });
  assertEquals([code, isTimedOut], [3, false]);
  assertEquals(told.toSorted(), [["stderr", "b", true], ["stdout", "a", true], ["stdout", "c", false]]);
});

Deno.test("runTree() leaves out NULs behind a line of standard error, as Open MPI 5 writes them, and no others", async () => {
  const told: unknown[] = [];
  const script = String.raw`printf 'a\n\000\000' >&2; sleep 0.3; echo b >&2; printf '\000c\n\000\000'`;
  await runTree(sh(script), { showParts: true, onLine: (...line) => told.push(line) });
  const expected = [["stderr", "a", true], ["stderr", "b", true], ["stdout", "\0\0", false], ["stdout", "\0c", true]];
  assertEquals(told.toSorted(), expected);
});
