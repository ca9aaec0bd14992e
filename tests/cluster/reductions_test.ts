/** Reductions over distributions and dimensions, against NumPy's numbers and plain loops. */
import { assert, assertEquals } from "@std/assert";
import {
  type AxisOptions,
  BlockCyclic,
  Box,
  CollectiveError,
  type Corners,
  DistributedArray,
  type DType,
  DTypeError,
  matrixNorm,
  multiply,
  ProcessGrid,
  Replicated,
  type Scalar,
  ShapeError,
  Slab,
  StateError,
} from "../../mod.ts";
import { assertThrowsEverywhere, clusterTest, type ErrorClass } from "../../src/testing/mod.ts";
import { distributions, whole } from "./array_oracle.ts";
import fixtures from "../unit/array/numpy/fixtures.json" with { type: "json" };

const memory = "host";

// deno-lint-ignore no-explicit-any
type Any = any;

/** What each reduction of the fixtures calls. */
function call(a: DistributedArray, name: string, options?: AxisOptions): Scalar | boolean | DistributedArray {
  if (!name.startsWith("norm")) return (a as Any)[name](...options === undefined ? [] : [options]);
  const ord = { norm1: 1, norm2: 2, normInfinity: Infinity }[name]!;
  return options === undefined ? a.norm({ ord }) : a.norm({ ...options, ord });
}

function close(actual: readonly number[], wanted: readonly number[], message: string): void {
  assertEquals(actual.length, wanted.length, message);
  actual.forEach((value, i) => {
    assert(Math.abs(value - wanted[i]) <= 1e-14 * Math.abs(wanted[i]), `${message}: ${value}, but NumPy ${wanted[i]}`);
  });
}

clusterTest("reductions over all, rows and columns are NumPy's, in every distribution", (runtime) => {
  const grid = fixtures.grid as number[];
  distributions(runtime.size).forEach((distribution, k) => {
    const order = k % 2 === 0 ? "C" : "F";
    const value = (i: number, j: number) => grid[5 * i + j];
    using a = DistributedArray.generate(runtime, [7, 5], distribution, value, { order, memory });
    for (const [name, wanted] of Object.entries(fixtures.reductions) as [string, Record<string, number[]>][]) {
      const message = `${name} ${a}`;
      close([Number(call(a, name))], wanted.None, message);
      for (const axis of [0, 1]) {
        using result = call(a, name, { axis }) as DistributedArray;
        assertEquals([...result.shape], [axis === 0 ? 5 : 7], message);
        close(whole(result), wanted[axis], `${message} along ${axis}`);
        using kept = call(a, name, { axis: axis - 2, keepDims: true }) as DistributedArray;
        assertEquals([...kept.shape], axis === 0 ? [1, 5] : [7, 1], message);
        close(whole(kept), wanted[axis], `${message} along ${axis}, kept`);
      }
    }
  });
});

