/** Ranks that are started without MPI, each by hand, as torchrun would. */
import { Leavings } from "../leavings.ts";
import type { JobResult } from "../mpi_installations.ts";
import { type Ended, finish, start } from "./command.ts";

/** A port that nothing listens at, nor at the one after it: other tests take theirs from the system, elsewhere. */
export function freePort(): number {
  while (true) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    try {
      Deno.listen({ hostname: "127.0.0.1", port }).close();
      Deno.listen({ hostname: "127.0.0.1", port: port + 1 }).close();
      return port;
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    }
  }
}

/** The variables of one rank. */
export function variablesOf(rank: number, size: number, port: number): Record<string, string> {
  return {
    RANK: String(rank),
    WORLD_SIZE: String(size),
    LOCAL_RANK: String(rank),
    MASTER_ADDR: "localhost",
    MASTER_PORT: String(port),
  };
}

/** How a rank ended, with all that it printed. */
export interface EndedRank extends Ended {
  output: string;
}

/** Start one rank of a job, as `deno` with these arguments. */
export async function runRank(
  args: readonly string[],
  env: Record<string, string>,
  leavings: Leavings | null = null,
): Promise<EndedRank> {
  const [program, all] = leavings?.command(Deno.execPath(), args) ?? [Deno.execPath(), args];
  const ended = await finish(start(program, all, { env: { ...env, ...leavings?.environment } }), 60);
  return { ...ended, output: ended.stdout + ended.stderr };
}

/** Start all ranks of a job, and wait for their end. */
export function runRanks(
  size: number,
  args: readonly string[],
  env: Record<string, string> = {},
  port: number = freePort(),
  leavings: Leavings | null = null,
): Promise<EndedRank[]> {
  return Promise.all(
    Array.from({ length: size }, (_, rank) => runRank(args, { ...variablesOf(rank, size, port), ...env }, leavings)),
  );
}

/** As {@linkcode runRanks}, and how the job ended as a whole, with the code of rank 0. */
export async function runJobByHand(
  size: number,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<{ ranks: EndedRank[]; result: Omit<JobResult, "pid"> }> {
  using leavings = new Leavings();
  const ranks = await runRanks(size, args, env, freePort(), leavings);
  const endedAt = Date.now();
  const output = ranks.map(({ output }) => output).join("");
  return { ranks, result: { code: ranks[0].code, output, endedAt, left: await leavings.left([]) } };
}
