/**
 * How a product is given to cuBLASMp: which of its paths takes it, and what has to be done to the matrices before.
 *
 * No attribute of cuBLASMp names a path; the distributions do. With rows or columns divided evenly among P ranks:
 *
 * | path | op(A), m x k | op(B), k x n | D, m x n | needs |
 * |---|---|---|---|---|
 * | `all_gather` | divided along m | along n | along m | |
 * | `reduce_scatter` | along k | along k | along n | |
 * | `all_reduce` | along k | along k | on every rank | A transposed, B not |
 * | `generic` | blocks on one grid | the same | the same | no epilog, something on every rank |
 * | `fallback` | rows or columns | rows or columns | rows or columns | no epilog |
 * | `local` | one rank | one rank | one rank | |
 *
 * Everything here is pure, so that all ranks choose alike, and testable without a GPU. A product that fits no path is
 * made to fit: matrices are redistributed; a matrix is transposed locally, where a path, an 8-bit type or an epilog wants
 * another transposition, or where D is wanted in the other memory order; a part is padded with zeros, where a division is
 * uneven. Where 128 elements share a scale, parts begin and end at multiples of 128. The first of these costs bytes between
 * ranks, the others only a local copy.
 *
 * @module
 */
import { dtypeInfo } from "../../../dtype/dtype.ts";
import { BlockCyclic, type Distribution, type ProcessGrid, type Range } from "../../../distribution/mod.ts";
import type { Epilog } from "../../matmul/epilog.ts";
import { kept, type MatmulProblem, type Matrix, summed } from "../../matmul/problem.ts";
import type { Operation } from "../../../blas/transposition.ts";
import { isQuantized, SCALE_BLOCK, type Scaling } from "../../matmul/quantization.ts";
import { isCheaper } from "../cost.ts";
import {
  asBlocks,
  blockSizeOf,
  divided,
  elementsMoved,
  gridsToTry,
  isInPlace,
  sameRanges,
  slab,
  splitAlong,
} from "../../matrix_division.ts";

export type CublasMpPath = "local" | "all_gather" | "reduce_scatter" | "all_reduce" | "generic" | "fallback";

/** The words for a path in cuBLASMp's log. */
export const PATH_NAMES: Readonly<Record<CublasMpPath, string>> = {
  local: "local Matmul",
  all_gather: "AllGather + Matmul",
  reduce_scatter: "Matmul + ReduceScatter",
  all_reduce: "Matmul + AllReduce",
  generic: "generic Matmul",
  fallback: "fallback Matmul",
};

/** A process grid of cuBLASMp, made of all ranks in order. */
export interface GridShape {
  readonly rows: number;
  readonly columns: number;
  /** Whether ranks go down the columns first. */
  readonly layout: "column-major" | "row-major";
}

export interface GivenMatrix {
  /** Rows of its descriptor, padding included. */
  readonly rows: number;
  /** Columns of its descriptor, padding included. */
  readonly columns: number;
  readonly blockRows: number;
  readonly blockColumns: number;
  readonly grid: GridShape;
  /** Who owns what while it is multiplied, without padding; rows and columns are those of the descriptor. */
  readonly distribution: Distribution;
  /** Whether it is the transpose of the matrix as stored, and so a copy. */
  readonly isTransposed: boolean;
  /** Whether it has to come from, or go to, another distribution. */
  readonly isMoved: boolean;
  /** This many rows and columns on each rank, zeros included; null if the parts are given as they are. */
  readonly padded: readonly [rows: number, columns: number] | null;
}

