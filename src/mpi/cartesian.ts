/**
 * Ranks on a grid: what is known of the communicators that `createCartesian` made.
 *
 * @module
 */
import { checkMpi } from "../../ffi/mpi/mod.ts";
import { StateError } from "../errors.ts";
import { describe } from "../options.ts";
import { checkInto, isInt, receiveBuffer, sendBuffer } from "./buffers.ts";
import { checkedArray, checkedRank } from "./checks.ts";
import { refuseFreed } from "./communicator_handle.ts";
import { type IntoOptions, NO_OPTIONS, OptionKeys, refuseExtra } from "./communicator_options.ts";
import { checkedTotal, equalPart } from "./counts.ts";
import { newLike, type NumericArray } from "./elements.ts";
import { startMpi } from "./init_finalize.ts";
import { ScriptMethods } from "./script_methods.ts";

/** How many ranks a grid has in each dimension, and which of them are closed to rings. */
export interface CartesianOptions {
  /** Whether the last rank of a dimension is the neighbour of the first: of each, or of all alike; false by default. */
  periodic?: boolean | readonly boolean[];
}

/** The neighbours of a rank along a dimension; `null` where the grid ends. */
export interface Shift {
  /** The rank from whose place this one's would be reached. */
  readonly source: number | null;
  /** The rank that is so many places further. */
  readonly destination: number | null;
}

const shapes = new WeakMap<object, readonly number[]>();

/** Note the grid of a communicator. */
export function noteGrid(communicator: object, shape: readonly number[]): void {
  shapes.set(communicator, shape);
}

/** The grid of a communicator; `undefined` if it has none. */
export function gridOf(communicator: object): readonly number[] | undefined {
  return shapes.get(communicator);
}

function shapeOf(method: string, communicator: object): readonly number[] {
  const shape = shapes.get(communicator);
  if (shape !== undefined) return shape;
  throw new StateError(`${method}: this communicator has no grid. Make one by createCartesian([2, 2]).`);
}

/** A grid, as MPI takes it. */
export function checkGrid(shape: unknown, { periodic = false }: CartesianOptions, size: number) {
  const extents = Array.isArray(shape) ? [...shape] : [];
  if (extents.length === 0 || !extents.every((extent) => Number.isInteger(extent) && extent > 0)) {
    const kind = Array.isArray(shape) ? RangeError : TypeError;
    throw new kind(`createCartesian: the shape must be a list of whole numbers from 1, not ${describe(shape)}.`);
  }
  const count = extents.reduce((product, extent) => product * extent, 1);
  if (count > size) {
    throw new RangeError(
      `createCartesian: a grid of ${extents.join(" x ")} takes ${count} ranks, and there are ${size}.`,
    );
  }
  const periods = typeof periodic === "boolean"
    ? extents.map(() => periodic)
    : Array.isArray(periodic)
    ? [...periodic]
    : [];
  if (periods.length !== extents.length || !periods.every((one) => typeof one === "boolean")) {
    throw new TypeError(
      `createCartesian: periodic must be a boolean, or one for each dimension, not ${describe(periodic)}.`,
    );
  }
  return { extents, dims: Int32Array.from(extents), periods: Int32Array.from(periods, Number) };
}

/** The methods of a communicator whose ranks stand on a grid. */
export abstract class CartesianMethods extends ScriptMethods {
  /**
   * Where a rank stands on the grid; this one when left out. Local. Source: MPI_Cart_coords.
   *
   * @throws {StateError} if `createCartesian` did not make the communicator.
   * @throws {TypeError | RangeError} if it has no such rank.
   */
  coordinates(rank: number = this.rank): number[] {
    refuseFreed(this, "coordinates");
    const { length } = shapeOf("coordinates", this);
    const place = checkedRank(this, "coordinates", "rank", rank);
    const out = new Int32Array(length);
    checkMpi(startMpi().symbols.MPI_Cart_coords(this.handle, place, length, out), "MPI_Cart_coords");
    return [...out];
  }

  /**
   * The ranks that are so many places before and behind along a dimension, for `sendReceive`. Local. Source: MPI_Cart_shift.
   *
   * @throws {StateError} if `createCartesian` did not make the communicator, nor what it is a duplicate of.
   * @throws {RangeError} if there is no such dimension.
   */
  shift(dimension: number, displacement = 1): Shift {
    refuseFreed(this, "shift");
    const { length } = shapeOf("shift", this);
    if (!(Number.isInteger(dimension) && dimension >= 0 && dimension < length && isInt(displacement))) {
      throw new RangeError(
        `shift takes a dimension from 0 to ${length - 1} and a 32-bit integer, not ${describe(dimension)} and ` +
          `${describe(displacement)}.`,
      );
    }
    const { symbols, constants } = startMpi();
    const [source, destination] = [new Int32Array(1), new Int32Array(1)];
    // As C takes them, which knows no -0.
    const code = symbols.MPI_Cart_shift(this.handle, dimension | 0, displacement | 0, source, destination);
    checkMpi(code, "MPI_Cart_shift");
    const rank = ([found]: Int32Array) => found === constants.nullProcess ? null : found;
    return { source: rank(source), destination: rank(destination) };
  }

  /**
   * Collect equal parts from the neighbours on the grid: for each dimension from the one before, then from the one behind.
   * Where the grid ends, `into` keeps what it holds. Source: MPI_Neighbor_allgather.
   */
  neighborAllGather<T extends NumericArray>(send: T, options: IntoOptions<T> = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("neighborAllGather", "send", OptionKeys.into);
    const { element, length } = checkedArray(this, "neighborAllGather", "send", send, options, OptionKeys.into);
    const total = checkedTotal("neighborAllGather", length, 2 * shapeOf("neighborAllGather", this).length);
    const into = options.into ?? newLike(send, total);
    checkInto("neighborAllGather", into, send, total);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const target = receiveBuffer(into, total);
    const from = sendBuffer(send, length);
    const code = symbols.MPI_Neighbor_allgather(from, length, type, target, length, type, this.handle);
    checkMpi(code, "MPI_Neighbor_allgather");
    return into;
  }

  /**
   * Send each neighbour on the grid a part of its own, and receive one from each, in the order of `neighborAllGather`.
   * Source: MPI_Neighbor_alltoall.
   */
  neighborAllToAll<T extends NumericArray>(send: T, options: IntoOptions<T> = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("neighborAllToAll", "send", OptionKeys.into);
    const { element, length } = checkedArray(this, "neighborAllToAll", "send", send, options, OptionKeys.into);
    const part = equalPart("neighborAllToAll", "send", length, 2 * shapeOf("neighborAllToAll", this).length);
    const into = options.into ?? newLike(send, length);
    checkInto("neighborAllToAll", into, send, length);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const target = receiveBuffer(into, length);
    const code = symbols.MPI_Neighbor_alltoall(sendBuffer(send, length), part, type, target, part, type, this.handle);
    checkMpi(code, "MPI_Neighbor_alltoall");
    return into;
  }
}
