/** The products of nvmath-python's test grid, and uneven ones, against plain loops. */
import { assert, assertEquals, assertMatch, assertStrictEquals, assertStringIncludes, assertThrows } from "@std/assert";
import {
  BlockCyclic,
  BlockNonCyclic,
  Box,
  type ComputeType,
  ConfigurationError,
  DistributedArray,
  type Distribution,
  type DType,
  dtypeInfo,
  LocalArray,
  Matmul,
  matmul,
  type MatmulOptions,
  matrixQualifiers,
  type PlanOptions,
  ProcessGrid,
  Replicated,
  type Runtime,
  Slab,
  StateError,
} from "../../mod.ts";
import { clusterTest } from "../../src/testing/mod.ts";
import {
  apply,
  assertMatrix,
  combine,
  type Complex,
  Cycle,
  type Dense,
  dense,
  distribute,
  gridShapes,
  integers,
  isSampled,
  numbersOf,
  product,
  ternary,
} from "./matmul_oracle.ts";
import { hostTest } from "../gpu/gpu_test_kit.ts";

const SIZES = [[64, 64, 64], [128, 96, 64], [64, 128, 64]] as const;
const ODD_SIZES = [[7, 13, 31], [31, 7, 13], [13, 31, 7], [2, 3, 1], [1, 1, 5], [3, 17, 2]] as const;
const BOTH = [false, true];
const ORDERS = ["C", "F"] as const;
const SLABS = [Slab.X, Slab.Y];

interface Factors {
  a: Dense;
  b: Dense;
  c: Dense;
  /** op(A) op(B). */
  ab: Dense;
}

const factorsBySize = new Map<string, Factors>();

/** Factors, as stored, whose product has this size; the product is computed once. */
function factors(m: number, n: number, k: number, transposeA: boolean, transposeB: boolean, kind = integers): Factors {
  const key = [m, n, k, transposeA, transposeB, kind.name].join();
  const known = factorsBySize.get(key);
  if (known) return known;
  const a = transposeA ? kind(k, m, 1) : kind(m, k, 1);
  const b = transposeB ? kind(n, k, 2) : kind(k, n, 2);
  const ab = product(apply(a, { isTranspose: transposeA }), apply(b, { isTranspose: transposeB }));
  const made = { a, b, c: kind(m, n, 3), ab };
  factorsBySize.set(key, made);
  return made;
}

interface Case {
  size: readonly [m: number, n: number, k: number];
  transposeA: boolean;
  transposeB: boolean;
  distributions: readonly [a: Distribution, b: Distribution, d: Distribution];
  orders: readonly [a: "C" | "F", b: "C" | "F", d: "C" | "F"];
  dtype?: DType;
  /** How C takes part. */
  addend?: "none" | "copied" | "inplace";
  options?: MatmulOptions;
}

/** Run one product, and reset it to other operands, and compare both. */
function check(runtime: Runtime, description: Case): void {
  const { size: [m, n, k], transposeA, transposeB, distributions, orders, dtype = "float64" } = description;
  const { addend = "none", options = {} } = description;
  const { a, b, c, ab } = factors(m, n, k, transposeA, transposeB);
  const [left, right, addition] = [a, b, c].map((matrix, i) =>
    distribute(runtime, matrix, { distribution: distributions[i], dtype, order: orders[i] })
  );
  const message = `${m} x ${n} x ${k}, ${transposeA ? "T" : "N"}${transposeB ? "T" : "N"}, ${
    distributions.map(String).join(" ")
  }, ${orders.join("")}, ${dtype}, C ${addend}`;
  const [alpha, beta] = addend === "none" ? [2, 0] : [3, -2];
  using object = new Matmul(left, right, {
    alpha,
    qualifiers: { a: { isTranspose: transposeA }, b: { isTranspose: transposeB } },
    distribution: distributions[2],
    ...addend === "none" ? { order: orders[2] } : { c: addition, beta, inplace: addend === "inplace" },
    ...options,
  });
  object.plan();
  const d = object.execute();
  assertEquals([d.dtype, d.order, String(d.distribution)], [dtype, orders[2], String(distributions[2])], message);
  assertEquals(d === addition, addend === "inplace", message);
  assertMatrix(d, combine(alpha, ab, beta, addend === "none" ? null : c), message);
  if (addend === "copied") assertMatrix(addition, c, `${message}: c after the product`);

  // Other operands through the same plan: B twice as large, another alpha.
  const doubled = combine(2, b, 0, null);
  const other = distribute(runtime, doubled, { distribution: distributions[1], dtype, order: orders[1] });
  const fresh = distribute(runtime, c, { distribution: distributions[2], dtype, order: orders[2] });
  object.resetOperands({ b: other, alpha: 1, ...addend === "none" ? {} : { c: fresh } });
  assertMatrix(object.execute(), combine(2, ab, beta, addend === "none" ? null : c), `${message}: after the reset`);
}

