/**
 * Memory of plans on GPUs.
 *
 * @module
 */
import type { Order } from "../../array/layout.ts";
import { LocalArray } from "../../array/local_array.ts";
import type { DType } from "../../dtype/dtype.ts";
import type { Stream } from "../../gpu/stream.ts";

/** An array on the GPU that is made when it is needed first, and kept. */
export class KeptArray {
  readonly #stream: Stream;
  #local: LocalArray | null = null;

  /** Its memory is used in the order of this stream. */
  constructor(stream: Stream) {
    this.#stream = stream;
  }

  get byteLength(): number {
    return this.#local?.byteLength ?? 0;
  }

  /** The array, zeros if it is new. Ranks that did not agree have freed what was new. */
  have(dtype: DType, shape: readonly number[], order: Order): LocalArray {
    const known = this.#local;
    if (
      known && !known.isLost && known.dtype === dtype && known.shape.join() === shape.join() && known.isDense(order)
    ) {
      return known;
    }
    this.free();
    return this.#local = LocalArray.zeros(dtype, shape, order, this.#stream);
  }

  /** The array with the elements of one in host memory. */
  of(host: LocalArray, order: Order): LocalArray {
    const local = this.have(host.dtype, host.shape, order);
    local.set(host);
    return local;
  }

  /** A matrix in another type, column by column; itself if it has that type. */
  converted(local: LocalArray, dtype: DType): LocalArray {
    if (local.dtype === dtype) return local;
    const made = this.have(dtype, local.shape, "F");
    made.set(local);
    return made;
  }

  /** Give the memory back. */
  free(): void {
    this.#local?.release();
    this.#local = null;
  }
}
