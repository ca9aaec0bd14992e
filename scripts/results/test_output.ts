/**
 * Loaded before a test file on each rank: lets what tests print through to standard error, since `deno test` keeps it
 * back for a reporter that does not show it; and tells which tests there are, and which one begins, since that reporter
 * tells only of those that ended.
 *
 * @module
 */
import { format } from "node:util";
import { type News, newsMarker, splitReason } from "./tap.ts";

const output = Deno.openSync("/dev/stderr", { append: true });

function print(...values: unknown[]): void {
  output.writeSync(new TextEncoder().encode(`${format(...values)}\n`));
}

for (const name of ["debug", "error", "info", "log", "warn"] as const) console[name] = print;

function tell(news: News): void {
  output.writeSync(new TextEncoder().encode(`${newsMarker}${JSON.stringify(news)}\n`));
}

/** The test that began last. */
let current: string | null = null;

/** An error that nobody catches ends the file without a word in that reporter, unless a listener prevents that. */
function tellUncaught(event: Event, ...words: unknown[]): void {
  print(...words);
  const uncaughtIn = current;
  tell({ uncaughtIn, isFatal: true });
  queueMicrotask(() => event.defaultPrevented && tell({ uncaughtIn, isFatal: false }));
}

addEventListener("error", (event) => tellUncaught(event, "error: Uncaught", event.error));
addEventListener("unhandledrejection", (event) => tellUncaught(event, "error: Uncaught (in promise)", event.reason));

// MPI tells that the job is aborted, and not by what.
const { exit } = Deno;
Object.assign(Deno, {
  exit(code: number = Deno.exitCode): never {
    print(`Deno.exit(${code}) or process.exit(${code}) was called, which ends this rank:`);
    print(new Error().stack?.replace(/^.*\n/, ""));
    return exit(code);
  },
});

// `clusterTest` would print it.
addEventListener("distmath-failure", (event) => {
  event.preventDefault();
  if (current !== null) tell({ failed: current, error: (event as CustomEvent<string>).detail });
});

// Longer than the others, perhaps.
addEventListener("distmath-limit", (event) => {
  if (current !== null) tell({ limited: current, seconds: (event as CustomEvent<number>).detail });
});

// `clusterTest` has nothing left to do on this rank.
addEventListener("distmath-waits", () => current !== null && tell({ waits: current }));

/** The arguments of `Deno.test` in any of its forms as one definition. */
function definitionOf([first, second, third]: readonly unknown[]): Deno.TestDefinition {
  if (typeof first === "function") return { name: first.name, fn: first as Deno.TestDefinition["fn"] };
  if (typeof first !== "string") return { ...first as Deno.TestDefinition, ...second ? { fn: second as never } : {} };
  return typeof second === "function"
    ? { name: first, fn: second as Deno.TestDefinition["fn"] }
    : { ...second as Deno.TestDefinition, name: first, fn: third as Deno.TestDefinition["fn"] };
}

const escapes: Record<string, string> = { "\b": "b", "\f": "f", "\t": "t", "\n": "n", "\r": "r", "\v": "v" };

/** A character of a name that has no place in a line, as Deno writes it. */
function escaped(character: string): string {
  return `\\${escapes[character] ?? `x${character.charCodeAt(0).toString(16).padStart(2, "0")}`}`;
}

/** A test's name as the reporter writes it. */
function writtenName(name: string): string {
  // deno-lint-ignore no-control-regex -- those are what is replaced
  return name.toWellFormed().replace(/[\x00-\x1f\x7f-\x9f]/g, escaped);
}

type Register = (...values: unknown[]) => void;
type Body = (...values: never[]) => unknown;
type Each = (cases: unknown) => Register;

/** What was thrown, in words; some of it has none. */
function textOfError(error: unknown): string {
  try {
    return String(error);
  } catch {
    return "something was thrown that has no text";
  }
}

