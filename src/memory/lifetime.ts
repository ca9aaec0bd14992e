/**
 * What is allocated and where it came from: the registry behind leak reports.
 *
 * @module
 */
import { environment } from "../../ffi/library.ts";
import { beforeMpiEnds } from "../runtime/mpi.ts";

/** The kinds of memory that are counted. */
export type MemoryKind = "device" | "pinned" | "symmetric";

/** Memory that is allocated now. */
export interface Allocation {
  /** The kind of memory. */
  readonly kind: MemoryKind;
  /** Its size in bytes. */
  readonly bytes: number;
  /** Where it was allocated, such as `train.ts:12:8`. */
  readonly place: string;
}

/** An entry of the registry. The error is not formatted before somebody asks where it was made. */
class Entry implements Allocation {
  readonly #origin = new Error();

  constructor(readonly kind: MemoryKind, readonly bytes: number) {}

  get place(): string {
    return placeOf(this.#origin.stack ?? "");
  }
}

/** The key of an allocation in the registry. */
export type AllocationKey = object;

const live = new Map<AllocationKey, Entry>();
let reports = false;

/** Note an allocation; the key ends it. */
export function noteAllocation(kind: MemoryKind, bytes: number): AllocationKey {
  if (!reports) {
    reports = true;
    beforeMpiEnds(report);
  }
  const entry = new Entry(kind, bytes);
  live.set(entry, entry);
  return entry;
}

/** Note that an allocation has ended. */
export function noteFree(key: AllocationKey): void {
  live.delete(key);
}

/**
 * All memory that this process has allocated on GPUs, pinned, and in symmetric memory, and has not let go of.
 *
 * @example
 * ```ts
 * import { liveAllocations } from "./lifetime.ts";
 * for (const { kind, bytes, place } of liveAllocations()) console.log(kind, bytes, place);
 * ```
 */
export function liveAllocations(): Allocation[] {
  return [...live.values()];
}

/** The place of an allocation. */
export function placeOfAllocation(key: AllocationKey): string {
  return live.get(key)?.place ?? "an unknown place";
}

/** With `DISTMATH_LEAKS=1`, tell at the end what was not let go of. Symmetric memory is always told of, elsewhere. */
function report(): void {
  if (environment("DISTMATH_LEAKS") !== "1") return;
  for (const { kind, bytes, place } of live.values()) {
    if (kind !== "symmetric") {
      console.error(`distmath: ${bytes} bytes of ${kind} memory, from ${place}, were not freed.`);
    }
  }
}

/** The part of a URL up to the library's own sources, whose frames do not interest. */
const OWN_SOURCES = new URL("../", import.meta.url).href;

/** The first line of a stack outside the library. */
function placeOf(stack: string): string {
  const frames = stack.split("\n").slice(1).map((line) => /\(?([^\s(]+:\d+:\d+)\)?$/.exec(line)?.[1] ?? "");
  const frame = frames.find((candidate) => candidate !== "" && !candidate.startsWith(OWN_SOURCES));
  return frame ?? frames[0] ?? "an unknown place";
}
