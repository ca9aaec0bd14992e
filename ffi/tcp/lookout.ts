/**
 * Ends all ranks of a job without MPI when one ends before the job does: there is no launcher that would.
 *
 * A thread of each rank looks at the connections by which ranks notice each other, also while the rank is in a native
 * call, or in none. What ends a rank is told to the hub, by a line or by the connection that breaks; the hub tells all
 * others, and each says so and ends.
 *
 * @module
 */
import { LAST_WORDS, writeImmediately } from "../process.ts";
import { startThread } from "../thread.ts";
import type { Star } from "./join.ts";
import { POLL, RECV, SEND, sendAll } from "./sockets.ts";

const SYMBOLS = { poll: POLL, recv: RECV, send: SEND, ...LAST_WORDS };

/** What ranks tell each other of an end: the exit code of the job, and a line that says why; 0 when all is well. */
interface End {
  code: number;
  line: string;
}

interface Watched {
  isHub: boolean;
  /** The sockets and whose they are, in words. */
  sockets: readonly { socket: number; who: string }[];
  /** 1 once all ranks have come to the end of the job, or this one has told of its own. */
  state: Int32Array<SharedArrayBuffer>;
}

let state: Int32Array<SharedArrayBuffer> | undefined;

/** Watch the other ranks from now on. */
export function watchRanks(star: Star): void {
  const { rank, hub, watches } = star;
  if (watches.length === 1) return;
  state = new Int32Array(new SharedArrayBuffer(4));
  const sockets = watches.flatMap((socket, other) => socket < 0 ? [] : [{ socket, who: nameRank(star, other) }]);
  const watched: Watched = { isHub: rank === hub, sockets, state };
  startThread(lookOut, [], watched, SYMBOLS);
}

/** A rank, and its machine if that is another one. */
function nameRank({ rank, machines }: Star, other: number): string {
  return `rank ${other}${machines[other] === machines[rank] ? "" : ` on ${machines[other]}`}`;
}

/** All ranks have come to the end of the job: from now on each may go when it likes. The hub knows first, and says so. */
export function stopWatching({ rank, hub, watches }: Star): void {
  if (state === undefined) return;
  Atomics.store(state, 0, 1);
  if (rank === hub) tellOthers(watches, { code: 0, line: "" });
}

/**
 * Tell the others that this rank ends the job. It watches them no more: the end of one of them is not to come before its
 * own.
 */
export function tellEndOfJob({ rank, watches }: Star, code: number): void {
  if (state !== undefined) Atomics.store(state, 0, 1);
  tellOthers(watches, { code, line: `distmath: rank ${rank} has ended the job, with exit code ${code}.` });
}

function tellOthers(watches: readonly number[], end: End): void {
  const text = new TextEncoder().encode(JSON.stringify(end) + "\n");
  for (const socket of watches) if (socket >= 0) sendAll(socket, text);
}

/** The others learn it from the connection that breaks. */
export function isLost(star: Star, other: number): never {
  // The thread ends this process, with a line that names the rank that went first.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5000);
  writeImmediately(
    `distmath: rank ${star.rank} has lost its connection to ${nameRank(star, other)}. The job ends with exit code 1.`,
  );
  Deno.exit(1);
}

/** Runs in a thread, where it sees nothing of this module. */
function lookOut(
  { isHub, sockets, state }: Watched,
  { poll, recv, send, write, _exit }: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"],
): void {
  const [pollIn, noSignal, standardError] = [1, 0x4000, 2];
  const lookMilliseconds = 1000;
  const bytesOf = (text: string) => new TextEncoder().encode(text);
  const end = (code: number, line: string): void => {
    if (isHub) {
      const told = bytesOf(JSON.stringify({ code, line }) + "\n");
      for (const { socket } of sockets) send(socket, told, BigInt(told.length), noSignal);
    }
    const words = bytesOf(`${line}\n`);
    write(standardError, words, BigInt(words.length));
    _exit(code);
  };
  const texts = sockets.map(() => "");
  while (true) {
    const words = Int32Array.from(sockets.flatMap(({ socket }) => [socket, pollIn]));
    const count = poll(words, BigInt(sockets.length), lookMilliseconds);
    if (Atomics.load(state, 0) === 1) return;
    if (count <= 0) continue;
    for (let i = 0; i < sockets.length; i++) {
      if (words[2 * i + 1] >>> 16 === 0) continue;
      const bytes = new Uint8Array(4096);
      const length = Number(recv(sockets[i].socket, bytes, BigInt(bytes.length), 0));
      if (Atomics.load(state, 0) === 1) return;
      if (length <= 0) {
        const gone = `${sockets[i].who} has ended, or cannot be reached any more`;
        end(1, `distmath: ${gone}. The job ends with exit code 1.`);
      }
      texts[i] += new TextDecoder().decode(bytes.subarray(0, Math.max(0, length)));
      const stop = texts[i].indexOf("\n");
      if (stop < 0) continue;
      const told = JSON.parse(texts[i].slice(0, stop)) as End;
      if (told.code === 0) return;
      end(told.code, told.line);
    }
  }
}
