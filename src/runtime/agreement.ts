/**
 * Agreement: a collective call fails on every rank, or on none.
 *
 * Before a native call that would hang or abort, each rank checks its own arguments and states the facts that have to be
 * the same everywhere. One small reduction tells whether all is well; only if it is not, the ranks exchange what they
 * found, and each builds the same error from it.
 *
 * All that a user passes is read inside the check, once: options, getters, callbacks and texts of errors may throw there.
 * What runs inside a check may not wait for other ranks, so that an agreement inside an agreement is an error.
 *
 * Memory is a precondition, too: what an operation needs is allocated by the check, so that no rank begins to communicate
 * while another one has none.
 *
 * It is also the point that all ranks reach, at which they free what `using` has disposed of: the same reduction tells
 * whether any rank has something. With local checks, which exchange nothing, every sixteenth makes that reduction alone,
 * executions of plans apart: how many there have been is what all ranks know alike.
 *
 * @module
 */
import { noteOperation } from "../../ffi/mpi/waits.ts";
import { traceToScript } from "../../ffi/script_line.ts";
import { noteBegun, within } from "../../ffi/waiting.ts";
import {
  CollectiveError,
  ConfigurationError,
  DistmathError,
  DistributionError,
  DTypeError,
  ShapeError,
  StateError,
} from "../errors.ts";
import { describe } from "../options.ts";
import { Communicator } from "../mpi/communicator.ts";
import { freeQueued, hasNewlyQueued } from "../mpi/collective_free.ts";
import { isMpiFinalized } from "../mpi/init_finalize.ts";
import { decodeObject, encodeObject } from "../mpi/objects.ts";

/** What has to be the same on every rank, by name: JSON-like values, and bigints. */
export type Facts = Readonly<Record<string, unknown>>;

/** Whose ranks have to agree: a runtime, or anything like it. */
export interface Agreeing {
  /** The ranks. */
  readonly communicator: Communicator;
  /** `"local"` turns the exchange off: each rank checks for itself. */
  readonly checks: "collective" | "local";
  /** Whether it has ended and may not be used any more. */
  readonly isClosed?: boolean;
}

/** An error as it travels between ranks. */
interface Failure {
  className: string;
  message: string;
}

/** What a rank tells the others when something is wrong. */
interface Report {
  operation: string;
  facts?: Record<string, string>;
  failure?: Failure;
}

type ErrorClass = new (message: string, options?: ErrorOptions & { ranks?: readonly number[] }) => Error;

/** The classes that travel, from the special to the general; an error of another class travels as its nearest base. */
const CLASSES: readonly ErrorClass[] = [
  CollectiveError,
  ConfigurationError,
  DistributionError,
  DTypeError,
  ShapeError,
  StateError,
  DistmathError,
  RangeError,
  TypeError,
  Error,
];

function describeFailure(error: unknown): Failure {
  try {
    const found = CLASSES.find((candidate) => error instanceof candidate);
    return { className: (found ?? Error).name, message: String(error instanceof Error ? error.message : error) };
  } catch {
    return { className: "Error", message: "something was thrown that has no text" };
  }
}

/** What a user's function has thrown, if that is an error that can be told of; else one that says what it was. */
export function asError(thrown: unknown): Error {
  try {
    if (thrown instanceof Error && typeof thrown.message === "string") return thrown;
  } catch {
    // An error without text, or an object that cannot even be looked at.
  }
  return new Error(describeFailure(thrown).message, { cause: thrown });
}

/** Facts are plain data; what is nested deeper is a cycle. */
const DEEPEST = 64;

/** A value as text, in TypeScript's own notation, for comparing and showing. */
function show(value: unknown, depth = 0): string {
  if (depth > DEEPEST) throw new TypeError("A value that ranks should compare contains itself.");
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "bigint") return `${value}n`;
  if (Object.is(value, -0)) return "-0";
  if (typeof value !== "object" || value === null) return String(value);
  if (Array.isArray(value)) return `[${value.map((part) => show(part, depth + 1)).join(", ")}]`;
  const entries = Object.entries(value).map(([key, part]) => `${key}: ${show(part, depth + 1)}`);
  return entries.length === 0 ? "{}" : `{ ${entries.join(", ")} }`;
}

