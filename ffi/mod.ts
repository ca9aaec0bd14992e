/**
 * Raw native libraries: C functions by their own names, enums, structs, status checks. For those who want to call MPI,
 * ScaLAPACK or NVIDIA's libraries themselves; everybody else uses `mod.ts`.
 *
 * Nothing is opened at import. A library is opened at the first call of its `open…` function, and never closed.
 *
 * @module
 */
export * from "./blacs.ts";
export * from "./blas.ts";
export * from "./cublaslt.ts";
export * from "./cublasmp.ts";
export * from "./cuda_driver.ts";
export * from "./cuda_library.ts";
export * from "./cuda_runtime.ts";
export * from "./enums.ts";
export * from "./errors.ts";
export * from "./library.ts";
export * from "./machine.ts";
export * from "./memory.ts";
export * from "./mpi/mod.ts";
export * from "./nccl.ts";
export * from "./nvrtc.ts";
export * from "./nvshmem.ts";
export * from "./pblas.ts";
export * from "./scalapack.ts";
export * from "./struct.ts";
