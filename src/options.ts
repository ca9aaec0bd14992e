/**
 * Checks of options: no key that nobody reads, no name that nobody knows; and how a message shows a wrong value.
 *
 * @module
 */

/**
 * Check that an options object has only known keys.
 *
 * @throws {TypeError} naming the nearest allowed key.
 */
export function checkKeys(what: string, options: unknown, allowed: readonly string[]): void {
  if (options === undefined) return;
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new TypeError(`${what} must be an object; got ${describe(options)}.`);
  }
  for (const key of Object.keys(options)) {
    if (!allowed.includes(key)) {
      throw new TypeError(
        `${what} has no key "${key}"; did you mean "${nearest(key, allowed)}"? Allowed: ${allowed.join(", ")}.`,
      );
    }
  }
}

/**
 * A plain copy of options, of which each is read once: nothing that they are or do later, as getters, matters then. What
 * is undefined is left out.
 *
 * @throws {TypeError} as {@linkcode checkKeys} does.
 */
export function readOptions<T extends object>(
  what: string,
  options: T | undefined,
  allowed: readonly (keyof T & string)[],
): T {
  checkKeys(what, options, allowed);
  const copy: Partial<T> = {};
  if (options === undefined) return copy as T;
  for (const key of allowed) {
    const value = options[key];
    if (value !== undefined) copy[key] = value;
  }
  return copy as T;
}

/** Whether a value may have private members: those tell what a constructor made from what only looks like it. */
export function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/**
 * Check that a value is one of the allowed names.
 *
 * @throws {TypeError} naming the nearest allowed name.
 */
export function checkName(what: string, value: unknown, allowed: readonly string[]): void {
  if (value === undefined || allowed.includes(value as string)) return;
  const hint = typeof value === "string" ? ` Did you mean "${nearest(value, allowed)}"?` : "";
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
  return name === "Object"
    ? `an object with the keys [${Object.keys(value).join(", ")}]`
    : `${/^[AEIOU]/.test(name) ? "an" : "a"} ${name}`;
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
 * The word that takes the fewest edits to become another, without regard to case and underscores; an abbreviation counts
 * as near.
 */
export function nearest(word: string, candidates: readonly string[]): string {
  const plain = (text: string) => text.toLowerCase().replaceAll("_", "");
  let best = candidates[0];
  let fewest = Infinity;
  for (const candidate of candidates) {
    const [a, b] = [plain(word), plain(candidate)];
    const isAbbreviation = b.length >= 2 && a.startsWith(b);
    const edits = Math.min(editDistance(a, b), isAbbreviation ? a.length / 3 : Infinity);
    if (edits < fewest) [best, fewest] = [candidate, edits];
  }
  return best;
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const current = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = previous[j - 1] + Number(a[i - 1] !== b[j - 1]);
      current.push(Math.min(substitution, previous[j] + 1, current[j - 1] + 1));
    }
    previous = current;
  }
  return previous[b.length];
}
