/** Ranks that wait for each other are told of also where no command looks on. */
import { assert, assertEquals } from "@std/assert";
import { newestLaunchers, testUnderEveryMpi } from "../mpi_installations.ts";
import { lineOf } from "../script_lines.ts";
import { fixture, patienceSeconds, run } from "./unseen_waits.ts";

const lines = {
  receives: lineOf(fixture, "world.receive(").source,
  starts: lineOf(fixture, "initialize({ // starts").source,
  awaits: lineOf(fixture, "world.barrier(); // waits").source,
  requests: lineOf(fixture, "world.iallReduce(").source,
  groups: lineOf(fixture, "    Communicator.ofWorldRanks(").source,
  inGroup: lineOf(fixture, "group.barrier(").source,
  unlimited: lineOf(fixture, "world.barrier(); // unlimited").source,
  pair: lineOf(fixture, "pair.barrier(").source,
};

/** By the argument: who waits, and what is said of each rank. */
const TOLD: [way: string, isEnded: boolean, who: string, ranks: string[]][] = [
  [
    "receive from each other",
    true,
    "[01]",
    [0, 1].map((rank) => `rank ${rank} waits in MPI_Recv at ${lines.receives}`),
  ],
  ["wait for one that works", false, "1", [
    "rank 0 has not arrived: it is in no call that waits; .*",
    `rank 1 waits in MPI_Barrier at ${lines.awaits}, collective call \\d+`,
  ]],
];

/** What is told of a rank that waits, with the place of each rank. */
const wordsOf = (who: string, ranks: readonly string[]) =>
  RegExp(
    `^distmath: rank ${who} has waited for (\\d+) s; the ranks of this machine are here:\\n {2}${
      ranks.join("\\n {2}")
    }\\n` +
      "The job goes on. timeoutSeconds",
    "gm",
  );

for (const [way, isEnded, who, ranks] of TOLD) {
  testUnderEveryMpi(`under a launcher alone it is told where ranks wait, and the job goes on: ${way}`, async (mpi) => {
    const patience = patienceSeconds();
    const { code, output } = await run(mpi, 2, way, patience);
    assertEquals([code !== 0, output.match(/is done/g)?.length ?? 0], isEnded ? [true, 0] : [false, 2], output);
    assertEquals(output.includes("fault at"), isEnded, output);
    const told = wordsOf(who, ranks);
    const seconds = Array.from(output.matchAll(told), ([, seconds]) => Number(seconds));
    assert(seconds.length >= 2, output);
    // Each time twice as long as before, and a look later at the most, which a busy machine may delay.
    seconds.forEach((waited, i) => assert(waited >= Math.floor(patience * 2 ** i), output));
    // Beside it a rank may tell that it has ended, and that a busy machine has the other one take longer to.
    assertEquals(output.match(/has waited for \d/g)?.length, seconds.length, `one rank tells, and in whole: ${output}`);
  });
}

/** By the argument: how many ranks there are, and where rank 1 waits for rank 0, which works. */
const WAYS: [way: string, ranks: number, place: string][] = [
  ["wait for a request", 2, `MPI_Iallreduce at ${lines.requests}, collective call 1`],
  ["make a group", 2, `MPI_Comm_create_group at ${lines.groups}, collective call 1`],
  ["wait in a group", 2, `MPI_Barrier at ${lines.inGroup}, collective call 1`],
  ["wait without a limit", 2, `MPI_Barrier at ${lines.unlimited}, collective call \\d+`],
  ["wait beside one that has left", 3, `MPI_Barrier at ${lines.pair}, collective call 1`],
];

for (const mpi of newestLaunchers) {
  Deno.test(`under a launcher alone ranks are told of in every kind of wait for all [${mpi.name}]`, async () => {
    // Each takes some seconds, and hardly any work.
    await Promise.all(WAYS.map(async ([way, ranks, place]) => {
      const { code, output } = await run(mpi, ranks, way, patienceSeconds());
      assertEquals([code, output.match(/is done/g)?.length], [0, ranks], output);
      const [other, last] = ["rank 0 has not arrived: it is in no call that waits; .*", "rank 2 waits in MPI_Finalize"];
      const here = [`rank 1 waits in ${place}`, ...ranks === 3 ? [last] : []];
      // In the order in which the launcher has put them on the machine.
      const orders = [here, here.toReversed()].map((ranks) => wordsOf("1", [other, ...ranks]));
      assert(orders.some((told) => told.test(output)), `${way}: ${output}`);
    }));
  });
}

/** By the argument: what rank 0 has not done yet, what is said of it, and where rank 1 waits meanwhile. */
const LATE: [way: string, what: string, late: string, wait: string][] = [
  ["start late", "started MPI", "a rank that has not started MPI, or not by distmath", "MPI_Init"],
  [
    "join late",
    "come to initialize()",
    "rank 0 has not arrived: it is in no call that waits.*",
    "initialize > MPI_\\w+",
  ],
];

for (const [way, what, late, wait] of LATE) {
  testUnderEveryMpi(`under a launcher alone it is told that a rank has not ${what}`, async (mpi) => {
    const patience = patienceSeconds();
    const { code, output } = await run(mpi, 2, way, patience);
    assertEquals([code, output.match(/is done/g)?.length], [0, 2], output);
    const told = RegExp(
      "^distmath: rank 1 has waited for (\\d+) s; the ranks of this machine are here:\n" +
        `  ${late}\n  rank 1 waits in ${wait} at ${lines.starts}.*\nThe job goes on`,
      "m",
    );
    assert(Number(told.exec(output)?.[1]) >= Math.floor(patience), output);
  });
}
