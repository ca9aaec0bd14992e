/**
 * Qualifiers: what is done to the stored matrices before they are multiplied, as an object or as packed records.
 *
 * @module
 */
import { DTypeError } from "../../errors.ts";
import { type DType, dtypeInfo } from "../../dtype/dtype.ts";
import { checkBoolean, describe, keysOf, noteOwnClass, readOptions } from "../../options.ts";
import type { Operation } from "../../blas/transposition.ts";

/** What is done to one matrix before it is multiplied. */
export interface MatrixQualifier {
  /** Exchange rows and columns. False if left out. */
  isTranspose?: boolean;
  /** Take complex conjugates; complex dtypes only. False if left out. */
  isConjugate?: boolean;
}

/** Qualifiers by the matrix's name. C must have none. */
export interface Qualifiers {
  /** What is done to A. */
  a?: MatrixQualifier;
  /** What is done to B. */
  b?: MatrixQualifier;
  /** C takes no qualifier: only false values are allowed. */
  c?: MatrixQualifier;
}

const RECORD_BYTES = 2;
const IS_TRANSPOSE = 0;
const IS_CONJUGATE = 1;

/** One record of {@linkcode MatrixQualifiers}: a view, so that setting a field changes the packed bytes. */
export class MatrixQualifierRecord {
  readonly #bytes: Int8Array<ArrayBuffer>;

  /** A view of the record in these two bytes. */
  constructor(bytes: Int8Array<ArrayBuffer>) {
    this.#bytes = bytes;
  }

  /** Exchange rows and columns. */
  get isTranspose(): boolean {
    return this.#bytes[IS_TRANSPOSE] !== 0;
  }
  set isTranspose(value: boolean | number) {
    this.#bytes[IS_TRANSPOSE] = Number(Boolean(value));
  }

  /** Take complex conjugates. */
  get isConjugate(): boolean {
    return this.#bytes[IS_CONJUGATE] !== 0;
  }
  set isConjugate(value: boolean | number) {
    this.#bytes[IS_CONJUGATE] = Number(Boolean(value));
  }
}

/** Packed qualifiers of several matrices: two `i8` a record, `isTranspose` and `isConjugate`, without padding. */
export class MatrixQualifiers implements Iterable<MatrixQualifierRecord> {
  static {
    noteOwnClass(this);
  }

  /** The packed records, for native code. */
  readonly buffer: ArrayBuffer;
  /** The number of records. */
  readonly length: number;
  /** The record of a matrix: 0 is A, 1 is B, 2 is C. */
  readonly [index: number]: MatrixQualifierRecord;

  /** Make records that are all false. See {@linkcode matrixQualifiers}. */
  constructor(length: number) {
    this.length = length;
    this.buffer = new ArrayBuffer(length * RECORD_BYTES);
    const records: Record<number, MatrixQualifierRecord> = {};
    for (let i = 0; i < length; i++) {
      records[i] = new MatrixQualifierRecord(new Int8Array(this.buffer, i * RECORD_BYTES, RECORD_BYTES));
    }
    Object.assign(this, records);
  }

  /** The records in order. */
  *[Symbol.iterator](): Iterator<MatrixQualifierRecord> {
    for (let i = 0; i < this.length; i++) yield this[i];
  }
}

/**
 * Qualifiers as packed records, as nvmath's `matrix_qualifiers_dtype` has them, but for its `structure`: record 0 is A's, 1
 * B's, 2 C's.
 *
 * @example
 * ```ts
 * import { matrixQualifiers } from "@distmath/distmath";
 * const qualifiers = matrixQualifiers(3);
 * qualifiers[0].isTranspose = true;
 * console.assert(new Int8Array(qualifiers.buffer).join() === "1,0,0,0,0,0");
 * ```
 *
 * @throws {RangeError} if `length` is not 2 or 3.
 */
export function matrixQualifiers(length = 3): MatrixQualifiers {
  if (length !== 2 && length !== 3) {
    throw new RangeError(`matrixQualifiers takes 2 (A, B) or 3 (A, B, C) records; got ${length}.`);
  }
  return new MatrixQualifiers(length);
}

