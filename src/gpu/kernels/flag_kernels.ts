/**
 * How GPUs of one machine wait for each other on a stream: kernels of one block that look at words in their own memory,
 * until others have written there. The wait ends at a deadline: it is noted whom it was for, all later waits end at once,
 * and the stream goes on, so that nothing ever holds a GPU.
 *
 * @module
 */
import type { Device } from "../device.ts";
import type { Stream } from "../stream.ts";
import { Program } from "./program.ts";

/** The most ranks that meet. */
export const MOST_MEETING = 8;

const SOURCE = `
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;

#ifdef __CUDA_ARCH__
__device__ u64 now() { u64 time; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)); return time; }
#else
extern "C" int clock_gettime(int, long*);
static u64 now() { long time[2]; clock_gettime(1, time); return time[0] * 1000000000ull + time[1]; }
#endif

// Whether a word has reached a value before the deadline; numbers of calls may wrap around. What is noted is in words of
// two halves: whom and what was waited for, and the number of the call.
__device__ bool awaited(u64 word, u32 value, u64 patience, i64 error, i64 report, u64 note) {
  volatile u64* first = (volatile u64*)error;
  u64 end = now() + patience;
  while ((int)(*(volatile u32*)word - value) < 0) {
    if (*first != 0) return false;
    __nanosleep(20);
    if (now() < end) continue;
    *first = note;
    *(volatile u64*)report = note;
    return false;
  }
  return true;
}

struct Awaiting { i64 word, value, patience, error, report, what, peer; };

extern "C" __global__ void await_word(const Awaiting p) {
  if (*(volatile u64*)p.error == 0) {
    u64 note = (u64)p.what << 40 | (u64)(p.peer + 1) << 32 | (u32)p.value;
    awaited((u64)p.word, (u32)p.value, (u64)p.patience, p.error, p.report, note);
  }
  __threadfence_system();
}

struct Setting { i64 address, step, words[4]; };

extern "C" __global__ void set_words(const Setting p) {
  for (i64 i = 0; i < 4; i++) *(volatile u32*)(p.address + i * p.step) = (u32)p.words[i];
}

struct Meeting {
  i64 flags, words, more, moreWords, number, met, theirs[${MOST_MEETING}], rank, size, patience, error, report, what;
};

// Take back this rank's own flags, then tell all others, and wait for all of them: none is still in an earlier run.
extern "C" __global__ void meet_all(const Meeting p) {
  for (i64 i = threadIdx.x; i < p.words; i += blockDim.x) ((volatile u32*)p.flags)[i] = 0;
  for (i64 i = threadIdx.x; i < p.moreWords; i += blockDim.x) ((volatile u32*)p.more)[i] = 0;
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x != 0) return;
  u32 number = ++*(volatile u32*)p.number;
  for (i64 rank = 0; rank < p.size; rank++) if (rank != p.rank) ((volatile u32*)p.theirs[rank])[p.rank] = number;
  __threadfence_system();
  for (i64 rank = 0; rank < p.size && *(volatile u64*)p.error == 0; rank++) {
    if (rank == p.rank) continue;
    u64 note = (u64)p.what << 40 | (u64)(rank + 1) << 32 | number;
    awaited((u64)p.met + 4 * rank, number, (u64)p.patience, p.error, p.report, note);
  }
  __threadfence_system();
}
`;

/** The source, for tests that compile it without a GPU. */
export const flagKernelSource: string = SOURCE;

const program = new Program("flags", SOURCE);

/** Where it is noted that something was awaited in vain. */
export interface Notes {
  /** 8 bytes of the GPU's memory: 0, or the first note. */
  readonly error: bigint;
  /** 8 bytes of pinned memory of the host: the same. */
  readonly report: bigint;
  /** How long is waited. */
  readonly patienceSeconds: number;
}

const nanoseconds = (seconds: number) => BigInt(Math.round(seconds * 1e9));

/** Compile and load the kernels, where one rank may fail alone. */
export function prepareFlags(stream: Stream): void {
  for (const kernel of ["await_word", "set_words", "meet_all"]) program.function(kernel, stream.device);
}

/** Have ready what sets four words, so many bytes apart, on a stream or in its graph. */
export function prepareWords(
  address: bigint,
  stepBytes: number,
  device: Device,
): (words: Uint32Array, stream: Stream) => void {
  const launch = program.prepare("set_words", device, 1, [address, BigInt(stepBytes), 0n, 0n, 0n, 0n], 1);
  return (words, stream) => {
    words.forEach((word, i) => launch.words[2 + i] = BigInt(word));
    launch.put(stream);
  };
}

/** What {@linkcode prepareWait} waits for. */
export interface Awaited {
  /** Where the word lies. */
  readonly word: bigint;
  /** Who writes it. */
  readonly peer: number;
  /** What it stands for, a number from 1 to 255. */
  readonly what: number;
}

/** Has a stream wait until a word has reached a value. */
export type Wait = (value: number, stream: Stream) => void;

/** Have ready what makes streams wait until a word of 32 bits has reached a value. */
export function prepareWait({ word, peer, what }: Awaited, notes: Notes, device: Device): Wait {
  const { error, report, patienceSeconds } = notes;
  const words = [word, 0n, nanoseconds(patienceSeconds), error, report, BigInt(what), BigInt(peer)];
  const launch = program.prepare("await_word", device, 1, words, 1);
  return (value, stream) => {
    launch.words[1] = BigInt(value);
    launch.put(stream);
  };
}

/** A range of a GPU's memory, in words of 32 bits. */
export interface WordRange {
  /** Where it begins. */
  readonly address: bigint;
  /** How many. */
  readonly words: number;
}

/** What the ranks of a {@linkcode meetAll} have. */
export interface MeetingPlace {
  /** This rank's flags that are set to zero before the others learn that it is here: two ranges at most. */
  readonly cleared: readonly WordRange[];
  /** A word of this GPU that counts meetings. */
  readonly number: bigint;
  /** By rank: where its words are, one for each rank, in which the others tell it that they are here. */
  readonly words: readonly bigint[];
  /** This rank. */
  readonly rank: number;
  /** What it stands for, a number from 1 to 255. */
  readonly what: number;
}

/** Have a stream wait until the streams of all ranks are here. What it does does not depend on how often it was captured. */
export function meetAll(stream: Stream, { cleared, number, words, rank, what }: MeetingPlace, notes: Notes): void {
  const { error, report, patienceSeconds } = notes;
  const nothing: WordRange = { address: 0n, words: 0 };
  const [first = nothing, second = nothing] = cleared;
  const all = Array.from({ length: MOST_MEETING }, (_, i) => words[i] ?? 0n);
  program.launch("meet_all", stream, 1, [
    first.address,
    BigInt(first.words),
    second.address,
    BigInt(second.words),
    number,
    words[rank],
    ...all,
    BigInt(rank),
    BigInt(words.length),
    nanoseconds(patienceSeconds),
    error,
    report,
    BigInt(what),
  ]);
}
