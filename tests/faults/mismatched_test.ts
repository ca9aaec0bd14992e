/** Collective calls that do not match are told of at once, without a time limit. */
import { assertMatch } from "@std/assert";
import { fileURLToPath } from "node:url";
import { runJob, testUnderEveryMpi } from "../mpi_installations.ts";
import { lineOf } from "../script_lines.ts";
import { assertCleanEnd } from "./clean_end.ts";

const script = fileURLToPath(new URL("./fixtures/mismatched.ts", import.meta.url));

/** What is called, which rank comes last, what that one calls in which line, and what it finds. */
const cases: readonly [where: string, late: number | null, mine: string, line: string, theirs: string][] = [
  ["broadcast", 0, "MPI_Allreduce", "communicator.allReduce(one), // rank 0", "MPI_Bcast"],
  ["broadcast", 1, "MPI_Bcast", "communicator.broadcast(one, { root: 1 }), // rank 1", "MPI_Allreduce at "],
  ["root", 1, "MPI_Reduce", "communicator.reduce(one, { root: 1 }), // rank 1", "MPI_Reduce at .* with root 0"],
  ["ahead", 1, "MPI_Barrier", "communicator.barrier(), // rank 1", "MPI_Bcast"],
  ["part", 1, "MPI_Allgather", "part.allGather(one)", "MPI_Barrier at "],
  ["product", 1, "matmul > MPI_Allreduce", "matmul(a, a)", "MPI_Barrier at "],
  [
    "length",
    1,
    "MPI_Allreduce at .* of 3 entries,",
    "// rank 1 with another length",
    "MPI_Allreduce at .* of 5 entries in its place",
  ],
  [
    "operation",
    1,
    "MPI_Allreduce at .* \\(max of float64\\),",
    "// rank 1 by another operation",
    "MPI_Allreduce at .* \\(sum of float64\\) in its place",
  ],
  [
    "operator",
    1,
    "MPI_Allreduce at .* \\(sum of float64\\),",
    "// rank 1 without an operator",
    "MPI_Allreduce at .* \\(an operator of the script\\) in its place",
  ],
  [
    "dtype",
    1,
    "MPI_Bcast at .* with root 0 \\(float32\\),",
    "// rank 1 with another dtype",
    // A root may have returned by then, or not.
    "MPI_Bcast(?: at \\S+)? with root 0 \\(int32\\) in its place",
  ],
  ["background", 0, "MPI_Iallreduce", "iallReduce(one)", "MPI_Ibcast"],
  ["rootInBackground", 1, "MPI_Ibcast", "// rank 1 with another root", "MPI_Ibcast(?: at \\S+)? with root 0"],
  [
    "operationInBackground",
    1,
    "MPI_Ireduce at .* with root 0 \\(max of float64\\),",
    "// rank 1 with another operation in the background",
    "MPI_Ireduce(?: at \\S+)? with root 0 \\(min of float64\\) in its place",
  ],
  ["loop", null, "MPI_(?:Allreduce|Barrier)", "", "MPI_(?:Allreduce|Barrier)"],
];

for (const [where, late, mine, line, theirs] of cases) {
  const who = late === null ? "nobody" : `rank ${late}`;
  testUnderEveryMpi(`collective calls that do not match end the job: ${where}, ${who} comes late`, async (mpi) => {
    const result = await runJob(mpi, 2, ["run", "-A", script, where, String(late)]);
    const { output } = result;
    const why = new RegExp(`CollectiveError: .* do not match: this rank is about to call ${mine}`);
    // Nobody waits. The calls of the loop that match take as long as they take.
    assertCleanEnd(result, { rank: late ?? undefined, why, code: 1, extraSeconds: -5 });
    assertMatch(output, new RegExp(`rank [01] has called ${theirs}`));
    const [name] = mine.split(" at ");
    if (late !== null) assertMatch(output, new RegExp(`${name} at ${lineOf(script, line).source}`));
  });
}
