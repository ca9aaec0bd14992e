/** The life of a transform: planned, executed, reset, released, freed; and everything that it refuses, on every rank. */
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import {
  allocateOperand,
  BlockCyclic,
  Box,
  CollectiveError,
  ConfigurationError,
  DistributedArray,
  type Distribution,
  DistributionError,
  type DType,
  DTypeError,
  FFT,
  fft,
  type FFTOptions,
  type FFTType,
  freeSymmetricMemory,
  ifft,
  irfft,
  type LocalArray,
  ProcessGrid,
  Redistribution,
  Replicated,
  rfft,
  type Runtime,
  ShapeError,
  Slab,
  StateError,
  SymmetricArray,
} from "../../mod.ts";
import { type Fftw, openFftw } from "../../ffi/fft/fftw.ts";
import { assertThrowsEverywhere, clusterTest } from "../../src/testing/mod.ts";
import { hostTest } from "../gpu/gpu_test_kit.ts";

const complex = (runtime: Runtime, shape: number[], seed: number, from: Distribution = Slab.X) =>
  DistributedArray.random(runtime, shape, from, { dtype: "complex128", seed });

function planned(operand: DistributedArray, options: FFTOptions = {}): FFT<DType, FFTType | undefined> {
  const transform = new FFT(operand, options);
  transform.plan();
  return transform;
}

clusterTest("an FFT is planned once and executed often, on other operands, forward and back", (runtime) => {
  isExecutedOften(runtime, [6, 7, 4]);
  isExecutedOften(runtime, [66, 67, 4]);
});

function isExecutedOften(runtime: Runtime, shape: number[]): void {
  const [one, two] = [complex(runtime, shape, 1), complex(runtime, shape, 2)];
  // What is rounded otherwise, as by another plan of FFTW, grows with the spectrum.
  const rounding = 1e-13 * Math.sqrt(one.size);
  using transform = planned(one);
  const spectra = [transform.execute(), transform.execute()];
  assertEquals(spectra[0].maxAbsDifference(spectra[1]), 0);
  assert(spectra[0].maxAbsDifference(fft(one)) < rounding);
  transform.resetOperands(two);
  const other = transform.execute();
  assert(other.maxAbsDifference(fft(two)) < rounding);
  // From the results' distribution back to that of the operands.
  transform.resetOperands(other);
  const back = transform.execute({ direction: "inverse" });
  assert(back.distribution.coincidesWith(two.distribution));
  assert(back.maxAbsDifference(two) < 1e-13);
  transform.resetOperandsUnchecked(one);
  assert(transform.execute({ direction: "forward" }).maxAbsDifference(spectra[0]) === 0);
  transform.releaseOperands();
  assertThrowsEverywhere(runtime, () => transform.execute(), StateError, "after releaseOperands()");
  transform.plan({ effort: "patient" });
  transform.resetOperands(two);
  assert(transform.execute().maxAbsDifference(other) < rounding);
  transform.free();
  transform.free();
  assert(transform.isFreed);
  assertThrowsEverywhere(runtime, () => transform.execute(), StateError, "Make a new FFT.");
  assertThrowsEverywhere(runtime, () => transform.plan(), StateError, "Make a new FFT.");
}

clusterTest("pairs of boxes are exchanged by resetOperands", { ranks: [2] }, (runtime) => {
  const boxes = (axis: number) =>
    new Box([0, 1].map((rank) =>
      [
        [0, 0, 0].with(axis, rank * 3),
        [6, 6, 6].with(axis, rank * 3 + 3),
      ] as [number[], number[]]
    ));
  const field = DistributedArray.random(runtime, [6, 6, 6], boxes(0), { dtype: "complex128", seed: 1 });
  using transform = planned(field, { distribution: boxes(2) });
  const spectrum = transform.execute();
  assert(spectrum.distribution.coincidesWith(boxes(2).bind([6, 6, 6], 2)));
  transform.resetOperands(spectrum);
  const back = transform.execute({ direction: "inverse" });
  assert(back.distribution.coincidesWith(field.distribution));
  assert(back.maxAbsDifference(field) < 1e-14);
});

