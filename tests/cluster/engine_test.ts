// The CPU engine on canonical problems: every element is a small integer given by a formula, so that each rank can
// compute what it should find by plain loops, exactly.
import { assert, assertEquals } from "@std/assert";
import { type DType, dtypeInfo, isNarrowFloat, type Scalar } from "../../src/dtype/dtype.ts";
import { decode, encode } from "../../src/dtype/narrow_floats.ts";
import { DistributedArray } from "../../src/array/distributed_array.ts";
import { LocalArray } from "../../src/array/local_array.ts";
import {
  BlockCyclic,
  BlockNonCyclic,
  Box,
  type Corners,
  type Distribution,
  ProcessGrid,
  Replicated,
  Slab,
} from "../../src/distribution/mod.ts";
import type { AlgorithmReport, EnginePlan } from "../../src/linalg/engines/engine.ts";
import { usePrivateCommunicator } from "../../src/linalg/engines/communicator_resources.ts";
import { planProduct, refusalOf } from "../../src/linalg/engines/choice.ts";
import { scalapackEngine } from "../../src/linalg/engines/scalapack/engine.ts";
import { describeEpilog, type EpilogName } from "../../src/linalg/matmul/epilog.ts";
import type { AlgorithmName } from "../../src/linalg/engines/registry.ts";
import type { MatmulProblem, Matrix } from "../../src/linalg/matmul/problem.ts";
import type { Operation } from "../../src/blas/transposition.ts";
import { Runtime } from "../../src/runtime/runtime.ts";
import { clusterTest } from "../../src/testing/mod.ts";
import {
  apply,
  assertMatrix,
  combine,
  type Complex,
  type Dense,
  dense,
  grids,
  held,
  product,
} from "./matmul_oracle.ts";
import { type GivenProduct, problemOf } from "../unit/linalg/given_product.ts";

type Formula = (row: number, column: number) => Complex;

/** Nothing, transpose, conjugate transpose, conjugate. */
type Code = "N" | "T" | "C" | "R";
const CODES: readonly Code[] = ["N", "T", "C", "R"];

const operation = (code: Code): Operation => ({
  transpose: code === "T" || code === "C",
  conjugate: code === "C" || code === "R",
});

const FORMULAS: Readonly<Record<"a" | "b" | "c", Formula>> = {
  a: (i, j) => [(i * 7 + j * 3) % 5 - 2, (i + j * 2) % 3 - 1],
  b: (i, j) => [(i * 5 + j * 11) % 7 - 3, (i * 2 + j) % 5 - 2],
  c: (i, j) => [(i * 3 + j * 5) % 11 - 5, (i + j) % 7 - 3],
};

const NO_EPILOG = describeEpilog("none", { auxDType: "float32" });

interface Case extends Omit<GivenProduct, "size" | "m" | "n" | "k"> {
  m?: number;
  n?: number;
  k?: number;
  operations?: readonly [Code, Code];
  /** C and D are the same memory. */
  inplace?: boolean;
  alpha?: Scalar;
  beta?: Scalar;
  /** Rows that are skipped between columns. */
  padding?: number;
  algorithm?: AlgorithmName;
  scales?: Partial<Record<"a" | "b" | "c" | "d", number>>;
}

/** A rank's part of a matrix with these elements, columns `padding` elements apart, with NaN between them. */
function localMatrix(runtime: Runtime, distribution: Distribution, dtype: DType, formula: Formula, padding: number) {
  const [rows, columns] = ([0, 1] as const).map((dimension) => held(distribution, runtime.rank, dimension));
  const { isComplex } = dtypeInfo(dtype);
  const padded = LocalArray.zeros(dtype, [rows.length + padding, columns.length], "F");
  padded.fill(isComplex ? [NaN, NaN] : NaN);
  const local = padded.slice([0, 0], [rows.length, columns.length]);
  local.set(rows.flatMap((row) => columns.flatMap((column) => formula(row, column).slice(0, isComplex ? 2 : 1))));
  return local;
}

