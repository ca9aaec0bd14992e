/**
 * Every public collective call with every bad value in every argument, on one rank and on all: it succeeds on all ranks or
 * throws the same error on all, and leaves the ranks in step.
 *
 * A sample of the cases is tried; `DISTMATH_CASES=all` tries all of them, `DISTMATH_CASES=N` one in N, and
 * `DISTMATH_SEED` chooses another sample.
 */
import { assert, assertEquals } from "@std/assert";
import * as api from "../../mod.ts";
import { type Communicator, currentRuntime, DistributedArray, initialize, type Runtime, Slab } from "../../mod.ts";
import { watch } from "../../src/runtime/watchdog.ts";
import { clusterTest } from "../../src/testing/mod.ts";
import { ARRAY_STATES, BAD_VALUES } from "./bad_values.ts";
import { COLLECTIVE_CALLS, type CollectiveCall, type Site } from "./collective_calls.ts";

const CASES = Deno.env.get("DISTMATH_CASES");
/** The time for all cases of a call: one that hangs ends the job, which names it. */
const LIMIT_SECONDS = CASES === "all" ? 600 : 60;
const SEED = Number(Deno.env.get("DISTMATH_SEED") ?? 1);

/** A bad value in one place, on one rank or (`null`) on all. */
interface Case {
  readonly text: string;
  readonly value: string;
  readonly position: number;
  readonly key: string | null;
  readonly rank: number | null;
}

/** Cases that are right: a time limit that ends the test, and what takes for ever. */
const LEFT_OUT = /^initialize, timeoutSeconds: a fraction$|\.autotune, repetitions: 2\^53$/;

/** All cases of a call, in the same order on all ranks. */
function casesOf(name: string, { given, options, self }: CollectiveCall, site: Site): Case[] {
  const places: { position: number; key: string | null }[] = given(site).map((_, position) => ({
    position,
    key: null,
  }));
  for (const key of options?.[1] ?? []) places.push({ position: options![0], key });
  const cases: Case[] = [];
  for (const place of places) {
    const isSelf = self !== undefined && place.position === 0;
    const values = !isSelf
      ? Object.keys(BAD_VALUES)
      : self === "array"
      ? Object.keys(ARRAY_STATES)
      : ["a closed runtime"];
    for (const value of values) {
      const where = place.key ?? (isSelf ? "its object" : `argument ${place.position}`);
      const text = `${name}, ${where}: ${value}`;
      if (LEFT_OUT.test(text)) continue;
      const rank = cases.length % site.runtime.size;
      cases.push({ text: `${text}, on rank ${rank}`, value, ...place, rank });
      cases.push({ text: `${text}, on all ranks`, value, ...place, rank: null });
    }
  }
  return cases;
}

/** One in so many cases is tried: on many ranks there are more, and each takes longer. */
function everyOn(ranks: number): number {
  if (CASES === "all") return 1;
  return CASES === undefined ? ranks > 2 ? 32 : 16 : Number(CASES);
}

/** Whether a case is in the sample, the same on all ranks: a number that follows from the seed and the case. */
function isChosen({ text }: Case, ranks: number): boolean {
  let hash = SEED;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x5bd1e995) ^ (hash >>> 13);
  return (hash >>> 0) % everyOn(ranks) === 0;
}

/** The arguments of a case on this rank. */
function argumentsOf(call: CollectiveCall, bad: Case, site: Site, closed: Runtime): unknown[] {
  const given = call.given(site);
  if (bad.rank !== null && bad.rank !== site.runtime.rank) return given;
  const value = BAD_VALUES[bad.value]({ runtime: site.runtime, closed });
  given[bad.position] = bad.key === null ? value : { ...given[bad.position] as object, [bad.key]: value };
  return given;
}

/** What came of a call, as text. */
function outcomeOf(action: () => unknown): string {
  try {
    const result = action();
    if (result instanceof DistributedArray) result.free();
    return "success";
  } catch (error) {
    try {
      const { name, message } = error as Error;
      return `${name}: ${message}`;
    } catch {
      return "something that has no text";
    }
  }
}

/** The names of calls, without those of their classes. */
const NAMES = Object.keys(COLLECTIVE_CALLS).map(lastWord);

/** A class and its function, such as Matmul and matmul, have one name. */
function lastWord(name: string): string {
  return name.replace(/^.*[ .]/, "").toLowerCase();
}

