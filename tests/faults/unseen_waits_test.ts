/** Ranks that wait for each other are told of also where no command looks on, and others are left alone. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { fileURLToPath } from "node:url";
import { type MpiInstallation, newestLaunchers, runJob, testUnderEveryMpi } from "../mpi_installations.ts";
import { lineOf } from "../script_lines.ts";
import { slowdown } from "../leavings.ts";
import { main } from "../system/command.ts";

/** A thread of a busy machine looks later, and is to have looked twice before a job ends. */
const patienceSeconds = () => Math.max(1, slowdown() / 4);
/** Of ranks that end at the same time, one is less than this behind on a busy machine. */
const PEACE_SECONDS = 6;
/** The thread looks each millisecond, so that it is at it when the process ends. */
const HASTE_SECONDS = 0.004;
const TIMES = 5;

const fixture = fileURLToPath(new URL("./fixtures/waits_unseen.ts", import.meta.url));

const run = (mpi: MpiInstallation, ranks: number, way: string, patience: number, ...limit: string[]) =>
  runJob(mpi, ranks, ["run", "-A", "--no-check", fixture, way, ...limit], {
    environment: { DISTMATH_PATIENCE_SECONDS: String(patience) },
  });

const lines = {
  receives: lineOf(fixture, "world.receive(").source,
  starts: lineOf(fixture, "initialize({ // starts").source,
  awaits: lineOf(fixture, "world.barrier(); // waits").source,
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

for (const [way, isEnded, who, ranks] of TOLD) {
  testUnderEveryMpi(`under a launcher alone it is told where ranks wait, and the job goes on: ${way}`, async (mpi) => {
    const patience = patienceSeconds();
    const { code, output } = await run(mpi, 2, way, patience);
    assertEquals([code !== 0, output.match(/is done/g)?.length ?? 0], isEnded ? [true, 0] : [false, 2], output);
    assertEquals(output.includes("fault at"), isEnded, output);
    const told = RegExp(
      `^distmath: rank ${who} has waited for (\\d+) s; the ranks of this machine are here:\\n {2}${
        ranks.join("\\n {2}")
      }\\n` +
        "The job goes on. timeoutSeconds",
      "gm",
    );
    const seconds = Array.from(output.matchAll(told), ([, seconds]) => Number(seconds));
    assert(seconds.length >= 2, output);
    // Each time twice as long as before, and a look later at the most, which a busy machine may delay.
    seconds.forEach((waited, i) => assert(waited >= Math.floor(patience * 2 ** i), output));
    assertEquals(output.match(/has waited for/g)?.length, seconds.length, "one rank tells, and in whole");
  });
}

/** By the argument: what rank 0 has not done yet, what is said of it, and where rank 1 waits meanwhile. */
const LATE: [way: string, what: string, late: string, wait: string][] = [
  ["start late", "started MPI", "a rank that has not started MPI", "MPI_Init"],
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

testUnderEveryMpi(
  "under a launcher alone nothing is said of ranks that work for long between two calls",
  async (mpi) => {
    const { code, output } = await run(mpi, 2, "work for long", PEACE_SECONDS);
    assertEquals([code, output.match(/is done/g)?.length], [0, 2], output);
    assert(!output.includes("has waited"), output);
  },
);

for (const mpi of newestLaunchers) {
  Deno.test(`where there is a time limit, that alone is told of [${mpi.name}]`, async () => {
    const { code, output } = await run(mpi, 2, "receive from each other", patienceSeconds(), "3");
    assertEquals(code, 124, output);
    assertMatch(output, /rank 0 has waited for more than 3 s \(timeoutSeconds\)/);
    assert(!output.includes("The job goes on"), output);
  });

  Deno.test(`where a command looks on, it alone tells [${mpi.name}]`, async () => {
    const patience = patienceSeconds();
    const env = { DISTMATH_PATIENCE_SECONDS: String(patience) };
    const job = ["run", "--mpirun", mpi.mpirun, "-n", "2", fixture, "wait for one that works"];
    const { code, stderr } = await main(job, { env });
    assertEquals(code, 0, stderr);
    const seconds = Array.from(stderr.matchAll(/rank 1 has waited for (\d+) s/g), ([, seconds]) => Number(seconds));
    assert(seconds.length >= 2, stderr);
    // A second one would tell at the same times.
    seconds.slice(1).forEach((waited, i) => assert(waited >= Math.floor(patience * 2 ** (i + 1)), stderr));
  });

  Deno.test(`a job ends as ever while a thread looks at its ranks [${mpi.name}]`, async () => {
    for (let i = 0; i < TIMES; i++) {
      const { code, output, left } = await run(mpi, 2, "end at once", HASTE_SECONDS);
      assertEquals([code, output.match(/is done/g)?.length, left], [0, 2, []], output);
      const failed = await run(mpi, 2, "fail later", HASTE_SECONDS);
      assertEquals(failed.code, 1, failed.output);
      assertMatch(failed.output, /broken on purpose/);
    }
  });
}
