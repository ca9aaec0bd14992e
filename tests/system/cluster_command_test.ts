/** `cluster-test`: results of all ranks merged, JUnit XML, time limits, exit codes; under every MPI. */
import { assert, assertEquals, assertMatch, assertNotEquals, assertStringIncludes } from "@std/assert";
import type { FileResult } from "../../scripts/results/merge.ts";
import { launchers, newestLaunchers, slowdown } from "../mpi_installations.ts";
import { finish, isMade, main, root, start, startMain, temporaryFolder } from "./command.ts";

const fixtures = `${root}tests/system/fixtures`;
const NONE = { passed: 0, failed: 0, skipped: 0, "not run": 0, "filtered out": 0 };
const asRoot = { OMPI_ALLOW_RUN_AS_ROOT: "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1" };

for (const mpi of launchers) {
  const clusterTest = (...args: string[]) =>
    main(["cluster-test", "--no-check", "--mpirun", mpi.mpirun, ...args], { cwd: fixtures });

  Deno.test(`cluster-test runs a file on several numbers of ranks [${mpi.name}]`, async () => {
    const { code, stdout, stderr } = await clusterTest("--ranks", "1,2", "passing_test.ts");
    assertEquals(code, 0, stdout + stderr);
    assertStringIncludes(stdout, "passing_test.ts on 1 rank ");
    assertStringIncludes(stdout, "passing_test.ts on 2 ranks ");
    assertStringIncludes(stdout, "  the ranks agree … ok");
    assertEquals(stdout.trim().split("\n").at(-1), "2 passed, 0 failed");
  });

  Deno.test(`cluster-test names the failing ranks and shows their output [${mpi.name}]`, async () => {
    using folder = temporaryFolder();
    const report = `${folder.path}/report.xml`;
    const { code, stdout } = await clusterTest("--ranks", "2", "--junit", report, "fails.ts");
    assertEquals(code, 1);
    assertStringIncludes(stdout, "  passes everywhere … ok");
    assertStringIncludes(stdout, "  fails on rank 1 … FAILED on rank 1");
    assertStringIncludes(stdout, "    Error: broken on purpose");
    assertStringIncludes(stdout, "  is left out … skipped: it is marked to be ignored");
    assertEquals(stdout.trim().split("\n").at(-1), "1 passed, 1 failed, 1 skipped");
    const xml = Deno.readTextFileSync(report);
    assertStringIncludes(xml, '<testsuites tests="3" failures="1" errors="0" skipped="1">');
    assertMatch(xml, /<testcase name="fails on rank 1"[^>]*><failure message="failed on rank 1">Error: broken on/);
  });

  Deno.test(`cluster-test knows cases, attempts and hooks of Deno's tests [${mpi.name}]`, async () => {
    const { code, stdout } = await clusterTest("--ranks", "1", "deno_forms.ts");
    assertEquals(code, 1, stdout);
    for (const name of ["case 1", "case 2", "passes at the second attempt"]) {
      assertEquals(stdout.split(`  ${name} … ok\n`).length, 2, stdout);
    }
    assertStringIncludes(stdout, "  case 3 … skipped: it is marked to be ignored");
    assertMatch(stdout, /^ {2}has no database … FAILED on rank 0\n(.*\n)*?.*no database/m);
    assertEquals(stdout.trim().split("\n").at(-1), "3 passed, 1 failed, 1 skipped", stdout);
  });

  Deno.test(`cluster-test names cases that have not begun, and runs them after one that dies [${mpi.name}]`, async () => {
    const named = (index: number, name: string, extents: string) =>
      `  case ${index} of 100%, the ${name} with ${extents} extents ([object Object]) … `;
    const { code, stdout } = await clusterTest("--ranks", "1", "dying_case.ts");
    assertEquals(code, 1, stdout);
    assertStringIncludes(stdout, `${named(0, "first", "2")}ok\n`);
    assertStringIncludes(stdout, `${named(1, "second", "undefined")}FAILED on rank 0\n`);
    assertStringIncludes(stdout, `${named(2, "third", "undefined")}ok\n`);
  });

  Deno.test(`cluster-test tells of the rank that failed, with its stack, and once [${mpi.name}]`, async () => {
    using folder = temporaryFolder();
    const [junit, json, tap] = ["a.xml", "a.json", "a.tap"].map((name) => `${folder.path}/${name}`);
    const reports = ["--junit", junit, "--json", json, "--tap", tap];
    const { code, stdout } = await clusterTest("--ranks", "2", ...reports, "one_rank_fails.ts");
    assertEquals(code, 1);
    assertStringIncludes(stdout, "  fails on rank 1 alone … FAILED on rank 1\n    Error: broken on purpose\n");
    const { jobs: [{ tests: [test] }] } = JSON.parse(Deno.readTextFileSync(json));
    assertEquals(test.failedRanks, [1]);
    assertStringIncludes(Deno.readTextFileSync(junit), 'message="failed on rank 1"');
    for (const text of [stdout, ...[junit, json, tap].map((path) => Deno.readTextFileSync(path))]) {
      assertEquals(text.split("one_rank_fails.ts:4:").length - 1, 1, text);
      assert(!text.includes("CollectiveError"), text);
    }
  });

  Deno.test(`cluster-test blames the rank that an uncaught error ends, and shows that [${mpi.name}]`, async () => {
    const env = { DISTMATH_TEST_SECONDS: String(Math.ceil(4 * slowdown())) };
    const args = ["cluster-test", "--no-check", "--mpirun", mpi.mpirun, "--ranks", "2", "uncaught.ts"];
    const { code, stdout } = await main(args, { cwd: fixtures, env });
    assertEquals(code, 1);
    assertMatch(
      stdout,
      /^ {2}leaves a timer behind … FAILED on rank 1\n(.*\n)?.*error: Uncaught Error: thrown late\n/m,
    );
    assertEquals(stdout.match(/throwLate \(.*uncaught\.ts:13:9\)/g)?.length, 1, stdout);
    assertStringIncludes(stdout, "  comes after it … ok");
    assertEquals(stdout.trim().split("\n").at(-1), "1 passed, 1 failed");
  });

  Deno.test(`cluster-test names a test that hangs after one that failed, and runs what comes after it [${mpi.name}]`, async () => {
    using folder = temporaryFolder();
    const report = `${folder.path}/report.xml`;
    // Before it the ranks have to come to the test that hangs.
    const limit = String(Math.min(40, Math.ceil(2 + 3 * slowdown())));
    const { code, stdout } = await clusterTest("--ranks", "2", "--timeout", limit, "--junit", report, "hangs.ts");
    assertEquals(code, 1);
    assertStringIncludes(stdout, "  passes everywhere … ok");
    assertStringIncludes(stdout, "  fails on rank 0 … FAILED on rank 0");
    assertStringIncludes(stdout, "  hangs on rank 1 … FAILED on rank 1");
    assertStringIncludes(
      stdout,
      `rank 1 did not come to the end of the test: the job did not end within ${limit} s: ` +
        'rank 0 was waiting for the others at the end of "waits for rank 1", rank 1 was in "hangs on',
    );
    // In a new job.
    assertStringIncludes(stdout, "  waits for rank 1 … ok");
    assertStringIncludes(stdout, "  is left out on 2 ranks … skipped: for 3 ranks");
    assertEquals(stdout.trim().split("\n").at(-1), "2 passed, 2 failed, 1 skipped");
    const xml = Deno.readTextFileSync(report);
    assertStringIncludes(xml, '<testsuites tests="5" failures="2" errors="0" skipped="1">');
    assertMatch(xml, /<testcase name="waits for rank 1" classname="hangs\.ts on 2 ranks" time="\d+\.\d{3}"\/>/);
  });

  Deno.test(`cluster-test names a test in which a rank dies, and runs what comes after it [${mpi.name}]`, async () => {
    for (const how of ["3", "0", "signal"]) {
      const args = ["cluster-test", "--no-check", "--mpirun", mpi.mpirun, "--ranks", "2", "dies.ts"];
      const { code, stdout } = await main(args, { cwd: fixtures, env: { HOW: how } });
      assertEquals(code, 1);
      assertStringIncludes(stdout, "  passes everywhere … ok");
      assertMatch(stdout, /^ {2}fails on rank 1 … FAILED on /m);
      assertMatch(stdout, /^ {2}dies on rank 1 … FAILED on (rank 1|ranks 0, 1)$/m);
      // Where the other rank was, and a new job.
      assertMatch(stdout, /^ {6}rank 0 waits in MPI_Barrier at dies\.ts:\d+:\d+, collective call \d+$/m);
      assertStringIncludes(stdout, "  comes after it … ok");
      assertEquals(stdout.trim().split("\n").at(-1), "2 passed, 2 failed");
      if (how !== "signal") assertStringIncludes(stdout, "the last words");
    }
  });

  if (!newestLaunchers.includes(mpi)) continue;
  Deno.test(`cluster-test names what would end a rank or MPI, and goes on at once [${mpi.name}]`, async () => {
    using folder = temporaryFolder();
    const report = `${folder.path}/a.json`;
    const { code, stdout } = await clusterTest("--ranks", "1,2", "--json", report, "ends_itself.ts");
    assertEquals(code, 1);
    const { jobs } = JSON.parse(Deno.readTextFileSync(report)) as { jobs: FileResult[] };
    for (const { ranks, tests } of jobs) {
      const told = new Map(tests.map((test) => [test.name, test]));
      const last = ranks - 1;
      for (
        const [name, words] of [
          ["exits with 0", `rank ${last} called Deno.exit(0) or process.exit(0) in the test`],
          ["exits with 5", `rank ${last} called Deno.exit(5) or process.exit(5) in the test`],
          ["exits as in Node", `rank ${last} called Deno.exit(6) or process.exit(6) in the test`],
          ["finalizes", `rank ${last} called finalize() in the test. Leave it out`],
        ]
      ) {
        assertEquals(told.get(name)?.failedRanks, [last], name);
        assertStringIncludes(told.get(name)!.details, words);
      }
      assertStringIncludes(told.get("finalizes a runtime of its own")!.details, "rank 0 called finalize() in the test");
      assertStringIncludes(
        told.get("exits without a sanitizer")!.details,
        "Deno.exit(7) or process.exit(7) was called",
      );
      assertMatch(told.get("exits without a sanitizer")!.details, /at .*ends_itself\.ts:18:/);
      for (const name of ["meets the others", "meets the others in a new job"]) {
        assertEquals(told.get(name)?.outcome, "passed", name);
      }
    }
    assert(!/has waited/.test(stdout), stdout);
  });

  Deno.test(`a skipped test has its name on every number of ranks, and its reason in all reports [${mpi.name}]`, async () => {
    using folder = temporaryFolder();
    const [junit, json, tap] = ["a.xml", "a.json", "a.tap"].map((name) => `${folder.path}/${name}`);
    const reports = ["--junit", junit, "--json", json, "--tap", tap];
    const { code, stdout } = await clusterTest("--ranks", "1,2", ...reports, "skips.ts");
    assertEquals(code, 0, stdout);
    assertEquals(stdout.trim().split("\n").at(-1), "1 passed, 0 failed, 5 skipped");
    const { jobs } = JSON.parse(Deno.readTextFileSync(json));
    const names = ["is for one rank", "says why", "says why in its name"];
    for (const { tests } of jobs) assertEquals(tests.map(({ name }: { name: string }) => name), names);
    const reasons = ["for 1 rank", "no such device", "no compiler"];
    assertEquals(jobs[1].tests.map(({ details }: { details: string }) => details), reasons);
    const [xml, points] = [junit, tap].map((path) => Deno.readTextFileSync(path));
    for (const [i, name] of names.entries()) {
      const reason = reasons[i];
      assertStringIncludes(stdout, `  ${name} … skipped: ${reason}\n`);
      assertStringIncludes(xml, `name="${name}" classname="skips.ts on 2 ranks"><skipped message="${reason}"/>`);
      assertStringIncludes(points, ` - skips.ts on 2 ranks: ${name} # SKIP ${reason}\n`);
    }
    // A name is found where it is skipped as well.
    const one = await clusterTest("--ranks", "2", "--filter", "/^is for one rank$/", "skips.ts");
    assertEquals(one.code, 0, one.stderr);
    assertEquals(one.stdout.trim().split("\n").at(-1), "0 passed, 0 failed, 1 skipped, 2 filtered out");
    assertStringIncludes(one.stdout, "  says why … filtered out: --filter /^is for one rank$/\n");
    // Deno has no other place for the reason.
    const flags = ["test", "-A", "--no-check", "skips.ts"];
    const plain = await finish(
      start(mpi.mpirun, ["-n", "1", Deno.execPath(), ...flags], { cwd: fixtures, env: asRoot }),
    );
    assertStringIncludes(plain.stdout, "says why (skipped: no such device) ... ignored");
  });

  Deno.test(`cluster-test has failed where there are no tests, or a filter matches none [${mpi.name}]`, async () => {
    const empty = await clusterTest("--ranks", "2", "empty.ts");
    assertEquals(empty.code, 1);
    assertStringIncludes(empty.stdout, "it has no tests");
    assertEquals(empty.stdout.trim().split("\n").at(-1), "0 passed, 1 failed");
    const none = await clusterTest("--ranks", "2", "--filter", "nothing", "passing_test.ts", "fails.ts");
    assertEquals(none.code, 1);
    assertEquals(none.stdout.trim().split("\n").at(-1), "0 passed, 0 failed, 4 filtered out");
    assertStringIncludes(none.stderr, 'error: --filter "nothing" matches the name of no test in these files');
    // Another machine may have the shard with those that match.
    const shard = await clusterTest("--ranks", "2", "--filter", "nothing", "--shard", "1/2", "fails.ts", "empty.ts");
    assertEquals(shard.code, 0, shard.stderr);
    assertStringIncludes(shard.stdout, '--filter "nothing" matches the name of no test in this shard');
    const some = await clusterTest("--ranks", "2", "--filter", "/agree$/", "passing_test.ts", "fails.ts");
    assertEquals(some.code, 0, some.stdout);
    assertEquals(some.stdout.trim().split("\n").at(-1), "1 passed, 0 failed, 3 filtered out");
  });
}

