/**
 * Output of programs as text, from which the same bytes can be made again, also where they are no UTF-8.
 *
 * @module
 */
import { Buffer } from "node:buffer";

const [strict, encoder] = [new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }), new TextEncoder()];

/** Sequences of UTF-8 (RFC 3629, section 4), and single bytes, in a text that has a character for each byte. */
const SEQUENCES =
  // deno-lint-ignore no-control-regex
  /[\x00-\x7f]+|[\xc2-\xdf][\x80-\xbf]|(?:\xe0[\xa0-\xbf]|\xed[\x80-\x9f]|[\xe1-\xec\xee\xef][\x80-\xbf])[\x80-\xbf]|(?:\xf0[\x90-\xbf]|\xf4[\x80-\x8f]|[\xf1-\xf3][\x80-\xbf])[\x80-\xbf]{2}|[^]/g;

/** Stand for bytes that belong to no character, as in Python: 0xdc00 is added. Text of UTF-8 never has one alone. */
const BYTE = /([\udc80-\udcff])/u;

/** Bytes as text; those that belong to no character as lone surrogates. */
export function textOf(bytes: Uint8Array): string {
  try {
    return strict.decode(bytes);
  } catch {
    const units = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
    return units.match(SEQUENCES)!.map(sequenceOf).join("");
  }
}

function sequenceOf(units: string): string {
  const first = units.charCodeAt(0);
  if (units.length === 1 && first >= 0x80) return String.fromCharCode(0xdc00 + first);
  return strict.decode(Uint8Array.from(units, (unit) => unit.charCodeAt(0)));
}

/** The bytes of a text that {@linkcode textOf} made, or of any other. */
export function bytesOf(text: string): Uint8Array {
  if (text.isWellFormed()) return encoder.encode(text);
  const parts = text.split(BYTE).map((part) =>
    BYTE.test(part) ? Uint8Array.of(part.charCodeAt(0) - 0xdc00) : encoder.encode(part)
  );
  return joined(parts);
}

/** Arrays of bytes as one. */
export const joined = (parts: readonly Uint8Array[]): Uint8Array => Buffer.concat(parts);
