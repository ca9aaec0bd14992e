/** Bytes as text, and back. */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { bytesOf, textOf } from "../../../../scripts/launch/bytes_as_text.ts";

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
