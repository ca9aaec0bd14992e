/** What holds for all commands: extra arguments, colours, a full device, interruptions. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { existsSync } from "node:fs";
import { launchers } from "../mpi_installations.ts";
import { finish, isMade, main, root, start, startMain, temporaryFolder } from "./command.ts";

const fixtures = `${root}tests/system/fixtures`;

Deno.test("commands refuse arguments and options that they do not know, before they do anything", async () => {
  const env = { DISTMATH_ABI_CACHE: "/nonexistent", DISTMATH_NATIVE: "/nonexistent", PATH: "/nonexistent" };
  for (
    const [args, message] of [
      [["demo", "x"], 'demo takes options only, not "x"'],
      [["doctor", "x", "y"], 'doctor takes options only, not "x y"'],
      [["test:abi", "x"], 'test:abi takes options only, not "x"'],
      [["test", "x"], 'test has no part "x"'],
      [["matmul", "x", "y", "z"], "matmul takes two files"],
      [["native", "list", "x"], "native list takes no set"],
      [["native", "install", "cpu", "x"], "native takes one action"],
      [["bench", "x"], "There is no group x"],
      [["bench", "--json", "/nonexistent/x.json"], "--json: /nonexistent/x.json cannot be written"],
      [["help", "run"], "help takes no arguments; for the options of a command: run --help"],
      ...["demo", "doctor", "test:abi", "test", "matmul", "native", "bench", "run", "cluster-test", "test:gpu"].map((
        name,
      ) => [[name, "--hlep"], "there is no option --hlep; did you mean --help? Allowed: "] as const),
    ] as const
  ) {
    const { code, stdout, stderr } = await main(args, { env });
    assertEquals([code, stdout], [2, ""], `${args}: ${stderr}`);
    assertStringIncludes(stderr, message);
  }
});

Deno.test("commands that lack permissions say what they need", async () => {
  for (
    const given of [[], ["--allow-read"], ["--allow-read", "--allow-env", "--allow-sys"], [
      "--allow-env",
      "--allow-run=deno",
    ]]
  ) {
    for (const command of [["doctor"], ["demo"], ["run", "-n", "1", "fixtures/ranks.ts"]]) {
      const args = ["run", "--no-prompt", "--no-check", ...given, `${root}scripts/main.ts`, ...command];
      const { code, stdout, stderr } = await finish(start(Deno.execPath(), args, { cwd: `${root}tests/system` }));
      assertEquals([code, stdout], [1, ""], `${given} ${command}: ${stderr}`);
      assertMatch(stderr, /^error: Requires \w+ access.*deno run -A\n$/, `${given} ${command}`);
    }
  }
});

/** A launcher that is none: for `--version` it is Open MPI's, and what it is to start it does in its own way. */
function fakeLauncher(folder: string, does: string): string {
  const path = `${folder}/mpirun`;
  const text = `#!/bin/sh\nif [ "$1" = --version ]; then echo "mpirun (Open MPI) 5.0.11"; exit; fi\n${does}\n`;
  Deno.writeTextFileSync(path, text, { mode: 0o755 });
  return path;
}

/** A file of NumPy's with a 1 x 1 matrix. */
function writeOne(path: string): void {
  const header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1), }".padEnd(117) + "\n";
  const start = new Uint8Array([0x93, ...new TextEncoder().encode(`NUMPY\x01\x00\x76\x00${header}`)]);
  Deno.writeFileSync(path, new Uint8Array([...start, ...new Uint8Array(Float64Array.of(1).buffer)]));
}

const onOne = (folder: string) => ["matmul", `${folder}/one.npy`, `${folder}/one.npy`, "--out", `${folder}/out.npy`];

