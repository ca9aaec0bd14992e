/** Engine "overlap" on GPUs: what matmul and Matmul make of tile kernels, exact on small integers. */
import { assert, assertEquals, assertMatch, assertStrictEquals, assertStringIncludes, assertThrows } from "@std/assert";
import {
  allocateSymmetricMemory,
  CollectiveError,
  ConfigurationError,
  DeviceBuffer,
  DistributedArray,
  type Distribution,
  type DType,
  freeSymmetricMemory,
  geluAuxShape,
  Graph,
  LocalArray,
  Matmul,
  matmul,
  type MatmulOptions,
  reluAuxShape,
  Replicated,
  type Runtime,
  Slab,
  StateError,
  Stream,
} from "../../mod.ts";
import { variantsWorthMeasuring } from "../../src/linalg/engines/overlap/tile_variants.ts";
import { measuredRates, noteRates } from "../../src/array/gpu_model.ts";
import { measureRates } from "../../src/linalg/engines/machine_rates.ts";
import { SymmetricBuffer } from "../../src/memory/symmetric_memory.ts";
import { TILE_SHAPES } from "../../src/overlap/executors/tile/configuration.ts";
import { gelu, geluDerivative } from "../../src/linalg/matmul/epilog.ts";
import {
  apply,
  assertMatrix,
  at,
  combine,
  Cycle,
  type Dense,
  dense,
  distribute,
  held,
  product,
  ternary,
} from "../cluster/matmul_oracle.ts";
import { delayStream } from "./delay.ts";
import { areGpusShared, gpuTest as registerGpuTest, isMock } from "./gpu_test_kit.ts";
import { SEVERAL, TRANSPOSES } from "./matmul_kit.ts";
import { checkTileProduct } from "./tile_kit.ts";

function gpuTest(name: string, body: (runtime: Runtime) => void): void {
  const ignore = areGpusShared && "ranks share a GPU";
  registerGpuTest(name, body, { timeoutSeconds: 120, ranks: SEVERAL, ignore });
}

const { X, Y } = Slab;

/** Where A, B and D of the product are, and what the engine does there. */
const PLACES: readonly (readonly [Distribution, Distribution, Distribution, string])[] = [
  [X, Y, Y, "all_gather_gemm"],
  [X, Y, X, "all_gather_gemm"],
  [Y, X, X, "gemm_reduce_scatter"],
  [Y, X, Y, "gemm_reduce_scatter"],
  [Y, X, Replicated, "gemm_all_reduce"],
];

interface Case {
  readonly places: readonly [Distribution, Distribution, Distribution];
  readonly shape: readonly [m: number, n: number, k: number];
  readonly transposes?: readonly [boolean, boolean];
  readonly dtype?: DType;
  readonly orders?: readonly ["C" | "F", "C" | "F", "C" | "F"];
  readonly addend?: "none" | "copied" | "inplace";
  readonly alpha?: number;
  readonly options?: MatmulOptions;
  readonly runs?: number;
}

const flip = (place: Distribution, isFlipped: boolean) =>
  !isFlipped ? place : place === X ? Y : place === Y ? X : place;

const products = new Map<string, Dense>();

/** A B of the test's matrices, by plain loops; kept, since cases share extents. */
function productOf(a: Dense, b: Dense): Dense {
  const key = [a.rows, b.columns, a.columns].join();
  const found = products.get(key) ?? product(a, b);
  products.set(key, found);
  return found;
}

/** Multiply small integers by engine overlap, compare with plain loops, and return what ran. */
function run(runtime: Runtime, given: Case): Matmul["algorithm"] {
  const { places, shape: [m, n, k], transposes: [ta, tb] = [false, false], dtype = "bfloat16" } = given;
  const { orders = ["C", "C", "C"], addend = "none", alpha = 1, options = {}, runs = 2 } = given;
  const [opA, opB, c] = [ternary(m, k, 1), ternary(k, n, 2), ternary(m, n, 3)];
  const place = (matrix: Dense, which: 0 | 1 | 2, isFlipped = false) =>
    distribute(runtime, matrix, { distribution: flip(places[which], isFlipped), dtype, order: orders[which] });
  using a = place(apply(opA, { isTranspose: ta }), 0, ta);
  using b = place(apply(opB, { isTranspose: tb }), 1, tb);
  using addition = addend === "none" ? null : place(c, 2);
  using object = new Matmul(a, b, {
    engine: "overlap",
    qualifiers: { a: { isTranspose: ta }, b: { isTranspose: tb } },
    distribution: places[2],
    ...alpha !== 1 && { alpha },
    ...addition ? { c: addition, beta: -2, inplace: addend === "inplace" } : { order: orders[2] },
    ...options,
  });
  object.plan();
  const message = `${JSON.stringify({ ...given, places: places.map(String) })}: ${JSON.stringify(object.algorithm)}`;
  const expected = combine(alpha, productOf(opA, opB), addition ? -2 : 0, addition && c);
  for (let i = 0; i < (addend === "inplace" ? 1 : runs); i++) {
    const d = object.execute();
    assertStrictEquals(addend === "inplace" ? d : null, addend === "inplace" ? addition : null);
    assertMatrix(d, expected, message);
    if (d !== addition) d.free();
  }
  return object.algorithm;
}

gpuTest("engine overlap multiplies slabs in every order, transposed or not, in both dtypes", (runtime) => {
  const { size } = runtime;
  const cycle = new Cycle();
  for (const [a, b, d, algorithm] of PLACES) {
    for (const transposes of TRANSPOSES) {
      for (const orders of ["CCC", "CFC", "FCF", "FFF", "CCF"]) {
        if (cycle.next() % 3 !== 0 && isMock(runtime)) continue;
        const ran = run(runtime, {
          places: [a, b, d],
          shape: [40 * size, 72 * size, 24 * size],
          transposes,
          orders: [...orders] as never,
          dtype: cycle.pick(["bfloat16", "float16", "bfloat16"] as const),
          options: { algorithm: algorithm as "all_gather_gemm" },
        });
        assertEquals([ran.engine, ran.algorithm], ["overlap", algorithm]);
        assert(ran.bytesMoved > 0);
      }
    }
  }
});

