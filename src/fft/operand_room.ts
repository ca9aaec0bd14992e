/**
 * The room that operands have for results in place.
 *
 * @module
 */
import type { DistributedArray } from "../array/distributed_array.ts";
import type { LocalArray } from "../array/local_array.ts";
import { SymmetricArray } from "../array/symmetric_array.ts";
import { dtypeInfo } from "../dtype/dtype.ts";
import { ShapeError, StateError } from "../errors.ts";
import type { DeviceMemory } from "../memory/device_buffer.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { dtypesOf, type FFTProblem } from "./problem.ts";

/** Bytes that operands were given beyond their elements, by the buffer. */
const rooms = new WeakMap<ArrayBufferLike | DeviceMemory, number>();

/** Note that all of a buffer may be written to by transforms in place. */
export function noteRoom(buffer: ArrayBufferLike | DeviceMemory): void {
  rooms.set(buffer, buffer.byteLength);
}

/** Bytes that results in place have, in the memory of their operands. */
const inherited = new WeakMap<DistributedArray, number>();

/** Parts of results in place of whole parts in symmetric memory. */
const inWhole = new WeakSet<LocalArray>();

/**
 * Note that a result in place may be transformed in place as well, in all of the operand's room: unless that is a view of
 * somebody's array, whose gaps are not its own.
 */
export function inheritRoom(result: DistributedArray, operand: DistributedArray): void {
  if (!operand.isView || inherited.has(operand)) inherited.set(result, roomOf(operand));
  if (isWholeInSymmetric(operand.local)) inWhole.add(result.local);
}

/** Whether a part has symmetric memory for itself, unlike a view of some elements, of which other ranks may have none. */
export function isWholeInSymmetric(part: LocalArray): boolean {
  return part instanceof SymmetricArray || inWhole.has(part);
}

/** Bytes from the operand's first element on that belong to it, gaps between its elements included. */
export function roomOf(operand: DistributedArray): number {
  const known = inherited.get(operand);
  if (known !== undefined) return known;
  const { local, isView } = operand;
  const { itemSize } = dtypeInfo(local.dtype);
  const { buffer, byteOffset, byteLength } = local.isOnDevice
    ? { buffer: local.buffer, byteOffset: 0, byteLength: local.buffer.byteLength }
    : local.data;
  const start = local.offset * itemSize;
  const noted = isView ? undefined : rooms.get(buffer);
  if (noted !== undefined) return noted - byteOffset - start;
  const { shape, strides } = local;
  const span = shape.reduce((most, extent, d) => Math.max(most, extent * strides[d]), 1);
  return local.size === 0 ? 0 : Math.min(span * itemSize, byteLength - start);
}

/** Refuse to write a result over an operand that has no room for it, or whose neighbours are somebody else's. */
export function checkRoom(operand: DistributedArray, problem: FFTProblem, { rank }: Runtime): void {
  const shape = problem.to.localShape(rank);
  const { itemSize } = dtypeInfo(dtypesOf(problem).result);
  const needed = itemSize * shape.reduce((product, extent) => product * extent, 1);
  if (problem.type === "c2c" && shape.join() === operand.local.shape.join()) return;
  if (operand.isView && !inherited.has(operand)) {
    throw new StateError(
      "inplace: the operand is a view of another array, and the result's part has another shape. Copy it into an array " +
        "that allocateOperand() has made with the options of the transform.",
    );
  }
  const room = roomOf(operand);
  if (needed <= room) return;
  throw new ShapeError(
    `inplace: this rank's part of the result takes ${needed} bytes, and the operand has room for ${room}. Make the ` +
      `operand by allocateOperand(), with the options of the transform.`,
  );
}
