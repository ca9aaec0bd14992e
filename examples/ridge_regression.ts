// Ridge regression: the normal equations are summed over the ranks, and the small system is solved by Cholesky.
//
//   deno task run -n 2 examples/ridge_regression.ts
import { DistributedArray, eye, initialize, matmul, Replicated, Slab, solve } from "../mod.ts";

using runtime = initialize();
const [count, features, penalty] = [400, 5, 0.5];
using x = DistributedArray.generate(runtime, [count, features], Slab.X, (i, j) => Math.cos(i * (j + 1) / 7));
using truth = DistributedArray.generate(runtime, [1, features], Replicated, (_, j) => j - 1.5);
using noise = DistributedArray.generate(runtime, [count, 1], Slab.X, (i) => Math.sin(11 * i) / 10);
using y = x.multiply(truth).sum({ axis: 1, keepDims: true }).add(noise);

const options = { qualifiers: { a: { isTranspose: true } }, epilog: "all_reduce" } as const;
using gram = matmul(x, x, options).add(eye(runtime, features, Replicated).multiply(penalty));
using weights = solve(gram, matmul(x, y, options), { assume: "positive_definite" });
using residual = x.multiply(weights.transpose()).sum({ axis: 1, keepDims: true }).subtract(y);
runtime.print(`weights ${weights.allGather().join(" ")}, residual ${residual.norm()}`);