gpuTest("large products by engine overlap, with the tiles that are chosen for them", (runtime) => {
  const { size } = runtime;
  for (const [a, b, d] of PLACES) {
    for (const shape of [[264 * size, 520 * size, 136 * size], [64, 520 * size, 136 * size]] as const) {
      if (!isMock(runtime)) run(runtime, { places: [a, b, d], shape });
    }
    // What is gathered, unless it is little, goes by copy engines between two GPUs.
    if (!isMock(runtime)) run(runtime, { places: [a, b, d], shape: [2056, 1024 * size, 8 * size] });
  }
});

/** Extents that divide neither by the ranks, nor by what is moved at a time, nor by a tile. */
const UNEVEN = [[61, 83, 45], [130, 21, 7], [9, 300, 131]] as const;

gpuTest("uneven shapes, with alpha, and C beside D or in its place", (runtime) => {
  const cycle = new Cycle();
  for (const [a, b, d, algorithm] of PLACES) {
    for (const shape of UNEVEN) {
      for (const addend of ["none", "copied", "inplace"] as const) {
        for (const orders of ["CCC", "CFF", "FFF"]) {
          const step = cycle.next();
          // The mock is slow.
          if (isMock(runtime) && step % 3 !== 0) continue;
          run(runtime, {
            places: [a, b, d],
            shape,
            addend,
            alpha: cycle.pick([1, 2, -1, 0]),
            orders: [...orders] as never,
            dtype: cycle.pick(["float16", "bfloat16"] as const),
            options: { algorithm: algorithm as "all_gather_gemm" },
          });
        }
      }
    }
  }
});

gpuTest("what lies as kernels take it is used where it is, the rest is copied and reported", (runtime) => {
  const { size } = runtime;
  const even = [16 * size, 24 * size, 8 * size] as const;
  for (const [a, b, d] of PLACES.slice(0, 4)) {
    for (const addend of ["none", "copied", "inplace"] as const) {
      assertEquals(run(runtime, { places: [a, b, d], shape: even, addend }).copies, []);
    }
  }
  const { copies } = run(runtime, { places: [X, Y, Y], shape: [16 * size, 24 * size, 8 * size + 1] });
  const why = "copied on each rank, since 16 bytes are moved at a time";
  assertEquals(copies, [`A ${why}`]);
});

gpuTest("reports tell of the copies of the last execution, not of those before it or of a timeline", (runtime) => {
  const { size, rank } = runtime;
  const [m, n, k] = [64 * size, 32 * size, 32 * size];
  const [a, b] = [ternary(m, k, 1), ternary(k, n, 2)];
  const [rows, columns] = X.bind([m, k], size).localShape(rank);
  const narrow = { resultType: "float32", quantizationScales: { a: 1, b: 1 } } as const;
  for (const [dtype, options, by] of [["bfloat16", {}, "tiles"], ["float8_e4m3", narrow, "copies"]] as const) {
    using left = distribute(runtime, a, { distribution: X, dtype });
    using right = distribute(runtime, b, { distribution: Y, dtype, order: "F" });
    // Rows that begin at no multiples of 16 bytes.
    const wide = LocalArray.zeros(dtype, [rows, columns + 1], "C", runtime.stream);
    const local = wide.slice([0, 0], [rows, columns]);
    local.set(left.local);
    using apart = DistributedArray.fromLocal(runtime, local, X);
    using object = new Matmul(apart, right, { engine: "overlap", distribution: Y, ...options });
    object.plan();
    assertStringIncludes(object.algorithm.variant, `; ${by}: `);
    for (const [operand, isCopied] of [[apart, true], [left, false], [apart, true], [left, false]] as const) {
      object.resetOperands({ a: operand });
      using d = object.execute();
      assertMatrix(d, product(a, b), dtype);
      assertEquals(object.algorithm.copies.length, Number(isCopied));
    }
    object.resetOperands({ a: apart });
    object.timeline();
    assertEquals(object.algorithm.copies, []);
  }
});

const EPILOGS = [
  "bias",
  "relu",
  "relu_bias",
  "relu_aux",
  "relu_aux_bias",
  "gelu",
  "gelu_bias",
  "gelu_aux",
  "gelu_aux_bias",
  "drelu",
  "dgelu",
] as const;

/** A rank's part of a matrix as numbers, row by row. */
function partOf(matrix: Dense, distribution: Distribution, rank: number): Dense {
  const [rows, columns] = [held(distribution, rank, 0), held(distribution, rank, 1)];
  return dense(rows.length, columns.length, (i, j) => at(matrix, rows[i], columns[j]));
}

const forward = (kind: "relu" | "gelu", x: number) => kind === "relu" ? Math.max(0, x) : gelu(x);