const [mpi] = newestLaunchers;
const onNewest = (args: string[], env: Record<string, string> = {}) =>
  main(["cluster-test", "--no-check", "--mpirun", mpi.mpirun, ...args], { cwd: fixtures, env });

Deno.test("assertions hold on all ranks or fail on all", async () => {
  const { code, stdout } = await onNewest(["--ranks", "3", "assertions_test.ts"], { DISTMATH_DEVICE: "cpu" });
  assertEquals(code, 0, stdout);
  assertStringIncludes(stdout, "needs more GPUs than there are … skipped: for 99 GPUs");
  assertEquals(stdout.trim().split("\n").at(-1), "10 passed, 0 failed, 1 skipped");
});

for (const mpi of newestLaunchers) {
  Deno.test(`a test that hangs tells where each rank stands, and in which line [${mpi.name}]`, async () => {
    const args = ["cluster-test", "--no-check", "--mpirun", mpi.mpirun, "--ranks", "3", "mismatched_test.ts"];
    const { code, stdout } = await main(args, { cwd: fixtures });
    assertEquals(code, 1);
    const calls =
      /call MPI_Allreduce at mismatched_test\.ts:13:.* rank 1 has called MPI_Allgather at mismatched_test\.ts:11:/;
    assertMatch(stdout, /calls that do not match … FAILED on rank 0\n.*CollectiveError: /);
    assertMatch(stdout, calls);
    const place = "calls that do not match > MPI_Allgather at mismatched_test.ts:11:";
    assertStringIncludes(stdout, `rank 1 has waited for more than 3 s (timeoutSeconds) in ${place}`);
    assertMatch(
      stdout,
      /rank 1 waits in MPI_Allgather at mismatched_test\.ts:11:.*, collective call \d+\n.*rank 2 has not arrived: it is in no call that waits; its last one was MPI_Barrier at mismatched_test\.ts:10:.*, collective call \d+\n/,
    );
  });
}

