/** Whole arrays as plain lists of numbers, and what the operations make of them, by plain loops. */
import { type DistributedArray, type DType, dtypeInfo, LocalArray, type Range, type Scalar } from "../../mod.ts";

/** A whole array: its numbers in C order, the imaginary parts beside the real ones. All are small whole numbers. */
export interface Model {
  readonly shape: readonly number[];
  readonly re: readonly number[];
  readonly im: readonly number[];
}

export type Complex = readonly [re: number, im: number];

/** All indices of a shape, in C order. */
export function* indicesOf(shape: readonly number[]): Generator<number[]> {
  if (shape.includes(0)) return;
  const index = shape.map(() => 0);
  while (true) {
    yield [...index];
    let dimension = shape.length - 1;
    while (dimension >= 0 && ++index[dimension] === shape[dimension]) index[dimension--] = 0;
    if (dimension < 0) return;
  }
}

/** The place of an index in C order. */
export function placeOf(shape: readonly number[], index: readonly number[]): number {
  return index.reduce((place, i, dimension) => place * shape[dimension] + i, 0);
}

export function at({ shape, re, im }: Model, index: readonly number[]): Complex {
  const place = placeOf(shape, index);
  return [re[place], im[place]];
}

/** The array of what a function gives for each index. */
export function tabulate(shape: readonly number[], element: (index: number[]) => Complex): Model {
  const [re, im]: [number[], number[]] = [[], []];
  for (const index of indicesOf(shape)) {
    const [x, y] = element(index);
    re.push(x);
    im.push(y);
  }
  return { shape: [...shape], re, im };
}

export function transposed(model: Model): Model {
  return tabulate(model.shape.toReversed(), (index) => at(model, index.toReversed()));
}

export function conjugated({ shape, re, im }: Model): Model {
  return { shape, re, im: im.map((y) => -y) };
}

export function sliced(model: Model, ranges: readonly Range[]): Model {
  const shape = ranges.map(([start, end]) => end - start);
  return tabulate(shape, (index) => at(model, index.map((i, dimension) => i + ranges[dimension][0])));
}

export function mapped(model: Model, change: (value: Complex, index: number[]) => Complex): Model {
  return tabulate(model.shape, (index) => change(at(model, index), index));
}

export const times = ([a, b]: Complex, [x, y]: Complex): Complex => [a * x - b * y, a * y + b * x];
export const plus = ([a, b]: Complex, [x, y]: Complex): Complex => [a + x, b + y];

/** Whether the model is to be wrong, for the test that the soak notices. */
const isWrong = Deno.env.get("DISTMATH_SOAK_WRONG") === "1";

/** The product of two matrices. */
export function product(a: Model, b: Model): Model {
  return tabulate([a.shape[0], b.shape[1]], ([i, j]) => {
    let sum: Complex = [isWrong && i === 2 ? 1 : 0, 0];
    for (let p = 0; p < a.shape[1]; p++) sum = plus(sum, times(at(a, [i, p]), at(b, [p, j])));
    return sum;
  });
}

/** alpha A + beta C. */
export function combined(alpha: Complex, a: Model, beta: Complex, c: Model | null): Model {
  return mapped(a, (value, index) => plus(times(alpha, value), c ? times(beta, at(c, index)) : [0, 0]));
}

/** A value as the functions of arrays take and give it. */
export function toScalar(dtype: DType, [re, im]: Complex): Scalar {
  return dtypeInfo(dtype).isComplex ? [re, im] : dtype === "int64" ? BigInt(re) : re;
}

export function fromScalar(value: Scalar): Complex {
  return typeof value === "object" ? value : [Number(value), 0];
}

/** The elements in memory order, as numbers: two for each element of a complex type. */
export function numbersIn(model: Model, dtype: DType, order: "C" | "F"): number[] {
  const { re, im } = order === "C" ? model : transposed(model);
  return dtypeInfo(dtype).isComplex ? re.flatMap((x, i) => [x, im[i]]) : [...re];
}

/** What is wrong with numbers that should be these; null if nothing is. */
export function wrongNumbers(given: readonly number[], wanted: readonly number[]): string | null {
  if (given.length !== wanted.length) return `there are ${given.length} numbers, not ${wanted.length}`;
  const place = given.findIndex((value, i) => value !== wanted[i]);
  return place < 0 ? null : `number ${place} is ${given[place]}, not ${wanted[place]}`;
}

/** What is wrong with this rank's part of an array; null if nothing is. */
export function wrongPart(array: DistributedArray, model: Model, dtype: DType): string | null {
  if (array.shape.join() !== model.shape.join()) return `the shape is [${array.shape}], not [${model.shape}]`;
  if (array.dtype !== dtype) return `the dtype is ${array.dtype}, not ${dtype}`;
  const held = array.distribution.ranges(array.runtime.rank).map((ranges) =>
    ranges.flatMap(([start, end]) => Array.from({ length: end - start }, (_, i) => start + i))
  );
  const part = tabulate(held.map(({ length }) => length), (index) => at(model, index.map((i, d) => held[d][i])));
  const wrong = wrongNumbers(array.local.toNumbers(), numbersIn(part, dtype, "C"));
  return wrong && `${wrong}, in ${array}`;
}

/** A local part of these elements. */
export function partOf(model: Model, dtype: DType, order: "C" | "F"): LocalArray {
  const part = LocalArray.zeros(dtype, model.shape, order);
  if (part.size > 0) part.set(bigIf(dtype === "int64", numbersIn(model, dtype, "C")));
  return part;
}

function bigIf(isBig: boolean, numbers: number[]): ArrayLike<number> | ArrayLike<bigint> {
  return isBig ? numbers.map(BigInt) : numbers;
}
