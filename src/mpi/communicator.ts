/**
 * MPI for scripts: ranks that exchange typed arrays and values. This is how communicators come and go; the methods that
 * they communicate by are in chapters of their own, each a class that the next one extends.
 *
 * @module
 */
import { checkMpi, type Handle } from "../../ffi/mpi/mod.ts";
import { noteGroup } from "../../ffi/mpi/waits.ts";
import { StateError } from "../errors.ts";
import { describe, keysOf, noteOwnClass, readOptions } from "../options.ts";
import { isInt } from "./buffers.ts";
import { CartesianMethods, type CartesianOptions, checkGrid, gridOf, noteGrid } from "./cartesian.ts";
import { forgetCollectiveFree, queueCollectiveFree } from "./collective_free.ts";
import { freeHandle, refuseFreed } from "./communicator_handle.ts";
import { refuseExtra } from "./communicator_options.ts";
import { abortJob, startMpi } from "./init_finalize.ts";

import { checkedRanks, ranksInWorld, withGroup } from "./rank_group.ts";

const CARTESIAN_KEYS = keysOf<CartesianOptions>({ periodic: true });

/**
 * A group of ranks that communicate. Its methods check what can be checked locally, make the one MPI call that they name
 * (those that end in Object up to two, their own and one for lengths), and throw `MpiError` if MPI refuses, so that other
 * ranks may run programs in other languages. Unless a method says otherwise it is collective: every rank of the
 * communicator calls it, with the same kind of element, operation and root.
 *
 * In jobs without MPI there are those that agreements and arrays take: `barrier`, `broadcast`, `allGather`, `allGatherV`,
 * `allReduce`, `allToAllV`, what exchanges objects by these, `duplicate`, `splitShared`; the others throw a
 * `ConfigurationError`, and none of these takes part of the ranks.
 *
 * Counts and displacements are in entries of the typed array, also for complex numbers. Reductions of float16 and
 * bfloat16 are computed in float32 and rounded once; complex numbers can be summed; float8 cannot be reduced.
 *
 * Beside what is below, it has the members of the classes that it extends, each a chapter of its own:
 *
 * - {@linkcode MessageMethods}: send, receive, sendReceive, probe, probeNow, isend, ireceive, sendInit,
 *   receiveInit
 * - {@linkcode ReductionMethods}: allReduce, reduce, scan, exclusiveScan, reduceScatter
 * - {@linkcode CollectiveMethods}: barrier, broadcast, gather, gatherV, allGather, allGatherV, scatter, scatterV, allToAll,
 *   allToAllV, iallGatherV, ibarrier
 * - {@linkcode BackgroundMethods}: ibroadcast, ireduce, iallReduce, igather, iscatter, iallGather, iallToAll
 * - {@linkcode CartesianMethods}, for what `createCartesian` made: coordinates, shift, neighborAllGather, neighborAllToAll
 * - {@linkcode ObjectMethods}, for values: broadcastObject, gatherObject, allGatherObject, scatterObject, allToAllObject,
 *   reduceObject, allReduceObject, scanObject, exclusiveScanObject, sendObject, receiveObject, sendReceiveObject,
 *   isendObject, ireceiveObject
 * - {@linkcode ScriptMethods}, short for a few lines: print, deal, ringObject, reduceByKey
 * - {@linkcode CommunicatorHandle}: rank, size, handle, handleType, isFreed, fortranHandle
 *
 * @example
 * ```ts
 * import { Communicator } from "@distmath/distmath";
 * const world = Communicator.world();
 * const sum = world.allReduce(new Float64Array([world.rank]));
 * console.assert(sum[0] === world.size * (world.size - 1) / 2);
 * ```
 */
export class Communicator extends CartesianMethods {
  static {
    noteOwnClass(this);
  }

  #key: string | null;
  #isQueued = false;
  #made = 0;
  /** Known from the end on: MPI forgets it with the handle. */
  #worldRanks: readonly number[] | null = null;
  static #world: Communicator | undefined;
  static #self: Communicator | undefined;
  static readonly #madeOfRanks = new Map<string, number>();

