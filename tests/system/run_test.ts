/** `run`: paths, arguments, exit codes, errors printed once, time limits, signals; under every MPI. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { launchers, type MpiInstallation, mpiInstallations, slowdown } from "../mpi_installations.ts";
import { lineOf } from "../script_lines.ts";
import { processesWith, until, untilNoneHas } from "../faults/processes.ts";
import { finish, main, root, start, startMain, temporaryFolder } from "./command.ts";

const fixtures = `${root}tests/system/fixtures`;
const [firstMpi] = mpiInstallations;

function testUnderEach(name: string, body: (mpi: MpiInstallation) => Promise<void>): void {
  for (const mpi of launchers) Deno.test(`${name} [${mpi.name}]`, () => body(mpi));
}

function run(mpi: MpiInstallation, args: string[], cwd = fixtures) {
  return main(["run", "--mpirun", mpi.mpirun, ...args], { cwd });
}

testUnderEach("run passes output, arguments and paths", async (mpi) => {
  const { code, stdout, stderr } = await run(mpi, ["-n", "2", "ranks.ts", "-n", "7", "--x"]);
  assertEquals([code, stderr], [0, ""]);
  assertEquals(stdout.trim().split("\n").sort(), ["rank 0 of 2: -n 7 --x", "rank 1 of 2: -n 7 --x"]);
});

testUnderEach(
  "rank 0 reads run's standard input to its end, of a pipe, a file, a device, or none",
  async (mpi) => {
    using folder = temporaryFolder();
    const input = `${folder.path}/input`;
    Deno.writeTextFileSync(input, "twelve bytes");
    const command = [Deno.execPath(), "run", "-A", `${root}scripts/main.ts`, "run", "--mpirun", mpi.mpirun];
    const cases: [place: string[], script: string, bytes: number][] = [
      [["-n", "1"], 'cat "$0" | "$@"', 12],
      [["-n", "2"], 'cat "$0" | "$@"', 12],
      [["-n", "2"], 'exec "$@" < "$0"', 12],
      // What was read before is not read again.
      [["-n", "2"], 'exec < "$0"; head -c 5 >/dev/null; exec "$@"', 7],
      [["-n", "2"], 'exec "$@" < /dev/null', 0],
      [["-n", "2"], 'exec "$@" <&-', 0],
      [["-n", "2", "--hosts", "localhost:2"], 'exec "$@" < /dev/null', 0],
    ];
    for (const [place, script, bytes] of cases) {
      const args = ["-c", script, input, ...command, ...place, `${fixtures}/reads.ts`];
      const { code, stdout, stderr } = await finish(start("sh", args, { cwd: fixtures }), 30);
      assertEquals([code, stderr, stdout], [0, "", `rank 0 of ${place[1]} read ${bytes} bytes\n`], script);
    }
  },
);

testUnderEach(
  "rank 0 gets all of much input, however late it reads, and other ranks find theirs empty",
  async (mpi) => {
    const command = [Deno.execPath(), "run", "-A", `${root}scripts/main.ts`, "run", "--mpirun", mpi.mpirun, "-n", "2"];
    const args = ["-c", 'head -c 5000000 /dev/zero | "$0" "$@"', ...command, `${fixtures}/reads_late.ts`];
    const { code, stdout, stderr } = await finish(start("sh", args, { cwd: fixtures }), 30);
    assertEquals([code, stderr], [0, ""]);
    assertEquals(stdout.trim().split("\n").sort(), ["rank 0 read 5000000 bytes", "rank 1 read 0 bytes"]);
  },
);

testUnderEach("all bytes are passed on, also where they are NULs alone, and texts that look like tags", async (mpi) => {
  using folder = temporaryFolder();
  const script = `${folder.path}/prints.ts`;
  Deno.writeTextFileSync(
    script,
    `Deno.stdout.writeSync(new TextEncoder().encode("a <rank 7>:b [1,7]<stdout>: c\\n"));
     Deno.stdout.writeSync(new Uint8Array(80));`,
  );
  const [text, nuls] = ["a <rank 7>:b [1,7]<stdout>: c\n", "\0".repeat(80)];
  const [plain, tagged] = [await run(mpi, ["-n", "1", script]), await run(mpi, ["-n", "1", "--tag-output", script])];
  assertEquals([plain.stdout, plain.stderr], [text + nuls, ""]);
  assertEquals([tagged.stdout, tagged.stderr], [`[0] ${text}[0] ${nuls}\n`, ""]);
});

testUnderEach("the ranks of a job inside a rank of another MPI are told apart", async (mpi) => {
  using folder = temporaryFolder();
  const outer = mpi.family === "mpich" ? "OMPI_COMM_WORLD_RANK" : "PMI_RANK";
  const script = 'exec < "$0"; shift; exec "$@"';
  const input = `${folder.path}/input`;
  Deno.writeTextFileSync(input, "twelve bytes");
  const command = [Deno.execPath(), "run", "-A", `${root}scripts/main.ts`, "run", "--mpirun", mpi.mpirun, "-n", "2"];
  const args = ["-c", script, input, "sh", "env", `${outer}=1`, ...command, `${fixtures}/reads.ts`];
  const { code, stdout, stderr } = await finish(start("sh", args, { cwd: fixtures }), 30);
  assertEquals([code, stderr, stdout], [0, "", "rank 0 of 2 read 12 bytes\n"]);
});

testUnderEach("a test file is run whatever signs its name has", async (mpi) => {
  using folder = temporaryFolder();
  const file = `${folder.path}/a*b?_test.ts`;
  Deno.writeTextFileSync(file, 'Deno.test("is run", () => {});');
  const { code, stdout, stderr } = await run(mpi, ["-n", "1", file]);
  assertEquals(code, 0, stderr);
  assertStringIncludes(stdout, "1 passed");
});

Deno.test("a job file that is the standard output follows what is there, and comes before what is told", async () => {
  using folder = temporaryFolder();
  const file = `${folder.path}/job.sh`;
  for (const [i, redirect] of [">", ">>"].entries()) {
    const program =
      `exec "$0" run -A ${root}scripts/main.ts run -n 2 --sbatch /dev/stdout ranks.ts ${redirect} ${file}`;
    const { code, stderr } = await finish(start("sh", ["-c", program, Deno.execPath()], { cwd: fixtures }));
    assertEquals([code, stderr], [0, ""]);
    const text = Deno.readTextFileSync(file);
    assertEquals(text.split("#!/bin/sh\n#SBATCH").length, i + 2, text);
    assertEquals(text.split("wrote /dev/stdout; to start it: sbatch /dev/stdout\n").length, i + 2, text);
    assertStringIncludes(text, "#!/bin/sh\n#SBATCH");
  }
});

testUnderEach("an argument that is a colon reaches the script", async (mpi) => {
  using folder = temporaryFolder();
  const expected = ["rank 0 of 2: : it's", "rank 1 of 2: : it's"];
  const lines = ({ stdout, stderr }: { stdout: string; stderr: string }) => {
    assertEquals(stderr, "");
    return stdout.trim().split("\n").sort();
  };
  const args = ["-n", "2", "ranks.ts", ":", "it's"];
  assertEquals(lines(await run(mpi, args)), expected);
  const { stdout: command } = await run(mpi, ["--dry-run", ...args]);
  assertEquals(lines(await finish(start("sh", ["-c", command]))), expected);
  await run(mpi, ["--sbatch", `${folder.path}/job.sh`, ...args]);
  assertEquals(lines(await finish(start("sh", [`${folder.path}/job.sh`]))), expected);
  const { stdout: mpijob } = await run(mpi, ["--mpijob", "-", ...args]);
  const [{ command: words }] = JSON.parse(mpijob).spec.mpiReplicaSpecs.Launcher.template.spec.containers;
  assertEquals(words.slice(-2), [":", "it's"]);
});

testUnderEach("run starts ranks on named hosts", async (mpi) => {
  const { code, stdout } = await run(mpi, ["-n", "3", "--hosts", "localhost:3", "ranks.ts"]);
  assertEquals([code, stdout.split("\n").filter(Boolean).length], [0, 3]);
});

testUnderEach("run shows an error once, without the launcher's words", async (mpi) => {
  for (const who of ["all", "1"]) {
    const { code, stdout, stderr } = await run(mpi, ["-n", "2", "throws.ts", who]);
    assertEquals(code, 1, stderr);
    const text = stdout + stderr;
    assertEquals(text.split("Error: broken on purpose").length - 1, 1, text);
    for (const word of ["mpirun", "prterun", "MPI_A" + "BORT", "MPI_Abort", "TERMINATION", "-----", "====="]) {
      assert(!text.includes(word), `"${word}" in:\n${text}`);
    }
  }
});

testUnderEach("the traces of errors lead to the script's line, on every rank", async (mpi) => {
  const script = `${fixtures}/misuses.ts`;
  for (const ranks of [1, 2]) {
    const { code, stdout, stderr } = await run(mpi, ["-n", String(ranks), "misuses.ts"]);
    assertEquals([code, stderr], [0, ""]);
    const found = stdout.trim().split("\n").map((line) => JSON.parse(line));
    assertEquals(found.length, 10 * ranks, stdout);
    for (const { name, traces } of found) {
      for (const trace of traces) assertMatch(trace, lineOf(script, `${name}: () =>`));
      // Not far from the beginning.
      const innermost = traces[0].split("\n").findIndex((line: string) => line.includes("misuses.ts"));
      assert(innermost <= 8, traces[0]);
    }
    const { stderr: uncaught } = await run(mpi, ["-n", String(ranks), "misuses.ts", "matmul"]);
    assertMatch(uncaught, RegExp(`^ {4}at .*${lineOf(script, "matmul: () =>").source}`, "m"));
    assert(!uncaught.includes("Circular"), uncaught);
  }
});

testUnderEach("run has the job's exit code", async (mpi) => {
  assertEquals((await run(mpi, ["-n", "2", "exits.ts", "3"])).code, 3);
});

testUnderEach("run ends a job at its time limit, ranks and all", async (mpi) => {
  using folder = temporaryFolder();
  const { code, stderr } = await run(mpi, ["-n", "2", "--timeout", "2", "waits.ts", folder.path]);
  assertEquals(code, 124, stderr);
  assertStringIncludes(stderr, "did not end within 2 s");
  // Which would be there for minutes.
  await assertNoneAlive(folder.path);
});

Deno.test("run tells at its time limit for which message, begun in which line, a rank waits", async () => {
  const { code, stderr } = await run(firstMpi, ["-n", "2", "--timeout", "4", "awaits.ts"]);
  assertEquals(code, 124, stderr);
  assertMatch(stderr, RegExp(`rank 0 waits in MPI_Irecv at ${lineOf(`${fixtures}/awaits.ts`, "// rank 0").source}`));
});

testUnderEach("run ends the job in time, though nobody reads what is printed", async (mpi) => {
  using folder = temporaryFolder();
  const script = `${folder.path}/prints.ts`;
  Deno.writeTextFileSync(script, 'console.log(Deno.args[0]); for (;;) console.log("x".repeat(10_000));');
  const start = (...options: string[]) =>
    startMain(["run", "--mpirun", mpi.mpirun, "-n", "2", ...options, script, folder.path]);
  const limited = start("--timeout", "3");
  const stderr = new Response(limited.stderr).text();
  assertEquals((await endOf(limited)).code, 124);
  assertMatch(await stderr, /^error: the job did not end within 3 s and was ended/m);
  const ended = start();
  await until(() => processesWith(folder.path).length > 2, 200, "the ranks did not start");
  // For the output to fill what is between.
  await new Promise((resolve) => setTimeout(resolve, 1000 * slowdown()));
  ended.kill("SIGTERM");
  assertEquals((await endOf(ended)).code, 143);
  await Promise.all([limited.stdout.cancel(), ended.stdout.cancel(), ended.stderr.cancel()]);
  await assertNoneAlive(folder.path);
});

/** The end of a process whose output is not read; it is killed if that is long in coming. */
async function endOf(child: Deno.ChildProcess): Promise<Deno.CommandStatus> {
  const timer = setTimeout(() => child.kill("SIGKILL"), 30_000 * slowdown());
  const status = await child.status;
  clearTimeout(timer);
  return status;
}