clusterTest("uniform slabs: all sizes, transposes and slabs", { timeoutSeconds: 120 }, (runtime) => {
  const cycle = new Cycle();
  for (const size of SIZES) {
    for (const transposeA of BOTH) {
      for (const transposeB of BOTH) {
        for (let bits = 0; bits < 8; bits++) {
          if (!isSampled(runtime, cycle.next())) continue;
          const slabs = [0, 1, 2].map((i) => SLABS[bits >> i & 1]);
          const asGrids = cycle.pick([false, true, false]);
          const distributions = slabs.map((slab) => {
            if (!asGrids) return slab;
            const shape = slab === Slab.X ? [runtime.size, 1] : [1, runtime.size];
            return new BlockNonCyclic(new ProcessGrid({ shape }));
          });
          check(runtime, {
            size,
            transposeA,
            transposeB,
            distributions: distributions as unknown as Case["distributions"],
            orders: [cycle.pick(ORDERS), cycle.pick(ORDERS), cycle.pick(ORDERS)],
            dtype: cycle.pick(["float64", "float32"] as const),
            addend: cycle.pick(["none", "copied", "inplace"] as const),
          });
        }
      }
    }
  }
});

clusterTest("all_reduce and Replicated leave all of D on every rank", (runtime) => {
  const cycle = new Cycle();
  for (const transposeA of BOTH) {
    for (const transposeB of BOTH) {
      for (const [slabA, slabB] of [[Slab.X, Slab.X], [Slab.X, Slab.Y], [Slab.Y, Slab.X], [Slab.Y, Slab.Y]]) {
        cycle.next();
        check(runtime, {
          size: cycle.pick([...SIZES, ...ODD_SIZES]),
          transposeA,
          transposeB,
          distributions: [slabA, slabB, Replicated],
          orders: [cycle.pick(ORDERS), cycle.pick(ORDERS), cycle.pick(ORDERS)],
          addend: cycle.pick(["none", "copied", "inplace"] as const),
          options: cycle.pick([{}, { epilog: "all_reduce" } as const]),
        });
      }
    }
  }
});

clusterTest("2-D blocks on all grids in both layouts", { timeoutSeconds: 120 }, (runtime) => {
  const cycle = new Cycle();
  for (const shape of gridShapes(runtime.size)) {
    for (const layout of ["row-major", "column-major"] as const) {
      const grid = new ProcessGrid({ shape, layout });
      for (const isCyclic of BOTH) {
        for (const transposeA of BOTH) {
          for (const transposeB of BOTH) {
            for (const addend of ["none", "copied", "inplace"] as const) {
              if (!isSampled(runtime, cycle.next())) continue;
              const blocks = isCyclic ? new BlockCyclic(grid, [4, 4]) : new BlockNonCyclic(grid);
              check(runtime, {
                size: cycle.pick(SIZES),
                transposeA,
                transposeB,
                distributions: [blocks, blocks, blocks],
                orders: [cycle.pick(ORDERS), cycle.pick(ORDERS), cycle.pick(ORDERS)],
                dtype: cycle.pick(["float64", "float32"] as const),
                addend,
              });
            }
          }
        }
      }
    }
  }
});

/** Distributions of all kinds, some of them with empty ranks. */
function anyDistributions({ size }: Runtime, [rows, columns]: readonly [number, number]): Distribution[] {
  const shapes = gridShapes(size);
  const grid = new ProcessGrid({ shape: shapes[Math.floor(shapes.length / 2)], layout: "column-major" });
  const backwards = new ProcessGrid({
    shape: grid.shape,
    processes: Array.from({ length: size }, (_, i) => size - 1 - i),
  });
  const cut = Array.from({ length: size + 1 }, (_, i) => Math.min(rows, Math.ceil(rows * (i / size) ** 2)));
  const boxes = cut.slice(1).map((end, i) => [[cut[i], 0], [end, columns]] as const);
  return [
    Slab.X,
    Slab.Y,
    Replicated,
    new BlockNonCyclic(grid),
    new BlockCyclic(grid, [2, 3]),
    new BlockCyclic(grid, [3, 1], { firstProcess: [grid.shape[0] - 1, grid.shape[1] - 1] }),
    new BlockCyclic(backwards, [1, 2]),
    new BlockNonCyclic(new ProcessGrid({ shape: [1, 1] })),
    new Box(boxes),
  ];
}

clusterTest("uneven sizes, any distribution with any other", { timeoutSeconds: 120 }, (runtime) => {
  const cycle = new Cycle();
  for (const size of ODD_SIZES) {
    const [m, n, k] = size;
    for (let kind = 0; kind < 9; kind++) {
      for (const shift of [0, 1, 3, 5]) {
        if (!isSampled(runtime, cycle.next())) continue;
        const [transposeA, transposeB] = [cycle.pick(BOTH), cycle.pick(BOTH)];
        const distributions = [
          anyDistributions(runtime, transposeA ? [k, m] : [m, k])[kind],
          anyDistributions(runtime, transposeB ? [n, k] : [k, n])[(kind + shift) % 9],
          anyDistributions(runtime, [m, n])[(kind + 2 * shift + 1) % 9],
        ] as const;
        check(runtime, {
          size,
          transposeA,
          transposeB,
          distributions,
          orders: [cycle.pick(ORDERS), cycle.pick(ORDERS), cycle.pick(ORDERS)],
          addend: cycle.pick(["none", "copied", "inplace"] as const),
        });
      }
    }
  }
});

