/**
 * What this rank waits for, told to the other ranks of the machine before each call that waits: in which communicator, in
 * the how manieth collective call on it, or for which rank. A rank that leaves then knows who waits for it in vain.
 *
 * @module
 */
import { operation as currentOperation, surroundWaiting } from "../waiting.ts";
import type { Handle } from "./abi.ts";
import { MPI_FUNCTIONS, type MpiFunctionName } from "./functions.ts";
import { NO_PEER, type Presence, type PresentRank } from "./presence.ts";

/** Ranks that make their collective calls in the same order, and how many this rank has made. */
interface Scope {
  /** The same on all of its ranks, and unlike those of other scopes. */
  id: number;
  /** The collective calls begun so far. */
  turns: number;
  /** This rank's number in it. */
  rank: number;
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
  MPI_Finalize: null,
  MPI_Wait: null,
  MPI_Win_free: null,
};

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
const namesByHash = new Map<number, string>();
let operation: Scope | undefined;

function hash(...values: (number | string)[]): number {
  let mixed = 0x9e3779b1;
  for (const unit of values.join("/")) mixed = Math.imul(mixed ^ unit.charCodeAt(0), 0x5f356495);
  return mixed ^ mixed >>> 15 || 1;
}

function addScope(handle: Handle | null, id: number, rank: number): Scope {
  const scope = { id, turns: 0, rank };
  byId.set(id, scope);
  if (handle !== null) byHandle.set(handle, scope);
  return scope;
}

const wait = { operation: "", functionHash: 0, scope: 0, turn: 0, firstPeer: NO_PEER, secondPeer: NO_PEER };

/**
 * Which of all meetings the last call of a collective function was: a text that is the same on all ranks of its
 * communicator; null if that is not known.
 */
export function lastMeeting(): string | null {
  return wait.scope === 0 || wait.turn === 0 ? null : `${wait.scope}/${wait.turn}`;
}

/** Say that a call begins, with what it waits for. */
function describe(functionHash: number, { communicator, peers }: Positions, values: readonly unknown[]): Scope | null {
  const argument = communicator === null ? null : values[communicator];
  const handle = ArrayBuffer.isView(argument) ? (argument as Int32Array)[0] : argument;
  const scope = byHandle.get(handle as Handle) ?? null;
  wait.operation = currentOperation ?? "";
  wait.functionHash = functionHash;
  wait.scope = scope?.id ?? 0;
  wait.turn = scope !== null && peers === null ? ++scope.turns : 0;
  wait.firstPeer = peers === null ? NO_PEER : values[peers[0]] as number;
  wait.secondPeer = peers === null || peers.length < 2 ? NO_PEER : values[peers[1]] as number;
  return scope;
}

/** Tell of every wait from now on: of MPI's functions, and as part of an operation on arrays of the other libraries'. */
export function publishWaits(
  presence: Presence,
  world: { handle: Handle; rank: number },
  rankIn: (communicator: Handle) => number | null,
): void {
  addScope(world.handle, hash("world"), world.rank);
  surroundWaiting((name, call) => {
    const functionHash = hash(name);
    namesByHash.set(functionHash, name);
    if (!Object.hasOwn(MPI_FUNCTIONS, name)) return aroundOperation(presence, functionHash, call);
    const positions = positionsOf(name);
    const maker = MAKERS[name];
    return (...values) => {
      const scope = describe(functionHash, positions, values);
      presence.begin(wait);
      const result = call(...values);
      presence.end();
      if (maker !== undefined && scope !== null) {
        const made = (values[maker.out] as Int32Array | BigUint64Array)[0];
        const rank = rankIn(made);
        const color = maker.color === null ? "" : values[maker.color] as number;
        if (rank !== null) addScope(made, hash(scope.id, scope.turns, color), rank);
      }
      return result;
    };
  });
}

function aroundOperation(presence: Presence, functionHash: number, call: (...values: unknown[]) => unknown) {
  return (...values: unknown[]) => {
    const [scope, turn] = [operation?.id ?? 0, operation?.turns ?? 0];
    const name = currentOperation ?? "";
    presence.begin({ operation: name, functionHash, scope, turn, firstPeer: NO_PEER, secondPeer: NO_PEER });
    const result = call(...values);
    presence.end();
    return result;
  };
}

/** Tell that this rank begins an operation that all ranks of a communicator make in the same order. */
export function noteOperation(communicator: Handle): void {
  const scope = byHandle.get(communicator);
  if (scope === undefined) return;
  const id = hash(scope.id, "operations");
  operation = byId.get(id) ?? addScope(null, id, scope.rank);
  operation.turns++;
}

/** Whether another rank waits for this one, which makes no call any more; `null` if that is not known. */
export function waitsForThisRank({ calls, scope, turn, peers }: PresentRank): boolean | null {
  if (calls % 2 === 0) return false;
  if (scope === 0 || peers.some((peer) => peer < 0)) return null;
  const mine = byId.get(scope);
  if (mine === undefined) return false;
  return turn > 0 ? mine.turns < turn : peers.includes(mine.rank);
}

/** The function that another rank is in, if this one has it too. */
export function functionOf({ functionHash }: PresentRank): string {
  return namesByHash.get(functionHash) ?? "a native function";
}

/** The names of MPI's functions by what stands for them in the shared memory. */
export function namesOfFunctions(): ReadonlyMap<number, string> {
  return new Map(Object.keys(MPI_FUNCTIONS).map((name) => [hash(name), name]));
}

/** What another rank is in: a function, and the operation that it belongs to. */
export function placeOf(other: PresentRank): string {
  const name = functionOf(other);
  return other.operation === "" ? name : `${other.operation} > ${name}`;
}
