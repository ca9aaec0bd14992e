/** Arrays on GPUs against the same on CPUs, whose results have tests of their own. */
import { assert, assertEquals } from "@std/assert";
import {
  BlockCyclic,
  BlockNonCyclic,
  DistributedArray,
  type Distribution,
  type DType,
  dtypeInfo,
  dtypes,
  loadNpy,
  LocalArray,
  type Order,
  ProcessGrid,
  Replicated,
  type Runtime,
  saveNpy,
  Slab,
  StateError,
  type Stream,
  type TypedArray,
} from "../../mod.ts";
import { convert } from "../../src/dtype/conversion.ts";
import { fillRandomOnDevice } from "../../src/array/on_device/filling.ts";
import { fillRandom, randomSource } from "../../src/array/random.ts";
import { assertThrowsEverywhere } from "../../src/testing/mod.ts";
import { gpuTest, isMock } from "./gpu_test_kit.ts";

const bytesOf = ({ buffer, byteOffset, byteLength }: TypedArray): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

function assertSameBits(actual: TypedArray, expected: TypedArray, message: string): void {
  const [a, b] = [bytesOf(actual), bytesOf(expected)];
  assertEquals(a.length, b.length, message);
  const at = a.findIndex((byte, i) => byte !== b[i]);
  assert(
    at < 0,
    `${message}: element ${Math.floor(at / actual.BYTES_PER_ELEMENT)} is ` +
      `${actual[Math.floor(at / actual.BYTES_PER_ELEMENT)]}, not ${
        expected[Math.floor(at / actual.BYTES_PER_ELEMENT)]
      }`,
  );
}

/** A small generator of its own: xorshift32. */
function numbers(seed: number): () => number {
  let state = seed | 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
}

/** Values that conversions may trip over: limits, ties between neighbours, subnormal numbers, infinity, NaN. */
const TRICKY = [
  0,
  -0,
  1,
  -1,
  0.5,
  1.5,
  2.5,
  -2.5,
  0.1,
  127.5,
  128,
  -128.9,
  -129,
  255.5,
  256,
  448,
  464,
  465,
  57344,
  61440,
  65504,
  65519.99,
  65520,
  65535,
  1e5,
  2 ** 31 - 1,
  2 ** 31,
  -(2 ** 31) - 1,
  2 ** 53,
  2 ** 63,
  -(2 ** 63),
  1e19,
  -1e19,
  1e38,
  3.5e38,
  1e308,
  1 + 2 ** -8,
  1 + 3 * 2 ** -8,
  1 + 2 ** -9,
  1 + 2 ** -11,
  1 + 3 * 2 ** -11,
  1 + 2 ** -24,
  1 + 2 ** -24 + 2 ** -50,
  2 ** -6,
  2 ** -9,
  2 ** -10,
  1.5 * 2 ** -10,
  2 ** -14,
  2 ** -16,
  2 ** -17,
  2 ** -24,
  2 ** -25,
  1.0001 * 2 ** -25,
  3 * 2 ** -25,
  2 ** -126,
  2 ** -140,
  2 ** -149,
  2 ** -150,
  5e-324,
  1e-310,
  Infinity,
  -Infinity,
  NaN,
]; // deno-fmt-ignore

/** Integers beside the middle between two neighbours of a narrower type, which only rounding once gets right. */
const TIES = [24, 11, 8, 4, 3].flatMap((bits) =>
  [62, 55, 40].flatMap((length) =>
    [-1n, 0n, 1n].flatMap((beside) => {
      const tie = (2n ** BigInt(bits) + 1n) * 2n ** BigInt(length - bits) + beside;
      return [tie, -tie, tie + 2n ** BigInt(length - bits + 1)];
    })
  )
);

