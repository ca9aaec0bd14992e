/** Ranks that work are left alone, and where a time limit or a command tells of waits, these alone do. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { PRESENCE_PREFIX, PRESENCE_VARIABLE } from "../../ffi/mpi/presence.ts";
import { LAYOUT } from "../../ffi/mpi/presence_page.ts";
import { newestLaunchers, runPrograms, testUnderEveryMpi } from "../mpi_installations.ts";
import { main } from "../system/command.ts";
import { fixture, patienceSeconds, run } from "./unseen_waits.ts";

/** Of ranks that end at the same time, one is less than this behind on a busy machine. */
const PEACE_SECONDS = 6;
/** The thread looks each millisecond, so that it is at it when the process ends. */
const HASTE_SECONDS = 0.004;
const TIMES = 5;

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

testUnderEveryMpi(
  "where ranks cannot share memory, it is said that nobody looks on, and the job goes on",
  async (mpi) => {
    const place = `${PRESENCE_PREFIX}${crypto.randomUUID()}.${LAYOUT}`;
    const script = `import { initialize } from ${JSON.stringify(new URL("../../mod.ts", import.meta.url).href)};
    using runtime = initialize({ device: "cpu" });
    runtime.communicator.barrier();
    console.log("is done");`;
    // What is in its place cannot be opened; the job's shared memory may be its own.
    const command = ["sh", "-c", 'mkdir -p "$1"; exec "$2" eval --no-check "$3"', "sh", place, Deno.execPath(), script];
    const environment = { [PRESENCE_VARIABLE]: place };
    const { code, output } = await runPrograms(mpi, [{ ranks: 2, command }], { environment });
    assertEquals([code, output.match(/is done/g)?.length], [0, 2], output);
    const told = output.split("\n").filter((line) => line.includes("share no memory"));
    assertEquals(told.length, 1, output);
    assertStringIncludes(told[0], `${place} cannot be opened; is /dev/shm there, and writable?`);
  },
);
