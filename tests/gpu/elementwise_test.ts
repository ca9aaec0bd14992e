/** Computing with arrays on GPUs against the same on CPUs, whose results have tests of their own. */
import { assert, assertEquals } from "@std/assert";
import {
  add,
  BlockCyclic,
  broadcastTo,
  concatenate,
  cumulativeSum,
  diagonal,
  DistributedArray,
  type Distribution,
  dot,
  type DType,
  dtypeInfo,
  dtypes,
  equal,
  evaluate,
  flip,
  kron,
  LocalArray,
  multiply,
  power,
  ProcessGrid,
  Replicated,
  reshape,
  roll,
  type Runtime,
  type Scalar,
  Slab,
  StateError,
  trace,
  vdot,
  vecdot,
} from "../../mod.ts";
import { liveAllocations } from "../../internals.ts";
import { elementwise } from "../../src/array/elementwise/elementwise.ts";
import { applied } from "../../src/array/elementwise/expression.ts";
import type { OperationName } from "../../src/array/elementwise/names.ts";
import { operationOf, OPERATIONS } from "../../src/array/elementwise/operations.ts";
import { assertThrowsEverywhere } from "../../src/testing/mod.ts";
import specialComplex from "../unit/array/numpy/complex.json" with { type: "json" };
import { gpuTest, isMock } from "./gpu_test_kit.ts";

/** All elements, decoded, in C order. */
function whole(array: DistributedArray): number[] {
  const flat = array.to({ order: "C" }).allGather();
  return new LocalArray({ data: flat, dtype: array.dtype, shape: array.shape }).toNumbers();
}

/** What the two libraries of mathematical functions round differently: the last bits of the type. */
function tolerance(dtype: DType): number {
  const { real } = dtypeInfo(dtype);
  return { float64: 1e-13, float32: 2e-7, float16: 1e-3, bfloat16: 8e-3, float8_e4m3: 0.13, float8_e5m2: 0.26 }[
    real as "float64"
  ] ?? 0;
}

function assertClose(actual: DistributedArray, wanted: DistributedArray, factor: number, message: string): void {
  assertEquals(
    [actual.dtype, actual.order, String(actual.distribution), ...actual.shape],
    [wanted.dtype, wanted.order, String(wanted.distribution), ...wanted.shape],
    message,
  );
  assertEquals([actual.memory, wanted.memory], ["device", "host"], message);
  const [a, b] = [whole(actual), whole(wanted)];
  const largest = b.reduce((most, x) => Number.isFinite(x) ? Math.max(most, Math.abs(x)) : most, 0);
  a.forEach((value, i) => {
    const isEqual = Object.is(value, b[i]) || value === b[i] ||
      Math.abs(value - b[i]) <= factor * (dtypeInfo(actual.dtype).isComplex ? largest : Math.abs(b[i]));
    assert(isEqual, `${message} at ${i}: ${value} on the GPU, ${b[i]} on the CPU`);
  });
}

/** The operations whose results are exact, or rounded once: both sides give the same bits. */
const EXACT = new Set<OperationName>(
  "positive negative add subtract multiply divide square minimum maximum abs sign sqrt floor ceil trunc round equal notEqual less lessEqual greater greaterEqual logicalAnd logicalOr logicalXor logicalNot isNaN isFinite conj real imag where"
    .split(" ") as OperationName[],
);

/** Numbers of a dtype, among them zeros, halves, negative ones, and for floats infinity and NaN. */
function values(dtype: DType, seed: number): (...index: number[]) => Scalar {
  const { isInteger, isComplex, itemSize } = dtypeInfo(dtype);
  const number = (k: number): number => {
    const state = Math.imul(k * 2 + seed, 0x9e3779b1) >>> 0;
    if (isInteger) return dtype === "uint8" ? state % 256 : state % 200 - 100;
    if (state % 23 === 0) return itemSize === 1 ? 0 : [Infinity, -Infinity, NaN, -0, 0][state % 5];
    return (state % 64 - 32) / 8;
  };
  return (i, j) => isComplex ? [number(7 * i + j) || 1, number(100 + 7 * i + j) || 1] : number(7 * i + j);
}

