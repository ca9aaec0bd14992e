/** The engine of cuFFTMp against that of cuFFT, and against the definition of the transform. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { checkCufft } from "../../ffi/cuda/cufft.ts";
import { CufftMpComm, openCufftMp } from "../../ffi/cuda/cufftmp.ts";
import {
  allocateOperand,
  allocateSymmetricMemory,
  BlockCyclic,
  Box,
  ConfigurationError,
  DistributedArray,
  type Distribution,
  FFT,
  fft,
  type FFTDirection,
  type FFTOptions,
  Graph,
  ifft,
  ProcessGrid,
  rfft,
  type Runtime,
  Slab,
} from "../../mod.ts";
import { assertThrowsEverywhere } from "../../src/testing/mod.ts";
import { at, generate, transformed } from "../cluster/fft_oracle.ts";
import { gpuTest, hasGpu, isMock } from "./gpu_test_kit.ts";

function isInstalled(): boolean {
  try {
    return hasGpu && !!openCufftMp();
  } catch {
    return false;
  }
}

const isMissing = !isInstalled();

/** A test with cuFFTMp. */
function mpTest(name: string, body: (runtime: Runtime) => void): void {
  gpuTest(name, body, { ignore: isMissing && "no cuFFTMp" });
}

type Shape = readonly number[];

/** Uneven boxes along an axis: the first rank has most. */
function boxesAlong(axis: number, shape: Shape, size: number): Box {
  const cut = (rank: number) => rank === 0 ? 0 : rank === size ? shape[axis] : shape[axis] - size + rank;
  return new Box(Array.from({ length: size }, (_, rank) =>
    [
      shape.map((_, d) => d === axis ? cut(rank) : 0),
      shape.map((extent, d) => d === axis ? cut(rank + 1) : extent),
    ] as [number[], number[]]));
}

/** Of so many cases one is tried, of other types and shapes by turns; all with DISTMATH_CASES=all. */
const EVERY = Deno.env.get("DISTMATH_CASES") === "all" ? 1 : 11;
let count = 0;

/** Transform by both engines. */
function compare(runtime: Runtime, real: Shape, from: Distribution, options: FFTOptions, order: "C" | "F" = "C"): void {
  if (count++ % EVERY > 0) return;
  const { fftType: type = "c2c", lastAxisParity, inplace = false } = options;
  const inner = order === "C" ? real.length - 1 : 0;
  const half = real.with(inner, Math.floor(real[inner] / 2) + 1);
  const shape = type === "c2r" ? half : real;
  const dtype = type === "r2c" ? "float64" : "complex128";
  const directions: readonly FFTDirection[] = type === "c2c"
    ? ["forward", "inverse"]
    : type === "r2c"
    ? ["forward"]
    : ["inverse"];
  const random = (salt: number) =>
    DistributedArray.random(runtime, type === "c2r" ? real : shape, Slab.X, {
      dtype: type === "c2c" ? "complex128" : "float64",
      order,
      seed: salt,
    });
  for (const direction of directions) {
    const field = random(3);
    const start = type === "c2r" ? rfft(field, { axes: axesOf(real, order), norm: "none" }) : field;
    const operand = inplace
      ? allocateOperand(runtime, shape, from, {
        dtype,
        order,
        memory: count % 2 === 0 ? "symmetric" : "device",
        fftType: type,
        axes: axesOf(real, order),
        ...options.distribution && { resultDistribution: options.distribution },
        ...options.redistribute && { redistribute: true },
        ...lastAxisParity && { lastAxisParity },
      })
      : DistributedArray.zeros(runtime, shape, from, { dtype, order });
    const expecting = DistributedArray.zeros(runtime, shape, from, { dtype, order });
    for (const each of [operand, expecting]) each.assign(start.redistribute(from));
    const all: FFTOptions = { axes: axesOf(real, order), ...options };
    using ours = new FFT(expecting, { ...all, engine: "cufft", inplace: false });
    using theirs = new FFT(operand, { ...all, engine: "cufftmp" });
    ours.plan();
    theirs.plan();
    const [expected, result] = [ours.execute({ direction }), theirs.execute({ direction })];
    const name = `${type} [${real}] ${from} ${order} ${JSON.stringify(options)} ${direction}`;
    assert(result.distribution.coincidesWith(expected.distribution), name);
    const error = result.maxAbsDifference(expected) / expected.norm();
    assert(error < 1e-14, `${name} by ${theirs.algorithm.algorithm}: ${error}`);
    if (!inplace) assertEquals(operand.maxAbsDifference(expecting), 0, `${name}: the operand`);
    assertEquals(theirs.algorithm.engine, "cufftmp");
  }
}