clusterTest("conjugates, with and without transposition, in every memory order", (runtime) => {
  const [m, n, k] = [7, 6, 5];
  const cycle = new Cycle();
  for (let bits = 0; bits < 16; bits++) {
    const flag = (bit: number) => (bits >> bit & 1) === 1;
    const qualifiers = {
      a: { isTranspose: flag(0), isConjugate: flag(1) },
      b: { isTranspose: flag(2), isConjugate: flag(3) },
    };
    const a = flag(0) ? integers(k, m, 1, true) : integers(m, k, 1, true);
    const b = flag(2) ? integers(n, k, 2, true) : integers(k, n, 2, true);
    const c = integers(m, n, 3, true);
    const packed = matrixQualifiers(3);
    Object.assign(packed[0], qualifiers.a);
    Object.assign(packed[1], qualifiers.b);
    const [alpha, beta]: Complex[] = [[2, -1], [0, 3]];
    const expected = combine(alpha, product(apply(a, qualifiers.a), apply(b, qualifiers.b)), beta, c);
    for (const dtype of ["complex64", "complex128"] as const) {
      for (const [order, usesPacked] of [["C", true], ["F", false]] as const) {
        cycle.next();
        const place = (matrix: Dense) =>
          distribute(runtime, matrix, { distribution: cycle.pick(SLABS), dtype, order: cycle.pick(ORDERS) });
        const d = matmul(place(a), place(b), {
          c: distribute(runtime, c, { distribution: Slab.X, dtype, order }),
          alpha,
          beta,
          qualifiers: usesPacked ? packed : qualifiers,
        });
        assertMatrix(d, expected, `conjugates ${bits}, ${dtype}, ${order}`);
        assertEquals(d.order, order);
      }
    }
  }
});

clusterTest(
  "dtypes: every compute type and result type, exact in small integers",
  { timeoutSeconds: 120 },
  (runtime) => {
    const fast = [
      "float32_fast_float16",
      "float32_fast_bfloat16",
      "float32_fast_tf32",
      "float32_emulated_16bfx9",
    ] as const;
    const eight = ["float8_e4m3", "float16", "bfloat16", "float32"] as const;
    const table: readonly [DType, DType, readonly ComputeType[], readonly DType[]][] = [
      ["float16", "float16", ["float32", "float32_pedantic"], ["float16", "float32"]],
      ["float16", "float16", ["float16", "float16_pedantic"], ["float16"]],
      ["bfloat16", "bfloat16", ["float32", "float32_pedantic"], ["bfloat16", "float32"]],
      ["float32", "float32", ["float32", "float32_pedantic", ...fast], ["float32"]],
      ["complex64", "complex64", ["float32", "float32_pedantic", ...fast], ["complex64"]],
      ["float64", "float64", ["float64", "float64_pedantic", "float64_emulated_fixedpoint"], ["float64"]],
      ["complex128", "complex128", ["float64", "float64_pedantic", "float64_emulated_fixedpoint"], ["complex128"]],
      ["float8_e4m3", "float8_e4m3", ["float32"], eight],
      ["float8_e4m3", "float8_e5m2", ["float32"], [...eight, "float8_e5m2"]],
      ["float8_e5m2", "float8_e4m3", ["float32"], [...eight, "float8_e5m2"]],
    ];
    const [m, n, k] = [48, 32, 16];
    const cycle = new Cycle();
    for (const [typeA, typeB, computeTypes, results] of table) {
      for (const computeType of computeTypes) {
        for (const resultType of results) {
          for (const isGather of BOTH) {
            cycle.next();
            const { a, b, c, ab } = factors(m, n, k, true, false, ternary);
            const [slab, result] = isGather ? [Slab.Y, Slab.X] : [Slab.X, Slab.Y];
            const isQuantized = (dtype: DType) => dtype.startsWith("float8");
            const addendType = isQuantized(resultType) ? cycle.pick(["float16", "bfloat16"] as const) : resultType;
            const inplace = !isQuantized(resultType) && cycle.pick(BOTH);
            const scales = isQuantized(typeA) ? { a: 2, b: [0.5] as const } : undefined;
            using object = new Matmul(
              distribute(runtime, a, { distribution: slab, dtype: typeA, order: cycle.pick(ORDERS) }),
              distribute(runtime, b, { distribution: slab, dtype: typeB, order: cycle.pick(ORDERS) }),
              {
                c: distribute(runtime, c, { distribution: result, dtype: addendType, order: cycle.pick(ORDERS) }),
                beta: 2,
                qualifiers: { a: { isTranspose: true } },
                computeType,
                resultType,
                inplace,
                ...scales && {
                  quantizationScales: { ...scales, ...isQuantized(resultType) && { d: Float32Array.of(0.5) } },
                },
              },
            );
            object.plan();
            const d = object.execute();
            const expected = combine(1, ab, 2, c);
            const scaled = combine(isQuantized(resultType) ? 0.5 : 1, expected, 0, null);
            const message = `${typeA} x ${typeB} -> ${resultType}, ${computeType}`;
            assertEquals(d.dtype, resultType);
            assertMatrix(d, scaled, message);
            const isFull = ["float32", "float32_pedantic", "float64", "float64_pedantic"].includes(computeType);
            const runsDifferently = runtime.device.kind === "cpu" && !isFull;
            assertEquals(object.algorithm.notes.some((note) => note.includes(computeType)), runsDifferently, message);
          }
        }
      }
    }
  },
);

