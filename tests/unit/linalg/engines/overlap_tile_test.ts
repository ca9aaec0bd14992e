/** What the overlap engine plans for tile kernels: no GPU is needed. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { BlockCyclic, type Distribution, ProcessGrid, Replicated, Slab } from "../../../../src/distribution/mod.ts";
import type { EngineRequest } from "../../../../src/linalg/engines/engine.ts";
import { overlapGpuEngine } from "../../../../src/linalg/engines/overlap/gpu_engine.ts";
import { refuseTiles } from "../../../../src/linalg/engines/overlap/tile_engine.ts";
import { type CopyStrategy, copyStrategy, copyTraffic } from "../../../../src/linalg/engines/overlap/copy_strategy.ts";
import { type TileStrategy, tileStrategy, tileTraffic } from "../../../../src/linalg/engines/overlap/tile_strategy.ts";
import {
  usualVariant,
  variantNamed,
  variantsWorthMeasuring,
} from "../../../../src/linalg/engines/overlap/tile_variants.ts";
import { describeEpilog } from "../../../../src/linalg/matmul/epilog.ts";
import { canonicalProblem, type MatmulProblem, type Matrix } from "../../../../src/linalg/matmul/problem.ts";
import { type DType, dtypeInfo } from "../../../../src/dtype/dtype.ts";
import { TILE_ROWS } from "../../../../src/overlap/executors/tile/configuration.ts";
import { partsOf, tileOrder, type TileProblem } from "../../../../src/overlap/tile_order.ts";
import type { Runtime } from "../../../../src/runtime/runtime.ts";

const SIZE = 3;
const [M, N, K] = [24, 48, 24];

interface Case {
  orders?: readonly ["C" | "F", "C" | "F", "C" | "F"];
  places: readonly [Distribution, Distribution, Distribution];
  transposes?: readonly [boolean, boolean];
  dtype?: DType;
  shape?: readonly [number, number, number];
}

const PLACES: readonly (readonly [Distribution, Distribution, Distribution, string])[] = [
  [Slab.X, Slab.Y, Slab.Y, "gather"],
  [Slab.X, Slab.Y, Slab.X, "gather"],
  [Slab.Y, Slab.X, Slab.X, "reduce"],
  [Slab.Y, Slab.X, Slab.Y, "reduce"],
  [Slab.Y, Slab.X, Replicated, "all_reduce"],
];

const flip = (place: Distribution, isFlipped: boolean) =>
  !isFlipped ? place : place === Slab.X ? Slab.Y : place === Slab.Y ? Slab.X : place;

function requestOf(given: Case, algorithm = "default"): EngineRequest {
  const { orders = ["C", "C", "C"], places, transposes = [false, false], dtype = "bfloat16", shape = [M, N, K] } =
    given;
  const [m, n, k] = shape;
  const matrix = (i: 0 | 1 | 2, rows: number, columns: number, isTransposed: boolean) => {
    const stored: [number, number] = isTransposed ? [columns, rows] : [rows, columns];
    return { shape: stored, order: orders[i], dtype, distribution: flip(places[i], isTransposed).bind(stored, SIZE) };
  };
  const problem = canonicalProblem({
    a: matrix(0, m, k, transposes[0]),
    b: matrix(1, k, n, transposes[1]),
    c: null,
    d: matrix(2, m, n, false),
    operationA: { transpose: transposes[0], conjugate: false },
    operationB: { transpose: transposes[1], conjugate: false },
    accumulator: "float32",
  });
  return { problem, epilog: describeEpilog("none", { auxDType: "float32", resultAmax: false }), algorithm };
}

function planned(request: EngineRequest): TileStrategy {
  const found = tileStrategy(request);
  if ("reason" in found) throw new Error(found.reason);
  return found;
}

/** Elements of a factor, in the problem's own coordinates after the operation: rows of op(A), columns of op(B) and k. */
const element = (seed: number, i: number, j: number) => (7 * i + 3 * j + seed * (i ^ j)) % 5 - 2;