Deno.test("ranks use no colours where the output is no terminal, unless FORCE_COLOR is set", async () => {
  using folder = temporaryFolder();
  const mpirun = fakeLauncher(folder.path, 'echo "NO_COLOR=$NO_COLOR, FORCE_COLOR=$FORCE_COLOR."; exit 3');
  writeOne(`${folder.path}/one.npy`);
  const test = ["cluster-test", "--no-check", "--ranks", "1", "passing_test.ts"];
  for (const command of [["run", "ranks.ts"], ["demo"], onOne(folder.path), test]) {
    const [name, ...args] = command;
    const said = async (env: Record<string, string>) => {
      const { stdout, stderr } = await main([name, "--mpirun", mpirun, ...args], { cwd: fixtures, env });
      return stdout + stderr;
    };
    for (const unset of [{ NO_COLOR: "" }, { NO_COLOR: "", FORCE_COLOR: "" }]) {
      const plain = await said(unset);
      assertStringIncludes(plain, "NO_COLOR=1, FORCE_COLOR=.");
      assert(!plain.includes("\x1b"), plain);
    }
    const forced = await said({ NO_COLOR: "", FORCE_COLOR: "1" });
    // What ranks tell of tests is read by the command, and what the command makes of it has colours.
    assertStringIncludes(forced, name === "cluster-test" ? "NO_COLOR=1, FORCE_COLOR=." : "NO_COLOR=, FORCE_COLOR=1.");
    if (name !== "run" && name !== "demo") assertStringIncludes(forced, "\x1b[31m");
  }
});

/** The output of a command that has a terminal, and a person before it, by script(1) of util-linux. */
async function inTerminal(command: readonly string[], env: Record<string, string>): Promise<string> {
  const words = [Deno.execPath(), "run", "-A", `${root}scripts/main.ts`, ...command].map((word) => `'${word}'`);
  const { stdout } = await finish(
    // Node has no colours where there is a variable CI, whatever it is.
    start("env", ["-u", "CI", "script", "-qec", words.join(" "), "/dev/null"], { env: { TERM: "xterm", ...env } }),
  );
  return stdout;
}

const hasScript = (Deno.env.get("PATH") ?? "").split(":").some((folder) => existsSync(`${folder}/script`));

for (const { name, mpirun } of launchers) {
  const title = "ranks use colours in a terminal, and none where NO_COLOR is set or the output is piped";
  const skipped = hasScript ? "" : " (skipped: there is no script(1))";
  Deno.test({ name: `${title} [${name}]${skipped}`, ignore: !hasScript }, async () => {
    using folder = temporaryFolder();
    const script = `${folder.path}/colors.ts`;
    Deno.writeTextFileSync(script, "console.log({ a: 1 }); console.error({ b: 2 });");
    const command = ["run", "--mpirun", mpirun, "-n", "2", script];
    const lines = (text: string) => text.split(/\r?\n/).filter(Boolean).sort();
    const plain = ["{ a: 1 }", "{ a: 1 }", "{ b: 2 }", "{ b: 2 }"];
    const colored = plain.map((line) => line.replace(/\d/, "\x1b[33m$&\x1b[39m"));
    assertEquals(lines(await inTerminal(command, { NO_COLOR: "" })), colored);
    assertEquals(lines(await inTerminal(command, { NO_COLOR: "1" })), plain);
    const { stdout, stderr } = await main(command, { env: { NO_COLOR: "" } });
    assertEquals(lines(stdout + stderr), plain);
    // Each rank has a colour of its own.
    const tagged = [...command.slice(0, -1), "--tag-output", script];
    const withTags = (lines: string[], tags: string[]) => lines.map((line, i) => `${tags[i % 2]} ${line}`).sort();
    const colors = ["\x1b[36m[0]\x1b[39m", "\x1b[35m[1]\x1b[39m"];
    assertEquals(lines(await inTerminal(tagged, { NO_COLOR: "" })), withTags(colored, colors));
    assertEquals(lines(await inTerminal(tagged, { NO_COLOR: "1" })), withTags(plain, ["[0]", "[1]"]));
    const piped = await main(tagged, { env: { NO_COLOR: "" } });
    assertEquals(lines(piped.stdout + piped.stderr), withTags(plain, ["[0]", "[1]"]));
  });
}