/** One product with an epilog, beside the same arithmetic on the host. */
function runEpilog(
  runtime: Runtime,
  name: typeof EPILOGS[number],
  places: Case["places"],
  order: "C" | "F",
  dtype: "bfloat16" | "float16",
): void {
  const [m, n, k] = [61, 43, 24];
  const [denseA, denseB] = [ternary(m, k, 1), ternary(k, n, 2)];
  const place = (matrix: Dense, which: 0 | 1) => distribute(runtime, matrix, { distribution: places[which], dtype });
  const distribution = places[2].bind([m, n], runtime.size);
  const expected = partOf(productOf(denseA, denseB), distribution, runtime.rank);
  const { rows, columns } = expected;
  const kind = name.includes("relu") ? "relu" : name.includes("gelu") ? "gelu" : null;
  const isDerivative = name.startsWith("d");
  const bias = Float32Array.from(held(distribution, runtime.rank, 0), (row) => row % 5 - 2);
  const [geluShape, reluShape] = [geluAuxShape(rows, columns), reluAuxShape(rows, columns)];
  const given = (i: number, j: number) => (3 * i + 5 * j) % 7 / 2 - 1.5;
  const geluAux = LocalArray.zeros(dtype, geluShape, "F");
  const reluAux = LocalArray.zeros("uint8", reluShape, "F");
  const mask = reluAux.view() as Uint8Array;
  const numbers = new Float64Array(geluShape[0] * geluShape[1]);
  for (let j = 0; j < columns; j++) {
    for (let i = 0; i < rows; i++) {
      numbers[i * columns + j] = given(i, j);
      if (given(i, j) > 0) mask[j * reluShape[0] + (i >> 3)] |= 1 << (i & 7);
    }
  }
  if (geluAux.size > 0) geluAux.set(numbers);
  const epilogInputs = {
    ...name.endsWith("bias") && { bias },
    ...isDerivative && (kind === "relu" ? { reluAux } : { geluAux }),
  };
  using object = new Matmul(place(denseA, 0), place(denseB, 1), {
    engine: "overlap",
    distribution: places[2],
    order,
    epilog: name,
    epilogInputs,
  });
  object.plan();
  for (let turn = 0; turn < 2; turn++) {
    const d = object.execute();
    const found = d.local.toNumbers();
    const what = `${name} ${places.map(String)} ${order} ${dtype}`;
    const close = (value: number, wanted: number, where: string) =>
      assert(
        Math.abs(value - wanted) <= 0.01 * Math.max(1, Math.abs(wanted)),
        `${what} ${where}: ${value}, not ${wanted}`,
      );
    const { auxiliary } = object;
    const written = auxiliary.reluAux?.toHost("F").view() as Uint8Array | undefined;
    const before = auxiliary.geluAux?.toNumbers();
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < columns; j++) {
        const x = at(expected, i, j)[0] + (name.endsWith("bias") ? bias[i] : 0);
        const wanted = isDerivative
          ? x * (kind === "relu" ? Number(given(i, j) > 0) : geluDerivative(given(i, j)))
          : kind === null
          ? x
          : forward(kind, x);
        close(found[i * columns + j], wanted, `${i}, ${j}`);
        if (written) assertEquals(written[j * reluShape[0] + (i >> 3)] >> (i & 7) & 1, Number(x > 0), what);
        if (before) close(before[i * columns + j], x, `aux ${i}, ${j}`);
      }
    }
    assertEquals([written !== undefined, before !== undefined], [
      name.startsWith("relu_aux"),
      name.startsWith("gelu_aux"),
    ]);
    d.free();
  }
}

gpuTest("epilogs in the kernel, and auxiliary matrices after it", (runtime) => {
  const cycle = new Cycle();
  for (const name of EPILOGS) {
    for (const [a, b, d] of PLACES) {
      cycle.next();
      runEpilog(
        runtime,
        name,
        [a, b, d],
        cycle.pick(["C", "F"] as const),
        cycle.pick(["bfloat16", "float16"] as const),
      );
    }
  }
});

/** Products in place of every kind, by every way; `change` gives all of them the operands of a set. */
function everyProduct(runtime: Runtime) {
  const { size } = runtime;
  const [m, n] = [24 * size, 16 * size];
  // By tile kernels as they lie, and copied, since 16 bytes are moved at a time; and by copy engines.
  const cases = [["bfloat16", 8], ["bfloat16", 3], ["float32", 8]] as const;
  const given = cases.flatMap(([dtype, more]) => {
    const k = 8 * size + more;
    const sets = [0, 1, 2].map((seed) => [ternary(m, k, seed), ternary(k, n, seed + 3)] as const);
    const sums = sets.map(([a, b]) => product(a, b));
    return PLACES.map(([atA, atB, atD]) => {
      const place = (matrix: Dense, distribution: Distribution) => distribute(runtime, matrix, { distribution, dtype });
      const pairs = sets.map(([a, b]) => [place(a, atA), place(b, atB)] as const);
      const [a, b, c] = [place(sets[0][0], atA), place(sets[0][1], atB), place(ternary(m, n, 9), atD)];
      const object = new Matmul(a, b, { engine: "overlap", c, beta: 0, inplace: true });
      object.plan();
      object.execute();
      return { pairs, a, b, c, object, sums };
    });
  });
  const change = (set: number) => {
    for (const { pairs, a, b } of given) {
      a.local.set(pairs[set][0].local);
      b.local.set(pairs[set][1].local);
    }
  };
  return { given, change };
}

gpuTest("a graph repeats products of every kind, between others, while operands change", (runtime) => {
  const { given, change } = everyProduct(runtime);
  using graph = Graph.capture(runtime, () => given.forEach(({ object }) => object.execute()));
  for (let replay = 0; replay < (isMock(runtime) ? 20 : 100); replay++) {
    change(replay % 3);
    if (replay % 10 === 7) given.forEach(({ object }) => object.execute());
    graph.launch();
    if (replay % 7 === 3) given.forEach(({ object }) => object.execute());
    // Some in a row without the host waiting.
    if (replay % 4 !== 3) continue;
    for (const { c, sums } of given) assertMatrix(c, sums[replay % 3], `replay ${replay}`);
  }
  for (const { object } of given) object.free();
});

gpuTest("products of every kind again and again, on several streams, with other factors and in between", (runtime) => {
  const { given, change } = everyProduct(runtime);
  using other = new Stream(runtime.stream!.device);
  for (let repetition = 0; repetition < 72; repetition++) {
    // Once it is known what is repeated, by another factor.
    if (repetition === 36) { for (const { object } of given) object.resetOperands({ alpha: 2 }); }
    change(repetition % 3);
    // Now and then in a timeline, which is not what is repeated.
    if (repetition % 24 === 23) { for (const { object } of given) object.timeline(); }
    const stream = repetition % 5 === 4 ? other : null;
    for (const { object } of given) object.execute({ stream });
    if (stream) runtime.stream!.wait(stream);
    if (repetition % 4 !== 3) continue;
    for (const { c, sums } of given) {
      const sum = sums[repetition % 3];
      const re = repetition < 36 ? sum.re : sum.re.map((value) => 2 * value);
      assertMatrix(c, { ...sum, re }, `repetition ${repetition}`);
    }
  }
  for (const { object } of given) object.free();
});

