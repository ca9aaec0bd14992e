// Conjugate gradients: A x = b for the matrix of -u'' on a line, whose rows are divided among the ranks.
//
//   deno task run -n 2 examples/conjugate_gradients.ts
import { axpy, DistributedArray, dot, initialize, Replicated, Slab } from "../mod.ts";

using runtime = initialize({ device: "cpu" });
const n = 200;
const entry = (i: number, j: number) => i === j ? 2 : Math.abs(i - j) === 1 ? -1 : 0;
const a = DistributedArray.generate(runtime, [n, n], Slab.X, entry);
const b = DistributedArray.full(runtime, [n], Slab.X, 1 / (n + 1) ** 2);

const [x, r, p] = [DistributedArray.zeros(runtime, [n], Slab.X), b.copy(), b.copy()];
let [squares, steps] = [dot(r, r), 0];
for (; squares > 1e-24; steps++) {
  // Each rank multiplies its rows with the whole vector.
  const q = a.multiply(p.redistribute(Replicated)).sum({ axis: 1 });
  const alpha = squares / dot(p, q);
  axpy(alpha, p, x);
  axpy(-alpha, q, r);
  const next = dot(r, r);
  p.multiply(next / squares, { into: p }).add(r, { into: p });
  squares = next;
}
const [norm, middle] = [x.norm(), x.at(n / 2)];
if (runtime.rank === 0) console.log(`${steps} steps, norm ${norm}, in the middle ${middle}`);
