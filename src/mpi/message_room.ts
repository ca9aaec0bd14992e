/**
 * Room for messages whose length is not known when their receive is posted: addresses for the longest one, which take
 * memory only where a message is written.
 *
 * @module
 */
import { release, reserve } from "../../ffi/memory.ts";
import { LARGEST_INT } from "./buffers.ts";

/** A room that held no more than this is kept for the next message: mapping one takes longer than a short message. */
const LARGEST_KEPT_BYTES = 2 ** 16;

let spare: bigint | null = null;

/** The address of room for 2^31 - 1 bytes. */
export function takeRoom(): bigint {
  const address = spare ?? reserve(LARGEST_INT);
  spare = null;
  return address;
}

/** Give room back, into which as many bytes were written. */
export function giveRoomBack(address: bigint, written: number): void {
  if (spare === null && written <= LARGEST_KEPT_BYTES) spare = address;
  else release(address, LARGEST_INT);
}
