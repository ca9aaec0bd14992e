// Arrays of scales for 8-bit factors, on CPUs and on GPUs: powers of two on small integers, so that products are exact.
import { assertEquals } from "@std/assert";
import type { DType } from "../../src/dtype/dtype.ts";
import { Replicated, Slab } from "../../src/distribution/mod.ts";
import { ConfigurationError, DTypeError, ShapeError, StateError } from "../../src/errors.ts";
import { Matmul, matmul, type MatmulOptions, type QuantizationScales } from "../../src/linalg/mod.ts";
import type { Runtime } from "../../src/runtime/runtime.ts";
import { assertThrowsEverywhere, clusterTest } from "../../src/testing/mod.ts";
import {
  apply,
  assertMatrix,
  at,
  Cycle,
  type Dense,
  dense,
  distribute,
  isSampled,
  product,
  ternary,
} from "./matmul_oracle.ts";

const { X, Y } = Slab;
type Mode = "outer" | "vector" | "block";

/** What one scale is for: rows and columns of a factor that is summed over its rows. */
const BLOCKS: Readonly<Record<Mode, readonly [rows: number, columns: number]>> = {
  outer: [Infinity, 1],
  vector: [128, 1],
  block: [128, 128],
};

/** Modes of A and B that go together. */
const PAIRS: readonly (readonly [Mode, Mode])[] = [
  ["outer", "outer"],
  ["vector", "vector"],
  ["vector", "block"],
  ["block", "vector"],
];

/** Scales of a factor of k rows: powers of two that differ with both indices. */
function scalesFor({ rows, columns }: Dense, mode: Mode, seed: number): Dense {
  const [perRow, perColumn] = BLOCKS[mode];
  const count = (extent: number, block: number) => block === Infinity ? 1 : Math.ceil(extent / block);
  return dense(count(rows, perRow), count(columns, perColumn), (i, j) => [2 ** ((3 * i + 5 * j + seed) % 5 - 2), 0]);
}

/** A factor times its scales. */
function scaled(factor: Dense, scales: Dense, mode: Mode): Dense {
  const [perRow, perColumn] = BLOCKS[mode];
  return dense(factor.rows, factor.columns, (i, j) => {
    const [scale] = at(scales, perRow === Infinity ? 0 : Math.floor(i / perRow), Math.floor(j / perColumn));
    return [at(factor, i, j)[0] * scale, 0];
  });
}

/** GPUs of other generations have no such kernels. */
function isRefused({ device }: Runtime): boolean {
  return device.kind === "gpu" && device.computeCapability[0] !== 9;
}

const LAYOUTS = [
  ["gathered", Y, Y, X],
  ["reduced", X, X, Y],
  ["moved", X, Y, X],
  ["on all ranks", X, X, Replicated],
] as const;

clusterTest("arrays of scales multiply the elements that share them", (runtime) => {
  if (isRefused(runtime)) return;
  const extent = 128 * Math.max(2, runtime.size);
  const cycle = new Cycle();
  // With one block along k scales by rows and by blocks of it have the same shape.
  const shapes = [[extent, 136, extent], [80, 144, 400], ...runtime.device.kind === "cpu" ? [[80, 144, 100]] : []];
  for (const [m, n, k] of shapes) {
    const [a, b] = [ternary(k, m, 1), ternary(k, n, 2)];
    for (const [modeA, modeB] of PAIRS) {
      const [scalesA, scalesB] = [scalesFor(a, modeA, 1), scalesFor(b, modeB, 2)];
      const expected = product(apply(scaled(a, scalesA, modeA), { isTranspose: true }), scaled(b, scalesB, modeB));
      for (const [name, placeA, placeB, placeD] of LAYOUTS) {
        if (!isSampled(runtime, cycle.next())) continue;
        const order = () => cycle.pick(["C", "F"] as const);
        const [typeA, typeB] = cycle.pick([["e4m3", "e4m3"], ["e4m3", "e5m2"], ["e5m2", "e4m3"]]);
        const isTransposed = cycle.pick([true, true, false]);
        const factor = (matrix: Dense, type: string, distribution: Slab) =>
          distribute(runtime, matrix, { distribution, dtype: `float8_${type}` as DType, order: order() });
        const scales = (matrix: Dense) =>
          distribute(runtime, matrix, {
            distribution: cycle.pick([X, Y, Replicated]),
            dtype: "float32",
            order: order(),
          });
        const turned = (matrix: Dense) => isTransposed ? matrix : apply(matrix, { isTranspose: true });
        const d = matmul(
          factor(turned(a), typeA, isTransposed ? placeA : placeA === X ? Y : X),
          factor(b, typeB, placeB),
          {
            qualifiers: { a: { isTranspose: isTransposed } },
            distribution: placeD,
            resultType: "float32",
            quantizationScales: { a: scales(turned(scalesA)), b: scales(scalesB) },
          },
        );
        assertMatrix(d, expected, `${modeA} x ${modeB}, ${m} x ${n} x ${k}, ${name}, ${typeA} x ${typeB}`);
      }
    }
  }
});

