/**
 * Finding an MPI with ScaLAPACK that works, and installing one where there is none.
 *
 * @module
 */
import { denoRun, runJob } from "./job.ts";
import { findLauncher, findLaunchers, type Launcher, namedLauncher } from "./launcher.ts";
import { installCpu } from "./native/install.ts";
import { marker, type Probe } from "./probe_rank.ts";
import { scriptAddress } from "./terminal.ts";

const probeSeconds = 30;

/** Start one rank under a launcher and see what it can do. */
export async function probeLauncher(launcher: Launcher, env: Record<string, string> = {}): Promise<Probe> {
  const lines: string[] = [];
  const { code, isTimedOut } = await runJob(launcher, {
    ranks: 1,
    program: denoRun(scriptAddress("probe_rank.ts")),
    env: { NO_COLOR: "1", ...env },
    timeoutSeconds: probeSeconds,
    onLine: (_, line) => lines.push(line),
  });
  const result = lines.find((line) => line.startsWith(marker));
  if (result) return JSON.parse(result.slice(marker.length));
  const error = isTimedOut
    ? `it did not answer within ${probeSeconds} s`
    : `it ended with exit code ${code}: ${lines.find((line) => /error/i.test(line)) ?? lines[0] ?? "no output"}`;
  return { libraries: [], threads: null, canMultiply: false, error };
}

/**
 * A launcher whose MPI has a ScaLAPACK that works: the one that was named, else the first that does, else the one of
 * `native install cpu`, which is then run.
 */
export async function readyLauncher(option?: string): Promise<Launcher> {
  const named = await namedLauncher(option);
  if (named) return named;
  for (const launcher of await findLaunchers()) {
    // What native install brought has been tested with distmath; asking again would cost time at every start.
    if (launcher.source === "native install" || (await probeLauncher(launcher)).canMultiply) return launcher;
  }
  await installCpu();
  return await findLauncher();
}