/** The last is the one that is halved, and neighbours in memory. */
function axesOf(shape: Shape, order: "C" | "F"): number[] {
  const axes = shape.map((_, d) => d);
  return order === "C" ? axes : axes.reverse();
}

mpTest("slabs and boxes, all types, both directions, in place and not, give what cuFFT gives", (runtime) => {
  const { size } = runtime;
  for (const real of [[8, 9], [9, 10], [9, 11, 8], [10, 8, 7]]) {
    const half = real.with(-1, Math.floor(real.at(-1)! / 2) + 1);
    for (const inplace of [false, true]) {
      for (const type of ["c2c", "r2c", "c2r"] as const) {
        const [before, after] = type === "c2c" ? [real, real] : type === "r2c" ? [real, half] : [half, real];
        const parity = type === "c2r" && real.at(-1)! % 2 === 1 ? { lastAxisParity: "odd" } as const : {};
        const base: FFTOptions = { fftType: type, inplace, ...parity };
        compare(runtime, real, Slab.X, { ...base, distribution: Slab.Y });
        compare(runtime, real, Slab.Y, { ...base, distribution: Slab.X, norm: "ortho" });
        compare(runtime, real, Slab.X, { ...base, redistribute: true, norm: "none" });
        compare(runtime, real, boxesAlong(0, before, size), { ...base, distribution: boxesAlong(1, after, size) });
        if (real.length === 3) compare(runtime, real, Slab.Z, { ...base, distribution: Slab.Y });
      }
    }
  }
});

mpTest("arrays in F order, whose first axis is the innermost", (runtime) => {
  for (const type of ["c2c", "r2c"] as const) {
    compare(runtime, [8, 11, 9], Slab.Z, { fftType: type, distribution: Slab.Y }, "F");
    compare(runtime, [8, 11, 9], Slab.Y, { fftType: type, distribution: Slab.Z }, "F");
    compare(runtime, [8, 9], Slab.Y, { fftType: type, redistribute: true }, "F");
  }
});

mpTest("single precision against the definition", (runtime) => {
  const shape = [6, 5, 4];
  const field = DistributedArray.generate(
    runtime,
    shape,
    Slab.X,
    (i, j, k) => [Math.sin(3 * i + 5 * j + 7 * k), Math.cos(i - 2 * j + k)] as const,
    { dtype: "complex64" },
  );
  const whole = generate(
    shape,
    ([i, j, k]) => [Math.sin(3 * i + 5 * j + 7 * k), Math.cos(i - 2 * j + k)],
  );
  const expected = transformed(whole, { type: "c2c", axes: [0, 1, 2], direction: "forward" });
  const { local, distribution } = fft(field, { engine: "cufftmp" });
  const numbers = local.toNumbers();
  let error = 0;
  generate(local.shape, (index) => {
    const [re, im] = at(expected, distribution.toGlobal(runtime.rank, index));
    const place = 2 * index.reduce((sum, i, d) => sum * local.shape[d] + i, 0);
    error = Math.max(error, Math.hypot(numbers[place] - re, numbers[place + 1] - im));
    return [0, 0];
  });
  assert(error < 1e-4, `the error is ${error}`);
});

