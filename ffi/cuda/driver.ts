/**
 * The CUDA driver: device names and UUIDs, modules and kernels, stream memory operations.
 *
 * Source: `cuda.h` of CUDA 13.0; what is declared here exists in drivers for CUDA 12 as well. The keys are the names
 * that C programs write; where the header maps such a name to a versioned symbol, `name` is that symbol. The multicast
 * objects of the driver are left out on purpose.
 *
 * @module
 */
import type { EnumValue } from "../enums.ts";
import { noteVersion } from "./library.ts";
import { NativeError } from "../errors.ts";
import { type Library, openLibrary, searchFolders } from "../library.ts";
import { readCString } from "../memory.ts";
import type { StructLayout } from "../struct.ts";

/** The results that programs act on; `cuGetErrorName` names the others (`CUresult`, without `CUDA_`). */
export const CuResult = {
  SUCCESS: 0,
  ERROR_INVALID_VALUE: 1,
  ERROR_OUT_OF_MEMORY: 2,
  ERROR_NOT_INITIALIZED: 3,
  ERROR_DEINITIALIZED: 4,
  ERROR_NO_DEVICE: 100,
  ERROR_INVALID_DEVICE: 101,
  ERROR_INVALID_IMAGE: 200,
  ERROR_INVALID_CONTEXT: 201,
  ERROR_NO_BINARY_FOR_GPU: 209,
  ERROR_INVALID_PTX: 218,
  ERROR_UNSUPPORTED_PTX_VERSION: 222,
  ERROR_NOT_FOUND: 500,
  ERROR_NOT_READY: 600,
  ERROR_ILLEGAL_ADDRESS: 700,
  ERROR_LAUNCH_OUT_OF_RESOURCES: 701,
  ERROR_LAUNCH_FAILED: 719,
  ERROR_NOT_PERMITTED: 800,
  ERROR_NOT_SUPPORTED: 801,
  ERROR_SYSTEM_DRIVER_MISMATCH: 803,
  ERROR_STREAM_CAPTURE_UNSUPPORTED: 900,
  ERROR_STREAM_CAPTURE_INVALIDATED: 901,
  ERROR_UNKNOWN: 999,
} as const;

/** What a device can be asked (`CUdevice_attribute`, without `CU_DEVICE_ATTRIBUTE_`). */
export const CuDeviceAttribute = {
  MAX_THREADS_PER_BLOCK: 1,
  WARP_SIZE: 10,
  MULTIPROCESSOR_COUNT: 16,
  PCI_BUS_ID: 33,
  PCI_DEVICE_ID: 34,
  ASYNC_ENGINE_COUNT: 40,
  UNIFIED_ADDRESSING: 41,
  PCI_DOMAIN_ID: 50,
  COMPUTE_CAPABILITY_MAJOR: 75,
  COMPUTE_CAPABILITY_MINOR: 76,
  COOPERATIVE_LAUNCH: 95,
  MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: 97,
  VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: 102,
  HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: 103,
  MEMORY_POOLS_SUPPORTED: 115,
  GPU_DIRECT_RDMA_SUPPORTED: 116,
  CAN_USE_64_BIT_STREAM_MEM_OPS: 122,
  CAN_USE_STREAM_WAIT_VALUE_NOR: 123,
  HANDLE_TYPE_FABRIC_SUPPORTED: 128,
  MULTICAST_SUPPORTED: 132,
} as const;

/** What a kernel can be asked, and some of it set (`CUfunction_attribute`, without `CU_FUNC_ATTRIBUTE_`). */
export const CuFunctionAttribute = {
  MAX_THREADS_PER_BLOCK: 0,
  SHARED_SIZE_BYTES: 1,
  CONST_SIZE_BYTES: 2,
  LOCAL_SIZE_BYTES: 3,
  NUM_REGS: 4,
  PTX_VERSION: 5,
  BINARY_VERSION: 6,
  CACHE_MODE_CA: 7,
  MAX_DYNAMIC_SHARED_SIZE_BYTES: 8,
  PREFERRED_SHARED_MEMORY_CARVEOUT: 9,
  CLUSTER_SIZE_MUST_BE_SET: 10,
  REQUIRED_CLUSTER_WIDTH: 11,
  REQUIRED_CLUSTER_HEIGHT: 12,
  REQUIRED_CLUSTER_DEPTH: 13,
  NON_PORTABLE_CLUSTER_SIZE_ALLOWED: 14,
  CLUSTER_SCHEDULING_POLICY_PREFERENCE: 15,
} as const;

