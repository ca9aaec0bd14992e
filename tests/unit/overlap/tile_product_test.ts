/** What tile kernels refuse, and how the memory between ranks is laid out; no GPU is needed. */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { ConfigurationError } from "../../../src/errors.ts";
import {
  checkConfiguration,
  checkTileShape,
  SHAPES_BETWEEN,
  sharedBytes,
  TILE_SHAPES,
  type TileConfiguration,
  type TileShape,
  tileShapeNamed,
} from "../../../src/overlap/executors/tile/configuration.ts";
import { TileKernel } from "../../../src/overlap/executors/tile/kernel.ts";
import { compiledEpilog } from "../../../src/overlap/executors/tile/parameters.ts";
import { exchangeLayout } from "../../../src/overlap/executors/tile/exchange.ts";
import { configurationOf, tileRefusal } from "../../../src/overlap/executors/tile/operands.ts";
import { gatheredPieces, type TileProblem } from "../../../src/overlap/tile_order.ts";
import { tileSource } from "../../../src/overlap/executors/tile/source.ts";
import type { Device } from "../../../src/gpu/device.ts";

const problem: TileProblem = {
  kind: "gather",
  dtype: "bfloat16",
  m: 1000,
  n: 512,
  k: 256,
  isRowMajorA: true,
  isRowMajorB: false,
  split: "rows",
  rank: 1,
  size: 3,
};
const leading = { a: 256, b: 256, d: 512 };

Deno.test("every shape in use fits the shared memory", () => {
  for (const name of [...Object.keys(TILE_SHAPES), ...SHAPES_BETWEEN]) {
    const shape = tileShapeNamed(name)!;
    checkTileShape(shape);
    assert(sharedBytes(shape) <= 232448);
  }
});

Deno.test("a shape that cannot be built is refused, with what is possible", () => {
  const refuse = (change: Partial<TileShape>, message: string) => {
    const shape = { ...TILE_SHAPES.wide, ...change };
    assertStringIncludes(assertThrows(() => checkTileShape(shape), RangeError).message, message);
    assertThrows(() => tileSource({ ...shape, dtype: "float16", isRowMajorA: true, isRowMajorB: true }), RangeError);
  };
  refuse({ columns: 100 }, "cannot have 100 columns: multiples of 8 from 64 to 256 are possible");
  refuse({ stages: 1 }, "cannot have 1 stages: at least 2 are needed");
  refuse({ slots: 3 }, "cannot have 3 slots: 1, 2, 4 and 8 are possible");
  refuse({ cluster: 4 as 2 }, "cannot have a cluster of 4: 1 and 2 are possible");
  refuse({ stages: 5 }, "bytes of shared memory: 232448 is the most, take fewer stages or slots");
});

Deno.test("kernels of 8-bit factors have few columns, two stages at a time, and k in sequence", () => {
  const { narrow: shape, medium } = TILE_SHAPES;
  const given: TileConfiguration = {
    ...shape,
    dtype: "bfloat16",
    narrow: ["float8_e4m3", "float8_e5m2"],
    isRowMajorA: true,
    isRowMajorB: false,
  };
  checkConfiguration(given);
  assertStringIncludes(tileSource(given), "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e5m2");
  const refuse = (change: Partial<TileConfiguration>, message: string) => {
    assertStringIncludes(assertThrows(() => tileSource({ ...given, ...change }), RangeError).message, message);
  };
  refuse(medium, "of 8-bit factors cannot have 192 columns: 128 is the most");
  refuse({ stages: 5 }, "of 8-bit factors cannot have 5 stages: it takes two at a time");
  refuse({ isRowMajorA: false }, "has them with k in sequence: A by rows, B by columns");
  refuse({ isRowMajorB: true }, "has them with k in sequence: A by rows, B by columns");
});

Deno.test("pieces of a gathered factor are whole steps of the kernel, and all of k", () => {
  const narrow = ["float8_e4m3", "float8_e4m3"] as const;
  const piecesOf = (k: number, pieces: number, change: Partial<TileProblem> = {}) =>
    gatheredPieces({ ...problem, k, ...change }, { shape: TILE_SHAPES.narrow, pieces })
      .map(({ start, end }) => `${start}..${end}`).join(" ");
  assertEquals(piecesOf(256, 1), "0..256");
  assertEquals(piecesOf(256, 3), "0..128 128..256");
  assertEquals(piecesOf(200, 2), "0..128 128..200");
  assertEquals(piecesOf(50, 4), "0..50");
  assertEquals(piecesOf(1000, 2, { narrow }), "0..512 512..1000");
  assertEquals(piecesOf(256, 2, { kind: "reduce" }), "0..256");
  const pushed = (pieces: number) => () =>
    gatheredPieces(problem, { shape: TILE_SHAPES.narrow, pieces, blocksPush: true });
  assertEquals(pushed(8)().length, 4);
  assertStringIncludes(assertThrows(pushed(9), RangeError).message, "in up to 8 pieces, not in 9");
});

