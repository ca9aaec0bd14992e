/**
 * What this rank waits for, told to the other ranks of the machine before each call that waits: in which communicator, in
 * the how manieth collective call on it, or for which rank. A rank that leaves then knows who waits for it in vain.
 *
 * @module
 */
import { awaited, type AwaitedCall, endAwaiting, watchAwaiting } from "../awaiting.ts";
import { CUBLASMP_WAITS, CUFFTMP_WAITS, GPU_WAITS, NCCL_WAITS, NVSHMEM_WAITS } from "../cuda/waiting_functions.ts";
import { CollectiveError } from "../errors.ts";
import { lineOfScript, lineOfWait } from "../script_line.ts";
import { operation as currentOperation, surroundStarting, surroundWaiting } from "../waiting.ts";
import type { Handle, MpiConstants } from "./abi.ts";
import { type EntryKinds, entryKinds, kindOf, ofKind } from "./entry_kinds.ts";
import { MPI_FUNCTIONS, type MpiFunctionName } from "./functions.ts";
import type { Mismatch } from "./meetings.ts";
import type { Presence } from "./presence.ts";
import { NO_PEER, type PresentRank } from "./presence_page.ts";

/** Ranks that make their collective calls in the same order, and how many this rank has made. */
interface Scope {
  /** The same on all of its ranks, and unlike those of other scopes. */
  id: number;
  /** The collective calls begun so far. */
  turns: number;
  /** This rank's number in it. */
  rank: number;
  /** The operations on arrays of these ranks, which are counted by themselves. */
  operations: Scope | null;
  /** The collective calls that go on in the background, which are counted by themselves; null in a scope of either. */
  requests: Scope | null;
}

/** Where a function's communicator and the ranks that it waits for stand among its arguments. */
interface Positions {
  communicator: number | null;
  peers: readonly number[] | null;
}

/** The functions that wait for single ranks. */
const PEERS: Readonly<Record<string, readonly number[]>> = {
  MPI_Send: [3],
  MPI_Recv: [3],
  MPI_Sendrecv: [3, 8],
  MPI_Probe: [0],
};

/** Those whose communicator is the first of several handles, or in a buffer, or not among the arguments. */
const COMMUNICATORS: Readonly<Record<string, number | null>> = {
  MPI_Comm_split_type: 0,
  MPI_Comm_free: 0,
  // Those of a group make it, and no others.
  MPI_Comm_create_group: null,
  MPI_Finalize: null,
  MPI_Wait: null,
  MPI_Win_free: null,
};

/** The functions with a root, which stands before the communicator. */
const ROOTED: ReadonlySet<string> = new Set([
  "MPI_Bcast",
  "MPI_Reduce",
  "MPI_Gather",
  "MPI_Gatherv",
  "MPI_Scatter",
  "MPI_Scatterv",
  "MPI_Ibcast",
  "MPI_Ireduce",
  "MPI_Igather",
  "MPI_Iscatter",
]);

/** The functions of which all ranks name as many entries, in the first of their whole numbers. */
const COUNTED = /^MPI_I?(bcast|reduce|allreduce|scan|exscan|gather|scatter|allgather|alltoall)$/i;

/** The argument that is the number of entries, as many on all ranks; 0 where each rank has its own, or none. */
function countIn(name: string): string {
  const parameters: readonly string[] = MPI_FUNCTIONS[name as MpiFunctionName];
  return COUNTED.test(name) ? `v${parameters.indexOf("int")}` : "0";
}

/** The functions that combine entries, by an operation that stands behind their type. */
const COMBINING = /^MPI_I?(reduce|allreduce|scan|exscan|reduce_scatter)$/i;

/** The arguments that are the type of entries and the operation, the same on all ranks; `null` where that is not so. */
function kindIn(name: string): string {
  const parameters: readonly string[] = MPI_FUNCTIONS[name as MpiFunctionName];
  const [isCombining, type] = [COMBINING.test(name), parameters.indexOf("handle")];
  return `${isCombining || COUNTED.test(name) ? `v${type}` : null}, ${isCombining ? `v${type + 1}` : null}`;
}

/** What stands for a call with a root. Also runs in threads, where it sees nothing of this module. */
export function rooted(functionHash: number, root: number): number {
  return Math.imul(functionHash ^ root + 1, 0x5f356495);
}

/** A collective call: its function, its root, if it has one, and its entries, such as `"sum of int8"`, if they are known. */
export interface CollectiveCall {
  readonly name: string;
  readonly root: number | null;
  readonly entries: string;
}

