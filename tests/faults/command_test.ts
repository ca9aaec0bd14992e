/** The commands tell who ended a job, and how; a job whose command was killed ends as well. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type MpiInstallation, mpiInstallations, newestLaunchers, runAlone, slowdown } from "../mpi_installations.ts";
import { finish, main, root, start, startMain, temporaryFolder } from "../system/command.ts";
import { lineOf } from "../script_lines.ts";
import { assertCleanEnd } from "./clean_end.ts";
import { processesWith, until, untilNoneHas } from "./processes.ts";

const LONGEST_END_SECONDS = 10;

const fixture = (name: string) => fileURLToPath(new URL(`./fixtures/${name}.ts`, import.meta.url));

function testUnderEach(name: string, body: (mpi: MpiInstallation) => Promise<void>): void {
  for (const mpi of mpiInstallations.filter(({ name }) => name !== "MPI standard ABI")) {
    Deno.test(`${name} [${mpi.name}]`, () => body(mpi));
  }
}

/** Memory that ranks share by MPI. */
const SHARES = /^shares .*\/(sm_segment\.|vader_segment\.|mpich_shm_|ucx_shm_|Intel_MPI_)/m;

const ENDS: [way: string, code: number, words: RegExp][] = [
  [
    "fills V8's heap",
    133,
    /^error: rank 1 was ended by signal 5 \([\w\/ ]+\), since its JavaScript objects need more memory than V8 allows \(--v8/m,
  ],
  ["throws", 1, /^error: rank 1 ended the job with exit code 1: an uncaught error$/m],
  ["rejects", 1, /^error: rank 1 ended the job with exit code 1: an uncaught error$/m],
  ["exits", 3, /^error: rank 1 ended the job with exit code 3: Deno.exit or Deno.exitCode$/m],
  ["aborts", 5, /^error: rank 1 ended the job with exit code 5: abort\(\)$/m],
  ["SIGTERM", 143, /^error: rank 1 was ended by signal 15 \(\w+\), and the job with exit code 143$/m],
  ["SIGKILL", 137, /^error: rank 1 was ended by signal 9 \(\w+\), and the job with exit code 137$/m],
  ["crashes", 139, /^error: rank 1 was ended by signal 11 \([\w ]+\), and the job with exit code 139$/m],
  ["aborts natively", 134, /^error: rank 1 was ended by signal 6 \(\w+\), and the job with exit code 134$/m],
  ["is stopped", 124, /^error: rank 0 ended the job with exit code 124: the time limit of timeoutSeconds$/m],
];

for (const [way, expected, words] of ENDS) {
  testUnderEach(
    `run tells which rank ended the job, how and with which code, and clears its memory: ${way}`,
    async (mpi) => {
      const heap = way.includes("heap") ? ["--v8-flags=--max-old-space-size=48"] : [];
      const command = ["run", "-A", `${root}scripts/main.ts`, "run", "--mpirun", mpi.mpirun, "-n", "2"];
      const result = await runAlone({ ...mpi, environment: {} }, [...command, ...heap, fixture("fails"), way]);
      assertCleanEnd(result, { rank: 1, why: words, code: expected });
      const { output } = result;
      assertEquals(output.split(/^error: (?!Uncaught)/m).length - 1, 1, output);
      if (way === "is stopped") assertStringIncludes(output, "rank 1 has not arrived: it is in no call that waits");
      assert(!output.includes("distmath-end"), output);
      assertMatch(output, SHARES);
    },
  );
}

testUnderEach("run tells of a rank that leaves while others wait for it", async (mpi) => {
  // The usual patience, once.
  const [seconds, env] = mpi === mpiInstallations[0] ? [10, {}] : [2, { DISTMATH_PATIENCE_SECONDS: "2" }];
  const { code, stderr } = await main(["run", "--mpirun", mpi.mpirun, "-n", "2", fixture("leaves"), "exits"], { env });
  assertEquals(code, 1, stderr);
  const place = `matmul > MPI_Allreduce at ${lineOf(fixture("leaves"), "=> matmul(").source}`;
  assertMatch(stderr, RegExp(`rank 0 has waited for more than ${seconds} s in ${place} for rank 1`));
  assertStringIncludes(stderr, "error: rank 1 ended the job with exit code 1: it left while others waited for it");
});

testUnderEach("run ends the job of a rank that fails before it has loaded distmath, and tells which", async (mpi) => {
  const args = ["run", "--mpirun", mpi.mpirun, "-n", "2", fixture("fails_without_distmath")];
  // Open MPI 5's launcher hangs at times, Intel's leaves ranks that have not started MPI; they are ended then. MPICH's is not.
  const isPatient = mpi.family === "mpich" && mpi.name !== "Intel MPI";
  const env = { DISTMATH_PATIENCE_SECONDS: isPatient ? "120" : "2" };
  const { code, stdout, stderr } = await main(args, { env, seconds: 60 });
  const seconds = (Date.now() - Number(/fault at (\d+)/.exec(stdout)?.[1])) / 1000;
  assertEquals(code, 1, stderr);
  assertStringIncludes(stderr, "Error: broken on purpose");
  assertMatch(stderr, /^error: rank 1 ended the job with exit code 1$/m);
  assert(seconds < LONGEST_END_SECONDS * slowdown(), `${seconds} s`);
});

for (
  const [way, script] of [
    ["hangs", "trap '' TERM; exec sleep 60"],
    ["crashes", "kill -ABRT $$"],
    ["leaves a rank behind", "exit 7"],
  ]
) {
  Deno.test(`run does what the launcher should when it ${way} after it has told of a rank's end`, async () => {
    using folder = temporaryFolder();
    const mpirun = `${folder.path}/mpirun`;
    const fence = "-".repeat(74);
    const words = "prterun detected that one or more processes exited with non-zero status\n" +
      "   Process name: [prterun-vm-8164@1,1]\n   Exit code:    7";
    // A rank that has no parent any more.
    const rank = `exec -a ${folder.path}/rank sleep 60`;
    const launcher = `#!/bin/sh
case "$*" in *--version*) echo "mpirun (Open MPI) 5.0.11"; exit ;; esac
(setsid bash -c '${rank}' > /dev/null 2>&1 &)
sleep 0.5
printf '%s\n' '${fence}' '${words}' '${fence}' >&2
${script}`;
    Deno.writeTextFileSync(mpirun, launcher, { mode: 0o755 });
    const args = ["run", "--mpirun", mpirun, "-n", "2", `${root}tests/system/fixtures/ranks.ts`];
    const { code, stderr } = await main(args, { env: { DISTMATH_PATIENCE_SECONDS: "1" }, seconds: 40 });
    assertEquals([code, stderr], [7, "error: rank 1 ended the job with exit code 7\n"]);
    await untilNoneHas(`${folder.path}/rank`);
  });
}

for (
  const [way, words] of [
    ["tells", "rank 1 ended the job with exit code 3: an uncaught error"],
    ["is silent", "rank 1 is no more, of which the launcher took no notice, and the job ended with exit code 143"],
  ]
) {
  Deno.test(`run ends a job whose launcher takes no notice of a rank's end: it ${way}`, async () => {
    using folder = temporaryFolder();
    const mpirun = `${folder.path}/mpirun`;
    const launcher = `#!/bin/sh
case "$*" in *--version*) echo "mpirun (Open MPI) 5.0.11"; exit ;; esac
export OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2
for rank in 0 1; do
  OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_LOCAL_RANK=$rank setsid "${Deno.execPath()}" run -A "${
      fixture("left_behind")
    }" "${way}" ${folder.path} &
done
exec sleep 60`;
    Deno.writeTextFileSync(mpirun, launcher, { mode: 0o755 });
    const args = ["run", "--mpirun", mpirun, "-n", "2", `${root}tests/system/fixtures/ranks.ts`];
    const { code, stdout, stderr } = await main(args, { seconds: 50 });
    const seconds = (Date.now() - Number(/fault at (\d+)/.exec(stdout)?.[1])) / 1000;
    assertEquals([code, stderr], [way === "tells" ? 3 : 143, `error: ${words}\n`]);
    assert(seconds < LONGEST_END_SECONDS * slowdown(), `${seconds} s`);
    await untilNoneHas(folder.path);
  });
}

testUnderEach("run ends with the code of a rank that fails beside output of another one", async (mpi) => {
  using folder = temporaryFolder();
  const args = ["run", "--mpirun", mpi.mpirun, "-n", "2", "--tag-output"];
  const { code, stderr } = await main([...args, fixture("ends_beside_output"), `${folder.path}/fault`]);
  assertEquals(code, 1, stderr);
  assertMatch(stderr, /^error: rank 1 ended the job with exit code 1: an uncaught error$/m);
});

testUnderEach("an error that a rank handles ends no job, and is not taken for what did", async (mpi) => {
  const handles = [fixture("handles"), "is killed"];
  const { code, stderr } = await main(["run", "--mpirun", mpi.mpirun, "-n", "2", ...handles]);
  assertEquals(code, 137, stderr);
  assertMatch(stderr, /^error: rank 1 was ended by signal 9 \(\w+\), and the job with exit code 137$/m);
  const good = await main(["run", "--mpirun", mpi.mpirun, "-n", "2", fixture("handles")]);
  assertEquals([good.code, good.stderr], [0, ""]);
});

const TOLD = RegExp(
  `^distmath: rank 0 has waited for \\d+ s; .*\n {2}rank 0 waits in DistributedArray\\.sum > MPI_Allreduce at ${
    lineOf(fixture("computes"), "ones.sum(); // waits").source
  }, .*\n {2}rank 1 has not arrived: .*; its last one was .* at computes\\.ts.*\n`,
  "m",
);

for (const mpi of newestLaunchers) {
  Deno.test(`run tells of ranks that wait for long, and of whom they wait for [${mpi.name}]`, async () => {
    const command = ["run", "-A", `${root}scripts/main.ts`, "run", "--mpirun", mpi.mpirun, "-n", "2"];
    const child = start(Deno.execPath(), [...command, fixture("computes")], {
      env: { DISTMATH_PATIENCE_SECONDS: "1" },
    });
    let stderr = "";
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) {
      const isTold = TOLD.test(stderr);
      stderr += text;
      if (!isTold && TOLD.test(stderr)) child.kill("SIGINT");
    }
    const [{ code }] = await Promise.all([child.status, child.stdout.cancel()]);
    assertEquals(code, 130, stderr);
    assertEquals(
      Array.from(Deno.readDirSync("/dev/shm")).filter(({ name }) => name.startsWith(`distmath.${child.pid}.`)),
      [],
    );
  });
}

