/**
 * Leaving a job that others still work in.
 *
 * A rank that ends well waits for the others: MPI_Finalize does so too, but there it could not look at them. One that
 * waits for this rank, which will not come any more, would do so for ever; then the job ends, and a line says who waits
 * where for whom. Ranks that work, or wait for each other, are left alone.
 *
 * @module
 */
import { environment } from "../../ffi/library.ts";
import type { Mpi } from "../../ffi/mpi/mod.ts";
import type { Presence } from "../../ffi/mpi/presence.ts";
import { PRESENT, type PresentRank } from "../../ffi/mpi/presence_page.ts";
import { functionOf, placeOf, waitsForThisRank } from "../../ffi/mpi/waits.ts";

/** A rank that waits as long in one call for one that has left waits in vain. Tests set the variable. */
export const patienceSeconds = () => Number(environment("DISTMATH_PATIENCE_SECONDS")) || 10;

const PAUSE_MILLISECONDS = 1;

/** The ranks of other machines. */
export interface Elsewhere {
  /** Tell them that this one leaves. */
  leave(): void;
  /** Those that have not told it yet, if this rank is told. */
  missing(): readonly number[];
  /** Wait until all has been told. */
  settle(): void;
  /** MPI has ended. */
  end(): void;
}

/** The calls of a rank when it was first seen in its present one. */
interface Sighting {
  calls: number;
  since: number;
}

const never = new Int32Array(new SharedArrayBuffer(4));
const nothing = { flag: new Int32Array(1), status: new Int32Array(16) };

/**
 * Wait until the other ranks on this machine leave as well, and those of other machines of which this one hears. MPI works
 * on in the meantime: what this rank has sent arrives.
 * Of a long wait `note` tells, once a machine: those others may have good reasons.
 *
 * @returns `null`, or the line that says who waits for this rank.
 */
export function waitForOthers(
  mpi: Mpi,
  rank: number,
  presence: Presence,
  note: (line: string) => void,
  elsewhere: readonly Elsewhere[],
): string | null {
  presence.setState(PRESENT.LEAVING);
  const sightings = new Map<number, Sighting>();
  const patience = patienceSeconds();
  const noteAt = performance.now() + patience * 1000;
  let isNoted = false;
  let [workers, since] = [0, 0];
  while (true) {
    const others = presence.others();
    const working = others.filter(({ state }) => state !== PRESENT.LEAVING);
    const missing = working.length > 0 ? [] : elsewhere.flatMap((ranks) => ranks.missing());
    if (working.length + missing.length === 0) return null;
    if (working.length !== workers) [workers, since] = [working.length, performance.now()];
    const stuck = working.filter((other) => isStuck(other, sightings, patience));
    // Whom a rank waits for that takes a message from anyone is not known: then all have to be stuck, and for as long
    // since the last of the others has left, who may have sent what they wait for.
    const seconds = mayExchange(working) ? LONG_MESSAGES * patience : patience;
    const areAllStuck = presence.isComplete && working.every((other) => isStuck(other, sightings, seconds)) &&
      working.every(isInMpi) && performance.now() - since >= patience * 1000;
    const victim = stuck.find((other) => waitsForThisRank(other)) ??
      (areAllStuck ? stuck.find((other) => waitsForThisRank(other) === null) : undefined);
    if (victim !== undefined && presence.claimTelling()) {
      const alsoWaiting = working.filter((other) => other !== victim && (areAllStuck || waitsForThisRank(other)));
      return describe(victim, alsoWaiting, rank, patience);
    }
    // Those that wait for this rank, or all for nobody knows whom, are spoken of when their patience is at its end.
    const mayAllBeStuck = presence.isComplete && working.every((other) => other.calls % 2 !== 0 && isInMpi(other)) &&
      working.some((other) => waitsForThisRank(other) === null);
    const isPeaceful = missing.length > 0 ||
      !mayAllBeStuck && !working.some((other) => waitsForThisRank(other) === true);
    if (!isNoted && performance.now() >= noteAt && isPeaceful) {
      isNoted = true;
      if (presence.claimNote()) note(describeWait(rank, working, missing, patience));
    }
    const { anySource, anyTag, world } = mpi.constants;
    mpi.symbols.MPI_Iprobe(anySource, anyTag, world, nothing.flag, nothing.status);
    Atomics.wait(never, 0, 0, PAUSE_MILLISECONDS);
  }
}

