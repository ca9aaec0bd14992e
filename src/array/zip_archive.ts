/**
 * What of ZIP files NumPy's archives need: entries that are stored or deflated, of any size. Pure.
 *
 * Source: PKWARE's APPNOTE.TXT, 4.3 and 4.5.3.
 *
 * @module
 */
import { ConfigurationError } from "../errors.ts";

/** An entry of an archive, as its directory has it. */
export interface ZipEntry {
  readonly name: string;
  /** How it is packed: 0 for stored, 8 for deflated. */
  readonly method: number;
  /** The checksum of its bytes when it is unpacked. */
  readonly crc: number;
  /** Its bytes in the file. */
  readonly packedSize: number;
  /** Its bytes when it is unpacked. */
  readonly size: number;
  /** Where its own header begins. */
  readonly offset: number;
}

const [LOCAL, CENTRAL, END, END64, LOCATOR64] = [0x04034b50, 0x02014b50, 0x06054b50, 0x06064b50, 0x07064b50];
const [LOCAL_BYTES, CENTRAL_BYTES, END_BYTES, END64_BYTES, LOCATOR64_BYTES] = [30, 46, 22, 56, 20];
/** The extra field with sizes of 64 bits, and what stands in the fields of 32 bits then. */
const [WIDE_ID, WIDE_BYTES, ELSEWHERE] = [1, 20, 0xffffffff];
const [VERSION, UTF8_NAMES] = [45, 0x800];
/** The first of January 1980: files are the same whenever they are written. */
const DATE = 0x21;

function refuse(reason: string): never {
  throw new ConfigurationError(
    `it is no .npz file that distmath can read: ${reason}. Write it again with numpy.savez.`,
  );
}

const viewOf = ({ buffer, byteOffset, byteLength }: Uint8Array) => new DataView(buffer, byteOffset, byteLength);
const wide = (view: DataView, at: number) => Number(view.getBigUint64(at, true));

/** Bytes at the end of a file in which its directory is told of. */
export const TAIL_BYTES = END_BYTES + 0xffff + LOCATOR64_BYTES + END64_BYTES;

/** Where the directory lies, from the last bytes of a file, which begin at `start`. */
export function directoryPlace(tail: Uint8Array, start: number): { readonly offset: number; readonly size: number } {
  const view = viewOf(tail);
  let at = tail.length - END_BYTES;
  while (at >= 0 && view.getUint32(at, true) !== END) at--;
  if (at < 0) refuse("it has no directory at its end");
  const [size, offset] = [view.getUint32(at + 12, true), view.getUint32(at + 16, true)];
  const locator = at - LOCATOR64_BYTES;
  if (locator < 0 || view.getUint32(locator, true) !== LOCATOR64) return { offset, size };
  const end = wide(view, locator + 8) - start;
  if (end < 0 || end + END64_BYTES > tail.length || view.getUint32(end, true) !== END64) {
    refuse("the end of its directory is not where it should be");
  }
  return { offset: wide(view, end + 48), size: wide(view, end + 40) };
}

/** Of names; one may begin with U+FEFF, which is no mark of the byte order there. */
const UTF8 = new TextDecoder("utf-8", { ignoreBOM: true });

/** The entries that a directory has. */
export function directoryEntries(bytes: Uint8Array): ZipEntry[] {
  const view = viewOf(bytes);
  const entries: ZipEntry[] = [];
  for (let at = 0; at + CENTRAL_BYTES <= bytes.length && view.getUint32(at, true) === CENTRAL;) {
    const [flags, method] = [view.getUint16(at + 8, true), view.getUint16(at + 10, true)];
    const [nameBytes, extraBytes, commentBytes] = [28, 30, 32].map((field) => view.getUint16(at + field, true));
    const name = UTF8.decode(bytes.subarray(at + CENTRAL_BYTES, at + CENTRAL_BYTES + nameBytes));
    if (flags & 1) refuse(`${name} is encrypted`);
    const extra = bytes.subarray(at + CENTRAL_BYTES + nameBytes, at + CENTRAL_BYTES + nameBytes + extraBytes);
    const [crc, packedSize, size, offset] = [16, 20, 24, 42].map((field) => view.getUint32(at + field, true));
    entries.push({ name, method, crc, ...widened(extra, { size, packedSize, offset }) });
    at += CENTRAL_BYTES + nameBytes + extraBytes + commentBytes;
  }
  return entries;
}

/** Sizes of 64 bits in the place of those that did not fit, which come in this order. */
function widened(extra: Uint8Array, given: { size: number; packedSize: number; offset: number }): typeof given {
  const view = viewOf(extra);
  for (let at = 0; at + 4 <= extra.length; at += 4 + view.getUint16(at + 2, true)) {
    if (view.getUint16(at, true) !== WIDE_ID) continue;
    let next = at + 4;
    const read = (value: number) => {
      if (value !== ELSEWHERE) return value;
      next += 8;
      if (next > extra.length) refuse("a size of 64 bits is missing");
      return wide(view, next - 8);
    };
    return { size: read(given.size), packedSize: read(given.packedSize), offset: read(given.offset) };
  }
  return given;
}