/** The functions by what stands for them, and the kinds of entries by their numbers. */
export interface CallNames {
  readonly functions: ReadonlyMap<number, string>;
  readonly kinds: readonly string[];
}

/** What something stands for, among so many ranks; `null` if not known. Also runs in threads. */
export function callOf(callHash: number, { functions, kinds }: CallNames, ranks: number): CollectiveCall | null {
  for (const [kind, entries] of kinds.entries()) {
    const withoutKind = ofKind(callHash, kind);
    const name = functions.get(withoutKind);
    if (name !== undefined) return { name, root: null, entries };
    for (const [functionHash, name] of functions) {
      for (let root = 0; root < ranks; root++) {
        if (rooted(functionHash, root) === withoutKind) return { name, root, entries };
      }
    }
  }
  return null;
}

/** A collective call, and of how many entries of each rank it is; 0 where that is not the same on all of them. */
interface CountedCall {
  readonly call: CollectiveCall | null;
  readonly count: number;
}

/** By what a call differs from another one, beside its function, in words. Also runs in threads. */
export function describeDetails({ call, count }: CountedCall, other: CountedCall): string {
  if (call === null) return "";
  const root = call.root === null ? "" : ` with root ${call.root}`;
  if (call.name !== other.call?.name) return root;
  const entries = count === other.count ? "" : ` of ${count} ${count === 1 ? "entry" : "entries"}`;
  const kind = call.entries === other.call.entries ? "" : ` (${call.entries || "an operator of the script"})`;
  return root + entries + kind;
}

/** The functions that make a communicator: the argument that tells its members apart, and where it is written. */
const MAKERS: Readonly<Record<string, { color: number | null; out: number }>> = {
  MPI_Comm_dup: { color: null, out: 1 },
  MPI_Comm_split: { color: 1, out: 3 },
  MPI_Comm_split_type: { color: 1, out: 4 },
  MPI_Cart_create: { color: null, out: 5 },
};

function positionsOf(name: string): Positions {
  const parameters: readonly string[] = MPI_FUNCTIONS[name as MpiFunctionName];
  const communicator = Object.hasOwn(COMMUNICATORS, name) ? COMMUNICATORS[name] : parameters.lastIndexOf("handle");
  return { communicator, peers: PEERS[name] ?? null };
}

const byHandle = new Map<Handle, Scope>();
const byId = new Map<number, Scope>();
/** Communicators that are no more here; others may still wait in them for messages. */
const freed = new Set<number>();
/** What was counted by itself of communicators that are no more here: this rank makes no such calls any more. */
const ended = new Map<number, Scope>();
/** Of so many of either, the newest, is known. */
const MOST_GONE = 1000;
/** Whether there were more: of a scope that is not known it is not known then, either, whether this rank was in it. */
let hasForgotten = false;
const namesByHash = new Map<number, string>();
let kinds: EntryKinds = { types: new Map(), operations: new Map(), names: [""] };
let operation: Scope | undefined;
let published: Presence | null = null;

function hash(...values: (number | string)[]): number {
  let mixed = 0x9e3779b1;
  for (const unit of values.join("/")) mixed = Math.imul(mixed ^ unit.charCodeAt(0), 0x5f356495);
  return mixed ^ mixed >>> 15 || 1;
}

/** The last communicator that was asked for, which the next call mostly has as well. */
let last: { handle: unknown; scope: Scope | null } = { handle: null, scope: null };

function addScope(handle: Handle | null, id: number, rank: number): Scope {
  const scope: Scope = { id, turns: 0, rank, operations: null, requests: null };
  byId.set(id, scope);
  if (handle !== null) {
    // A rank that never makes such a call has made none, which is to be known.
    scope.requests = addScope(null, hash(id, "requests"), rank);
    byHandle.set(handle, scope);
    last = { handle, scope };
  }
  return scope;
}

/** Tell that a communicator was made of a list of ranks, for the how manieth time, and which of them this one is. */
export function noteGroup(made: Handle, ranks: readonly number[], count: number, rank: number): void {
  if (published !== null) addScope(made, hash("ranks", ranks.join(), count), rank);
}

/** MPI may give the handle to another communicator, of which nothing is known. */
function removeScope(handle: Handle): void {
  const scope = byHandle.get(handle);
  for (const gone of [scope?.requests, scope?.operations]) if (gone) ended.set(gone.id, gone);
  for (const gone of [scope, scope?.requests, scope?.operations]) if (gone) byId.delete(gone.id);
  if (scope) freed.add(scope.id);
  forgetOldest(ended);
  forgetOldest(freed);
  byHandle.delete(handle);
  last = { handle: null, scope: null };
}

