/** Matrix products by plain loops, and distributed matrices to compare with them. */
import { assertEquals } from "@std/assert";
import {
  DistributedArray,
  type Distribution,
  type DType,
  dtypeInfo,
  LocalArray,
  type MatrixQualifier,
  ProcessGrid,
  type Runtime,
} from "../../mod.ts";
import { stridesOf } from "../../src/array/layout.ts";

/** A whole matrix on this rank, row by row. */
export interface Dense {
  readonly rows: number;
  readonly columns: number;
  readonly re: Float64Array;
  readonly im: Float64Array;
}

export type Complex = readonly [re: number, im: number];

export function dense(rows: number, columns: number, element: (i: number, j: number) => Complex): Dense {
  const [re, im] = [new Float64Array(rows * columns), new Float64Array(rows * columns)];
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) [re[i * columns + j], im[i * columns + j]] = element(i, j);
  }
  return { rows, columns, re, im };
}

export const at = ({ columns, re, im }: Dense, i: number, j: number): Complex => [
  re[i * columns + j],
  im[i * columns + j],
];

export function apply(matrix: Dense, { isTranspose = false, isConjugate = false }: MatrixQualifier = {}): Dense {
  const { rows, columns } = matrix;
  const element = (i: number, j: number): Complex => {
    const [re, im] = isTranspose ? at(matrix, j, i) : at(matrix, i, j);
    return [re, isConjugate ? -im : im];
  };
  return isTranspose ? dense(columns, rows, element) : dense(rows, columns, element);
}

/** A B, by three loops. */
export function product(a: Dense, b: Dense): Dense {
  const { rows: m, columns: k } = a;
  const n = b.columns;
  const isReal = a.im.every((x) => x === 0) && b.im.every((x) => x === 0);
  const [re, im] = [new Float64Array(m * n), new Float64Array(m * n)];
  for (let i = 0; i < m; i++) {
    for (let p = 0; p < k; p++) {
      const x = a.re[i * k + p];
      const y = a.im[i * k + p];
      for (let j = 0; j < n; j++) {
        // Not as a pair, which would cost more than the arithmetic.
        const u = b.re[p * n + j];
        const v = b.im[p * n + j];
        re[i * n + j] += x * u - y * v;
        if (!isReal) im[i * n + j] += x * v + y * u;
      }
    }
  }
  return { rows: m, columns: n, re, im };
}

/** alpha P + beta C. */
export function combine(alpha: number | Complex, p: Dense, beta: number | Complex, c: Dense | null): Dense {
  const times = (factor: number | Complex, [re, im]: Complex): Complex => {
    const [x, y] = typeof factor === "number" ? [factor, 0] : factor;
    return [x * re - y * im, x * im + y * re];
  };
  return dense(p.rows, p.columns, (i, j) => {
    const [x, y] = times(alpha, at(p, i, j));
    if (!c) return [x, y];
    const [u, v] = times(beta, at(c, i, j));
    return [x + u, y + v];
  });
}

export interface Placement {
  distribution: Distribution;
  dtype?: DType;
  order?: "C" | "F";
}

/** The global rows or columns that a rank holds. */
export function held(distribution: Distribution, rank: number, dimension: 0 | 1): number[] {
  return distribution.ranges(rank)[dimension].flatMap(([start, end]) =>
    Array.from({ length: end - start }, (_, i) => start + i)
  );
}

/** A distributed matrix of these elements, made without communication. */
export function distribute(runtime: Runtime, matrix: Dense, placement: Placement): DistributedArray {
  const { dtype = "float64", order = "C" } = placement;
  const distribution = placement.distribution.bind([matrix.rows, matrix.columns], runtime.size);
  const local = LocalArray.zeros(dtype, distribution.localShape(runtime.rank), order);
  const columns = held(distribution, runtime.rank, 1);
  const elements = held(distribution, runtime.rank, 0).flatMap((i) => columns.map((j) => at(matrix, i, j)));
  // As doubles, which the matrix has, since those are converted as a whole, and not number by number.
  const numbers = dtypeInfo(dtype).isComplex ? elements.flat() : elements.map(([re]) => re);
  if (local.size > 0) local.set(Float64Array.from(numbers));
  const array = DistributedArray.wrap(runtime, local, distribution, order);
  return runtime.stream ? array.to({ memory: "device" }) : array;
}

