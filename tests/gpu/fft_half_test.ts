/** Transforms of half precision on GPUs, beside the same in float64. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import {
  allocateOperand,
  ConfigurationError,
  DistributedArray,
  type Distribution,
  FFT,
  fft,
  type FFTOptions,
  type FFTType,
  ifft,
  irfft,
  Replicated,
  rfft,
  type Runtime,
  Slab,
} from "../../mod.ts";
import { assertThrowsEverywhere } from "../../src/testing/mod.ts";
import { gpuTest, isMock } from "./gpu_test_kit.ts";

/** What is transformed, and how. */
interface Case {
  /** The shape of the array in space. */
  readonly shape: readonly number[];
  readonly type: FFTType;
  readonly from?: Distribution;
  readonly order?: "C" | "F";
  /** Transformed in place, in an array of allocateOperand. */
  readonly inplace?: boolean;
  readonly isInverse?: boolean;
  readonly options?: Pick<FFTOptions, "axes" | "distribution" | "norm" | "algorithm">;
}

/**
 * An operand whose transform is far from 65504, and after it was scaled from the smallest numbers, as the spectra of
 * numbers around 1 are; and what it is in float64.
 */
function operandOf(runtime: Runtime, { shape, type, from = Slab.X, order = "C", isInverse = false, options }: Case) {
  const { axes = shape.map((_, d) => d), norm = "backward" } = options ?? {};
  const isScaled = norm === (isInverse ? "backward" : "forward");
  const high = type !== "c2r" && isScaled ? Math.sqrt(axes.reduce((product, axis) => product * shape[axis], 1)) : 1;
  const random = (dtype: "float16" | "complex32" | "float64") =>
    DistributedArray.random(runtime, shape, from, { dtype, order, low: -high, high, seed: shape.length });
  const narrow = type === "c2c"
    ? random("complex32")
    : type === "r2c"
    ? random("float16")
    : rfft(random("float64"), { axes, distribution: from, norm: norm === "none" ? "ortho" : norm })
      .to({ dtype: "complex32" });
  return { narrow, wide: narrow.to({ dtype: type === "r2c" ? "float64" : "complex128" }) };
}

/**
 * Each of the log2(n) steps of a transform, and each move between axes, rounds by half a unit in the last place of 11 bits:
 * errors add up to less than one for each step.
 */
function check(runtime: Runtime, each: Case): void {
  const { shape, type, from = Slab.X, order = "C", inplace = false, isInverse = false, options = {} } = each;
  const { axes = shape.map((_, d) => d), distribution } = options;
  const { narrow, wide } = operandOf(runtime, each);
  const parity = type === "c2r" && shape[axes.at(-1)!] === 1 ? { lastAxisParity: "odd" } as const : {};
  let given = narrow;
  if (inplace) {
    const { dtype } = narrow;
    given = allocateOperand(runtime, narrow.shape, from, {
      dtype,
      order,
      fftType: type,
      axes,
      ...parity,
      ...distribution && { resultDistribution: distribution },
    });
    given.local.set(narrow.local);
  }
  const transform = (array: DistributedArray, extra: { inplace?: boolean }): DistributedArray => {
    const all = { ...options, ...parity, ...extra };
    return (type === "r2c" ? rfft : type === "c2r" ? irfft : isInverse ? ifft : fft)(array, all);
  };
  const [result, wanted] = [transform(given, { inplace }), transform(wide, {})];
  const name = JSON.stringify({ shape, type, from: String(from), order, inplace, isInverse, ...options });
  assertEquals([result.dtype, ...result.shape], [type === "c2r" ? "float16" : "complex32", ...wanted.shape], name);
  assertEquals(String(result.distribution), String(wanted.distribution), name);
  const steps = axes.reduce((sum, axis) => sum + Math.log2(shape[axis]), 0) + axes.length + 1;
  const error = result.to({ dtype: wanted.dtype }).subtract(wanted).norm() / wanted.norm();
  assert(error <= steps * 2 ** -11, `${name}: the error is ${error}`);
  if (!inplace) assertEquals(given.to({ dtype: wide.dtype }).maxAbsDifference(wide), 0, `${name}: the operand stays`);
}

const TYPES = ["c2c", "r2c", "c2r"] as const;

gpuTest("half precision: one, two and three dimensions, batches, both orders", (runtime) => {
  const large = isMock(runtime) ? [[4, 16], [8, 16], [4, 2, 8]] : [[64, 1024], [128, 256], [32, 64, 16]];
  for (const type of TYPES) {
    for (const shape of [...large, [1, 2, 4], [8, 1], [2, 2, 2, 4]]) {
      for (const order of ["C", "F"] as const) {
        check(runtime, { shape, type, order });
        for (const axis of shape.keys()) check(runtime, { shape, type, order, options: { axes: [axis] } });
      }
    }
    // The extents of other axes may be any; the last of the axes is the one that is halved.
    check(runtime, { shape: [6, 8, 5], type, options: { axes: [1] } });
    check(runtime, { shape: [3, 8, 4], type, options: { axes: [2, 1] } });
    check(runtime, { shape: [8, 3, 16], type, order: "F", options: { axes: [0, 2] } });
  }
});

