/**
 * Tests that run on several ranks: `mpirun -n 4 deno test -A my_test.ts`, one launch a file.
 *
 * @example
 * ```ts no-eval
 * import { clusterTest } from "@distmath/distmath/testing";
 *
 * clusterTest("allReduce() sums over the ranks", (runtime) => {
 *   const [sum] = runtime.communicator.allReduce(new Float64Array([1]));
 *   if (sum !== runtime.size) throw new Error(`the sum is ${sum}`);
 * });
 * ```
 *
 * @module
 */
import { environment } from "../../ffi/library.ts";
import { isWithoutMpi, launcher } from "../../ffi/mpi/mod.ts";
import { endJobAtOnce } from "../../ffi/mpi/last_words.ts";
import { lookAtWaits } from "../../ffi/script_line.ts";
import { CollectiveError, StateError } from "../errors.ts";
import { roomOnGpus } from "../gpu/sharing.ts";
import { describe, keysOf, readOptions } from "../options.ts";
import type { Communicator } from "../mpi/communicator.ts";
import { initialize, type InitializeOptions } from "../runtime/initialize.ts";
import { Runtime } from "../runtime/runtime.ts";
import { placeOfThisRank, startWatchdog, watch, watchWork } from "../runtime/watchdog.ts";

export {
  assertAllCloseDistributed,
  assertRejectsOnAllRanks,
  assertSameOnAllRanks,
  assertThrowsOnAllRanks,
  assertThrowsOnAllRanks as assertThrowsEverywhere,
  type CloseOptions,
  type ErrorClass,
} from "./assertions.ts";

/** Options of {@linkcode clusterTest}. */
export interface ClusterTestOptions {
  /** The numbers of ranks that the test is for; it is skipped on others. All when left out. */
  ranks?: readonly number[];
  /** The number of GPUs that a machine must have for the test; it is skipped on others. */
  gpus?: number;
  /** Skip the test; a text says why. */
  ignore?: boolean | string;
  /** The time that the test may take, and that a rank may wait for others; 60 when left out, `Infinity` for no limit. */
  timeoutSeconds?: number;
}

/** A test's body, which every rank runs; it gets the context that `Deno.test` gives, too. */
export type ClusterTestBody = (runtime: Runtime, context: Deno.TestContext) => void | Promise<void>;

/** In so many waits of each test the line is looked for at once. */
const FIRST_WAITS = 8;

/** Slow machines may have another. */
const DEFAULT_TIMEOUT_SECONDS = Number(environment("DISTMATH_TEST_SECONDS")) || 60;

/** Timers take 31 bits of milliseconds, some 24 days, and would end at once by more. */
const LONGEST_SECONDS = (2 ** 31 - 1) / 1000;

/** How long a rank on which a test failed waits for ranks that may hang because of that. */
const GRACE_SECONDS = 10;

let runtime: Runtime | undefined;
let outcomes: Communicator | undefined;

/**
 * The runtime of this test process, initialized at the first call. Collective then.
 *
 * @example
 * ```ts
 * import { testRuntime } from "@distmath/distmath/testing";
 * console.assert(testRuntime() === testRuntime());
 * ```
 */
export function testRuntime(options: InitializeOptions = {}): Runtime {
  if (runtime && !runtime.isClosed) return runtime;
  runtime = initialize({ timeoutSeconds: DEFAULT_TIMEOUT_SECONDS, ...options });
  outcomes ??= runtime.communicator.duplicate();
  return runtime;
}

/**
 * Register a test that every rank runs. After it the ranks agree on the outcome: it fails on all of them if it fails on
 * one, naming the rank and its error, so that the next test starts in step. If the others do not come within 10 seconds
 * after a failure, or a rank waits longer than the time limit, the job ends with a non-zero code.
 *
 * Why a test is skipped stands in the reports of `cluster-test`; `deno test` shows it behind the name, as
 * `(skipped: no GPU)`.
 *
 * A test may not end MPI, nor its process: `finalize()`, `Deno.exit()` and `process.exit()` throw in it.
 *
 * @throws {TypeError} for options that are none, or without a function.
 * @throws {RangeError} for a time limit that is none.
 * @throws {CollectiveError} in the test, on the ranks where it went well, if it failed on another.
 *
 * @example
 * ```ts no-eval
 * import { clusterTest } from "@distmath/distmath/testing";
 * clusterTest("barrier() returns", { ranks: [2, 4] }, (runtime) => runtime.communicator.barrier());
 * ```
 */
