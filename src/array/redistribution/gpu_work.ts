/**
 * What a redistribution is for the model of GPUs.
 *
 * @module
 */
import type { GpuWork } from "../gpu_model.ts";
import type { RedistributionAlgorithm } from "./redistributor.ts";

/**
 * The work of the busiest rank, which copies so many bytes and sends some of them. Beside what it sends go copies of what
 * stays, and nothing else if that goes straight into place. Slots are emptied meanwhile, and yet it was measured to take
 * as long as if they were emptied afterwards. NCCL's blocks are packed before and unpacked then.
 */
export function gpuWorkOf(algorithm: RedistributionAlgorithm, copied: number, sent: number, size: number): GpuWork {
  const moved = algorithm === "direct_copies" ? 0 : algorithm === "peer_copies" ? sent : copied;
  return { bytes: 2 * moved, sent, starts: sent === 0 ? 1 : 2 * size - 1 };
}