/** A test's body that tells when it begins and ends. */
function toldBody(name: string, body: Body): (...values: never[]) => Promise<void> {
  let hasBegun = false;
  return async (...values) => {
    current = name;
    // Deno may run it again.
    tell({ started: name, isAgain: hasBegun });
    hasBegun = true;
    try {
      await body(...values);
      tell({ ended: name, error: null });
    } catch (error) {
      tell({ ended: name, error: textOfError(error) });
      throw error;
    }
  };
}

function telling(register: Register, marks: Partial<Deno.TestDefinition> = {}): Register {
  return (...values) => {
    const definition = definitionOf(values);
    // What is no test is refused in Deno's own words.
    if (typeof definition.fn !== "function") return register(...values);
    const { ignore = false, only = false } = { ...definition, ...marks };
    const given = definition.name ?? definition.fn.name;
    // The same name wherever it is left out, also for filters.
    const { name: bare, reason } = ignore ? splitReason(given) : { name: given, reason: undefined };
    const name = writtenName(bare);
    // As it is written in the end, since not every Deno writes all of these characters so.
    register({ ...definition, name, fn: toldBody(name, definition.fn) });
    tell({ registered: { name, isIgnored: ignore, isOnly: only, ...reason !== undefined && { reason } } });
  };
}

/** A value in the name of a test of `each`, by the mark that it takes the place of. */
function textOf(mark: string, value: unknown): string {
  if (mark === "%s") return String(value);
  if (mark === "%f") return String(Number(value));
  if (mark === "%d" || mark === "%i") return String(Math.trunc(Number(value)));
  if (typeof value === "string") return value;
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}

/** The name of a test of `each`, as Deno makes it of the template. */
function caseName(template: string, row: unknown, index: number): string {
  const values = Array.isArray(row) ? [...row] : [row];
  return template.replace(/%[sdifjoO#%]|\$[\w$]+(?:\.[\w$]+)*/g, (mark) => {
    if (mark === "%%") return "%";
    if (mark === "%#") return String(index);
    if (!mark.startsWith("$")) return textOf(mark, values.shift());
    const names = mark.slice(1).split(".");
    return textOf("$", names.reduce((value, name) => (value as Record<string, unknown> | null)?.[name], row));
  });
}

/** `each` that registers each of its tests by itself: that of Deno tells nobody what they are called. */
function tellingEach(register: Register, each: Each): Each {
  return (cases) => (name, ...rest) => {
    const [options, body] = typeof rest[0] === "function" ? [{}, rest[0]] : rest as [object, Body];
    // What is no test is refused in Deno's own words.
    if (!Array.isArray(cases) || typeof name !== "string" || typeof body !== "function") {
      return each(cases)(name, ...rest);
    }
    for (const [index, row] of cases.entries()) {
      const values = Array.isArray(row) ? row : [row];
      register({
        ...options,
        name: caseName(name, row, index),
        fn: (context: Deno.TestContext) => body(...values as never[], context as never),
      });
    }
  };
}

/** A function that registers tests, with all that it has, telling of them. */
function tellingAll(register: Register, marks: Partial<Deno.TestDefinition> = {}): Register {
  const told = telling(register, marks);
  return Object.assign(told, register, "each" in register && { each: tellingEach(told, register.each as Each) });
}

/** What runs around tests: of its errors this reporter says little. */
function tellingOfErrors(name: string, register: Register): Register {
  return (...values) =>
    register(...values.map((value) =>
      typeof value !== "function" ? value : async (...given: unknown[]) => {
        try {
          await value(...given);
        } catch (error) {
          print(`error in ${name}:`, error);
          tell({ hook: name });
          throw error;
        }
      }
    ));
}

const { test } = Deno;
const hooks = (["beforeAll", "beforeEach", "afterEach", "afterAll"] as const).flatMap((name) =>
  name in test ? [[name, tellingOfErrors(name, test[name] as Register)]] : []
);
Object.defineProperty(Deno, "test", {
  value: Object.assign(tellingAll(test as Register), {
    only: tellingAll(test.only as Register, { only: true }),
    ignore: tellingAll(test.ignore as Register, { ignore: true }),
    ...("skip" in test && { skip: tellingAll(test.skip as Register, { ignore: true }) }),
    ...Object.fromEntries(hooks),
  }),
});
