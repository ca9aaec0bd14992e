// D = alpha A B + beta C: every BLAS user knows it.
//
//   deno task run -n 2 examples/gemm_with_c.ts
import { DistributedArray, initialize, matmul, Slab } from "../mod.ts";

using runtime = initialize();
const n = 64;
const a = DistributedArray.generate(runtime, [n, n], Slab.X, (i, j) => i === j ? 2 : 0, { dtype: "float64" });
const b = DistributedArray.generate(runtime, [n, n], Slab.X, (i, j) => i + j, { dtype: "float64" });
const c = DistributedArray.full(runtime, [n, n], Slab.X, 10, { dtype: "float64" });

using d = matmul(a, b, { c, alpha: 3, beta: 0.5 });

// 3 * 2 * (i + j) + 5, known in closed form.
using expected = DistributedArray.generate(runtime, [n, n], Slab.X, (i, j) => 6 * (i + j) + 5, { dtype: "float64" });
const error = d.maxAbsDifference(expected);
runtime.print(`max error ${error}`);
if (error !== 0) Deno.exit(1);
