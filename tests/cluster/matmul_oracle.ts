/** Matrix products by plain loops, and distributed matrices to compare with them. */
import { assertEquals } from "@std/assert";
import { DistributedArray } from "../../src/array/distributed_array.ts";
import { type DType, dtypeInfo } from "../../src/array/dtype.ts";
import { stridesOf } from "../../src/array/layout.ts";
import { LocalArray } from "../../src/array/local_array.ts";
import type { Distribution } from "../../src/distribution/mod.ts";
import type { MatrixQualifier } from "../../src/linalg/mod.ts";
import type { Runtime } from "../../src/runtime/runtime.ts";

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
      const [x, y] = [a.re[i * k + p], a.im[i * k + p]];
      for (let j = 0; j < n; j++) {
        const [u, v] = [b.re[p * n + j], b.im[p * n + j]];
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

/** A distributed matrix of these elements. */
export function distribute(runtime: Runtime, matrix: Dense, placement: Placement): DistributedArray {
  const { distribution, dtype = "float64", order = "C" } = placement;
  const { isComplex } = dtypeInfo(dtype);
  const element = (i: number, j: number) => isComplex ? at(matrix, i, j) : at(matrix, i, j)[0];
  return DistributedArray.generate(runtime, [matrix.rows, matrix.columns], distribution, element, { dtype, order });
}

/** The numbers of a whole distributed matrix, row by row. Collective. */
export function numbersOf(array: DistributedArray): number[] {
  const { dtype, shape, order } = array;
  return new LocalArray({ data: array.allGather(), dtype, shape, strides: stridesOf(shape, order) }).toNumbers();
}

/** Fail unless a distributed matrix has these elements, up to a relative tolerance. Collective. */
export function assertMatrix(actual: DistributedArray, expected: Dense, message: string, tolerance = 0): void {
  assertEquals([...actual.shape], [expected.rows, expected.columns], message);
  const { isComplex } = dtypeInfo(actual.dtype);
  const numbers = numbersOf(actual);
  const wanted = isComplex ? interleave(expected) : expected.re;
  assertEquals(numbers.length, wanted.length, message);
  for (let at = 0; at < wanted.length; at++) {
    const difference = Math.abs(numbers[at] - wanted[at]);
    if (Object.is(numbers[at], wanted[at]) || difference <= tolerance * Math.max(1, Math.abs(wanted[at]))) continue;
    throw new Error(`${message}: element ${at} is ${numbers[at]}, not ${wanted[at]}`);
  }
}

function interleave({ re, im }: Dense): Float64Array {
  const both = new Float64Array(2 * re.length);
  re.forEach((x, i) => [both[2 * i], both[2 * i + 1]] = [x, im[i]]);
  return both;
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

  /** Go on to the next combination. */
  next(): void {
    this.#step++;
    this.#uses = 0;
  }

  /** The current one of these; calls in one step turn at different paces. */
  pick<T>(choices: readonly T[]): T {
    const pace = [1, 3, 7, 11, 17, 29, 43, 61][this.#uses++ % 8];
    return choices[Math.floor(this.#step * 7919 / pace) % choices.length];
  }
}

/** All shapes of 2-D grids of this many processes. */
export function gridShapes(size: number): [number, number][] {
  const shapes: [number, number][] = [];
  for (let rows = 1; rows <= size; rows++) if (size % rows === 0) shapes.push([rows, size / rows]);
  return shapes;
}
