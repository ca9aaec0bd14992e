/**
 * The multiplication by roots of unity between the two halves of a long transform.
 *
 * @module
 */
import type { LocalArray } from "../../../array/local_array.ts";
import type { FFTDirection } from "../../problem.ts";

/** Roots of unity exp(2 pi i m / n) as products of two from small tables, of which each is exact to rounding. */
export class Roots {
  /** The length of the fine table. */
  readonly #step: number;
  /** exp(2 pi i m / n) for m below `#step`. */
  readonly #fine: Float64Array;
  /** exp(2 pi i m / n) for multiples of `#step`. */
  readonly #coarse: Float64Array;

  /** The n-th roots. */
  constructor(n: number) {
    this.#step = Math.ceil(Math.sqrt(n));
    this.#fine = table(this.#step, 1, n);
    this.#coarse = table(Math.ceil(n / this.#step), this.#step, n);
  }

  /**
   * Multiply element (i, j) of a matrix, row by row in memory, by exp(-2 pi i (i (first + j)) / n), or in the inverse by
   * its conjugate.
   */
  multiply({ data, offset, shape }: LocalArray, first: number, direction: FFTDirection): void {
    const [rows, columns] = shape;
    const [step, fine, coarse] = [this.#step, this.#fine, this.#coarse];
    const numbers = data as Float64Array;
    const sign = direction === "forward" ? -1 : 1;
    let at = 2 * offset;
    for (let row = 0; row < rows; row++) {
      let power = row * first;
      for (let column = 0; column < columns; column++, power += row, at += 2) {
        const high = Math.floor(power / step);
        const [a, b] = [2 * (power - high * step), 2 * high];
        const cosine = fine[a] * coarse[b] - fine[a + 1] * coarse[b + 1];
        const sine = sign * (fine[a] * coarse[b + 1] + fine[a + 1] * coarse[b]);
        const [re, im] = [numbers[at], numbers[at + 1]];
        numbers[at] = re * cosine - im * sine;
        numbers[at + 1] = re * sine + im * cosine;
      }
    }
  }
}

function table(count: number, step: number, n: number): Float64Array {
  const roots = new Float64Array(2 * count);
  for (let i = 0; i < count; i++) {
    const angle = 2 * Math.PI * (i * step) / n;
    roots[2 * i] = Math.cos(angle);
    roots[2 * i + 1] = Math.sin(angle);
  }
  return roots;
}
