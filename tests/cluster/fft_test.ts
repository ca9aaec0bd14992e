/** Transforms against their definition: types, shapes, axes, distributions, orders, norms, in place and not. */
import { Buffer } from "node:buffer";
import { assert, assertEquals } from "@std/assert";
import {
  allocateOperand,
  BlockCyclic,
  Box,
  DeviceBuffer,
  DistributedArray,
  type Distribution,
  FFT,
  fft,
  type FFTOptions,
  type FFTType,
  irfft,
  LocalArray,
  ProcessGrid,
  Replicated,
  rfft,
  type Runtime,
  Slab,
  type TypedArray,
} from "../../mod.ts";
import { openFftw } from "../../ffi/fft/fftw.ts";
import { comparing } from "../../src/fft/engines/fftw/passes.ts";
import { hostCutting } from "../../src/fft/engines/staged/parts.ts";
import { spreading } from "../../src/fft/engines/staged/spreading.ts";
import { MOST_OFFERED_DIMENSIONS, openChannels } from "../../src/memory/peer_channels.ts";
import { nearlySquareFactors } from "../../src/distribution/nearly_square.ts";
import { clusterTest } from "../../src/testing/mod.ts";
import { at, generate, transformed, type Whole } from "./fft_oracle.ts";
import { isSampled } from "./sampling.ts";
import { hostTest } from "../gpu/gpu_test_kit.ts";

type Precision = "float32" | "float64";

/** One case: an operand, and what is asked for. */
interface Case {
  readonly shape: readonly number[];
  readonly type: FFTType;
  readonly from: Distribution;
  readonly order?: "C" | "F";
  readonly precision?: Precision;
  readonly options?: FFTOptions;
  readonly directions?: readonly ("forward" | "inverse")[];
  /** The distribution of a result that is brought back, where boxes are for another shape. */
  readonly back?: Distribution;
}

/** Numbers in [-1, 1) that look random, the same everywhere. */
function pseudo(index: readonly number[], salt: number): number {
  let hash = 0x9e3779b9 ^ salt;
  for (const i of index) hash = Math.imul(hash ^ (i + 0x7f4a7c15), 0x85ebca6b) ^ (hash >>> 13);
  return (hash >>> 0) / 2 ** 31 - 1;
}

/** The spectrum of real numbers is conjugate-symmetric; only such is transformed back to real numbers. */
function operandOf({ shape, type, options = {} }: Case): Whole {
  const axes = axesOf(shape, options);
  if (type === "c2c") return generate(shape, (index) => [pseudo(index, 1), pseudo(index, 2)]);
  if (type === "r2c") return generate(shape, (index) => [pseudo(index, 1), 0]);
  const last = axes[axes.length - 1];
  const real = shape.with(last, 2 * (shape[last] - 1) + (options.lastAxisParity === "odd" ? 1 : 0));
  const field = generate(real, (index) => [pseudo(index, 1), 0]);
  return transformed(field, { type: "r2c", axes, direction: "forward" });
}

function axesOf(shape: readonly number[], { axes }: FFTOptions): readonly number[] {
  return (axes ?? shape.map((_, d) => d)).map((axis) => axis < 0 ? axis + shape.length : axis);
}

/** The part of a whole array that a distributed one has here, as it should be, against what is there. */
function worstError(array: DistributedArray, whole: Whole): number {
  assertEquals([...array.shape], [...whole.shape]);
  const { local, distribution, runtime } = array;
  const numbers = local.toNumbers();
  const isComplex = array.dtype.startsWith("complex");
  const parts = isComplex ? 2 : 1;
  let worst = 0;
  const expected = generate(local.shape, (index) => at(whole, distribution.toGlobal(runtime.rank, index))).numbers;
  for (let i = 0; i < expected.length / 2; i++) {
    worst = Math.max(worst, Math.abs(numbers[parts * i] - expected[2 * i]));
    if (isComplex) worst = Math.max(worst, Math.abs(numbers[2 * i + 1] - expected[2 * i + 1]));
  }
  return worst;
}

