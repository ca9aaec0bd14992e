/**
 * How long ranks wait for each other on GPUs, and what is said when one has waited in vain.
 *
 * @module
 */
import { copyFromAddress, copyToAddress } from "../../../ffi/memory.ts";
import { CollectiveError } from "../../errors.ts";
import type { Notes } from "../../gpu/kernels/flag_kernels.ts";
import type { Stream } from "../../gpu/stream.ts";
import { watch } from "../../gpu/watch.ts";
import { clearOnDevice } from "../../memory/copy.ts";
import { DeviceBuffer } from "../../memory/device_buffer.ts";
import { PinnedBuffer } from "../../memory/pinned.ts";

/** How long other ranks are waited for when nothing else is said. */
export const PATIENCE_SECONDS = 8;

/** What is waited for, by the number in a note. */
export const AWAITED = {
  /** A part of an operand. */
  operand: 1,
  /** Terms of a sum. */
  sums: 2,
  /** The end of its stores. */
  stores: 3,
  /** That it begins a run. */
  meeting: 4,
} as const;

const WORDS = ["", "its part of the operand", "its partial sums", "the end of its stores", "the beginning of its run"];

const NOTE_BYTES = 8;

/** Where a product's waits on a GPU are noted when they were in vain; whoever waits for the GPU next learns it. */
export class Patience implements Disposable {
  /** Where kernels note it. */
  readonly notes: Notes;
  readonly #stream: Stream;
  readonly #rank: number;
  readonly #memory: DeviceBuffer;
  readonly #report = new PinnedBuffer(NOTE_BYTES);
  readonly #word = new BigUint64Array(1);
  readonly #watch: Disposable;
  #isTold = false;

  /** Allocate the words. Local. */
  constructor(stream: Stream, rank: number, patienceSeconds = PATIENCE_SECONDS) {
    this.#stream = stream;
    this.#rank = rank;
    this.#memory = new DeviceBuffer(stream, NOTE_BYTES);
    clearOnDevice(this.#memory.address, NOTE_BYTES, stream);
    copyToAddress(this.#report.address, this.#word);
    this.notes = { error: this.#memory.address, report: this.#report.address, patienceSeconds };
    this.#watch = watch(() => this.#tell());
  }

  /**
   * Look for a note of what has run.
   *
   * @throws {CollectiveError} if another rank was awaited in vain; results since then are wrong.
   */
  check(): void {
    const word = this.#word;
    copyFromAddress(word, this.notes.report);
    if (word[0] === 0n) return;
    this.#isTold = true;
    const [peer, what] = [Number(word[0] >> 32n & 0xffn) - 1, Number(word[0] >> 40n)];
    throw new CollectiveError(
      `Rank ${this.#rank} waited ${this.notes.patienceSeconds} s for ${WORDS[what]} from rank ${peer} in a run of a ` +
        `product. Look whether that rank has failed, is late (timeoutSeconds of initialize() gives it more time), or has ` +
        `run the product less often; start the job again.`,
      { ranks: [peer] },
    );
  }

  /** Give the memory back, after what is on the stream. */
  [Symbol.dispose](): void {
    this.#watch[Symbol.dispose]();
    this.#memory.free();
    // What is on the stream may still write there.
    this.#stream.synchronize();
    this.#report.free();
  }

  /** Throw what went wrong, once. */
  #tell(): void {
    if (!this.#isTold) this.check();
  }
}
