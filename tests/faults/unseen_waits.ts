/** Starts the script whose ranks wait for each other, with nobody that looks on but they themselves. */
import { fileURLToPath } from "node:url";
import { type MpiInstallation, runJob } from "../mpi_installations.ts";
import { slowdown } from "../leavings.ts";

export const fixture = fileURLToPath(new URL("./fixtures/waits_unseen.ts", import.meta.url));

/** A thread of a busy machine looks later, and is to have looked twice before a job ends. */
export const patienceSeconds = () => Math.max(1, slowdown() / 4);

export const run = (mpi: MpiInstallation, ranks: number, way: string, patience: number, ...limit: string[]) =>
  runJob(mpi, ranks, ["run", "-A", "--no-check", fixture, way, ...limit], {
    environment: { DISTMATH_PATIENCE_SECONDS: String(patience) },
  });
