/** Every epilog, for all kinds of results, memory orders and dtypes, against its formula on the whole product. */
import { assert, assertEquals } from "@std/assert";
import { DistributedArray } from "../../src/array/distributed_array.ts";
import { type DType, isNarrowFloat, type TypedArray } from "../../src/dtype/dtype.ts";
import { encode } from "../../src/dtype/narrow_floats.ts";
import { LocalArray } from "../../src/array/local_array.ts";
import { BlockCyclic, type Distribution, ProcessGrid, Replicated, Slab } from "../../src/distribution/mod.ts";
import { type EpilogName, Matmul, matmul, type MatmulOptions, reluAuxShape } from "../../src/linalg/mod.ts";
import { DistributionError, DTypeError, ShapeError } from "../../src/errors.ts";
import type { Runtime } from "../../src/runtime/runtime.ts";
import { assertThrowsEverywhere, clusterTest } from "../../src/testing/mod.ts";
import {
  apply,
  assertMatrix,
  combine,
  Cycle,
  type Dense,
  dense,
  distribute,
  gridShapes,
  held,
  integers,
  isSampled,
  product,
  ternary,
} from "./matmul_oracle.ts";
import { hostTest } from "../gpu/gpu_test_kit.ts";

const ORDERS = ["C", "F"] as const;
const DTYPES = ["float32", "float64", "float16", "bfloat16", "float8_e4m3"] as const;
/** How far a gelu may be off, for values of about 1: half a unit in the last place and some. */
const TOLERANCES: Partial<Record<DType, number>> = {
  float32: 1e-6,
  float64: 1e-14,
  float16: 1e-3,
  bfloat16: 8e-3,
  float8_e4m3: 7e-2,
};

const map = (matrix: Dense, f: (x: number, i: number, j: number) => number): Dense =>
  dense(matrix.rows, matrix.columns, (i, j) => [f(matrix.re[i * matrix.columns + j], i, j), 0]);

