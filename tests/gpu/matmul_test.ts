/** What matmul does on GPUs only: cuBLASMp's paths and algorithms, streams, graphs, host arrays, and what is refused. */
import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { DistributedArray } from "../../src/array/distributed_array.ts";
import type { DType } from "../../src/dtype/dtype.ts";
import { LocalArray } from "../../src/array/local_array.ts";
import { allocateSymmetricMemory, freeSymmetricMemory } from "../../src/array/symmetric_array.ts";
import { BlockCyclic, type Distribution, Replicated, Slab } from "../../src/distribution/mod.ts";
import { ConfigurationError, DTypeError } from "../../src/errors.ts";
import { type AlgorithmName, Matmul, matmul, type MatmulOptions } from "../../src/linalg/mod.ts";
import { Graph } from "../../src/gpu/graph.ts";
import type { Runtime } from "../../src/runtime/runtime.ts";
import { Stream } from "../../src/gpu/stream.ts";
import { assertThrowsEverywhere } from "../../src/testing/mod.ts";
import {
  apply,
  assertMatrix,
  at,
  combine,
  type Dense,
  dense,
  distribute,
  grids,
  integers,
  numbersOf,
  product,
  ternary,
} from "../cluster/matmul_oracle.ts";
import { gpuTest as registerGpuTest, isMock } from "./gpu_test_kit.ts";
import { columnMajor, GATHER, lettersOf, REDUCE, SEVERAL, TRANSPOSES } from "./matmul_kit.ts";

function gpuTest(name: string, body: (runtime: Runtime) => void, ranks?: readonly number[]): void {
  registerGpuTest(name, body, { timeoutSeconds: 120, ...ranks && { ranks } });
}

const { X, Y } = Slab;
const ADDENDS = ["none", "copied", "inplace"] as const;

interface Case {
  readonly transposes: readonly [boolean, boolean];
  readonly places: readonly [Distribution, Distribution, Distribution];
  readonly dtype?: DType;
  readonly shape?: readonly [m: number, n: number, k: number];
  readonly orders?: readonly ["C" | "F", "C" | "F", "C" | "F"];
  readonly addend?: typeof ADDENDS[number];
  /** Whether the factors lie with gaps between their columns. */
  readonly hasGaps?: boolean;
  readonly options?: MatmulOptions;
}

/** Extents that any number of ranks divides evenly: what overlaps without a copy does so with these. */
const even = (size: number) => [16 * size, 24 * size, 32 * size] as const;

/** The same matrix, on each rank with a gap between its columns. */
function withGaps({ runtime, local, dtype, distribution }: DistributedArray): DistributedArray {
  const [rows, columns] = local.shape;
  const inner = LocalArray.empty(dtype, [rows + 1, columns], "F", runtime.stream!).slice([1, 0], [rows, columns]);
  inner.set(local);
  return DistributedArray.wrap(runtime, inner, distribution, "F");
}

/** Multiply small integers, compare with plain loops, and return what ran. */
function run(runtime: Runtime, given: Case): Matmul["algorithm"] {
  const { transposes: [ta, tb], places, dtype = "float32", shape: [m, n, k] = even(runtime.size) } = given;
  const { orders = ["F", "F", "F"], addend = "none", hasGaps = false, options = {} } = given;
  const kind = dtype === "float32" || dtype === "float64" ? integers : ternary;
  const [opA, opB, c] = [kind(m, k, 1), kind(k, n, 2), kind(m, n, 3)];
  const place = (matrix: Dense, which: 0 | 1 | 2) =>
    distribute(runtime, matrix, { distribution: places[which], dtype, order: orders[which] });
  const factors = [place(apply(opA, { isTranspose: ta }), 0), place(apply(opB, { isTranspose: tb }), 1)];
  const [a, b] = hasGaps ? factors.map(withGaps) : factors;
  const addition = addend === "none" ? null : place(c, 2);
  using object = new Matmul(a, b, {
    qualifiers: { a: { isTranspose: ta }, b: { isTranspose: tb } },
    distribution: places[2],
    ...addition ? { c: addition, beta: 2, inplace: addend === "inplace" } : { order: orders[2] },
    engine: "cublasmp",
    ...options,
  });
  object.plan();
  const d = object.execute();
  const message = `${lettersOf(ta, tb)} ${places.map(String)} ${dtype} ${addend}: ${JSON.stringify(object.algorithm)}`;
  assertEquals(d.memory, "device", message);
  assertStrictEquals(addend === "inplace" ? d : null, addend === "inplace" ? addition : null);
  const ab = product(opA, opB);
  assertMatrix(d, addition ? combine(1, ab, 2, c) : ab, message);
  return object.algorithm;
}