testUnderEach("run ends the job when it is interrupted", async (mpi) => {
  for (const [signal, expected] of [["SIGINT", 130], ["SIGTERM", 143]] as const) {
    using folder = temporaryFolder();
    const args = ["run", "--mpirun", mpi.mpirun, "-n", "2", "waits.ts", folder.path];
    const child = startMain(args, { cwd: fixtures });
    await until(() => [...Deno.readDirSync(folder.path)].length === 2, 200, "the ranks did not start");
    child.kill(signal);
    const { code } = await finish(child, 40);
    assertEquals(code, expected);
    await assertNoneAlive(folder.path);
  }
});

Deno.test("run ends the job, without a word, when nobody reads its output any more", async () => {
  using folder = temporaryFolder();
  const args = ["run", "--mpirun", firstMpi.mpirun, "-n", "2", "waits.ts", folder.path, "still here"];
  const child = startMain(args, { cwd: fixtures });
  const reader = child.stdout.getReader();
  await reader.read();
  await reader.cancel();
  const stderr = new Response(child.stderr).text();
  assertEquals([(await child.status).code, await stderr], [141, ""]);
  await assertNoneAlive(folder.path);
});

/** The ranks of waits.ts have the folder among their arguments; one that was killed may take a moment. */
async function assertNoneAlive(folder: string): Promise<void> {
  await untilNoneHas(folder);
}

