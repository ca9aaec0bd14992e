/** The overlap engine in host memory: every stage schedule on real ranks, and products that ask for it, on small integers. */
import { assert, assertEquals, assertStringIncludes, fail } from "@std/assert";
import { openScalapack } from "../../ffi/blas/scalapack.ts";
import {
  BlockCyclic,
  ConfigurationError,
  DistributedArray,
  type Distribution,
  LocalArray,
  Matmul,
  matmul,
  type MatmulOptions,
  ProcessGrid,
  Replicated,
  type Runtime,
  Slab,
} from "../../mod.ts";
import { scalar } from "../../src/blas/arguments.ts";
import { allocateSymmetric, freeSymmetric } from "../../src/memory/symmetric_memory.ts";
import { HostExecutor, windowBytes } from "../../src/overlap/executors/host/executor.ts";
import { sharedBytes, Windows } from "../../src/overlap/executors/host/windows.ts";
import {
  type Axis,
  type Box,
  evenParts,
  lengthOf,
  MATRIX_AXES,
  type MatrixName,
  owned,
  type Partition,
  partitionOf,
} from "../../src/overlap/partition.ts";
import { GATHER_WAYS, REDUCE_WAYS, scheduleOf, type Variant } from "../../src/overlap/schedule.ts";
import type { OverlapAlgorithm } from "../../src/linalg/engines/overlap/host_strategy.ts";
import { assertThrowsEverywhere, clusterTest } from "../../src/testing/mod.ts";
import {
  assertMatrix,
  combine,
  type Complex,
  Cycle,
  type Dense,
  distribute,
  integers,
  isSampled,
  product,
} from "./matmul_oracle.ts";
import { fixedAxisOf, TRAVELLERS } from "../unit/overlap/travellers.ts";

const isOnCpu = ({ device }: Runtime) => device.kind === "cpu";

// ---- schedules

const EXTENTS = { m: 11, n: 9, k: 7 };
const FLAGS = 48;
const WINDOW_BYTES = 2 ** 14;
const MOST_BYTES = EXTENTS.m * EXTENTS.n * 8;

/** Small integers of a call. */
function element(matrix: MatrixName, call: number, row: number, column: number): number {
  const seed = { a: 1, b: 2, d: 3 }[matrix] + 5 * call;
  return (3 * row + 5 * column + seed * (row ^ column) + call) % 5 - 2;
}

/** What D should be: 2 A B + 3 D. */
function wanted(call: number, row: number, column: number, hasAddend: boolean): number {
  let sum = 0;
  for (let i = 0; i < EXTENTS.k; i++) sum += element("a", call, row, i) * element("b", call, i, column);
  return 2 * sum + (hasAddend ? 3 * element("d", call, row, column) : 0);
}

const indicesOf = (box: Box, [rows, columns]: readonly [Axis, Axis], visit: (row: number, column: number) => void) => {
  for (let row = box[rows].start; row < box[rows].end; row++) {
    for (let column = box[columns].start; column < box[columns].end; column++) visit(row, column);
  }
};

/** A rank's part of a matrix, column by column, perhaps transposed. */
function local(partition: Partition, matrix: MatrixName, rank: number, isTransposed: boolean, memory: ArrayBuffer) {
  const box = owned(partition, matrix, rank);
  const shape = MATRIX_AXES[matrix].map((axis) => lengthOf(box[axis]));
  if (isTransposed) shape.reverse();
  const data = new Float64Array(memory, 0, shape[0] * shape[1]);
  const array = new LocalArray({ data, dtype: "float64", shape, strides: [1, Math.max(1, shape[0])] });
  const [rows, columns] = MATRIX_AXES[matrix];
  const at = (row: number, column: number) => {
    const [i, j] = [row - box[rows].start, column - box[columns].start];
    return isTransposed ? j + i * shape[0] : i + j * shape[0];
  };
  const fill = (call: number) =>
    indicesOf(box, [rows, columns], (row, column) => data[at(row, column)] = element(matrix, call, row, column));
  return { array, box, at, data, fill };
}

/** Uneven parts, one of them empty, in no order of the ranks. */
function unevenParts(extent: number, size: number) {
  if (size === 1) return evenParts(extent, 1);
  const parts = [{ start: 0, end: 0 }, ...evenParts(extent - 1, size - 1)];
  return [...parts.slice(0, -1), { ...parts.at(-1)!, end: extent }].reverse();
}