clusterTest("norms of matrices are NumPy's, of one and of many", (runtime) => {
  const grid = fixtures.grid as number[];
  for (const distribution of [Slab.X, Slab.Y]) {
    using a = DistributedArray.generate(runtime, [7, 5], distribution, (i, j) => grid[5 * i + j], { memory });
    using cube = DistributedArray.generate(
      runtime,
      [5, 3, 4],
      distribution,
      (i, j, k) => Math.sin(i + 10 * j + 100 * k),
      {
        memory,
      },
    );
    for (const [name, wanted] of Object.entries(fixtures.matrixNorms) as [string, Record<string, number[]>][]) {
      const ord = name === "fro" ? "fro" : Number(name);
      close([matrixNorm(a, { ord })], wanted.None, `${name} ${a}`);
      for (const axis of [[1, 2], [0, 1], [2, 0]] as [number, number][]) {
        using norms = matrixNorm(cube, { ord, axis });
        close(whole(norms), wanted[axis.join()], `${name} along ${axis}`);
        using kept = matrixNorm(cube, { ord, axis: [axis[0] - 3, axis[1] - 3], keepDims: true });
        assertEquals([...kept.shape], cube.shape.map((extent, d) => axis.includes(d) ? 1 : extent));
        close(whole(kept), wanted[axis.join()], `${name} along ${axis}, kept`);
      }
    }
    assertEquals(a.norm({ ord: "fro" }), a.norm());
  }
  using a = DistributedArray.zeros(runtime, [3, 4], Slab.X, { memory });
  const fails = (action: (a: Any) => unknown, type: ErrorClass<Error>, message: string) =>
    assertThrowsEverywhere(runtime, () => action(a), type, message);
  fails(
    (a) => matrixNorm(a, { ord: 2 }),
    RangeError,
    "not 2. That norm, the largest singular value, is not computed here.",
  );
  fails((a) => matrixNorm(a, { axis: [0, 0] } as Any), RangeError, "axis must name the two dimensions of the matrices");
  fails((a) => matrixNorm(a, { axis: [0, 1] }), ShapeError, "Leave axis out for a number, or pass keepDims: true");
  fails((a) => matrixNorm(a, { keepDims: true } as Any), TypeError, "keepDims goes with axis");
  fails((a) => matrixNorm(a.sum({ axis: 0 })), ShapeError, "matrixNorm takes a matrix, not an array of shape [4]");
});

clusterTest("results stay divided where no rank needs another, and are replicated otherwise", (runtime) => {
  using a = DistributedArray.generate(runtime, [6, 4, 5], Slab.X, (i, j, k) => i + 10 * j + 100 * k, { memory });
  const rows = a.sum({ axis: [1, 2] });
  assertEquals([String(rows.distribution), ...whole(rows)], [
    "Slab.X",
    ...[0, 1, 2, 3, 4, 5].map((i) => 20 * i + 4300),
  ]);
  assertEquals(String(a.max({ axis: 0 }).distribution), "Replicated");
  assertEquals(String(a.mean({ axis: -1, keepDims: true }).distribution), "Slab.X");
  const middle = a.transpose().sum({ axis: [0, 2] });
  assertEquals(whole(middle), [0, 1, 2, 3].map((j) => 5 * 15 + 30 * 10 * j + 6 * 1000));
  assertEquals(whole(a.slice([[1, 3], [2, 4], [0, 1]]).sum({ axis: 0 })), [43, 63]);
  // The last row is one rank's: the others have no part in its results.
  const last = a.slice([[-1, null]]);
  for (const result of [last.sum({ axis: 0 }), last.max({ axis: 0 }), last.prod({ axis: 0 }), last.norm({ axis: 0 })]) {
    assertEquals(whole(result), whole(last));
  }
  assertEquals(whole(last.var({ axis: [0, 1] })), [125, 125, 125, 125, 125]);
});

clusterTest(
  "blocks are reduced where one row of processes holds a dimension, and where there are no elements",
  (runtime) => {
    const grid = new ProcessGrid({ shape: runtime.size === 4 ? [2, 2] : [1, runtime.size] });
    for (const rows of [0, 3]) {
      using a = DistributedArray.generate(runtime, [rows, 9], new BlockCyclic(grid, [4, 2]), (i, j) => 10 * i + j);
      using columns = a.sum({ axis: 0 });
      assertEquals(
        columns.allGather(),
        Float64Array.from({ length: 9 }, (_, j) => rows === 0 ? 0 : 30 + 3 * j),
        `${a}`,
      );
      using kept = a.sum({ axis: 1, keepDims: true });
      assertEquals(kept.allGather(), Float64Array.from({ length: rows }, (_, i) => 90 * i + 36), `${a}`);
    }
  },
);

clusterTest("sums are the same bits for any number of ranks and distribution", (runtime) => {
  const shape = [41, 27];
  const value = (i: number, j: number) => Math.sin(i * 7919 + j) * 10 ** ((i * 5 + j * 3) % 30 - 15);
  const results = distributions(runtime.size).map((distribution) => {
    using a = DistributedArray.generate(runtime, shape, distribution, value, { memory });
    return [a.sum(), a.mean(), a.var(), a.norm(), ...whole(a.sum({ axis: 0 })), ...whole(a.sum({ axis: 1 }))];
  });
  for (const result of results) assertEquals(result, results[0]);
  // What one rank computes.
  using single = DistributedArray.generate(runtime, shape, Replicated, value, { memory });
  assertEquals(single.sum(), results[0][0]);
});

