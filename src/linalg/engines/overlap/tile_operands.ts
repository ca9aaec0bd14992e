/**
 * Matrices as tile kernels take them: rows or columns that begin at multiples of 16 bytes, without gaps where parts of them
 * are gathered. What lies so is used where it is; the rest is copied to memory of the plan, and D from there.
 *
 * @module
 */
import type { LocalArray } from "../../../array/local_array.ts";
import type { Stream } from "../../../gpu/stream.ts";
import { padded } from "../../../overlap/executors/tile/exchange.ts";
import type { DeviceMatrix } from "../../../overlap/executors/tile/operands.ts";
import type { NarrowDType, TileDType } from "../../../overlap/executors/tile/configuration.ts";
import { dtypeInfo } from "../../../dtype/dtype.ts";
import type { Part } from "../../../overlap/partition.ts";
import { KeptArray } from "../kept_array.ts";

/** A matrix in place, and what has to be done before or after. */
export interface Placed {
  /** Where the kernel finds or puts it. */
  readonly matrix: DeviceMatrix;
  /** Copies it there, or the result from there; null if it is there. */
  readonly bring: (() => void) | null;
}

/** A matrix whose parts lie apart. */
export interface PlacedParts extends Placed {
  /** Where each part begins. */
  readonly parts: readonly bigint[];
  /** Copy a matrix of the same shape there. */
  readonly fill: (from: LocalArray) => void;
}

/** One operand of a plan. */
export class TileOperand {
  readonly #dtype: TileDType | NarrowDType;
  readonly #itemSize: number;
  readonly #mustBeDense: boolean;
  readonly #kept: KeptArray;

  /** Copies go through memory in the order of this stream. */
  constructor(dtype: TileDType | NarrowDType, stream: Stream, mustBeDense = false) {
    this.#dtype = dtype;
    this.#itemSize = dtypeInfo(dtype).itemSize;
    this.#mustBeDense = mustBeDense;
    this.#kept = new KeptArray(stream);
  }

  /** Bytes that it keeps. */
  get byteLength(): number {
    return this.#kept.byteLength;
  }

  /** Whether a column-major matrix can be written where it is. */
  takes(local: LocalArray): boolean {
    return this.#fits(local) && local.shape[0] === this.#padded(local.shape[0]);
  }

  /** Have a column-major matrix that is read. */
  read(local: LocalArray): Placed {
    if (this.#fits(local)) return { matrix: matrixOf(local), bring: null };
    const copy = this.#copyOf(local);
    return { matrix: matrixOf(copy), bring: () => copy.set(local) };
  }

  /** Have a column-major matrix that is written: what pads a copy's columns may be overwritten. */
  write(local: LocalArray): Placed & { readonly local: LocalArray } {
    if (this.takes(local)) return { matrix: matrixOf(local), bring: null, local };
    const copy = this.#copyOf(local);
    return { matrix: matrixOf(copy), bring: () => local.set(copy), local: copy };
  }

  /** As {@linkcode read}, for rows in parts that lie apart, each at a multiple of 16 bytes. */
  readParts(local: LocalArray, parts: readonly Part[]): PlacedParts {
    const placed = this.writeParts(local, parts);
    return { ...placed, bring: () => placed.fill(local) };
  }

  /** As {@linkcode write}, for rows in such parts. */
  writeParts(local: LocalArray, parts: readonly Part[]): PlacedParts {
    const columns = local.shape[1];
    const lengths = parts.map(({ start, end }) => end - start);
    const starts = lengths.map((_, i) => lengths.slice(0, i).reduce((sum, length) => sum + this.#padded(length), 0));
    const rows = starts.at(-1)! + this.#padded(lengths.at(-1)!);
    const copy = this.#kept.have(this.#dtype, [rows, columns], "F");
    const pairs = (of: LocalArray) =>
      parts.map(({ start }, i) => {
        const shape = [lengths[i], columns];
        return [of.slice([start, 0], shape), copy.slice([starts[i], 0], shape)] as const;
      });
    return {
      matrix: matrixOf(copy),
      parts: starts.map((start) => copy.address + BigInt(this.#itemSize * start)),
      bring: () => pairs(local).forEach(([there, here]) => there.set(here)),
      fill: (from) => pairs(from).forEach(([there, here]) => here.set(there)),
    };
  }

  /** Give the memory back. */
  free(): void {
    this.#kept.free();
  }

  #padded(elements: number): number {
    return padded(elements, this.#itemSize);
  }

  #fits(local: LocalArray): boolean {
    const { dtype, isOnDevice, shape, strides } = local;
    if (!isOnDevice || dtype !== this.#dtype || strides[0] !== 1 || local.address % 16n !== 0n) return false;
    const least = this.#padded(shape[0]);
    return strides[1] === this.#padded(strides[1]) && (this.#mustBeDense ? strides[1] === least : strides[1] >= least);
  }

  #copyOf({ shape: [rows, columns] }: LocalArray): LocalArray {
    return this.#kept.have(this.#dtype, [this.#padded(rows), columns], "F").slice([0, 0], [rows, columns]);
  }
}

/** Where a column-major matrix lies. */
export function matrixOf({ address, strides }: LocalArray): DeviceMatrix {
  return { address, leading: strides[1] };
}