clusterTest("random float matrices agree with plain loops on gathered data", (runtime) => {
  const [m, n, k] = [61, 47, 83];
  const tolerances = {
    float32: 1e-5,
    float64: 1e-13,
    complex64: 1e-5,
    complex128: 1e-13,
    float16: 2e-3,
    bfloat16: 2e-2,
  };
  for (const [dtype, tolerance] of Object.entries(tolerances) as [DType, number][]) {
    const options = { dtype, low: -1, high: 1 };
    const a = DistributedArray.random(runtime, [k, m], Slab.Y, { ...options, seed: 1 });
    const b = DistributedArray.random(runtime, [k, n], Slab.X, { ...options, seed: 2, order: "F" });
    const gathered = (array: DistributedArray): Dense => {
      const numbers = numbersOf(array);
      const { parts } = dtypeInfo(dtype);
      const [rows, columns] = array.shape;
      return dense(rows, columns, (i, j) => {
        const at = (i * columns + j) * parts;
        return [numbers[at], parts === 2 ? numbers[at + 1] : 0];
      });
    };
    const expected = product(apply(gathered(a), { isTranspose: true }), gathered(b));
    assertMatrix(matmul(a, b, { qualifiers: { a: { isTranspose: true } } }), expected, dtype, tolerance * Math.sqrt(k));
  }
});

clusterTest("narrow results round once, overflow as their types do, and keep NaN", (runtime) => {
  const row = (dtype: DType, ...values: number[]) =>
    distribute(runtime, dense(1, values.length, (_, j) => [values[j], 0]), { distribution: Replicated, dtype });
  const column = (dtype: DType, ...values: number[]) =>
    distribute(runtime, dense(values.length, 1, (i) => [values[i], 0]), { distribution: Replicated, dtype });
  const one = (d: DistributedArray) => numbersOf(d)[0];
  assertEquals(one(matmul(row("float16", 300, 300), column("float16", 300, 300))), Infinity);
  assertEquals(one(matmul(row("float16", NaN), column("float16", 0))), NaN);
  // 2048 + 1 + 1 is 2050 in float32; step by step in float16 it would stay 2048.
  assertEquals(one(matmul(row("float16", 2048, 1, 1), column("float16", 1, 1, 1))), 2050);
  // 2048 + 1 lies between two float16: ties go to even.
  assertEquals(one(matmul(row("float16", 2048, 1), column("float16", 1, 1))), 2048);
  assertEquals(one(matmul(row("float16", 2048, 3), column("float16", 1, 1))), 2052);
  const scales = { quantizationScales: { a: 1, b: 1, d: 1 } };
  const large = [row("float8_e4m3", 448), column("float8_e4m3", 448)] as const;
  assertEquals(one(matmul(...large, { ...scales, resultType: "float8_e4m3" })), 448);
  const mixed = [row("float8_e4m3", 448), column("float8_e5m2", 57344)] as const;
  assertEquals(one(matmul(...mixed, { ...scales, resultType: "float8_e5m2" })), 57344);
  const nan = [row("float8_e4m3", NaN), column("float8_e4m3", 1)] as const;
  assertEquals(one(matmul(...nan, { ...scales, resultType: "float8_e4m3" })), NaN);
});

clusterTest("resultAmax is the maximum of all ranks, before scaling and rounding", (runtime) => {
  const [m, n, k] = [9, 8, 7];
  const { a, b, ab } = factors(m, n, k, false, false);
  const largest = ab.re.reduce((max, x) => Math.max(max, Math.abs(x)), 0);
  for (const slab of SLABS) {
    const dtype = "float8_e4m3";
    const place = (matrix: Dense) => distribute(runtime, matrix, { distribution: slab, dtype });
    using object = new Matmul(place(a), place(b), {
      quantizationScales: { a: 4, b: 0.5, d: 0.25 },
      resultType: dtype,
      resultAmax: true,
    });
    object.plan();
    object.execute();
    assertEquals(object.auxiliary, { resultAmax: 2 * largest });
  }
});

clusterTest("beta 0 ignores C, even NaN", (runtime) => {
  const { a, b, ab } = factors(8, 6, 4, false, false);
  for (const distribution of [...SLABS, Replicated]) {
    const c = DistributedArray.full(runtime, [8, 6], distribution, NaN);
    const place = (matrix: Dense) => distribute(runtime, matrix, { distribution: Slab.X });
    assertMatrix(matmul(place(a), place(b), { c, beta: 0 }), ab, String(distribution));
    assertStrictEquals(matmul(place(a), place(b), { c, beta: 0, inplace: true }), c);
    assertMatrix(c, ab, `${distribution} in place`);
  }
});

clusterTest("alpha 0 leaves beta C", (runtime) => {
  const { a, b, c, ab } = factors(8, 8, 8, false, false);
  for (const beta of [1, -1, 0]) {
    for (const [inA, inB, inD] of [[Slab.X, Slab.Y, Slab.X], [Slab.Y, Slab.X, Slab.Y], [Slab.Y, Slab.X, Replicated]]) {
      for (const inplace of [false, true]) {
        const place = (matrix: Dense, distribution: Distribution) => distribute(runtime, matrix, { distribution });
        const d = matmul(place(a, inA), place(b, inB), { c: place(c, inD), alpha: 0, beta, inplace });
        assertMatrix(d, combine(0, ab, beta, c), `${beta} ${inD} ${inplace}`);
      }
    }
  }
});

