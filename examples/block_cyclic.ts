// Two-dimensional block-cyclic matrices, as ScaLAPACK and cuBLASMp know them.
//
//   deno task run -n 4 examples/block_cyclic.ts
import { BlockCyclic, DistributedArray, initialize, matmul, ProcessGrid } from "../mod.ts";

using runtime = initialize();
const rows = runtime.size % 2 === 0 ? 2 : 1;
const grid = new ProcessGrid({ shape: [rows, runtime.size / rows], layout: "row-major" });
const blocks = new BlockCyclic(grid, [16, 16]);

const a = DistributedArray.random(runtime, [100, 80], blocks, { dtype: "float64", seed: 1 });
const b = DistributedArray.random(runtime, [80, 60], blocks, { dtype: "float64", seed: 2 });
using d = matmul(a, b, { distribution: blocks });

console.log(`rank ${runtime.rank} holds ${d.local.shape.join(" x ")} of ${d.shape.join(" x ")}`);
if (runtime.rank === 0) console.log(`owner of element [99, 59]: rank ${d.distribution.owner([99, 59])}`);