const AS_SCRIPT = ["run", "-A", `${root}scripts/main.ts`];

/** Starts `run` with two ranks that wait, and have the folder among their arguments. */
async function startWaiting(
  mpi: MpiInstallation,
  folder: string,
  words = AS_SCRIPT,
  [program, ...first]: string[] = [Deno.execPath()],
): Promise<Deno.ChildProcess> {
  const script = `${root}tests/system/fixtures/waits.ts`;
  const command = [
    ...first,
    ...words,
    "run",
    "--mpirun",
    mpi.mpirun,
    "-n",
    "2",
    script,
    folder,
  ];
  const child = start(program, command);
  await until(() => [...Deno.readDirSync(folder)].length === 2, 200, "the ranks did not start");
  return child;
}

testUnderEach("the ranks end when the launcher is killed, and run says so", async (mpi) => {
  using folder = temporaryFolder();
  const child = await startWaiting(mpi, folder.path);
  const isLauncher = (process: string) =>
    Deno.readTextFileSync(`/proc/${process}/status`).includes(`PPid:\t${child.pid}\n`);
  const [launcher] = processesWith(folder.path).filter(isLauncher);
  Deno.kill(Number(launcher), "SIGKILL");
  const { code, stderr } = await finish(child);
  assertEquals(code, 137, stderr);
  assertStringIncludes(stderr, "error: the launcher was ended by SIGKILL, and the job with exit code 137");
  await untilNoneHas(folder.path);
});

