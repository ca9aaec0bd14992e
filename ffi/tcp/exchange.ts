/**
 * What ranks without MPI exchange: each sends its part to the hub, which answers. A rank waits in a system call, as it does
 * in MPI.
 *
 * @module
 */
import { CollectiveError } from "../errors.ts";
import type { Star } from "./join.ts";
import { isLost } from "./lookout.ts";
import { receiveAll, sendAll } from "./sockets.ts";

/** What all ranks have to state alike, as numbers: the call and its arguments. */
export type Statement = readonly number[];

/** How many numbers a statement has at most. */
const MOST_NUMBERS = 6;
const NUMBER_BYTES = 8;
const HEAD_BYTES = MOST_NUMBERS * NUMBER_BYTES + NUMBER_BYTES;

const FINE = 0;
const MISMATCH = 1;
const FAILURE = 2;

/** What the hub makes of the parts of all ranks, in their order: the same for all, or one for each. */
export type Answer = (parts: Uint8Array[]) => Uint8Array | Uint8Array[];

/**
 * Send a part to the hub and receive its answer. Collective.
 *
 * @throws {CollectiveError} on all ranks, if they do not state the same; `describe` shows a statement.
 * @throws {RangeError} on all ranks, if `answer` throws.
 */
export function exchange(
  star: Star,
  statement: Statement,
  part: Uint8Array,
  answer: Answer,
  describe: (statement: Statement) => string,
): Uint8Array {
  const head = new Float64Array(MOST_NUMBERS + 1);
  head.set(statement);
  head[MOST_NUMBERS] = part.length;
  return star.rank === star.hub ? serve(star, head, part, answer, describe) : ask(star, head, part);
}

const bytesOf = (head: Float64Array<ArrayBuffer>) => new Uint8Array(head.buffer);

function ask(star: Star, head: Float64Array<ArrayBuffer>, part: Uint8Array): Uint8Array {
  const { hub } = star;
  const link = star.links[hub];
  const told = new Float64Array(2);
  if (!sendAll(link, bytesOf(head)) || !sendAll(link, part) || !receiveAll(link, bytesOf(told))) isLost(star, hub);
  const bytes = new Uint8Array(told[1]);
  if (!receiveAll(link, bytes)) isLost(star, hub);
  return resultOf(told[0], bytes);
}

function serve(
  star: Star,
  own: Float64Array<ArrayBuffer>,
  part: Uint8Array,
  answer: Answer,
  describe: (statement: Statement) => string,
): Uint8Array {
  const parts: Uint8Array[] = [];
  const statements: string[] = [];
  star.links.forEach((link, rank) => {
    let head = own;
    let bytes = part;
    if (rank !== star.rank) {
      head = new Float64Array(new ArrayBuffer(HEAD_BYTES));
      if (!receiveAll(link, bytesOf(head))) isLost(star, rank);
      bytes = new Uint8Array(head[MOST_NUMBERS]);
      if (!receiveAll(link, bytes)) isLost(star, rank);
    }
    parts.push(bytes);
    statements.push(head.subarray(0, MOST_NUMBERS).join());
  });
  const [code, bytes] = statements.some((statement) => statement !== statements[0])
    ? [MISMATCH, encode(mismatch(statements, describe))]
    : attempt(() => answer(parts));
  const bytesFor = (rank: number) => Array.isArray(bytes) ? bytes[rank] : bytes;
  star.links.forEach((link, rank) => {
    if (rank === star.rank) return;
    const told = bytesOf(Float64Array.of(code, bytesFor(rank).length));
    if (!sendAll(link, told) || !sendAll(link, bytesFor(rank))) isLost(star, rank);
  });
  return resultOf(code, bytesFor(star.rank));
}

function attempt(make: () => Uint8Array | Uint8Array[]): [code: number, bytes: Uint8Array | Uint8Array[]] {
  try {
    return [FINE, make()];
  } catch (error) {
    return [FAILURE, encode({ message: String(error instanceof Error ? error.message : error), ranks: [] })];
  }
}

interface Failure {
  message: string;
  ranks: readonly number[];
}

const encode = (failure: Failure) => new TextEncoder().encode(JSON.stringify(failure));

function mismatch(statements: readonly string[], describe: (statement: Statement) => string): Failure {
  const groups = new Map<string, number[]>();
  statements.forEach((statement, rank) => groups.set(statement, [...groups.get(statement) ?? [], rank]));
  const largest = [...groups.values()].reduce((best, ranks) => ranks.length > best.length ? ranks : best);
  const list = [...groups].map(([statement, ranks]) =>
    `${describe(statement.split(",").map(Number))} on ${ranks.length === 1 ? "rank" : "ranks"} ${ranks.join(", ")}`
  );
  const others = [...groups.values()].filter((ranks) => ranks !== largest).flat().sort((a, b) => a - b);
  return { message: `The ranks are in different calls: ${list.join("; ")}.`, ranks: others };
}

function resultOf(code: number, bytes: Uint8Array): Uint8Array {
  if (code === FINE) return bytes;
  const { message, ranks } = JSON.parse(new TextDecoder().decode(bytes)) as Failure;
  if (code === MISMATCH) throw new CollectiveError(message, { ranks });
  throw new RangeError(message);
}