for (const mpi of newestLaunchers) {
  Deno.test(`cluster-test blames the rank that never ends a test, not the one that waits for it [${mpi.name}]`, async () => {
    const args = ["cluster-test", "--no-check", "--mpirun", mpi.mpirun, "--ranks", "2", "spins.ts"];
    const { code, stdout } = await main(args, { cwd: fixtures });
    assertEquals(code, 1);
    assertStringIncludes(stdout, "  spins on rank 1 … FAILED on rank 1\n");
    assertStringIncludes(
      stdout,
      "rank 1 did not come to the end of the test: the job ended with exit code 1: " +
        'rank 0 was waiting for the others at the end of "spins on rank 1", rank 1 was in "spins on rank 1"\n' +
        '    [rank 0] rank 0 has waited 3 s for the other ranks to end "spins on rank 1"; the job ends.\n',
    );
    // The calls are the runner's, which are in no line of the script.
    assertMatch(
      stdout,
      /^ {6}rank 0 waits in MPI_Ibarrier, collective call \d+\n {6}rank 1 has not arrived: it is in no call that waits; its last one was MPI_Allgatherv, collective call \d+$/m,
    );
    assertEquals(stdout.trim().split("\n").at(-1), "1 passed, 1 failed");
  });
}

Deno.test("cluster-test runs a job that failed again, and writes JSON and TAP", async () => {
  using folder = temporaryFolder();
  const [json, tap, seen] = ["a.json", "a.tap", "seen"].map((name) => `${folder.path}/${name}`);
  Deno.writeTextFileSync(seen, "");
  const args = ["--ranks", "2", "--retries", "2", "--json", json, "--tap", tap, "flaky_test.ts"];
  const { code, stdout } = await onNewest(args, { FLAKY: seen });
  assertEquals(code, 0, stdout);
  assertMatch(stdout, /passes the second time … FAILED on rank/);
  assertStringIncludes(stdout, "flaky_test.ts on 2 ranks, attempt 2");
  const { jobs: [job], counts } = JSON.parse(Deno.readTextFileSync(json));
  assertEquals([job.file, job.ranks, job.attempts, counts.passed], ["flaky_test.ts", 2, 2, 1]);
  assertEquals(
    Deno.readTextFileSync(tap),
    `TAP version 14\n1..1\nok 1 - flaky_test.ts on 2 ranks: passes the second time\n  ---\n  failedBefore: |2\n${
      job.tests[0].failedBefore.replace(/^/gm, "    ")
    }\n  ...\n`,
  );
});

