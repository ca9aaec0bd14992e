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

/** What lies between two looks is more only if this rank, and most likely the whole job, was suspended. */
const LONGEST_LOOK_MILLISECONDS = 1000;

/** A clock that stands still while this rank is suspended, in milliseconds from now on. It has to be looked at often. */
function startClock(): () => number {
  let [last, passed] = [performance.now(), 0];
  return () => {
    const now = performance.now();
    passed += Math.min(now - last, LONGEST_LOOK_MILLISECONDS);
    last = now;
    return passed;
  };
}

let isSending = () => false;

/** Have a rank that leaves ask whether it still sends what others may wait for: MPI works on that then. */
export function leaveAfterSending(isStill: () => boolean): void {
  isSending = isStill;
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
  const longPatience = LONG_MESSAGES * patience;
  const clock = startClock();
  let [isNoted, wasSending] = [false, false];
  let [workers, since] = [0, 0];
  while (true) {
    const now = clock();
    const sends = isSending();
    // What arrived last is still to be taken.
    if (wasSending && !sends) sightings.clear();
    wasSending = sends;
    const others = presence.others();
    const working = others.filter(({ state }) => state !== PRESENT.LEAVING);
    const missing = working.length > 0 ? [] : elsewhere.flatMap((ranks) => ranks.missing());
    if (working.length + missing.length === 0) return null;
    if (working.length !== workers) [workers, since] = [working.length, now];
    const mayTake = (other: PresentRank) => sends && RECEIVING.has(functionOf(other));
    const stuck = working.filter((other) => isStuck(other, sightings, now, mayTake(other) ? longPatience : patience));
    // Whom a rank waits for that takes a message from anyone is not known: then all have to be stuck, and for as long
    // since the last of the others has left, who may have sent what they wait for.
    const seconds = sends || mayExchange(working) ? longPatience : patience;
    const areAllStuck = presence.isComplete && working.every((other) => isStuck(other, sightings, now, seconds)) &&
      working.every(isInMpi) && now - since >= patience * 1000;
    const victim = stuck.find((other) => waitsForThisRank(other)) ??
      (areAllStuck ? stuck.find((other) => waitsForThisRank(other) === null) : undefined);
    if (victim !== undefined && presence.claimTelling()) {
      const alsoWaiting = working.filter((other) => other !== victim && (areAllStuck || waitsForThisRank(other)));
      return describe(victim, alsoWaiting, rank, patience);
    }
    // Those that wait for this rank, or all for nobody knows whom, are spoken of when their patience is at its end.
    const mayAllBeStuck = presence.isComplete && working.every((other) => other.calls % 2 !== 0 && isInMpi(other)) &&
      working.some((other) => waitsForThisRank(other) === null);
    const isPeaceful = missing.length > 0 || sends ||
      !mayAllBeStuck && !working.some((other) => waitsForThisRank(other) === true);
    if (!isNoted && now >= patience * 1000 && isPeaceful) {
      isNoted = true;
      if (presence.claimNote()) note(describeWait(rank, working, missing, sends, patience));
    }
    const { anySource, anyTag, world } = mpi.constants;
    mpi.symbols.MPI_Iprobe(anySource, anyTag, world, nothing.flag, nothing.status);
    // A long message travels piece by piece.
    if (!sends) Atomics.wait(never, 0, 0, PAUSE_MILLISECONDS);
  }
}

// Of what is waited for in MPI_Wait neither is known which of both it is, nor the communicator.
const SENDING: ReadonlySet<string> = new Set(["MPI_Send", "MPI_Sendrecv", "MPI_Wait"]);
const RECEIVING: ReadonlySet<string> = new Set(["MPI_Recv", "MPI_Sendrecv", "MPI_Wait"]);

/** Ranks between which a message may be under way are given so many times the patience. */
const LONG_MESSAGES = 10;

/** Whether a message may be under way: one of these ranks may send, and another one receive in the same communicator. */
function mayExchange(ranks: readonly PresentRank[]): boolean {
  const senders = ranks.filter((other) => SENDING.has(functionOf(other)));
  const receivers = ranks.filter((other) => RECEIVING.has(functionOf(other)));
  const mayMeet = (one: PresentRank, other: PresentRank) =>
    one !== other && (one.scope === other.scope || one.scope === 0 || other.scope === 0);
  return senders.some((one) => receivers.some((other) => mayMeet(one, other)));
}

/** Whether a rank has been in one call for too long. */
function isStuck(
  { rank, calls }: PresentRank,
  sightings: Map<number, Sighting>,
  now: number,
  patience: number,
): boolean {
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
  sends: boolean,
  patience: number,
): string {
  const end = sends ? "take what it sends, and end" : "end";
  const places = working.map((other) =>
    `rank ${other.rank}, which is in ${other.calls % 2 !== 0 ? placeOf(other) : "no call that waits"}`
  );
  const whom = working.length > 0
    ? `the others of this machine to ${end}: ${places.join("; ")}`
    : `those of other machines to ${end}: ${missing.join(", ")}`;
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
  const clock = startClock();
  const isAnyFailing = () => presence.others().some(({ state }) => state === PRESENT.FAILING);
  while (isAnyFailing() && clock() < FAILURE_MILLISECONDS) Atomics.wait(never, 0, 0, PAUSE_MILLISECONDS);
}

/** The ranks that have ended well before this one starts MPI, which would wait for them for ever. */
export function leftBeforeStart(presence: Presence): number[] {
  return presence.others().filter(({ state }) => state === PRESENT.LEFT_BEFORE_START).map(({ rank }) => rank);
}
