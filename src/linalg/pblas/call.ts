/**
 * The PBLAS routines as an engine sees them: every matrix column-major, all on one grid in equal square blocks.
 *
 * A row-major matrix is a column-major one with rows and columns exchanged, as in `problem.ts`; what that does to side,
 * triangle and transposition is one pure function here, and the choice of grid and blocks another one.
 *
 * @module
 */
import { PBLAS_ROUTINES } from "../../../ffi/blas/pblas.ts";
import type { Scalar } from "../../dtype/dtype.ts";
import type { LocalArray } from "../../array/local_array.ts";
import { BlockCyclic, type Distribution, ProcessGrid } from "../../distribution/mod.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { asBlocks, elementsMoved, isInPlace } from "../matrix_division.ts";
import type { AccumulatorDType } from "../../dtype/dtype.ts";

/** The name of a routine. */
export type PblasRoutine = keyof typeof PBLAS_ROUTINES;

/** What a routine computes, which is which arguments it takes. */
type PblasKind = typeof PBLAS_ROUTINES[PblasRoutine]["kind"];

/** The routines of some kinds. */
export type RoutineOf<Kind extends PblasKind> = {
  [R in PblasRoutine]: typeof PBLAS_ROUTINES[R]["kind"] extends Kind ? R : never;
}[PblasRoutine];

interface RoutineTraits {
  readonly kind: PblasKind;
  /** Whether it is for Hermitian matrices, thus for complex ones: the name of its symmetric twin; else null. */
  readonly symmetricTwin: PblasRoutine | null;
}

/** What is known of a routine. */
export function traitsOf(routine: PblasRoutine): RoutineTraits {
  return PBLAS_ROUTINES[routine];
}

/**
 * What a routine of each kind takes, in the order of PBLAS and of cuBLASMp. Some that are named are cuBLASMp's alone, or
 * those of some routines: an engine passes nothing for what it does not have.
 */
const ARGUMENTS = {
  triangular: ["side", "uplo", "trans", "diag", "m", "n", "alpha", "a", "result", "output", "computeType"],
  rank_k: ["uplo", "trans", "n", "k", "alpha", "a", "beta", "result", "computeType"],
  rank_2k: ["uplo", "trans", "n", "k", "alpha", "a", "b", "beta", "result", "computeType"],
  symmetric: ["side", "uplo", "m", "n", "alpha", "a", "b", "beta", "result", "computeType"],
  sum: ["trans", "m", "n", "alpha", "a", "beta", "result"],
  sum_in_triangle: ["uplo", "trans", "m", "n", "alpha", "a", "beta", "result"],
} as const satisfies Record<PblasKind, readonly string[]>;

type ArgumentName = typeof ARGUMENTS[PblasKind][number];

/** The arguments of a routine in their order, from all that an engine may pass. */
export function argumentsOf<T>(routine: PblasRoutine, values: Readonly<Record<ArgumentName, T | readonly T[]>>): T[] {
  return ARGUMENTS[traitsOf(routine).kind].flatMap((name) => values[name] as T | T[]);
}

/** Whether a routine adds products of a matrix with a transposed one to a triangle of C. */
export function isUpdate(routine: PblasRoutine): boolean {
  const { kind } = traitsOf(routine);
  return kind === "rank_k" || kind === "rank_2k";
}

/** On which side of the other factor A stands. */
export type Side = "left" | "right";

/** The triangle of a matrix that is read or written, its diagonal included. */
export type Triangle = "lower" | "upper";

/** What is done to A before it is used. */
export type Transposition = "none" | "transpose" | "conjugate_transpose";

/** Whether the diagonal of a triangular matrix is read, or taken to be one. */
export type Diagonal = "non_unit" | "unit";

/** The letters of a routine. Those that it does not have are there all the same, and mean nothing. */
export interface RoutineLetters {
  readonly side: Side;
  readonly uplo: Triangle;
  readonly trans: Transposition;
  readonly diag: Diagonal;
}

/** The memory orders of A, and of the matrix that is written, which B shares. */
export interface PblasOrders {
  readonly a: "C" | "F";
  readonly result: "C" | "F";
}

const OTHER_SIDE = { left: "right", right: "left" } as const;
const OTHER_TRIANGLE = { lower: "upper", upper: "lower" } as const;

/** Whether `uplo` says which triangle of A is read, and not which one of the result is written. */
function isTriangleOfA(routine: PblasRoutine): boolean {
  const { kind } = traitsOf(routine);
  return kind === "triangular" || kind === "symmetric";
}

/** The transposition of the stored matrix, or null if it would have to be conjugated alone. */
function transposition(isTransposed: boolean, isConjugated: boolean): Transposition | null {
  if (!isConjugated) return isTransposed ? "transpose" : "none";
  return isTransposed ? "conjugate_transpose" : null;
}

/**
 * The letters of the same operation on the column-major matrices; null if A must first be copied into the order of the
 * result, since no routine conjugates without transposing.
 */
export function canonicalLetters(
  routine: PblasRoutine,
  letters: RoutineLetters,
  orders: PblasOrders,
): RoutineLetters | null {
  const [flipA, flipResult] = [orders.a === "C", orders.result === "C"];
  const flipsTriangle = isTriangleOfA(routine) ? flipA : flipResult;
  const isHermitian = traitsOf(routine).symmetricTwin !== null;
  // What is symmetric is its own transpose; what is Hermitian is not, it becomes its conjugate.
  if (isHermitian && flipA !== flipResult) return null;
  const flipsOperation = isUpdate(routine) ? flipA : flipA !== flipResult;
  const isTransposed = (letters.trans !== "none") !== flipsOperation;
  const isConjugated = isHermitian ? isTransposed : letters.trans === "conjugate_transpose";
  const trans = transposition(isTransposed, isConjugated);
  if (trans === null) return null;
  return {
    ...letters,
    side: flipResult ? OTHER_SIDE[letters.side] : letters.side,
    uplo: flipsTriangle ? OTHER_TRIANGLE[letters.uplo] : letters.uplo,
    trans,
  };
}

