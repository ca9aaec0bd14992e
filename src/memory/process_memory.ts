/**
 * The memory of other processes of this machine: Linux copies from it and to it, each byte once.
 *
 * @module
 */
import { addressOf, libcFunctions } from "../../ffi/memory.ts";
import { StateError } from "../errors.ts";
import type { Communicator } from "../mpi/communicator.ts";

/** Ranges of bytes, one after the other: where each begins, counted from somewhere, and how long it is. */
export interface Segments {
  readonly starts: readonly number[];
  readonly lengths: readonly number[];
}

const PARAMETERS = ["i32", "buffer", "usize", "buffer", "usize", "usize"] as const;
const SYMBOLS = {
  process_vm_readv: { parameters: PARAMETERS, result: "isize" },
  process_vm_writev: { parameters: PARAMETERS, result: "isize" },
} as const satisfies Deno.ForeignLibraryInterface;

let functions: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"] | undefined;

/** What Linux takes in a call: so many ranges on either side, and less than 2^31 bytes. */
const MOST_RANGES = 1024;
const MOST_BYTES = 2 ** 30;

/** An array of `struct iovec`, addresses and lengths, and where the ranges begin. */
class Ranges {
  readonly vectors: BigUint64Array<ArrayBuffer>;
  readonly count: number;
  readonly #words: Uint32Array;
  readonly #starts: readonly number[];
  #base = NaN;

  constructor({ starts, lengths }: Segments) {
    this.count = starts.length;
    this.#starts = starts;
    this.vectors = new BigUint64Array(2 * this.count);
    this.#words = new Uint32Array(this.vectors.buffer);
    for (let i = 0; i < this.count; i++) this.vectors[2 * i + 1] = BigInt(lengths[i]);
  }

  /** The ranges counted from this address. Halves of addresses are written as numbers, which are faster than bigints. */
  from(base: number): BigUint64Array<ArrayBuffer> {
    if (base === this.#base) return this.vectors;
    this.#base = base;
    for (let i = 0; i < this.count; i++) {
      const address = base + this.#starts[i];
      this.#words[4 * i] = address;
      this.#words[4 * i + 1] = address / 2 ** 32;
    }
    return this.vectors;
  }
}

/** What one call copies. */
interface Batch {
  readonly own: Ranges;
  readonly other: Ranges;
  readonly bytes: number;
}

/** The ranges that a call is going to be given of one side. */
class Side {
  #starts: number[] = [];
  #lengths: number[] = [];
  /** The range that is next, and how much of it was taken. */
  #at = 0;
  #taken = 0;

  constructor(readonly segments: Segments) {}

  get isDone(): boolean {
    return this.#at === this.segments.starts.length;
  }

  /** Bytes left of the range that is next. */
  get left(): number {
    return this.segments.lengths[this.#at] - this.#taken;
  }

  /** Whether another range would be one too many. */
  isFull(most: number): boolean {
    return this.#starts.length === most && this.#taken === 0;
  }

  take(bytes: number): void {
    if (this.#taken > 0 && this.#starts.length > 0) this.#lengths[this.#lengths.length - 1] += bytes;
    else {
      this.#starts.push(this.segments.starts[this.#at] + this.#taken);
      this.#lengths.push(bytes);
    }
    this.#taken += bytes;
    if (this.left > 0) return;
    this.#taken = 0;
    this.#at++;
  }

  /** What was taken, for a call; the next one begins with nothing. */
  cut(): Ranges {
    const ranges = new Ranges({ starts: this.#starts, lengths: this.#lengths });
    [this.#starts, this.#lengths] = [[], []];
    return ranges;
  }
}

function batchesOf(ownSegments: Segments, otherSegments: Segments, mostRanges: number, mostBytes: number): Batch[] {
  const batches: Batch[] = [];
  const [own, other] = [new Side(ownSegments), new Side(otherSegments)];
  for (let bytes = 0; !own.isDone;) {
    const length = Math.min(own.left, other.left, mostBytes - bytes);
    own.take(length);
    other.take(length);
    bytes += length;
    if (!own.isDone && bytes < mostBytes && !own.isFull(mostRanges) && !other.isFull(mostRanges)) continue;
    batches.push({ own: own.cut(), other: other.cut(), bytes });
    bytes = 0;
  }
  return batches;
}

/**
 * Copy between this process and another one: into the memory of this one (`read`), or into that of the other (`write`).
 * Both sides have as many bytes. Returns what copies, given the addresses from which the ranges are counted.
 *
 * @throws {StateError} when it copies, if the other process is not there any more, or either memory.
 */
export function prepareProcessCopy(
  kind: "read" | "write",
  process: number,
  own: Segments,
  other: Segments,
  mostRanges: number = MOST_RANGES,
  mostBytes: number = MOST_BYTES,
): (ownAddress: number, otherAddress: number) => void {
  const { process_vm_readv, process_vm_writev } = functions ??= libcFunctions(SYMBOLS);
  const copy = kind === "read" ? process_vm_readv : process_vm_writev;
  const batches = batchesOf(own, other, mostRanges, mostBytes);
  return (ownAddress, otherAddress) => {
    for (const { own, other, bytes } of batches) {
      const [here, there] = [own.from(ownAddress), other.from(otherAddress)];
      const done = copy(process, here, BigInt(own.count), there, BigInt(other.count), 0n);
      if (Number(done) !== bytes) {
        throw new StateError(
          `Of ${bytes} bytes that were to be ${kind === "read" ? "read from" : "written to"} the memory of process ` +
            `${process}, ${done < 0n ? "none" : done} came: that rank has ended, or let go of its array. ` +
            `Look at what it printed.`,
        );
      }
    }
  };
}

/** The processes of all ranks, if each may read and write the memory of all others; else null. Collective. */
export function reachableProcesses(communicator: Communicator): readonly number[] | null {
  const word = crypto.getRandomValues(new BigUint64Array(2));
  const here = BigUint64Array.of(BigInt(Deno.pid), addressOf(word), word[0]);
  const all = communicator.allGather(here) as BigUint64Array<ArrayBuffer>;
  const processes = Array.from({ length: communicator.size }, (_, rank) => Number(all[3 * rank]));
  const isReached = processes.every((process, rank) => {
    const seen = new BigUint64Array(1);
    const once = { starts: [0], lengths: [8] };
    try {
      prepareProcessCopy("read", process, once, once)(Number(addressOf(seen)), Number(all[3 * rank + 1]));
    } catch {
      return false;
    }
    return seen[0] === all[3 * rank + 2];
  });
  const [areAll] = communicator.allReduce(Int32Array.of(Number(isReached)), { op: "min" });
  // The word has to be there until all have read it.
  return word.length > 0 && areAll === 1 ? processes : null;
}