testUnderEach("the launcher and the ranks end when run, or its task, is killed", async (mpi) => {
  for (const words of [AS_SCRIPT, ["task"]]) {
    using folder = temporaryFolder();
    const child = await startWaiting(mpi, folder.path, words);
    child.kill("SIGKILL");
    await Promise.all([child.status, child.stdout.cancel(), child.stderr.cancel()]);
    // The launcher, its helpers and the ranks all have the folder among their arguments, or wait for those that do.
    await untilNoneHas(folder.path);
  }
});

testUnderEach("the launcher and the ranks end when run's whole process group is ended", async (mpi) => {
  for (const signal of ["SIGQUIT", "SIGKILL"] as const) {
    using folder = temporaryFolder();
    const child = await startWaiting(mpi, folder.path, AS_SCRIPT, ["setsid", Deno.execPath()]);
    Deno.kill(-child.pid, signal);
    await Promise.all([child.status, child.stdout.cancel(), child.stderr.cancel()]);
    await untilNoneHas(folder.path);
  }
});

Deno.test("what a launcher has left behind ends as well when run is killed", async () => {
  using folder = temporaryFolder();
  const mpirun = `${folder.path}/mpirun`;
  const launcher = `#!/bin/sh
case "$*" in *--version*) echo "mpirun (Open MPI) 5.0.11"; exit ;; esac
(setsid bash -c 'exec -a ${folder.path}/rank sleep 60' > /dev/null 2>&1 &)
sleep 0.5
echo started
sleep 60`;
  Deno.writeTextFileSync(mpirun, launcher, { mode: 0o755 });
  const child = startMain(["run", "--mpirun", mpirun, "-n", "2", `${root}tests/system/fixtures/ranks.ts`]);
  const output = child.stdout.getReader();
  await output.read();
  assertEquals(processesWith(`${folder.path}/rank`).length, 1);
  child.kill("SIGKILL");
  await Promise.all([child.status, output.cancel(), child.stderr.cancel()]);
  await untilNoneHas(`${folder.path}/rank`);
});