gpuTest("where nothing can be captured in graphs, products are repeated without", (runtime) => {
  if (!isMock(runtime)) return;
  Deno.env.set("MOCK_NO_GRAPHS", "1");
  try {
    const { given, change } = everyProduct(runtime);
    for (let repetition = 0; repetition < 24; repetition++) {
      change(repetition % 3);
      for (const { object } of given) object.execute();
    }
    for (const { c, sums } of given) assertMatrix(c, sums[2], "the last repetition");
    for (const { object } of given) object.free();
  } finally {
    Deno.env.delete("MOCK_NO_GRAPHS");
  }
});

gpuTest("runs that begin with a meeting, as in graphs, follow those that do not", (runtime) => {
  if (!isMock(runtime)) return;
  const { size } = runtime;
  const shape = [16 * size, 24 * size, 8 * size] as const;
  for (const [a, b, d] of PLACES) {
    run(runtime, { places: [a, b, d], shape });
    Deno.env.set("MOCK_CAPTURING", "1");
    try {
      run(runtime, { places: [a, b, d], shape });
    } finally {
      Deno.env.delete("MOCK_CAPTURING");
    }
    const { notes } = run(runtime, { places: [a, b, d], shape, runs: 3 });
    assertStringIncludes(notes.join(), "since then the ranks meet at the beginning of every execution");
  }
  const { narrow } = TILE_SHAPES;
  const given = {
    dtype: "bfloat16",
    isRowMajorA: true,
    isRowMajorB: false,
    split: "rows",
    m: 300 * size,
    n: 72,
    k: 8 * size,
    ranksPerGpu: 1,
  } as const;
  for (const kind of ["reduce", "all_reduce"] as const) {
    checkTileProduct(runtime, { ...given, kind, variant: { shape: narrow, panels: 2 }, runs: 7, isCaptured: true });
  }
});

gpuTest("several plans, operands that change, and other streams", (runtime) => {
  const { size, stream } = runtime;
  const [m, n, k] = [24 * size, 16 * size, 8 * size + 3];
  using other = new Stream(stream!.device);
  const sets = [0, 1, 2].map((seed) => [ternary(m, k, seed), ternary(k, n, seed + 3)] as const);
  const sums = sets.map(([a, b]) => product(a, b));
  const objects = PLACES.map(([atA, atB, atD]) => {
    const pairs = sets.map(([a, b]) =>
      [
        distribute(runtime, a, { distribution: atA, dtype: "bfloat16" }),
        distribute(runtime, b, { distribution: atB, dtype: "bfloat16" }),
      ] as const
    );
    // Twice: two plans of one product take turns on what they share.
    return [0, 1].map(() => {
      const object = new Matmul(...pairs[0], { engine: "overlap", distribution: atD });
      object.plan();
      return { object, pairs };
    });
  });
  for (let run = 0; run < 6; run++) {
    const results = objects.flatMap((both) =>
      both.map(({ object, pairs }, i) => {
        const [a, b] = pairs[(run + i) % 3];
        object.resetOperands({ a, b });
        return { d: object.execute({ stream: (run + i) % 2 === 0 ? null : other }), sum: sums[(run + i) % 3] };
      })
    );
    stream!.wait(other);
    for (const { d, sum } of results) assertMatrix(d, sum, `run ${run}`);
    for (const { d } of results) d.free();
  }
  for (const both of objects) for (const { object } of both) object.free();
});

gpuTest("what GPUs would begin in different orders on several streams is done in one", (runtime) => {
  const { size, rank } = runtime;
  const stream = runtime.stream!;
  using first = new Stream(stream.device);
  using second = new Stream(stream.device);
  const late = (on: Stream, isLate: boolean) => isLate && !isMock(runtime) && delayStream(on, 3e6);
  const [m, n, k] = [24 * size, 16 * size, 8 * size];
  const [a, b] = [ternary(m, k, 1), ternary(k, n, 2)];
  const place = (matrix: Dense, distribution: Distribution, dtype: DType) =>
    distribute(runtime, matrix, { distribution, dtype });
  using moved = place(a, Y, "float32");
  // Sums by tiles, whose blocks take the whole GPU, with cuBLASMp's and others.
  const objects = ([["overlap", "bfloat16"], ["overlap", "float16"], ["cublasmp", "bfloat16"]] as const)
    .map(([engine, dtype]) => {
      const object = new Matmul(place(a, Y, dtype), place(b, X, dtype), { engine, distribution: X });
      object.plan();
      object.execute().free();
      return object;
    });
  for (const [one, other] of [[0, 1], [0, 2], [2, 1]] as const) {
    for (let repetition = 0; repetition < 4; repetition++) {
      late(first, rank % 2 === repetition % 2);
      late(second, rank % 2 !== repetition % 2);
      using c = objects[one].execute({ stream: first });
      using d = objects[other].execute({ stream: second });
      late(stream, rank % 2 === 0);
      using e = moved.redistribute(X);
      for (const on of [first, second]) stream.wait(on);
      for (const result of [c, d]) assertMatrix(result, product(a, b), `${one} and ${other}, ${repetition}`);
      assertMatrix(e, a, "moved");
    }
  }
  using c = distribute(runtime, dense(m, n, () => [0, 0]), { distribution: X, dtype: "bfloat16" });
  using object = new Matmul(place(a, Y, "bfloat16"), place(b, X, "bfloat16"), {
    engine: "overlap",
    c,
    beta: 0,
    inplace: true,
  });
  object.plan();
  object.execute();
  using graph = Graph.capture(runtime, () => object.execute());
  for (let repetition = 0; repetition < 4; repetition++) {
    late(first, rank % 2 === 0);
    late(second, rank % 2 === 1);
    using d = objects[1].execute({ stream: first });
    graph.launch(second);
    stream.wait(second);
    assertMatrix(d, product(a, b), "beside a graph");
    assertMatrix(c, product(a, b), "by a graph");
  }
  for (const object of objects) object.free();
});

