/** A job without MPI, as the real torchrun starts it: products, redistributions, transforms; and a rank that fails. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { untilNoneHas } from "../faults/processes.ts";
import { slowdown } from "../mpi_installations.ts";
import { finish, start } from "../system/command.ts";
import { jobEnvironment, whyNoTwoRanks } from "./two_ranks.ts";

const torchrun = (Deno.env.get("PATH") ?? "").split(":").map((folder) => `${folder}/torchrun`).find(existsSync);
const reason = torchrun === undefined ? "no torchrun" : whyNoTwoRanks;

const script = fileURLToPath(new URL("../system/fixtures/without_mpi_on_gpus.ts", import.meta.url));
const LONGEST_END_SECONDS = 10;

async function run(...args: string[]): Promise<{ code: number; output: string; endedAt: number }> {
  const env = { ...jobEnvironment(), DISTMATH_MPI: "/nowhere/libmpi.so" };
  const job = ["--standalone", "--nproc-per-node", "2", "--no-python"];
  const command = [...job, Deno.execPath(), "run", "-A", "--cached-only", script, ...args];
  const { code, stdout, stderr } = await finish(start(torchrun!, command, { env }), 90);
  return { code, output: stdout + stderr, endedAt: Date.now() };
}

function torchrunTest(name: string, fn: () => Promise<void>): void {
  Deno.test({ name: reason === null ? name : `${name} (skipped: ${reason})`, ignore: reason !== null, fn });
}

torchrunTest("torchrun's ranks multiply, redistribute and transform on GPUs without MPI", async () => {
  const { code, output } = await run("matmul");
  assertEquals(code, 0, output);
  for (const rank of [0, 1]) {
    const lines = output.split("\n").filter((line) => line.startsWith(`${rank}: `)).map((line) => line.slice(3));
    assertEquals(lines[0].split(" ").slice(0, 3), ["2", String(rank), "2"], output);
    assertEquals(lines.slice(1, 4), [`0 7260 119 ${rank === 1 ? 119 : "-"}`, "120,0", "24 24"], output);
  }
  assertStringIncludes(output, "ConfigurationError MPI_Comm_split needs MPI, and this job was started without it");
});

torchrunTest("a rank of torchrun's that fails ends the job", async () => {
  const { code, output, endedAt } = await run("fails");
  assert(code !== 0, output);
  assertStringIncludes(output, "Error: broken on purpose");
  const seconds = (endedAt - Number(/fault at (\d+)/.exec(output)?.[1])) / 1000;
  console.log(`the job ended ${seconds} s after the fault, with code ${code}`);
  assert(seconds < LONGEST_END_SECONDS * slowdown(), `${seconds} s:\n${output}`);
  await untilNoneHas(script);
});