const gelu = (x: number) => x / (1 + Math.exp(-2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
const geluSlope = (x: number) => (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5;
const known = new Map<number, number>();
function geluErf(x: number): number {
  if (!known.has(x)) known.set(x, x / 2 * erfcByIntegral(-x / Math.SQRT2));
  return known.get(x)!;
}
const biasOf = (row: number) => row % 4 - 1;

/** 1 - erf(x) by Simpson's rule from x to where nothing is left. */
function erfcByIntegral(x: number): number {
  const steps = 20000;
  const width = (9 - Math.min(x, 8)) / steps;
  const f = (i: number) => Math.exp(-((x + i * width) ** 2));
  let sum = f(0) + f(steps);
  for (let i = 1; i < steps; i++) sum += (i % 2 ? 4 : 2) * f(i);
  return 2 / Math.sqrt(Math.PI) * sum * width / 3;
}

/** Numbers as a typed array of a dtype. */
function typed(dtype: DType, numbers: number[]): TypedArray {
  return isNarrowFloat(dtype) ? encode(dtype, Float32Array.from(numbers)) : new Float32Array(numbers);
}

/** A product with its distributions, and its epilog's input as this rank has it. */
class Setting {
  readonly m: number;
  readonly n: number;
  readonly ab: Dense;
  readonly rows: number[];
  readonly columns: number[];
  readonly distribution: Distribution;
  readonly opA: Dense;
  readonly opB: Dense;

  constructor(
    readonly runtime: Runtime,
    readonly name: string,
    readonly size: readonly [number, number, number],
    readonly dtype: DType,
    readonly places: readonly [Distribution, Distribution, Distribution],
    readonly orders: readonly ["C" | "F", "C" | "F", "C" | "F"],
    readonly isTransposed: readonly [boolean, boolean],
  ) {
    const [m, n, k] = size;
    [this.m, this.n] = [m, n];
    const kind = dtype === "float8_e4m3" ? ternary : integers;
    this.opA = kind(m, k, 1);
    this.opB = kind(k, n, 2);
    this.ab = product(this.opA, this.opB);
    this.distribution = places[2].bind([m, n], runtime.size);
    this.rows = held(this.distribution, runtime.rank, 0);
    this.columns = held(this.distribution, runtime.rank, 1);
  }

  /** The product, to be planned. */
  matmul(options: MatmulOptions): Matmul {
    const [transposeA, transposeB] = this.isTransposed;
    const place = (matrix: Dense, which: 0 | 1) => {
      const stored = apply(matrix, { isTranspose: this.isTransposed[which] });
      return distribute(this.runtime, stored, {
        distribution: this.places[which],
        dtype: this.dtype,
        order: this.orders[which],
      });
    };
    return new Matmul(place(this.opA, 0), place(this.opB, 1), {
      ...!options.inplace && { distribution: this.places[2] },
      ...!options.c && { order: this.orders[2] },
      qualifiers: { a: { isTranspose: transposeA }, b: { isTranspose: transposeB } },
      ...this.dtype === "float8_e4m3" && { quantizationScales: { a: 2, b: 0.5, d: 1 } },
      ...options,
    });
  }

  /** Multiply with an epilog; alpha scales integers to where gelu is curved. */
  run(options: MatmulOptions): { d: DistributedArray; auxiliary: Matmul["auxiliary"] } {
    using object = this.matmul(options);
    object.plan();
    const d = object.execute();
    return { d, auxiliary: object.auxiliary };
  }

  /** GPUs approximate tanh in hardware. */
  get tolerance(): number {
    return Math.max(TOLERANCES[this.dtype]!, this.runtime.device.kind === "gpu" ? 1e-3 : 0);
  }

  /** One value a local row of D, or a column. */
  bias(places: readonly number[] = this.rows): LocalArray {
    const dtype = this.dtype === "float8_e4m3" ? "float16" : this.dtype;
    const numbers = places.map(biasOf);
    const data = dtype === "float64" ? new Float64Array(numbers) : typed(dtype, numbers);
    return new LocalArray({ data, dtype, shape: [numbers.length] });
  }

  /** Compare one value for each local row. */
  assertRows(actual: LocalArray | undefined, expected: (row: number) => number, tolerance = 0): void {
    const numbers = actual!.toNumbers();
    assertEquals(numbers.length, this.rows.length, this.name);
    this.rows.forEach((row, i) => {
      if (Math.abs(numbers[i] - expected(row)) <= tolerance) return;
      throw new Error(`${this.name}: row ${row} is ${numbers[i]}, not ${expected(row)}`);
    });
  }

  at(matrix: Dense, i: number, j: number): number {
    return matrix.re[i * matrix.columns + j];
  }
}

/** Settings that cover all results (gather, reduce, blocks, also of slabs, replicated), orders, dtypes, transposes and sizes, empty ones too. */
function* settings(runtime: Runtime, dtypes: readonly DType[]): Generator<Setting> {
  const { size } = runtime;
  const grid = new ProcessGrid({ shape: gridShapes(size)[Math.floor(gridShapes(size).length / 2)] });
  const blocks = new BlockCyclic(grid, [3, 2]);
  const cycle = new Cycle();
  for (const dtype of dtypes) {
    for (const kind of ["gather", "reduce", "blocks", "moved", "replicated"] as const) {
      for (const order of ORDERS) {
        if (!isSampled(runtime, cycle.next())) continue;
        const isTransposed = [cycle.pick([false, true]), cycle.pick([true, false])] as const;
        const flip = (slab: Slab, which: 0 | 1) => isTransposed[which] ? slab === Slab.X ? Slab.Y : Slab.X : slab;
        const { X, Y } = Slab;
        const places = {
          gather: [flip(X, 0), flip(Y, 1), X],
          reduce: [flip(Y, 0), flip(X, 1), Y],
          blocks: [blocks, blocks, blocks],
          moved: [flip(X, 0), flip(X, 1), blocks],
          replicated: [flip(Y, 0), flip(X, 1), Replicated],
        }[kind] as unknown as Setting["places"];
        const orders = [cycle.pick(ORDERS), cycle.pick(ORDERS), order] as const;
        const shape = cycle.pick([[20, 12, 16], [9, 7, 5], [33, 4, 8]] as const);
        const empty = cycle.pick([[9, 7, 0], [0, 7, 5], [9, 0, 5], [0, 0, 0]] as const);
        for (const extents of [shape, empty]) {
          const name = `${kind}, ${dtype}, ${orders.join("")}, ${extents.join("x")}`;
          yield new Setting(runtime, name, extents, dtype, places, orders, isTransposed);
        }
      }
    }
  }
}

clusterTest("relu, bias and relu_bias", (runtime) => {
  for (const setting of settings(runtime, DTYPES)) {
    const { ab, name } = setting;
    const check = (epilog: EpilogName, f: (x: number, i: number) => number, options: MatmulOptions = {}) =>
      assertMatrix(setting.run({ epilog, ...options }).d, map(ab, f), `${epilog}, ${name}`);
    const epilogInputs = { bias: setting.bias() };
    check("relu", (x) => Math.max(0, x));
    check("bias", (x, i) => x + biasOf(i), { epilogInputs });
    check("relu_bias", (x, i) => Math.max(0, x + biasOf(i)), { epilogInputs });
  }
});

hostTest("epilogs in place reach a single row and a single column whose stride is 0", (runtime) => {
  const count = 2;
  const n = count * runtime.size;
  const mine = Array.from({ length: count }, (_, j) => count * runtime.rank + j);
  const c = (j: number) => j % 3 - 1;
  const vector = (list: number[]) =>
    new LocalArray({ data: Float64Array.from(list), dtype: "float64", shape: [list.length] });
  const zeros = (rows: number, columns: number) => DistributedArray.zeros(runtime, [rows, columns], Replicated);
  for (const isRow of [true, false]) {
    const [rows, columns] = isRow ? [1, n] : [n, 1];
    const ofRows = (j: number) => isRow ? biasOf(0) : biasOf(j);
    const ofColumns = (j: number) => isRow ? biasOf(j) : biasOf(0);
    const cases: [MatmulOptions, (x: number, j: number) => number][] = [
      [{ epilog: "relu" }, (x) => Math.max(0, x)],
      [{ epilog: "relu_aux" }, (x) => Math.max(0, x)],
      [{ epilog: "gelu" }, gelu],
      [{ epilog: "bias", epilogInputs: { bias: vector((isRow ? [0] : mine).map(biasOf)) } }, (x, j) => x + ofRows(j)],
      [
        { epilog: "column_bias", epilogInputs: { columnBias: vector((isRow ? mine : [0]).map(biasOf)) } },
        (x, j) => x + ofColumns(j),
      ],
    ];
    for (const [options, f] of cases) {
      for (const still of [0, 1]) {
        const data = Float64Array.from(mine, c);
        const [shape, strides] = isRow ? [[1, count], [still, 1]] : [[count, 1], [1, still]];
        const local = new LocalArray({ data, dtype: "float64", shape, strides });
        using d = DistributedArray.fromLocal(runtime, local, isRow ? Slab.Y : Slab.X);
        using object = new Matmul(zeros(rows, 3), zeros(3, columns), { c: d, beta: 1, inplace: true, ...options });
        object.plan();
        object.execute();
        const name = `${options.epilog}, strides ${strides}`;
        mine.forEach((j, i) => {
          const wanted = f(c(j), j);
          assert(Math.abs(data[i] - wanted) <= 1e-15, `${name}: element ${j} is ${data[i]}, not ${wanted}`);
        });
        if (options.epilog !== "relu_aux") continue;
        const mask = object.auxiliary.reluAux!.toTypedArray("F") as Uint8Array;
        const isSet = (i: number) => isRow ? mask[16 * i] & 1 : mask[i >> 3] >> (i & 7) & 1;
        assertEquals(mine.map((_, i) => isSet(i)), mine.map((j) => Number(c(j) > 0)), name);
      }
    }
  }
});

clusterTest("with alpha 0 epilogs are applied to beta C, also if alpha becomes 0 later", (runtime) => {
  for (const setting of settings(runtime, ["float32", "float64"])) {
    const { ab, dtype, name, places: [, , distribution], orders: [, , order] } = setting;
    const c = integers(ab.rows, ab.columns, 3);
    const place = () => distribute(runtime, c, { distribution, dtype, order });
    const check = (d: DistributedArray, alpha: number) =>
      assertMatrix(d, map(combine(alpha, ab, 1, c), (x) => Math.max(0, x)), `alpha ${alpha}, ${name}`);
    const options = { epilog: "relu", beta: 1 } as const;
    using object = setting.matmul({ ...options, c: place() });
    object.plan();
    for (const alpha of [1, 0, 1]) {
      object.resetOperands({ alpha });
      check(object.execute(), alpha);
    }
    check(setting.run({ ...options, alpha: 0, c: place(), inplace: true }).d, 0);
  }
});

clusterTest("gelu and gelu_bias", (runtime) => {
  for (const setting of settings(runtime, DTYPES)) {
    const { ab, name, tolerance } = setting;
    const epilogInputs = { bias: setting.bias() };
    const alpha = 0.25;
    assertMatrix(setting.run({ epilog: "gelu", alpha }).d, map(ab, (x) => gelu(alpha * x)), `gelu, ${name}`, tolerance);
    const biased = map(ab, (x, i) => gelu(alpha * x + biasOf(i)));
    assertMatrix(setting.run({ epilog: "gelu_bias", alpha, epilogInputs }).d, biased, `gelu_bias, ${name}`, tolerance);
  }
});

clusterTest("gelu_erf, silu, and biases of columns", (runtime) => {
  const alpha = 0.25;
  const forms = {
    "": (x: number) => x,
    relu: (x: number) => Math.max(0, x),
    gelu,
    gelu_erf: geluErf,
    silu: (x: number) => x / (1 + Math.exp(-x)),
  };
  const names: EpilogName[] = ["gelu_erf", "gelu_erf_bias", "silu", "silu_bias"];
  const ofColumns = Object.keys(forms).map((form) => form === "" ? "column_bias" : `${form}_column_bias`);
  const cycle = new Cycle();
  for (const setting of settings(runtime, ["float32", "float64", "bfloat16"])) {
    const { ab, name, tolerance, columns } = setting;
    for (const epilog of [...names, ...ofColumns] as EpilogName[]) {
      // A third of them: all come in turn.
      if (cycle.next() && !cycle.pick([true, false, false])) continue;
      const f = forms[epilog.replace(/_?(column_)?bias$/, "") as keyof typeof forms];
      const isOfColumns = epilog.endsWith("column_bias");
      const bias = isOfColumns ? setting.bias(columns) : setting.bias();
      const epilogInputs = isOfColumns ? { columnBias: bias } : epilog.endsWith("bias") ? { bias } : {};
      const added = (i: number, j: number) => isOfColumns ? biasOf(j) : epilog.endsWith("bias") ? biasOf(i) : 0;
      const expected = map(ab, (x, i, j) => f(alpha * x + added(i, j)));
      const { d } = setting.run({ epilog, alpha, epilogInputs });
      assertMatrix(d, expected, `${epilog}, ${name}`, tolerance);
    }
    if (cycle.pick([true, false])) continue;
    const { d, auxiliary } = setting.run({
      epilog: "gelu_aux_column_bias",
      auxType: "float32",
      alpha,
      epilogInputs: { columnBias: setting.bias(columns) },
    });
    assertEquals(auxiliary.geluAux!.shape[1], columns.length, name);
    assertMatrix(d, map(ab, (x, _, j) => gelu(alpha * x + biasOf(j))), `gelu_aux_column_bias, ${name}`, tolerance);
  }
});

clusterTest("relu_aux writes a mask that drelu and drelu_bgrad read", (runtime) => {
  const isGpu = runtime.device.kind === "gpu";
  for (const setting of settings(runtime, DTYPES)) {
    const { ab, name, rows, columns, n } = setting;
    for (const hasBias of [false, true]) {
      const epilog = hasBias ? "relu_aux_bias" as const : "relu_aux" as const;
      const given = map(ab, (x, i) => x + (hasBias ? biasOf(i) : 0));
      const inputs = hasBias ? { epilogInputs: { bias: setting.bias() } } : {};
      const { d, auxiliary } = setting.run({ epilog, ...inputs });
      assertMatrix(d, map(given, (x) => Math.max(0, x)), `${epilog}, ${name}`);
      const mask = auxiliary.reluAux!;
      assertEquals(mask.dtype, "uint8");
      assertEquals([...mask.shape], [16 * Math.ceil(Math.ceil(rows.length / 8) / 16), columns.length]);
      const bytes = mask.toTypedArray("F") as Uint8Array<ArrayBuffer>;
      const isSet = (bit: number, j: number) => (bytes[j * mask.shape[0] + (bit >> 3)] >> (bit & 7) & 1) === 1;
      // On GPUs a zero counts as positive where cuBLASLt makes the mask, and rows of padding are zeros.
      const isZeroSet = isGpu && columns.some((column, j) =>
          rows.some((row, bit) =>
            setting.at(given, row, column) === 0 && isSet(bit, j)
          )
        )
        ? 1
        : 0;
      const [zeroCounts] = runtime.communicator.allReduce(Int32Array.of(isZeroSet), { op: "max" });
      const isPositive = (x: number) => x > 0 || x === 0 && zeroCounts === 1;
      columns.forEach((column, j) => {
        for (let bit = 0; bit < (isGpu ? rows.length : 8 * mask.shape[0]); bit++) {
          const expected = bit < rows.length && isPositive(setting.at(given, rows[bit], column));
          if (isSet(bit, j) !== expected) {
            throw new Error(`${epilog}, ${name}: bit ${bit} of column ${column} is ${!expected}`);
          }
        }
      });
      const gradient = map(ab, (x, i, j) => isPositive(setting.at(given, i, j)) ? -x : 0);
      const backward = { alpha: -1, epilogInputs: { reluAux: mask } };
      assertMatrix(setting.run({ epilog: "drelu", ...backward }).d, gradient, `drelu, ${name}`);
      const bytesOnly = { alpha: -1, epilogInputs: { reluAux: bytes } };
      const { d: dx, auxiliary: { dreluBgrad } } = setting.run({ epilog: "drelu_bgrad", ...bytesOnly });
      assertMatrix(dx, gradient, `drelu_bgrad, ${name}`);
      setting.assertRows(dreluBgrad, (row) => {
        let sum = 0;
        for (let j = 0; j < n; j++) sum += setting.at(gradient, row, j);
        return sum;
      });
    }
  }
});

clusterTest("gelu_aux writes what dgelu and dgelu_bgrad read", (runtime) => {
  for (const setting of settings(runtime, ["float32", "float64", "float16", "bfloat16"])) {
    const { ab, name, rows, columns, n, dtype, tolerance } = setting;
    const alpha = 0.25;
    for (const hasBias of [false, true]) {
      const epilog = hasBias ? "gelu_aux_bias" as const : "gelu_aux" as const;
      const given = map(ab, (x, i) => alpha * x + (hasBias ? biasOf(i) : 0));
      const inputs = hasBias ? { epilogInputs: { bias: setting.bias() } } : {};
      const { d, auxiliary } = setting.run({ epilog, alpha, auxAmax: true, ...inputs });
      assertMatrix(d, map(given, gelu), `${epilog}, ${name}`, tolerance);
      const aux = auxiliary.geluAux!;
      assertEquals([aux.dtype, ...aux.shape], [dtype, 8 * Math.ceil(rows.length / 8), columns.length]);
      rows.forEach((row, i) =>
        columns.forEach((column, j) => assertEquals(value(aux, i, j) || 0, setting.at(given, row, column) || 0, name))
      );
      assertEquals(auxiliary.geluAuxAmax, given.re.reduce((max, x) => Math.max(max, Math.abs(x)), 0));
      const gradient = map(ab, (x, i, j) => alpha * x * geluSlope(setting.at(given, i, j)));
      const backward = { alpha, epilogInputs: { geluAux: aux } };
      assertMatrix(setting.run({ epilog: "dgelu", ...backward }).d, gradient, `dgelu, ${name}`, tolerance + 1e-8);
      const { auxiliary: { dgeluBgrad } } = setting.run({ epilog: "dgelu_bgrad", ...backward });
      setting.assertRows(dgeluBgrad, (row) => {
        let sum = 0;
        for (let j = 0; j < n; j++) sum += setting.at(gradient, row, j);
        return sum;
      }, Math.max(1e-4, 8 * n * tolerance));
    }
  }
});

clusterTest("a rank without columns of D has the sums of its rows", (runtime) => {
  // One column: all ranks but the first hold rows without elements.
  const ones = (shape: [number, number]) => DistributedArray.full(runtime, shape, Slab.X, 1, { dtype: "float32" });
  const reluAux = LocalArray.zeros("uint8", reluAuxShape(16, runtime.rank === 0 ? 1 : 0), "F");
  reluAux.fill(255);
  const options = { epilog: "drelu_bgrad", epilogInputs: { reluAux }, distribution: Slab.Y } as const;
  using matmul = new Matmul(ones([16, 3]), ones([3, 1]), options);
  matmul.plan();
  matmul.execute();
  assertEquals(matmul.auxiliary.dreluBgrad!.toNumbers(), Array(16).fill(3));
});

/** An element of 8 or 16 bits, or more, as a number. */
function value(array: LocalArray, i: number, j: number): number {
  return array.slice([i, j], [1, 1]).toNumbers()[0];
}

clusterTest("an 8-bit gelu aux is scaled, and its maximum is that before scaling", (runtime) => {
  for (const setting of settings(runtime, ["float8_e4m3"])) {
    const { ab, name, rows, columns } = setting;
    const { auxiliary } = setting.run({
      epilog: "gelu_aux",
      auxType: "float8_e4m3",
      auxAmax: true,
      epilogInputs: { auxQuantizationScale: 0.5 },
    });
    const aux = auxiliary.geluAux!;
    assertEquals(aux.dtype, "float8_e4m3");
    rows.forEach((row, i) =>
      columns.forEach((column, j) => assertEquals(value(aux, i, j) || 0, setting.at(ab, row, column) / 2 || 0, name))
    );
    assertEquals(auxiliary.geluAuxAmax, ab.re.reduce((max, x) => Math.max(max, Math.abs(x)), 0));
    const wide = setting.run({ epilog: "gelu_aux" }).auxiliary.geluAux!;
    assertEquals(wide.dtype, "bfloat16");
    assertThrowsEverywhere(
      runtime,
      () => setting.run({ epilog: "dgelu", epilogInputs: { geluAux: aux } }),
      DTypeError,
      "epilogInputs.geluAux is of dtype float8_e4m3, and has been multiplied by a scale that is not known here",
    );
  }
});

clusterTest("bgrada and bgradb sum the factors over k", (runtime) => {
  for (const setting of settings(runtime, ["float32", "float64", "bfloat16"])) {
    const { ab, name, opA, opB, n, size: [, , k] } = setting;
    const { d, auxiliary: { bgrada } } = setting.run({ epilog: "bgrada" });
    assertMatrix(d, ab, `bgrada, ${name}`);
    setting.assertRows(bgrada, (row) => {
      let sum = 0;
      for (let p = 0; p < k; p++) sum += setting.at(opA, row, p);
      return sum;
    });
    const { d: other, auxiliary: { bgradb } } = setting.run({ epilog: "bgradb" });
    assertMatrix(other, ab, `bgradb, ${name}`);
    const expected = Array.from({ length: n }, (_, j) => {
      let sum = 0;
      for (let p = 0; p < k; p++) sum += setting.at(opB, p, j);
      return sum;
    });
    assertEquals(bgradb!.toNumbers(), expected, `bgradb, ${name}`);
  }
});

clusterTest("a bias may be a typed array, a column, of another dtype, or a distributed vector", (runtime) => {
  const [m, n, k] = [11, 6, 4];
  const [a, b] = [integers(m, k, 1), integers(k, n, 2)];
  const place = (matrix: Dense, slab: Slab) => distribute(runtime, matrix, { distribution: slab, dtype: "float32" });
  const expected = map(product(a, b), (x, i) => x + biasOf(i));
  const rows = held(Slab.X.bind([m, n], runtime.size), runtime.rank, 0);
  const numbers = rows.map(biasOf);
  const biases = {
    "a typed array": new Float32Array(numbers),
    "a float64 array": new Float64Array(numbers),
    "a float16 array": new Float16Array(numbers),
    "a column": new LocalArray({ data: new Float32Array(numbers), dtype: "float32", shape: [numbers.length, 1] }),
    "bfloat16": new LocalArray({ data: typed("bfloat16", numbers), dtype: "bfloat16", shape: [numbers.length] }),
    "distributed": DistributedArray.generate(runtime, [m], Slab.X, biasOf, { dtype: "float32" }),
  };
  for (const [what, bias] of Object.entries(biases)) {
    const d = matmul(place(a, Slab.X), place(b, Slab.Y), {
      epilog: "bias",
      epilogInputs: { bias },
      distribution: Slab.X,
    });
    assertMatrix(d, expected, what);
  }
});

clusterTest("a NaN on any rank makes the largest absolute value NaN on all", (runtime) => {
  const { size } = runtime;
  const factor = (shape: number[], slab: Slab, of: (i: number) => number) =>
    DistributedArray.generate(runtime, shape, slab, of, { dtype: "float8_e4m3" });
  const b = factor([4, 4], Slab.Y, () => 1);
  for (let bad = 0; bad < size; bad++) {
    const a = factor([size, 4], Slab.X, (i) => i === bad ? NaN : 1);
    using object = new Matmul(a, b, {
      distribution: Slab.X,
      resultAmax: true,
      epilog: "gelu_aux",
      auxAmax: true,
      quantizationScales: { a: 1, b: 1, d: 1 },
    });
    object.plan();
    object.execute();
    const found = [object.auxiliary.resultAmax, object.auxiliary.geluAuxAmax];
    // A GPU's own maximum leaves NaN out; all ranks have to have the same in any case.
    if (runtime.device.kind === "cpu") assertEquals(found, [NaN, NaN], `on rank ${bad}`);
    assertEquals(runtime.communicator.allGatherObject(found.map(String)), Array(size).fill(found.map(String)));
  }
});

clusterTest(
  "a distributed bias that has other rows than D on some rank is refused",
  { ranks: [2, 3, 4] },
  (runtime) => {
    const { size } = runtime;
    const cyclic = new BlockCyclic(new ProcessGrid({ shape: [size, 1] }), [1, 4]);
    const zeros = (shape: number[], distribution: Distribution) =>
      DistributedArray.zeros(runtime, shape, distribution, { dtype: "float32" });
    for (const [rows, distribution] of [[2 * size, cyclic], [4, Slab.Y]] as const) {
      const [a, b, bias] = [
        zeros([rows, 4], Slab.X),
        zeros([4, 4], Slab.Y),
        zeros([distribution === cyclic ? rows : 4 * size], Slab.X),
      ];
      const options = { distribution, epilog: "bias", epilogInputs: { bias } } as const;
      assertThrowsEverywhere(runtime, () => matmul(a, b, options), DistributionError, "other rows than those of D");
      const ofColumns = {
        distribution: Slab.X,
        epilog: "column_bias",
        epilogInputs: { columnBias: zeros([4], Slab.X) },
      } as const;
      assertThrowsEverywhere(
        runtime,
        () => matmul(a, b, ofColumns),
        DistributionError,
        "other columns than those of D",
      );
    }
  },
);

clusterTest("epilog inputs can be reset, and stay when the product is planned again", (runtime) => {
  const [m, n, k] = [10, 6, 4];
  const [a, b] = [integers(m, k, 1), integers(k, n, 2)];
  const ab = product(a, b);
  const place = (matrix: Dense, slab: Slab) => distribute(runtime, matrix, { distribution: slab });
  const local = Slab.X.bind([m, n], runtime.size).localShape(runtime.rank)[0];
  const bias = (value: number) => new Float64Array(local).fill(value);
  const [left, right] = [place(a, Slab.X), place(b, Slab.Y)];
  using object = new Matmul(left, right, { epilog: "bias", epilogInputs: { bias: bias(1) }, distribution: Slab.X });
  object.plan();
  assertMatrix(object.execute(), map(ab, (x) => x + 1), "first");
  object.resetOperands({ epilogInputs: { bias: bias(2) } });
  assertMatrix(object.execute(), map(ab, (x) => x + 2), "reset");
  object.plan({ epilog: "relu_bias" });
  assertMatrix(object.execute(), map(ab, (x) => Math.max(0, x + 2)), "another epilog with the same bias");
  object.plan({ epilog: null });
  assertMatrix(object.execute(), ab, "no epilog");
  object.plan();
  assertMatrix(object.execute(), map(ab, (x) => x + 2), "the constructor's epilog");
  object.releaseOperands();
  object.resetOperands({ a: left, b: right, epilogInputs: { bias: bias(3) } });
  assertMatrix(object.execute(), map(ab, (x) => x + 3), "released and reset");
});

clusterTest("a plan with another epilog leaves behind what was said of the input of a GELU", (runtime) => {
  const a = DistributedArray.generate(runtime, [4, 3], Slab.X, (i, j) => i - j, { dtype: "bfloat16" });
  const b = DistributedArray.generate(runtime, [3, 5], Slab.X, (i, j) => i + j, { dtype: "bfloat16" });
  const ab = matmul(a, b, { distribution: Slab.X });
  using object = new Matmul(a, b, { distribution: Slab.X, epilog: "gelu_aux", auxType: "float32" });
  object.plan();
  object.execute();
  assertEquals(object.auxiliary.geluAux?.dtype, "float32");
  for (const epilog of ["none", null] as const) {
    object.plan({ epilog });
    assertEquals(object.execute().maxAbsDifference(ab), 0);
  }
  object.plan({ epilog: "gelu_aux_column_bias", epilogInputs: { columnBias: new Float64Array(5) as never } });
  object.execute();
  assertEquals(object.auxiliary.geluAux?.dtype, "float32");
  const wrong = () => object.plan({ epilog: "relu", auxType: "float32" });
  assertThrowsEverywhere(runtime, wrong, TypeError, "auxType is for the epilogs gelu_aux");
});

clusterTest("a mask of one column whose bytes do not follow each other is refused", { ranks: [1] }, (runtime) => {
  const [a, b] = [[16, 4], [4, 1]].map((shape) =>
    DistributedArray.full(runtime, shape, Slab.X, 1, { dtype: "float32" })
  );
  const rows = reluAuxShape(16, 1)[0];
  const both = LocalArray.zeros("uint8", [rows, 2]);
  const options = { epilog: "drelu", epilogInputs: { reluAux: both.slice([0, 0], [rows, 1]) } } as const;
  assertThrowsEverywhere(runtime, () => matmul(a, b, options), ShapeError, "epilogInputs.reluAux must be column-major");
});