/** A rank's stored part of a factor, column by column, as numbers. */
function stored(matrix: Matrix, rank: number, at: (row: number, column: number) => number): number[] {
  const [rows, columns] = matrix.distribution.localShape(rank);
  const numbers: number[] = [];
  for (let j = 0; j < columns; j++) {
    for (let i = 0; i < rows; i++) {
      const [row, column] = matrix.distribution.toGlobal(rank, [i, j]);
      numbers.push(at(row, column));
    }
  }
  return numbers;
}

/** What kernels would make of the ranks' memory: D of each rank, row by row as they store it. */
function emulate(problem: MatmulProblem, tiles: readonly TileProblem[]): number[][] {
  const { operationA, operationB } = problem;
  const left = (row: number, column: number) =>
    operationA.transpose ? element(1, column, row) : element(1, row, column);
  const right = (row: number, column: number) =>
    operationB.transpose ? element(2, column, row) : element(2, row, column);
  const memory = tiles.map((_, rank) => ({ a: stored(problem.b, rank, right), b: stored(problem.a, rank, left) }));
  /** The kernel's A or B on a rank, of so many rows and columns. */
  const read = (data: number[], isRowMajor: boolean, rows: number, columns: number) => (i: number, j: number) =>
    data.length === rows * columns ? isRowMajor ? data[i * columns + j] : data[i + j * rows] : NaN;
  const terms = tiles.map((tile, rank) => {
    const { kind, m, n, k, split, isRowMajorA, isRowMajorB } = tile;
    const parts = partsOf(tile);
    const isParted = (name: "rows" | "columns") => kind === "gather" && split === name;
    const length = (part: number) => parts[part].end - parts[part].start;
    const a = (i: number, j: number) => {
      if (!isParted("rows")) return read(memory[rank].a, isRowMajorA, m, k)(i, j);
      const part = parts.findIndex(({ end }) => i < end);
      return read(memory[part].a, isRowMajorA, length(part), k)(i - parts[part].start, j);
    };
    const b = (i: number, j: number) => {
      if (!isParted("columns")) return read(memory[rank].b, isRowMajorB, k, n)(i, j);
      const part = parts.findIndex(({ end }) => j < end);
      return read(memory[part].b, isRowMajorB, k, length(part))(i, j - parts[part].start);
    };
    return Array.from({ length: m }, (_, i) =>
      Array.from({ length: n }, (_, j) => {
        let sum = 0;
        for (let p = 0; p < k; p++) sum += a(i, p) * b(p, j);
        return sum;
      }));
  });
  return tiles.map((tile, rank) => {
    const { kind, split } = tile;
    if (kind === "gather") return terms[rank].flat();
    const sums = terms[0].map((row, i) => row.map((_, j) => terms.reduce((sum, term) => sum + term[i][j], 0)));
    if (kind === "all_reduce") return sums.flat();
    const { start, end } = partsOf(tile)[rank];
    return (split === "rows" ? sums.slice(start, end) : sums.map((row) => row.slice(start, end))).flat();
  });
}

/** D of a rank, column by column. */
function wanted({ d, k }: MatmulProblem, rank: number): number[] {
  return stored(d, rank, (row, column) => {
    let sum = 0;
    for (let p = 0; p < k; p++) sum += element(1, row, p) * element(2, p, column);
    return sum;
  });
}

Deno.test("a kernel multiplies what lies in memory, in any order and transposed or not", () => {
  for (const [a, b, d, kind] of PLACES) {
    for (const orders of ["CCC", "CFC", "FCF", "FFF", "CCF"] as const) {
      for (const transposes of [[false, false], [true, false], [false, true], [true, true]] as const) {
        const given: Case = { places: [a, b, d], transposes, orders: [...orders] as never };
        const request = requestOf(
          given,
          { gather: "all_gather_gemm", reduce: "gemm_reduce_scatter" }[kind] ?? "default",
        );
        const { problemOf } = planned(request);
        const tiles = Array.from({ length: SIZE }, (_, rank) => problemOf(rank));
        assertEquals(tiles[0].kind, kind);
        const results = emulate(request.problem, tiles);
        results.forEach((result, rank) =>
          assertEquals(result, wanted(request.problem, rank), `${kind} ${orders} ${transposes} rank ${rank}`)
        );
      }
    }
  }
});

