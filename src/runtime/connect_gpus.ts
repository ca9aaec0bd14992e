/**
 * The NCCL communicator of a runtime's GPUs: one for each group of ranks.
 *
 * @module
 */
import { openNccl } from "../../ffi/cuda/nccl.ts";
import { ConfigurationError } from "../errors.ts";
import { createNcclId, NcclCommunicator } from "../gpu/nccl.ts";
import type { Stream } from "../gpu/stream.ts";
import { Communicator } from "../mpi/communicator.ts";
import { beforeMpiEnds } from "../mpi/init_finalize.ts";
import { type Agreeing, exchange } from "./agreement.ts";
import { measureGpuNetwork } from "./gpu_network.ts";
import { callJointly } from "./joint_call.ts";

/** Whose GPUs communicate: a runtime. */
interface Members extends Agreeing {
  /** The number of ranks on this rank's machine. */
  readonly localSize: number;
  /** Where work is queued by default; `null` on a CPU. */
  readonly stream: Stream | null;
}

const known = new WeakMap<Communicator, NcclCommunicator>();

/** NCCL's communicator of these ranks, made by the first call. Collective then; an error on one rank is thrown on all. */
export function connectGpus(members: Members): NcclCommunicator {
  const { communicator } = members;
  const found = known.get(communicator);
  if (found !== undefined && (!found.isFreed || found.isAborted)) return found;
  const { made, isSpread } = connect(members);
  known.set(communicator, made);
  beforeMpiEnds(() => made.free());
  if (isSpread) measureGpuNetwork(members, made, members.stream!.device);
  return made;
}

/** The communicator, and whether its ranks are on several machines. */
function connect(members: Members): { made: NcclCommunicator; isSpread: boolean } {
  const { communicator: { rank }, stream } = members;
  const found = exchange(members, "runtime.nccl", () => {
    if (stream === null) {
      throw new ConfigurationError("NCCL communicates between GPUs, but this runtime computes on CPUs.");
    }
    openNccl();
    const id = rank === 0 ? Array.from(createNcclId()) : [];
    return { id, worldRank: Communicator.world().rank, localSize: members.localSize };
  });
  let made!: NcclCommunicator;
  callJointly(members, "ncclCommInitRank", () => {
    const worldRanks = found.map(({ worldRank }) => worldRank);
    made = new NcclCommunicator(Uint8Array.from(found[0].id), rank, worldRanks, stream!);
  });
  return { made, isSpread: found.some(({ localSize }) => localSize < found.length) };
}
