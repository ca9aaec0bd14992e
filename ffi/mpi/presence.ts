/**
 * What the ranks of a job on one machine know of each other without a message: who is there, who waits in which call for
 * whom, and who has left.
 *
 * They share a page of memory, named by the launcher that started them, or by a command that wants to look at it. The name
 * goes as soon as all of them have come. What a rank writes are plain stores; it is read when a rank leaves, or starts MPI.
 *
 * @module
 */
import { environment } from "../library.ts";
import { addressOf, addressOfPointer, libcFunctions } from "../memory.ts";
import { lineOfScript, lineOfWait } from "../script_line.ts";
import { launcherName } from "./ancestors.ts";
import { launcher } from "./launcher.ts";
import { Meetings } from "./meetings.ts";
import {
  COUNTED_PEERS,
  describeLine,
  FIELDS,
  LAYOUT,
  NO_PEER,
  PRESENT,
  type PresentRank,
  type SharedPage,
  WORDS,
  WORDS_OF_RANK,
} from "./presence_page.ts";
import type { MachinePlace } from "./without_mpi.ts";

const LIBC_SYMBOLS = {
  /** `int open(const char* path, int flags, mode_t mode)` */
  open: { parameters: ["buffer", "i32", "u32"], result: "i32" },
  /** `int close(int fd)` */
  close: { parameters: ["i32"], result: "i32" },
  /** `int ftruncate(int fd, off_t length)` */
  ftruncate: { parameters: ["i32", "i64"], result: "i32" },
  /** `int posix_fallocate(int fd, off_t offset, off_t length)` */
  posix_fallocate: { parameters: ["i32", "i64", "i64"], result: "i32" },
  /** `void* mmap(void* addr, size_t length, int prot, int flags, int fd, off_t offset)` */
  mmap: { parameters: ["u64", "usize", "i32", "i32", "i32", "i64"], result: "u64" },
  /** `int access(const char* path, int mode)` */
  access: { parameters: ["buffer", "i32"], result: "i32" },
  /** `int unlink(const char* path)` */
  unlink: { parameters: ["buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

const AT_EXIT_SYMBOLS = {
  /** `int unlink(const char* path)`, for its address. */
  unlink: { type: "pointer" },
  /** `char* strdup(const char* s)` */
  strdup: { parameters: ["buffer"], result: "u64" },
  /** `int __cxa_atexit(void (*function)(void*), void* argument, void* library)` */
  __cxa_atexit: { parameters: ["u64", "u64", "u64"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

const O_RDWR = 0o2;
const O_CREAT = 0o100;
const O_NOFOLLOW = 0o400000;
const O_CLOEXEC = 0o2000000;
const PROT_READ_WRITE = 3;
const MAP_SHARED_FIXED = 0x11;
const OWNER_ONLY = 0o600;
const PAGE_BYTES = 4096;
const WORD_BYTES = 4;

/** Begins the name of the memory, before the launcher's process number and start and, after dots, what tells jobs apart. */
export const PRESENCE_PREFIX = "/dev/shm/distmath.";

/** The variable by which a command names the memory of the job that it starts. */
export const PRESENCE_VARIABLE = "DISTMATH_PRESENCE";

/** The memory that the ranks of a job on this machine share. */
export class Presence {
  readonly #words: Int32Array<ArrayBuffer>;
  readonly #own: number;
  readonly #ownWords: Int32Array<ArrayBuffer>;
  readonly #localSize: number;
  readonly #size: number;
  readonly #path: Uint8Array<ArrayBuffer>;
  readonly #places = new Map<number, number>();
  /** Where the name of this rank's operation is; and which one it is. */
  readonly #name: Uint8Array;
  readonly #line: Uint8Array;
  readonly #end: Uint8Array;
  #operation = "";
  #joined = 0;
  /** Whether all ranks of the job are on this machine. */
  readonly isWhole: boolean;
  /** Whether the command that started the job looks at this memory. */
  readonly isSeen: boolean;
  /** Called at the beginning of each wait, until it is `null`. */
  atNextWait: (() => void) | null = null;
  /** The collective calls of the ranks; `null` where whoever carries them compares them by itself. */
  readonly meetings: Meetings | null;

  /** Made by `joinPresence()`. */
  constructor(
    words: Int32Array<ArrayBuffer>,
    place: { rank: number; size: number; localRank: number; localSize: number },
    path: Uint8Array<ArrayBuffer>,
    { isCompared = false, isSeen = false } = {},
  ) {
    this.#words = words;
    this.#own = (place.localRank + 1) * WORDS_OF_RANK;
    this.#ownWords = words.subarray(this.#own, this.#own + WORDS_OF_RANK);
    this.#name = this.#textAt(this.#own + FIELDS.NAME, FIELDS.LINE - FIELDS.NAME);
    this.#line = this.#textAt(this.#own + FIELDS.LINE, FIELDS.END - FIELDS.LINE);
    this.#end = this.#textAt(this.#own + FIELDS.END, WORDS_OF_RANK - FIELDS.END);
    this.#localSize = place.localSize;
    this.#size = place.size;
    this.#path = path;
    this.isWhole = place.size === place.localSize;
    this.isSeen = isSeen;
    this.meetings = isCompared ? null : new Meetings(words, place.localRank, place.localSize);
    this.#ownWords[FIELDS.RANK] = place.rank;
    this.#ownWords[FIELDS.PROCESS] = Deno.pid;
    words[WORDS.RANKS] = place.localSize;
    const isNew = this.#ownWords[FIELDS.STATE] === PRESENT.NOWHERE;
    this.setState(PRESENT.HERE);
    if (isNew && Atomics.add(words, WORDS.ARRIVED, 1) + 1 === place.localSize) this.removeName();
  }

  /** Tell where this rank is. */
  setState(state: number): void {
    Atomics.store(this.#ownWords, FIELDS.STATE, state);
  }

  /** Tell with which code this rank is about to end, and by what; with 0 that it is not. */
  setEnd(code: number, how: string): void {
    this.#ownWords[FIELDS.END_BYTES] = new TextEncoder().encodeInto(how, this.#end).written;
    Atomics.store(this.#ownWords, FIELDS.END_CODE, code);
  }

  /** Tell that this rank ends with an error, unless it has told how it leaves. */
  failBeforeStart(): void {
    if (this.#ownWords[FIELDS.STATE] === PRESENT.HERE) this.setState(PRESENT.FAILING);
  }

  /** Wait until all ranks of the machine have come, but not for longer; returns whether they have. */
  waitForArrivals(milliseconds: number): boolean {
    return waitUntil(() => Atomics.load(this.#words, WORDS.ARRIVED) >= this.#localSize, milliseconds);
  }

  /**
   * Tell that this rank joins a runtime, and wait until all of the machine have done so as often, or one looks on, but not for
   * longer; returns whether they have, or one does.
   */
  waitForJoining(milliseconds: number): boolean {
    Atomics.add(this.#words, WORDS.JOINED, 1);
    const all = ++this.#joined * this.#localSize;
    const has = (word: number, count: number) => Atomics.load(this.#words, word) >= count;
    return waitUntil(() => has(WORDS.JOINED, all) || has(WORDS.LOOKING, 1), milliseconds);
  }

  /** Tell that this rank starts MPI, in which it waits for the others, and where in the script. */
  startAt(): void {
    // Before all calls, so that none of them is taken for this one.
    this.#tellLine(lineOfScript(), -1);
    this.setState(PRESENT.STARTING);
  }

  /** Count that this rank has started MPI; returns whether it is the last one of the machine. */
  countStart(): boolean {
    return Atomics.add(this.#words, WORDS.STARTED, 1) + 1 === this.#localSize;
  }

  /** Where the memory is, for a thread of this process: its address and size, the ranks in it, and which one is this one. */
  get memory(): SharedPage {
    const { buffer, byteOffset, byteLength } = this.#words;
    return {
      address: addressOf(buffer) + BigInt(byteOffset),
      byteLength,
      words: WORDS_OF_RANK,
      fields: FIELDS,
      ranks: this.#localSize,
      size: this.#size,
      own: this.#own,
    };
  }

  /**
   * Tell that a call that waits begins; one that is not collective waits for two ranks at the most.
   *
   * @returns whether the line was looked for.
   */
  begin(
    operation: string,
    functionHash: number,
    scope: number,
    turn: number,
    firstPeer: number,
    secondPeer: number,
    line: string | null = lineOfWait(operation, functionHash),
  ): boolean {
    if (this.atNextWait !== null) this.atNextWait();
    const words = this.#ownWords;
    if (operation !== this.#operation) this.#tell(operation);
    words[FIELDS.FUNCTION] = functionHash;
    words[FIELDS.SCOPE] = scope;
    words[FIELDS.TURN] = turn;
    words[FIELDS.FIRST_PEER] = firstPeer;
    words[FIELDS.SECOND_PEER] = secondPeer;
    if (line !== null) this.#tellLine(line, words[FIELDS.CALLS] + 1);
    words[FIELDS.CALLS]++;
    return line !== null;
  }

  #tellLine(line: string, calls: number): void {
    const end = line.slice(-this.#line.length);
    this.#ownWords[FIELDS.LINE_BYTES] = new TextEncoder().encodeInto(end, this.#line).written;
    this.#ownWords[FIELDS.LINE_CALLS] = calls;
  }

  #tell(operation: string): void {
    this.#operation = operation;
    this.#ownWords[FIELDS.NAME_BYTES] = new TextEncoder().encodeInto(operation, this.#name).written;
  }

  #textAt(word: number, words: number): Uint8Array {
    const { buffer, byteOffset } = this.#words;
    return new Uint8Array(buffer, byteOffset + word * WORD_BYTES, words * WORD_BYTES);
  }

  /** Tell the same of a request that is awaited or asked for, beside which the script may do something else. */
  beginBeside(functionHash: number, scope: number, turn: number, line: string): void {
    this.#ownWords[FIELDS.BESIDE] = 1;
    this.begin("", functionHash, scope, turn, NO_PEER, NO_PEER, line);
  }

  /** Tell that it was asked for once more. */
  askAgain(): void {
    this.#ownWords[FIELDS.ASKED]++;
  }

  /** Tell that it has ended, or is told of no more. */
  endBeside(): void {
    this.end();
    this.#ownWords[FIELDS.BESIDE] = 0;
  }

  /** Tell that it has ended. */
  end(): void {
    this.#ownWords[FIELDS.CALLS]++;
  }

  /** Let the script work inside a call that waits, as the function of an operator does. */
  working<T>(work: () => T): T {
    const words = this.#ownWords;
    if (words[FIELDS.CALLS] % 2 === 0) return work();
    words[FIELDS.CALLS]++;
    try {
      return work();
    } finally {
      // It is the same call afterwards.
      words[FIELDS.LINE_CALLS] += 2;
      words[FIELDS.CALLS]++;
    }
  }

  /** Tell of one more message by NCCL to or from a rank of the job; of those on other machines nothing is known. */
  countMessage(rank: number): void {
    const place = this.#placeOf(rank);
    if (place !== undefined && place < COUNTED_PEERS) this.#ownWords[FIELDS.MESSAGES + place]++;
  }

  /** The how manieth of this machine a rank is. */
  #placeOf(rank: number): number | undefined {
    if (this.#places.size < this.#localSize) {
      for (let i = 0; i < this.#localSize; i++) this.#places.set(this.#words[(i + 1) * WORDS_OF_RANK + FIELDS.RANK], i);
    }
    return this.#places.get(rank);
  }

  /** Which collective call this rank has begun last: whose calls are counted, and its number; 0 for what is not known. */
  get last(): Pick<PresentRank, "scope" | "turn"> {
    return { scope: this.#ownWords[FIELDS.SCOPE], turn: this.#ownWords[FIELDS.TURN] };
  }

  /** Whether all ranks of the job are on this machine, and have come, which those of other programs do not. */
  get isComplete(): boolean {
    return this.isWhole && Atomics.load(this.#words, WORDS.ARRIVED) >= this.#localSize;
  }

  /** The first rank of this machine, which tells it from others. */
  get firstRank(): number {
    return Atomics.load(this.#words, WORDS_OF_RANK + FIELDS.RANK);
  }

  /** The other ranks on this machine that have come. */
  others(): PresentRank[] {
    const places = Array.from({ length: this.#localSize }, (_, place) => place);
    return places.filter((place) => (place + 1) * WORDS_OF_RANK !== this.#own).map((place) => this.rankAt(place))
      .filter(({ state }) => state !== PRESENT.NOWHERE);
  }

  /** The numbers of the other processes on this machine that have come. */
  otherProcesses(): number[] {
    const places = Array.from({ length: this.#localSize }, (_, place) => (place + 1) * WORDS_OF_RANK);
    return places.filter((at) => at !== this.#own).map((at) => Atomics.load(this.#words, at + FIELDS.PROCESS))
      .filter((process) => process > 0);
  }

  /** A rank of this machine, by the how manieth it is. */
  rankAt(place: number): PresentRank {
    const at = (place + 1) * WORDS_OF_RANK;
    const word = (field: number) => Atomics.load(this.#words, at + field);
    const operation = this.#textAt(at + FIELDS.NAME, FIELDS.LINE - FIELDS.NAME).subarray(0, word(FIELDS.NAME_BYTES));
    return {
      rank: word(FIELDS.RANK),
      state: word(FIELDS.STATE),
      operation: new TextDecoder().decode(operation),
      line: describeLine(this.#words.subarray(at, at + WORDS_OF_RANK), FIELDS),
      functionHash: word(FIELDS.FUNCTION),
      scope: word(FIELDS.SCOPE),
      turn: word(FIELDS.TURN),
      peers: [word(FIELDS.FIRST_PEER), word(FIELDS.SECOND_PEER)].filter((peer) => peer !== NO_PEER),
      isBeside: word(FIELDS.BESIDE) !== 0,
      messagesAhead: this.#messagesAhead(place),
      // The last: what was read before of a call that has ended meanwhile is known by the number of the next one.
      calls: word(FIELDS.CALLS),
    };
  }

  /** How many more messages a rank of this machine has counted with this one than this one with it. */
  #messagesAhead(place: number): number {
    const own = this.#own / WORDS_OF_RANK - 1;
    if (Math.max(own, place) >= COUNTED_PEERS) return 0;
    const theirs = Atomics.load(this.#words, (place + 1) * WORDS_OF_RANK + FIELDS.MESSAGES + own);
    return theirs - this.#ownWords[FIELDS.MESSAGES + place];
  }

  /** Whether this rank is the first that wants to tell of a hang. */
  claimTelling(): boolean {
    return Atomics.compareExchange(this.#words, WORDS.TOLD, 0, 1) === 0;
  }

  /** Whether this rank is the first that has ended and wants to tell for whom it waits. */
  claimNote(): boolean {
    return Atomics.compareExchange(this.#words, WORDS.NOTED, 0, 1) === 0;
  }

  /** Whether this rank is the first that wants to look on while ranks wait. */
  claimLooking(): boolean {
    // Asked at each wait.
    if (Atomics.load(this.#words, WORDS.LOOKING) !== 0) return false;
    return Atomics.compareExchange(this.#words, WORDS.LOOKING, 0, 1) === 0;
  }

  /** Let another rank look on. */
  stopLooking(): void {
    Atomics.store(this.#words, WORDS.LOOKING, 0);
  }

  /** Remove the name, which is still there if not all ranks are distmath's. */
  removeName(): void {
    libcFunctions(LIBC_SYMBOLS).unlink(this.#path);
  }

  /** Remove the name when this process ends, after which a job does that has not started. */
  removeNameAtExit(): void {
    const { unlink, strdup, __cxa_atexit } = libcFunctions(AT_EXIT_SYMBOLS);
    __cxa_atexit(addressOfPointer(unlink), strdup(this.#path), 0n);
  }
}

/**
 * Wait until something is so, but not for longer; returns whether it is. Looks are counted, one a millisecond: while the
 * whole machine stands still, nobody can come.
 */
function waitUntil(isSo: () => boolean, milliseconds: number): boolean {
  const never = new Int32Array(new SharedArrayBuffer(WORD_BYTES));
  for (let looks = 0; !isSo() && looks < milliseconds; looks++) Atomics.wait(never, 0, 0, 1);
  return isSo();
}

/** As {@linkcode joinPresence}, of a rank that is alone on its machine, and tells nobody but its own threads. */
export function presenceAlone(rank: number, size: number): Presence {
  const words = new Int32Array(2 * WORDS_OF_RANK);
  return new Presence(words, { rank, size, localRank: 0, localSize: 1 }, cString(""));
}

let joined: Presence | null | undefined;

/**
 * The memory shared with the job's other ranks on this machine, joined at the first call; `null` for a rank that is alone,
 * and where there can be none: no launcher that tells the place on the machine, no `/dev/shm`, no `--allow-ffi` for libc.
 */
export function joinPresence(): Presence | null {
  if (joined === undefined) joined = join();
  return joined;
}

/** As {@linkcode joinPresence}, for ranks that have joined without a launcher and know their places, and a name. */
export function joinPresenceAt(place: MachinePlace): Presence | null {
  return joined ??= joinAt(place, `${PRESENCE_PREFIX}tcp.${place.name}`);
}

/** The memory, if it was joined. */
export function joinedPresence(): Presence | null {
  return joined ?? null;
}

function join(): Presence | null {
  const starter = launcher();
  // Without MPI the place is known once the ranks have joined.
  if (starter === null || starter.kind === "torch") return null;
  const { rank, size, localRank, localSize } = starter;
  if (localRank === null || localSize === null || size < 2) return null;
  return joinAt({ rank, size, localRank, localSize }, null);
}

function joinAt(place: Omit<MachinePlace, "name">, given: string | null): Presence | null {
  const { rank, size, localRank, localSize } = place;
  try {
    const ofCommand = given === null ? nameOfCommand(rank) : null;
    const name = given ?? ofCommand ?? nameOfJob();
    const path = cString(name ?? "");
    const words = name === null ? null : mapShared(path, (localSize + 1) * WORDS_OF_RANK);
    if (words === null) {
      if (localRank === 0) tellOfNoMemory(name);
      return null;
    }
    const ways = { isCompared: given !== null, isSeen: ofCommand !== null };
    return new Presence(words, { rank, size, localRank, localSize }, path, ways);
  } catch {
    return null;
  }
}

function tellOfNoMemory(name: string | null): void {
  const why = name === null
    ? "/proc does not show the launcher"
    : `${name} cannot be opened; is /dev/shm there, and writable?`;
  console.warn(
    `distmath: the ranks of this machine share no memory (${why}), so that ranks that wait in vain are neither told of nor ` +
      "ended. Pass timeoutSeconds to initialize(), or --timeout to run.",
  );
}

/** The name that the command has given to this job's memory, and not to those of jobs that ranks may start. */
function nameOfCommand(rank: number): string | null {
  const name = environment(PRESENCE_VARIABLE);
  if (!name?.startsWith(PRESENCE_PREFIX)) return null;
  Deno.env.delete(PRESENCE_VARIABLE);
  const isOfThisLayout = name.endsWith(`.${LAYOUT}`);
  // On other machines the command sees nothing.
  if (isOfThisLayout) return libcFunctions(LIBC_SYMBOLS).access(cString(name), 0) === 0 ? name : null;
  if (rank === 0) {
    const own = new URL("../../scripts/main.ts", import.meta.url).href;
    console.warn(
      "distmath: the command that started this job is of another version than this library, and does not see where its " +
        `ranks wait; that of this version is ${own}`,
    );
  }
  return null;
}

/** The name by the launcher; a resident one starts several jobs. */
function nameOfJob(): string | null {
  const above = launcherName();
  const job = environment("PMIX_NAMESPACE")?.replaceAll(/[^\w@-]/g, "_");
  return above && PRESENCE_PREFIX + above + (job === undefined ? "" : `.${job}`);
}

const cString = (text: string) => new TextEncoder().encode(`${text}\0`);

/** Bytes of a page of WebAssembly. */
const WASM_PAGE_BYTES = 2 ** 16;

/**
 * Shared memory as an array: mapped over pages that V8 has mapped for WebAssembly, and unmaps when it frees them, which is
 * before the process ends. Those of other arrays are on the heap, where what is allocated next would lie in shared memory.
 */
export function mapShared(path: Uint8Array<ArrayBuffer>, words: number): Int32Array<ArrayBuffer> | null {
  const { open, close, ftruncate, posix_fallocate, mmap } = libcFunctions(LIBC_SYMBOLS);
  const length = Math.ceil(words * WORD_BYTES / PAGE_BYTES) * PAGE_BYTES;
  const file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, OWNER_ONLY);
  if (file < 0) return null;
  const pages = Math.ceil(length / WASM_PAGE_BYTES);
  const room = new WebAssembly.Memory({ initial: pages, maximum: pages }).buffer as ArrayBuffer;
  const place = addressOf(room);
  // Where there is no page left, writing to one that is only mapped would end the process.
  const isMapped = ftruncate(file, BigInt(length)) === 0 && posix_fallocate(file, 0n, BigInt(length)) === 0 &&
    mmap(place, BigInt(length), PROT_READ_WRITE, MAP_SHARED_FIXED, file, 0n) === place;
  close(file);
  return isMapped ? new Int32Array(room, 0, words) : null;
}
