import { assertEquals } from "@std/assert";
import { FIELDS as fields, WORDS_OF_RANK } from "../../../ffi/mpi/presence_page.ts";
import { namesOfFunctions } from "../../../ffi/mpi/waits.ts";
import { describeRanks } from "../../../src/runtime/watchdog_thread.ts";
import { hashOf, pageOf as pageOfRanks } from "./pages.ts";

const names = new Map([[7, "MPI_Allreduce"], [8, "MPI_Bcast"]]);
const width = WORDS_OF_RANK;

/** The page of ranks, as `Presence` writes it. */
function pageOf(ranks: readonly { calls: number; hash: number; scope?: number; turn?: number; operation?: string }[]) {
  const words = new Int32Array((ranks.length + 1) * width);
  ranks.forEach(({ calls, hash, scope = 5, turn = 0, operation = "" }, rank) => {
    const own = words.subarray((rank + 1) * width, (rank + 2) * width);
    own.set([1, rank, calls, hash, scope, turn]);
    const name = new TextEncoder().encode(operation);
    own[fields.NAME_BYTES] = name.length;
    new Uint8Array(own.buffer, own.byteOffset + 4 * fields.NAME).set(name);
  });
  return words;
}

const describe = (words: Int32Array, ranks: number) =>
  describeRanks(words, { byteLength: words.byteLength, words: width, fields, ranks, own: width }, names).split("\n");

Deno.test("describeRanks() tells who has not arrived, who is elsewhere, and whose calls do not match", () => {
  const words = pageOf([
    { calls: 21, hash: 7, turn: 12, operation: "matmul" },
    { calls: 20, hash: 7, turn: 11 },
    { calls: 21, hash: 8, turn: 12 },
    { calls: 19, hash: 7, turn: 10 },
    { calls: 23, hash: 7, turn: 13 },
    { calls: 9, hash: 8, turn: 3, scope: 6 },
    { calls: 21, hash: 7, turn: 12, operation: "matmul" },
    { calls: 5, hash: 99 },
    { calls: 0, hash: 0 },
  ]);
  assertEquals(describe(words, 9), [
    "  rank 0 waits in matmul > MPI_Allreduce, collective call 12",
    "  rank 1 has not arrived: it is in no call that waits; its last one was MPI_Allreduce, collective call 11",
    "  rank 2 waits in MPI_Bcast, collective call 12: the calls do not match",
    "  rank 3 waits in MPI_Allreduce, collective call 10: it has not arrived",
    "  rank 4 waits in MPI_Allreduce, collective call 13: it is ahead",
    "  rank 5 waits in MPI_Bcast, collective call 3 in another communicator than rank 0",
    "  rank 6 waits in matmul > MPI_Allreduce, collective call 12",
    "  rank 7 waits in a native function",
    "  rank 8 has not arrived: it is in no call that waits",
  ]);
  assertEquals(describe(new Int32Array(2 * width), 1), ["  a rank that has not started MPI, or not by distmath"]);
});

Deno.test("describeRanks() tells who is in another communicator, but not of what is counted by itself in one", () => {
  const names = namesOfFunctions();
  const rank = (name: string, SCOPE: number, TURN = 1, CALLS = 1) => ({ CALLS, FUNCTION: hashOf(name), SCOPE, TURN });
  const words = pageOfRanks([
    rank("MPI_Barrier", 5),
    rank("MPI_Barrier", 6),
    rank("MPI_Recv", 6, 0),
    rank("MPI_Barrier", 6, 1, 2),
    rank("MPI_Ibarrier", 7),
  ]);
  const page = { byteLength: words.byteLength, words: width, fields, ranks: 5, own: width };
  assertEquals(describeRanks(words, page, names).split("\n"), [
    "  rank 0 waits in MPI_Barrier, collective call 1",
    "  rank 1 waits in MPI_Barrier, collective call 1 in another communicator than rank 0",
    "  rank 2 waits in MPI_Recv in another communicator than rank 0",
    "  rank 3 has not arrived: it is in no call that waits; its last one was MPI_Barrier, collective call 1 in another " +
    "communicator than rank 0",
    "  rank 4 waits in MPI_Ibarrier, collective call 1",
  ]);
});

Deno.test("describeRanks() tells the line of the script, or which call before had one that was looked for", () => {
  const reduces = { CALLS: 21, FUNCTION: hashOf("MPI_Allreduce"), TURN: 12 };
  const line = new TextEncoder().encode("a.ts:12:3");
  const words = pageOfRanks([21, 19, 3].map((LINE_CALLS) => ({ ...reduces, LINE_CALLS, LINE_BYTES: line.length })));
  for (const rank of [1, 2, 3]) new Uint8Array(words.buffer, 4 * (rank * width + fields.LINE)).set(line);
  const page = { byteLength: words.byteLength, words: width, fields, ranks: 3, own: width };
  assertEquals(describeRanks(words, page, namesOfFunctions()).split("\n"), [
    "  rank 0 waits in MPI_Allreduce at a.ts:12:3, collective call 12",
    "  rank 1 waits in MPI_Allreduce (1 call after a.ts:12:3), collective call 12",
    "  rank 2 waits in MPI_Allreduce (9 calls after a.ts:12:3), collective call 12",
  ]);
});

Deno.test("describeRanks() tells whose messages a GPU waits for", () => {
  const wait = hashOf("cudaStreamSynchronize");
  const waiting = { CALLS: 5, FUNCTION: wait, TURN: 0, SCOPE: 0 };
  const words = pageOfRanks([waiting, { CALLS: 4, SCOPE: 0 }, waiting]);
  const messages = (rank: number, peer: number) => (rank + 1) * WORDS_OF_RANK + fields.MESSAGES + peer;
  words[messages(0, 1)] = 7;
  words[messages(1, 0)] = 4;
  words[messages(0, 2)] = 2;
  words[messages(2, 0)] = 2;
  const page = { byteLength: words.byteLength, words: WORDS_OF_RANK, fields, ranks: 3, own: WORDS_OF_RANK };
  assertEquals(describeRanks(words, page, namesOfFunctions()).split("\n"), [
    "  rank 0 waits in cudaStreamSynchronize",
    "  rank 1 has not arrived: it is in no call that waits; its last one was a native function; NCCL waits for 3 of its " +
    "messages",
    "  rank 2 waits in cudaStreamSynchronize",
  ]);
});
