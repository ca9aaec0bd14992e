/** Transforms on GPUs, beside those of the cluster tests: streams, memory, parts that move while others are transformed. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import {
  allocateOperand,
  ConfigurationError,
  DistributedArray,
  FFT,
  fft,
  Graph,
  ifft,
  irfft,
  MemoryPool,
  rfft,
  Slab,
  StateError,
  Stream,
} from "../../mod.ts";
import { openNccl } from "../../ffi/cuda/nccl.ts";
import { calling } from "../../src/fft/engines/cufft/passes.ts";
import { cutting } from "../../src/fft/engines/staged/parts.ts";
import { assertThrowsEverywhere } from "../../src/testing/mod.ts";
import { delayStream } from "./delay.ts";
import { gpuTest, isMock } from "./gpu_test_kit.ts";

gpuTest("a transform on another stream, whose result that stream may use", (runtime, stream) => {
  using other = new Stream(stream.device);
  const field = DistributedArray.random(runtime, [24, 18], Slab.X, { dtype: "complex64", seed: 1 });
  using transform = new FFT(field, { stream: other });
  transform.plan();
  const [one, two] = [transform.execute(), transform.execute({ stream })];
  other.synchronize();
  assertEquals(one.maxAbsDifference(two), 0);
  assert(ifft(fft(field, { stream: other }), { distribution: Slab.X }).maxAbsDifference(field) < 1e-6);
});

gpuTest("an operand in host memory is refused, with what to do", (runtime) => {
  const field = DistributedArray.zeros(runtime, [4, 4], Slab.X, { dtype: "complex64", memory: "host" });
  assertThrowsEverywhere(runtime, () => fft(field), ConfigurationError, 'Move it there: to({ memory: "device" })');
  using transform = new FFT(field.to({ memory: "device" }));
  assertThrowsEverywhere(runtime, () => transform.resetOperands(field), ConfigurationError, "is in host memory");
});

gpuTest("transforms that move elements between GPUs are no part of a graph, and go on outside of it", (runtime) => {
  // The mock has no graphs.
  if (runtime.size === 1 || isMock(runtime)) return;
  const shape = [4 * runtime.size, 4 * runtime.size];
  const field = DistributedArray.random(runtime, shape, Slab.X, { dtype: "complex64", seed: 1 });
  const values = field.copy();
  using transform = new FFT(field, { distribution: Slab.Y, inplace: true, engine: "cufft" });
  transform.plan();
  const there = () => transform.execute({ direction: "forward" });
  const capture = () => Graph.capture(runtime, () => void there());
  assertThrowsEverywhere(runtime, capture, StateError, "cannot be captured in a CUDA graph. Call them before");
  assert(ifft(there(), { distribution: Slab.X }).maxAbsDifference(values) < 1e-6);
});

gpuTest("an axis between others takes one call where its elements are moved, or one for each plane", (runtime) => {
  const usual = { ...calling };
  const field = DistributedArray.random(runtime, [3 * runtime.size, 10, 8], Slab.X, {
    dtype: "complex128",
    seed: 5,
  });
  const results = [usual.worthBytes, 0].map((worthBytes) => {
    calling.worthBytes = worthBytes;
    using transform = new FFT(field, { axes: [1] });
    transform.plan();
    const result = transform.execute();
    return { result, bytes: transform.algorithm.workspaceBytes };
  });
  Object.assign(calling, usual);
  const [moved, plain] = results;
  assert(moved.result.maxAbsDifference(plain.result) < 1e-14);
  assertEquals(moved.bytes - plain.bytes, field.local.byteLength);
  assert(ifft(moved.result, { axes: [1] }).maxAbsDifference(field) < 1e-14);
});

gpuTest("100 rounds of planning and executing leave memory where it was", (runtime, stream) => {
  using pool = new MemoryPool(stream.device);
  const round = () => {
    using field = DistributedArray.random(runtime, [12, 10, 14], Slab.X, { dtype: "float32", seed: 2 });
    using transform = new FFT(field);
    transform.plan();
    using spectrum = transform.execute();
    using back = irfft(spectrum, { distribution: Slab.X });
    assert(back.maxAbsDifference(field) < 1e-5);
  };
  round();
  stream.synchronize();
  const before = pool.usedBytes;
  for (let i = 0; i < 100; i++) round();
  stream.synchronize();
  assertEquals(pool.usedBytes, before);
});

gpuTest("transforms in place keep memory for what lies between their steps, and no other", (runtime) => {
  const usual = { ...cutting };
  using _ = { [Symbol.dispose]: () => void Object.assign(cutting, usual) };
  cutting.leastBytes = isMock(runtime) ? 2 ** 10 : 2 ** 18;
  const extent = isMock(runtime) ? 32 : 128;
  const shape = [extent, extent, extent];
  // Of real numbers what is made of the operand, and what arrives; of complex ones what arrives alone.
  for (const [dtype, columns, arrays] of [["float32", extent / 2 + 1, 2], ["complex64", extent, 1]] as const) {
    const options = { dtype, resultDistribution: Slab.Y };
    using field = allocateOperand(runtime, shape, Slab.X, options);
    using transform = new FFT(field, { distribution: Slab.Y, inplace: true, engine: "cufft" });
    transform.plan();
    transform.execute();
    assertStringIncludes(transform.explain(), "while others are transformed");
    const bytes = extent * Math.ceil(extent / runtime.size) * columns * 8;
    const { workspaceBytes } = transform.algorithm;
    assert(workspaceBytes >= arrays * bytes && workspaceBytes < 1.1 * arrays * bytes, `${dtype}: ${workspaceBytes}`);
  }
}, { ranks: [2] });

gpuTest("parts that move while others are transformed: of large arrays, in both orders, uneven", (runtime) => {
  const usual = { ...cutting };
  Object.assign(cutting, { parts: 6, leastBytesInTurn: 0 });
  const workspaces: number[] = [];
  for (const [order, lands] of [["C", true], ["F", true], ["C", false], ["F", false]] as const) {
    cutting.lands = lands;
    // The mock has small arrays in parts of some bytes.
    const extents = isMock(runtime) ? [9, 8, 7] : [65, 128, 127];
    cutting.leastBytes = isMock(runtime) ? 16 : 2 ** 18;
    const shape = order === "C" ? extents : extents.toReversed();
    const [from, to] = order === "C" ? [Slab.X, Slab.Y] : [Slab.Z, Slab.Y];
    const field = DistributedArray.random(runtime, shape, from, { dtype: "complex128", order, seed: 3 });
    using transform = new FFT(field, { distribution: to, norm: "ortho", engine: "cufft" });
    transform.plan();
    const spectrum = transform.execute();
    if (runtime.size === 2) assertStringIncludes(transform.explain(), "while others are transformed");
    if (runtime.size > 1) {
      assertEquals(/in 2 parts along axis 1, each when it has arrived/.test(transform.explain()), lands);
    }
    workspaces.push(transform.algorithm.workspaceBytes);
    assert(Math.abs(spectrum.norm() / field.norm() - 1) < 1e-13, "Parseval");
    // Each axis alone moves nothing meanwhile.
    let apart = field;
    for (const axis of [0, 1, 2]) apart = fft(apart, { axes: [axis], norm: "ortho", distribution: to });
    assert(spectrum.maxAbsDifference(apart) < 1e-11, `${order}: one axis after the other`);
    assert(ifft(spectrum, { norm: "ortho", distribution: from }).maxAbsDifference(field) < 1e-12, "back");
    // One after the other, each rank late in turn: what still travels of one is not taken for the next.
    const spectra = Array.from({ length: 6 }, (_, i) => {
      transform.resetOperands(field.multiply(i + 2));
      if (!isMock(runtime) && i % runtime.size === runtime.rank) delayStream(runtime.stream!, 1e6);
      return transform.execute();
    });
    spectra.forEach((each, i) => {
      assert(each.maxAbsDifference(spectrum.multiply(i + 2)) < 1e-11, `${order}: execution ${i}`);
    });
    const real = DistributedArray.random(runtime, shape, from, { dtype: "float32", order, seed: 4 });
    const half = rfft(real, { distribution: to });
    assert(irfft(half, { distribution: from, lastAxisParity: "odd" }).maxAbsDifference(real) < 1e-4, "real numbers");
  }
  // Where parts go straight to what reads them, there is memory for that.
  if (runtime.size === 2) assert(workspaces[0] > workspaces[2] && workspaces[1] > workspaces[3], String(workspaces));
  Object.assign(cutting, usual);
});

gpuTest("parts go through slots where there is no memory for them to go straight to, with a note", (runtime) => {
  if (runtime.size === 1) return;
  const usual = { ...cutting };
  Object.assign(cutting, { parts: 6, leastBytesInTurn: 0, leastBytes: isMock(runtime) ? 16 : 2 ** 18, lands: true });
  const shape = isMock(runtime) ? [9, 8, 7] : [65, 128, 127];
  const field = DistributedArray.random(runtime, shape, Slab.X, { dtype: "complex128", seed: 3 });
  const { symbols } = openNccl();
  const { ncclMemAlloc } = symbols;
  const planned = () => {
    const transform = new FFT(field, { distribution: Slab.Y, norm: "ortho", engine: "cufft" });
    transform.plan();
    return transform;
  };
  try {
    using usualOne = planned();
    assert(!usualOne.explain().includes("go through slots"));
    // Of all ranks one has no memory left: all do without.
    Object.assign(symbols, { ncclMemAlloc: runtime.rank === 0 ? () => 1 : ncclMemAlloc });
    using transform = planned();
    const { notes, workspaceBytes } = transform.algorithm;
    assertEquals(notes.length, 1);
    assertMatch(
      notes[0],
      /^parts go through slots, .* there are no \d+ bytes of it: ncclMemAlloc of \d+ bytes failed with/,
    );
    assert(workspaceBytes < usualOne.algorithm.workspaceBytes);
    assert(transform.execute().maxAbsDifference(usualOne.execute()) < 1e-12);
    // What is no matter of memory is an error.
    Object.assign(symbols, {
      ncclMemAlloc: () => {
        throw new Error("another mistake");
      },
    });
    assertThrowsEverywhere(runtime, planned, Error, "another mistake");
  } finally {
    Object.assign(symbols, { ncclMemAlloc });
    Object.assign(cutting, usual);
  }
});