/** The same array in both memories. */
function pair(
  runtime: Runtime,
  shape: readonly number[],
  distribution: Distribution,
  dtype: DType,
  seed: number,
  order: "C" | "F" = "C",
): [host: DistributedArray, device: DistributedArray] {
  const host = DistributedArray.generate(runtime, shape, distribution, values(dtype, seed), {
    dtype,
    order,
    memory: "host",
  });
  return [host, host.to({ memory: "device" })];
}

const call = (name: OperationName, operands: readonly (DistributedArray | Scalar)[]): DistributedArray =>
  DistributedArray.of(elementwise<DistributedArray>(name, applied(name), operands, {}));

/** Dtypes that are tried with all operations; the others with some, since each kernel takes a tenth of a second to compile. */
const THOROUGH: readonly DType[] = ["float32", "complex64", "int64"];
const SOME = /^(add|power|abs|where|round|logicalAnd|exp)$/;

gpuTest("every operation and every dtype is the CPU's", (runtime) => {
  const [thorough, shown]: (readonly DType[])[] = isMock(runtime)
    ? [[], ["float32", "complex128", "int64"]]
    : [THOROUGH, dtypes];
  for (const dtype of shown) {
    const arrays = [1, 2, 3].map((seed) => pair(runtime, [5, 7], Slab.X, dtype, seed));
    const { isComplex, isInteger } = dtypeInfo(dtype);
    const names = Object.keys(OPERATIONS) as OperationName[];
    for (const name of names.filter((name) => thorough.includes(dtype) || SOME.test(name))) {
      const { arity, complex, conditions } = operationOf(name);
      if (isComplex && complex === undefined && conditions !== arity) continue;
      const operands = arrays.slice(0, arity);
      if (name === "power" && isInteger) operands[1] = exponents(runtime);
      const [host, device] = [0, 1].map((side) => call(name, operands.map((both) => both[side])));
      const isRounded = !EXACT.has(name) || isComplex && /divide|sign|sqrt|abs/.test(name);
      assertClose(
        device,
        host,
        isRounded && !(isInteger && name === "power") ? tolerance(host.dtype) : 0,
        `${name} of ${dtype}`,
      );
      host.free();
      device.free();
    }
    arrays.flat().forEach((array) => array.free());
  }
});

gpuTest(
  "functions of special and large complex numbers are the CPU's, part by part, zeros with their signs",
  (runtime) => {
    for (const dtype of isMock(runtime) ? ["complex128"] as const : ["complex128", "complex64"] as const) {
      const smallest = dtype === "complex128" ? 2 ** -1074 : 2 ** -149;
      const parts = specialComplex[dtype].values.map(Number);
      const value = (i: number): Scalar => [parts[2 * i], parts[2 * i + 1]];
      const options = { dtype, memory: "host" } as const;
      using host = DistributedArray.generate(runtime, [parts.length / 2], Replicated, value, options);
      using device = host.to({ memory: "device" });
      for (const name of ["sqrt", "exp", "log", "sin", "cos", "sinh", "cosh", "tanh", "square"] as const) {
        using there = call(name, [device]);
        using wanted = call(name, [host]);
        const [actual, expected] = [there, wanted].map((array) => array.local.toNumbers());
        actual.forEach((x, i) => {
          const y = expected[i];
          const isClose = Object.is(x, y) || y !== 0 && Math.abs(x - y) <= tolerance(dtype) * Math.abs(y) + smallest;
          assert(isClose, `${name} of ${value(Math.floor(i / 2))}, part ${i % 2}: ${x} on the GPU, ${y} on the CPU`);
        });
      }
    }
  },
);

/** Exponents from 0 to 5. */
function exponents(runtime: Runtime): [host: DistributedArray, device: DistributedArray] {
  const [host, device] = pair(runtime, [5, 7], Slab.X, "uint8", 9);
  return [call("minimum", [host, 5]), call("minimum", [device, 5])];
}

