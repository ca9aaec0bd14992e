import { assertEquals } from "@std/assert";
import { FIELDS, PRESENT, WORDS_OF_RANK } from "../../../ffi/mpi/presence_page.ts";
import { LongWaits } from "../../../src/runtime/long_waits.ts";
import { processesInMpi, toldEnds, whereRanksAre } from "../../../src/runtime/onlooker.ts";
import { hashOf, pageOf, type Rank, reducing } from "./pages.ts";

/** What is told at each second from 0 on while nothing changes. */
function toldOf(ranks: readonly Rank[], seconds: number, size: number = ranks.length): Map<number, string> {
  const [waits, page] = [new LongWaits(10, size), pageOf(ranks)];
  const told = Array.from({ length: seconds + 1 }, (_, at) => [at, waits.look(page, at * 1000)] as const);
  return new Map(told.flatMap(([at, text]) => text === null ? [] : [[at, text]]));
}

Deno.test("LongWaits tells of a collective call that takes long, less and less often", () => {
  const told = toldOf([reducing, { CALLS: 20 }, { ...reducing, FUNCTION: hashOf("MPI_Bcast") }], 45);
  assertEquals([...told.keys()], [10, 20, 40]);
  assertEquals(told.get(10)!.split("\n"), [
    "distmath: rank 0 has waited for 10 s; the ranks of this machine are here:",
    "  rank 0 waits in MPI_Allreduce, collective call 12",
    "  rank 1 has not arrived: it is in no call that waits; its last one was a native function",
    "  rank 2 waits in MPI_Bcast, collective call 12: the calls do not match",
    "The job goes on. timeoutSeconds of initialize() would end it, and --timeout of run.",
  ]);
});

Deno.test("LongWaits leaves alone ranks that work, wait for messages while others work, or for one that has left", () => {
  const receiving = { CALLS: 5, FUNCTION: hashOf("MPI_Recv") };
  assertEquals(toldOf([{ CALLS: 20 }, { CALLS: 6 }], 100).size, 0);
  assertEquals(toldOf([{ CALLS: 20 }, receiving], 100).size, 0);
  assertEquals(toldOf([receiving, receiving], 15).size, 1);
  assertEquals(toldOf([reducing, { STATE: PRESENT.LEAVING }], 100).size, 0);
  assertEquals(toldOf([{ STATE: PRESENT.STARTING }, { STATE: PRESENT.NOWHERE }], 59).size, 0);
  assertEquals(toldOf([{ STATE: PRESENT.STARTING }, { STATE: PRESENT.NOWHERE }], 60).get(60)!.split("\n").slice(1, 3), [
    "  rank 0 waits in MPI_Init",
    "  a rank that has not started MPI, or not by distmath",
  ]);
  const [waits, words] = [new LongWaits(10, 2), pageOf([reducing, { CALLS: 20 }])];
  for (let at = 0; at < 100; at += 5) {
    words[WORDS_OF_RANK + FIELDS.CALLS] += 2;
    assertEquals(waits.look(words, at * 1000), null);
  }
  assertEquals(waits.look(new Int32Array(0), 0), null);
  assertEquals(toldOf([], 100, 2).size, 0);
});

Deno.test("LongWaits tells of a request that is asked for, and not of one that was and may be again", () => {
  const beside = { CALLS: 5, FUNCTION: hashOf("MPI_Iallreduce"), TURN: 1, BESIDE: 1 };
  const looks = (asks: (second: number) => boolean) => {
    const [waits, words] = [new LongWaits(10, 2), pageOf([beside, { CALLS: 20 }])];
    return Array.from({ length: 30 }, (_, at) => at).filter((at) => {
      if (asks(at)) words[WORDS_OF_RANK + FIELDS.ASKED]++;
      return waits.look(words, at * 1000) !== null;
    });
  };
  assertEquals(looks(() => true), [10, 20]);
  assertEquals(looks((second) => second < 8), []);
  assertEquals(looks((second) => second % 2 === 0), []);
});

Deno.test("LongWaits tells of ranks that wait for each other after another one has left", () => {
  const receiving = { CALLS: 5, FUNCTION: hashOf("MPI_Recv") };
  const left = { STATE: PRESENT.LEAVING };
  assertEquals([...toldOf([left, receiving, receiving], 85).keys()], [20, 40, 80]);
  assertEquals(toldOf([left, receiving, { CALLS: 20 }], 100).size, 0);
  assertEquals([...toldOf([left, reducing, { CALLS: 20 }], 85).keys()], [20, 40, 80]);
  assertEquals(toldOf([left, reducing], 100).size, 0);
  const [waits, words] = [new LongWaits(10, 3), pageOf([{ CALLS: 20 }, receiving, receiving])];
  for (let at = 0; at < 50; at++) {
    if (at === 25) words[WORDS_OF_RANK + FIELDS.STATE] = PRESENT.LEAVING;
    assertEquals(waits.look(words, at * 1000) !== null, at === 45, `${at}`);
  }
});

