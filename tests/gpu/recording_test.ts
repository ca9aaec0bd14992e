/** Recordings of what GPUs do: computing, copies and waits, on which stream, in pictures and traces. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { DistributedArray, type DType, FFT, type Interval, Matmul, Redistribution, Slab, Stream } from "../../mod.ts";
import { gpuTest, isMock } from "./gpu_test_kit.ts";

/** The first lane of a stream; before it are those of the host. */
const FIRST_STREAM = 2;

/** What times of events may be apart by, in microseconds. */
const ROUNDING = 1;

gpuTest("a recording tells what GPUs compute, copy and wait for, on which stream", (runtime) => {
  const { size } = runtime;
  const extent = isMock(runtime) ? 32 * size : 2048 * size;
  const random = (dtype: DType, seed: number) =>
    DistributedArray.random(runtime, [extent, extent], Slab.X, { dtype, seed });
  using a = random("float32", 1);
  using b = random("bfloat16", 2);
  using c = random("complex64", 3);
  using library = new Matmul(a, a, { distribution: Slab.X, engine: "cublasmp" });
  using chosen = new Matmul(b, b, { distribution: Slab.X });
  using turn = new Redistribution(a, Slab.Y);
  using byNccl = new Redistribution(a, Slab.Y);
  using spectrum = new FFT(c);
  library.plan();
  chosen.plan();
  byNccl.plan({ algorithm: "packed_nccl" });
  spectrum.plan();
  const run = [library, chosen, turn, byNccl, spectrum].map((operation) => () => operation.execute().free());
  const names = ["Matmul", "Matmul", "Redistribution", "Redistribution", "FFT"].map((name) => `${name}.execute`);
  // Kernels are compiled, and ranks connected, at the first execution.
  for (const execute of run) execute();

  using recording = runtime.record();
  for (const execute of run) execute();
  const timeline = recording.timeline();
  const [svg, trace] = [timeline.toSVG(), JSON.parse(timeline.toChromeTrace())];
  for (let rank = 0; rank < size; rank++) {
    const onGpu = timeline.measured.filter((one) => one.rank === rank && one.lane >= FIRST_STREAM);
    const operations = onGpu.filter(({ kind }) => kind === "operation");
    assertEquals(operations.map(({ label }) => label), names);
    assert(operations.every(({ lane, start, end }) => lane === FIRST_STREAM && end > start));
    /** What an operation did of some kind; streams have done with it when it ends. */
    const pieces = (operation: number, kind: Interval["kind"]) => {
      const { start, end } = operations[operation];
      const found = onGpu.filter((one) => one.kind === kind && one.end > start && one.end <= end + ROUNDING);
      assert(found.every((one) => one.end > one.start), `${kind} of ${names[operation]} lasts`);
      return found;
    };
    const counts = (kind: Interval["kind"]) => names.map((_, i) => pieces(i, kind).length);
    const [gemms, ffts, copies, waits] = (["gemm", "fft", "copy", "wait"] as const).map(counts);
    assert(gemms[0] > 0 && gemms[1] > 0, `products: ${gemms}`);
    assert(ffts[4] > 0, `transforms: ${ffts}`);
    assert(copies[2] > 0 && copies[3] > 0, `copies: ${copies}`);
    if (size > 1) assert(copies[4] > 0, `copies: ${copies}`);
    // Where GPUs do not address each other's memory, NCCL waits, which tells nobody.
    if (size > 1 && turn.algorithm.algorithm !== "packed_nccl") assert(waits[2] > 0 && waits[4] > 0, `waits: ${waits}`);
    assertEquals(pieces(3, "copy").some(({ label }) => label.startsWith("by NCCL")), size > 1);

    assertStringIncludes(svg, `>rank ${rank}, stream 0 (main)</text>`);
    type Event = { pid: number; cat?: string; name: string; tid: number; dur?: number; args?: { name: string } };
    const events = (trace.traceEvents as Event[]).filter(({ pid }) => pid === rank);
    const lanes = events.filter(({ name }) => name === "thread_name").map(({ args }) => args!.name);
    assert(lanes.includes("stream 0 (main)"), lanes.join());
    for (const { kind, lane, label, start, end } of onGpu) {
      assertStringIncludes(svg, `<title>${label}: ${start.toFixed(1)} to ${end.toFixed(1)} us</title>`);
      assert(
        events.some((one) => one.cat === kind && one.tid === lane && one.name === label && one.dur === end - start),
      );
    }
    const isSeparate = size > 1 && turn.algorithm.algorithm !== "packed_nccl" && !isMock(runtime);
    if (isSeparate) {
      // What leaves and what arrives have streams of their own.
      for (const name of ["copies", "arrivals"]) assert(lanes.some((lane) => lane.endsWith(`(${name})`)), lanes.join());
    }
  }
  assertMatch(turn.explain(), /took [\d.]+ us of the host and [\d.]+ us of its GPU on this rank/);
});

gpuTest("a recording tells what was on a stream that is gone when it ends", (runtime, { device }) => {
  using a = DistributedArray.full(runtime, [16, 16], Slab.X, 1, { dtype: "bfloat16" });
  using product = new Matmul(a, a);
  product.plan();
  product.execute().free();
  using recording = runtime.record();
  const stream = new Stream(device, { name: "mine" });
  const result = product.execute({ stream });
  stream.synchronize();
  result.free();
  stream[Symbol.dispose]();
  const timeline = recording.timeline();
  for (let rank = 0; rank < runtime.size; rank++) {
    const found = timeline.measured.find((one) =>
      one.rank === rank && one.kind === "operation" && one.lane > FIRST_STREAM
    );
    assertEquals(found?.label, "Matmul.execute");
    assertStringIncludes(timeline.toSVG(), `>rank ${rank}, stream ${found!.lane - FIRST_STREAM} (mine)</text>`);
  }
});
