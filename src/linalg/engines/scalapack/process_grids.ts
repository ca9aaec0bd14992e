/**
 * The grids of processes that ScaLAPACK's routines run on.
 *
 * @module
 */
import { createGrid } from "../../../../ffi/blas/blacs.ts";
import type { Scalapack } from "../../../../ffi/blas/scalapack.ts";
import type { ProcessGrid } from "../../../distribution/mod.ts";
import type { Communicator } from "../../../mpi/communicator.ts";
import { type Use, useShared } from "../communicator_resources.ts";

/** The ranks of a grid, column by column. */
function ranksOf(grid: ProcessGrid): Int32Array<ArrayBuffer> {
  const [rows, columns] = grid.shape;
  return Int32Array.from({ length: rows * columns }, (_, i) => grid.rank([i % rows, Math.floor(i / rows)]));
}

/**
 * The BLACS context of a grid on a communicator, whose ranks must include the grid's; -1 on ranks outside the grid.
 * Collective.
 */
export function useGrid(communicator: Communicator, { blacs }: Scalapack, grid: ProcessGrid): Use<number> {
  const [rows, columns] = grid.shape;
  const ranks = ranksOf(grid);
  const make = () => {
    const system = blacs.Csys2blacs_handle(communicator.handle);
    const context = createGrid(blacs, system, { rows, columns, ranks });
    blacs.Cfree_blacs_system_handle(system);
    return context;
  };
  return useShared(communicator, `grid ${rows} x ${columns}: ${ranks.join()}`, make, (context) => {
    if (context >= 0) blacs.Cblacs_gridexit(context);
  });
}