/** A 53-bit hash of a text: two multiplicative hashes side by side. */
function hash(text: string): number {
  let [high, low] = [0x9e3779b9, 0x85ebca6b];
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    high = Math.imul(high ^ unit, 0x9e3779b1);
    low = Math.imul(low ^ unit, 0x5f356495);
  }
  high ^= low >>> 15;
  low ^= high >>> 13;
  return (high >>> 0 & 0x1fffff) * 0x100000000 + (low >>> 0);
}

const names = (ranks: readonly number[]) => `${ranks.length === 1 ? "rank" : "ranks"} ${ranks.join(", ")}`;

/** The ranks by the value that they gave, in the order of their first rank. */
function groups(values: readonly string[]): Map<string, number[]> {
  const byValue = new Map<string, number[]>();
  values.forEach((value, rank) => byValue.set(value, [...byValue.get(value) ?? [], rank]));
  return byValue;
}

/** The ranks outside the largest group: those that differ. */
function dissenters(byValue: Map<string, number[]>): number[] {
  const largest = [...byValue.values()].reduce((best, ranks) => ranks.length > best.length ? ranks : best);
  return [...byValue.values()].filter((ranks) => ranks !== largest).flat().sort((a, b) => a - b);
}

function listGroups(byValue: Map<string, number[]>): string {
  return [...byValue].map(([value, ranks]) => `${value} on ${names(ranks)}`).join("; ");
}

function makeError(failure: Failure, ranks: readonly number[], size: number, cause: unknown): Error {
  const where = ranks.length === size ? "" : ` (on ${names(ranks)} of ${size})`;
  const options = { ranks, ...(cause === undefined ? {} : { cause }) };
  const errorClass = CLASSES.find(({ name }) => name === failure.className) ?? Error;
  return withRanks(new errorClass(failure.message + where, options), ranks);
}

/** An error that names the ranks which it concerns; one that names some already, or takes none, stays as it is. */
function withRanks<E>(error: E, ranks: readonly number[]): E {
  try {
    const isNamed = error instanceof DistmathError && error.ranks.length > 0;
    if (error instanceof Error && !isNamed) Object.defineProperty(error, "ranks", { value: ranks, configurable: true });
  } catch {
    // A frozen error, or an object that cannot even be looked at.
  }
  return error;
}

/** The error that the reports amount to, the same on every rank; `null` if there is none. */
function judge(reports: readonly Report[], ownError: unknown): Error | null {
  const operations = groups(reports.map(({ operation }) => operation));
  if (operations.size > 1) {
    const message = `The ranks are in different operations: ${listGroups(operations)}.`;
    return new CollectiveError(message, { ranks: dissenters(operations) });
  }
  const failures = groups(reports.map(({ failure }) => failure ? JSON.stringify(failure) : ""));
  for (const [text, ranks] of failures) {
    if (text !== "") return makeError(JSON.parse(text), ranks, reports.length, ownError);
  }
  const keys = new Set(reports.flatMap(({ facts }) => Object.keys(facts ?? {})));
  const differing = [...keys].map((key) =>
    [key, groups(reports.map(({ facts }) => facts?.[key] ?? "nothing"))] as const
  )
    .filter(([, byValue]) => byValue.size > 1);
  if (differing.length === 0) return null;
  const [{ operation }] = reports;
  const list = differing.map(([key, byValue]) => `${key} (${listGroups(byValue)})`).join(", ");
  const ranks = [...new Set(differing.flatMap(([, byValue]) => dissenters(byValue)))].sort((a, b) => a - b);
  return new CollectiveError(`${operation}: the ranks disagree on ${list}. It must be the same on every rank.`, {
    ranks,
  });
}

/** Who agrees, read once; and what is wrong with that. */
interface Subject {
  readonly communicator: Communicator;
  readonly checks: "collective" | "local";
  readonly refusal: Error | null;
}

