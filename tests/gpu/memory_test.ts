/** Devices, streams, events, buffers, pools, copies and the kernel cache. */
import { assert, assertEquals, assertNotEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { liveAllocations } from "../../internals.ts";
import {
  ConfigurationError,
  copyFromDevice,
  copyToDevice,
  Device,
  DeviceBuffer,
  DistributedArray,
  Event,
  Graph,
  initialize,
  LocalArray,
  MemoryPool,
  PinnedBuffer,
  type Runtime,
  Slab,
  StateError,
  Stream,
} from "../../mod.ts";
import { cacheFolder } from "../../ffi/kernel_cache.ts";
import { Program } from "../../src/gpu/kernels/program.ts";
import { checkCuda, CudaMemcpyKind, openCudaRuntime } from "../../ffi/cuda/runtime.ts";
import { makeDeviceChannels } from "../../src/memory/device_channels.ts";
import { assertThrowsEverywhere } from "../../src/testing/mod.ts";
import { delayStream } from "./delay.ts";
import { gpuTest, isMock } from "./gpu_test_kit.ts";

gpuTest("the runtime tells its GPU, and each rank has its own", (runtime, stream) => {
  const { device } = runtime;
  if (device.kind !== "gpu") throw new Error(`the device is ${device.name}`);
  assert(device.memoryBytes > 2 ** 30 && device.computeCapability[0] >= 7);
  assert(/^GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(device.uuid), device.uuid);
  assertEquals(stream.device.uuid, device.uuid);
  const uuids = runtime.communicator.allGatherObject(device.uuid);
  assertEquals(new Set(uuids).size, Math.min(runtime.size, Device.count()));
  assertThrows(() => new Device(99), ConfigurationError, "There is no GPU 99");
  const { freeBytes, totalBytes } = stream.device.memoryInfo();
  assert(freeBytes > 0 && freeBytes <= totalBytes);
  if (runtime.rank === 0) {
    console.log(
      `\n${runtime.size} x ${device.name}, ${device.computeCapability.join(".")}, ${device.memoryBytes} bytes`,
    );
    for (const { name, version, source } of runtime.versions()) console.log(`  ${name} ${version} (${source})`);
  }
});

gpuTest("two ranks on one GPU, and GPUs beside CPUs, are refused everywhere", (runtime) => {
  runtime[Symbol.dispose]();
  const isFirst = runtime.rank === 0;
  // Permitted by all ranks but one.
  const permission = Deno.env.get("NCCL_MULTI_RANK_GPU_ENABLE") ?? "0";
  Deno.env.set("NCCL_MULTI_RANK_GPU_ENABLE", isFirst ? "0" : "1");
  assertThrowsEverywhere(runtime, () => initialize({ device: 0 }), ConfigurationError, "would share GPU 0");
  Deno.env.set("NCCL_MULTI_RANK_GPU_ENABLE", permission);
  // Options that differ in kind fail before any GPU is looked at.
  assertThrowsEverywhere(runtime, () => initialize({ device: isFirst ? "cpu" : "auto" }), Error, "disagree on device");
  if (isFirst) Deno.env.set("DISTMATH_DEVICE", "cpu");
  try {
    assertThrowsEverywhere(runtime, () => initialize(), ConfigurationError, "and ranks 0 have none");
    Deno.env.set("DISTMATH_DEVICE", "gpu");
    assertThrowsEverywhere(runtime, () => initialize(), ConfigurationError, 'DISTMATH_DEVICE is "gpu"; allowed are');
  } finally {
    Deno.env.delete("DISTMATH_DEVICE");
  }
}, { ranks: [2, 3, 4] });

gpuTest("a CPU runtime on a machine with GPUs", (runtime) => {
  runtime[Symbol.dispose]();
  const cpu = initialize({ device: "cpu" });
  assertEquals([cpu.device.kind, cpu.stream], ["cpu", null]);
  assertEquals(DistributedArray.zeros(cpu, [3], Slab.X).memory, "host");
  assertThrowsEverywhere(cpu, () => cpu.nccl(), ConfigurationError, "computes on CPUs");
  cpu[Symbol.dispose]();
});

gpuTest("streams and events: order, waiting, time, the end", (_, stream) => {
  using other = new Stream(stream.device, { priority: -1 });
  assertNotEquals(other.handle, stream.handle);
  using buffer = new DeviceBuffer(stream, 2 ** 24);
  using start = stream.record(new Event({ timing: true }));
  copyToDevice(buffer.address, new Uint8Array(2 ** 24), stream);
  using end = stream.record(new Event({ timing: true }));
  other.wait(end);
  other.wait(stream);
  other.synchronize();
  assert(other.isDone && end.isDone && start.isDone);
  const seconds = end.elapsedSince(start);
  assert(seconds > 0 && seconds < 10, String(seconds));
  using foreign = new Stream(stream.device, { handle: stream.handle });
  stream.wait(foreign);
  foreign[Symbol.dispose]();
  assertThrows(() => foreign.handle, StateError, "was disposed of");
  assertThrows(() => stream.wait(foreign), StateError, "This Stream was disposed of");
  stream.synchronize();
  const gone = new Event();
  gone[Symbol.dispose]();
  gone[Symbol.dispose]();
  assertThrows(() => gone.handle, StateError, "was disposed of");
});

gpuTest("device and pinned buffers: lifetime, and where they came from", (_, stream) => {
  const before = liveAllocations().length;
  const buffer = new DeviceBuffer(stream, 1000);
  const pinned = new PinnedBuffer(4096);
  assertEquals(buffer.address % 256n, 0n);
  const kinds = liveAllocations().slice(before).map(({ kind, bytes }) => [kind, bytes]);
  assertEquals(kinds, [["device", 1000], ["pinned", 4096]]);
  for (const { place } of liveAllocations().slice(before)) assertStringIncludes(place, "memory_test.ts:");
  buffer.free();
  buffer.free();
  pinned.free();
  pinned[Symbol.dispose]();
  assertEquals(liveAllocations().length, before);
  assertThrows(() => buffer.address, StateError, "This device memory was freed");
  assertThrows(() => pinned.address, StateError, "This pinned memory was freed");
  using empty = new DeviceBuffer(stream, 0);
  assertEquals(empty.address, 0n);
});

gpuTest("ranks wait for each other for times that are no whole number of a GPU's cycles", (runtime) => {
  assert(!Number.isInteger(64.1 * 2e9));
  assert(makeDeviceChannels(runtime, 2 ** 14 * (runtime.size - 1), 64.1) !== null);
}, { ranks: [2, 3, 4] });

gpuTest(
  "what is no function of work on a stream is not captured, nor times of events that have none told",
  (runtime, stream) => {
    const given = [[3, "not 3"], [undefined, "not undefined"], [async () => {}, "asynchronous"]] as const;
    for (const [body, message] of given) {
      assertThrows(() => Graph.capture(runtime, body as () => void), TypeError, message);
      assert(!stream.isCapturing);
    }
    const [plain, timed] = [new Event(), new Event({ timing: true })].map((event) => stream.record(event));
    stream.synchronize();
    assertThrows(() => timed.elapsedSince(plain), StateError, "was made without timing");
    assertThrows(() => plain.elapsedSince(timed), StateError, "new Event({ timing: true })");
  },
);

gpuTest("asking whether a GPU is done leaves no error behind", (runtime, stream) => {
  const { cudaGetLastError } = openCudaRuntime().symbols;
  cudaGetLastError();
  const ways = [() => stream.isDone, () => event.isDone, () => stream.synchronize(), () => event.synchronize()];
  let event = stream.record();
  for (const ask of ways) {
    // The mock is always done.
    if (!isMock(runtime)) delayStream(stream, 5e6);
    event = stream.record();
    const said = ask();
    if (typeof said === "boolean") assertEquals(said, isMock(runtime));
    assertEquals(cudaGetLastError(), 0);
  }
  stream.synchronize();
});

gpuTest("sizes that are none are refused", (_, stream) => {
  using pool = new MemoryPool(stream.device);
  const kept = pool.releaseThreshold;
  for (const bytes of [-8, 1.5, NaN, "8" as unknown as number]) {
    for (
      const [give, what] of [
        [() => new DeviceBuffer(stream, bytes), "The size of a DeviceBuffer"],
        [() => new PinnedBuffer(bytes), "The size of a PinnedBuffer"],
        [() => pool.releaseThreshold = bytes, "releaseThreshold, if it is not Infinity,"],
        [() => pool.trim(bytes), "bytesToKeep"],
      ] as const
    ) {
      assertThrows(() => void give(), RangeError, `${what} must be a whole number of bytes from 0, not `);
    }
  }
  assertEquals(pool.releaseThreshold, kept);
});

gpuTest("too much memory is an error that says so, and leaves the GPU usable", (runtime, stream) => {
  const make = () => new DeviceBuffer(stream, 2 ** 45);
  const error = assertThrows(make, Error, "cudaMallocAsync of 35184372088832 bytes");
  assertStringIncludes(error.message, "Free device memory");
  // What was told is not found by libraries that ask for the last error.
  const { cudaGetLastError } = openCudaRuntime().symbols;
  assertEquals(cudaGetLastError(), 0);
  assertThrows(() => new PinnedBuffer(2 ** 50), Error, "cudaHostAlloc");
  assertEquals(cudaGetLastError(), 0);
  using buffer = new DeviceBuffer(stream, 2 ** 20);
  copyToDevice(buffer.address, new Uint8Array(2 ** 20).fill(7), stream);
  assertEquals(DistributedArray.full(runtime, [4], Slab.X, 2).sum(), 8);
});

gpuTest("1,000 rounds of making and freeing leave memory where it was", (runtime, stream) => {
  using pool = new MemoryPool(stream.device);
  const round = (i: number) => {
    using a = DistributedArray.full(runtime, [64, 64], Slab.X, i, { dtype: "float32" });
    using b = a.to({ dtype: "float64" });
    return b.sum();
  };
  round(0);
  const [live, used, [free]] = [liveAllocations().length, pool.usedBytes, freeOf(stream)];
  const rounds = isMock(runtime) ? 50 : 1000;
  for (let i = 0; i < rounds; i++) assertEquals(round(i), 4096 * i);
  stream.synchronize();
  assertEquals([liveAllocations().length, pool.usedBytes], [live, used]);
  assert(Math.abs(freeOf(stream)[0] - free) < 2 ** 26, "the GPU's free memory has changed");
});

function freeOf(stream: Stream): [number] {
  return [stream.device.memoryInfo().freeBytes];
}

gpuTest("memory outlives the stream that it was made on, and is freed", (_runtime, stream) => {
  const other = new Stream(stream.device);
  const buffer = new DeviceBuffer(other, 2 ** 20);
  other[Symbol.dispose]();
  assert(other.isDisposed && !stream.isDisposed);
  buffer.free();
  assert(buffer.isFreed);
});

gpuTest("dropped memory goes back to its pool", async (runtime, stream) => {
  const { gc } = globalThis as { gc?: () => void };
  if (gc === undefined) return;
  const settle = async (most: number) => {
    for (let i = 0; i < 50 && liveAllocations().length > most; i++) {
      gc();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return liveAllocations().length;
  };
  // What earlier tests have dropped goes first.
  await settle(0);
  const before = liveAllocations().length;
  const drop = () => {
    for (let i = 0; i < 100; i++) LocalArray.zeros("float32", [1000], "C", stream);
  };
  drop();
  assert(liveAllocations().length > before);
  assert(await settle(before) <= before, "arrays that nobody holds still have their memory");
  assertEquals(DistributedArray.full(runtime, [4], Slab.X, 2).sum(), 8);
});

gpuTest("copies of every size arrive whole, both ways", (runtime, stream) => {
  const chunk = 2 ** 21;
  const sizes = [1, 7, 4096, 2 ** 20 - 1, 2 ** 20, 2 ** 20 + 3, chunk, 3 * chunk + 5, 17 * chunk + 1, 40 * chunk - 9];
  for (const bytes of sizes) {
    const source = new Uint8Array(bytes + 3).map((_, i) => (i * 7 + (i >> 8)) & 0xff).subarray(3);
    using buffer = new DeviceBuffer(stream, bytes);
    copyToDevice(buffer.address, source, stream);
    const back = new Uint8Array(bytes);
    copyFromDevice(back, buffer.address, stream);
    assert(areEqual(source, back), `${bytes} bytes on rank ${runtime.rank}`);
  }
});

function areEqual(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((value, i) => value === b[i]);
}

/** Bytes a second of a pinned copy, as fast as the link is: the best of some. */
function linkSpeed(stream: Stream, kind: CudaMemcpyKind): number {
  const bytes = 2 ** 28;
  using pinned = new PinnedBuffer(bytes);
  using buffer = new DeviceBuffer(stream, bytes);
  const toDevice = kind === CudaMemcpyKind.HostToDevice;
  const [target, source] = toDevice ? [buffer.address, pinned.address] : [pinned.address, buffer.address];
  return best(bytes, () => {
    const { symbols } = openCudaRuntime();
    checkCuda(symbols.cudaMemcpyAsync(target, source, BigInt(bytes), kind, stream.handle), "cudaMemcpyAsync");
    stream.synchronize();
  });
}

function best(bytes: number, copy: () => void): number {
  let seconds = Infinity;
  for (let i = 0; i < 6; i++) {
    const start = performance.now();
    copy();
    seconds = Math.min(seconds, (performance.now() - start) / 1000);
  }
  return bytes / seconds;
}

gpuTest("1 GiB arrives on the GPU and comes back; how busy that keeps the link is told", async (runtime, stream) => {
  if (isMock(runtime)) return;
  const bytes = 2 ** 30;
  const host = LocalArray.empty("uint8", [bytes]).view() as Uint8Array<ArrayBuffer>;
  for (let i = 0; i < bytes; i++) host[i] = i % 251;
  using buffer = new DeviceBuffer(stream, bytes);
  copyToDevice(buffer.address, host, stream);
  await new Promise((resolve) => setTimeout(resolve, 1500)); // the crew's threads start
  const copies = [
    ["to the GPU", CudaMemcpyKind.HostToDevice, () => copyToDevice(buffer.address, host, stream)],
    ["from the GPU", CudaMemcpyKind.DeviceToHost, () => copyFromDevice(host, buffer.address, stream)],
  ] as const;
  for (const [what, kind, copy] of copies) {
    runtime.communicator.barrier(); // all links are busy at once
    const link = linkSpeed(stream, kind);
    runtime.communicator.barrier();
    const speed = best(bytes, () => {
      copy();
      stream.synchronize();
    });
    const figures = [speed / 1e9, link / 1e9].map((figure) => figure.toFixed(1)).join(" GB/s of a link's ");
    console.log(`\nrank ${runtime.rank}: 1 GiB ${what}: ${figures}, ${(100 * speed / link).toFixed(0)} %`);
  }
  host.fill(0);
  copyFromDevice(host, buffer.address, stream);
  assert(host.every((value, i) => value === i % 251));
}, { timeoutSeconds: 120 });

gpuTest("kernels are compiled once and kept on disk", (runtime, stream) => {
  const source = `struct Parameters { long long* target; long long value; double factor; };
    extern "C" __global__ void store(const Parameters p) {
      if (threadIdx.x == 0) p.target[blockIdx.x] = (long long)(p.value * p.factor) + blockIdx.x;
    }
    // ${runtime.rank} ${Date.now()}`;
  const run = () => {
    using buffer = new DeviceBuffer(stream, 24);
    new Program("test", source).launch("store", stream, 3, [buffer.address, 40n, 1.5], 32);
    const values = new BigInt64Array(3);
    copyFromDevice(values, buffer.address, stream);
    return [...values];
  };
  const files = () => [...Deno.readDirSync(cacheFolder()!)].filter(({ name }) => name.startsWith("test-")).length;
  assertEquals(run(), [60n, 61n, 62n]);
  runtime.communicator.barrier();
  const kept = files();
  assert(kept >= 1);
  runtime.communicator.barrier();
  assertEquals(run(), [60n, 61n, 62n]);
  assertEquals(files(), kept);
  assertThrows(() => new Program("broken", "nonsense").launch("f", stream, 1, []), Error, "nvrtcCompileProgram");
});

gpuTest("the NCCL communicator: one for all calls, messages between GPUs", (runtime, stream) => {
  const { rank, size } = runtime;
  const nccl = runtime.nccl();
  assertEquals([nccl.rank, nccl.size, runtime.nccl() === nccl], [rank, size, true]);
  const [sent, received] = [new DeviceBuffer(stream, 800), new DeviceBuffer(stream, 800)];
  copyToDevice(sent.address, new Float64Array(100).fill(rank), stream);
  nccl.group(() => {
    nccl.send(sent.address, 800, (rank + 1) % size);
    nccl.receive(received.address, 800, (rank + size - 1) % size);
  });
  const back = new Float64Array(100);
  copyFromDevice(back, received.address, stream);
  assertEquals(new Set(back), new Set([(rank + size - 1) % size]));
  nccl.check();
  for (const bytes of [-8, 1.5]) {
    const message = `bytes must be a whole number from 0, not ${bytes}`;
    assertThrows(() => nccl.send(sent.address, bytes, rank), RangeError, `send: ${message}`);
    assertThrows(
      () => nccl.group(() => nccl.receive(received.address, bytes, rank)),
      RangeError,
      `receive: ${message}`,
    );
  }
  assertThrows(() => nccl.send(sent.address, 8, size), RangeError, `there is no rank ${size}; ranks go from 0`);
  sent.free();
  received.free();
});

gpuTest("host memory of an array on a GPU is refused, with what to do", (runtime: Runtime) => {
  const array = DistributedArray.zeros(runtime, [4, 4], Slab.X);
  assertThrowsEverywhere(runtime, () => array.local.data, StateError, "toTypedArray()");
  array.free();
  assertThrowsEverywhere(runtime, () => array.local, StateError, "was freed");
});