gpuTest("an operand that is made where one was freed is copied as it is now", (runtime) => {
  const { size, rank } = runtime;
  const stream = runtime.stream!;
  const shape = [32 * size, 32 * size] as const;
  const [dtype, options] = ["float8_e4m3", { resultType: "float32", quantizationScales: { a: 1, b: 1 } }] as const;
  const b = ternary(...shape, 5);
  using right = distribute(runtime, b, { distribution: Y, dtype, order: "F" });
  const [rows, columns] = X.bind([...shape], size).localShape(rank);
  // Rows 8 bytes too far apart for cuBLASLt to take them as they are.
  const leading = columns + 8;
  const left = (seed: number) => {
    const data = new DeviceBuffer(stream, rows * leading);
    const local = new LocalArray({ data, dtype, shape: [rows, columns], strides: [leading, 1] });
    using values = distribute(runtime, ternary(...shape, seed), { distribution: X, dtype });
    local.set(values.local);
    return { data, array: DistributedArray.fromLocal(runtime, local, X) };
  };
  let a = left(0);
  const { address } = a.data;
  let again = false;
  using object = new Matmul(a.array, right, { engine: "overlap", distribution: Y, ...options });
  object.plan();
  for (let seed = 0; seed < 4; seed++) {
    using d = object.execute();
    assertMatrix(d, product(ternary(...shape, seed), b), `operand ${seed}`);
    a.data.free();
    a = left(seed + 1);
    again ||= a.data.address === address;
    object.resetOperands({ a: a.array });
  }
  // The pool of a GPU gives the same memory again.
  assert(again || isMock(runtime));
  assertEquals(object.algorithm.copies.length, 1);
  a.data.free();
});

gpuTest("operands of other streams are waited for, and not overwritten before they are read", (runtime) => {
  const { size, rank } = runtime;
  const shape = [8 * size, 8 * size] as const;
  const [a, b] = [ternary(...shape, 1), ternary(...shape, 2)];
  const given = distribute(runtime, a, { distribution: X, dtype: "bfloat16" });
  const zeros = distribute(runtime, dense(...shape, () => [0, 0]), { distribution: X, dtype: "bfloat16" });
  using right = distribute(runtime, b, { distribution: Y, dtype: "bfloat16" });
  runtime.stream!.synchronize();
  const late = new Stream(runtime.stream!.device);
  const local = LocalArray.empty("bfloat16", X.bind([...shape], size).localShape(rank), "C", late);
  using left = DistributedArray.fromLocal(runtime, local, X);
  for (const engine of ["overlap", "cublasmp"] as const) {
    using object = new Matmul(left, right, { engine, distribution: Y });
    object.plan();
    for (let repetition = 0; repetition < 3; repetition++) {
      if (!isMock(runtime)) delayStream(late, 5e6);
      local.set(given.local);
      using d = object.execute();
      local.set(zeros.local);
      assertMatrix(d, product(a, b), `${engine}, ${repetition}`);
    }
  }
  const numbers = Float32Array.from({ length: shape[0] }, (_, row) => row % 5 - 2);
  const bias = LocalArray.zeros("float32", [shape[0]], "F", late);
  using biased = new Matmul(left, right, {
    engine: "overlap",
    distribution: Y,
    epilog: "bias",
    epilogInputs: { bias },
  });
  biased.plan();
  local.set(given.local);
  for (let repetition = 0; repetition < 3; repetition++) {
    if (!isMock(runtime)) delayStream(late, 5e6);
    bias.set(numbers);
    using d = biased.execute();
    bias.set(new Float32Array(shape[0]));
    const sum = combine(1, product(a, b), 1, dense(...shape, (row) => [numbers[row], 0]));
    assertMatrix(d, sum, `with a bias, ${repetition}`);
  }
  // A graph follows its own stream alone, and a stream may go before what was made on it.
  using c = distribute(runtime, dense(...shape, () => [0, 0]), { distribution: Y, dtype: "bfloat16" });
  using object = new Matmul(left, right, { engine: "overlap", c, beta: 0, inplace: true });
  object.plan();
  object.execute();
  late.synchronize();
  using graph = Graph.capture(runtime, () => {
    object.execute();
    assertThrows(() => object.execute({ stream: late }), StateError, "While a graph is captured");
  });
  late[Symbol.dispose]();
  assertThrows(() => object.execute({ stream: late }), StateError, "stream was disposed of");
  for (const run of [() => graph.launch(), () => object.execute()]) {
    c.local.fill(7);
    run();
    assertMatrix(c, product(a, b), "after the stream");
  }
});

gpuTest("a sum goes straight into symmetric memory that all ranks address", (runtime) => {
  const { size } = runtime;
  // Few rows are exchanged, of more each rank stores its sums into the memory of all.
  for (const [m, n, k] of [[160, 200, 8 * size], [320, 200, 8 * size]]) {
    const [a, b] = [ternary(m, k, 1), ternary(k, n, 2)];
    const left = allocateSymmetricMemory(runtime, Y.bind([m, k], size).localShape(runtime.rank), { dtype: "bfloat16" });
    const right = allocateSymmetricMemory(runtime, X.bind([k, n], size).localShape(runtime.rank), {
      dtype: "bfloat16",
    });
    left.set(distribute(runtime, a, { distribution: Y, dtype: "bfloat16" }).local);
    right.set(distribute(runtime, b, { distribution: X, dtype: "bfloat16" }).local);
    const [arrayA, arrayB] = [
      DistributedArray.fromLocal(runtime, left, Y),
      DistributedArray.fromLocal(runtime, right, X),
    ];
    using object = new Matmul(arrayA, arrayB, { engine: "overlap", distribution: Replicated });
    object.plan();
    for (let run = 0; run < 2; run++) {
      const d = object.execute();
      assertEquals([d.memory, object.algorithm.copies], ["symmetric", []]);
      assertMatrix(d, product(a, b), "symmetric");
      d.free();
    }
    // A timeline has a D of its own, which is not symmetric.
    object.timeline();
    assertEquals(object.algorithm.copies, []);
    object.free();
    freeSymmetricMemory(left, right);
  }
});