/** What was given as a runtime; what is none counts as the current one, so that all its ranks learn of the mistake. */
function subjectOf(operation: string, given: Agreeing): Subject {
  try {
    // Reading the current runtime runs nothing of a user's.
    const { communicator, checks, isClosed = false } = given === current ? current : alone(operation, () => {
      const { communicator, checks, isClosed = false } = given;
      return { communicator, checks, isClosed };
    });
    if (communicator instanceof Communicator) {
      if (!isClosed) return { communicator, checks, refusal: null };
      return { ...toldOfClosed({ communicator, checks }), refusal: closed(operation) };
    }
  } catch {
    // Neither null nor a getter that throws is a runtime.
  }
  if (current === undefined) throw noCurrentRuntime();
  const { communicator, checks } = current;
  return { communicator, checks, refusal: noRuntime(operation, given) };
}

/** Who learns that a runtime was closed: the ranks of the current one if they are the same, since others may use that one. */
function toldOfClosed(given: Pick<Agreeing, "communicator" | "checks">): Pick<Agreeing, "communicator" | "checks"> {
  if (current === undefined || current.isClosed) return given;
  const [ranks, others] = [given, current].map(({ communicator }) => communicator.worldRanks);
  const areSame = ranks.length === others.length && ranks.every((rank) => others.includes(rank));
  return areSame ? { communicator: current.communicator, checks: current.checks } : given;
}

function closed(operation: string): StateError {
  const isThereAnother = current !== undefined && !current.isClosed;
  const instead = isThereAnother
    ? "there is another one since then, which currentRuntime() returns: make arrays and plans with that one."
    : "call initialize() again, and make arrays and plans with what it returns.";
  return new StateError(`${operation}: the runtime was closed; ${instead}`);
}

let current: Agreeing | undefined;

/** Name whose ranks learn of it when a call is given no runtime: those of the current one, closed or not. */
export function setCurrentSubject(subject: Agreeing): void {
  current = subject;
}

/** The error of a call that needs a runtime before there is one. */
export function noCurrentRuntime(): StateError {
  return new StateError("There is no runtime; call initialize() first.");
}

/** The error of a call that was given something else as a runtime. */
export function noRuntime(operation: string, given: unknown): TypeError {
  return new TypeError(`${operation}: the runtime must be what initialize() returned, not ${describe(given)}.`);
}

/** The operation whose check runs on this rank. */
let checking: string | null = null;

/**
 * Run what the user gave, or what reads it, on this rank alone: what waits for other ranks is an error inside.
 *
 * @throws what `body` throws.
 */
export function alone<T>(operation: string, body: () => T): T {
  const outer = checking;
  checking = operation;
  try {
    return body();
  } finally {
    checking = outer;
  }
}

/**
 * Run `check` on this rank, and make sure that it succeeded on every rank with the same facts. Collective, unless
 * `subject.checks` is `"local"`: then it only runs `check`. What is no subject counts as the current runtime.
 *
 * @throws the error that `check` threw on any rank, on every rank, with the ranks in its `ranks`.
 * @throws {CollectiveError} on every rank if the operation or the facts differ, naming who differs.
 * @throws {StateError} if the subject was closed, MPI has ended, or this is inside another `check`.
 * @throws {TypeError} on every rank if the subject is none.
 *
 * @example
 * ```ts
 * import { agree } from "@distmath/distmath/internals";
 * import { Communicator } from "@distmath/distmath";
 * const subject = { communicator: Communicator.world(), checks: "collective" } as const;
 * agree(subject, "scale", () => ({ factor: 2 }));
 * ```
 */
export function agree(subject: Agreeing, operation: string, check: () => Facts | void): void {
  agreeAs(subject, operation, check, null);
}

/** As {@linkcode agree}, for executions of plans, which are for hot loops: with local checks they exchange nothing at all. */
export function agreeOnExecution(subject: Agreeing, operation: string, check: () => Facts | void): void {
  agreeAs(subject, operation, check, null, "unless local");
}

/** What `make` returns on this rank once it has succeeded on all: for memory that an operation needs on its way. Collective. */
export function makeOnAll<T>(subject: Agreeing, operation: string, make: () => T): T {
  let made!: T;
  agree(subject, operation, () => void (made = make()));
  return made;
}

/** As {@linkcode agree}, whatever `checks` the subject has: for calls that exchange something anyway. */
export function agreeStrictly(subject: Agreeing, operation: string, check: () => Facts | void): void {
  agreeAs(subject, operation, check, "collective");
}

/**
 * The largest of what `produce` returns on each rank, numbers from 0, by one exchange. Collective, also with local checks.
 *
 * @throws on every rank what `produce` throws on any.
 */
