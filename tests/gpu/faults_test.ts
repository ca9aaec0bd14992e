/**
 * Faults on GPUs: a rank that leaves, is killed or is stopped while another one's GPU waits for it in NCCL; an error that
 * NCCL finds in the background; a GPU without memory. The jobs are started here; each ends within ten seconds of the
 * fault, or of the time limit.
 */
import { assert, assertMatch, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { Device } from "../../mod.ts";
import { assertCleanEnd } from "../faults/clean_end.ts";
import { untilNoneHas } from "../faults/processes.ts";
import { mpiInstallations, runJob } from "../mpi_installations.ts";
import { hasGpu } from "./gpu_test_kit.ts";
import { jobEnvironment, recoveringMpi, runTwo, whyNoTwoGpus, whyNoTwoRanks } from "./two_ranks.ts";

const [mpi] = mpiInstallations;
const reason = hasGpu && new Device(0).name === "Mock GPU"
  ? "the mock's do not wait"
  : mpi === undefined
  ? "no MPI"
  : whyNoTwoRanks;

const LIMIT_SECONDS = 3;
const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const waits = path("../faults/fixtures/waits_for_gpu.ts");
const fills = path("./fixtures/fills_gpu.ts");
const place = String.raw`in .* > cudaStreamSynchronize at waits_for_gpu\.ts:\d+:\d+`;
const limit = String(LIMIT_SECONDS);
const waited = `rank 0 has waited for more than ${limit} s`;

interface Case {
  readonly name: string;
  readonly args: readonly string[];
  /** Those that it may end with, by the launcher. */
  readonly codes: readonly number[];
  readonly why: RegExp;
}

const CASES: readonly Case[] = [
  ...["message", "execution"].map((what): Case => ({
    name: `a rank leaves while another one's GPU waits for its ${what}`,
    args: [waits, "leaves", what],
    codes: [1],
    why: RegExp(`${waited} ${place} for rank 1, which has ended with exit code 0`),
  })),
  ...(["Stream", "Event"] as const).map((what): Case => ({
    name: `a rank leaves while another one asks again and again whether its GPU's ${what.toLowerCase()} is done`,
    args: [waits, what === "Stream" ? "asks" : "asks an event", "execution"],
    codes: [1],
    why: RegExp(
      String.raw`${waited} in (.* > )?cuda${what}Synchronize at waits_for_gpu\.ts:\d+:\d+ for rank 1, ` +
        "which has ended with exit code 0",
    ),
  })),
  {
    name: "a rank is stopped while another one's GPU waits for it",
    args: [waits, "stopped", "execution", limit],
    codes: [124],
    why: RegExp(
      String.raw`${waited} \(timeoutSeconds\) ${place};[^]*rank 1 has not arrived: .*NCCL waits for 2 of its messages`,
    ),
  },
  {
    name: "a rank does something else while another one's GPU waits for it",
    args: [waits, "event", "message", limit],
    codes: [124],
    why: RegExp(`${waited} .* > cudaEventSynchronize at .*;`),
  },
  {
    name: "a rank is killed while another one's GPU waits for it",
    args: [waits, "killed", "execution"],
    codes: [137, 9],
    why: /signal 9|KILLED BY SIGNAL: 9/,
  },
  {
    name: "a GPU has no memory for what all ranks ask for",
    args: [fills, "array"],
    codes: [1],
    why: /error: Uncaught .*cudaMallocAsync of \d+ bytes .*cudaErrorMemoryAllocation.*\(on rank 1 of 2\)$/m,
  },
  {
    name: "a GPU has no memory for NCCL",
    args: [fills, "nccl"],
    codes: [1],
    // The other rank may come back from it with an error of its own, or wait in it.
    why: /ncclCommInitRank (at fills_gpu\.ts:\d+:\d+ failed on rank 1, and the other ranks|failed with )/,
  },
  {
    name: "a GPU has no memory for NVSHMEM",
    args: [fills, "nvshmem"],
    codes: [1],
    why: /error: Uncaught .*allocateSymmetricMemory: NVSHMEM takes up to \d+ bytes .* are free.*\(on rank 1 of 2\)$/m,
  },
];

for (const { name, args, codes, why } of CASES) {
  Deno.test({
    name: reason === null ? name : `${name} (skipped: ${reason})`,
    ignore: reason !== null,
    fn: async () => {
      const environment = { DISTMATH_PATIENCE_SECONDS: limit, ...jobEnvironment() };
      const result = await runJob(mpi, 2, ["run", "-A", "--cached-only", ...args], { environment, seconds: 60 });
      const { code, output, endedAt } = result;
      // The last of both: a rank may wait, or begin to wait, when the other one goes.
      const faultAt = Math.max(...Array.from(output.matchAll(/(?:waits|fault) at (\d+)/g), ([, time]) => Number(time)));
      console.log(`${name}: code ${code} after ${(endedAt - faultAt) / 1000} s`);
      assert(codes.includes(code), `code ${code}:\n${output}`);
      assertCleanEnd(result, { rank: 1, why, faultAt, extraSeconds: LIMIT_SECONDS });
    },
  });
}

const noOtherGpu = reason ?? whyNoTwoGpus;

Deno.test({
  name: `a GPU has no memory for what a rank starts with${noOtherGpu === null ? "" : ` (skipped: ${noOtherGpu})`}`,
  ignore: noOtherGpu !== null,
  fn: async () => {
    const run = ["run", "-A", "--cached-only", fills];
    const env = { CUDA_VISIBLE_DEVICES: "1", ...jobEnvironment() };
    const args = [...run, "for others"];
    const other = new Deno.Command(Deno.execPath(), { args, env, stdout: "piped", stderr: "inherit" }).spawn();
    for await (const text of other.stdout.pipeThrough(new TextDecoderStream())) if (text.includes("fault at")) break;
    const faultAt = Date.now();
    const result = await runJob(mpi, 2, [...run, "array"], { environment: jobEnvironment(), seconds: 60 });
    other.kill("SIGKILL");
    await other.status;
    const why = /error: Uncaught .*cuda\w+ failed with cudaErrorMemoryAllocation.*\(on rank 1 of 2\)$/m;
    assertCleanEnd(result, { rank: 1, why, code: 1, faultAt });
  },
});

const noError = reason ?? (recoveringMpi === undefined ? "no Open MPI 4" : null);

// Between GPUs that reach each other's memory nobody is told of a death: only a connection is closed by it.
for (const what of ["message", "execution"]) {
  const name = `NCCL finds that a rank has died, while another one's GPU waits for its ${what} by sockets`;
  Deno.test({
    name: noError === null ? name : `${name} (skipped: ${noError})`,
    ignore: noError !== null,
    fn: async () => {
      const environment = { NCCL_IB_DISABLE: "1", NCCL_SOCKET_IFNAME: "lo" };
      // By which these processes are told from those of another run of this test.
      const mark = crypto.randomUUID();
      const args = ["killed", `${what} by sockets`, "0", mark];
      const { stdout, stderr } = await runTwo(waits, args, { outlive: true, environment });
      const output = stdout + stderr;
      const lines = [
        /rank 0: NcclError: What NCCL does in the background on rank 0 failed with ncclRemoteError \(6\): .* aborted/,
        /then: StateError: The NCCL communicator was aborted after an error\./,
        /^true true 0$/m,
      ];
      for (const line of lines) assertMatch(output, line);
      assertStringIncludes(output, "error: Uncaught (in promise) NcclError");
      console.log(stdout);
      await untilNoneHas(mark);
    },
  });
}