gpuTest("dtypes meet, numbers stand beside, smaller arrays are repeated", (runtime) => {
  const { size } = runtime;
  const grid = new ProcessGrid({ shape: [size, 1] });
  for (const distribution of [Slab.X, Slab.Y, new BlockCyclic(grid, [2, 3]), Replicated]) {
    const [a, x] = pair(runtime, [9, 6], distribution, "float32", 1, "F");
    const [b, y] = pair(runtime, [9, 6], distribution, "int8", 2);
    const [row, rowX] = pair(runtime, [6], Replicated, "float64", 3);
    const [column, columnX] = pair(runtime, [9, 1], Replicated, "bfloat16", 4);
    const what = `${distribution}`;
    assertClose(add(x, y), add(a, b), 0, what);
    assertClose(multiply(x, rowX), multiply(a, row), 0, what);
    assertClose(add(columnX, y), add(column, b), 0, what);
    assertClose(add(x, 0.1), add(a, 0.1), 0, what);
    assertClose(add(y, 3), add(b, 3), 0, what);
    assertClose(multiply(x, [0, 2]), multiply(a, [0, 2]), 0, what);
    assertClose(equal(x, x.transpose().transpose()), equal(a, a), 0, what);
    add(x, y, { into: x });
    add(a, b, { into: a });
    assertClose(x, a, 0, `${what}, in place`);
    [a, b, row, column, x, y, rowX, columnX].forEach((array) => array.free());
  }
  const both = [1, 2].map((seed) => pair(runtime, [9, 6], Slab.X, "float32", seed));
  const [host, device] = [0, 1].map((side) =>
    evaluate((a, b) => a.less(b).where(a.multiply(b).add(1), a.abs().sqrt()), both.map((array) => array[side]))
  );
  assertClose(device, host, 0, "evaluate");
  // Into a slice of the operand itself, one further.
  using line = DistributedArray.generate(runtime, [8], Replicated, { factors: [1] });
  add(line.slice([[0, 7]]), 1, { into: line.slice([[1, 8]]) });
  assertEquals(whole(line), [0, 1, 2, 3, 4, 5, 6, 7]);
});

const METHODS = ["sum", "mean", "var", "std", "min", "max", "prod", "argmin", "argmax", "all", "any", "norm"] as const;

gpuTest("what is gathered for one operation is freed with it", (runtime) => {
  const grid = new ProcessGrid({ shape: [runtime.size, 1] });
  using a = DistributedArray.full(runtime, [8 * runtime.size, 3], new BlockCyclic(grid, [2, 3]), 1);
  using b = DistributedArray.generate(runtime, [8 * runtime.size, 1], Replicated, { factors: [1, 0] });
  const before = liveAllocations().length;
  for (let i = 0; i < 3; i++) {
    using sum = add(a, b);
    add(a, b, { into: sum });
    using turned = flip(b, 0);
    assertEquals([sum.shape, turned.shape], [a.shape, b.shape]);
  }
  assert(liveAllocations().length <= before, `${liveAllocations().length} after ${before}`);
});

gpuTest("reductions are the CPU's to the last bit, along every dimension, for any layout", (runtime) => {
  const mock = isMock(runtime);
  const grid = new ProcessGrid({ shape: [runtime.size, 1] });
  const distributions = mock ? [Slab.X] : [Slab.X, Slab.Y, new BlockCyclic(grid, [2, 3]), Replicated];
  for (const dtype of mock ? ["float64"] as const : ["float64", "float16", "int64", "complex64"] as const) {
    const value = values(dtype === "float16" ? "float8_e4m3" : dtype, 5);
    for (const distribution of distributions) {
      using host = DistributedArray.generate(runtime, [37, 21], distribution, value, { dtype, memory: "host" });
      // No infinities, whose sums are NaN.
      using finite = dtypeInfo(dtype).isInteger ? host.copy() : call("where", [call("isFinite", [host]), host, 0.1]);
      using device = finite.to({ memory: "device" });
      const methods = METHODS.filter((method) => dtype === "float64" && !mock || /sum|norm|argmax|prod/.test(method));
      for (const method of methods) {
        if (dtype === "complex64" && /min|max/.test(method)) continue;
        // deno-lint-ignore no-explicit-any
        const [h, d] = [finite, device].map((array) => (options?: unknown) => (array as any)[method](options));
        const message = `${method} of ${dtype}, ${distribution}`;
        // Products of floats are rounded at each step, in another order.
        const isExact = method !== "prod" || dtypeInfo(dtype).isInteger;
        if (isExact) assertEquals(d(), h(), message);
        for (const axis of [0, 1]) {
          assertClose(d({ axis }), h({ axis }), isExact ? 0 : tolerance(dtype), `${message} along ${axis}`);
        }
        const both = { axis: [0, 1], keepDims: true };
        if (!method.startsWith("arg") && isExact) assertClose(d(both), h(both), 0, message);
      }
    }
  }
});

