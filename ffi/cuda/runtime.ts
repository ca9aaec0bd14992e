/**
 * The CUDA runtime: devices, memory, streams, events, graphs, peers.
 *
 * Source: `cuda_runtime_api.h` and `library_types.h` of CUDA 13.0. In CUDA 12 all of it is the same, but that
 * `cudaPointerAttributes` is shorter and the enums of emulation are missing. `cudaDeviceProp` is not declared, since
 * its layout differs: what it tells is asked for attribute by attribute, and a device's name and UUID come from the
 * driver. Functions that take a callback are not declared either: CUDA would call it from a thread of its own, where
 * JavaScript cannot run.
 *
 * The current device belongs to a thread, so that none of these may be called with `nonblocking`.
 *
 * @module
 */
import type { EnumValue } from "../enums.ts";
import { noteVersion, openCudaLibrary, openGroup } from "./library.ts";
import { NativeError } from "../errors.ts";
import type { Library } from "../library.ts";
import { readCString } from "../memory.ts";
import type { StructLayout } from "../struct.ts";

/** The results that programs act on; `cudaGetErrorName` names the others (`cudaError`, without `cuda`). */
export const CudaStatus = {
  Success: 0,
  ErrorInvalidValue: 1,
  ErrorMemoryAllocation: 2,
  ErrorInitializationError: 3,
  ErrorCudartUnloading: 4,
  ErrorInsufficientDriver: 35,
  ErrorDevicesUnavailable: 46,
  ErrorNoDevice: 100,
  ErrorInvalidDevice: 101,
  ErrorInvalidResourceHandle: 400,
  ErrorNotReady: 600,
  ErrorIllegalAddress: 700,
  ErrorPeerAccessAlreadyEnabled: 704,
  ErrorPeerAccessNotEnabled: 705,
  ErrorLaunchFailure: 719,
  ErrorNotSupported: 801,
  ErrorSystemDriverMismatch: 803,
  ErrorStreamCaptureUnsupported: 900,
  ErrorStreamCaptureInvalidated: 901,
  ErrorGraphExecUpdateFailure: 910,
  ErrorUnknown: 999,
} as const;

/** The direction of a copy (`cudaMemcpyKind`, without `cudaMemcpy`). */
export const CudaMemcpyKind = {
  HostToHost: 0,
  HostToDevice: 1,
  DeviceToHost: 2,
  DeviceToDevice: 3,
  Default: 4,
} as const;
export type CudaMemcpyKind = EnumValue<typeof CudaMemcpyKind>;

/** What a device can be asked (`cudaDeviceAttr`, without `cudaDevAttr`). */
export const CudaDeviceAttribute = {
  MaxThreadsPerBlock: 1,
  MaxSharedMemoryPerBlock: 8,
  WarpSize: 10,
  MultiProcessorCount: 16,
  Integrated: 18,
  CanMapHostMemory: 19,
  ComputeMode: 20,
  EccEnabled: 32,
  PciBusId: 33,
  PciDeviceId: 34,
  L2CacheSize: 38,
  MaxThreadsPerMultiProcessor: 39,
  AsyncEngineCount: 40,
  UnifiedAddressing: 41,
  PciDomainId: 50,
  ComputeCapabilityMajor: 75,
  ComputeCapabilityMinor: 76,
  ManagedMemory: 83,
  CooperativeLaunch: 95,
  MaxSharedMemoryPerBlockOptin: 97,
  HostRegisterSupported: 99,
  MemoryPoolsSupported: 115,
  IpcEventSupport: 125,
} as const;
export type CudaDeviceAttribute = EnumValue<typeof CudaDeviceAttribute>;

/** What the link between two devices can be asked (`cudaDeviceP2PAttr`, without `cudaDevP2PAttr`). */
export const CudaDeviceP2PAttribute = {
  PerformanceRank: 1,
  AccessSupported: 2,
  NativeAtomicSupported: 3,
  CudaArrayAccessSupported: 4,
} as const;

/** What an address points to (`cudaMemoryType`, without `cudaMemoryType`). */
export const CudaMemoryType = {
  Unregistered: 0,
  Host: 1,
  Device: 2,
  Managed: 3,
} as const;

