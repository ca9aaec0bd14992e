import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { encodeNpyHeader, npyDescr, npyElements, parseNpyHeader } from "../../../src/array/npy_header.ts";
import { DistmathError, DTypeError, ShapeError } from "../../../src/errors.ts";
import type { DType } from "../../../src/dtype/dtype.ts";

/** A header put together byte by byte, as the format's description has it. */
function header(text: string, major = 1, minor = 0): Uint8Array {
  const body = new TextEncoder().encode(text);
  const length = major === 1
    ? [body.length & 255, body.length >> 8]
    : [body.length & 255, (body.length >> 8) & 255, (body.length >> 16) & 255, body.length >> 24];
  return Uint8Array.of(0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, major, minor, ...length, ...body);
}

const good = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }";

Deno.test("headers of all three versions, with the spellings that Python has", () => {
  for (const major of [1, 2, 3]) {
    const bytes = header(good.padEnd(117) + "\n", major);
    assertEquals(parseNpyHeader(bytes), { descr: "<f8", order: "C", shape: [3, 4], dataOffset: bytes.length });
  }
  const spellings: [string, string, "C" | "F", number[]][] = [
    [`{"descr":"|u1","fortran_order":True,"shape":(7,)}`, "|u1", "F", [7]],
    [`{'shape': (), 'fortran_order': False, 'descr': '>c16'}\n`, ">c16", "C", []],
    [`{'descr': '<i4', 'fortran_order': False, 'shape': (3L, 4L)}`, "<i4", "C", [3, 4]],
    [`  { 'descr' : '<f2' , 'fortran_order' : True , 'shape' : ( 0 , 5 , 6 , ) , }  `, "<f2", "F", [0, 5, 6]],
  ];
  for (const [text, descr, order, shape] of spellings) {
    const bytes = header(text);
    assertEquals(parseNpyHeader(bytes), { descr, order, shape, dataOffset: bytes.length }, text);
  }
});

Deno.test("what encodeNpyHeader writes is read back, and aligned as NumPy aligns it", () => {
  const extents = fc.array(fc.nat(10 ** 6), { maxLength: 4 });
  fc.assert(fc.property(extents, fc.constantFrom<"C" | "F">("C", "F"), (shape, order) => {
    if (!Number.isSafeInteger(shape.reduce((a, b) => a * b, 1))) return;
    const bytes = encodeNpyHeader({ descr: "<c8", order, shape });
    assertEquals(bytes.length % 64, 0);
    assertEquals(bytes.at(-1), 10);
    assertEquals(parseNpyHeader(bytes), { descr: "<c8", order, shape, dataOffset: bytes.length });
  }));
  const bytes = encodeNpyHeader({ descr: "<f8", order: "C", shape: [3] });
  assert(new TextDecoder("latin1").decode(bytes).includes("'shape': (3,), }"));
  const many = encodeNpyHeader({ descr: "<f8", order: "C", shape: new Array(64).fill(1) });
  assertEquals(parseNpyHeader(many).shape.length, 64);
});

Deno.test("what a header says is shown briefly, and a terminal obeys nothing in it", () => {
  const long = "k".repeat(60_000);
  const escapes = "\x1b[2J\x9b31m\x7f\u202e\u2028";
  const shown = "\\u001b[2J\\u009b31m\\u007f\\u202e\\u2028";
  const texts: [string, string][] = [
    [good.replace("}", `'${long}': 1}`), "kkk…"],
    [good.replace("}", `'${long}': 1, '${long}': 2}`), "kkk…"],
    [good.replace("}", `${Array.from({ length: 9000 }, (_, i) => `'${i}': 1`).join(", ")}}`), '"7", …]'],
    [good.replace("}", `'${escapes}': 1}`), shown],
    [good.replace("}", `'${escapes}': 1, '${escapes}': 2}`), shown],
    [good.replace("<f8", long), 'its element type is "kkk'],
    [good.replace("<f8", escapes), `its element type is "${shown}"`],
    [good.replace("(3, 4)", "\x9b"), 'an unexpected "\\u009b"'],
    [good.replace("(3, 4)", `(${"9".repeat(60_000)}, 4)`), "[Infinity, 4]"],
    [good.replace("(3, 4)", `(${"7, ".repeat(20_000)})`), "has 20000 dimensions; arrays have at most 64, as in NumPy."],
    [good.replace("(3, 4)", `(${"1, ".repeat(5000)})`), "has 5000 dimensions; arrays have at most 64"],
    [good.replace("(3, 4)", `(${"9007199254740991, ".repeat(60)})`), "has more than 2^53 elements"],
  ];
  for (const [text, part] of texts) {
    const { message } = assertThrows(() => parseNpyHeader(header(text, 3)), DistmathError);
    assert(message.includes(part), message);
    assert(message.length < 500 && !/[^\x20-\x7e…]/.test(message), message);
  }
  for (const descr of [long, escapes]) {
    const { message } = assertThrows(() => npyElements(descr), DTypeError);
    assert(message.length < 500 && !/[^\x20-\x7e…]/.test(message), message);
  }
});