/** Elements of a dtype: the tricky values, and any bits but those of NaN with a payload. */
function samples(dtype: DType): TypedArray {
  const { real, array } = dtypeInfo(dtype);
  if (dtype === "int64") {
    const next = numbers(64);
    return BigInt64Array.from([...TIES, ...new BigInt64Array(new Uint32Array(4000).map(next).buffer)]);
  }
  const tricky = new (dtypeInfo(real).array)(TRICKY.length);
  convert("float64", Float64Array.from(TRICKY), real, tricky);
  const next = numbers(dtype.length * 77);
  const words = new Uint32Array(4000).map(next);
  const random = new array(words.buffer as ArrayBuffer);
  const all = new array(tricky.length + tricky.length % dtypeInfo(dtype).parts + random.length);
  (all as Float64Array).set(tricky as Float64Array);
  (all as Float64Array).set(random as Float64Array, all.length - random.length);
  for (let i = 0; i < all.length; i++) {
    if (typeof all[i] === "number" && Number.isNaN(all[i])) all[i] = NaN;
  }
  return all;
}

const countOf = (dtype: DType, data: TypedArray): number => data.length / dtypeInfo(dtype).parts;

gpuTest("conversions between all dtypes give the same bits as on a CPU", (_, stream) => {
  for (const from of dtypes) {
    const data = samples(from);
    const count = countOf(from, data);
    const source = new LocalArray({ data, dtype: from, shape: [count] }).toDevice(stream);
    for (const to of dtypes) {
      if (dtypeInfo(from).isComplex && !dtypeInfo(to).isComplex) continue;
      const wanted = LocalArray.zeros(to, [count]);
      convert(from, data, to, wanted.data);
      const target = LocalArray.zeros(to, [count], "C", stream);
      target.set(source);
      assertSameBits(canonical(to, target.toTypedArray()), canonical(to, wanted.data), `${from} to ${to}`);
      target.release();
    }
    source.release();
  }
});

/** With one bit pattern for all NaN, since the payload and sign of NaN are nobody's promise. */
function canonical(dtype: DType, data: TypedArray): TypedArray {
  const { real } = dtypeInfo(dtype);
  const values = new Float64Array(data.length);
  convert(real, data, "float64", values);
  for (let i = 0; i < values.length; i++) {
    if (!Number.isNaN(values[i])) continue;
    if (real === "bfloat16") data[i] = 0x7fc0;
    else if (real.startsWith("float8")) data[i] = 0x7f;
    else data[i] = NaN;
  }
  return data;
}

gpuTest("random numbers are the same as on a CPU, bit for bit", (runtime) => {
  for (const dtype of dtypes) {
    // In the last of these ranges of floats many numbers would be rounded to its end, or to below its start.
    const options = dtypeInfo(dtype).isInteger
      ? [{}, { low: -7, high: 9 }]
      : [{}, { low: -2.5, high: 7.25 }, { low: 1.01, high: 1.5 }];
    for (const bounds of options) {
      if (dtype === "uint8" && bounds.low !== undefined) continue;
      for (const seed of [0, -3, 2 ** 40 + 5]) {
        for (const distribution of distributions(runtime.size)) {
          for (const order of ["C", "F"] as const) {
            const make = (memory: "host" | "device") =>
              DistributedArray.random(runtime, [37, 22], distribution, { ...bounds, dtype, seed, order, memory });
            using device = make("device");
            const wanted = make("host").local.toTypedArray(order);
            assertSameBits(device.local.toTypedArray(order), wanted, `${dtype} ${distribution} ${order} ${seed}`);
          }
        }
      }
    }
  }
});

gpuTest("random numbers of arrays with more than 2^32 elements", (_, stream) => {
  const shape = [2 ** 20, 2 ** 16];
  const ranges = [[[2 ** 19 - 2, 2 ** 19 + 3], [2 ** 20 - 1, 2 ** 20]], [[5, 9], [2 ** 16 - 70, 2 ** 16]]] as const;
  const extents = [6, 74];
  for (const dtype of ["float64", "float32", "complex64", "int64"] as const) {
    const source = randomSource(dtype, { seed: 11, low: 0, high: dtype === "int64" ? 1e12 : 1 }, 0);
    for (const order of ["C", "F"] as Order[]) {
      const wanted = LocalArray.zeros(dtype, extents, order);
      fillRandom(dtype, wanted.data, ranges, order, shape, source);
      const device = LocalArray.zeros(dtype, extents, order, stream);
      fillRandomOnDevice(device, ranges, order, shape, source);
      assertSameBits(device.toTypedArray(order), wanted.toTypedArray(order), `${dtype} ${order}`);
      device.release();
    }
  }
});

