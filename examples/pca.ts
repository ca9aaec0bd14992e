// Principal components of points that are divided among the ranks.
//
//   deno task run -n 2 examples/pca.ts
import { DistributedArray, eigh, initialize, matmul, Slab } from "../mod.ts";

using runtime = initialize();
const [count, features] = [300, 4];
const point = (i: number, j: number) => Math.sin(i * (j + 1)) + (j === 0 ? 2 * Math.cos(3 * i) : j * Math.cos(i));
using points = DistributedArray.generate(runtime, [count, features], Slab.X, point);

using centred = points.subtract(points.mean({ axis: 0 }));
// Each rank multiplies its rows; the sum of the products is on all of them.
using products = matmul(centred, centred, { qualifiers: { a: { isTranspose: true } }, epilog: "all_reduce" });
using components = eigh(products.divide(count - 1)); // of the covariance, the largest last
runtime.print(`variances along the components: ${components.values.format({ precision: 9 })}`);