clusterTest("after resetOperands a transform tells of the way that it goes then", { ranks: [2] }, (runtime) => {
  // Both ways move as much, but not from the same rank.
  const from = new Box([[[0, 0], [1, 8]], [[1, 0], [8, 8]]]);
  const to = new Box([[[0, 0], [8, 6]], [[0, 6], [8, 8]]]);
  const engine = runtime.stream ? "cufft" : "fftw";
  const field = complex(runtime, [8, 8], 1, from);
  using there = planned(field, { distribution: to, engine });
  const spectrum = there.execute();
  using back = planned(spectrum, { distribution: from, engine });
  const told = (transform: FFT<DType, FFTType | undefined>) => ({
    sent: [0, 1].map((rank) => transform.communication.sent(rank)),
    variant: transform.algorithm.variant,
    operand: transform.explain().split("\n")[1],
  });
  const [first, second] = [told(there), told(back)];
  assert(
    first.sent.join() !== second.sent.join() && first.variant !== second.variant && first.operand !== second.operand,
  );
  for (const reset of ["resetOperands", "resetOperandsUnchecked"] as const) {
    there[reset](spectrum);
    assertEquals(told(there), second, reset);
    there[reset](field);
    assertEquals(told(there), first, reset);
  }
  there.resetOperands(spectrum);
  there.plan({ effort: "patient" });
  assertEquals(told(there), second, "planned again");
  there.releaseOperands();
  assertEquals(told(there), second, "released");
});

clusterTest("a transform in place of a view leaves alone what lies between its elements", (runtime) => {
  const whole = DistributedArray.full(runtime, [4, 8], Slab.X, 1, { dtype: "complex128" });
  const view = whole.slice([[0, 4], [0, 4]]);
  ifft(view, { axes: [1], inplace: true });
  const expected = DistributedArray.generate(runtime, [4, 8], Slab.X, (_, j) => j === 0 || j >= 4 ? 1 : 0, {
    dtype: "complex128",
  });
  assert(whole.maxAbsDifference(expected) < 1e-15);
});

clusterTest("in place: a view of the operand on any number of ranks; operands are replaced", (runtime) => {
  const shape = [8, 6];
  const values = complex(runtime, shape, 3);
  const operand = allocateOperand(runtime, shape, Slab.X);
  operand.local.set(values.local);
  using same = planned(operand, { inplace: true, redistribute: true });
  const view = same.execute();
  assert(view.isView && view !== operand && String(view.distribution) === String(operand.distribution));
  assert(same.execute({ direction: "inverse" }) === view);
  assert(operand.maxAbsDifference(values) < 1e-14);
  using natural = planned(operand, { inplace: true });
  const spectrum = natural.execute();
  assert(spectrum.isView);
  assert(spectrum.maxAbsDifference(fft(values)) < 1e-12);
  const copy = spectrum.copy();
  const room = allocateOperand(runtime, shape, spectrum.distribution);
  room.local.set(copy.local);
  natural.resetOperands(room);
  assert(natural.execute({ direction: "inverse" }).maxAbsDifference(values) < 1e-13);
});

clusterTest(
  "what a transform in place returns may be disposed of: the operand stays, and so does the plan",
  (runtime) => {
    for (const dtype of ["float64", "complex128"] as const) {
      using operand = allocateOperand(runtime, [8, 6], Slab.X, { dtype });
      operand.local.fill(1);
      using transform = new FFT(operand, { inplace: true });
      transform.plan();
      const norms = [0, 1].map(() => {
        operand.local.fill(1);
        const spectrum = transform.execute();
        const norm = spectrum.norm();
        spectrum.free();
        assert(!operand.isFreed);
        return norm;
      });
      assertEquals(norms, [48, 48]);
      transform.autotune({ repetitions: 1 });
      transform.plan();
      operand.local.fill(1);
      assertEquals(transform.execute().norm(), 48);
      transform.free();
    }
  },
);

