/** Ranks on two hosts, two on each, over TCP: products, redistributions, cluster tests, and a host that disappears. */
import {
  assert,
  assertAlmostEquals,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
import { launchers, type MpiInstallation, newestLaunchers, slowdown } from "../mpi_installations.ts";
import { until } from "../faults/processes.ts";
import { finish, root, start, temporaryFolder } from "./command.ts";
import { lineOf } from "../script_lines.ts";
import { mockTest } from "./mock.ts";
import { freePort, variablesOf } from "./ranks_by_hand.ts";
import { type Hosts, ip, makeHosts, namespaces, removeAbandonedHosts, whyNoHosts } from "./hosts.ts";

const reason = whyNoHosts();

/** The hosts with as many ranks on each. */
const listOf = ({ addresses }: Hosts, each: number) => addresses.map((address) => `${address}:${each}`).join();

function testOnHosts(
  name: string,
  mpis: readonly MpiInstallation[],
  body: (mpi: MpiInstallation) => Promise<void>,
): void {
  for (const mpi of mpis) {
    const skipped = reason === null ? "" : ` (skipped: ${reason})`;
    Deno.test({ name: `${name} [${mpi.name}]${skipped}`, ignore: reason !== null, fn: () => body(mpi) });
  }
}

/** Starts a command of scripts/main.ts on the first host; on both hosts by `env`, or because it is told to. */
function startOn(
  hosts: Hosts,
  mpi: MpiInstallation,
  [name, ...args]: string[],
  env?: Record<string, string>,
): Deno.ChildProcess {
  const command = [Deno.execPath(), "run", "-A", `${root}scripts/main.ts`, name, "--mpirun", mpi.mpirun];
  const words = [...command, ...env ? [] : ["--hosts", hosts.list], ...args].join(" ");
  return start(hosts.agent, [hosts.addresses[0], words], {
    cwd: `${root}tests/system/fixtures`,
    env: { ...hosts.environment, ...env },
  });
}

/** Starts ranks on both hosts, as many on each, as users do without this library's commands. */
function startPlainly(
  hosts: Hosts,
  { mpirun, family }: MpiInstallation,
  args: readonly string[],
  each = 2,
): Deno.ChildProcess {
  const list = listOf(hosts, each);
  const forwarded = ["PATH", "LD_LIBRARY_PATH", "XDG_CACHE_HOME"].filter((name) => Deno.env.has(name));
  const flags = family === "open_mpi"
    ? ["--allow-run-as-root", "--host", list, ...forwarded.flatMap((name) => ["-x", name])]
    : ["-hosts", list];
  const words = [mpirun, "-n", String(2 * each), ...flags, Deno.execPath(), "run", "-A", "--no-check", ...args];
  const cwd = `${root}tests/system/fixtures`;
  return start(hosts.agent, [hosts.addresses[0], words.join(" ")], { cwd, env: hosts.environment });
}

/** Has ranks compute and then wait for each other, when something happens to a host; returns how the job ended. */
async function disturb(
  mpi: MpiInstallation,
  fault: (hosts: Hosts) => void,
  { way = "waits", isPlain = false } = {},
) {
  using hosts = makeHosts();
  const child = isPlain
    ? startPlainly(hosts, mpi, ["hosts.ts", way])
    : startOn(hosts, mpi, ["run", "-n", "4", "hosts.ts", way]);
  const stderr = new Response(child.stderr).text();
  let stdout = "";
  let faultAt = 0;
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    stdout += text;
    if (faultAt > 0 || stdout.split("all are here").length < 5) continue;
    faultAt = performance.now();
    fault(hosts);
  }
  const { code } = await child.status;
  const seconds = (performance.now() - faultAt) / 1000;
  await until(() => hosts.processes().length === 0, 30, () => hosts.processes().join("\n"));
  return { code, stdout, stderr: await stderr, seconds };
}

const right = [0, 1, 2, 3].map((rank) => `rank ${rank} of 4, ${rank % 2} on host${rank < 2 ? 1 : 2}: right`);