/** A program may make and free communicators without end. */
function forgetOldest(gone: Map<number, Scope> | Set<number>): void {
  for (const id of gone.keys()) {
    if (gone.size <= MOST_GONE) return;
    gone.delete(id);
    hasForgotten = true;
  }
}

function scopeOf(handle: unknown): Scope | null {
  if (handle !== last.handle) last = { handle, scope: byHandle.get(handle as Handle) ?? null };
  return last.scope;
}

/**
 * Which of all meetings the last call of a collective function was: a text that is the same on all ranks of its
 * communicator; null if that is not known.
 */
export function lastMeeting(): string | null {
  if (published === null) return null;
  const { scope, turn } = published.last;
  return scope === 0 || turn === 0 ? null : `${scope}/${turn}`;
}

/** Tell of every wait from now on: of MPI's functions, and as part of an operation on arrays of the other libraries'. */
export function publishWaits(
  presence: Presence,
  world: { handle: Handle; rank: number },
  constants: Pick<MpiConstants, "self" | "types" | "operations">,
  rankIn: (communicator: Handle) => number | null,
): void {
  published = presence;
  kinds = entryKinds(constants);
  addScope(constants.self, hash("self", world.rank), 0);
  addScope(world.handle, hash("world"), world.rank);
  for (const [functionHash, name] of namesOfFunctions()) namesByHash.set(functionHash, name);
  surroundWaiting((name, call) => {
    const functionHash = hash(name);
    namesByHash.set(functionHash, name);
    const tell = (scope: number, turn: number, firstPeer: number, secondPeer: number) => {
      if (awaited !== null) endAwaiting();
      return presence.begin(currentOperation ?? "", functionHash, scope, turn, firstPeer, secondPeer);
    };
    const end = () => presence.end();
    if (!Object.hasOwn(MPI_FUNCTIONS, name)) {
      const begin = () => tell(operation?.id ?? 0, operation?.turns ?? 0, NO_PEER, NO_PEER);
      return telling(call, begin, end, "...values", "");
    }
    const { communicator, peers } = positionsOf(name);
    const kinds: readonly string[] = MPI_FUNCTIONS[name as MpiFunctionName];
    // What waits in the name of a function of MPI may take more than that.
    const parameters = Array.from({ length: Math.max(kinds.length, call.length) }, (_, i) => `v${i}`).join();
    const handle = communicator === null ? "null" : `v${communicator}${kinds[communicator] === "buffer" ? "[0]" : ""}`;
    if (peers !== null) {
      const begin = (handle: unknown, first: number, second: number = NO_PEER) =>
        tell(scopeOf(handle)?.id ?? 0, 0, first, second);
      return telling(call, begin, end, parameters, [handle, ...peers.map((peer) => `v${peer}`)].join());
    }
    if (name === "MPI_Wait") {
      const begin = () => {
        if (waited === null) return void tell(0, 0, NO_PEER, NO_PEER);
        if (awaited !== null) endAwaiting();
        presence.begin("", hash(waited.name), waited.scope, waited.turn, NO_PEER, NO_PEER, waited.line);
      };
      return telling(call, begin, end, parameters, "");
    }
    if (name === "MPI_Comm_create_group") {
      // Of all ranks of a list, which others cannot know.
      return telling(call, () => tell(0, 1, NO_PEER, NO_PEER), end, parameters, "");
    }
    const told = `${handle}, ${countIn(name)}, ${kindIn(name)}`;
    const enter = (handle: unknown, callHash: number, kind: number, count: number) => {
      const scope = scopeOf(handle);
      if (scope === null) return void tell(0, 0, NO_PEER, NO_PEER);
      const isLooked = tell(scope.id, ++scope.turns, NO_PEER, NO_PEER);
      const [sort, mine] = [ofKind(functionHash, kind), ofKind(callHash, kind)];
      const mismatch = presence.meetings?.enter(scope.id, scope.turns, sort, mine, count, isLooked);
      if (!mismatch) return;
      end();
      refuse(presence, mismatch, scope, { name, callHash: mine, count });
    };
    if (ROOTED.has(name)) {
      const begin = (handle: unknown, count: number, type: unknown, op: unknown, root: number) =>
        enter(handle, rooted(functionHash, root), kindOfCall(type, op), count);
      return telling(call, begin, end, parameters, `${told}, v${communicator! - 1}`);
    }
    const begin = (handle: unknown, count: number, type: unknown, op: unknown) =>
      enter(handle, functionHash, kindOfCall(type, op), count);
    return notingScopes(name, telling(call, begin, end, parameters, told), rankIn, presence);
  });
  surroundStarting((name, call) => {
    const { communicator } = positionsOf(name);
    const parameters = MPI_FUNCTIONS[name as MpiFunctionName].map((_, i) => `v${i}`).join();
    const functionHash = hash(name);
    const isRooted = ROOTED.has(name);
    const begin = (handle: unknown, count: number, type: unknown, op: unknown, root = 0) => {
      const kind = kindOfCall(type, op);
      const callHash = ofKind(isRooted ? rooted(functionHash, root) : functionHash, kind);
      const requests = scopeOf(handle)?.requests ?? null;
      const line = lineOfWait(currentOperation ?? "", functionHash);
      lastStarted = { name, scope: requests?.id ?? 0, turn: requests ? ++requests.turns : 0, line: line ?? "" };
      const isLooked = line !== null;
      const mismatch = requests &&
        presence.meetings?.enter(requests.id, requests.turns, ofKind(functionHash, kind), callHash, count, isLooked);
      if (mismatch) refuse(presence, mismatch, requests!, { name, callHash, count });
    };
    const told = [`v${communicator}`, countIn(name), kindIn(name), ...isRooted ? [`v${communicator! - 1}`] : []];
    return telling(call, begin, () => {}, parameters, told.join());
  });
  watchAwaiting({
    begin: ({ name, scope, turn, line }) => presence.beginBeside(hash(name), scope, turn, line),
    goOn: () => presence.askAgain(),
    end: () => presence.endBeside(),
  });
}

