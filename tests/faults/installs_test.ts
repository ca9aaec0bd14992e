/** Installs that are interrupted or killed, and two into one cache. */
import { assert, assertEquals } from "@std/assert";
import { Leavings } from "../leavings.ts";
import { launchers, runJob } from "../mpi_installations.ts";
import { finish, root, temporaryFolder } from "../system/command.ts";
import { contents, install, openMpiPin } from "../system/installs.ts";
import { assertCleanEnd } from "./clean_end.ts";
import { processesWith } from "./processes.ts";

/** An install whose pip waits for an index that does not answer, for as long as that is there. */
async function stall(folder: string): Promise<{ child: Deno.ChildProcess; leavings: Leavings } & Disposable> {
  const leavings = new Leavings();
  const index = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const child = install(folder, openMpiPin, {
    PIP_INDEX_URL: `http://127.0.0.1:${index.addr.port}/simple`,
    PIP_FIND_LINKS: "",
    PIP_NO_INDEX: "false",
    PIP_CONFIG_FILE: "/dev/null",
    PIP_DEFAULT_TIMEOUT: "300",
    NO_PROXY: "127.0.0.1",
    ...leavings.environment,
  });
  const connection = await Promise.race([
    index.accept(),
    child.status.then(({ code }) => {
      throw new Error(`the install ended with exit code ${code} before it asked for anything`);
    }),
  ]);
  return {
    child,
    leavings,
    [Symbol.dispose]() {
      connection.close();
      index.close();
      leavings[Symbol.dispose]();
    },
  };
}

Deno.test("an install that is interrupted takes pip along, and leaves nothing", async () => {
  using folder = temporaryFolder();
  for (const [signal, exitCode] of [["SIGINT", 130], ["SIGTERM", 143]] as const) {
    using stalled = await stall(folder.path);
    const faultAt = Date.now();
    stalled.child.kill(signal);
    const { code, stdout, stderr } = await finish(stalled.child);
    const result = { code, output: stdout + stderr, endedAt: Date.now(), left: await stalled.leavings.left([]) };
    const why = /^native install was interrupted; nothing was installed$/m;
    assertCleanEnd(result, {
      rank: null,
      why,
      code: exitCode,
      faultAt,
      files: { folder: folder.path, names: ["cpu.lock"] },
    });
  }
});

Deno.test("of two installs into one cache the one at work is killed: jobs start, the other one installs all", async () => {
  using folder = temporaryFolder();
  const staging = `${folder.path}/cpu.staging`;
  using stalled = await stall(folder.path);
  assert(processesWith(staging).length > 0);
  const source = `import { Communicator } from "${root}mod.ts";
console.log("together", Communicator.world().allReduce(Int32Array.of(1))[0]);`;
  for (const mpi of launchers) {
    const job = await runJob(mpi, 2, ["eval", source], { environment: { DISTMATH_NATIVE: folder.path } });
    assertEquals([job.code, job.output.match(/together 2/g)?.length], [0, 2], `${mpi.name}: ${job.output}`);
  }
  const other = install(folder.path, openMpiPin);
  const told = other.stderr.pipeThrough(new TextDecoderStream()).getReader();
  assertEquals((await told.read()).value, "another install is running: waiting for it\n");
  stalled.child.kill("SIGKILL");
  await finish(stalled.child);
  while (!(await told.read()).done);
  assertEquals([(await other.status).code, await new Response(other.stdout).text()], [0, "installed\n"]);
  assertEquals(contents(folder.path), ["cpu"]);
  assertEquals(await stalled.leavings.left([]), []);
});
