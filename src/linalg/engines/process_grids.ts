/**
 * The grids of processes that ScaLAPACK's routines run on.
 *
 * Making a grid communicates, so a grid is made once for a communicator and shared by the plans that use it. When the
 * last plan is disposed, the grid waits to be freed at the next point that all ranks reach.
 *
 * @module
 */
import { createGrid } from "../../../ffi/blacs.ts";
import type { Scalapack } from "../../../ffi/scalapack.ts";
import type { ProcessGrid } from "../../distribution/mod.ts";
import { Communicator } from "../../runtime/communicator.ts";
import { forgetCollectiveFree, queueCollectiveFree } from "../../runtime/lifetime.ts";

interface SharedGrid {
  /** The same on all ranks of the communicator, and on no others. */
  readonly key: string;
  readonly context: number;
  users: number;
}

const grids = new WeakMap<Communicator, Map<string, SharedGrid>>();
let made = 0;

/** A plan's use of a grid. */
export interface GridUse extends Disposable {
  /** The BLACS context; -1 on ranks outside the grid. */
  readonly context: number;
}

/** The ranks of a grid, column by column. */
function ranksOf(grid: ProcessGrid): Int32Array<ArrayBuffer> {
  const [rows, columns] = grid.shape;
  return Int32Array.from({ length: rows * columns }, (_, i) => grid.rank([i % rows, Math.floor(i / rows)]));
}

/** A grid on a communicator, whose ranks must include the grid's. Collective. */
export function useGrid(communicator: Communicator, { blacs }: Scalapack, grid: ProcessGrid): GridUse {
  let ofCommunicator = grids.get(communicator);
  if (!ofCommunicator) grids.set(communicator, ofCommunicator = new Map());
  const [rows, columns] = grid.shape;
  const ranks = ranksOf(grid);
  const name = `${rows} x ${columns}: ${ranks.join()}`;
  let shared = ofCommunicator.get(name);
  if (!shared) {
    const system = blacs.Csys2blacs_handle(communicator.handle);
    const context = createGrid(blacs, system, { rows, columns, ranks });
    blacs.Cfree_blacs_system_handle(system);
    const key = communicator.broadcastObject(`grid ${Communicator.world().rank}/${made++}`);
    shared = { key, context, users: 0 };
    ofCommunicator.set(name, shared);
  }
  return new SharedGridUse(shared, communicator.size, () => {
    ofCommunicator.delete(name);
    if (shared.context >= 0) blacs.Cblacs_gridexit(shared.context);
  });
}

class SharedGridUse implements GridUse {
  readonly #grid: SharedGrid;
  readonly #members: number;
  readonly #free: () => void;
  #isDisposed = false;

  constructor(grid: SharedGrid, members: number, free: () => void) {
    this.#grid = grid;
    this.#members = members;
    this.#free = free;
    if (grid.users++ === 0) forgetCollectiveFree(grid.key);
  }

  get context(): number {
    return this.#grid.context;
  }

  [Symbol.dispose](): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    if (--this.#grid.users === 0) queueCollectiveFree(this.#grid.key, this.#members, this.#free);
  }
}