/** Settings and counters of a memory pool (`cudaMemPoolAttr`, without `cudaMemPool`). */
export const CudaMemPoolAttribute = {
  ReuseFollowEventDependencies: 1,
  ReuseAllowOpportunistic: 2,
  ReuseAllowInternalDependencies: 3,
  AttrReleaseThreshold: 4,
  AttrReservedMemCurrent: 5,
  AttrReservedMemHigh: 6,
  AttrUsedMemCurrent: 7,
  AttrUsedMemHigh: 8,
} as const;
export type CudaMemPoolAttribute = EnumValue<typeof CudaMemPoolAttribute>;

/** Which calls of other threads a capture forbids (`cudaStreamCaptureMode`, without `cudaStreamCaptureMode`). */
export const CudaStreamCaptureMode = {
  Global: 0,
  ThreadLocal: 1,
  Relaxed: 2,
} as const;

/** Whether a stream is being captured (`cudaStreamCaptureStatus`, without `cudaStreamCaptureStatus`). */
export const CudaStreamCaptureStatus = {
  None: 0,
  Active: 1,
  Invalidated: 2,
} as const;

/** How an update of an executable graph ended (`cudaGraphExecUpdateResult`, without `cudaGraphExecUpdate`). */
export const CudaGraphExecUpdateResult = {
  Success: 0,
  Error: 1,
  ErrorTopologyChanged: 2,
  ErrorNodeTypeChanged: 3,
  ErrorFunctionChanged: 4,
  ErrorParametersChanged: 5,
  ErrorNotSupported: 6,
  ErrorUnsupportedFunctionChange: 7,
  ErrorAttributesChanged: 8,
} as const;

/** The type of a matrix element, for all libraries (`cudaDataType_t`, without `CUDA_`). */
export const CudaDataType = {
  R_32F: 0,
  R_64F: 1,
  R_16F: 2,
  R_8I: 3,
  C_32F: 4,
  C_64F: 5,
  C_16F: 6,
  C_8I: 7,
  R_8U: 8,
  C_8U: 9,
  R_32I: 10,
  C_32I: 11,
  R_32U: 12,
  C_32U: 13,
  R_16BF: 14,
  C_16BF: 15,
  R_4I: 16,
  C_4I: 17,
  R_4U: 18,
  C_4U: 19,
  R_16I: 20,
  C_16I: 21,
  R_16U: 22,
  C_16U: 23,
  R_64I: 24,
  C_64I: 25,
  R_64U: 26,
  C_64U: 27,
  R_8F_E4M3: 28,
  R_8F_UE4M3: 28,
  R_8F_E5M2: 29,
  R_8F_UE8M0: 30,
  R_6F_E2M3: 31,
  R_6F_E3M2: 32,
  R_4F_E2M1: 33,
} as const;
export type CudaDataType = EnumValue<typeof CudaDataType>;

/** Flags of streams (without `cudaStream`). */
export const CudaStreamFlags = {
  Default: 0,
  NonBlocking: 1,
} as const;

/** Flags of events (without `cudaEvent`). */
export const CudaEventFlags = {
  Default: 0,
  BlockingSync: 1,
  DisableTiming: 2,
  Interprocess: 4,
  RecordExternal: 1,
  WaitExternal: 1,
} as const;

/** Flags of pinned host memory (without `cudaHost`). */
export const CudaHostFlags = {
  AllocDefault: 0,
  AllocPortable: 1,
  AllocMapped: 2,
  AllocWriteCombined: 4,
  RegisterDefault: 0,
  RegisterPortable: 1,
  RegisterMapped: 2,
  RegisterReadOnly: 8,
} as const;

/** The flag of `cudaIpcOpenMemHandle` (without `cudaIpcMem`). */
export const CudaIpcMemFlags = {
  LazyEnablePeerAccess: 1,
} as const;

/** What `cudaPointerGetAttributes` tells about an address. */
export const CUDA_POINTER_ATTRIBUTES = {
  name: "cudaPointerAttributes",
  size: 88,
  fields: {
    type: [0, "i32"],
    device: [4, "i32"],
    devicePointer: [8, "u64"],
    hostPointer: [16, "u64"],
  },
} as const satisfies StructLayout;