gpuTest("a sum goes to one place of symmetric memory on all ranks, or is refused on all", (runtime) => {
  const { size, rank } = runtime;
  const [m, n, k] = [16, 24, 8 * size];
  const [a, b] = [ternary(m, k, 1), ternary(k, n, 2)];
  const [arrayA, arrayB] = [
    distribute(runtime, a, { distribution: Y, dtype: "bfloat16" }),
    distribute(runtime, b, { distribution: X, dtype: "bfloat16" }),
  ];
  const memory = allocateSymmetricMemory(runtime, [m + 8, n], { dtype: "bfloat16" });
  const place = (row: number) => DistributedArray.fromLocal(runtime, memory.slice([row, 0], [m, n]), Replicated);
  const options = { inplace: true, beta: 0, distribution: Replicated } as const;
  using object = new Matmul(arrayA, arrayB, { c: place(8), ...options });
  object.plan();
  assertMatrix(object.execute(), product(a, b), "at one place");
  const elsewhere = place(rank === 0 ? 8 : 0);
  if (size > 1) {
    for (
      const give of [
        () => object.resetOperands({ c: elsewhere }),
        () => matmul(arrayA, arrayB, { c: elsewhere, ...options }),
      ]
    ) {
      assertThrows(give, CollectiveError, "placeOfC");
    }
  }
  object.free();
  freeSymmetricMemory(memory);
});

gpuTest("auto takes the engine where it can multiply, and cuBLASMp for the rest", (runtime) => {
  const { size } = runtime;
  const [a, b] = [ternary(16 * size, 8 * size, 1), ternary(8 * size, 24 * size, 2)];
  const ran = (dtype: DType, options: MatmulOptions = {}) => {
    const place = (matrix: Dense, distribution: Distribution) => distribute(runtime, matrix, { distribution, dtype });
    using object = new Matmul(place(a, Y), place(b, X), { distribution: X, ...options });
    object.plan();
    assertMatrix(object.execute(), product(a, b), `${dtype} ${JSON.stringify(options)}`);
    const { engine, algorithm, notes, times } = object.algorithm;
    if (engine === "overlap") {
      assertEquals([algorithm, notes], ["gemm_reduce_scatter", [`partial sums travel in ${dtype}`]]);
      assert(times!.predicted >= times!.limit && times!.limit > 0);
      assertStringIncludes(object.explain(), "% of the limit");
    }
    return engine;
  };
  assertEquals(ran("bfloat16"), "overlap");
  assertEquals(ran("float16"), "overlap");
  assertEquals(ran("float32"), "cublasmp");
  assertEquals(ran("bfloat16", { communicationType: "float32" }), "cublasmp");
  assertEquals(ran("bfloat16", { communicationSmCount: 8 }), "cublasmp");
});

gpuTest("a rank that cannot address another one's memory is an error on all of them", (runtime) => {
  const { size, rank } = runtime;
  const { peerAddress } = SymmetricBuffer.prototype;
  const refused = (body: () => void) => {
    if (rank === 0) {
      SymmetricBuffer.prototype.peerAddress = () => {
        throw new ConfigurationError("there is no direct link between their GPUs");
      };
    }
    try {
      assertThrows(body, ConfigurationError, "there is no direct link between their GPUs");
    } finally {
      SymmetricBuffer.prototype.peerAddress = peerAddress;
    }
  };
  for (const dtype of ["bfloat16", "float32"] as const) {
    // Of a shape that nothing else has: what ranks share would be there.
    const [m, n, k] = [88 * size, 104 * size, 24 * size];
    const [a, b] = [ternary(m, k, 1), ternary(k, n, 2)];
    using left = distribute(runtime, a, { distribution: X, dtype });
    using right = distribute(runtime, b, { distribution: Y, dtype });
    using object = new Matmul(left, right, { engine: "overlap", distribution: Y });
    refused(() => object.plan());
    object.plan();
    assertMatrix(object.execute(), product(a, b), dtype);
  }
  const known = measuredRates(runtime) ?? null;
  noteRates(runtime, null);
  refused(() => measureRates(runtime));
  noteRates(runtime, known);
});

gpuTest("a C that lies otherwise than D is no product in place", (runtime) => {
  const { size } = runtime;
  const [a, b, c] = [ternary(8, 4 * size, 1), ternary(4 * size, 16 * size, 2), ternary(8, 16 * size, 3)];
  for (const distribution of [Replicated, X]) {
    const place = (matrix: Dense, distribution: Distribution) =>
      distribute(runtime, matrix, { distribution, dtype: "bfloat16" });
    const given = [place(a, Y), place(b, X), { c: place(c, distribution), beta: -1, distribution: Y }] as const;
    using object = new Matmul(...given);
    object.plan();
    assertMatrix(object.execute(), combine(1, product(a, b), -1, c), `C in ${distribution}`);
    assertEquals(object.algorithm.engine, "cublasmp");
    assertThrows(
      () => new Matmul(given[0], given[1], { ...given[2], engine: "overlap" }).plan(),
      ConfigurationError,
      "these distributions would have to be changed",
    );
  }
});

gpuTest("what tile kernels have not is multiplied by cuBLASLt and copy engines", (runtime) => {
  const { size } = runtime;
  const cycle = new Cycle();
  for (const [a, b, d, algorithm] of PLACES) {
    for (const shape of [[24 * size, 16 * size, 8 * size], UNEVEN[0]] as const) {
      for (const addend of ["none", "inplace"] as const) {
        cycle.next();
        const ran = run(runtime, {
          places: [a, b, d],
          shape,
          addend,
          alpha: cycle.pick([1, 2, -1]),
          transposes: cycle.pick(TRANSPOSES),
          orders: cycle.pick(["CCC", "CFF", "FFF"].map((orders) => [...orders] as never)),
          dtype: cycle.pick(["float32", "float64", "complex64", "complex128"] as const),
          options: { algorithm: algorithm as "all_gather_gemm" },
        });
        assertStringIncludes(ran.variant, "; copies: ");
      }
    }
  }
});

gpuTest("16-bit matrices of which not every rank has a part are no less multiplied", (runtime) => {
  const few = runtime.size - 1;
  const cases = [
    { places: [X, Y, Y], shape: [few, 48, 64] },
    { places: [X, Y, X], shape: [48, few, 64] },
    { places: [Y, X, X], shape: [few, 48, 64] },
    { places: [Y, X, Y], shape: [48, few, 64] },
  ] as const;
  for (const given of cases) assertStringIncludes(run(runtime, given).variant, "; copies: ");
});

