import { assert, assertEquals, assertThrows } from "@std/assert";
import { type DType, dtypeInfo, dtypes, type Scalar } from "../../../src/dtype/dtype.ts";
import { LocalArray } from "../../../src/array/local_array.ts";
import { fillByFunction } from "../../../src/array/traverse.ts";
import { DTypeError, ShapeError } from "../../../src/errors.ts";
import { describe } from "../../../src/options.ts";

const six = () => new LocalArray({ data: Float64Array.of(1, 2, 3, 4, 5, 6), dtype: "float64", shape: [2, 3] });

Deno.test("LocalArray: shape, strides, views and copies", () => {
  const a = six();
  assertEquals([a.size, a.byteLength, a.memory, [...a.strides]], [6, 48, "host", [3, 1]]);
  assert(a.isDense("C") && !a.isDense("F"));
  const t = a.transpose();
  assertEquals([...t.shape, ...t.strides], [3, 2, 1, 3]);
  assert(t.isDense("F"));
  assertEquals(t.toNumbers(), [1, 4, 2, 5, 3, 6]);
  assertEquals([...t.toTypedArray("F")], [1, 2, 3, 4, 5, 6]);
  assertEquals(a.at(1, 2), 6);
  assertEquals(t.at(2, 1), 6);
  assert(t.view().buffer === a.data.buffer);
  const middle = a.slice([0, 1], [2, 2]);
  assertEquals(middle.toNumbers(), [2, 3, 5, 6]);
  assertEquals([...middle.view()], [2, 3, 4, 5, 6]);
  middle.set(0);
  assertEquals([...a.data], [1, 0, 0, 4, 0, 0]);
  assertEquals([...a.copy("F").data], [1, 4, 0, 0, 0, 0]);
  assertEquals(a.slice([1, 3], [1, 0]).view().length, 0);
});

Deno.test("LocalArray: set takes one value, a list, a typed array or another array", () => {
  const a = six();
  a.set([6, 5, 4, 3, 2, 1]);
  assertEquals(a.toNumbers(), [6, 5, 4, 3, 2, 1]);
  a.transpose().set([1, 2, 3, 4, 5, 6]);
  assertEquals(a.toNumbers(), [1, 3, 5, 2, 4, 6]);
  a.set(Int32Array.of(1, 2, 3, 4, 5, 6));
  assertEquals(a.toNumbers(), [1, 2, 3, 4, 5, 6]);
  const half = LocalArray.zeros("float16", [2, 3]);
  half.set(a);
  assertEquals(half.toNumbers(), [1, 2, 3, 4, 5, 6]);
  const square = new LocalArray({ data: Float64Array.of(1, 2, 3, 4), dtype: "float64", shape: [2, 2] });
  square.set(square.transpose()); // its own memory
  assertEquals(square.toNumbers(), [1, 3, 2, 4]);
  square.transpose().set(square.data); // likewise
  assertEquals(square.toNumbers(), [1, 2, 3, 4]);

  const complex = LocalArray.zeros("complex64", [2]);
  complex.set([1, -1, 2, -2]);
  assertEquals(complex.at(1), [2, -2]);
  complex.fill([7, 8]);
  assertEquals(complex.toNumbers(), [7, 8, 7, 8]);
  complex.set(3);
  assertEquals(complex.toNumbers(), [3, 0, 3, 0]);
  complex.set(new LocalArray({ data: Float64Array.of(1, 9, 2), dtype: "float64", shape: [2], strides: [2] }));
  assertEquals(complex.toNumbers(), [1, 0, 2, 0]);

  const bits = LocalArray.zeros("bfloat16", [2]);
  bits.set(Uint16Array.of(0x3f80, 0x4000)); // bits
  assertEquals(bits.toNumbers(), [1, 2]);
  bits.set([3, 4]); // values
  assertEquals([...bits.data], [0x4040, 0x4080]);
  bits.set(Float32Array.of(5, 6));
  assertEquals(bits.toNumbers(), [5, 6]);

  const big = LocalArray.zeros("int64", [2]);
  big.set([2n ** 60n, 5] as unknown as bigint[]);
  assertEquals([...big.data], [2n ** 60n, 5n]);
  big.set(7n);
  assertEquals(big.toNumbers(), [7, 7]);
});

Deno.test("LocalArray: integers outside the range of the dtype become the nearest inside, of int64 too", () => {
  const given = [2n ** 64n + 5n, 2n ** 63n, 2n ** 63n - 1n, -(2n ** 63n), -(2n ** 63n) - 1n, -(2n ** 70n)];
  const limits = { int8: [-128n, 127n], uint8: [0n, 255n], int64: [-(2n ** 63n), 2n ** 63n - 1n] } as const;
  for (const [dtype, [low, high]] of Object.entries(limits) as ["int8" | "uint8" | "int64", [bigint, bigint]][]) {
    const local = LocalArray.zeros(dtype, [6]);
    local.set(given);
    assertEquals(Array.from(local.data, BigInt), [high, high, high, low, low, low], dtype);
    for (const [value, wanted] of [[2 ** 70, high], [-(2 ** 63) * 3, low], [2n ** 63n, high], [-7n, -7n]] as const) {
      if (value === -7n && dtype === "uint8") continue;
      local.fill(value);
      assertEquals(BigInt(local.at(3)), wanted, `${dtype} filled with ${value}`);
      local.set(value);
      assertEquals(BigInt(local.at(3)), wanted, `${dtype} set to ${value}`);
    }
  }
});

