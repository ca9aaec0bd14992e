/**
 * BLACS: the process grids of ScaLAPACK, in the C interface. A grid is known by an integer, its context.
 *
 * Source: the BLACS user's guide (LAWN 94) and the headers of ScaLAPACK 2.2. Errors in a BLACS call end the whole
 * job (it calls MPI_Abort), so that arguments are checked before.
 *
 * @module
 */
import { noteWaiting } from "../waiting.ts";

/** The C interface of the BLACS. Integers are 32 bits wide. */
export interface BlacsSymbols {
  /** `int Csys2blacs_handle(MPI_Comm)`: the system handle of a communicator, by its native handle. */
  Csys2blacs_handle(communicator: bigint | number): number;
  /** `void Cfree_blacs_system_handle(int handle)` */
  Cfree_blacs_system_handle(handle: number): void;
  /** `void Cblacs_gridmap(int* context, int* map, int ld, int rows, int columns)`: collective over the communicator. */
  Cblacs_gridmap(context: Int32Array, map: Int32Array, leading: number, rows: number, columns: number): void;
  /** `void Cblacs_gridinfo(int context, int* rows, int* columns, int* row, int* column)` */
  Cblacs_gridinfo(
    context: number,
    rows: Int32Array,
    columns: Int32Array,
    row: Int32Array,
    column: Int32Array,
  ): void;
  /** `void Cblacs_gridexit(int context)`: collective over the grid. */
  Cblacs_gridexit(context: number): void;
}

const COMMON = {
  Cfree_blacs_system_handle: { parameters: ["i32"], result: "void" },
  Cblacs_gridmap: { parameters: ["buffer", "buffer", "i32", "i32", "i32"], result: "void" },
  Cblacs_gridinfo: { parameters: ["i32", "buffer", "buffer", "buffer", "buffer"], result: "void" },
  Cblacs_gridexit: { parameters: ["i32"], result: "void" },
} as const satisfies Deno.ForeignLibraryInterface;

/** Communicator handles are pointers in Open MPI. */
const POINTER_HANDLES = {
  ...COMMON,
  Csys2blacs_handle: { parameters: ["u64"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** Communicator handles are integers in MPICH and its relatives. */
const INTEGER_HANDLES = {
  ...COMMON,
  Csys2blacs_handle: { parameters: ["i32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** Open the BLACS of a library file whose MPI has communicator handles of the given kind. */
export function openBlacs(path: string, handles: "u64" | "i32"): BlacsSymbols {
  const { symbols } = handles === "u64" ? Deno.dlopen(path, POINTER_HANDLES) : Deno.dlopen(path, INTEGER_HANDLES);
  const functions = { ...symbols };
  noteWaiting(functions, ["Cblacs_gridmap", "Cblacs_gridexit"]);
  return functions as unknown as BlacsSymbols;
}

/** The shape of a process grid and the ranks in it. */
export interface GridShape {
  readonly rows: number;
  readonly columns: number;
  /** The rank of each process, column by column. */
  readonly ranks: Int32Array<ArrayBuffer>;
}

/**
 * Make a grid: collective over the communicator. Returns the context; -1 on ranks that are not in the grid.
 *
 * The caller has checked that the ranks are distinct and exist, since the BLACS would end the job.
 */
export function createGrid(blacs: BlacsSymbols, systemHandle: number, { rows, columns, ranks }: GridShape): number {
  const context = Int32Array.of(systemHandle);
  blacs.Cblacs_gridmap(context, ranks, rows, rows, columns);
  return context[0];
}
