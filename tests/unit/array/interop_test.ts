/** Arrays of other libraries, the real ones. */
import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import StdlibNdarray from "@stdlib/ndarray-base-ctor";
import ndarray from "ndarray";
import * as np from "numpy-ts";
import { DTypeError, fromNdarray, LocalArray, type Ndarray, ShapeError, toNdarray } from "../../../mod.ts";

Deno.test("scijs' ndarray: views share memory, both ways", () => {
  const foreign = ndarray(Float32Array.from({ length: 24 }, (_, i) => i), [2, 3, 4]).transpose(2, 0, 1).lo(1, 0, 1);
  const local = fromNdarray(foreign as unknown as Ndarray);
  assertEquals([local.dtype, ...local.shape], ["float32", 3, 2, 2]);
  assertStrictEquals(local.data as unknown, foreign.data);
  for (let i = 0; i < 3; i++) assertEquals(local.at(i, 1, 0), foreign.get(i, 1, 0));
  local.fill(7);
  assertEquals(foreign.get(2, 1, 1), 7);
  const { data, shape, stride, offset } = toNdarray(local);
  const back = ndarray(data as Float32Array, shape, stride, offset);
  back.set(0, 0, 0, 5);
  assertEquals([local.at(0, 0, 0), back.get(2, 1, 1)], [5, 7]);
});

Deno.test("stdlib's ndarray: views share memory, both ways", () => {
  const data = Float64Array.from({ length: 24 }, (_, i) => i);
  const foreign = new StdlibNdarray("float64", data, [2, 3], [1, 4], 5, "column-major");
  const local = fromNdarray(foreign as unknown as Ndarray);
  assertStrictEquals(local.data, data);
  assertEquals([local.dtype, ...local.shape, ...local.toNumbers()], ["float64", 2, 3, 5, 9, 13, 6, 10, 14]);
  foreign.set(1, 2, 7);
  assertEquals(local.at(1, 2), 7);
  const given = toNdarray(local as LocalArray<"float64">);
  const back = new StdlibNdarray(given.dtype, given.data, given.shape, given.strides, given.offset, given.order);
  back.set(0, 1, -3);
  assertEquals([foreign.get(0, 1), data[9]], [-3, -3]);
});

Deno.test("numpy-ts", () => {
  const foreign = np.array([[1, 2, 3], [4, 5, 6]], "int32");
  const local = fromNdarray(foreign as unknown as Ndarray);
  assertEquals([local.dtype, ...local.toNumbers()], ["int32", 1, 2, 3, 4, 5, 6]);
  assertEquals(fromNdarray(foreign.T as unknown as Ndarray).toNumbers(), [1, 4, 2, 5, 3, 6]);
});

Deno.test("complex numbers in objects of their own, orders, and what is no array", () => {
  const pairs = Float64Array.of(0, 0, 1, 2, 3, 4);
  const data = { buffer: pairs.buffer, byteOffset: 16, length: 2 };
  assertEquals(fromNdarray({ data, shape: [2], dtype: "complex128" }).toNumbers(), [1, 2, 3, 4]);
  const six = { data: Int8Array.of(1, 2, 3, 4, 5, 6), shape: [2, 3] };
  assertEquals(fromNdarray({ ...six, order: "column-major" }).toNumbers(), [1, 3, 5, 2, 4, 6]);
  assertEquals(toNdarray(new LocalArray({ ...six, dtype: "int8", strides: [1, 2] })).order, "column-major");
  assertThrows(() => fromNdarray({ ...six, strides: [3, -1], offset: 2 }), ShapeError, "run backwards");
  assertThrows(() => fromNdarray(3 as unknown as Ndarray), TypeError, "{ data, shape, strides, offset }");
  const words = { data: Uint16Array.of(1), shape: [1] };
  assertThrows(() => fromNdarray(words), DTypeError, "holds none of");
});
