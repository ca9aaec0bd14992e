import { assert, assertEquals } from "@std/assert";
import { LocalArray } from "../../../mod.ts";
import { fromFirstHalf, toFirstHalf } from "../../../src/fft/engines/fftw/reflect.ts";
import { refusalOfFourSteps } from "../../../src/fft/four_step.ts";
import { firstHalf, rowsOf } from "../../../src/fft/half_spectra.ts";
import { type FFTProblem, halfOf, shapeOf } from "../../../src/fft/problem.ts";
import { findRoutes } from "../../../src/fft/route.ts";
import { Slab } from "../../../mod.ts";

/** A number for each frequency that no other one has, and for its negative the conjugate. */
function spectrumAt(frequency: number, n: number): readonly [number, number] {
  const mirrored = (n - frequency) % n;
  if (mirrored === frequency) return [frequency + 1, 0];
  return frequency < mirrored ? [frequency + 1, frequency + 0.5] : [mirrored + 1, -mirrored - 0.5];
}

function complexArray(frequencies: readonly number[], n: number): LocalArray {
  const data = Float64Array.from(frequencies.flatMap((frequency) => [...spectrumAt(frequency, n)]));
  return new LocalArray({ data, dtype: "complex128", shape: [frequencies.length] });
}

Deno.test("rows of a spectrum of real numbers and the first half of the vector: each rank makes either of the other, exactly", () => {
  for (let rows = 2; rows <= 9; rows++) {
    for (let columns = 2; columns <= 8; columns++) {
      for (const size of [1, 2, 3, 4, 7]) {
        const n = rows * columns;
        const halves = { rows, columns, size };
        const parts = firstHalf(halves);
        const held: number[] = [];
        for (let rank = 0; rank < size; rank++) {
          const [ranges] = parts.ranges(rank);
          assert(ranges.every(([start, end], i) => start < end && (i === 0 || ranges[i - 1][1] < start)), "ascending");
          const frequencies = ranges.flatMap(([start, end]) =>
            Array.from({ length: end - start }, (_, i) => start + i)
          );
          held.push(...frequencies);
          const [first, end] = rowsOf(halves, rank)?.own ?? [0, 0];
          const height = end - first;
          const matrix = Array.from(
            { length: columns * height },
            (_, i) => first + i % height + rows * Math.floor(i / height),
          );
          const [rowsHere, vector] = [complexArray(matrix, n), complexArray(frequencies, n)];
          const made = LocalArray.zeros("complex128", [frequencies.length]);
          toFirstHalf(halves, rank, rowsHere, made);
          assertEquals(made.toNumbers(), vector.toNumbers(), `to the vector: ${rows} x ${columns}, ${rank} of ${size}`);
          const back = LocalArray.zeros("complex128", [matrix.length]);
          fromFirstHalf(halves, rank, vector, back);
          // The conjugate of 0 is -0.
          const numbers = back.toNumbers().map((x) => x + 0);
          assertEquals(numbers, rowsHere.toNumbers(), `to the rows: ${rows} x ${columns}, ${rank} of ${size}`);
        }
        assertEquals(held.sort((a, b) => a - b), Array.from({ length: halfOf(n) }, (_, k) => k), "each once");
      }
    }
  }
});

Deno.test("a vector is transformed by four steps where its length has factors, of real numbers, too", () => {
  const problemOf = (type: "c2c" | "r2c" | "c2r", extent: number, parity: "even" | "odd"): FFTProblem => {
    const shape = shapeOf(type, [0], [extent], parity);
    const [from, to] = [shape.operand, shape.result].map((each) => Slab.X.bind(each, 2));
    return { ...shape, precision: "float64", order: "C", from, to };
  };
  for (const type of ["c2c", "r2c", "c2r"] as const) {
    for (const [n, isPrime] of [[12, false], [13, true], [15, false]] as const) {
      const problem = problemOf(type, type === "c2r" ? halfOf(n) : n, n % 2 === 1 ? "odd" : "even");
      const routes = findRoutes(problem);
      assertEquals(routes.some(({ algorithm }) => algorithm === "four_step"), !isPrime, `${type} of ${n}`);
      const [{ notes }] = routes.filter(({ algorithm }) => algorithm === "gather");
      const reason = "a vector of 13 numbers, which is prime, is transformed by one rank";
      assertEquals(notes, isPrime ? [reason] : [], `${type} of ${n}`);
      for (const { steps } of findRoutes(problem, { algorithm: "four_step" })) {
        assertEquals(steps.filter(({ kind }) => kind === "reflect").length, type === "c2c" ? 0 : 1);
      }
    }
  }
  assertEquals(refusalOfFourSteps({ ...problemOf("c2c", 13, "even"), from: Slab.X.bind([13], 1) }), null);
});
