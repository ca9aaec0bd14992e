/**
 * Everything that `ffi/` declares of NVIDIA's libraries, and of the FFTW3 interface, with the C headers that it is checked
 * against.
 *
 * @module
 */
import * as cublaslt from "../../ffi/cuda/cublaslt.ts";
import * as cublasmp from "../../ffi/cuda/cublasmp.ts";
import * as cufft from "../../ffi/cuda/cufft.ts";
import * as cufftmp from "../../ffi/cuda/cufftmp.ts";
import * as driver from "../../ffi/cuda/driver.ts";
import * as runtime from "../../ffi/cuda/runtime.ts";
import * as nccl from "../../ffi/cuda/nccl.ts";
import * as nvrtc from "../../ffi/cuda/nvrtc.ts";
import * as nvshmem from "../../ffi/cuda/nvshmem.ts";
import * as fftw from "../../ffi/fft/fftw.ts";
import type { StructLayout } from "../../ffi/struct.ts";

/** The declarations of one library. */
export interface LibraryDeclaration {
  /** The name of the file in `ffi/`. */
  name: string;
  /** The headers to include. */
  headers: readonly string[];
  /** The shipped library inside the wheels; `null` for the driver, which no wheel carries, and for MKL, which is large. */
  library: string | null;
  /** The symbol tables. */
  tables: Record<string, Deno.ForeignLibraryInterface>;
  /** Enums, each with the prefix that its keys lack in C. */
  enums: readonly (readonly [prefix: string, values: Readonly<Record<string, number>>])[];
  /** Structs. */
  structs: readonly StructLayout[];
}

