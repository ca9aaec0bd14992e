/**
 * What distmath needs of MPI for jobs on GPUs that were started without it: as much of the standard interface as
 * agreements, gathered values and reductions take, carried by TCP. The other functions say that they need MPI.
 *
 * @module
 */
import { ConfigurationError } from "../errors.ts";
import { libcFunctions } from "../memory.ts";
import { LAST_WORDS } from "../process.ts";
import { taskCommand } from "../task_command.ts";
import { type Answer, exchange, type Statement } from "../tcp/exchange.ts";
import { join, type Star } from "../tcp/join.ts";
import { stopWatching, tellEndOfJob, watchRanks } from "../tcp/lookout.ts";
import { readPlace } from "../tcp/place.ts";
import type { ElementType, Handle, ReduceOperation } from "./abi.ts";
import { MPI_FUNCTION_NAMES, type MpiFunctionName, type MpiFunctions, noteFunction } from "./functions.ts";
import { standardAbi } from "./standard_abi.ts";

const { constants } = standardAbi;

/** A communicator: its number, which is the same on its ranks, and these, by their numbers in the world. */
interface Group {
  id: number;
  ranks: readonly number[];
}

/** What ranks of one machine know of their place on it, and a name for what they share. */
export interface MachinePlace {
  rank: number;
  size: number;
  /** This rank, of those of its machine. */
  localRank: number;
  /** The number of ranks of its machine. */
  localSize: number;
  /** What tells the job from others on the machine. */
  name: string;
}

let star: Star | undefined;
const groups = new Map<Handle, Group>();
/** How many handles this rank has made, and, on the hub, how many communicators of all ranks there have been. */
let [handles, ids] = [0, 0];

const world = () => groups.get(constants.world)!;

/** This rank's place on its machine, once it has joined the others; `null` if it is alone there. */
export function machinePlace(): MachinePlace | null {
  if (star === undefined) return null;
  const { rank, size, name } = star;
  const here = ranksOfMachine(star);
  return here.length === 1 ? null : { rank, size, localRank: here.indexOf(rank), localSize: here.length, name };
}

function ranksOfMachine({ rank, machines }: Star): number[] {
  return [...machines.keys()].filter((other) => machines[other] === machines[rank]);
}

const HOW_TO_START = `Start the script by mpirun (${taskCommand("run -n 4 script.ts")} finds it) where that is needed.`;

function refuse(what: string): never {
  throw new ConfigurationError(
    `${what} needs MPI, and this job was started without it, by RANK and WORLD_SIZE, as torchrun does. ${HOW_TO_START}`,
  );
}

type AnyFunction = (...values: never[]) => number;

let failure: Error | null = null;

/** What the function threw that returned an error code last. */
export function lastFailure(): Error | null {
  return failure;
}

/** As MPI's functions, which throw nothing: what is told around calls, when they end, is told then, too. */
function returningCode(call: AnyFunction): AnyFunction {
  return (...values) => {
    try {
      return call(...values);
    } catch (error) {
      failure = error as Error;
      return 1;
    }
  };
}

/** The functions of MPI's standard interface. */
export function functionsWithoutMpi(): MpiFunctions {
  const table = Object.fromEntries(
    MPI_FUNCTION_NAMES.map((name) => [name, () => refuse(name)]),
  ) as unknown as MpiFunctions;
  for (const [name, call] of Object.entries(FUNCTIONS) as [MpiFunctionName, AnyFunction][]) {
    Object.assign(table, { [name]: returningCode(call) });
    noteFunction(table, name);
  }
  return table;
}

// ---- starting and ending --------------------------------------------------------------------------------------------

function start(): number {
  const place = readPlace();
  star = join(place);
  const ranks = star.machines.map((_, rank) => rank);
  groups.set(constants.world, { id: 0, ranks });
  groups.set(constants.self, { id: -1, ranks: [star.rank] });
  watchRanks(star);
  return 0;
}

