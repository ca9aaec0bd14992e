/** Properties of index maps: one owner for each index, inverse maps, agreement with ScaLAPACK's own formulas. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import {
  BlockCyclic,
  type Distribution,
  numroc,
  ProcessGrid,
  type Range,
  Slab,
} from "../../../src/distribution/mod.ts";
import {
  blockCyclic,
  evenly,
  type IndexMap,
  interval,
  sameSet,
  singleBlockSize,
  sliceSet,
} from "../../../src/distribution/index_map.ts";
import { anyCase, blockCyclicCase, blockNonCyclicCase, boxCase, indices, slabCase } from "./arbitraries.ts";

/** NUMROC of ScaLAPACK's TOOLS, statement by statement. */
function NUMROC(N: number, NB: number, IPROC: number, ISRCPROC: number, NPROCS: number): number {
  const MYDIST = (NPROCS + IPROC - ISRCPROC) % NPROCS;
  const NBLOCKS = Math.trunc(N / NB);
  let result = Math.trunc(NBLOCKS / NPROCS) * NB;
  const EXTRABLKS = NBLOCKS % NPROCS;
  if (MYDIST < EXTRABLKS) result += NB;
  else if (MYDIST === EXTRABLKS) result += N % NB;
  return result;
}

/** INDXG2P, INDXG2L and INDXL2G of ScaLAPACK's TOOLS, which count from 1. */
const INDXG2P = (INDXGLOB: number, NB: number, ISRCPROC: number, NPROCS: number) =>
  (ISRCPROC + Math.trunc((INDXGLOB - 1) / NB)) % NPROCS;
const INDXG2L = (INDXGLOB: number, NB: number, NPROCS: number) =>
  NB * Math.trunc((INDXGLOB - 1) / (NB * NPROCS)) + (INDXGLOB - 1) % NB + 1;
const INDXL2G = (INDXLOC: number, NB: number, IPROC: number, ISRCPROC: number, NPROCS: number) =>
  NPROCS * NB * Math.trunc((INDXLOC - 1) / NB) + (INDXLOC - 1) % NB + ((NPROCS + IPROC - ISRCPROC) % NPROCS) * NB + 1;

/** What a rank holds according to its ranges. */
function members(ranges: readonly (readonly Range[])[]): number[][] {
  const values = ranges.map((axis) =>
    axis.flatMap(([start, end]) => Array.from({ length: end - start }, (_, i) => start + i))
  );
  return indices(values.map((axis) => axis.length)).map((position) => position.map((at, d) => values[d][at]));
}

Deno.test("every element has exactly one owner, or all ranks if replicated", () => {
  fc.assert(fc.property(anyCase, ({ distribution, shape, size }) => {
    const holders = new Map(indices(shape).map((index) => [index.join(), [] as number[]]));
    for (let rank = 0; rank < size; rank++) {
      for (const index of members(distribution.ranges(rank))) holders.get(index.join())!.push(rank);
    }
    for (const index of indices(shape)) {
      const found = holders.get(index.join())!;
      assertEquals(found.length, distribution.isReplicated ? size : 1);
      assertEquals(distribution.owner(index), found[0]);
      assertEquals(distribution.owners(index), found);
    }
  }));
});

Deno.test("toLocal and toGlobal are inverse, and local order is global order", () => {
  fc.assert(fc.property(anyCase, ({ distribution, shape, size }) => {
    for (const index of indices(shape)) {
      const local = distribution.toLocal(index);
      for (const rank of distribution.owners(index)) assertEquals(distribution.toGlobal(rank, local), index);
    }
    for (let rank = 0; rank < size; rank++) {
      const globals = indices(distribution.localShape(rank)).map((local) => distribution.toGlobal(rank, local));
      assertEquals(globals, members(distribution.ranges(rank)));
      for (const [position, local] of indices(distribution.localShape(rank)).entries()) {
        assertEquals(distribution.toLocal(globals[position]), local);
      }
    }
  }));
});

