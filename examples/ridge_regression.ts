// Ridge regression: the normal equations are summed over the ranks, and every rank solves the small system by Cholesky.
//
//   deno task run -n 2 examples/ridge_regression.ts
import { concatenate, DistributedArray, expandDims, eye, initialize, matmul, Replicated, Slab } from "../mod.ts";

using runtime = initialize();
const [count, features, penalty] = [400, 5, 0.5];
using x = DistributedArray.generate(runtime, [count, features], Slab.X, (i, j) => Math.cos(i * (j + 1) / 7));
using truth = DistributedArray.generate(runtime, [features], Replicated, (j) => j - 1.5);
using noise = DistributedArray.generate(runtime, [count], Slab.X, (i) => Math.sin(11 * i) / 10);
using y = x.multiply(truth).sum({ axis: 1 }).add(noise);

// [X y]^T [X y]: the matrix X^T X, and below it the right-hand side y^T X.
using joint = concatenate([x, expandDims(y, 1)], { axis: 1 });
using gram = matmul(joint, joint, { qualifiers: { a: { isTranspose: true } }, epilog: "all_reduce" });
const l = gram.add(eye(runtime, features + 1, Replicated).multiply(penalty)).allGather();

// Cholesky, L L^T, in place; the row below becomes the solution for L on the way, and then that for L^T.
const at = (i: number, j: number) => i * (features + 1) + j;
for (let j = 0; j < features; j++) {
  for (let k = 0; k < j; k++) for (let i = j; i <= features; i++) l[at(i, j)] -= l[at(i, k)] * l[at(j, k)];
  const pivot = Math.sqrt(l[at(j, j)]);
  for (let i = j; i <= features; i++) l[at(i, j)] /= pivot;
}
const weights = l.slice(at(features, 0), at(features, features));
for (let j = features - 1; j >= 0; j--) {
  weights[j] /= l[at(j, j)];
  for (let k = 0; k < j; k++) weights[k] -= l[at(j, k)] * weights[j];
}
using w = DistributedArray.fromLocal(runtime, weights, Replicated, { localShape: [features] });
const error = x.multiply(w).sum({ axis: 1 }).subtract(y).norm();
runtime.print(`weights ${weights.join(" ")}, residual ${error}`);
