/**
 * Views that are sent and received where they lie: rows, columns, faces of a typed array, as MPI's derived types.
 *
 * @module
 */
import { checkMpi, type Handle } from "../../ffi/mpi/mod.ts";
import { describe, isObject } from "../options.ts";
import { EMPTY_RECEIVE, EMPTY_SEND, LARGEST_INT, refuseDetached, refuseShort } from "./buffers.ts";
import { checkedLength } from "./checks.ts";
import { type Element, type ElementName, elementOf, entriesFrom, lengthOf, type NumericArray } from "./elements.ts";
import { handleCell } from "./handle_cell.ts";
import { startMpi } from "./init_finalize.ts";

/**
 * Some elements of a typed array: a row, a column, a face. What `LocalArray.slice` returns is one, and so are the objects of
 * array libraries that have these fields.
 */
export interface StridedView {
  /** The memory. */
  readonly data: NumericArray;
  /** How many elements there are in each dimension. */
  readonly shape: readonly number[];
  /** Elements from one to the next along each dimension, 0 or more. */
  readonly strides: readonly number[];
  /** The place of the first element; 0 when left out. */
  readonly offset?: number;
  /** What the entries mean where the class of the array does not say it; complex numbers have two entries an element. */
  readonly dtype?: ElementName;
}

/** What a message is sent from or received into: a whole typed array, or elements of one. */
export type MessageArray = NumericArray | StridedView;

/** A message as MPI takes it. */
export interface Message {
  /** The memory, from the first entry on. */
  readonly buffer: NumericArray;
  /** What keeps it alive. */
  readonly held: NumericArray;
  /** How many entries of that it reaches over. */
  readonly extent: number;
  /** The number of entries, or of what `dimensions` describe. */
  readonly count: number;
  /** The type of an entry. */
  readonly type: Handle;
  /** Where elements of a view lie, for which there is a type as long as MPI is told of the message; else `null`. */
  readonly dimensions: readonly Dimension[] | null;
  /** Bytes of an entry. */
  readonly entryBytes: number;
}

/**
 * What is sent, or received if `isTarget`, checked. After it no code of the user's may run, which could change the memory.
 *
 * @throws {TypeError | RangeError | DTypeError} if it is none, or elements lie outside of the memory.
 */
export function checkedMessage(
  method: string,
  what: string,
  data: MessageArray,
  dtype: ElementName | undefined,
  isTarget: boolean,
): Message {
  if (!ArrayBuffer.isView(data)) return viewedMessage(method, what, data, dtype, isTarget);
  const element = elementOf(method, what, data, dtype);
  const { BYTES_PER_ELEMENT: entryBytes } = data;
  const type = startMpi().constants.types[element.type];
  const count = checkedLength(method, what, data);
  const buffer = count > 0 ? data : isTarget ? EMPTY_RECEIVE : EMPTY_SEND;
  return { buffer, held: data, extent: count, count, type, dimensions: null, entryBytes };
}

/** Refuse a message that was checked before, if its memory is gone or shorter since then. */
export function checkHeld(method: string, what: string, { held, extent }: Message): void {
  if (lengthOf(held) < extent) refuseGone(method, what, held, extent);
}

function refuseGone(method: string, what: string, held: NumericArray, extent: number): void {
  refuseDetached(method, what, held);
  refuseShort(method, lengthOf(held), extent, what);
}

/** The type of what a message consists of, to be given back by `freeType` once MPI has been told of the message. */
export function typeOf({ type, dimensions, entryBytes }: Message): Handle {
  return dimensions === null ? type : derivedType(type, dimensions, entryBytes);
}

/** Let go of a type; MPI keeps it as long as it needs it. */
export function freeType({ dimensions }: Message, type: Handle): void {
  if (dimensions !== null) freeDerived(type);
}

function freeDerived(type: Handle): void {
  checkMpi(startMpi().symbols.MPI_Type_free(handleCell(type)), "MPI_Type_free");
}

/** Tell MPI of a message. */
export function withType(message: Message, call: (type: Handle) => number): number {
  const type = typeOf(message);
  const code = call(type);
  freeType(message, type);
  return code;
}

/** A dimension of a view: how many, and how many entries apart. */
interface Dimension {
  readonly extent: number;
  readonly stride: number;
}

