/**
 * The native library of engines on CPUs.
 *
 * @module
 */
import type { Scalapack } from "../../../../ffi/blas/scalapack.ts";
import type { Runtime } from "../../../runtime/runtime.ts";

/** Who made a library, and its version, for people; what is wrong with it is warned of, once. */
export function libraryInWords(runtime: Runtime, { vendor, version, warnings }: Scalapack): string {
  for (const warning of warnings) runtime.warnOnce(warning, warning);
  return `${vendor}, ${version}`;
}
