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

/** A test's name as the reporter writes it. */
function writtenName(name: string): string {
  return name.replace(/[\b\f\t\n\r\v]/g, (character) => `\\${escapes[character]}`);
}

type Register = (...values: unknown[]) => void;

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
    register({
      ...definition,
      name: bare,
      fn: async (context: Deno.TestContext) => {
        current = name;
        tell({ started: name });
        try {
          await definition.fn(context);
          tell({ ended: name, error: null });
        } catch (error) {
          tell({ ended: name, error: String(error) });
          throw error;
        }
      },
    });
    tell({ registered: { name, isIgnored: ignore, isOnly: only, ...reason !== undefined && { reason } } });
  };
}

const { test } = Deno;
Object.defineProperty(Deno, "test", {
  value: Object.assign(telling(test as Register), test, {
    only: telling(test.only as Register, { only: true }),
    ignore: telling(test.ignore as Register, { ignore: true }),
    ...("skip" in test && { skip: telling(test.skip as Register, { ignore: true }) }),
  }),
});