function fill(array: DistributedArray, whole: Whole): void {
  const isComplex = array.dtype.startsWith("complex");
  const { local, distribution, runtime } = array;
  const { numbers } = generate(local.shape, (index) => at(whole, distribution.toGlobal(runtime.rank, index)));
  local.set(isComplex ? numbers : numbers.filter((_, i) => i % 2 === 0));
}

function dtypeOf(type: FFTType, precision: Precision) {
  return type === "r2c" ? precision : precision === "float32" ? "complex64" : "complex128" as const;
}

/** The engine that has all forms. */
function stagedEngine(runtime: Runtime): "cufft" | "fftw" {
  return runtime.stream ? "cufft" : "fftw";
}

/** A case, in words. */
function nameOf({ shape, type, from, order = "C", precision = "float64", options = {} }: Case): string {
  const { distribution = "natural", ...others } = options;
  return `${type} [${shape}] ${precision} ${from} -> ${distribution} ${order} ${JSON.stringify(others)}`;
}

/** Transform, and compare with the definition; then once more, from the results back, if the type goes both ways. */
function check(runtime: Runtime, each: Case): void {
  const { shape, type, from, order = "C", precision = "float64", options = {} } = each;
  const dtype = dtypeOf(type, precision);
  const whole = operandOf(each);
  const name = nameOf(each);
  const { axes, redistribute, lastAxisParity, distribution } = options;
  const operand = options.inplace
    ? allocateOperand(runtime, shape, from, {
      dtype,
      order,
      fftType: type,
      ...axes && { axes },
      ...redistribute !== undefined && { redistribute },
      ...lastAxisParity && { lastAxisParity },
      ...distribution && { resultDistribution: distribution },
    })
    : DistributedArray.zeros(runtime, shape, from, { dtype, order });
  using transform = new FFT(operand, { fftType: type, engine: stagedEngine(runtime), ...options });
  transform.plan({ effort: "estimate" });
  for (const direction of each.directions ?? (type === "c2r" ? ["inverse"] : ["forward"] as const)) {
    fill(operand, whole);
    const before = operand.local.toTypedArray();
    const result = transform.execute({ direction });
    const expected = transformed(whole, {
      type,
      axes: axesOf(shape, options),
      direction,
      ...options.norm && { norm: options.norm },
      isOdd: lastAxisParity === "odd",
    });
    const largest = expected.numbers.reduce((most, x) => Math.max(most, Math.abs(x)), 1e-300);
    const error = worstError(result, expected) / largest;
    assert(error < (precision === "float32" ? 3e-6 : 1e-14 * 10), `${name} ${direction}: the error is ${error}`);
    assertEquals(result.order, order, name);
    if (distribution) assert(result.distribution.coincidesWith(distribution.bind(result.shape, runtime.size)), name);
    const back = redistribute ? (each.back ?? from).bind(result.shape, runtime.size) : null;
    if (back) assert(result.distribution.coincidesWith(back), name);
    if (!options.inplace) assertEquals(operand.local.toTypedArray(), before as TypedArray, `${name}: the operand`);
    if (options.inplace) assert(result.isView, name);
  }
  transform.free();
}

/**
 * Checks a third of the cases: others on other numbers of ranks, so that each is tried on 2, 3 or 4 of them. All cases with
 * DISTMATH_CASES=all.
 */
function sample(runtime: Runtime): (each: Case) => void {
  const isAll = Deno.env.get("DISTMATH_CASES") === "all";
  return (each) => {
    if (isAll || isSampled(nameOf(each), runtime.size, 3)) check(runtime, each);
  };
}

const SHAPES = [[8, 9], [9, 11, 8], [5, 4], [6, 3, 5], [12]];
const TYPES: FFTType[] = ["c2c", "r2c", "c2r"];

clusterTest("slabs of every kind, each type, both orders, with and without redistribution", (runtime) => {
  const tried = sample(runtime);
  for (const shape of SHAPES) {
    for (const type of TYPES) {
      for (const [d] of shape.entries()) {
        for (const redistribute of [false, true]) {
          const order = (d + Number(redistribute)) % 2 === 0 ? "C" : "F";
          tried({ shape, type, from: new Slab(d), order, options: { redistribute } });
        }
      }
    }
  }
});

