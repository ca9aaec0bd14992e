/** Where cuBLASMp finds the scales of 8-bit factors. */
import { assertEquals } from "@std/assert";
import { Replicated, Slab } from "../../../../src/distribution/mod.ts";
import { chooseCall, type CublasMpCall } from "../../../../src/linalg/engines/cublasmp/paths.ts";
import {
  SCALE_MODE_CODES,
  type ScaleArrayMode,
  scaleDistribution,
  scaleLayout,
} from "../../../../src/linalg/engines/cublasmp/scales.ts";
import { describeEpilog } from "../../../../src/linalg/matmul/epilog.ts";
import type { Scaling } from "../../../../src/linalg/matmul/quantization.ts";
import { problemOf } from "../given_product.ts";

const { X, Y } = Slab;
const BLOCKS: Scaling = { a: "vector_128", b: "block_128x128" };
const VECTORS: Scaling = { a: "vector_128", b: "vector_128" };

/** The call for A of [k, m] transposed, times B of [k, n]. */
function call(
  [m, n, k]: readonly [number, number, number],
  places: readonly [Slab, Slab, Slab | typeof Replicated],
  scaling: Scaling,
  size: number,
): CublasMpCall {
  const [a, b, d] = places;
  const dtypes = { dtype: "float8_e4m3", resultType: "bfloat16" } as const;
  const problem = problemOf({ size, m, n, k, a, b, d, transposes: [true, false], ...dtypes });
  const epilog = describeEpilog("none", { auxDType: "bfloat16" });
  return chooseCall({ problem, epilog, scaling, isOverlapped: false })!;
}

Deno.test("each mode has cuBLASMp's number", () => {
  assertEquals(SCALE_MODE_CODES, { tensor: 0, outer_vector: 3, vector_128: 4, block_128x128: 5 });
});

Deno.test("scales lie as cuBLASLt reads them, in so many bytes as it says", () => {
  assertEquals(scaleLayout("outer_vector", [512, 256], 1), {
    rows: 1,
    columns: 256,
    strides: [256, 1],
    pieces: 1,
    pieceLength: 256,
  });
  assertEquals(scaleLayout("vector_128", [384, 256], 2), {
    rows: 3,
    columns: 128,
    strides: [128, 1],
    pieces: 2,
    pieceLength: 384,
  });
  assertEquals(scaleLayout("block_128x128", [640, 256], 1), {
    rows: 5,
    columns: 2,
    strides: [1, 8],
    pieces: 1,
    pieceLength: 16,
  });
});

Deno.test("each rank gets the scales of its part", () => {
  const ranges = (mode: ScaleArrayMode, given: CublasMpCall["a"]) => {
    const distribution = scaleDistribution(mode, given);
    return Array.from({ length: distribution.size! }, (_, rank) => distribution.ranges(rank).map(([range]) => range));
  };
  const gathered = call([512, 768, 256], [Y, Y, X], BLOCKS, 2);
  assertEquals(gathered.path, "all_gather");
  assertEquals(ranges("vector_128", gathered.a), [[[0, 2], [0, 256]], [[0, 2], [256, 512]]]);
  assertEquals(ranges("block_128x128", gathered.b), [[[0, 2], [0, 3]], [[0, 2], [3, 6]]]);
  const reduced = call([512, 768, 512], [X, X, Y], BLOCKS, 2);
  assertEquals(reduced.path, "reduce_scatter");
  assertEquals(ranges("vector_128", reduced.a), [[[0, 2], [0, 512]], [[2, 4], [0, 512]]]);
  assertEquals(ranges("block_128x128", reduced.b), [[[0, 2], [0, 6]], [[2, 4], [0, 6]]]);
  // All ranks sum over parts of a row, and so need its one scale.
  assertEquals(ranges("outer_vector", reduced.a), [[[0, 1], [0, 512]], [[0, 1], [0, 512]]]);
});

Deno.test("no two ranks share a block of scales: uneven matrices are moved and padded to multiples of 128", () => {
  for (const [shape, places] of [[[300, 200, 200], [Y, Y, X]], [[200, 200, 300], [X, X, Y]]] as const) {
    const { a, b, d, m, n, k } = call(shape, places, BLOCKS, 2);
    assertEquals([m % 128, n % 128, k % 128], [0, 0, 0]);
    for (const { blockRows, blockColumns } of [a, b, d]) assertEquals([blockRows % 128, blockColumns % 128], [0, 0]);
    for (const [start] of [0, 1].map((rank) => a.distribution.ranges(rank)[0][0] ?? [0])) {
      assertEquals(start % 128, 0);
    }
  }
  const even = call([512, 512, 512], [X, X, Y], BLOCKS, 2);
  assertEquals([even.moved, even.copied], [0, 0]);
});

Deno.test("how scales of vectors of B lie for GEMM+AllReduce is not known, so that path is not taken", () => {
  assertEquals(call([256, 256, 512], [X, X, Replicated], BLOCKS, 2).path, "all_reduce");
  assertEquals(call([256, 256, 512], [X, X, Replicated], VECTORS, 2).path === "all_reduce", false);
});