Deno.test("cluster-test writes the other reports, and sums up, where one cannot be written in the end", async () => {
  using folder = temporaryFolder();
  const json = `${folder.path}/a.json`;
  const reports = ["--junit", "/dev/full", "--json", json];
  const { code, stdout, stderr } = await onNewest(["--ranks", "1", ...reports, "passing_test.ts"]);
  assertEquals([code, stdout.trim().split("\n").at(-1)], [1, "1 passed, 0 failed"]);
  assertMatch(stderr, /^error: cannot write \/dev\/full: No space left on device/m);
  assertEquals(JSON.parse(Deno.readTextFileSync(json)).counts.passed, 1);
});

Deno.test("cluster-test ends after a failure if it is told to, and says which tests did not run", async () => {
  using folder = temporaryFolder();
  const report = `${folder.path}/report.json`;
  const args = ["--ranks", "1,2", "--fail-fast", "--json", report, "empty.ts", "fails.ts", "throws.ts"];
  const { code, stdout } = await onNewest([...args, "--filter", "/on rank|left out/"]);
  assertEquals([code, stdout.trim().split("\n").at(-1)], [1, "0 passed, 1 failed, 7 not run, 2 filtered out"]);
  const leftOut = stdout.match(/^ {2}(.*) … not run: --fail-fast, after empty\.ts on 1 rank(; it has no tests)?$/gm);
  assertEquals(leftOut?.length, 7, stdout);
  assertMatch(
    stdout,
    /^fails\.ts on 2 ranks.*\n {2}passes everywhere … filtered out.*\n {2}fails on rank 1 … not run/m,
  );
  const { jobs } = JSON.parse(Deno.readTextFileSync(report)) as { jobs: FileResult[] };
  const told = jobs.slice(1).flatMap(({ file, ranks, tests }) =>
    tests.map(({ name, outcome, details }) => [file, ranks, name, outcome, details])
  );
  const details = "--fail-fast, after empty.ts on 1 rank";
  const ofFails = (ranks: number) => [
    ["fails.ts", ranks, "passes everywhere", "filtered out", "--filter /on rank|left out/"],
    ["fails.ts", ranks, "fails on rank 1", "not run", details],
    ["fails.ts", ranks, "is left out", "not run", details],
  ];
  const whole = (
    file: string,
    ranks: number,
  ) => [file, ranks, "(the whole file)", "not run", `${details}; it has no tests`];
  assertEquals(told, [
    whole("empty.ts", 2),
    ...ofFails(1),
    ...ofFails(2),
    whole("throws.ts", 1),
    whole("throws.ts", 2),
  ]);
});

Deno.test("cluster-test that ends after a failure names the tests that did not run without a report, too", async () => {
  const { code, stdout } = await onNewest(["--ranks", "1,2", "--fail-fast", "empty.ts", "fails.ts"]);
  assertEquals([code, stdout.trim().split("\n").at(-1)], [1, "0 passed, 1 failed, 7 not run"]);
  for (const name of ["passes everywhere", "fails on rank 1", "is left out"]) {
    assertEquals(stdout.split(`  ${name} … not run: --fail-fast, after empty.ts on 1 rank\n`).length, 3, stdout);
  }
});

Deno.test("cluster-test says what of a file that did not run could not be loaded", async () => {
  using folder = temporaryFolder();
  const file = `${folder.path}/ends_test.ts`;
  Deno.writeTextFileSync(file, 'Deno.test("comes first", () => {});\nthrow new Error("no tables");\n');
  const { code, stdout } = await onNewest(["--ranks", "1", "--fail-fast", "empty.ts", file]);
  assertEquals([code, stdout.trim().split("\n").at(-1)], [1, "0 passed, 1 failed, 2 not run"], stdout);
  const details = "not run: --fail-fast, after empty.ts on 1 rank";
  assertStringIncludes(stdout, `  comes first … ${details}\n`);
  const fault = `the file could not be loaded: Error: no tables at file://${file}:2:7`;
  assertStringIncludes(stdout, `  (the whole file) … ${details}; ${fault}\n`);
});

