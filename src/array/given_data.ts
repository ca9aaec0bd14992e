/**
 * Data that a user hands over for a new array: flat typed arrays of all elements, and parts that ranks have already.
 *
 * @module
 */
import { type DType, dtypeInfo, dtypeOf, elementCount, type TypedArray } from "../dtype/dtype.ts";
import { DTypeError, ShapeError, StateError } from "../errors.ts";
import { describe, keysOf } from "../options.ts";
import { checkOrder, checkShape, type Order, sizeOfShape, stridesOf } from "./layout.ts";
import { LocalArray, type Memory } from "./local_array.ts";

/** Options of {@linkcode DistributedArray.fromLocal}. */
export interface FromLocalOptions<D extends DType = DType> {
  /** The type of the elements; by default that of the LocalArray, or the usual one of the typed array. */
  dtype?: D;
  /** The shape of this rank's part; required for a bare typed array. */
  localShape?: readonly number[];
  /** The memory order; by default that of the LocalArray's strides, "C" for a bare typed array. */
  order?: Order;
  /**
   * Where the elements shall be; by default as for new arrays, and "symmetric" for parts that are. Parts that are
   * elsewhere are copied.
   */
  memory?: Memory;
}

/** The names of {@linkcode FromLocalOptions}. */
export const FROM_LOCAL_KEYS = keysOf<FromLocalOptions>({ dtype: true, localShape: true, order: true, memory: true });

/** What is said of lost memory. */
export const LOST = "is gone on this rank: it was that of an array that was freed, or its buffer was transferred away";

/** The empty part of a rank that holds nothing. */
export function nothing(dtype: DType, shape: readonly number[]): LocalArray {
  return LocalArray.zeros(dtype, shape.map(() => 0));
}

function checkWhole(data: unknown): asserts data is TypedArray {
  if (ArrayBuffer.isView(data)) return;
  throw new TypeError(`The root must pass a typed array of all elements, not ${describe(data)}.`);
}

/** The dtype of the root's data, if the user has not told. */
export function dtypeOfWhole(data: TypedArray | null): DType {
  checkWhole(data);
  return usualDType(data);
}

function usualDType(data: TypedArray): DType {
  const dtype = dtypeOf(data);
  if (dtype !== null) return dtype;
  const name = data.constructor.name;
  throw new TypeError(
    data instanceof Uint16Array
      ? `What a ${name} holds must be named: pass { dtype: "bfloat16" }.`
      : `No dtype lives in a ${name}. Pass the numbers in an array that one does, such as Int32Array.from(data).`,
  );
}

/** Flat data as a whole array. */
export function wholeArray(data: TypedArray | null, dtype: DType, shape: readonly number[], order: Order): LocalArray {
  checkWhole(data);
  const count = elementCount(dtype, data);
  if (count !== sizeOfShape(shape)) {
    throw new ShapeError(
      `An array of shape [${shape}] has ${sizeOfShape(shape)} elements, but the root passed ${count} of ${dtype}.`,
    );
  }
  return new LocalArray({ data, dtype, shape, strides: stridesOf(shape, order) });
}

/** What the user passed to fromLocal, as a LocalArray. */
export function localPart(local: TypedArray | LocalArray, options: FromLocalOptions): LocalArray {
  const { dtype, order } = options;
  const localShape = options.localShape === undefined ? undefined : checkShape(options.localShape, "localShape");
  if (order !== undefined) checkOrder(order);
  if (local instanceof LocalArray) {
    if (dtype !== undefined && dtype !== local.dtype) {
      throw new TypeError(
        `The LocalArray is of dtype ${local.dtype}, not ${dtype}. Leave dtype out, or convert with to().`,
      );
    }
    if (localShape !== undefined && localShape.join() !== local.shape.join()) {
      throw new ShapeError(`The LocalArray has shape [${local.shape}], not [${localShape}]. Leave localShape out.`);
    }
    if (local.isLost) throw new StateError(`The memory of the LocalArray ${LOST}. Pass one that is there.`);
    if (local.isOnDevice) checkAligned(local);
    return local;
  }
  if (!ArrayBuffer.isView(local)) {
    throw new TypeError(`fromLocal takes a typed array or a LocalArray, not ${describe(local)}.`);
  }
  if (localShape === undefined) {
    throw new ShapeError("A bare typed array has no shape: pass { localShape: [rows, columns] }, this rank's part.");
  }
  const kind = dtype === undefined ? usualDType(local) : dtype;
  const count = elementCount(kind, local);
  if (count !== sizeOfShape(localShape)) {
    throw new ShapeError(
      `localShape [${localShape}] has ${sizeOfShape(localShape)} elements, but the data has ${count}.`,
    );
  }
  return new LocalArray({ data: local, dtype: kind, shape: localShape, strides: stridesOf(localShape, order ?? "C") });
}

/** Refuse memory of a GPU that another library has given where no element of the dtype begins: the kernels that load one fail. */
function checkAligned({ size, buffer: { address }, dtype }: LocalArray): void {
  const { itemSize } = dtypeInfo(dtype);
  if (size === 0 || address % BigInt(itemSize) === 0n) return;
  throw new DTypeError(
    `The memory of the LocalArray begins at 0x${address.toString(16)}, and elements of ${dtype} are at multiples of ` +
      `${itemSize} bytes on a GPU. Copy them, with the library that made them, to memory of their own.`,
  );
}

/** Whether strides grow in this order from 1 on, gaps between rows or columns allowed. */
export function isOrdered({ shape, strides }: LocalArray, order: Order): boolean {
  if (shape.includes(0)) return true;
  const dimensions = order === "F" ? shape.keys() : Array.from(shape.keys()).reverse();
  let least = 1;
  for (const [position, dimension] of [...dimensions].entries()) {
    if (shape[dimension] === 1) continue;
    if (position === 0 ? strides[dimension] !== 1 : strides[dimension] < least) return false;
    least = strides[dimension] * shape[dimension];
  }
  return true;
}

/** The order that all parts have; C where both would do. */
export function commonOrder(offers: readonly (readonly Order[])[], wanted: Order | undefined): Order {
  const candidates = wanted ? [wanted] : ["C", "F"] as const;
  const order = candidates.find((candidate) => offers.every((orders) => orders.includes(candidate)));
  if (order !== undefined) return order;
  const ranks = offers.flatMap((orders, rank) => orders.includes(candidates[0]) ? [] : [rank]);
  throw new ShapeError(
    wanted
      ? `The strides of the parts of ranks ${ranks.join(", ")} are not those of order "${wanted}".`
      : `The parts have no memory order in common, neither "C" nor "F". Make dense copies, LocalArray.copy("C").`,
    { ranks },
  );
}

/** A rank that a script has named. */
export function checkRank(rank: unknown, size: number, what: string): number {
  if (Number.isInteger(rank) && rank as number >= 0 && rank as number < size) return rank as number;
  const kind = typeof rank === "number" ? RangeError : TypeError;
  throw new kind(`The ${what} must be a rank from 0 to ${size - 1}, not ${describe(rank)}.`);
}
