// A transformer's multilayer perceptron with a residual, tensor-parallel: the first weights are divided by columns, the
// second by rows, and one sum over the ranks ends it.
//
//   deno task run -n 2 examples/mlp.ts
import { DistributedArray, initialize, matmul, Replicated, Slab } from "../mod.ts";

using runtime = initialize();
const [batch, width, hidden] = [6, 8, 24];
const wave = (scale: number) => (i: number, j = 0) => Math.sin(scale * (3 * i + 7 * j + 1)) / 2;
using x = DistributedArray.generate(runtime, [batch, width], Replicated, wave(1));
using expand = DistributedArray.generate(runtime, [width, hidden], Slab.Y, wave(0.7));
using columnBias = DistributedArray.generate(runtime, [hidden], Slab.X, wave(0.3));
using shrink = DistributedArray.generate(runtime, [hidden, width], Slab.X, wave(1.3));
using bias = DistributedArray.generate(runtime, [width], Replicated, wave(2.1));

// Each rank has its columns of what is activated, by the exact GELU.
using activated = matmul(x, expand, { epilog: "gelu_erf_column_bias", epilogInputs: { columnBias } });
using y = matmul(activated, shrink, { epilog: "all_reduce" }).add(bias).add(x);
runtime.print(`norm ${y.norm()}, first element ${y.at(0, 0)}`);