gpuTest("long reductions are divided among blocks, and merged", (runtime) => {
  const n = isMock(runtime) ? 5000 : 1_000_003;
  using host = DistributedArray.random(runtime, [n, 3], Slab.X, { seed: 1, low: -1, high: 1, memory: "host" });
  using device = host.to({ memory: "device" });
  assertEquals(device.sum(), host.sum());
  assertEquals(device.norm(), host.norm());
  assertEquals(device.norm({ ord: 1 }), host.norm({ ord: 1 }));
  assertEquals([device.argmax(), device.max(), device.min()], [host.argmax(), host.max(), host.min()]);
  for (const axis of [0, 1]) assertClose(device.sum({ axis }), host.sum({ axis }), 0, `axis ${axis}`);
  assertEquals(
    whole(device.slice([[3, null], [1, 3]]).sum({ axis: 0 })),
    whole(host.slice([[3, null], [1, 3]]).sum({ axis: 0 })),
  );
  assertEquals([dot(device, device), vdot(device, device)], [dot(host, host), vdot(host, host)]);
  using infinite = DistributedArray.generate(runtime, [n], Slab.X, (i) => i === 7 ? Infinity : 1e308, {
    memory: "device",
  });
  assertEquals(infinite.sum(), Infinity);
});

gpuTest("sums and norms of many numbers take one pass, and more where a sample misleads", (runtime) => {
  const mock = isMock(runtime);
  const [rows, columns] = mock ? [1032, 1020] : [1500, 1000];
  for (const dtype of mock ? ["float32"] as const : ["float64", "float32", "bfloat16", "int32"] as const) {
    const some = (i: number, j: number) => ((i * 7919 + j * 104729) % 20011 - 10000) / (dtype === "int32" ? 1 : 1024);
    const others = [
      (i: number, j: number) => i === rows - 1 && j === 3 ? 1e9 : some(i, j),
      (i: number, j: number) => i === rows - 1 && j === 3 ? 0.5 ** 60 : i < 80 ? 0 : some(i, j),
      (i: number, j: number) => j === 5 ? i === 90 ? NaN : 0 : some(i, j),
    ];
    for (const value of mock || dtype === "int32" ? [some] : [some, ...others]) {
      using host = DistributedArray.generate(runtime, [rows, columns], Slab.X, value, { dtype, memory: "host" });
      using device = host.to({ memory: "device" });
      const all = (a: DistributedArray) =>
        mock
          ? [a.sum(), a.norm()]
          : [a.sum(), a.mean(), a.var(), a.std({ correction: 1 }), a.norm(), a.norm({ ord: 1 })];
      assertEquals(all(device), all(host), dtype);
      for (const axis of [0, 1]) {
        const along = (a: DistributedArray) =>
          mock ? [a.sum({ axis }), a.norm({ axis })] : [
            ...[a.sum({ axis }), a.mean({ axis }), a.var({ axis }), a.std({ axis, correction: 1 }), a.norm({ axis })],
            ...[1, Infinity].map((ord) => a.norm({ axis, ord })),
            ...[a.min({ axis }), a.max({ axis }), a.argmin({ axis }), a.argmax({ axis })],
          ];
        const wanted = along(host);
        along(device).forEach((result, i) => assertClose(result, wanted[i], 0, `${dtype}, ${i} along ${axis}`));
      }
    }
  }
});