/**
 * The object that means the same as packed records.
 *
 * @example
 * ```ts
 * import { qualifiersObject } from "@distmath/distmath/internals";
 * import { matrixQualifiers } from "@distmath/distmath";
 * console.assert(qualifiersObject(matrixQualifiers(2)).a?.isTranspose === false);
 * ```
 */
export function qualifiersObject(packed: MatrixQualifiers): Qualifiers {
  const object: Qualifiers = {};
  for (const [i, name] of (["a", "b", "c"] as const).entries()) {
    const record = packed[i];
    if (record) object[name] = { isTranspose: record.isTranspose, isConjugate: record.isConjugate };
  }
  return object;
}

/**
 * The packed records that mean the same as an object.
 *
 * @example
 * ```ts
 * import { packQualifiers } from "@distmath/distmath/internals";
 * console.assert(packQualifiers({ b: { isTranspose: true } })[1].isTranspose);
 * ```
 */
export function packQualifiers(qualifiers: Qualifiers): MatrixQualifiers {
  const packed = matrixQualifiers(3);
  for (const [i, name] of (["a", "b", "c"] as const).entries()) {
    packed[i].isTranspose = qualifiers[name]?.isTranspose ?? false;
    packed[i].isConjugate = qualifiers[name]?.isConjugate ?? false;
  }
  return packed;
}

/** What is done to A and to B. */
export interface Operations {
  /** What is done to A. */
  readonly a: Operation;
  /** What is done to B. */
  readonly b: Operation;
}

const QUALIFIER_KEYS = keysOf<Qualifiers>({ a: true, b: true, c: true });
const FLAGS = keysOf<MatrixQualifier>({ isTranspose: true, isConjugate: true });

/**
 * What qualifiers in either form ask for.
 *
 * @throws {TypeError} if the qualifiers have another form, or C has any.
 * @throws {DTypeError} if a real matrix is to be conjugated.
 */
export function operationsOf(
  qualifiers: Qualifiers | MatrixQualifiers | undefined,
  dtypes: { readonly a: DType; readonly b: DType },
): Operations {
  const object = qualifiers instanceof MatrixQualifiers
    ? qualifiersObject(qualifiers)
    : qualifiers === undefined
    ? {}
    : qualifiers;
  if (typeof object !== "object" || object === null || Array.isArray(object)) {
    throw new TypeError(
      `qualifiers must be an object such as { a: { isTranspose: true } }, or matrixQualifiers(3); got ${
        describe(qualifiers)
      }.`,
    );
  }
  const given = readOptions<Qualifiers>("qualifiers", object, QUALIFIER_KEYS);
  const c = operationOf("c", given.c);
  if (c.transpose || c.conjugate) {
    throw new TypeError("qualifiers.c must not transpose or conjugate: C is added as it is. Pass a transposed view.");
  }
  const operations = { a: operationOf("a", given.a), b: operationOf("b", given.b) };
  for (const name of ["a", "b"] as const) {
    if (operations[name].conjugate && !dtypeInfo(dtypes[name]).isComplex) {
      throw new DTypeError(
        `qualifiers.${name}.isConjugate needs a complex dtype (complex64, complex128); ${name} is ${
          dtypes[name]
        }. Leave it out.`,
      );
    }
  }
  return operations;
}

function operationOf(name: string, qualifier: MatrixQualifier | undefined): Operation {
  if (qualifier === undefined) return { transpose: false, conjugate: false };
  if (typeof qualifier !== "object" || qualifier === null) {
    throw new TypeError(`qualifiers.${name} must be { isTranspose?, isConjugate? }; got ${describe(qualifier)}.`);
  }
  const given = readOptions(`qualifiers.${name}`, qualifier, FLAGS);
  for (const key of FLAGS) {
    checkBoolean(`qualifiers.${name}.${key}`, given[key]);
  }
  return { transpose: given.isTranspose ?? false, conjugate: given.isConjugate ?? false };
}