export function agreeOnLargest(subject: Agreeing, operation: string, produce: () => number): number {
  let own = Infinity;
  let failure: unknown;
  try {
    own = alone(operation, produce);
  } catch (error) {
    failure = error;
  }
  const [largest] = within(
    operation,
    () => subject.communicator.allReduce(Float64Array.of(own), { op: "max" }),
  );
  if (largest === Infinity) {
    agreeStrictly(subject, operation, () => {
      if (own === Infinity) throw failure;
    });
  }
  return largest;
}

/**
 * What `body` returns on this rank, once it has succeeded on all: for what waits for other ranks, which no check may, and that
 * they come back from when one fails. Collective, also with local checks, and as a part of an operation.
 *
 * @throws on every rank what `body` throws on any.
 */
export function runOnAll<T>(subject: Agreeing, operation: string, body: () => T): T {
  let outcome: () => T;
  try {
    const value = body();
    outcome = () => value;
  } catch (error) {
    outcome = () => {
      throw error;
    };
  }
  agreeWithin(subject, operation, () => void outcome());
  return outcome();
}

/**
 * As {@linkcode agreeStrictly}, on a part of an operation that the ranks are in: nothing is freed, which may be what is going
 * on.
 */
export function agreeWithin(subject: Agreeing, operation: string, check: () => Facts | void): void {
  agreeAs(subject, operation, check, "collective", "never");
}

/** Whether what is queued is freed: with local checks now and then. */
type Freeing = "usually" | "unless local" | "never";

/** What the check that runs now has allocated. */
let held: Disposable[] | null = null;

/**
 * Have memory freed if the ranks do not agree in the end: for what a check allocates and the garbage collector does not
 * know the size of. Does nothing outside of checks.
 */
export function freeUnlessAgreed(memory: Disposable): void {
  held?.push(memory);
}

/** As `agree`, with other `checks` than the subject's if they are not null. Returns the ranks that have agreed. */
function agreeAs(
  given: Agreeing,
  operation: string,
  check: () => Facts | void,
  checks: Agreeing["checks"] | null,
  frees: Freeing = "usually",
): Communicator {
  const outer = held;
  const own: Disposable[] = held = [];
  let isAgreed = false;
  try {
    const communicator = within(operation, () => agreeHolding(given, operation, check, checks, frees));
    isAgreed = true;
    return communicator;
  } catch (error) {
    traceToScript(error, agreeAs);
    // From here, since Deno takes a cause with the same message and trace for the error itself.
    for (const cause of causesOf(error)) traceToScript(cause);
    throw error;
  } finally {
    held = outer;
    if (!isAgreed) { for (const memory of own) memory[Symbol.dispose](); }
  }
}

/** What caused an error, what caused that, and so on; causes may be a cycle. */
function causesOf(error: unknown): Error[] {
  const causes: Error[] = [];
  try {
    for (let at = error; at instanceof Error && at.cause instanceof Error && causes.length < DEEPEST;) {
      causes.push(at = at.cause);
    }
  } catch {
    // A getter of the user's.
  }
  return causes;
}

function agreeHolding(
  given: Agreeing,
  operation: string,
  check: () => Facts | void,
  checks: Agreeing["checks"] | null,
  frees: Freeing,
): Communicator {
  if (isMpiFinalized()) {
    throw new StateError(
      `${operation}: MPI was finalized in this process and cannot start again; start a new process.`,
    );
  }
  if (checking !== null) {
    throw new StateError(
      `${operation}: it needs all ranks, and was called inside ${checking}, by a callback or a getter, which each rank ` +
        `runs for itself. Call it before.`,
    );
  }
  const subject = subjectOf(operation, given);
  const { communicator } = subject;
  noteBegun(operation);
  if (communicator.isFreed) {
    throw new StateError(
      `${operation}: the communicator of this runtime was freed. Free it after what is made with it, or let go of both ` +
        `by using.`,
    );
  }
  noteOperation(communicator.handle);
  if ((checks ?? subject.checks) === "local") {
    if (frees === "usually" && isSweepDue(communicator)) sweep(communicator, operation);
    if (subject.refusal !== null) throw subject.refusal;
    alone(operation, check);
    return communicator;
  }
  compareChecks(subject, operation, check, frees !== "never");
  return communicator;
}