clusterTest("freeing what fft() made in place leaves the operand", (runtime) => {
  for (const options of [{}, { redistribute: true }, { axes: [1] }]) {
    using operand = allocateOperand(runtime, [8, 6], Slab.X, { dtype: "complex128", ...options });
    fft(operand, { inplace: true, ...options }).free();
    assert(!operand.isFreed);
    operand.free();
    assert(operand.isFreed);
  }
});

clusterTest("a result in the memory of a slice has no room between its elements", { ranks: [2] }, (runtime) => {
  const a = DistributedArray.generate(runtime, [8, 8], Slab.X, (i, j) => j < 4 ? i : -1, { dtype: "complex128" });
  const grid = new ProcessGrid({ shape: [2, 1] });
  const spectrum = fft(a.slice([null, [0, 4]]), { inplace: true, distribution: new BlockCyclic(grid, [1, 4]) });
  const back = () => ifft(spectrum, { inplace: true, distribution: Slab.Y });
  assertThrowsEverywhere(runtime, back, StateError, "inplace: the operand is a view of another array");
  assertEquals(a.slice([null, [4, 8]]).sum(), [-32, 0]);
});

clusterTest("results in place are in the memory that operands are in", (runtime) => {
  using operand = allocateOperand(runtime, [8, 6], Slab.X, { dtype: "float64", memory: "symmetric" });
  const spectrum = rfft(operand, { inplace: true });
  assertEquals(spectrum.memory, "symmetric");
  const free = () => freeSymmetricMemory(spectrum);
  assertThrowsEverywhere(runtime, free, StateError, "is a view of symmetric memory");
});

clusterTest("what is transformed in place is transformed back in place, in the same memory", (runtime) => {
  for (const shape of [[8, 6], [7, 9]]) {
    const values = complex(runtime, shape, 5);
    using operand = allocateOperand(runtime, shape, Slab.X);
    operand.local.set(values.local);
    using transform = planned(operand, { inplace: true });
    transform.resetOperands(transform.execute());
    const back = transform.execute({ direction: "inverse" });
    assert(back.maxAbsDifference(values) < 1e-13);
    transform.resetOperands(back);
    assert(transform.execute().maxAbsDifference(fft(values)) < 1e-12);

    const reals = DistributedArray.random(runtime, shape, Slab.X, { dtype: "float64", seed: 6 });
    using padded = allocateOperand(runtime, shape, Slab.X, { dtype: "float64" });
    padded.local.set(reals.local);
    const lastAxisParity = shape[1] % 2 === 0 ? "even" : "odd";
    const spectrum = rfft(padded, { inplace: true });
    const again = irfft(spectrum, { inplace: true, lastAxisParity, distribution: Slab.X });
    assert(again.isView && again.maxAbsDifference(reals) < 1e-14);
  }
});

clusterTest("operands in symmetric memory have room for results in place, and peers see them", (runtime) => {
  const { rank, size } = runtime;
  for (const shape of [[8, 6], [7, 9]]) {
    const reals = DistributedArray.random(runtime, shape, Slab.X, { dtype: "float64", seed: 7 });
    const padded = allocateOperand(runtime, shape, Slab.X, { dtype: "float64", memory: "symmetric" });
    assertEquals(padded.memory, "symmetric");
    assertEquals(padded.maxAbsDifference(DistributedArray.zeros(runtime, shape, Slab.X)), 0);
    assert(padded.local instanceof SymmetricArray);
    const local = padded.local as LocalArray as SymmetricArray;
    local.set(reals.local);
    local.synchronize();
    const next = (rank + 1) % size;
    const { strides } = local.peer(next);
    assertEquals(strides, [2 * (Math.floor(shape[1] / 2) + 1), 1]);
    const whole = reals.redistribute(Replicated).local.toNumbers();
    const [[first]] = padded.distribution.bounds()![next];
    const theirs = local.peer(next).toNumbers();
    assertEquals(theirs, whole.slice(first * shape[1], first * shape[1] + theirs.length));
    local.synchronize();
    const spectrum = rfft(padded, { inplace: true });
    assert(spectrum.isView && spectrum.maxAbsDifference(rfft(reals)) < 1e-12);
    padded.free();

    const values = complex(runtime, shape, 8);
    const operand = allocateOperand(runtime, shape, Slab.X, { memory: "symmetric" });
    operand.local.set(values.local);
    using transform = planned(operand, { inplace: true });
    transform.resetOperands(transform.execute());
    assert(transform.execute({ direction: "inverse" }).maxAbsDifference(values) < 1e-13);
    transform.releaseOperands();
    freeSymmetricMemory(operand);
  }
});

