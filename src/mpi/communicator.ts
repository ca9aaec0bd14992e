/**
 * MPI for scripts: ranks that exchange typed arrays and values.
 *
 * @module
 */
import { copyFromAddress } from "../../ffi/memory.ts";
import { checkMpi, type Handle, type Mpi, mpiError } from "../../ffi/mpi/mod.ts";
import { StateError } from "../errors.ts";
import { describe, isObject } from "../options.ts";
import {
  EMPTY_RECEIVE,
  EMPTY_SEND,
  isInt,
  isPartOf,
  LARGEST_INT,
  receiveBuffer,
  refuseDetached,
  refuseLong,
  refuseShort,
  sameClass,
  sendBuffer,
  shareMemory,
} from "./buffers.ts";
import {
  type AllToAllVOptions,
  checkOptions,
  type ElementOptions,
  type GatherVOptions,
  type GatherVRootOptions,
  type IntoOptions,
  NO_OPTIONS,
  type ObjectOptions,
  OptionKeys,
  type ReceiveOptions,
  type ReduceOptions,
  type ReduceRootOptions,
  type ReduceScatterOptions,
  refuseExtra,
  type RootOptions,
  type ScatterOptions,
  type ScatterVOptions,
  type SendOptions,
  type SendReceiveOptions,
  type Source,
} from "./communicator_options.ts";
import { type Counts, entryCounts, entryDisplacements, extent, sumOf } from "./counts.ts";
import {
  arrayClass,
  checkOperation,
  type Element,
  elementOf,
  lengthOf,
  narrow,
  newLike,
  type NumericArray,
  overlap,
  widen,
} from "./elements.ts";
import { forgetCollectiveFree, queueCollectiveFree } from "./collective_free.ts";
import { abortJob, startMpi } from "./init_finalize.ts";
import { decodeObject, encodeObject } from "./objects.ts";
import { readStatus, Request, type Status } from "./request.ts";
import { giveRoomBack, takeRoom } from "./room.ts";

export type { ReduceOperation } from "../../ffi/mpi/mod.ts";
export type { Counts } from "./counts.ts";
export type { ElementName, NumericArray } from "./elements.ts";
export { Request, type Status } from "./request.ts";
export type {
  AllToAllVOptions,
  ElementOptions,
  GatherVOptions,
  GatherVRootOptions,
  IntoOptions,
  ObjectOptions,
  ReceiveOptions,
  ReduceOptions,
  ReduceRootOptions,
  ReduceScatterOptions,
  RootOptions,
  ScatterOptions,
  ScatterVOptions,
  SendOptions,
  SendReceiveOptions,
  Source,
} from "./communicator_options.ts";

/**
 * A group of ranks that communicate. Its methods check what can be checked locally, make the one MPI call that they name
 * (those that end in Object up to two, their own and one for lengths), and throw `MpiError` if MPI refuses, so that other
 * ranks may run programs in other languages. Unless a method says otherwise it is collective: every rank of the
 * communicator calls it, with the same kind of element, operation and root.
 *
 * Counts and displacements are in entries of the typed array, also for complex numbers. Reductions of float16 and
 * bfloat16 are computed in float32 and rounded once; complex numbers can be summed; float8 cannot be reduced.
 *
 * @example
 * ```ts
 * import { Communicator } from "@distmath/distmath";
 * const world = Communicator.world();
 * const sum = world.allReduce(new Float64Array([world.rank]));
 * console.assert(sum[0] === world.size * (world.size - 1) / 2);
 * ```
 */
export class Communicator {
  /** The number of this process, from 0. */
  readonly rank: number;
  /** The number of ranks. */
  readonly size: number;
  #mpi: Mpi;
  #handle: Handle;
  #key: string | null;
  #isFreed = false;
  #isQueued = false;
  #made = 0;
  #status: Int32Array;
  static #world: Communicator | undefined;
  static #self: Communicator | undefined;

  /** Only what the constructor made is one: no Proxy, and nothing that merely has the prototype. */
  static [Symbol.hasInstance](value: unknown): boolean {
    return isObject(value) && #handle in value;
  }

  private constructor(mpi: Mpi, handle: Handle, key: string | null) {
    const out = new Int32Array(2);
    checkMpi(mpi.symbols.MPI_Comm_rank(handle, out), "MPI_Comm_rank");
    checkMpi(mpi.symbols.MPI_Comm_size(handle, out.subarray(1)), "MPI_Comm_size");
    this.rank = out[0];
    this.size = out[1];
    this.#mpi = mpi;
    this.#handle = handle;
    this.#key = key;
    this.#status = new Int32Array(mpi.status.words);
  }

  /**
   * All ranks of the job; starts MPI if it does not run yet. Not collective by itself, but starting MPI is.
   *
   * @throws {ConfigurationError} if there is no MPI, or not the launcher's.
   */
  static world(): Communicator {
    return this.#world ??= new Communicator(startMpi(), startMpi().constants.world, null);
  }

  /** This process alone; starts MPI if it does not run yet. */
  static self(): Communicator {
    return this.#self ??= new Communicator(startMpi(), startMpi().constants.self, null);
  }

  /** MPI's handle, for native calls. */
  get handle(): Handle {
    return this.#use("handle").#handle;
  }

  /** The C type of {@linkcode Communicator.handle}: a number for `i32`, a bigint for `u64`. */
  get handleType(): "i32" | "u64" {
    return this.#mpi.handle;
  }

  /** Whether `free()` was called. */
  get isFreed(): boolean {
    return this.#isFreed;
  }

  /** What tells it from the other communicators of the job; the same on all its ranks. */
  get name(): string {
    return this.#key ?? (this === Communicator.#self ? `self of ${Communicator.world().rank}` : "world");
  }

  /** Such as `Communicator(world, rank 0 of 4)`. */
  toString(): string {
    return `Communicator(${this.name}, rank ${this.rank} of ${this.size}${this.#isFreed ? ", freed" : ""})`;
  }