testOnHosts("ranks of two hosts compute; one host that dies ends the job on the other", launchers, async (mpi) => {
  const { code, stdout, stderr, seconds } = await disturb(mpi, (hosts) => hosts.kill());
  assertEquals(stdout.split("\n").filter((line) => line.startsWith("rank")).sort(), right, stdout + stderr);
  assertNotEquals(code, 0);
  assertMatch(
    stderr,
    /^error: (the connection to \S+ was lost|(\S+|another host) cannot be reached), and the job ended/m,
  );
  assert(seconds < 10 * slowdown(), `${seconds} s`);
});

const cutOff = (place: string) =>
  RegExp(
    `^distmath: rank [01] has waited for more than 10 s in ${place}, and host2 cannot be reached any more\\. The job ends`,
    "m",
  );

const lastBarrier = `MPI_Barrier at ${
  lineOf(`${root}tests/system/fixtures/hosts.ts`, "communicator.barrier(); // for the last one").source
}`;

testOnHosts("a host that is cut off ends the job", launchers, async (mpi) => {
  const { code, stderr, seconds } = await disturb(mpi, (hosts) => hosts.cut());
  assertNotEquals(code, 0);
  // Open MPI's launcher, as `run` starts it, notices a second earlier than the ranks, if it is not kept from it.
  const byLauncher = /^error: the connection to (host2|10\.77\.0\.2) was lost, and the job ended with exit code \d+$/m;
  if (mpi.family !== "open_mpi" || !byLauncher.test(stderr)) {
    assertMatch(stderr, cutOff(lastBarrier));
    assertMatch(stderr, /^error: rank \d ended the job with exit code 1: another machine cannot be reached any more$/m);
  }
  assert(seconds < 20 * slowdown(), `${seconds} s`);
});

for (const [way, place] of [["waits", lastBarrier], ["lasts", "MPI_Finalize.*"]]) {
  testOnHosts(`a host that is cut off ends the job without a command: ${way}`, newestLaunchers, async (mpi) => {
    const { code, stderr, seconds } = await disturb(mpi, (hosts) => hosts.cut(), { way, isPlain: true });
    assertNotEquals(code, 0);
    assertMatch(stderr, cutOff(place));
    assert(seconds < 20 * slowdown(), `${seconds} s`);
  });
}

testOnHosts(
  "a host that is cut off just before it is told of ranks that wait ends the job",
  newestLaunchers,
  async (mpi) => {
    const { code, stderr, seconds } = await disturb(mpi, (hosts) => void setTimeout(() => hosts.cut(), 9800), {
      isPlain: true,
    });
    assertNotEquals(code, 0);
    assertMatch(stderr, cutOff(lastBarrier));
    assert(seconds < 30 * slowdown(), `${seconds} s`);
  },
);

const PATIENT = { DISTMATH_PATIENCE_SECONDS: "2" };

