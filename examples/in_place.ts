// With `inplace` the result is written over C: no memory is taken for D.
//
//   deno task run -n 2 examples/in_place.ts
import { DistributedArray, initialize, Matmul, Slab } from "../mod.ts";

using runtime = initialize();
const n = 32;
const ones = DistributedArray.full(runtime, [n, n], Slab.X, 1, { dtype: "float64" });
const c = DistributedArray.zeros(runtime, [n, n], Slab.X, { dtype: "float64" });

using accumulate = new Matmul(ones, ones, { c, beta: 1, inplace: true });
accumulate.plan();
for (let round = 0; round < 3; round++) accumulate.execute(); // C += ones * ones, three times

const total = c.sum();
runtime.print(`sum of C: ${total}, expected ${3 * n * n * n}`);
if (total !== 3 * n * n * n) Deno.exit(1);
