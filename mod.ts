/**
 * distmath: distributed linear algebra for TypeScript.
 *
 * A script is started on several ranks, joins them with {@linkcode initialize}, makes arrays that are spread over the
 * ranks, and multiplies them with {@linkcode matmul} or {@linkcode Matmul}. {@linkcode Communicator} is MPI for
 * scripts, usable alone.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, matmul, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * const a = DistributedArray.random(runtime, [64, 32], Slab.X, { dtype: "float64" });
 * const b = DistributedArray.random(runtime, [32, 16], Slab.Y, { dtype: "float64" });
 * using d = matmul(a, b, { distribution: Slab.X });
 * console.log(d.local.shape);
 * ```
 *
 * @module
 */

// All files at once, which Deno loads faster
import "./src/files.ts";

// MPI
export * from "./src/mpi/mod.ts";

// GPUs
export * from "./src/gpu/mod.ts";

// Runtime
export * from "./src/runtime/mod.ts";

// Memory of GPUs, and symmetric memory
export * from "./src/memory/mod.ts";

// Element types
export * from "./src/dtype/mod.ts";

// Distributions
export * from "./src/distribution/mod.ts";

// Arrays
export * from "./src/array/mod.ts";

// Linear algebra
export * from "./src/linalg/mod.ts";

// Fourier transforms
export * from "./src/fft/mod.ts";

// Errors
export * from "./src/errors.ts";

// Native libraries
export { LibraryNotFoundError, type LibraryVersion } from "./ffi/library.ts";