for (const each of [1, 2]) {
  const start = (hosts: Hosts, mpi: MpiInstallation, way: string, env: Record<string, string> = PATIENT) => {
    const args = ["run", "-n", String(2 * each), "--hosts", listOf(hosts, each), "hosts.ts", way, String(each)];
    return startOn(hosts, mpi, args, env);
  };

  testOnHosts(
    `ranks that leave end the job of those that wait on another host, ${each} on each`,
    launchers,
    async (mpi) => {
      using hosts = makeHosts();
      const { code, stderr } = await finish(start(hosts, mpi, "leaves"));
      assertEquals(code, 1, stderr);
      const left = each === 1 ? "rank 1" : "ranks 2, 3";
      const { source } = lineOf(`${root}tests/system/fixtures/hosts.ts`, "communicator.barrier(); // in vain");
      assertMatch(
        stderr,
        RegExp(
          `^distmath: rank 0 has waited for more than 2 s in MPI_Barrier at ${source} for ${left} of another machine, which`,
          "m",
        ),
      );
      await until(() => hosts.processes().length === 0, 30, () => hosts.processes().join("\n"));
    },
  );

  testOnHosts(`a rank that is killed on another host is named, ${each} on each`, launchers, async (mpi) => {
    using hosts = makeHosts();
    const rank = 2 * each - 1;
    // Open MPI 4 takes 3 s to end.
    const { code, stderr } = await finish(start(hosts, mpi, "killed", {}));
    assertEquals(code, 128 + 9, stderr);
    assertMatch(stderr, RegExp(`^error: rank ${rank} was ended by signal 9 `, "m"));

    const plain = await finish(startPlainly(hosts, mpi, ["hosts.ts", "killed"], each));
    assertNotEquals(plain.code, 0);
    const told = mpi.family === "open_mpi"
      ? `noticed that process rank ${rank} .*exited on\\ssignal 9 `
      : `^distmath: rank ${rank}, process \\d+, was (ended by signal 9 |killed; )`;
    assertMatch(plain.stdout + plain.stderr, RegExp(told, "m"));
  });

  testOnHosts(
    `a rank that takes a message from anybody, when all others have left, ends the job, ${each} on each`,
    newestLaunchers,
    async (mpi) => {
      using hosts = makeHosts();
      const { code, stderr } = await finish(start(hosts, mpi, "anybody"));
      assertEquals(code, 1, stderr);
      const left = each === 1 ? "rank 1" : "ranks 2, 3";
      const { source } = lineOf(`${root}tests/system/fixtures/hosts.ts`, "// in vain, from anybody");
      const why = `rank 0 has waited for more than 2 s in MPI_Recv at ${source} for ${left} of another machine, which`;
      assertMatch(stderr, RegExp(`^distmath: ${why}`, "m"));
    },
  );

  testOnHosts(
    `a time limit on two hosts tells of the ranks of each, ${each} of four late`,
    launchers,
    async (mpi) => {
      using hosts = makeHosts();
      const args = ["run", "-n", "4", "hosts.ts", "late", String(each)];
      const { code, stderr } = await finish(startOn(hosts, mpi, args));
      assertEquals(code, 124, stderr);
      const { source } = lineOf(`${root}tests/system/fixtures/hosts.ts`, "communicator.barrier(); // for those that");
      const told = (rank: number) =>
        `distmath: rank ${rank} has waited for more than 2 s \\(timeoutSeconds\\) in MPI_Barrier at ${source}; .*`;
      const waits = (rank: number) => `\n  rank ${rank} waits in MPI_Barrier at ${source}, collective call \\d+`;
      const others = (ranks: string) => `\n  ranks ${ranks} are on other machines and are not seen here: of each .*\n`;
      assertMatch(stderr, RegExp(told(0) + waits(0) + waits(1) + others("2, 3")));
      const late = "\n  rank 3 has not arrived: it is in no call that waits; .*";
      const second = told(2) + waits(2) + late + others("0, 1");
      assertEquals(RegExp(second).test(stderr), each === 1, stderr);
      await until(() => hosts.processes().length === 0, 30, () => hosts.processes().join("\n"));
    },
  );

  testOnHosts(
    `a host whose ranks have ended tells for whom it waits, ${each} on each`,
    newestLaunchers,
    async (mpi) => {
      using hosts = makeHosts();
      const { code, stderr } = await finish(start(hosts, mpi, "early"));
      assertEquals(code, 0, stderr);
      const [speaker, whom] = each === 1 ? [1, "0"] : [2, "0, 1"];
      assertEquals(
        stderr.split("\n").filter((line) => line.startsWith("distmath:")),
        [
          `distmath: rank ${speaker} has ended, and has waited for more than 2 s for those of other machines to end: ${whom}. ` +
          "The job goes on.",
        ],
      );
    },
  );
}

const lineOfHosts = (mark: string) => lineOf(`${root}tests/system/fixtures/hosts.ts`, mark).source;
const inBarrier = `waits in MPI_Barrier at ${lineOfHosts("communicator.barrier(); // in place of the sum")}`;
const [inSum, inVain] = [
  `MPI_Allreduce at ${lineOfHosts("communicator.allReduce(word); // in place of the barrier")}`,
  `MPI_Barrier at ${lineOfHosts("communicator.barrier(); // that others do not come to")}`,
];