for (
  const [path, places, variant] of [
    ["AllGather + Matmul", GATHER, "SPLIT_P2P AllGather + Matmul"],
    ["Matmul + ReduceScatter", REDUCE, "SPLIT_P2P Matmul + ReduceScatter"],
  ] as const
) {
  gpuTest(`${path} overlaps, without a copy, for all transposes, addends and dtypes`, (runtime) => {
    for (const [ta, tb] of TRANSPOSES) {
      const slabs = places[lettersOf(ta, tb)];
      for (const dtype of ["float32", "float64", "float16", "bfloat16"] as const) {
        for (const addend of ADDENDS) {
          const ran = run(runtime, { transposes: [ta, tb], places: slabs, dtype, addend });
          assertEquals([ran.engine, ran.algorithm, ran.copies, ran.notes], ["cublasmp", "split_p2p", [], []]);
          assert(ran.variant.startsWith(variant), ran.variant);
          assert(ran.bytesMoved > 0);
        }
      }
    }
  }, SEVERAL);
}

gpuTest("Matmul + ReduceScatter and AllGather + Matmul without overlap, if that is asked for", (runtime) => {
  for (const places of [GATHER.TN, REDUCE.TN]) {
    const ran = run(runtime, { transposes: [true, false], places, options: { algorithm: "no_overlap" } });
    assertEquals(ran.algorithm, "no_overlap");
    assert(ran.variant.startsWith("NO_OVERLAP"), ran.variant);
  }
}, SEVERAL);

gpuTest("Matmul + AllReduce leaves D on all ranks, and never uses multicast", (runtime) => {
  for (const dtype of ["float32", "bfloat16", "float64"] as const) {
    for (const addend of ADDENDS) {
      const ran = run(runtime, {
        transposes: [true, false],
        places: [X, X, Replicated],
        dtype,
        addend,
        options: { epilog: "all_reduce" },
      });
      assertEquals([ran.algorithm, ran.copies], ["no_overlap", []]);
      assert(ran.variant.startsWith("NO_OVERLAP Matmul + AllReduce"), ran.variant);
    }
  }
  // Other transpositions need a local copy.
  for (const transposes of [[false, false], [false, true], [true, true]] as const) {
    const [ta, tb] = transposes;
    const ran = run(runtime, {
      transposes,
      places: [ta ? X : Y, tb ? Y : X, Replicated],
      options: { epilog: "all_reduce" },
    });
    assert(ran.variant.startsWith("NO_OVERLAP Matmul + AllReduce"), ran.variant);
    assert(ran.copies.length > 0 && ran.copies.every((copy) => copy.includes("transposed")), ran.copies.join());
  }
}, SEVERAL);

gpuTest(
  "sums of complex products over all ranks that cuBLASMp does not have, and those of which only C is left",
  (runtime) => {
    const [m, n, k] = [5, 6, 4 * runtime.size];
    const conjugated = { isTranspose: true, isConjugate: true };
    const [opA, opB, c] = [integers(m, k, 1, true), integers(k, n, 2, true), integers(m, n, 3, true)];
    for (const dtype of ["complex64", "complex128"] as const) {
      for (const order of ["C", "F"] as const) {
        const place = (matrix: Dense, distribution: Distribution) =>
          distribute(runtime, matrix, { distribution, dtype, order });
        const [a, b, addend] = [
          place(apply(opA, conjugated), X),
          place(apply(opB, conjugated), Y),
          place(c, Replicated),
        ];
        for (const [alpha, beta] of [[1, 2], [0, 1]] as const) {
          using object = new Matmul(a, b, {
            qualifiers: { a: conjugated, b: conjugated },
            c: addend,
            alpha,
            beta,
            engine: "cublasmp",
            epilog: "all_reduce",
          });
          object.plan();
          const message = `${dtype} ${order} ${alpha}`;
          assertMatrix(object.execute(), combine(alpha, product(opA, opB), beta, c), message);
          // Here cuBLASMp has the sum.
          using plain = new Matmul(place(apply(opA, { isTranspose: true }), X), place(opB, X), {
            qualifiers: { a: { isTranspose: true } },
            c: addend,
            alpha,
            beta,
            engine: "cublasmp",
            epilog: "all_reduce",
          });
          plain.plan();
          assertMatrix(plain.execute(), combine(alpha, product(opA, opB), beta, c), `${message}, not conjugated`);
        }
      }
    }
  },
  SEVERAL,
);

