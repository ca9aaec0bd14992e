/** Ranks that wait for their GPU, which waits for another rank: who waits where, for whom, is told, and the job ends. */
import { assertEquals, assertMatch } from "@std/assert";
import { fileURLToPath } from "node:url";
import { mpiInstallations, runJob } from "../mpi_installations.ts";
import { mockTest } from "../system/mock.ts";
import { runJobByHand } from "../system/ranks_by_hand.ts";
import { assertCleanEnd } from "./clean_end.ts";

const script = fileURLToPath(new URL("./fixtures/waits_for_gpu.ts", import.meta.url));
const PATIENCE_SECONDS = 1;

interface Case {
  readonly args: readonly string[];
  readonly code: number;
  /** The reason, and what else is told. */
  readonly words: readonly [RegExp, ...RegExp[]];
  /** The rank that is named, if that is not 1. */
  readonly rank?: number;
}

const left = (place: RegExp) =>
  RegExp(
    `distmath: rank 0 has waited for more than ${PATIENCE_SECONDS} s in ${place.source} for rank 1, which has ended ` +
      "with exit code 0",
  );
const line = String.raw`at waits_for_gpu\.ts:\d+:\d+`;
const execution = RegExp(String.raw`Redistribution\.execute > cudaStreamSynchronize ${line}`);

const CASES: readonly Case[] = [
  { args: ["leaves", "message", ""], code: 1, words: [left(RegExp(`\\S+ > cudaStreamSynchronize ${line}`))] },
  { args: ["leaves", "execution", ""], code: 1, words: [left(execution)] },
  { args: ["asks", "message", ""], code: 1, words: [left(RegExp(`cudaStreamSynchronize ${line}`))] },
  { args: ["asks an event", "message", ""], code: 1, words: [left(RegExp(`cudaEventSynchronize ${line}`))] },
  {
    args: ["works", "execution", "1"],
    code: 124,
    words: [
      RegExp(String.raw`rank 0 has waited for more than 1 s \(timeoutSeconds\) in ${execution.source};`),
      RegExp(String.raw`\n  rank 0 waits in ${execution.source}, collective call \d+\n`),
      /\n {2}rank 1 has not arrived: it is in no call that waits; .*; NCCL waits for 2 of its messages/,
    ],
  },
  {
    args: ["event", "message", "1"],
    code: 124,
    words: [
      RegExp(String.raw`rank 0 has waited for more than 1 s .* > cudaEventSynchronize ${line};`),
      /\n {2}rank 1 has not arrived: .*; NCCL waits for 1 of its messages/,
    ],
  },
  {
    args: ["fails", "message", ""],
    rank: 0,
    code: 1,
    words: [
      /rank 0: NcclError: What NCCL does in the background on rank 0 failed with ncclRemoteError \(6\): .* aborted/,
      /then: StateError: The NCCL communicator was aborted after an error\./,
      /\ntrue true 0\n/,
    ],
  },
];

mockTest("a rank that waits for its GPU says where, and for whom, and the job ends", async (environment, folder) => {
  const env = { ...environment, MOCK_LATE: "1", DISTMATH_PATIENCE_SECONDS: String(PATIENCE_SECONDS) };
  const [mpi] = mpiInstallations;
  // Each takes some seconds, and hardly any work.
  const run = ({ args }: Case) =>
    runJob(mpi, 2, ["run", "-A", "--no-check", script, ...args, folder], { environment: env });
  const results = await Promise.all(CASES.map(run));
  for (const [i, { code, words: [why, ...others], rank = 1 }] of CASES.entries()) {
    const { output } = results[i];
    // The one that waits may have begun later.
    const faultAt = Number(/waits at (\d+)/.exec(output)?.[1]);
    assertCleanEnd(results[i], { rank, why, code, extraSeconds: PATIENCE_SECONDS, faultAt });
    for (const words of others) assertMatch(output, words);
  }
});

mockTest(
  "a rank of a job without MPI that leaves while another's GPU waits for it ends the job",
  async (environment) => {
    const env = { ...environment, MOCK_LATE: "1", DISTMATH_PATIENCE_SECONDS: "1" };
    const { ranks, result } = await runJobByHand(2, ["run", "-A", "--no-check", script, "leaves", "message"], env);
    const why = RegExp(`cudaStreamSynchronize ${line} for rank 1, which has ended with exit code 0`);
    assertCleanEnd(result, { rank: 1, why, code: 1, extraSeconds: PATIENCE_SECONDS });
    assertEquals(ranks[1].code, 1, result.output);
  },
);
