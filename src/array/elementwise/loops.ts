/**
 * What loops over elements go through, on the CPU and on GPUs: arrays in memory, their dimensions, and what becomes of values.
 *
 * @module
 */
import { type DType, dtypeInfo, isNarrowFloat, type Scalar, type TypedArray } from "../../dtype/dtype.ts";
import { complexParts, roundedTo, toBigInt } from "../../dtype/scalar.ts";
import type { DeviceMemory } from "../../memory/device_buffer.ts";
import type { ElementProgram, OperandType } from "./expression.ts";

/** An array in memory, of the host or of a GPU. */
export interface Elements {
  /** The memory. */
  readonly storage: TypedArray | DeviceMemory;
  /** The type of the elements. */
  readonly dtype: DType;
  /** The element at index (0, 0, …). */
  readonly offset: number;
  /** The distance of neighbours along each dimension; 0 where elements are repeated. */
  readonly strides: readonly number[];
  /** Lets go of memory that was made for this use alone. */
  readonly letGo?: () => void;
}

/** An operand of this rank: its elements, or a number of the script that stands beside each. */
export type Part = Elements | { readonly scalar: Scalar };

/** Whether elements are in the memory of a GPU. */
export function isOnDevice(part: Part): part is Elements & { readonly storage: DeviceMemory } {
  return "storage" in part && !ArrayBuffer.isView(part.storage);
}

/** Let go of what was made for these operands alone, once the work that reads it is on its way. */
export function letGoOf(parts: readonly Part[]): void {
  for (const part of parts) if ("storage" in part) part.letGo?.();
}

/** What an operand is for the types. */
export function typeOf(part: Part): OperandType {
  return "scalar" in part ? { scalar: part.scalar } : { dtype: part.dtype };
}

/**
 * What becomes of each value instead of being stored: accumulators `a0`, `a1` …, one for each target, take it in. Code is a
 * function of names, for a complex value of two.
 */
export interface Accumulation {
  /** What the accumulators hold before the first value. */
  readonly start: readonly (number | bigint)[];
  /** Takes in a value; it may name further operands as `x` and their number. */
  readonly take: (value: readonly string[]) => string;
  /** Takes in other accumulators, which have taken in other values. */
  readonly merge: (others: readonly string[]) => string;
  /** Whether the result is the same in whatever order values are taken in, but for the sign of a zero. */
  readonly isAnyOrder: boolean;
  /** Whether it is one of the values. */
  readonly isChoice?: boolean;
}

/** A dimension of the loops: how many indices, and the stride of each array. */
export interface Loop {
  readonly extent: number;
  readonly strides: readonly number[];
}

/**
 * The dimensions, outermost in the array `leading` first, without those of one index; neighbours that make one loop are joined.
 */
export function loopsOf(
  shape: readonly number[],
  arrays: readonly ({ readonly strides: readonly number[] } | null)[],
  leading: number,
): Loop[] {
  const loops = shape
    .map((extent, d): Loop => ({ extent, strides: arrays.map((array) => array?.strides[d] ?? 0) }))
    .filter(({ extent }) => extent > 1)
    .map((loop, d) => ({ loop, d }))
    .sort((a, b) => b.loop.strides[leading] - a.loop.strides[leading] || a.d - b.d)
    .map(({ loop }) => loop);
  const joined: Loop[] = [];
  for (const loop of loops) {
    const outer = joined.at(-1);
    const isOne = outer?.strides.every((stride, at) => stride === loop.strides[at] * loop.extent);
    if (isOne) joined[joined.length - 1] = { extent: outer!.extent * loop.extent, strides: loop.strides };
    else joined.push(loop);
  }
  return joined;
}

/** The numbers of the script as the loop takes them: rounded to the dtype in which they are used. */
export function numbersOf(program: ElementProgram, scalars: readonly (Scalar | null)[]): (number | bigint)[] {
  return program.parameters.flatMap(({ index, dtype }): (number | bigint)[] => {
    const value = scalars[index]!;
    if (dtype === "int64") return [toBigInt(value)];
    const number = typeof value === "bigint" ? Number(value) : value;
    // Finite numbers that float8 does not hold would become its largest one.
    if (isNarrowFloat(dtype) && Math.abs(number as number) > (roundedTo(dtype, Number.MAX_VALUE) as number)) {
      return [number as number];
    }
    const stored = roundedTo(dtype, number);
    return dtypeInfo(dtype).isComplex ? [...complexParts(dtype, stored)] : [stored as number];
  });
}
