/**
 * Arrays of scales on CPUs: a factor that was widened is multiplied by them, element by element.
 *
 * @module
 */
import type { DistributedArray } from "../../../array/distributed_array.ts";
import { LocalArray } from "../../../array/local_array.ts";
import { Redistributor } from "../../../array/redistribution/redistributor.ts";
import { type Distribution, Replicated } from "../../../distribution/mod.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { indicesPerScale } from "../../matmul/quantization.ts";
import { isInPlace } from "../../matrix_division.ts";

/** A scale as a factor of the whole product; 1 if there is none, or an array of them. */
export function scalarOf(scale: number | DistributedArray | undefined): number {
  return typeof scale === "number" ? scale : 1;
}

/** Scales gathered from everywhere, and what gathers them. */
interface Gathering {
  readonly source: DistributedArray;
  readonly redistributor: Redistributor;
  readonly all: LocalArray;
}

/** Multiplies this rank's part of a factor by arrays of scales. It keeps what it needs for arrays of the same kind. */
export class FactorScaling {
  readonly #runtime: Runtime;
  readonly #distribution: Distribution;
  #gathering: Gathering | null = null;

  /** For a factor that is distributed like this. */
  constructor(runtime: Runtime, distribution: Distribution) {
    this.#runtime = runtime;
    this.#distribution = distribution;
  }

  /** Get ready to multiply a part, float32, by scales. Local; what it returns is collective. */
  prepare(local: LocalArray, scales: DistributedArray): () => void {
    const { redistributor, all } = this.#gatheringOf(scales);
    const gather = redistributor.prepare(scales.local, all, scales.order);
    const [rows, columns] = this.#distribution.indexSets(this.#runtime.rank);
    const [rowsPerScale, columnsPerScale] = this.#distribution.globalShape!.map((extent, d) =>
      indicesPerScale(extent, all.shape[d])
    );
    const [values, data] = [all.data as Float32Array, local.data as Float32Array];
    const { shape: [m, n], strides, offset } = local;
    const rowOffsets = Int32Array.from(
      { length: m },
      (_, i) => Math.floor(rows.at(i) / rowsPerScale) * all.strides[0] + all.offset,
    );
    return () => {
      gather();
      for (let j = 0; j < n; j++) {
        const column = Math.floor(columns.at(j) / columnsPerScale) * all.strides[1];
        const start = offset + j * strides[1];
        for (let i = 0; i < m; i++) data[start + i * strides[0]] *= values[rowOffsets[i] + column];
      }
    };
  }

  #gatheringOf(scales: DistributedArray): Gathering {
    const { shape, order, distribution } = scales;
    const known = this.#gathering;
    if (known && known.source.order === order && isInPlace(known.source.distribution, distribution)) return known;
    const redistributor = new Redistributor(this.#runtime, distribution, Replicated.bind(shape, this.#runtime.size));
    return this.#gathering = { source: scales, redistributor, all: LocalArray.zeros("float32", shape, order) };
  }
}
