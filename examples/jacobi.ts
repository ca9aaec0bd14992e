// Jacobi's iteration for Laplace's equation on a square: each rank has some rows, and before each step the rows beside
// them ("halos") come from its neighbours.
//
//   deno task run -n 2 examples/jacobi.ts
import { DistributedArray, evaluate, initialize, Redistribution, Slab } from "../mod.ts";

using runtime = initialize({ device: "cpu" });
const [n, steps] = [24, 60];
const border = (i: number, j: number) => i === 0 ? Math.sin(Math.PI * j / (n - 1)) : 0;
using u = DistributedArray.generate(runtime, [n, n], Slab.X, border);

const inner = u.slice([[1, -1], [1, -1]]); // the border stays
const [left, right] = [u.slice([[1, -1], [0, -2]]), u.slice([[1, -1], [2, null]])];
// A slice one row further up or down has the same rows but one on each rank: that one travels.
using above = new Redistribution(u.slice([[0, -2], [1, -1]]), inner.distribution);
using below = new Redistribution(u.slice([[2, null], [1, -1]]), inner.distribution);
for (let step = 0; step < steps; step++) {
  using up = above.execute();
  using down = below.execute();
  evaluate((a, b, c, d) => a.add(b).add(c).add(d).divide(4), [up, down, left, right], { into: inner });
}
const [total, middle] = [u.sum(), u.at(n / 2, n / 2)];
if (runtime.rank === 0) console.log(`sum ${total}, in the middle ${middle}`);