Deno.test("broken headers are refused, each with its reason", () => {
  const cases: [Uint8Array, new (message: string) => Error, string][] = [
    [new Uint8Array(0), DistmathError, "has only 0 bytes"],
    [header(good).subarray(0, 9), DistmathError, "has only 9 bytes"],
    [new TextEncoder().encode("not a numpy file"), DistmathError, "does not begin with \\x93NUMPY"],
    [header(good, 4), DistmathError, "version is 4.0"],
    [header(good, 1, 1), DistmathError, "version is 1.1"],
    [header(good).subarray(0, 40), DistmathError, "but only 40 are there"],
    [Uint8Array.of(...header("", 2).subarray(0, 8), 255, 255, 255, 127), DistmathError, "claims 2147483647 bytes"],
    [header(`{'descr': ${"(".repeat(50_000)}`, 2), DistmathError, "too many brackets"],
    [header("{'descr': '<f8', 'fortran_order': False}"), DistmathError, 'has ["descr", "fortran_order"]'],
    [header(good.replace("}", "'more': 1}")), DistmathError, 'has ["descr", "fortran_order", "shape", "more"]'],
    [header(good.replace("}", "'shape': (1,)}")), DistmathError, 'the key "shape" twice'],
    [header(good.replace("False", "0")), DistmathError, "neither True nor False"],
    [header(good.replace("(3, 4)", "'3, 4'")), DistmathError, "no tuple of numbers"],
    [header(good.replace("(3, 4)", "(3, True)")), DistmathError, "no tuple of numbers"],
    [header(good.replace("(3, 4)", "[3, 4]")), DistmathError, "no tuple of numbers"],
    [header(good.replace("(3, 4)", "[]")), DistmathError, "no tuple of numbers"],
    [header(good.replace("(3, 4)", "(3)")), DistmathError, "no tuple of numbers"],
    [header(good.replace("(3, 4)", "((3, 4),)")), DistmathError, "no tuple of numbers"],
    [header(good.replace("(3, 4)", "(3, -4)")), DistmathError, 'unexpected "-"'],
    [header(good.replace("(3, 4)", "(3, 4.5)")), DistmathError, "unexpected"],
    [header(good.replace("(3, 4)", "(9007199254740993, 4)")), ShapeError, "header"],
    [header(good.replace("}", "")), DistmathError, "ends, or lacks a value"],
    [header(good + "}"), DistmathError, "goes on after the closing brace"],
    [header(good.replace("'descr'", "descr")), DistmathError, 'unexpected "d"'],
    [header(good.replace("'descr':", "'descr'")), DistmathError, 'lacks a ":"'],
    [header("[1, 2]"), DistmathError, 'lacks a "{"'],
    [header("{'descr': '<f8"), DistmathError, "unexpected"],
    [header("{3: 4}"), DistmathError, "a key that is no text"],
    [header(good.replace("'<f8'", "[('a', '<f8'), ('b', '<i4')]")), DTypeError, "holds records"],
  ];
  for (const [bytes, errorClass, message] of cases) {
    assertThrows(() => parseNpyHeader(bytes), errorClass, message);
  }
});

Deno.test("the dtypes of files", () => {
  const names: [string, DType, boolean][] = [
    ["<f2", "float16", false],
    ["<f4", "float32", false],
    [">f8", "float64", true],
    ["=c8", "complex64", false],
    [">c16", "complex128", true],
    ["|i1", "int8", false],
    [">u1", "uint8", false],
    ["<i4", "int32", false],
    [">i8", "int64", true],
  ];
  for (const [descr, dtype, isBigEndian] of names) {
    assertEquals(npyElements(descr), { dtype, isBigEndian });
    if (!isBigEndian && descr[0] === "<") assertEquals(npyDescr(dtype), descr);
  }
  assertEquals(npyElements("|V2", "bfloat16"), { dtype: "bfloat16", isBigEndian: false });
  assertEquals(npyElements(">u2", "bfloat16"), { dtype: "bfloat16", isBigEndian: true });
  assertEquals(npyElements("|V1", "float8_e5m2"), { dtype: "float8_e5m2", isBigEndian: false });
  assertEquals(npyElements("<f4", "bfloat16"), { dtype: "float32", isBigEndian: false });
  assertEquals(npyElements("|V4", "complex32"), { dtype: "complex32", isBigEndian: false });
  assertEquals((["bfloat16", "float8_e4m3", "complex32"] as const).map(npyDescr), ["|V2", "|V1", "|V4"]);
});

Deno.test("dtypes that distmath has not are refused, with what to do", () => {
  for (const descr of ["<u8", "|b1", "|O", "<U5", "<M8[ns]", "<f16", "|S3", "<i2", "nonsense", ""]) {
    assertThrows(() => npyElements(descr), DTypeError, `type ${JSON.stringify(descr)}; distmath reads f2, f4, f8`);
  }
  assertThrows(() => npyElements("|V2"), DTypeError, 'pass { dtype: "bfloat16" }');
  assertThrows(() => npyElements("|V1"), DTypeError, 'pass { dtype: "float8_e4m3" }');
  assertThrows(() => npyElements("|V4", "bfloat16"), DTypeError, 'pass { dtype: "complex32" }');
  assertThrows(() => npyElements("|V8", "bfloat16"), DTypeError, "astype");
});