function bind({ size }: Runtime, { operations = ["N", "N"], ...given }: Case): MatmulProblem {
  const [left, right] = operations.map(operation);
  return problemOf({
    size,
    m: 13,
    n: 11,
    k: 17,
    ...given,
    transposes: [left.transpose, right.transpose],
    conjugates: [left.conjugate, right.conjugate],
  });
}

/** What D should be. */
function expected(problem: MatmulProblem, { alpha = 1, beta = 0, scales = {} }: Case): Dense {
  const scaled = (factor: number, matrix: Dense) => combine(factor, matrix, 0, null);
  const operand = (name: "a" | "b" | "c", { rows, columns, dtype }: Matrix) => {
    const { isComplex } = dtypeInfo(dtype);
    const matrix = dense(rows, columns, (i, j) => isComplex ? FORMULAS[name](i, j) : [FORMULAS[name](i, j)[0], 0]);
    return scaled(scales[name] ?? 1, matrix);
  };
  const factor = (name: "a" | "b", { transpose, conjugate }: Operation) =>
    apply(operand(name, problem[name]), { isTranspose: transpose, isConjugate: conjugate });
  const ab = product(factor("a", problem.operationA), factor("b", problem.operationB));
  const sum = combine(complex(alpha), ab, complex(beta), problem.c && operand("c", problem.c));
  const { rows, columns, re, im } = scaled(scales.d ?? 1, sum);
  return { rows, columns, re: rounded(problem.d.dtype, re), im };
}

const complex = (value: Scalar): Complex => typeof value === "object" ? value : [Number(value), 0];

function rounded(dtype: DType, values: Float64Array): Float64Array {
  return isNarrowFloat(dtype) ? Float64Array.from(decode(dtype, encode(dtype, Float32Array.from(values)))) : values;
}

/** Multiply and compare every element, and the padding, on all ranks. */
function run(runtime: Runtime, given: Case): AlgorithmReport {
  const problem = bind(runtime, given);
  const request = { problem, epilog: NO_EPILOG, algorithm: given.algorithm ?? "default" } as const;
  assertEquals(refusalOf(scalapackEngine, runtime, request), null);
  using plan = planProduct(scalapackEngine, runtime, request);
  plan.open();
  return execute(runtime, plan, problem, given);
}

function execute(runtime: Runtime, plan: EnginePlan, problem: MatmulProblem, given: Case): AlgorithmReport {
  const { alpha = 1, beta = 0, scales = {}, padding = 0 } = given;
  const local = (name: "a" | "b" | "c" | "d", formula: Formula) =>
    localMatrix(runtime, problem[name]!.distribution, problem[name]!.dtype, formula, padding);
  const [a, b, c] = [local("a", FORMULAS.a), local("b", FORMULAS.b), problem.c && local("c", FORMULAS.c)];
  const d = given.inplace ? c! : local("d", () => [NaN, NaN]);
  plan.prepare({ a, b, c, d }, { alpha, beta, epilog: {}, scales })();
  const { report } = plan;
  const what = JSON.stringify({ ...given, a: `${given.a}`, b: `${given.b}`, c: `${given.c}`, d: `${given.d}`, report });
  const distributed = DistributedArray.wrap(runtime, d, problem.d.distribution, "F");
  assertMatrix(distributed, expected(problem, given), what);
  const [rows, columns] = d.shape;
  const whole = new LocalArray({ data: d.data, dtype: d.dtype, shape: [rows + padding, columns], strides: d.strides });
  const gaps = whole.slice([rows, 0], [padding, columns]);
  assert(gaps.toNumbers().every(Number.isNaN), `padding was overwritten: ${what}`);
  return report;
}

/** Numbers that look random and are the same on all ranks. */
function numberSource(seed: number): (below: number) => number {
  let state = seed * 2654435761 >>> 0;
  return (below) => {
    state = Math.imul(state ^ state >>> 15, 0x2c1b3c6d) + 0x9e3779b9 >>> 0;
    state = Math.imul(state ^ state >>> 12, 0x297a2d39) >>> 0;
    return (state >>> 8) % below;
  };
}