Deno.test("LocalArray: what does not fit is refused", () => {
  const data = new Float64Array(6);
  const make = (options: object) => () => new LocalArray({ data, dtype: "float64", shape: [2, 3], ...options });
  assertThrows(make({ shape: [3, 3] }), ShapeError, "needs 9 elements, but the Float64Array holds 6");
  assertThrows(make({ offset: 1 }), ShapeError, "from element 1 on needs 7");
  assertThrows(make({ offset: -1 }), ShapeError, "from element -1");
  for (const offset of [0.5, NaN, Infinity]) {
    assertThrows(make({ shape: [2], offset }), ShapeError, `The offset is ${offset}`);
    assertThrows(make({ shape: [0], offset }), ShapeError, `The offset is ${offset}`);
  }
  for (const offset of ["1", 1n, null, [1]]) {
    assertThrows(make({ shape: [2], offset }), TypeError, "The offset must be a number");
  }
  for (const memory of ["gpu", "", null, 1, ["host"]]) {
    assertThrows(make({ memory }), TypeError, 'The memory must be "host", "device" or "symmetric"');
  }
  assertThrows(make({ strides: [3] }), ShapeError, "Strides [3] do not fit");
  assertThrows(make({ strides: [4, 1] }), ShapeError, "needs 7 elements");
  assertThrows(make({ dtype: "float32" }), DTypeError, "float32 lives in a Float32Array, not in a Float64Array");
  assertThrows(make({ shape: [2, -3] }), ShapeError, "The local shape is [2, -3]");
  assertThrows(() => six().set([1, 2]), ShapeError, "takes 6 numbers, but 2 were given");
  assertThrows(
    () => six().set(LocalArray.zeros("float64", [3, 2])),
    ShapeError,
    "cannot take the elements of one of [3,2]",
  );
  assertThrows(() => six().set(LocalArray.zeros("complex64", [2, 3])), DTypeError, "imaginary parts would be lost");
  for (const values of [undefined, null, true, "123456", {}, () => 1]) {
    assertThrows(
      () => six().set(values as unknown as number[]),
      TypeError,
      `set takes a number, a bigint, a LocalArray of the same shape, or a list of numbers such as [1, 2] or a typed ` +
        `array, not ${describe(values)}.`,
    );
  }
  assertThrows(() => six().set(["1", 2, 3, 4, 5, 6] as unknown as number[]), DTypeError, "takes a number");
  assertThrows(() => six().slice([1, 1], [2, 2]), ShapeError, "does not lie in an array of [2,3]");
  assertThrows(() => six().at(2, 0), RangeError, "index [2,0]");
  assertThrows(() => six().at(0), RangeError, "index [0]");
});

Deno.test("LocalArray: a part holds 2^32 numbers, and no more", () => {
  // Nobody writes to it, so that it takes no memory.
  assertEquals(LocalArray.empty("uint8", [2 ** 32]).data.length, 2 ** 32);
  assertThrows(
    () => LocalArray.empty("uint8", [2 ** 32 + 1]),
    RangeError,
    "4294967297 elements of uint8 (4294967297 bytes) are too many for one rank: a local part holds at most 2^32 numbers",
  );
  assertThrows(
    () => LocalArray.zeros("complex64", [2 ** 31 + 1]),
    RangeError,
    "2147483649 elements of complex64 (17179869192 bytes) are too many for one rank",
  );
});