for (
  const [what, mpis, args, waiting, other] of [
    ["both wait", launchers, ["mismatched", "2"], `rank [23] .* in ${inSum}`, `rank [01], .*, ${inBarrier}`],
    [
      "the first has gone on",
      newestLaunchers,
      ["passes", "2", "first"],
      `rank [23] .* in ${inVain}`,
      "rank [01], .* root 0",
    ],
    [
      "the other has gone on",
      newestLaunchers,
      ["passes", "2", "last"],
      `rank [01] .* in ${inVain}`,
      "rank [23], .* root 2",
    ],
  ] as const
) {
  testOnHosts(`collective calls of two hosts that do not match end the job: ${what}`, mpis, async (mpi) => {
    using hosts = makeHosts();
    const { code, stderr } = await finish(
      startOn(hosts, mpi, ["run", "-n", "4", "--hosts", hosts.list, "hosts.ts", ...args], PATIENT),
    );
    assertEquals(code, 1, stderr);
    const words = "the collective calls of the ranks do not match";
    assertMatch(
      stderr,
      RegExp(`^distmath: ${words}: ${waiting}, and ${other} in its place \\(call \\d+ of the comm`, "m"),
    );
    assertMatch(stderr, RegExp(`^error: rank \\d ended the job with exit code 1: ${words}$`, "m"));
    await until(() => hosts.processes().length === 0, 30, () => hosts.processes().join("\n"));
  });
}

testOnHosts(
  "ranks of a host that wait for each other do not wait for those of another, which have left",
  newestLaunchers,
  async (mpi) => {
    using hosts = makeHosts();
    const { code, stdout, stderr } = await finish(
      startOn(hosts, mpi, ["run", "-n", "4", "--hosts", hosts.list, "hosts.ts", "shares", "2"], PATIENT),
    );
    assertEquals([code, stdout.split("\n").filter(Boolean).sort()], [0, right], stderr);
    assertMatch(stderr, /^distmath: rank 0 has waited for \d+ s; the ranks of this machine are here:$/m);
  },
);

// The command is on the first host, and sees its ranks alone.
for (const [late, [first, second], others] of [[2, [0, 1], "2, 3"], [1, [2, 3], "0, 1"]] as const) {
  testOnHosts(
    `a host tells that its ranks wait for those of host ${late} to start MPI`,
    newestLaunchers,
    async (mpi) => {
      using hosts = makeHosts();
      const job = ["run", "-n", "4", "--hosts", hosts.list, "hosts.ts", "starts-late", String(late)];
      const { code, stdout, stderr } = await finish(startOn(hosts, mpi, job, { DISTMATH_PATIENCE_SECONDS: "1" }));
      assertEquals([code, stdout.split("\n").filter(Boolean).sort()], [0, right], stderr);
      const { source } = lineOf(`${root}tests/system/fixtures/hosts.ts`, "using runtime = initialize(");
      const waits = (rank: number) => `\n  rank ${rank} waits in MPI_Init at ${source}`;
      const here = `the ranks of this machine are here:${waits(first)}${waits(second)}\n`;
      const elsewhere =
        `  ranks ${others} are on other machines and are not seen here: of each machine one .*\nThe job goes on`;
      assertMatch(stderr, RegExp(`^distmath: rank \\d has waited for \\d+ s; ${here}${elsewhere}`, "m"));
    },
  );
}

testOnHosts("between hosts the network's measured rate is part of what is predicted", newestLaunchers, async (mpi) => {
  using hosts = makeHosts();
  const { code, stdout, stderr } = await finish(startOn(hosts, mpi, ["run", "-n", "4", "predicts.ts"]));
  assertEquals(code, 0, stdout + stderr);
  const rates = String
    .raw`[0-9.]+ GB/s from each rank to other machines and [0-9]+ us a meeting of ranks, measured when`;
  const predictions = stdout.split("\n").filter((line) => line.includes("predicted"));
  assertEquals(predictions.map((line) => new RegExp(rates).test(line)), [true, true], stdout);
  // What moves between hosts takes longer than to copy it.
  const [, predicted, limit] = predictions[0].match(/predicted ([0-9.]+) us, [0-9]+ % of the limit \(([0-9.]+) us\)/)!;
  const sent = 2 * 256 * 256 * 8; // bytes from each rank to the two of the other host
  const [, rate] = predictions[0].match(/([0-9.e-]+) GB\/s from/)!;
  assertAlmostEquals(Number(limit), sent / (1e3 * Number(rate)), 0.1 * Number(limit));
  assert(Number(predicted) > Number(limit));
});

