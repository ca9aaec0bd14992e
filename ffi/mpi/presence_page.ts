/**
 * What is where in the memory that the ranks of a job share on one machine (`presence.ts`), and how it is read.
 *
 * @module
 */

/** Where a rank is. One that fails before it starts MPI may still start it. */
export const PRESENT = { NOWHERE: 0, HERE: 1, STARTING: 2, LEAVING: 3, LEFT_BEFORE_START: 4, FAILING: 5 } as const;

/**
 * The words of the memory before the ranks' own: how many have come, whether one has told of a hang, how many there are,
 * whether one that has ended has told for whom it waits, how many have started MPI, whether a thread of one looks on, how
 * often ranks have come to initialize().
 */
export const WORDS = { ARRIVED: 0, TOLD: 1, RANKS: 2, NOTED: 3, STARTED: 4, LOOKING: 5, JOINED: 6 } as const;

/** The words of a rank: these, and then the name of an operation, the line of the script, and how it ends, in UTF-8. */
export const WORDS_OF_RANK = 160;

/** The ranks of a machine whose messages by NCCL are counted: each has a GPU of its own, and machines have no more. */
export const COUNTED_PEERS = 16;

/** Of so many collective calls, the last ones, a rank tells by which function it has made them. */
export const MEETINGS = 8;

/** The words of each: whose collective call it is, its number, the function, and how many entries it has of each rank. */
export const WORDS_OF_MEETING = 4;

/** Where each word of a rank is. */
export const FIELDS = {
  STATE: 0,
  RANK: 1,
  CALLS: 2,
  FUNCTION: 3,
  SCOPE: 4,
  TURN: 5,
  FIRST_PEER: 6,
  SECOND_PEER: 7,
  NAME_BYTES: 8,
  /** The line of the script where it was looked for last, and what `CALLS` was then. */
  LINE_BYTES: 9,
  LINE_CALLS: 10,
  /** How many messages by NCCL it has put on its GPU for each rank of the machine, or from it. */
  MESSAGES: 11,
  /** Whether another rank near by makes other collective calls than before, so that this one has to look at it. */
  LOOK: 11 + COUNTED_PEERS,
  /** The last collective calls, by their numbers. */
  MEETINGS: 12 + COUNTED_PEERS,
  PROCESS: 12 + COUNTED_PEERS + MEETINGS * WORDS_OF_MEETING,
  /** The exit code that it is about to end with, and how many bytes tell by what; 0 where it is not. */
  END_CODE: 13 + COUNTED_PEERS + MEETINGS * WORDS_OF_MEETING,
  END_BYTES: 14 + COUNTED_PEERS + MEETINGS * WORDS_OF_MEETING,
  /** Whether it awaits a request, or asks for it again and again, and may do something else beside. */
  BESIDE: 15 + COUNTED_PEERS + MEETINGS * WORDS_OF_MEETING,
  /** How often it has asked so far. */
  ASKED: 16 + COUNTED_PEERS + MEETINGS * WORDS_OF_MEETING,
  NAME: 17 + COUNTED_PEERS + MEETINGS * WORDS_OF_MEETING,
  LINE: 96,
  END: 128,
} as const;

export const NO_PEER = -1000;

/**
 * What tells this layout from those of other versions of the library, which a command may start: it ends the name of the
 * memory that the command makes.
 */
export const LAYOUT = layoutOf(
  PRESENT,
  WORDS,
  WORDS_OF_RANK,
  COUNTED_PEERS,
  MEETINGS,
  WORDS_OF_MEETING,
  FIELDS,
  NO_PEER,
);

function layoutOf(...constants: unknown[]): string {
  let hash = 0;
  for (const unit of JSON.stringify(constants)) hash = Math.imul(hash ^ unit.charCodeAt(0), 0x5f356495) ^ hash >>> 15;
  return (hash >>> 0).toString(36);
}

/** What a rank is doing, as another one reads it. */
export interface PresentRank {
  /** Its number in the job. */
  rank: number;
  /** One of `PRESENT`. */
  state: number;
  /** The calls that it has begun and ended so far: odd while it waits in one. */
  calls: number;
  /** The operation on arrays that it is in, as users know it; empty outside of any. */
  operation: string;
  /** Where in the script the call is, in words; empty if that is not known. */
  line: string;
  /** The hash of the name of the function that it waits in. */
  functionHash: number;
  /** Whose collective calls `turn` counts: a communicator, or 0 where that is not known. */
  scope: number;
  /** The number of the collective call; 0 for a call that is not collective. */
  turn: number;
  /** The ranks of the communicator that a call that is not collective waits for. */
  peers: readonly number[];
  /** Whether it may do something else beside the call: it awaits a request, or asks for it again and again. */
  isBeside: boolean;
  /** Of the messages by NCCL between it and this rank: how many it has put on its GPU that this one has not. */
  messagesAhead: number;
}

/** The memory that ranks share, as a thread that sees nothing of this module reads it. */
export interface SharedPage {
  address: bigint;
  byteLength: number;
  /** The words of a rank, and where each is. */
  words: number;
  fields: typeof FIELDS;
  /** How many ranks are on this machine, and how many the job has. */
  ranks: number;
  size: number;
  /** Where this rank's words begin. */
  own: number;
}

/**
 * Where in the script the last call of a rank is, to be put behind its name; empty if that is not known. In hasty loops the
 * line may be that of a call before. Also runs in threads, where it sees nothing of this module.
 */
export function describeLine(rank: Int32Array, fields: typeof FIELDS): string {
  const start = rank.byteOffset + 4 * fields.LINE;
  const line = new TextDecoder().decode(new Uint8Array(rank.buffer, start, rank[fields.LINE_BYTES]).slice());
  if (line === "") return "";
  const later = rank[fields.CALLS] - rank[fields.LINE_CALLS] >> 1;
  return later === 0 ? ` at ${line}` : ` (${later} ${later === 1 ? "call" : "calls"} after ${line})`;
}

/** What a rank is in: a function, and the operation that it belongs to. Also runs in threads, as above. */
export function describePlace(rank: Int32Array, fields: typeof FIELDS, names: ReadonlyMap<number, string>): string {
  const start = rank.byteOffset + 4 * fields.NAME;
  const operation = new TextDecoder().decode(new Uint8Array(rank.buffer, start, rank[fields.NAME_BYTES]).slice());
  const name = names.get(rank[fields.FUNCTION]) ?? "a native function";
  return operation === "" ? name : `${operation} > ${name}`;
}