Deno.test("output to a full device ends in a line", async () => {
  using folder = temporaryFolder();
  const mpirun = fakeLauncher(folder.path, "echo line");
  for (
    const command of [
      ["--help"],
      ["run", "--help"],
      ["run", "--mpirun", mpirun, "ranks.ts"],
      ["native", "list"],
      ["doctor", "--json"],
    ]
  ) {
    const program = `exec "$0" run -A ${root}scripts/main.ts ${command.join(" ")} > /dev/full`;
    const { code, stderr } = await finish(start("sh", ["-c", program, Deno.execPath()], { cwd: fixtures }));
    assertEquals([code, stderr], [1, "error: the output cannot be written: No space left on device (os error 28)\n"]);
  }
  // Where not even that line can be written, the exit code tells.
  const program = `exec "$0" run -A ${root}scripts/main.ts nothing 2> /dev/full`;
  assertEquals((await finish(start("sh", ["-c", program, Deno.execPath()]))).code, 2);
});

Deno.test("matmul says that it was interrupted", async () => {
  for (const [signal, expected] of [["SIGINT", 130], ["SIGTERM", 143]] as const) {
    using folder = temporaryFolder();
    const mpirun = fakeLauncher(folder.path, `touch ${folder.path}/started; exec sleep 60`);
    writeOne(`${folder.path}/one.npy`);
    const child = startMain([...onOne(folder.path), "--mpirun", mpirun]);
    const ended = finish(child, 40);
    await isMade(`${folder.path}/started`, ended);
    child.kill(signal);
    const { code, stdout, stderr } = await ended;
    assertEquals([code, stdout, stderr], [expected, "", "error: interrupted; nothing was written\n"]);
    assertEquals([...Deno.readDirSync(folder.path)].map(({ name }) => name).sort(), ["mpirun", "one.npy", "started"]);
  }
});

Deno.test("a job that is interrupted as soon as it begins ends as well", async () => {
  for (const [signal, expected] of [["INT", 130], ["TERM", 143]] as const) {
    using folder = temporaryFolder();
    const mpirun = fakeLauncher(folder.path, `kill -${signal} $PPID; exec sleep 60`);
    writeOne(`${folder.path}/one.npy`);
    const { code, stderr } = await main([...onOne(folder.path), "--mpirun", mpirun], { seconds: 40 });
    assertEquals([code, stderr], [expected, "error: interrupted; nothing was written\n"]);
  }
});

Deno.test("cluster-test ends at once when it is interrupted while it checks types", async () => {
  for (const [signal, expected] of [["SIGINT", 130], ["SIGTERM", 143]] as const) {
    using folder = temporaryFolder();
    const asked = Promise.withResolvers<void>();
    const gone = Promise.withResolvers<void>();
    // A server that does not answer keeps the check waiting.
    const controller = new AbortController();
    const server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen: () => {}, signal: controller.signal },
      (request) => {
        asked.resolve();
        request.signal.addEventListener("abort", () => gone.resolve());
        return new Promise<Response>((resolve) => gone.promise.then(() => resolve(new Response())));
      },
    );
    Deno.writeTextFileSync(`${folder.path}/a_test.ts`, `import "http://127.0.0.1:${server.addr.port}/slow.ts";\n`);
    const mpirun = fakeLauncher(folder.path, "exit 3");
    const report = `${folder.path}/report.json`;
    const args = ["cluster-test", "--mpirun", mpirun, "--json", report, `${folder.path}/a_test.ts`];
    const child = startMain(args, { env: { DENO_DIR: `${folder.path}/deno` } });
    await asked.promise;
    child.kill(signal);
    const { code, stderr } = await finish(child, 40);
    await gone.promise; // The check itself has ended, too.
    controller.abort();
    await server.finished;
    assertEquals(code, expected, stderr);
    assertMatch(stderr, /^error: interrupted$/m);
    assert(!stderr.includes("type errors"), stderr);
    const { jobs } = JSON.parse(Deno.readTextFileSync(report));
    for (const { tests: [test] } of jobs) {
      // The launcher, which was asked for the file's tests, is none.
      const why = "the command was interrupted; the file could not be loaded: the job ended with exit code 3";
      assertEquals([test.outcome, test.details.slice(0, why.length)], ["not run", why]);
    }
    assertEquals(jobs.map(({ ranks }: { ranks: number }) => ranks), [1, 2, 4]);
  }
});