/** The other call that an outcome is told of as; null if it is none. A collective inside of a check is told of by its name. */
function otherName(outcome: string, name: string): string | null {
  if (outcome.includes("was called inside")) return null;
  const pattern = /^\w+: (?:the options of )?(?:\w+\.)?(\w+)(?::| takes | may have no | must be an object)/;
  const found = lastWord(pattern.exec(outcome)?.[1] ?? "");
  return NAMES.includes(found) && found !== lastWord(name) ? found : null;
}

/** Try the cases of a call; returns how many. */
function tryAll(name: string, call: CollectiveCall, site: Site, closed: Runtime, outcomes: Communicator): number {
  const cases = casesOf(name, call, site).filter((bad) => isChosen(bad, site.runtime.size));
  for (const bad of cases) {
    const given = argumentsOf(call, bad, site, closed);
    const outcome = watch(bad.text, () => outcomeOf(() => call.call(given, site)));
    const everyone = watch(`after ${bad.text}`, () => outcomes.allGatherObject(outcome));
    assert(everyone.every((other) => other === everyone[0]), `${bad.text}: ${everyone.join(" | ")}`);
    assertEquals(otherName(outcome, name), null, `${bad.text}: ${outcome}`);
    const isRaw = /^(something|InternalError|ReferenceError)/.test(outcome);
    assert(site.runtime.size > 1 && !isRaw || site.runtime.size === 1, `${bad.text}: ${outcome}`);
  }
  return cases.length;
}

/** Whether the ranks can still work together. */
function checkWorks(runtime: Runtime): void {
  using a = DistributedArray.generate(runtime, [4, 4], Slab.X, (i, j) => i + j);
  using d = api.matmul(a, a);
  assertEquals([a.sum(), d.sum()], [48, 656]);
}

/** The folder of this job, with a file to read, and this rank in it: some bad values are paths. */
function folderOf(runtime: Runtime): string {
  const folder = runtime.communicator.broadcastObject(runtime.rank === 0 ? Deno.makeTempDirSync() : "");
  Deno.chdir(folder);
  using a = DistributedArray.full(runtime, [4, 4], Slab.X, 1);
  api.saveNpy(a, `${folder}/a.npy`);
  api.saveNpz({ a }, `${folder}/a.npz`);
  return folder;
}

let outcomes: Communicator | undefined;
let folder: string | undefined;
let closed: Runtime | undefined;

for (const [name, call] of Object.entries(COLLECTIVE_CALLS)) {
  clusterTest(`${name} succeeds or fails alike on all ranks`, {
    timeoutSeconds: LIMIT_SECONDS,
  }, (runtime) => {
    outcomes ??= runtime.communicator.duplicate();
    folder ??= folderOf(runtime);
    if (closed === undefined || name === "initialize") runtime[Symbol.dispose]();
    closed ??= runtime;
    // The call of initialize() makes its own.
    const own = runtime.isClosed && name !== "initialize" ? initialize({ device: "cpu" }) : runtime;
    using site = { runtime: own, folder, [Symbol.dispose]: () => own === runtime || own[Symbol.dispose]() };
    const count = tryAll(name, call, site, closed, outcomes);
    if (Deno.env.has("DISTMATH_CASES") && runtime.rank === 0) console.log(`${count} cases, seed ${SEED}`);
    if (own.isClosed) return;
    assertEquals(currentRuntime(), own);
    checkWorks(own);
  });
}

for (const [name, call] of Object.entries(COLLECTIVE_CALLS)) {
  if (call.options === undefined) continue;
  const [position, keys] = call.options;
  clusterTest(`${name} reads each of its options once`, (runtime) => {
    const site = { runtime, folder: folder ??= folderOf(runtime) };
    if (name === "initialize") runtime[Symbol.dispose]();
    const given = call.given(site);
    const reads = new Map<string, number>();
    const values = given[position] as Record<string, unknown>;
    const getters = keys.map((key) => {
      const get = () => {
        reads.set(key, (reads.get(key) ?? 0) + 1);
        return values[key];
      };
      return [key, { get, enumerable: true }];
    });
    // Own properties, so that copying the options counts as reading them.
    given[position] = Object.defineProperties({}, Object.fromEntries(getters));
    outcomeOf(() => call.call(given, site));
    assertEquals(keys.map((key) => [key, reads.get(key)]), keys.map((key) => [key, 1]));
  });
}