gpuTest(
  "factors with gaps between their columns are multiplied where they are, but for A where D is on all ranks",
  (runtime) => {
    for (const dtype of ["float32", "bfloat16", "float64"] as const) {
      for (const places of [GATHER.TN, REDUCE.TN]) {
        assertEquals(run(runtime, { transposes: [true, false], places, dtype, hasGaps: true }).copies, []);
      }
      const reduced = run(runtime, { transposes: [true, false], places: [X, X, Replicated], dtype, hasGaps: true });
      assertEquals(reduced.copies, ["A copied to close gaps between its columns"]);
      assert(reduced.variant.startsWith("NO_OVERLAP Matmul + AllReduce"), reduced.variant);
    }
  },
  SEVERAL,
);

gpuTest("2-D block-cyclic matrices are multiplied where they are, by cuBLASMp's generic path", (runtime) => {
  for (const grid of grids(runtime.size)) {
    const blocks = new BlockCyclic(grid, [16, 16]);
    for (const transposes of TRANSPOSES) {
      for (const dtype of ["float32", "float64", "bfloat16"] as const) {
        const ran = run(runtime, { transposes, places: [blocks, blocks, blocks], dtype });
        assertEquals(ran.copies, [], ran.variant);
        assert(runtime.size === 1 || ran.variant.startsWith("generic Matmul"), ran.variant);
      }
    }
  }
});

gpuTest("mixtures of slabs are multiplied where they are, by cuBLASMp's fallback", (runtime) => {
  const ran = run(runtime, { transposes: [false, false], places: [X, X, Y] });
  assert(ran.variant.startsWith("fallback Matmul"), ran.variant);
  assertEquals(ran.copies, []);
  assert(ran.notes.some((note) => note.includes("overlapped")));
}, SEVERAL);

gpuTest("uneven sizes are padded, and still overlap", (runtime) => {
  for (const [ta, tb] of TRANSPOSES) {
    for (const [places, variant] of [[GATHER, "AllGather"], [REDUCE, "ReduceScatter"]] as const) {
      const slabs = places[lettersOf(ta, tb)];
      const shape = [runtime.size * 5 + 1, runtime.size * 7 - 1, runtime.size * 3 - 1] as const;
      for (const addend of ADDENDS) {
        const ran = run(runtime, { transposes: [ta, tb], places: slabs, shape, addend });
        assert(ran.variant.includes(variant), ran.variant);
        assert(ran.copies.some((copy) => copy.includes("padded")), ran.copies.join());
      }
    }
  }
}, SEVERAL);

gpuTest("the order of D is what cuBLASMp produces without a copy, if none is asked for", (runtime) => {
  const [m, n, k] = even(runtime.size);
  const [a, b] = [integers(k, m, 1), integers(k, n, 2)];
  const place = (matrix: Dense) => distribute(runtime, matrix, { distribution: Y, dtype: "float32" });
  const options = { qualifiers: { a: { isTranspose: true } }, distribution: X } as const;
  const expected = product(apply(a, { isTranspose: true }), b);
  using free = new Matmul(place(a), place(b), options);
  free.plan();
  const d = free.execute();
  assertEquals([d.order, free.algorithm.copies], ["F", []]);
  assertMatrix(d, expected, "free");
  using asked = new Matmul(place(a), place(b), { ...options, order: "C" });
  asked.plan();
  const rows = asked.execute();
  assertEquals(rows.order, "C");
  assertMatrix(rows, expected, "asked");
  assert(asked.algorithm.copies.some((copy) => copy.includes("D transposed")), asked.algorithm.copies.join());
  assert(asked.algorithm.variant.includes("AllGather"), asked.algorithm.variant);
}, SEVERAL);

