/**
 * The native functions that wait for other ranks: one place to put a time limit around all of them.
 *
 * @module
 */

/** Makes a call, and whatever has to be done before and after it. */
export type Around = <T>(name: string, call: () => T) => T;

type Table = Record<string, (...values: unknown[]) => unknown>;

const waiting: { table: Table; names: Readonly<Record<string, string>> }[] = [];
let around: Around | undefined;

/** Tell of functions that wait for other ranks: the table that they are called from, and their C names by its keys. */
export function noteWaiting(table: object, names: Readonly<Record<string, string>>): void {
  waiting.push({ table: table as Table, names });
  if (around) surround(table as Table, names, around);
}

/** Have every function that waits called by `by`, those of libraries that are opened later included. Once a process. */
export function callWaiting(by: Around): void {
  around = by;
  for (const { table, names } of waiting) surround(table, names, by);
}

function surround(table: Table, names: Readonly<Record<string, string>>, by: Around): void {
  for (const [key, name] of Object.entries(names)) {
    const call = table[key];
    table[key] = (...values) => by(name, () => call(...values));
  }
}