interface Row {
  kind: "ag" | "rs" | "ar";
  shape: [number, number, number];
  variants: Record<string, number>;
  /** How many ranks, also where they are emulated. */
  size: number;
  /** Whether its factors are 8 bits wide. */
  isNarrow: boolean;
}

const nameOf = ({ kind, shape, size, isNarrow }: Row) => `${kind} ${shape} on ${size}${isNarrow ? " of 8 bits" : ""}`;

Deno.test("the rule for the kernel picks one that measured within 3 % of the best, on every recorded row", async () => {
  const rows = new Map<string, Row>();
  const collect = (value: unknown, isNarrow: boolean, size = 2): void => {
    if (typeof value !== "object" || value === null) return;
    const found = value as { geometry?: string | number | null; variants?: object; shape?: unknown };
    const own = found.geometry ? Number(found.geometry) : size;
    if (found.variants && found.shape) {
      const row = { ...found as Row, size: own, isNarrow };
      if (!rows.has(nameOf(row))) rows.set(nameOf(row), row);
    } else for (const inner of Object.values(value)) collect(inner, isNarrow, own);
  };
  const read = async (name: string) =>
    JSON.parse(await Deno.readTextFile(new URL(`../../../../bench/results/${name}`, import.meta.url)));
  // What was measured again, with variants that came later, stands for what was measured before.
  const { overlap, float8 } = await read("overlap_pull_h200.json");
  collect(overlap, false);
  collect(float8, true);
  for (const name of ["overlap_4_h200.json", "overlap_h200.json"]) collect(await read(name), false);
  collect(await read("overlap_float8_h200.json"), true);
  assert(rows.size >= 58 + 9 + 5, `${rows.size}`);
  const kinds = { ag: "gather", rs: "reduce", ar: "all_reduce" } as const;
  for (const [of, { kind, shape: [m, n, k], variants, size, isNarrow }] of rows) {
    const name = usualVariant(kinds[kind], { m, n, k, size }, isNarrow);
    const best = Math.min(...Object.values(variants));
    assert(variants[name] <= 1.03 * best, `${of}: ${name} ${variants[name]}, best ${best}`);
  }
});

const runtime = (change: object = {}) =>
  ({
    size: SIZE,
    localSize: SIZE,
    device: { kind: "gpu", name: "NVIDIA H200", computeCapability: [9, 0] },
    ...change,
  }) as unknown as Runtime;

Deno.test("what tile kernels have is not refused", () => {
  for (const [a, b, d] of PLACES) assertEquals(refuseTiles(requestOf({ places: [a, b, d] }), runtime()), null);
});

Deno.test("where tile kernels are refused, nothing offers or takes them", () => {
  const isTiles = (name: string) => !name.startsWith("copies: ");
  const { variants, seconds } = overlapGpuEngine;
  const device = { kind: "gpu", name: "NVIDIA A100", computeCapability: [8, 0] };
  const shared = { ...device, computeCapability: [9, 0], isShared: true };
  for (const [a, b, d, kind] of PLACES) {
    const request = requestOf({ places: [a, b, d] });
    assert(variants!(request, runtime()).some(isTiles));
    // One row and one column: not every rank has a part.
    const few = requestOf({ places: [a, b, d], shape: [1, 1, K] });
    const refused = [[request, runtime({ device })], [request, runtime({ device: shared })]] as const;
    for (const [given, on] of kind === "all_reduce" ? refused : [...refused, [few, runtime()] as const]) {
      assertEquals(variants!(given, on).filter(isTiles), []);
      assertEquals(seconds!(given, on), Infinity);
    }
  }
});

