/**
 * Run as a program: loads the libraries that a matmul needs when a rank has as many threads as the argument says, and
 * prints which files those are.
 *
 * @module
 */
import { DistributedArray, initialize, matmul, Slab } from "../../mod.ts";

/** What the probe prints. */
export interface Probe {
  /** The library's own list. */
  versions: { name: string; version: string; path: string }[];
  /** Every mapped shared library. */
  files: string[];
}

if (import.meta.main) {
  using runtime = initialize({ device: "cpu", threads: Number(Deno.args[0]) });
  const matrix = DistributedArray.random(runtime, [8, 8], Slab.X, { dtype: "float64" });
  matmul(matrix, matrix);
  const maps = Deno.readTextFileSync("/proc/self/maps").matchAll(/ (\/\S+\.so[.\d]*)$/gm);
  const probe: Probe = { versions: runtime.versions(), files: [...new Set([...maps].map(([, file]) => file))] };
  console.log(JSON.stringify(probe));
}
