// k-means: points divided among the ranks, centres on all of them. Nothing is gathered.
//
//   deno task run -n 2 examples/k_means.ts
import { arange, DistributedArray, expandDims, initialize, Replicated, Slab } from "../mod.ts";

using runtime = initialize({ device: "cpu" });
const [count, clusters] = [300, 3];
// Three clouds around (0, 0), (10, 0) and (20, 0), and the first guess of their centres.
const point = (i: number, j: number) => 2 * Math.sin(5 * i * i + 3 * j) + (j === 0 ? 10 * (i % clusters) : 0);
using points = DistributedArray.generate(runtime, [count, 2], Slab.X, point);
using centres = DistributedArray.generate(runtime, [clusters, 2], Replicated, (k, j) => j === 0 ? 1 + 6 * k : 0.5);

let inertia = Infinity;
for (let round = 0; round < 10; round++) {
  using distances = expandDims(points, 1).subtract(centres).square().sum({ axis: 2 }); // [count, clusters]
  inertia = distances.min({ axis: 1 }).sum();
  using members = expandDims(distances.argmin({ axis: 1 }), 1).equal(arange(runtime, 0, clusters, 1, Replicated));
  using sums = expandDims(members, 2).multiply(expandDims(points, 1)).sum({ axis: 0 });
  centres.assign(sums.divide(expandDims(members.sum({ axis: 0 }), 1)));
}
runtime.print(`${centres.format({ precision: 3 })}\nsum of squared distances: ${inertia}`);
