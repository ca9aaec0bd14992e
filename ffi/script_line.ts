/**
 * The line of the script that is being executed: for those who look at a rank that waits, and for errors.
 *
 * @module
 */

/** The folders of this library and of its test runner, whose lines are not the script's. */
const own = ["./", "../src/", "../scripts/results/"].map((folder) => new URL(folder, import.meta.url).href);
const deepest = 50;

/** Run something that looks at more of the stack than usual. */
function seeingAll<T>(look: () => T): T {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = deepest;
  try {
    return look();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** An error whose stack gets to the script, also from deep within the library. */
export function errorFromScript(): Error {
  try {
    return seeingAll(() => new Error());
  } catch {
    // The script has frozen Error.
    return new Error();
  }
}

/** The first place in a stack that is not this library's. */
export function placeInScript(stack: string): string | undefined {
  const places = stack.split("\n").flatMap((line) =>
    /(?:\(|at (?:async )?)((?:file|https?):[^)]*)\)?$/.exec(line)?.[1] ?? []
  );
  return places.find((place) => !own.some((folder) => place.startsWith(folder)));
}

/**
 * The line of the script that this call comes from, such as `a_test.ts:12:3`; empty if it is not known. Takes 0.1 ms, and
 * several times that in deep calls.
 */
export function lineOfScript(): string {
  try {
    return placeInScript(seeingAll(() => new Error().stack ?? ""))?.replace(/^.*\//, "") ?? "";
  } catch {
    // The script has its own prepareStackTrace(), or has frozen Error.
    return "";
  }
}

/**
 * Have the trace of an error begin at the caller of `inner`, by default of this function, if it does not get to the script's
 * line: V8 keeps the innermost calls only.
 */
export function traceToScript(error: unknown, inner: (...values: never[]) => unknown = traceToScript): void {
  try {
    if (!(error instanceof Error) || placeInScript(error.stack ?? "") !== undefined) return;
    seeingAll(() => Error.captureStackTrace(error, inner));
  } catch {
    // A frozen error, or one that cannot even be looked at.
  }
}

/** So many waits are looked at in any case: those that a script begins with. */
const FIRST_WAITS = 32;

/** Then looking takes this part of the time at the most. */
const SHARE = 1 / 100;

/** But a look is never put off for longer: on a busy machine one that was interrupted seems to have taken long. */
const LONGEST_PAUSE_MILLISECONDS = 100;

/** Waits that follow each other faster are too short for a look at the clock each. */
const HASTE_MILLISECONDS = 0.02;
const WAITS_BETWEEN_TIMES = 8;

/** When the next look is due, and how many have been taken of the first waits. */
let [lookAt, looks] = [0, 0];
/** When the time was looked at last, how many waits ago, and after how many it will be. */
let [time, waits, waitsToTime] = [0, 0, 0];
/** What the last wait was in. */
let [lastOperation, lastCall] = ["", 0];

/** Have the next waits looked at, as the first of a script are. */
export function lookAtWaits(count: number): void {
  looks = Math.min(looks, FIRST_WAITS - count);
  waitsToTime = lookAt = 0;
}

/**
 * The line of the script, if it is looked for at this wait: in hasty loops it is so now and then, and otherwise always.
 * The time is looked at where a script may have got to another line, in another call or after a while.
 */
export function lineOfWait(operation: string, call: number): string | null {
  const isLike = operation === lastOperation && call === lastCall;
  if (!isLike) [lastOperation, lastCall] = [operation, call];
  if (++waits < waitsToTime && isLike) return null;
  const now = performance.now();
  const isHasty = now - time < waits * HASTE_MILLISECONDS;
  waitsToTime = isHasty ? WAITS_BETWEEN_TIMES : 0;
  [time, waits] = [now, 0];
  if (now < lookAt && looks >= FIRST_WAITS) return null;
  const line = lineOfScript();
  const end = performance.now();
  looks++;
  lookAt = end + Math.min((end - now) / SHARE, LONGEST_PAUSE_MILLISECONDS);
  return line;
}
