// Two-dimensional block-cyclic matrices, as ScaLAPACK and cuBLASMp know them.
//
//   deno task run -n 4 examples/block_cyclic.ts
import { BlockCyclic, DistributedArray, initialize, matmul, ProcessGrid } from "../mod.ts";

using runtime = initialize();
const rows = runtime.size % 2 === 0 ? 2 : 1;
const grid = new ProcessGrid({ shape: [rows, runtime.size / rows], layout: "row-major" });
const blocks = new BlockCyclic(grid, [16, 16]);

const a = DistributedArray.generate(runtime, [100, 80], blocks, (i, k) => i + k, { dtype: "float64" });
const b = DistributedArray.generate(runtime, [80, 60], blocks, (_, j) => j, { dtype: "float64" });
using d = matmul(a, b, { distribution: blocks });

console.log(`rank ${runtime.rank} holds ${d.local.shape.join(" x ")} of ${d.shape.join(" x ")}`);
// The sum over k of (i + k) j, in closed form.
using expected = DistributedArray.generate(runtime, [100, 60], blocks, (i, j) => (80 * i + 3160) * j, {
  dtype: "float64",
});
if (d.maxAbsDifference(expected) !== 0) Deno.exit(1);
runtime.print(`owner of element [99, 59]: rank ${d.distribution.owner([99, 59])}`);
