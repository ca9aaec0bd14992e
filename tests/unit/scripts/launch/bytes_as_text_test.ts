/** Bytes as text, and back. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { bytesOf, textOf } from "../../../../scripts/launch/bytes_as_text.ts";
import { CommandError } from "../../../../scripts/terminal.ts";

/** Bytes among which those of characters, whole and cut, are frequent. */
const bytes = fc.array(
  fc.oneof(
    fc.uint8Array({ maxLength: 5 }),
    fc.string({ unit: "grapheme" }).map((text) => new TextEncoder().encode(text)),
  ),
).map((parts) => Uint8Array.from(parts.flatMap((part) => [...part])));

Deno.test("text gives the same bytes again, whatever they are", () => {
  fc.assert(fc.property(bytes, (bytes) => assertEquals([...bytesOf(textOf(bytes))], [...bytes])), { numRuns: 2000 });
});

Deno.test("what is well-formed reads as any decoder reads it, also beside what is not", () => {
  fc.assert(fc.property(fc.string({ unit: "grapheme" }), (text) => {
    const bytes = new TextEncoder().encode(text);
    assertEquals(textOf(bytes), text);
    assertEquals(textOf(Uint8Array.of(0xff, ...bytes, 0xc3)), `\udcff${text}\udcc3`);
  }));
  fc.assert(fc.property(bytes, (bytes) => {
    const [text, usual] = [textOf(bytes), new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)];
    // Decoders may take several bytes that belong to no character for one.
    assertEquals(text.toWellFormed().replace(/\ufffd+/g, "\ufffd"), usual.replace(/\ufffd+/g, "\ufffd"));
  }));
});

Deno.test("a byte order mark stays", () => {
  assertEquals(textOf(Uint8Array.of(0xef, 0xbb, 0xbf, 0x61)), "\ufeffa");
});

Deno.test("what is no UTF-8 takes no more than moments, however much it is", () => {
  for (const byte of [0xff, 0x80, 0xe6]) {
    const bytes = new Uint8Array(4 << 20).map((_, i) => i % 3 === 0 ? byte : 0xff);
    const start = performance.now();
    const again = bytesOf(textOf(bytes));
    const milliseconds = performance.now() - start;
    assert(again.length === bytes.length && again.every((value, i) => value === bytes[i]));
    assert(milliseconds < 10_000, `${milliseconds} ms`);
  }
});

Deno.test("more bytes than a string can have are refused in words", () => {
  assertThrows(() => textOf(new Uint8Array(2 ** 29)), CommandError, "a line of output has more than 536870888 bytes");
});