function partitions(size: number): Partition[] {
  return TRAVELLERS.flatMap(([kind, travels, axis]) => {
    const common = { kind, travels, axis, extents: EXTENTS, size };
    const parts = unevenParts(EXTENTS[axis], size);
    return [
      partitionOf(common),
      partitionOf({ ...common, parts, fixedParts: unevenParts(EXTENTS[fixedAxisOf(travels)], size) }),
    ];
  });
}

clusterTest(
  "every stage schedule, whatever the parts, transposed or not, again and again on the same windows",
  (runtime) => {
    if (!isOnCpu(runtime)) return;
    const { rank, size } = runtime;
    const symmetric = (bytes: number) =>
      allocateSymmetric(runtime, () => ({ bytes, backend: "mpi", makeSymmetric: false, facts: {}, offer: null }))
        .buffer;
    const shared = symmetric(sharedBytes(FLAGS, WINDOW_BYTES));
    const factor = symmetric(MOST_BYTES);
    const windows = new Windows(shared, { rank, size, flags: FLAGS, windowBytes: WINDOW_BYTES });
    const { blas } = openScalapack(runtime.threads);
    const [alpha, beta] = [scalar("float64", 2), scalar("float64", 3)];
    const zero = scalar("float64", 0);
    const cycle = new Cycle();
    let call = 0;
    for (const partition of partitions(size)) {
      for (const way of partition.kind === "gather" ? GATHER_WAYS : REDUCE_WAYS) {
        for (const pieces of [1, 3, [5, 5, 4]]) {
          if (!isSampled(runtime, cycle.next())) continue;
          const [transposeA, transposeB] = [cycle.pick([false, true]), cycle.pick([false, true])];
          const variant: Variant = { way, pieces, hasAddend: cycle.pick([true, false]) };
          const schedule = scheduleOf(partition, rank, variant);
          assert(schedule.flags <= FLAGS && windowBytes(schedule, "float64") <= WINDOW_BYTES);
          const executor = new HostExecutor(schedule, {
            dtype: "float64",
            operationA: { transpose: transposeA, conjugate: false },
            operationB: { transpose: transposeB, conjugate: false },
            gemm: blas.gemm,
          });
          const isTransposed = { a: transposeA, b: transposeB, d: false };
          const make = (matrix: MatrixName) => {
            const memory = matrix === partition.travels && matrix !== "d" ? factor.host! : new ArrayBuffer(MOST_BYTES);
            return local(partition, matrix, rank, isTransposed[matrix], memory);
          };
          const [a, b, d] = [make("a"), make("b"), make("d")];
          const isGather = partition.kind === "gather";
          const factors = isGather
            ? Array.from(
              { length: size },
              (_, peer) =>
                local(partition, partition.travels, peer, isTransposed[partition.travels], factor.peerHost(peer)).array,
            )
            : undefined;
          for (let run = 0; run < 3; run++) {
            call++;
            for (const matrix of [a, b, d]) {
              matrix.fill(call);
            }
            const operands = { a: a.array, b: b.array, d: d.array, ...factors && { factors } };
            executor.run(operands, alpha.address, variant.hasAddend ? beta.address : zero.address, windows);
            indicesOf(d.box, MATRIX_AXES.d, (row, column) => {
              const [given, right] = [d.data[d.at(row, column)], wanted(call, row, column, variant.hasAddend!)];
              if (given === right) return;
              const { kind, travels, axis } = partition;
              fail(
                `${kind} ${travels} ${axis} ${schedule.variant}, run ${run}: ${row}, ${column} is ${given}, not ${right}`,
              );
            });
          }
        }
      }
    }
    freeSymmetric(runtime, () => [shared, factor]);
  },
);

// ---- the engine

const [M, N, K] = [13, 10, 11];
const [A, B, C] = [integers(M, K, 1), integers(K, N, 2), integers(M, N, 3)];
const AB = product(A, B);

/** Places of A, B and D, and what the engine does there. */
const PLACES: readonly (readonly [Distribution, Distribution, Distribution, OverlapAlgorithm])[] = [
  [Slab.X, Slab.Y, Slab.X, "all_gather_gemm"],
  [Slab.X, Slab.Y, Slab.Y, "all_gather_gemm"],
  [Slab.X, Slab.X, Slab.X, "all_gather_gemm"],
  [Slab.Y, Slab.X, Slab.X, "gemm_reduce_scatter"],
  [Slab.Y, Slab.X, Slab.Y, "gemm_reduce_scatter"],
  [Slab.Y, Slab.X, Replicated, "gemm_all_reduce"],
];