/** A request for factors of 8 bits, and a D of bfloat16. */
function narrowRequest(given: Case, dtype: DType = "bfloat16"): EngineRequest {
  const request = requestOf(given);
  const { a, b, d } = request.problem;
  const [left, right] = ["float8_e5m2", "float8_e4m3"] as const;
  const problem = {
    ...request.problem,
    a: { ...a, dtype: left },
    b: { ...b, dtype: right },
    d: { ...d, dtype },
  };
  return { ...request, problem };
}

Deno.test("factors of 8 bits are multiplied where they lie with k in sequence, by tiles of few columns", () => {
  for (const [a, b, d] of PLACES) {
    const given: Case = { places: [a, b, d], orders: ["C", "F", "F"] };
    const { problemOf, variant, extents, partition: { kind } } = planned(narrowRequest(given));
    assertEquals([problemOf(0).dtype, problemOf(0).narrow], ["bfloat16", ["float8_e4m3", "float8_e5m2"]]);
    assert(variant.shape.columns <= 128);
    assertEquals(refuseTiles(narrowRequest(given, "float16"), runtime()), null);
    for (const m of [16, 256, 512, 2048, 8192]) {
      const names = variantsWorthMeasuring(kind, { ...extents, m }, true);
      assertEquals(names[0], usualVariant(kind, { ...extents, m }, true));
      assert(names.every((name) => variantNamed(name).variant.shape.columns <= 128), names.join());
    }
    const reasonOf = (request: EngineRequest) => refuseTiles(request, runtime())?.reason ?? "nothing";
    const otherwise = narrowRequest({ ...given, orders: ["F", "F", "F"] });
    assertStringIncludes(reasonOf(otherwise), "8-bit factors have to lie with k in sequence");
    assertStringIncludes(reasonOf(narrowRequest(given, "float32")), "not float8_e5m2, float8_e4m3, float32");
    const scaling = { a: "outer_vector", b: "outer_vector" } as const;
    assertStringIncludes(reasonOf({ ...narrowRequest(given), scaling }), "tile kernels take one scale a matrix");
  }
});

Deno.test("what the engine does not have on GPUs is refused with a reason, and who takes it", () => {
  const [a, b, d] = PLACES[0];
  const refuse = (
    message: string,
    given: Partial<Case> = {},
    change: object = {},
    more: Partial<EngineRequest> = {},
  ) => {
    const request = { ...requestOf({ places: [a, b, d], ...given }), ...more };
    const refusal = refuseTiles(request, runtime(change));
    assertStringIncludes(refusal?.reason ?? "nothing", message);
    assertEquals(refusal!.instead, "Leave engine out: cublasmp takes the product.");
  };
  const device = { kind: "gpu", name: "NVIDIA A100", computeCapability: [8, 0] };
  refuse("compute capability 9.0 (H100, H200), and NVIDIA A100 has 8.0", {}, { device });
  refuse("3 ranks are on several machines", {}, { localSize: 2 });
  refuse("one GPU has nothing to exchange", {}, { size: 1, localSize: 1 });
  refuse("or factors of 8 bits with a result of these, not float32, float32, float32", { dtype: "float32" });
  const after = (...[name, choices]: Parameters<typeof describeEpilog>) => ({ epilog: describeEpilog(name, choices) });
  refuse("sum no gradient of a bias (epilog bgrada)", {}, {}, after("bgrada", { auxDType: "bfloat16" }));
  refuse("look for no largest value", {}, {}, after("gelu_aux", { auxDType: "bfloat16", auxAmax: true }));
  refuse("gelu's aux matrix in D's type, not in float32", {}, {}, after("gelu_aux", { auxDType: "float32" }));
  refuse("tile kernels have no silu", {}, {}, after("silu_bias", { auxDType: "bfloat16" }));
  refuse("tile kernels have no gelu_erf", {}, {}, after("gelu_erf", { auxDType: "bfloat16" }));
  refuse("send partial sums in D's type, not in float32", {}, {}, { settings: { communicationType: "float32" } });
  refuse("not by computeType float32_fast_tf32", {}, {}, { settings: { computeType: "float32_fast_tf32" } });
  refuse("leave no multiprocessors to communication", {}, {}, { settings: { communicationSmCount: 8 } });
  const { problem } = requestOf({ places: [a, b, d] });
  const c = { ...problem.d, dtype: "float32" as const };
  refuse("tile kernels add a C of D's type, not of float32", {}, {}, { problem: { ...problem, c } });
  refuse("sum in float32, not in float64", {}, {}, { problem: { ...problem, accumulator: "float64" } });
  const cyclic = new BlockCyclic(new ProcessGrid({ shape: [1, SIZE] }), [2, 2]);
  refuse("these distributions would have to be changed", { places: [cyclic, b, d] });
  refuse("gather factors along m or n", { places: [Slab.X, Slab.X, Slab.X] }, {}, {
    algorithm: "all_gather_gemm",
  });
  refuse("these distributions would have to be changed", { places: [Replicated, Replicated, Replicated] });
  refuse("these distributions would have to be changed", { places: [Slab.Y, Replicated, Slab.X] });
  refuse("each rank needs a part of the rows, and 3 ranks share 2", { shape: [2, N, K] });
});