clusterTest("axes: batches along local and divided ones, in any order, from the end", (runtime) => {
  const tried = sample(runtime);
  const shape = [4, 6, 5];
  const lists = [[0], [1], [2], [0, 1], [0, 2], [1, 2], [2, 0], [-1], [1, -3]];
  for (const [i, axes] of lists.entries()) {
    for (const type of TYPES) {
      for (const d of [0, 1, 2]) {
        for (const redistribute of [false, true]) {
          const order = (i + d + Number(redistribute)) % 2 === 0 ? "C" : "F";
          tried({ shape, type, from: new Slab(d), order, options: { axes, redistribute } });
        }
      }
    }
  }
  tried({ shape: [2, 3, 2, 4, 3], type: "c2c", from: new Slab(3), options: { axes: [1, 3, 4] } });
});

clusterTest("norms and directions, parities, both precisions", (runtime) => {
  const tried = sample(runtime);
  for (const precision of ["float32", "float64"] as const) {
    for (const norm of ["backward", "ortho", "forward", "none"] as const) {
      const directions = ["forward", "inverse"] as const;
      tried({ shape: [8, 9], type: "c2c", from: Slab.X, precision, options: { norm }, directions });
      tried({ shape: [9, 8], type: "r2c", from: Slab.X, precision, options: { norm } });
      for (const lastAxisParity of ["even", "odd"] as const) {
        const options = { norm, lastAxisParity };
        tried({ shape: [8, 5], type: "c2r", from: Slab.Y, precision, options });
        tried({ shape: [4, 5, 3], type: "c2r", from: Slab.X, precision, options });
      }
    }
  }
});

clusterTest("in place, with room for both, each type and slab", (runtime) => {
  const tried = sample(runtime);
  for (const shape of [[8, 9], [9, 11, 8], [5, 4], [31], [2, 7, 3]]) {
    for (const type of TYPES) {
      for (const [d] of shape.entries()) {
        for (const redistribute of [false, true]) {
          const order = (d + Number(redistribute)) % 2 === 0 ? "F" : "C";
          const options = { redistribute, inplace: true };
          tried({
            shape,
            type,
            from: new Slab(d),
            order,
            options,
            precision: d === 1 ? "float32" : "float64",
          });
        }
      }
    }
  }
});

clusterTest("pairs of pencils", { ranks: [4] }, (runtime) => {
  const grid = (shape: readonly number[], first: number, second: number) =>
    new Box(Array.from({ length: 4 }, (_, rank) => {
      const at = new Map([[first, rank >> 1], [second, rank & 1]]);
      const bound = (d: number, i: number) => i === 0 ? 0 : i === 1 ? Math.ceil(shape[d] / 2) : shape[d];
      const lower = shape.map((_, d) => bound(d, at.get(d) ?? 0));
      return [lower, shape.map((extent, d) => at.has(d) ? bound(d, at.get(d)! + 1) : extent)];
    }));
  for (const shape of [[8, 8, 8], [9, 11, 8], [5, 4, 7]]) {
    for (const inplace of [false, true]) {
      const half = shape.with(2, Math.floor(shape[2] / 2) + 1);
      const options = { inplace };
      const from = grid(shape, 0, 1);
      check(runtime, { shape, type: "c2c", from, options: { ...options, distribution: grid(shape, 1, 2) } });
      check(runtime, { shape, type: "c2c", from, options: { ...options, redistribute: true } });
      check(runtime, { shape, type: "c2c", from, options });
      check(runtime, { shape, type: "r2c", from, options: { ...options, distribution: grid(half, 1, 2) }, order: "F" });
      const back = grid(half, 0, 1);
      check(runtime, { shape, type: "r2c", from, options: { ...options, redistribute: true }, back });
      const lastAxisParity = shape[2] % 2 === 0 ? "even" : "odd";
      check(runtime, {
        shape: half,
        type: "c2r",
        from: grid(half, 1, 2),
        options: { ...options, distribution: grid(shape, 0, 1), lastAxisParity },
      });
    }
  }
});

