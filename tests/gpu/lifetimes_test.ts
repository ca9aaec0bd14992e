/** Many rounds of what only GPUs have leave nothing behind; tests/cluster/lifetimes_test.ts has arrays and plans. */
import { assert, assertEquals } from "@std/assert";
import {
  copyFromDevice,
  copyToDevice,
  DeviceBuffer,
  DistributedArray,
  Event,
  Graph,
  Matmul,
  PinnedBuffer,
  Slab,
  Stream,
} from "../../mod.ts";
import { checkRounds } from "../cluster/rounds.ts";
import { gpuTest, isMock } from "./gpu_test_kit.ts";

const LIMIT = { timeoutSeconds: 280 };

gpuTest("rounds of streams and events", async (runtime, stream) => {
  using buffer = new DeviceBuffer(stream, 2 ** 16);
  const [zeros, back] = [new Uint8Array(2 ** 16), new Uint8Array(2 ** 16)];
  await checkRounds(runtime, "streams and events", 1000, (i) => {
    using other = new Stream(stream.device, { priority: i % 2 ? -1 : 0 });
    using start = other.record(new Event({ timing: true }));
    copyToDevice(buffer.address, zeros.fill(i), other);
    using end = other.record(new Event({ timing: true }));
    stream.wait(end);
    copyFromDevice(back, buffer.address, stream);
    assertEquals([back[0], back.at(-1)], [i % 256, i % 256]);
    assert(end.elapsedSince(start) >= 0);
  });
}, LIMIT);

gpuTest("rounds of device and pinned buffers", async (runtime, stream) => {
  await checkRounds(runtime, "buffers", 1000, (i) => {
    using buffer = new DeviceBuffer(stream, 2 ** 20);
    using pinned = new PinnedBuffer(2 ** 16);
    assert(buffer.address !== pinned.address);
    if (i % 2) buffer.free();
  });
}, LIMIT);

gpuTest("rounds of plans on streams of their own", async (runtime, stream) => {
  const options = { dtype: "float32", order: "F" } as const;
  using a = DistributedArray.full(runtime, [64, 64], Slab.X, 1, options);
  using b = DistributedArray.full(runtime, [64, 64], Slab.Y, 1, options);
  await checkRounds(runtime, "plans on streams of their own", 200, (i) => {
    using other = new Stream(stream.device);
    using object = new Matmul(a, b, { distribution: Slab.X, stream: other });
    object.plan();
    using d = object.execute();
    stream.wait(other);
    if (i % 50 === 0) assertEquals(d.sum(), 64 ** 3);
    other.synchronize();
  });
}, LIMIT);

gpuTest("rounds of graphs", async (runtime) => {
  if (isMock(runtime)) return; // It has no graphs.
  const options = { dtype: "float32", order: "F" } as const;
  using a = DistributedArray.full(runtime, [64, 64], Slab.X, 1, options);
  using b = DistributedArray.full(runtime, [64, 64], Slab.Y, 1, options);
  using c = DistributedArray.zeros(runtime, [64, 64], Slab.X, options);
  using object = new Matmul(a, b, { c, beta: 0, inplace: true });
  object.plan();
  object.execute();
  await checkRounds(runtime, "graphs", 200, () => {
    using graph = Graph.capture(runtime, () => void object.execute());
    graph.launch();
  });
  assertEquals(c.sum(), 64 ** 3);
}, LIMIT);