/** How a stream compares the value it waits for (`CUstreamWaitValue_flags`, without `CU_STREAM_WAIT_VALUE_`). */
export const CuStreamWaitValueFlags = {
  GEQ: 0,
  EQ: 1,
  AND: 2,
  NOR: 3,
  FLUSH: 1073741824,
} as const;

/** Whether a write is ordered after the stream's earlier writes (`CUstreamWriteValue_flags`, without `CU_STREAM_WRITE_VALUE_`). */
export const CuStreamWriteValueFlags = {
  DEFAULT: 0,
  NO_MEMORY_BARRIER: 1,
} as const;

/** One operation of a batch (`CUstreamBatchMemOpType`, without `CU_STREAM_MEM_OP_`). */
export const CuStreamBatchMemOpType = {
  WAIT_VALUE_32: 1,
  WRITE_VALUE_32: 2,
  FLUSH_REMOTE_WRITES: 3,
  WAIT_VALUE_64: 4,
  WRITE_VALUE_64: 5,
  BARRIER: 6,
} as const;

/** Options of `cuModuleLoadDataEx` (`CUjit_option`, without `CU_JIT_`). */
export const CuJitOption = {
  MAX_REGISTERS: 0,
  INFO_LOG_BUFFER: 3,
  INFO_LOG_BUFFER_SIZE_BYTES: 4,
  ERROR_LOG_BUFFER: 5,
  ERROR_LOG_BUFFER_SIZE_BYTES: 6,
  OPTIMIZATION_LEVEL: 7,
  LOG_VERBOSE: 12,
} as const;

/** The elements of a tensor that the hardware copies in boxes (`CUtensorMapDataType`, without `CU_TENSOR_MAP_DATA_TYPE_`). */
export const CuTensorMapDataType = {
  UINT8: 0,
  FLOAT16: 6,
  BFLOAT16: 9,
} as const;
export type CuTensorMapDataType = EnumValue<typeof CuTensorMapDataType>;

/** How elements of several channels lie (`CUtensorMapInterleave`, without `CU_TENSOR_MAP_INTERLEAVE_`). */
export const CuTensorMapInterleave = {
  NONE: 0,
} as const;
export type CuTensorMapInterleave = EnumValue<typeof CuTensorMapInterleave>;

/** How the rows of a box are permuted in shared memory (`CUtensorMapSwizzle`, without `CU_TENSOR_MAP_`). */
export const CuTensorMapSwizzle = {
  SWIZZLE_NONE: 0,
  SWIZZLE_32B: 1,
  SWIZZLE_64B: 2,
  SWIZZLE_128B: 3,
} as const;
export type CuTensorMapSwizzle = EnumValue<typeof CuTensorMapSwizzle>;

/** How many bytes around a box come into the cache (`CUtensorMapL2promotion`, without `CU_TENSOR_MAP_L2_PROMOTION_`). */
export const CuTensorMapL2Promotion = {
  NONE: 0,
  L2_64B: 1,
  L2_128B: 2,
  L2_256B: 3,
} as const;
export type CuTensorMapL2Promotion = EnumValue<typeof CuTensorMapL2Promotion>;

/** What lies outside of a tensor (`CUtensorMapFloatOOBfill`, without `CU_TENSOR_MAP_FLOAT_OOB_FILL_`). */
export const CuTensorMapFloatOobFill = {
  NONE: 0,
} as const;
export type CuTensorMapFloatOobFill = EnumValue<typeof CuTensorMapFloatOobFill>;

/** What the hardware has to know of a tensor to copy boxes of it, opaque; it lies at multiples of 64 bytes. */
export const CU_TENSOR_MAP = {
  name: "CUtensorMap",
  size: 128,
  fields: { opaque: [0, 128] },
} as const satisfies StructLayout;

/** How a kernel is launched beyond its grid (`CUlaunchAttributeID`, without `CU_LAUNCH_ATTRIBUTE_`). */
export const CuLaunchAttributeId = {
  COOPERATIVE: 2,
  PROGRAMMATIC_STREAM_SERIALIZATION: 6,
} as const;

/** One attribute of a launch: `id` says which value it has. */
export const CU_LAUNCH_ATTRIBUTE = {
  name: "CUlaunchAttribute",
  size: 72,
  fields: {
    id: [0, "i32"],
    "value.cooperative": [8, "i32"],
    "value.programmaticStreamSerializationAllowed": [8, "i32"],
  },
} as const satisfies StructLayout;