clusterTest("boxes of any sizes, empty ones too, block-cyclic, on one rank, replicated", (runtime) => {
  const tried = sample(runtime);
  const { size } = runtime;
  const shape = [6, 8];
  const rows = (extent: number) => {
    // The last rank has nearly all, and those in the middle nothing.
    const upper = Array.from({ length: size }, (_, rank) => rank === size - 1 ? shape[0] : 1);
    return new Box(upper.map((end, rank) => [[rank === 0 ? 0 : upper[rank - 1], 0], [end, extent]]));
  };
  const onLast = new Box(
    Array.from({ length: size }, (_, rank) => [[0, 0], rank === size - 1 ? shape : [0, 0]] as [number[], number[]]),
  );
  const cyclic = new BlockCyclic(new ProcessGrid({ shape: [1, size] }), [2, 1]);
  const all: [Distribution, Distribution][] = [[rows(8), Slab.Y], [cyclic, Slab.X], [Slab.X, cyclic], [onLast, cyclic]];
  all.push([Replicated, Replicated], [Slab.X, Replicated], [Replicated, Slab.Y], [cyclic, cyclic], [rows(8), onLast]);
  for (const [from, distribution] of all) {
    for (const order of ["C", "F"] as const) {
      tried({ shape, type: "c2c", from, order, options: { distribution } });
      tried({ shape, type: "c2c", from, order, options: { distribution, axes: [1], inplace: true } });
      if (!(distribution instanceof Box)) {
        tried({ shape, type: "r2c", from, order, options: { distribution } });
      }
      if (!(distribution instanceof Box)) {
        tried({ shape, type: "c2r", from, order, options: { distribution } });
      }
    }
    tried({ shape, type: "c2c", from });
    tried({ shape, type: "c2r", from });
  }
});

clusterTest("one vector: four steps, gathering, lengths with and without factors, each type", (runtime) => {
  const tried = sample(runtime);
  for (const length of [1, 2, 3, 4, 12, 13, 14, 36, 45, 97, 100, 1021]) {
    for (const type of TYPES) {
      if (type === "c2r" && length === 1) continue;
      const directions = type === "c2c" ? ["forward", "inverse"] as const : undefined;
      const given = { shape: [length], type, from: Slab.X, ...directions && { directions } };
      tried(given);
      if (runtime.size > 1) tried({ ...given, options: { algorithm: "gather", inplace: true } });
      if (runtime.size === 1) continue;
      const parities = type === "c2r" ? ["even", "odd"] as const : [undefined];
      for (const lastAxisParity of parities) {
        const n = type === "c2r" ? 2 * (length - 1) + Number(lastAxisParity === "odd") : length;
        if (nearlySquareFactors(n)[0] === 1) continue;
        for (const inplace of [false, true]) {
          for (const precision of ["float32", "float64"] as const) {
            const norm = inplace ? "ortho" : "backward";
            const options = { algorithm: "four_step", norm, inplace, ...lastAxisParity && { lastAxisParity } } as const;
            tried({ ...given, precision, options });
          }
        }
      }
    }
  }
});

clusterTest("every algorithm can be asked for, and the fastest be found", { ranks: [2, 4] }, (runtime) => {
  using vector = DistributedArray.random(runtime, [2 ** 12], Slab.X, { dtype: "complex128" });
  using transform = new FFT(vector);
  transform.plan({ algorithm: "four_step" });
  assertEquals(transform.algorithm.algorithm, "four_step");
  using result = transform.execute();
  transform.plan({ algorithm: "gather" });
  assertEquals(transform.algorithm.algorithm, "gather");
  using other = transform.execute();
  assert(result.maxAbsDifference(other) < 1e-10);
  const measured = transform.autotune({ repetitions: 1 });
  assertEquals(measured.map(({ algorithm }) => algorithm).sort(), ["four_step", "gather"]);
  assertEquals(transform.algorithm.algorithm, measured[0].algorithm);
  using third = transform.execute();
  assert(result.maxAbsDifference(third) < 1e-10);
});

/** Settings that are others until this is disposed of. */
function changed<T extends object>(settings: T, values: Partial<T>): Disposable {
  const usual = { ...settings };
  Object.assign(settings, values);
  return { [Symbol.dispose]: () => void Object.assign(settings, usual) };
}