clusterTest("arrays of scales are read by each execution, and may be replaced by others like them", (runtime) => {
  if (isRefused(runtime)) return;
  const [m, n, k] = [128, 144, 256 * runtime.size];
  const [a, b] = [ternary(k, m, 3), ternary(k, n, 4)];
  const place = (matrix: Dense, dtype: DType) => distribute(runtime, matrix, { distribution: X, dtype, order: "F" });
  const [first, second] = [1, 2].map((seed) => [scalesFor(a, "vector", seed), scalesFor(b, "block", seed)] as const);
  const expected = ([scalesA, scalesB]: readonly [Dense, Dense]) =>
    product(apply(scaled(a, scalesA, "vector"), { isTranspose: true }), scaled(b, scalesB, "block"));
  const [scalesA, scalesB] = first.map((matrix) => place(matrix, "float32"));
  using object = new Matmul(place(a, "float8_e4m3"), place(b, "float8_e4m3"), {
    qualifiers: { a: { isTranspose: true } },
    distribution: Y,
    resultType: "float32",
    quantizationScales: { a: scalesA, b: scalesB },
  });
  object.plan();
  assertMatrix(object.execute(), expected(first), "first");
  scalesA.local.set(place(second[0], "float32").local);
  assertMatrix(object.execute(), expected([second[0], first[1]]), "overwritten");
  object.resetOperands({ quantizationScales: { b: place(second[1], "float32") } });
  assertMatrix(object.execute(), expected(second), "replaced");
  assertThrowsEverywhere(
    runtime,
    () => object.resetOperands({ quantizationScales: { b: place(scalesFor(b, "vector", 1), "float32") } }),
    ShapeError,
    "made for scales by block_128x128",
  );
  scalesA.free();
  assertThrowsEverywhere(runtime, () => object.execute(), StateError, "quantizationScales.a was freed");
});

clusterTest("arrays of scales that fit no mode, or do not go together, are refused", (runtime) => {
  const [a, b] = [ternary(256, 384, 1), ternary(256, 384, 2)];
  const place = (matrix: Dense, dtype: DType) => distribute(runtime, matrix, { distribution: X, dtype });
  const ones = (rows: number, columns: number, dtype: DType = "float32") =>
    place(dense(rows, columns, () => [1, 0]), dtype);
  const [outer, vector, block] = [() => ones(1, 384), () => ones(2, 384), () => ones(2, 3)];
  const run = (quantizationScales: QuantizationScales, options: MatmulOptions = {}, dtype: DType = "float8_e4m3") =>
    matmul(place(a, dtype), place(b, dtype), {
      qualifiers: { a: { isTranspose: true } },
      resultType: "bfloat16",
      quantizationScales,
      ...options,
    });
  for (
    const [scales, errorClass, text] of [
      [() => ({ a: ones(3, 384), b: vector() }), ShapeError, "[1,384] (outer_vector), [2,384] (vector_128), [2,3]"],
      [() => ({ a: outer(), b: ones(384, 1) }), ShapeError, "quantizationScales.b has shape [384,1]"],
      [() => ({ a: block(), b: block() }), DTypeError, "a scales by block_128x128 and b by block_128x128"],
      [() => ({ a: outer(), b: vector() }), DTypeError, "do not go together"],
      [() => ({ a: 1, b: outer() }), DTypeError, "a scales by tensor"],
      [() => ({ a: ones(1, 384, "float64"), b: outer() }), DTypeError, "scales are float32"],
    ] as const
  ) {
    assertThrowsEverywhere(runtime, () => run(scales()), errorClass, text);
  }
  for (const epilog of ["bgrada", "bgradb"] as const) {
    assertThrowsEverywhere(
      runtime,
      () => {
        const [left, right] = [place(a, "float8_e4m3"), place(b, "float8_e4m3")];
        const quantizationScales = { a: outer(), b: outer() };
        const qualifiers = { a: { isTranspose: true } };
        new Matmul(left, right, { qualifiers, resultType: "bfloat16", quantizationScales, epilog }).plan();
      },
      ConfigurationError,
      `the epilog ${epilog} sums a factor without its scales`,
    );
  }
  const narrow = { resultType: "float8_e4m3" } as const;
  assertThrowsEverywhere(
    runtime,
    () => run({ a: outer(), b: outer(), d: 1 }, narrow),
    DTypeError,
    "need a D of 16 or 32 bits",
  );
  assertThrowsEverywhere(
    runtime,
    () => run({ a: 1, b: 1, d: outer() as never }, narrow),
    TypeError,
    "a DistributedArray of shape [1,384]",
  );
  assertThrowsEverywhere(runtime, () => run({ a: outer(), b: outer() }, {}, "bfloat16"), DTypeError, "leave out a");
  for (const [blockScaling, name] of [[true, "MXFP8"], ["mxfp8", "MXFP8"], ["nvfp4", "NVFP4"]] as const) {
    const text = `blockScaling (${name}) needs a GPU of compute capability 10.0`;
    assertThrowsEverywhere(runtime, () => run({ a: 1, b: 1 }, { blockScaling }), ConfigurationError, text);
  }
  const misspelt = "mxfp4" as "mxfp8";
  assertThrowsEverywhere(runtime, () => run({ a: 1, b: 1 }, { blockScaling: misspelt }), TypeError, '"nvfp4"; got');
  if (runtime.size > 1) {
    const differing = [outer(), vector()][Math.min(runtime.rank, 1)];
    assertThrowsEverywhere(runtime, () => run({ a: differing, b: differing }), Error, "disagree");
  }
  assertEquals(run({ a: outer(), b: outer() }, { resultType: "float32" }).dtype, "float32");
});