const SENDING: ReadonlySet<string> = new Set(["MPI_Send", "MPI_Sendrecv"]);
const RECEIVING: ReadonlySet<string> = new Set(["MPI_Recv", "MPI_Sendrecv"]);

/** Ranks between which a message may be under way are given so many times the patience. */
const LONG_MESSAGES = 10;

/** Whether a message may be under way: one of these ranks sends, and another one receives in the same communicator. */
function mayExchange(ranks: readonly PresentRank[]): boolean {
  const senders = ranks.filter((other) => SENDING.has(functionOf(other)));
  const receivers = ranks.filter((other) => RECEIVING.has(functionOf(other)));
  return senders.some((one) => receivers.some((other) => one !== other && one.scope === other.scope));
}

/** Whether a rank has been in one call for too long. */
function isStuck({ rank, calls }: PresentRank, sightings: Map<number, Sighting>, patience: number): boolean {
  const now = performance.now();
  const seen = sightings.get(rank);
  if (seen?.calls === calls) return calls % 2 !== 0 && now - seen.since >= patience * 1000;
  sightings.set(rank, { calls, since: now });
  return false;
}

/** Whether a rank waits in MPI, and does nothing else beside. */
function isInMpi(other: PresentRank): boolean {
  return functionOf(other).startsWith("MPI_") && !other.isBeside;
}

/** This rank speaks for those that wait: they are in native code, where none of their JavaScript runs. */
function describe(
  waiting: PresentRank,
  alsoWaiting: readonly PresentRank[],
  rank: number,
  patience: number,
): string {
  const others = alsoWaiting.map((other) => `, rank ${other.rank} in ${placeOf(other)}`).join("");
  return `distmath: rank ${waiting.rank} has waited for more than ${patience} s in ` +
    `${placeOf(waiting)}${others} for rank ${rank}, which has ended with exit code 0 or called finalize(). ` +
    "The job ends with exit code 1.";
}

/** For whom a rank waits that has ended; the others are not disturbed. */
function describeWait(
  rank: number,
  working: readonly PresentRank[],
  missing: readonly number[],
  patience: number,
): string {
  const places = working.map((other) =>
    `rank ${other.rank}, which is in ${other.calls % 2 !== 0 ? placeOf(other) : "no call that waits"}`
  );
  const whom = working.length > 0
    ? `the others of this machine to end: ${places.join("; ")}`
    : `those of other machines to end: ${missing.join(", ")}`;
  return `distmath: rank ${rank} has ended, and has waited for more than ${patience} s for ${whom}. The job goes on.`;
}

/**
 * Note that this rank ends well without having started MPI.
 *
 * @returns `null`, or the line that says who waits for it in MPI_Init.
 */
export function leaveBeforeStart(rank: number, presence: Presence): string | null {
  presence.setState(PRESENT.LEFT_BEFORE_START);
  const waiting = presence.others().find(({ state }) => state === PRESENT.STARTING);
  if (waiting === undefined || !presence.claimTelling()) return null;
  return `distmath: rank ${waiting.rank} waits in MPI_Init${waiting.line} for rank ${rank}, which has ended with exit code 0 before it ` +
    "started MPI. The job ends with exit code 1. Have every rank call initialize(), or none.";
}

/** What a rank that fails has to have ended in; if it has not, it goes on. */
const FAILURE_MILLISECONDS = 5000;

/**
 * Wait while a rank of this machine is about to end with an error, after which the launcher ends this one, too: in place of
 * waiting in MPI_Init, which connects to a launcher that may crash when it ends the job just then.
 */
export function waitWhileFailing(presence: Presence): void {
  const until = performance.now() + FAILURE_MILLISECONDS;
  const isAnyFailing = () => presence.others().some(({ state }) => state === PRESENT.FAILING);
  while (isAnyFailing() && performance.now() < until) Atomics.wait(never, 0, 0, PAUSE_MILLISECONDS);
}

/** The ranks that have ended well before this one starts MPI, which would wait for them for ever. */
export function leftBeforeStart(presence: Presence): number[] {
  return presence.others().filter(({ state }) => state === PRESENT.LEFT_BEFORE_START).map(({ rank }) => rank);
}
