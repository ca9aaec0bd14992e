/**
 * Arrays as text, as NumPy prints them: numbers of one width, as few digits as tell them apart, at most 8 behind the point, and
 * dots for the middle of large arrays.
 *
 * @module
 */
import { type DType, dtypeInfo, isNarrowFloat, type Scalar } from "../dtype/dtype.ts";
import { fromFloat32, toFloat32 } from "../dtype/narrow_floats.ts";
import { describe, keysOf, readOptions } from "../options.ts";
import { sizeOfShape } from "./layout.ts";

/** How arrays are written. */
export interface FormatOptions {
  /** Digits behind the point, at most; 8 by default. */
  precision?: number;
  /** Arrays of more elements show only their edges; 1000 by default. */
  threshold?: number;
  /** Elements at each edge of a large array; 3 by default. */
  edgeItems?: number;
  /** Characters of a line, at most; 75 by default. */
  lineWidth?: number;
}

/** The names of {@linkcode FormatOptions}. */
const FORMAT_KEYS = keysOf<FormatOptions>({ precision: true, threshold: true, edgeItems: true, lineWidth: true });

/** Options checked and completed. */
export type FullFormat = Required<FormatOptions>;

/**
 * Options with nothing left out.
 *
 * @throws {TypeError | RangeError} if one is unknown, or no whole number from 0 on.
 */
export function checkFormat(options: FormatOptions | undefined, method = "format"): FullFormat {
  const given = readOptions(`the options of ${method}`, options, FORMAT_KEYS);
  const full = { precision: 8, threshold: 1000, edgeItems: 3, lineWidth: 75, ...given };
  for (const key of FORMAT_KEYS) {
    const value = full[key];
    if (Number.isInteger(value) && value >= 0 && (key !== "precision" || value <= 17)) continue;
    const kind = typeof value === "number" ? RangeError : TypeError;
    throw new kind(
      `${key} must be a whole number from 0${key === "precision" ? " to 17" : " on"}, not ${describe(value)}.`,
    );
  }
  return full;
}

/** The indices of each dimension that are shown. */
export function shownIndices(shape: readonly number[], { threshold, edgeItems }: FullFormat): number[][] {
  // The other extents of an array without elements may be anything.
  if (shape.includes(0)) return shape.map(() => []);
  const isLarge = sizeOfShape(shape) > threshold;
  return shape.map((extent) => {
    const all = Array.from({ length: isLarge ? Math.min(extent, 2 * edgeItems) : extent }, (_, i) => i);
    return isLarge && extent > 2 * edgeItems ? all.map((i) => i < edgeItems ? i : extent - 2 * edgeItems + i) : all;
  });
}

/** Writes one element; all that it writes have the same width. */
type Writer = (value: Scalar) => string;

/** The text of an array of this shape, given the elements that are shown, in C order. */
export function formatElements(
  dtype: DType,
  shape: readonly number[],
  values: readonly Scalar[],
  options: FullFormat,
): string {
  if (shape.includes(0)) return "[]";
  const indices = shownIndices(shape, options);
  const write = writerOf(dtype, values, options.precision);
  const strides = indices.map((_, d) => indices.slice(d + 1).reduce((product, list) => product * list.length, 1));
  const { edgeItems, lineWidth } = options;

  const nested = (d: number, at: number, indent: string, width: number): string => {
    if (d === shape.length) return write(values[at]);
    const { length } = indices[d];
    const items = Array.from({ length }, (_, i) => nested(d + 1, at + i * strides[d], `${indent} `, width - 1));
    if (length < shape[d]) items.splice(edgeItems, 0, "...");
    if (d === shape.length - 1) return `[${wrapped(items, indent, width - 1).slice(indent.length)}]`;
    return `[${items.map((item) => indent + item).join("\n".repeat(shape.length - 1 - d)).slice(indent.length)}]`;
  };
  return nested(0, 0, " ", lineWidth);
}

/** Words in lines of a width, each of which begins with the indent. */
function wrapped(words: readonly string[], indent: string, width: number): string {
  const lines: string[] = [];
  let line = indent;
  words.forEach((word, i) => {
    if (line.length + word.length > width && line.length > indent.length) {
      lines.push(line.trimEnd());
      line = indent;
    }
    line += word + (i < words.length - 1 ? " " : "");
  });
  return [...lines, line].join("\n");
}

function writerOf(dtype: DType, values: readonly Scalar[], precision: number): Writer {
  const { isComplex, isInteger, real } = dtypeInfo(dtype);
  if (isInteger) {
    const width = values.reduce<number>((most, value) => Math.max(most, String(value).length), 0);
    return (value) => String(value).padStart(width);
  }
  if (!isComplex) return floatWriter(real, values as readonly number[], precision, false) as Writer;
  const pairs = values as readonly (readonly [number, number])[];
  const [re, im] = [0, 1].map((part) => floatWriter(real, pairs.map((pair) => pair[part]), precision, part === 1));
  return (value) => {
    const [x, y] = value as readonly [number, number];
    const imaginary = im(y);
    const { length } = imaginary.trimEnd();
    return `${re(x)}${imaginary.slice(0, length)}j${imaginary.slice(length)}`;
  };
}