Deno.test("ranges are ascending, disjoint, not empty, and as long as the local shape says", () => {
  fc.assert(fc.property(anyCase, ({ distribution, shape, size }) => {
    for (let rank = 0; rank < size; rank++) {
      const ranges = distribution.ranges(rank);
      assertEquals(ranges.length, shape.length);
      for (const [d, axis] of ranges.entries()) {
        let last = 0;
        for (const [start, end] of axis) {
          assertEquals(
            start >= last && start < end && end <= shape[d],
            true,
            `${distribution} ${JSON.stringify(axis)}`,
          );
          last = end;
        }
        assertEquals(axis.reduce((sum, [start, end]) => sum + end - start, 0), distribution.localShape(rank)[d]);
      }
    }
  }));
});

Deno.test("block-cyclic parts are those of ScaLAPACK's formulas", () => {
  fc.assert(fc.property(blockCyclicCase, ({ distribution, shape, size }) => {
    const { grid, blockSizes, firstProcess } = distribution;
    for (let rank = 0; rank < size; rank++) {
      const at = grid.coordinates(rank);
      const expected = shape.map((n, d) => at ? NUMROC(n, blockSizes[d], at[d], firstProcess[d], grid.shape[d]) : 0);
      assertEquals(distribution.localShape(rank), expected);
      for (const local of indices(expected)) {
        const global = local.map((i, d) => INDXL2G(i + 1, blockSizes[d], at![d], firstProcess[d], grid.shape[d]) - 1);
        assertEquals(distribution.toGlobal(rank, local), global);
      }
    }
    for (const index of indices(shape)) {
      const coordinates = index.map((i, d) => INDXG2P(i + 1, blockSizes[d], firstProcess[d], grid.shape[d]));
      assertEquals(distribution.owner(index), grid.rank(coordinates));
      assertEquals(distribution.toLocal(index), index.map((i, d) => INDXG2L(i + 1, blockSizes[d], grid.shape[d]) - 1));
    }
  }));
});

Deno.test("numroc counts what dealing the blocks one by one gives", () => {
  const positive = fc.integer({ min: 1, max: 7 });
  fc.assert(fc.property(fc.nat(60), positive, positive, fc.nat(6), (n, nb, nprocs, source) => {
    const isrc = source % nprocs;
    const dealt = Array<number>(nprocs).fill(0);
    for (let i = 0; i < n; i++) dealt[(isrc + Math.floor(i / nb)) % nprocs]++;
    assertEquals(dealt.map((_, iproc) => numroc(n, nb, iproc, isrc, nprocs)), dealt);
    assertEquals(dealt.map((_, iproc) => NUMROC(n, nb, iproc, isrc, nprocs)), dealt);
  }));
});

Deno.test("numroc refuses what ScaLAPACK would compute with", () => {
  const wrong: [Parameters<typeof numroc>, string][] = [
    [[-1, 2, 0, 0, 1], "n must be an integer of at least 0, got -1"],
    [[4, 0, 0, 0, 1], "nb must be an integer of at least 1, got 0"],
    [[4, 2, 3, 0, 3], "iproc must be an integer of at least 0 and at most 2, got 3"],
    [[4, 2, 0, -1, 3], "isrc must be an integer of at least 0 and at most 2, got -1"],
    [[4, 2, 0, 0, 0], "nprocs must be an integer of at least 1, got 0"],
  ];
  for (const [given, message] of wrong) assertThrows(() => numroc(...given), RangeError, message);
});

Deno.test("numroc is exact up to the largest safe integer", () => {
  const n = Number.MAX_SAFE_INTEGER;
  const dealt = [0, 1, 2].map((iproc) => BigInt(numroc(n, 7, iproc, 2, 3)));
  const [blocks, rest] = [BigInt(n) / 7n, BigInt(n) % 7n];
  const expected = [0n, 1n, 2n].map((iproc) => {
    const distance = (3n + iproc - 2n) % 3n;
    return blocks / 3n * 7n + (distance < blocks % 3n ? 7n : distance === blocks % 3n ? rest : 0n);
  });
  assertEquals(dealt, expected);
});