gpuTest("8-bit products, with tensor scales, overlap", (runtime) => {
  const [m, n, k] = [64, 128, 128].map((extent) => extent * runtime.size);
  const [a, b] = [ternary(k, m, 1), ternary(k, n, 2)];
  const ab = product(apply(a, { isTranspose: true }), b);
  const largest = ab.re.reduce((max, x) => Math.max(max, Math.abs(x)), 0);
  for (const [typeA, typeB] of [["e4m3", "e4m3"], ["e4m3", "e5m2"], ["e5m2", "e4m3"]]) {
    for (const resultType of ["bfloat16", "float16", "float32", "float8_e4m3"] as const) {
      for (const [slab, result] of [[Y, X], [X, Y]]) {
        const place = (matrix: Dense, type: string) =>
          distribute(runtime, matrix, { distribution: slab, dtype: `float8_${type}` as DType, order: "F" });
        const isNarrow = resultType === "float8_e4m3";
        using object = new Matmul(place(a, typeA), place(b, typeB), {
          engine: "cublasmp",
          qualifiers: { a: { isTranspose: true } },
          distribution: result,
          order: "F",
          resultType,
          resultAmax: isNarrow,
          quantizationScales: { a: 2, b: 0.25, ...isNarrow && { d: 0.5 } },
        });
        object.plan();
        const d = object.execute();
        const message = `${typeA} x ${typeB} -> ${resultType}, ${result}: ${JSON.stringify(object.algorithm)}`;
        // 8 bits hold sums of up to 4 significant bits exactly.
        assertMatrix(d, combine(isNarrow ? 0.25 : 0.5, ab, 0, null), message, isNarrow ? 0.0625 : 0);
        assertEquals([object.algorithm.algorithm, object.algorithm.copies], ["split_p2p", []], message);
        if (isNarrow) assertEquals(object.auxiliary.resultAmax, largest / 2, message);
      }
    }
  }
}, SEVERAL);

gpuTest("8-bit products, with arrays of scales, overlap", (runtime) => {
  const { device } = runtime;
  if (device.kind === "gpu" && device.computeCapability[0] !== 9) return;
  const extent = 128 * runtime.size;
  const [a, b] = [ternary(extent, extent, 1), ternary(extent, extent, 2)];
  // Powers of two that differ with both indices of the scales: of a row, of 128 elements of it, of 128 x 128.
  const scalesOf = (rows: number, columns: number, seed: number) =>
    dense(rows, columns, (i, j) => [2 ** ((3 * i + 5 * j + seed) % 5 - 2), 0]);
  const [outer, vector, block] = [[1, extent], [extent / 128, extent], [extent / 128, extent / 128]];
  const times = (matrix: Dense, scales: Dense) =>
    dense(extent, extent, (i, j) => {
      const [row, column] = [Math.floor(i * scales.rows / extent), Math.floor(j * scales.columns / extent)];
      return [at(matrix, i, j)[0] * at(scales, row, column)[0], 0];
    });
  for (const [shapeA, shapeB] of [[outer, outer], [vector, vector], [vector, block], [block, vector]]) {
    const [scalesA, scalesB] = [scalesOf(shapeA[0], shapeA[1], 1), scalesOf(shapeB[0], shapeB[1], 2)];
    const expected = product(apply(times(a, scalesA), { isTranspose: true }), times(b, scalesB));
    for (const [slab, result] of [[Y, X], [X, Y]]) {
      const place = (matrix: Dense, dtype: DType, distribution: Distribution = slab) =>
        distribute(runtime, matrix, { distribution, dtype, order: "F" });
      for (const algorithm of ["split_p2p", "no_overlap"] as const) {
        for (const resultType of ["float32", "bfloat16"] as const) {
          using object = new Matmul(place(a, "float8_e4m3"), place(b, "float8_e4m3"), {
            qualifiers: { a: { isTranspose: true } },
            distribution: result,
            order: "F",
            resultType,
            algorithm,
            quantizationScales: {
              a: place(scalesA, "float32", Replicated),
              b: place(scalesB, "float32", Replicated),
            },
          });
          object.plan();
          const d = object.execute();
          const message = `[${shapeA}] x [${shapeB}] -> ${resultType}, ${result}: ${JSON.stringify(object.algorithm)}`;
          assertMatrix(d, expected, message, resultType === "float32" ? 0 : 0.0625);
          assertEquals([object.algorithm.algorithm, object.algorithm.copies], [algorithm, []], message);
        }
      }
    }
  }
}, SEVERAL);

