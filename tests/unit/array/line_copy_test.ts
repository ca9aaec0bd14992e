/** Lines that a compiled loop copies, against one of JavaScript. */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { addressOf } from "../../../ffi/memory.ts";
import { allocate } from "../../../src/dtype/dtype.ts";
import { prepareCopy, type Run, stridesOf } from "../../../src/array/layout.ts";
import { type LineAxis, prepareLineCopy } from "../../../src/array/line_copy.ts";

const ignore = prepareLineCopy([{ source: 1, target: 1, runs: [] }], true) === null;

/** What the compiled loop does. */
function copyByLoop(axes: readonly LineAxis[], from: Uint8Array, to: Uint8Array, s: number, t: number): void {
  const [{ runs, source, target }, ...rest] = axes;
  for (const run of runs) {
    for (let i = 0; i < run.length; i++) {
      const [a, b] = [s + (run.source + i) * source, t + (run.target + i) * target];
      if (rest.length === 0) to[b] = from[a];
      else copyByLoop(rest, from, to, a, b);
    }
  }
}

const BYTES = 2 ** 16;
const run = (most: number) => fc.record({ source: fc.nat(most), target: fc.nat(most), length: fc.nat(most) });
const outer = fc.record({
  source: fc.nat(900),
  target: fc.nat(900),
  runs: fc.array(run(3), { minLength: 1, maxLength: 3 }),
});
const inner = fc.array(run(300), { minLength: 1, maxLength: 3 });

Deno.test({
  name: `lines are copied as a plain loop does, past the caches or not, wherever they begin${
    ignore ? " (skipped: no gcc for x86-64)" : ""
  }`,
  ignore,
  fn() {
    const from = crypto.getRandomValues(new Uint8Array(BYTES));
    const property = fc.property(
      fc.array(outer, { maxLength: 2 }),
      inner,
      fc.nat(130),
      fc.nat(130),
      fc.boolean(),
      (outer, runs, s, t, isPast) => {
        const axes = [...outer, { source: 1, target: 1, runs }];
        const [to, expected] = [new Uint8Array(BYTES), new Uint8Array(BYTES)];
        copyByLoop(axes, from, expected, s, t);
        prepareLineCopy(axes, isPast)!(addressOf(from) + BigInt(s), addressOf(to) + BigInt(t));
        assertEquals(to, expected);
      },
    );
    fc.assert(property, { numRuns: 300 });
  },
});

// With a compiler lines go past the caches, without one by memcpy.
for (const [name, shift] of [["at the beginning of cache lines", 0], ["between them", 3]] as const) {
  Deno.test(`pieces of a large move arrive where they belong, ${name}`, () => {
    const [shape, strides] = [[2048, 2050], stridesOf([2048, 2050], "C")];
    const [source, target] = [1, 2].map(() => allocate("float64", 2048 * 2050) as Float64Array<ArrayBuffer>);
    for (let i = 0; i < source.length; i++) source[i] = i;
    // Blocks of 64 columns from every other place to the places between.
    const columns = Array.from({ length: 15 }, (_, i): Run => (
      { source: 128 * i + shift, target: 128 * i + 64 + shift, length: 64 }
    ));
    const rows = [{ source: 1, target: 0, length: 2047 }];
    const whole = (data: Float64Array<ArrayBuffer>) => ({ data, offset: 0, strides });
    prepareCopy(whole(source), whole(target), [rows, columns], 1, 2 ** 26)();
    const expected = new Float64Array(shape[0] * shape[1]);
    for (let i = 0; i < 2047; i++) {
      for (const { source: a, target: b, length } of columns) {
        for (let k = 0; k < length; k++) expected[2050 * i + b + k] = source[2050 * (i + 1) + a + k];
      }
    }
    assertEquals(target.findIndex((value, i) => value !== expected[i]), -1);
  });
}