Deno.test("cluster-test refuses two reports in one file, and to count what other machines run", async () => {
  using folder = temporaryFolder();
  const report = `${folder.path}/report`;
  for (
    const [args, words] of [
      [["--junit", report, "--json", report], `--junit and --json name the same file, ${report}`],
      [["--coverage", report, "--hosts", "elsewhere:2"], "name this host alone"],
    ] as const
  ) {
    const { code, stdout, stderr } = await onNewest(["--ranks", "1", ...args, "passing_test.ts"]);
    assertEquals([code, stdout], [2, ""], stderr);
    assertStringIncludes(stderr, words);
  }
});

Deno.test("cluster-test --coverage counts what any rank has run", async () => {
  using folder = temporaryFolder();
  const file = `${folder.path}/a_test.ts`;
  Deno.writeTextFileSync(
    `${folder.path}/by_rank.ts`,
    `export function byRank(rank: number): string {
  if (rank === 0) {
    return "first";
  }
  if (rank === 1) {
    return "second";
  }
  return "another";
}
`,
  );
  const rank = 'Number(Deno.env.get("OMPI_COMM_WORLD_RANK") ?? Deno.env.get("PMI_RANK"))';
  const test = `import { byRank } from "./by_rank.ts";\nDeno.test("runs its own lines", () => void byRank(${rank}));\n`;
  Deno.writeTextFileSync(file, test);
  const { code, stdout } = await onNewest(["--ranks", "2", "--coverage", `${folder.path}/coverage`, file]);
  assertEquals(code, 0, stdout);
  // One line of nine is the one that neither of the ranks came to; each alone leaves three.
  assertMatch(stdout, /by_rank\.ts \|.*\| +88\.9 \|/);
  assert(!stdout.includes("test_output.ts"), stdout);
});

Deno.test("cluster-test --coverage has nothing to count where nothing runs that counts, which is no failure", async () => {
  using folder = temporaryFolder();
  const coverage = `${folder.path}/coverage`;
  const file = `${folder.path}/plain_test.ts`;
  Deno.writeTextFileSync(file, 'Deno.test("passes", () => {});\n');
  for (const args of [["--shard", "2/2"], []]) {
    const { code, stdout } = await onNewest(["--ranks", "1", ...args, "--coverage", coverage, file]);
    assertEquals(code, 0, stdout);
    assertStringIncludes(stdout, "nothing was covered that counts");
  }
});

Deno.test("cluster-test checks types before it starts the ranks, and names the tests that do not run", async () => {
  using folder = temporaryFolder();
  const [wrong, right, report] = ["wrong_test.ts", "right_test.ts", "report.json"].map((name) =>
    `${folder.path}/${name}`
  );
  Deno.writeTextFileSync(
    wrong,
    'const text: number = "no number";\nDeno.test("never runs", () => console.log("a body", text));\n',
  );
  Deno.writeTextFileSync(right, 'Deno.test("never runs, either", () => console.log("a body"));\n');
  const files = ["wrong_test.ts", "right_test.ts"];
  const { code, stdout, stderr } = await main(["cluster-test", "--ranks", "1,2", "--json", report, ...files], {
    cwd: folder.path,
  });
  assertEquals(code, 1);
  assertStringIncludes(stderr, "type errors");
  assert(!stdout.includes("a body"), stdout);
  const lines = [1, 2].flatMap((ranks) => [
    [`wrong_test.ts on ${ranks} rank`, "  never runs … not run: the test files have type errors"],
    [`right_test.ts on ${ranks} rank`, "  never runs, either … not run: the test files have type errors"],
  ]);
  for (const [job, line] of lines) assertMatch(stdout, new RegExp(`^${job}.*\n${line}$`, "m"));
  assertEquals(stdout.trim().split("\n").at(-1), "0 passed, 0 failed, 4 not run");
  const { counts, jobs } = JSON.parse(Deno.readTextFileSync(report));
  assertEquals(counts, { ...NONE, "not run": 4 });
  assertEquals(
    (jobs as FileResult[]).map(({ ranks, tests }) => [ranks, ...tests.map(({ name }) => name)]),
    [[1, "never runs"], [2, "never runs"], [1, "never runs, either"], [2, "never runs, either"]],
  );
});

Deno.test("cluster-test tells errors of syntax, and files that are missing, from those of types", async () => {
  using folder = temporaryFolder();
  const [file, right] = ["wrong_test.ts", "right_test.ts"].map((name) => `${folder.path}/${name}`);
  Deno.writeTextFileSync(right, 'Deno.test("never runs", () => {});\n');
  for (
    const [text, words, why] of [
      [
        "const x = = 3;\n",
        "the test files have a syntax error",
        `SyntaxError: Expression expected at file://${file}:1:11`,
      ],
      [
        'import "./missing.ts";\n',
        "the test files cannot be loaded",
        `Module not found "file://${folder.path}/missing.ts". at file://${file}:1:8`,
      ],
    ]
  ) {
    Deno.writeTextFileSync(file, text);
    const { code, stdout, stderr } = await main(["cluster-test", "--ranks", "1", file, right]);
    assertEquals(code, 1);
    assertStringIncludes(stderr, `${file}:1:`);
    assert(stderr.endsWith(`error: ${words}\n`), stderr);
    assertStringIncludes(stdout, `  (the whole file) … not run: ${words}; the file could not be loaded: ${why}\n`);
    assertStringIncludes(stdout, `  never runs … not run: ${words}\n`);
    assertEquals(stdout.trim().split("\n").at(-1), "0 passed, 0 failed, 2 not run");
  }
});

