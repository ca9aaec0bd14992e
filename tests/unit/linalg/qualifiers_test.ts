import { assertEquals, assertThrows } from "@std/assert";
import { DTypeError } from "../../../src/errors.ts";
import {
  matrixQualifiers,
  operationsOf,
  packQualifiers,
  type Qualifiers,
  qualifiersObject,
} from "../../../src/linalg/matmul/qualifiers.ts";

const COMPLEX = { a: "complex64", b: "complex64" } as const;
const REAL = { a: "float32", b: "float32" } as const;

Deno.test("packed qualifiers are two signed bytes a matrix, readable and writable both ways", () => {
  const qualifiers = matrixQualifiers(3);
  assertEquals(qualifiers.length, 3);
  assertEquals(qualifiers.buffer.byteLength, 6);
  qualifiers[0].isTranspose = true;
  qualifiers[1].isConjugate = true;
  const bytes = new Int8Array(qualifiers.buffer);
  assertEquals([...bytes], [1, 0, 0, 1, 0, 0]);
  bytes[2] = 1;
  assertEquals(qualifiers[1].isTranspose, true);
  assertEquals([...qualifiers].map((record) => record.isTranspose), [true, true, false]);
});

Deno.test("packed qualifiers and objects mean the same", () => {
  for (let bits = 0; bits < 16; bits++) {
    const flag = (bit: number) => (bits >> bit & 1) === 1;
    const object: Qualifiers = {
      a: { isTranspose: flag(0), isConjugate: flag(1) },
      b: { isTranspose: flag(2), isConjugate: flag(3) },
    };
    const packed = packQualifiers(object);
    assertEquals(operationsOf(packed, COMPLEX), operationsOf(object, COMPLEX));
    assertEquals(qualifiersObject(packed).a, object.a);
    assertEquals(operationsOf(object, COMPLEX), {
      a: { transpose: flag(0), conjugate: flag(1) },
      b: { transpose: flag(2), conjugate: flag(3) },
    });
  }
  const none = { transpose: false, conjugate: false };
  assertEquals(operationsOf(undefined, REAL), { a: none, b: none });
  assertEquals(operationsOf({ b: {} }, REAL), { a: none, b: none });
  assertEquals(operationsOf(matrixQualifiers(2), REAL), { a: none, b: none });
});

Deno.test("what qualifiers do not allow is refused", () => {
  assertThrows(() => matrixQualifiers(4), RangeError, "2 (A, B) or 3");
  assertThrows(() => operationsOf({ c: { isTranspose: true } }, REAL), TypeError, "qualifiers.c");
  const packed = matrixQualifiers(3);
  packed[2].isConjugate = true;
  assertThrows(() => operationsOf(packed, COMPLEX), TypeError, "qualifiers.c");
  assertThrows(() => operationsOf({ a: { isConjugate: true } }, REAL), DTypeError, "needs a complex dtype");
  const misspelt = { a: { isTransposed: true } } as unknown as Qualifiers;
  assertThrows(() => operationsOf(misspelt, REAL), TypeError, 'did you mean "isTranspose"');
  const number = { a: { isTranspose: 1 } } as unknown as Qualifiers;
  assertThrows(() => operationsOf(number, REAL), TypeError, "must be true or false");
  assertThrows(() => operationsOf("T" as unknown as Qualifiers, REAL), TypeError, "matrixQualifiers(3)");
});