/** Bytes of an entry's own header that tell how long it is. */
export const LOCAL_PREFIX_BYTES = LOCAL_BYTES;

/** Bytes from the beginning of an entry's own header to its data. */
export function localHeaderBytes(prefix: Uint8Array): number {
  const view = viewOf(prefix);
  if (prefix.length < LOCAL_BYTES || view.getUint32(0, true) !== LOCAL) refuse("an entry is not where it should be");
  return LOCAL_BYTES + view.getUint16(26, true) + view.getUint16(28, true);
}

/** An entry that is written, stored. */
export interface StoredEntry {
  readonly name: string;
  readonly size: number;
  /** Where its header begins. */
  readonly offset: number;
  /** The checksum of its data. */
  readonly crc: number;
}

/** Bytes of the header of an entry that is written. */
export function storedHeaderBytes(name: string): number {
  return LOCAL_BYTES + new TextEncoder().encode(name).length + WIDE_BYTES;
}

/** The header of an entry that is written; sizes are in its field of 64 bits. */
export function storedHeader({ name, size, crc }: StoredEntry): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder().encode(name);
  const bytes = new Uint8Array(LOCAL_BYTES + text.length + WIDE_BYTES);
  const view = viewOf(bytes);
  view.setUint32(0, LOCAL, true);
  writeCommon(view, 4, crc, text.length, WIDE_BYTES);
  bytes.set(text, LOCAL_BYTES);
  const extra = LOCAL_BYTES + text.length;
  view.setUint16(extra, WIDE_ID, true);
  view.setUint16(extra + 2, 16, true);
  for (const at of [4, 12]) view.setBigUint64(extra + at, BigInt(size), true);
  return bytes;
}

/** The fields that both headers have, from the version that is needed on. */
function writeCommon(view: DataView, at: number, crc: number, nameBytes: number, extraBytes: number): void {
  view.setUint16(at, VERSION, true);
  view.setUint16(at + 2, UTF8_NAMES, true);
  view.setUint16(at + 8, DATE, true);
  view.setUint32(at + 10, crc, true);
  view.setUint32(at + 14, ELSEWHERE, true);
  view.setUint32(at + 18, ELSEWHERE, true);
  view.setUint16(at + 22, nameBytes, true);
  view.setUint16(at + 24, extraBytes, true);
}

/** The directory of what was written, to stand at `offset`. */
export function directory(entries: readonly StoredEntry[], offset: number): Uint8Array<ArrayBuffer> {
  const extraBytes = 28;
  const headers = entries.map(({ name, size, crc, offset }) => {
    const text = new TextEncoder().encode(name);
    const bytes = new Uint8Array(CENTRAL_BYTES + text.length + extraBytes);
    const view = viewOf(bytes);
    view.setUint32(0, CENTRAL, true);
    view.setUint16(4, VERSION, true);
    writeCommon(view, 6, crc, text.length, extraBytes);
    view.setUint32(42, ELSEWHERE, true);
    bytes.set(text, CENTRAL_BYTES);
    const extra = CENTRAL_BYTES + text.length;
    view.setUint16(extra, WIDE_ID, true);
    view.setUint16(extra + 2, 24, true);
    [size, size, offset].forEach((value, i) => view.setBigUint64(extra + 4 + 8 * i, BigInt(value), true));
    return bytes;
  });
  const size = headers.reduce((sum, { length }) => sum + length, 0);
  const end = new Uint8Array(END64_BYTES + LOCATOR64_BYTES + END_BYTES);
  const view = viewOf(end);
  view.setUint32(0, END64, true);
  view.setBigUint64(4, BigInt(END64_BYTES - 12), true);
  [12, 14].forEach((at) => view.setUint16(at, VERSION, true));
  [24, 32].forEach((at) => view.setBigUint64(at, BigInt(entries.length), true));
  view.setBigUint64(40, BigInt(size), true);
  view.setBigUint64(48, BigInt(offset), true);
  view.setUint32(END64_BYTES, LOCATOR64, true);
  view.setBigUint64(END64_BYTES + 8, BigInt(offset + size), true);
  view.setUint32(END64_BYTES + 16, 1, true);
  const last = END64_BYTES + LOCATOR64_BYTES;
  view.setUint32(last, END, true);
  [8, 10].forEach((at) => view.setUint16(last + at, Math.min(0xffff, entries.length), true));
  view.setUint32(last + 12, Math.min(ELSEWHERE, size), true);
  view.setUint32(last + 16, Math.min(ELSEWHERE, offset), true);
  const whole = new Uint8Array(size + end.length);
  let at = 0;
  for (const part of [...headers, end]) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
