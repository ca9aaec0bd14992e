/**
 * Typed arrays as buffers of MPI calls, and what is refused as one.
 *
 * @module
 */
import { arrayClass, elementOf, isCutOff, lengthOf, type NumericArray, overlap } from "./elements.ts";

/** The largest C `int`: what a count or tag can be. */
export const LARGEST_INT = 2 ** 31 - 1;

/** MPI refuses NULL, which is what an empty array becomes, or two buffers with one address: stand-ins for those. */
export const EMPTY_SEND = new Uint8Array(8);
/** The stand-in for a receiving array. */
export const EMPTY_RECEIVE = new Uint8Array(8);

/** An array as MPI takes it for sending `length` entries. */
export const sendBuffer = (array: NumericArray, length: number): NumericArray =>
  length === 0 ? EMPTY_SEND : withRoom(array, length);
/** An array as MPI takes it for receiving up to `length` entries. */
export const receiveBuffer = (array: NumericArray, length: number): NumericArray =>
  length === 0 ? EMPTY_RECEIVE : withRoom(array, length);

/** The last look before a native call: a getter or constructor of the user's may have changed what was checked before. */
function withRoom(array: NumericArray, length: number): NumericArray {
  if (lengthOf(array) < length) refuseShrunk(array, length);
  return array;
}

function refuseShrunk(array: NumericArray, length: number): never {
  throw new RangeError(
    `An array that had ${length} entries has ${lengthOf(array)} now: it was shrunk while the call was prepared, by a ` +
      `getter or a constructor. Pass arrays that stay as they are.`,
  );
}

/** Whether C's `int` holds a value. */
export function isInt(value: number): boolean {
  return Number.isInteger(value) && Math.abs(value) <= LARGEST_INT;
}

/** Whether `send` is the part of `into` that begins at entry `start`. */
export function isPartOf(into: NumericArray, send: NumericArray, start: number): boolean {
  return into.buffer === send.buffer && lengthOf(send) > 0 &&
    send.byteOffset === into.byteOffset + start * send.BYTES_PER_ELEMENT;
}

const SMALL_BYTES = 4096;
let apart: [NumericArray, NumericArray] | null = null;

/**
 * Whether two arrays lie in one buffer. The last small pair that does not is remembered: a program passes the same again
 * and again, and asking typed arrays for their buffers takes as long as half a short MPI call.
 */
function shareMemory(a: NumericArray, b: NumericArray): boolean {
  if (apart !== null && apart[0] === a && apart[1] === b) return false;
  if (a.buffer === b.buffer) return true;
  if (a.buffer.byteLength + b.buffer.byteLength <= SMALL_BYTES) apart = [a, b];
  return false;
}

/** Check the array that receives: class, length, no overlap with what is sent. */
export function checkInto(method: string, into: NumericArray, like: NumericArray, length: number): void {
  if (arrayClass(into) !== arrayClass(like)) sameClass(method, "into", into, like);
  if (lengthOf(into) < length || length === 0) refuseWithoutRoom(method, into, length);
  refuseOverlap(method, into, like, "the array that is sent");
}

function refuseWithoutRoom(method: string, into: NumericArray, length: number): void {
  refuseDetached(method, "into", into);
  refuseShort(method, lengthOf(into), length);
}

/** Refuse to receive into memory of what is sent. */
export function refuseOverlap(method: string, into: NumericArray, sent: NumericArray, what: string): void {
  if (shareMemory(into, sent)) refuseShared(method, into, sent, what);
}

function refuseShared(method: string, into: NumericArray, sent: NumericArray, what: string): void {
  if (overlap(into, sent)) throw new RangeError(`${method}: into overlaps ${what}; give separate memory.`);
}

/** Refuse an array of another class than that of the other one. */
export function sameClass(method: string, what: string, array: NumericArray, like: NumericArray): void {
  elementOf(method, what, array);
  if (arrayClass(array) === arrayClass(like)) return;
  throw new TypeError(
    `${method}: ${what} is a ${arrayClass(array)}, it must be a ${arrayClass(like)} like the other array.`,
  );
}

/** Refuse an array whose memory was transferred away, or cut off. */
export function refuseDetached(method: string, what: string, array: NumericArray): void {
  if (array.buffer instanceof ArrayBuffer && array.buffer.detached) {
    throw new TypeError(`${method}: the memory of ${what} was transferred away (its buffer is detached).`);
  }
  if (isCutOff(array)) {
    throw new TypeError(
      `${method}: ${what} reaches beyond the end of its resizable buffer, which has ${array.buffer.byteLength} bytes ` +
        "now: it has no entries any more. Resize the buffer back, or pass a new array of what is left.",
    );
  }
}

/** Refuse more entries than C's `int` counts. */
export function refuseLong(method: string, what: string, length: number): never {
  throw new RangeError(`${method}: ${what}: ${length} is more than MPI's 2^31 - 1 in one call; send it in pieces.`);
}

/** Refuse an array that is too short. */
export function refuseShort(method: string, length: number, needed: number, what = "into"): void {
  if (length < needed) throw new RangeError(`${method}: ${what} has ${length} entries, it needs ${needed}.`);
}
