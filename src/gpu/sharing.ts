/**
 * Several ranks on one GPU: for trying out on one what will run on many.
 *
 * @module
 */
import { environment } from "../../ffi/library.ts";
import { Device } from "./device.ts";

/** NCCL's switch for ranks that share a GPU, from NCCL 2.30 on; here it is the one for everything. */
export const SHARING_SWITCH = "NCCL_MULTI_RANK_GPU_ENABLE";

/** Whether ranks may share GPUs: each keeps its own otherwise. */
export function mayShareGpus(): boolean {
  return environment(SHARING_SWITCH) === "1";
}

/** How many ranks of this machine can have a GPU. */
export function roomOnGpus(): number {
  const count = Device.count();
  return count > 0 && mayShareGpus() ? Infinity : count;
}