clusterTest("sums lose nothing: cancellation, large and tiny numbers, infinities", (runtime) => {
  const n = 4 * runtime.size;
  const sum = (value: (i: number) => number, options: { dtype?: DType } = {}) =>
    DistributedArray.generate(runtime, [n], Slab.X, value, { ...options, memory }).sum();
  assertEquals(sum((i) => [1e16, 1, -1e16, 1][i % 4]), 2 * runtime.size);
  assertEquals(sum((i) => [1e308, 1e308, -1e308, -1e308][i % 4]), 0);
  assertEquals(sum((i) => [1e308, -1e308, 1e292, 0][i % 4]), runtime.size * 1e292);
  assertEquals(sum(() => 5e-324), n * 5e-324);
  assertEquals(sum((i) => i === 1 ? Infinity : -1e308), Infinity);
  assertEquals(sum((i) => i === 1 ? Infinity : i === n - 1 ? -Infinity : 1), NaN);
  assertEquals(sum((i) => i === n - 1 ? NaN : Infinity), NaN);
  assertEquals(sum((i) => i === 1 ? -Infinity : 1.7e308), -Infinity);
  assertEquals(sum(() => 0), 0);
  assertEquals(sum(() => 65504, { dtype: "float16" }), n * 65504);
});

clusterTest("small sums are not lost beside large and infinite ones", (runtime) => {
  const rows = [1e-300, 1e300, Infinity, 3, 2 ** -1074];
  for (const distribution of [Slab.X, Slab.Y, Replicated]) {
    using a = DistributedArray.generate(runtime, [5, 2], distribution, (i) => rows[i], { memory });
    assertEquals(whole(a.sum({ axis: 1 })), rows.map((value) => 2 * value));
    assertEquals(whole(a.mean({ axis: 1 })), rows);
    assertEquals(whole(a.norm({ ord: 1, axis: 1 })), rows.map((value) => 2 * value));
    const value = (i: number, j: number) => (j === 0 ? 1 : -1) * (i === 0 ? 2 ** -500 : 2 ** 470);
    using b = DistributedArray.generate(runtime, [2, 2], distribution, value, { memory });
    assertEquals(whole(b.var({ axis: 1 })), [2 ** -1000, 2 ** 940]);
  }
});

clusterTest("norms of matrices of narrow numbers are numbers of no dtype", (runtime) => {
  for (const dtype of ["float8_e4m3", "bfloat16", "float16"] as const) {
    using a = DistributedArray.full(runtime, [3000, 1], Slab.X, 1, { dtype, memory });
    assertEquals([matrixNorm(a, { ord: 1 }), matrixNorm(a, { ord: Infinity })], [3000, 1]);
  }
});

