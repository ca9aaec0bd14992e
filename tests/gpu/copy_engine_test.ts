/** Products by cuBLASLt and copy engines, by every schedule, exact on small integers. */
import { assertEquals, assertThrows } from "@std/assert";
import { CublasComputeType } from "../../ffi/cuda/cublaslt.ts";
import { CollectiveError, type DType, LocalArray } from "../../mod.ts";
import { inMemory } from "../../src/blas/gemm.ts";
import { allocateSymmetric, freeSymmetric } from "../../src/memory/symmetric_memory.ts";
import {
  CopyEngineProduct,
  type CopyEngineVariant,
  exchangeBytes,
} from "../../src/overlap/executors/copy_engine/product.ts";
import { type Axis, type MatrixName, partitionOf, type SharedKind } from "../../src/overlap/partition.ts";
import { Cycle } from "../cluster/matmul_oracle.ts";
import { checkCopyEngineProduct } from "./copy_engine_kit.ts";
import { gpuTest, isMock } from "./gpu_test_kit.ts";
import { SEVERAL, TRANSPOSES } from "./matmul_kit.ts";

const options = { timeoutSeconds: 120, ranks: SEVERAL };

interface Kind {
  readonly kind: SharedKind;
  readonly travels: MatrixName;
  readonly axis: Axis;
  readonly variants: readonly CopyEngineVariant[];
}

const GATHER: readonly CopyEngineVariant[] = [{ way: "push" }, { way: "push", pieces: 2 }];
const REDUCE: readonly CopyEngineVariant[] = [
  { way: "ring", pieces: 2 },
  { way: "scatter" },
  { way: "ring" },
  { way: "ring", pieces: [5, 5, 4] },
];

const KINDS: readonly Kind[] = [
  { kind: "gather", travels: "a", axis: "m", variants: GATHER },
  { kind: "gather", travels: "b", axis: "n", variants: GATHER },
  { kind: "reduce", travels: "d", axis: "m", variants: REDUCE },
  { kind: "reduce", travels: "d", axis: "n", variants: REDUCE },
  { kind: "all_reduce", travels: "d", axis: "n", variants: REDUCE },
];

const DTYPES: readonly DType[] = ["bfloat16", "float32", "float16", "complex64", "float64", "complex128"];
const EXTENTS = [{ m: 48, n: 64, k: 32 }, { m: 13, n: 10, k: 17 }, { m: 33, n: 130, k: 64 }] as const;

gpuTest(
  "every schedule, in every dtype that cuBLASLt sums, transposed or not, even parts and uneven ones",
  (runtime) => {
    const cycle = new Cycle();
    for (const { variants, ...kind } of KINDS) {
      for (const variant of variants) {
        for (const extents of EXTENTS) {
          for (const hasAddend of [false, true]) {
            // The mock is slow.
            if (cycle.next() % 8 !== 0 && isMock(runtime)) continue;
            const dtype = cycle.pick(DTYPES);
            const transposes = cycle.pick(TRANSPOSES);
            checkCopyEngineProduct(runtime, {
              ...kind,
              variant,
              extents,
              dtype,
              transposes,
              hasAddend,
              ranksPerGpu: 1,
              runs: 3,
            });
          }
        }
      }
    }
  },
  options,
);

gpuTest("8-bit factors, whose rows along k lie in sequence", (runtime) => {
  const extents = { m: 32 * runtime.size, n: 96, k: 32 * runtime.size };
  for (const { variants, ...kind } of KINDS) {
    // cuBLASLt takes 8-bit factors at multiples of 16 only, where uneven pieces do not begin.
    for (const variant of variants.filter(({ pieces }) => !Array.isArray(pieces))) {
      for (const resultType of ["bfloat16", "float32", "float16"] as const) {
        if (isMock(runtime) && (resultType !== "bfloat16" || variant !== variants[0])) continue;
        checkCopyEngineProduct(runtime, {
          ...kind,
          variant,
          extents,
          dtype: "float8_e4m3",
          resultType,
          transposes: [true, false],
          ranksPerGpu: 1,
          runs: 3,
        });
      }
    }
  }
}, options);

gpuTest("several ranks a GPU, some of them late", (runtime) => {
  if (isMock(runtime)) return;
  for (const ranksPerGpu of [2, 4].filter((count) => count * runtime.size <= 8)) {
    for (const { variants, ...kind } of KINDS) {
      for (const variant of variants) {
        for (const extents of [{ m: 64, n: 128, k: 64 }, { m: 21, n: 35, k: 19 }]) {
          checkCopyEngineProduct(runtime, {
            ...kind,
            variant,
            extents,
            dtype: "bfloat16",
            ranksPerGpu,
            runs: 9,
            delay: 200,
          });
        }
      }
    }
  }
}, { timeoutSeconds: 120 });

gpuTest("a rank that does not come is an error that names it, and the stream goes on", (runtime, stream) => {
  const partition = partitionOf({ kind: "reduce", extents: { m: 32, n: 32, k: 32 }, size: 2 });
  const types = { a: "float32", b: "float32", c: "float32", d: "float32" } as const;
  const operation = { transpose: false, conjugate: false };
  const problem = {
    partition,
    rank: 0,
    types,
    sumType: "float32",
    operationA: operation,
    operationB: operation,
    computeType: CublasComputeType["32F"],
    scaleType: "float32",
  } as const;
  const bytes = exchangeBytes(problem, { way: "scatter" });
  // The other rank is this GPU's own memory, in which nobody writes.
  const memory = [0, 1].map(() =>
    allocateSymmetric(runtime, () => ({ bytes, backend: "nvshmem", makeSymmetric: true, facts: {}, offer: null }))
      .buffer
  );
  const [a, b, d] = [[32, 16], [16, 32], [16, 32]].map((shape) => LocalArray.zeros("float32", shape, "F", stream));
  {
    using product = new CopyEngineProduct(stream, problem, { way: "scatter" }, memory.map(({ address }) => address), {
      patienceSeconds: 0.2,
    });
    for (let i = 0; i < 3; i++) product.execute({ a: inMemory(a), b: inMemory(b), c: null, d: inMemory(d) });
    const error = assertThrows(() => stream.synchronize(), CollectiveError);
    assertEquals(
      error.message,
      "Rank 0 waited 0.2 s for its partial sums from rank 1 in a run of a product. Look whether that rank has failed, is " +
        "late (timeoutSeconds of initialize() gives it more time), or has run the product less often; start the job again.",
    );
    assertEquals(error.ranks, [1]);
    stream.synchronize();
    assertThrows(() => product.check(), CollectiveError);
    assertEquals(d.toNumbers()[0], 0);
  }
  for (const local of [a, b, d]) local.release();
  freeSymmetric(runtime, () => memory);
}, { timeoutSeconds: 60 });

gpuTest("a thousand runs one after the other", (runtime) => {
  for (const { variants: [variant], ...kind } of KINDS.slice(1, 4)) {
    checkCopyEngineProduct(runtime, {
      ...kind,
      variant,
      extents: { m: 16, n: 24, k: 16 },
      dtype: "float32",
      ranksPerGpu: 1,
      runs: isMock(runtime) ? 80 : 1000,
      delay: isMock(runtime) ? 0 : 20,
      hasAddend: true,
    });
  }
}, options);
