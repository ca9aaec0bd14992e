/** Products on GPUs where alignment, precision or the life of a stream is special; tests/gpu/matmul_test.ts has the rest. */
import { assert, assertEquals } from "@std/assert";
import {
  CollectiveError,
  copyFromDevice,
  type Distribution,
  type DType,
  type EpilogName,
  LocalArray,
  Matmul,
  matmul,
  type MatmulOptions,
  Replicated,
  type Runtime,
  Slab,
  StateError,
  Stream,
} from "../../mod.ts";
import type { EngineRequest } from "../../src/linalg/engines/engine.ts";
import type { MatmulDescriptor } from "../../src/linalg/engines/cublasmp/descriptor.ts";
import { EpilogArrays } from "../../src/linalg/engines/cublasmp/epilog_arrays.ts";
import type { CublasMpCall } from "../../src/linalg/engines/cublasmp/paths.ts";
import type { ProductScales } from "../../src/linalg/engines/cublasmp/product_scales.ts";
import { describeEpilog } from "../../src/linalg/matmul/epilog.ts";
import { assertThrowsEverywhere } from "../../src/testing/mod.ts";
import {
  apply,
  assertMatrix,
  at,
  combine,
  type Dense,
  dense,
  distribute,
  held,
  product,
  ternary,
} from "../cluster/matmul_oracle.ts";
import { gpuTest, isMock } from "./gpu_test_kit.ts";
import { columnMajor, GATHER, lettersOf, REDUCE, SEVERAL, TRANSPOSES } from "./matmul_kit.ts";

const { X, Y } = Slab;
const SLOW = { timeoutSeconds: 120 };

gpuTest("16-bit parts of an odd number of elements, for all transposes, orders and addends", (runtime) => {
  const { size } = runtime;
  let step = 0;
  for (const places of [GATHER, REDUCE]) {
    for (const [ta, tb] of TRANSPOSES) {
      const [inA, inB, inD] = places[lettersOf(ta, tb)];
      for (const dtype of ["float16", "bfloat16"] as const) {
        // Odd parts that are equal, odd parts that are not, and fewer rows or columns than ranks.
        for (
          const [m, n, k] of [[5 * size, 7 * size, 3 * size], [5 * size + 1, 7 * size - 1, 3 * size + 1], [1, 3, 1]]
        ) {
          const order = step++ % 2 === 0 ? "F" : "C";
          const hasC = step % 3 === 0;
          const [opA, opB, c] = [ternary(m, k, 1), ternary(k, n, 2), ternary(m, n, 3)];
          const place = (matrix: Dense, distribution: Distribution) =>
            distribute(runtime, matrix, { distribution, dtype, order });
          using a = place(apply(opA, { isTranspose: ta }), inA);
          using b = place(apply(opB, { isTranspose: tb }), inB);
          using addend = place(c, inD);
          using object = new Matmul(a, b, {
            qualifiers: { a: { isTranspose: ta }, b: { isTranspose: tb } },
            distribution: inD,
            ...hasC ? { c: addend, beta: 2 } : { order },
          });
          object.plan();
          using d = object.execute();
          const message = `${m} x ${n} x ${k} ${dtype} ${order}: ${JSON.stringify(object.algorithm)}`;
          assertMatrix(d, combine(1, product(opA, opB), hasC ? 2 : 0, hasC ? c : null), message);
        }
      }
    }
  }
}, SLOW);

const SQRT = Math.sqrt(2 / Math.PI);

/** The slope of gelu in its tanh form. */
function geluSlope(x: number): number {
  const t = Math.tanh(SQRT * (x + 0.044715 * x ** 3));
  return (1 + t) / 2 + x * (1 - t * t) * SQRT * (1 + 3 * 0.044715 * x * x) / 2;
}

/** Fractions of 16 between -1 and 1. */
function fractions(rows: number, columns: number, seed: number): Dense {
  return dense(rows, columns, (i, j) => [((3 * i + 5 * j + seed * (i ^ j)) % 33 - 16) / 16, 0]);
}

gpuTest("gradients of float64 products: activations, and sums over rows", (runtime) => {
  const [m, n, k] = isMock(runtime) ? [24, 20, 16] : [128, 96, 64];
  const [opA, opB] = [fractions(m, k, 1), fractions(k, n, 2)];
  const alpha = 0.125; // brings sums to where gelu is curved
  const ab = combine(alpha, product(opA, opB), 0, null);
  for (const [inA, inB, inD] of [GATHER.NN, REDUCE.NN]) {
    const place = columnMajor(runtime, "float64");
    using a = place(opA, inA);
    using b = place(opB, inB);
    const run = (epilog: EpilogName, options: MatmulOptions = {}) => {
      using object = new Matmul(a, b, { distribution: inD, order: "F", alpha, epilog, ...options });
      object.plan();
      return { d: object.execute(), auxiliary: object.auxiliary };
    };
    const bound = inD.bind([m, n], runtime.size);
    const rows = held(bound, runtime.rank, 0);
    const rowSums = (matrix: Dense) =>
      rows.map((i) => Array.from({ length: matrix.columns }, (_, j) => at(matrix, i, j)[0]).reduce((x, y) => x + y));
    for (const kind of ["gelu", "relu"] as const) {
      const forward = run(`${kind}_aux`).auxiliary;
      const slope = (x: number) => kind === "gelu" ? geluSlope(x) : x > 0 ? 1 : 0;
      // GPUs approximate tanh in hardware.
      const limit = kind === "gelu" && !isMock(runtime) ? 1e-3 : 1e-12;
      const gradient = dense(m, n, (i, j) => [at(ab, i, j)[0] * slope(at(ab, i, j)[0]), 0]);
      const epilogInputs = kind === "gelu" ? { geluAux: forward.geluAux! } : { reluAux: forward.reluAux! };
      assertMatrix(run(`d${kind}`, { epilogInputs }).d, gradient, `d${kind} ${inD}`, limit);
      const { d, auxiliary } = run(`d${kind}_bgrad`, { epilogInputs });
      assertMatrix(d, gradient, `d${kind}_bgrad ${inD}`, limit);
      assertNear(kind === "gelu" ? auxiliary.dgeluBgrad! : auxiliary.dreluBgrad!, rowSums(gradient), 10 * n * limit);
    }
    assertNear(run("bgrada").auxiliary.bgrada!, rowSums(opA), 1e-12);
  }
}, SLOW);