Deno.test("LocalArray: padded arrays give their elements only", () => {
  const padded = new LocalArray({
    data: Float32Array.from({ length: 20 }, (_, i) => i),
    dtype: "float32",
    shape: [3, 2],
    strides: [1, 8],
    offset: 2,
  });
  assertEquals(padded.toNumbers(), [2, 10, 3, 11, 4, 12]);
  assertEquals([...padded.view()], [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
  assert(!padded.isDense("F"));
});

Deno.test("LocalArray.address is the address of the first element", () => {
  const a = six();
  assertEquals(a.slice([1, 1], [1, 1]).address - a.address, 32n);
});

Deno.test("fillByFunction calls f with global indices, in every dtype, order and number of dimensions", () => {
  const all: [number, number][][] = [[[0, 2], [3, 4]], [[1, 3]], [[0, 1], [4, 6]], [[2, 3]]];
  for (let dimensions = 1; dimensions <= 4; dimensions++) {
    const ranges = all.slice(0, dimensions);
    const lists = ranges.map((list) => list.flatMap(([a, b]) => Array.from({ length: b - a }, (_, i) => a + i)));
    const shape = lists.map((list) => list.length);
    for (const dtype of dtypes) {
      for (const order of ["C", "F"] as const) {
        const array = LocalArray.zeros(dtype, shape, order);
        const value = (...index: number[]): Scalar => {
          assertEquals(index.length, dimensions);
          const number = index.reduce((sum, i) => 2 * sum + i, 0) % 8;
          return dtype.startsWith("complex") ? [number, 1] : dtype === "int64" ? BigInt(number) : number;
        };
        fillByFunction(dtype, array.data, ranges, order, value);
        const visit = (index: number[]): void => {
          if (index.length < dimensions) return lists[index.length].forEach((_, i) => visit([...index, i]));
          assertEquals(array.at(...index), value(...index.map((i, d) => lists[d][i])), `${dtype} ${order}`);
        };
        visit([]);
      }
    }
  }
});

Deno.test("fillByFunction: many rows of a type that goes through a buffer", () => {
  for (const dtype of ["float32", "bfloat16", "complex64"] as const) {
    for (const [m, n] of [[900, 17], [3, 6000], [5000, 1]]) {
      const array = LocalArray.zeros(dtype, [m, n]);
      fillByFunction(dtype, array.data, [[[0, m]], [[0, n]]], "C", (i, j) => (3 * i + j) % 100);
      for (const [i, j] of [[0, 0], [m - 1, n - 1], [m >> 1, n >> 1], [m >> 2, 0]]) {
        const value = array.at(i, j);
        assertEquals(typeof value === "number" ? [value, 0] : value, [(3 * i + j) % 100, 0], `${dtype} ${i}, ${j}`);
      }
    }
  }
});

Deno.test("fillByFunction refuses values of the wrong kind", () => {
  const fill = (dtype: "float32" | "int64" | "complex64", dimensions: number, value: unknown) => () => {
    const array = LocalArray.zeros(dtype, new Array(dimensions).fill(1));
    fillByFunction(dtype, array.data, new Array(dimensions).fill([[0, 1]]), "C", () => value as Scalar);
  };
  for (const dimensions of [1, 2, 3, 4]) {
    assertThrows(fill("float32", dimensions, undefined), DTypeError, "must return numbers for float32");
    assertThrows(fill("float32", dimensions, [1, 2]), DTypeError, "but returned [1, 2]");
  }
  assertThrows(fill("complex64", 2, "1"), DTypeError, "takes a number or [re, im]");
  assertThrows(fill("int64", 2, 0.5), DTypeError, "whole number");
});

Deno.test("fillByFunction refuses numbers that an integer type does not hold", () => {
  const fill = (dtype: DType, value: Scalar) => () => {
    const array = LocalArray.zeros(dtype, [2, 3]);
    fillByFunction(dtype, array.data, [[[0, 2]], [[0, 3]]], "C", (i, j) => i === 1 && j === 2 ? value : 0);
    return array.at(1, 2);
  };
  const ranges = { int8: [-128, 127], uint8: [0, 255], int32: [-(2 ** 31), 2 ** 31 - 1] } as const;
  for (const [dtype, [low, high]] of Object.entries(ranges) as [keyof typeof ranges, readonly [number, number]][]) {
    const allowed = `${dtype} takes whole numbers from ${low} to ${high}, not `;
    assertEquals([fill(dtype, low)(), fill(dtype, high)()], [low, high]);
    for (const value of [low - 1, high + 1, Infinity]) {
      assertThrows(fill(dtype, value), RangeError, `${allowed}${value}.`);
    }
    for (const value of [1.5, NaN]) assertThrows(fill(dtype, value), DTypeError, `${allowed}${value}.`);
    assertEquals(fill(dtype, -0)(), 0);
  }
  assertEquals([fill("int64", -(2n ** 63n))(), fill("int64", 2n ** 63n - 1n)()], [-(2n ** 63n), 2n ** 63n - 1n]);
  assertThrows(fill("int64", 2n ** 63n), RangeError, "to 9223372036854775807, not 9223372036854775808");
});

Deno.test("LocalArray refuses options that it does not know", () => {
  const options = { data: new Float32Array(2), dtype: "float32", shape: [2], stride: [1] } as const;
  assertThrows(() => new LocalArray(options), TypeError, 'no key "stride"; did you mean "strides"?');
  assertThrows(() => new LocalArray(null as never), TypeError, "must be an object; got null");
});

Deno.test("large arrays begin at cache lines, at different places of a page, from 4 MiB on of a huge page", () => {
  for (const [bytes, alignment] of [[2 ** 20, 2 ** 12], [2 ** 22, 2 ** 21]]) {
    const arrays = (["float32", "uint8", "complex128"] as const).map((dtype) =>
      LocalArray.zeros(dtype, [bytes / dtypeInfo(dtype).itemSize])
    );
    const places = arrays.map(({ address }) => Number(address % BigInt(alignment)));
    assert(places.every((place) => place < 2 ** 12 && place % 64 === 0), places.join());
    assertEquals(new Set(places).size, arrays.length);
    assert(arrays.every((array) => array.view().byteLength === bytes));
  }
});
