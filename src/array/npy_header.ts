/**
 * The header of NumPy's file format, versions 1.0 to 3.0.
 *
 * Source: NumPy's `numpy/lib/format.py`: magic, version, length of the header, a Python dictionary as text.
 *
 * @module
 */
import { ConfigurationError, DTypeError } from "../errors.ts";
import { describe, quote } from "../options.ts";
import { type DType, dtypeInfo, dtypes } from "../dtype/dtype.ts";
import { checkShape, type Order } from "./layout.ts";

/** What a header says. */
export interface NpyHeader {
  /** NumPy's name of the element type, such as `<f4`. */
  readonly descr: string;
  /** The memory order of the elements in the file. */
  readonly order: Order;
  /** The extents; `[]` for a single number. */
  readonly shape: readonly number[];
  /** Where the elements start. */
  readonly dataOffset: number;
}

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59]; // \x93NUMPY
/** The bytes that tell how long the header is: magic, version, and the widest length field. */
export const PREFIX_BYTES = 12;
const MAXIMUM_HEADER_BYTES = 2 ** 20;

function refuse(reason: string): never {
  throw new ConfigurationError(
    `This is no .npy file that distmath can read: ${reason}. Write it again with numpy.save.`,
  );
}

/**
 * The position of the first element, from the first 12 bytes of a file: all bytes before it are the header.
 *
 * @throws {ConfigurationError} if it is no .npy file of version 1.0 to 3.0.
 */
export function npyDataOffset(prefix: Uint8Array): number {
  if (prefix.length < 10 || !MAGIC.every((byte, i) => prefix[i] === byte)) {
    refuse(`it ${prefix.length < 10 ? `has only ${prefix.length} bytes` : "does not begin with \\x93NUMPY"}`);
  }
  const [major, minor] = [prefix[6], prefix[7]];
  if (major < 1 || major > 3 || minor !== 0) refuse(`its format version is ${major}.${minor}, not 1.0, 2.0 or 3.0`);
  if (major > 1 && prefix.length < PREFIX_BYTES) refuse(`it has only ${prefix.length} bytes`);
  const view = new DataView(prefix.buffer, prefix.byteOffset, prefix.byteLength);
  const [start, length] = major === 1 ? [10, view.getUint16(8, true)] : [12, view.getUint32(8, true)];
  if (length > MAXIMUM_HEADER_BYTES) refuse(`its header claims ${length} bytes, more than ${MAXIMUM_HEADER_BYTES}`);
  return start + length;
}

/**
 * Read a header, given at least all bytes before the first element.
 *
 * @throws {ConfigurationError} if it is broken.
 * @throws {DTypeError} for records, objects and other types that distmath has not.
 *
 * @example
 * ```ts
 * import { parseNpyHeader } from "@distmath/distmath/internals";
 * const text = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n";
 * const start = `NUMPY\x01\x00${String.fromCharCode(text.length)}\0`; // after byte 0x93: version 1.0, the text's length
 * const header = parseNpyHeader(Uint8Array.of(0x93, ...new TextEncoder().encode(start + text)));
 * console.assert(header.shape.join() === "2,3" && header.order === "F");
 * ```
 */
export function parseNpyHeader(bytes: Uint8Array): NpyHeader {
  const dataOffset = npyDataOffset(bytes);
  if (bytes.length < dataOffset) refuse(`its header has ${dataOffset} bytes, but only ${bytes.length} are there`);
  const isUtf8 = bytes[6] === 3;
  const text = bytes.subarray(bytes[6] === 1 ? 10 : 12, dataOffset);
  const fields = readDictionary(new TextDecoder(isUtf8 ? "utf-8" : "latin1").decode(text));
  const { descr, fortran_order: isFortran, shape } = fields;
  if (fields.size !== 3 || descr === undefined || isFortran === undefined || shape === undefined) {
    refuse(
      `its header must have the keys descr, fortran_order and shape, but has ${describe(Object.keys(fields.all))}`,
    );
  }
  if (typeof isFortran !== "boolean") refuse("fortran_order is neither True nor False");
  if (!Array.isArray(shape) || !shape.every((extent) => typeof extent === "number")) {
    refuse("its shape is no tuple of numbers, such as (3, 4), (3,) or ()");
  }
  if (typeof descr !== "string") {
    throw new DTypeError("The .npy file holds records; distmath reads plain numbers only.");
  }
  // So that whoever shows it need not be careful: the longest names are those of dates, such as <M8[ns].
  if (!/^[!-~]{1,40}$/.test(descr)) refuse(`its element type is ${quote(descr)}, and there is none of that name`);
  if (shape.length > 0) checkShape(shape as number[], "The shape in the .npy header");
  return { descr, order: isFortran ? "F" : "C", shape: shape as number[], dataOffset };
}

/**
 * The header of a file, version 1.0, padded as NumPy pads it.
 */
export function encodeNpyHeader({ descr, order, shape }: Omit<NpyHeader, "dataOffset">): Uint8Array<ArrayBuffer> {
  const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
  const text = `{'descr': '${descr}', 'fortran_order': ${order === "F" ? "True" : "False"}, 'shape': ${tuple}, }`;
  const start = 10;
  const total = Math.ceil((start + text.length + 1) / 64) * 64;
  const bytes = new Uint8Array(total).fill(0x20);
  bytes.set([...MAGIC, 1, 0]);
  new DataView(bytes.buffer).setUint16(8, total - start, true);
  bytes.set(new TextEncoder().encode(text), start);
  bytes[total - 1] = 0x0a;
  return bytes;
}

// ---- the text: a Python dictionary of strings, booleans and tuples of integers ----------------------------------------

type Value = string | number | boolean | Value[] | List;

