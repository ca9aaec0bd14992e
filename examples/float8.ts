// 8-bit floats: values are stored with a scale, products are summed in float32, the result is rounded once.
//
//   deno task run -n 2 examples/float8.ts
import { DistributedArray, initialize, matmul, Slab } from "../mod.ts";

using runtime = initialize();
const [m, n, k] = [32, 32, 64];
const options = { low: -1, high: 1 } as const;
const exact = DistributedArray.random(runtime, [m, k], Slab.X, { ...options, dtype: "float32", seed: 1 });
const other = DistributedArray.random(runtime, [n, k], Slab.X, { ...options, dtype: "float32", seed: 2 });

// float8_e4m3 reaches 448: multiply by 448 before storing, and tell matmul the inverse.
const scale = 448;
const a = exact.map((value) => (value as number) * scale).to({ dtype: "float8_e4m3" });
const b = other.map((value) => (value as number) * scale).to({ dtype: "float8_e4m3" });
using d = matmul(a, b, {
  qualifiers: { b: { isTranspose: true } },
  quantizationScales: { a: 1 / scale, b: 1 / scale },
  resultType: "float32",
  distribution: Slab.X,
});

using reference = matmul(exact, other, { qualifiers: { b: { isTranspose: true } }, distribution: Slab.X });
const error = d.maxAbsDifference(reference);
if (runtime.rank === 0) console.log(`float8 against float32: largest difference ${error.toFixed(3)}`);
if (!(error < 1)) Deno.exit(1);
