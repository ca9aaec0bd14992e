// Jacobi's iteration for Laplace's equation on a square: each rank has some rows, and the rows of its neighbours beside
// them ("halos"), which travel before each step.
//
//   deno task run -n 2 examples/jacobi.ts
import { DistributedArray, initialize, Slab } from "../mod.ts";

using runtime = initialize({ device: "cpu" });
const { communicator, rank, size } = runtime;
const [n, steps] = [24, 60];
const border = (i: number, j: number) => i === 0 ? Math.sin(Math.PI * j / (n - 1)) : 0;
using u = DistributedArray.generate(runtime, [n, n], Slab.X, border);

const rows = u.local.shape[0];
const values = u.local.view();
const halos = new Float64Array((rows + 2) * n); // a row above, the rows, a row below
const row = (i: number) => halos.subarray((i + 1) * n, (i + 2) * n);
const [above, below] = [rank > 0 ? rank - 1 : null, rank < size - 1 ? rank + 1 : null];
const [[first]] = u.distribution.ranges(rank)[0];

for (let step = 0; step < steps; step++) {
  halos.set(values, n);
  communicator.sendReceive(row(0), above, row(rows), { source: below });
  communicator.sendReceive(row(rows - 1), below, row(-1), { source: above });
  for (let i = 0; i < rows; i++) {
    if (first + i === 0 || first + i === n - 1) continue; // the border stays
    const [up, own, down] = [row(i - 1), row(i), row(i + 1)];
    for (let j = 1; j < n - 1; j++) values[i * n + j] = (up[j] + down[j] + own[j - 1] + own[j + 1]) / 4;
  }
}
const [total, middle] = [u.sum(), u.at(n / 2, n / 2)];
if (rank === 0) console.log(`sum ${total}, in the middle ${middle}`);
