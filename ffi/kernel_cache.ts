/**
 * The folder of compiled kernels, and of what was measured of them: a convenience, whose failure is no error.
 *
 * @module
 */
import { digest } from "./digest.ts";
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
    // No permission, or no space: the next process compiles, or measures, again.
    removeFile(temporary);
    return false;
  }
}

/** The length of a digest. */
const SEAL_BYTES = 64;

/** What is to be written, with a seal by which a file that was cut off or damaged is known. */
export function sealed(content: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(content.length + SEAL_BYTES);
  all.set(content);
  new TextEncoder().encodeInto(digest(content), all.subarray(content.length));
  return all;
}

/** What was sealed; `undefined` if it is not as it was. */
export function unsealed(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> | undefined {
  if (bytes.length <= SEAL_BYTES) return undefined;
  const content = bytes.subarray(0, bytes.length - SEAL_BYTES);
  return new TextDecoder().decode(bytes.subarray(content.length)) === digest(content) ? content : undefined;
}

/** Remove a file, if it is there. */
export function removeFile(path: string): void {
  try {
    Deno.removeSync(path);
  } catch {
    // It was never made.
  }
}