function distributions(size: number): Distribution[] {
  const tall = new ProcessGrid({ shape: [size, 1] });
  const wide = new ProcessGrid({ shape: [1, size], layout: "column-major" });
  return [
    Slab.X,
    Slab.Y,
    Replicated,
    new BlockCyclic(tall, [3, 4]),
    new BlockCyclic(wide, [5, 2]),
    new BlockNonCyclic(tall),
    ...(size === 4 ? [new BlockCyclic(new ProcessGrid({ shape: [2, 2] }), [4, 3])] : []),
  ];
}

/** A host array of all different elements, and its copy on the GPU. */
function pair(dtype: DType, shape: number[], stream: Stream, order: Order = "C"): [LocalArray, LocalArray] {
  const host = LocalArray.zeros(dtype, shape, order);
  const bytes = bytesOf(host.data);
  bytes.set(new Uint8Array(bytes.length).map(numbers(shape.length + bytes.length)));
  return [host, host.toDevice(stream, order)];
}

gpuTest("views, transposition and strided copies, for every size of element", (_, stream) => {
  const shapes = [[1], [1000], [70, 45], [3, 500], [500, 3], [33, 2, 40], [5, 40, 37], [170, 2, 190], [2, 3, 4, 5], [
    2,
    1,
    3,
    2,
    2,
    9,
  ]];
  for (const dtype of ["int8", "bfloat16", "int32", "complex64", "complex128"] as const) {
    for (const shape of shapes) {
      for (const order of ["C", "F"] as const) {
        const [host, device] = pair(dtype, shape, stream, order);
        const views: [string, (array: LocalArray) => LocalArray][] = [
          ["whole", (a) => a],
          ["transposed", (a) => a.transpose()],
          ["a slice", (a) => a.slice(a.shape.map((n) => n >> 2), a.shape.map((n) => n - (n >> 2) - (n >> 3)))],
          [
            "a transposed slice",
            (a) => a.slice(a.shape.map((n) => n >> 2), a.shape.map((n) => n - (n >> 2))).transpose(),
          ],
        ];
        for (const [name, view] of views) {
          for (const target of ["C", "F"] as const) {
            const what = `${dtype} [${shape}] ${order}: ${name} to ${target}`;
            assertSameBits(view(device).toTypedArray(target), view(host).toTypedArray(target), what);
          }
          // Into a view of another array, around which nothing may change.
          const [other, otherDevice] = pair(dtype, view(host).shape.map((n) => n + 3), stream, order);
          const starts = other.shape.map((_, i) => i % 3);
          other.slice(starts, view(host).shape).set(view(host));
          otherDevice.slice(starts, view(host).shape).set(view(device));
          assertSameBits(
            otherDevice.toTypedArray(),
            other.toTypedArray(),
            `${dtype} [${shape}] ${order}: into ${name}`,
          );
          otherDevice.release();
        }
        device.release();
      }
    }
  }
});

