// A circular convolution by Fourier transforms: a blur, compared with its definition.
//
//   deno task run -n 2 examples/convolution.ts
import { DistributedArray, initialize, irfft, rfft, Slab } from "../mod.ts";

using runtime = initialize();
const [rows, columns] = [48, 40];
const options = { dtype: "float64" } as const;

/** A Gaussian around (0, 0), which goes on at the other end of each axis. */
const gaussian = (i: number, j: number) => {
  const [y, x] = [Math.min(i, rows - i), Math.min(j, columns - j)];
  return Math.exp(-(x * x + y * y) / 8) / (8 * Math.PI);
};
using image = DistributedArray.random(runtime, [rows, columns], Slab.X, { ...options, seed: 1 });
using kernel = DistributedArray.generate(runtime, [rows, columns], Slab.X, gaussian, options);

// The spectrum of a convolution is the product of the spectra. Both are in the same distribution: a rank has both parts.
using spectrum = rfft(image);
using factors = rfft(kernel);
using product = spectrum.multiply(factors);
using blurred = irfft(product, { distribution: Slab.X });

// The definition, at one point.
const whole = image.allGather();
let expected = 0;
for (let i = 0; i < rows; i++) {
  for (let j = 0; j < columns; j++) {
    expected += whole[i * columns + j] * gaussian((7 - i + rows) % rows, (9 - j + columns) % columns);
  }
}
const found = blurred.at(7, 9);
runtime.print(`blurred at (7, 9): ${found}, by definition ${expected}`);
if (!(Math.abs(found - expected) < 1e-12)) Deno.exit(1);