function finalize(): number {
  share("MPI_Finalize", world(), [], NOTHING, () => {
    stopWatching(star!);
    return NOTHING;
  });
  stopWatching(star!);
  return 0;
}

function abort(code: number): number {
  if (star !== undefined) tellEndOfJob(star, code);
  libcFunctions(LAST_WORDS)._exit(code);
  return 0;
}

// ---- communicators --------------------------------------------------------------------------------------------------

function groupOf(handle: Handle): Group {
  return groups.get(handle)!;
}

function addGroup(ranks: readonly number[], id: number, out: ArrayBufferView): number {
  const handle = 0x1000n + BigInt(handles++);
  groups.set(handle, { id, ranks });
  return write(out, handle);
}

function write(out: ArrayBufferView, value: number | bigint): number {
  if (out instanceof BigUint64Array) out[0] = BigInt(value);
  else (out as Int32Array)[0] = Number(value);
  return 0;
}

/** A number for a new communicator, which the hub gives. */
function newId(functionName: MpiFunctionName, group: Group): number {
  const bytes = share(functionName, group, [], NOTHING, () => new Uint8Array(Int32Array.of(++ids).buffer));
  return new Int32Array(bytes.slice().buffer)[0];
}

function duplicate(handle: Handle, out: ArrayBufferView): number {
  const group = groupOf(handle);
  return addGroup(group.ranks, newId("MPI_Comm_dup", group), out);
}

/** Ranks of one machine, by their keys. */
function splitByMachine(handle: Handle, key: number, out: ArrayBufferView): number {
  const group = groupOf(handle);
  const keys = new Int32Array(
    gather("MPI_Comm_split_type", group, [], new Uint8Array(Int32Array.of(key).buffer)).buffer,
  );
  const here = new Set(ranksOfMachine(star!));
  const ranks = group.ranks.filter((rank) => here.has(rank));
  ranks.sort((a, b) => keys[group.ranks.indexOf(a)] - keys[group.ranks.indexOf(b)] || a - b);
  return addGroup(ranks, newId("MPI_Comm_split_type", group), out);
}

// ---- exchanges ------------------------------------------------------------------------------------------------------

const NOTHING = new Uint8Array(0);

/** Whether a group is all ranks in order: the hub serves no other. */
function isWorld({ ranks }: Group): boolean {
  return ranks.length === star!.size && ranks.every((rank, i) => rank === i);
}

/** Give every rank what `answer` makes of the parts of all. */
function share(
  functionName: MpiFunctionName,
  group: Group,
  numbers: Statement,
  part: Uint8Array,
  answer: Answer,
): Uint8Array {
  if (group.ranks.length === 1) return [answer([part])].flat()[0];
  if (!isWorld(group)) {
    refuse(
      `${functionName} among ${group.ranks.length < star!.size ? "some of the ranks" : "all ranks in another order"}`,
    );
  }
  const statement = [MPI_FUNCTION_NAMES.indexOf(functionName), group.id, ...numbers];
  return exchange(star!, statement, part, answer, describe);
}

/** A call, as the message shows it that says how calls differ: its function, entries, operation, root and communicator. */
function describe([index, id, count, type, last]: Statement): string {
  const name = MPI_FUNCTION_NAMES[index];
  const element = keyOf(constants.types, BigInt(type));
  const operation = keyOf(constants.operations, BigInt(last));
  const entries = element === undefined ? "" : name === "MPI_Alltoallv" ? ` of ${element}` : ` of ${count} ${element}`;
  const how = name === "MPI_Bcast" ? ` from ${last}` : operation === undefined ? "" : ` by ${operation}`;
  return name + entries + how + (id === 0 ? "" : ` in communicator ${id}`);
}

