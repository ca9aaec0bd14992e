/**
 * What the methods of a communicator check of their arguments before they call MPI.
 *
 * @module
 */
import { describe } from "../options.ts";
import { LARGEST_INT, refuseDetached, refuseLong } from "./buffers.ts";
import { type CommunicatorHandle, refuseFreed } from "./communicator_handle.ts";
import { checkOptions, type ElementOptions, type Source } from "./communicator_options.ts";
import { type Element, elementOf, lengthOf, type NumericArray } from "./elements.ts";
import { startMpi } from "./init_finalize.ts";

/** Refuse a communicator that was freed, and options that are none. */
export function checkCall(
  communicator: CommunicatorHandle,
  method: string,
  options: object,
  allowed: ReadonlySet<string>,
): void {
  refuseFreed(communicator, method);
  checkOptions(method, options, allowed);
}

/** What is known of an array that is sent or received; the communicator and the options are checked on the way. */
export function checkedArray(
  communicator: CommunicatorHandle,
  method: string,
  what: string,
  array: NumericArray,
  options: ElementOptions,
  allowed: ReadonlySet<string>,
): { readonly element: Element; readonly length: number } {
  checkCall(communicator, method, options, allowed);
  const element = elementOf(method, what, array, options?.dtype);
  return { element, length: checkedLength(method, what, array) };
}

/** The length of an array that is sent or received, whose memory was not transferred away. */
export function checkedLength(method: string, what: string, array: NumericArray): number {
  const length = lengthOf(array);
  if (length === 0) refuseDetached(method, what, array);
  else if (length > LARGEST_INT) refuseLong(method, what, length);
  return length;
}

/** A rank of a communicator, as C takes it, which knows no -0. */
export function checkedRank({ size }: CommunicatorHandle, method: string, what: string, rank: number): number {
  if (!(Number.isInteger(rank) && rank >= 0 && rank < size)) refuseRank(size, method, what, rank);
  return rank | 0;
}

function refuseRank(size: number, method: string, what: string, rank: number): never {
  if (!Number.isInteger(rank)) {
    throw new TypeError(`${method}: ${what} must be a rank, an integer, not ${describe(rank)}.`);
  }
  throw new RangeError(`${method}: ${what} is ${rank}, but the ranks of this communicator are 0 to ${size - 1}.`);
}

/** The rank with the result, or with what the others get. */
export function checkedRoot(communicator: CommunicatorHandle, method: string, root: number | undefined): number {
  return root === undefined ? 0 : checkedRank(communicator, method, "root", root);
}

/** The rank that a message goes to. */
export function checkedDestination(
  communicator: CommunicatorHandle,
  method: string,
  destination: number | null,
): number {
  if (destination === null) return startMpi().constants.nullProcess;
  return checkedRank(communicator, method, "destination", destination);
}

/** The rank that a message comes from. */
export function checkedSource(communicator: CommunicatorHandle, method: string, source: Source): number {
  if (source === "any") return startMpi().constants.anySource;
  if (source === null) return startMpi().constants.nullProcess;
  return checkedRank(communicator, method, "source", source);
}

/** The tag of a message; any when left out. */
export function checkedTag(method: string, tag: number | undefined): number {
  if (tag === undefined) return startMpi().constants.anyTag;
  if (!(Number.isInteger(tag) && tag >= 0 && tag <= LARGEST_INT)) refuseTag(method, tag);
  return tag | 0;
}

function refuseTag(method: string, tag: number): never {
  if (!Number.isInteger(tag)) throw new TypeError(`${method}: tag must be an integer, not ${String(tag)}.`);
  throw new RangeError(`${method}: tag is ${tag}, allowed are 0 to at least 32767.`);
}

/** Refuse what cannot combine two values. */
export function checkCombine(method: string, combine: unknown): void {
  if (typeof combine === "function") return;
  throw new TypeError(`${method}: combine must be a function (a, b) => value, not ${describe(combine)}.`);
}