clusterTest("dtypes: integers, masks, narrow floats and complex numbers", (runtime) => {
  const n = 3 * runtime.size;
  using bytes = DistributedArray.full(runtime, [n, 2], Slab.X, 127, { dtype: "int8", memory });
  const along = bytes.sum({ axis: 0 });
  assertEquals([bytes.sum(), along.dtype, along.local.at(0)], [254 * n, "int64", BigInt(127 * n)]);
  assertEquals([bytes.mean(), bytes.var(), bytes.max()], [127, 0, 127]);
  assertEquals(bytes.prod({ axis: 1 }).local.view()[0] ?? 16129n, 16129n);
  using big = DistributedArray.generate(runtime, [n], Slab.X, (i) => 2n ** 62n + BigInt(i), { dtype: "int64", memory });
  assertEquals([big.max(), big.min(), big.argmax(), big.argmin()], [2n ** 62n + BigInt(n - 1), 2n ** 62n, n - 1, 0]);
  assertEquals(big.sum(), BigInt(n) * 2n ** 62n + BigInt(n * (n - 1) / 2));
  using z = DistributedArray.generate(runtime, [n], Slab.X, (i) => [i % 2 === 0 ? 1 : -1, 1], {
    dtype: "complex64",
    memory,
  });
  assertEquals(z.sum(), [n % 2, n]);
  assert(Math.abs(z.var() - (1 - (n % 2 / n) ** 2)) < 1e-15 && Math.abs(z.norm({ ord: 1 }) - Math.SQRT2 * n) < 1e-12);
  using roots = DistributedArray.full(runtime, [4], Slab.X, [0, 1], { dtype: "complex128", memory });
  assertEquals(roots.prod(), [1, 0]);
  using mask = DistributedArray.generate(runtime, [n, 3], Slab.X, (i, j) => i === j ? 1 : 0, {
    dtype: "uint8",
    memory,
  });
  assertEquals([mask.all(), mask.any(), ...whole(mask.any({ axis: 0 }))], [false, true, 1, 1, 1]);
  using narrow = DistributedArray.generate(runtime, [n], Slab.X, (i) => i, { dtype: "bfloat16", memory });
  assertEquals([narrow.max({ axis: 0, keepDims: true }).dtype, narrow.max()], ["bfloat16", n - 1]);
});

clusterTest("numbers of integers are never -0", (runtime) => {
  for (const dtype of ["int8", "int32", "int64"] as const) {
    // The first one is -1 and all others are 0.
    using a = DistributedArray.generate(runtime, [5], Slab.X, (i) => i === 0 ? -1 : 0, { dtype });
    using zeros = multiply(a, 0);
    using negative = zeros.negative();
    for (const array of [a, zeros, negative]) {
      for (const [name, value] of Object.entries({ prod: array.prod(), sum: zeros.sum(), max: array.max() })) {
        assert(value === 0 || value === 0n, `${name} of ${dtype}: ${value}`);
        assert(!Object.is(value, -0), `${name} of ${dtype}: -0`);
      }
      assert(!Object.is(zeros.mean(), -0) && !Object.is(array.at(4), -0), dtype);
    }
  }
});

clusterTest("products may leave the range of float64 on the way, whatever the number of ranks", (runtime) => {
  const prod = (values: readonly Scalar[], dtype: DType = "float64") => {
    using a = DistributedArray.generate(runtime, [values.length], Slab.X, (i) => values[i], { dtype });
    const [columns, rows] = [[values.length, 1], [1, values.length]].map((shape, axis) => {
      using b = DistributedArray.generate(runtime, shape, Slab.X, (i, j) => values[Math.max(i, j)], { dtype });
      return b.prod({ axis, keepDims: true }).at(0, 0);
    });
    return [a.prod(), columns, rows];
  };
  const same = (values: readonly Scalar[], wanted: Scalar, dtype?: DType) => {
    for (const list of [values, values.toReversed()]) {
      for (const value of prod(list, dtype)) {
        const [actual, expected] = [value, wanted].flatMap((
          number,
        ) => [typeof number === "object" ? number : [Number(number)]]);
        const isClose = (part: number, i: number) =>
          Object.is(part, expected[i]) || Math.abs(part - expected[i]) <= 1e-14 * Math.abs(expected[i]);
        assert(actual.every(isClose), `${list.slice(0, 6)}: ${actual}, not ${expected}`);
      }
    }
  };
  same([0, 1e200, 1e200, 1e200], 0);
  same([1e200, 1e200, 1e-200, 1e-200], 1);
  same([1e-200, 1e-120, 1e200, 1e120, 3], 3);
  same([5e-324, 2 ** 1000, 2 ** 74], 1);
  same([1e308, 1e308, 1e308], Infinity);
  same([1e308, -1e308], -Infinity);
  same([1e-200, 1e-200, 1e-200, 1e-200, 1e-200, 1e-200], 0);
  same([2 ** -600, 2 ** -450], 2 ** -1050);
  same([2 ** 600, 2 ** 423], 2 ** 1023);
  same(Array.from({ length: 500 }, (_, i) => i % 2 === 0 ? 2 ** 127 : -(2 ** -127)), 1);
  assertEquals([prod([Infinity, 0])[0], prod([NaN, 0])[0], prod([Infinity, 2, -1])], [
    NaN,
    NaN,
    Array(3).fill(-Infinity),
  ]);
  same([[1e200, 0], [0, 1e200], [1e-200, 0], [0, 1e-200]], [-1, 0], "complex128");
  same([[1e-200, 1e-300], [1e200, 0], [1e-300, 0], [1e300, 0]], [1, 1e-100], "complex128");
  same([[1e200, 0], [1e200, 0]], [Infinity, 0], "complex128");
  // Numbers of integers are those of float64, along dimensions they wrap around.
  const zeros = (value: number, length: number, dtype: DType) => {
    using a = DistributedArray.generate(runtime, [length], Slab.X, (i) => i === length - 1 ? 0 : value, { dtype });
    assert(Object.is(a.prod(), 0), `${dtype}: ${a.prod()}`);
  };
  zeros(255, 600, "uint8");
  zeros(2 ** 31 - 1, 60, "int32");
  zeros(-(2 ** 31), 61, "int32");
});

