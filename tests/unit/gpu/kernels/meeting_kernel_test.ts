/** How many launches marks take that GPUs raise and wait for. */
import { assertEquals } from "@std/assert";
import { inLaunches } from "../../../../src/gpu/kernels/meeting_kernel.ts";

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);

Deno.test("a launch raises and awaits up to eight marks; of more, all are raised before any is waited for", () => {
  assertEquals(inLaunches([1], []), [[[1], []]]);
  assertEquals(inLaunches([], [2]), [[[], [2]]]);
  assertEquals(inLaunches(numbers(8), numbers(8)), [[numbers(8), numbers(8)]]);
  for (const [raised, awaited] of [[9, 8], [8, 9], [17, 20], [0, 9], [9, 0]]) {
    const launches = inLaunches(numbers(raised), numbers(awaited));
    assertEquals(launches.flatMap(([raises]) => raises), numbers(raised));
    assertEquals(launches.flatMap(([, waits]) => waits), numbers(awaited));
    const lastRaise = launches.findLastIndex(([raises]) => raises.length > 0);
    assertEquals(launches.slice(0, Math.max(0, lastRaise)).flatMap(([, waits]) => waits), []);
    assertEquals(launches.some(([raises, waits]) => Math.max(raises.length, waits.length) > 8), false);
  }
});