hostTest("on CPUs every pass takes the library that was the faster, in calls of as much as is enough", (runtime) => {
  using _measured = changed(comparing, { leastNumbers: 1, enoughNumbers: 256 });
  const libraries = openFftw("float64").map(({ vendor }) => vendor.toUpperCase());
  const field = DistributedArray.random(runtime, [64, 48], Slab.X, { dtype: "complex128", seed: 8 });
  const expected = fft(field);
  for (const [distribution, inplace] of [[Slab.Y, false], [Slab.X, true]] as const) {
    const operand = field.copy();
    using transform = new FFT(operand, { distribution, inplace });
    transform.plan();
    const named = transform.algorithm.steps.filter((step) => step.startsWith("transform"))
      .map((step) => step.split(", by ")[1]);
    const ways = libraries.flatMap((library) => [library, `${library} in blocks`]);
    assert(named.length > 0 && named.every((name) => name.split(" and ").every((one) => ways.includes(one))));
    assert(operand.maxAbsDifference(field) === 0);
    const spectrum = transform.execute();
    assert(spectrum.redistribute(Slab.Y).maxAbsDifference(expected.redistribute(Slab.Y)) < 1e-11);
    transform.resetOperands(spectrum);
    assert(transform.execute({ direction: "inverse" }).maxAbsDifference(field) < 1e-13);
  }
});

hostTest("on CPUs parts are sent while they are in the caches: both orders, in place, real, uneven", (runtime) => {
  using _cut = changed(hostCutting, {});
  using _unmeasured = changed(comparing, { leastNumbers: Infinity });
  for (const order of ["C", "F"] as const) {
    const shape = order === "C" ? [65, 128, 127] : [127, 128, 65];
    const [from, to] = order === "C" ? [Slab.X, Slab.Y] : [Slab.Z, Slab.Y];
    const options = { distribution: to, norm: "ortho" } as const;
    const [field, other] = [3, 4].map((seed) =>
      DistributedArray.random(runtime, shape, from, { dtype: "complex128", order, seed })
    );
    hostCutting.leastBytes = Infinity;
    const [whole, otherWhole] = [fft(field, options), fft(other, options)];
    const otherBack = fft(other, { norm: "ortho", redistribute: true });
    hostCutting.leastBytes = 2 ** 18;
    using transform = new FFT(field, options);
    transform.plan();
    // Results that are kept, one that lies where a freed one was, another operand, and the way back.
    const kept = [transform.execute(), transform.execute()];
    kept[1].free();
    kept[1] = transform.execute();
    for (const spectrum of kept) assert(spectrum.maxAbsDifference(whole) < 1e-12, `${order}: whole`);
    const told = transform.explain();
    assertEquals(told.includes("parts along axis"), runtime.size > 1 && copiesDirectly(runtime), told);
    assertEquals(told.includes("bytes, by direct_copies, in"), runtime.size > 1 && copiesDirectly(runtime), told);
    transform.resetOperands(other);
    assert(transform.execute().maxAbsDifference(otherWhole) < 1e-12, `${order}: another operand`);
    transform.resetOperands(kept[0]);
    assert(transform.execute({ direction: "inverse" }).maxAbsDifference(field) < 1e-12, `${order}: back`);
    const there = fft(field, { axes: [1], norm: "ortho", redistribute: true });
    const both = fft(field, { axes: [1, order === "C" ? 0 : 2], norm: "ortho", redistribute: true });
    const apart = fft(there, { axes: [order === "C" ? 0 : 2], norm: "ortho", redistribute: true });
    assert(both.maxAbsDifference(apart) < 1e-12, `${order}: there and back`);
    const real = DistributedArray.random(runtime, shape, from, { dtype: "float32", order, seed: 5 });
    const half = rfft(real, { distribution: to });
    assert(irfft(half, { distribution: from, lastAxisParity: "odd" }).maxAbsDifference(real) < 1e-4, "real numbers");
    const inplace = fft(other, { norm: "ortho", redistribute: true, inplace: true });
    assert(inplace.maxAbsDifference(otherBack) < 1e-12, `${order}: in place`);
  }
});