/** A product as it is given to cuBLASMp. */
export interface CublasMpCall {
  /** The path that it is meant to take. */
  readonly path: CublasMpPath;
  /** Whether D is computed in the other memory order: A and B have changed places, and C and D are transposed. */
  readonly isExchanged: boolean;
  /** Rows of D, padding included. */
  readonly m: number;
  /** Columns of D, padding included. */
  readonly n: number;
  /** What is summed over, padding included. */
  readonly k: number;
  readonly operationA: Operation;
  readonly operationB: Operation;
  /** cuBLASMp's A. */
  readonly a: GivenMatrix;
  /** cuBLASMp's B. */
  readonly b: GivenMatrix;
  /** cuBLASMp's C, or null. */
  readonly c: GivenMatrix | null;
  /** cuBLASMp's D. */
  readonly d: GivenMatrix;
  /** Bytes that leave ranks while multiplying, about. */
  readonly traffic: number;
  /** Bytes that leave ranks to bring matrices where they are multiplied, and D where it is wanted. */
  readonly moved: number;
  /** Bytes of matrices that are copied locally. */
  readonly copied: number;
}

/** What decides on a call. */
export interface PathRequest {
  readonly problem: MatmulProblem;
  /** What follows the product. */
  readonly epilog: Epilog;
  /** What shares a scale in A and B, if they have arrays of scales. */
  readonly scaling?: Scaling | null;
  /** Whether only paths will do that have overlapped algorithms. */
  readonly isOverlapped: boolean;
  /** Which paths will do; all when left out. */
  readonly accepts?: (path: CublasMpPath) => boolean;
}

/** The problem whose D is the transpose: the other memory order. */
export function exchanged(problem: MatmulProblem): MatmulProblem {
  const turned = ({ rows, columns, distribution, dtype }: Matrix): Matrix => ({
    rows: columns,
    columns: rows,
    distribution: distribution.transpose(),
    dtype,
  });
  const flip = (operation: Operation): Operation => ({ ...operation, transpose: !operation.transpose });
  return {
    m: problem.n,
    n: problem.m,
    k: problem.k,
    a: problem.b,
    b: problem.a,
    c: problem.c && turned(problem.c),
    d: turned(problem.d),
    operationA: flip(problem.operationB),
    operationB: flip(problem.operationA),
    accumulator: problem.accumulator,
    transposed: !problem.transposed,
  };
}

/** Whether an epilog has inputs or outputs that belong to the user's rows of D, so that these must be the call's. */
function isTiedToRows({ bias, aux, biasGradient }: Epilog): boolean {
  return bias === "rows" || aux !== "none" || biasGradient !== "none";
}

/** Whether it has some that belong to the user's columns, so that these must be the call's rows. */
function isTiedToColumns({ bias }: Epilog): boolean {
  return bias === "columns";
}

/** Bytes that the columns of narrow matrices begin at multiples of: cuBLASLt has no kernels for others. */
const NARROW_ALIGNMENT = 16;

/** One orientation of the problem, with the factors transposed locally where they have to be. */
interface Oriented extends PathRequest {
  readonly isExchanged: boolean;
  /** The factors as they are given, before they are redistributed. */
  readonly a: Matrix;
  readonly b: Matrix;
  readonly operationA: Operation;
  readonly operationB: Operation;
  readonly turnsA: boolean;
  readonly turnsB: boolean;
  /** What local extents must be multiples of. */
  readonly unit: number;
  /** The same for n, along which one matrix is divided and another is whole, so that padding may move elements. */
  readonly unitOfN: number;
  /** What parts along m must begin at multiples of, for scales not to be shared by ranks. */
  readonly startsOfM: number;
  /** The same along k. */
  readonly startsOfK: number;
}

/** What must be done to a factor: transposed or not, if that is prescribed. */
type Prescription = boolean | null;

/** The factor with the transposition that is prescribed, and that no conjugation without one is left over. */
function turn(matrix: Matrix, operation: Operation, prescribed: Prescription): [Matrix, Operation, boolean] {
  const isConjugatedAlone = operation.conjugate && !operation.transpose && dtypeInfo(matrix.dtype).isComplex;
  const wanted = prescribed ?? (isConjugatedAlone ? true : operation.transpose);
  if (wanted === operation.transpose) return [matrix, operation, false];
  const { rows, columns, distribution, dtype } = matrix;
  const turned = { rows: columns, columns: rows, distribution: distribution.transpose(), dtype };
  return [turned, { ...operation, transpose: wanted }, true];
}