Deno.test("what tile kernels have is not refused", () => {
  assertEquals(tileRefusal(problem, leading), null);
  assertEquals(tileRefusal({ ...problem, m: 1001 }, leading), null);
  assertEquals(tileRefusal({ ...problem, n: 509 }, leading), null);
  assertEquals(tileRefusal({ ...problem, split: "columns" }, leading, true), null);
  assertEquals(tileRefusal({ ...problem, isRowMajorA: false }, { ...leading, a: 336 }), null);
  assertEquals(tileRefusal({ ...problem, kind: "reduce", isRowMajorA: false }, leading, true), null);
  for (const kind of ["plain", "reduce", "all_reduce"] as const) {
    assertEquals(tileRefusal({ ...problem, kind }, leading), null);
  }
});

Deno.test("what they do not have is refused, with the reason", () => {
  const refuse = (change: Partial<TileProblem>, message: string, strides = leading) =>
    assertStringIncludes(tileRefusal({ ...problem, ...change }, strides) ?? "nothing", message);
  refuse({ size: 9 }, "tile kernels know at most 8 ranks, not 9");
  refuse({ k: 0 }, "multiply no empty matrices, and m, n, k are 1000, 512, 0");
  refuse({}, "have to begin at multiples of 16 bytes, and B has one every 257 elements", { ...leading, b: 257 });
  refuse({ n: 515 }, "rows of D need room for a multiple of 8 elements, and 515 lie 512 apart");
  refuse({ m: 2 }, "each rank needs a part of the rows, and 3 ranks share 2");
  refuse(
    { split: "columns" },
    "parts of the columns have to begin at multiples of 8, or lie apart, and 3 ranks share 512",
  );
  refuse({ kind: "reduce", isRowMajorA: false }, "or lie apart, and 3 ranks share 1000");
  const narrow = ["float8_e4m3", "float8_e4m3"] as const;
  refuse({ narrow, isRowMajorB: true }, "8-bit factors have to lie with k in sequence");
  refuse({ narrow }, "multiples of 16 bytes, and A has one every 264 elements", { ...leading, a: 264 });
  refuse({}, "the part of A that is gathered has to be dense: a stride of 256, not 264", { ...leading, a: 264 });
  refuse({ split: "columns", n: 24 }, "the part of B that is gathered has to be dense: a stride of 256, not 264", {
    ...leading,
    b: 264,
  });
});

Deno.test("a GPU of another architecture is refused, before anything is compiled", () => {
  const device = { ordinal: 99, name: "NVIDIA A100", computeCapability: [8, 0] } as unknown as Device;
  const kernel = TileKernel.of({ ...TILE_SHAPES.wide, dtype: "bfloat16", isRowMajorA: true, isRowMajorB: false });
  const error = assertThrows(() => kernel.prepare(device), ConfigurationError);
  assertEquals(
    error.message,
    "Tile kernels are for GPUs of compute capability 9.0 (H100, H200), and NVIDIA A100 has 8.0.",
  );
});

Deno.test("a kernel has the code of its own epilog alone", () => {
  const bias = { address: 256n, count: 1, isOfRows: true };
  const kernelOf = (epilog: Parameters<typeof compiledEpilog>[0]) =>
    TileKernel.of(configurationOf(problem, { shape: TILE_SHAPES.wide }, compiledEpilog(epilog)));
  const plain = TileKernel.of(configurationOf(problem, { shape: TILE_SHAPES.wide }));
  assert(kernelOf({}) === plain && kernelOf({ activation: "none" }) === plain);
  const wanted = [
    [{ bias }, [1, 0, 0]],
    [{ activation: "relu" }, [0, 1, 0]],
    [{ bias, activation: "gelu" }, [1, 0, 1]],
  ] as const;
  const kernels = wanted.map(([epilog, numbers]) => {
    const kernel = kernelOf(epilog);
    const source = tileSource(kernel.configuration);
    ["HAS_BIAS", "IS_RELU", "IS_GELU"].forEach((name, i) => {
      assertStringIncludes(source, `#define ${name} ${numbers[i]}\n`);
    });
    return kernel;
  });
  assertEquals(new Set([plain, ...kernels]).size, 4);
});

Deno.test("all ranks lay the memory between them out alike, without overlap", () => {
  for (const kind of ["gather", "reduce", "all_reduce"] as const) {
    for (const size of [2, 3, 8]) {
      for (const isExchange of [false, true]) {
        const layouts = Array.from(
          { length: size },
          (_, rank) => exchangeLayout({ ...problem, kind, size, rank }, { shape: TILE_SHAPES.wide, isExchange }),
        );
        for (const layout of layouts) assertEquals(layout, layouts[0]);
        const { bytes, data, dataBytes, tileFlags, flagBytes, senders } = layouts[0];
        assert(tileFlags >= 2 * 4 * size && data >= tileFlags + size * flagBytes);
        assertEquals(bytes, data + 2 * senders * dataBytes);
        assertEquals(data % 128, 0);
        const perRank = kind === "gather" ? Math.ceil(1000 / size) * 256 * 2 : 0;
        assert(dataBytes >= perRank);
      }
    }
  }
});
