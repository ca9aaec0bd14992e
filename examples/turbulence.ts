// Decaying turbulence in two dimensions: steps of the vorticity equation, w_t + u w_x + v w_y = nu (w_xx + w_yy), with
// derivatives by Fourier transforms; the vorticity as a picture.
//
//   deno task run -n 2 examples/turbulence.ts [steps [vorticity.png]]
import { deflateSync } from "node:zlib";
import { DistributedArray, FFT, initialize, Slab } from "../mod.ts";

using runtime = initialize({ device: "cpu" });
const n = 64;
const steps = Number(Deno.args[0] ?? 20);
const [viscosity, dt] = [2e-4, 0.02];

// One transform there and one back, planned once. Spectra are in columns, fields in rows.
using w = DistributedArray.zeros(runtime, [n, n], Slab.X);
using forward = new FFT(w);
forward.plan();
using zero = forward.execute();
using inverse = new FFT(zero, { fftType: "c2r" });
inverse.plan();

/** The frequencies of this rank's part of a spectrum: the first one goes from -n/2 to n/2. */
const [, columns] = zero.local.shape;
const [[[firstColumn]]] = [zero.distribution.ranges(runtime.rank).toReversed()];
const frequencies = Array.from({ length: zero.local.size }, (_, i) => {
  const row = Math.floor(i / columns);
  return [row < n / 2 ? row : row - n, (firstColumn?.[0] ?? 0) + i % columns] as const;
});

/** A spectrum of which each number is that of `from` times a complex factor. */
function times(from: Float64Array, factor: (ky: number, kx: number) => readonly [number, number]) {
  const spectrum = zero.copy();
  const to = spectrum.local.view();
  for (const [i, [ky, kx]] of frequencies.entries()) {
    const [re, im] = factor(ky, kx);
    to[2 * i] = from[2 * i] * re - from[2 * i + 1] * im;
    to[2 * i + 1] = from[2 * i] * im + from[2 * i + 1] * re;
  }
  return spectrum;
}

/** The field of a spectrum: this rank's rows. */
function field(spectrum: DistributedArray<"complex128">): Float64Array {
  inverse.resetOperands(spectrum);
  using result = inverse.execute();
  spectrum.free();
  return result.local.view().slice();
}

/** What the flow carries away: -(u w_x + v w_y), as a spectrum without the third of frequencies that would fold back. */
function advection(vorticity: Float64Array): Float64Array {
  const square = (ky: number, kx: number) => Math.max(1, ky * ky + kx * kx);
  // The stream function is w / k^2; u is its derivative along y, v the negative one along x.
  const u = field(times(vorticity, (ky, kx) => [0, ky / square(ky, kx)]));
  const v = field(times(vorticity, (ky, kx) => [0, -kx / square(ky, kx)]));
  const alongX = field(times(vorticity, (_, kx) => [0, kx]));
  const alongY = field(times(vorticity, (ky) => [0, ky]));
  w.local.view().forEach((_, i, product) => product[i] = -(u[i] * alongX[i] + v[i] * alongY[i]));
  using spectrum = forward.execute();
  using smooth = times(spectrum.local.view(), (ky, kx) => [Number(Math.max(Math.abs(ky), kx) < n / 3), 0]);
  return smooth.local.view().slice();
}

// Eddies of a few sizes at random.
using noise = DistributedArray.random(runtime, [n, n], Slab.X, { low: -1, high: 1, seed: 5 });
w.local.set(noise.local);
using start = forward.execute();
using eddies = times(start.local.view(), (ky, kx) => {
  const k = Math.hypot(ky, kx);
  return [k > 1 && k < 8 ? 6 : 0, 0];
});
const vorticity = eddies.local.view().slice();
/** The mean square of the vorticity; each of the columns inside stands for its conjugate as well. */
const enstrophy = () => {
  const weight = (kx: number) => kx === 0 || kx === n / 2 ? 1 : 2;
  const sum = frequencies.reduce(
    (s, [, kx], i) => s + weight(kx) * (vorticity[2 * i] ** 2 + vorticity[2 * i + 1] ** 2),
    0,
  );
  return runtime.communicator.allReduce(Float64Array.of(sum), { op: "sum" })[0] / n ** 4;
};
const before = enstrophy();
for (let step = 0; step < steps; step++) {
  // Heun's method for what is carried, exactly for what diffuses.
  const first = advection(vorticity);
  const decay = frequencies.map(([ky, kx]) => Math.exp(-viscosity * (ky * ky + kx * kx) * dt));
  const guess = vorticity.map((value, i) => decay[i >> 1] * (value + dt * first[i]));
  const second = advection(guess);
  vorticity.forEach((value, i) => {
    vorticity[i] = decay[i >> 1] * (value + dt / 2 * first[i]) + dt / 2 * second[i];
  });
}
const after = enstrophy();

/** A picture of 8-bit colours as a PNG file. */
function png(width: number, height: number, colours: Uint8Array): Uint8Array {
  const crc = (bytes: Uint8Array) => {
    let c = -1;
    for (const byte of bytes) {
      c ^= byte;
      for (let bit = 0; bit < 8; bit++) c = c >>> 1 ^ (c & 1 ? 0xedb88320 : 0);
    }
    return ~c >>> 0;
  };
  const chunk = (name: string, data: Uint8Array) => {
    const bytes = new Uint8Array(12 + data.length);
    const view = new DataView(bytes.buffer);
    view.setUint32(0, data.length);
    bytes.set(new TextEncoder().encode(name), 4);
    bytes.set(data, 8);
    view.setUint32(8 + data.length, crc(bytes.subarray(4, 8 + data.length)));
    return [...bytes];
  };
  const header = new DataView(new ArrayBuffer(13));
  header.setUint32(0, width);
  header.setUint32(4, height);
  header.setUint16(8, 0x0802); // 8 bits, red, green, blue
  const lines = new Uint8Array(height * (3 * width + 1));
  for (let row = 0; row < height; row++) {
    lines.set(colours.subarray(3 * width * row, 3 * width * (row + 1)), row * (3 * width + 1) + 1);
  }
  const signature = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
  const parts = [["IHDR", new Uint8Array(header.buffer)], ["IDAT", deflateSync(lines)], ["IEND", new Uint8Array(0)]];
  return Uint8Array.from([...signature, ...parts.flatMap(([name, data]) => chunk(name as string, data as Uint8Array))]);
}

w.local.set(field(times(vorticity, () => [1, 0])));
const values = w.gather();
if (values) {
  const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const colours = Uint8Array.from({ length: 3 * n * n }, (_, i) => {
    const value = values[Math.floor(i / 3)] / largest;
    return 255 * (1 - [Math.max(0, -value), Math.abs(value), Math.max(0, value)][i % 3]);
  });
  const path = Deno.args[1] ?? `${Deno.makeTempDirSync()}/vorticity.png`;
  Deno.writeFileSync(path, png(n, n, colours));
  console.log(`${steps} steps: mean square of the vorticity ${before.toFixed(4)} -> ${after.toFixed(4)}, in ${path}`);
}
if (!(after < before && after > before / 2)) Deno.exit(1);
