/** Progress: a bar where somebody watches, lines in a pipe if it takes long, nothing else. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
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
  const [program, ...args] = isTerminal ? ["script", "-qec", line, "/dev/null"] : ["sh", "-c", line];
  const { code, stdout, stderr } = await finish(start(program, args, { env: { TERM: "xterm", CI: "", ...env } }), 300);
  assertEquals(code, 0, stdout + stderr);
  return stdout + stderr;
}

Deno.test("tests on ranks are counted under a bar in a terminal, and not in CI or in a pipe", async () => {
  const command = "cluster-test --no-check --ranks 1 tests/system/fixtures/passing_test.ts";
  const watched = await run(command);
  assertStringIncludes(watched, `${"░".repeat(24)} 0 of 1  tests/system/fixtures/passing_test.ts on 1 rank`);
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
