/**
 * Values as bytes, for the methods that end in Object.
 *
 * The form is V8's of the structured clone algorithm: JSON values, and beside them `undefined`, `NaN`, `-0`, bigint,
 * `Date`, `RegExp`, `Error`, `Map`, `Set`, typed arrays and cycles arrive as they were sent; an instance of another class, such
 * as `URL` and `Blob`, arrives as a plain object of its own properties, and typed arrays of one buffer with one each.
 *
 * @module
 */
import { describe } from "../options.ts";
import { sumOf } from "./counts.ts";

/** The bytes of values, one after the other. */
export interface EncodedObjects {
  bytes: Uint8Array<ArrayBuffer>;
  /** The number of bytes of each. */
  counts: Int32Array;
}

const v8 = () => globalThis.process.getBuiltinModule("node:v8");

export function encodeObject(method: string, value: unknown): Uint8Array<ArrayBuffer> {
  try {
    const bytes = v8().serialize(value);
    return new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength);
  } catch (error) {
    const reason = (error instanceof Error ? error.message : String(error)).replace(/[.!]?$/, ".");
    throw new TypeError(`${method}: the value cannot be sent: ${reason} Functions and symbols do not travel.`, {
      cause: error,
    });
  }
}

/** What reads values that own their memory: V8's typed arrays are windows into the message, or into Node's pool. */
const makeReader = () =>
  class extends v8().DefaultDeserializer {
    _readHostObject(): ArrayBufferView {
      // @ts-ignore The types of Node leave it out.
      const view: Uint8Array<ArrayBuffer> = super._readHostObject();
      const { buffer, byteOffset, byteLength, constructor } = view;
      // Node's Buffer, whose memory is shared anyway.
      if (constructor.prototype instanceof Uint8Array) return view;
      return new (constructor as Uint8ArrayConstructor)(buffer.slice(byteOffset, byteOffset + byteLength));
    }
  };

let Reader: ReturnType<typeof makeReader> | undefined;

/**
 * The value of bytes that {@linkcode encodeObject} made.
 *
 * @throws {TypeError} if they are others; `what` names them.
 */
export function decodeObject<T>(bytes: Uint8Array, what = "what another rank sent"): T {
  try {
    return read(bytes) as T;
  } catch (cause) {
    // V8's writer has a longer stack than Node's reader.
    if (cause instanceof RangeError) {
      throw new TypeError(`${what} is nested too deeply to be read: ${cause.message}. Send it as a list.`, { cause });
    }
    throw new TypeError(
      `${what}, of ${bytes.length} bytes, is no value of the methods that end in Object. Arrays travel by those without ` +
        "Object, also from mpi4py, by its methods with a capital letter, such as Send.",
      { cause },
    );
  }
}

function read(bytes: Uint8Array): unknown {
  Reader ??= makeReader();
  // Deno up to 2.9.5 counts the place of an array in its buffer twice.
  const own = bytes.byteOffset === 0 ? bytes : bytes.slice();
  const reader = new Reader(own as ConstructorParameters<typeof Reader>[0]);
  reader.readHeader();
  return reader.readValue();
}

/** The bytes of a list of values, one for each rank. */
export function encodeObjects(method: string, values: readonly unknown[] | null, size: number): EncodedObjects {
  if (!Array.isArray(values)) throw new TypeError(`${method}: values must be an array, not ${describe(values)}.`);
  if (values.length !== size) {
    throw new RangeError(`${method}: ${values.length} values were given for ${size} ranks.`);
  }
  // Each value is read once: a getter may change the list.
  const encoded = Array.from({ length: size }, (_, rank) => encodeObject(method, values[rank]));
  const counts = Int32Array.from(encoded, ({ length }) => length);
  const bytes = new Uint8Array(sumOf(counts));
  let start = 0;
  for (const part of encoded) {
    bytes.set(part, start);
    start += part.length;
  }
  return { bytes, counts };
}

/** The values of bytes that lie one after the other; `null` where there are none. */
export function decodeObjects<T>(counts: Int32Array, bytes: Uint8Array | null): T[] | null {
  if (bytes === null) return null;
  let end = 0;
  return Array.from(counts, (count) => decodeObject<T>(bytes.subarray(end, end += count)));
}