/** A Python list, which stands for no shape: a tuple is an array. */
interface List {
  readonly list: readonly Value[];
}

interface Fields {
  readonly all: Readonly<Record<string, Value>>;
  readonly size: number;
  readonly descr: Value | undefined;
  readonly fortran_order: Value | undefined;
  readonly shape: Value | undefined;
}

const TOKEN = /\s*(?:([{}()[\],:])|'([^'\\]*)'|"([^"\\]*)"|(True|False)\b|(\d+)L?(?![\w.])|(\S))/y;

function tokensOf(text: string): (string | Value)[][] {
  const tokens: (string | Value)[][] = [];
  TOKEN.lastIndex = 0;
  const trimmed = text.trimEnd();
  while (TOKEN.lastIndex < trimmed.length) {
    const match = TOKEN.exec(trimmed);
    if (match === null) refuse("its header cannot be read");
    const [, punctuation, single, double, truth, digits, wrong] = match;
    if (wrong !== undefined) refuse(`its header has an unexpected ${quote(wrong)}`);
    if (punctuation !== undefined) tokens.push(["punctuation", punctuation]);
    else if (truth !== undefined) tokens.push(["value", truth === "True"]);
    else if (digits !== undefined) tokens.push(["value", Number(digits)]);
    else tokens.push(["value", single ?? double]);
  }
  return tokens;
}

function readDictionary(text: string): Fields {
  const tokens = tokensOf(text);
  let at = 0;
  const is = (mark: string): boolean => tokens[at]?.[0] === "punctuation" && tokens[at][1] === mark;
  const expect = (mark: string): void => {
    if (!is(mark)) refuse(`its header lacks a ${JSON.stringify(mark)}`);
    at++;
  };
  const readValue = (depth = 0): Value => {
    if (depth > 8) refuse("its header has too many brackets within each other, more than 8, where a shape has 1");
    for (const [open, close] of ["()", "[]"]) {
      if (!is(open)) continue;
      at++;
      const items: Value[] = [];
      let hasComma = false;
      while (!is(close)) {
        items.push(readValue(depth + 1));
        if (is(close)) break;
        expect(",");
        hasComma = true;
      }
      at++;
      if (open === "[") return { list: items };
      return items.length === 1 && !hasComma ? items[0] : items;
    }
    if (tokens[at]?.[0] !== "value") refuse("its header ends, or lacks a value");
    return tokens[at++][1];
  };
  const all: Record<string, Value> = {};
  expect("{");
  while (!is("}")) {
    const key = readValue();
    if (typeof key !== "string") refuse("its header has a key that is no text");
    if (Object.hasOwn(all, key)) refuse(`its header has the key ${quote(key)} twice`);
    expect(":");
    all[key] = readValue();
    if (!is("}")) expect(",");
  }
  at++;
  if (at < tokens.length) refuse("its header goes on after the closing brace");
  const { descr, fortran_order, shape } = all;
  return { all, size: Object.keys(all).length, descr, fortran_order, shape };
}

// ---- element types ----------------------------------------------------------------------------------------------------

/** How the bytes of a file are to be understood. */
export interface NpyElements {
  /** The type. */
  readonly dtype: DType;
  /** Whether the bytes of each number are in the other order. */
  readonly isBigEndian: boolean;
}

/** What the raw bits of types that NumPy has not are written as: void of their width. */
const rawDescr = { bfloat16: "|V2", float8_e4m3: "|V1", float8_e5m2: "|V1", complex32: "|V4" } as const;

/** What `descr` those bits may have besides: unsigned integers of their width. */
const rawIntegers: { readonly [dtype in DType]?: string } = { bfloat16: "u2", float8_e4m3: "u1", float8_e5m2: "u1" };

function isRaw(dtype: DType): dtype is keyof typeof rawDescr {
  return dtype in rawDescr;
}

/**
 * The `descr` of a dtype; void for bfloat16 and float8, as `numpy.save` writes those of the ml_dtypes package, and for
 * complex32.
 */
export function npyDescr(dtype: DType): string {
  return isRaw(dtype) ? rawDescr[dtype] : dtypeInfo(dtype).npy!;
}

/**
 * The dtype that a `descr` names. bfloat16, float8 and complex32 have no name in NumPy: their bits (`V2`, `V1`, `V4`, unsigned
 * integers) need `wanted`, the dtype that the caller wants to read.
 *
 * @throws {DTypeError} for types that distmath has not.
 */
export function npyElements(descr: string, wanted?: DType): NpyElements {
  const match = /^([<>|=])?([a-zA-Z]\d+)$/.exec(descr);
  const kind = match?.[2] ?? "";
  const isBigEndian = match?.[1] === ">" && !kind.endsWith("1");
  if (wanted !== undefined && isRaw(wanted)) {
    if (kind === rawDescr[wanted].slice(1) || kind === rawIntegers[wanted]) return { dtype: wanted, isBigEndian };
  }
  const dtype = dtypes.find((name) => dtypeInfo(name).npy?.slice(1) === kind);
  if (dtype !== undefined) return { dtype, isBigEndian };
  const raw = kind === "V2" || kind === "u2"
    ? ' If these are the bits of bfloat16, pass { dtype: "bfloat16" }.'
    : kind === "V1"
    ? ' If these are the bits of float8, pass { dtype: "float8_e4m3" } or "float8_e5m2".'
    : kind === "V4"
    ? ' If these are pairs of float16, pass { dtype: "complex32" }.'
    : "";
  const known = dtypes.flatMap((name) => dtypeInfo(name).npy?.slice(1) ?? []).join(", ");
  throw new DTypeError(
    `The .npy file holds elements of type ${quote(descr)}; distmath reads ${known}.${
      raw || " Convert it with numpy's astype."
    }`,
  );
}
