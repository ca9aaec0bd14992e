import { assertEquals, assertThrows } from "@std/assert";
import { enumName } from "../../../ffi/enums.ts";
import { createStruct, readField, sizeOfField, writeField } from "../../../ffi/struct.ts";

const LAYOUT = {
  name: "sample_t",
  size: 48,
  fields: {
    byte: [0, "u8"],
    short: [2, "u16"],
    signed: [4, "i32"],
    unsigned: [8, "u32"],
    single: [12, "f32"],
    long: [16, "i64"],
    address: [24, "u64"],
    tag: [32, 5],
  },
} as const;

Deno.test("a struct holds each field where its layout says, in little endian", () => {
  const bytes = createStruct(LAYOUT, {
    byte: 0x12,
    short: 0x3456,
    signed: -2,
    unsigned: 0x89abcdef,
    single: 1.5,
    long: -3n,
    address: 0xfedcba9876543210n,
    tag: Uint8Array.of(1, 2, 3),
  });
  // deno-fmt-ignore
  assertEquals([...bytes], [
    0x12, 0, 0x56, 0x34, 0xfe, 0xff, 0xff, 0xff, 0xef, 0xcd, 0xab, 0x89, 0, 0, 0xc0, 0x3f,
    0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe,
    1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
  ]);
});

Deno.test("what is written is read, also in a struct in the middle of a buffer", () => {
  const bytes = new Uint8Array(2 * LAYOUT.size).subarray(LAYOUT.size);
  writeField(LAYOUT, bytes, "byte", 255);
  writeField(LAYOUT, bytes, "short", 65535);
  writeField(LAYOUT, bytes, "signed", -2147483648);
  writeField(LAYOUT, bytes, "unsigned", 4294967295);
  writeField(LAYOUT, bytes, "single", 0.25);
  writeField(LAYOUT, bytes, "long", -(1n << 63n));
  writeField(LAYOUT, bytes, "address", (1n << 64n) - 1n);
  writeField(LAYOUT, bytes, "tag", Uint8Array.of(9, 8, 7, 6, 5));
  assertEquals(readField(LAYOUT, bytes, "byte"), 255);
  assertEquals(readField(LAYOUT, bytes, "short"), 65535);
  assertEquals(readField(LAYOUT, bytes, "signed"), -2147483648);
  assertEquals(readField(LAYOUT, bytes, "unsigned"), 4294967295);
  assertEquals(readField(LAYOUT, bytes, "single"), 0.25);
  assertEquals(readField(LAYOUT, bytes, "long"), -(1n << 63n));
  assertEquals(readField(LAYOUT, bytes, "address"), (1n << 64n) - 1n);
  assertEquals([...readField(LAYOUT, bytes, "tag")], [9, 8, 7, 6, 5]);
});

Deno.test("bytes that do not fit into their field are refused", () => {
  assertThrows(
    () => createStruct(LAYOUT, { tag: new Uint8Array(6) }),
    RangeError,
    "sample_t.tag holds 5 bytes, not 6.",
  );
});

Deno.test("the width of each type of field", () => {
  const widths = (["u8", "u16", "i32", "u32", "f32", "i64", "u64", 124] as const).map(sizeOfField);
  assertEquals(widths, [1, 2, 4, 4, 4, 8, 8, 124]);
});

Deno.test("an enum's value is named as in C, an unknown one by its number", () => {
  const values = { OK: 0, LATE: 3, ALSO_LATE: 3 };
  assertEquals(enumName(values, 3, "LIB_"), "LIB_LATE");
  assertEquals(enumName(values, 0), "OK");
  assertEquals(enumName(values, 17, "LIB_"), "17");
});