const joinParts = (parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> => {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
};

function gather(
  functionName: MpiFunctionName,
  group: Group,
  numbers: Statement,
  part: Uint8Array,
): Uint8Array<ArrayBuffer> {
  return share(functionName, group, numbers, part, joinParts) as Uint8Array<ArrayBuffer>;
}

type Entries =
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | Float32Array
  | Float64Array;
type BigEntries = BigInt64Array | BigUint64Array;

const CLASSES = {
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  float32: Float32Array,
  float64: Float64Array,
} as const satisfies Record<ElementType, unknown>;

const keyOf = <K extends string>(table: Readonly<Record<K, Handle>>, handle: Handle): K | undefined =>
  (Object.keys(table) as K[]).find((key) => table[key] === handle);

/** The class of the arrays that hold elements of a type. */
function classOf(functionName: MpiFunctionName, type: Handle): (typeof CLASSES)[ElementType] {
  const name = keyOf(constants.types, type);
  return name === undefined ? refuse(`${functionName} of a type of its own`) : CLASSES[name];
}

/** The first bytes of an array. */
function bytesOf(array: ArrayBufferView, count: number): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, count);
}

const bytesPer = (functionName: MpiFunctionName, type: Handle) => classOf(functionName, type).BYTES_PER_ELEMENT;

function broadcast(data: ArrayBufferView, count: number, type: Handle, root: number, handle: Handle): number {
  const name = "MPI_Bcast";
  const group = groupOf(handle);
  const own = bytesOf(data, count * bytesPer(name, type));
  const isRoot = group.ranks[root] === star!.rank;
  const received = share(name, group, [count, Number(type), root], isRoot ? own : NOTHING, (parts) => parts[root]);
  if (!isRoot) own.set(received);
  return 0;
}

/** What is sent: `constants.inPlace` for what lies in the memory that receives. */
type Sent = ArrayBufferView | bigint;

function allGather(
  send: Sent,
  count: number,
  type: Handle,
  receive: ArrayBufferView,
  _: number,
  __: Handle,
  handle: Handle,
): number {
  const name = "MPI_Allgather";
  const group = groupOf(handle);
  const bytes = count * bytesPer(name, type);
  const into = bytesOf(receive, bytes * group.ranks.length);
  const own = group.ranks.indexOf(star!.rank) * bytes;
  const part = typeof send === "bigint" ? into.slice(own, own + bytes) : bytesOf(send, bytes);
  into.set(gather(name, group, [count, Number(type)], part));
  return 0;
}

/** Copy blocks that follow each other to their displacements, which are in entries of so many bytes. */
function place(
  blocks: Uint8Array,
  into: Uint8Array,
  counts: Int32Array,
  displacements: Int32Array,
  bytes: number,
): number {
  let at = 0;
  counts.forEach((count, rank) => {
    if (count > 0) into.set(blocks.subarray(at, at + count * bytes), displacements[rank] * bytes);
    at += count * bytes;
  });
  return 0;
}

function allGatherV(
  send: Sent,
  count: number,
  type: Handle,
  receive: ArrayBufferView,
  counts: Int32Array,
  displacements: Int32Array,
  _: Handle,
  handle: Handle,
): number {
  const name = "MPI_Allgatherv";
  const group = groupOf(handle);
  const bytes = bytesPer(name, type);
  const into = bytesOf(receive, receive.byteLength);
  const own = displacements[group.ranks.indexOf(star!.rank)] * bytes;
  const part = typeof send === "bigint" ? into.slice(own, own + count * bytes) : bytesOf(send, count * bytes);
  const total = counts.reduce((sum, one) => sum + one, 0);
  const all = share(name, group, [total, Number(type)], joinParts([countBytes(counts), part]), (parts) => {
    const expected = parts.map((part) => countsIn(part, 0, parts.length));
    checkCounts(name, expected, (from) => expected[from][from], "Pass the same counts on all ranks.");
    return joinParts(parts.map((part, from) => part.subarray(part.length - expected[from][from] * bytes)));
  });
  return place(all, into, counts, displacements, bytes);
}

const countBytes = (counts: Int32Array) => bytesOf(counts, counts.byteLength);

/** The list of counts that begins at a byte of a part. */
function countsIn(part: Uint8Array, start: number, ranks: number): Int32Array {
  return new Int32Array(part.slice(start, start + ranks * Int32Array.BYTES_PER_ELEMENT).buffer);
}

