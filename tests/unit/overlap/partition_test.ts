/** Who owns, needs and makes what, on boxes of small products. */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import fc from "fast-check";
import {
  type Axis,
  type Box,
  evenParts,
  lengthOf,
  made,
  MATRIX_AXES,
  type MatrixName,
  needed,
  owned,
  type Partition,
  partitionOf,
  piecesOf,
  travelling,
} from "../../../src/overlap/partition.ts";
import { partitions } from "./arbitraries.ts";

function indices(box: Box, axes: readonly Axis[]): string[] {
  const of = (axis: Axis) => Array.from({ length: lengthOf(box[axis]) }, (_, i) => box[axis].start + i);
  return of(axes[0]).flatMap((row) => of(axes[1]).map((column) => `${row}/${column}`));
}

const ranksOf = ({ size }: Partition) => Array.from({ length: size }, (_, rank) => rank);

Deno.test("each rank owns what it needs, or the others do: every element of a factor lies somewhere, once", () => {
  fc.assert(fc.property(partitions, (partition) => {
    for (const matrix of ["a", "b"] as const) {
      const all = ranksOf(partition).flatMap((rank) => indices(owned(partition, matrix, rank), MATRIX_AXES[matrix]));
      const { m, n, k } = partition.extents;
      assertEquals(all.length, matrix === "a" ? m * k : k * n);
      assertEquals(new Set(all).size, all.length);
      for (const rank of ranksOf(partition)) {
        const wanted = indices(needed(partition, matrix, rank), MATRIX_AXES[matrix]);
        assert(wanted.every((index) => all.includes(index)));
        if (matrix !== partition.travels) {
          assertEquals(wanted, indices(owned(partition, matrix, rank), MATRIX_AXES[matrix]));
        }
      }
    }
  }));
});

Deno.test("all terms of D are made, once; D lies on one rank, or on all", () => {
  fc.assert(fc.property(partitions, (partition) => {
    const { kind, extents: { m, n, k } } = partition;
    const volume = ({ m, n, k }: Box) => lengthOf(m) * lengthOf(n) * lengthOf(k);
    assertEquals(ranksOf(partition).reduce((sum, rank) => sum + volume(made(partition, rank)), 0), m * n * k);
    const results = ranksOf(partition).map((rank) => indices(owned(partition, "d", rank), MATRIX_AXES.d));
    for (const result of results) if (kind === "all_reduce") assertEquals(result.length, m * n);
    if (kind !== "all_reduce") assertEquals(new Set(results.flat()).size, results.flat().length);
    if (kind !== "all_reduce") assertEquals(results.flat().length, m * n);
  }));
});

Deno.test("parts follow each other, and differ by at most one", () => {
  fc.assert(fc.property(fc.nat(1000), fc.integer({ min: 1, max: 8 }), (extent, count) => {
    const parts = evenParts(extent, count);
    assertEquals([parts[0].start, parts.at(-1)!.end], [0, extent]);
    for (const [i, part] of parts.entries()) {
      if (i > 0) assertEquals(part.start, parts[i - 1].end);
      assert([Math.floor(extent / count), Math.ceil(extent / count)].includes(lengthOf(part)));
    }
  }));
});

Deno.test("pieces follow each other, are as heavy as they should be, and begin with tiles", () => {
  const weights = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 5 });
  fc.assert(fc.property(fc.nat(100000), weights, fc.nat(50), (extent, weights, start) => {
    const pieces = piecesOf({ start, end: start + extent }, weights);
    assertEquals(pieces.length, weights.length);
    assertEquals([pieces[0].start, pieces.at(-1)!.end], [start, start + extent]);
    const total = weights.reduce((sum, weight) => sum + weight);
    for (const [i, piece] of pieces.entries()) {
      if (i > 0) assertEquals(piece.start, pieces[i - 1].end);
      assert(Math.abs(lengthOf(piece) - extent * weights[i] / total) <= Math.max(1, extent / weights.length));
      if (extent >= 1024 * weights.length && i > 0) assertEquals((piece.start - start) % 512, 0);
    }
  }));
  assertEquals(piecesOf({ start: 0, end: 5504 }, [1, 1, 1]).map(lengthOf), [2048, 1536, 1920]);
  assertEquals(piecesOf({ start: 3, end: 16 }, [1, 1]).map(lengthOf), [8, 5]);
  // Where cuBLASLt takes factors of 8 bits.
  for (let extent = 32; extent <= 8192; extent += 32) {
    assertEquals(piecesOf({ start: 32, end: 32 + extent }, [1, 1])[1].start % 16, 0, `${extent}`);
  }
});

Deno.test("what travels is counted in elements of the rank that sends most", () => {
  const extents = { m: 10, n: 6, k: 8 };
  const of = (kind: Partition["kind"], travels: MatrixName) =>
    travelling(partitionOf({ kind, extents, size: 4, travels }));
  assertEquals(of("gather", "a"), 3 * 3 * 8);
  assertEquals(of("gather", "b"), 3 * 2 * 8);
  assertEquals(of("reduce", "d"), 8 * 6);
  assertEquals(of("all_reduce", "d"), 8 * 6 + 3 * 3 * 6);
});

Deno.test("what cannot be is refused", () => {
  const refuse = (options: Partial<Parameters<typeof partitionOf>[0]>, message: string) => {
    const given = { kind: "gather", extents: { m: 4, n: 4, k: 4 }, size: 2, ...options } as const;
    assertStringIncludes(assertThrows(() => partitionOf(given), RangeError).message, message);
  };
  refuse({ travels: "d" }, "gather cannot have D travel: a factor is gathered, and D is summed");
  refuse({ kind: "reduce", travels: "a" }, "reduce cannot have A travel");
  refuse({ travels: "a", axis: "n" }, "A has the axes m and k, not n");
  refuse(
    { parts: [{ start: 0, end: 2 }, { start: 3, end: 4 }] },
    "Parts of m have to cover 0..4 once, one for each of 2 ranks; got 0..2, 3..4.",
  );
  refuse(
    { fixedParts: [{ start: 0, end: 4 }] },
    "Parts of n have to cover 0..4 once, one for each of 2 ranks; got 0..4.",
  );
});
