/**
 * Asking Hydra, the launcher of MPICH and its relatives, to end the job with the exit code of the process that fails.
 *
 * Left to itself Hydra ends a job when it sees the socket of a process close that has spoken to it, as MPI_Init does; the
 * code of the job is then often that of a process that it has killed. It overlooks a process that has not spoken to it.
 * Hydra 5 also overlooks one that it finds dead before it sees the socket close, as happens beside output of other ranks,
 * and the others wait for ever.
 *
 * Source: MPICH, src/pm/hydra/proxy (`main` and `pmi_cb`); PMI-1, the protocol of a socket whose number is in `PMI_FD`.
 *
 * @module
 */
import { environment } from "../library.ts";
import { launcher } from "./launcher.ts";

/** The socket between this process and Hydra; `null` under another launcher, or without one. */
export function hydraSocket(): number | null {
  const socket = launcher()?.kind === "mpich" ? Number(environment("PMI_FD")) : 0;
  return socket > 0 ? socket : null;
}

/** What MPI_Abort writes to Hydra's socket. */
export function abortRequest(code: number): string {
  return `cmd=abort exitcode=${code}\n`;
}
