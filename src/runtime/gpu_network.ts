/**
 * What the network between the machines of a job carries between GPUs: measured once, when NCCL connects them, for
 * predictions.
 *
 * @module
 */
import { checkCuda, openCudaRuntime } from "../../ffi/cuda/runtime.ts";
import type { Device } from "../gpu/device.ts";
import type { NcclCommunicator } from "../gpu/nccl.ts";
import { Stream } from "../gpu/stream.ts";
import { speakersOf } from "../mpi/elsewhere.ts";
import { shortestSeconds } from "../stopwatch.ts";
import type { Agreeing } from "./agreement.ts";
import { callJointly } from "./joint_call.ts";
import { neighbours, networkShare, noteGpuNetwork } from "./network.ts";

/** Messages get longer until they take so long, beside which it does not count what starts them, or are as long as that. */
const LONG_SECONDS = 1e-3;
const [FIRST_BYTES, MOST_BYTES] = [2 ** 20, 2 ** 24];

/** Measure it, on a stream of its own. Collective. */
export function measureGpuNetwork(members: Agreeing, nccl: NcclCommunicator, device: Device): void {
  const { communicator } = members;
  const machines = speakersOf(communicator);
  const [to, from] = neighbours(machines, communicator.rank);
  const memory = new BigUint64Array(1);
  const { symbols } = openCudaRuntime();
  using stream = new Stream(device, { name: "network" });
  callJointly(members, "cudaMallocAsync", () => {
    const code = symbols.cudaMallocAsync(memory, BigInt(2 * MOST_BYTES), stream.handle);
    checkCuda(code, `cudaMallocAsync of ${2 * MOST_BYTES} bytes, to measure the network`);
  });
  const [address] = memory;
  const exchange = (bytes: number) => {
    nccl.group(() => {
      nccl.send(address, bytes, to, stream);
      nccl.receive(address + BigInt(MOST_BYTES), bytes, from, stream);
    });
    stream.synchronize();
  };
  try {
    for (let bytes = FIRST_BYTES;; bytes *= 4) {
      let seconds = 0;
      callJointly(members, "ncclSend", () => void (seconds = shortestSeconds(() => exchange(bytes))));
      const [longest] = communicator.allReduce(Float64Array.of(seconds), { op: "max" });
      if (longest < LONG_SECONDS && bytes < MOST_BYTES) continue;
      noteGpuNetwork(communicator, { bytesPerSecond: bytes / longest, share: networkShare(machines) });
      return;
    }
  } finally {
    symbols.cudaFreeAsync(address, stream.handle);
  }
}
