/**
 * Bringing matrices into the form in which cuBLASMp takes them, and D back: redistributed, transposed, padded. What fits
 * already is used where it lies.
 *
 * @module
 */
import { LocalArray } from "../../../array/local_array.ts";
import type { Scratch } from "../../../array/redistribution/gpu_executor.ts";
import { Redistributor } from "../../../array/redistribution/redistributor.ts";
import type { Distribution } from "../../../distribution/mod.ts";
import { copyFromDevice } from "../../../memory/copy.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import type { Matrix } from "../../matmul/problem.ts";
import { KeptArray } from "../kept_array.ts";
import type { GivenMatrix } from "./paths.ts";

/** What becomes of a local part: where cuBLASMp finds or puts it, and what has to be done before or after that. */
export interface Staged {
  /** The part as cuBLASMp takes it. */
  readonly local: LocalArray;
  /** Bring the elements there, or D's from there; null if that is where they are stored. Collective if they are moved. */
  readonly bring: (() => void) | null;
}

/** How a matrix is staged. */
export interface StageOptions {
  /** What reports call it. */
  readonly name: string;
  /** Whether its columns must follow each other without gaps. */
  readonly isDense: boolean;
  readonly isResult: boolean;
  /** Memory for packed blocks, which the stages of a product share. */
  readonly scratch: Scratch;
}

/** One matrix of a call on this rank. Its memory is that of the plan, so that executions allocate nothing. */
export class Stage {
  readonly #runtime: Runtime;
  readonly #given: GivenMatrix;
  readonly #matrix: Matrix;
  readonly #options: StageOptions;
  readonly #redistributor: Redistributor | null;
  /** What cuBLASMp is given in place of the stored part. */
  readonly #placed: KeptArray;
  /** A copy on the GPU of a part in the memory of the host. */
  readonly #near: KeptArray;
  /** What a result in the memory of the host is copied from if that has gaps. */
  #dense: LocalArray | null = null;
  /** Whether gaps between columns had to be closed. */
  #hadGaps = false;

  /** Plan for a matrix that is stored column-major. Local. */
  constructor(runtime: Runtime, matrix: Matrix, given: GivenMatrix, options: StageOptions) {
    this.#runtime = runtime;
    this.#placed = new KeptArray(runtime.stream!);
    this.#near = new KeptArray(runtime.stream!);
    this.#given = given;
    this.#matrix = matrix;
    this.#options = options;
    const stored = given.isTransposed ? matrix.distribution.transpose() : matrix.distribution;
    const ends: [Distribution, Distribution] = options.isResult
      ? [given.distribution, stored]
      : [stored, given.distribution];
    this.#redistributor = given.isMoved ? new Redistributor(runtime, ...ends, { scratch: options.scratch }) : null;
    if (!this.#isDirect) this.#place();
    this.reserve();
  }

  /** Make what the ranks move elements by. Collective. */
  open(): void {
    this.#redistributor?.open();
  }

  /** What is copied in an execution, in words. */
  get copies(): readonly string[] {
    const { distribution, isMoved, isTransposed, padded } = this.#given;
    const { name } = this.#options;
    return [
      ...isMoved ? [`${name} redistributed: ${distribution}`] : [],
      ...isTransposed ? [`${name} transposed on each rank`] : [],
      ...padded ? [`${name} padded to ${padded[0]} x ${padded[1]} on each rank`] : [],
      ...this.#hadGaps ? [`${name} copied to close gaps between its columns`] : [],
    ];
  }

  /** Bytes that it keeps, without the scratch memory. */
  get byteLength(): number {
    const held = [this.#placed, this.#near, this.#dense, this.#redistributor];
    return held.reduce((sum, memory) => sum + (memory?.byteLength ?? 0), 0);
  }

  /** Have the memory that bringing a part, or the result to it, needs. Local. */
  prepare(stored: LocalArray): Staged {
    if (this.#isDirect && stored.isOnDevice && !this.#hasGaps(stored)) return { local: stored, bring: null };
    const local = this.#place();
    const bring = this.#options.isResult ? this.#toStored(stored) : this.#fromStored(stored);
    return { local, bring };
  }

  /** Give the memory back. */
  free(): void {
    this.#placed.free();
    this.#near.free();
    this.#dense?.release();
    this.#dense = null;
    this.#redistributor?.free();
  }

  /** Whether a part on the GPU can be given as it is. */
  get #isDirect(): boolean {
    const { isMoved, isTransposed, padded } = this.#given;
    return !isMoved && !isTransposed && padded === null;
  }

  #hasGaps(stored: LocalArray): boolean {
    if (!this.#options.isDense || stored.isDense("F")) return false;
    return this.#hadGaps = true;
  }

  #fromStored(stored: LocalArray): () => void {
    const inner = this.#inner();
    const order = this.#given.isTransposed ? "C" : "F";
    if (stored.isOnDevice) return this.#mover(this.#seen(stored), inner, order);
    if (!this.#isDirect) return this.#mover(this.#seen(this.#near.of(stored, "F")), inner, order);
    inner.set(stored);
    return () => {};
  }

  #toStored(stored: LocalArray): () => void {
    if (stored.isOnDevice) return this.#mover(this.#inner(), this.#seen(stored), "F");
    const near = this.#near.have(stored.dtype, stored.shape, "F");
    const bring = this.#mover(this.#inner(), this.#seen(near), "F");
    // A rank that found no memory later on would be alone with its error.
    const dense = this.#denseOf(stored);
    return () => {
      bring();
      copyFromDevice(dense.view(), near.address, this.#runtime.stream!);
      if (dense !== stored) stored.set(dense);
    };
  }

  /** A result in host memory without gaps between its columns: itself, or what it is copied from. */
  #denseOf(stored: LocalArray): LocalArray {
    if (stored.isDense("F")) return stored;
    return this.#dense ??= LocalArray.empty(stored.dtype, stored.shape, "F");
  }

  /** Have the memory for moving a stored part without gaps; one with gaps may need more. Local. False before {@linkcode open}. */
  reserve(): boolean {
    if (this.#redistributor === null) return true;
    const { dtype, distribution } = this.#matrix;
    const rows = distribution.localShape(this.#runtime.rank)[0];
    const { isTransposed } = this.#given;
    const stored = { dtype, offset: 0, strides: isTransposed ? [rows, 1] : [1, rows] };
    const inner = this.#inner();
    return this.#options.isResult
      ? this.#redistributor.reserveOnDevice(inner, stored, "F")
      : this.#redistributor.reserveOnDevice(stored, inner, isTransposed ? "C" : "F");
  }

  #mover(source: LocalArray, target: LocalArray, order: "C" | "F"): () => void {
    return this.#redistributor?.prepare(source, target, order) ?? (() => target.set(source));
  }

  /** A stored part with rows and columns as cuBLASMp sees them. */
  #seen(stored: LocalArray): LocalArray {
    return this.#given.isTransposed ? stored.transpose() : stored;
  }

  /** The part as cuBLASMp takes it, zeros around it if it is padded. */
  #place(): LocalArray {
    const { padded, distribution } = this.#given;
    return this.#placed.have(this.#matrix.dtype, padded ?? distribution.localShape(this.#runtime.rank), "F");
  }

  /** What is not padding. */
  #inner(): LocalArray {
    return this.#place().slice([0, 0], this.#given.distribution.localShape(this.#runtime.rank));
  }
}