function viewedMessage(
  method: string,
  what: string,
  view: StridedView,
  named: ElementName | undefined,
  isTarget: boolean,
): Message {
  // What is no view is refused as an array.
  if (!(isObject(view) && "data" in view && "strides" in view)) elementOf(method, what, view);
  const { data, shape, strides, offset = 0, dtype } = view;
  const element = elementOf(method, `${what}.data`, data, named ?? dtype);
  refuseDetached(method, `${what}.data`, data);
  const dimensions = checkedDimensions(method, what, element, shape, strides);
  const { parts } = element;
  const first = offset * parts;
  const count = dimensions.reduce((product, { extent }) => product * extent, 1);
  const extent = checkedExtent(method, what, data, first, dimensions, count);
  if (isTarget) refuseOverlaps(method, what, dimensions);
  const base = { held: data, extent, entryBytes: data.BYTES_PER_ELEMENT };
  const type = startMpi().constants.types[element.type];
  if (count === 0) return { ...base, buffer: EMPTY_SEND, count: 0, type, dimensions: null };
  return { ...base, buffer: entriesFrom(data, first), count: 1, type, dimensions };
}

function checkedDimensions(
  method: string,
  what: string,
  element: Element,
  shape: readonly number[],
  strides: readonly number[],
): Dimension[] {
  const areLists = Array.isArray(shape) && Array.isArray(strides) && shape.length === strides.length;
  const dimensions = areLists ? Array.from(shape, (extent, d) => ({ extent, stride: strides[d] })) : [];
  const isFine = ({ extent, stride }: Dimension) =>
    Number.isInteger(extent) && extent >= 0 && extent <= LARGEST_INT && Number.isSafeInteger(stride);
  if (!areLists || !dimensions.every(isFine)) {
    throw new TypeError(
      `${method}: ${what} must have a shape and as many strides, whole numbers; they are ${describe(shape)} and ` +
        `${describe(strides)}.`,
    );
  }
  if (dimensions.some(({ extent, stride }) => stride < 0 && extent > 1)) {
    // Open MPI 5 takes what lies backwards for what lies in sequence, and sends other elements.
    throw new RangeError(
      `${method}: ${what} has negative strides, ${
        describe(strides)
      }, which MPI does not send reliably. Pass it forwards, ` +
        "and turn it round at the other end.",
    );
  }
  if (element.parts === 1) return dimensions;
  return [...dimensions.map(({ extent, stride }) => ({ extent, stride: 2 * stride })), { extent: 2, stride: 1 }];
}

/** How many entries a view reaches over, from the first one of the data on. */
function checkedExtent(
  method: string,
  what: string,
  data: NumericArray,
  first: number,
  dimensions: readonly Dimension[],
  count: number,
): number {
  if (!Number.isSafeInteger(first)) throw new TypeError(`${method}: ${what}.offset must be a whole number.`);
  if (count === 0) return 0;
  const last = dimensions.reduce((sum, { extent, stride }) => sum + (extent - 1) * stride, first);
  if (first >= 0 && last < lengthOf(data) && count <= LARGEST_INT) return last + 1;
  throw new RangeError(
    `${method}: ${what} takes the entries from ${first} to ${last}, but its data has ${lengthOf(data)}.`,
  );
}

/** Refuse a target that has an element twice, as far as strides tell. */
function refuseOverlaps(method: string, what: string, dimensions: readonly Dimension[]): void {
  let span = 1;
  const long = dimensions.filter(({ extent }) => extent > 1);
  for (const { extent, stride } of long.toSorted((a, b) => a.stride - b.stride)) {
    if (stride < span) {
      throw new RangeError(
        `${method}: ${what} may have an element twice: its strides are ${dimensions.map(({ stride }) => stride)}. ` +
          `Receive into memory of its own.`,
      );
    }
    span = stride * (extent - 1) + span;
  }
}

/** A committed type of all elements of a view, the last dimension varying first. */
function derivedType(entry: Handle, dimensions: readonly Dimension[], entryBytes: number): Handle {
  const { symbols } = startMpi();
  const out = handleCell();
  let type = entry;
  const become = (code: number, name: string) => {
    const inner = type;
    checkMpi(code, name);
    type = out[0];
    if (inner !== entry) freeDerived(inner);
  };
  for (const { extent, stride } of dimensions.toReversed()) {
    if (type === entry && stride <= LARGEST_INT) {
      become(symbols.MPI_Type_vector(extent, 1, stride, entry, out), "MPI_Type_vector");
    } else {
      const bytes = BigInt(stride * entryBytes);
      become(symbols.MPI_Type_create_hvector(extent, 1, bytes, type, out), "MPI_Type_create_hvector");
    }
  }
  // A single element without dimensions.
  if (type === entry) become(symbols.MPI_Type_vector(1, 1, 1, entry, out), "MPI_Type_vector");
  checkMpi(symbols.MPI_Type_commit(handleCell(type)), "MPI_Type_commit");
  return type;
}