function orient(request: PathRequest, isExchanged: boolean, isReduced: boolean): Oriented | null {
  const { epilog } = request;
  const problem = isExchanged ? exchanged(request.problem) : request.problem;
  if (problem.transposed ? isTiedToRows(epilog) : isTiedToColumns(epilog)) return null;
  const isNarrow = isQuantized(problem.a.dtype);
  const wantsTN = isReduced || isNarrow;
  const prescribedA = wantsTN ? true : epilog.biasGradient === "a" ? false : null;
  const prescribedB = wantsTN ? false : epilog.biasGradient === "b" ? true : null;
  const [a, operationA, turnsA] = turn(problem.a, problem.operationA, prescribedA);
  const [b, operationB, turnsB] = turn(problem.b, problem.operationB, prescribedB);
  // Transposing would leave a conjugation alone.
  const isStuck = (matrix: Matrix, { conjugate, transpose }: Operation) =>
    conjugate && !transpose && dtypeInfo(matrix.dtype).isComplex;
  if (isStuck(a, operationA) || isStuck(b, operationB)) return null;
  const { itemSize } = dtypeInfo(problem.a.dtype);
  const { scaling = null } = request;
  const scalingOfA = isExchanged ? scaling?.b : scaling?.a;
  const isInBlocks = scaling !== null && scaling.a !== "outer_vector";
  const unit = isInBlocks ? SCALE_BLOCK : itemSize <= 2 ? NARROW_ALIGNMENT / itemSize : 1;
  return {
    ...request,
    scaling: scaling && isExchanged ? { a: scaling.b, b: scaling.a } : scaling,
    problem,
    isExchanged,
    a,
    b,
    operationA,
    operationB,
    turnsA,
    turnsB,
    unit,
    // A rank's chunk of columns begins at a multiple of 4 bytes at least.
    unitOfN: isNarrow ? unit : itemSize === 2 ? 2 : 1,
    startsOfM: scalingOfA === "block_128x128" ? SCALE_BLOCK : 1,
    startsOfK: isInBlocks ? SCALE_BLOCK : 1,
  };
}

function roundUp(value: number, unit: number): number {
  return Math.ceil(value / unit) * unit;
}

function evenRanges(extent: number, blockSize: number, size: number): Range[] {
  return Array.from(
    { length: size },
    (_, rank) => [Math.min(extent, rank * blockSize), Math.min(extent, (rank + 1) * blockSize)] as const,
  );
}

/** The divisions of a dimension that both matrices have, and even ones, whose parts begin at multiples of `starts`. */
function commonDivisions(matrices: readonly (readonly [Matrix, 0 | 1])[], starts: number): Range[][] {
  const [[first, dimension]] = matrices;
  const [extent, size] = [dimension === 0 ? first.rows : first.columns, first.distribution.size!];
  const all = [
    ...matrices.map(([{ distribution }, along]) => splitAlong(distribution, along)),
    starts === 1
      ? splitAlong(slab(first, dimension), dimension)!
      : evenRanges(extent, roundUp(Math.ceil(extent / size), starts), size),
  ];
  const found: Range[][] = [];
  for (const ranges of all) {
    const isUsable = ranges?.every(([start, end]) => start === end || start % starts === 0);
    if (isUsable && !found.some((other) => sameRanges(other, ranges))) found.push(ranges!);
  }
  return found;
}

/** The block size of a dimension: its largest part, rounded up. */
function blockOf(ranges: readonly Range[], unit: number): number {
  return roundUp(Math.max(1, ...ranges.map(([start, end]) => end - start)), unit);
}

/** A matrix that is divided along one dimension. */
interface Line {
  readonly along: 0 | 1;
  readonly ranges: readonly Range[];
  /** Extent of a part, and of the other dimension, with padding. */
  readonly part: number;
  readonly whole: number;
}

/** The blocks along a dimension that the descriptors of two matrices have in common. */
interface BlockSizes {
  readonly rows: number;
  readonly columns: number;
}

