// An epilog is applied to the product before it is rounded: a bias, an activation, or both.
//
//   deno task run -n 2 examples/epilogs.ts
import { DistributedArray, initialize, Matmul, matmul, Slab } from "../mod.ts";

using runtime = initialize();
const [m, n, k] = [32, 24, 16];
const bfloat16 = { dtype: "bfloat16" } as const;
const weights = DistributedArray.generate(runtime, [m, k], Slab.X, (i, j) => i === j ? 2 : 0, bfloat16);
const inputs = DistributedArray.generate(runtime, [k, n], Slab.Y, (i, j) => (i - j) / 32, bfloat16);
// One bias value a row of D; the rows are split like D's.
const bias = DistributedArray.generate(runtime, [m], Slab.X, (row) => row / m - 0.5, bfloat16);

using activated = matmul(weights, inputs, { distribution: Slab.X, epilog: "relu_bias", epilogInputs: { bias } });
using expected = DistributedArray.generate(
  runtime,
  [m, n],
  Slab.X,
  (i, j) => Math.max(0, (i < k ? (i - j) / 16 : 0) + i / m - 0.5),
  bfloat16,
);
const error = activated.maxAbsDifference(expected);

// The gradient's epilogs need what the forward pass left behind: its auxiliary output.
using forward = new Matmul(weights, inputs, { distribution: Slab.X, epilog: "gelu_aux_bias", epilogInputs: { bias } });
forward.plan();
using output = forward.execute();
const { geluAux } = forward.auxiliary;

console.log(`rank ${runtime.rank}: error of relu_bias ${error}; D ${output.local.shape.join(" x ")}`);
console.log(`rank ${runtime.rank}: gelu_aux ${geluAux?.shape.join(" x ")} ${geluAux?.dtype}`);
if (error !== 0) Deno.exit(1);