gpuTest("set, fill and at on whole arrays and views", (_, stream) => {
  for (const dtype of dtypes) {
    const [value, pairOf] = dtype === "int64" ? [5n, 6n] : [5, 6];
    const host = LocalArray.zeros(dtype, [6, 5]);
    const device = LocalArray.zeros(dtype, [6, 5], "C", stream);
    for (const array of [host, device]) {
      array.fill(value);
      array.slice([1, 1], [3, 3]).fill(pairOf);
      array.transpose().slice([0, 0], [1, 6]).set(LocalArray.zeros("int8", [1, 6]));
    }
    assertSameBits(device.toTypedArray("F"), host.toTypedArray("F"), dtype);
    assertEquals(device.at(2, 2), host.at(2, 2));
    assertEquals(device.toNumbers(), host.toNumbers());
    device.set(host.toTypedArray() as Float64Array);
    device.slice([0, 0], [3, 5]).set(device.slice([2, 0], [3, 5]));
    host.slice([0, 0], [3, 5]).set(host.slice([2, 0], [3, 5]));
    assertSameBits(device.toTypedArray(), host.toTypedArray(), `${dtype}, onto itself`);
    device.release();
  }
});

gpuTest("sums, norms and differences agree with the CPU's", (runtime) => {
  for (const dtype of dtypes) {
    for (const shape of [[1, 1], isMock(runtime) ? [60, 51] : [300, 257]]) {
      const make = (memory: "host" | "device", seed: number) =>
        DistributedArray.random(runtime, shape, Slab.X, { dtype, seed, memory });
      const [host, device, other] = [make("host", 1), make("device", 1), make("device", 2)];
      const [a, b] = [host.sum(), device.sum()].map((x) => Array.isArray(x) ? x : [x]);
      a.forEach((x, i) => {
        if (typeof x === "bigint") assertEquals(b[i], x);
        else assert(Math.abs(x - (b[i] as number)) <= 1e-12 * Math.abs(x), `${dtype}: ${x} and ${b[i]}`);
      });
      assert(Math.abs(host.norm() - device.norm()) <= 1e-12 * host.norm(), dtype);
      assertEquals(device.maxAbsDifference(host), 0);
      const wanted = host.maxAbsDifference(other.to({ memory: "host" }));
      assert(Math.abs(device.maxAbsDifference(other) - wanted) <= 1e-15 * wanted, dtype);
      assertEquals(device.maxAbsDifference(device.redistribute(Slab.Y)), 0);
    }
  }
  const big = DistributedArray.generate(runtime, [9], Slab.X, (i) => 2n ** 62n - BigInt(i), { dtype: "int64" });
  assertEquals(big.sum(), 9n * 2n ** 62n - 36n);
  const shifted = DistributedArray.generate(runtime, [9], Slab.X, (i) => -(2n ** 62n) + BigInt(i), { dtype: "int64" });
  assertEquals(big.maxAbsDifference(shifted), 2 ** 63);
  const withNaN = DistributedArray.generate(runtime, [9], Slab.X, (i) => i === 4 ? NaN : i);
  const plain = DistributedArray.generate(runtime, [9], Slab.X, (i) => i);
  assertEquals([withNaN.maxAbsDifference(plain), plain.maxAbsDifference(withNaN), withNaN.sum()], [NaN, NaN, NaN]);
  const huge = DistributedArray.full(runtime, [4], Slab.X, 1e200);
  assertEquals(huge.norm(), 2e200);
  const complex = DistributedArray.full(runtime, [4], Slab.X, [3, 4], { dtype: "complex64" });
  assertEquals([complex.sum(), complex.norm()], [[12, 16], 10]);
  assertEquals(complex.maxAbsDifference(DistributedArray.zeros(runtime, [4], Slab.X)), 5);
});

gpuTest("closed forms of the index", (runtime) => {
  for (const dtype of dtypes) {
    for (const distribution of distributions(runtime.size)) {
      for (const order of ["C", "F"] as const) {
        const form = { factors: [3, 5], offset: 2, modulus: 7 };
        const formula = (i: number, j: number) => (3 * i + 5 * j + 2) % 7;
        using a = DistributedArray.generate(runtime, [13, 11], distribution, form, { dtype, order });
        const wanted = DistributedArray.generate(runtime, [13, 11], distribution, formula, {
          dtype,
          order,
          memory: "host",
        });
        assertSameBits(a.local.toTypedArray(), wanted.local.toTypedArray(), `${dtype} ${distribution} ${order}`);
      }
    }
  }
  const counted = DistributedArray.generate(runtime, [4, 3, 2], Slab.X, { factors: [6, 2, 1] });
  assertEquals([...counted.allGather()], Array.from({ length: 24 }, (_, i) => i));
});

