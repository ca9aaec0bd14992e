// Conjugate gradients: A x = b for the matrix of -u'' on a line, whose rows are divided among the ranks.
//
//   deno task run -n 2 examples/conjugate_gradients.ts
import { axpy, DistributedArray, dot, initialize, linspace, Replicated, Slab } from "../mod.ts";

using runtime = initialize({ device: "cpu" });
const n = 200;
const entry = (i: number, j: number) => i === j ? 2 : Math.abs(i - j) === 1 ? -1 : 0;
const a = DistributedArray.generate(runtime, [n, n], Slab.X, entry);
const b = DistributedArray.full(runtime, [n], Slab.X, 1 / (n + 1) ** 2);

/** Each rank multiplies its rows with the whole vector. */
function product(vector: DistributedArray<"float64">): DistributedArray<"float64"> {
  using whole = vector.redistribute(Replicated);
  using terms = a.multiply(whole);
  return terms.sum({ axis: 1 });
}

const x = DistributedArray.zeros(runtime, [n], Slab.X);
const r = b.copy();
const p = b.copy();
let squares = dot(r, r);
let steps = 0;
while (squares > 1e-24) {
  using q = product(p);
  const alpha = squares / dot(p, q);
  axpy(alpha, p, x);
  axpy(-alpha, q, r);
  const next = dot(r, r);
  p.multiply(next / squares, { into: p }).add(r, { into: p });
  squares = next;
  steps++;
}

// The solution is t (1 - t) / 2 at the points between 0 and 1, exactly.
const t = linspace(runtime, 1 / (n + 1), n / (n + 1), n, Slab.X);
using exact = t.map((value) => value * (1 - value) / 2);
const error = x.maxAbsDifference(exact);
x.show({ precision: 4, threshold: 10 });
if (runtime.rank === 0) console.log(`${steps} steps, largest error ${error.toExponential(1)}`);
if (!(error < 1e-10)) Deno.exit(1);