hostTest(
  "parts are sent of arrays with as many dimensions as processes tell each other of, and no more",
  (runtime) => {
    for (const dimensions of [MOST_OFFERED_DIMENSIONS, MOST_OFFERED_DIMENSIONS + 1]) {
      const shape = [4 * runtime.size, 64, ...new Array<number>(dimensions - 3).fill(1), 2048];
      const field = DistributedArray.random(runtime, shape, Slab.X, { dtype: "complex64", seed: 2 });
      using transform = new FFT(field, { axes: [-1], distribution: Slab.Y, norm: "ortho" });
      transform.plan({ effort: "estimate" });
      const spectrum = transform.execute();
      const isTold = dimensions <= MOST_OFFERED_DIMENSIONS && runtime.size > 1 && copiesDirectly(runtime);
      assertEquals(transform.explain().includes("each when it has been transformed"), isTold, `${dimensions}`);
      const expected = fft(field, { axes: [-1], norm: "ortho" });
      assert(spectrum.redistribute(Slab.X).maxAbsDifference(expected) < 1e-5, `${dimensions}`);
    }
  },
);

hostTest("on CPUs elements may lie further apart between moves: both orders, large and small", (runtime) => {
  using _apart = changed(spreading, {});
  using _unmeasured = changed(comparing, { leastNumbers: Infinity });
  let seen = 0;
  const cases = [["C", [32, 64, 48]], ["F", [48, 64, 32]], ["C", [64, 256, 64]], ["C", [256, 512]]] as const;
  for (const [order, shape] of cases) {
    const from = order === "C" ? Slab.X : Slab.Z;
    const field = DistributedArray.random(runtime, shape, from, { dtype: "complex128", order, seed: 6 });
    const [dense, apart] = [0, Infinity].map((worth) => {
      spreading.worth = worth;
      using transform = new FFT(field, { redistribute: true, norm: "ortho" });
      transform.plan();
      // The axis that was divided, in the slab where it is whole.
      const axis = from.partitionDimension;
      const step = transform.algorithm.steps.find((words) => words.startsWith(`transform axis ${axis} in Slab.`));
      assertEquals(step !== undefined, runtime.size > 1);
      const slab = new Slab("XYZ".indexOf(/Slab\.(.)/.exec(step ?? "Slab.X")![1]));
      const isFar = step !== undefined && areWholePages(runtime, slab, shape, axis);
      if (isFar) seen++;
      assertEquals(step?.includes("a cache line further apart") ?? false, isFar && worth > 0, `${order} ${shape}`);
      const spectrum = transform.execute();
      transform.resetOperands(spectrum);
      const back = transform.execute({ direction: "inverse" });
      assert(back.maxAbsDifference(field) < 1e-12, `${order} ${shape}: back`);
      return spectrum;
    });
    assert(apart.maxAbsDifference(dense) < 1e-12, `${order} ${shape}`);
  }
  if ([2, 3, 4].includes(runtime.size)) assert(seen > 0);
});

/** Whether this rank's complex numbers lie at a distance of whole pages along an axis with all others between them. */
function areWholePages({ rank, size }: Runtime, slab: Slab, shape: readonly number[], axis: number): boolean {
  const others = slab.bind(shape, size).localShape(rank).with(axis, 1);
  return 16 * others.reduce((product, extent) => product * extent, 1) % 4096 === 0;
}

/** Whether ranks may copy from and to each other's memory here. */
function copiesDirectly(runtime: Runtime): boolean {
  return openChannels(runtime.communicator)?.processes != null;
}

