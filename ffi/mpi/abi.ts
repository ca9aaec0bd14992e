/**
 * What an MPI's binary interface (ABI) consists of. MPI fixes the C functions, but not the width of handles, the values of
 * constants or the layout of `MPI_Status`: these differ between Open MPI, the MPICH family and MPI 5's standard ABI.
 *
 * @module
 */

/** An MPI handle: a 32-bit integer (a number) in the MPICH family, pointer-sized (a bigint) elsewhere. */
export type Handle = number | bigint;

/** The element types that messages and reductions are made of. */
export type ElementType =
  | "int8"
  | "uint8"
  | "int16"
  | "uint16"
  | "int32"
  | "uint32"
  | "int64"
  | "uint64"
  | "float32"
  | "float64";

/** The reductions, under MPI's names in lower case: `"land"` is `MPI_LAND`, logical and; `"bxor"` is `MPI_BXOR`. */
export type ReduceOperation = "sum" | "prod" | "min" | "max" | "land" | "lor" | "lxor" | "band" | "bor" | "bxor";

/** The constants of `mpi.h` (`anySource` is `MPI_ANY_SOURCE`), which each ABI numbers in its own way. */
export interface MpiConstants {
  world: Handle;
  self: Handle;
  nullCommunicator: Handle;
  nullInfo: Handle;
  errorsReturn: Handle;
  /** `MPI_INT8_T`, …, `MPI_DOUBLE`. */
  types: Readonly<Record<ElementType, Handle>>;
  /** `MPI_SUM`, …. */
  operations: Readonly<Record<ReduceOperation, Handle>>;
  inPlace: bigint;
  anySource: number;
  anyTag: number;
  nullProcess: number;
  undefined: number;
  /** `MPI_COMM_TYPE_SHARED`. */
  sharedMemory: number;
  threadSerialized: number;
}

/** Where the fields of `MPI_Status` lie, in 32-bit words. */
export interface StatusLayout {
  /** The length of a status. */
  words: number;
  source: number;
  tag: number;
  /** The bytes that came; left out where only MPI_Get_count tells. */
  bytes?: (status: Int32Array) => number;
}

/** What the MPIs that have an ABI in common agree on. */
export interface Abi {
  name: "open_mpi" | "mpich" | "standard";
  /** The C type of handles. */
  handle: "i32" | "u64";
  constants: MpiConstants;
  status: StatusLayout;
  /** The symbolic name of each error class, such as `MPI_ERR_TRUNCATE`, by number. */
  errorClasses: readonly string[];
}

/** Error classes from a list of names without `MPI_ERR_`, the first of which has number 1. */
export function errorClasses(names: string): string[] {
  return ["MPI_SUCCESS", ...names.trim().split(/\s+/).map((name) => `MPI_ERR_${name}`)];
}
