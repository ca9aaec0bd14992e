// Jacobi's iteration for Laplace's equation on a square: each rank has some rows, and in each step the rows beside them
// ("halos") come from its neighbours.
//
//   deno task run -n 2 examples/jacobi.ts
import { DistributedArray, evaluate, initialize, Slab } from "../mod.ts";

using runtime = initialize({ device: "cpu" });
const n = 24;
const border = (i: number, j: number) => i === 0 ? Math.sin(Math.PI * j / (n - 1)) : 0;
using u = DistributedArray.generate(runtime, [n, n], Slab.X, border);

const inner = u.slice([[1, -1], [1, -1]]); // the border stays
// The same rows one further up or down are distributed differently: those at the edge of each rank's part travel.
const [up, down] = [u.slice([[0, -2], [1, -1]]), u.slice([[2, null], [1, -1]])];
const [left, right] = [u.slice([[1, -1], [0, -2]]), u.slice([[1, -1], [2, null]])];
const options = { into: inner, redistribute: true };
for (let step = 0; step < 60; step++) {
  evaluate((a, b, c, d) => a.add(b).add(c).add(d).divide(4), [up, down, left, right], options);
}
runtime.print(`sum ${u.sum()}, in the middle ${u.at(n / 2, n / 2)}`);