Deno.test("every map is exact up to the largest safe integer", () => {
  const extent = fc.integer({ min: Number.MAX_SAFE_INTEGER - 2000, max: Number.MAX_SAFE_INTEGER });
  fc.assert(fc.property(extent, fc.integer({ min: 1, max: 1000 }), (extent, parts) => {
    const [n, p] = [BigInt(extent), BigInt(parts)];
    const block = (n + p - 1n) / p;
    assertEquals(BigInt(singleBlockSize(extent, parts)), block);
    const maps: [IndexMap, (part: bigint) => [bigint, bigint]][] = [
      [blockCyclic(extent, Number(block), parts), (i) => [least(i * block, n), least((i + 1n) * block, n)]],
      [evenly(extent, parts), (i) => [i * (n / p) + least(i, n % p), (i + 1n) * (n / p) + least(i + 1n, n % p)]],
    ];
    for (const [map, rangeOf] of maps) {
      for (const part of [0, parts >> 1, parts - 1]) {
        const [start, end] = rangeOf(BigInt(part));
        const set = map.part(part);
        assertEquals(BigInt(set.count), end - start);
        assertEquals(set.ranges().map((range) => range.map(BigInt)), start < end ? [[start, end]] : []);
        if (start === end) continue;
        for (const index of [start, end - 1n]) {
          assertEquals(map.owner(Number(index)), part);
          assertEquals(BigInt(set.at(Number(index - start))), index);
          assertEquals(BigInt(set.before(Number(index))), index - start);
        }
      }
    }
  }));
});

const least = (a: bigint, b: bigint): bigint => a < b ? a : b;

Deno.test("a slab gives the first extent % size ranks one more", () => {
  fc.assert(fc.property(slabCase, ({ distribution, shape, size }) => {
    const extent = shape[distribution.partitionDimension];
    let start = 0;
    for (let rank = 0; rank < size; rank++) {
      const length = Math.floor(extent / size) + (rank < extent % size ? 1 : 0);
      assertEquals(distribution.localShape(rank), shape.with(distribution.partitionDimension, length));
      assertEquals(distribution.ranges(rank)[distribution.partitionDimension], length ? [[start, start + length]] : []);
      start += length;
    }
  }));
});

Deno.test("a non-cyclic block is one run of ceil(extent / processes), the last ones short or empty", () => {
  fc.assert(fc.property(blockNonCyclicCase, ({ distribution, shape, size }) => {
    const { grid, firstProcess } = distribution;
    for (let rank = 0; rank < size; rank++) {
      const at = grid.coordinates(rank);
      for (const [d, axis] of distribution.ranges(rank).entries()) {
        const block = Math.ceil(shape[d] / grid.shape[d]);
        const place = at ? (at[d] - firstProcess[d] + grid.shape[d]) % grid.shape[d] : 0;
        const [start, end] = [place * block, Math.min((place + 1) * block, shape[d])];
        assertEquals(axis, at && start < end ? [[start, end]] : []);
      }
    }
  }));
});

Deno.test("a box holds what its corners say", () => {
  fc.assert(fc.property(boxCase, ({ distribution }) => {
    for (const [rank, [lower, upper]] of distribution.boxes.entries()) {
      assertEquals(distribution.localShape(rank), upper.map((end, d) => end - lower[d]));
      assertEquals(distribution.ranges(rank), lower.map((start, d) => start < upper[d] ? [[start, upper[d]]] : []));
    }
  }));
});

Deno.test("transposition swaps coordinates and leaves every element where it is", () => {
  const check = (source: Distribution, transposed: Distribution, axes: readonly number[]) => {
    for (let rank = 0; rank < source.size!; rank++) {
      assertEquals(transposed.localShape(rank), axes.map((axis) => source.localShape(rank)[axis]));
      assertEquals(transposed.ranges(rank), axes.map((axis) => source.ranges(rank)[axis]));
    }
    for (const index of indices(source.globalShape!)) {
      const moved = axes.map((axis) => index[axis]);
      assertEquals(transposed.owner(moved), source.owner(index));
      assertEquals(transposed.toLocal(moved), axes.map((axis) => source.toLocal(index)[axis]));
    }
  };
  fc.assert(fc.property(anyCase, fc.nat(5), ({ distribution, shape }, turn) => {
    const axes = shape.map((_, d) => d);
    check(distribution, distribution.transpose(), axes.toReversed());
    assertEquals(distribution.transpose().transpose().equals(distribution), true);
    const rotated = axes.map((axis) => (axis + turn) % axes.length);
    check(distribution, distribution.transpose(rotated), rotated);
    assertEquals(distribution.transpose(axes).equals(distribution), true);
  }));
});

