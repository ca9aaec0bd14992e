/**
 * A communicator of the engine's own, so that its messages never meet those of the script.
 *
 * @module
 */
import type { Communicator } from "../../../mpi/communicator.ts";
import { type Use, useShared } from "../shared_resources.ts";

/** A duplicate with the same ranks, shared by the plans on a communicator. Collective. */
export function usePrivateCommunicator(communicator: Communicator): Use<Communicator> {
  return useShared(communicator, "private", () => communicator.duplicate(), (copy) => copy.free());
}
