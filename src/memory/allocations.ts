/**
 * What is allocated and where it came from: the registry behind leak reports.
 *
 * @module
 */
import { environment } from "../../ffi/library.ts";
import { errorFromScript, placeInScript } from "../../ffi/script_line.ts";
import { beforeMpiEnds } from "../mpi/init_finalize.ts";
import { describe } from "../options.ts";

/** The kinds of memory that are counted. */
export type MemoryKind = "device" | "pinned" | "symmetric";

/**
 * Refuse what is no size.
 *
 * @throws {RangeError} if it is no whole number from 0.
 */
export function checkBytes(what: string, bytes: number): void {
  if (Number.isInteger(bytes) && bytes >= 0) return;
  throw new RangeError(`${what} must be a whole number of bytes from 0, not ${describe(bytes)}.`);
}

/** Memory that is allocated now. */
export interface Allocation {
  /** The kind of memory. */
  readonly kind: MemoryKind;
  /** Its size in bytes. */
  readonly bytes: number;
  /** Where it was allocated, such as `train.ts:12:8`. */
  readonly place: string;
}

/**
 * Where memory was allocated. It is formatted only when somebody asks, and kept by the memory alone: an error that was not
 * formatted holds on to every `this` on the stack, so that the registry must not hold it.
 */
export class Origin {
  #error: Error | null = errorFromScript();

  /** Such as `train.ts:12:8`. */
  get place(): string {
    return placeInScript(this.#error?.stack ?? "") ?? "an unknown place";
  }

  /** Let go of the stack: what a new WeakRef leads to stays until the event loop turns, which scripts may never let it do. */
  forget(): void {
    this.#error = null;
  }
}

/** An entry of the registry: its key. */
class Entry implements Allocation {
  readonly #origin: WeakRef<Origin>;

  constructor(readonly kind: MemoryKind, readonly bytes: number, origin: Origin) {
    this.#origin = new WeakRef(origin);
  }

  get place(): string {
    return this.#origin.deref()?.place ?? "a place that nobody remembers: it was dropped";
  }

  forget(): void {
    this.#origin.deref()?.forget();
  }
}

export type AllocationKey = object;

const live = new Set<AllocationKey & Allocation>();
let reports = false;

/** Note an allocation; the key ends it. The memory keeps the origin, the registry does not. */
export function noteAllocation(kind: MemoryKind, bytes: number, origin: Origin): AllocationKey {
  if (!reports) {
    reports = true;
    beforeMpiEnds(report);
  }
  const entry = new Entry(kind, bytes, origin);
  live.add(entry);
  return entry;
}

export function noteFree(key: AllocationKey): void {
  live.delete(key as Entry);
  (key as Entry).forget();
}

/**
 * All memory that this process has allocated on GPUs, pinned, and in symmetric memory, and has not let go of.
 *
 * @example
 * ```ts
 * import { liveAllocations } from "@distmath/distmath/internals";
 * for (const { kind, bytes, place } of liveAllocations()) console.log(kind, bytes, place);
 * ```
 */
export function liveAllocations(): Allocation[] {
  return [...live];
}

/** With `DISTMATH_LEAKS=1`, tell at the end what was not let go of. Symmetric memory is always told of, elsewhere. */
function report(): void {
  if (environment("DISTMATH_LEAKS") !== "1") return;
  for (const { kind, bytes, place } of live) {
    if (kind !== "symmetric") {
      console.error(`distmath: ${bytes} bytes of ${kind} memory, from ${place}, were not freed.`);
    }
  }
}