/** The grid of a matrix divided along a dimension. */
function lineOf(along: 0 | 1, size: number): GridShape {
  return along === 0 || size === 1
    ? { rows: size, columns: 1, layout: "column-major" }
    : { rows: 1, columns: size, layout: "row-major" };
}

function giveLine(matrix: Matrix, isTransposed: boolean, line: Line, blocks: BlockSizes, size: number): GivenMatrix {
  const { along, ranges, part, whole } = line;
  const distribution = size === 1 ? matrix.distribution : divided(matrix, along, ranges);
  const extents: [number, number] = along === 0 ? [part, whole] : [whole, part];
  const other = along === 0 ? matrix.columns : matrix.rows;
  const isPadded = whole !== other || ranges.some(([start, end]) => end - start !== part);
  return {
    rows: along === 0 ? part * size : whole,
    columns: along === 1 ? part * size : whole,
    blockRows: blocks.rows,
    blockColumns: blocks.columns,
    grid: lineOf(along, size),
    distribution,
    isTransposed,
    isMoved: !isInPlace(matrix.distribution, distribution),
    padded: isPadded ? extents : null,
  };
}

function bytesOf({ rows, columns, dtype }: Matrix): number {
  return rows * columns * dtypeInfo(dtype).itemSize;
}

/** What bringing the matrices where they are given costs. */
function costOf({ problem, a, b }: Oriented, given: Pick<CublasMpCall, "a" | "b" | "c" | "d">) {
  let [moved, copied] = [0, 0];
  const add = (matrix: Matrix, { isMoved, isTransposed, padded, distribution }: GivenMatrix, isResult: boolean) => {
    const [from, to] = isResult ? [distribution, matrix.distribution] : [matrix.distribution, distribution];
    if (isMoved) moved += elementsMoved(from, to) * dtypeInfo(matrix.dtype).itemSize;
    if (isMoved || isTransposed || padded) copied += bytesOf(matrix);
  };
  add(a, given.a, false);
  add(b, given.b, false);
  add(problem.d, given.d, true);
  if (problem.c && given.c) add(problem.c, given.c, false);
  return { moved, copied };
}

function finish(
  oriented: Oriented,
  path: CublasMpPath,
  extents: readonly [m: number, n: number, k: number],
  given: Pick<CublasMpCall, "a" | "b" | "d">,
  traffic: number,
): CublasMpCall {
  const { isExchanged, operationA, operationB, problem } = oriented;
  const [m, n, k] = extents;
  const d = { ...given.d, isTransposed: isExchanged };
  const c = problem.c && { ...d, isMoved: !isInPlace(problem.c.distribution, d.distribution) };
  const matrices = { ...given, c, d };
  const cost = costOf(oriented, matrices);
  return { path, isExchanged, m, n, k, operationA, operationB, ...matrices, traffic, ...cost };
}

/** The dimensions of the factors as given. */
function dimensionsOf({ operationA, operationB }: Oriented) {
  const operations = { operationA, operationB } as MatmulProblem;
  return {
    mOfA: kept("a", operations),
    kOfA: summed("a", operations),
    kOfB: summed("b", operations),
    nOfB: kept("b", operations),
  };
}

/** Block sizes of a factor, given those of its two dimensions. */
function blocksOf(dimension: 0 | 1, along: number, other: number): BlockSizes {
  return dimension === 0 ? { rows: along, columns: other } : { rows: other, columns: along };
}

function* allGatherCalls(oriented: Oriented, size: number): Generator<CublasMpCall> {
  const { problem, a, b, turnsA, turnsB, unit, unitOfN } = oriented;
  const { mOfA, nOfB } = dimensionsOf(oriented);
  const k = roundUp(problem.k, unit);
  const partOfN = roundUp(Math.ceil(problem.n / size), unitOfN);
  const n = partOfN * size;
  for (const ranges of commonDivisions([[problem.d, 0], [a, mOfA]], oriented.startsOfM)) {
    const part = blockOf(ranges, unit);
    const blocksA = blocksOf(mOfA, part, k);
    const blocksB = blocksOf(nOfB, partOfN, k);
    const rangesOfN = evenRanges(problem.n, partOfN, size);
    const given = {
      a: giveLine(a, turnsA, { along: mOfA, ranges, part, whole: k }, blocksA, size),
      b: giveLine(b, turnsB, { along: nOfB, ranges: rangesOfN, part: partOfN, whole: k }, blocksB, size),
      d: giveLine(problem.d, false, { along: 0, ranges, part, whole: n }, { rows: part, columns: partOfN }, size),
    };
    const path = size === 1 ? "local" : "all_gather";
    yield finish(oriented, path, [part * size, n, k], given, (size - 1) * bytesOf(b));
  }
}