gpuTest("half precision: distributions, norms, inverses, in place", (runtime) => {
  const shape = isMock(runtime) ? [8, 4, 16] : [64, 32, 128];
  for (const type of TYPES) {
    for (const [from, distribution] of [[Slab.X, Slab.Y], [Slab.Y, Slab.X], [Slab.X, Slab.X], [Replicated, Slab.X]]) {
      check(runtime, { shape, type, from, options: { distribution } });
    }
    for (const norm of ["backward", "ortho", "forward", "none"] as const) {
      check(runtime, { shape, type, options: { norm } });
      check(runtime, { shape, type, inplace: true, options: { norm } });
      if (type === "c2c") check(runtime, { shape, type, isInverse: true, options: { norm } });
      if (type === "c2c") check(runtime, { shape, type, isInverse: true, inplace: true, options: { norm } });
    }
    check(runtime, { shape, type, order: "F", inplace: true });
    check(runtime, { shape: [shape[0], shape[2]], type, inplace: true, options: { axes: [1] } });
  }
});

gpuTest("half precision: one long vector, in four steps and by one rank", (runtime) => {
  const shape = [isMock(runtime) ? 256 : 2 ** 20];
  for (const type of TYPES) check(runtime, { shape, type });
  check(runtime, { shape, type: "c2c", isInverse: true, inplace: true });
  if (runtime.size > 1) check(runtime, { shape, type: "c2c", options: { algorithm: "four_step" } });
});

gpuTest("half precision: views that begin anywhere, and class FFT there and back", (runtime) => {
  const whole = DistributedArray.random(runtime, [9, 19], Slab.X, { dtype: "float16", low: -1, high: 1, seed: 3 });
  const view = whole.slice([[0, 9], [3, 19]]);
  const wanted = rfft(view.to({ dtype: "float64" }), { axes: [1] });
  const got = rfft(view, { axes: [1] });
  assert(got.to({ dtype: "complex128" }).subtract(wanted).norm() <= 6 * 2 ** -11 * wanted.norm());
  const kept = whole.copy();
  const back = irfft(got, { axes: [1], distribution: view.distribution });
  assert(back.maxAbsDifference(view) < 12 * 2 ** -11);
  assertEquals(whole.maxAbsDifference(kept), 0);

  const field = DistributedArray.random(runtime, [16, 8], Slab.X, { dtype: "complex32", low: -1, high: 1, seed: 4 });
  using transform = new FFT(field, { distribution: Slab.X });
  transform.plan();
  assertStringIncludes(transform.explain(), "operand 16 x 8, complex32, Slab.X");
  const spectrum = transform.execute();
  transform.resetOperands(spectrum);
  const again = transform.execute({ direction: "inverse" });
  assert(again.maxAbsDifference(field) < 16 * 2 ** -11);
  assertEquals(transform.execute({ direction: "inverse" }).maxAbsDifference(again), 0);
});

gpuTest("half precision: what is scaled does not overflow before", (runtime) => {
  const extents = [256, 256];
  const ones = DistributedArray.full(runtime, extents, Slab.X, 1, { dtype: "complex32" });
  for (const transform of [fft, ifft]) {
    const norm = transform === fft ? "forward" : "backward";
    const scaled = transform(ones, { norm, distribution: Slab.X });
    const [re, im] = scaled.at(0, 0);
    assert(Math.abs(re - 1) <= 16 * 2 ** -11 && Math.abs(im) <= 16 * 2 ** -11, `${re}, ${im}`);
    assert(Math.abs(scaled.norm() - 1) <= 16 * 2 ** -11);
    assert(Math.abs(Number(transform(ones, { norm: "ortho" }).at(0, 0)[0]) - 256) <= 256 * 16 * 2 ** -11);
    // The sum of 65536 ones is none of half precision.
    assertEquals(transform(ones, { norm: "none" }).at(0, 0)[0], Infinity);
  }
});

gpuTest("half precision: extents that are no powers of two, and cuFFTMp, are refused with what to do", (runtime) => {
  const make = (dtype: "float16" | "complex32", shape: readonly number[]) =>
    DistributedArray.zeros(runtime, shape, Slab.X, { dtype });
  const fails = (action: () => unknown, message: string) =>
    assertThrowsEverywhere(runtime, action, ConfigurationError, message);
  const reason =
    "engine cufft cannot run this transform: cuFFT transforms numbers of half precision where the extents of " +
    "transformed axes are powers of two, and axis ";
  fails(() => rfft(make("float16", [8, 6])), `${reason}1 has 6. Convert the operand: to({ dtype: "float32" }).`);
  fails(() => fft(make("complex32", [12, 8])), `${reason}0 has 12. Convert the operand: to({ dtype: "complex64" }).`);
  fails(() => ifft(make("complex32", [12, 8]), { axes: [0] }), `${reason}0 has 12`);
  fails(() => irfft(make("complex32", [8, 5]), { lastAxisParity: "odd" }), `${reason}1 has 9`);
  fails(() => irfft(make("complex32", [8, 6])), `${reason}1 has 10`);
  fails(() => new FFT(make("complex32", [8, 6])), `${reason}1 has 6`);
  fails(
    () => allocateOperand(runtime, [8, 6], Slab.X, { dtype: "float16" }),
    `${reason}1 has 6. Convert the operand: to({ dtype: "float32" }).`,
  );
  fails(
    () => fft(make("complex32", [8, 8]), { engine: "cufftmp" }),
    'engine cufftmp cannot run this transform: cuFFTMp has no numbers of half precision. Leave engine out, or pass "cufft".',
  );
  assertEquals(fft(make("complex32", [12, 8]), { axes: [1] }).norm(), 0);
});