/** Device memory of this process, as another process of the host opens it. */
export const CUDA_IPC_MEM_HANDLE = {
  name: "cudaIpcMemHandle_t",
  size: 64,
  fields: { reserved: [0, 64] },
} as const satisfies StructLayout;

/** An event of this process, as another process of the host opens it. */
export const CUDA_IPC_EVENT_HANDLE = {
  name: "cudaIpcEventHandle_t",
  size: 64,
  fields: { reserved: [0, 64] },
} as const satisfies StructLayout;

/** How an update of an executable graph ended, and at which node. */
export const CUDA_GRAPH_EXEC_UPDATE_RESULT_INFO = {
  name: "cudaGraphExecUpdateResultInfo",
  size: 24,
  fields: {
    result: [0, "i32"],
    errorNode: [8, "u64"],
    errorFromNode: [16, "u64"],
  },
} as const satisfies StructLayout;

/** A 64-byte handle, passed by value. */
const IPC_HANDLE = { struct: ["u64", "u64", "u64", "u64", "u64", "u64", "u64", "u64"] } as const;

/** The functions that every program with a GPU uses. `…FromBuffer` and `…ToBuffer` take host memory as a buffer. */
// deno-fmt-ignore
export const CUDA_RUNTIME_SYMBOLS = {
  // versions and errors
  cudaDriverGetVersion: { parameters: [/* driverVersion */ "buffer"], result: "i32" },
  cudaRuntimeGetVersion: { parameters: [/* runtimeVersion */ "buffer"], result: "i32" },
  cudaGetErrorName: { parameters: [/* error */ "i32"], result: "u64" },
  cudaGetErrorString: { parameters: [/* error */ "i32"], result: "u64" },
  cudaGetLastError: { parameters: [], result: "i32" },

  // devices
  cudaGetDeviceCount: { parameters: [/* count */ "buffer"], result: "i32" },
  cudaSetDevice: { parameters: [/* device */ "i32"], result: "i32" },
  cudaDeviceGetAttribute: { parameters: [/* value */ "buffer", /* attr */ "i32", /* device */ "i32"], result: "i32" },
  cudaDeviceGetP2PAttribute: { result: "i32", parameters: [
    /* value */ "buffer", /* attr */ "i32", /* srcDevice */ "i32", /* dstDevice */ "i32",
  ] },
  cudaDeviceSynchronize: { parameters: [], result: "i32" },
  cudaMemGetInfo: { parameters: [/* free */ "buffer", /* total */ "buffer"], result: "i32" },

  // device and host memory
  cudaMalloc: { parameters: [/* devPtr */ "buffer", /* size */ "usize"], result: "i32" },
  cudaFree: { parameters: [/* devPtr */ "u64"], result: "i32" },
  cudaHostAlloc: { parameters: [/* pHost */ "buffer", /* size */ "usize", /* flags */ "u32"], result: "i32" },
  cudaFreeHost: { parameters: [/* ptr */ "u64"], result: "i32" },
  cudaPointerGetAttributes: { parameters: [/* attributes */ "buffer", /* ptr */ "u64"], result: "i32" },
  // stream-ordered allocation
  cudaMallocAsync: { parameters: [/* devPtr */ "buffer", /* size */ "usize", /* hStream */ "u64"], result: "i32" },
  cudaFreeAsync: { parameters: [/* devPtr */ "u64", /* hStream */ "u64"], result: "i32" },
  cudaDeviceGetDefaultMemPool: { parameters: [/* memPool */ "buffer", /* device */ "i32"], result: "i32" },
  cudaMemPoolTrimTo: { parameters: [/* memPool */ "u64", /* minBytesToKeep */ "usize"], result: "i32" },
  cudaMemPoolGetAttribute: { parameters: [/* memPool */ "u64", /* attr */ "i32", /* value */ "buffer"], result: "i32" },
  cudaMemPoolSetAttribute: { parameters: [/* memPool */ "u64", /* attr */ "i32", /* value */ "buffer"], result: "i32" },
  // copies and fills
  cudaMemcpy: { parameters: [/* dst */ "u64", /* src */ "u64", /* count */ "usize", /* kind */ "i32"], result: "i32" },
  cudaMemcpyAsync: { result: "i32", parameters: [
    /* dst */ "u64", /* src */ "u64", /* count */ "usize", /* kind */ "i32", /* stream */ "u64",
  ] },
  cudaMemcpyPeerAsync: { result: "i32", parameters: [
    /* dst */ "u64", /* dstDevice */ "i32", /* src */ "u64", /* srcDevice */ "i32", /* count */ "usize",
    /* stream */ "u64",
  ] },
  cudaMemcpy2D: { result: "i32", parameters: [
    /* dst */ "u64", /* dpitch */ "usize", /* src */ "u64", /* spitch */ "usize", /* width */ "usize",
    /* height */ "usize", /* kind */ "i32",
  ] },
  cudaMemcpy2DAsync: { result: "i32", parameters: [
    /* dst */ "u64", /* dpitch */ "usize", /* src */ "u64", /* spitch */ "usize", /* width */ "usize",
    /* height */ "usize", /* kind */ "i32", /* stream */ "u64",
  ] },
  cudaMemsetAsync: { result: "i32", parameters: [
    /* devPtr */ "u64", /* value */ "i32", /* count */ "usize", /* stream */ "u64",
  ] },
  cudaMemset2DAsync: { result: "i32", parameters: [
    /* devPtr */ "u64", /* pitch */ "usize", /* value */ "i32", /* width */ "usize", /* height */ "usize",
    /* stream */ "u64",
  ] },

  // streams and events
  cudaStreamCreateWithFlags: { parameters: [/* pStream */ "buffer", /* flags */ "u32"], result: "i32" },
  cudaStreamCreateWithPriority: { result: "i32", parameters: [
    /* pStream */ "buffer", /* flags */ "u32", /* priority */ "i32",
  ] },
  cudaStreamDestroy: { parameters: [/* stream */ "u64"], result: "i32" },
  cudaStreamSynchronize: { parameters: [/* stream */ "u64"], result: "i32" },
  cudaStreamQuery: { parameters: [/* stream */ "u64"], result: "i32" },
  cudaStreamWaitEvent: { parameters: [/* stream */ "u64", /* event */ "u64", /* flags */ "u32"], result: "i32" },
  cudaEventCreateWithFlags: { parameters: [/* event */ "buffer", /* flags */ "u32"], result: "i32" },
  cudaEventDestroy: { parameters: [/* event */ "u64"], result: "i32" },
  cudaEventRecord: { parameters: [/* event */ "u64", /* stream */ "u64"], result: "i32" },
  cudaEventQuery: { parameters: [/* event */ "u64"], result: "i32" },
  cudaEventSynchronize: { parameters: [/* event */ "u64"], result: "i32" },
  cudaEventElapsedTime: { parameters: [/* ms */ "buffer", /* start */ "u64", /* end */ "u64"], result: "i32" },

  // peers and other processes
  cudaDeviceCanAccessPeer: { result: "i32", parameters: [
    /* canAccessPeer */ "buffer", /* device */ "i32", /* peerDevice */ "i32",
  ] },
  cudaDeviceEnablePeerAccess: { parameters: [/* peerDevice */ "i32", /* flags */ "u32"], result: "i32" },
  cudaDeviceDisablePeerAccess: { parameters: [/* peerDevice */ "i32"], result: "i32" },
  cudaIpcGetMemHandle: { parameters: [/* handle */ "buffer", /* devPtr */ "u64"], result: "i32" },
  cudaIpcOpenMemHandle: { result: "i32", parameters: [
    /* devPtr */ "buffer", /* handle */ IPC_HANDLE, /* flags */ "u32",
  ] },
  cudaIpcCloseMemHandle: { parameters: [/* devPtr */ "u64"], result: "i32" },
  cudaIpcGetEventHandle: { parameters: [/* handle */ "buffer", /* event */ "u64"], result: "i32" },
  cudaIpcOpenEventHandle: { parameters: [/* event */ "buffer", /* handle */ IPC_HANDLE], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** Stream capture and graphs. */
// deno-fmt-ignore
export const CUDA_GRAPH_SYMBOLS = {
  cudaStreamBeginCapture: { parameters: [/* stream */ "u64", /* mode */ "i32"], result: "i32" },
  cudaStreamEndCapture: { parameters: [/* stream */ "u64", /* pGraph */ "buffer"], result: "i32" },
  cudaStreamIsCapturing: { parameters: [/* stream */ "u64", /* pCaptureStatus */ "buffer"], result: "i32" },
  cudaGraphInstantiate: { result: "i32", parameters: [
    /* pGraphExec */ "buffer", /* graph */ "u64", /* flags */ "u64",
  ] },
  cudaGraphLaunch: { parameters: [/* graphExec */ "u64", /* stream */ "u64"], result: "i32" },
  cudaGraphExecUpdate: { result: "i32", parameters: [
    /* hGraphExec */ "u64", /* hGraph */ "u64", /* resultInfo */ "buffer",
  ] },
  cudaGraphExecDestroy: { parameters: [/* graphExec */ "u64"], result: "i32" },
  cudaGraphDestroy: { parameters: [/* graph */ "u64"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

export class CudaError extends NativeError {}

export interface CudaRuntime extends Library<typeof CUDA_RUNTIME_SYMBOLS> {
  /** The runtime's version, such as 13000 for 13.0. */
  version: number;
}

let runtime: CudaRuntime | undefined;
let graphs: Deno.DynamicLibrary<typeof CUDA_GRAPH_SYMBOLS>["symbols"] | undefined;

/**
 * The CUDA runtime, opened at the first call. This needs no GPU; the first call that uses one does.
 *
 * @throws {LibraryNotFoundError} if it is not installed.
 */
export function openCudaRuntime(): CudaRuntime {
  if (runtime) return runtime;
  const library = openCudaLibrary({
    name: "CUDA runtime",
    files: ["libcudart.so.13", "libcudart.so.12"],
    wheelFolders: ["cu13/lib", "cuda_runtime/lib"],
  }, CUDA_RUNTIME_SYMBOLS);
  const version = new Int32Array(1);
  library.symbols.cudaRuntimeGetVersion(version);
  noteVersion(library.name, Math.floor(version[0] / 1000), Math.floor(version[0] % 1000 / 10));
  return runtime = { ...library, version: version[0] };
}

/** Stream capture and graphs of {@linkcode openCudaRuntime}'s library. */
export function openCudaGraphs(): Deno.DynamicLibrary<typeof CUDA_GRAPH_SYMBOLS>["symbols"] {
  return graphs ??= openGroup(openCudaRuntime(), CUDA_GRAPH_SYMBOLS);
}

const HINTS: Readonly<Record<number, string>> = {
  [CudaStatus.ErrorMemoryAllocation]: "Free device memory, or use smaller arrays or more GPUs.",
  [CudaStatus.ErrorInsufficientDriver]: "Update the NVIDIA driver, or install the libraries of an older CUDA.",
  [CudaStatus.ErrorNoDevice]: "Check nvidia-smi and CUDA_VISIBLE_DEVICES.",
  [CudaStatus.ErrorDevicesUnavailable]: "Another process may hold the GPU exclusively; check nvidia-smi.",
};

function cudaError(functionName: string, code: number, hint: string | undefined = HINTS[code]): CudaError {
  const { symbols } = openCudaRuntime();
  // Told here: a library that asks for the last error would take it for one of its own.
  symbols.cudaGetLastError();
  return new CudaError({
    functionName,
    code,
    symbol: readCString(symbols.cudaGetErrorName(code)),
    text: readCString(symbols.cudaGetErrorString(code)),
    hint,
  });
}

/**
 * Throw the {@linkcode CudaError} for a code other than success.
 *
 * @example
 * ```ts no-eval
 * import { checkCuda, openCudaRuntime } from "@distmath/distmath/ffi";
 * const count = new Int32Array(1);
 * checkCuda(openCudaRuntime().symbols.cudaGetDeviceCount(count), "cudaGetDeviceCount");
 * ```
 */
export function checkCuda(code: number, functionName: string): void {
  if (code !== CudaStatus.Success) throw cudaError(functionName, code);
}