clusterTest(
  "engine overlap multiplies where it is asked to: orders, types, C, in place, again and again",
  (runtime) => {
    if (!isOnCpu(runtime)) return;
    const cycle = new Cycle();
    for (const [atA, atB, atD, algorithm] of PLACES) {
      for (const beta of [0, 1, -2]) {
        for (const order of ["C", "F"] as const) {
          cycle.next();
          const dtype = cycle.pick(["float64", "float32", "bfloat16"] as const);
          const inplace = beta !== 0 && cycle.pick([true, false]);
          const place = (matrix: Dense, distribution: Distribution, order: "C" | "F") =>
            distribute(runtime, matrix, { distribution, dtype, order });
          const [a, b] = [
            place(A, atA, cycle.pick(["C", "F"] as const)),
            place(B, atB, cycle.pick(["F", "C"] as const)),
          ];
          const c = beta === 0 ? null : place(C, atD, order);
          const options: MatmulOptions = {
            engine: "overlap",
            algorithm,
            ...c ? { c, beta, inplace } : { distribution: atD, order },
          };
          using object = new Matmul(a, b, options);
          object.plan();
          const what = `${algorithm} ${dtype} beta ${beta} ${order} ${inplace}`;
          assertEquals([object.algorithm.engine, object.algorithm.algorithm], ["overlap", algorithm], what);
          const once = combine(1, AB, beta, C);
          // What 8 bits hold.
          const runs = dtype === "bfloat16" ? 1 : 3;
          for (let run = 0; run < runs; run++) {
            const d = object.execute();
            assertMatrix(d, inplace && run > 0 ? onto(once, beta, run) : once, `${what}, run ${run}`);
          }
        }
      }
    }
  },
);

/** A B added so often. */
function onto(first: Dense, beta: number, runs: number): Dense {
  return runs === 0 ? first : onto(combine(1, AB, beta, first), beta, runs - 1);
}

clusterTest("several plans take turns on the same windows, and windows of several sizes", (runtime) => {
  if (!isOnCpu(runtime)) return;
  const large = 120;
  const [left, right] = [integers(large, large, 4), integers(large, large, 5)];
  const sum = product(left, right);
  const objects = PLACES.map(([atA, atB, atD]) => {
    const place = (matrix: Dense, distribution: Distribution) => distribute(runtime, matrix, { distribution });
    return [
      new Matmul(place(A, atA), place(B, atB), { engine: "overlap", distribution: atD }),
      new Matmul(place(left, atA), place(right, atB), { engine: "overlap", distribution: atD }),
    ] as const;
  });
  for (const pair of objects) for (const object of pair) object.plan();
  for (let run = 0; run < 3; run++) {
    for (const [small, other] of objects) {
      assertMatrix(small.execute(), AB, "small");
      if (run === 1) assertMatrix(other.execute(), sum, "large");
    }
  }
  for (const pair of objects) for (const object of pair) object.free();
});

clusterTest("complex numbers, conjugates, epilogs and narrow types on engine overlap", (runtime) => {
  if (!isOnCpu(runtime)) return;
  const isComplex = true;
  const [a, b] = [integers(K, M, 1, isComplex), integers(K, N, 2, isComplex)];
  const conjugate = ({ rows, columns, re, im }: Dense): Dense => {
    const flipped = integers(columns, rows, 0);
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < columns; j++) {
        flipped.re[j * rows + i] = re[i * columns + j];
        flipped.im[j * rows + i] = -im[i * columns + j];
      }
    }
    return flipped;
  };
  const place = (matrix: Dense, distribution: Distribution, dtype: "complex128" | "bfloat16") =>
    distribute(runtime, matrix, { distribution, dtype });
  const qualifiers = { a: { isTranspose: true, isConjugate: true } };
  const alpha: Complex = [1, 2];
  const d = matmul(place(a, Slab.X, "complex128"), place(b, Slab.X, "complex128"), {
    engine: "overlap",
    alpha,
    qualifiers,
    distribution: Slab.X,
  });
  assertMatrix(d, combine(alpha, product(conjugate(a), b), 0, null), "conjugate transposed");

  const narrow = matmul(place(A, Slab.Y, "bfloat16"), place(B, Slab.X, "bfloat16"), {
    engine: "overlap",
    distribution: Slab.X,
    epilog: "relu",
  });
  const relu = combine(1, AB, 0, null);
  relu.re.forEach((value, i) => relu.re[i] = Math.max(0, value));
  assertMatrix(narrow, relu, "relu of bfloat16");
});