/** Boxes of uneven slabs along a dimension. */
function unevenBoxes(random: (below: number) => number, shape: readonly [number, number], size: number): Box {
  const dimension = random(2);
  const extent = shape[dimension];
  const cuts = Array.from({ length: size - 1 }, () => random(extent + 1)).sort((x, y) => x - y);
  const boxes = [0, ...cuts].map((start, rank): Corners => {
    const end = cuts[rank] ?? extent;
    return dimension === 0 ? [[start, 0], [end, shape[1]]] : [[0, start], [shape[0], end]];
  });
  return new Box(boxes);
}

function anyDistribution(random: (below: number) => number, shape: readonly [number, number], size: number) {
  const all = grids(size);
  const grid = all[random(all.length)];
  const firstProcess = grid.shape.map((extent) => random(extent));
  switch (random(8)) {
    case 0:
      return Slab.X;
    case 1:
      return Slab.Y;
    case 2:
      return Replicated;
    case 3:
      return new BlockNonCyclic(grid, { firstProcess });
    case 4: {
      const processes = Array.from({ length: size }, (_, rank) => size - 1 - rank);
      return new BlockCyclic(new ProcessGrid({ shape: grid.shape, processes }), [1 + random(4), 1 + random(4)]);
    }
    case 5:
      return unevenBoxes(random, shape, size);
    default:
      return new BlockCyclic(grid, [1 + random(6), 1 + random(6)], { firstProcess });
  }
}

/** Any distributions, sizes, operations and scalars. */
function anyCase(seed: number, size: number, dtype: DType): Case {
  const random = numberSource(seed);
  const [m, n, k] = [1 + random(20), 1 + random(20), 1 + random(20)];
  const operations = [CODES[random(4)], CODES[random(4)]] as const;
  const flip = (code: Code, rows: number, columns: number): [number, number] =>
    operation(code).transpose ? [columns, rows] : [rows, columns];
  const c = random(2) === 0 ? anyDistribution(random, [m, n], size) : undefined;
  const d = c && random(2) === 0 ? c : anyDistribution(random, [m, n], size);
  return {
    m,
    n,
    k,
    operations,
    dtype,
    a: anyDistribution(random, flip(operations[0], m, k), size),
    b: anyDistribution(random, flip(operations[1], k, n), size),
    d,
    ...c && { c, beta: random(3), inplace: c === d && random(2) === 0 },
    alpha: dtypeInfo(dtype).isComplex ? [random(3), random(3) - 1] : random(4) - 1,
    padding: random(3),
  };
}

clusterTest("scalapackEngine runs every operation on one grid", (runtime) => {
  for (const grid of grids(runtime.size)) {
    const blocks = new BlockCyclic(grid, [1, 2]);
    for (const left of CODES) {
      for (const right of CODES) {
        const given = { a: blocks, b: blocks, c: blocks, d: blocks, operations: [left, right] as const };
        for (const dtype of ["float64", "complex128"] as const) {
          const report = run(runtime, { ...given, dtype, alpha: 2, beta: 3 });
          assertEquals(report.algorithm, runtime.size === 1 ? "local_gemm" : "pgemm");
          assertEquals(report.bytesMoved, 0);
        }
      }
    }
  }
});

clusterTest("scalapackEngine takes complex alpha and beta", (runtime) => {
  const [grid] = grids(runtime.size);
  const blocks = new BlockCyclic(grid, [2, 5]);
  for (const dtype of ["complex64", "complex128"] as const) {
    for (const d of [blocks, Slab.X, Slab.Y, Replicated]) {
      run(runtime, { dtype, a: d, b: d, c: d, d, alpha: [2, -1], beta: [1, 3], operations: ["C", "R"] });
    }
  }
});

