/**
 * The native library of engines on CPUs.
 *
 * @module
 */
import { openScalapack } from "../../../../ffi/blas/scalapack.ts";
import type { Runtime } from "../../../runtime/runtime.ts";

/** Open ScaLAPACK, unless it is open; returns who made it, and its version. */
export function scalapackLibrary(runtime: Runtime): string {
  const { vendor, version, warnings } = openScalapack(runtime.threads);
  for (const warning of warnings) runtime.warnOnce(warning, warning);
  return `${vendor}, ${version}`;
}