/** Pairs of 8-bit types that tensor cores multiply. */
const NARROW = [
  ["float8_e4m3", "float8_e4m3"],
  ["float8_e5m2", "float8_e4m3"],
  ["float8_e4m3", "float8_e5m2"],
] as const;

gpuTest(
  "8-bit factors with their scales: by tiles into 16 bits, by cuBLASLt and copy engines into others",
  (runtime) => {
    const { size } = runtime;
    const [m, n, k] = [64 * size, 32 * size, 32 * size];
    const [a, b] = [ternary(m, k, 1), ternary(k, n, 2)];
    for (const [atA, atB, atD] of PLACES) {
      // The mock compiles slowly.
      for (const [dtype, other] of isMock(runtime) ? NARROW.slice(0, 1) : NARROW) {
        for (const resultType of ["bfloat16", "float32", "float16"].slice(0, isMock(runtime) ? 2 : 3) as DType[]) {
          // Rows of A and columns of B lie with k in sequence.
          const left = distribute(runtime, a, { distribution: atA, dtype, order: "C" });
          const right = distribute(runtime, b, { distribution: atB, dtype: other, order: "F" });
          using object = new Matmul(left, right, {
            engine: "overlap",
            distribution: atD,
            resultType,
            quantizationScales: { a: 2, b: 0.5 },
          });
          object.plan();
          for (let i = 0; i < 2; i++) assertMatrix(object.execute(), product(a, b), `${atA} ${dtype} ${resultType}`);
          assertStringIncludes(object.algorithm.variant, resultType === "float32" ? "; copies: " : "; tiles: ");
          object.free();
        }
      }
    }
  },
);

gpuTest("results of 8 bits, on one rank or on all", (runtime) => {
  const { size } = runtime;
  const [m, n, k] = [64 * size, 32 * size, 32 * size];
  const [a, some] = [ternary(m, k, 1), ternary(k, n, 2)];
  // So few that their sums are numbers of 8 bits.
  const b = dense(k, n, (l, j) => l % 16 === j % 16 ? at(some, l, j) : [0, 0]);
  for (const [atA, atB, atD, algorithm] of PLACES) {
    const dtype = "float8_e4m3";
    using left = distribute(runtime, a, { distribution: atA, dtype, order: "C" });
    using right = distribute(runtime, b, { distribution: atB, dtype, order: "F" });
    using object = new Matmul(left, right, {
      engine: "overlap",
      distribution: atD,
      resultType: dtype,
      quantizationScales: { a: 0.5, b: 1, d: 2 },
    });
    object.plan();
    for (let i = 0; i < 2; i++) assertMatrix(object.execute(), product(a, b), `${atA} ${atD}`);
    const { variant, bytesMoved } = object.algorithm;
    assertStringIncludes(variant, "; copies: ");
    // Sums travel in 16 bits, and what all get of them in 8.
    const bytes = {
      all_gather_gemm: (atD === Y ? m : n) * k,
      gemm_reduce_scatter: 2 * m * n,
      gemm_all_reduce: 3 * m * n,
    };
    assertEquals(bytesMoved, (size - 1) * bytes[algorithm as keyof typeof bytes]);
    object.free();
  }
});

gpuTest("8-bit factors of uneven shapes by tiles, with alpha, C, and scales that change", (runtime) => {
  const cycle = new Cycle();
  for (const [atA, atB, atD] of PLACES) {
    for (const [m, n, k] of UNEVEN) {
      const [dtype, other] = isMock(runtime) ? NARROW[1] : cycle.pick(NARROW);
      const resultType = isMock(runtime) ? "float16" : cycle.pick(["bfloat16", "float16"] as const);
      const [a, b, c] = [ternary(m, k, 1), ternary(k, n, 2), ternary(m, n, 3)];
      using left = distribute(runtime, a, { distribution: atA, dtype, order: "C" });
      using right = distribute(runtime, b, { distribution: atB, dtype: other, order: "F" });
      using addend = distribute(runtime, c, { distribution: atD, dtype: resultType });
      using object = new Matmul(left, right, {
        engine: "overlap",
        alpha: -1,
        beta: 2,
        c: addend,
        quantizationScales: { a: 4, b: 0.25 },
      });
      object.plan();
      for (const scale of [0.25, 0.5]) {
        object.resetOperands({ quantizationScales: { a: 4, b: scale } });
        const d = object.execute();
        assertMatrix(d, combine(-4 * scale, product(a, b), 2, c), `${atA} ${dtype} ${[m, n, k]} ${scale}`);
        d.free();
      }
      assertStringIncludes(object.algorithm.variant, "; tiles: ");
      object.free();
    }
  }
});

gpuTest("graphs of 8-bit products by copy engines keep their scales, and others theirs", (runtime) => {
  const { size } = runtime;
  const [m, n, k] = [64 * size, 32 * size, 32 * size];
  const [a, b] = [ternary(m, k, 1), ternary(k, n, 2)];
  for (const [atA, atB, atD] of PLACES) {
    using left = distribute(runtime, a, { distribution: atA, dtype: "float8_e4m3", order: "C" });
    using right = distribute(runtime, b, { distribution: atB, dtype: "float8_e4m3", order: "F" });
    using c = distribute(runtime, dense(m, n, () => [0, 0]), { distribution: atD, dtype: "float32" });
    const options = { engine: "overlap", c, beta: 0, inplace: true } as const;
    using object = new Matmul(left, right, { ...options, quantizationScales: { a: 1, b: 1 } });
    object.plan();
    const rescale = (scale: number) => object.resetOperands({ quantizationScales: { a: 1, b: scale } });
    const expect = (scale: number, what: string) =>
      assertMatrix(c, combine(scale, product(a, b), 0, null), `${atA} ${atB} ${atD}: ${what}`);
    object.execute();
    rescale(2);
    using graph = Graph.capture(runtime, () => object.execute());
    for (let launch = 0; launch < 3; launch++) {
      object.execute();
      rescale(4);
      object.execute();
      expect(4, "on the stream");
      graph.launch();
      expect(2, "by the graph");
      object.execute();
      expect(4, "after the graph");
    }
    assertStringIncludes(object.algorithm.variant, "; copies: ");
    object.free();
  }
});

