/** Recordings of what GPUs do: computing, copies and waits, on which stream, in pictures and traces. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import {
  DistributedArray,
  type Distribution,
  type DType,
  FFT,
  type Interval,
  Matmul,
  Redistribution,
  Slab,
  Stream,
} from "../../mod.ts";
import { areGpusShared, gpuTest, isMock } from "./gpu_test_kit.ts";

/** The first lane of a stream; before it are those of the host. */
const FIRST_STREAM = 2;

/** What times of events may be apart by, in microseconds. */
const ROUNDING = 1;

/** Something that is executed, and what a recording has of it at least. */
interface Case {
  readonly operation: Disposable & { execute(): DistributedArray };
  readonly label: string;
  readonly kinds: readonly Interval["kind"][];
}

/** An event of a Chrome trace. */
interface TraceEvent {
  readonly pid: number;
  readonly tid: number;
  readonly name: string;
  readonly cat?: string;
  readonly dur?: number;
  readonly args?: { readonly name: string };
}

gpuTest("a recording tells what GPUs compute, copy and wait for, on which stream", (runtime) => {
  const { size } = runtime;
  // So much that it does not move at once.
  const extent = isMock(runtime) ? 32 * size : 4096 * size;
  using held = new DisposableStack();
  const random = (dtype: DType, distribution: Distribution) =>
    held.use(DistributedArray.random(runtime, [extent, extent], distribution, { dtype }));
  const product = (dtype: DType, engine: "cublasmp" | "overlap") => {
    const [a, b] = [random(dtype, Slab.X), random(dtype, Slab.Y)];
    const object = held.use(new Matmul(a, b, { distribution: Slab.Y, engine }));
    object.plan();
    return object;
  };
  const array = random("float32", Slab.X);
  const turn = held.use(new Redistribution(array, Slab.Y));
  const byNccl = held.use(new Redistribution(array, Slab.Y));
  byNccl.plan({ algorithm: "packed_nccl" });
  const spectrum = held.use(new FFT(random("complex64", Slab.X)));
  spectrum.plan();
  turn.execute().free();
  // Where GPUs do not address each other's memory, NCCL waits, which tells nobody.
  const arePeers = size > 1 && turn.algorithm.algorithm !== "packed_nccl";
  // Little moves by kernels that wait and copy.
  const moved = arePeers && !isMock(runtime) ? ["copy", "wait"] as const : ["copy"] as const;
  const cases: Case[] = [
    { operation: product("float32", "cublasmp"), label: "Matmul.execute", kinds: ["gemm"] },
    ...size === 1 || areGpusShared ? [] : [
      // Tile kernels, whose blocks push what is little; and cuBLASLt with copy engines.
      { operation: product("bfloat16", "overlap"), label: "Matmul.execute", kinds: ["gemm"] },
      { operation: product("float32", "overlap"), label: "Matmul.execute", kinds: ["gemm", "copy", "wait"] },
    ] as const,
    { operation: turn, label: "Redistribution.execute", kinds: moved },
    { operation: byNccl, label: "Redistribution.execute", kinds: ["copy"] },
    { operation: spectrum, label: "FFT.execute", kinds: size > 1 ? ["fft", ...moved] : ["fft"] },
  ];
  const execute = () => cases.forEach(({ operation }) => operation.execute().free());
  // Kernels are compiled, and ranks connected, at the first execution.
  execute();

  using recording = runtime.record();
  execute();
  const timeline = recording.timeline();
  const svg = timeline.toSVG();
  const trace = JSON.parse(timeline.toChromeTrace()).traceEvents as TraceEvent[];
  for (let rank = 0; rank < size; rank++) {
    const onGpu = timeline.measured.filter((one) => one.rank === rank && one.lane >= FIRST_STREAM);
    const operations = onGpu.filter(({ kind }) => kind === "operation");
    assertEquals(operations.map(({ label }) => label), cases.map(({ label }) => label));
    assert(onGpu.every(({ start, end }) => end > start), "everything lasts");
    cases.forEach(({ label, kinds }, i) => {
      const { lane, start, end } = operations[i];
      assertEquals(lane, FIRST_STREAM);
      // All streams have done with it when it ends.
      const pieces = onGpu.filter((one) => one.end > start && one.end <= end + ROUNDING);
      const found = new Set(pieces.map(({ kind }) => kind));
      assert(kinds.every((kind) => found.has(kind)), `${label}, ${i}: ${[...found]}, not ${kinds}`);
    });
    assertEquals(onGpu.some(({ label }) => label.startsWith("by NCCL")), size > 1);

    const events = trace.filter(({ pid }) => pid === rank);
    const lanes = events.filter(({ name }) => name === "thread_name").map(({ args }) => args!.name);
    assert(lanes.includes("stream 0 (main)"), lanes.join());
    for (const lane of lanes) assertStringIncludes(svg, `>rank ${rank}, ${lane}</text>`);
    for (const { kind, lane, label, start, end } of onGpu) {
      assertStringIncludes(svg, `<title>${label}: ${start.toFixed(1)} to ${end.toFixed(1)} us</title>`);
      const isIn = events.some(({ cat, tid, name, dur }) =>
        cat === kind && tid === lane && name === label && dur === end - start
      );
      assert(isIn, `${kind} ${label}`);
    }
    // What leaves and what arrives have streams of their own, unless it is little.
    const separate = arePeers && !isMock(runtime) ? ["copies", "arrivals"] : [];
    for (const name of separate) assert(lanes.some((lane) => lane.endsWith(`(${name})`)), lanes.join());
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

gpuTest("a recording counts the calls of NCCL, and explain() those of an execution", (runtime) => {
  const { size } = runtime;
  const extent = 16 * size;
  using a = DistributedArray.full(runtime, [extent, extent], Slab.X, 1, { dtype: "float32" });
  using turn = new Redistribution(a, Slab.Y);
  turn.plan({ algorithm: "packed_nccl" });
  using product = new Matmul(a, a, { distribution: Slab.X, engine: "cublasmp" });
  product.plan();
  assertStringIncludes(turn.explain(), "no execution was recorded");
  using recording = runtime.record();
  const told = (operation: { execute(): DistributedArray; explain(): string }) => {
    operation.execute().free();
    return / collective calls: (.*)$/.exec(operation.explain())?.[1];
  };
  const moved = size > 1 ? "ncclGroupEnd 1; exchanges: all-to-all by NCCL 1" : "none";
  assertEquals([told(turn), told(turn)], [moved, moved]);
  // What cuBLASMp sends is its own.
  assertEquals(told(product), "none");
  // The ranks have agreed three times.
  assertEquals(recording.collectives, size > 1 ? { MPI_Allreduce: 3, ncclGroupEnd: 2 } : {});
  assertEquals(recording.exchanges, size > 1 ? { "all-to-all by NCCL": 2 } : {});
});
