/** Numbers to compute elementwise functions with, and how far apart their results are. */
import { LocalArray } from "../../../src/array/local_array.ts";
import type { DType } from "../../../src/dtype/mod.ts";

// deno-fmt-ignore
const special = [
  0, -0, 1, -1, Infinity, -Infinity, NaN, 5e-324, -1e-310, 1e-40, 2.5e-308, 1e308, -1e308, 3e38, 0.5, -0.5, 1.5, 2.5,
  -2.5, 2, 3, -7, 88.8, 710, -750, 1e16, 1e22, 4503599627370497.5,
];

/** Special values and others, in as many elements; the same at every call. */
export function values(dtype: "float64" | "float32", length: number, shift: number): LocalArray {
  const array = LocalArray.zeros(dtype, [length]);
  let state = 1 + shift;
  const random = () => (state = Math.imul(state, 48271) & 0x7fffffff) / 0x7fffffff;
  for (let i = 0; i < length; i++) {
    array.data[i] = i % 3 === shift ? special[Math.floor(random() * special.length)] : (random() - 0.5) * 8;
  }
  return array;
}

/** How many numbers of a dtype lie between two, at most; 0 if they are the same number, or both NaN. */
export function distance(dtype: DType, a: number, b: number): number {
  if (Object.is(a, b)) return 0;
  if (!Number.isFinite(a) || !Number.isFinite(b) || a === b) return Infinity;
  const exponent = Math.max(Math.floor(Math.log2(Math.abs(b))), dtype === "float32" ? -126 : -1022);
  return Math.abs(a - b) / 2 ** (exponent - (dtype === "float32" ? 23 : 52));
}