clusterTest("scalapackEngine takes unequal blocks and any first process on one grid", (runtime) => {
  for (const grid of grids(runtime.size)) {
    const firstProcess = grid.shape.map((extent) => extent - 1);
    const report = run(runtime, {
      m: 29,
      n: 31,
      k: 37,
      a: new BlockCyclic(grid, [7, 5], { firstProcess }),
      b: new BlockCyclic(grid, [6, 9]),
      c: new BlockCyclic(grid, [8, 4], { firstProcess: [firstProcess[0], 0] }),
      d: new BlockCyclic(grid, [8, 4], { firstProcess: [firstProcess[0], 0] }),
      beta: 2,
      padding: 3,
    });
    assertEquals(report.copies, []);
  }
});

/** Which slabs cuBLASMp multiplies by all-gather and by reduce-scatter; D is X in the first, Y in the second. */
const SLAB_TABLE = [
  { operations: ["T", "N"], gather: ["Y", "Y"], scatter: ["X", "X"] },
  { operations: ["N", "N"], gather: ["X", "Y"], scatter: ["Y", "X"] },
  { operations: ["N", "T"], gather: ["X", "X"], scatter: ["Y", "Y"] },
  { operations: ["T", "T"], gather: ["Y", "X"], scatter: ["X", "Y"] },
] as const;

clusterTest("scalapackEngine multiplies slabs without moving them", { ranks: [2, 3, 4] }, (runtime) => {
  for (const { operations, gather, scatter } of SLAB_TABLE) {
    for (const [m, n, k] of [[12, 24, 36], [13, 11, 17], [2, 3, 1], [1, 40, 3]]) {
      const common = { m, n, k, operations, beta: 2, padding: 1 };
      const gathered = run(runtime, { ...common, a: Slab[gather[0]], b: Slab[gather[1]], c: Slab.X, d: Slab.X });
      assertEquals(gathered.copies, []);
      const isEven = m % runtime.size === 0;
      if (isEven) assertEquals(gathered.algorithm, "all_gather_gemm");
      const scattered = run(runtime, { ...common, a: Slab[scatter[0]], b: Slab[scatter[1]], c: Slab.Y, d: Slab.Y });
      if (isEven) assertEquals(scattered.algorithm, "gemm_reduce_scatter");
      assertEquals(scattered.copies, []);
    }
  }
});

clusterTest("scalapackEngine sums on every rank", { ranks: [2, 3, 4] }, (runtime) => {
  for (const padding of [0, 2]) {
    const report = run(runtime, { a: Slab.Y, b: Slab.X, c: Replicated, d: Replicated, alpha: 2, beta: 3, padding });
    assertEquals(report.algorithm, "gemm_all_reduce");
    assertEquals(report.copies, []);
  }
});

clusterTest("scalapackEngine needs no communication for replicated factors", (runtime) => {
  for (
    const [a, b, d] of [[Replicated, Slab.Y, Slab.Y], [Slab.X, Replicated, Slab.X], [Replicated, Replicated, Slab.Y]]
  ) {
    const report = run(runtime, { a, b, d, padding: 1 });
    assertEquals(report.algorithm, "local_gemm");
    assertEquals(report.bytesMoved, 0);
    assertEquals(report.copies, []);
  }
});