function* reduceScatterCalls(oriented: Oriented, size: number): Generator<CublasMpCall> {
  const { problem, a, b, turnsA, turnsB, unit, unitOfN } = oriented;
  const { kOfA, kOfB } = dimensionsOf(oriented);
  const m = roundUp(problem.m, unit);
  const partOfN = roundUp(Math.ceil(problem.n / size), unitOfN);
  const n = partOfN * size;
  const rangesOfN = evenRanges(problem.n, partOfN, size);
  for (const ranges of commonDivisions([[a, kOfA], [b, kOfB]], oriented.startsOfK)) {
    const part = blockOf(ranges, unit);
    const given = {
      a: giveLine(a, turnsA, { along: kOfA, ranges, part, whole: m }, blocksOf(kOfA, part, m), size),
      b: giveLine(b, turnsB, { along: kOfB, ranges, part, whole: n }, blocksOf(kOfB, part, partOfN), size),
      d: giveLine(
        problem.d,
        false,
        { along: 1, ranges: rangesOfN, part: partOfN, whole: m },
        { rows: m, columns: partOfN },
        size,
      ),
    };
    yield finish(oriented, "reduce_scatter", [m, n, part * size], given, (size - 1) * bytesOf(problem.d));
  }
}

function* allReduceCalls(oriented: Oriented, size: number): Generator<CublasMpCall> {
  const { problem, a, b, turnsA, turnsB, unit } = oriented;
  const [m, n] = [roundUp(problem.m, unit), roundUp(problem.n, unit)];
  const { distribution } = problem.d;
  for (const ranges of commonDivisions([[a, 0], [b, 0]], oriented.startsOfK)) {
    const part = blockOf(ranges, unit);
    const given = {
      a: giveLine(a, turnsA, { along: 0, ranges, part, whole: m }, { rows: part, columns: m }, size),
      b: giveLine(b, turnsB, { along: 0, ranges, part, whole: n }, { rows: part, columns: n }, size),
      // Every rank's copy is a block of columns of a matrix that is size times as wide.
      d: {
        rows: m,
        columns: n * size,
        blockRows: m,
        blockColumns: n,
        grid: lineOf(1, size),
        distribution,
        isTransposed: false,
        isMoved: false,
        padded: m === problem.m && n === problem.n ? null : [m, n] as const,
      },
    };
    yield finish(oriented, "all_reduce", [m, n, part * size], given, 2 * (size - 1) * bytesOf(problem.d));
  }
}

/** A grid as cuBLASMp can have it: all ranks, in order. */
export function gridShapeOf(grid: ProcessGrid, size: number): GridShape | null {
  if (grid.size !== size || grid.shape.length !== 2) return null;
  const plain = grid.withoutProcesses();
  if (plain === null) return null;
  const [rows, columns] = grid.shape;
  return { rows, columns, layout: plain.layout };
}

/** Blocks that cuBLASMp takes as they are: on all ranks, from the first process on. */
function usableBlocks(distribution: Distribution, size: number): BlockCyclic | null {
  const blocks = asBlocks(distribution);
  const isUsable = blocks !== null && gridShapeOf(blocks.grid, size) !== null &&
    blocks.firstProcess.every((process) => process === 0);
  return isUsable ? blocks : null;
}

function isPlain({ epilog, problem }: PathRequest): boolean {
  return epilog.name === "none" && !epilog.resultAmax && !isQuantized(problem.a.dtype);
}

