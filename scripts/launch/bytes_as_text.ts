/**
 * Output of programs as text, from which the same bytes can be made again, also where they are no UTF-8.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { CommandError } from "../terminal.ts";

const [strict, encoder] = [new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }), new TextEncoder()];

/** No string has more characters. */
const mostCharacters = 2 ** 29 - 24;

/** Added to bytes that belong to no character, as in Python: text of UTF-8 never has a lone surrogate. */
const LONE = 0xdc00;

const isLoneByte = (unit: number) => unit >= LONE + 0x80 && unit <= LONE + 0xff;

/**
 * Bytes as text; those that belong to no character as lone surrogates.
 *
 * @throws {CommandError} if there are more than a string can have.
 */
export function textOf(bytes: Uint8Array): string {
  if (bytes.length > mostCharacters) {
    throw new CommandError(
      `a line of output has more than ${mostCharacters} bytes, the most that can be passed on; ` +
        "have the program write shorter lines, or into a file",
      1,
    );
  }
  try {
    return strict.decode(bytes);
  } catch {
    return Buffer.from(unitsOf(bytes).buffer).toString("utf16le");
  }
}

/** The code units of UTF-16 of bytes that are not all UTF-8. */
function unitsOf(bytes: Uint8Array): Uint16Array<ArrayBuffer> {
  const units = new Uint16Array(bytes.length);
  let count = 0;
  for (let i = 0; i < bytes.length;) {
    const length = sequenceAt(bytes, i);
    if (length === 0) units[count++] = LONE + bytes[i];
    else if (length === 4) {
      const beyond = codeAt(bytes, i, 4) - 0x10000;
      units[count++] = 0xd800 + (beyond >> 10);
      units[count++] = 0xdc00 + (beyond & 0x3ff);
    } else units[count++] = codeAt(bytes, i, length);
    i += length || 1;
  }
  return units.slice(0, count);
}

/** How many bytes the character that begins here has (RFC 3629, section 4); 0 if none begins. */
function sequenceAt(bytes: Uint8Array, i: number): number {
  const first = bytes[i];
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  const least = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
  const most = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
  if (!(bytes[i + 1] >= least && bytes[i + 1] <= most)) return 0;
  for (let next = i + 2; next < i + length; next++) {
    if ((bytes[next] & 0xc0) !== 0x80) return 0;
  }
  return length;
}

/** The number of a character of so many bytes. */
function codeAt(bytes: Uint8Array, i: number, length: number): number {
  if (length === 1) return bytes[i];
  let code = bytes[i] & (0x7f >> length);
  for (let next = i + 1; next < i + length; next++) code = code << 6 | bytes[next] & 0x3f;
  return code;
}

/** The bytes of a text that {@linkcode textOf} made, or of any other. */
export function bytesOf(text: string): Uint8Array {
  if (text.isWellFormed()) return encoder.encode(text);
  const bytes = Buffer.allocUnsafe(3 * text.length);
  let [length, start] = [0, 0];
  const encodeTo = (end: number) => {
    if (end > start) length += encoder.encodeInto(text.slice(start, end), bytes.subarray(length)).written;
    start = end + 1;
  };
  for (let i = 0; i < text.length; i++) {
    const code = text.codePointAt(i)!;
    if (code > 0xffff) i++;
    else if (isLoneByte(code)) {
      encodeTo(i);
      bytes[length++] = code - LONE;
    }
  }
  encodeTo(text.length);
  return bytes.subarray(0, length);
}

/** Arrays of bytes as one. */
export const joined = (parts: readonly Uint8Array[]): Uint8Array => Buffer.concat(parts);
