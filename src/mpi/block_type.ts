/**
 * Blocks of arrays as MPI's derived types: what is sent and received where it lies.
 *
 * @module
 */
import { checkMpi, type Handle } from "../../ffi/mpi/mod.ts";
import { handleCell } from "./handle_cell.ts";
import { isMpiFinalized, startMpi } from "./init_finalize.ts";

/** So many neighbouring elements, and the dimensions around them. */
export interface BlockOfElements {
  /** Bytes of an element. */
  readonly itemSize: number;
  /** Elements in one piece. */
  readonly inner: number;
  /** The dimensions around it, outermost first: which indices, and how many elements from one to the next. */
  readonly around: readonly {
    readonly indices: readonly { readonly start: number; readonly length: number }[];
    readonly stride: number;
  }[];
  /** The first element, not counting `around`. */
  readonly start: number;
}

/** The largest kind of number that elements consist of. */
const WORDS = [[8, "uint64"], [4, "uint32"], [2, "uint16"], [1, "uint8"]] as const;

/** A committed type of all elements of a block, to be freed by {@linkcode freeBlockType}. */
export function blockType({ itemSize, inner, around, start }: BlockOfElements): Handle {
  const { symbols, constants: { types } } = startMpi();
  const [bytes, word] = WORDS.find(([bytes]) => itemSize % bytes === 0)!;
  const out = handleCell();
  let type = types[word];
  let isDerived = false;
  const become = (name: string, make: (old: Handle) => number) => {
    const old = type;
    checkMpi(make(old), name);
    type = out[0];
    if (isDerived) free(old);
    isDerived = true;
  };
  const resize = (extent: number) => {
    const make = (old: Handle) => symbols.MPI_Type_create_resized(old, 0n, BigInt(extent * itemSize), out);
    become("MPI_Type_create_resized", make);
  };
  const place = (indices: readonly { start: number; length: number }[], stride: number) => {
    const lengths = Int32Array.from(indices, ({ length }) => length);
    const starts = BigInt64Array.from(indices, ({ start }) => BigInt(start * stride * itemSize));
    const make = (old: Handle) => symbols.MPI_Type_create_hindexed(indices.length, lengths, starts, old, out);
    become("MPI_Type_create_hindexed", make);
  };
  become("MPI_Type_contiguous", (old) => symbols.MPI_Type_contiguous(inner * itemSize / bytes, old, out));
  let extent = inner;
  for (const { indices, stride } of around.toReversed()) {
    if (stride !== extent) resize(stride);
    place(indices, stride);
    extent = NaN;
  }
  place([{ start, length: 1 }], 1);
  checkMpi(symbols.MPI_Type_commit(handleCell(type)), "MPI_Type_commit");
  return type;
}

function free(type: Handle): void {
  checkMpi(startMpi().symbols.MPI_Type_free(handleCell(type)), "MPI_Type_free");
}

/** Let go of a type, unless MPI has ended, which takes them all. */
export function freeBlockType(type: Handle): void {
  if (!isMpiFinalized()) free(type);
}