clusterTest("what engine overlap does not have is refused with a reason; auto takes the product", (runtime) => {
  if (!isOnCpu(runtime)) return;
  const place = (matrix: Dense, distribution: Distribution) => distribute(runtime, matrix, { distribution });
  const [a, b] = [place(A, Slab.X), place(B, Slab.X)];
  assertThrowsEverywhere(
    runtime,
    () => new Matmul(a, b, { engine: "overlap", algorithm: "pgemm" }),
    ConfigurationError,
    "engine overlap: there is no algorithm pgemm on CPUs. Use default, or one of all_gather_gemm, gemm_reduce_scatter, " +
      "gemm_all_reduce.",
  );
  assertThrowsEverywhere(
    runtime,
    () => new Matmul(a, b, { engine: "overlap", algorithm: "gemm_all_reduce", distribution: Slab.X }),
    ConfigurationError,
    "engine overlap: it has no gemm_all_reduce for these distributions. Leave engine out: others take any.",
  );
  using object = new Matmul(a, b, {
    distribution: new BlockCyclic(new ProcessGrid({ shape: [1, runtime.size] }), [2, 2]),
  });
  object.plan();
  assertEquals(object.algorithm.engine, "scalapack");
  // Even where it would move fewer bytes: there may be too little memory for windows.
  const [flat, tall] = [integers(4, 400, 1), integers(400, 4, 2)].map((matrix) => place(matrix, Slab.X));
  using long = new Matmul(flat, tall, { distribution: Slab.X });
  long.plan();
  assertEquals(long.algorithm.engine, "scalapack");
});

clusterTest("autotune measures engine overlap beside the others", (runtime) => {
  if (!isOnCpu(runtime)) return;
  const place = (matrix: Dense, distribution: Distribution) => distribute(runtime, matrix, { distribution });
  using object = new Matmul(place(A, Slab.Y), place(B, Slab.X), { distribution: Slab.X });
  object.plan();
  const engines = object.autotune({ repetitions: 1 }).map(({ engine }) => engine);
  assert(engines.includes("overlap") && engines.includes("scalapack"), engines.join());
  assertMatrix(object.execute(), AB, "after autotune");
});

clusterTest("a timeline tells what each rank did when, and other engines have none", (runtime) => {
  if (!isOnCpu(runtime)) return;
  const place = (matrix: Dense, distribution: Distribution) => distribute(runtime, matrix, { distribution });
  const [a, b] = [place(A, Slab.Y), place(B, Slab.X)];
  using object = new Matmul(a, b, { distribution: Slab.X, engine: "overlap" });
  object.plan();
  const { measured, predicted } = object.timeline();
  assertEquals(predicted, []);
  for (let rank = 0; rank < runtime.size; rank++) {
    const own = measured.filter((one) => one.rank === rank);
    assert(own.some(({ kind }) => kind === "gemm"));
    assert(own.every(({ start, end }, i) => end >= start && start >= (i > 0 ? own[i - 1].end : 0)));
  }
  assertMatrix(object.execute(), AB, "after a timeline");
  using other = new Matmul(a, b, { distribution: Slab.X, engine: "scalapack" });
  other.plan();
  const why = 'engine scalapack cannot tell what it does when. Pass engine: "overlap"';
  assertThrowsEverywhere(runtime, () => other.timeline(), ConfigurationError, why);
  const [none, noneToo] = [[3, 0], [0, 3]].map((shape) => DistributedArray.zeros(runtime, shape, Slab.X));
  using empty = new Matmul(none, noneToo, { engine: "overlap" });
  empty.plan();
  const whyToo = "This product has no elements to multiply";
  assertThrowsEverywhere(runtime, () => empty.timeline(), ConfigurationError, whyToo);
});

clusterTest("explain names the schedule", { ranks: [2] }, (runtime) => {
  if (!isOnCpu(runtime)) return;
  const place = (matrix: Dense, distribution: Distribution) => distribute(runtime, matrix, { distribution });
  using object = new Matmul(place(A, Slab.Y), place(B, Slab.X), { distribution: Slab.X, engine: "overlap" });
  object.plan();
  assertStringIncludes(object.explain(), "engine overlap, algorithm gemm_reduce_scatter");
  assertStringIncludes(object.explain(), "schedule relay, in shared memory");
  using recording = runtime.record();
  object.execute().free();
  assertEquals(recording.exchanges, { "reduce-scatter in shared memory": 1 });
  assertStringIncludes(object.explain(), "; exchanges: reduce-scatter in shared memory 1");
});
