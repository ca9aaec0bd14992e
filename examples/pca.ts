// Principal components of points that are divided among the ranks.
//
//   deno task run -n 2 examples/pca.ts
import { DistributedArray, initialize, matmul, Replicated, Slab } from "../mod.ts";

using runtime = initialize();
const [count, features] = [300, 4];
const point = (i: number, j: number) => Math.sin(i * (j + 1)) + (j === 0 ? 2 * Math.cos(3 * i) : j * Math.cos(i));
using points = DistributedArray.generate(runtime, [count, features], Slab.X, point);

using centred = points.subtract(points.mean({ axis: 0 }));
// Each rank multiplies its rows; the sum of the products is on all of them.
using products = matmul(centred, centred, { qualifiers: { a: { isTranspose: true } }, epilog: "all_reduce" });

// Power iteration, on every rank alike.
using direction = DistributedArray.full(runtime, [features], Replicated, 0.5);
for (let round = 0; round < 40; round++) {
  using longer = products.multiply(direction).sum({ axis: 1 });
  longer.divide(longer.norm(), { into: direction });
}
using scores = centred.multiply(direction).sum({ axis: 1 }); // divided as the points are
const variance = scores.var({ correction: 1 });
runtime.print(`variance along the first component: ${variance}, ${direction.local.format()}`);