Deno.test("run starts a test file with deno test", async () => {
  const { code, stdout } = await run(firstMpi, ["-n", "2", "passing_test.ts"]);
  assertEquals(code, 0);
  assertEquals(stdout.split("1 passed").length - 1, 2, stdout);
});

Deno.test("run takes paths relative to INIT_CWD in a task of its own, and to the folder in one of somebody else's", async () => {
  using folder = temporaryFolder();
  const args = ["run", "--mpirun", firstMpi.mpirun, "ranks.ts"];
  for (const options of [{ env: { INIT_CWD: fixtures } }, { cwd: fixtures, env: { INIT_CWD: folder.path } }]) {
    const { code, stdout, stderr } = await main(args, options);
    assertEquals([code, stdout], [0, "rank 0 of 1: \n"], stderr);
  }
});

testUnderEach("run starts the script in the folder where the task was called", async (mpi) => {
  using folder = temporaryFolder();
  Deno.writeTextFileSync(`${folder.path}/where.ts`, "console.log(Deno.cwd());");
  const args = ["run", "--mpirun", mpi.mpirun, "-n", "2", "where.ts"];
  const { code, stdout } = await main(args, { env: { INIT_CWD: folder.path } });
  assertEquals([code, stdout], [0, `${folder.path}\n${folder.path}\n`]);
});