Deno.test("what travels is told in bytes of its own type, by copies as by tiles", () => {
  for (const [a, b, d, kind] of PLACES) {
    const request = requestOf({ places: [a, b, d] });
    const [tiles, copies] = [tileStrategy(request) as TileStrategy, copyStrategy(request) as CopyStrategy];
    const elements = kind === "gather" ? K * (d === Slab.Y ? M : N) : M * N;
    const wanted = (SIZE - 1) * elements * (kind === "all_reduce" ? 2 : 1);
    assertEquals(tiles.variant.isExchange ?? false, kind === "all_reduce");
    const exchanged = SIZE * (SIZE - 1) * elements;
    assertEquals(tileTraffic(tiles, request.problem), 2 * (kind === "all_reduce" ? exchanged : wanted), kind);
    // Partial sums of copies travel in the type that they are told in.
    const { sumType } = copies.problemOf(0);
    const bytes = kind === "gather" ? 2 : dtypeInfo(sumType).itemSize;
    assertEquals(copyTraffic(copies, request.problem), bytes * wanted, kind);
  }
});

Deno.test("of sums as many bytes are told as the lists of tiles have leave ranks, by every variant", () => {
  const shape = [300, 520, 24] as const;
  for (const [a, b, d, kind] of PLACES.slice(2)) {
    const names = [
      ...variantsWorthMeasuring(kind as "reduce", { m: 16, n: 520, k: 24, size: SIZE }),
      "wide, hybrid",
      "wide, pull",
    ];
    for (const variant of names) {
      const request = { ...requestOf({ places: [a, b, d], shape }), variant };
      const tiles = tileStrategy(request) as TileStrategy;
      const { columns, cluster } = tiles.variant.shape;
      let bytes = 0;
      for (let rank = 0; rank < SIZE; rank++) {
        const problem = tiles.problemOf(rank);
        const parts = partsOf(problem);
        const endOf = (name: "rows" | "columns", extent: number, part: number) =>
          kind === "reduce" && problem.split === name ? parts[part].end : extent;
        for (const { row, column, partA, partB, receivers, targets } of tileOrder(problem, tiles.variant, 4)) {
          const part = Math.max(partA, partB);
          const height = Math.min(row + TILE_ROWS * cluster, endOf("rows", problem.m, part)) - row;
          const width = Math.min(column + columns, endOf("columns", problem.n, part)) - column;
          const peers = [...receivers, ...targets].filter((peer) => peer !== rank);
          bytes += 2 * height * width * peers.length;
        }
      }
      assertEquals(tileTraffic(tiles, request.problem), bytes, `${kind}, ${variant}`);
    }
  }
});
