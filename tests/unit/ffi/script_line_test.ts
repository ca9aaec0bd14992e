import { assertEquals, assertMatch } from "@std/assert";
import { lineOfScript, lineOfWait, lookAtWaits, traceToScript } from "../../../ffi/script_line.ts";

Deno.test("the line is there for a script's first waits, and then now and then", async () => {
  // Which are told apart by what they are in.
  for (let i = 0; i < 32; i++) assertMatch(lineOfWait("matmul", i)!, /^script_line_test\.ts:6:\d+$/);
  const hasty = Array.from({ length: 1000 }, () => lineOfWait("matmul", 40));
  assertEquals(hasty.filter((line) => line !== null).length < 50, true);
  let line: string | null = null;
  for (let call = 0; line === null && call < 1000; call++) {
    await new Promise((resolve) => setTimeout(resolve, 10));
    line = lineOfWait("matmul", 40);
  }
  assertMatch(line!, /^script_line_test\.ts:12:\d+$/);
  lookAtWaits(1);
  assertMatch(lineOfWait("matmul", 40)!, /^script_line_test\.ts:16:\d+$/);
});

Deno.test("lineOfScript() is empty where traces are of the script's own kind", () => {
  const errors = Error as { prepareStackTrace?: unknown };
  const { prepareStackTrace } = errors;
  errors.prepareStackTrace = (_: Error, sites: unknown[]) => sites;
  try {
    assertEquals(lineOfScript(), "");
  } finally {
    errors.prepareStackTrace = prepareStackTrace;
  }
});

Deno.test("the runner of cluster tests is no script", () => {
  const runner = new URL("../../../scripts/results/test_output.ts", import.meta.url);
  const runnerCalls = new Function("test", `return test();\n//# sourceURL=${runner}`);
  assertMatch(runnerCalls(() => new Error().stack), /test_output\.ts/);
  assertMatch(runnerCalls(lineOfScript), /^script_line_test\.ts:34:\d+$/);
});

Deno.test("traceToScript() leaves alone traces that get to the script, and what has none", () => {
  const error = new Error("mine");
  const { stack } = error;
  traceToScript(error);
  assertEquals(error.stack, stack);
  for (const thrown of [null, "text", Object.freeze(new Error("frozen"))]) traceToScript(thrown);
});