Deno.test("run refuses what it cannot start, with exit code 2 and a line", async () => {
  const cases: [args: string[], message: string][] = [
    [[], "run needs a script"],
    [["nothing.ts"], `there is no file ${fixtures}/nothing.ts`],
    [["-"], 'a script is a file or a URL, not "-": write it to a file, and name that'],
    [["-n", "zero", "ranks.ts"], "-n takes a whole number"],
    [["--timeout", "-1", "ranks.ts"], "--timeout takes a positive number of seconds"],
    [["--timeout", "0", "ranks.ts"], "--timeout takes a positive number of seconds"],
    [["--wrong", "ranks.ts"], "--wrong"],
    [["--hosts", ",", "ranks.ts"], "--hosts takes a list"],
    [["--mpirun", "/nonexistent/mpirun", "ranks.ts"], "there is no such file"],
  ];
  for (const [args, message] of cases) {
    const { code, stdout, stderr } = await main(["run", ...args], { cwd: fixtures });
    assertEquals([code, stdout], [2, ""], stderr);
    assertStringIncludes(stderr, message);
    assertEquals(stderr.trim().split("\n").length, 1, stderr);
  }
});

Deno.test("an unknown command is refused with exit code 2, and --help lists them all", async () => {
  const wrong = await main(["multiply"]);
  assertEquals(wrong.code, 2);
  assertStringIncludes(wrong.stderr, 'there is no command "multiply". There are demo, ');
  assertStringIncludes((await main(["docter"])).stderr, 'there is no command "docter"; did you mean "doctor"? There');
  const { code, stdout } = await main(["--help"]);
  assertEquals(code, 0);
  for (const [, name] of stdout.matchAll(/^ {2}(\S+) /gm)) {
    // What it would do, it does not do: a download, say.
    const env = { DISTMATH_ABI_CACHE: "/nonexistent", DISTMATH_NATIVE: "/nonexistent" };
    for (const flag of ["--help", "-h"]) {
      const help = await main([name, flag], { env });
      assertEquals([help.code, help.stderr], [0, ""], name);
      assertMatch(help.stdout, new RegExp(`Usage: (deno task )?${name} `));
    }
  }
});

testUnderEach("lines that look like a launcher's are shown while the script goes on", async (mpi) => {
  using folder = temporaryFolder();
  const script = `${folder.path}/draws.ts`;
  Deno.writeTextFileSync(script, 'console.log(`${"-".repeat(60)}\\na table`); setTimeout(() => {}, 600_000);');
  const child = startMain(["run", "--mpirun", mpi.mpirun, script]);
  let stdout = "";
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    stdout += text;
    if (stdout.endsWith("a table\n")) child.kill("SIGTERM");
  }
  const [{ code }] = await Promise.all([child.status, child.stderr.cancel()]);
  // Hydra adds an empty line when it ends a job.
  assertEquals([code, stdout.trimEnd()], [143, `${"-".repeat(60)}\na table`]);
});
