/**
 * Arrays of scales on CPUs: a factor that was widened is multiplied by them, element by element.
 *
 * @module
 */
import type { DistributedArray } from "../../../array/distributed_array.ts";
import { stridesOf } from "../../../array/layout.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import type { Distribution } from "../../../distribution/mod.ts";
import { indicesPerScale } from "../../matmul/quantization.ts";

/** A scale as a factor of the whole product; 1 if there is none, or an array of them. */
export function scalarOf(scale: number | DistributedArray | undefined): number {
  return typeof scale === "number" ? scale : 1;
}

/** Multiply the part of a matrix on this rank, float32 and distributed like this, by an array of scales. Collective. */
export function applyScales(local: LocalArray, distribution: Distribution, scales: DistributedArray): void {
  const all = scales.allGather() as Float32Array;
  const { runtime: { rank }, shape: [rows, columns], order } = scales;
  const [rowStride, columnStride] = stridesOf([rows, columns], order);
  const [m, n] = distribution.globalShape!;
  const [rowsPerScale, columnsPerScale] = [indicesPerScale(m, rows), indicesPerScale(n, columns)];
  const [rowSet, columnSet] = distribution.indexSets(rank);
  const { shape, strides, offset } = local;
  const data = local.data as Float32Array;
  const rowOffsets = Int32Array.from(
    { length: shape[0] },
    (_, i) => Math.floor(rowSet.at(i) / rowsPerScale) * rowStride,
  );
  for (let j = 0; j < shape[1]; j++) {
    const column = Math.floor(columnSet.at(j) / columnsPerScale) * columnStride;
    const start = offset + j * strides[1];
    for (let i = 0; i < shape[0]; i++) data[start + i * strides[0]] *= all[rowOffsets[i] + column];
  }
}