export function clusterTest(name: string, body: ClusterTestBody): void;
/** As above, with options. */
export function clusterTest(name: string, options: ClusterTestOptions, body: ClusterTestBody): void;
export function clusterTest(
  name: string,
  ...rest: [ClusterTestBody] | [ClusterTestOptions, ClusterTestBody]
): void {
  const [given, body] = rest.length === 1 ? [{}, rest[0]] : rest;
  if (typeof body !== "function") {
    throw new TypeError(
      `clusterTest ${describe(name)}: the test must be a function, not ${describe(body)}. ` +
        "Call it as clusterTest(name, options, (runtime) => {…}), or without the options.",
    );
  }
  const options = checkedOptions(name, given);
  const { timeoutSeconds = DEFAULT_TIMEOUT_SECONDS } = options;
  if (typeof timeoutSeconds !== "number" || !(timeoutSeconds > 0)) {
    throw new RangeError(
      `clusterTest "${name}": timeoutSeconds must be a number above 0, not ${describe(timeoutSeconds)}.`,
    );
  }
  const reason = typeof options.ignore === "string" && options.ignore || whyNotHere(options);
  Deno.test({
    // As scripts/results/tap.ts reads it.
    name: reason === null ? name : `${name} (skipped: ${reason})`,
    ignore: options.ignore === true || reason !== null,
    fn: (context) =>
      runOnAllRanks(name, Math.min(timeoutSeconds, LONGEST_SECONDS), (runtime) => body(runtime, context)),
  });
}

const OPTION_KEYS = keysOf<ClusterTestOptions>({ ranks: true, gpus: true, ignore: true, timeoutSeconds: true });

function checkedOptions(name: string, given: ClusterTestOptions): ClusterTestOptions {
  const method = `clusterTest "${name}"`;
  const options = readOptions(`${method}: options`, given, OPTION_KEYS);
  const { ranks, gpus, ignore } = options;
  const isCount = (value: unknown, least: number) => Number.isInteger(value) && Number(value) >= least;
  const refuse = (what: string, value: unknown): never => {
    throw new TypeError(`${method}: ${what}, not ${describe(value)}.`);
  };
  const areRanks = Array.isArray(ranks) && ranks.every((count) => isCount(count, 1));
  if (ranks !== undefined && !areRanks) refuse("ranks must be a list of numbers of ranks, such as [2, 4]", ranks);
  if (gpus !== undefined && !isCount(gpus, 0)) refuse("gpus must be a whole number from 0 on", gpus);
  if (ignore !== undefined && typeof ignore !== "boolean" && typeof ignore !== "string") {
    refuse("ignore must be true, false or a text that says why", ignore);
  }
  return options;
}

/** What a test is for that this job does not have; `null` if it has all. */
function whyNotHere({ ranks, gpus = 0 }: ClusterTestOptions): string | null {
  if (ranks !== undefined && !ranks.includes(launcher()?.size ?? 1)) {
    return `for ${ranks.join(", ")} ${String(ranks) === "1" ? "rank" : "ranks"}`;
  }
  if (gpus > 0 && gpus > countGpus()) return `for ${gpus} ${gpus === 1 ? "GPU" : "GPUs"}`;
  return null;
}

function countGpus(): number {
  return environment("DISTMATH_DEVICE") === "cpu" ? 0 : roomOnGpus();
}

