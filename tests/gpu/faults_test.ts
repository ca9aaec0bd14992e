/**
 * Faults on GPUs: a rank that leaves, is killed or is stopped while another one's GPU waits for it in NCCL; an error that
 * NCCL finds in the background; a GPU without memory. The jobs are started here; each ends within ten seconds of the
 * fault, or of the time limit.
 */
import { assert, assertMatch, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { Device } from "../../mod.ts";
import { mpiInstallations, runJob, slowdown } from "../mpi_installations.ts";
import { untilNoneHas } from "../faults/processes.ts";
import { hasGpu } from "./gpu_test_kit.ts";
import { jobEnvironment, recoveringMpi, runTwo, whyNoTwoRanks } from "./two_ranks.ts";

const [mpi] = mpiInstallations;
const reason = hasGpu && new Device(0).name === "Mock GPU"
  ? "the mock's do not wait"
  : mpi === undefined
  ? "no MPI"
  : whyNoTwoRanks;

const LIMIT_SECONDS = 3;
const LONGEST_END_SECONDS = 10;
const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const waits = path("../faults/fixtures/waits_for_gpu.ts");
const place = String.raw`in .* > cudaStreamSynchronize at waits_for_gpu\.ts:\d+:\d+`;
const limit = String(LIMIT_SECONDS);

interface Case {
  readonly name: string;
  readonly args: readonly string[];
  readonly code: readonly number[];
  readonly words: readonly RegExp[];
}

const CASES: readonly Case[] = [
  ...["message", "execution"].map((what): Case => ({
    name: `a rank leaves while another one's GPU waits for its ${what}`,
    args: [waits, "leaves", what],
    code: [1],
    words: [RegExp(`rank 0 has waited for more than ${limit} s ${place} for rank 1, which has ended with exit code 0`)],
  })),
  {
    name: "a rank is stopped while another one's GPU waits for it",
    args: [waits, "stopped", "execution", limit],
    code: [124],
    words: [
      RegExp(String.raw`rank 0 has waited for more than ${limit} s \(timeoutSeconds\) ${place};`),
      /rank 1 has not arrived: .*NCCL waits for 2 of its messages/,
    ],
  },
  {
    name: "a rank does something else while another one's GPU waits for it",
    args: [waits, "event", "message", limit],
    code: [124],
    words: [RegExp(String.raw`rank 0 has waited for more than ${limit} s .* > cudaEventSynchronize at .*;`)],
  },
  {
    name: "a rank is killed while another one's GPU waits for it",
    args: [waits, "killed", "execution"],
    // The launcher's words say which rank and which signal.
    code: [137, 9],
    words: [/rank 1 .*signal 9|signal 9 \(Killed\)/],
  },
  {
    name: "a GPU has no memory for what all ranks ask for",
    args: [path("./fixtures/fills_gpu.ts"), "array"],
    code: [1],
    words: [/CudaError: cudaMallocAsync of \d+ bytes .*cudaErrorMemoryAllocation|\(on rank 1 of 2\)/],
  },
  {
    name: "a GPU has no memory for NCCL",
    args: [path("./fixtures/fills_gpu.ts"), "nccl"],
    code: [1],
    // The other rank may come back from it with an error of its own, or wait in it.
    words: [/ncclCommInitRank (at fills_gpu\.ts:\d+:\d+ failed on rank 1, and the other ranks|failed with )/],
  },
  {
    name: "a GPU has no memory for NVSHMEM",
    args: [path("./fixtures/fills_gpu.ts"), "nvshmem"],
    code: [1],
    words: [/ConfigurationError: allocateSymmetricMemory: NVSHMEM takes up to \d+ bytes of a GPU when it starts/],
  },
];

for (const { name, args, code, words } of CASES) {
  Deno.test({
    name: reason === null ? name : `${name} (skipped: ${reason})`,
    ignore: reason !== null,
    fn: async () => {
      const environment = { DISTMATH_PATIENCE_SECONDS: limit, ...jobEnvironment() };
      const result = await runJob(mpi, 2, ["run", "-A", "--cached-only", ...args], { environment, seconds: 60 });
      const { output, endedAt } = result;
      assert(code.includes(result.code), `code ${result.code}:\n${output}`);
      for (const expected of words) assertMatch(output, expected);
      const faults = [...output.matchAll(/(?:waits|fault) at (\d+)/g)].map(([, time]) => Number(time));
      const seconds = (endedAt - Math.max(...faults)) / 1000;
      console.log(`${name}: code ${result.code} after ${seconds} s`);
      assert(seconds < LIMIT_SECONDS + LONGEST_END_SECONDS * slowdown(), `${seconds} s:\n${output}`);
      await untilNoneHas(args[0]);
    },
  });
}

const noError = reason ?? (recoveringMpi === undefined ? "no Open MPI 4" : null);

// Between GPUs that reach each other's memory nobody is told of a death: only a connection is closed by it.
for (const what of ["message", "execution"]) {
  const name = `NCCL finds that a rank has died, while another one's GPU waits for its ${what} by sockets`;
  Deno.test({
    name: noError === null ? name : `${name} (skipped: ${noError})`,
    ignore: noError !== null,
    fn: async () => {
      const environment = { NCCL_IB_DISABLE: "1", NCCL_SOCKET_IFNAME: "lo" };
      const { stdout, stderr } = await runTwo(waits, ["killed", `${what} by sockets`], { outlive: true, environment });
      const output = stdout + stderr;
      const lines = [
        /rank 0: NcclError: What NCCL does in the background on rank 0 failed with ncclRemoteError \(6\): .* aborted/,
        /then: StateError: The NCCL communicator was aborted after an error\./,
        /^true true 0$/m,
      ];
      for (const line of lines) assertMatch(output, line);
      assertStringIncludes(output, "error: Uncaught (in promise) NcclError");
      console.log(stdout);
      await untilNoneHas(waits);
    },
  });
}
