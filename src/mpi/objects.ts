/**
 * Values as bytes, for the methods that end in Object.
 *
 * The form is V8's of the structured clone algorithm: JSON values, and beside them `undefined`, `NaN`, `-0`, bigint,
 * `Date`, `Map`, `Set`, typed arrays and cycles arrive as they were sent; a class instance arrives as a plain object.
 *
 * @module
 */
import { deserialize, serialize } from "node:v8";

/** The bytes of a value. */
export function encodeObject(method: string, value: unknown): Uint8Array<ArrayBuffer> {
  try {
    const bytes = serialize(value);
    return new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new TypeError(`${method}: the value cannot be sent: ${reason} Functions and symbols do not travel.`, {
      cause: error,
    });
  }
}

/** The value of bytes that {@linkcode encodeObject} made. */
export function decodeObject<T>(bytes: Uint8Array): T {
  return deserialize(bytes as Parameters<typeof deserialize>[0]) as T;
}
