/**
 * The binary interface of the MPICH family (MPICH 3 to 5, Intel MPI, Cray MPICH, MVAPICH): handles are 32-bit integers.
 * Source: MPICH's `mpi.h`.
 *
 * @module
 */
import { type Abi, errorClasses } from "./abi.ts";

/** A handle as C's `int`, which is negative when its highest bit is set. */
const int = (handle: number) => handle | 0;

/** The interface that the whole family shares. */
export const mpichAbi: Abi = {
  name: "mpich",
  handle: "i32",
  constants: {
    world: int(0x44000000),
    self: int(0x44000001),
    nullCommunicator: int(0x04000000),
    nullInfo: int(0x1c000000),
    errorsReturn: int(0x54000001),
    types: {
      int8: int(0x4c000137),
      uint8: int(0x4c00013b),
      int16: int(0x4c000238),
      uint16: int(0x4c00023c),
      int32: int(0x4c000439),
      uint32: int(0x4c00043d),
      int64: int(0x4c00083a),
      uint64: int(0x4c00083e),
      float32: int(0x4c00040a),
      float64: int(0x4c00080b),
    },
    operations: {
      max: int(0x58000001),
      min: int(0x58000002),
      sum: int(0x58000003),
      prod: int(0x58000004),
      land: int(0x58000005),
      band: int(0x58000006),
      lor: int(0x58000007),
      bor: int(0x58000008),
      lxor: int(0x58000009),
      bxor: int(0x5800000a),
    },
    inPlace: -1n,
    anySource: -2,
    anyTag: -1,
    nullProcess: -1,
    undefined: -32766,
    sharedMemory: 1,
    threadSerialized: 2,
  },
  // It begins with `count_lo` and `count_hi_and_cancelled`, whose lowest bit says whether it was cancelled.
  status: { words: 5, source: 2, tag: 3, bytes: (words) => (words[0] >>> 0) + (words[1] >>> 1) * 2 ** 32 },
  errorClasses: errorClasses(`
    BUFFER COUNT TYPE TAG COMM RANK ROOT GROUP OP TOPOLOGY DIMS ARG UNKNOWN TRUNCATE OTHER INTERN IN_STATUS PENDING
    REQUEST ACCESS AMODE BAD_FILE CONVERSION DUP_DATAREP FILE_EXISTS FILE_IN_USE FILE INFO INFO_KEY INFO_VALUE
    INFO_NOKEY IO NAME NO_MEM NOT_SAME NO_SPACE NO_SUCH_FILE PORT QUOTA READ_ONLY SERVICE SPAWN UNSUPPORTED_DATAREP
    UNSUPPORTED_OPERATION WIN BASE LOCKTYPE KEYVAL RMA_CONFLICT RMA_SYNC SIZE DISP ASSERT`),
};
