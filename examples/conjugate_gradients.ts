// Conjugate gradients: A x = b for the matrix of -u'' on a line, whose rows are divided among the ranks.
//
//   deno task run -n 2 examples/conjugate_gradients.ts
import { cg, DistributedArray, initialize, Slab } from "../mod.ts";

using runtime = initialize();
const n = 200;
const entry = (i: number, j: number) => i === j ? 2 : Math.abs(i - j) === 1 ? -1 : 0;
using a = DistributedArray.generate(runtime, [n, n], Slab.X, entry);
using b = DistributedArray.full(runtime, [n], Slab.X, 1 / (n + 1) ** 2);

const { x, steps } = cg(a, b, { tolerance: 1e-12 });
runtime.print(`${steps} steps, norm ${x.norm()}, in the middle ${x.at(n / 2)}`);
