// Arrays move between distributions: once, by a function, or often, by an object that plans once.
//
//   deno task run -n 4 examples/redistribution.ts
import { BlockCyclic, DistributedArray, initialize, ProcessGrid, Redistribution, Slab } from "../mod.ts";

using runtime = initialize();
const shape = [64, 48];
const value = (i: number, j: number) => 100 * i + j;

// Once: rows to blocks that are dealt out to a grid of ranks, as ScaLAPACK has them.
using rows = DistributedArray.generate(runtime, shape, Slab.X, value, { dtype: "float32" });
using blocks = rows.redistribute(new BlockCyclic(ProcessGrid.nearlySquare(runtime.size), [8, 8]));

// Often: the plan and its buffers stay, into an array that is there.
using columns = DistributedArray.zeros(runtime, shape, Slab.Y, { dtype: "float32" });
using move = new Redistribution(blocks, columns);
move.plan();
for (let step = 0; step < 3; step++) {
  blocks.add(1, { into: blocks });
  move.execute();
}

using wanted = DistributedArray.generate(runtime, shape, Slab.Y, (i, j) => value(i, j) + 3, { dtype: "float32" });
const error = columns.maxAbsDifference(wanted);
if (runtime.rank === 0) {
  console.log(move.explain());
  console.log(`${rows.distribution} to ${blocks.distribution} to ${columns.distribution}: error ${error}`);
}
if (error !== 0) Deno.exit(1);
