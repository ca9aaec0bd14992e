// Options of matmul: engine, algorithm, compute type, type and order of the result.
//
//   deno task run -n 2 examples/options.ts
import { DistributedArray, initialize, Matmul, Slab } from "../mod.ts";

using runtime = initialize({ checks: "collective", threads: 1 });
const a = DistributedArray.random(runtime, [96, 64], Slab.X, { dtype: "float16", seed: 1 });
const b = DistributedArray.random(runtime, [64, 32], Slab.Y, { dtype: "float16", seed: 2 });

using multiplication = new Matmul(a, b, {
  distribution: Slab.X,
  computeType: "float32",
  resultType: "float32",
  order: "F",
});
multiplication.plan();
using d = multiplication.execute();

if (runtime.rank === 0) {
  console.log(multiplication.explain());
  console.log(
    `${multiplication.algorithm.engine} ran ${multiplication.algorithm.algorithm}; D is ${d.dtype}, ${d.order}`,
  );
}
