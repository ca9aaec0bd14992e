/**
 * The folder of compiled kernels: a convenience, whose failure is no error.
 *
 * @module
 */
import { nativePrefix } from "./library.ts";

/** The folder of compiled kernels, beside that of `native install`. */
export function cacheFolder(): string | undefined {
  return nativePrefix()?.replace(/\/[^/]*\/?$/, "/kernels");
}

/** A file of the folder; `undefined` if it is not there, or may not be read. */
export function readCached(path: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Deno.readFileSync(path);
  } catch {
    return undefined;
  }
}

/** Whether a file of the folder is there. */
export function hasCached(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

/** Write a file of the folder: under another name first, since several ranks may do it at once. Whether it is there now. */
export function writeCached(path: string, content: Uint8Array): boolean {
  const temporary = `${path}.${crypto.randomUUID()}`;
  try {
    Deno.mkdirSync(cacheFolder()!, { recursive: true });
    Deno.writeFileSync(temporary, content);
    Deno.renameSync(temporary, path);
    return true;
  } catch {
    // No permission, or no space: the next process compiles again.
    removeFile(temporary);
    return false;
  }
}

/** Remove a file, if it is there. */
export function removeFile(path: string): void {
  try {
    Deno.removeSync(path);
  } catch {
    // It was never made.
  }
}
