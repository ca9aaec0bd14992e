/** What ranks share in memory while they start (`ffi/mpi/presence.ts`). */
import { assertEquals } from "@std/assert";
import { existsSync } from "node:fs";

/** No job whose launcher has ended has left a name. */
export function assertNoNames(): void {
  const left = Array.from(Deno.readDirSync("/dev/shm"), ({ name }) => name).filter((name) => {
    const [, launcher] = /^distmath\.(\d+)\./.exec(name) ?? [];
    return launcher !== undefined && !existsSync(`/proc/${launcher}`);
  });
  assertEquals(left, []);
}
