// Poisson's equation on a periodic square, -(u_xx + u_yy) = f, solved by Fourier transforms; the solution as a picture.
//
//   deno task run -n 2 examples/poisson.ts [solution.svg]
import { DistributedArray, initialize, irfft, rfft, Slab } from "../mod.ts";

using runtime = initialize();
const n = 64;
const { PI, sin, cos, max, min } = Math;

// u is known here, so that f is, and the solution can be compared.
const x = (i: number) => 2 * PI * i / n;
const solution = (i: number, j: number) => sin(3 * x(i)) * cos(2 * x(j)) + cos(x(i) + 4 * x(j));
const source = (i: number, j: number) => 13 * sin(3 * x(i)) * cos(2 * x(j)) + 17 * cos(x(i) + 4 * x(j));
using f = DistributedArray.generate(runtime, [n, n], Slab.X, source);
using expected = DistributedArray.generate(runtime, [n, n], Slab.X, solution);

// Each frequency is divided by its square. Frequencies above n / 2 are negative ones.
using spectrum = rfft(f);
using divided = spectrum.map(([re, im], row, column) => {
  const k = row <= n / 2 ? row : row - n;
  const square = k * k + column * column;
  return square === 0 ? [0, 0] : [re / square, im / square];
});
using u = irfft(divided, { distribution: Slab.X });
const error = u.maxAbsDifference(expected);

/** Squares of blue for negative and of red for positive values. */
function picture(values: Float64Array): string {
  const largest = values.reduce((most, value) => max(most, Math.abs(value)), 0);
  const squares = Array.from(values, (value, i) => {
    const [paler, full] = [255 - Math.round(255 * min(1, Math.abs(value) / largest)), 255];
    const colour = value < 0 ? [paler, paler, full] : [full, paler, paler];
    return `<path d="M${8 * (i % n)} ${8 * Math.floor(i / n)}h8v8h-8z" fill="rgb(${colour})"/>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${8 * n}" height="${8 * n}">\n${squares.join("\n")}\n</svg>\n`;
}

const values = u.gather();
if (values) {
  const path = Deno.args[0] ?? `${Deno.makeTempDirSync()}/solution.svg`;
  Deno.writeTextFileSync(path, picture(values));
  console.log(`the largest error is ${error}; a picture of the solution is in ${path}`);
}
if (!(error < 1e-13)) Deno.exit(1);
