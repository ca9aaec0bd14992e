// Options of matmul: compute type, and distribution, type and order of the result.
//
//   deno task run -n 2 examples/options.ts
import { DistributedArray, initialize, Matmul, Slab } from "../mod.ts";

using runtime = initialize({ checks: "collective", threads: 1 });
const a = DistributedArray.generate(runtime, [96, 64], Slab.X, (i) => i, { dtype: "float16" });
const b = DistributedArray.generate(runtime, [64, 32], Slab.Y, (_, j) => j, { dtype: "float16" });

using multiplication = new Matmul(a, b, {
  distribution: Slab.X,
  computeType: "float32",
  resultType: "float32",
  order: "F",
});
multiplication.plan();
using d = multiplication.execute();
const sum = d.sum(); // of 64 i j

if (runtime.rank === 0) {
  console.log(multiplication.explain());
  console.log(
    `${multiplication.algorithm.engine} ran ${multiplication.algorithm.algorithm}; D is ${d.dtype}, ${d.order}`,
  );
}
if (sum !== 64 * (96 * 95 / 2) * (32 * 31 / 2)) Deno.exit(1);
