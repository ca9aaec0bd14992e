/** How typed arrays are classified, widened and rounded. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { DTypeError } from "../../../src/errors.ts";
import { checkOperation, elementOf, narrow, newLike, overlap, widen } from "../../../src/mpi/elements.ts";

const BFLOAT16 = elementOf("test", "data", new Uint16Array(1), "bfloat16");
const FLOAT16 = elementOf("test", "data", new Float16Array(1));

Deno.test("widen() gives every bfloat16 its exact value", () => {
  const bits = Uint16Array.from({ length: 0x10000 }, (_, i) => i);
  const wide = widen(bits, BFLOAT16);
  const view = new DataView(new ArrayBuffer(4));
  for (let i = 0; i < bits.length; i++) {
    view.setUint16(0, i);
    assert(Object.is(wide[i], view.getFloat32(0)), `bits ${i}`);
  }
});

Deno.test("narrow() is the inverse of widen()", () => {
  const bits = Uint16Array.from({ length: 0x10000 }, (_, i) => i);
  const back = new Uint16Array(bits.length);
  narrow(widen(bits, BFLOAT16), back, BFLOAT16);
  for (let i = 0; i < bits.length; i++) {
    const isNaN = (i & 0x7fff) > 0x7f80;
    assert(isNaN ? (back[i] & 0x7fff) > 0x7f80 : back[i] === i, `bits ${i} became ${back[i]}`);
  }
});

/** The bfloat16 next to a value, by trying the two neighbours: the nearer one, or the one with the even last bit. */
function nearestBfloat16(value: number): number {
  const [bits] = new Uint32Array(Float32Array.of(value).buffer);
  const below = bits >>> 16;
  const [a, b] = widen(Uint16Array.of(below, below + 1), BFLOAT16) as Float32Array;
  const [toA, toB] = [Math.abs(value - a), Math.abs((Number.isFinite(b) ? b : Math.sign(b) * 2 ** 128) - value)];
  return toA < toB || toA === toB && below % 2 === 0 ? below : below + 1;
}

Deno.test("narrow() rounds to the nearest bfloat16, ties to even", () => {
  const values = [1, 1.00390625, 1.01171875, 1.0039063, 256, 257, 258, 259, 1e-40, 3.3895314e38, 3.4e38, 0.1, 1 / 3];
  for (const value of values.flatMap((v) => [v, -v]).map(Math.fround)) {
    const into = new Uint16Array(1);
    narrow(Float32Array.of(value), into, BFLOAT16);
    assertEquals(into[0], nearestBfloat16(value), String(value));
  }
});

Deno.test("narrow() rounds float16 once, and overflows to Infinity", () => {
  const into = new Float16Array(5);
  narrow(Float32Array.of(2049, 2051, 65519, 65520, NaN), into, FLOAT16);
  assertEquals([...into], [2048, 2052, 65504, Infinity, NaN]);
});

Deno.test("complex32 are pairs of float16, of which there are sums, in float32", () => {
  const complex = elementOf("m", "data", new Float16Array(2), "complex32");
  const into = new Float16Array(2);
  narrow(widen(Float16Array.of(1, 2049), complex), into, complex);
  assertEquals([...into], [1, 2048]);
  checkOperation("m", complex, "sum", 4);
  assertThrows(() => checkOperation("m", complex, "max", 4), DTypeError, "can only be summed");
  assertThrows(() => checkOperation("m", complex, "sum", 3), RangeError, "two parts a number");
  assertThrows(() => elementOf("m", "data", new Uint16Array(2), "complex32"), DTypeError, "lives in Float16Array");
});

Deno.test("elementOf() knows subclasses by their base, and refuses what is no typed array", () => {
  class Bytes extends Uint8Array {}
  assertEquals(elementOf("m", "data", new Bytes(1)).type, "uint8");
  for (const value of [[1], "text", 1, null, undefined, new ArrayBuffer(1), new DataView(new ArrayBuffer(1))]) {
    assertThrows(
      () => elementOf("m", "data", value as never),
      TypeError,
      "m: data must be a typed array of numbers, not ",
    );
  }
});

Deno.test("checkOperation() allows what has a meaning", () => {
  const float64 = elementOf("m", "data", new Float64Array(1));
  const complex = elementOf("m", "data", new Float64Array(2), "complex128");
  checkOperation("m", float64, "max", 3);
  checkOperation("m", complex, "sum", 4);
  assertThrows(() => checkOperation("m", float64, "band", 1), DTypeError);
  assertThrows(() => checkOperation("m", complex, "max", 4), DTypeError);
  assertThrows(() => checkOperation("m", complex, "sum", 3), RangeError);
});

Deno.test("overlap() tells whether two arrays share a byte", () => {
  const memory = new Float64Array(8);
  assert(overlap(memory.subarray(0, 4), memory.subarray(3, 5)));
  assert(!overlap(memory.subarray(0, 4), memory.subarray(4, 8)));
  assert(!overlap(memory, new Float64Array(8)));
  assert(overlap(memory, new Uint8Array(memory.buffer, 63)));
  assert(!overlap(memory, memory.subarray(2, 2)) && !overlap(memory.subarray(2, 2), memory));
});

Deno.test("unsigned integers are in the order of the signed ones that widen() makes of them, and narrow() is the way back", () => {
  const cases = [
    [Uint8Array.of(0, 1, 127, 128, 255), "uint8"],
    [Uint8ClampedArray.of(0, 1, 127, 128, 255), "uint8"],
    [Uint16Array.of(0, 1, 32767, 32768, 65535), "uint16"],
    [Uint32Array.of(0, 1, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1), "uint32"],
    [BigUint64Array.of(0n, 1n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n), "uint64"],
  ] as const;
  for (const [values, name] of cases) {
    const element = elementOf("test", "values", values);
    assertEquals(element.name, name);
    const signed = widen(values, element);
    assert(signed.every((value, i) => i === 0 || signed[i - 1] < value), name);
    const back = newLike(values, values.length);
    narrow(signed, back, element);
    assertEquals(back, values);
  }
});