clusterTest("one block larger than a 32-bit integer covers the matrix", (runtime) => {
  const huge = new BlockCyclic(new ProcessGrid({ shape: [runtime.size, 1] }), [4e9, 4e9]);
  const [a, b] = [dense(5, 3, (i, j) => [i - j, 0]), dense(3, 4, (i, j) => [i + 2 * j, 0])];
  const operands = [a, b].map((matrix) => distribute(runtime, matrix, { distribution: huge }));
  using d = matmul(operands[0], operands[1], { distribution: huge });
  assertMatrix(d, product(a, b), "huge blocks");
});

clusterTest("matrices with a padded leading dimension are taken as they are", (runtime) => {
  const { a, b, c, ab } = factors(12, 8, 10, false, false);
  const padded = (matrix: Dense, slab: Slab, order: "C" | "F") => {
    const dense = distribute(runtime, matrix, { distribution: slab, order }).local;
    const [rows, columns] = dense.shape;
    const strides = order === "C" ? [columns + 3, 1] : [1, rows + 2];
    const data = new Float64Array(strides[0] * Math.max(1, rows) + strides[1] * Math.max(1, columns)).fill(NaN);
    const local = new LocalArray({ data, dtype: "float64", shape: dense.shape, strides });
    local.set(dense);
    return DistributedArray.fromLocal(runtime, local, slab, { order });
  };
  for (const [orderA, orderB, orderC] of [["C", "F", "C"], ["F", "C", "F"], ["F", "F", "C"]] as const) {
    for (const [slabA, slabB] of [[Slab.X, Slab.Y], [Slab.Y, Slab.X]]) {
      const addend = padded(c, Slab.X, orderC);
      const d = matmul(padded(a, slabA, orderA), padded(b, slabB, orderB), { c: addend, beta: 1, inplace: true });
      assertStrictEquals(d, addend);
      assertMatrix(d, combine(1, ab, 1, c), `${orderA}${orderB}${orderC} ${slabA} ${slabB}`);
    }
  }
});

clusterTest("a transposed view and a slice are operands like others", (runtime) => {
  const { a, b, ab } = factors(12, 8, 10, false, false);
  const transposed = distribute(runtime, apply(a, { isTranspose: true }), { distribution: Slab.Y }).transpose();
  assertMatrix(matmul(transposed, distribute(runtime, b, { distribution: Slab.Y })), ab, "transpose()");
});

clusterTest("the product of two parts of an array is written into a third part", (runtime) => {
  const { a, b, c, ab } = factors(8, 8, 8, false, false);
  for (const distribution of [...SLABS, Replicated]) {
    const whole = DistributedArray.zeros(runtime, [8, 24], distribution);
    const parts = [a, b, c].map((matrix, i) => {
      const part = whole.slice([[0, 8], [8 * i, 8 * i + 8]]);
      part.local.set(distribute(runtime, matrix, { distribution: part.distribution }).local);
      return part;
    });
    const d = matmul(parts[0], parts[1], { c: parts[2], beta: 1, inplace: true });
    assertMatrix(d, combine(1, ab, 1, c), `${distribution}`);
    assertMatrix(parts[0], a, `${distribution}, a`);
  }
});

clusterTest("the global shape is inferred from local parts, on all grids and blocks", (runtime) => {
  const extent = 64;
  const { a, ab } = factors(extent, extent, extent, false, false);
  const { b } = factors(extent, extent, extent, false, false);
  const right = distribute(runtime, b, { distribution: Slab.Y });
  for (const shape of gridShapes(runtime.size)) {
    for (const layout of ["row-major", "column-major"] as const) {
      const grid = new ProcessGrid({ shape, layout });
      const sizes = [[1, 1], [2, 2], [3, 3], [extent, extent], [5, 3]];
      const all = [...sizes.map((size) => new BlockCyclic(grid, size)), new BlockNonCyclic(grid)];
      for (const distribution of all) {
        const { local } = distribute(runtime, a, { distribution });
        const left = DistributedArray.fromLocal(runtime, local, distribution);
        assertEquals([...left.shape], [extent, extent], `${distribution}`);
        assertMatrix(matmul(left, right), ab, `${distribution}`);
      }
    }
  }
});

clusterTest("D's distribution, order and dtype are inferred", (runtime) => {
  const { a, b, c, ab } = factors(24, 12, 36, false, false);
  const place = (matrix: Dense, distribution: Distribution, order: "C" | "F" = "C") =>
    distribute(runtime, matrix, { distribution, order, dtype: "float32" });
  const inferred = matmul(place(a, Slab.X), place(b, Slab.Y));
  // cuBLASMp gathers without a copy if D is column-major.
  const order = runtime.device.kind === "gpu" && runtime.size > 1 ? "F" : "C";
  assertEquals([String(inferred.distribution), inferred.order, inferred.dtype], ["Slab.X", order, "float32"]);
  assertMatrix(inferred, ab, "gather");
  const reduced = matmul(place(a, Slab.Y, "F"), place(b, Slab.X, "F"));
  assertEquals([String(reduced.distribution), reduced.order], ["Slab.Y", "F"]);
  assertMatrix(reduced, ab, "reduce");
  const replicated = matmul(place(a, Replicated), place(b, Replicated));
  assertEquals(replicated.distribution.isReplicated, true);
  assertMatrix(replicated, ab, "replicated");
  const withC = matmul(place(a, Slab.X), place(b, Slab.X), { c: place(c, Slab.Y, "F"), beta: 1 });
  assertEquals([String(withC.distribution), withC.order], ["Slab.Y", "F"]);
  const grid = new ProcessGrid({ shape: gridShapes(runtime.size).at(-1)! });
  const blocks = matmul(place(a, new BlockCyclic(grid, [4, 2])), place(b, new BlockCyclic(grid, [2, 3])));
  assertMatrix(blocks, ab, "blocks");
  assertMatrix(
    matmul(place(a, Slab.X), place(b, Slab.Y), { c: place(c, Slab.Y), beta: 1, distribution: Slab.X }),
    combine(1, ab, 1, c),
    "C elsewhere",
  );
});

