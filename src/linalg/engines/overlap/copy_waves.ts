/**
 * How full cuBLASLt's blocks keep a GPU in the products between which copy engines work.
 *
 * @module
 */
import { GEMM_WORKSPACE_BYTES, GpuGemm } from "../../../blas/gpu_gemm.ts";
import type { Stream } from "../../../gpu/stream.ts";
import { lengthOf, type Part } from "../../../overlap/partition.ts";
import type { CopyStrategy } from "./copy_strategy.ts";

const asked = new Map<string, readonly number[]>();

/**
 * The waves of blocks of cuBLASLt's first two algorithms for a part of what is gathered, on the rank that has most of the
 * others: the same on all ranks. It is asked once.
 */
export function wavesOf({ problemOf }: CopyStrategy, stream: Stream): readonly number[] {
  const { partition: { extents, axis, parts, fixedAxis, fixedParts }, ...options } = problemOf(0);
  const largest = (parts: readonly Part[]) => Math.max(...parts.map(lengthOf));
  const part = { ...extents, [axis]: largest(parts), [fixedAxis]: largest(fixedParts) };
  const key = JSON.stringify([stream.device.ordinal, part, options]);
  let waves = asked.get(key);
  if (waves === undefined) {
    using gemm = new GpuGemm({ address: 0n, byteLength: GEMM_WORKSPACE_BYTES, stream }, options);
    asked.set(key, waves = gemm.wavesOf(part));
  }
  return waves;
}
