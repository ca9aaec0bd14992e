/** Jobs of two ranks on GPUs that tests start themselves. */
import { launcher } from "../../ffi/mpi/mod.ts";
import { roomOnGpus } from "../../internals.ts";
import { Device } from "../../mod.ts";
import { type MpiInstallation, mpiInstallations } from "../mpi_installations.ts";
import { finish, start } from "../system/command.ts";
import { hasGpu } from "./gpu_test_kit.ts";

/** Why this process starts no job of two ranks on GPUs; `null` if it does. */
export const whyNoTwoRanks: string | null = !hasGpu || roomOnGpus() < 2
  ? "no two GPUs"
  : (launcher()?.rank ?? 0) !== 0
  ? "rank 0 starts the jobs"
  : null;

/** As {@linkcode whyNoTwoRanks}, for jobs whose ranks need a GPU each. */
export const whyNoTwoGpus: string | null = whyNoTwoRanks ?? (Device.count() < 2 ? "no two GPUs" : null);

/** What such jobs need of this one's environment. */
export function jobEnvironment(): Record<string, string> {
  const libraries = Deno.env.get("DISTMATH_LIBRARY_PATH");
  return {
    // Machines with GPUs may lack ssh, which Open MPI wants to see even for one host.
    OMPI_MCA_plm_rsh_agent: "sh",
    // The command that started this process watches over this job alone.
    DISTMATH_PRESENCE: "",
    ...libraries !== undefined && { DISTMATH_LIBRARY_PATH: libraries },
  };
}

/** Open MPI 4, which lets ranks outlive others where it is told to. */
export const recoveringMpi: MpiInstallation | undefined = mpiInstallations.find(({ family, release }) =>
  family === "open_mpi" && release === 4
);

/** Run a script on two ranks under {@linkcode recoveringMpi}; with `outlive`, the death of one does not end the other. */
export async function runTwo(
  script: string,
  args: readonly string[],
  { outlive, environment = {} }: { outlive: boolean; environment?: Record<string, string> },
): Promise<{ stdout: string; stderr: string }> {
  const { mpirun, environment: own } = recoveringMpi!;
  const recovery = outlive ? ["--enable-recovery"] : [];
  const job = [...recovery, "--bind-to", "none", "-n", "2", Deno.execPath(), "run", "-A", "--cached-only"];
  return await finish(
    start(mpirun, [...job, script, ...args], { env: { ...own, ...jobEnvironment(), ...environment } }),
    60,
  );
}