clusterTest("a sequence of planned products: A^4", (runtime) => {
  for (const extent of [32, 64, 48]) {
    const a = dense(extent, extent, (i, j) => [(i + 2 * j) % 3 === 0 ? 1 : 0, 0]);
    const left = distribute(runtime, a, { distribution: Slab.X, dtype: "float64" });
    const right = distribute(runtime, a, { distribution: Slab.Y, dtype: "float64" });
    using first = new Matmul(left, right, { distribution: Slab.X });
    first.plan();
    const a2 = first.execute();
    using second = new Matmul(a2, right, { distribution: Slab.X });
    second.plan();
    const a3 = second.execute();
    using third = new Matmul(a3, right, { distribution: Slab.X });
    third.plan();
    const power = product(product(product(a, a), a), a);
    assertMatrix(third.execute(), power, `A^4 of ${extent}`);
    // Once more with other data through the same plans.
    const doubled = distribute(runtime, combine(2, a, 0, null), { distribution: Slab.X, dtype: "float64" });
    first.resetOperands({ a: doubled });
    second.resetOperands({ a: first.execute() });
    third.resetOperandsUnchecked({ a: second.execute(), alpha: 0.5 });
    assertMatrix(third.execute(), power, `A^4 of ${extent} after resets`);
  }
});

clusterTest("planning again replaces the plan, its algorithm and its epilog", (runtime) => {
  const { a, b, ab } = factors(12, 8, 6, false, false);
  const place = (matrix: Dense, slab: Slab) => distribute(runtime, matrix, { distribution: slab });
  const bias = new Float64Array(Slab.X.bind([12, 8], runtime.size).localShape(runtime.rank)[0]).fill(5);
  using object = new Matmul(place(a, Slab.X), place(b, Slab.Y), { distribution: Slab.X });
  const relu = (matrix: Dense) => dense(12, 8, (i, j) => [Math.max(0, matrix.re[i * 8 + j]), 0]);
  object.plan({ epilog: "relu_aux" });
  assertMatrix(object.execute(), relu(ab), "relu");
  assert(object.auxiliary.reluAux);
  object.plan({ epilog: "bias", epilogInputs: { bias } });
  assertMatrix(object.execute(), dense(12, 8, (i, j) => [ab.re[i * 8 + j] + 5, 0]), "bias");
  assertEquals(object.auxiliary, {});
  object.plan();
  assertMatrix(object.execute(), ab, "no epilog");
  const algorithm = runtime.device.kind === "gpu" ? "no_overlap" : "pgemm";
  object.plan({ algorithm });
  assertMatrix(object.execute(), ab, algorithm);
  assertEquals(object.algorithm.algorithm, algorithm);
});

clusterTest("every algorithm that is not refused gives the same; autotune takes the fastest", (runtime) => {
  const { a, b, c, ab } = factors(24, 20, 16, false, true);
  const place = (matrix: Dense, slab: Slab) => distribute(runtime, matrix, { distribution: slab });
  const addend = place(c, Slab.X);
  const lines: string[] = [];
  const note = (line: string) => void lines.push(line);
  using object = new Matmul(place(a, Slab.X), place(b, Slab.X), {
    c: addend,
    beta: 1,
    inplace: true,
    qualifiers: { b: { isTranspose: true } },
    logger: { debug: note, info: note, warn: note },
  });
  object.plan({ communicationSmCount: 4 });
  const times = object.autotune({ repetitions: 2 });
  assert(
    times.length > 0 && times.every(({ seconds }, i) => seconds > 0 && (i === 0 || seconds >= times[i - 1].seconds)),
  );
  assertEquals(object.algorithm.algorithm, times[0].algorithm);
  const notes = object.algorithm.notes.filter((line) => line.startsWith("communicationSmCount"));
  assertEquals(notes.length, runtime.device.kind === "cpu" ? 1 : 0, "the options of plan count");
  assertMatrix(addend, c, "autotune leaves c alone");
  assertMatrix(object.execute(), combine(1, ab, 1, c), "after autotune");
  for (const { algorithm } of times) {
    object.resetOperands({ c: place(c, Slab.X) });
    object.plan({ algorithm });
    assertMatrix(object.execute(), combine(1, ab, 1, c), algorithm);
    assert(object.explain().includes(algorithm));
  }
  for (const start of ["planned ", "autotune: ", "executed in ", "D = 1 op(A) op(B) + 1 C"]) {
    assert(lines.some((line) => line.startsWith(start)), `a line that starts with "${start}"`);
  }
});

