/**
 * MPI's groups: which ranks a communicator has.
 *
 * @module
 */
import { checkMpi, type Handle } from "../../ffi/mpi/mod.ts";
import { describe } from "../options.ts";
import { startMpi } from "./init_finalize.ts";

/** Use a group that `make` makes, and free it. */
function using<T>(make: (out: Int32Array | BigUint64Array) => number, name: string, use: (group: Handle) => T): T {
  const { symbols, handle } = startMpi();
  const group = handle === "i32" ? new Int32Array(1) : new BigUint64Array(1);
  checkMpi(make(group), name);
  try {
    return use(group[0]);
  } finally {
    checkMpi(symbols.MPI_Group_free(group), "MPI_Group_free");
  }
}

function groupOf<T>(communicator: Handle, use: (group: Handle) => T): T {
  return using((out) => startMpi().symbols.MPI_Comm_group(communicator, out), "MPI_Comm_group", use);
}

/**
 * A list of ranks of the world, as C takes it.
 *
 * @throws {TypeError} if it is no list.
 * @throws {RangeError} if it is not one of different ranks, or has not this one.
 */
export function checkedRanks(ranks: unknown, { rank: own, size }: { rank: number; size: number }): readonly number[] {
  if (!Array.isArray(ranks)) throw new TypeError(`ofWorldRanks takes a list of ranks, not ${describe(ranks)}.`);
  const wrong = ranks.findIndex((rank, i) =>
    !(Number.isInteger(rank) && rank >= 0 && rank < size) || ranks.indexOf(rank) !== i
  );
  if (wrong >= 0) {
    throw new RangeError(
      `ofWorldRanks takes different ranks from 0 to ${size - 1}; ${describe(ranks[wrong])} is in the list.`,
    );
  }
  if (!ranks.includes(own)) {
    throw new RangeError(`ofWorldRanks: rank ${own} calls it, and is not in the list [${ranks}].`);
  }
  return ranks.map((rank) => rank | 0);
}

/** The ranks of a communicator by their numbers in the world. Not collective. */
export function ranksInWorld(communicator: Handle, size: number): readonly number[] {
  const { symbols, constants } = startMpi();
  const [own, found] = [Int32Array.from({ length: size }, (_, rank) => rank), new Int32Array(size)];
  groupOf(communicator, (group) =>
    groupOf(constants.world, (world) => {
      const code = symbols.MPI_Group_translate_ranks(group, size, own, world, found);
      checkMpi(code, "MPI_Group_translate_ranks");
    }));
  return [...found];
}

/** Use the group of these ranks of the world. Not collective. */
export function withGroup<T>(ranks: readonly number[], use: (group: Handle) => T): T {
  const { symbols, constants } = startMpi();
  return groupOf(
    constants.world,
    (world) =>
      using(
        (out) => symbols.MPI_Group_incl(world, ranks.length, Int32Array.from(ranks), out),
        "MPI_Group_incl",
        use,
      ),
  );
}
