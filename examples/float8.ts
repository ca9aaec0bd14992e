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
const a = exact.map((value) => value * scale).to({ dtype: "float8_e4m3" });
const b = other.map((value) => value * scale).to({ dtype: "float8_e4m3" });
using d = matmul(a, b, {
  qualifiers: { b: { isTranspose: true } },
  quantizationScales: { a: 1 / scale, b: 1 / scale },
  resultType: "float32",
  distribution: Slab.X,
});

using reference = matmul(exact, other, { qualifiers: { b: { isTranspose: true } }, distribution: Slab.X });
const error = d.maxAbsDifference(reference);
runtime.print(`float8 against float32: largest difference ${error.toFixed(3)}`);
if (!(error < 1)) Deno.exit(1);

// More exactly: each row has a scale of its own. Here small rows keep as many bits as large ones.
function quantizeRows(matrix: DistributedArray): { values: DistributedArray; scales: DistributedArray } {
  const [rows, columns] = matrix.local.shape;
  const numbers = matrix.local.toNumbers();
  const largest = Float32Array.from(
    { length: rows },
    (_, i) => numbers.slice(i * columns, (i + 1) * columns).reduce((max, x) => Math.max(max, Math.abs(x)), 1e-30),
  );
  const values = DistributedArray.zeros(runtime, matrix.shape, matrix.distribution, { dtype: "float8_e4m3" });
  values.local.set(numbers.map((x, at) => x * 448 / largest[Math.floor(at / columns)]));
  const scales = largest.map((x) => x / 448);
  return { values, scales: DistributedArray.fromLocal(runtime, scales, Slab.X, { localShape: [rows, 1] }) };
}
const shrinking = DistributedArray.generate(runtime, [m, k], Slab.X, (i, j) => (j % 7 - 3) / 2 ** i, {
  dtype: "float32",
});
const [left, right] = [quantizeRows(shrinking), quantizeRows(other)];
using rows = matmul(left.values, right.values, {
  qualifiers: { b: { isTranspose: true } },
  quantizationScales: { a: left.scales, b: right.scales },
  resultType: "float32",
  distribution: Slab.X,
});
const smallest = Math.max(...rows.local.toNumbers().slice(-n).map(Math.abs));
runtime.print(`rows with scales of their own: the smallest of them is not lost, ${smallest > 0}`);
if (!(smallest > 0)) Deno.exit(1);