clusterTest("autotune of a transform in place measures in place, and leaves the operand as it was", (runtime) => {
  for (const memory of ["symmetric", runtime.stream ? "device" : "host"] as const) {
    const values = DistributedArray.random(runtime, [6, 8], Slab.X, { dtype: "float64", seed: 9 });
    using operand = allocateOperand(runtime, [6, 8], Slab.X, { dtype: "float64", memory });
    operand.local.set(values.local);
    using transform = planned(operand, { inplace: true });
    // What is between the rows is the end of those of results.
    const isBetweenClear = () => [8, 9].every((at) => operand.local.data[at] === 0);
    const isSeen = runtime.stream === null && runtime.size === 1;
    if (isSeen) assert(isBetweenClear());
    const measured = transform.autotune({ repetitions: 1 });
    assertEquals(transform.algorithm.algorithm, measured[0].algorithm);
    assertEquals(operand.maxAbsDifference(values), 0);
    if (isSeen) assert(!isBetweenClear());
    assert(transform.execute().maxAbsDifference(rfft(values)) < 1e-12);
  }
});

clusterTest("real numbers there and back, in place in padded rows", (runtime) => {
  const shape = [5, 8, 6];
  const values = DistributedArray.random(runtime, shape, Slab.X, { dtype: "float64", seed: 4 });
  const operand = allocateOperand(runtime, shape, Slab.X, { dtype: "float64" });
  assertEquals(operand.local.strides, [64, 8, 1]);
  operand.local.set(values.local);
  const spectrum = rfft(operand, { inplace: true });
  assert(spectrum.isView);
  const expected = rfft(values);
  assert(spectrum.maxAbsDifference(expected) < 1e-12);
  assert(irfft(expected).maxAbsDifference(values) < 1e-13);
  operand.free();
  assertThrows(() => spectrum.local, StateError, "was freed");
});

clusterTest("odd numbers of reals there and back in place, in all of the operand's room", (runtime) => {
  // Of a part of them an odd one is left over where complex numbers take its memory.
  const cases = [
    ...[[5, 7], [7, 5], [9, 7]].map((shape) => ({ shape, order: "F", axes: [0, 1] } as const)),
    ...[[3, 9], [5, 7]].map((shape) => ({ shape, order: "C", axes: [0] } as const)),
  ];
  for (const { shape, order, axes } of cases) {
    const values = DistributedArray.random(runtime, shape, Slab.X, { dtype: "float64", order, seed: 4 });
    const operand = allocateOperand(runtime, shape, Slab.X, { dtype: "float64", order, axes });
    operand.local.set(values.local);
    const back = irfft(rfft(operand, { axes, inplace: true }), { axes, inplace: true, lastAxisParity: "odd" });
    assert(back.isView);
    assert(back.redistribute(Slab.X).maxAbsDifference(values) < 1e-13, `${shape}, order ${order}`);
  }
});