gpuTest("partial sums may travel in D's type, and multiprocessors be left to communication", (runtime) => {
  for (const communicationType of ["bfloat16", "float32"] as const) {
    const options = { communicationType, communicationSmCount: 8 };
    const ran = run(runtime, { transposes: [true, false], places: REDUCE.TN, dtype: "bfloat16", options });
    assertEquals([ran.algorithm, ran.notes], [runtime.size > 1 ? "split_p2p" : "no_overlap", []]);
  }
  const place = () => distribute(runtime, integers(64, 64, 1), { distribution: X, dtype: "float32" });
  assertThrowsEverywhere(
    runtime,
    () => matmul(place(), place(), { communicationType: "bfloat16" }),
    DTypeError,
    "communicationType bfloat16",
  );
});

gpuTest("multicast algorithms are refused", (runtime) => {
  const place = () => distribute(runtime, integers(64, 64, 1), { distribution: X, dtype: "float32", order: "F" });
  for (const algorithm of ["split_multicast", "atomic_multicast", "fused"] as AlgorithmName[]) {
    assertThrowsEverywhere(
      runtime,
      () => matmul(place(), place(), { algorithm }),
      ConfigurationError,
      "allowMulticast",
    );
  }
  assertThrowsEverywhere(
    runtime,
    () => matmul(place(), place(), { algorithm: "pgemm" }),
    ConfigurationError,
    "on GPUs",
  );
  assertThrowsEverywhere(runtime, () => matmul(place(), place(), { engine: "scalapack" }), ConfigurationError, "CPUs");
  assertThrowsEverywhere(runtime, () => matmul(place(), place(), { blockScaling: true }), ConfigurationError, "10.0");
  assertThrowsEverywhere(runtime, () => matmul(place(), place(), { stream: 1 as never }), TypeError, "Stream");
});

gpuTest("a product runs on a stream of the user's", (runtime) => {
  using stream = new Stream(runtime.stream!.device);
  const [a, b] = [integers(64, 64, 1), integers(64, 96, 2)];
  const place = columnMajor(runtime);
  using object = new Matmul(place(a, X), place(b, Y), { distribution: X, stream });
  object.plan();
  const ab = product(a, b);
  for (let i = 0; i < 3; i++) {
    const d = object.execute(i === 1 ? { stream: null } : { stream });
    runtime.stream!.wait(stream);
    assertMatrix(d, ab, `execution ${i}`);
  }
  using blocking = new Matmul(place(a, X), place(b, Y), { distribution: X, blocking: true });
  blocking.plan();
  blocking.execute();
  assert(runtime.stream!.isDone);
});

gpuTest("products on several streams take turns at the workspace", (runtime) => {
  const { device } = runtime.stream!;
  using one = new Stream(device);
  using other = new Stream(device);
  const [a, b] = [integers(64, 64, 1), integers(64, 96, 2)];
  const place = columnMajor(runtime);
  const ab = product(a, b);
  const results: DistributedArray[] = [];
  {
    using gathered = new Matmul(place(a, X), place(b, Y), { distribution: X });
    using reduced = new Matmul(place(a, Y), place(b, X), { distribution: Y });
    gathered.plan();
    reduced.plan();
    for (let i = 0; i < 4; i++) {
      results.push(gathered.execute({ stream: one }), reduced.execute({ stream: other }), reduced.execute());
    }
    // The plans end here, and their streams go on.
  }
  for (const stream of [one, other]) runtime.stream!.wait(stream);
  for (const [i, d] of results.entries()) assertMatrix(d, ab, `execution ${i}`);
});

