/**
 * The standard binary interface of MPI 5.0, which `libmpi_abi.so` provides: handles are pointer-sized, and those of the
 * predefined objects are small integers. Source: MPI 5.0, chapter 20 and appendix A; MPICH's `mpi_abi.h`.
 *
 * @module
 */
import { type Abi, errorClasses } from "./abi.ts";

export const standardAbi: Abi = {
  name: "standard",
  handle: "u64",
  constants: {
    world: 0x101n,
    self: 0x102n,
    nullCommunicator: 0x100n,
    nullInfo: 0x130n,
    errorsReturn: 0x143n,
    types: {
      int8: 0x240n,
      uint8: 0x241n,
      int16: 0x248n,
      uint16: 0x249n,
      int32: 0x250n,
      uint32: 0x251n,
      int64: 0x258n,
      uint64: 0x259n,
      float32: 0x210n,
      float64: 0x214n,
    },
    operations: {
      sum: 0x21n,
      min: 0x22n,
      max: 0x23n,
      prod: 0x24n,
      band: 0x28n,
      bor: 0x29n,
      bxor: 0x2an,
      land: 0x30n,
      lor: 0x31n,
      lxor: 0x32n,
    },
    inPlace: 1n,
    anySource: -1,
    anyTag: -2,
    nullProcess: -3,
    undefined: -32766,
    sharedMemory: 221,
    threadSerialized: 2048,
  },
  status: { words: 8, source: 0, tag: 1 },
  errorClasses: errorClasses(`
    BUFFER COUNT TYPE TAG COMM RANK REQUEST ROOT GROUP OP TOPOLOGY DIMS ARG UNKNOWN TRUNCATE OTHER INTERN PENDING
    IN_STATUS ACCESS AMODE ASSERT BAD_FILE BASE CONVERSION DISP DUP_DATAREP FILE_EXISTS FILE_IN_USE FILE INFO_KEY
    INFO_NOKEY INFO_VALUE INFO IO KEYVAL LOCKTYPE NAME NO_MEM NOT_SAME NO_SPACE NO_SUCH_FILE PORT QUOTA READ_ONLY
    RMA_ATTACH RMA_CONFLICT RMA_RANGE RMA_SHARED RMA_SYNC SERVICE SIZE SPAWN UNSUPPORTED_DATAREP
    UNSUPPORTED_OPERATION WIN RMA_FLAVOR PROC_ABORTED VALUE_TOO_LARGE SESSION ERRHANDLER ABI`),
};
