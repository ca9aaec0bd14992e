// Triangular systems, rank-k updates and products with triangular and symmetric matrices: ScaLAPACK's routines, or
// cuBLASMp's on GPUs.
//
//   deno task run -n 4 examples/triangular_systems.ts
import { DistributedArray, initialize, Slab, symm, syrk, trmm, trsm } from "../mod.ts";

using runtime = initialize();
const n = 32;
const lower = DistributedArray.generate(runtime, [n, n], Slab.X, (i, j) => i === j ? 2 : i > j ? 1 / n : 0);
const b = DistributedArray.random(runtime, [n, 8], Slab.X, { seed: 1 });

// Solve L X = B, and multiply back.
using x = trsm(lower, b, { uplo: "lower" });
using back = trmm(lower, x, { uplo: "lower" });
const error = back.maxAbsDifference(b);

// The lower triangle of X^T X, and its product with a matrix as if it were whole.
using gram = syrk(x, { trans: "transpose", uplo: "lower" });
using product = symm(gram, DistributedArray.full(runtime, [8, 3], Slab.X, 1), { uplo: "lower" });
const shape = product.shape.join(" x ");

if (runtime.rank === 0) {
  console.log(`L (L^-1 B) differs from B by ${error < 1e-14 ? "rounding" : error}; X^T X 1 is ${shape}`);
}
if (error >= 1e-14) throw new Error(`trsm and trmm disagree by ${error}`);