/** All matrices in blocks on one grid: that of one of them, or the most nearly square one. */
function* gridCalls(oriented: Oriented, size: number): Generator<CublasMpCall> {
  const { problem, a, b, turnsA, turnsB } = oriented;
  const { mOfA, kOfA, kOfB, nOfB } = dimensionsOf(oriented);
  const usable = {
    d: usableBlocks(problem.d.distribution, size),
    a: usableBlocks(a.distribution, size),
    b: usableBlocks(b.distribution, size),
  };
  for (const grid of gridsToTry([usable.d?.grid, usable.a?.grid, usable.b?.grid], size)) {
    const shape = gridShapeOf(grid, size)!;
    const on = (name: "a" | "b" | "d") => usable[name]?.grid.equals(grid) ? usable[name].blockSizes : null;
    const m = blockSizeOf(problem.m, grid, on("d")?.[0], on("a")?.[mOfA]);
    const n = blockSizeOf(problem.n, grid, on("d")?.[1], on("b")?.[nOfB]);
    const k = blockSizeOf(problem.k, grid, on("a")?.[kOfA], on("b")?.[kOfB]);
    const give = (matrix: Matrix, isTransposed: boolean, { rows, columns }: BlockSizes): GivenMatrix => {
      const target = new BlockCyclic(grid, [rows, columns]).bind([matrix.rows, matrix.columns], size);
      const isMoved = !isInPlace(matrix.distribution, target);
      return {
        rows: matrix.rows,
        columns: matrix.columns,
        blockRows: rows,
        blockColumns: columns,
        grid: shape,
        distribution: isMoved ? target : matrix.distribution,
        isTransposed,
        isMoved,
        padded: null,
      };
    };
    const given = {
      a: give(a, turnsA, blocksOf(mOfA, m, k)),
      b: give(b, turnsB, blocksOf(nOfB, n, k)),
      d: give(problem.d, false, { rows: m, columns: n }),
    };
    // cuBLASMp 0.10 fails where a process has no block, and for some transposed factors in unequal blocks.
    const most = Math.max(...grid.shape);
    const isTooSmall = [[problem.m, m], [problem.n, n], [problem.k, k]].some(([extent, block]) =>
      extent <= (most - 1) * block
    );
    const isTransposed = oriented.operationA.transpose || oriented.operationB.transpose;
    if (isTooSmall || isTransposed && (m !== n || n !== k)) continue;
    const [rows, columns] = grid.shape;
    const traffic = (columns - 1) * bytesOf(a) + (rows - 1) * bytesOf(b);
    yield finish(oriented, "generic", [problem.m, problem.n, problem.k], given, traffic);
  }
}

/** Rows and columns divided evenly, in a mixture that only cuBLASMp's fallback takes. */
function fallbackCall(oriented: Oriented, size: number): CublasMpCall | null {
  const { problem, a, b, turnsA, turnsB } = oriented;
  const { mOfA, kOfA, kOfB, nOfB } = dimensionsOf(oriented);
  const lines = [a, b, problem.d].map((matrix) => {
    const along = ([0, 1] as const).find((dimension) => splitAlong(matrix.distribution, dimension));
    if (along === undefined) return null;
    const extent = along === 0 ? matrix.rows : matrix.columns;
    const part = extent / size;
    const isEven = extent % size === 0 &&
      sameRanges(splitAlong(matrix.distribution, along), evenRanges(extent, part, size));
    return isEven ? { along, part } : null;
  });
  const [lineA, lineB, lineD] = lines;
  if (!lineA || !lineB || !lineD) return null;
  // Given these, cuBLASMp takes an overlapped path whatever the alignment is; allGatherCalls and reduceScatterCalls pad.
  const isGathered = lineA.along === mOfA && lineB.along === nOfB && lineD.along === 0;
  const isScattered = lineA.along === kOfA && lineB.along === kOfB && lineD.along === 1;
  if (isGathered || isScattered) return null;
  const extentOf = (line: { along: 0 | 1; part: number }, dimension: 0 | 1, extent: number) =>
    line.along === dimension ? line.part : extent;
  const m = Math.min(extentOf(lineA, mOfA, problem.m), extentOf(lineD, 0, problem.m));
  const n = Math.min(extentOf(lineB, nOfB, problem.n), extentOf(lineD, 1, problem.n));
  const k = Math.min(extentOf(lineA, kOfA, problem.k), extentOf(lineB, kOfB, problem.k));
  const give = (matrix: Matrix, isTransposed: boolean, along: 0 | 1, blocks: BlockSizes): GivenMatrix => ({
    rows: matrix.rows,
    columns: matrix.columns,
    blockRows: blocks.rows,
    blockColumns: blocks.columns,
    grid: lineOf(along, size),
    distribution: matrix.distribution,
    isTransposed,
    isMoved: false,
    padded: null,
  });
  const given = {
    a: give(a, turnsA, lineA.along, blocksOf(mOfA, m, k)),
    b: give(b, turnsB, lineB.along, blocksOf(nOfB, n, k)),
    d: give(problem.d, false, lineD.along, { rows: m, columns: n }),
  };
  const traffic = (size - 1) * (bytesOf(a) + bytesOf(b));
  const isOneGrid = lineA.along === lineD.along && lineB.along === lineD.along;
  return finish(oriented, isOneGrid ? "generic" : "fallback", [problem.m, problem.n, problem.k], given, traffic);
}

