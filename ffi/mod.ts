/**
 * Raw native libraries: C functions by their own names, enums, structs, status checks. For those who want to call MPI,
 * ScaLAPACK or NVIDIA's libraries themselves; everybody else uses `mod.ts`.
 *
 * Nothing is opened at import. A library is opened at the first call of its `open…` function, and never closed.
 *
 * @module
 */
export * from "./blas/blacs.ts";
export * from "./blas/blas.ts";
export * from "./cuda/cublaslt.ts";
export * from "./cuda/cublasmp.ts";
export * from "./cuda/cufft.ts";
export * from "./cuda/cufftmp.ts";
export * from "./cuda/driver.ts";
export * from "./cuda/library.ts";
export * from "./cuda/runtime.ts";
export * from "./enums.ts";
export * from "./errors.ts";
export * from "./fft/fftw.ts";
export * from "./library.ts";
export * from "./machine.ts";
export * from "./memory.ts";
export * from "./mpi/mod.ts";
export * from "./cuda/nccl.ts";
export * from "./cuda/nvrtc.ts";
export * from "./cuda/nvshmem.ts";
export * from "./blas/pblas.ts";
export * from "./blas/scalapack.ts";
export * from "./struct.ts";
