/**
 * A rank that dies, or leaves, in the middle of engine overlap's products: the other one learns it, by name, within ten
 * seconds, goes on to say so, and lets go of its GPU. The jobs are started here, by an Open MPI that lets ranks outlive
 * others.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { fileURLToPath } from "node:url";
import { launcher } from "../../ffi/mpi/mod.ts";
import { Device } from "../../mod.ts";
import { mpiInstallations } from "../mpi_installations.ts";
import { finish, start } from "../system/command.ts";
import { hasGpu } from "./gpu_test_kit.ts";

const mpi = mpiInstallations.find(({ family, release }) => family === "open_mpi" && release === 4);
const reason = !hasGpu || Device.count() < 2
  ? "no two GPUs"
  : mpi === undefined
  ? "no Open MPI 4"
  : (launcher()?.rank ?? 0) !== 0
  ? "rank 0 starts the jobs"
  : null;

async function lineOf(way: string, kind: string): Promise<{ line: string; output: string }> {
  const fixture = fileURLToPath(new URL("./fixtures/peer_goes.ts", import.meta.url));
  const libraries = Deno.env.get("DISTMATH_LIBRARY_PATH");
  // Machines with GPUs may lack ssh, which Open MPI wants to see even for one host.
  const env = {
    ...mpi!.environment,
    OMPI_MCA_plm_rsh_agent: "sh",
    ...libraries !== undefined && { DISTMATH_LIBRARY_PATH: libraries },
  };
  // The launcher would end the others with a rank that is killed; one that leaves waits for them in MPI_Finalize.
  const recovery = way === "killed" ? ["--enable-recovery"] : [];
  const job = [...recovery, "--bind-to", "none", "-n", "2", Deno.execPath(), "run", "-A", "--cached-only"];
  const { stdout, stderr } = await finish(start(mpi!.mpirun, [...job, fixture, way, kind], { env }), 60);
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
        new RegExp(`^Rank 0 waited 8 s for (${missing}) from rank 1 in run \\d+ of a product\\.`),
      );
      assert(told.seconds < 10, line);
      // What the error says also ends the job, as an error that nobody caught.
      assert(output.includes("CollectiveError: Rank 0 waited 8 s"), output);
    },
  });
}