gpuTest("a captured product is replayed", (runtime) => {
  // The mock GPU has no graphs.
  if (isMock(runtime)) return;
  for (const [places, algorithm] of [[GATHER.TN, "split_p2p"], [REDUCE.TN, "no_overlap"]] as const) {
    const [m, n, k] = even(runtime.size);
    const [a, b, c] = [ternary(k, m, 1), ternary(k, n, 2), ternary(m, n, 3)];
    const place = columnMajor(runtime);
    const sum = place(c, places[2]);
    using object = new Matmul(place(a, places[0]), place(b, places[1]), {
      c: sum,
      beta: 1,
      inplace: true,
      qualifiers: { a: { isTranspose: true } },
      ...runtime.size > 1 && { algorithm },
    });
    object.plan();
    object.execute();
    using graph = Graph.capture(runtime, () => void object.execute());
    for (let i = 0; i < 5; i++) graph.launch();
    const ab = product(apply(a, { isTranspose: true }), b);
    assertMatrix(sum, combine(6, ab, 1, c), `once, and 5 launches, ${algorithm}`);
    object.execute();
    assertMatrix(sum, combine(7, ab, 1, c), `and once more, ${algorithm}`);
  }
});

gpuTest("a capture that fails leaves the stream as it was", (runtime) => {
  if (isMock(runtime)) return;
  assertThrowsEverywhere(
    runtime,
    () => {
      Graph.capture(runtime, () => {
        throw new RangeError("no");
      });
    },
    RangeError,
    "no",
  );
  const ran = run(runtime, { transposes: [false, false], places: [X, Y, X] });
  assertEquals(ran.engine, "cublasmp");
});

gpuTest("arrays in host memory are operands, too", (runtime) => {
  const [a, b, c] = [integers(12, 10, 1), integers(10, 8, 2), integers(12, 8, 3)];
  const onHost = (matrix: Dense, distribution: Distribution) =>
    distribute(runtime, matrix, { distribution, dtype: "float64" }).to({ memory: "host" });
  const d = matmul(onHost(a, X), onHost(b, Y), { c: onHost(c, X), beta: 1 });
  assertEquals(d.memory, "device");
  assertMatrix(d, combine(1, product(a, b), 1, c), "copied");
  const into = onHost(c, X);
  assertStrictEquals(matmul(onHost(a, X), onHost(b, Y), { c: into, beta: 1, inplace: true }), into);
  assertMatrix(into, combine(1, product(a, b), 1, c), "in place");
});

gpuTest("an epilog follows a product in place of C in host memory", (runtime) => {
  const [a, b, c] = [integers(12, 10, 1), integers(10, 8, 2), integers(12, 8, 3)];
  const onHost = (matrix: Dense, distribution: Distribution) =>
    distribute(runtime, matrix, { distribution, dtype: "float32" }).to({ memory: "host" });
  for (const epilog of ["silu", "relu"] as const) {
    const into = onHost(c, X);
    const options = { beta: 1, epilog, engine: "cublasmp" } as const;
    const d = matmul(onHost(a, X), onHost(b, Y), { ...options, c: onHost(c, X) });
    assertStrictEquals(matmul(onHost(a, X), onHost(b, Y), { ...options, c: into, inplace: true }), into);
    assertEquals([...into.allGather()], [...d.allGather()], epilog);
  }
});

gpuTest("a stream waits for what the host has made of its product", (runtime) => {
  using stream = new Stream(runtime.stream!.device);
  const [a, b] = [integers(64, 64, 1), integers(64, 96, 2)];
  const place = columnMajor(runtime);
  const options = { distribution: X, epilog: "gelu_aux", auxAmax: true, engine: "cublasmp" } as const;
  using object = new Matmul(place(a, X), place(b, Y), { ...options, stream });
  object.plan();
  using other = new Matmul(place(a, X), place(b, Y), options);
  other.plan();
  using expected = other.execute();
  for (let i = 0; i < 3; i++) {
    using d = object.execute({ stream });
    stream.synchronize();
    assertEquals([...d.allGather()], [...expected.allGather()], `execution ${i}`);
    const [aux, wanted] = [object, other].map(({ auxiliary }) => auxiliary.geluAux!.toNumbers());
    assertEquals(aux, wanted, `execution ${i}`);
  }
});