clusterTest("the extremes of 0 and -0 are 0, on any number of ranks", (runtime) => {
  for (const values of [[-0, 0], [0, -0], [-0, -0], [0, 0, -0, -0]]) {
    using a = DistributedArray.generate(runtime, [values.length], Slab.X, (i) => values[i]);
    using b = DistributedArray.generate(runtime, [1, values.length], Slab.X, (_, j) => values[j], { dtype: "float32" });
    const found = [a.max(), a.min(), b.max({ axis: 1 }).at(0), b.min({ axis: 1 }).at(0), b.max({ axis: 0 }).at(0)];
    for (const value of found) assert(Object.is(value, 0), `${values}: ${Deno.inspect(found)}`);
  }
});

clusterTest("extremes of float8 along dimensions may be infinite", (runtime) => {
  const bits = [[0x7c, 0x3c], [0xfc, 0x3c], [0x7b, 0xfb]];
  using finite = DistributedArray.full(runtime, [3, 2], Replicated, 1, { dtype: "float8_e5m2" });
  const data = Uint8Array.from(bits.flat());
  const options = { dtype: "float8_e5m2", localShape: [3, 2], memory: "host" } as const;
  using whole = DistributedArray.fromLocal(runtime, data, Replicated, options).to({ memory: finite.memory });
  for (const distribution of [Replicated, Slab.X, Slab.Y]) {
    using a = whole.redistribute(distribution);
    const found = [a.max({ axis: 1 }), a.min({ axis: 1 }), a.max({ axis: 0 }), a.min({ axis: 0 })];
    const wanted = [[0x7c, 0x3c, 0x7b], [0x3c, 0xfc, 0xfb], [0x7c, 0x3c], [0xfc, 0xfb]];
    assertEquals(found.map((array) => [...array.allGather()] as number[]), wanted, String(distribution));
    assertEquals([a.max(), a.min()], [Infinity, -Infinity]);
  }
});

clusterTest("the mean of int64 does not wrap around, as its sum along a dimension does", (runtime) => {
  using a = DistributedArray.full(runtime, [4, 2], Slab.X, 2n ** 62n, { dtype: "int64" });
  using sums = a.sum({ axis: 0 });
  using means = a.mean({ axis: 0 });
  assertEquals([whole(sums), whole(means), a.mean()], [[0, 0], [2 ** 62, 2 ** 62], 2 ** 62]);
});

clusterTest("sums of integers along a dimension are exact beyond 2^53", (runtime) => {
  const count = 2 ** 22 + 1;
  using a = DistributedArray.full(runtime, [count, 1], Slab.X, 2 ** 31 - 1, { dtype: "int32", memory });
  const sums = a.sum({ axis: 0 });
  assertEquals([sums.dtype, sums.at(0)], ["int64", BigInt(count) * (2n ** 31n - 1n)]);
  using least = DistributedArray.full(runtime, [1, count], Slab.Y, -(2 ** 31), { dtype: "int32", memory });
  assertEquals(least.sum({ axis: 1 }).at(0), -BigInt(count) * 2n ** 31n);
});