function assertNear(actual: LocalArray, expected: readonly number[], limit: number): void {
  assertEquals([actual.dtype, actual.size], ["float64", expected.length]);
  actual.toNumbers().forEach((x, i) => assert(Math.abs(x - expected[i]) <= limit, `${i}: ${x}, not ${expected[i]}`));
}

/** A plan on a stream of the user's, and what it computes. */
function planOn(runtime: Runtime, stream: Stream, dtype: DType = "float32") {
  const [a, b] = [ternary(64, 48, 1), ternary(48, 96, 2)];
  const place = columnMajor(runtime, dtype);
  const object = new Matmul(place(a, X), place(b, Y), { distribution: X, stream });
  object.plan();
  return { object, expected: product(a, b) };
}

gpuTest("a stream that outlives its plan: what was executed is still computed", (runtime) => {
  using stream = new Stream(runtime.stream!.device);
  const { object, expected } = planOn(runtime, stream);
  const results = [object.execute(), object.execute(), object.execute()];
  object.free();
  runtime.stream!.wait(stream);
  for (const d of results) assertMatrix(d, expected, "after free()");
  const next = planOn(runtime, stream);
  const d = next.object.execute();
  next.object[Symbol.dispose]();
  runtime.stream!.wait(stream);
  assertMatrix(d, next.expected, "another plan on the same stream");
  stream.synchronize();
});

gpuTest("a stream that dies before its plan: an error that says so, and the plan runs on another stream", (runtime) => {
  const stream = new Stream(runtime.stream!.device);
  const { object, expected } = planOn(runtime, stream);
  const before = object.execute();
  runtime.stream!.wait(stream);
  stream[Symbol.dispose]();
  assertMatrix(before, expected, "executed before");
  assertThrowsEverywhere(runtime, () => object.execute(), StateError, "stream was disposed of");
  assertMatrix(object.execute({ stream: runtime.stream }), expected, "on the runtime's stream");
  using other = new Stream(runtime.stream!.device);
  const d = object.execute({ stream: other });
  runtime.stream!.wait(other);
  assertMatrix(d, expected, "on another stream");
  other.synchronize();
  object.free();
});

gpuTest("a stream that dies with work on it: the work is still done", (runtime) => {
  const stream = new Stream(runtime.stream!.device);
  const { object, expected } = planOn(runtime, stream);
  const d = object.execute();
  runtime.stream!.wait(stream);
  stream[Symbol.dispose]();
  object.free();
  assertMatrix(d, expected, "afterwards");
});

gpuTest("ranks that ask for different algorithms are refused on every rank", (runtime) => {
  const isFirst = runtime.rank === 0;
  const place = columnMajor(runtime);
  const [a, b] = [place(ternary(64, 48, 1), X), place(ternary(48, 96, 2), Y)];
  const refuse = (options: MatmulOptions, message: string) =>
    assertThrowsEverywhere(runtime, () => matmul(a, b, { distribution: X, ...options }), CollectiveError, message);
  refuse({ algorithm: isFirst ? "split_p2p" : "no_overlap" }, "algorithm");
  refuse(isFirst ? { communicationSmCount: 8 } : {}, "communicationSmCount");
  refuse(isFirst ? { algorithm: "no_overlap" } : {}, "algorithm");
  using d = matmul(a, b, { distribution: X });
  assertMatrix(d, product(ternary(64, 48, 1), ternary(48, 96, 2)), "afterwards");
}, { ranks: SEVERAL });

gpuTest(
  "a bias that is given again after a change is read again, also where cuBLASMp gets a padded copy",
  (runtime, stream) => {
    const distribution = Replicated.bind([3, 2], runtime.size);
    const epilog = describeEpilog("bias", { auxDType: "float32" });
    const problem = { a: { dtype: "float32" }, c: null, d: { dtype: "float32" } };
    const arrays = new EpilogArrays(
      runtime,
      { problem, epilog } as EngineRequest,
      { d: { distribution, padded: [4, 2] } } as unknown as CublasMpCall,
      null as unknown as ProductScales,
    );
    let address = 0n;
    const descriptor = { setPointer: (_: number, value: bigint) => address = value } as unknown as MatmulDescriptor;
    const bias = LocalArray.empty("float32", [3], "F", stream);
    for (const value of [1, 2]) {
      bias.fill(value);
      arrays.bindInput(descriptor, arrays.prepareInput({ bias })!);
      const given = new Float32Array(4);
      copyFromDevice(given, address, stream);
      assertEquals([...given], [value, value, value, 0]);
    }
    arrays.free();
    bias.release();
  },
);
