/** What runs on this machine. */
import { assert } from "@std/assert";
import { slowdown } from "../mpi_installations.ts";

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Wait until something holds. */
export async function until(holds: () => boolean, seconds: number, what: string | (() => string)): Promise<void> {
  // The ranks that wait do so for a minute.
  const end = Date.now() + Math.min(45, seconds * slowdown()) * 1000;
  while (!holds()) {
    assert(Date.now() < end, typeof what === "string" ? what : what());
    await pause(50);
  }
}

/** The processes whose command line contains a text. */
export function processesWith(text: string): string[] {
  return Array.from(Deno.readDirSync("/proc"), ({ name }) => name).filter((name) => {
    try {
      return /^\d+$/.test(name) && Deno.readTextFileSync(`/proc/${name}/cmdline`).includes(text);
    } catch {
      return false;
    }
  });
}
