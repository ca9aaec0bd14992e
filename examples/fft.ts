// Fourier transforms of complex numbers: of a cube in slabs, of its rows or columns alone, of one long vector.
//
//   deno task run -n 2 examples/fft.ts
import { DistributedArray, fft, ifft, initialize, Slab } from "../mod.ts";

using runtime = initialize();
const tell = (text: string) => runtime.rank === 0 && console.log(text);
const options = { dtype: "complex128", seed: 1 } as const;

// An axis is transformed where every rank has all of it: the result stays in the distribution of the last ones.
using cube = DistributedArray.random(runtime, [16, 24, 20], Slab.X, options);
using spectrum = fft(cube, { norm: "ortho" });
const parseval = Math.abs(spectrum.norm() / cube.norm() - 1);
tell(`a cube in ${cube.distribution}: its spectrum in ${spectrum.distribution}, norms differ by ${parseval}`);

// Back again, and to where the cube was.
using again = ifft(spectrum, { norm: "ortho", distribution: Slab.X });
const error = again.maxAbsDifference(cube);
tell(`the inverse in ${again.distribution}: error ${error}`);

// 16 x 24 transforms of 20: nothing leaves a rank. Axes count from 0, negative ones from the end.
using rows = fft(cube, { axes: [-1] });
tell(`rows alone, in ${rows.distribution}`);

// 24 x 20 transforms of 16, whose elements are on all ranks: they move to where each rank has whole lines, and back if asked.
using columns = fft(cube, { axes: [0], redistribute: true });
const [lowest] = columns.slice([[0, 1], [0, 24], [0, 20]]).sum();
const [all] = cube.sum();
tell(`columns alone, in ${columns.distribution}: their first frequencies sum to ${lowest.toFixed(6)} as the cube does`);

// One vector, divided among the ranks.
using vector = DistributedArray.random(runtime, [10000], Slab.X, options);
using frequencies = fft(vector);
const total = vector.sum();
const first = frequencies.slice([[0, 1]]).sum();
tell(`a vector of ${vector.size}: its first frequency is its sum, ${first[0].toFixed(6)} and ${total[0].toFixed(6)}`);

const isSum = Math.abs(first[0] - total[0]) < 1e-8 && Math.abs(lowest - all) < 1e-8;
if (!(parseval < 1e-12 && error < 1e-13 && isSum)) Deno.exit(1);