/** How all matrices of a routine are distributed while it runs. */
export interface CommonBlocks {
  readonly grid: ProcessGrid;
  /** Rows and columns of a block. */
  readonly blockSize: number;
}

/** A column-major matrix is given this distribution by {@linkcode CommonBlocks}. */
export function inBlocks({ grid, blockSize }: CommonBlocks, of: Distribution): Distribution {
  return new BlockCyclic(grid, [blockSize, blockSize]).bind(of.globalShape!, of.size!);
}

const LARGEST_DEFAULT_BLOCK = 256;

/** The most nearly square grid of all ranks that can be used. */
function defaultGrid(size: number, accepts: (grid: ProcessGrid) => boolean): ProcessGrid {
  for (let [rows] = ProcessGrid.nearlySquare(size).shape; rows >= 1; rows--) {
    if (size % rows !== 0) continue;
    for (const shape of [[rows, size / rows], [size / rows, rows]]) {
      const grid = new ProcessGrid({ shape, layout: "column-major" });
      if (accepts(grid)) return grid;
    }
  }
  throw new Error(`No grid of ${size} processes can be used.`);
}

/** The default grid, in blocks that give each rank some. */
function defaultBlocks(
  distributions: readonly Distribution[],
  accepts: (grid: ProcessGrid) => boolean,
): CommonBlocks {
  const size = distributions[0].size!;
  const largest = Math.max(...distributions.flatMap(({ globalShape }) => globalShape!));
  const grid = defaultGrid(size, accepts);
  if (size === 1) return { grid, blockSize: largest };
  return {
    grid,
    blockSize: Math.min(LARGEST_DEFAULT_BLOCK, Math.max(1, Math.ceil(largest / Math.max(...grid.shape)))),
  };
}

/**
 * The grid and block size on which a routine runs: those that move the fewest elements of these column-major matrices,
 * the first one being preferred. `accepts` tells which grids the engine can use.
 */
export function chooseBlocks(
  distributions: readonly Distribution[],
  accepts: (grid: ProcessGrid) => boolean,
): CommonBlocks {
  const candidates: CommonBlocks[] = [];
  for (const blocks of distributions.map(asBlocks)) {
    if (!blocks || !accepts(blocks.grid)) continue;
    blocks.blockSizes.forEach((blockSize, dimension) => {
      if (blocks.grid.shape[dimension] > 1) candidates.push({ grid: blocks.grid, blockSize });
    });
  }
  candidates.push(defaultBlocks(distributions, accepts));
  let best = candidates[0];
  let fewest = Infinity;
  for (const candidate of candidates) {
    const moved = distributions.reduce((sum, from) => {
      const to = inBlocks(candidate, from);
      return isInPlace(from, to) ? sum : sum + Math.max(1, elementsMoved(from, to));
    }, 0);
    if (moved < fewest) [best, fewest] = [candidate, moved];
  }
  return best;
}

/** A column-major matrix in blocks, with this rank's part of it. */
export interface PblasMatrix {
  /** Its distribution: {@linkcode inBlocks}. */
  readonly distribution: Distribution;
  /** This rank's part. */
  readonly local: LocalArray;
}

/** A call of a routine; all matrices have the same dtype. */
export interface PblasCall {
  readonly routine: PblasRoutine;
  readonly dtype: AccumulatorDType;
  /** The letters, for the column-major matrices. */
  readonly letters: RoutineLetters;
  /** The grid and the block size. */
  readonly blocks: CommonBlocks;
  /** Rows of the result. */
  readonly m: number;
  /** Columns of the result. */
  readonly n: number;
  /** What an update sums over; otherwise 0. */
  readonly k: number;
  /** Scales the product, or A. */
  readonly alpha: Scalar;
  /** Scales what the result is added to; 0 for trsm and trmm, which have no such. */
  readonly beta: Scalar;
  /** The matrix that is only read. */
  readonly a: PblasMatrix;
  /** The second factor of updates of rank 2k and of products with symmetric matrices; otherwise null. */
  readonly b: PblasMatrix | null;
  /** The matrix that is overwritten: B of trsm and trmm, C of the others. */
  readonly result: PblasMatrix;
}

/** What an engine runs the routines with. */
export interface PblasEngine {
  /** The name of the engine that it is a part of. */
  readonly name: string;
  /** Additions and multiplications of real numbers that this rank does in a second, if there is a model; measured once. */
  operationsPerSecond?(runtime: Runtime, dtype: AccumulatorDType): number;
  /** Routines whose result must be square. */
  readonly squareOnly: readonly PblasRoutine[];
  /** Whether it can run a routine, with these letters, on a grid of processes. The same on all ranks. */
  accepts(runtime: Runtime, grid: ProcessGrid, routine: PblasRoutine, letters: RoutineLetters): boolean;
  /** As the `open` of `MatmulEngine`. */
  open?(runtime: Runtime): string;
  /** Run a routine. Collective. */
  run(runtime: Runtime, call: PblasCall): void;
}