clusterTest("scalapackEngine runs the worked example as an all-gather, A and D where they are", (runtime) => {
  const [m, n, k] = [128, 512, 1024];
  const slabs = { a: Slab.Y, b: Slab.Y, c: Slab.X, d: Slab.X };
  const stored = { transposes: [true, false], orders: ["C", "C", "C"], dtype: "float32" } as const;
  const problem = problemOf({ size: runtime.size, m, n, k, ...slabs, ...stored });
  const local = (name: "a" | "b" | "c", formula: Formula) =>
    localMatrix(runtime, problem[name]!.distribution, "float32", formula, 0);
  // The canonical A is the user's B, seen transposed, and so on.
  const flipped = (formula: Formula): Formula => (i, j) => formula(j, i);
  const operands = {
    a: local("a", flipped(FORMULAS.b)),
    b: local("b", flipped(FORMULAS.a)),
    c: local("c", flipped(FORMULAS.c)),
    d: localMatrix(runtime, problem.d.distribution, "float32", () => [NaN, 0], 0),
  };
  using plan = scalapackEngine.plan(runtime, { problem, epilog: NO_EPILOG, algorithm: "default" });
  plan.open();
  plan.prepare(operands, { alpha: 2, beta: 3, epilog: {}, scales: {} })();
  const { algorithm, copies, bytesMoved, variant } = plan.report;
  assertEquals(algorithm, runtime.size === 1 ? "local_gemm" : "all_gather_gemm");
  assertEquals(copies, []);
  assertEquals(bytesMoved, (runtime.size - 1) * k * n * 4);
  if (runtime.size > 1) assert(variant.startsWith("A divided along m, D divided along m; the blocks of B"), variant);
  const [columns, rows] = operands.d.shape;
  for (let i = 0; i < rows; i += 7) {
    for (let j = 0; j < columns; j += 5) {
      const [column, row] = problem.d.distribution.toGlobal(runtime.rank, [j, i]);
      let sum = 0;
      for (let l = 0; l < k; l++) sum += FORMULAS.a(l, row)[0] * FORMULAS.b(l, column)[0];
      assertEquals(operands.d.data[j + i * columns], 2 * sum + 3 * FORMULAS.c(row, column)[0]);
    }
  }
});

for (const dtype of ["float64", "float32", "complex128", "complex64"] as const) {
  clusterTest(`scalapackEngine multiplies ${dtype} matrices of any distributions`, (runtime) => {
    for (let seed = 0; seed < 80; seed++) run(runtime, anyCase(seed + dtype.length * 1000, runtime.size, dtype));
  });
}

for (const algorithm of ["pgemm", "all_gather_gemm", "gemm_reduce_scatter", "gemm_all_reduce"] as const) {
  clusterTest(`scalapackEngine runs ${algorithm} when asked to`, { ranks: [2, 3, 4] }, (runtime) => {
    let runs = 0;
    for (let seed = 0; seed < 40; seed++) {
      const given = anyCase(seed + 77, runtime.size, "float64");
      const problem = bind(runtime, given);
      if (refusalOf(scalapackEngine, runtime, { problem, epilog: NO_EPILOG, algorithm })) {
        // Only these depend on whether something is replicated.
        assert(algorithm !== "pgemm", "pgemm is always possible");
        continue;
      }
      assertEquals(run(runtime, { ...given, algorithm }).algorithm, algorithm);
      runs++;
    }
    assert(runs > 0);
  });
}

clusterTest("scalapackEngine takes a grid of fewer processes than ranks", { ranks: [2, 3, 4] }, (runtime) => {
  const blocks = new BlockCyclic(new ProcessGrid({ shape: [1, runtime.size - 1] }), [4, 3]);
  assertEquals(run(runtime, { a: blocks, b: blocks, d: blocks, algorithm: "pgemm" }).copies, []);
  run(runtime, { a: blocks, b: Slab.X, c: blocks, d: blocks, beta: 1 });
});

clusterTest("scalapackEngine multiplies empty matrices", (runtime) => {
  const [grid] = grids(runtime.size);
  for (const distribution of [Slab.X, Slab.Y, new BlockCyclic(grid, [2, 2]), Replicated]) {
    for (const [m, n, k] of [[0, 5, 4], [5, 0, 4], [5, 4, 0], [0, 0, 0]]) {
      const given = { m, n, k, a: distribution, b: distribution, c: distribution, d: distribution };
      run(runtime, { ...given, beta: 2 });
      run(runtime, { ...given, beta: 0 });
      run(runtime, { ...given, c: Slab.X, beta: 2 });
    }
  }
});

clusterTest("scalapackEngine leaves A and B out when alpha is 0", (runtime) => {
  const [grid] = grids(runtime.size);
  for (const distribution of [Slab.X, Slab.Y, new BlockCyclic(grid, [2, 2])]) {
    const given = { a: distribution, b: distribution, c: distribution, d: distribution, alpha: 0 };
    run(runtime, { ...given, beta: 3 });
    run(runtime, { ...given, beta: 0 });
  }
});