  /** The handle as Fortran, BLACS and ScaLAPACK know it. Not collective. Source: MPI_Comm_c2f, MPI 5's MPI_Comm_toint. */
  fortranHandle(): number {
    const { symbols, abi } = this.#use("fortranHandle").#mpi;
    if (abi === "mpich") return Number(this.#handle);
    return abi === "standard" ? symbols.MPI_Comm_toint(this.#handle) : symbols.MPI_Comm_c2f(this.#handle);
  }

  // ---- Checks ---------------------------------------------------------------------------------------------------

  #use(method: string): this {
    if (this.#isFreed) throw new StateError(`${method}: this communicator was freed.`);
    return this;
  }

  #fail(functionName: string, code: number): never {
    throw mpiError(functionName, code);
  }

  /** The element of an array that is sent or received; the options are checked on the way. */
  #element(
    method: string,
    what: string,
    array: NumericArray,
    options: ElementOptions,
    allowed: ReadonlySet<string>,
  ): Element {
    if (this.#isFreed) this.#use(method);
    checkOptions(method, options, allowed);
    const element = elementOf(method, what, array, options?.dtype);
    const length = lengthOf(array);
    if (length === 0) refuseDetached(method, what, array);
    else if (length > LARGEST_INT) refuseLong(method, what, length);
    return element;
  }

  /** Check the array that receives: class, length, no overlap with what is sent. */
  #checkInto(method: string, into: NumericArray, like: NumericArray, length: number): void {
    if (arrayClass(into) !== arrayClass(like)) sameClass(method, "into", into, like);
    const room = lengthOf(into);
    if (room < length || room === 0 && length === 0) {
      refuseDetached(method, "into", into);
      refuseShort(method, room, length);
    }
    if (shareMemory(into, like) && overlap(into, like)) {
      throw new RangeError(`${method}: into overlaps the array that is sent; give separate memory.`);
    }
  }

