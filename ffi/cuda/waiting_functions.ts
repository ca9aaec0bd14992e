/**
 * The functions of CUDA's libraries that wait for other ranks, by their names in C.
 *
 * @module
 */

/** Those that wait for a GPU, which may itself wait for other ranks. */
export const GPU_WAITS = ["cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize"] as const;

/** Those of NCCL. The first messages between two ranks connect them, at the end of their group. */
export const NCCL_WAITS = [
  "ncclCommInitRank",
  "ncclCommFinalize",
  "ncclCommDestroy",
  "ncclCommWindowRegister",
  "ncclCommWindowDeregister",
  "ncclGroupEnd",
] as const;

export const CUBLASMP_WAITS = [
  "cublasMpGridCreate",
  "cublasMpGridDestroy",
  "cublasMpMalloc",
  "cublasMpFree",
  "cublasMpBufferRegister",
  "cublasMpBufferDeregister",
] as const;

export const NVSHMEM_WAITS = [
  "nvshmemx_hostlib_init_attr",
  "nvshmemx_hostlib_finalize",
  "nvshmem_malloc",
  "nvshmem_free",
] as const;

export const CUFFTMP_WAITS = [
  "cufftMakePlan2d",
  "cufftMakePlan3d",
  "cufftDestroy",
  "__cufftMpMakeReshape_11_4",
  "cufftMpDestroyReshape",
] as const;
