import { assertEquals } from "@std/assert";
import { blockOf } from "../../../src/fft/engines/fftw/blocks.ts";
import type { Dimension, Pass } from "../../../src/fft/engines/staged/pass_plan.ts";

const along = (extent: number, source: number, target = source): Dimension => ({ extent, source, target });

function pass(type: Pass["type"], transformed: Dimension, looped: readonly Dimension[]): Pass {
  return { type, transformed: [transformed], looped, called: [], isInPlace: false };
}

Deno.test("a block has whole lines that lie together, as many as divide their number", () => {
  const lines = blockOf(pass("c2c", along(1024, 1), [along(12, 1024)]), "complex128", "complex128", true)!;
  assertEquals(lines.pass.looped, [along(4, 1024)]);
  assertEquals(lines.pass.called, [along(3, 4096)]);
  assertEquals([lines.sourceSpan, lines.targetSpan], [4096, null]);

  const apart = blockOf(pass("c2c", along(1024, 1), [along(12, 2048)]), "complex128", "complex128", true)!;
  assertEquals([apart.pass.looped, apart.pass.called, apart.sourceSpan], [[], [along(12, 2048)], 1024]);

  const prime = blockOf(pass("c2c", along(256, 1), [along(101, 256)]), "complex128", "complex128", false)!;
  assertEquals([prime.pass.looped, prime.pass.called], [[], [along(101, 256)]]);
});

Deno.test("results are copied where they leave no gaps, and are written to where they belong elsewhere", () => {
  const [real, complex] = ["float64", "complex128"] as const;
  const dense = blockOf(pass("r2c", along(4096, 1), [along(8, 4096, 2049)]), real, complex, false)!;
  assertEquals([dense.sourceSpan, dense.targetSpan], [2 * 4096, 2 * 2049]);
  const padded = blockOf(pass("r2c", along(4096, 1), [along(8, 4096, 2050)]), real, complex, false)!;
  assertEquals([padded.sourceSpan, padded.targetSpan], [2 * 4096, null]);
  const inPlace = blockOf(pass("r2c", along(4096, 1), [along(8, 4098, 2049)]), real, complex, true)!;
  assertEquals([inPlace.sourceSpan, inPlace.targetSpan], [4096, null]);
});

Deno.test("there are no blocks of what is little, lies far apart, is one block, or is written to by another one", () => {
  const dtype = "complex128";
  const found = (transformed: Dimension, looped: readonly Dimension[], isInPlace = false) =>
    blockOf(pass("c2c", transformed, looped), dtype, dtype, isInPlace);
  assertEquals(found(along(64, 4096), [along(4096, 1)]), null, "columns");
  assertEquals(found(along(2 ** 17, 1), [along(8, 2 ** 17)]), null, "longer than the caches");
  assertEquals(found(along(64, 1), []), null, "a line");
  assertEquals(found(along(64, 1), [along(2, 64)]), null, "two short lines");
  assertEquals(found(along(8, 1), [along(1000003, 8)]), null, "a prime number of short lines");
  assertEquals(found(along(4096, 1, 64), [along(64, 4096, 1)], true), null, "a transpose in place");
  assertEquals(found(along(4096, 1, 64), [along(64, 4096, 1)])?.targetSpan, null, "a transpose");
  const reach = pass("r2c", along(4096, 1), [along(8, 4096, 2048)]);
  assertEquals(blockOf(reach, "float64", "complex128", true), null, "half spectra in lines without padding");
  const moved = pass("r2c", along(4096, 1), [along(8, 4098, 2050)]);
  assertEquals(blockOf(moved, "float64", "complex128", true), null, "lines that end up elsewhere");
});
