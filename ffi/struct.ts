/**
 * C structs by offset: a layout is plain data, and a struct is the bytes that C sees.
 *
 * @module
 */

/** What a field holds: a number, or that many bytes. Pointers and sizes are `u64`, enums `i32`, `bool` is `u8`. */
export type FieldType = "u8" | "u16" | "i32" | "u32" | "f32" | "i64" | "u64" | number;

/** A C struct: its name, its size in bytes, and where its fields lie. Fields of inner structs are named `inner.field`. */
export interface StructLayout {
  /** The name in the C header. */
  readonly name: string;
  /** Bytes of the whole struct. */
  readonly size: number;
  /** Offset in bytes and type of each field. */
  readonly fields: Readonly<Record<string, readonly [offset: number, type: FieldType]>>;
}

/** The JavaScript value of a field: a bigint for 64-bit integers, bytes for a count of bytes, else a number. */
export type FieldValue<T extends FieldType> = T extends "i64" | "u64" ? bigint
  : T extends number ? Uint8Array
  : number;

export type FieldName<L extends StructLayout> = keyof L["fields"] & string;

/** Values for some of the fields of a layout. */
export type FieldValues<L extends StructLayout> = { [F in FieldName<L>]?: FieldValue<L["fields"][F][1]> };

const LITTLE_ENDIAN = true;

/**
 * A struct with the given fields set, and zero elsewhere.
 *
 * @example
 * ```ts
 * import { createStruct, readField } from "@distmath/distmath/ffi";
 * const layout = { name: "pair_t", size: 16, fields: { count: [0, "i32"], address: [8, "u64"] } } as const;
 * const pair = createStruct(layout, { count: 3, address: 4096n });
 * console.assert(readField(layout, pair, "address") === 4096n);
 * ```
 */
export function createStruct<const L extends StructLayout>(
  layout: L,
  values: FieldValues<L> = {},
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(layout.size);
  for (const [field, value] of Object.entries(values)) {
    if (value !== undefined) writeField<StructLayout>(layout, bytes, field, value as number | bigint | Uint8Array);
  }
  return bytes;
}

export function writeField<L extends StructLayout>(
  layout: L,
  bytes: Uint8Array,
  field: FieldName<L>,
  value: FieldValue<L["fields"][FieldName<L>][1]>,
): void {
  const [offset, type] = layout.fields[field];
  const view = new DataView(bytes.buffer, bytes.byteOffset + offset);
  switch (type) {
    case "u8":
      return view.setUint8(0, value as number);
    case "u16":
      return view.setUint16(0, value as number, LITTLE_ENDIAN);
    case "i32":
      return view.setInt32(0, value as number, LITTLE_ENDIAN);
    case "u32":
      return view.setUint32(0, value as number, LITTLE_ENDIAN);
    case "f32":
      return view.setFloat32(0, value as number, LITTLE_ENDIAN);
    case "i64":
    case "u64":
      return view.setBigUint64(0, BigInt.asUintN(64, value as bigint), LITTLE_ENDIAN);
    default:
      if ((value as Uint8Array).length > type) {
        throw new RangeError(`${layout.name}.${field} holds ${type} bytes, not ${(value as Uint8Array).length}.`);
      }
      return bytes.set(value as Uint8Array, offset);
  }
}

/** The value of one field of a struct that begins at the first of `bytes`. */
export function readField<L extends StructLayout, F extends FieldName<L>>(
  layout: L,
  bytes: Uint8Array,
  field: F,
): FieldValue<L["fields"][F][1]> {
  return readAny(bytes, ...layout.fields[field]) as FieldValue<L["fields"][F][1]>;
}

function readAny(bytes: Uint8Array, offset: number, type: FieldType): number | bigint | Uint8Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset + offset);
  switch (type) {
    case "u8":
      return view.getUint8(0);
    case "u16":
      return view.getUint16(0, LITTLE_ENDIAN);
    case "i32":
      return view.getInt32(0, LITTLE_ENDIAN);
    case "u32":
      return view.getUint32(0, LITTLE_ENDIAN);
    case "f32":
      return view.getFloat32(0, LITTLE_ENDIAN);
    case "i64":
      return view.getBigInt64(0, LITTLE_ENDIAN);
    case "u64":
      return view.getBigUint64(0, LITTLE_ENDIAN);
    default:
      return bytes.subarray(offset, offset + type);
  }
}

/** The number of bytes that a field takes. */
export function sizeOfField(type: FieldType): number {
  if (typeof type === "number") return type;
  return type === "u8" ? 1 : type === "u16" ? 2 : type === "i64" || type === "u64" ? 8 : 4;
}
