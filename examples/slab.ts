// The worked example: D = 0.45 A^T B + 0.67 C with slabs, on any number of ranks.
//
//   deno task run -n 2 examples/slab.ts
import { DistributedArray, initialize, matmul, Slab } from "../mod.ts";

using runtime = initialize();
const [m, n, k] = [128, 512, 1024];

// A and B are split by columns, C by rows: what an all-gather GEMM wants.
const a = DistributedArray.random(runtime, [k, m], Slab.Y, { dtype: "float32", seed: 1 });
const b = DistributedArray.random(runtime, [k, n], Slab.Y, { dtype: "float32", seed: 2 });
const c = DistributedArray.random(runtime, [m, n], Slab.X, { dtype: "float32", seed: 3 });

using d = matmul(a, b, {
  c,
  alpha: 0.45,
  beta: 0.67,
  qualifiers: { a: { isTranspose: true } },
  distribution: Slab.X,
});

console.log(`rank ${runtime.rank}: ${d.distribution}, local ${d.local.shape.join(" x ")}`);
const norm = d.norm(); // collective: every rank calls it
runtime.print(`norm of D: ${norm.toFixed(3)}`);
// Random numbers depend on the seed alone: NumPy gets this norm from the same arrays, in float64.
if (!(Math.abs(norm / 29588.7097 - 1) < 1e-6)) Deno.exit(1);