/** @throws {RangeError} if a rank expects another number of entries from one than that has for it. */
function checkCounts(
  name: MpiFunctionName,
  expected: readonly Int32Array[],
  sent: (from: number, to: number) => number,
  advice: string,
): void {
  expected.forEach((counts, to) =>
    counts.forEach((count, from) => {
      if (sent(from, to) === count) return;
      throw new RangeError(
        `${name}: rank ${from} has ${sent(from, to)} entries for rank ${to}, which expects ${count} from it. ${advice}`,
      );
    })
  );
}

/** Blocks for each rank, from each: the hub sorts them. */
function allToAllV(
  send: ArrayBufferView,
  sendCounts: Int32Array,
  sendDisplacements: Int32Array,
  type: Handle,
  receive: ArrayBufferView,
  receiveCounts: Int32Array,
  receiveDisplacements: Int32Array,
  _: Handle,
  handle: Handle,
): number {
  const name = "MPI_Alltoallv";
  const bytes = bytesPer(name, type);
  const from = bytesOf(send, send.byteLength);
  const into = bytesOf(receive, receive.byteLength);
  const blockOf = (whole: Uint8Array, count: number, displacement: number) =>
    whole.subarray(displacement * bytes, (displacement + count) * bytes);
  const blocks = Array.from(sendCounts, (count, rank) => blockOf(from, count, sendDisplacements[rank]));
  const part = joinParts([countBytes(sendCounts), countBytes(receiveCounts), ...blocks]);
  const received = share(name, groupOf(handle), [0, Number(type)], part, (parts) => sortBlocks(name, parts, bytes));
  return place(received, into, receiveCounts, receiveDisplacements, bytes);
}

/** Of each part, which begins with what it has for each rank and expects of each, the n-th block for rank n. */
function sortBlocks(name: MpiFunctionName, parts: readonly Uint8Array[], bytes: number): Uint8Array[] {
  const ranks = parts.length;
  const head = ranks * Int32Array.BYTES_PER_ELEMENT;
  const sent = parts.map((part) => countsIn(part, 0, ranks));
  const expected = parts.map((part) => countsIn(part, head, ranks));
  checkCounts(name, expected, (from, to) => sent[from][to], "Have its receiveCounts be what the others send to it.");
  const found: Uint8Array[][] = parts.map(() => []);
  parts.forEach((part, from) => {
    let at = 2 * head;
    sent[from].forEach((count, to) => {
      found[to].push(part.subarray(at, at + count * bytes));
      at += count * bytes;
    });
  });
  return found.map(joinParts);
}

function allReduce(
  send: Sent,
  receive: ArrayBufferView,
  count: number,
  type: Handle,
  operation: Handle,
  handle: Handle,
): number {
  const name = "MPI_Allreduce";
  const group = groupOf(handle);
  const Entries = classOf(name, type);
  const word = keyOf(constants.operations, operation) ?? refuse(`${name} by an operation of its own`);
  const into = bytesOf(receive, count * Entries.BYTES_PER_ELEMENT);
  const part = typeof send === "bigint" ? into : bytesOf(send, into.length);
  const combined = share(name, group, [count, Number(type), Number(operation)], part.slice(), (parts) => {
    const [first, ...others] = parts.map((bytes) => new Entries(bytes.slice().buffer as ArrayBuffer));
    for (const other of others) combine(word, first, other);
    return new Uint8Array(first.buffer);
  });
  into.set(combined);
  return 0;
}

/** Entries of 32 bits whose products doubles would round. */
const multiply = (a: number, b: number, isWhole: boolean) => isWhole ? Math.imul(a, b) : a * b;

const NUMBERS: Readonly<Record<ReduceOperation, (a: number, b: number, isWhole: boolean) => number>> = {
  sum: (a, b) => a + b,
  prod: multiply,
  min: (a, b) => b < a ? b : a,
  max: (a, b) => b > a ? b : a,
  land: (a, b) => Number(a !== 0 && b !== 0),
  lor: (a, b) => Number(a !== 0 || b !== 0),
  lxor: (a, b) => Number((a !== 0) !== (b !== 0)),
  band: (a, b) => a & b,
  bor: (a, b) => a | b,
  bxor: (a, b) => a ^ b,
};