Deno.test("cluster-test says why a file cannot be loaded", async () => {
  using folder = temporaryFolder();
  const file = `${folder.path}/wrong_test.ts`;
  for (
    const [text, words] of [
      ["await new Promise(() => {});\n", "error: Top-level await promise never resolved\n"],
      [`import { none } from "${root}mod.ts";\nnone();\n`, "does not provide an export named 'none'\n"],
    ]
  ) {
    Deno.writeTextFileSync(file, text);
    const { code, stdout } = await main(["cluster-test", "--no-check", "--ranks", "1,2", file]);
    assertEquals(code, 1);
    assertEquals(stdout.split(words).length, 3, stdout);
    assertMatch(stdout, /the job ended with exit code 1: rank 0 was gone before any test\n/);
    assertEquals(stdout.split(`${file}:1:`).length, 3, stdout);
    assert(!stdout.includes("Test failed"), stdout);
  }
});

Deno.test("cluster-test names the steps that failed, each once", async () => {
  const { code, stdout } = await main(["cluster-test", "--no-check", "--ranks", "2", "steps.ts"], { cwd: fixtures });
  assertEquals(code, 1);
  assertStringIncludes(
    stdout,
    '  has steps … FAILED on rank 1\n    in step "is the inner one, # 1": Error: on purpose\n',
  );
  assertStringIncludes(stdout, '    in step "comes second": Error: on purpose, too\n');
  assertEquals(stdout.match(/in step/g)?.length, 2, stdout);
  assert(!/test steps? failed|Test failed/.test(stdout), stdout);
  assertEquals(stdout.trim().split("\n").at(-1), "1 passed, 1 failed");
});

Deno.test("cluster-test stays in step behind errors that have no words or no end", async () => {
  using folder = temporaryFolder();
  const report = `${folder.path}/a.json`;
  const { code, stdout } = await onNewest(["--ranks", "2", "--json", report, "odd_errors.ts"]);
  assertEquals(code, 1, stdout);
  const { jobs: [{ tests }] } = JSON.parse(Deno.readTextFileSync(report)) as { jobs: FileResult[] };
  const names = ["a cycle of causes", "no text", "a symbol as message", "throws in its texts", "causes without end"];
  assertEquals(
    tests.map(({ name, outcome, failedRanks }) => [name, outcome, ...failedRanks]),
    [...names.flatMap((name) => [[name, "failed", 0], [`passes after ${name}`, "passed"]]), [
      "fails on 1",
      "failed",
      1,
    ]],
    stdout,
  );
  const told = (name: string) => tests.find((test) => test.name === name)!.details;
  assertMatch(told("a cycle of causes"), /^Error: a\n[^]*^Caused by: Error: b$/m);
  for (const name of names) assertNotEquals(told(name), "", name);
});

Deno.test("cluster-test knows tests by their names, whatever characters those have", async () => {
  using folder = temporaryFolder();
  const file = `${folder.path}/names_test.ts`;
  const names = [
    "nul \0",
    "esc \x1b[31m",
    "del \x7f",
    "c1 \x9b",
    "lone \ud800",
    "tab\t",
    "cr\r\n",
    "a\u2028b",
    "ï ☃ 𝄞",
  ];
  Deno.writeTextFileSync(
    file,
    `import { clusterTest } from "${root}src/testing/mod.ts";
     clusterTest("dies", ({ rank, communicator }) => {
       if (rank === 1) Deno.kill(Deno.pid, "SIGKILL");
       communicator.barrier();
     });
     for (const name of ${JSON.stringify(names)}) clusterTest(name, () => {});
     Deno.test("has its own name", ({ name }) => { if (name !== "has its own name") throw new Error(name); });`,
  );
  const { stdout } = await onNewest(["--ranks", "1,2", file]);
  const written = [
    "nul \\x00",
    "esc \\x1b[31m",
    "del \\x7f",
    "c1 \\x9b",
    "lone \ufffd",
    "tab\\t",
    "cr\\r\\n",
    "a\u2028b",
    "ï ☃ 𝄞",
    "has its own name",
  ];
  for (const name of written) assertEquals(stdout.split(`  ${name} … ok\n`).length, 3, `${name}\n${stdout}`);
  assertEquals(stdout.trim().split("\n").at(-1), "21 passed, 1 failed");
});

Deno.test("cluster-test runs what comes after a test that dies in several jobs where it is much", async () => {
  using folder = temporaryFolder();
  const file = `${folder.path}/many_test.ts`;
  Deno.writeTextFileSync(
    file,
    `Deno.test("dies", () => Deno.kill(Deno.pid, "SIGKILL"));
     for (let i = 0; i < 20; i++) Deno.test(i + "x".repeat(9000), () => {});`,
  );
  const { code, stdout, stderr } = await onNewest(["--ranks", "2", file]);
  assertEquals([code, stdout.trim().split("\n").at(-1)], [1, "20 passed, 1 failed"], stderr);
});

Deno.test("cluster-test tells of what has run where the next job cannot be started", async () => {
  using folder = temporaryFolder();
  const [file, mpirun, report] = ["a_test.ts", "mpirun", "a.json"].map((name) => `${folder.path}/${name}`);
  Deno.writeTextFileSync(
    file,
    `Deno.test("passes", () => {});
     Deno.test("dies", () => {
       Deno.removeSync("${mpirun}");
       Deno.kill(Deno.pid, "SIGKILL");
     });
     Deno.test("comes later", () => {});`,
  );
  Deno.writeTextFileSync(mpirun, `#!/bin/sh\nexec ${newestLaunchers[0].mpirun} "$@"\n`, { mode: 0o755 });
  const args = ["cluster-test", "--no-check", "--mpirun", mpirun, "--ranks", "1", "--json", report, file];
  const { code, stdout, stderr } = await main(args, { cwd: fixtures });
  assertEquals(code, 1, stdout + stderr);
  const { jobs: [{ tests }] } = JSON.parse(Deno.readTextFileSync(report)) as { jobs: FileResult[] };
  assertEquals(tests.map(({ name, outcome }) => [name, outcome]), [
    ["passes", "passed"],
    ["dies", "failed"],
    ["comes later", "not run"],
    ["(the whole file)", "failed"],
  ]);
  assertMatch(tests[3].details, /^the job for the tests that were not run could not be started: ./);
});

