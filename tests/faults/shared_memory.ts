/** What ranks share in memory while they start (`ffi/mpi/presence.ts`). */
import { assertEquals } from "@std/assert";
import { existsSync } from "node:fs";

/** No job whose launcher has ended has left a name; other tests make and remove some meanwhile. */
export async function assertNoNames(): Promise<void> {
  for (let rest = 50; namesOfDead().length > 0 && rest > 0; rest--) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assertEquals(namesOfDead(), []);
}

function namesOfDead(): string[] {
  return Array.from(Deno.readDirSync("/dev/shm"), ({ name }) => name).filter((name) => {
    const [, launcher] = /^distmath\.(\d+)\./.exec(name) ?? [];
    return launcher !== undefined && !existsSync(`/proc/${launcher}`);
  });
}
