/** What ranks share in memory while they start (`ffi/mpi/presence.ts`). */
import { existsSync } from "node:fs";
import type { JobResult } from "../mpi_installations.ts";
import { until } from "./processes.ts";

/** A job has left no name: neither those that its ranks have told of, nor one by its launcher. Other tests' come and go. */
export async function assertNoNames({ output, pid }: JobResult): Promise<void> {
  const told = Array.from(output.matchAll(/^page (\S+)$/gm), ([, page]) => page);
  const left = () => [
    ...told.filter(existsSync),
    ...Array.from(Deno.readDirSync("/dev/shm"), ({ name }) => name).filter((name) =>
      name.startsWith(`distmath.${pid}.`)
    ),
  ];
  await until(() => left().length === 0, 60, () => `left: ${left()}`);
}