gpuTest("gather, scatter, map, generate and NumPy's files go through the host", (runtime) => {
  const { rank, size } = runtime;
  const value = (i: number, j: number) => 100 * i + j;
  const wanted = Array.from({ length: 77 }, (_, i) => value(Math.floor(i / 11), i % 11));
  const a = DistributedArray.generate(runtime, [7, 11], Slab.X, value, { dtype: "float32", order: "F" });
  assertEquals([a.memory, a.local.isOnDevice], ["device", true]);
  assertEquals([...a.transpose().to({ order: "F" }).allGather()], wanted);
  const b = a.to({ order: "C" });
  assertEquals([...b.gather(size - 1) ?? wanted], wanted);
  const c = DistributedArray.scatter(runtime, rank === 0 ? Float32Array.from(wanted) : null, [7, 11], Slab.Y, {
    dtype: "float32",
  });
  assertEquals([c.memory, c.maxAbsDifference(a)], ["device", 0]);
  const doubled = a.map((x) => 2 * (x as number));
  assertEquals([doubled.memory, doubled.sum()], ["device", 2 * (a.sum() as number)]);
  const folder = runtime.communicator.broadcastObject(rank === 0 ? Deno.makeTempDirSync() : "");
  try {
    saveNpy(a, `${folder}/a.npy`);
    const read = loadNpy(runtime, `${folder}/a.npy`, Slab.Y, { dtype: "float64" });
    assertEquals([read.memory, read.order, read.dtype, read.maxAbsDifference(a)], ["device", "F", "float64", 0]);
    assertEquals(loadNpy(runtime, `${folder}/a.npy`, Slab.X, { memory: "host" }).memory, "host");
  } finally {
    runtime.communicator.barrier();
    if (rank === 0) Deno.removeSync(folder, { recursive: true });
  }
});

gpuTest("redistribution between GPUs moves what it moves between hosts", (runtime: Runtime) => {
  const all = distributions(runtime.size);
  for (const dtype of ["int8", "float16", "float32", "complex64", "complex128"] as const) {
    for (const from of all) {
      for (const order of ["C", "F"] as const) {
        const options = { dtype, seed: 5, order, high: dtype === "int8" ? 99 : 1 };
        using device = DistributedArray.random(runtime, [26, 19], from, options);
        const host = DistributedArray.random(runtime, [26, 19], from, { ...options, memory: "host" });
        for (const to of all) {
          using moved = device.redistribute(to);
          assertEquals(moved.memory, "device");
          const wanted = host.redistribute(to).local.toTypedArray();
          assertSameBits(moved.local.toTypedArray(), wanted, `${dtype} ${from} to ${to} ${order}`);
        }
      }
    }
  }
  using cube = DistributedArray.random(runtime, [20, 18, 16], Slab.X, { seed: 2 });
  using columns = cube.redistribute(Slab.Z);
  assertEquals(columns.slice([[1, 19], [2, 17], [3, 9]]).norm() > 0, true);
  assertEquals(columns.maxAbsDifference(cube), 0);
});

gpuTest("arrays end as they should: views, parts of the user, results", (runtime, stream) => {
  const a = DistributedArray.random(runtime, [8, 6], Slab.X, { seed: 1 });
  const view = a.transpose();
  view.free();
  const sum = a.sum();
  const local = a.local;
  a.free();
  a.free();
  assertThrowsEverywhere(runtime, () => local.address, StateError, "This device memory was freed");
  const part = LocalArray.zeros("float32", [2, 2], "C", stream);
  part.fill(3);
  const whole = DistributedArray.fromLocal(runtime, part, Slab.X);
  whole.free();
  assertEquals(part.toNumbers(), [3, 3, 3, 3]);
  assert(sum !== 0);
});
