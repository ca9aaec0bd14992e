// Ridge regression: the normal equations are summed over the ranks, and every rank solves the small system by Cholesky.
//
//   deno task run -n 2 examples/ridge_regression.ts
import { DistributedArray, expandDims, initialize, matmul, Replicated, Slab } from "../mod.ts";

using runtime = initialize();
const [count, features, penalty] = [400, 5, 0.5];
using x = DistributedArray.generate(runtime, [count, features], Slab.X, (i, j) => Math.cos(i * (j + 1) / 7));
using truth = DistributedArray.generate(runtime, [features], Replicated, (j) => j - 1.5);
using noise = DistributedArray.generate(runtime, [count], Slab.X, (i) => Math.sin(11 * i) / 10);
using y = x.multiply(truth).sum({ axis: 1 }).add(noise);

using gram = matmul(x, x, { qualifiers: { a: { isTranspose: true } }, epilog: "all_reduce" });
using moments = x.multiply(expandDims(y, 1)).sum({ axis: 0 });

/** Solves A w = b for a small positive definite A, in place: A = L L^T. */
function solve(a: Float64Array<ArrayBuffer>, b: Float64Array<ArrayBuffer>): Float64Array<ArrayBuffer> {
  const n = b.length;
  for (let j = 0; j < n; j++) {
    for (let k = 0; k < j; k++) for (let i = j; i < n; i++) a[i * n + j] -= a[i * n + k] * a[j * n + k];
    const pivot = Math.sqrt(a[j * n + j]);
    for (let i = j; i < n; i++) a[i * n + j] /= pivot;
  }
  for (let i = 0; i < n; i++) {
    for (let k = 0; k < i; k++) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (let i = n - 1; i >= 0; i--) {
    for (let k = i + 1; k < n; k++) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
  return b;
}

const system = gram.map((value, i, j) => i === j ? value + penalty : value);
const weights = solve(system.to({ order: "C" }).allGather(), moments.allGather());
using w = DistributedArray.fromLocal(runtime, weights, Replicated, { localShape: [features] });
using predicted = x.multiply(w).sum({ axis: 1 });
const error = predicted.subtract(y).norm();
if (runtime.rank === 0) console.log(`weights ${[...weights].join(" ")}, residual ${error}`);