clusterTest("operands can be released and given again", (runtime) => {
  const { a, b, ab } = factors(12, 8, 6, false, false);
  const place = (matrix: Dense, slab: Slab) => distribute(runtime, matrix, { distribution: slab });
  using object = new Matmul(place(a, Slab.X), place(b, Slab.Y), { alpha: 2 });
  object.plan();
  object.releaseOperands();
  object.releaseOperands();
  object.resetOperands({ a: place(a, Slab.X), b: place(b, Slab.Y) });
  assertMatrix(object.execute(), combine(2, ab, 0, null), "after the release");
  object.free();
  object.free();
  assertEquals(object.isFreed, true);
});

clusterTest("null, none and default are as good as leaving c and epilog out", (runtime) => {
  const { a, b, ab } = factors(12, 8, 6, false, false);
  const place = (matrix: Dense, slab: Slab) => distribute(runtime, matrix, { distribution: slab });
  const [left, right] = [place(a, Slab.X), place(b, Slab.Y)];
  for (const epilog of [null, "none", "default"] as const) {
    assertMatrix(matmul(left, right, { c: null, epilog }), ab, String(epilog));
  }
  using object = new Matmul(left, right, { epilog: "relu" });
  object.plan({ epilog: "none" });
  assertMatrix(object.execute(), ab, "planned again");
});

clusterTest("an option of plan that is undefined stays as the constructor was told", (runtime) => {
  const a = DistributedArray.full(runtime, [8, 8], Slab.X, 1);
  const algorithm = runtime.device.kind === "cpu" ? "pgemm" : "no_overlap";
  using object = new Matmul(a, a, { alpha: -1, epilog: "relu", algorithm });
  object.plan();
  const told = object.algorithm.algorithm;
  object.plan({ epilog: undefined, algorithm: undefined } as unknown as PlanOptions);
  assertEquals([object.execute().sum(), object.algorithm.algorithm], [0, told]);
});

clusterTest("the order of c wins, and a note says so", (runtime) => {
  const { a, b, c, ab } = factors(12, 8, 6, false, false);
  const place = (matrix: Dense, order: "C" | "F") => distribute(runtime, matrix, { distribution: Slab.X, order });
  using object = new Matmul(place(a, "F"), place(b, "F"), { c: place(c, "C"), beta: 2, order: "F" });
  object.plan();
  const d = object.execute();
  assertEquals(d.order, "C");
  assertMatrix(d, combine(1, ab, 2, c), "in the order of c");
  assert(object.algorithm.notes.includes('D has the memory order of c, "C", not "F"'));
});

clusterTest("a Matmul tells what it is", (runtime) => {
  const options = { dtype: "float32" } as const;
  const a = DistributedArray.zeros(runtime, [24, 16], Slab.Y, options);
  const b = DistributedArray.zeros(runtime, [24, 8], Slab.Y, options);
  const object = new Matmul(a, b, { qualifiers: { a: { isTranspose: true } }, distribution: Slab.X });
  assertEquals(String(object), "Matmul(16 x 8 x 24, float32, not planned)");
  object.plan();
  assertEquals(String(object), `Matmul(16 x 8 x 24, float32, ${object.algorithm.algorithm})`);
  object.free();
  assertEquals(String(object), "Matmul(16 x 8 x 24, float32, freed)");
  assertThrows(() => object.explain(), StateError, "Matmul.explain() was used after free()");
});

clusterTest("explain() and algorithm tell what happens", (runtime) => {
  const { a, b } = factors(16, 8, 24, true, false);
  const place = (matrix: Dense) => distribute(runtime, matrix, { distribution: Slab.Y, dtype: "float32" });
  const name = runtime.device.kind === "gpu" ? "cublasmp" : "scalapack";
  using object = new Matmul(place(a), place(b), {
    engine: name,
    alpha: 0.5,
    qualifiers: { a: { isTranspose: true } },
    distribution: Slab.X,
    communicationSmCount: 4,
  });
  assert(object.explain().includes("not planned yet"));
  object.plan();
  const text = object.explain();
  for (
    const part of ["0.5 op(A) op(B)", "A 24 x 16, float32, Slab.Y", "transposed", `engine ${name}`, "on this rank"]
  ) {
    assert(text.includes(part), `${part} in ${text}`);
  }
  const { engine, bytesMoved, notes } = object.algorithm;
  assertEquals(engine, name);
  assertEquals(bytesMoved > 0, runtime.size > 1);
  const isUnused = runtime.device.kind === "cpu";
  assertEquals(notes.some((note) => note.includes("communicationSmCount")), isUnused);
  if (isUnused) {
    assertEquals(object.communication.total, bytesMoved);
    assert(text.includes(`this rank sends ${object.communication.sent(runtime.rank)} bytes`), text);
    assertMatch(
      text,
      /\n {2}predicted [\d.]+ us, \d+ % of the limit \([\d.]+ us\), at [\d.]+ GFLOP\/s and [\d.]+ GB\/s/,
    );
    object.autotune({ repetitions: 1 });
    assert(object.explain().includes("\nautotune measured "), object.explain());
    object.plan();
    assert(!object.explain().includes("autotune measured"), object.explain());
  } else {
    assertThrows(() => object.communication, ConfigurationError, "engine cublasmp does not tell which rank sends");
    assertMatch(text, /\n {2}predicted [\d.]+ us, \d+ % of the limit \([\d.]+ us\), at \d+ TFLOP\/s/);
    const share = Math.round(bytesMoved / runtime.size);
    assertEquals(text.includes(`\n  ${share} of them from each rank on average`), bytesMoved > 0);
  }
});

