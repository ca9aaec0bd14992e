/**
 * What machines tell each other of ranks that wait for long, by the connections between them (`machine_links.ts`), so that
 * collective calls that do not match are found between machines as well.
 *
 * A report is what such a rank has told the others of its machine: its words in the memory that they share, which say by
 * which functions it has made its last collective calls. All of it also runs in a thread, where it sees nothing of this
 * module.
 *
 * @module
 */
import { describeLine, describePlace, type SharedPage } from "../../ffi/mpi/presence_page.ts";
import { type CallNames, callOf, describeDetails } from "../../ffi/mpi/waits.ts";
import { RECV, SEND } from "../../ffi/tcp/sockets.ts";
import type { MachineLink } from "./machine_links.ts";

/** What the thread needs of the C library. */
export const REPORT_SYMBOLS = { send: SEND, recv: RECV } as const;

type Sockets = Deno.DynamicLibrary<typeof REPORT_SYMBOLS>["symbols"];

/** A rank that waits in a collective call, and one that may have made another in its place. */
export interface FarPair {
  /** Their words. */
  readonly waiting: Int32Array;
  readonly other: Int32Array;
}

/** How many calls a rank tells of, and the words of each. */
export interface MeetingLayout {
  readonly count: number;
  readonly words: number;
}

/** Send a report; a connection that is full of reports that nobody reads has no need of it. */
export function sendReport({ socket }: MachineLink, report: Int32Array, { send }: Sockets): void {
  const [noSignal, dontWait] = [0x4000, 0x40];
  send(socket, report, BigInt(report.byteLength), noSignal | dontWait);
}

/** The next report that has come as a whole, of as many words; `null` if there is none. */
export function receiveReport({ socket }: MachineLink, words: number, { recv }: Sockets): Int32Array | null {
  const [peek, dontWait] = [2, 0x40];
  const report = new Int32Array(words);
  const bytes = BigInt(report.byteLength);
  if (recv(socket, report, bytes, peek | dontWait) !== bytes) return null;
  recv(socket, report, bytes, dontWait);
  return report;
}

/** Whether another rank has made another collective call in place of that in which one waits. */
export function isMismatch(
  { waiting, other }: FarPair,
  fields: SharedPage["fields"],
  meetings: MeetingLayout,
): boolean {
  const [scope, turn] = [waiting[fields.SCOPE], waiting[fields.TURN]];
  const at = fields.MEETINGS + turn % meetings.count * meetings.words;
  const isMeeting = (rank: Int32Array) => turn > 0 && scope !== 0 && rank[at] === scope && rank[at + 1] === turn;
  const isOther = (word: number) => waiting[at + word] !== other[at + word];
  return isMeeting(waiting) && isMeeting(other) && (isOther(2) || isOther(3));
}

/** Whether the other rank waits in the call that it has made in the same place. */
export function isInPlace({ waiting, other }: FarPair, fields: SharedPage["fields"]): boolean {
  const isSame = (field: number) => other[field] === waiting[field];
  return other[fields.CALLS] % 2 !== 0 && isSame(fields.SCOPE) && isSame(fields.TURN);
}

/** What people are told of it, in a job of so many ranks. */
export function describeFarMismatch(
  mismatch: FarPair,
  { fields, size }: Pick<SharedPage, "fields" | "size">,
  meetings: MeetingLayout,
  names: CallNames,
  patienceSeconds: number,
): string {
  const { waiting, other } = mismatch;
  const turn = waiting[fields.TURN];
  const at = fields.MEETINGS + turn % meetings.count * meetings.words;
  const [own, others] = [waiting, other].map((rank) => ({
    call: callOf(rank[at + 2], names, size),
    count: rank[at + 3],
  }));
  const placeOf = (rank: Int32Array) => describePlace(rank, fields, names.functions) + describeLine(rank, fields);
  const does =
    (isInPlace(mismatch, fields)
      ? `waits in ${placeOf(other)}`
      : `has called ${others.call?.name ?? "another function"}`) + describeDetails(others, own);
  return `distmath: the collective calls of the ranks do not match: rank ${
    waiting[fields.RANK]
  } has waited for more than ` +
    `${patienceSeconds} s in ${placeOf(waiting)}${describeDetails(own, others)}, and rank ${
      other[fields.RANK]
    }, on another machine, ${does} in its ` +
    `place (call ${turn} of the communicator). The job ends with exit code 1. All ranks of a communicator have to make ` +
    "the same collective calls in the same order, with the same root, dtype and operation, and as many entries.";
}
