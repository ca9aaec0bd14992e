/**
 * What the network between the machines of a job carries between GPUs: measured once, when NCCL connects them, for
 * predictions.
 *
 * @module
 */
import { checkCuda, openCudaRuntime } from "../../ffi/cuda/runtime.ts";
import type { NcclCommunicator } from "../gpu/nccl.ts";
import type { Stream } from "../gpu/stream.ts";
import { speakersOf } from "../mpi/elsewhere.ts";
import { shortestSeconds } from "../stopwatch.ts";
import type { Agreeing } from "./agreement.ts";
import { callJointly } from "./joint_call.ts";
import { neighbours, noteGpuNetwork } from "./network.ts";

/** Enough for the rate of long messages by several links. */
const MESSAGE_BYTES = 2 ** 20;

/** Measure it. Collective. */
export function measureGpuNetwork(members: Agreeing, nccl: NcclCommunicator, stream: Stream): void {
  const { communicator } = members;
  const [to, from] = neighbours(speakersOf(communicator), communicator.rank);
  const memory = new BigUint64Array(1);
  const { symbols } = openCudaRuntime();
  callJointly(members, "cudaMallocAsync", () => {
    const code = symbols.cudaMallocAsync(memory, BigInt(2 * MESSAGE_BYTES), stream.handle);
    checkCuda(code, `cudaMallocAsync of ${2 * MESSAGE_BYTES} bytes, to measure the network`);
  });
  const [address] = memory;
  let seconds = 0;
  callJointly(members, "ncclSend", () => {
    seconds = shortestSeconds(() => {
      nccl.group(() => {
        nccl.send(address, MESSAGE_BYTES, to, stream);
        nccl.receive(address + BigInt(MESSAGE_BYTES), MESSAGE_BYTES, from, stream);
      });
      stream.synchronize();
    });
  });
  checkCuda(symbols.cudaFreeAsync(address, stream.handle), "cudaFreeAsync");
  const [longest] = communicator.allReduce(Float64Array.of(seconds), { op: "max" });
  noteGpuNetwork(communicator, MESSAGE_BYTES / longest);
}