const BIG_NUMBERS: Readonly<Record<ReduceOperation, (a: bigint, b: bigint) => bigint>> = {
  sum: (a, b) => a + b,
  prod: (a, b) => a * b,
  min: (a, b) => b < a ? b : a,
  max: (a, b) => b > a ? b : a,
  land: (a, b) => BigInt(a !== 0n && b !== 0n),
  lor: (a, b) => BigInt(a !== 0n || b !== 0n),
  lxor: (a, b) => BigInt((a !== 0n) !== (b !== 0n)),
  band: (a, b) => a & b,
  bor: (a, b) => a | b,
  bxor: (a, b) => a ^ b,
};

/** Combine the entries of one rank with those of the ranks before it. */
function combine(word: ReduceOperation, into: Entries | BigEntries, other: Entries | BigEntries): void {
  if (into instanceof BigInt64Array || into instanceof BigUint64Array) {
    for (let i = 0; i < into.length; i++) into[i] = BIG_NUMBERS[word](into[i], (other as BigEntries)[i]);
    return;
  }
  const isWhole = !(into instanceof Float32Array || into instanceof Float64Array);
  for (let i = 0; i < into.length; i++) into[i] = NUMBERS[word](into[i], (other as Entries)[i], isWhole);
}

// ---- the table ------------------------------------------------------------------------------------------------------

const flag = (value: boolean) => (out: ArrayBufferView) => write(out, Number(value));

/** What is there without MPI; what is missing in this table says that it needs MPI. */
const FUNCTIONS = {
  MPI_Init_thread: start,
  MPI_Initialized: (out: ArrayBufferView) => write(out, Number(star !== undefined)),
  MPI_Finalized: flag(false),
  MPI_Is_thread_main: flag(true),
  MPI_Finalize: finalize,
  MPI_Abort: (_: Handle, code: number) => abort(code),
  MPI_Comm_rank: (handle: Handle, out: ArrayBufferView) => write(out, groupOf(handle).ranks.indexOf(star!.rank)),
  MPI_Comm_size: (handle: Handle, out: ArrayBufferView) => write(out, groupOf(handle).ranks.length),
  MPI_Comm_set_errhandler: () => 0,
  MPI_Comm_dup: duplicate,
  MPI_Comm_split_type: (handle: Handle, _: number, key: number, __: Handle, out: ArrayBufferView) =>
    splitByMachine(handle, key, out),
  MPI_Comm_free: (out: ArrayBufferView) => Number(!groups.delete((out as BigUint64Array)[0])),
  // A group's handle is that of its communicator.
  MPI_Comm_group: (handle: Handle, out: ArrayBufferView) => write(out, handle),
  MPI_Group_free: () => 0,
  MPI_Group_translate_ranks: (from: Handle, count: number, ranks: Int32Array, _: Handle, out: Int32Array) => {
    for (let i = 0; i < count; i++) out[i] = groupOf(from).ranks[ranks[i]];
    return 0;
  },
  MPI_Barrier: (handle: Handle) => {
    share("MPI_Barrier", groupOf(handle), [], NOTHING, () => NOTHING);
    return 0;
  },
  MPI_Bcast: broadcast,
  MPI_Allgather: allGather,
  MPI_Allgather_in_place: allGather,
  MPI_Allgatherv: allGatherV,
  MPI_Allgatherv_in_place: allGatherV,
  MPI_Alltoallv: allToAllV,
  MPI_Allreduce: allReduce,
  MPI_Allreduce_in_place: allReduce,
  // No message can be on its way.
  MPI_Iprobe: (_: number, __: number, ___: Handle, out: ArrayBufferView) => write(out, 0),
} as const satisfies Partial<Record<MpiFunctionName, AnyFunction>>;
