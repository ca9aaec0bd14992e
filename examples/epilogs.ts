// An epilog is applied to the product before it is rounded: a bias, an activation, or both.
//
//   deno task run -n 2 examples/epilogs.ts
import { DistributedArray, initialize, Matmul, matmul, Slab } from "../mod.ts";

using runtime = initialize();
const [m, n, k] = [32, 24, 16];
const weights = DistributedArray.random(runtime, [m, k], Slab.X, { dtype: "bfloat16", low: -1, high: 1, seed: 1 });
const inputs = DistributedArray.random(runtime, [k, n], Slab.Y, { dtype: "bfloat16", low: -1, high: 1, seed: 2 });
// One bias value a row of D; the rows are split like D's.
const bias = DistributedArray.generate(runtime, [m], Slab.X, (row) => row / m - 0.5, { dtype: "bfloat16" });

using activated = matmul(weights, inputs, { distribution: Slab.X, epilog: "relu_bias", epilogInputs: { bias } });
const negatives = activated.local.toNumbers().filter((value) => (value as number) < 0);

// The gradient's epilogs need what the forward pass left behind: its auxiliary output.
using forward = new Matmul(weights, inputs, { distribution: Slab.X, epilog: "gelu_aux_bias", epilogInputs: { bias } });
forward.plan();
using output = forward.execute();
const { geluAux } = forward.auxiliary;

console.log(
  `rank ${runtime.rank}: ${negatives.length} negative values after relu; D ${output.local.shape.join(" x ")}`,
);
console.log(`rank ${runtime.rank}: gelu_aux ${geluAux?.shape.join(" x ")} ${geluAux?.dtype}`);