clusterTest("the natural distribution: what nvmath has for slabs, no move where none is needed", (runtime) => {
  const natural = (shape: number[], from: Distribution, options: FFTOptions = {}) => {
    const dtype = options.fftType === "r2c" ? "float64" : "complex128";
    using operand = DistributedArray.zeros(runtime, shape, from, { dtype });
    using transform = new FFT(operand, { engine: stagedEngine(runtime), ...options });
    transform.plan();
    using result = transform.execute();
    const { algorithm, steps } = transform.algorithm;
    return [`${result.distribution}`, algorithm, steps.filter((step) => step.startsWith("redistribute")).length];
  };
  if (runtime.size === 1) return assertEquals(natural([8, 9], Slab.X), ["Slab.X", "local", 0]);
  const [n2, n3] = [[8, 9], [9, 11, 8]];
  assertEquals(natural(n2, Slab.X), ["Slab.Y", "transpose", 1]);
  assertEquals(natural(n2, Slab.Y), ["Slab.X", "transpose", 1]);
  assertEquals(natural(n3, Slab.X), ["Slab.Y", "transpose", 1]);
  assertEquals(natural(n3, Slab.Y), ["Slab.X", "transpose", 1]);
  assertEquals(natural(n3, Slab.Z), ["Slab.X", "transpose", 1]);
  assertEquals(natural(n2, Slab.X, { fftType: "r2c" }), ["Slab.Y", "transpose", 1]);
  assertEquals(natural(n3, Slab.X, { fftType: "r2c" }), ["Slab.Y", "transpose", 1]);
  assertEquals(natural(n2, Slab.Y, { fftType: "c2r" }), ["Slab.X", "transpose", 1]);
  assertEquals(natural(n3, Slab.Y, { fftType: "c2r" }), ["Slab.X", "transpose", 1]);
  // What nvmath refuses.
  assertEquals(natural(n2, Slab.Y, { fftType: "r2c" }), ["Slab.Y", "transpose", 2]);
  assertEquals(natural(n2, Slab.X, { fftType: "c2r" }), ["Slab.X", "transpose", 2]);
  assertEquals(natural(n2, Slab.X, { axes: [1] }), ["Slab.X", "local", 0]);
  assertEquals(natural(n2, Slab.Y, { axes: [0] }), ["Slab.Y", "local", 0]);
  assertEquals(natural(n3, Slab.Z, { axes: [0, 1] }), ["Slab.Z", "local", 0]);
  assertEquals(natural(n2, Replicated), ["Replicated", "local", 0]);
});

clusterTest("views: slices and transposes are transformed as they lie", (runtime) => {
  const whole = generate([10, 12], (index) => [pseudo(index, 1), pseudo(index, 2)]);
  using array = DistributedArray.zeros(runtime, [10, 12], Slab.X, { dtype: "complex128" });
  fill(array, whole);
  const slice = array.slice([[1, 9], [2, 12]]);
  const part = generate([8, 10], ([i, j]) => at(whole, [i + 1, j + 2]));
  for (const axes of [[0, 1], [1]]) {
    const expected = transformed(part, { type: "c2c", axes, direction: "forward" });
    const flipped = generate([10, 8], ([i, j]) => at(expected, [j, i]));
    using transform = new FFT(slice, { axes });
    transform.plan();
    using result = transform.execute();
    assert(worstError(result, expected) < 1e-11);
    using turned = new FFT(slice.transpose(), { axes: axes.map((axis) => 1 - axis) });
    turned.plan();
    using other = turned.execute();
    assert(worstError(other, flipped) < 1e-11);
  }
  using rows = new FFT(slice, { axes: [1], inplace: true });
  rows.plan();
  assert(rows.execute().isView);
  assert(worstError(slice, transformed(part, { type: "c2c", axes: [1], direction: "forward" })) < 1e-11);
  const around = array.slice([[0, 1], [0, 12]]);
  assert(worstError(around, generate([1, 12], ([i, j]) => at(whole, [i, j]))) === 0, "elements around a slice stay");
});

clusterTest("nothing to transform on some ranks, or on all", (runtime) => {
  for (const shape of [[1, 3], [3, 1], [1, 1], [2, 1, 3]]) {
    for (const type of TYPES) {
      const options = type === "c2r" ? { lastAxisParity: "odd" as const } : {};
      for (const from of [Slab.X, Slab.Y]) check(runtime, { shape, type, from, options });
    }
  }
  using none = DistributedArray.zeros(runtime, [0, 4], Slab.X, { dtype: "complex64" });
  using transform = new FFT(none, { axes: [1] });
  transform.plan();
  using result = transform.execute();
  assertEquals([...result.shape], [0, 4]);
});