clusterTest("explain, algorithm and toString tell what runs", (runtime) => {
  const field = complex(runtime, [16, 8], 5);
  using transform = new FFT(field, { norm: "ortho", engine: runtime.stream ? "cufft" : "fftw" });
  assertStringIncludes(transform.explain(), "not planned yet");
  assertEquals(String(transform), "FFT(c2c, 16 x 8, complex128, not planned)");
  assertThrows(() => transform.algorithm, StateError, "FFT.algorithm was used before plan()");
  transform.plan();
  const { engine, algorithm, variant, bytesMoved, steps, library } = transform.algorithm;
  assertEquals(engine, runtime.stream ? "cufft" : "fftw");
  assert(library.length > 0);
  if (runtime.size === 1) {
    assertEquals([algorithm, variant, bytesMoved], ["local", "Slab.X (axes 0, 1)", 0]);
    assertEquals(steps.length, 1);
    // The library is named where there are two.
    assertMatch(steps[0], /^transform axes 0, 1 in Slab\.X, c2c(, by (FFTW|MKL))?$/);
  } else {
    assertEquals([algorithm, variant], ["transpose", "Slab.X (axis 1) -> Slab.Y (axis 0)"]);
    const stays = Array.from({ length: runtime.size }, (_, rank) => {
      const count = (extent: number) => Slab.X.bind([extent], runtime.size).localShape(rank)[0];
      return count(16) * count(8);
    });
    assertEquals(bytesMoved, 16 * (128 - stays.reduce((sum, n) => sum + n, 0)));
    // A small result is made in the plan's memory.
    assertEquals(steps.length, 4);
    using move = new Redistribution(field, Slab.Y);
    assertEquals(steps[1], `redistribute Slab.X -> Slab.Y: ${bytesMoved} bytes, by ${move.algorithm.algorithm}`);
  }
  assertEquals(transform.communication.total, bytesMoved);
  assertStringIncludes(transform.explain(), `this rank sends ${transform.communication.sent(runtime.rank)} bytes`);
  const model = runtime.stream ? /predicted [\d.]+ us, .* GB\/s between GPUs, / : /predicted [\d.]+ us, .* GFLOP\/s/;
  assertMatch(transform.explain(), model);
  assertStringIncludes(transform.explain(), "c2c along axes 0, 1, norm ortho\n  operand 16 x 8, complex128, Slab.X");
  const messages: string[] = [];
  const logger = {
    debug: (text: string) => messages.push(text),
    info: (text: string) => messages.push(text),
    warn() {},
  };
  fft(field, { logger });
  assert(messages.some((text) => text.startsWith(`planned ${algorithm} on ${engine} in`)));
  transform.free();
  assertThrows(() => transform.explain(), StateError, "FFT.explain() was used after free()");
});

