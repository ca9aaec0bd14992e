/**
 * A communicator of the engine's own, so that its messages never meet those of the script.
 *
 * @module
 */
import type { Communicator } from "../../runtime/communicator.ts";

const copies = new WeakMap<Communicator, Communicator>();

/** A duplicate with the same ranks; made at the first call, which is collective, and kept as long as the original. */
export function privateCommunicator(communicator: Communicator): Communicator {
  let copy = copies.get(communicator);
  if (!copy) copies.set(communicator, copy = communicator.duplicate());
  return copy;
}
