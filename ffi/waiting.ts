/**
 * The native functions that wait for other ranks: one place to put something around all of them, such as a time limit.
 *
 * @module
 */

type NativeFunction = (...values: unknown[]) => unknown;

/** Makes a function that does something before and after a native one, which has this name in C. */
export type Around = (name: string, call: NativeFunction) => NativeFunction;

/** The operation on arrays that the native functions are called for, as users know it; `null` outside of any. */
export let operation: string | null = null;

/** The operation that was begun last, over or not: work of a GPU goes on when the call that queued it has returned. */
export let begun: string | null = null;

/** Note that an operation begins. */
export function noteBegun(name: string): void {
  begun = name;
}

/** Run something that waits for other ranks as a part of an operation. */
export function within<T>(name: string, call: () => T): T {
  const outer = operation;
  operation = name;
  try {
    return call();
  } finally {
    operation = outer;
  }
}

type Table = Record<string, NativeFunction | null>;
type Names = Readonly<Record<string, string>>;

/** Functions that something is put around, those of libraries that are opened later included. */
class Surrounded {
  readonly #tables: { table: Table; names: Names }[] = [];
  readonly #arounds: Around[] = [];

  note(table: object, functions: Names | readonly string[]): void {
    const names = Array.isArray(functions)
      ? Object.fromEntries(functions.map((name) => [name, name]))
      : functions as Names;
    this.#tables.push({ table: table as Table, names });
    for (const around of this.#arounds) surround(table as Table, names, around);
  }

  surround(around: Around): void {
    this.#arounds.push(around);
    for (const { table, names } of this.#tables) surround(table, names, around);
  }
}

const [waiting, starting] = [new Surrounded(), new Surrounded()];

/**
 * Tell of functions that wait for other ranks: the table that they are called from, and their C names, by its keys where
 * these are others. What the library lacks is `null` there, and stays so.
 */
export function noteWaiting(table: object, functions: Names | readonly string[]): void {
  waiting.note(table, functions);
}

/** As {@linkcode noteWaiting}, of functions that begin what other ranks take part in, and do not wait for it. */
export function noteStarting(table: object, functions: Names | readonly string[]): void {
  starting.note(table, functions);
}

/** Put something around every function that waits, those of libraries that are opened later included. */
export function surroundWaiting(around: Around): void {
  waiting.surround(around);
}

/** As {@linkcode surroundWaiting}, for functions that begin something. */
export function surroundStarting(around: Around): void {
  starting.surround(around);
}

function surround(table: Table, names: Names, around: Around): void {
  for (const [key, name] of Object.entries(names)) {
    const call = table[key];
    if (call !== null) table[key] = around(name, call);
  }
}