/** The type and the operation that were asked for last, which the next call mostly has as well. */
let lastKind: { type: unknown; operation: unknown; kind: number } = { type: null, operation: null, kind: 0 };

function kindOfCall(type: unknown, operation: unknown): number {
  if (type === null) return 0;
  if (type !== lastKind.type || operation !== lastKind.operation) {
    lastKind = { type, operation, kind: kindOf(kinds, type, operation) };
  }
  return lastKind.kind;
}

/** A collective call that is about to be made. */
interface OwnCall {
  readonly name: string;
  readonly callHash: number;
  readonly count: number;
}

/** Refuse a call that would wait for ever, and is none then: a rank that goes on has not made it. */
function refuse(presence: Presence, mismatch: Mismatch, scope: Scope, call: OwnCall): never {
  const error = mismatchError(presence, mismatch, scope, call);
  presence.meetings!.takeBack(scope.turns--);
  throw error;
}

/** What a rank is told that would wait for ever. */
function mismatchError(
  presence: Presence,
  mismatch: Mismatch,
  scope: Scope,
  { name, callHash, count }: OwnCall,
): Error {
  const other = presence.rankAt(mismatch.place);
  const isThere = other.scope === scope.id && other.turn === scope.turns;
  const [own, others] = [{ callHash, count }, mismatch].map(({ callHash, count }) => {
    return { call: callOf(callHash, callNames(), presence.memory.size), count };
  });
  const known = others.call?.name ?? "another function";
  const theirs = (isThere ? placeOf(other) : known) + describeDetails(others, own);
  const [mine, line] = [currentOperation === null ? name : `${currentOperation} > ${name}`, lineOfScript()];
  return new CollectiveError(
    `The collective calls of the ranks do not match: this rank is about to call ${mine}${line && ` at ${line}`}` +
      `${describeDetails(own, others)}, and rank ${other.rank} has called ${theirs} in its place (call ` +
      `${scope.turns} of the communicator). All ranks of a communicator have to make the same collective calls in the ` +
      "same order, with the same root, dtype and operation, and as many entries: look for one that only some of them " +
      "make, or make with another root, another operation, or an array of another length or dtype.",
    { ranks: [other.rank] },
  );
}

/** The collective call in the background that this rank waits for, in its own name. */
let waited: AwaitedCall | null = null;

/** Wait, by MPI_Wait, for what a function has begun: for other ranks, if that is a collective call. */
export function waitingFor<T>(call: AwaitedCall, wait: () => T): T {
  waited = call.turn === 0 ? null : call;
  try {
    return wait();
  } finally {
    waited = null;
  }
}

/** The collective call that goes on in the background and was begun last. */
let lastStarted: AwaitedCall | null = null;

/** What is awaited by who awaits what a function has just begun. */
export function awaitedFrom(name: string): AwaitedCall {
  if (lastStarted?.name === name) return lastStarted;
  const line = published === null ? null : lineOfWait(currentOperation ?? "", hash(name));
  return { name, scope: 0, turn: 0, line: line ?? "" };
}