testOnHosts("run starts on both hosts of an allocation of PBS", newestLaunchers, async (mpi) => {
  using hosts = makeHosts();
  using folder = temporaryFolder();
  const nodes = `${folder.path}/nodes`;
  // A line for each slot, as PBS writes them.
  Deno.writeTextFileSync(nodes, hosts.addresses.map((address) => `${address}\n`.repeat(2)).join(""));
  const { code, stdout, stderr } = await finish(startOn(hosts, mpi, ["run", "hosts.ts"], { PBS_NODEFILE: nodes }));
  assertEquals([code, stdout.split("\n").filter(Boolean).sort()], [0, right], stderr);
});

testOnHosts("cluster-test runs on two hosts", newestLaunchers, async (mpi) => {
  using hosts = makeHosts();
  const args = ["cluster-test", "--no-check", "--ranks", "4", "passing_test.ts"];
  const { code, stdout, stderr } = await finish(startOn(hosts, mpi, args));
  assertEquals(code, 0, stdout + stderr);
  assertStringIncludes(stdout, "passing_test.ts on 4 ranks");
  assertEquals(stdout.trim().split("\n").at(-1), "1 passed, 0 failed");
});

testOnHosts(
  "cluster-test names a test that hangs on another host, and runs what comes after it",
  newestLaunchers,
  async (mpi) => {
    using hosts = makeHosts();
    const limit = Math.min(40, Math.ceil(5 + 3 * slowdown()));
    const args = ["cluster-test", "--no-check", "--ranks", "4", "--timeout", String(limit), "hangs_far.ts"];
    const { code, stdout, stderr } = await finish(startOn(hosts, mpi, args));
    assertEquals(code, 1, stdout + stderr);
    assertStringIncludes(stdout, "  hangs on rank 3 … FAILED on rank 3");
    assertStringIncludes(stdout, `rank 3 did not come to the end of the test: the job did not end within ${limit} s: `);
    assertStringIncludes(stdout, "  comes after it … ok");
    assertEquals(stdout.trim().split("\n").at(-1), "1 passed, 1 failed");
    await until(() => hosts.processes().length === 0, 30, () => hosts.processes().join("\n"));
  },
);

mockTest(
  "between hosts the network's measured rate is part of what is predicted for GPUs",
  async (environment) => {
    using hosts = makeHosts();
    const settings = Object.entries(environment).flatMap(([name, value]) => ["--env", `${name}=${value}`]);
    const args = ["run", "-n", "4", "--hosts", hosts.list, ...settings, "predicts.ts", "gpu"];
    const { code, stdout, stderr } = await finish(startOn(hosts, newestLaunchers[0], args, environment));
    assertEquals(code, 0, stdout + stderr);
    assertPredictedByNccl(stdout);
  },
  "0.10",
  reason,
);

function assertPredictedByNccl(stdout: string): void {
  const told = "[0-9.e-]+ GB/s from each rank to other machines, as NCCL exchanged when it connected the GPUs";
  const predictions = stdout.split("\n").filter((line) => line.includes("predicted"));
  assertEquals(predictions.map((line) => RegExp(told).test(line)), [true, true], stdout);
}

mockTest(
  "between hosts times are predicted for GPUs whose ranks joined without MPI",
  async (environment) => {
    using hosts = makeHosts();
    const ranks = startWithoutMpi(hosts, environment, "predicts.ts", ["gpu"]);
    const ended = await Promise.all(ranks.map((child) => finish(child)));
    assertEquals(ended.map(({ code }) => code), [0, 0, 0, 0], ended.map(({ stderr }) => stderr).join(""));
    assertPredictedByNccl(ended[0].stdout);
  },
  "0.10",
  reason,
);

/** Start two ranks of a script on each host without MPI; `master` is the host that they join at. */
function startWithoutMpi(
  hosts: Hosts,
  environment: Record<string, string>,
  script: string,
  args: readonly string[],
  master: 0 | 1 = 0,
): Deno.ChildProcess[] {
  const port = freePort();
  const command = [Deno.execPath(), "run", "-A", "--no-check", `${root}tests/system/fixtures/${script}`, ...args];
  return Array.from({ length: 4 }, (_, rank) => {
    const place = { ...variablesOf(rank, 4, port), LOCAL_RANK: String(rank % 2), MASTER_ADDR: hosts.addresses[master] };
    const host = rank < 2 ? 0 : 1;
    const env = { ...environment, ...place, MOCK_HOST: String(host), DISTMATH_MPI: "/nowhere/libmpi.so" };
    return start(hosts.agent, [hosts.addresses[host], command.join(" ")], { env });
  });
}

