/** `run`: options on how ranks run; batch systems; Slurm's srun, for which a stand-in starts the tasks. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { hostname } from "node:os";
import { launchers, mpiInstallations, slowdown } from "../mpi_installations.ts";
import { finish, main, root, start, startMain, temporaryFolder } from "./command.ts";

const fixtures = `${root}tests/system/fixtures`;
const [{ mpirun }] = mpiInstallations;

const run = (args: string[], env: Record<string, string> = {}) => main(["run", ...args], { cwd: fixtures, env });
const lines = (text: string) => text.split("\n").filter(Boolean).sort();

for (const mpi of launchers) {
  Deno.test(`run --tag-output names the rank of each line, and --env sets variables [${mpi.name}]`, async () => {
    using folder = temporaryFolder();
    const script = `${folder.path}/says.ts`;
    // In parts, so that launchers pass on one rank's between those of the other.
    const says = `for (const part of [Deno.env.get("A"), " and ", Deno.env.get("B"), "\\n"]) {
      Deno.stdout.writeSync(new TextEncoder().encode(part));
      await new Promise((resolve) => setTimeout(resolve, 50));
    }`;
    Deno.writeTextFileSync(script, says);
    const args = ["--mpirun", mpi.mpirun, "-n", "2", "--tag-output", "--env", "A=a b", "--env", "B", script];
    const { code, stdout, stderr } = await run(args, { B: "c" });
    assertEquals([code, lines(stdout), stderr], [0, ["[0] a b and c", "[1] a b and c"], ""]);
    const failed = await run(["--mpirun", mpi.mpirun, "-n", "2", "--tag-output", "throws.ts", "1"]);
    assertEquals(failed.code, 1);
    assertMatch(failed.stderr, /^\[1\] error: Uncaught .*broken on purpose$/m);
    assertMatch(failed.stderr, /^error: rank 1 ended the job with exit code 1: an uncaught error$/m);
  });
}

for (const mpi of launchers) {
  Deno.test(`run --gpus sets which GPUs the ranks see, and --cpu that they use none [${mpi.name}]`, async () => {
    using folder = temporaryFolder();
    const script = `${folder.path}/says.ts`;
    const says = 'console.log(["CUDA_VISIBLE_DEVICES", "DISTMATH_DEVICE"].map((name) => Deno.env.get(name)).join());';
    Deno.writeTextFileSync(script, says);
    const start = async (...options: string[]) =>
      lines((await run(["--mpirun", mpi.mpirun, "-n", "2", ...options, script], { CUDA_VISIBLE_DEVICES: "7" })).stdout);
    assertEquals(await start("--gpus", "0,2"), ["0,2,", "0,2,"]);
    assertEquals(await start("--cpu"), ["7,cpu", "7,cpu"]);
  });

  Deno.test(`run --hostfile starts the ranks on the hosts of a file [${mpi.name}]`, async () => {
    using folder = temporaryFolder();
    const file = `${folder.path}/hosts`;
    for (const host of ["localhost slots=2", "# both ranks\nlocalhost:2"]) {
      Deno.writeTextFileSync(file, `${host}\n`);
      const args = ["--mpirun", mpi.mpirun, "-n", "2", "--hostfile", file];
      const { code, stdout, stderr } = await run([...args, "ranks.ts", "a"]);
      assertEquals([code, lines(stdout), stderr], [0, ["rank 0 of 2: a", "rank 1 of 2: a"], ""]);
      assertMatch((await run([...args, "--dry-run", "ranks.ts"])).stdout, / -{1,2}hosts? localhost:2 /);
    }
  });
}

for (const mpi of launchers) {
  Deno.test(`run --dry-run prints a command that does the same [${mpi.name}]`, async () => {
    const { code, stdout } = await run(["--mpirun", mpi.mpirun, "-n", "2", "--cpu", "--dry-run", "ranks.ts", "it's"]);
    assertEquals(code, 0);
    assertStringIncludes(stdout, "DISTMATH_DEVICE=cpu");
    const ended = await finish(start("sh", ["-c", stdout], { cwd: fixtures }));
    assertEquals(lines(ended.stdout), ["rank 0 of 2: it's", "rank 1 of 2: it's"]);
  });
}

Deno.test("run passes Deno's flags on, and permits no more than they say", async () => {
  using folder = temporaryFolder();
  const script = `${folder.path}/says.ts`;
  Deno.writeTextFileSync(
    script,
    'for (const name of ["net", "ffi"] as const) console.log(Deno.permissions.querySync({ name }).state);',
  );
  const states = async (...flags: string[]) => lines((await run(["--mpirun", mpirun, ...flags, script])).stdout);
  assertEquals(await states(), ["granted", "granted"]);
  assertEquals(await states("--allow-net", "--no-prompt"), ["granted", "prompt"]);
  assertEquals(await states("--config", "/nonexistent"), []);
});

for (const mpi of launchers) {
  Deno.test(`run --profile writes a profile of each rank, and all side by side [${mpi.name}]`, async () => {
    using folder = temporaryFolder();
    const { code, stderr } = await run(["--mpirun", mpi.mpirun, "-n", "2", "--profile", folder.path, "hosts.ts"]);
    assertEquals([code, stderr.split(":")[0]], [0, "profiles of the ranks, side by side"]);
    assertEquals([...Deno.readDirSync(folder.path)].map(({ name }) => name).sort(), [
      "rank-0.cpuprofile",
      "rank-1.cpuprofile",
      "trace.json",
    ]);
    const { traceEvents } = JSON.parse(Deno.readTextFileSync(`${folder.path}/trace.json`));
    for (const rank of [0, 1]) {
      const found = traceEvents.some((event: { name: string; pid: number; args: { source?: string } }) =>
        event.pid === rank && event.name === "initialize" && event.args.source?.includes("src/runtime/initialize.ts")
      );
      assert(found, `rank ${rank} has no call of initialize()`);
    }
  });

  Deno.test(`run --inspect has one rank wait for a debugger [${mpi.name}]`, async () => {
    const child = startMain(["run", "--mpirun", mpi.mpirun, "-n", "2", "--inspect", "1", "ranks.ts"], {
      cwd: fixtures,
    });
    const errors = child.stderr.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes("ws://127.0.0.1:9229/")) {
      const { done, value } = await errors.read();
      assert(!done, text);
      text += value;
    }
    const socket = new WebSocket(/ws:\S+/.exec(text)![0]);
    socket.onopen = () => {
      const methods = ["Runtime.enable", "Runtime.runIfWaitingForDebugger"];
      methods.forEach((method, id) => socket.send(JSON.stringify({ id, method })));
    };
    // The rank waits for the debugger to leave.
    socket.onmessage = ({ data }) => data.includes("executionContextDestroyed") && socket.close();
    const stdout = new Response(child.stdout).text();
    assertEquals((await child.status).code, 0);
    await errors.cancel();
    assertEquals(lines(await stdout), ["rank 0 of 2: ", "rank 1 of 2: "]);
  });

  Deno.test(`run --watch starts the job again when a module changes, while it runs [${mpi.name}]`, async () => {
    using folder = temporaryFolder();
    const write = (value: string) =>
      Deno.writeTextFileSync(`${folder.path}/value.ts`, `export const value = "${value}";`);
    write("first");
    Deno.writeTextFileSync(
      `${folder.path}/a.ts`,
      'import { value } from "./value.ts"; console.log(`it is ${value}`); setTimeout(() => {}, 60_000);',
    );
    const child = startMain(["run", "--mpirun", mpi.mpirun, "-n", "2", "--watch", "a.ts"], { cwd: folder.path });
    const stderr = new Response(child.stderr).text();
    let stdout = "";
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      const before = stdout;
      stdout += text;
      const has = (words: string) => stdout.split(words).length === 3 && before.split(words).length < 3;
      if (has("it is first")) {
        // What is saved first may make no sense.
        Deno.writeTextFileSync(`${folder.path}/value.ts`, "export const value = ;");
        await new Promise((resolve) => setTimeout(resolve, 1000 * slowdown()));
        write("second");
      }
      if (has("it is second")) child.kill("SIGINT");
    }
    assertEquals((await child.status).code, 130, await stderr);
  });
}

Deno.test("run --watch waits for a module in a folder that is not there yet", async () => {
  using folder = temporaryFolder();
  const { path } = folder;
  Deno.writeTextFileSync(`${path}/a.ts`, 'import "./lib/deep/b.ts"; setTimeout(() => {}, 60_000);');
  const child = startMain(["run", "--mpirun", mpirun, "-n", "1", "--watch", "a.ts"], { cwd: path });
  let stderr = "";
  const told = (async () => {
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) {
      const isFirst = !stderr.includes("starts again after a change");
      stderr += text;
      if (!isFirst || !stderr.includes("starts again after a change")) continue;
      Deno.mkdirSync(`${path}/lib/deep`, { recursive: true });
      Deno.writeTextFileSync(`${path}/lib/deep/b.ts`, 'console.log("mended");');
    }
  })();
  let stdout = "";
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    stdout += text;
    if (stdout.includes("mended")) child.kill("SIGINT");
  }
  await told;
  assertEquals([(await child.status).code, stdout.trim()], [130, "mended"], stderr);
  assertMatch(stderr, /^error: Module not found "file:.*\/lib\/deep\/b\.ts"/);
});

Deno.test("Ctrl-C ends run --watch also while it is ending the job for a change", async () => {
  using folder = temporaryFolder();
  const [mpirun, script] = [`${folder.path}/mpirun`, `${folder.path}/a.ts`];
  const launcher = `#!/bin/sh
case "$*" in *--version*) echo "mpirun (Open MPI) 5.0.11"; exit ;; esac
trap 'echo asked to end; sleep 2; exit' TERM
echo started
while :; do sleep 0.1; done`;
  Deno.writeTextFileSync(mpirun, launcher, { mode: 0o755 });
  Deno.writeTextFileSync(script, "");
  const child = startMain(["run", "--mpirun", mpirun, "-n", "2", "--watch", script]);
  const stderr = new Response(child.stderr).text();
  let stdout = "";
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    stdout += text;
    const isAgain = stdout.split("started").length > 2;
    if (text.includes("started") && !isAgain) Deno.writeTextFileSync(script, "// changed");
    if (text.includes("asked to end") || isAgain) child.kill("SIGINT");
  }
  assertEquals([(await child.status).code, stdout], [130, "started\nasked to end\n"], await stderr);
});

for (const mpi of launchers) {
  Deno.test(`run writes job files that start it again, and prints them for - [${mpi.name}]`, async () => {
    using folder = temporaryFolder();
    const options = ["-n", "2", "--timeout", "60", "--mpirun", mpi.mpirun, "--tag-output", "ranks.ts", "a b"];
    const written = await run(["--sbatch", `${folder.path}/job.sh`, ...options]);
    assertStringIncludes(written.stdout, `wrote ${folder.path}/job.sh; to start it: sbatch `);
    const ended = await finish(start("sh", [`${folder.path}/job.sh`]));
    assertEquals(lines(ended.stdout), ["[0] rank 0 of 2: a b", "[1] rank 1 of 2: a b"], ended.stderr);
    const { stdout } = await run(["--pbs", "-", ...options]);
    assertStringIncludes(stdout, "#PBS -l select=2:ncpus=1:mpiprocs=1\n#PBS -l walltime=0:01:00\n");
  });

  Deno.test(`run takes the slots of an allocation of PBS, and its job file runs in one [${mpi.name}]`, async () => {
    using folder = temporaryFolder();
    const nodes = `${folder.path}/nodes`;
    Deno.writeTextFileSync(nodes, `${hostname()}\n`.repeat(3));
    const allocation = { PBS_JOBID: "1.server", PBS_NODEFILE: nodes };
    const inside = await run(["--mpirun", mpi.mpirun, "ranks.ts"], allocation);
    assertEquals(lines(inside.stdout), ["rank 0 of 3: ", "rank 1 of 3: ", "rank 2 of 3: "], inside.stderr);
    const file = `${folder.path}/job.sh`;
    const written = await run(["--pbs", file, "-n", "2", "--mpirun", mpi.mpirun, "--env", "A=a b", "ranks.ts", "it's"]);
    assertEquals(written.stdout, `wrote ${file}; to start it: qsub ${file}\n`);
    // PBS starts it elsewhere, with a shell of its own.
    const ended = await finish(start("sh", [file], { cwd: "/", env: allocation }));
    assertEquals(lines(ended.stdout), ["rank 0 of 2: it's", "rank 1 of 2: it's"], ended.stderr);
  });

  Deno.test(`run takes the slots of an MPIJob [${mpi.name}]`, async () => {
    using folder = temporaryFolder();
    const hosts = `${folder.path}/hostfile`;
    const isOpenMpi = mpi.family === "open_mpi";
    Deno.writeTextFileSync(hosts, `${hostname()}${isOpenMpi ? " slots=" : ":"}3\n`);
    const variables = isOpenMpi
      ? ["OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"]
      : ["HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE"];
    for (const variable of variables) {
      const { stdout, stderr } = await run(["--mpirun", mpi.mpirun, "ranks.ts"], { [variable]: hosts });
      assertEquals(lines(stdout), ["rank 0 of 3: ", "rank 1 of 3: ", "rank 2 of 3: "], stderr);
    }
  });
}

Deno.test("run takes srun in an allocation of Slurm's, with as many ranks as it has slots", async () => {
  const allocation = { SLURM_JOB_ID: "1", SLURM_JOB_NODELIST: hostname(), SLURM_TASKS_PER_NODE: "3" };
  const env = { ...allocation, PATH: `${fixtures}:${Deno.env.get("PATH")}` };
  const { code, stdout, stderr } = await run(["--tag-output", "ranks.ts"], env);
  assertEquals([code, stderr], [0, ""]);
  assertEquals(lines(stdout), ["[0] rank 0 of 3: ", "[1] rank 1 of 3: ", "[2] rank 2 of 3: "]);
  const { stdout: command } = await run(["--dry-run", "ranks.ts"], env);
  assertMatch(command, /^env .* srun --mpi=(pmix|pmi2) --cpu-bind=none --kill-on-bad-exit=1 -n 3 /);
});

Deno.test("ranks that srun starts alone are told of, with what to do", async () => {
  const { code, stderr } = await run(["--mpirun", "./srun", "-n", "2", "throws.ts"]);
  assertEquals(code, 1, stderr);
  assertMatch(
    stderr,
    /The launcher started 2 ranks, but MPI .* sees only 1, .* Start the script by srun --mpi=(pmix|pmi2),/,
  );
  assertMatch(stderr, /^error: rank \d ended the job with exit code 1: an uncaught error$/m);
});

Deno.test("cluster-test runs under srun", async () => {
  using folder = temporaryFolder();
  const file = `${folder.path}/a_test.ts`;
  Deno.writeTextFileSync(
    file,
    'Deno.test("fails on rank 1", () => { if (Deno.env.get("SLURM_PROCID") === "1") throw 1; });',
  );
  const { code, stdout } = await main([
    "cluster-test",
    "--no-check",
    "--mpirun",
    `${fixtures}/srun`,
    "--ranks",
    "2",
    file,
  ]);
  assertEquals(code, 1);
  assertStringIncludes(stdout, "fails on rank 1 … FAILED on rank 1");
});

Deno.test("a script without a launcher says once that it is the only rank", async () => {
  const line = "distmath: no launcher started this process: it is the only rank. For 4: deno task run -n 4 script.ts\n";
  using folder = temporaryFolder();
  const worldAlone = `${folder.path}/world.ts`;
  Deno.writeTextFileSync(
    worldAlone,
    `import { Communicator } from "${root}mod.ts"; for (const _ of [1, 2]) Communicator.world().barrier();`,
  );
  for (const script of [`${root}examples/slab.ts`, worldAlone]) {
    const args = ["run", "-A", script];
    const { code, stderr } = await finish(start(Deno.execPath(), args, { env: { DISTMATH_DEVICE: "cpu" } }));
    assertEquals([code, stderr], [0, line], script);
  }
});

Deno.test("run refuses options that it cannot follow, with exit code 2 and a line", async () => {
  const cases: [args: string[], message: string][] = [
    [["--env", "A B", "ranks.ts"], '--env takes NAME=VALUE or NAME, not "A B"'],
    [["--env", "NOBODY_SETS_IT", "ranks.ts"], "there is no variable of this name here; --env NOBODY_SETS_IT=VALUE"],
    [["--cpu", "--gpus", "0", "ranks.ts"], "take --cpu or --gpus, not both"],
    [["--gpus", "all", "ranks.ts"], '--gpus takes numbers of GPUs such as 0,2, each once, not "all"'],
    [["--gpus", "0,0", "ranks.ts"], '--gpus takes numbers of GPUs such as 0,2, each once, not "0,0"'],
    [
      ["--cpu", "--env", "DISTMATH_DEVICE=gpu", "ranks.ts"],
      "--env DISTMATH_DEVICE=gpu: another option gives DISTMATH_DEVICE a value; leave out one",
    ],
    [["--profile", "", "ranks.ts"], '--profile takes the name of a folder, not ""'],
    [["-n", "2", "--inspect", "2", "ranks.ts"], '--inspect takes a rank from 0 to 1, not "2"'],
    [["--profile", "p", "passing_test.ts"], "--profile takes a script, not tests"],
    [
      ["--profile", "ranks.ts/p", "ranks.ts"],
      `--profile: ${fixtures}/ranks.ts/p cannot be made: Not a directory (os error 20); name another folder`,
    ],
    [
      ["--sbatch", "/nonexistent/job", "ranks.ts"],
      "--sbatch: /nonexistent/job cannot be written: No such file or directory (os error 2); " +
      "make the folder /nonexistent, or name another file",
    ],
    [["--hostfile", "/nonexistent", "ranks.ts"], "the file of hosts /nonexistent cannot be read"],
    [["--hosts", "localhost:4294967298", "ranks.ts"], "--hosts localhost:4294967298: there are 4294967298 slots; each"],
    [["--profile", "p/{rank}", "ranks.ts"], `--profile takes one folder for all ranks, not "${fixtures}/p/{rank}"`],
  ];
  for (const [args, message] of cases) {
    const { code, stdout, stderr } = await run(args);
    assertEquals([code, stdout], [2, ""], stderr);
    assertStringIncludes(stderr, message);
  }
});
