/**
 * The binary interface of Open MPI 4 and 5: a handle is the address of a struct, and those of the predefined objects are
 * exported symbols. Source: Open MPI's `mpi.h`.
 *
 * @module
 */
import { addressOfPointer } from "../memory.ts";
import { type Abi, errorClasses } from "./abi.ts";

const HANDLES = {
  ompi_mpi_comm_world: { type: "pointer" },
  ompi_mpi_comm_self: { type: "pointer" },
  ompi_mpi_comm_null: { type: "pointer" },
  ompi_mpi_info_null: { type: "pointer" },
  ompi_mpi_errors_return: { type: "pointer" },
  ompi_mpi_int8_t: { type: "pointer" },
  ompi_mpi_uint8_t: { type: "pointer" },
  ompi_mpi_int16_t: { type: "pointer" },
  ompi_mpi_uint16_t: { type: "pointer" },
  ompi_mpi_int32_t: { type: "pointer" },
  ompi_mpi_uint32_t: { type: "pointer" },
  ompi_mpi_int64_t: { type: "pointer" },
  ompi_mpi_uint64_t: { type: "pointer" },
  ompi_mpi_float: { type: "pointer" },
  ompi_mpi_double: { type: "pointer" },
  ompi_mpi_op_sum: { type: "pointer" },
  ompi_mpi_op_prod: { type: "pointer" },
  ompi_mpi_op_min: { type: "pointer" },
  ompi_mpi_op_max: { type: "pointer" },
  ompi_mpi_op_land: { type: "pointer" },
  ompi_mpi_op_lor: { type: "pointer" },
  ompi_mpi_op_lxor: { type: "pointer" },
  ompi_mpi_op_band: { type: "pointer" },
  ompi_mpi_op_bor: { type: "pointer" },
  ompi_mpi_op_bxor: { type: "pointer" },
} as const satisfies Deno.ForeignLibraryInterface;

/** The interface of the Open MPI library in the file `path`. */
export function openMpiAbi(path: string): Abi {
  const { symbols } = Deno.dlopen(path, HANDLES);
  const handle = (name: keyof typeof HANDLES) => addressOfPointer(symbols[name]);
  return {
    name: "open_mpi",
    handle: "u64",
    constants: {
      world: handle("ompi_mpi_comm_world"),
      self: handle("ompi_mpi_comm_self"),
      nullCommunicator: handle("ompi_mpi_comm_null"),
      nullInfo: handle("ompi_mpi_info_null"),
      errorsReturn: handle("ompi_mpi_errors_return"),
      types: {
        int8: handle("ompi_mpi_int8_t"),
        uint8: handle("ompi_mpi_uint8_t"),
        int16: handle("ompi_mpi_int16_t"),
        uint16: handle("ompi_mpi_uint16_t"),
        int32: handle("ompi_mpi_int32_t"),
        uint32: handle("ompi_mpi_uint32_t"),
        int64: handle("ompi_mpi_int64_t"),
        uint64: handle("ompi_mpi_uint64_t"),
        float32: handle("ompi_mpi_float"),
        float64: handle("ompi_mpi_double"),
      },
      operations: {
        sum: handle("ompi_mpi_op_sum"),
        prod: handle("ompi_mpi_op_prod"),
        min: handle("ompi_mpi_op_min"),
        max: handle("ompi_mpi_op_max"),
        land: handle("ompi_mpi_op_land"),
        lor: handle("ompi_mpi_op_lor"),
        lxor: handle("ompi_mpi_op_lxor"),
        band: handle("ompi_mpi_op_band"),
        bor: handle("ompi_mpi_op_bor"),
        bxor: handle("ompi_mpi_op_bxor"),
      },
      inPlace: 1n,
      anySource: -1,
      anyTag: -1,
      nullProcess: -2,
      undefined: -32766,
      sharedMemory: 0,
      threadSerialized: 2,
    },
    // The fourth word is `_cancelled`, then comes `size_t _ucount`.
    status: { words: 6, source: 0, tag: 1, bytes: (words) => (words[4] >>> 0) + words[5] * 2 ** 32 },
    errorClasses: errorClasses(`
      BUFFER COUNT TYPE TAG COMM RANK REQUEST ROOT GROUP OP TOPOLOGY DIMS ARG UNKNOWN TRUNCATE OTHER INTERN IN_STATUS
      PENDING ACCESS AMODE ASSERT BAD_FILE BASE CONVERSION DISP DUP_DATAREP FILE_EXISTS FILE_IN_USE FILE INFO_KEY
      INFO_NOKEY INFO_VALUE INFO IO KEYVAL LOCKTYPE NAME NO_MEM NOT_SAME NO_SPACE NO_SUCH_FILE PORT QUOTA READ_ONLY
      RMA_CONFLICT RMA_SYNC SERVICE SIZE SPAWN UNSUPPORTED_DATAREP UNSUPPORTED_OPERATION WIN`),
  };
}