/** Make sure that a check succeeds on every rank, with the same facts. Collective. */
function compareChecks(
  { communicator, refusal }: Subject,
  operation: string,
  check: () => Facts | void,
  mayFree: boolean,
): void {
  const checkHere = () => {
    if (refusal !== null) throw refusal;
    return check();
  };
  let facts: Record<string, string> = {};
  let error: unknown;
  let hasFailed = false;
  try {
    const stated = alone(operation, checkHere) ?? {};
    facts = Object.fromEntries(Object.entries(stated).map(([key, value]) => [key, show(value)]));
  } catch (thrown) {
    error = thrown;
    hasFailed = true;
  }
  if (communicator.size === 1) {
    if (hasFailed) throw withRanks(error, [0]);
    if (mayFree && hasNewlyQueued(communicator)) freeHere(communicator, operation);
    return;
  }
  const text = operation + Object.entries(facts).flat().join();
  const { areAlike, hasQueued } = compare(communicator, text, hasFailed);
  if (areAlike) {
    if (mayFree && hasQueued) freeHere(communicator, operation);
    return;
  }
  const report: Report = hasFailed ? { operation, failure: describeFailure(error) } : { operation, facts };
  const verdict = judge(communicator.allGatherObject(report), hasFailed ? error : undefined);
  if (verdict) throw verdict;
}

/** With local checks what is queued is freed in one of so many, which therefore costs a fraction of an exchange. */
const LOCAL_CHECKS_PER_SWEEP = 16;

const localChecks = new WeakMap<Communicator, number>();

/** Count a local check, whether it will succeed or not: all ranks are at the same number. */
function isSweepDue(communicator: Communicator): boolean {
  if (communicator.size === 1) return hasNewlyQueued(communicator);
  const count = (localChecks.get(communicator) ?? 0) + 1;
  localChecks.set(communicator, count % LOCAL_CHECKS_PER_SWEEP);
  return count === LOCAL_CHECKS_PER_SWEEP;
}

/** Free what is queued if any rank has queued something. Collective; fails on every rank or on none. */
function sweep(communicator: Communicator, operation: string): void {
  agreeAs({ communicator, checks: "collective" }, operation, () => {}, "collective");
}

/** Free what was queued. Collective; what that throws on one rank, every rank throws. */
function freeHere(communicator: Communicator, operation: string): void {
  const { errors } = freeQueued(communicator);
  agreeAs({ communicator, checks: "collective" }, operation, () => {
    if (errors.length > 0) throw errors[0];
  }, "collective");
}

const digest = new Float64Array(4);

/**
 * Whether no rank failed and all have the same text: the minimum of h and of -h is then h and -h; and whether any has
 * queued something to be freed.
 */
function compare(
  communicator: Communicator,
  text: string,
  hasFailed: boolean,
): { areAlike: boolean; hasQueued: boolean } {
  const own = hash(text);
  digest[0] = own;
  digest[1] = -own;
  digest[2] = hasFailed ? -1 : 0;
  digest[3] = hasNewlyQueued(communicator) ? -1 : 0;
  communicator.allReduce(digest, { op: "min", into: digest });
  return { areAlike: digest[0] === -digest[1] && digest[2] === 0, hasQueued: digest[3] < 0 };
}

/**
 * Give every rank what `produce` returns on each, in the order of the ranks. Collective, also with local checks.
 *
 * @throws as {@linkcode agree} does, on every rank, if `produce` throws on any or the operations differ.
 *
 * @example
 * ```ts
 * import { exchange } from "@distmath/distmath/internals";
 * import { Communicator } from "@distmath/distmath";
 * const subject = { communicator: Communicator.world(), checks: "collective" } as const;
 * const hosts = exchange(subject, "hosts", () => Deno.build.arch);
 * console.assert(hosts.length === subject.communicator.size);
 * ```
 */
export function exchange<T>(subject: Agreeing, operation: string, produce: () => T): T[] {
  let bytes!: Uint8Array;
  const encode = () => void (bytes = encodeObject(operation, produce()));
  const communicator = agreeAs(subject, operation, encode, "collective");
  return communicator.allGatherObject(bytes).map((part) => decodeObject<T>(part));
}