Deno.test("cluster-test takes no sign in the name of a file for a pattern", async () => {
  using folder = temporaryFolder();
  const names = ["a*b?_test.ts", "a[b]_test.ts", "a{b,c}_test.ts", "a\\b_test.ts", "a#b%20c_test.ts"];
  for (const name of [...names, "aab1_test.ts"]) {
    Deno.writeTextFileSync(`${folder.path}/${name}`, `Deno.test(${JSON.stringify(`is in ${name}`)}, () => {});\n`);
  }
  const { code, stdout } = await main(["cluster-test", "--ranks", "1,2", ...names], { cwd: folder.path });
  assertEquals(code, 0, stdout);
  for (const name of names) assertEquals(stdout.split(`  is in ${name} … ok\n`).length, 3, stdout);
  assertEquals(stdout.trim().split("\n").at(-1), `${2 * names.length} passed, 0 failed`);
});

/** A file whose second test takes long, once it has made a file. */
const takesLong = (begun: string) =>
  `Deno.test("passes", () => {});
   Deno.test("takes long", () => {
     Deno.writeTextFileSync(${JSON.stringify(begun)}, "");
     return new Promise((resolve) => setTimeout(resolve, 60_000));
   });
   Deno.test("comes later", () => {});`;

const startOnNewest = (...args: string[]) =>
  startMain(["cluster-test", "--no-check", "--mpirun", newestLaunchers[0].mpirun, ...args], { cwd: fixtures });

Deno.test("cluster-test that is interrupted reports what has run, and the tests that have not", async () => {
  using folder = temporaryFolder();
  const [report, begun, long, other] = ["report.json", "begun", "a_test.ts", "b_test.ts"].map((name) =>
    `${folder.path}/${name}`
  );
  Deno.writeTextFileSync(long, takesLong(begun));
  Deno.writeTextFileSync(other, 'Deno.test("is in a file that was never loaded", () => {});');
  const child = startOnNewest("--ranks", "1,2", "--json", report, "passing_test.ts", long, other);
  const ended = finish(child);
  await isMade(begun, ended);
  child.kill("SIGTERM");
  const { code, stdout, stderr } = await ended;
  assertEquals(code, 143, stderr);
  assertMatch(stdout, /^ {2}takes long … FAILED.*\n {4}.*the job was interrupted/m);
  assertStringIncludes(stdout, "  comes later … not run: ");
  const unrun = [...stdout.matchAll(/^ {2}(.*) … not run: the command was interrupted$/gm)].map(([, name]) => name);
  const never = "is in a file that was never loaded";
  assertEquals(unrun, ["passes", "takes long", "comes later", never, never], stdout);
  assertEquals(stdout.trim().split("\n").at(-1), "3 passed, 1 failed, 6 not run");
  const { counts, jobs } = JSON.parse(Deno.readTextFileSync(report));
  assertEquals(counts, { ...NONE, passed: 3, failed: 1, "not run": 6 }, JSON.stringify(jobs));
  assertStringIncludes(jobs[2].tests[1].details, "the job was interrupted");
  for (const { name, details } of (jobs as FileResult[]).slice(3).flatMap(({ tests }) => tests)) {
    assertEquals(details, "the command was interrupted", name);
  }
});

Deno.test("cluster-test that is interrupted while a file is loaded names its tests", async () => {
  using folder = temporaryFolder();
  const [begun, file] = ["begun", "a_test.ts"].map((name) => `${folder.path}/${name}`);
  Deno.writeTextFileSync(
    file,
    `import { existsSync } from "node:fs";
     Deno.test("comes first", () => {});
     if (!existsSync(${JSON.stringify(begun)})) {
       Deno.writeTextFileSync(${JSON.stringify(begun)}, "");
       await new Promise((resolve) => setTimeout(resolve, 60_000));
     }
     Deno.test("comes last", () => {});`,
  );
  const child = startOnNewest("--ranks", "1", file);
  const ended = finish(child);
  await isMade(begun, ended);
  child.kill("SIGINT");
  const { code, stdout } = await ended;
  assertEquals(code, 130, stdout);
  assertMatch(stdout, /^ {2}comes first … not run: /m);
  assertMatch(stdout, /^ {2}\(the whole file\) … FAILED\n {4}the job was interrupted$/m);
  assertStringIncludes(stdout, "  comes last … not run: the command was interrupted\n");
  assertEquals(stdout.trim().split("\n").at(-1), "0 passed, 1 failed, 2 not run");
});

Deno.test("cluster-test that is interrupted twice asks no more files for their tests", async () => {
  using folder = temporaryFolder();
  const [begun, asked, long, slow, other] = ["begun", "asked", "a_test.ts", "b_test.ts", "c_test.ts"].map((name) =>
    `${folder.path}/${name}`
  );
  Deno.writeTextFileSync(long, takesLong(begun));
  Deno.writeTextFileSync(
    slow,
    `Deno.test("comes first", () => {});
     Deno.writeTextFileSync(${JSON.stringify(asked)}, "");
     await new Promise((resolve) => setTimeout(resolve, 60_000));`,
  );
  Deno.writeTextFileSync(other, 'Deno.test("is not known", () => {});');
  const child = startOnNewest("--ranks", "1", long, slow, other);
  const ended = finish(child);
  for (const file of [begun, asked]) {
    await isMade(file, ended);
    child.kill("SIGTERM");
  }
  const { code, stdout } = await ended;
  assertEquals(code, 143, stdout);
  assertStringIncludes(stdout, "  comes first … not run: the command was interrupted\n");
  const whole = "  (the whole file) … not run: the command was interrupted; the file";
  assertStringIncludes(stdout, `${whole} was not loaded to its end\n`);
  assertStringIncludes(stdout, `${whole} was not asked for its tests\n`);
  assertEquals(stdout.trim().split("\n").at(-1), "1 passed, 1 failed, 4 not run");
});

