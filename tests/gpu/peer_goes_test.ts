/**
 * A rank that dies, or leaves, in the middle of engine overlap's products: the other one learns it, by name, within ten
 * seconds, goes on to say so, and lets go of its GPU. The jobs are started here, by an Open MPI that lets ranks outlive
 * others.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { fileURLToPath } from "node:url";
import { recoveringMpi, runTwo, whyNoTwoGpus } from "./two_ranks.ts";

const reason = whyNoTwoGpus ?? (recoveringMpi === undefined ? "no Open MPI 4" : null);
const fixture = fileURLToPath(new URL("./fixtures/peer_goes.ts", import.meta.url));

async function lineOf(way: string, kind: string): Promise<{ line: string; output: string }> {
  // The launcher would end the others with a rank that is killed; one that leaves waits for them in MPI_Finalize.
  const { stdout, stderr } = await runTwo(fixture, [way, kind], { outlive: way === "killed" });
  const output = stdout + stderr;
  return { line: stdout.split("\n").find((line) => line.startsWith("{")) ?? "null", output };
}

const WAYS = [
  ["killed", "reduce", "its partial sums"],
  ["killed", "gather", "its part of the operand"],
  ["leaves", "all_reduce", "its partial sums|the end of its stores"],
] as const;

for (const [way, kind, missing] of WAYS) {
  Deno.test({
    name: `engine overlap names a rank that ${way === "killed" ? "is killed" : way} during a product: ${kind}` +
      (reason === null ? "" : ` (skipped: ${reason})`),
    ignore: reason !== null,
    fn: async () => {
      const { line, output } = await lineOf(way, kind);
      const told = JSON.parse(line);
      assert(told !== null, output);
      console.log(line);
      assertEquals([told.name, told.ranks, told.works], ["CollectiveError", [1], true], line);
      assertMatch(
        told.message,
        new RegExp(`^Rank 0 waited 8 s for (${missing}) from rank 1 in a run of a product\\.`),
      );
      assert(told.seconds < 10, line);
      // What the error says also ends the job, as an error that nobody caught.
      assert(output.includes("CollectiveError: Rank 0 waited 8 s"), output);
    },
  });
}