  /** A rank of this communicator, as C takes it, which knows no -0. */
  #rank(method: string, what: string, rank: number): number {
    if (typeof rank !== "number" || !Number.isInteger(rank)) {
      throw new TypeError(`${method}: ${what} must be a rank, an integer, not ${describe(rank)}.`);
    }
    if (rank < 0 || rank >= this.size) {
      throw new RangeError(
        `${method}: ${what} is ${rank}, but the ranks of this communicator are 0 to ${this.size - 1}.`,
      );
    }
    return rank | 0;
  }

  #root(method: string, root: number | undefined): number {
    return root === undefined ? 0 : this.#rank(method, "root", root);
  }

  #destination(method: string, destination: number | null): number {
    return destination === null ? this.#mpi.constants.nullProcess : this.#rank(method, "destination", destination);
  }

  #source(method: string, source: Source): number {
    if (source === "any") return this.#mpi.constants.anySource;
    return source === null ? this.#mpi.constants.nullProcess : this.#rank(method, "source", source);
  }

  #tag(method: string, tag: number | undefined): number {
    if (tag === undefined) return this.#mpi.constants.anyTag;
    if (!Number.isInteger(tag)) throw new TypeError(`${method}: tag must be an integer, not ${String(tag)}.`);
    if (tag < 0 || tag > LARGEST_INT) {
      throw new RangeError(`${method}: tag is ${tag}, allowed are 0 to at least 32767.`);
    }
    return tag | 0;
  }

  #counts(method: string, what: string, counts: Counts | undefined): Int32Array {
    return entryCounts(method, what, counts, this.size);
  }

  /** The equal parts that an array divides into. */
  #part(method: string, what: string, length: number): number {
    if (length % this.size === 0) return length / this.size;
    throw new RangeError(
      `${method}: ${what} has ${length} entries, which do not divide into ${this.size} equal parts; use ${method}V.`,
    );
  }

  // ---- Collective operations on typed arrays ---------------------------------------------------------------------

  /** Wait until every rank is here. Source: MPI_Barrier. */
  barrier(): void {
    const code = this.#use("barrier").#mpi.symbols.MPI_Barrier(this.#handle);
    if (code !== 0) this.#fail("MPI_Barrier", code);
  }

  /** Give every rank the root's entries, in place; returns the array. Source: MPI_Bcast. */
  broadcast<T extends NumericArray>(data: T, options: ScatterOptions = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("broadcast", "data", OptionKeys.scatter);
    const element = this.#element("broadcast", "data", data, options, OptionKeys.scatter);
    const length = lengthOf(data);
    const root = this.#root("broadcast", options.root);
    const { symbols, constants } = this.#mpi;
    const code = symbols.MPI_Bcast(
      receiveBuffer(data, length),
      length,
      constants.types[element.type],
      root,
      this.#handle,
    );
    if (code !== 0) this.#fail("MPI_Bcast", code);
    return data;
  }

  /**
   * Combine the entries of all ranks on every rank. `into` may be `send` itself.
   * Source: MPI_Allreduce.
   *
   * @throws {DTypeError} if the operation has no meaning for the elements.
   */
  allReduce<T extends NumericArray>(send: T, options: ReduceOptions<T> = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("allReduce", "send", OptionKeys.reduce);
    const element = this.#element("allReduce", "send", send, options, OptionKeys.reduce);
    const length = lengthOf(send);
    const { op = "sum" } = options;
    const into = options.into ?? newLike(send, length);
    if (into !== send) this.#checkInto("allReduce", into, send, length);
    const { symbols, constants } = this.#mpi;
    const operation = constants.operations[op];
    if (operation === undefined || element.reduces !== "natively" || op !== "sum") {
      checkOperation("allReduce", element, op, length);
      if (element.reduces === "in float32") {
        const wide = widen(send, element);
        narrow(this.allReduce(wide, { op, into: wide }), into, element);
        return into;
      }
    }
    const type = constants.types[element.type];
    const code = into === send
      ? symbols.MPI_Allreduce_in_place(
        constants.inPlace,
        receiveBuffer(into, length),
        length,
        type,
        operation,
        this.#handle,
      )
      : symbols.MPI_Allreduce(
        sendBuffer(send, length),
        receiveBuffer(into, length),
        length,
        type,
        operation,
        this.#handle,
      );
    if (code !== 0) this.#fail("MPI_Allreduce", code);
    return into;
  }

  /**
   * Combine the entries of all ranks on the root; `null` on the others. On the root, `into` may be `send` itself.
   * Source: MPI_Reduce.
   *
   * @throws {DTypeError} if the operation has no meaning for the elements.
   */
  reduce<T extends NumericArray>(send: T, options: ReduceRootOptions<T> = NO_OPTIONS): T | null {
    if (arguments.length > 2) refuseExtra("reduce", "send", OptionKeys.reduceRoot);
    const element = this.#element("reduce", "send", send, options, OptionKeys.reduceRoot);
    const length = lengthOf(send);
    const { op = "sum" } = options;
    const root = this.#root("reduce", options.root);
    checkOperation("reduce", element, op, length);
    const isRoot = this.rank === root;
    const into = isRoot ? options.into ?? newLike(send, length) : null;
    if (into !== null && into !== send) this.#checkInto("reduce", into, send, length);
    if (element.reduces === "in float32") {
      const wide = widen(send, element);
      const result = this.reduce(wide, { op, root, into: wide });
      if (into && result) narrow(result, into, element);
      return into;
    }
    const { symbols, constants } = this.#mpi;
    const [type, operation] = [constants.types[element.type], constants.operations[op]];
    const code = into === send
      ? symbols.MPI_Reduce_in_place(
        constants.inPlace,
        receiveBuffer(into, length),
        length,
        type,
        operation,
        root,
        this.#handle,
      )
      : symbols.MPI_Reduce(
        sendBuffer(send, length),
        into === null ? EMPTY_RECEIVE : receiveBuffer(into, length),
        length,
        type,
        operation,
        root,
        this.#handle,
      );
    if (code !== 0) this.#fail("MPI_Reduce", code);
    return into;
  }

  /**
   * Combine the entries of the ranks up to this one. `into` may be `send` itself.
   * Source: MPI_Scan.
   */
  scan<T extends NumericArray>(send: T, options: ReduceOptions<T> = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("scan", "send", OptionKeys.reduce);
    return this.#scan("scan", "MPI_Scan", send, options);
  }

  /**
   * Combine the entries of the ranks before this one; rank 0 gets zeros, or keeps what `into` holds.
   * `into` may be `send` itself. Source: MPI_Exscan.
   */
  exclusiveScan<T extends NumericArray>(send: T, options: ReduceOptions<T> = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("exclusiveScan", "send", OptionKeys.reduce);
    return this.#scan("exclusiveScan", "MPI_Exscan", send, options);
  }

  #scan<T extends NumericArray>(
    method: string,
    functionName: "MPI_Scan" | "MPI_Exscan",
    send: T,
    options: ReduceOptions<T>,
  ): T {
    const element = this.#element(method, "send", send, options, OptionKeys.reduce);
    const length = lengthOf(send);
    const { op = "sum" } = options;
    checkOperation(method, element, op, length);
    const into = options.into ?? newLike(send, length);
    if (into !== send) this.#checkInto(method, into, send, length);
    if (element.reduces === "in float32") {
      const wide = widen(send, element);
      this.#scan(method, functionName, wide, { op, into: wide });
      if (functionName === "MPI_Scan" || this.rank > 0) narrow(wide, into, element);
      return into;
    }
    const { symbols, constants } = this.#mpi;
    const [type, operation] = [constants.types[element.type], constants.operations[op]];
    const code = into === send
      ? symbols[`${functionName}_in_place`](
        constants.inPlace,
        receiveBuffer(into, length),
        length,
        type,
        operation,
        this.#handle,
      )
      : symbols[functionName](
        sendBuffer(send, length),
        receiveBuffer(into, length),
        length,
        type,
        operation,
        this.#handle,
      );
    if (code !== 0) this.#fail(functionName, code);
    return into;
  }

  /**
   * Combine the entries of all ranks and give each rank its part of the result: `counts[r]` entries to rank r.
   * Source: MPI_Reduce_scatter.
   */
  reduceScatter<T extends NumericArray>(send: T, options: ReduceScatterOptions<T> = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("reduceScatter", "send", OptionKeys.reduceScatter);
    const method = "reduceScatter";
    const element = this.#element(method, "send", send, options, OptionKeys.reduceScatter);
    const length = lengthOf(send);
    const { op = "sum" } = options;
    checkOperation(method, element, op, length);
    const given = options.counts;
    const counts = given === undefined
      ? new Int32Array(this.size).fill(this.#part(method, "send", length))
      : this.#counts(method, "counts", given);
    const total = sumOf(counts);
    if (total !== length) {
      throw new RangeError(`${method}: the counts add up to ${total}, but send has ${length} entries.`);
    }
    const into = options.into ?? newLike(send, counts[this.rank]);
    this.#checkInto(method, into, send, counts[this.rank]);
    if (element.reduces === "in float32") {
      narrow(this.reduceScatter(widen(send, element), { op, counts }), into, element);
      return into;
    }
    const { symbols, constants } = this.#mpi;
    const [type, operation] = [constants.types[element.type], constants.operations[op]];
    const code = symbols.MPI_Reduce_scatter(
      sendBuffer(send, length),
      receiveBuffer(into, counts[this.rank]),
      counts,
      type,
      operation,
      this.#handle,
    );
    if (code !== 0) this.#fail("MPI_Reduce_scatter", code);
    return into;
  }

  /**
   * Collect equal parts on the root, in the order of the ranks; `null` on the others. Source: MPI_Gather.
   */
  gather<T extends NumericArray>(send: T, options: RootOptions<T> = NO_OPTIONS): T | null {
    if (arguments.length > 2) refuseExtra("gather", "send", OptionKeys.root);
    const element = this.#element("gather", "send", send, options, OptionKeys.root);
    const length = lengthOf(send);
    const root = this.#root("gather", options.root);
    const total = this.#total("gather", length);
    const into = this.rank === root ? options.into ?? newLike(send, total) : null;
    if (into) this.#checkInto("gather", into, send, total);
    const { symbols, constants } = this.#mpi;
    const type = constants.types[element.type];
    const target = into === null ? EMPTY_RECEIVE : receiveBuffer(into, total);
    const code = symbols.MPI_Gather(sendBuffer(send, length), length, type, target, length, type, root, this.#handle);
    if (code !== 0) this.#fail("MPI_Gather", code);
    return into;
  }

  /**
   * Collect parts of different lengths on the root, which needs `counts`; `null` on the others. Source: MPI_Gatherv.
   */
  gatherV<T extends NumericArray>(send: T, options: GatherVRootOptions<T> = NO_OPTIONS): T | null {
    if (arguments.length > 2) refuseExtra("gatherV", "send", OptionKeys.gatherVRoot);
    const element = this.#element("gatherV", "send", send, options, OptionKeys.gatherVRoot);
    const length = lengthOf(send);
    const root = this.#root("gatherV", options.root);
    const isRoot = this.rank === root;
    const parts = isRoot ? this.#parts("gatherV", options.counts, options.displacements) : null;
    if (parts) this.#checkOwnPart("gatherV", parts.counts, length);
    const into = parts ? options.into ?? newLike(send, parts.extent) : null;
    if (parts && into) this.#checkInto("gatherV", into, send, parts.extent);
    const { symbols, constants } = this.#mpi;
    const type = constants.types[element.type];
    const target = parts && into ? receiveBuffer(into, parts.extent) : EMPTY_RECEIVE;
    const counts = parts?.counts ?? null;
    const displacements = parts?.displacements ?? null;
    const code = symbols.MPI_Gatherv(
      sendBuffer(send, length),
      length,
      type,
      target,
      counts,
      displacements,
      type,
      root,
      this.#handle,
    );
    if (code !== 0) this.#fail("MPI_Gatherv", code);
    return into;
  }

  /** Collect equal parts on every rank, in the order of the ranks. `send` may be this rank's part of `into`. Source: MPI_Allgather. */
  allGather<T extends NumericArray>(send: T, options: IntoOptions<T> = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("allGather", "send", OptionKeys.into);
    const element = this.#element("allGather", "send", send, options, OptionKeys.into);
    const length = lengthOf(send);
    const total = this.#total("allGather", length);
    const into = options.into ?? newLike(send, total);
    const isInPlace = isPartOf(into, send, this.rank * length);
    this.#checkInto("allGather", into, isInPlace ? newLike(send, 0) : send, total);
    const { symbols, constants } = this.#mpi;
    const type = constants.types[element.type];
    const target = receiveBuffer(into, total);
    const code = isInPlace
      ? symbols.MPI_Allgather_in_place(constants.inPlace, length, type, target, length, type, this.#handle)
      : symbols.MPI_Allgather(sendBuffer(send, length), length, type, target, length, type, this.#handle);
    if (code !== 0) this.#fail("MPI_Allgather", code);
    return into;
  }

  /**
   * Collect parts of different lengths on every rank. `send` may be this rank's part of `into`. Source: MPI_Allgatherv.
   */
  allGatherV<T extends NumericArray>(send: T, options: GatherVOptions<T>): T {
    if (arguments.length > 2) refuseExtra("allGatherV", "send", OptionKeys.gatherV);
    const { element, length, into, parts, isInPlace } = this.#prepareAllGatherV("allGatherV", send, options);
    const { symbols, constants } = this.#mpi;
    const type = constants.types[element.type];
    const { counts, displacements } = parts;
    const target = receiveBuffer(into, parts.extent);
    const code = isInPlace
      ? symbols.MPI_Allgatherv_in_place(
        constants.inPlace,
        length,
        type,
        target,
        counts,
        displacements,
        type,
        this.#handle,
      )
      : symbols.MPI_Allgatherv(
        sendBuffer(send, length),
        length,
        type,
        target,
        counts,
        displacements,
        type,
        this.#handle,
      );
    if (code !== 0) this.#fail("MPI_Allgatherv", code);
    return into;
  }

  #prepareAllGatherV<T extends NumericArray>(
    method: string,
    send: T,
    options: GatherVOptions<T>,
  ): { element: Element; length: number; into: T; parts: Parts; isInPlace: boolean } {
    const element = this.#element(method, "send", send, options, OptionKeys.gatherV);
    const length = lengthOf(send);
    const parts = this.#parts(method, options?.counts, options?.displacements);
    this.#checkOwnPart(method, parts.counts, length);
    const into = options.into ?? newLike(send, parts.extent);
    const isInPlace = isPartOf(into, send, parts.displacements[this.rank]);
    this.#checkInto(method, into, isInPlace ? newLike(send, 0) : send, parts.extent);
    return { element, length, into, parts, isInPlace };
  }

  /** Give each rank one of the root's equal parts, into `into`. Ranks other than the root pass `null`. Source: MPI_Scatter. */
  scatter<T extends NumericArray>(send: T | null, into: T, options: ScatterOptions = NO_OPTIONS): T {
    if (arguments.length > 3) refuseExtra("scatter", "send, into", OptionKeys.scatter);
    const element = this.#element("scatter", "into", into, options, OptionKeys.scatter);
    const length = lengthOf(into);
    const root = this.#root("scatter", options.root);
    const source = this.#rootArray("scatter", send, into, root);
    const total = source ? this.#total("scatter", length) : 0;
    if (source && lengthOf(source) !== total) {
      throw new RangeError(
        `scatter: send has ${lengthOf(source)} entries, but ${this.size} ranks with into.length = ${length} ` +
          `take ${total}; for parts of different lengths use scatterV.`,
      );
    }
    const { symbols, constants } = this.#mpi;
    const type = constants.types[element.type];
    const from = source ? sendBuffer(source, total) : EMPTY_SEND;
    const code = symbols.MPI_Scatter(
      from,
      length,
      type,
      receiveBuffer(into, length),
      length,
      type,
      root,
      this.#handle,
    );
    if (code !== 0) this.#fail("MPI_Scatter", code);
    return into;
  }

  /**
   * Give each rank its part of the root's array, into `into`. Ranks other than the root pass `null`; the root needs
   * `counts`. Source: MPI_Scatterv.
   */
  scatterV<T extends NumericArray>(send: T | null, into: T, options: ScatterVOptions = NO_OPTIONS): T {
    if (arguments.length > 3) refuseExtra("scatterV", "send, into", OptionKeys.scatterV);
    const element = this.#element("scatterV", "into", into, options, OptionKeys.scatterV);
    const length = lengthOf(into);
    const root = this.#root("scatterV", options.root);
    const source = this.#rootArray("scatterV", send, into, root);
    const parts = source ? this.#parts("scatterV", options.counts, options.displacements) : null;
    if (source && parts) {
      this.#checkOwnPart("scatterV", parts.counts, length, "into");
      if (lengthOf(source) < parts.extent) refuseShort("scatterV", lengthOf(source), parts.extent, "send");
    }
    const { symbols, constants } = this.#mpi;
    const type = constants.types[element.type];
    const from = source && parts ? sendBuffer(source, parts.extent) : EMPTY_SEND;
    const counts = parts?.counts ?? null;
    const displacements = parts?.displacements ?? null;
    const code = symbols.MPI_Scatterv(
      from,
      counts,
      displacements,
      type,
      receiveBuffer(into, length),
      length,
      type,
      root,
      this.#handle,
    );
    if (code !== 0) this.#fail("MPI_Scatterv", code);
    return into;
  }

  /** Send the r-th of equal parts to rank r, and receive one from each. `into` may be `send` itself. Source: MPI_Alltoall. */
  allToAll<T extends NumericArray>(send: T, options: IntoOptions<T> = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("allToAll", "send", OptionKeys.into);
    const element = this.#element("allToAll", "send", send, options, OptionKeys.into);
    const length = lengthOf(send);
    const part = this.#part("allToAll", "send", length);
    const into = options.into ?? newLike(send, length);
    if (into !== send) this.#checkInto("allToAll", into, send, length);
    const { symbols, constants } = this.#mpi;
    const type = constants.types[element.type];
    const code = into === send
      ? symbols.MPI_Alltoall_in_place(
        constants.inPlace,
        part,
        type,
        receiveBuffer(into, length),
        part,
        type,
        this.#handle,
      )
      : symbols.MPI_Alltoall(
        sendBuffer(send, length),
        part,
        type,
        receiveBuffer(into, length),
        part,
        type,
        this.#handle,
      );
    if (code !== 0) this.#fail("MPI_Alltoall", code);
    return into;
  }

  /** Send to each rank a part, and receive one from each, of any lengths. Source: MPI_Alltoallv. */
  allToAllV<T extends NumericArray>(send: T, options: AllToAllVOptions<T>): T {
    if (arguments.length > 2) refuseExtra("allToAllV", "send", OptionKeys.allToAllV);
    const method = "allToAllV";
    const element = this.#element(method, "send", send, options, OptionKeys.allToAllV);
    const length = lengthOf(send);
    const sent = this.#parts(
      method,
      options?.sendCounts,
      options?.sendDisplacements,
      "sendCounts",
      "sendDisplacements",
    );
    const received = this.#parts(
      method,
      options?.receiveCounts,
      options?.receiveDisplacements,
      "receiveCounts",
      "receiveDisplacements",
    );
    if (length < sent.extent) refuseShort(method, length, sent.extent, "send");
    const into = options.into ?? newLike(send, received.extent);
    this.#checkInto(method, into, send, received.extent);
    const { symbols, constants } = this.#mpi;
    const type = constants.types[element.type];
    const code = symbols.MPI_Alltoallv(
      sendBuffer(send, sent.extent),
      sent.counts,
      sent.displacements,
      type,
      receiveBuffer(into, received.extent),
      received.counts,
      received.displacements,
      type,
      this.#handle,
    );
    if (code !== 0) this.#fail("MPI_Alltoallv", code);
    return into;
  }

  #total(method: string, part: number): number {
    const total = part * this.size;
    if (total > LARGEST_INT) refuseLong(method, "the result", total);
    return total;
  }

  #parts(
    method: string,
    counts: Counts | undefined,
    displacements: Counts | undefined,
    countsName = "counts",
    displacementsName = "displacements",
  ): Parts {
    const lengths = this.#counts(method, countsName, counts);
    const starts = entryDisplacements(method, displacementsName, displacements, lengths);
    return { counts: lengths, displacements: starts, extent: extent(method, lengths, starts) };
  }

  #checkOwnPart(method: string, counts: Int32Array, length: number, what = "send"): void {
    if (counts[this.rank] === length) return;
    throw new RangeError(
      `${method}: ${what} has ${length} entries, but the count of this rank is ${counts[this.rank]}.`,
    );
  }

  /** The array of the root, checked; `null` on the other ranks. */
  #rootArray<T extends NumericArray>(method: string, send: T | null, into: T, root: number): T | null {
    if (this.rank !== root) return null;
    elementOf(method, "send on the root", send!);
    sameClass(method, "send", send!, into);
    if (overlap(send!, into)) throw new RangeError(`${method}: into overlaps send; give separate memory.`);
    return send;
  }

  // ---- Messages ----------------------------------------------------------------------------------------------------

  /**
   * Send entries to one rank, which receives them; may wait for that. `null` as destination sends nothing. Not collective.
   * Source: MPI_Send.
   */
  send(data: NumericArray, destination: number | null, options: SendOptions = NO_OPTIONS): void {
    if (arguments.length > 3) refuseExtra("send", "data, destination", OptionKeys.send);
    const element = this.#element("send", "data", data, options, OptionKeys.send);
    const length = lengthOf(data);
    const to = this.#destination("send", destination);
    const tag = this.#tag("send", options.tag ?? 0);
    const { symbols, constants } = this.#mpi;
    const code = symbols.MPI_Send(
      sendBuffer(data, length),
      length,
      constants.types[element.type],
      to,
      tag,
      this.#handle,
    );
    if (code !== 0) this.#fail("MPI_Send", code);
  }

  /**
   * Wait for a message and put it into `into`, which may be longer. Not collective. Source: MPI_Recv.
   *
   * Where the length is not known, `probe` first: Open MPI writes beyond `into` when a message of more than 4 KiB is too
   * long for it, which ends the process.
   *
   * @throws {MpiError} `MPI_ERR_TRUNCATE` if the message is longer than `into`.
   */
  receive(into: NumericArray, source: Source = "any", options: ReceiveOptions = NO_OPTIONS): Status {
    if (arguments.length > 3) refuseExtra("receive", "into, source", OptionKeys.receive);
    const element = this.#element("receive", "into", into, options, OptionKeys.receive);
    const length = lengthOf(into);
    const from = this.#source("receive", source);
    const tag = this.#tag("receive", options.tag);
    const { symbols, constants } = this.#mpi;
    const type = constants.types[element.type];
    const code = symbols.MPI_Recv(receiveBuffer(into, length), length, type, from, tag, this.#handle, this.#status);
    if (code !== 0) this.#fail("MPI_Recv", code);
    return readStatus(this.#mpi, this.#status, into.BYTES_PER_ELEMENT);
  }

  /** Send to one rank and receive from one, without the danger that both wait. Not collective. Source: MPI_Sendrecv. */
  sendReceive(
    data: NumericArray,
    destination: number | null,
    into: NumericArray,
    options: SendReceiveOptions = NO_OPTIONS,
  ): Status {
    if (arguments.length > 4) refuseExtra("sendReceive", "data, destination, into", OptionKeys.sendReceive);
    const method = "sendReceive";
    const sent = this.#element(method, "data", data, options, OptionKeys.sendReceive);
    const received = this.#element(method, "into", into, options, OptionKeys.sendReceive);
    const [length, room] = [lengthOf(data), lengthOf(into)];
    if (overlap(data, into)) throw new RangeError(`${method}: into overlaps data; give separate memory.`);
    const to = this.#destination(method, destination);
    const from = this.#source(method, options.source === undefined ? destination : options.source);
    const tag = this.#tag(method, options.tag ?? 0);
    const receiveTag = this.#tag(method, options.receiveTag);
    const { symbols, constants: { types } } = this.#mpi;
    const code = symbols.MPI_Sendrecv(
      sendBuffer(data, length),
      length,
      types[sent.type],
      to,
      tag,
      receiveBuffer(into, room),
      room,
      types[received.type],
      from,
      receiveTag,
      this.#handle,
      this.#status,
    );
    if (code !== 0) this.#fail("MPI_Sendrecv", code);
    return readStatus(this.#mpi, this.#status, into.BYTES_PER_ELEMENT);
  }

  /** Wait for a message without receiving it; its `count` is in bytes. Not collective. Source: MPI_Probe. */
  probe(source: Source = "any", options: ReceiveOptions = NO_OPTIONS): Status {
    if (arguments.length > 2) refuseExtra("probe", "source", OptionKeys.receive);
    checkOptions("probe", options, OptionKeys.receive);
    const from = this.#use("probe").#source("probe", source);
    const code = this.#mpi.symbols.MPI_Probe(from, this.#tag("probe", options.tag), this.#handle, this.#status);
    if (code !== 0) this.#fail("MPI_Probe", code);
    return readStatus(this.#mpi, this.#status, 1);
  }

  /** Look for a message without waiting; `null` if there is none yet. Not collective. Source: MPI_Iprobe. */
  probeNow(source: Source = "any", options: ReceiveOptions = NO_OPTIONS): Status | null {
    if (arguments.length > 2) refuseExtra("probeNow", "source", OptionKeys.receive);
    checkOptions("probeNow", options, OptionKeys.receive);
    const from = this.#use("probeNow").#source("probeNow", source);
    const flag = new Int32Array(1);
    const code = this.#mpi.symbols.MPI_Iprobe(
      from,
      this.#tag("probeNow", options.tag),
      this.#handle,
      flag,
      this.#status,
    );
    if (code !== 0) this.#fail("MPI_Iprobe", code);
    return flag[0] === 0 ? null : readStatus(this.#mpi, this.#status, 1);
  }

  // ---- Requests ----------------------------------------------------------------------------------------------------

  /** Begin to send; do not change `data` before the request is complete. Not collective. Source: MPI_Isend. */
  isend(data: NumericArray, destination: number | null, options: SendOptions = NO_OPTIONS): Request<void> {
    if (arguments.length > 3) refuseExtra("isend", "data, destination", OptionKeys.send);
    const element = this.#element("isend", "data", data, options, OptionKeys.send);
    const length = lengthOf(data);
    const to = this.#destination("isend", destination);
    const tag = this.#tag("isend", options.tag ?? 0);
    const type = this.#mpi.constants.types[element.type];
    const { symbols } = this.#mpi;
    return new Request(
      this.#mpi,
      "MPI_Isend",
      [data],
      (request) => symbols.MPI_Isend(sendBuffer(data, length), length, type, to, tag, this.#handle, request),
      () => {},
    );
  }

  /** Begin to receive; `into` holds the message when the request is complete. Not collective. Source: MPI_Irecv. */
  ireceive(into: NumericArray, source: Source = "any", options: ReceiveOptions = NO_OPTIONS): Request<Status> {
    if (arguments.length > 3) refuseExtra("ireceive", "into, source", OptionKeys.receive);
    const element = this.#element("ireceive", "into", into, options, OptionKeys.receive);
    const length = lengthOf(into);
    const from = this.#source("ireceive", source);
    const tag = this.#tag("ireceive", options.tag);
    const mpi = this.#mpi;
    const type = mpi.constants.types[element.type];
    const bytes = into.BYTES_PER_ELEMENT;
    return new Request(
      mpi,
      "MPI_Irecv",
      [into],
      (request) => mpi.symbols.MPI_Irecv(receiveBuffer(into, length), length, type, from, tag, this.#handle, request),
      // MPICH 4.0 leaves the status as it was when there is no sender.
      (status) =>
        source === null ? { source: null, tag: mpi.constants.anyTag, count: 0 } : readStatus(mpi, status, bytes),
    );
  }

  /** Begin an `allGatherV`; the request's value is the gathered array. Source: MPI_Iallgatherv. */
  iallGatherV<T extends NumericArray>(send: T, options: GatherVOptions<T>): Request<T> {
    if (arguments.length > 2) refuseExtra("iallGatherV", "send", OptionKeys.gatherV);
    const { element, length, into, parts, isInPlace } = this.#prepareAllGatherV("iallGatherV", send, options);
    if (isInPlace) throw new RangeError("iallGatherV: into overlaps the array that is sent; give separate memory.");
    const type = this.#mpi.constants.types[element.type];
    const { counts, displacements } = parts;
    const { symbols } = this.#mpi;
    return new Request(
      this.#mpi,
      "MPI_Iallgatherv",
      [send, into, counts, displacements],
      (request) =>
        symbols.MPI_Iallgatherv(
          sendBuffer(send, length),
          length,
          type,
          receiveBuffer(into, parts.extent),
          counts,
          displacements,
          type,
          this.#handle,
          request,
        ),
      () => into,
    );
  }

  /** Begin a barrier; the request is complete when every rank has begun it. Source: MPI_Ibarrier. */
  ibarrier(): Request<void> {
    const { symbols } = this.#use("ibarrier").#mpi;
    return new Request(
      this.#mpi,
      "MPI_Ibarrier",
      [],
      (request) => symbols.MPI_Ibarrier(this.#handle, request),
      () => {},
    );
  }

  // ---- Values ------------------------------------------------------------------------------------------------------
  // JSON values up to 256 MiB, and what else the structured clone algorithm knows: undefined, NaN, bigint, Map, …. A
  // message is the bytes of one value (objects.ts) and nothing else; collectives exchange the numbers of bytes first.

  /** Give every rank the root's value; what other ranks pass is ignored. */
  broadcastObject<T>(value: T, options: ObjectOptions = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("broadcastObject", "value", OptionKeys.object);
    checkOptions("broadcastObject", options, OptionKeys.object);
    const root = this.#use("broadcastObject").#root("broadcastObject", options.root);
    const isRoot = this.rank === root;
    const bytes = isRoot ? encodeObject("broadcastObject", value) : null;
    const [length] = this.broadcast(new Float64Array([bytes?.length ?? 0]), { root });
    if (length > LARGEST_INT) refuseLong("broadcastObject", "the value in bytes", length);
    const received = this.broadcast(bytes ?? new Uint8Array(length), { root });
    return isRoot ? value : decodeObject<T>(received);
  }

  /** Collect every rank's value on the root; `null` on the others. */
  gatherObject<T>(value: T, options: ObjectOptions = NO_OPTIONS): T[] | null {
    if (arguments.length > 2) refuseExtra("gatherObject", "value", OptionKeys.object);
    checkOptions("gatherObject", options, OptionKeys.object);
    const root = this.#use("gatherObject").#root("gatherObject", options.root);
    const { bytes, counts } = this.#objectLengths("gatherObject", value);
    return this.#split(counts, this.gatherV(bytes, { root, counts }));
  }

  /**
   * Give every rank everybody's value, in the order of the ranks. As with all methods that receive into new memory, a rank
   * that has none for the values throws alone, while the others are in MPI: do not catch that, so that it ends the job.
   */
  allGatherObject<T>(value: T): T[] {
    if (arguments.length > 1) refuseExtra("allGatherObject", "value");
    const { bytes, counts } = this.#objectLengths("allGatherObject", value);
    return this.#split<T>(counts, this.allGatherV(bytes, { counts }))!;
  }

  /** Give each rank one value of the root's list, which has as many as there are ranks; others pass `null`. */
  scatterObject<T>(values: readonly T[] | null, options: ObjectOptions = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("scatterObject", "values", OptionKeys.object);
    const method = "scatterObject";
    checkOptions(method, options, OptionKeys.object);
    const root = this.#use(method).#root(method, options.root);
    const encoded = this.rank === root ? this.#encodeList(method, values) : null;
    const [length] = this.scatter(encoded ? Float64Array.from(encoded.counts) : null, new Float64Array(1), { root });
    const parts = encoded ? { root, counts: encoded.counts } : { root };
    return decodeObject<T>(this.scatterV(encoded?.bytes ?? null, new Uint8Array(length), parts));
  }

  /** Send the r-th value of the list to rank r, and receive one from each rank. */
  allToAllObject<T>(values: readonly T[]): T[] {
    if (arguments.length > 1) refuseExtra("allToAllObject", "values");
    const { bytes, counts } = this.#use("allToAllObject").#encodeList("allToAllObject", values);
    const receiveCounts = this.allToAll(counts);
    return this.#split<T>(receiveCounts, this.allToAllV(bytes, { sendCounts: counts, receiveCounts }))!;
  }

  /** Combine the values of all ranks on the root, from rank 0 upwards; `null` on the others. */
  reduceObject<T>(value: T, combine: (a: T, b: T) => T, options: ObjectOptions = NO_OPTIONS): T | null {
    if (arguments.length > 3) refuseExtra("reduceObject", "value, combine", OptionKeys.object);
    checkCombine("reduceObject", combine);
    const values = this.gatherObject(value, options);
    return values && fold(values, combine);
  }

  /** Combine the values of all ranks, from rank 0 upwards, on every rank. */
  allReduceObject<T>(value: T, combine: (a: T, b: T) => T): T {
    if (arguments.length > 2) refuseExtra("allReduceObject", "value, combine");
    checkCombine("allReduceObject", combine);
    return fold(this.allGatherObject(value), combine);
  }

  /** Combine the values of the ranks up to this one, from rank 0 upwards. */
  scanObject<T>(value: T, combine: (a: T, b: T) => T): T {
    if (arguments.length > 2) refuseExtra("scanObject", "value, combine");
    checkCombine("scanObject", combine);
    return fold(this.allGatherObject(value).slice(0, this.rank + 1), combine);
  }

  /** Combine the values of the ranks before this one, from rank 0 upwards; `null` on rank 0. */
  exclusiveScanObject<T>(value: T, combine: (a: T, b: T) => T): T | null {
    if (arguments.length > 2) refuseExtra("exclusiveScanObject", "value, combine");
    checkCombine("exclusiveScanObject", combine);
    const before = this.allGatherObject(value).slice(0, this.rank);
    return before.length === 0 ? null : fold(before, combine);
  }

  /**
   * Send a value to one rank, which receives it by `receiveObject`; may wait for that. It travels as one message, the bytes
   * of its structured clone. Not collective. Source: MPI_Send.
   */
  sendObject(value: unknown, destination: number | null, options: SendOptions = NO_OPTIONS): void {
    if (arguments.length > 3) refuseExtra("sendObject", "value, destination", OptionKeys.send);
    this.send(encodeObject("sendObject", value), destination, options);
  }

  /**
   * Wait for a value; from `null` comes `null` at once. What a receive that began earlier takes is not for this one. Not
   * collective. Source: MPI_Probe, MPI_Recv.
   */
  receiveObject<T>(source: Source = "any", options: ReceiveOptions = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("receiveObject", "source", OptionKeys.receive);
    const status = this.probe(source, options);
    if (status.source === null) return null as T;
    const bytes = new Uint8Array(status.count);
    this.receive(bytes, status.source, { tag: status.tag });
    return decodeObject<T>(bytes);
  }

  /** Send a value to one rank and receive one, without the danger that both wait. Not collective. */
  sendReceiveObject<T>(value: unknown, destination: number, options: SendReceiveOptions = NO_OPTIONS): T {
    if (arguments.length > 3) refuseExtra("sendReceiveObject", "value, destination", OptionKeys.sendReceive);
    checkOptions("sendReceiveObject", options, OptionKeys.sendReceive);
    const { tag = 0, source = destination, receiveTag } = options;
    const sent = this.isendObject(value, destination, { tag });
    const received = this.receiveObject<T>(source, receiveTag === undefined ? {} : { tag: receiveTag });
    sent.wait();
    return received;
  }

  /** Begin to send a value. Not collective. Source: MPI_Isend. */
  isendObject(value: unknown, destination: number | null, options: SendOptions = NO_OPTIONS): Request<void> {
    if (arguments.length > 3) refuseExtra("isendObject", "value, destination", OptionKeys.send);
    return this.isend(encodeObject("isendObject", value), destination, options);
  }

  /**
   * Begin to receive a value of any size; from `null`, and if it is cancelled, comes `null`. Values arrive in the order in
   * which they were sent, for the receives in the order in which those began. Not collective. Source: MPI_Irecv.
   */
  ireceiveObject<T>(source: Source = "any", options: ReceiveOptions = NO_OPTIONS): Request<T> {
    if (arguments.length > 2) refuseExtra("ireceiveObject", "source", OptionKeys.receive);
    checkOptions("ireceiveObject", options, OptionKeys.receive);
    const from = this.#use("ireceiveObject").#source("ireceiveObject", source);
    const tag = this.#tag("ireceiveObject", options.tag);
    const mpi = this.#mpi;
    const type = mpi.constants.types.uint8;
    // The length is not known before the message is there, and a receive that is posted has to have room for it.
    const address = takeRoom();
    let written = LARGEST_INT;
    return new Request(
      mpi,
      "MPI_Irecv",
      [],
      (request) => mpi.symbols.MPI_Irecv_at(address, LARGEST_INT, type, from, tag, this.#handle, request),
      (status, isCancelled) => {
        if (isCancelled || source === null) return null as T;
        const { count } = readStatus(mpi, status, 1);
        written = count;
        const bytes = new Uint8Array(count);
        copyFromAddress(bytes, address);
        return decodeObject<T>(bytes);
      },
      () => giveRoomBack(address, written),
    );
  }

  /** The bytes of this rank's value, and everybody's number of bytes. */
  #objectLengths(method: string, value: unknown): { bytes: Uint8Array<ArrayBuffer>; counts: Int32Array } {
    const bytes = encodeObject(method, value);
    const lengths = this.allGather(new Float64Array([bytes.length]));
    const total = lengths.reduce((sum, length) => sum + length, 0);
    if (total > LARGEST_INT) refuseLong(method, "the values in bytes", total);
    return { bytes, counts: Int32Array.from(lengths) };
  }

  #encodeList(
    method: string,
    values: readonly unknown[] | null,
  ): { bytes: Uint8Array<ArrayBuffer>; counts: Int32Array } {
    if (!Array.isArray(values)) throw new TypeError(`${method}: values must be an array, not ${describe(values)}.`);
    if (values.length !== this.size) {
      throw new RangeError(`${method}: ${values.length} values were given for ${this.size} ranks.`);
    }
    // Each value is read once: a getter may change the list.
    const encoded = Array.from({ length: this.size }, (_, rank) => encodeObject(method, values[rank]));
    const counts = Int32Array.from(encoded, ({ length }) => length);
    const bytes = new Uint8Array(sumOf(counts));
    let start = 0;
    for (const part of encoded) {
      bytes.set(part, start);
      start += part.length;
    }
    return { bytes, counts };
  }

  #split<T>(counts: Int32Array, bytes: Uint8Array | null): T[] | null {
    if (bytes === null) return null;
    let end = 0;
    return Array.from(counts, (count) => decodeObject<T>(bytes.subarray(end, end += count)));
  }

  // ---- Making and freeing communicators -------------------------------------------------------------------------------
  // Each makes one call of MPI that waits for others, so that those may be programs in other languages.

  /**
   * Divide the ranks: those with the same color, an integer from 0, form a new communicator, ordered by `key` and then by
   * rank; `null` joins none and gets `null`. Source: MPI_Comm_split.
   */
  split(color: number | null, key = 0): Communicator | null {
    if (arguments.length > 2) refuseExtra("split", "color, key");
    if (color !== null && !(isInt(color) && color >= 0)) {
      const kind = typeof color === "number" ? RangeError : TypeError;
      throw new kind(`split: color must be null or an integer from 0, not ${describe(color)}.`);
    }
    this.#checkKey("split", key);
    const { symbols, constants } = this.#mpi;
    return this.#make(
      "split",
      "MPI_Comm_split",
      `:${color}`,
      (out) => symbols.MPI_Comm_split(this.#handle, color ?? constants.undefined, key | 0, out),
    );
  }

  /** Divide the ranks by the memory that they share: one communicator a machine. Source: MPI_Comm_split_type. */
  splitShared(key = 0): Communicator {
    if (arguments.length > 1) refuseExtra("splitShared", "key");
    this.#checkKey("splitShared", key);
    const { symbols, constants: { sharedMemory, nullInfo } } = this.#mpi;
    const made = this.#make(
      "splitShared",
      "MPI_Comm_split_type",
      ":shared",
      (out) => symbols.MPI_Comm_split_type(this.#handle, sharedMemory, key | 0, nullInfo, out),
    )!;
    made.#key += ` of ${made.#firstInWorld()}`;
    return made;
  }

  /** A communicator with the same ranks, whose messages never meet this one's. Source: MPI_Comm_dup. */
  duplicate(): Communicator {
    const { symbols } = this.#mpi;
    return this.#make("duplicate", "MPI_Comm_dup", "", (out) => symbols.MPI_Comm_dup(this.#handle, out))!;
  }

  /** The first rank by its number in world. Not collective. Source: MPI_Group_translate_ranks. */
  #firstInWorld(): number {
    const { symbols, constants, handle } = this.#mpi;
    const [own, world] = [this.#handle, constants.world].map((communicator) => {
      const group = handle === "i32" ? new Int32Array(1) : new BigUint64Array(1);
      checkMpi(symbols.MPI_Comm_group(communicator, group), "MPI_Comm_group");
      return group;
    });
    const first = new Int32Array(1);
    const code = symbols.MPI_Group_translate_ranks(own[0], 1, new Int32Array(1), world[0], first);
    checkMpi(code, "MPI_Group_translate_ranks");
    for (const group of [own, world]) checkMpi(symbols.MPI_Group_free(group), "MPI_Group_free");
    return first[0];
  }

  #checkKey(method: string, key: number): void {
    if (isInt(key)) return;
    const kind = typeof key === "number" ? RangeError : TypeError;
    throw new kind(`${method}: key must be a 32-bit integer, not ${describe(key)}.`);
  }

  #make(
    method: string,
    functionName: string,
    suffix: string,
    call: (out: Int32Array | BigUint64Array) => number,
  ): Communicator | null {
    const { name } = this.#use(method);
    if (this.#isQueued) throw new StateError(`${method}: this communicator was freed by its using block.`);
    const mpi = this.#mpi;
    const out = mpi.handle === "i32" ? new Int32Array(1) : new BigUint64Array(1);
    checkMpi(call(out), functionName);
    const key = `${name}/${this.#made++}${suffix}`;
    if (out[0] === mpi.constants.nullCommunicator) return null;
    checkMpi(mpi.symbols.MPI_Comm_set_errhandler(out[0], mpi.constants.errorsReturn), "MPI_Comm_set_errhandler");
    return new Communicator(mpi, out[0], key);
  }

  /**
   * Free a communicator that `split`, `splitShared` or `duplicate` made; a second call does nothing. Collective.
   * Source: MPI_Comm_free.
   *
   * @throws {StateError} for `world` and `self`, which MPI made.
   */
  free(): void {
    if (this.#key === null) throw new StateError("free: world and self cannot be freed, MPI made them.");
    if (this.#isFreed) return;
    const handle = this.#mpi.handle === "i32"
      ? new Int32Array([Number(this.#handle)])
      : new BigUint64Array([BigInt(this.#handle)]);
    forgetCollectiveFree(this.#key);
    this.#isFreed = true;
    checkMpi(this.#mpi.symbols.MPI_Comm_free(handle), "MPI_Comm_free");
  }

  /**
   * Queue the communicator to be freed at the next point that all ranks reach: the next collective operation on arrays,
   * `runtime.collect()`, or the end of MPI. Never communicates, so that `using` is safe while an error unwinds on one
   * rank only. Does nothing to `world` and `self`.
   *
   * An MPI has room for some 2,000 communicators: a loop that makes more without any of these calls `free()`.
   */
  [Symbol.dispose](): void {
    if (this.#key === null || this.#isFreed || this.#isQueued) return;
    this.#isQueued = true;
    queueCollectiveFree(this.#key, this.size, () => this.free());
  }

  /** End the whole job, all ranks of it, with this exit code. Not collective, does not return. Source: MPI_Abort. */
  abort(code = 1): never {
    return abortJob(code);
  }
}

/** Parts of an array, one a rank. */
interface Parts {
  /** Their lengths. */
  counts: Int32Array;
  /** Where they begin. */
  displacements: Int32Array;
  /** The length that the array needs. */
  extent: number;
}

/** Refuse what cannot combine two values. */
function checkCombine(method: string, combine: unknown): void {
  if (typeof combine === "function") return;
  throw new TypeError(`${method}: combine must be a function (a, b) => value, not ${describe(combine)}.`);
}

/** One value of all, from the first one onwards; `combine` gets two values and nothing else, so that Math.max is one. */
function fold<T>(values: readonly T[], combine: (a: T, b: T) => T): T {
  return values.reduce((a, b) => combine(a, b));
}