Deno.test("cluster-test that is interrupted asks files for their tests for a few seconds only", async () => {
  using folder = temporaryFolder();
  const [begun, long, slow, other] = ["begun", "a_test.ts", "b_test.ts", "c_test.ts"].map((name) =>
    `${folder.path}/${name}`
  );
  Deno.writeTextFileSync(long, takesLong(begun));
  Deno.writeTextFileSync(
    slow,
    `Deno.test("comes first", () => {});
     await new Promise((resolve) => setTimeout(resolve, 60_000));`,
  );
  Deno.writeTextFileSync(other, 'Deno.test("is not known", () => {});');
  const child = startOnNewest("--ranks", "1", long, slow, other);
  const ended = finish(child);
  await isMade(begun, ended);
  child.kill("SIGTERM");
  const { code, stdout } = await ended;
  assertEquals(code, 143, stdout);
  assertStringIncludes(stdout, "  comes first … not run: the command was interrupted\n");
  const whole = "  (the whole file) … not run: the command was interrupted; the file";
  assertStringIncludes(stdout, `${whole} could not be loaded: the job did not end within 5 s: `);
  assertStringIncludes(stdout, `${whole} was not asked for its tests\n`);
});

Deno.test("cluster-test that is interrupted in a second attempt reports what the first one was", async () => {
  using folder = temporaryFolder();
  const [report, begun] = ["report.json", "begun"].map((name) => `${folder.path}/${name}`);
  Deno.writeTextFileSync(
    `${folder.path}/a_test.ts`,
    `let isFirst = true;
     try {
       Deno.writeTextFileSync(${JSON.stringify(`${folder.path}/seen`)}, "", { createNew: true });
     } catch {
       isFirst = false;
     }
     Deno.test("fails first", () => {
       if (isFirst) throw new Error("the first time");
     });
     Deno.test("takes long then", () => {
       if (isFirst) throw new Error("this one, too");
       Deno.writeTextFileSync(${JSON.stringify(begun)}, "");
       return new Promise((resolve) => setTimeout(resolve, 60_000));
     });`,
  );
  const child = startOnNewest("--ranks", "1", "--retries", "2", "--json", report, `${folder.path}/a_test.ts`);
  const ended = finish(child);
  await isMade(begun, ended);
  child.kill("SIGTERM");
  assertEquals((await ended).code, 143);
  const { jobs: [{ attempts, tests: [first] }] } = JSON.parse(Deno.readTextFileSync(report));
  assertEquals([attempts, first.outcome], [2, "passed"]);
  assertStringIncludes(first.failedBefore, "the first time");
});

Deno.test("cluster-test whose output nobody reads any more reports the job that has run", async () => {
  using folder = temporaryFolder();
  const report = `${folder.path}/report.json`;
  const args = ["--mpirun", newestLaunchers[0].mpirun, "--ranks", "1", "--json", report, "passing_test.ts"];
  // The first line is that of the launcher.
  const program = `exec "$0" run -A ${root}scripts/main.ts cluster-test --no-check ${args.join(" ")} | head -n 1`;
  await finish(start("sh", ["-c", program, Deno.execPath()], { cwd: fixtures }));
  const { counts } = JSON.parse(Deno.readTextFileSync(report));
  assertEquals(counts, { ...NONE, passed: 1 });
});

Deno.test("what a test prints is no result, and one that runs on without a pause is ended", async () => {
  const { code, stdout } = await onNewest(["--ranks", "2", "prints_results.ts"]);
  assertEquals([code, stdout.trim().split("\n").at(-1)], [1, "2 passed, 1 failed"], stdout);
  assertMatch(stdout, /prints results … ok/);
  assertMatch(
    stdout,
    /rank \d has been in "runs on" for more than 1 s \(timeoutSeconds\), and runs on without a pause/,
  );
});

Deno.test("cluster-test says that a shard has no jobs", async () => {
  const { code, stdout } = await onNewest(["--ranks", "1", "--shard", "2/2", "passing_test.ts"]);
  assertEquals(code, 0);
  assertStringIncludes(stdout, "no job is in shard 2/2");
});

Deno.test("cluster-test refuses wrong arguments with exit code 2", async () => {
  for (
    const [args, message] of [
      [[], "needs test files"],
      [["--ranks", "1,x", "a_test.ts"], "--ranks takes"],
      [["nothing_test.ts"], "there is no file"],
      [["--filter", "/(/", "passing_test.ts"], "--filter: Invalid regular expression"],
      [["--filter", "/a(?!b)/", "passing_test.ts"], "--filter: Deno's filters have no (?!, which /a(?!b)/ has"],
      [["--coverage", "", "passing_test.ts"], '--coverage takes the name of a folder, not ""'],
      [["--shard", "3/2", "passing_test.ts"], '--shard takes I/N with I from 1 to N, not "3/2"'],
      [["--junit", "/nonexistent/a.xml", "passing_test.ts"], "--junit: /nonexistent/a.xml cannot be written: "],
      [["--tap", "a.tap", "--json", ".", "passing_test.ts"], "--json: "],
      [["--retries", "-1", "passing_test.ts"], "--retries takes a whole number"],
    ] as const
  ) {
    const { code, stdout, stderr } = await main(["cluster-test", ...args], { cwd: fixtures });
    assertEquals([code, stdout], [2, ""], stderr);
    assertStringIncludes(stderr, message);
  }
});
