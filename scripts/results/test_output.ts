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
type Body = (...values: never[]) => unknown;

/** A test's body that tells when it begins and ends, under a name that it finds among what it is given. */
function toldBody(body: Body, nameOf: (values: readonly unknown[]) => string): (...values: unknown[]) => Promise<void> {
  const begun = new Set<string>();
  return async (...values) => {
    const name = current = nameOf(values);
    // Deno may run it again.
    tell({ started: name, isAgain: begun.has(name) });
    begun.add(name);
    try {
      await body(...values as never[]);
      tell({ ended: name, error: null });
    } catch (error) {
      tell({ ended: name, error: String(error) });
      throw error;
    }
  };
}

/** The name of the test whose context is among these values. */
function nameIn(values: readonly unknown[]): string {
  const isContext = (value: unknown): value is Deno.TestContext =>
    typeof value === "object" && value !== null && "step" in value && "origin" in value;
  return writtenName(values.findLast(isContext)?.name ?? "a test without a name");
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
    register({
      ...definition,
      name: bare,
      fn: toldBody(definition.fn, () => name),
    });
    tell({ registered: { name, isIgnored: ignore, isOnly: only, ...reason !== undefined && { reason } } });
  };
}

/** `each` names its tests by itself: they are told of when they begin. */
function tellingOfEach(each: (cases: unknown) => Register): (cases: unknown) => Register {
  const told = (value: unknown) => typeof value === "function" ? toldBody(value as Body, nameIn) : value;
  const inside = (value: unknown) =>
    typeof value === "object" && value !== null && "fn" in value ? { ...value, fn: told(value.fn) } : told(value);
  return (cases) => {
    const register = each(cases);
    return (...values) => register(...values.map(inside));
  };
}

/** A function that registers tests, with all that it has, telling of them. */
function tellingAll(register: Register, marks: Partial<Deno.TestDefinition> = {}): Register {
  const each = "each" in register && { each: tellingOfEach(register.each as Parameters<typeof tellingOfEach>[0]) };
  return Object.assign(telling(register, marks), register, each);
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