gpuTest("sums of 8-bit products keep what is small beside what is large", (runtime) => {
  if (isMock(runtime)) return;
  const [m, n, k] = [64, 64, 768];
  // Tensor cores alone would lose the ones beside 448 squared, which comes first and leaves last.
  const value = (l: number) => l === 0 || l === k - 1 ? 448 : l % 64 === 0 && l >= 256 && l < 512 ? 1 : 0;
  const a = dense(m, k, (_, l) => [l === k - 1 ? -value(l) : value(l), 0]);
  const b = dense(k, n, (l) => [value(l), 0]);
  using left = distribute(runtime, a, { distribution: X, dtype: "float8_e4m3", order: "C" });
  using right = distribute(runtime, b, { distribution: Y, dtype: "float8_e4m3", order: "F" });
  using object = new Matmul(left, right, {
    engine: "overlap",
    distribution: Y,
    resultType: "float16",
    quantizationScales: { a: 1, b: 1 },
  });
  object.plan();
  using d = object.execute();
  assertStringIncludes(object.algorithm.variant, "; tiles: ");
  assertMatrix(d, product(a, b), "ones beside a large number");
});

gpuTest("a timeline tells what each rank does when, predicted and measured", (runtime) => {
  const { size } = runtime;
  for (const dtype of ["bfloat16", "float32"] as const) {
    for (const [atA, atB, atD] of PLACES) {
      const place = (matrix: Dense, distribution: Distribution) => distribute(runtime, matrix, { distribution, dtype });
      const [a, b] = [ternary(32 * size, 16 * size, 1), ternary(16 * size, 48 * size, 2)];
      using object = new Matmul(place(a, atA), place(b, atB), { engine: "overlap", distribution: atD });
      object.plan();
      object.execute().free();
      const timeline = object.timeline();
      for (const which of ["predicted", "measured"] as const) {
        const ranks = new Set(timeline[which].filter(({ kind }) => kind === "gemm").map(({ rank }) => rank));
        assertEquals([...ranks].sort(), Array.from({ length: size }, (_, rank) => rank));
        assert(timeline[which].every(({ start, end }) => end >= start), which);
        assertStringIncludes(timeline.toSVG(which), `rank ${size - 1}, lane 0`);
        assert(JSON.parse(timeline.toChromeTrace(which)).traceEvents.length > timeline[which].length);
        // Of tile kernels each wave of tiles, on every rank.
        const waves = timeline[which].filter(({ label }) => label === "tiles, wave 1");
        if (dtype === "bfloat16") assertEquals(waves.map(({ rank }) => rank).sort(), [...ranks].sort());
      }
      assertMatrix(object.execute(), product(a, b), `after a timeline, ${dtype}`);
    }
  }
});

/** Where A, B and D are, and what the ranks share there. */
const MEASURED = [[X, Y, Y, "gather"], [Y, X, X, "reduce"]] as const;

gpuTest("autotune measures variants beside cuBLASMp, and the next plan takes the fastest", (runtime) => {
  const { size } = runtime;
  for (const [atA, atB, distribution, kind] of MEASURED) {
    // Of a shape that nothing else has: what was measured is kept.
    const [m, n, k] = [40 * size, 56 * size, 24 * size];
    const variants = variantsWorthMeasuring(kind, { m, n, k, size });
    const [a, b] = [ternary(m, k, 1), ternary(k, n, 2)];
    const place = (matrix: Dense, distribution: Distribution) =>
      distribute(runtime, matrix, { distribution, dtype: "bfloat16" });
    const [left, right] = [place(a, atA), place(b, atB)];
    using object = new Matmul(left, right, { distribution });
    object.plan();
    const measured = object.autotune({ repetitions: 1 });
    const ours = measured.filter(({ engine }) => engine === "overlap");
    const names = ours.map(({ variant }) => variant!).toSorted();
    assertEquals(names.filter((name) => !name.startsWith("copies: ")), variants.toSorted());
    assert(names.length > variants.length, "copy engines, too");
    assert(measured.some(({ engine }) => engine === "cublasmp"));
    assertMatrix(object.execute(), product(a, b), "after autotune");
    // Whatever engine won is taken where nothing else is said.
    using auto = new Matmul(left, right, { distribution });
    auto.plan();
    assertEquals(auto.algorithm.engine, measured[0].engine);
    assertMatrix(auto.execute(), product(a, b), "by the engine that won");
    using once = matmul(left, right, { distribution });
    assertMatrix(once, product(a, b), "in one call");
    using again = new Matmul(left, right, { distribution, engine: "overlap" });
    again.plan();
    assertEquals(again.algorithm.times!.measured, ours[0].seconds);
    assert(again.algorithm.variant.endsWith(ours[0].variant!), again.algorithm.variant);
    const times = /predicted [\d.]+ us, .* GB\/s between GPUs, .*; measured [\d.]+ us, \d+ % of the limit\n/;
    assertMatch(again.explain(), times);
    assertMatrix(again.execute(), product(a, b), "by what was kept");
    using library = new Matmul(left, right, { distribution, engine: "cublasmp" });
    library.plan();
    assertMatch(library.explain(), times);
  }
});

gpuTest("autotune measures sums into symmetric memory, as their result is", (runtime) => {
  const { size } = runtime;
  const [m, n, k] = [16, 24, 8 * size];
  const [a, b] = [ternary(m, k, 1), ternary(k, n, 2)];
  const memory = allocateSymmetricMemory(runtime, [m, n], { dtype: "bfloat16" });
  using object = new Matmul(
    distribute(runtime, a, { distribution: Y, dtype: "bfloat16" }),
    distribute(runtime, b, { distribution: X, dtype: "bfloat16" }),
    { c: DistributedArray.fromLocal(runtime, memory, Replicated), beta: 0, inplace: true, distribution: Replicated },
  );
  object.plan();
  object.autotune({ repetitions: 1 });
  assertMatrix(object.execute(), product(a, b), "after autotune");
  object.free();
  freeSymmetricMemory(memory);
});