/** A launch: `attrs` is the address of `numAttrs` attributes. */
export const CU_LAUNCH_CONFIG = {
  name: "CUlaunchConfig",
  size: 56,
  fields: {
    gridDimX: [0, "u32"],
    gridDimY: [4, "u32"],
    gridDimZ: [8, "u32"],
    blockDimX: [12, "u32"],
    blockDimY: [16, "u32"],
    blockDimZ: [20, "u32"],
    sharedMemBytes: [24, "u32"],
    hStream: [32, "u64"],
    attrs: [40, "u64"],
    numAttrs: [48, "u32"],
  },
} as const satisfies StructLayout;

/** One operation of `cuStreamBatchMemOp`; waits and writes have the same layout. */
export const CU_STREAM_BATCH_MEM_OP_PARAMS = {
  name: "CUstreamBatchMemOpParams",
  size: 48,
  fields: {
    operation: [0, "i32"],
    "waitValue.address": [8, "u64"],
    "waitValue.value": [16, "u32"],
    "waitValue.value64": [16, "u64"],
    "waitValue.flags": [24, "u32"],
    "writeValue.address": [8, "u64"],
    "writeValue.value": [16, "u32"],
    "writeValue.value64": [16, "u64"],
    "writeValue.flags": [24, "u32"],
  },
} as const satisfies StructLayout;

/** The functions of the driver. `cuInit` comes first, unless the CUDA runtime has been used. */
// deno-fmt-ignore
export const CUDA_DRIVER_SYMBOLS = {
  // versions and errors
  cuInit: { parameters: [/* Flags */ "u32"], result: "i32" },
  cuDriverGetVersion: { parameters: [/* driverVersion */ "buffer"], result: "i32" },
  cuGetErrorName: { parameters: [/* error */ "i32", /* pStr */ "buffer"], result: "i32" },
  cuGetErrorString: { parameters: [/* error */ "i32", /* pStr */ "buffer"], result: "i32" },

  // devices and the primary context
  cuDeviceGet: { parameters: [/* device */ "buffer", /* ordinal */ "i32"], result: "i32" },
  cuDeviceGetCount: { parameters: [/* count */ "buffer"], result: "i32" },
  cuDeviceGetName: { parameters: [/* name */ "buffer", /* len */ "i32", /* dev */ "i32"], result: "i32" },
  cuDeviceGetUuid: { name: "cuDeviceGetUuid_v2", parameters: [/* uuid */ "buffer", /* dev */ "i32"], result: "i32" },
  cuDeviceTotalMem: { name: "cuDeviceTotalMem_v2", parameters: [/* bytes */ "buffer", /* dev */ "i32"], result: "i32" },
  cuDeviceGetAttribute: { parameters: [/* pi */ "buffer", /* attrib */ "i32", /* dev */ "i32"], result: "i32" },

  // modules and kernels
  cuModuleLoadData: { parameters: [/* module */ "buffer", /* image */ "buffer"], result: "i32" },
  cuModuleLoadDataEx: { result: "i32", parameters: [
    /* module */ "buffer", /* image */ "buffer", /* numOptions */ "u32", /* options */ "buffer",
    /* optionValues */ "buffer",
  ] },
  cuModuleUnload: { parameters: [/* hmod */ "u64"], result: "i32" },
  cuModuleGetFunction: { parameters: [/* hfunc */ "buffer", /* hmod */ "u64", /* name */ "buffer"], result: "i32" },
  cuFuncGetAttribute: { parameters: [/* pi */ "buffer", /* attrib */ "i32", /* hfunc */ "u64"], result: "i32" },
  cuFuncSetAttribute: { parameters: [/* hfunc */ "u64", /* attrib */ "i32", /* value */ "i32"], result: "i32" },
  cuOccupancyMaxActiveBlocksPerMultiprocessor: { result: "i32", parameters: [
    /* numBlocks */ "buffer", /* func */ "u64", /* blockSize */ "i32", /* dynamicSMemSize */ "usize",
  ] },
  cuLaunchKernel: { result: "i32", parameters: [
    /* f */ "u64", /* gridDimX */ "u32", /* gridDimY */ "u32", /* gridDimZ */ "u32", /* blockDimX */ "u32",
    /* blockDimY */ "u32", /* blockDimZ */ "u32", /* sharedMemBytes */ "u32", /* hStream */ "u64",
    /* kernelParams */ "buffer", /* extra */ "buffer",
  ] },
  cuLaunchCooperativeKernel: { result: "i32", parameters: [
    /* f */ "u64", /* gridDimX */ "u32", /* gridDimY */ "u32", /* gridDimZ */ "u32", /* blockDimX */ "u32",
    /* blockDimY */ "u32", /* blockDimZ */ "u32", /* sharedMemBytes */ "u32", /* hStream */ "u64",
    /* kernelParams */ "buffer",
  ] },
  cuLaunchKernelEx: { result: "i32", parameters: [
    /* config */ "buffer", /* f */ "u64", /* kernelParams */ "buffer", /* extra */ "buffer",
  ] },

  // stream memory operations
  cuStreamWaitValue32: { name: "cuStreamWaitValue32_v2", result: "i32", parameters: [
    /* stream */ "u64", /* addr */ "u64", /* value */ "u32", /* flags */ "u32",
  ] },
  cuStreamWaitValue64: { name: "cuStreamWaitValue64_v2", result: "i32", parameters: [
    /* stream */ "u64", /* addr */ "u64", /* value */ "u64", /* flags */ "u32",
  ] },
  cuStreamWriteValue32: { name: "cuStreamWriteValue32_v2", result: "i32", parameters: [
    /* stream */ "u64", /* addr */ "u64", /* value */ "u32", /* flags */ "u32",
  ] },
  cuStreamWriteValue64: { name: "cuStreamWriteValue64_v2", result: "i32", parameters: [
    /* stream */ "u64", /* addr */ "u64", /* value */ "u64", /* flags */ "u32",
  ] },
  cuStreamBatchMemOp: { name: "cuStreamBatchMemOp_v2", result: "i32", parameters: [
    /* stream */ "u64", /* count */ "u32", /* paramArray */ "buffer", /* flags */ "u32",
  ] },

  // virtual memory management
  cuMemGetAddressRange: { name: "cuMemGetAddressRange_v2", result: "i32", parameters: [
    /* pbase */ "buffer", /* psize */ "buffer", /* dptr */ "u64",
  ] },
  cuTensorMapEncodeTiled: { result: "i32", parameters: [
    /* tensorMap */ "buffer", /* tensorDataType */ "i32", /* tensorRank */ "u32", /* globalAddress */ "u64",
    /* globalDim */ "buffer", /* globalStrides */ "buffer", /* boxDim */ "buffer", /* elementStrides */ "buffer",
    /* interleave */ "i32", /* swizzle */ "i32", /* l2Promotion */ "i32", /* oobFill */ "i32",
  ] },
} as const satisfies Deno.ForeignLibraryInterface;