Deno.test("isUniform compares all local shapes", () => {
  fc.assert(fc.property(anyCase, ({ distribution, size }) => {
    const shapes = new Set(Array.from({ length: size }, (_, rank) => distribution.localShape(rank).join()));
    assertEquals(distribution.isUniform, shapes.size === 1);
  }));
});

Deno.test("finding the owner takes as long among a million blocks as among a few", () => {
  const grid = new ProcessGrid({ shape: [2, 2] });
  const blocks = new BlockCyclic(grid, [1, 3]).bind([1_000_000, 3_000_000], 4);
  assertEquals(blocks.localShape(3), [500_000, 1_500_000]);
  assertEquals(blocks.toGlobal(3, [499_999, 1_499_999]), [999_999, 2_999_999]);
  assertEquals(blocks.ranges(1)[0].length, 500_000);
  assertEquals(blocks.ranges(1)[1].at(-1), [2_999_997, 3_000_000]);
  const few = new BlockCyclic(grid, [1, 3]).bind([100, 300], 4);
  const fastest = (distribution: typeof blocks) =>
    Math.min(...Array.from({ length: 20 }, () => {
      const started = performance.now();
      for (let i = 0; i < 1000; i++) distribution.owner([i % 100, 7]);
      return performance.now() - started;
    }));
  fastest(few); // compiled by then
  // Going through the blocks would take ten thousand times as long.
  const [many, reference] = [fastest(blocks), fastest(few)];
  assert(many < 100 * reference, `${many} and ${reference} ms`);
});

Deno.test("a dimension with one process has one range, however many blocks it has", () => {
  const column = new BlockCyclic(new ProcessGrid({ shape: [1, 2] }), [2, 2]).bind([10, 8], 2);
  assertEquals(column.ranges(1), [[[0, 10]], [[2, 4], [6, 8]]]);
  assertEquals(Slab.Y.bind([10, 8], 2).ranges(1), [[[0, 10]], [[4, 8]]]);
});

Deno.test("index sets within a window", () => {
  const cyclic = blockCyclic(11, 2, 2).part(0); // 0 1 4 5 8 9
  assertEquals(cyclic.ranges(1, 9), [[1, 2], [4, 6], [8, 9]]);
  assertEquals(cyclic.ranges(2, 4), []);
  assertEquals(sliceSet(cyclic, [1, 10]).ranges(), [[0, 1], [3, 5], [7, 9]]);
  assertEquals(sliceSet(cyclic, [1, 10]).ranges(4, 8), [[4, 5], [7, 8]]);
  assertEquals([0, 1, 4, 20].map(sliceSet(cyclic, [1, 10]).before), [0, 1, 2, 5]);
  assertEquals(interval(3, 7).ranges(5, 20), [[5, 7]]);
  assertEquals([0, 3, 5, 9].map(interval(3, 7).before), [0, 0, 2, 4]);
});

Deno.test("index sets are the same if they have the same members", () => {
  assertEquals(sameSet(interval(3, 3), interval(5, 5)), true);
  assertEquals(sameSet(interval(0, 4), interval(0, 5)), false);
  assertEquals(sameSet(evenly(8, 2).part(1), blockCyclic(8, 4, 2).part(1)), true);
  const pieces = (blockSize: number, parts: number) => blockCyclic(12, blockSize, parts).part(0);
  assertEquals(sameSet(pieces(1, 2), pieces(1, 2)), true);
  assertEquals(sameSet(pieces(2, 3), pieces(1, 3)), false);
  // 0 1 4 5 against 0 2 3 5: as many, from the same first to the same last.
  assertEquals(sameSet(sliceSet(pieces(2, 2), [0, 6]), sliceSet(blockCyclic(8, 2, 2, 1).part(0), [1, 7])), false);
});