/** The numbers of a whole distributed matrix, row by row. Collective. */
export function numbersOf(array: DistributedArray): number[] {
  const { dtype, shape, order } = array;
  return new LocalArray({ data: array.allGather(), dtype, shape, strides: stridesOf(shape, order) }).toNumbers();
}

/**
 * Fail on all ranks unless a distributed matrix has these elements, up to a relative tolerance. Collective: one
 * reduction.
 */
export function assertMatrix(actual: DistributedArray, expected: Dense, message: string, tolerance = 0): void {
  assertEquals([...actual.shape], [expected.rows, expected.columns], message);
  const { communicator, rank } = actual.runtime;
  const difference = findDifference(actual, expected, rank, tolerance);
  const differing = communicator.allReduce(Float64Array.of(difference === null ? 0 : 1))[0];
  if (differing > 0) throw new Error(`${message}: ${difference ?? "wrong on another rank"}`);
}

function findDifference(actual: DistributedArray, expected: Dense, rank: number, tolerance: number): string | null {
  const { distribution, dtype, local } = actual;
  const { parts } = dtypeInfo(dtype);
  const [rows, columns] = [held(distribution, rank, 0), held(distribution, rank, 1)];
  const numbers = local.toNumbers();
  if (numbers.length !== rows.length * columns.length * parts) return `there are ${numbers.length} numbers`;
  for (const [i, row] of rows.entries()) {
    for (const [j, column] of columns.entries()) {
      const wanted = at(expected, row, column);
      for (let part = 0; part < parts; part++) {
        const given = numbers[(i * columns.length + j) * parts + part];
        const limit = tolerance * Math.max(1, Math.abs(wanted[part]));
        if (Object.is(given, wanted[part]) || Math.abs(given - wanted[part]) <= limit) continue;
        return `element (${row}, ${column}) is ${given}, not ${wanted[part]}`;
      }
    }
  }
  return null;
}

/** Small integers that differ with both indices; complex ones if asked. */
export function integers(rows: number, columns: number, seed: number, isComplex = false): Dense {
  return dense(rows, columns, (i, j) => [
    (3 * i + 5 * j + seed * (i ^ j)) % 7 - 3,
    isComplex ? (2 * i + j * (seed + 1)) % 5 - 2 : 0,
  ]);
}

/** -1, 0 and 1, mostly 0, so that sums stay exact in 8 bits. */
export function ternary(rows: number, columns: number, seed: number): Dense {
  return dense(rows, columns, (i, j) => [(5 * i + 3 * j + seed) % 4 === 0 ? (i + j + seed) % 3 - 1 : 0, 0]);
}

/** One element after the other of several lists, each at its own pace, so that few steps meet many combinations. */
export class Cycle {
  #step = 0;
  #uses = 0;

  /** Go on to the next combination, and count it. */
  next(): number {
    this.#uses = 0;
    return ++this.#step;
  }

  /** The current one of these; calls in one step turn at different paces. */
  pick<T>(choices: readonly T[]): T {
    const pace = [1, 3, 7, 11, 17, 29, 43, 61][this.#uses++ % 8];
    return choices[Math.floor(this.#step * 7919 / pace) % choices.length];
  }
}

/**
 * Whether this combination is run: all of them on one or two ranks, one of three on more, where the ranks share cores.
 * The remainders shift, so that a loop of 3 does not always stop at the same value.
 */
export function isSampled({ size }: Runtime, step: number): boolean {
  return size <= 2 || (step + Math.floor(step / 3) + Math.floor(step / 9)) % 3 === size % 3;
}

/** All shapes of 2-D grids of this many processes. */
export function gridShapes(size: number): [number, number][] {
  const shapes: [number, number][] = [];
  for (let rows = 1; rows <= size; rows++) if (size % rows === 0) shapes.push([rows, size / rows]);
  return shapes;
}

/** All 2-D grids of this many processes, in both layouts. */
export function grids(size: number): ProcessGrid[] {
  return gridShapes(size).flatMap((shape) =>
    (["row-major", "column-major"] as const).map((layout) => new ProcessGrid({ shape, layout }))
  );
}