gpuTest("shapes: reshape, concatenate, roll, broadcastTo, slices, diagonals", (runtime) => {
  const both = pair(runtime, [6, 4], Slab.X, "float32", 1);
  const make: Record<string, (a: DistributedArray) => DistributedArray> = {
    reshape: (a) => reshape(a, [8, -1]),
    concatenate: (a) => concatenate([a, a, a]),
    roll: (a) => roll(a, 2, 1),
    "roll of all": (a) => roll(a, 5),
    broadcastTo: (a) => broadcastTo(a, [3, 6, 4]),
    diagonal: (a) => diagonal(a.slice([[0, 4]])),
    assign: (a) => {
      const copy = a.copy();
      copy.slice([[1, 3], [1, null]]).assign(7);
      copy.slice([[4, 6]]).assign(copy.slice([[0, 2]]));
      return copy;
    },
  };
  for (const [name, change] of Object.entries(make)) assertClose(change(both[1]), change(both[0]), 0, name);
  assertEquals(trace(both[1]), trace(both[0]));
  assertEquals([both[1].at(-1, 2), both[1].format()], [both[0].at(-1, 2), both[0].format()]);
  for (const array of both) array.set([2, 2], 5);
  assertEquals(both[1].at(2, 2), 5);
  const zipped = both.map((array) => array.zip(2, (x, y, i, j) => Number(x) * Number(y) + i + j));
  assertClose(zipped[1], zipped[0], 0, "zip");
});

gpuTest("elements of float8 that only move keep their bits, infinities too", (runtime) => {
  const bits = Uint8Array.from({ length: 256 }, (_, i) => i);
  for (const dtype of ["float8_e4m3", "float8_e5m2"] as const) {
    const options = { dtype, localShape: [256], memory: "host" } as const;
    const device = DistributedArray.fromLocal(runtime, bits, Replicated, options).to({ memory: "device" });
    const zeros = DistributedArray.zeros(runtime, [256], Replicated, { dtype });
    assertEquals([...concatenate([device, device]).allGather()], [...bits, ...bits]);
    assertEquals([...roll(device, 1).allGather()], [255, ...bits.subarray(0, 255)]);
    assertEquals([...zeros.assign(device).allGather()], [...bits]);
  }
});

gpuTest("stepped slices, flip, cumulativeSum, kron and vecdot", (runtime) => {
  for (const distribution of [Slab.X, Slab.Y, Replicated]) {
    for (const dtype of ["float32", "complex128", "int32"] as const) {
      const both = pair(runtime, [12, 6], distribution, dtype, 2);
      const right = pair(runtime, [2, 3], Replicated, dtype, 3);
      const make: Record<string, (a: DistributedArray, b: DistributedArray) => DistributedArray> = {
        "every other row": (a) => a.slice([[1, 12, 2], [-5, null]]).copy(),
        "assigned to every third column": (a) => {
          const copy = a.copy();
          const columns = copy.slice([null, [0, 6, 3]]);
          columns.assign(add(columns, 1));
          return copy;
        },
        "flip, rows": (a) => flip(a, 0),
        "flip, columns": (a) => flip(a, -1),
        "cumulativeSum, down": (a) => cumulativeSum(a, { axis: 0 }),
        "cumulativeSum, right": (a) => cumulativeSum(a, { axis: 1 }),
        "kron": (a, b) => kron(a, b),
        "vecdot": (a) => vecdot(a, add(a, 1)),
        "vecdot, down": (a) => vecdot(a, a, { axis: 0 }),
      };
      for (const [name, change] of Object.entries(make)) {
        const message = `${name}, ${distribution}, ${dtype}`;
        assertClose(change(both[1], right[1]), change(both[0], right[0]), name.startsWith("vecdot") ? 8 : 0, message);
      }
    }
  }
});

gpuTest("what does not fit is an error that says what to do", (runtime) => {
  const [host, device] = pair(runtime, [4, 3], Slab.X, "int32", 1);
  const fails = (action: () => unknown, type: typeof StateError | typeof RangeError, message: string) =>
    assertThrowsEverywhere(runtime, action, type, message);
  fails(
    () => add(host, device),
    StateError,
    'one array is in host memory, another in device memory. Bring them to the same: to({ memory: "host" })',
  );
  fails(() => add(device, 1, { into: host }), StateError, "one array is in device memory, another in host memory");
  fails(() => power(device, -2), RangeError, "integers have no negative powers, and an exponent is -2");
});
