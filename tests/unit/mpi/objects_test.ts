/** Values as bytes. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { decodeObject, encodeObject } from "../../../src/mpi/objects.ts";

Deno.test("JSON values arrive as they were sent", () => {
  fc.assert(fc.property(fc.jsonValue(), (value) => assertEquals(decodeObject(encodeObject("m", value)), value)));
});

Deno.test("so do undefined, NaN, -0, bigint, Date, Map, Set, typed arrays and cycles", () => {
  const cycle: Record<string, unknown> = { name: "x" };
  cycle.self = cycle;
  const values = [undefined, NaN, -0, 2n ** 100n, new Date(5), new Map([[1, "a"]]), new Set([1]), Float32Array.of(1)];
  for (const value of values) assertEquals(decodeObject(encodeObject("m", value)), value);
  const back = decodeObject<typeof cycle>(encodeObject("m", cycle));
  assert(back.self === back);
  assert(Object.is(decodeObject(encodeObject("m", -0)), -0));
});

Deno.test("functions and symbols are refused", () => {
  for (const value of [() => 1, { f() {} }, Symbol("s")]) {
    assertThrows(() => encodeObject("sendObject", value), TypeError, "sendObject: the value cannot be sent: ");
  }
});

Deno.test("typed arrays arrive in memory of their own, aligned in the message or not", () => {
  const values = [
    Float64Array.of(1, 2),
    new Uint8Array(Float64Array.of(3).buffer),
    Float16Array.of(1),
    new DataView(new ArrayBuffer(5)),
  ];
  for (const pad of ["", "a", "ab", "abc"]) {
    const bytes = encodeObject("m", [pad, ...values]);
    const message = new Uint8Array(bytes.length + 9);
    message.set(bytes, 9);
    const [, ...back] = decodeObject<[string, ...typeof values]>(message.subarray(9));
    assertEquals(back, values);
    assertEquals(back.map(({ buffer, byteOffset }) => [buffer.byteLength, byteOffset]), [[16, 0], [8, 0], [2, 0], [
      5,
      0,
    ]]);
    back[0].buffer.transfer();
    assertEquals(back.slice(1), values.slice(1));
  }
});