/** Run the body, then agree on the outcome. */
async function runOnAllRanks(
  name: string,
  timeoutSeconds: number,
  body: (runtime: Runtime) => void | Promise<void>,
): Promise<void> {
  // The names of the events stay: commands of other versions listen to them.
  dispatchEvent(new CustomEvent("distmath-limit", { detail: timeoutSeconds }));
  const current = testRuntime();
  startWatchdog(current.rank, timeoutSeconds);
  lookAtWaits(FIRST_WAITS);
  let failure: { error: unknown } | null = null;
  try {
    using _work = watchWork(`"${name}"`);
    using _ends = refuseEnds(current.rank);
    await withinTime(timeoutSeconds, watch(name, () => body(current)));
  } catch (error) {
    failure = { error };
  }
  if (current.size > 1) {
    if (failure) report(current.rank, name, failure.error);
    else dispatchEvent(new Event("distmath-waits")); // for the others, and is not to blame
  }
  const message = failure ? messageOf(failure.error) : null;
  const seconds = failure ? GRACE_SECONDS : timeoutSeconds;
  if (isWithoutMpi()) startWatchdog(current.rank, seconds);
  else await meet(seconds, name, current);
  const messages = isWithoutMpi() ? gatherInStep(message) : outcomes!.allGatherObject(message);
  if (failure) throw failure.error;
  const failed = messages.flatMap((message, rank) => message === null ? [] : [rank]);
  if (failed.length === 0) return;
  const list = failed.map((rank) => `rank ${rank}: ${messages[rank]}`).join("\n");
  throw new CollectiveError(`The test failed on other ranks:\n${list}`, { ranks: failed });
}

/** What would end MPI, or this rank, is an error while a test runs: MPI cannot start again for the next one. */
function refuseEnds(rank: number): Disposable {
  const { exit, exitCode } = Deno;
  const { finalize } = Runtime.prototype;
  Object.assign(Deno, {
    exit(code: number = Deno.exitCode): never {
      // That of Node has set it, for which Deno would blame the next test.
      Deno.exitCode = exitCode;
      throw new StateError(
        `rank ${rank} called Deno.exit(${code}) or process.exit(${code}) in the test, which would end the job. Return ` +
          "to end a test, throw an error to have it fail.",
      );
    },
  });
  Runtime.prototype.finalize = () => {
    throw new StateError(
      `rank ${rank} called finalize() in the test. Leave it out: the tests of a file share MPI, which cannot start again.`,
    );
  };
  return {
    [Symbol.dispose]() {
      Object.assign(Deno, { exit });
      Object.assign(Runtime.prototype, { finalize });
    },
  };
}

/** Without MPI ranks that are still in another call are told so at once, as this one is; then they come here. */
function gatherInStep(message: string | null): (string | null)[] {
  while (true) {
    try {
      return outcomes!.allGatherObject(message);
    } catch (error) {
      if (!(error instanceof CollectiveError)) throw error;
    }
  }
}

function messageOf(error: unknown): string {
  return withCauses(error, ({ name, message }) => `${name}: ${message}`);
}

/** Of so many errors, each of which caused the one before, is told; getters may give new ones without end. */
const MOST_CAUSES = 64;

/** An error, and the errors that caused it, each once: causes may be a cycle. It must not throw, since others wait. */
function withCauses(error: unknown, describe: (error: Error) => string): string {
  const told: string[] = [];
  try {
    const seen = new Set<unknown>();
    for (let at = error; !seen.has(at) && told.length < MOST_CAUSES;) {
      seen.add(at);
      told.push(at instanceof Error ? describe(at) : String(at));
      if (!(at instanceof Error) || at.cause === undefined) break;
      at = at.cause;
    }
  } catch {
    told.push("something was thrown that has no text");
  }
  return told.join("\nCaused by: ");
}

/** Tell of a failure at once, since the job may end before the test runner reports it; print it if nobody listens. */
function report(rank: number, name: string, error: unknown): void {
  const details = withCauses(error, ({ stack, name, message }) => stack ?? `${name}: ${message}`);
  const isUnheard = dispatchEvent(new CustomEvent("distmath-failure", { cancelable: true, detail: details }));
  if (isUnheard) console.error(`rank ${rank} failed "${name}": ${details}`);
}

/** The value of a promise, or an error when the time is over. */
async function withinTime(seconds: number, result: void | Promise<void>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const place = placeOfThisRank();
      reject(new Error(`The test took more than ${seconds} s${place === null ? "" : `; ${place}`}.`));
    }, seconds * 1000);
  });
  try {
    await Promise.race([result, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/** Wait for all ranks without blocking; end the job if one does not come. */
async function meet(seconds: number, name: string, current: Runtime): Promise<void> {
  try {
    await withinTime(seconds, Promise.resolve(outcomes!.ibarrier()));
  } catch {
    // Past the test runner, which would not get to print it. A rank that is gone makes the launcher end the job.
    const waited = `rank ${current.rank} has waited ${seconds} s for the other ranks to end "${name}"; the job ends.`;
    endJobAtOnce(1, "the time limit of a test", waited);
  }
}