clusterTest("rows that the user has padded", (runtime) => {
  const shape = [6, 5];
  const bound = Slab.X.bind(shape, runtime.size);
  const localShape = bound.localShape(runtime.rank);
  const { stream } = runtime;
  const data = stream ? new DeviceBuffer(stream, localShape[0] * 48) : new Float64Array(localShape[0] * 6);
  const local = new LocalArray({ data, dtype: "float64", shape: localShape, strides: [6, 1] });
  const operand = DistributedArray.fromLocal(runtime, local, Slab.X);
  const whole = generate(shape, (index) => [pseudo(index, 1), 0]);
  fill(operand, whole);
  using transform = new FFT(operand, { inplace: true, redistribute: true });
  transform.plan();
  const expected = transformed(whole, { type: "r2c", axes: [0, 1], direction: "forward" });
  assert(worstError(transform.execute(), expected) < 1e-12);
});

clusterTest("real numbers that begin anywhere, alone and in odd rows", (runtime) => {
  const size = 2 * runtime.size;
  for (const precision of ["float32", "float64"] as const) {
    const shape = [size, 5, 3];
    const whole = generate(shape, (index) => [pseudo(index, 1), 0]);
    for (const axes of [[1], [2], [1, 2], [2, 1]]) {
      // One column and one row further, in memory that begins at a multiple of everything.
      const wide = DistributedArray.zeros(runtime, [size, 7, 5], Slab.X, { dtype: precision });
      const operand = wide.slice([null, [1, 6], [1, 4]]);
      fill(operand, whole);
      using transform = new FFT(operand, { axes });
      transform.plan();
      const spectrum = transform.execute();
      const expected = transformed(whole, { type: "r2c", axes, direction: "forward" });
      const most = precision === "float32" ? 1e-5 : 1e-13;
      assert(worstError(spectrum, expected) < most, `r2c ${precision} ${axes}`);
      const isOdd = shape[axes.at(-1)!] % 2 === 1;
      using back = new FFT(spectrum, { axes, fftType: "c2r", lastAxisParity: isOdd ? "odd" : "even" });
      back.plan();
      assert(worstError(back.execute(), whole) < most, `c2r ${precision} ${axes}`);
    }
  }
});

clusterTest(
  "real transforms of so many numbers that plans are measured: there and back, as complex ones have them",
  (runtime) => {
    // FFTW has no plan of some of them without its buffers.
    for (const shape of [[365, 365], [512, 512], [65, 65, 65], [300, 129]]) {
      using field = DistributedArray.random(runtime, shape, Slab.X, { low: -1, high: 1, seed: 5 });
      using transform = new FFT(field);
      transform.plan();
      using spectrum = transform.execute();
      using complex = field.to({ dtype: "complex128" });
      using whole = fft(complex);
      const part = whole.slice(spectrum.shape.map((extent) => [0, extent]));
      using half = part.redistribute(spectrum.distribution);
      using difference = half.subtract(spectrum);
      const size = shape.reduce((product, extent) => product * extent, 1);
      assert(difference.norm() < 1e-12 * size, `r2c of ${shape}`);
      const lastAxisParity = shape.at(-1)! % 2 === 1 ? "odd" : "even";
      using back = new FFT(spectrum, { fftType: "c2r", lastAxisParity, norm: "backward", redistribute: true });
      back.plan();
      using again = back.execute();
      using error = again.redistribute(Slab.X).subtract(field);
      assert(error.norm() < 1e-12 * size, `c2r of ${shape}: ${error.norm()}`);
    }
  },
);

clusterTest("what each rank transforms for itself is the same on all of them, to the last bit", (runtime) => {
  for (const shape of [[256, 256], [180, 200], [128, 512]]) {
    using operand = DistributedArray.random(runtime, shape, Replicated, { dtype: "complex128", seed: 1 });
    using transform = new FFT(operand);
    transform.plan();
    using result = transform.execute();
    const own = new Uint8Array(result.local.toTypedArray().buffer);
    const first = own.slice();
    runtime.communicator.broadcast(first);
    assertEquals(Buffer.compare(own, first), 0, shape.join(" x "));
  }
});
