/** What runs on this machine. */
import { assert } from "@std/assert";
import { slowdown } from "../mpi_installations.ts";

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Wait until something holds. */
export async function until(holds: () => boolean, seconds: number, what: string | (() => string)): Promise<void> {
  const end = Date.now() + seconds * 1000;
  while (!holds()) {
    assert(Date.now() < end, typeof what === "string" ? what : what());
    await pause(50);
  }
}

/** Wait until no process has a text in its command line: for less than the minute after which ranks that wait end alone. */
export async function untilNoneHas(text: string): Promise<void> {
  const left = () => processesWith(text);
  await until(() => left().length === 0, Math.min(45, 10 * slowdown()), () => `processes are left: ${left()}`);
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
