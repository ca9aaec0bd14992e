/**
 * The line of the script that is being executed, for those who look at a rank that waits.
 *
 * @module
 */

/** The folders of this library, whose lines are not the script's. */
const own = ["./", "../src/"].map((folder) => new URL(folder, import.meta.url).href);
const deepest = 50;

/** The line of the script that this call comes from: ` at a_test.ts:12:3`; empty if it is not known. Takes 0.1 ms. */
export function lineOfScript(): string {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = deepest;
  const { stack = "" } = new Error();
  Error.stackTraceLimit = stackTraceLimit;
  const places = stack.split("\n").flatMap((line) =>
    /(?:\(|at (?:async )?)((?:file|https?):[^)]*)\)?$/.exec(line)?.[1] ?? []
  );
  const place = places.find((place) => !own.some((folder) => place.startsWith(folder)));
  return place === undefined ? "" : ` at ${place.replace(/^.*\//, "")}`;
}

/** Whether a text ends with a line of the script. */
export function hasLine(text: string): boolean {
  return / at [^ ]+:\d+:\d+$/.test(text);
}