// deno-lint-ignore no-explicit-any -- native functions take what C takes
type Call = (...values: any[]) => unknown;

/**
 * A function that tells when it begins, with some of its arguments, and when it ends. Each is compiled by itself: in code
 * that all of them shared V8 would know neither the native function, which it can then call at once, nor the number of
 * arguments, and would collect and spread them. Both together take longer than a short message.
 */
function telling(call: Call, begin: Call, end: () => void, parameters: string, told: string): Call {
  const source = `return (${parameters}) => {
  begin(${told});
  const result = call(${parameters});
  end();
  return result;
};`;
  return new Function("call", "begin", "end", source)(call, begin, end);
}

/** A function of MPI after which there is another communicator, or one less. */
function notingScopes(
  name: string,
  call: Call,
  rankIn: (communicator: Handle) => number | null,
  presence: Pick<Presence, "firstRank">,
): Call {
  if (name === "MPI_Comm_free") {
    return (cell) => {
      const [handle] = cell as Int32Array | BigUint64Array;
      const result = call(cell);
      removeScope(handle);
      return result;
    };
  }
  if (!Object.hasOwn(MAKERS, name)) return call;
  const { color, out } = MAKERS[name];
  return (...values) => {
    const result = call(...values);
    const scope = scopeOf(values[0]);
    const [made] = values[out] as Int32Array | BigUint64Array;
    const rank = scope && rankIn(made);
    if (rank !== null) {
      // Ranks that share memory are those of a machine, all of which have come now.
      const isByMachine = name === "MPI_Comm_split_type";
      const member = color === null ? "" : isByMachine ? presence.firstRank : values[color] as number;
      addScope(made, hash(scope!.id, scope!.turns, member), rank);
    }
    return result;
  };
}

/** Tell that this rank begins an operation that all ranks of a communicator make in the same order. */
export function noteOperation(communicator: Handle): void {
  if (published === null) return;
  const scope = scopeOf(communicator);
  if (scope === null) return;
  scope.operations ??= addScope(null, hash(scope.id, "operations"), scope.rank);
  operation = scope.operations;
  operation.turns++;
}

/** Tell that this rank has put a message by NCCL on its GPU, to or from a rank of the job. */
export function noteMessage(rank: number): void {
  published?.countMessage(rank);
}

/**
 * How far this rank has come: of each scope, those first that are no more, which one it is, how many calls it has made there,
 * and its number in it.
 */
export function ownTurns(): [id: number, turns: number, rank: number][] {
  return Array.from([...ended.values(), ...byId.values()], ({ id, turns, rank }) => [id, turns, rank]);
}

const OF_GPUS: ReadonlySet<string> = new Set<string>([...GPU_WAITS, ...NCCL_WAITS]);

/** Whether another rank waits for this one, which makes no call any more; `null` if that is not known. */
export function waitsForThisRank(other: PresentRank): boolean | null {
  const { calls, scope, turn, peers, messagesAhead } = other;
  if (calls % 2 === 0) return false;
  if (messagesAhead > 0 && OF_GPUS.has(functionOf(other))) return true;
  if (scope === 0 || peers.some((peer) => peer < 0)) return null;
  const mine = byId.get(scope) ?? ended.get(scope);
  if (mine === undefined) return freed.has(scope) || hasForgotten ? null : false;
  if (turn > 0) return mine.turns < turn;
  // Of two, to whom it sends and from whom it receives, it is not known for which one it waits.
  if (peers.every((peer) => peer === mine.rank)) return true;
  return peers.includes(mine.rank) ? null : false;
}

/** The function that another rank is in, if this one has it too. */
export function functionOf({ functionHash }: PresentRank): string {
  return namesByHash.get(functionHash) ?? "a native function";
}

/** The names of functions that wait by what stands for them in the shared memory. */
export function namesOfFunctions(): ReadonlyMap<number, string> {
  const ofGpus = [...GPU_WAITS, ...NCCL_WAITS, ...CUBLASMP_WAITS, ...CUFFTMP_WAITS, ...NVSHMEM_WAITS];
  const names = [...Object.keys(MPI_FUNCTIONS), ...ofGpus];
  return new Map(names.map((name) => [hash(name), name]));
}

/** As {@linkcode namesOfFunctions}, with what they are called with. */
export function callNames(): CallNames {
  return { functions: namesByHash, kinds: kinds.names };
}

/** What another rank is in: a function, the operation that it belongs to, and the line of the script. */
export function placeOf(other: PresentRank): string {
  const name = functionOf(other);
  return (other.operation === "" ? name : `${other.operation} > ${name}`) + other.line;
}
