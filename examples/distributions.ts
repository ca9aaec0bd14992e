// Who owns what: distributions answer it for any index, and draw it.
//
//   deno task run -n 4 examples/distributions.ts
import { BlockCyclic, DistributedArray, type Distribution, initialize, ProcessGrid, Slab } from "../mod.ts";

using runtime = initialize();
const shape = [10, 12];
const slab = Slab.X.bind(shape, runtime.size); // uneven: the first ranks hold one row more
const grid = new ProcessGrid({ shape: [1, runtime.size] });
const cyclic = new BlockCyclic(grid, [5, 2]).bind(shape, runtime.size);

if (runtime.rank === 0) {
  console.log(`${slab}: rank 0 owns ${slab.localShape(0).join(" x ")}; row 9 belongs to rank ${slab.owner([9, 0])}`);
  console.log(cyclic.toText());
}

// Any distribution can be turned into any other.
const make = (distribution: Distribution) =>
  DistributedArray.generate(runtime, shape, distribution, (i, j) => 12 * i + j, { dtype: "float64" });
using moved = make(slab).redistribute(cyclic);
const difference = moved.maxAbsDifference(make(cyclic));
runtime.print(`moved from ${slab} to ${cyclic}: difference ${difference}`);
if (difference !== 0) Deno.exit(1);