/** Has ranks of two hosts join without MPI, and then something happen to the second host; returns how each ended. */
async function disturbWithoutMpi(
  environment: Record<string, string>,
  fault: (hosts: Hosts) => void,
  master: 0 | 1 = 0,
) {
  using hosts = makeHosts();
  const ranks = startWithoutMpi(hosts, environment, "hosts.ts", ["waits"], master);
  const errors = ranks.map(({ stderr }) => new Response(stderr).text());
  let [arrived, faultAt] = [0, 0];
  const outputs = await Promise.all(ranks.map(async ({ stdout }) => {
    let output = "";
    for await (const text of stdout.pipeThrough(new TextDecoderStream())) {
      if (!output.includes("all are here") && (output + text).includes("all are here")) arrived++;
      output += text;
      if (arrived < ranks.length || faultAt > 0) continue;
      faultAt = performance.now();
      fault(hosts);
    }
    return output;
  }));
  const codes = (await Promise.all(ranks.map(({ status }) => status))).map(({ code }) => code);
  const seconds = (performance.now() - faultAt) / 1000;
  const told = await Promise.all(errors);
  outputs.forEach((output, rank) => assertStringIncludes(output, right[rank], told.join("")));
  await until(() => hosts.processes().length === 0, 30, () => hosts.processes().join("\n"));
  return { codes, told, seconds };
}

const lost = (who: string) => new RegExp(`distmath: rank ${who} has ended, or cannot be reached any more\\.`);

mockTest(
  "ranks of two hosts join without MPI, and end when one host dies",
  async (environment) => {
    const { codes, told, seconds } = await disturbWithoutMpi(environment, (hosts) => hosts.kill());
    assertEquals(codes.slice(0, 2), [1, 1], told.join(""));
    for (const text of told.slice(0, 2)) assertMatch(text, lost("[23] on host2"));
    assert(seconds < 10 * slowdown(), `${seconds} s`);
  },
  "0.10",
  reason,
);

mockTest(
  "ranks of two hosts join at the second one, where rank 0 is not",
  async (environment) => {
    using hosts = makeHosts();
    const ended = await Promise.all(
      startWithoutMpi(hosts, environment, "hosts.ts", [], 1).map((child) => finish(child)),
    );
    const told = ended.map(({ stdout, stderr }) => stdout + stderr).join("");
    assertEquals(ended.map(({ code }) => code), [0, 0, 0, 0], told);
    ended.forEach(({ stdout }, rank) => assertStringIncludes(stdout, right[rank], told));
  },
  "0.10",
  reason,
);

mockTest(
  "ranks that joined at the second host end when it dies",
  async (environment) => {
    const { codes, told, seconds } = await disturbWithoutMpi(environment, (hosts) => hosts.kill(), 1);
    assertEquals(codes.slice(0, 2), [1, 1], told.join(""));
    for (const text of told.slice(0, 2)) assertMatch(text, lost("[23] on host2"));
    assert(seconds < 10 * slowdown(), `${seconds} s`);
  },
  "0.10",
  reason,
);

mockTest(
  "ranks of two hosts that joined without MPI end on both when one is cut off",
  async (environment) => {
    const { codes, told, seconds } = await disturbWithoutMpi(environment, (hosts) => hosts.cut());
    assertEquals(codes, [1, 1, 1, 1], told.join(""));
    for (const [rank, text] of told.entries()) assertMatch(text, lost(rank < 2 ? "[23] on host2" : "[01] on host1"));
    assert(seconds < 10 * slowdown(), `${seconds} s`);
  },
  "0.10",
  reason,
);

Deno.test({
  name: `hosts of a killed process are removed, and no others${reason === null ? "" : ` (skipped: ${reason})`}`,
  ignore: reason !== null,
  fn: () => {
    const [abandoned, used] = ["dm4194305.0.1", `dm${Deno.ppid}.0.1`];
    for (const name of [abandoned, used]) ip("netns", "add", name);
    try {
      removeAbandonedHosts();
      assertEquals(namespaces().filter((name) => name === abandoned || name === used), [used]);
    } finally {
      ip("netns", "delete", used);
    }
  },
});
