/**
 * Finding an MPI with ScaLAPACK that works, and installing one where there is none.
 *
 * @module
 */
import { cpuDamage, installCpu } from "../native/install.ts";
import { findLauncher, findLaunchers, type Launcher, namedLauncher } from "./launcher.ts";
import { probeLauncher } from "./probe.ts";

/**
 * A launcher whose MPI has a ScaLAPACK that works: the one that was named, else the first that does, else the one of
 * `native install cpu`, which is then run.
 */
export async function readyLauncher(option?: string): Promise<Launcher> {
  const named = await namedLauncher(option);
  if (named) return named;
  if (cpuDamage()) await installCpu();
  for (const launcher of await findLaunchers()) {
    // What native install brought has been tested with distmath; asking again would cost time at every start.
    if (launcher.source === "native install" || (await probeLauncher(launcher)).canMultiply) return launcher;
  }
  await installCpu();
  return await findLauncher();
}
