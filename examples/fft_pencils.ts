// Pencils: each rank has a box that is long in one direction; the result shall be in boxes that are long in another one.
//
//   deno task run -n 4 examples/fft_pencils.ts
import { Box, type Corners, DistributedArray, FFT, initialize } from "../mod.ts";

using runtime = initialize();
const shape = [16, 12, 20];

/** Boxes on a grid of ranks, long along one axis. */
function pencils(long: number): Box {
  const [first, second] = [0, 1, 2].filter((axis) => axis !== long);
  const rows = runtime.size % 2 === 0 ? 2 : 1;
  const columns = runtime.size / rows;
  const corners = (rank: number): Corners => {
    const [lower, upper] = [[0, 0, 0], [...shape]];
    for (const [axis, at, count] of [[first, Math.floor(rank / columns), rows], [second, rank % columns, columns]]) {
      lower[axis] = Math.floor(shape[axis] * at / count);
      upper[axis] = Math.floor(shape[axis] * (at + 1) / count);
    }
    return [lower, upper];
  };
  return new Box(Array.from({ length: runtime.size }, (_, rank) => corners(rank)));
}

using field = DistributedArray.random(runtime, shape, pencils(2), { dtype: "complex64", seed: 1 });
using transform = new FFT(field, { distribution: pencils(0) });
transform.plan();
using spectrum = transform.execute();
// The same plan goes back: its operand then is in the results' boxes.
transform.resetOperands(spectrum);
using again = transform.execute({ direction: "inverse" });
const error = again.maxAbsDifference(field);
if (runtime.rank === 0) {
  console.log(transform.explain());
  console.log(`there and back: error ${error}`);
}
if (!(error < 1e-6)) Deno.exit(1);
