// A Matmul object is planned once and executed often, with new operands or scalars in between.
//
//   deno task run -n 2 examples/stateful_reset.ts
import { DistributedArray, initialize, Matmul, Slab } from "../mod.ts";

using runtime = initialize();
const n = 48;
const options = { dtype: "float64" } as const;
const identity = DistributedArray.generate(runtime, [n, n], Slab.X, (i, j) => i === j ? 1 : 0, options);
const first = DistributedArray.random(runtime, [n, n], Slab.X, { ...options, seed: 1 });
const second = DistributedArray.random(runtime, [n, n], Slab.X, { ...options, seed: 2 });

using multiplication = new Matmul(identity, first);
multiplication.plan();
using one = multiplication.execute();

multiplication.resetOperands({ b: second, alpha: 2 });
using two = multiplication.execute();

using doubled = second.map((value) => 2 * value);
const errors = [one.maxAbsDifference(first), two.maxAbsDifference(doubled)];
runtime.print(`I B = B: error ${errors[0]}; 2 I B' = 2 B': error ${errors[1]}`);
if (errors.some((error) => error !== 0)) Deno.exit(1);
