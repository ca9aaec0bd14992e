// k-means: points divided among the ranks, centres on all of them. Nothing is gathered.
//
//   deno task run -n 2 examples/k_means.ts
import { DistributedArray, expandDims, initialize, Replicated, Slab } from "../mod.ts";

using runtime = initialize({ device: "cpu" });
const [count, clusters] = [300, 3];

// Three clouds around (0, 0), (10, 0) and (20, 0), and the first guess of their centres.
using noise = DistributedArray.random(runtime, [count, 2], Slab.X, { seed: 7, low: -1, high: 1 });
using points = noise.map((value, i, j) => value + (j === 0 ? 10 * (i % clusters) : 0));
using centres = DistributedArray.generate(runtime, [clusters, 2], Replicated, (k, j) => j === 0 ? 1 + 6 * k : 0.5);

let inertia = Infinity;
for (let round = 0; round < 10; round++) {
  using differences = expandDims(points, 1).subtract(centres); // [count, clusters, 2]
  using squares = differences.square();
  using distances = squares.sum({ axis: 2 });
  using nearest = distances.argmin({ axis: 1 });
  using least = distances.min({ axis: 1 });
  inertia = least.sum();
  for (let k = 0; k < clusters; k++) {
    using members = nearest.equal(k);
    using chosen = expandDims(members, 1).multiply(points);
    using total = chosen.sum({ axis: 0 });
    centres.slice([[k, k + 1]]).assign(total.divide(members.sum()));
  }
}

centres.show({ precision: 3 });
if (runtime.rank === 0) console.log(`sum of squared distances: ${inertia.toFixed(7)}`);
// NumPy gets this from the same points.
if (!(Math.abs(inertia - 205.2412627) < 1e-6)) Deno.exit(1);