clusterTest("slices that begin within blocks are reduced along any dimension", (runtime) => {
  const grid = new ProcessGrid({ shape: [runtime.size, 1] });
  using a = DistributedArray.generate(runtime, [8, 4], new BlockCyclic(grid, [2, 2]), (i, j) => 10 * i + j, { memory });
  const rows = a.slice([[1, null]]);
  const sums = Array.from({ length: 7 }, (_, i) => 40 * (i + 1) + 6);
  assertEquals(whole(rows.sum({ axis: 1 })), sums);
  assertEquals(whole(rows.mean({ axis: 1, keepDims: true })), sums.map((sum) => sum / 4));
  assertEquals(whole(rows.argmax({ axis: 1 })), sums.map(() => 3));
  assertEquals(whole(rows.sum({ axis: 0 })), [0, 1, 2, 3].map((j) => 280 + 7 * j));
});

clusterTest(
  "ranks without elements take part in reductions, wherever their empty box lies",
  { ranks: [2, 3, 4] },
  (runtime) => {
    const filled: Corners[] = runtime.size === 2 ? [[[0, 0], [4, 4]]] : [[[0, 0], [2, 4]], [[2, 0], [4, 4]]];
    const empty: Corners[] = [[[0, 0], [0, 100]], [[0, 0], [100, 0]], [[50, 60], [50, 70]], [[60, 50], [70, 50]], [
      [90, 90],
      [90, 90],
    ]];
    for (const box of empty) {
      const boxes = Array.from({ length: runtime.size }, (_, rank) => filled[rank] ?? box);
      using a = DistributedArray.generate(runtime, [4, 4], new Box(boxes), (i, j) => 10 * i + j, { memory });
      const message = String(a);
      for (
        const [name, along] of [["sum", [[60, 64, 68, 72], [6, 46, 86, 126]]], ["max", [[30, 31, 32, 33], [
          3,
          13,
          23,
          33,
        ]]], ["argmax", [[3, 3, 3, 3], [3, 3, 3, 3]]]] as [string, number[][]][]
      ) {
        for (const axis of [0, 1]) {
          assertEquals(whole(call(a, name, { axis }) as DistributedArray), along[axis], `${name} ${message}`);
          const turned = call(a.transpose(), name, { axis: 1 - axis }) as DistributedArray;
          assertEquals(whole(turned), along[axis], `${name} transposed ${message}`);
        }
      }
      assertEquals([a.sum(), a.max(), a.argmax()], [264, 33, 15], message);
    }
  },
);

clusterTest("NaN counts as extreme, the first one of equals is found, nothing has no extreme", (runtime) => {
  const n = 3 * runtime.size;
  using a = DistributedArray.generate(runtime, [n], Slab.X, (i) => i === n - 2 ? NaN : i, { memory });
  assertEquals([a.max(), a.min(), a.argmax(), a.argmin()], [NaN, NaN, n - 2, n - 2]);
  using equal = DistributedArray.full(runtime, [2, n], Slab.Y, 1, { memory });
  assertEquals([equal.argmax(), ...whole(equal.argmin({ axis: 1 }))], [0, 0, 0]);
  using empty = DistributedArray.zeros(runtime, [0, 3], Slab.X, { memory });
  assertEquals([empty.sum(), empty.prod(), empty.mean(), empty.all(), empty.any()], [0, 1, NaN, true, false]);
  assertEquals(whole(empty.sum({ axis: 0 })), [0, 0, 0]);
  assertThrowsEverywhere(runtime, () => empty.max(), ShapeError, "max: an array of shape [0,3] has no elements");
});