clusterTest("a plan is executed again with other operands and scalars", (runtime) => {
  const [grid] = grids(runtime.size);
  const blocks = new BlockCyclic(grid, [3, 2]);
  for (const distribution of [blocks, Slab.X, Slab.Y]) {
    const given: Case = { a: distribution, b: distribution, c: distribution, d: distribution };
    const problem = bind(runtime, given);
    using plan = scalapackEngine.plan(runtime, { problem, epilog: NO_EPILOG, algorithm: "default" });
    plan.open();
    for (const [alpha, beta, padding] of [[1, 0, 0], [2, 3, 1], [-1, 0, 4], [3, 1, 0]]) {
      execute(runtime, plan, problem, { ...given, alpha, beta, padding });
    }
  }
});

clusterTest("scalapackEngine widens narrow floats and rounds once", (runtime) => {
  const [grid] = grids(runtime.size);
  const layouts = [Slab.X, Slab.Y, new BlockCyclic(grid, [3, 4]), Replicated];
  for (const dtype of ["float16", "bfloat16"] as const) {
    for (const resultType of [dtype, "float32"] as const) {
      for (const distribution of layouts) {
        for (const padding of [0, 3]) {
          const report = run(runtime, {
            dtype,
            resultType,
            a: distribution,
            b: Slab.X,
            c: distribution,
            d: distribution,
            alpha: 0.5,
            beta: 0.25,
            padding,
          });
          assert(report.copies.some((copy) => copy.includes(`widened from ${dtype} to float32`)), `${report.copies}`);
          assertEquals(report.copies.some((copy) => copy.includes("rounded")), resultType !== "float32");
        }
      }
    }
  }
});

clusterTest("scalapackEngine scales 8-bit floats", (runtime) => {
  for (const distribution of [Slab.X, Slab.Y, Replicated]) {
    for (const resultType of ["float8_e4m3", "float16", "float32"] as const) {
      run(runtime, {
        dtype: "float8_e4m3",
        resultType,
        addendType: resultType === "float8_e4m3" ? "float16" : resultType,
        a: distribution,
        b: distribution,
        c: distribution,
        d: distribution,
        k: 5,
        beta: 0.5,
        scales: { a: 0.5, b: 2, ...resultType === "float8_e4m3" && { d: 0.25 } },
      });
    }
  }
});

clusterTest("float16 overflows to infinity, float8 saturates", (runtime) => {
  for (const [dtype, largest] of [["float16", Infinity], ["float8_e4m3", 448], ["float8_e5m2", 57344]] as const) {
    const given: Case = { dtype, a: Slab.X, b: Slab.X, d: Slab.X };
    const problem = bind(runtime, given);
    using plan = scalapackEngine.plan(runtime, { problem, epilog: NO_EPILOG, algorithm: "default" });
    plan.open();
    const [a, b, d] = (["a", "b", "d"] as const).map((name) =>
      localMatrix(runtime, problem[name].distribution, dtype, () => [256, 0], 0)
    );
    plan.prepare({ a, b, c: null, d }, { alpha: 1, beta: 0, epilog: {}, scales: {} })();
    for (const value of decode(dtype, d.data)) assertEquals(value, largest);
  }
});

clusterTest("the engine's messages do not meet the script's", { ranks: [2, 3, 4] }, (runtime) => {
  const { communicator, rank, size } = runtime;
  const into = new Float64Array(1000);
  const request = communicator.ireceive(into, "any");
  const report = run(runtime, { a: Slab.X, b: Slab.X, d: Slab.X, m: 4 * size, n: 4 * size, k: 4 * size });
  assertEquals(report.algorithm, "all_gather_gemm");
  assert(!request.isComplete);
  communicator.send(Float64Array.of(rank), (rank + 1) % size);
  assertEquals(request.wait().count, 1);
  assertEquals(into[0], (rank + size - 1) % size);
});

clusterTest("grids are freed together when the last plan that uses them is disposed", (runtime) => {
  const [grid] = grids(runtime.size);
  const blocks = new BlockCyclic(grid, [2, 3]);
  const given = { a: blocks, b: blocks, d: blocks };
  for (let round = 0; round < 5; round++) {
    run(runtime, given);
    run(runtime, given);
    runtime.collect();
  }
});