/** Whether the sum over ranks may come before what else the epilog does, on D as a whole. */
function mayReduce({ aux, biasGradient, resultAmax }: Epilog, { distribution }: Matrix): boolean {
  return distribution.isReplicated && aux === "none" && biasGradient === "none" && !resultAmax;
}

function* candidates(request: PathRequest): Generator<CublasMpCall> {
  const { problem, epilog } = request;
  const size = problem.d.distribution.size!;
  for (const isExchanged of [false, true]) {
    const reduced = size > 1 && mayReduce(epilog, problem.d) ? orient(request, isExchanged, true) : null;
    // How scales of 128 elements of B lie for GEMM+AllReduce is not known.
    if (reduced && reduced.scaling?.b !== "vector_128") yield* allReduceCalls(reduced, size);
    const oriented = epilog.allReduce && size > 1 ? null : orient(request, isExchanged, false);
    if (!oriented) continue;
    yield* allGatherCalls(oriented, size);
    if (size === 1) continue;
    yield* reduceScatterCalls(oriented, size);
    if (request.isOverlapped || !isPlain(request)) continue;
    yield* gridCalls(oriented, size);
    const call = fallbackCall(oriented, size);
    if (call) yield call;
  }
}

/** An epilog's inputs and outputs lie as the user's D does, so that D must be computed where it is wanted. */
function isPossible({ epilog, accepts }: PathRequest, { d, path }: CublasMpCall): boolean {
  return !((isTiedToRows(epilog) || isTiedToColumns(epilog)) && d.isMoved) && (accepts?.(path) ?? true);
}

/** Overlapped where the matrices are; the same after local copies; not overlapped where they are; after moves. */
function classOf({ path, moved, copied, isExchanged }: CublasMpCall): number {
  if (moved > 0) return 3;
  const isOverlapped = path !== "generic" && path !== "fallback";
  if (!isOverlapped) return copied > 0 || isExchanged ? 3 : 2;
  return copied > 0 || isExchanged ? 1 : 0;
}

/** What a call costs, the more important first: its class, bytes between ranks, bytes copied, whether it is exchanged. */
export function callCost(call: CublasMpCall): readonly number[] {
  const { traffic, moved, copied, isExchanged } = call;
  return [classOf(call), traffic + moved, copied, Number(isExchanged)];
}

/** The cheapest way to give a product to cuBLASMp, or null if there is none. */
export function chooseCall(request: PathRequest): CublasMpCall | null {
  let best: CublasMpCall | null = null;
  for (const call of candidates(request)) {
    if (!isPossible(request, call)) continue;
    if (best === null || isCheaper(callCost(call), callCost(best))) best = call;
  }
  return best;
}