mpTest("what lies in symmetric memory is transformed there; the way back by another operand", (runtime) => {
  const shape = [2 * runtime.size, 4 * runtime.size, 6];
  using field = DistributedArray.random(runtime, shape, Slab.X, { dtype: "complex128", seed: 5, memory: "symmetric" });
  const kept = field.copy();
  using transform = new FFT(field, { engine: "cufftmp", inplace: true, distribution: Slab.Y });
  transform.plan();
  const spectrum = transform.execute();
  assertEquals(spectrum.local.address, field.local.address);
  assert(spectrum.maxAbsDifference(fft(kept, { engine: "cufft", distribution: Slab.Y })) < 1e-12);
  assertStringIncludes(transform.explain(), "engine cufftmp, algorithm slabs: Slab.X -> Slab.Y");
  assertMatch(transform.explain(), /\n {2}predicted [\d.]+ us, .* GB\/s between GPUs, /);
  using there = new FFT(kept, { engine: "cufftmp" });
  there.plan({ algorithm: "boxes" });
  assertEquals(there.algorithm.algorithm, "boxes");
  const again = there.execute();
  there.resetOperands(again);
  assert(there.execute({ direction: "inverse" }).maxAbsDifference(kept) < 1e-12);
  assert(ifft(again, { engine: "cufftmp", distribution: Slab.X }).maxAbsDifference(kept) < 1e-12);
  assertEquals(
    new Set(there.autotune({ repetitions: 1 }).map(({ algorithm }) => algorithm)),
    new Set(["slabs", "boxes"]),
  );
});

mpTest(
  "operands of allocateOperand in symmetric memory are transformed there, there and back, without further memory",
  (runtime) => {
    const shape = [2 * runtime.size, 4 * runtime.size, 6];
    const options = { engine: "cufftmp", inplace: true, distribution: Slab.Y } as const;
    for (const dtype of ["complex128", "float64"] as const) {
      using values = DistributedArray.random(runtime, shape, Slab.X, { dtype, seed: 8 });
      const operand = allocateOperand(runtime, shape, Slab.X, {
        dtype,
        memory: "symmetric",
        resultDistribution: Slab.Y,
      });
      operand.assign(values);
      using transform = new FFT(operand, options);
      transform.plan();
      const expected = new FFT(values, { engine: "cufft", distribution: Slab.Y });
      expected.plan();
      const { workspaceBytes } = transform.algorithm;
      const spectrum = transform.execute();
      assert(spectrum.maxAbsDifference(expected.execute()) < 1e-12, dtype);
      if (dtype === "complex128") {
        transform.resetOperands(spectrum);
        assert(transform.execute({ direction: "inverse" }).maxAbsDifference(values) < 1e-13);
      }
      assertEquals(transform.algorithm.workspaceBytes, workspaceBytes, dtype);
      expected.free();
      transform.free();
      operand.free();
    }
  },
);

mpTest("a graph repeats transforms in place", (runtime) => {
  // The mock has no graphs.
  if (isMock(runtime)) return;
  using values = DistributedArray.random(runtime, [8, 8, 8], Slab.X, { dtype: "complex128", seed: 9 });
  using expected = fft(values, { engine: "cufft", distribution: Slab.Y });
  const operand = allocateOperand(runtime, [8, 8, 8], Slab.X, { dtype: "complex128", memory: "symmetric" });
  const transform = new FFT(operand, { engine: "cufftmp", inplace: true, distribution: Slab.Y });
  transform.plan();
  const spectrum = transform.execute();
  using graph = Graph.capture(runtime, () => void transform.execute({ direction: "forward" }));
  for (let i = 0; i < 3; i++) {
    operand.assign(values);
    graph.launch();
    const error = spectrum.maxAbsDifference(expected);
    assert(error < 1e-12, `launch ${i}: the error is ${error}`);
  }
  transform.free();
  operand.free();
});

mpTest(
  "autotune measures all engines that are there, and takes the fastest; none but the one that was named",
  (runtime) => {
    using field = DistributedArray.random(runtime, [2 * runtime.size, 4, 6], Slab.X, { dtype: "complex128", seed: 6 });
    using transform = new FFT(field);
    transform.plan();
    const measured = transform.autotune({ repetitions: 1 });
    assertEquals(new Set(measured.map(({ engine }) => engine)), new Set(["cufft", "cufftmp"]));
    const { engine, algorithm } = transform.algorithm;
    assertEquals([engine, algorithm], [measured[0].engine, measured[0].algorithm]);
    using expected = fft(field, { engine: "cufft" });
    using result = transform.execute();
    assert(result.maxAbsDifference(expected) < 1e-12);
    using own = new FFT(field, { engine: "cufft" });
    own.plan();
    assertEquals(new Set(own.autotune({ repetitions: 1 }).map(({ engine }) => engine)), new Set(["cufft"]));
  },
);