/** All libraries. */
export const DECLARATIONS: readonly LibraryDeclaration[] = [
  {
    name: "cuda_runtime",
    headers: ["cuda_runtime_api.h", "library_types.h"],
    library: "nvidia/cu13/lib/libcudart.so.13",
    tables: { CUDA_RUNTIME_SYMBOLS: runtime.CUDA_RUNTIME_SYMBOLS, CUDA_GRAPH_SYMBOLS: runtime.CUDA_GRAPH_SYMBOLS },
    enums: [
      ["cuda", runtime.CudaStatus],
      ["cudaMemcpy", runtime.CudaMemcpyKind],
      ["cudaDevAttr", runtime.CudaDeviceAttribute],
      ["cudaDevP2PAttr", runtime.CudaDeviceP2PAttribute],
      ["cudaMemoryType", runtime.CudaMemoryType],
      ["cudaMemPool", runtime.CudaMemPoolAttribute],
      ["cudaStreamCaptureMode", runtime.CudaStreamCaptureMode],
      ["cudaStreamCaptureStatus", runtime.CudaStreamCaptureStatus],
      ["cudaGraphExecUpdate", runtime.CudaGraphExecUpdateResult],
      ["CUDA_", runtime.CudaDataType],
      ["cudaStream", runtime.CudaStreamFlags],
      ["cudaEvent", runtime.CudaEventFlags],
      ["cudaHost", runtime.CudaHostFlags],
      ["cudaIpcMem", runtime.CudaIpcMemFlags],
    ],
    structs: [
      runtime.CUDA_POINTER_ATTRIBUTES,
      runtime.CUDA_IPC_MEM_HANDLE,
      runtime.CUDA_IPC_EVENT_HANDLE,
      runtime.CUDA_GRAPH_EXEC_UPDATE_RESULT_INFO,
    ],
  },
  {
    name: "cuda_driver",
    headers: ["cuda.h"],
    library: null,
    tables: { CUDA_DRIVER_SYMBOLS: driver.CUDA_DRIVER_SYMBOLS },
    enums: [
      ["CUDA_", driver.CuResult],
      ["CU_DEVICE_ATTRIBUTE_", driver.CuDeviceAttribute],
      ["CU_FUNC_ATTRIBUTE_", driver.CuFunctionAttribute],
      ["CU_STREAM_WAIT_VALUE_", driver.CuStreamWaitValueFlags],
      ["CU_STREAM_WRITE_VALUE_", driver.CuStreamWriteValueFlags],
      ["CU_STREAM_MEM_OP_", driver.CuStreamBatchMemOpType],
      ["CU_JIT_", driver.CuJitOption],
      ["CU_TENSOR_MAP_DATA_TYPE_", driver.CuTensorMapDataType],
      ["CU_TENSOR_MAP_INTERLEAVE_", driver.CuTensorMapInterleave],
      ["CU_TENSOR_MAP_", driver.CuTensorMapSwizzle],
      ["CU_TENSOR_MAP_L2_PROMOTION_", driver.CuTensorMapL2Promotion],
      ["CU_TENSOR_MAP_FLOAT_OOB_FILL_", driver.CuTensorMapFloatOobFill],
      ["CU_LAUNCH_ATTRIBUTE_", driver.CuLaunchAttributeId],
    ],
    structs: [
      driver.CU_STREAM_BATCH_MEM_OP_PARAMS,
      driver.CU_TENSOR_MAP,
      driver.CU_LAUNCH_ATTRIBUTE,
      driver.CU_LAUNCH_CONFIG,
    ],
  },
  {
    name: "nvrtc",
    headers: ["nvrtc.h"],
    library: "nvidia/cu13/lib/libnvrtc.so.13",
    tables: { NVRTC_SYMBOLS: nvrtc.NVRTC_SYMBOLS },
    enums: [["NVRTC_", nvrtc.NvrtcResult]],
    structs: [],
  },
  {
    name: "nccl",
    headers: ["nccl.h", "nccl_device/core.h"],
    library: "nvidia/nccl/lib/libnccl.so.2",
    tables: { NCCL_SYMBOLS: nccl.NCCL_SYMBOLS },
    enums: [
      ["nccl", nccl.NcclResult],
      ["nccl", nccl.NcclDataType],
      ["nccl", nccl.NcclRedOp],
      ["ncclScalar", nccl.NcclScalarResidence],
      ["ncclStat", nccl.NcclCommMemStat],
      ["NCCL_WIN_", nccl.NcclWindowFlags],
      ["NCCL_CTA_POLICY_", nccl.NcclCtaPolicy],
      ["NCCL_SHRINK_", nccl.NcclShrinkFlags],
      ["NCCL_", nccl.NcclConstant],
    ],
    structs: [
      nccl.NCCL_UNIQUE_ID,
      nccl.NCCL_CONFIG,
      nccl.NCCL_COMM_PROPERTIES,
      nccl.NCCL_SIM_INFO,
      nccl.NCCL_WAIT_SIGNAL_DESC,
    ],
  },
  {
    name: "nvshmem",
    headers: ["nvshmem_host.h"],
    library: "nvidia/nvshmem/lib/libnvshmem_host.so.3",
    tables: {
      NVSHMEM_SYMBOLS: nvshmem.NVSHMEM_SYMBOLS,
      NVSHMEM_REDUCTION_SYMBOLS: nvshmem.NVSHMEM_REDUCTION_SYMBOLS,
    },
    enums: [
      ["NVSHMEMX_", nvshmem.NvshmemStatus],
      ["NVSHMEM_STATUS_", nvshmem.NvshmemInitStatus],
      ["NVSHMEMX_INIT_", nvshmem.NvshmemInitFlags],
      ["", nvshmem.NvshmemTeam],
      ["NVSHMEM_SIGNAL_", nvshmem.NvshmemSignalOp],
      ["NVSHMEM_CMP_", nvshmem.NvshmemCompare],
    ],
    structs: [nvshmem.NVSHMEM_UNIQUE_ID, nvshmem.NVSHMEM_INIT_ATTR, nvshmem.NVSHMEM_TEAM_CONFIG],
  },
  {
    name: "cublaslt",
    headers: ["cublasLt.h", "cublas_v2.h"],
    library: "nvidia/cu13/lib/libcublasLt.so.13",
    tables: { CUBLASLT_SYMBOLS: cublaslt.CUBLASLT_SYMBOLS },
    enums: [
      ["CUBLAS_STATUS_", cublaslt.CublasStatus],
      ["CUBLAS_OP_", cublaslt.CublasOperation],
      ["CUBLAS_FILL_MODE_", cublaslt.CublasFillMode],
      ["CUBLAS_SIDE_", cublaslt.CublasSideMode],
      ["CUBLAS_DIAG_", cublaslt.CublasDiagType],
      ["CUBLAS_COMPUTE_", cublaslt.CublasComputeType],
      ["CUBLASLT_MATMUL_DESC_", cublaslt.CublasLtMatmulDescAttribute],
      ["CUBLASLT_MATRIX_LAYOUT_", cublaslt.CublasLtMatrixLayoutAttribute],
      ["CUBLASLT_MATMUL_PREF_", cublaslt.CublasLtMatmulPreferenceAttribute],
      ["CUBLASLT_ORDER_", cublaslt.CublasLtOrder],
      ["CUBLASLT_EPILOGUE_", cublaslt.CublasLtEpilogue],
      ["CUBLASLT_POINTER_MODE_", cublaslt.CublasLtPointerMode],
      ["CUBLASLT_MATMUL_MATRIX_SCALE_", cublaslt.CublasLtMatmulMatrixScale],
      ["", cublaslt.LibraryProperty],
    ],
    structs: [cublaslt.CUBLASLT_MATMUL_ALGO, cublaslt.CUBLASLT_MATMUL_HEURISTIC_RESULT],
  },
  {
    name: "cublas",
    headers: ["cublas_v2.h"],
    library: "nvidia/cu13/lib/libcublas.so.13",
    tables: { CUBLAS_SYMBOLS: cublaslt.CUBLAS_SYMBOLS },
    enums: [],
    structs: [],
  },
  {
    name: "cublasmp",
    headers: ["cublasmp.h"],
    library: "nvidia/cublasmp/cu13/lib/libcublasmp.so.0",
    tables: {
      CUBLASMP_SYMBOLS: cublasmp.CUBLASMP_SYMBOLS,
      CUBLASMP_PBLAS_SYMBOLS: cublasmp.CUBLASMP_PBLAS_SYMBOLS,
      CUBLASMP_EMULATION_SYMBOLS: cublasmp.CUBLASMP_EMULATION_SYMBOLS,
    },
    enums: [
      ["CUBLASMP_STATUS_", cublasmp.CublasMpStatus],
      ["CUBLASMP_GRID_LAYOUT_", cublasmp.CublasMpGridLayout],
      ["CUBLASMP_MATMUL_DESCRIPTOR_ATTRIBUTE_", cublasmp.CublasMpMatmulDescriptorAttribute],
      ["CUBLASMP_MATMUL_ALGO_TYPE_", cublasmp.CublasMpMatmulAlgoType],
      ["CUBLASMP_MATMUL_EPILOGUE_", cublasmp.CublasMpMatmulEpilogue],
      ["CUBLASMP_MATMUL_MATRIX_SCALE_", cublasmp.CublasMpMatmulMatrixScale],
      ["CUBLASMP_EMULATION_STRATEGY_", cublasmp.CublasMpEmulationStrategy],
      ["CUBLASMP_RESULT_SCHEME_", cublasmp.CublasMpResultScheme],
    ],
    structs: [],
  },
  {
    name: "cufft",
    headers: ["cufft.h", "cufftXt.h"],
    library: "nvidia/cu13/lib/libcufft.so.12",
    tables: { CUFFT_SYMBOLS: cufft.CUFFT_SYMBOLS },
    enums: [["CUFFT_", cufft.CufftResult], ["CUFFT_", cufft.CufftType], ["CUFFT_", cufft.CufftDirection]],
    structs: [],
  },
  {
    name: "cufftmp",
    headers: ["cufftMp.h"],
    library: "nvidia/cufftmp/cu13/lib/libcufftMp.so.12",
    tables: { CUFFTMP_SYMBOLS: cufftmp.CUFFTMP_SYMBOLS },
    enums: [["CUFFT_", cufftmp.CufftMpComm], ["CUFFT_XT_FORMAT_", cufftmp.CufftMpFormat]],
    structs: [],
  },
  {
    name: "fftw",
    headers: ["fftw3.h"],
    library: null,
    tables: {
      FFTW_SYMBOLS: fftw.FFTW_SYMBOLS,
      FFTWF_SYMBOLS: fftw.FFTWF_SYMBOLS,
      FFTW_THREADS_SYMBOLS: fftw.FFTW_THREADS_SYMBOLS,
      FFTWF_THREADS_SYMBOLS: fftw.FFTWF_THREADS_SYMBOLS,
      FFTW_WISDOM_SYMBOLS: fftw.FFTW_WISDOM_SYMBOLS,
      FFTWF_WISDOM_SYMBOLS: fftw.FFTWF_WISDOM_SYMBOLS,
    },
    enums: [["FFTW_", fftw.FftwSign], ["FFTW_", fftw.FftwFlags]],
    structs: [],
  },
];

/** A function as a table declares it, under its C name. */
export interface DeclaredFunction {
  /** The name of the symbol. */
  symbol: string;
  /** The table's key, which differs from the symbol for aliases. */
  key: string;
  /** The types. */
  declaration: Deno.ForeignFunction;
}

/** All functions that a library's tables declare; one symbol may have several aliases. */
export function functionsOf(library: LibraryDeclaration): DeclaredFunction[] {
  return Object.values(library.tables).flatMap((table) =>
    Object.entries(table).map(([key, entry]) => {
      const declaration = entry as Deno.ForeignFunction;
      return { symbol: declaration.name ?? key, key, declaration };
    })
  );
}

/** All constants that a library's enums declare, by their C names. */
export function constantsOf(library: LibraryDeclaration): [name: string, value: number][] {
  return library.enums.flatMap(([prefix, values]) =>
    Object.entries(values).map(([key, value]): [string, number] => [prefix + key, value])
  );
}