Deno.test("LongWaits does not count the time for which a job was suspended", () => {
  const [waits, words] = [new LongWaits(10, 2), pageOf([reducing, { CALLS: 20 }])];
  const looks = [0, 1, 2, 3, 4, 64, 65, 66, 67, 68, 69];
  assertEquals(looks.filter((at) => waits.look(words, at * 1000) !== null), [68]);
});

Deno.test("LongWaits tells that ranks of other machines are not seen", () => {
  const seen = (text: string) => `  ${text} not seen here: of each machine one that waits as long tells, too`;
  const told = toldOf([reducing, reducing], 12, 4);
  assertEquals([...told.keys()], [12]);
  assertEquals(told.get(12)!.split("\n").slice(2, 4), [
    "  rank 1 waits in MPI_Allreduce, collective call 12",
    seen("ranks 2, 3 are on other machines and are"),
  ]);
  const starting = { STATE: PRESENT.STARTING };
  const start = toldOf([starting, starting], 62, 3);
  assertEquals(start.get(62)!.split("\n").slice(1, 4), [
    "  rank 0 waits in MPI_Init",
    "  rank 1 waits in MPI_Init",
    seen("rank 2 is on another machine and is"),
  ]);
  const late = toldOf([starting, { STATE: PRESENT.NOWHERE }], 62, 3);
  assertEquals(late.get(62)!.split("\n").slice(2, 4), [
    "  a rank that has not started MPI, or not by distmath",
    seen("others are on other machines and are"),
  ]);
});

Deno.test("LongWaits tells that ranks which have ended wait for those of other machines", () => {
  const left = { STATE: PRESENT.LEAVING };
  assertEquals(
    [...toldOf([left, left], 35, 4)],
    [
      [10, "2, 3"],
      [20, "2, 3"],
    ].map(([seconds, ranks]) => [
      seconds,
      `distmath: the ranks of this machine have ended, and have waited for ${seconds} s for those of other machines: ` +
      `${ranks}. The job goes on. timeoutSeconds of initialize() would end it, and --timeout of run.`,
    ]),
  );
  assertEquals(toldOf([left, left], 100).size, 0);
  const finalizing = { STATE: PRESENT.LEAVING, CALLS: 21, FUNCTION: hashOf("MPI_Finalize") };
  const [at, text] = [...toldOf([left, finalizing], 25)][0];
  assertEquals([at, text.split("\n")[2]], [20, "  rank 1 waits in MPI_Finalize"]);
  assertEquals(toldOf([left, reducing], 100, 4).size, 0);
});

Deno.test("whereRanksAre() tells of the ranks as one sees it that waits for all, if one does", () => {
  const receiving = { CALLS: 5, FUNCTION: hashOf("MPI_Recv") };
  const working = "  rank 0 has not arrived: it is in no call that waits";
  assertEquals(whereRanksAre(pageOf([{ CALLS: 0 }, receiving, reducing]), 3)?.split("\n"), [
    working,
    "  rank 1 waits in MPI_Recv",
    "  rank 2 waits in MPI_Allreduce, collective call 12",
  ]);
  assertEquals(whereRanksAre(pageOf([{ CALLS: 0 }, receiving]), 2), `${working}\n  rank 1 waits in MPI_Recv`);
  assertEquals(whereRanksAre(pageOf([{ CALLS: 0 }, { CALLS: 2 }]), 2), null);
  assertEquals(whereRanksAre(pageOf([{ CALLS: 0 }, { ...reducing, CALLS: 2 }]), 2, true)?.split("\n"), [
    "  rank 0 is in no call that waits",
    "  rank 1 is in no call that waits; its last one was MPI_Allreduce, collective call 12",
  ]);
  assertEquals(whereRanksAre(pageOf([{ CALLS: 0 }, receiving]), 2, true), `${working}\n  rank 1 waits in MPI_Recv`);
  assertEquals(whereRanksAre(pageOf([]), 2, true), null);
});

Deno.test("processesInMpi() names those that have used MPI and have not left it", () => {
  const page = pageOf([
    { STATE: PRESENT.HERE, CALLS: 5, PROCESS: 100 },
    { STATE: PRESENT.HERE, CALLS: 0, PROCESS: 101 },
    { STATE: PRESENT.LEAVING, CALLS: 6, PROCESS: 102 },
    { STATE: PRESENT.HERE, CALLS: 6, PROCESS: 103 },
  ]);
  assertEquals(processesInMpi(page), [{ rank: 0, process: 100 }, { rank: 3, process: 103 }]);
});

Deno.test("toldEnds() reads what ranks tell of their ends", () => {
  const how = new TextEncoder().encode("an uncaught error");
  const page = pageOf([{ CALLS: 5 }, { CALLS: 6, END_CODE: 3, END_BYTES: how.length }]);
  new Uint8Array(page.buffer, 4 * (2 * WORDS_OF_RANK + FIELDS.END)).set(how);
  assertEquals(toldEnds(page), [{ rank: 1, code: 3, how: "an uncaught error" }]);
});