  private constructor(handle: Handle, key: string | null) {
    super(handle);
    this.#key = key;
  }

  /**
   * All ranks of the job; starts MPI if it does not run yet. Not collective by itself, but starting MPI is.
   *
   * @throws {ConfigurationError} if there is no MPI, or not the launcher's.
   */
  static world(): Communicator {
    return this.#world ??= new Communicator(startMpi().constants.world, null);
  }

  /** This process alone; starts MPI if it does not run yet. */
  static self(): Communicator {
    return this.#self ??= new Communicator(startMpi().constants.self, null);
  }

  /** Its ranks by their numbers in the world, in order; also after it was freed. Source: MPI_Group_translate_ranks. */
  get worldRanks(): readonly number[] {
    return this.#worldRanks ?? ranksInWorld(this.handle, this.size);
  }

  /** What tells it from the other communicators of the job; the same on all its ranks. */
  get name(): string {
    return this.#key ?? (this === Communicator.#self ? `self of ${Communicator.world().rank}` : "world");
  }

  /** Such as `Communicator(world, rank 0 of 4)`. */
  override toString(): string {
    return `Communicator(${this.name}, rank ${this.rank} of ${this.size}${this.isFreed ? ", freed" : ""})`;
  }

  // Each of these makes one call of MPI that waits for others, so that those may be programs in other languages.

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
    checkKey("split", key);
    const { symbols, constants } = startMpi();
    return this.#make(
      "split",
      "MPI_Comm_split",
      `:${color}`,
      // As C takes it, which knows no -0.
      (out) => symbols.MPI_Comm_split(this.handle, color === null ? constants.undefined : color | 0, key | 0, out),
    );
  }

  /** Divide the ranks by the memory that they share: one communicator a machine. Source: MPI_Comm_split_type. */
  splitShared(key = 0): Communicator {
    if (arguments.length > 1) refuseExtra("splitShared", "key");
    checkKey("splitShared", key);
    const { symbols, constants: { sharedMemory, nullInfo } } = startMpi();
    const made = this.#make(
      "splitShared",
      "MPI_Comm_split_type",
      ":shared",
      (out) => symbols.MPI_Comm_split_type(this.handle, sharedMemory, key | 0, nullInfo, out),
    )!;
    made.#key += ` of ${made.worldRanks[0]}`;
    return made;
  }

  /**
   * A communicator whose ranks stand on a grid, the last dimension running fastest; `null` for those that it has no place for.
   * It has `coordinates`, `shift` and calls between neighbours. Source: MPI_Cart_create.
   *
   * @throws {RangeError | TypeError} if the grid is none, or takes more ranks than there are.
   *
   * @example
   * ```ts
   * import { Communicator } from "@distmath/distmath";
   * const ring = Communicator.world().createCartesian([Communicator.world().size], { periodic: true })!;
   * const { source, destination } = ring.shift(0);
   * const heard = new Int32Array(1);
   * ring.sendReceive(Int32Array.of(ring.rank), destination, heard, { source });
   * console.assert(heard[0] === source);
   * ```
   */
  createCartesian(shape: readonly number[], options: CartesianOptions = {}): Communicator | null {
    if (arguments.length > 2) refuseExtra("createCartesian", "shape", new Set(CARTESIAN_KEYS));
    const given = readOptions("the options of createCartesian", options, CARTESIAN_KEYS);
    const { extents, dims, periods } = checkGrid(shape, given, this.size);
    const made = this.#make(
      "createCartesian",
      "MPI_Cart_create",
      `:${extents.join("x")}`,
      (out) => startMpi().symbols.MPI_Cart_create(this.handle, dims.length, dims, periods, 0, out),
    );
    if (made !== null) noteGrid(made, extents);
    return made;
  }

  /** A communicator with the same ranks, and grid, whose messages never meet this one's. Source: MPI_Comm_dup. */
  duplicate(): Communicator {
    const { symbols } = startMpi();
    const made = this.#make("duplicate", "MPI_Comm_dup", "", (out) => symbols.MPI_Comm_dup(this.handle, out))!;
    const grid = gridOf(this);
    if (grid !== undefined) noteGrid(made, grid);
    return made;
  }

  /**
   * A communicator of some ranks of the world, which alone call it, each with the same list. Others take no part.
   * Source: MPI_Comm_create_group.
   *
   * @throws {TypeError | RangeError} if it is no list of different ranks, or this one is not in it.
   */
  static ofWorldRanks(given: readonly number[]): Communicator {
    const ranks = checkedRanks(given, Communicator.world());
    const { symbols, constants: { world } } = startMpi();
    // Counted by the list, which is the same on all of its ranks; what else these have made is not.
    const count = this.#madeOfRanks.get(`${ranks}`) ?? 0;
    const call = (group: Handle) =>
      Communicator.#adopt("MPI_Comm_create_group", (out) => symbols.MPI_Comm_create_group(world, group, 0, out));
    const made = withGroup(ranks, call)!;
    noteGroup(made.handle, ranks, count, made.rank);
    this.#madeOfRanks.set(`${ranks}`, count + 1);
    made.#key = `ranks ${ranks}/${count}`;
    return made;
  }

  #make(
    method: string,
    functionName: string,
    suffix: string,
    call: (out: Int32Array | BigUint64Array) => number,
  ): Communicator | null {
    refuseFreed(this, method);
    if (this.#isQueued) throw new StateError(`${method}: this communicator was freed by its using block.`);
    const made = Communicator.#adopt(functionName, call);
    const key = `${this.name}/${this.#made++}${suffix}`;
    if (made) made.#key = key;
    return made;
  }

  /** What MPI makes; `null` for a rank that is not in it. Its key is still to be set. */
  static #adopt(functionName: string, call: (out: Int32Array | BigUint64Array) => number): Communicator | null {
    const { symbols, constants, handle } = startMpi();
    const out = handle === "i32" ? new Int32Array(1) : new BigUint64Array(1);
    checkMpi(call(out), functionName);
    if (out[0] === constants.nullCommunicator) return null;
    checkMpi(symbols.MPI_Comm_set_errhandler(out[0], constants.errorsReturn), "MPI_Comm_set_errhandler");
    return new Communicator(out[0], null);
  }

  /**
   * Free a communicator that `split`, `createCartesian`, `duplicate` or the like made; a second call does nothing. Collective.
   * Source: MPI_Comm_free.
   *
   * @throws {StateError} for `world` and `self`, which MPI made.
   */
  free(): void {
    if (this.#key === null) throw new StateError("free: world and self cannot be freed, MPI made them.");
    if (this.isFreed) return;
    forgetCollectiveFree(this.#key);
    this.#worldRanks = this.worldRanks;
    freeHandle(this);
  }

  /**
   * Queue the communicator to be freed at the next point that all ranks reach: the next collective operation on arrays,
   * `runtime.collect()`, or the end of MPI. Never communicates, so that `using` is safe while an error unwinds on one
   * rank only. Does nothing to `world` and `self`.
   *
   * An MPI has room for some 2,000 communicators: a loop that makes more without any of these calls `free()`.
   */
  [Symbol.dispose](): void {
    if (this.#key === null || this.isFreed || this.#isQueued) return;
    this.#isQueued = true;
    queueCollectiveFree(this.#key, this.size, () => this.free());
  }

  /**
   * End the whole job, all ranks of it, with this exit code: its last 8 bits, or 1 where they are 0, since that would be a
   * success. Not collective, does not return. Source: MPI_Abort.
   *
   * @throws {TypeError} if it is no integer.
   */
  abort(code = 1): never {
    return abortJob(code);
  }
}

/** Refuse what is no key to order ranks by. */
function checkKey(method: string, key: number): void {
  if (isInt(key)) return;
  const kind = typeof key === "number" ? RangeError : TypeError;
  throw new kind(`${method}: key must be a 32-bit integer, not ${describe(key)}.`);
}