export class CudaDriverError extends NativeError {}

export interface CudaDriver extends Library<typeof CUDA_DRIVER_SYMBOLS> {
  /** The newest CUDA that the driver serves, such as 13000 for 13.0. */
  version: number;
}

let driver: CudaDriver | undefined;

/**
 * The CUDA driver, opened at the first call. It comes with the NVIDIA driver, never with wheels.
 *
 * @throws {LibraryNotFoundError} if the machine has no NVIDIA driver.
 */
export function openCudaDriver(): CudaDriver {
  if (driver) return driver;
  const library = openLibrary({
    name: "CUDA driver",
    files: ["libcuda.so.1"],
    folders: [...searchFolders(), { path: "/usr/local/nvidia/lib64", source: "folder of NVIDIA's containers" }],
    install: "the NVIDIA driver of this machine's distribution, by its administrator",
  }, CUDA_DRIVER_SYMBOLS);
  const version = new Int32Array(1);
  library.symbols.cuDriverGetVersion(version);
  noteVersion(library.name, Math.floor(version[0] / 1000), Math.floor(version[0] % 1000 / 10));
  return driver = { ...library, version: version[0] };
}

export function cudaDriverError(functionName: string, code: number): CudaDriverError {
  const { symbols } = openCudaDriver();
  const text = new BigUint64Array(2);
  symbols.cuGetErrorName(code, text.subarray(0, 1));
  symbols.cuGetErrorString(code, text.subarray(1));
  return new CudaDriverError({
    functionName,
    code,
    symbol: readCString(text[0]) || String(code),
    text: readCString(text[1]) || "an error that this driver does not know",
  });
}

/**
 * Throw the {@linkcode CudaDriverError} for a code other than success.
 *
 * @example
 * ```ts no-eval
 * import { checkCudaDriver, openCudaDriver } from "@distmath/distmath/ffi";
 * checkCudaDriver(openCudaDriver().symbols.cuInit(0), "cuInit");
 * ```
 */
export function checkCudaDriver(code: number, functionName: string): void {
  if (code !== CuResult.SUCCESS) throw cudaDriverError(functionName, code);
}