mpTest("its moves of parts, from slabs to slabs", (runtime) => {
  const { symbols } = openCufftMp();
  const { rank, size, stream } = runtime;
  const shape = [2 * size + 1, size, 6];
  using source = DistributedArray.random(runtime, shape, Slab.X, { dtype: "float64", seed: 7, memory: "symmetric" });
  using target = DistributedArray.zeros(runtime, shape, Slab.Y, { dtype: "float64", memory: "symmetric" });
  const box = ({ distribution, local }: DistributedArray) => {
    const [lower, upper] = distribution.bounds()![rank];
    return [lower, upper, local.strides].map((list) => BigInt64Array.from(list, BigInt));
  };
  const [[a, b, c], [d, e, f]] = [box(source), box(target)];
  const [handle, bytes] = [new BigUint64Array(1), new BigUint64Array(1)];
  checkCufft(symbols.cufftMpCreateReshape(handle), "cufftMpCreateReshape");
  const { COMM_NONE } = CufftMpComm;
  const code = symbols.__cufftMpMakeReshape_11_4(handle[0], 8n, 3, a, b, c, d, e, f, 0n, COMM_NONE);
  checkCufft(code, "__cufftMpMakeReshape_11_4");
  checkCufft(symbols.cufftMpGetReshapeSize(handle[0], bytes), "cufftMpGetReshapeSize");
  using work = allocateSymmetricMemory(runtime, [1 + Number(bytes[0])], { dtype: "uint8", makeSymmetric: true });
  const [to, from] = [target.local.address, source.local.address];
  // All have their elements before anybody fetches them.
  stream!.synchronize();
  runtime.communicator.barrier();
  const done = symbols.cufftMpExecReshapeAsync(handle[0], to, from, work.address, stream!.handle);
  checkCufft(done, "cufftMpExecReshapeAsync");
  stream!.synchronize();
  runtime.communicator.barrier();
  assertEquals(target.maxAbsDifference(source), 0);
  checkCufft(symbols.cufftMpDestroyReshape(handle[0]), "cufftMpDestroyReshape");
});

mpTest("what cuFFTMp does not have is refused, with the reason", (runtime) => {
  const { size } = runtime;
  const field = (shape: Shape, distribution: Distribution = Slab.X, order: "C" | "F" = "C") =>
    DistributedArray.zeros(runtime, shape, distribution, { dtype: "complex64", order });
  const refused = (operand: DistributedArray, options: FFTOptions, message: string) =>
    assertThrowsEverywhere(
      runtime,
      () => new FFT(operand, { engine: "cufftmp", ...options }),
      ConfigurationError,
      message,
    );
  refused(
    field([16]),
    {},
    "engine cufftmp cannot run this transform: it transforms all axes of arrays of 2 or 3 dimensions",
  );
  refused(field([8, 8, 8]), { axes: [1, 2] }, "and this one has 3 of which the axes 1, 2 are transformed");
  const real = DistributedArray.zeros(runtime, [8, 8], Slab.X, { dtype: "float32", order: "F" });
  refused(real, {}, "it halves the axis whose elements are neighbours in memory, here 0, and this transform axis 1");
  refused(field([8, 8]), { algorithm: "local" }, "Use default, or slabs or boxes.");
  if (size === 1) return;
  refused(field([8, 8]), { redistribute: true, algorithm: "slabs" }, "Use default, or boxes.");
  refused(field([8, size - 1]), { redistribute: true }, "there must be an index for each of");
  const grid = new ProcessGrid({ shape: [size, 1], layout: "row-major" });
  refused(field([16, 8], new BlockCyclic(grid, [2, 2])), {}, "it takes one box of elements from each rank");
});
