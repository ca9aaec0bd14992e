/** Transforms of small arrays beside those of `numpy.fft` (`numpy/transforms.py`). */
import { assert, assertEquals } from "@std/assert";
import {
  DistributedArray,
  type Distribution,
  fft,
  type FFTNorm,
  ifft,
  irfft,
  Replicated,
  rfft,
  Slab,
} from "../../mod.ts";
import { clusterTest } from "../../src/testing/mod.ts";
import fixtures from "./numpy/transforms.json" with { type: "json" };

const functions = { fft, ifft, rfft, irfft } as const;

for (const name of ["fft", "ifft", "rfft", "irfft"] as const) {
  clusterTest(`${name} gives what numpy.fft gives`, (runtime) => {
    const cases = fixtures.cases.filter((one) => one.name === name);
    assert(cases.length >= 8);
    for (const { shape, axes, norm, parity, result, numbers } of cases) {
      const place = (index: readonly number[]) => index.reduce((sum, i, d) => sum * shape[d] + i, 0);
      const value = (...index: number[]): number | readonly [number, number] => {
        const [real, imag] = [place(index) * 7 % 11 - 5, place(index) * 5 % 13 - 6];
        return name === "rfft" ? real : [real, imag];
      };
      const dtype = name === "rfft" ? "float64" : "complex128";
      for (const from of distributions(shape)) {
        const operand = DistributedArray.generate(runtime, shape, from, value, { dtype });
        const options = { axes, norm: norm as FFTNorm };
        const found = name === "irfft"
          ? irfft(operand, { ...options, lastAxisParity: parity as "even" | "odd" })
          : functions[name](operand, options);
        const title = `${name} [${shape}], axes ${axes}, ${norm}, ${parity}, ${from}`;
        assertEquals([...found.shape], result, title);
        const error = largestDifference(found.redistribute(Replicated).local.toNumbers(), numbers);
        assert(error < 1e-12, `${title}: the error is ${error}`);
      }
    }
  });
}

function distributions(shape: readonly number[]): Distribution[] {
  return shape.length === 1 ? [Slab.X] : [Slab.X, Slab.Y];
}

function largestDifference(found: readonly number[], expected: readonly number[]): number {
  assertEquals(found.length, expected.length);
  return found.reduce((most, x, i) => Math.max(most, Math.abs(x - expected[i])), 0);
}
