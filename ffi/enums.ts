/**
 * C enums, which the files of `ffi/` write as constant objects.
 *
 * @module
 */

/**
 * The C name of an enum's value, or the number itself where the enum does not list it.
 *
 * @example
 * ```ts
 * import { enumName } from "@distmath/distmath/ffi";
 * console.assert(enumName({ SUCCESS: 0, BROKEN: 3 }, 3, "LIB_") === "LIB_BROKEN");
 * console.assert(enumName({ SUCCESS: 0 }, 7, "LIB_") === "7");
 * ```
 */
export function enumName(values: Readonly<Record<string, number>>, value: number, prefix = ""): string {
  const key = Object.keys(values).find((name) => values[name] === value);
  return key === undefined ? String(value) : prefix + key;
}

/** A value of a C enum that is an object `as const`. */
export type EnumValue<E> = E[keyof E];