/** Writes floats of a list: all with an exponent, or none. */
function floatWriter(
  dtype: DType,
  values: readonly number[],
  precision: number,
  isSigned: boolean,
): (value: number) => string {
  const finite = values.filter(Number.isFinite);
  const magnitudes = finite.map(Math.abs).filter((value) => value > 0);
  const [largest, least] = [
    magnitudes.reduce((a, b) => Math.max(a, b), 0),
    magnitudes.reduce((a, b) => Math.min(a, b), Infinity),
  ];
  // In the arithmetic of the dtype.
  const round = dtype === "float16" || dtype === "float64" ? rounder(dtype) : Math.fround;
  const isScientific = magnitudes.length > 0 &&
    (largest >= cutoff(dtype) || least < round(0.0001) || round(largest / least) > 1000);
  const digits = (value: number) =>
    isScientific ? scientific(dtype, value, precision) : positional(dtype, value, precision);
  const sign = (value: number) => value < 0 || Object.is(value, -0) ? "-" : isSigned ? "+" : "";
  const written = finite.map((value) => ({ sign: sign(value), ...digits(Math.abs(value)) }));
  const longest = (lengths: readonly number[]) => lengths.reduce((a, b) => Math.max(a, b), 0);
  const fraction = longest(written.map((one) => one.fraction.length));
  const exponent = longest(written.map((one) => one.exponent.length - 1));
  const right = isScientific ? fraction + 2 + exponent : fraction;
  let left = longest(written.map((one) => one.sign.length + one.whole.length));
  if (finite.length < values.length) {
    const room = finite.length > 0 ? right + 1 : 1;
    const names = values.filter((value) => !Number.isFinite(value)).map((value) => special(value, isSigned).length);
    left = Math.max(left, longest(names) - room, 3 - room);
  }
  return (value) => {
    if (!Number.isFinite(value)) return special(value, isSigned).padStart(left + right + 1);
    // With an exponent all have as many digits: exact ones, also beyond those that tell numbers of few bits apart.
    const one = isScientific
      ? inDigits(toEven((count) => Math.abs(value).toExponential(count), fraction))
      : digits(Math.abs(value));
    const head = (sign(value) + one.whole).padStart(left);
    if (!isScientific) return `${head}.${one.fraction.padEnd(fraction)}`;
    return `${head}.${one.fraction}e${one.exponent[0]}${one.exponent.slice(1).padStart(exponent, "0")}`;
  };
}

function special(value: number, isSigned: boolean): string {
  if (Number.isNaN(value)) return isSigned ? "+nan" : "nan";
  return value < 0 ? "-inf" : isSigned ? "+inf" : "inf";
}

interface Digits {
  readonly whole: string;
  readonly fraction: string;
  /** With its sign and at least two digits; "" for none. */
  readonly exponent: string;
}

/** From where on floats are written with an exponent: where not all digits before the point are known. */
function cutoff(dtype: DType): number {
  return dtype === "float64" ? 1e8 : dtype === "float32" ? 1e6 : 1e3;
}

/** What becomes of a number in a float dtype. */
function rounder(dtype: DType): (x: number) => number {
  if (dtype === "float32") return Math.fround;
  if (dtype === "float16") return (x) => Math.f16round(x);
  return isNarrowFloat(dtype) ? (x) => toFloat32(dtype, fromFloat32(dtype, x)) : (x) => x;
}

/** As few digits as tell a number from its neighbours of the dtype: as JavaScript writes exponents. */
function shortest(dtype: DType, value: number): string {
  if (dtype === "float64") return value.toExponential();
  const round = rounder(dtype);
  for (let count = 0; count < 10; count++) {
    const text = toEven((digits) => value.toExponential(digits), count);
    if (round(Number(text)) === value) return text;
  }
  return value.toExponential();
}

const trimmed = (fraction: string) => fraction.replace(/0+$/, "");

/**
 * A number in so many digits behind the point; in the middle between two the even one, as NumPy has it, where JavaScript takes
 * the larger one.
 */
function toEven(write: (digits: number) => string, digits: number): string {
  const exact = write(Math.min(100, digits + 40));
  const [, kept, rest, power] = exact.match(new RegExp(`^(\\d+\\.\\d{${digits}})(\\d*)(.*)$`)) ?? [];
  const isEven = kept !== undefined && Number(kept.replace(".", "").at(-1)) % 2 === 0;
  return isEven && /^50*$/.test(rest) ? kept.replace(/\.$/, "") + power : write(digits);
}

/** What `toExponential` writes, in its parts. */
function inDigits(text: string): Digits {
  const [mantissa, power] = text.split("e");
  const [whole, fraction = ""] = mantissa.split(".");
  return { whole, fraction, exponent: power[0] + power.slice(1).padStart(2, "0") };
}

function scientific(dtype: DType, value: number, precision: number): Digits {
  const text = shortest(dtype, value);
  const digits = inDigits(
    text.split("e")[0].length - 2 > precision ? toEven((count) => value.toExponential(count), precision) : text,
  );
  return { ...digits, fraction: trimmed(digits.fraction) };
}

function positional(dtype: DType, value: number, precision: number): Digits {
  const [mantissa, power] = shortest(dtype, value).split("e");
  const count = Math.max(0, mantissa.length - 2) - Number(power);
  const text = count > precision
    ? toEven((count) => value.toFixed(count), precision)
    : value === 0
    ? "0"
    : Number(`${mantissa}e${power}`).toFixed(Math.max(0, count));
  const [whole, fraction = ""] = text.split(".");
  return { whole, fraction: trimmed(fraction), exponent: "" };
}
