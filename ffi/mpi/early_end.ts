/**
 * What launchers need of a process that ends with an error before MPI has started in it, while others wait in MPI_Init.
 *
 * Open MPI 5's prterun hangs or crashes if it has to end processes that are just connecting to it: those that have begun to
 * get the time for it, and others see that this one fails, and do not begin (`waitWhileFailing` in `src/mpi/departure.ts`).
 *
 * @module
 */
import { pauseAtExit } from "../at_exit.ts";
import { libcFunctions } from "../memory.ts";
import { launcher } from "./launcher.ts";
import { joinPresence } from "./presence.ts";

const LIBC_SYMBOLS = {
  /** `int getloadavg(double loadavg[], int nelem)` */
  getloadavg: { parameters: ["buffer", "i32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** For the others to connect to the launcher, or to print their own errors. */
export const LINGER_MICROSECONDS = 1_000_000n;

let isPrepared = false;

/**
 * For the others to come, who see nothing of this process when the name is gone, and would leave another one: twice as long
 * as this one took, within limits that are higher on a busy machine, which delays some ranks more than others.
 */
const arrivalMilliseconds = () => busyness() * Math.min(Math.max(2000, 2 * performance.now()), 6000);

/** How many want each processor, from 1 to 3. */
function busyness(): number {
  const load = new Float64Array(1);
  libcFunctions(LIBC_SYMBOLS).getloadavg(load, 1);
  return Math.min(Math.max(1, load[0] / navigator.hardwareConcurrency), 3);
}

/**
 * Have this process end a second later, and leave no name behind; nothing without a launcher. MPI may still start. Waits for
 * the other ranks of the machine to come, so that they learn of it.
 */
export function prepareEarlyEnd(): void {
  if (launcher() === null || isPrepared) return;
  isPrepared = true;
  const presence = joinPresence();
  presence?.failBeforeStart();
  presence?.removeNameAtExit();
  presence?.waitForArrivals(arrivalMilliseconds());
  pauseAtExit(LINGER_MICROSECONDS);
}
