/** What executors of redistributions between GPUs keep for the next time. */
import { assert, assertStrictEquals } from "@std/assert";
import { LocalArray } from "../../../src/array/local_array.ts";
import { PeerExecutor } from "../../../src/array/redistribution/peer_executor.ts";
import { planRedistribution } from "../../../src/array/redistribution/plan.ts";
import { SymmetricArray } from "../../../src/array/symmetric_array.ts";
import { Box, Slab } from "../../../src/distribution/mod.ts";
import type { Stream } from "../../../src/gpu/stream.ts";
import type { DeviceChannels } from "../../../src/memory/device_channels.ts";
import type { SymmetricBuffer } from "../../../src/memory/symmetric_memory.ts";

const stream = {} as Stream;
const channels = { check: () => {}, streams: {} } as unknown as DeviceChannels;

/** Symmetric memory that lies here at one address, and on the other rank where it is said to. */
function symmetric(peer: bigint): SymmetricArray {
  const memory = (address: bigint) => ({ address, byteLength: 64, stream });
  const buffer = { ...memory(4096n), host: null, runtime: { rank: 0 }, peerAddress: () => peer };
  const own = { ...buffer, peerMemory: () => memory(peer) } as unknown as SymmetricBuffer;
  return new SymmetricArray(own, "float64", "C", [{ shape: [2] }, { shape: [6] }]);
}

Deno.test("what was prepared for symmetric memory serves no other memory at the same address", () => {
  const to = new Box([[[0], [2]], [[2], [8]]]).bind([8], 2);
  const executor = new PeerExecutor(planRedistribution(Slab.X.bind([8], 2), to, 0), stream);
  const source = new LocalArray({ data: { address: 256n, byteLength: 32, stream }, dtype: "float64", shape: [4] });
  const prepare = (target: SymmetricArray) => executor.prepare(channels, source, target, "C", true);
  const target = symmetric(8192n);
  const move = prepare(target);
  assertStrictEquals(prepare(target), move);
  assert(prepare(symmetric(16384n)) !== move);
});
