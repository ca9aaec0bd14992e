/** Progress: a bar where somebody watches, lines in a pipe if it takes long, nothing else. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { finish, root, start, temporaryFolder } from "./command.ts";

/** NumPy's format 1.0: a small float32 matrix of ones. */
function npy(rows: number, columns: number): Uint8Array {
  const text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows}, ${columns}), }`.padEnd(117) + "\n";
  const magic = [0x93, ...new TextEncoder().encode("NUMPY"), 1, 0, text.length, 0];
  const body = new Uint8Array(new Float32Array(rows * columns).fill(1).buffer);
  return new Uint8Array([...magic, ...new TextEncoder().encode(text), ...body]);
}

/** Run the command line in a terminal, which `script` makes, or in pipes. */
async function run(command: string, { isTerminal = true, env = {} as Record<string, string> } = {}): Promise<string> {
  const line = `${Deno.execPath()} run -A ${root}scripts/main.ts ${command}`;
  const [program, ...args] = isTerminal ? ["script", "-qec", `stty cols 80; ${line}`, "/dev/null"] : ["sh", "-c", line];
  const { code, stdout, stderr } = await finish(start(program, args, { env: { TERM: "xterm", CI: "", ...env } }), 300);
  assertEquals(code, 0, stdout + stderr);
  return stdout + stderr;
}

Deno.test("tests on ranks are counted under a bar in a terminal, and not in CI or in a pipe", async () => {
  const command = "cluster-test --no-check --ranks 1 tests/system/fixtures/passing_test.ts";
  const watched = await run(command);
  // As much of it as fits into a terminal of 80 columns.
  const line = `${"░".repeat(24)} 0 of 1  tests/system/fixtures/passing_test.ts on 1 rank`;
  assertStringIncludes(watched, `\x1b[K${line.slice(0, 79)}\r`);
  assertStringIncludes(watched, "\r\x1b[K");
  for (const output of [await run(command, { env: { CI: "true" } }), await run(command, { isTerminal: false })]) {
    assert(!output.includes("░") && !output.includes("\x1b[K"), output);
    assertStringIncludes(output, "passed, 0 failed");
  }
});

Deno.test("a product of files tells what it reads in a terminal, and in a pipe if that is much", async () => {
  using folder = temporaryFolder();
  const [a, b, d] = ["A", "B", "D"].map((name) => `${folder.path}/${name}.npy`);
  Deno.writeFileSync(a, npy(4, 6));
  Deno.writeFileSync(b, npy(6, 5));
  const command = `matmul ${a} ${b} --out ${d}`;
  const watched = await run(command);
  for (const step of ["0 B of 680 B  reading A (224 B)", "reading B (248 B)", "multiplying", "writing (208 B)"]) {
    assertStringIncludes(watched, step);
  }
  assert(!(await run(command, { isTerminal: false })).includes("reading"));
  const code = `
    import { stageProgress } from "${root}scripts/commands/matmul.ts";
    const progress = stageProgress({ a: 2 ** 30, b: 5, out: 7 });
    for (const stage of ["read A", "read B", "multiply", "write", "write"]) progress.begin(stage);
    progress.end();
  `;
  const { stderr } = await finish(start(Deno.execPath(), ["eval", code]));
  assertEquals(stderr, "reading A (1.1 GB)\nreading B (5 B)\nmultiplying\nwriting (7 B)\n");
});

Deno.test("a bar is lines in a pipe, one a step; none where results tell how far it is, as of benchmarks and tests", async () => {
  const code = `
    import { jobProgress, ProgressBar } from "${root}scripts/terminal.ts";
    const [bar, jobs] = [new ProgressBar(2e6), jobProgress(2)];
    for (const [step, done] of [["first", 0], ["first", 1e6], ["second", 2e6]]) {
      bar.update(step, done);
      jobs.update(step, done);
    }
    bar.end();
    jobs.end();
  `;
  const { stderr } = await finish(start(Deno.execPath(), ["eval", code]));
  assertEquals(stderr, "first\nsecond\n");
});

Deno.test("benchmarks tell in a terminal which group is measured, and how many rows it has", async () => {
  using folder = temporaryFolder();
  const watched = await run(`bench startup --rounds 1 --json ${folder.path}/startup.json`);
  assertMatch(watched, /[█░]{24} 0 of 1 {2}startup, 0 rows so far/);
});

/** A script that writes files and reads them again, in a folder. */
function writeScript(folder: string): string {
  const path = `${folder}/files.ts`;
  Deno.writeTextFileSync(
    path,
    `import { DistributedArray, initialize, loadNpy, loadNpz, saveNpy, saveNpz, Slab } from "${root}mod.ts";
    using runtime = initialize({ device: "cpu" });
    using a = DistributedArray.full(runtime, [2000, 500], Slab.X, 1);
    saveNpy(a, "${folder}/a.npy");
    saveNpz({ a }, "${folder}/a.npz");
    using again = loadNpy(runtime, "${folder}/a.npy", Slab.X);
    const { a: named } = loadNpz(runtime, "${folder}/a.npz", Slab.X);
    runtime.print(named.sum() + again.sum(), Deno.env.get("DISTMATH_PROGRESS"));
    named.free();`,
  );
  return path;
}

Deno.test("a script's files that take long are told of by rank 0, more often in a terminal than elsewhere", async () => {
  using folder = temporaryFolder();
  const command = `run -n 2 ${writeScript(folder.path)}`;
  const lines = (text: string) => text.trim().split(/\r?\n/);
  const told = await run(`run --env DISTMATH_PROGRESS=0 ${command.slice(4)}`, { isTerminal: false });
  assertEquals(lines(told), [
    "2000000 0",
    `distmath: writing ${folder.path}/a.npy: 4.0 of 4.0 MB of rank 0`,
    `distmath: writing ${folder.path}/a.npz: 4.0 of 4.0 MB of rank 0`,
    `distmath: checksums of ${folder.path}/a.npz: 8.0 of 8.0 MB of rank 0`,
    `distmath: reading ${folder.path}/a.npy: 4.0 of 4.0 MB of rank 0`,
    `distmath: reading ${folder.path}/a.npz: a: 4.0 of 4.0 MB of rank 0`,
  ]);
  // What is short is told of nowhere.
  assertEquals(lines(await run(command)), ["2000000 2"]);
  assertEquals(lines(await run(command, { env: { CI: "true" } })), ["2000000 30"]);
  assertEquals(lines(await run(command, { isTerminal: false })), ["2000000 30"]);
});

Deno.test("a script without a launcher tells of files in a terminal, if they take long", async () => {
  const code = `
    import { fileProgress } from "${root}src/array/file_progress.ts";
    const progress = fileProgress({ rank: 0 }, "reading a.npy", 3e9);
    const now = performance.now();
    for (const [seconds, bytes] of [[1, 1e6], [2.5, 1e9], [3, 1e9], [5, 5e8]]) {
      performance.now = () => now + seconds * 1000;
      progress(bytes);
    }
    fileProgress({ rank: 1 }, "reading a.npy", 3e9)(1e9);
  `;
  using folder = temporaryFolder();
  const path = `${folder.path}/slow.ts`;
  Deno.writeTextFileSync(path, code);
  const line = `${Deno.execPath()} run -A --no-check ${path}`;
  const output = async (program: string, args: string[], env: Record<string, string> = {}) => {
    const { stdout, stderr } = await finish(start(program, args, { env: { TERM: "xterm", CI: "", ...env } }));
    return (stdout + stderr).trim().split(/\r?\n/);
  };
  const told = [
    "distmath: reading a.npy: 1001 of 3000 MB of rank 0",
    "distmath: reading a.npy: 2501 of 3000 MB of rank 0",
  ];
  assertEquals(await output("script", ["-qec", line, "/dev/null"]), told);
  assertEquals(await output("script", ["-qec", line, "/dev/null"], { CI: "true" }), [""]);
  assertEquals(await output("sh", ["-c", line]), [""]);
  assertEquals(await output("sh", ["-c", line], { DISTMATH_PROGRESS: "2" }), told);
});
