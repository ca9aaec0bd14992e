/**
 * What is said to cuBLASMp besides the matrices: its numbers for epilogs and algorithms. Pure.
 *
 * @module
 */
import { CublasMpMatmulAlgoType, CublasMpMatmulEpilogue } from "../../../../ffi/cuda/cublasmp.ts";
import type { DType } from "../../../dtype/dtype.ts";
import type { Epilog } from "../../matmul/epilog.ts";
import type { MatmulProblem } from "../../matmul/problem.ts";
import { isQuantized } from "../../matmul/quantization.ts";
import type { CublasMpPath } from "./paths.ts";

/** `cublasMpMatmulEpilogue_t`. One rank has nothing to reduce. */
export function epilogueCode({ name }: Epilog, path: CublasMpPath): number {
  const reduction = path === "all_reduce" ? CublasMpMatmulEpilogue.ALLREDUCE : CublasMpMatmulEpilogue.DEFAULT;
  if (name === "none" || name === "all_reduce") return reduction;
  // A bias of columns is one of rows of the transposed product.
  const own = name.replace("column_", "").toUpperCase();
  return reduction | CublasMpMatmulEpilogue[own as keyof typeof CublasMpMatmulEpilogue];
}

/** cuBLASMp's algorithms by name. */
export const ALGORITHM_CODES = {
  split_p2p: CublasMpMatmulAlgoType.SPLIT_P2P,
  split_multicast: CublasMpMatmulAlgoType.SPLIT_MULTICAST,
  atomic_p2p: CublasMpMatmulAlgoType.ATOMIC_P2P,
  atomic_multicast: CublasMpMatmulAlgoType.ATOMIC_MULTICAST,
  no_overlap: CublasMpMatmulAlgoType.NO_OVERLAP,
  fused: CublasMpMatmulAlgoType.FUSED,
} as const;

export type CublasMpAlgorithm = keyof typeof ALGORITHM_CODES;

/** The algorithm of a name, such as cuBLASMp's log writes it in capitals; null if it is new. */
export function algorithmNamed(name: string): CublasMpAlgorithm | null {
  const lower = name.toLowerCase();
  return Object.hasOwn(ALGORITHM_CODES, lower) ? lower as CublasMpAlgorithm : null;
}

/** Those that are worth measuring. */
export const TUNED_ALGORITHMS: readonly CublasMpAlgorithm[] = ["split_p2p", "no_overlap"];

/** Whether an algorithm was asked for that overlaps. */
export function isOverlapping(algorithm: string): boolean {
  return algorithm !== "default" && algorithm !== "no_overlap";
}

/** Those that use NVLink multicast. */
export const MULTICAST_ALGORITHMS: readonly CublasMpAlgorithm[] = ["split_multicast", "atomic_multicast", "fused"];

const OVERLAPPED: Readonly<Record<"all_gather" | "reduce_scatter" | "all_reduce", readonly CublasMpAlgorithm[]>> = {
  all_gather: ["split_p2p", "no_overlap"],
  reduce_scatter: ["split_p2p", "no_overlap", "atomic_p2p", "split_multicast", "atomic_multicast"],
  all_reduce: ["no_overlap", "split_multicast", "fused"],
};

/** The algorithms that a path has, the preferred one first; none for paths that leave no choice. */
export function algorithmsOf(path: CublasMpPath): readonly CublasMpAlgorithm[] {
  return path === "all_gather" || path === "reduce_scatter" || path === "all_reduce" ? OVERLAPPED[path] : [];
}

/** The version that the algorithm `fused` came with. */
const FUSED_SINCE = 1000;

/**
 * The algorithm that is asked of a version of cuBLASMp for a path. Its own default is never asked for: for GEMM+AllReduce
 * that is a multicast one. Null if the path does not have the algorithm. One rank has nothing to overlap, and takes any
 * name.
 */
export function algorithmFor(path: CublasMpPath, wanted: string, version: number): CublasMpAlgorithm | null {
  if (path === "generic" || path === "fallback") {
    // These leave no choice, but the attribute wants a name.
    return wanted === "default" || wanted === "no_overlap" ? "no_overlap" : null;
  }
  const algorithms = path === "local" ? OVERLAPPED.all_gather.toReversed() : OVERLAPPED[path];
  if (wanted === "default") return algorithms[0];
  if (wanted === "fused" && version < FUSED_SINCE) return null;
  return algorithms.find((name) => name === wanted) ?? null;
}

/** What cuBLASMp calls the matrices of a product. */
export type Operand = "a" | "b" | "c" | "d";

/**
 * Whether a matrix of a call must lie without gaps between its columns: what is summed over the ranks, and the factors of
 * GEMM+AllReduce, of which `no_overlap` minds A alone. Source: the checks of cuBLASMp 0.10, which are not documented.
 */
export function mustBeDense(path: CublasMpPath, algorithm: CublasMpAlgorithm, name: Operand): boolean {
  if (path === "all_reduce") return name !== "b" || algorithm !== "no_overlap";
  return path === "reduce_scatter" && (name === "c" || name === "d");
}

/** The type of a bias, and of a bias gradient: D's, or for 8-bit products the 16-bit type that goes with it. */
export function biasType({ a, c, d }: MatmulProblem): DType {
  if (!isQuantized(a.dtype)) return d.dtype;
  if (isQuantized(d.dtype)) return c?.dtype ?? "bfloat16";
  return d.dtype === "float32" ? "bfloat16" : d.dtype;
}

/** The type of C's descriptor. */
export function addendType({ c, d }: MatmulProblem): DType {
  return c?.dtype ?? (isQuantized(d.dtype) ? "bfloat16" : d.dtype);
}