clusterTest("what is wrong is refused on every rank", (runtime) => {
  const field = complex(runtime, [8, 6], 1);
  const real = DistributedArray.zeros(runtime, [8, 6], Slab.X);
  const whole = DistributedArray.zeros(runtime, [8, 6], Slab.X, { dtype: "int32" });
  const half = DistributedArray.zeros(runtime, [8, 6], Slab.X, { dtype: "float16" });
  const halfReason = runtime.stream
    ? "where the extents of transformed axes are powers of two, and axis 1 has 6"
    : "engine fftw cannot run this transform: numbers of half precision are transformed on GPUs only";
  // deno-lint-ignore no-explicit-any
  type Any = any;
  const bad = (options: Any) => () => new FFT(field, options);
  const cases: [() => unknown, Any, string][] = [
    [() => fft({} as never), TypeError, "The operand must be a DistributedArray; got an object"],
    [
      () => fft(real),
      DTypeError,
      "fft (c2c) transforms complex64, complex128, complex32; the operand is float64. Use rfft",
    ],
    [
      () => rfft(field),
      DTypeError,
      "rfft (r2c) transforms float32, float64, float16; the operand is complex128. Use fft",
    ],
    [() => irfft(real), DTypeError, "irfft (c2r) transforms complex64, complex128, complex32; the operand is float64."],
    [() => fft(whole), DTypeError, 'the operand is int32. Convert it: to({ dtype: "complex64" })'],
    [
      () => new FFT(half.to({ dtype: "bfloat16" })),
      DTypeError,
      'transforms float32, float64, float16; the operand is bfloat16. Convert it: to({ dtype: "float32" }).',
    ],
    [() => rfft(half), ConfigurationError, `${halfReason}. Convert the operand: to({ dtype: "float32" }).`],
    [() => new FFT(half), ConfigurationError, halfReason],
    [
      () => fft(half.to({ dtype: "complex32" })),
      ConfigurationError,
      `${halfReason}. Convert the operand: to({ dtype: "complex64" }).`,
    ],
    [() => allocateOperand(runtime, [8, 6], Slab.X, { dtype: "complex32" }), ConfigurationError, halfReason],
    [bad({ axis: 1 }), TypeError, 'the options of FFT may have no key "axis"; did you mean "axes"?'],
    [bad({ fftType: "C2C" }), TypeError, "fftType must be one of c2c, r2c, c2r"],
    [bad({ norm: "orthogonal" }), TypeError, "norm must be one of backward, ortho, forward, none"],
    [bad({ axes: [] }), TypeError, "axes must be a list of at least one axis"],
    [bad({ axes: 1 }), TypeError, "axes must be a list of at least one axis"],
    [bad({ axes: [0.5] }), TypeError, "An axis must be a whole number; got 0.5"],
    [bad({ axes: [2] }), RangeError, "There is no axis 2: the operand has 2 dimensions, 0 to 1."],
    [bad({ axes: [1, -1] }), ShapeError, "axes names axis 1 twice: [1, -1]."],
    [bad({ lastAxisParity: "odd" }), TypeError, "lastAxisParity is for transforms to real numbers (c2r)"],
    [bad({ fftType: "c2r", lastAxisParity: "both" }), TypeError, "lastAxisParity must be one of even, odd"],
    [bad({ redistribute: 1 }), TypeError, "redistribute must be true or false"],
    [bad({ redistribute: true, distribution: Slab.X }), TypeError, "Leave out distribution."],
    [bad({ distribution: "Slab.X" }), TypeError, "The distribution must be one such as Slab.X"],
    [bad({ distribution: Slab.Z }), DistributionError, "Slab.Z divides dimension 2"],
    [bad({ distribution: Slab.X.bind([8, 7], runtime.size) }), DistributionError, "but the result has [8, 6]"],
    [bad({ inplace: "yes" }), TypeError, "inplace must be true or false"],
    [bad({ blocking: false }), TypeError, 'blocking must be true or "auto"'],
    ...runtime.stream
      ? [[bad({ stream: {} }), TypeError, "stream must be a Stream"] as typeof cases[number]]
      : [[bad({ stream: {} }), ConfigurationError, "stream is for GPUs"] as typeof cases[number]],
    [bad({ logger: {} }), TypeError, "logger must have the methods debug, info and warn"],
    [bad({ engine: "fftx" }), TypeError, "engine must be one of auto, fftw, cufft, cufftmp"],
    [
      bad({ engine: runtime.stream ? "fftw" : "cufft" }),
      ConfigurationError,
      `transforms on ${runtime.stream ? "CPUs" : "GPUs"}, and this runtime's device is ${runtime.device.name}`,
    ],
    [
      bad({ algorithm: "fast" }),
      TypeError,
      "algorithm must be one of default, local, transpose, four_step, gather, slabs, boxes",
    ],
    [bad({ algorithm: "four_step" }), ConfigurationError, "algorithm four_step cannot bring shape [8, 6] from Slab.X"],
    [bad({ effort: "none" }), TypeError, "effort must be one of estimate, measure, patient"],
    [
      () => new FFT(DistributedArray.zeros(runtime, [0, 2], Slab.X, { dtype: "complex64" })),
      ShapeError,
      "has no elements along axis 0",
    ],
    [() => irfft(complex(runtime, [3, 1], 1)), ShapeError, 'Pass lastAxisParity: "odd"'],
    [() => rfft(real, { inplace: true, redistribute: true }), ShapeError, "Make the operand by allocateOperand()"],
    [
      () => allocateOperand(runtime, [8, 6], Slab.X, { redistribute: true, resultDistribution: Slab.X }),
      TypeError,
      "redistribute: true gives the result the operand's distribution. Leave out resultDistribution.",
    ],
    [() => allocateOperand(runtime, [4, 4], Slab.X, { dtype: "int32" }), DTypeError, "the operand is int32"],
    [() => allocateOperand(runtime, [4, 4], Slab.X, { dtype: "float32", fftType: "c2c" }), DTypeError, "float32"],
    [
      () => allocateOperand(runtime, [4, 4], Slab.X, { order: "A" as never }),
      TypeError,
      'The order must be "C" or "F"',
    ],
  ];
  for (const [call, kind, message] of cases) assertThrowsEverywhere(runtime, call, kind, message);
});