clusterTest("the first of equal extremes is found among many, in every distribution", (runtime) => {
  const [rows, columns] = [200, 111];
  const places = [0, 4095, 4096, 15000, rows * columns - 1];
  for (const [i, distribution] of distributions(runtime.size).entries()) {
    const first = places[i % places.length];
    const value = (k: number) => k === first || k > first && k % 4999 === 0 ? -7 : k % 13;
    const numbers = (dtype: "float32" | "int8", of: typeof value) =>
      DistributedArray.generate(runtime, [rows, columns], distribution, (r, c) => of(r * columns + c), {
        dtype,
        memory,
      });
    using a = numbers("int8", value);
    using b = numbers("float32", (k) => k === 9000 || k === 9001 ? NaN : value(k));
    assertEquals([a.argmin(), a.argmax(), b.argmin(), b.argmax()], [first, 12, 9000, 9000]);
  }
});

clusterTest("wrong options say what is right", (runtime) => {
  using a = DistributedArray.zeros(runtime, [3, 4], Slab.X, { memory });
  const fails = (action: (a: Any) => unknown, type: ErrorClass<Error>, message: string) =>
    assertThrowsEverywhere(runtime, () => action(a), type, message);
  fails((a) => a.sum({ axis: 2 }), RangeError, "The axis must be a whole number from -2 to 1, not 2");
  fails((a) => a.sum({ axis: [0, -2] }), RangeError, "axis must name one or more dimensions, each once");
  fails((a) => a.sum({ axis: [0, 1] }), ShapeError, "Leave axis out for a number, or pass keepDims: true");
  fails((a) => a.sum({ keepDims: true }), TypeError, "keepDims goes with axis");
  fails((a) => a.sum({ axis: 0, keepDims: 1 }), TypeError, "keepDims must be true or false");
  fails((a) => a.argmax({ axis: [0, 1], keepDims: true }), TypeError, "argmax goes along one axis");
  fails((a) => a.var({ correction: -1 }), RangeError, "correction must be a number of at least 0, not -1");
  fails((a) => a.norm({ ord: 3 }), RangeError, 'ord must be 1, 2, Infinity or "fro", not 3');
  using z = DistributedArray.zeros(runtime, [3], Slab.X, { dtype: "complex64", memory });
  assertThrowsEverywhere(runtime, () => z.min(), DTypeError, "min: complex numbers have no order");
  const freed = a.copy();
  freed.free();
  assertThrowsEverywhere(runtime, () => freed.mean(), StateError, "freed");
});

clusterTest("ranks that name different dimensions are told so", { ranks: [2, 3, 4] }, (runtime) => {
  using a = DistributedArray.zeros(runtime, [4, 4], Slab.X, { memory });
  const axis = Math.min(runtime.rank, 1);
  for (const name of ["sum", "prod", "mean", "var", "norm", "max", "argmin", "all"]) {
    assertThrowsEverywhere(runtime, () => call(a, name, { axis }), CollectiveError, "the ranks disagree on axes");
  }
});

clusterTest("extremes of results of several ranks: signs, zeros, infinities and NaN", (runtime) => {
  const { rank, size } = runtime;
  const rows = [[-1, -2], [-Infinity, 5], [NaN, 1], [Infinity, -Infinity], [-0, 3e-310], [-3e-310, -1e308]];
  const last = (j: number) => rows[j][1];
  using a = DistributedArray.generate(runtime, [size, 6], Slab.X, (i, j) => rows[j][i === 0 ? 0 : 1], { memory });
  const both = size > 1 ? rows : rows.map(([first]) => [first, first]);
  assertEquals(whole(a.max({ axis: 0 })), both.map(([x, y]) => Math.max(x, y)));
  assertEquals(whole(a.min({ axis: 0 })), both.map(([x, y]) => Math.min(x, y)));
  assertEquals(a.local.toNumbers().at(-1), rank === 0 ? rows[5][0] : last(5));
});

clusterTest("norms of many of the smallest numbers do not underflow", (runtime) => {
  for (const value of [5e-323, 2 ** -1060, 2 ** -1001, 2 ** -1000]) {
    for (const count of [1, 4096, 2 ** 18]) {
      using a = DistributedArray.full(runtime, [count], Slab.X, value);
      assertEquals(a.norm(), Math.sqrt(count) * value, `${count} times ${value}`);
    }
  }
});
