/**
 * What tells contents apart.
 *
 * @module
 */

/** The SHA-256 of data, or of a text's UTF-8, in hexadecimal digits. */
export function digest(data: string | Uint8Array): string {
  const { createHash } = globalThis.process.getBuiltinModule("node:crypto");
  return createHash("sha256").update(data).digest("hex");
}