clusterTest("operands of an FFT are replaced by others that are alike only", (runtime) => {
  const field = complex(runtime, [8, 6], 1);
  using transform = planned(field);
  // deno-lint-ignore no-explicit-any
  const fails = (operand: unknown, kind: any, message: string) =>
    assertThrowsEverywhere(runtime, () => transform.resetOperands(operand as never), kind, message);
  fails(null, TypeError, "The operand must be a DistributedArray; got null");
  fails(field.to({ dtype: "complex64" }), DTypeError, "The operand is complex64; this FFT was made for complex128.");
  fails(complex(runtime, [8, 7], 1), ShapeError, "The operand has shape [8, 7]");
  fails(field.to({ order: "F" }), ShapeError, 'and order "F"; this FFT was made for [8, 6] and "C"');
  const unchecked = (operand: unknown) => () => transform.resetOperandsUnchecked(operand as never);
  assertThrows(unchecked(null), TypeError, "The operand must be a DistributedArray; got null");
  assertThrows(unchecked(field.to({ dtype: "complex64" })), DTypeError, "this FFT was made for complex128");
  assertThrows(unchecked(complex(runtime, [8, 7], 1)), ShapeError, "The operand has shape [8, 7]");
  const gone = complex(runtime, [8, 6], 2);
  transform.resetOperands(gone);
  gone.free();
  assertThrowsEverywhere(
    runtime,
    () => transform.execute(),
    StateError,
    "The operand was freed. Pass an array that is",
  );
  fails(gone, StateError, "The operand was freed");
  const direction = "forwards" as never;
  transform.resetOperands(field);
  assertThrowsEverywhere(runtime, () => transform.execute({ direction }), TypeError, "direction must be one of");
  assertThrowsEverywhere(runtime, () => transform.autotune({ repetitions: 0 }), RangeError, "whole number from 1");
  using real = planned(DistributedArray.zeros(runtime, [4, 4], Slab.X));
  const back = () => real.execute({ direction: "inverse" });
  assertThrowsEverywhere(runtime, back, TypeError, 'A transform of type r2c is forward; direction was "inverse".');
  using ended = planned(field);
  ended.free();
  assertThrows(() => ended.resetOperandsUnchecked(field), StateError, "resetOperandsUnchecked() was used after free");
  if (runtime.size === 1) return;
  using returning = planned(field, { redistribute: true });
  assertThrowsEverywhere(
    runtime,
    () => returning.resetOperands(field.redistribute(Slab.Y)),
    DistributionError,
    "this FFT was made for Slab.X. Convert",
  );
  fails(
    complex(runtime, [8, 6], 1, Slab.Y).redistribute(
      new Box([
        [[0, 0], [8, 6]],
        ...Array.from({ length: runtime.size - 1 }, () => [[0, 0], [0, 0]] as [number[], number[]]),
      ]),
    ),
    DistributionError,
    "this FFT was made for Slab.X or Slab.Y. Convert it with redistribute().",
  );
  const view = allocateOperand(runtime, [6, 8], Slab.X).slice([[0, 6], [0, 7]]);
  assertThrowsEverywhere(runtime, () => fft(view, { inplace: true }), StateError, "that allocateOperand() has made");
  const divided = new Box(Array.from({ length: runtime.size }, (_, rank) => {
    const bound = (r: number) => Math.floor(6 * r / runtime.size);
    return [[0, bound(rank)], [8, bound(rank + 1)]] as [number[], number[]];
  }));
  const boxed = DistributedArray.zeros(runtime, [8, 6], divided);
  const same = () => rfft(boxed, { redistribute: true });
  assertThrowsEverywhere(
    runtime,
    same,
    DistributionError,
    "has no counterpart for the result's shape [8, 4]. Pass the",
  );
});

