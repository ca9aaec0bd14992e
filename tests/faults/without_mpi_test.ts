/** Jobs that were started without MPI: they join or say why not, exchange, and end as a whole. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { finish, start } from "../system/command.ts";
import { freePort, runJobByHand, runRank, runRanks, variablesOf } from "../system/ranks_by_hand.ts";
import { assertCleanEnd } from "./clean_end.ts";

const script = fileURLToPath(new URL("./fixtures/without_mpi.ts", import.meta.url));
const run = ["run", "-A", "--no-check"];

const ofRank = (...args: string[]) => [...run, script, ...args];

Deno.test("ranks without MPI exchange what agreements and arrays take, and say what needs MPI", async () => {
  const { ranks, result } = await runJobByHand(3, ofRank("exchanges"));
  assertEquals(result.left, []);
  ranks.forEach(({ code, output }, rank) => {
    assertEquals(code, 0, output);
    const lines = output.split("\n").filter((line) => line !== "" && !line.startsWith("joined"));
    // From each rank as many entries as the product of both numbers, after those for lower ranks.
    const received = [0, 1, 2].flatMap((from) =>
      Array.from({ length: rank * from }, (_, i) => 100 * from + from * (rank * (rank - 1) / 2) + i)
    );
    assertEquals(lines.slice(0, 6), [
      '"from 1"',
      "[0,1,2]",
      // A product goes over 32 bits, as C's does.
      JSON.stringify(
        [[6, 393_222], [6, Math.imul(Math.imul(65_537, 131_074), 196_611)], [1, 65_537], [3, 196_611], [1, 1], [1, 1]]
          .concat([[1, 1], [0, 0], [3, 196_611], [0, 0]]),
      ),
      JSON.stringify([[0, 1, 2].reduce((sum, i) => Math.fround(sum + Math.fround(0.1 + i)), 0)]),
      `"${BigInt.asIntN(64, 2n ** 40n * (2n ** 40n + 1n) * (2n ** 40n + 2n))}"`,
      JSON.stringify(received),
    ], output);
    assertEquals(lines.slice(6, 9), ["[0,0,1,900000]", "[3,[0,1,2],[0,1,2]]", '["alone"]'], output);
    for (const [i, name] of ["MPI_Send", "MPI_Comm_split", "MPI_Ibarrier"].entries()) {
      assertStringIncludes(lines[9 + i], `"${name} needs MPI, and this job was started`, output);
    }
  });
});

Deno.test("ranks without MPI in different calls learn it, all of them, and go on in step", async () => {
  for (const { code, output } of await runRanks(3, ofRank("mismatch"))) {
    assertEquals(code, 0, output);
    assertStringIncludes(
      output,
      "\nCollectiveError: The ranks are in different calls: MPI_Allreduce of 1 float64 by sum on ranks 0, 2; " +
        "MPI_Barrier on rank 1. [1]\n",
    );
    assertStringIncludes(output, "\n3 went on\n");
  }
});

Deno.test("parts without MPI are compared with what the ranks expect, and refused on all of them", async () => {
  const ranks = await runRanks(3, ofRank("parts"));
  for (const [rank, { code, output }] of ranks.entries()) {
    assertEquals(code, 0, output);
    assertEquals(output.split("\n").filter((line) => line !== "" && !line.startsWith("joined")), [
      "[1,2]",
      `[${(rank + 2) % 3}]`,
      "RangeError: MPI_Allgatherv: rank 0 has 2 entries for rank 1, which expects 0 from it. Pass the same counts on all ranks.",
      "RangeError: MPI_Alltoallv: rank 0 has 1 entries for rank 1, which expects 0 from it. Have its receiveCounts be " +
      "what the others send to it.",
      "ConfigurationError: MPI_Allgather among all ranks in another order needs MPI, and this job was started without it, " +
      "by RANK and WORLD_SIZE, as torchrun does. Start the script by mpirun (deno task run -n 4 script.ts finds it) " +
      "where that is needed.",
      "[3]",
    ], output);
  }
});

for (
  const [way, code, words] of [
    ["killed", 1, "distmath: rank 1 has ended, or cannot be reached any more. The job ends with exit code 1."],
    ["throws", 1, "distmath: rank 1 has ended, or cannot be reached any more. The job ends with exit code 1."],
    ["exits", 3, "distmath: rank 1 has ended the job, with exit code 3."],
    ["aborts", 5, "distmath: rank 1 has ended the job, with exit code 5."],
  ] as const
) {
  Deno.test(`a rank ends its job without MPI: it ${way === "killed" ? "is killed" : way}`, async () => {
    const { ranks, result } = await runJobByHand(3, ofRank(way), { FAULTY: "1" });
    assertCleanEnd(result, { rank: 1, why: words, code });
    if (way === "throws") assertStringIncludes(ranks[1].output, "Error: broken on purpose");
    assertEquals(ranks.map(({ code }) => code), [code, way === "killed" ? 137 : code, code], result.output);
    for (const { output } of [ranks[0], ranks[2]]) assertStringIncludes(output, words);
  });
}

Deno.test("a rank of a job without MPI that leaves while others wait for it ends the job", async () => {
  const env = { FAULTY: "1", DISTMATH_PATIENCE_SECONDS: "1" };
  const { ranks, result } = await runJobByHand(2, ofRank("leaves"), env);
  const why =
    /rank 0 has waited for more than 1 s in MPI_Barrier at without_mpi\.ts:\d+:\d+ for rank 1, which has ended/;
  assertCleanEnd(result, { rank: 1, why, code: 1, extraSeconds: 1 });
  assertEquals(ranks[1].code, 1, result.output);
});

const LATE = /rank [02] has waited for more than 1 s \(timeoutSeconds\) in MPI_Barrier at without_mpi\.ts:\d+:\d+;/;
const WHERE = /^ {2}rank 1 has not arrived: it is in no call that waits/m;

Deno.test("a time limit ends a job without MPI whose ranks wait for one that does not come", async () => {
  const { ranks, result } = await runJobByHand(3, ofRank("late", "1"), { FAULTY: "1" });
  assertCleanEnd(result, { rank: 1, why: LATE, extraSeconds: 1 });
  assertMatch(result.output, WHERE);
  // Both that wait may find it first.
  assert([ranks[0], ranks[2]].some(({ code }) => code === 124), result.output);
  for (const { code } of ranks) assert([1, 124].includes(code), result.output);
});

Deno.test("a time limit ends the ranks without MPI that wait for one that is stopped", async () => {
  const port = freePort();
  const [first, stopped, last] = [0, 1, 2].map((rank) =>
    start(Deno.execPath(), ofRank("stopped", "1"), { env: { ...variablesOf(rank, 3, port), FAULTY: "1" } })
  );
  const ended = await Promise.all([finish(first, 30), finish(last, 30)]);
  const output = ended.map(({ stdout, stderr }) => stdout + stderr).join("");
  // As torchrun does: on a rank that is stopped only who has started it can have a hold.
  stopped.kill("SIGKILL");
  await finish(stopped);
  assertMatch(output, LATE);
  assertMatch(output, WHERE);
  assert(ended.some(({ code }) => code === 124) && ended.every(({ code }) => [1, 124].includes(code)), output);
});

Deno.test("ranks without MPI join beside strangers, and refuse those of other jobs", async () => {
  const port = freePort();
  const env = { DISTMATH_JOIN_SECONDS: "60" };
  const first = runRank(ofRank("mismatch"), { ...variablesOf(0, 2, port), ...env });
  const [hello, silent] = [await connectTo(port), await connectTo(port)];
  await hello.write(new TextEncoder().encode("GET / HTTP/1.1\r\n\r\n"));
  assertEquals(await hello.read(new Uint8Array(1)), null);
  const join = (rank: number, size: number) =>
    runRank(ofRank("mismatch"), { ...variablesOf(rank, size, port), ...env });
  const other = await join(1, 3);
  assertEquals(other.code, 1, other.output);
  assertMatch(
    other.output,
    /ConfigurationError: .*rank 1 on .* belongs to 3 ranks, but at localhost:\d+ .* 2 ranks meet/,
  );
  const twice = await join(0, 2);
  assertMatch(twice.output, /ConfigurationError: .*rank 0, started once more on .*, is at localhost:\d+ .* already/);
  for (const { code, output } of await Promise.all([first, join(1, 2)])) assertEquals(code, 0, output);
  hello.close();
  silent.close();
});

/** Connect as soon as somebody listens. */
async function connectTo(port: number): Promise<Deno.Conn> {
  for (let tries = 0;; tries++) {
    try {
      return await Deno.connect({ hostname: "127.0.0.1", port });
    } catch (error) {
      if (tries > 600) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

Deno.test("ranks without MPI that cannot join say why", async () => {
  const port = freePort();
  const fail = async (env: Record<string, string>, text: RegExp) => {
    const { code, output } = await runRank(ofRank(""), { ...variablesOf(0, 2, port), ...env });
    assertEquals(code, 1, output);
    assertMatch(output, text);
  };
  // Another program has the port: it closes what connects.
  const other = Deno.listen({ hostname: "127.0.0.1", port: port + 1 });
  const answer = (async () => {
    for await (const connection of other) connection.close();
  })();
  await Promise.all([
    fail(
      { MASTER_ADDR: "", WORLD_SIZE: "2" },
      /started without MPI, .* MASTER_ADDR is not set\. Start each rank by torchrun/,
    ),
    fail({ RANK: "2" }, /RANK is "2", it must be a whole number from 0 to 1\./),
    fail({ MASTER_PORT: "port" }, /MASTER_PORT is "port", it must be a whole number from 1 to 65535\./),
    fail(
      { MASTER_ADDR: "no such host" },
      /MASTER_ADDR is "no such host", and this machine knows no address by that name/,
    ),
    fail(
      { DISTMATH_JOIN_SECONDS: "1" },
      /rank 1 of 2 did not come to localhost:\d+ \(MASTER_ADDR, MASTER_PORT\) within 1 s/,
    ),
    fail(
      { DISTMATH_PORT: String(port + 1) },
      /what answers at localhost:\d+ \(MASTER_ADDR, DISTMATH_PORT\) is no rank/,
    ),
    // An address for documentation, which is nobody's.
    fail(
      { MASTER_ADDR: "192.0.2.1", DISTMATH_JOIN_SECONDS: "1" },
      /reached nobody at 192\.0\.2\.1:\d+ .* within 1 s|what answers at 192\.0\.2\.1:\d+ .* is no rank/,
    ),
  ]);
  other.close();
  await answer;
});
