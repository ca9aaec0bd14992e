/**
 * Checks of options: no key that nobody reads, no name that nobody knows; and how a message shows a wrong value.
 *
 * @module
 */

/**
 * Check that an options object has only known keys.
 *
 * @throws {TypeError} naming the allowed keys, and the one that was probably meant.
 */
export function checkKeys(what: string, options: unknown, allowed: readonly string[]): void {
  if (options === undefined) return;
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new TypeError(`${what} must be an object; got ${describe(options)}. Allowed keys: ${allowed.join(", ")}.`);
  }
  for (const key of Object.keys(options)) {
    if (!allowed.includes(key)) {
      const near = nearest(key, allowed);
      const hint = near === null ? "." : `; did you mean "${near}"?`;
      throw new TypeError(`${what} may have no key "${key}"${hint} Allowed: ${allowed.join(", ")}.`);
    }
  }
}

/**
 * A plain copy of options, of which each is read once: nothing that they are or do later, as getters, matters then. What
 * is undefined is left out. What was read before is not read again.
 *
 * @throws {TypeError} as {@linkcode checkKeys} does.
 */
export function readOptions<T extends object>(
  what: string,
  options: T | undefined,
  allowed: readonly (keyof T & string)[],
  before: Partial<T> = {},
): T {
  checkKeys(what, options, allowed);
  const copy = { ...before };
  if (options === undefined) return copy as T;
  for (const key of allowed) {
    const value = key in before ? undefined : options[key];
    if (value !== undefined) copy[key] = value;
  }
  return copy as T;
}

/** The keys of an options type: the compiler sees to it that none is missing. */
export function keysOf<T extends object>(keys: Readonly<Record<keyof T, true>>): readonly (keyof T & string)[] {
  return Object.keys(keys) as (keyof T & string)[];
}

/** What reading what a user gave has found: null if it is no such thing. */
export interface Reading<T> {
  readonly items: readonly T[] | null;
  /** Throws what reading has thrown, for the agreement. */
  readonly check: () => void;
}

/** What a user gave as a list: its elements, read once. It does not throw, so that a runtime can be found among them. */
export function readList<T>(given: readonly T[]): Reading<T> {
  return reading(() => Array.isArray(given) ? [...given] : null);
}

/** What a user gave by names, as {@linkcode readList} reads a list. */
export function readEntries<T>(given: Readonly<Record<string, T>>): Reading<[name: string, value: T]> {
  return reading(() => isObject(given) ? Object.entries(given) : null);
}

function reading<T>(read: () => readonly T[] | null): Reading<T> {
  try {
    return { items: read(), check: () => {} };
  } catch (error) {
    const check = () => {
      throw error;
    };
    return { items: null, check };
  }
}

/** Whether a value may have private members: those tell what a constructor made from what only looks like it. */
export function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/**
 * Check that a value is one of the allowed names.
 *
 * @throws {TypeError} naming the allowed names, and the one that was probably meant.
 */
export function checkName(what: string, value: unknown, allowed: readonly string[]): void {
  if (value === undefined || allowed.includes(value as string)) return;
  const near = typeof value === "string" ? nearest(value, allowed) : null;
  const hint = near === null ? "" : ` Did you mean "${near}"?`;
  throw new TypeError(`${what} must be one of ${allowed.join(", ")}; got ${describe(value)}.${hint}`);
}

/** Check that a value is true, false or left out. */
export function checkBoolean(what: string, value: unknown): void {
  if (value !== undefined && typeof value !== "boolean") {
    throw new TypeError(`${what} must be true or false; got ${describe(value)}.`);
  }
}

/** A wrong value in a message: briefly, and never the source of a function or all elements of an array. */
export function describe(value: unknown): string {
  try {
    return describeNested(value, 0);
  } catch {
    return "an object that cannot be looked at";
  }
}

const ownClasses = new Map<string, object>();

/** Have objects of another copy of the library told from those of this class, which have the same name. */
export function noteOwnClass(ownClass: { readonly name: string }): void {
  ownClasses.set(ownClass.name, ownClass);
}

/** Lists in lists in lists are not written out. */
const DEEPEST = 2;

function describeNested(value: unknown, depth: number): string {
  if (typeof value === "function") {
    return isClass(value) ? `the class ${value.name}` : `the function ${value.name}`.trimEnd();
  }
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "string") return quote(value);
  if (typeof value !== "object" || value === null) return String(value);
  if (Array.isArray(value)) {
    if (depth > DEEPEST) return "[…]";
    const shown = value.slice(0, 8).map((part) => describeNested(part, depth + 1));
    return `[${shown.join(", ")}${value.length > 8 ? ", …" : ""}]`;
  }
  const name = value.constructor?.name ?? "Object";
  if (name === "Object") return `an object with the keys [${Object.keys(value).join(", ")}]`;
  const isForeign = ownClasses.has(name) && ownClasses.get(name) !== value.constructor;
  const foreign = isForeign ? " of another copy of distmath (import it from one and the same URL everywhere)" : "";
  return `${/^[AEIOU]/.test(name) ? "an" : "a"} ${name}${foreign}`;
}

/** Text that somebody else wrote, in quotes: briefly, and so that a terminal shows it and obeys nothing in it. */
export function quote(text: string): string {
  const brief = JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
  // JSON escapes the other control characters; these begin escape sequences too, or turn the direction of text.
  return brief.replace(
    /[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Only a class has a prototype that cannot be replaced. */
function isClass(value: object): boolean {
  return Object.getOwnPropertyDescriptor(value, "prototype")?.writable === false;
}

/**
 * The candidate that was probably meant by a word, without regard to case, hyphens and underscores: one edit away for every
 * three letters at most, or the beginning of the other; `null` if none is so close.
 *
 * @example
 * ```ts
 * import { nearest } from "@distmath/distmath/internals";
 * console.assert(nearest("layuot", ["layout", "dtype"]) === "layout");
 * console.assert(nearest("silu", ["relu", "gelu"]) === null);
 * ```
 */
export function nearest(word: string, candidates: readonly string[]): string | null {
  const plain = (text: string) => text.toLowerCase().replaceAll(/[-_]/g, "");
  let best: string | null = null;
  let fewest = Infinity;
  for (const candidate of candidates) {
    const [a, b] = [plain(word), plain(candidate)];
    const [shorter, longer] = a.length < b.length ? [a, b] : [b, a];
    const isBeginning = shorter.length >= 2 && longer.startsWith(shorter);
    const edits = isBeginning ? (longer.length - shorter.length) / longer.length : editDistance(a, b);
    if (edits < fewest && edits <= Math.max(1, Math.floor(longer.length / 3)) && edits < longer.length) {
      [best, fewest] = [candidate, edits];
    }
  }
  return best;
}

/** How many letters have to be put in, left out, replaced, or swapped with the next one, to make one word the other. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const current = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = previous[j - 1] + Number(a[i - 1] !== b[j - 1]);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swap = isSwap ? before[j - 2] + 1 : Infinity;
      current.push(Math.min(substitution, swap, previous[j] + 1, current[j - 1] + 1));
    }
    [before, previous] = [previous, current];
  }
  return previous[b.length];
}
