/**
 * Bringing matrices into the form in which cuBLASMp takes them, and D back: redistributed, transposed, padded. What fits
 * already is used where it lies.
 *
 * @module
 */
import { DistributedArray } from "../../../array/distributed_array.ts";
import type { DType } from "../../../dtype/dtype.ts";
import { LocalArray } from "../../../array/local_array.ts";
import type { Distribution } from "../../../distribution/mod.ts";
import { agree } from "../../../runtime/agreement.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import type { GivenMatrix } from "./paths.ts";

/** A local part, and the distribution and order that it has. */
interface Placed {
  readonly local: LocalArray;
  readonly distribution: Distribution;
  readonly order: "C" | "F";
}

/** One matrix of a call on this rank. */
export class GivenStaging {
  readonly #runtime: Runtime;
  readonly #stored: Distribution;
  readonly #given: GivenMatrix;
  readonly #buffer: LocalArray | null;
  readonly #name: string;
  readonly #isDense: boolean;
  /** Whether gaps between columns had to be closed. */
  #hadGaps = false;
  #temporary: LocalArray[] = [];

  /**
   * Plan for a matrix that is stored in a distribution, column-major; `name` is what reports call it. With `isDense` its
   * columns must follow each other without gaps.
   */
  constructor(
    runtime: Runtime,
    stored: Distribution,
    given: GivenMatrix,
    dtype: DType,
    name: string,
    isDense: boolean,
  ) {
    const { distribution, isTransposed, padded } = given;
    this.#runtime = runtime;
    this.#stored = stored;
    this.#given = given;
    const shape = padded ?? distribution.localShape(runtime.rank);
    this.#buffer = isTransposed || padded !== null ? LocalArray.zeros(dtype, shape, "F", runtime.stream) : null;
    this.#name = name;
    this.#isDense = isDense;
  }

  /** What is copied in an execution, in words. */
  get copies(): readonly string[] {
    const { distribution, isMoved, isTransposed, padded } = this.#given;
    const name = this.#name;
    return [
      ...isMoved ? [`${name} redistributed: ${distribution}`] : [],
      ...isTransposed ? [`${name} transposed on each rank`] : [],
      ...padded ? [`${name} padded to ${padded[0]} x ${padded[1]} on each rank`] : [],
      ...this.#hadGaps ? [`${name} copied to close gaps between its columns`] : [],
    ];
  }

  /** Bytes of its buffer. */
  get byteLength(): number {
    return this.#buffer?.byteLength ?? 0;
  }

  /** Whether a local part on the GPU is given as it is. */
  get isDirect(): boolean {
    return this.#buffer === null && !this.#given.isMoved;
  }

  /** Allocate what bringing a part needs. Returns what gives it as cuBLASMp takes it, which is collective if it is moved. */
  prepare(stored: LocalArray): () => LocalArray {
    if (this.isDirect && stored.isOnDevice) {
      const local = this.#hasGaps(stored) ? this.#keep(stored.copy("F")) : stored;
      return () => local;
    }
    const placed = this.#onDevice(this.#seen(stored));
    return () => {
      const { local } = this.#move(placed, this.#given.distribution);
      if (this.#buffer === null) return local;
      this.#inner(local.shape).set(local);
      return this.#buffer;
    };
  }

  /** Where the result is computed: D itself, if it can be. */
  target(stored: LocalArray): LocalArray {
    if (this.#buffer !== null) return this.#buffer;
    if (this.isDirect && stored.isOnDevice && !this.#hasGaps(stored)) return stored;
    const shape = this.#given.distribution.localShape(this.#runtime.rank);
    return this.#keep(LocalArray.empty(stored.dtype, shape, "F", this.#runtime.stream));
  }

  /** Bring the result from where it was computed to where it is wanted. Collective if it is moved. */
  deliver(computed: LocalArray, stored: LocalArray): void {
    if (computed === stored) return;
    const { distribution, isTransposed } = this.#given;
    const inner = this.#buffer === null ? computed : this.#inner(distribution.localShape(this.#runtime.rank));
    const result: Placed = isTransposed
      ? { local: inner.transpose(), distribution: distribution.transpose(), order: "C" }
      : { local: inner, distribution, order: "F" };
    const { local } = this.#move(result, this.#stored);
    if (stored.isOnDevice) stored.set(local);
    else agree(this.#runtime, "Matmul.execute", () => stored.set(local));
  }

  /** Give back what an execution needed; work that uses it is on the runtime's stream already. */
  release(): void {
    for (const local of this.#temporary) local.release();
    this.#temporary = [];
  }

  /** Give back the buffer. */
  free(): void {
    this.release();
    this.#buffer?.release();
  }

  #hasGaps(stored: LocalArray): boolean {
    if (!this.#isDense || stored.isDense("F")) return false;
    return this.#hadGaps = true;
  }

  /** The stored part with rows and columns as cuBLASMp sees them. */
  #seen(stored: LocalArray): Placed {
    return this.#given.isTransposed
      ? { local: stored.transpose(), distribution: this.#stored.transpose(), order: "C" }
      : { local: stored, distribution: this.#stored, order: "F" };
  }

  #onDevice(placed: Placed): Placed {
    if (placed.local.isOnDevice) return placed;
    return { ...placed, local: this.#keep(placed.local.toDevice(this.#runtime.stream!, placed.order)) };
  }

  #move(placed: Placed, target: Distribution): Placed {
    if (!this.#given.isMoved) return placed;
    const { local, distribution, order } = placed;
    const array = DistributedArray.wrap(this.#runtime, local, distribution, order).redistribute(target);
    return { local: this.#keep(array.local), distribution: target, order };
  }

  /** The part of the buffer that is not padding. */
  #inner(shape: readonly number[]): LocalArray {
    return this.#buffer!.slice([0, 0], shape);
  }

  #keep(local: LocalArray): LocalArray {
    this.#temporary.push(local);
    return local;
  }
}