clusterTest("ranks that differ are told so", { ranks: [2, 3, 4] }, (runtime) => {
  const isFirst = runtime.rank === 0;
  const field = complex(runtime, [8, 6], 1);
  const differ = (options: FFTOptions, fact: string) =>
    assertThrowsEverywhere(
      runtime,
      () => new FFT(field, isFirst ? options : {}),
      CollectiveError,
      `new FFT: the ranks disagree on ${fact}`,
    );
  differ({ axes: [1] }, "axes");
  differ({ norm: "ortho" }, "norm");
  differ({ redistribute: true }, "distribution");
  differ({ fftType: "c2r" }, "type");
  differ({ inplace: true, redistribute: true }, "distribution");
  differ({ effort: "patient" }, "effort");
  using transform = planned(field);
  const direction = isFirst ? "forward" : "inverse";
  const message = "FFT.execute: the ranks disagree on direction";
  assertThrowsEverywhere(runtime, () => transform.execute({ direction }), CollectiveError, message);
  const call = () => isFirst ? fft(field) : ifft(field);
  assertThrowsEverywhere(runtime, call, CollectiveError, "The ranks are in different operations");
  const freed = complex(runtime, [8, 6], 1);
  if (isFirst) freed.free();
  assertThrowsEverywhere(runtime, () => fft(freed), StateError, "The operand was freed");
  assert(transform.execute().maxAbsDifference(fft(field)) < 1e-12);
});

hostTest("what was planned is freed on every rank if one cannot plan", { ranks: [2, 3] }, (runtime) => {
  const { live, stop } = countPlans();
  try {
    const isLast = runtime.rank === runtime.size - 1;
    const field = complex(runtime, [8, 6], 1);
    // The last rank has nearly all rows: on the way there, and back, elements are transformed in a buffer, which plans at once.
    const ends = Array.from({ length: runtime.size }, (_, rank) => rank === runtime.size - 1 ? 8 : rank + 1);
    const distribution = new Box(ends.map((end, rank) => [[rank === 0 ? 0 : ends[rank - 1], 0], [end, 6]]));
    using transform = planned(field, { effort: "estimate", distribution });
    const before = live();
    assert(before > 0);
    const freed = complex(runtime, [8, 6], 1);
    transform.resetOperands(freed);
    if (isLast) freed.free();
    assertThrowsEverywhere(runtime, () => transform.plan(), StateError, "The operand was freed");
    assertThrowsEverywhere(runtime, () => fft(freed), StateError, "The operand was freed");
    assertEquals(live(), before, "plan() and fft()");
    transform.resetOperands(field);
    const spectrum = transform.execute();
    const other = complex(runtime, [8, 7], 1);
    const reset = () => transform.resetOperands(isLast ? other : spectrum);
    assertThrowsEverywhere(runtime, reset, ShapeError, "this FFT was made for [8, 6]");
    assertEquals(live(), before, "resetOperands()");
    // What was freed is planned again.
    transform.resetOperands(spectrum);
    assert(live() > before);
    assert(transform.execute({ direction: "inverse" }).maxAbsDifference(field) < 1e-13);
  } finally {
    stop();
  }
});

/** Counts plans of double precision that were made and not freed, from now until `stop`. */
function countPlans(): { live: () => number; stop: () => void } {
  let count = 0;
  const libraries = openFftw("float64") as { -readonly [key in keyof Fftw]: Fftw[key] }[];
  const usual = libraries.map(({ planComplex, destroyPlan }) => ({ planComplex, destroyPlan }));
  libraries.forEach((library, i) => {
    const { planComplex, destroyPlan } = usual[i];
    library.planComplex = (...parameters) => (count++, planComplex(...parameters));
    library.destroyPlan = (plan) => (count--, destroyPlan(plan));
  });
  return { live: () => count, stop: () => libraries.forEach((library, i) => Object.assign(library, usual[i])) };
}