Deno.test("run removes the shared memory of processes that are no more", async () => {
  // No process has this number, and no other run of this test.
  const nobody = 2 ** 22 + Deno.pid;
  const names = [`distmath.${nobody}.1`, `__KMP_REGISTERED_LIB_${nobody}_0`, `mpich_shar_tmpA${Deno.pid}`];
  const gone = [...names, `sm_segment.${Deno.pid}`].map((name) => `/dev/shm/${name}`);
  for (const path of gone) {
    Deno.writeTextFileSync(path, "");
    const time = new Date(Date.now() - 120_000);
    Deno.utimeSync(path, time, time);
  }
  const script = `${root}tests/system/fixtures/ranks.ts`;
  const { code, stderr } = await main(["run", "--mpirun", mpiInstallations[0].mpirun, script]);
  assertEquals([code, stderr], [0, ""]);
  assertEquals(gone.filter(existsSync), []);
});

// A launcher of Open MPI 5 does not start where one with its process's number was killed before.
Deno.test("run removes the folders of launchers that are no more, and of no others", async () => {
  using folder = temporaryFolder();
  const own = `ompi.${Deno.pid}`;
  const made = ["ompi.4194305", "prted.4194305", own, "others.4194305", "ompi.4194306"];
  for (const name of made) {
    Deno.mkdirSync(`${folder.path}/${name}`);
    const host = name === "ompi.4194306" ? `not-${Deno.hostname()}` : Deno.hostname();
    Deno.writeTextFileSync(`${folder.path}/${name}/pmix.${host}.tool`, "");
  }
  const script = `${root}tests/system/fixtures/ranks.ts`;
  const args = ["run", "--mpirun", mpiInstallations[0].mpirun, script];
  const { code, stderr } = await main(args, { env: { TMPDIR: folder.path } });
  assertEquals([code, stderr], [0, ""]);
  // The launcher of this job may have left its own.
  assertEquals(made.filter((name) => existsSync(`${folder.path}/${name}`)), [own, "others.4194305", "ompi.4194306"]);
});

Deno.test("a killed matmul leaves no partial file, and one that the end of a machine leaves is removed by the next", async () => {
  using folder = temporaryFolder();
  const [{ mpirun }] = mpiInstallations;
  const matrix = `${folder.path}/a.npy`;
  const header = "{'descr': '<f8', 'fortran_order': False, 'shape': (2048, 2048), }".padEnd(117) + "\n";
  const bytes = new Uint8Array(128 + 2048 * 2048 * 8);
  bytes.set([0x93, ...new TextEncoder().encode("NUMPY"), 1, 0, 118, 0, ...new TextEncoder().encode(header)]);
  Deno.writeFileSync(matrix, bytes);
  const args = ["matmul", matrix, matrix, "--out", `${folder.path}/d.npy`, "--mpirun"];
  // A launcher that does not end when the ranks have: what they wrote has not got its name then.
  const slow = `${folder.path}/mpirun`;
  const waits = `case "$*" in *matmul_rank*) touch ${folder.path}/written; exec sleep 60; esac`;
  Deno.writeTextFileSync(slow, `#!/bin/sh\n${mpirun} "$@"\n${waits}\n`, { mode: 0o755 });
  const child = start(Deno.execPath(), ["run", "-A", `${root}scripts/main.ts`, ...args, slow]);
  const partials = () =>
    Array.from(Deno.readDirSync(folder.path), ({ name }) => name).filter((n) => n.includes("partial"));
  await until(() => existsSync(`${folder.path}/written`), 200, "nothing was written");
  const [partial] = partials();
  assertStringIncludes(partial, `.${child.pid}.`);
  child.kill("SIGKILL");
  await Promise.all([child.status, child.stdout.cancel(), child.stderr.cancel()]);
  await untilNoneHas(matrix);
  await until(() => partials().length === 0, 10, () => `${partials()} is left`);
  // As a machine leaves it that loses its power.
  Deno.writeTextFileSync(`${folder.path}/${partial}`, "");
  const { code, stderr } = await main([...args, mpirun]);
  assertEquals([code, stderr], [0, ""]);
  assertEquals(partials(), []);
  assert(existsSync(`${folder.path}/d.npy`));
});
