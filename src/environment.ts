/**
 * Settings for native libraries, which read them from the environment when they start.
 *
 * @module
 */
import { environment } from "../ffi/library.ts";

/** Set an environment variable, unless the user has set it or the permission is missing. */
export function setIfUnset(name: string, value: string): void {
  if (environment(name) !== undefined) return;
  try {
    Deno.env.set(name, value);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotCapable)) throw error;
  }
}
