/** Discrete Fourier transforms by their definition, one axis after the other: O(n) for each element and axis. */
import type { FFTDirection, FFTNorm, FFTType } from "../../mod.ts";

/** A whole array of complex numbers, real and imaginary parts by turns, in C order. */
export interface Whole {
  readonly shape: readonly number[];
  readonly numbers: Float64Array;
}

const sizeOf = (shape: readonly number[]) => shape.reduce((product, extent) => product * extent, 1);

/** The transform along one axis, without scaling. */
function alongAxis({ shape, numbers }: Whole, axis: number, sign: number): Whole {
  const n = shape[axis];
  const inner = sizeOf(shape.slice(axis + 1));
  const outer = sizeOf(shape.slice(0, axis));
  const cosines = Float64Array.from({ length: n }, (_, m) => Math.cos(2 * Math.PI * m / n));
  const sines = Float64Array.from({ length: n }, (_, m) => sign * Math.sin(2 * Math.PI * m / n));
  const result = new Float64Array(numbers.length);
  for (let o = 0; o < outer; o++) {
    for (let i = 0; i < inner; i++) {
      for (let k = 0; k < n; k++) {
        let [re, im] = [0, 0];
        for (let j = 0; j < n; j++) {
          const at = 2 * ((o * n + j) * inner + i);
          const m = j * k % n;
          re += numbers[at] * cosines[m] - numbers[at + 1] * sines[m];
          im += numbers[at] * sines[m] + numbers[at + 1] * cosines[m];
        }
        const at = 2 * ((o * n + k) * inner + i);
        result[at] = re;
        result[at + 1] = im;
      }
    }
  }
  return { shape, numbers: result };
}

/** The first half along an axis, or all from the first half: the others are conjugates, at negated frequencies. */
function cut({ shape, numbers }: Whole, axis: number): Whole {
  const half = shape.with(axis, Math.floor(shape[axis] / 2) + 1);
  return generate(half, (index) => at({ shape, numbers }, index));
}

function completed(half: Whole, axes: readonly number[], axis: number, extent: number): Whole {
  const shape = half.shape.with(axis, extent);
  return generate(shape, (index) => {
    if (index[axis] < half.shape[axis]) return at(half, index);
    const [re, im] = at(half, index.map((i, d) => axes.includes(d) ? (shape[d] - i) % shape[d] : i));
    return [re, -im];
  });
}

/** The number at an index. */
export function at({ shape, numbers }: Whole, index: readonly number[]): [number, number] {
  const place = 2 * index.reduce((sum, i, d) => sum * shape[d] + i, 0);
  return [numbers[place], numbers[place + 1]];
}

/** An array of the numbers that a function gives. */
export function generate(shape: readonly number[], value: (index: number[]) => readonly [number, number]): Whole {
  const numbers = new Float64Array(2 * sizeOf(shape));
  const index = shape.map(() => 0);
  for (let i = 0; i < numbers.length; i += 2) {
    [numbers[i], numbers[i + 1]] = value(index);
    for (let d = shape.length - 1; d >= 0 && ++index[d] === shape[d]; d--) index[d] = 0;
  }
  return { shape, numbers };
}

/** What a transform is. */
export interface Transform {
  readonly type: FFTType;
  readonly axes: readonly number[];
  readonly direction: FFTDirection;
  readonly norm?: FFTNorm;
  readonly isOdd?: boolean;
}

/** The transform of a whole array, by definition. */
export function transformed(operand: Whole, { type, axes, direction, norm = "backward", isOdd }: Transform): Whole {
  const last = axes[axes.length - 1];
  const extent = type === "c2r" ? 2 * (operand.shape[last] - 1) + (isOdd ? 1 : 0) : operand.shape[last];
  let whole = type === "c2r" ? completed(operand, axes, last, extent) : operand;
  for (const axis of axes) whole = alongAxis(whole, axis, direction === "forward" ? -1 : 1);
  const n = axes.reduce((product, axis) => product * whole.shape[axis], 1);
  const scale = norm === "ortho"
    ? 1 / Math.sqrt(n)
    : norm === "none" || (norm === "backward") === (direction === "forward")
    ? 1
    : 1 / n;
  const numbers = whole.numbers.map((x) => x * scale);
  return type === "r2c" ? cut({ shape: whole.shape, numbers }, last) : { shape: whole.shape, numbers };
}