clusterTest("explain() tells what follows the product, and by what its matrices are scaled", (runtime) => {
  const { a, b } = factors(16, 32, 16, false, false);
  const place = (matrix: Dense, distribution: Distribution, dtype: DType, order: "C" | "F") =>
    distribute(runtime, matrix, { distribution, dtype, order });
  using c = place(factors(16, 32, 32, false, false).ab, Slab.X, "float32", "C");
  const given = [place(a, Slab.X, "float32", "C"), place(b, Slab.Y, "float32", "C")] as const;
  using object = new Matmul(...given, { c, beta: 2, epilog: "relu" });
  assertStringIncludes(object.explain(), "D = relu(1 op(A) op(B) + 2 C), summed in float32");
  object.plan();
  assertStringIncludes(object.explain(), "D = relu(1 op(A) op(B) + 2 C), summed in float32");
  object.plan({ epilog: null });
  assertStringIncludes(object.explain(), "D = 1 op(A) op(B) + 2 C, summed in float32");
  const narrow = [place(a, Slab.X, "float8_e4m3", "C"), place(b, Slab.Y, "float8_e4m3", "F")] as const;
  using scaled = new Matmul(narrow[0], narrow[1], { resultType: "float32", quantizationScales: { a: 2, b: 0.5 } });
  assertMatch(scaled.explain(), /\n {2}A 16 x 16, float8_e4m3, .*, order C, scaled by 2\n/);
  assertMatch(scaled.explain(), /\n {2}B 16 x 32, float8_e4m3, .*, order F, scaled by 0.5\n/);
  scaled.resetOperands({ quantizationScales: { b: 4 } });
  assertMatch(scaled.explain(), /, order F, scaled by 4\n/);
});

hostTest("explain() tells what p?gemm sends at least, and no number of what it does not tell", (runtime) => {
  const { size } = runtime;
  const grid = new ProcessGrid({ shape: [1, size], layout: "row-major" });
  const blocks = new BlockCyclic(grid, [2, 2]);
  using a = DistributedArray.full(runtime, [16, 16], blocks, 1);
  using rows = DistributedArray.full(runtime, [16, 16], Slab.X, 1);
  using object = new Matmul(a, a, { distribution: blocks, algorithm: "pgemm" });
  object.plan();
  const text = object.explain();
  const { bytesMoved, libraryBytes } = object.algorithm;
  const least = 8 * 256 * (size - 1);
  assertEquals([bytesMoved, libraryBytes], [0, size > 1 ? least : undefined]);
  assertStringIncludes(text, `${size > 1 ? `at least ${least}` : ", 0"} bytes between ranks an execution`);
  assertEquals(text.includes("this rank sends 0 bytes"), size === 1, text);
  if (size === 1) return;
  assertStringIncludes(text, `without what p?gemm sends, at least ${least} bytes in all`);
  assertStringIncludes(object.communication.toText(), `at least ${least} bytes in all`);
  using moving = new Matmul(rows, a, { distribution: blocks, algorithm: "pgemm" });
  moving.plan();
  const moved = moving.algorithm.bytesMoved;
  assert(moved > 0);
  const sent = moving.communication.sent(runtime.rank);
  assertStringIncludes(moving.explain(), `at least ${moved + moving.algorithm.libraryBytes!} bytes between ranks`);
  assertStringIncludes(moving.explain(), `\n  of the rest this rank sends ${sent} bytes`);
});

clusterTest("one call of matmul agrees once, its steps apart one time each", (runtime) => {
  const { a, b, ab } = factors(8, 8, 8, false, false);
  const [left, right] = [a, b].map((matrix) => distribute(runtime, matrix, { distribution: Slab.X }));
  let product!: DistributedArray;
  const once = () => void (product = matmul(left, right));
  const inSteps = () => {
    using object = new Matmul(left, right);
    object.plan();
    object.execute();
  };
  // The first time, a communicator is made for the products.
  once();
  // On GPUs each rank asks the library for its workspace, and all for the largest one.
  const ofLibrary = runtime.stream === null ? 0 : 1;
  const [one, inThree] = [agreements(runtime, once), agreements(runtime, inSteps)];
  if (runtime.size > 1) assertEquals([one, inThree], [1 + ofLibrary, 3 + ofLibrary]);
  assertMatrix(product, ab, "one call");
});

/** How often the ranks reduce something while a function runs, as each agreement does once. */
function agreements({ communicator }: Runtime, run: () => void): number {
  const { allReduce } = communicator;
  let count = 0;
  const value = (...given: Parameters<typeof allReduce>) => {
    count++;
    return Reflect.apply(allReduce, communicator, given);
  };
  Object.defineProperty(communicator, "allReduce", { configurable: true, value });
  try {
    run();
  } finally {
    Reflect.deleteProperty(communicator, "allReduce");
  }
  return count;
}