clusterTest("plans share a communicator of their own, and free it together", { ranks: [2, 3, 4] }, (runtime) => {
  const { communicator } = runtime;
  runtime.collect();
  const one = usePrivateCommunicator(communicator);
  const other = usePrivateCommunicator(communicator);
  const copy = one.value;
  assertEquals(copy === other.value && copy !== communicator, true);
  one[Symbol.dispose]();
  one[Symbol.dispose]();
  runtime.collect();
  assertEquals(copy.isFreed, false);
  other[Symbol.dispose]();
  usePrivateCommunicator(communicator)[Symbol.dispose]();
  assertEquals(copy.isFreed, false, "used again before it was freed");
  runtime.collect();
  assertEquals(copy.isFreed, true);
  const slabs = { a: Slab.X, b: Slab.X, d: Slab.X };
  for (let round = 0; round < 3; round++) {
    run(runtime, slabs);
    runtime.collect();
  }
});

clusterTest("scalapackEngine multiplies on halves of the ranks at once", { ranks: [2, 4] }, (runtime) => {
  const { rank, size, communicator } = runtime;
  using half = communicator.split(rank % 2, size - rank)!;
  const own = new Runtime({ ...runtime, communicator: half });
  const [grid] = grids(half.size);
  const blocks = new BlockCyclic(grid, [2, 3]);
  for (const distribution of [blocks, Slab.X, Slab.Y]) {
    run(own, { m: 10 + rank % 2, a: distribution, b: distribution, c: distribution, d: distribution, beta: 2 });
  }
  // The grids wait for both halves; they are freed with the communicator's other users.
  runtime.collect();
});

clusterTest("scalapackEngine refuses what it cannot do, with advice", (runtime) => {
  const problem = bind(runtime, { a: Slab.X, b: Slab.X, d: Slab.X });
  const refusal = (
    changes: Partial<MatmulProblem>,
    algorithm: AlgorithmName = "default",
    name: EpilogName | "none" = "none",
  ) =>
    refusalOf(scalapackEngine, runtime, {
      problem: { ...problem, ...changes },
      epilog: describeEpilog(name, { auxDType: "float32" }),
      algorithm,
    });
  assertEquals(refusal({}), null);
  assert(refusal({ a: { ...problem.a, dtype: "int32" } })!.reason.includes("integers (int32)"));
  assert(refusal({ a: { ...problem.a, dtype: "float32" } })!.reason.includes("float32 cannot be summed in float64"));
  assert(refusal({ m: 2 ** 31 })!.reason.includes("32 bits"));
  assert(refusal({}, "split_p2p")!.instead.includes("pgemm"));
  const complex = bind(runtime, { a: Slab.X, b: Slab.X, d: Slab.X, dtype: "complex64" });
  assert(refusal(complex, "default", "relu")!.reason.includes("real numbers"));
  const needs: Partial<Record<AlgorithmName, string>> = {
    ...runtime.size > 1 && { local_gemm: "one rank, or a factor that is Replicated" },
    gemm_all_reduce: "a D that is Replicated",
  };
  for (const [algorithm, need] of Object.entries(needs) as [AlgorithmName, string][]) {
    assert(refusal({}, algorithm)!.reason.includes(`${algorithm} cannot run this product: it needs ${need}`));
  }
  const replicated = bind(runtime, { a: Replicated, b: Replicated, d: Replicated });
  assert(refusal(replicated, "all_gather_gemm")!.reason.includes("a factor that is not Replicated"));
  assert(refusal(replicated, "gemm_reduce_scatter")!.reason.includes("a D that is not Replicated"));
  // Where there is nothing to multiply, no algorithm needs anything.
  assertEquals([refusal({ k: 0 }, "pgemm"), refusal({ k: 0 }, "gemm_all_reduce")], [null, null]);
  assert(refusal({ k: 0 }, "split_p2p")!.reason.includes("no algorithm split_p2p on CPUs"));
});
