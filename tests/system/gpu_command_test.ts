/** `test:gpu`: one job a file, what each said, and the record; on a mock GPU. */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { setTimeout as delay } from "node:timers/promises";
import { type Ended, finish, isMade, main, root, startMain } from "./command.ts";
import { mockTest, mpi } from "./mock.ts";

/** The command on two mock GPUs, with a file for its record. */
type Command = (...args: string[]) => Promise<Ended>;

const test = (name: string, body: (testGpu: Command, record: string) => Promise<void>) =>
  mockTest(name, (env, folder) => {
    const record = `${folder}/record.json`;
    const common = ["test:gpu", "--mpirun", mpi.mpirun, "--json", record, "--commit", "abc1234"];
    return body((...args) => main([...common, ...args], { env, seconds: 400 }), record);
  });

const examples = [...Deno.readDirSync(`${root}examples`)].map(({ name }) => `examples/${name}`).sort();

test("test:gpu runs every example unchanged, and symmetric memory", async (testGpu, record) => {
  // The mock has no graphs.
  const files = [...examples.filter((file) => !file.includes("graphs")), "tests/cluster/symmetric_test.ts"];
  const { code, stdout, stderr } = await testGpu("-n", "2", ...files);
  assertEquals(code, 0, stdout + stderr);
  assertStringIncludes(stdout, "2 x Mock GPU");
  const { machine, versions, leftOut, runs } = JSON.parse(Deno.readTextFileSync(record));
  assertStringIncludes(machine, "Mock GPU");
  for (const name of ["Deno", "MPI", "NCCL", "NVSHMEM", "cuBLASMp"]) assert(name in versions, name);
  assertStringIncludes(leftOut["tests/cluster/communicator_test.ts"], "no arrays");
  assertEquals(runs.map(({ file }: { file: string }) => file).sort(), files.sort());
  for (const { gpus, failed, passed, commit } of runs) {
    assertEquals([gpus, failed, passed > 0, commit], [2, 0, true, "abc1234"]);
  }
});

test("test:gpu counts a file whose job takes too long as failed, and runs the others", async (testGpu, record) => {
  const files = ["tests/cluster/npy_test.ts", "examples/slab.ts"];
  const { code, stdout } = await testGpu("-n", "2", "--timeout", "0.05", ...files);
  assertEquals(code, 1);
  assertEquals(stdout.trim().split("\n").at(-1), "0 passed, 2 failed");
  const { runs } = JSON.parse(Deno.readTextFileSync(record));
  assertEquals(runs.map(({ file, failed }: { file: string; failed: number }) => [file, failed]), [
    [files[0], 1],
    [files[1], 1],
  ]);
  for (const { failures: [{ output }] } of runs) assertStringIncludes(output[0], "did not end within 0.05 s");
  assertStringIncludes(runs[0].why, "the job ended early");
  const again = await testGpu("-n", "2", "examples/slab.ts");
  assertEquals(again.code, 0, again.stdout);
  const [first, second] = JSON.parse(Deno.readTextFileSync(record)).runs;
  assertEquals([first.failed, second.failed, second.passed], [1, 0, 1]);
});

mockTest("test:gpu ends when it is interrupted, with what has run on record", async (env, folder) => {
  const record = `${folder}/record.json`;
  const args = ["-n", "2", "--mpirun", mpi.mpirun, "--json", record];
  const child = startMain(["test:gpu", ...args, "examples/ring.ts", "examples/slab.ts", "examples/word_count.ts"], {
    env,
  });
  const ended = finish(child);
  const runs = () => JSON.parse(Deno.readTextFileSync(record)).runs.map(({ file }: { file: string }) => file);
  // Whether it can be written is tried by making it for a moment, empty.
  await isMade(record, ended, 1);
  // The second one runs.
  await delay(500);
  child.kill("SIGTERM");
  const { code, stderr } = await ended;
  assertEquals([code, stderr.trim()], [143, "error: interrupted"]);
  assertEquals(runs(), ["examples/ring.ts"]);
});

test("test:gpu tells what it cannot do", async (testGpu) => {
  const four = await testGpu("-n", "4");
  assertEquals(four.code, 0);
  assertStringIncludes(four.stdout, "need as many, and this machine has 2");
  for (
    const [args, message] of [
      [["tests/cluster/communicator_test.ts"], "does not run on GPUs: MPI between processes"],
      [["tests/unit/none_test.ts"], "is none of the files:"],
      [["-n", "x"], "--ranks takes"],
      [["--timeout", "-1"], "--timeout takes"],
      [["--json", "/nonexistent/a.json"], "--json: /nonexistent/a.json cannot be written: "],
    ] as const
  ) {
    const { code, stderr } = await testGpu(...args);
    assertEquals(code, 2, stderr);
    assertStringIncludes(stderr, message);
  }
});
