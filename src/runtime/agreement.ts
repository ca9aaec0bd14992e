/**
 * Agreement: a collective call fails on every rank, or on none.
 *
 * Before a native call that would hang or abort, each rank checks its own arguments and states the facts that have to be
 * the same everywhere. One small reduction tells whether all is well; only if it is not, the ranks exchange what they
 * found, and each builds the same error from it.
 *
 * @module
 */
import {
  CollectiveError,
  ConfigurationError,
  DistmathError,
  DistributionError,
  DTypeError,
  ShapeError,
  StateError,
} from "../errors.ts";
import type { Communicator } from "./communicator.ts";
import { isMpiFinalized } from "./mpi.ts";

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
  const found = CLASSES.find((candidate) => error instanceof candidate);
  return { className: (found ?? Error).name, message: error instanceof Error ? error.message : String(error) };
}

/** A value as text, in TypeScript's own notation, for comparing and showing. */
function show(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value !== "object" || value === null) return String(value);
  if (Array.isArray(value)) return `[${value.map(show).join(", ")}]`;
  const entries = Object.entries(value).map(([key, part]) => `${key}: ${show(part)}`);
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

/** An error that names the ranks which it concerns; one that names some already stays as it is. */
function withRanks<E>(error: E, ranks: readonly number[]): E {
  const isNamed = error instanceof DistmathError && error.ranks.length > 0;
  if (error instanceof Error && !isNamed) Object.defineProperty(error, "ranks", { value: ranks, configurable: true });
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

/**
 * Run `check` on this rank, and make sure that it succeeded on every rank with the same facts. Collective, unless
 * `subject.checks` is `"local"`: then it only runs `check`.
 *
 * @throws the error that `check` threw on any rank, on every rank, with the ranks in its `ranks`.
 * @throws {CollectiveError} on every rank if the operation or the facts differ, naming who differs.
 * @throws {StateError} if the subject was closed, or MPI has ended.
 *
 * @example
 * ```ts
 * import { agree, Communicator } from "@distmath/distmath";
 * const subject = { communicator: Communicator.world(), checks: "collective" } as const;
 * agree(subject, "scale", () => ({ factor: 2 }));
 * ```
 */
export function agree(subject: Agreeing, operation: string, check: () => Facts | void): void {
  if (isMpiFinalized()) {
    throw new StateError(
      `${operation}: MPI was finalized in this process and cannot start again; start a new process.`,
    );
  }
  const { communicator } = subject;
  if (subject.checks === "local") return void checkHere(subject, operation, check);
  let facts: Facts | void = undefined;
  let error: unknown;
  let hasFailed = false;
  try {
    facts = checkHere(subject, operation, check);
  } catch (thrown) {
    error = thrown;
    hasFailed = true;
  }
  if (communicator.size === 1) {
    if (hasFailed) throw withRanks(error, [0]);
    return;
  }
  if (areAlike(communicator, operation + (facts ? show(facts) : ""), hasFailed)) return;
  const report: Report = { operation };
  if (facts) report.facts = Object.fromEntries(Object.entries(facts).map(([key, value]) => [key, show(value)]));
  if (hasFailed) report.failure = describeFailure(error);
  const verdict = judge(communicator.allGatherObject(report), hasFailed ? error : undefined);
  if (verdict) throw verdict;
}

function checkHere(subject: Agreeing, operation: string, check: () => Facts | void): Facts | void {
  if (subject.isClosed) throw new StateError(`${operation}: the runtime was closed; call initialize() again.`);
  return check();
}

const digest = new Float64Array(3);

/** Whether no rank failed and all have the same text: the minimum of h and of -h is then h and -h. */
function areAlike(communicator: Communicator, text: string, hasFailed: boolean): boolean {
  const own = hash(text);
  digest[0] = own;
  digest[1] = -own;
  digest[2] = hasFailed ? -1 : 0;
  communicator.allReduce(digest, { op: "min", into: digest });
  return digest[0] === -digest[1] && digest[2] === 0;
}

/**
 * Give every rank what `produce` returns on each, in the order of the ranks. Collective, also with local checks.
 *
 * @throws as {@linkcode agree} does, on every rank, if `produce` throws on any or the operations differ.
 *
 * @example
 * ```ts
 * import { Communicator, exchange } from "@distmath/distmath";
 * const subject = { communicator: Communicator.world(), checks: "collective" } as const;
 * const hosts = exchange(subject, "hosts", () => Deno.build.arch);
 * console.assert(hosts.length === subject.communicator.size);
 * ```
 */
export function exchange<T>(subject: Agreeing, operation: string, produce: () => T): T[] {
  let value!: T;
  const { communicator, isClosed = false } = subject;
  agree({ communicator, checks: "collective", isClosed }, operation, () => {
    value = produce();
  });
  return communicator.allGatherObject(value);
}
