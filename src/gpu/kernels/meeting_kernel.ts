/**
 * How GPUs of one machine tell each other how far they are: a kernel of one thread that raises numbers in the memory of
 * other GPUs, and waits for some in its own.
 *
 * @module
 */
import type { Stream } from "../stream.ts";
import { type PreparedLaunch, Program } from "./program.ts";

/** How many numbers one launch raises at most, and waits for. */
const MOST_MARKS = 8;

/** Raising numbers, and waiting for some, by one thread: for the kernels that follow, after the type i64. */
export const waiting = `
struct Mark { i64 address, value, peer; };

// Numbers only grow.
__device__ void raise_all(const Mark* marks, i64 count) {
  if (count) __threadfence_system();
  for (i64 i = 0; i < count; i++) *(volatile i64*)marks[i].address = marks[i].value;
}

// A rank that does not come is an error, never a GPU that waits for ever.
__device__ void await_all(const Mark* marks, i64 count, i64 cycles, i64 failure) {
  i64 start = clock64();
  for (i64 i = 0; i < count; i++) {
    while (*(volatile i64*)marks[i].address < marks[i].value) {
      __nanosleep(50);
      if (clock64() - start < cycles) continue;
      *(volatile i64*)failure = marks[i].peer + 1;
      __threadfence_system();
      __trap();
    }
  }
  if (count) __threadfence_system();
}
`;

const SOURCE = `
typedef long long i64;
${waiting}
struct Meeting { i64 raises, waits, cycles, failure; Mark raised[${MOST_MARKS}], awaited[${MOST_MARKS}]; };

extern "C" __global__ void meet(const Meeting p) {
  raise_all(p.raised, p.raises);
  await_all(p.awaited, p.waits, p.cycles, p.failure);
}
`;

/** The source, for tests that compile it without a GPU. */
export const meetingKernelSource: string = SOURCE;

const program = new Program("meeting", SOURCE);

/** A number in the memory of a GPU, and the value that it gets, or that it has at least. */
export interface Mark {
  /** Where it lies, 8 bytes. */
  readonly address: bigint;
  /** The value. */
  readonly value: bigint;
  /** The other rank: whose memory it is, or who raises it. */
  readonly peer: number;
}

/** How long is waited, and where it is noted for whom in vain. */
export interface MeetingLimit {
  /** Cycles of the GPU. */
  readonly cycles: bigint;
  /** Pinned memory of the host, 8 bytes: 0, or one more than the rank that did not come. */
  readonly failure: bigint;
}

const HEAD_WORDS = 4;

/** The words of a mark in a kernel's argument. */
export const MARK_WORDS = 3;

/** By the number of the GPU. */
const launches = new Map<number, PreparedLaunch>();

function launchOn({ device }: Stream): PreparedLaunch {
  const known = launches.get(device.ordinal);
  if (known !== undefined) return known;
  const words = new Array<bigint>(HEAD_WORDS + 2 * MOST_MARKS * MARK_WORDS).fill(0n);
  const made = program.prepare("meet", device, 1, words, 1);
  launches.set(device.ordinal, made);
  return made;
}

/** Put it on a stream: raise marks, all of them, then wait for others. */
export function meet(stream: Stream, raised: readonly Mark[], awaited: readonly Mark[], patience: MeetingLimit): void {
  if (raised.length + awaited.length === 0) return;
  const launch = launchOn(stream);
  const { words } = launch;
  words[2] = patience.cycles;
  words[3] = patience.failure;
  for (const [raises, waits] of inLaunches(raised, awaited)) {
    words[0] = BigInt(raises.length);
    words[1] = BigInt(waits.length);
    raises.forEach((mark, i) => note(words, HEAD_WORDS + i * MARK_WORDS, mark));
    waits.forEach((mark, i) => note(words, HEAD_WORDS + (MOST_MARKS + i) * MARK_WORDS, mark));
    launch.put(stream);
  }
}

/** What each launch raises, and waits for then: nothing is waited for before all is raised. */
export function inLaunches<T>(raised: readonly T[], awaited: readonly T[]): (readonly [raises: T[], waits: T[]])[] {
  const raises = Math.max(1, Math.ceil(raised.length / MOST_MARKS));
  const waits = Math.max(1, Math.ceil(awaited.length / MOST_MARKS));
  const part = (list: readonly T[], i: number) => i < 0 ? [] : list.slice(i * MOST_MARKS, (i + 1) * MOST_MARKS);
  return Array.from(
    { length: raises + waits - 1 },
    (_, i) => [part(raised, i), part(awaited, i - raises + 1)] as const,
  );
}

/** Write a mark, or that there is none, into a kernel's argument. */
export function note(words: BigInt64Array, at: number, mark: Mark | null): void {
  words[at] = mark?.address ?? 0n;
  words[at + 1] = mark?.value ?? 0n;
  words[at + 2] = BigInt(mark?.peer ?? 0);
}
