import { assertEquals, assertThrows } from "@std/assert";
import { LocalArray } from "../../../../src/array/local_array.ts";
import { ShapeError } from "../../../../src/errors.ts";
import { beginningAt, inMemory, transposeCode } from "../../../../src/blas/gemm.ts";
import { isZero } from "../../../../src/blas/arguments.ts";
import { DenseCopy } from "../../../../src/linalg/engines/host/preparation.ts";

const data = Float64Array.from({ length: 24 }, (_, i) => i);
const matrix = (shape: number[], strides: number[], offset = 0) =>
  new LocalArray({ data, dtype: "float64", shape, strides, offset });

Deno.test("DenseCopy is the memory itself when that is dense, and a copy otherwise", () => {
  const copy = new DenseCopy();
  assertEquals([...copy.of(matrix([2, 3], [1, 2], 4))], [4, 5, 6, 7, 8, 9]);
  assertEquals(copy.byteLength, 0);
  assertEquals([...copy.of(matrix([2, 3], [1, 4]))], [0, 1, 4, 5, 8, 9]);
  assertEquals(copy.byteLength, 48);
});

Deno.test("inMemory() gives BLAS a leading dimension that it accepts", () => {
  const leading = (shape: number[], strides: number[]) => inMemory(matrix(shape, strides)).leadingDimension;
  assertEquals(leading([3, 2], [1, 5]), 5);
  assertEquals(leading([3, 2], [1, 3]), 3);
  // A single column may have any stride, and a single row too.
  assertEquals(leading([3, 1], [1, 1]), 3);
  assertEquals(leading([1, 4], [9, 5]), 5);
  assertEquals(leading([0, 4], [1, 0]), 1);
  assertEquals(leading([3, 0], [1, 3]), 3);
  assertThrows(() => leading([3, 2], [2, 6]), ShapeError, "not dense along its columns");
});

Deno.test("beginningAt() skips rows or columns", () => {
  const whole = { address: 1000n, leadingDimension: 10 };
  assertEquals(beginningAt(whole, 0, 3, 8), { address: 1024n, leadingDimension: 10 });
  assertEquals(beginningAt(whole, 1, 3, 8), { address: 1240n, leadingDimension: 10 });
  // More elements than 32 bits count.
  assertEquals(beginningAt({ address: 0n, leadingDimension: 100_000 }, 1, 100_000, 8).address, 80_000_000_000n);
});

Deno.test("transposeCode() leaves a conjugate without transposition to a copy", () => {
  assertEquals(transposeCode({ transpose: false, conjugate: false }), "N");
  assertEquals(transposeCode({ transpose: false, conjugate: true }), "N");
  assertEquals(transposeCode({ transpose: true, conjugate: false }), "T");
  assertEquals(transposeCode({ transpose: true, conjugate: true }), "C");
});

Deno.test("isZero() looks at both parts", () => {
  assertEquals([0, 0n, [0, 0], -0].map((value) => isZero(value as never)), [true, true, true, true]);
  assertEquals([1, NaN, [0, 1], [1, 0], 2n].map((value) => isZero(value as never)), Array(5).fill(false));
});