gpuTest("8-bit products without elements take arrays of scales", (runtime) => {
  const zeros = (shape: readonly number[]) => DistributedArray.zeros(runtime, shape, X, { dtype: "float8_e4m3" });
  const ones = (shape: readonly number[]) => DistributedArray.full(runtime, shape, Replicated, 1, { dtype: "float32" });
  const quantizationScales = { a: ones([128, 1]), b: ones([1, 0]) };
  const d = matmul(zeros([128, 128]), zeros([128, 0]), { resultType: "float32", quantizationScales });
  assertEquals([[...d.shape], d.memory], [[128, 0], "device"]);
});

gpuTest("a gathered B in NCCL's symmetric memory is registered, and let go of before it is freed", (runtime) => {
  const [m, n, k] = even(runtime.size);
  const [a, b] = [integers(m, k, 1), integers(k, n, 2)];
  const ab = product(a, b);
  const place = columnMajor(runtime);
  for (let round = 0; round < 3; round++) {
    const plain = place(b, Y);
    const options = { dtype: "float32", order: "F", backend: "nccl" } as const;
    const memory = allocateSymmetricMemory(runtime, plain.local.shape, options);
    memory.set(plain.local);
    const symmetric = DistributedArray.fromLocal(runtime, memory, plain.distribution);
    using object = new Matmul(place(a, X), symmetric, { distribution: X });
    object.plan();
    for (let i = 0; i < 2; i++) assertMatrix(object.execute(), ab, `round ${round}, execution ${i}`);
    assertEquals([object.algorithm.algorithm, object.algorithm.copies], ["split_p2p", []]);
    object.resetOperands({ b: plain });
    assertMatrix(object.execute(), ab, `round ${round}, not symmetric`);
    object.resetOperands({ b: symmetric });
    assertMatrix(object.execute(), ab, `round ${round}, symmetric again`);
    // The last one stays, to be let go of at the end.
    if (round < 2) freeSymmetricMemory(memory);
  }
}, SEVERAL);

gpuTest("many plans share workspace, and executions leave nothing behind", (runtime) => {
  const place = (distribution: Distribution) =>
    DistributedArray.random(runtime, [256, 256], distribution, { dtype: "bfloat16", order: "F", seed: 1 });
  const [a, b] = [place(X), place(Y)];
  const once = () => {
    using object = new Matmul(a, b, { distribution: X });
    object.plan();
    for (let i = 0; i < 3; i++) object.execute().free();
    object.free();
  };
  once();
  const { device } = runtime.stream!;
  runtime.stream!.synchronize();
  const { freeBytes } = device.memoryInfo();
  const rounds = isMock(runtime) ? 3 : 100;
  for (let i = 0; i < rounds; i++) once();
  runtime.stream!.synchronize();
  const lost = freeBytes - device.memoryInfo().freeBytes;
  assert(lost < 2 ** 22, `${lost} bytes of device memory are gone after ${rounds} rounds`);
});

gpuTest("a large product agrees with the same product without overlap", (runtime) => {
  const options = { dtype: "bfloat16", order: "F", low: -1, high: 1 } as const;
  const scale = isMock(runtime) ? 16 : 1;
  const a = DistributedArray.random(runtime, [1024 / scale, 2048 / scale], Y, { ...options, seed: 1 });
  const b = DistributedArray.random(runtime, [1024 / scale, 1536 / scale], Y, { ...options, seed: 2 });
  const given = { qualifiers: { a: { isTranspose: true } }, distribution: X } as const;
  const [one, other] = (["split_p2p", "no_overlap"] as const).map((algorithm) =>
    matmul(a, b, { ...given, ...runtime.size > 1 && { algorithm } })
  );
  assert(one.maxAbsDifference(other) <= 0.5, `${one.maxAbsDifference(other)}`);
  assert(numbersOf(one.slice([[0, 2], [0, 2]])).some((value) => value !== 0));
});
