/**
 * Arrays in NumPy's files: each rank reads and writes its own part only.
 *
 * @module
 */
import { LibraryNotFoundError } from "../../ffi/library.ts";
import { bindTo, checkDistribution } from "../distribution/distribution.ts";
import { type Distribution, Slab } from "../distribution/mod.ts";
import { ConfigurationError, DistmathError, NativeError } from "../errors.ts";
import { describe, keysOf, readOptions } from "../options.ts";
import { agree, exchange } from "../runtime/agreement.ts";
import { agreeWith, type Runtime } from "../runtime/runtime.ts";
import { checkArray, runtimeOf } from "./base_array.ts";
import { DistributedArray } from "./distributed_array.ts";
import {
  type Draft,
  markDraft,
  namedDraft,
  removeAbandonedDrafts,
  seesDraft,
  targetOf,
  unnamedDraft,
} from "./draft_file.ts";
import { type FileProgress, fileProgress, PIECE_BYTES } from "./file_progress.ts";
import { checkStorage } from "./new_part.ts";
import { checkConvertible } from "../dtype/conversion.ts";
import { type DType, dtypeInfo, type TypedArray } from "../dtype/dtype.ts";
import { type Order, sizeOfShape, stridesOf } from "./layout.ts";
import { LocalArray, type Memory } from "./local_array.ts";
import {
  encodeNpyHeader,
  npyDataOffset,
  npyDescr,
  type NpyElements,
  npyElements,
  type NpyHeader,
  parseNpyHeader,
  PREFIX_BYTES,
} from "./npy_header.ts";
import { countOf, forEachRow, innerDimension, type Ranges } from "./traverse.ts";

/** Options of {@linkcode loadNpy}. */
export interface LoadNpyOptions<D extends DType = DType> {
  /**
   * The dtype of the array; by default the file's. Elements are converted, except that for "bfloat16", "float8_…" and
   * "complex32", which NumPy has not, the raw bits of a file are taken as they are: of `V2` or `u2`, `V1` or `u1`, and `V4`.
   */
  dtype?: D;
  /** The memory order of the array; by default the file's, which needs no transposition. */
  order?: Order;
  /** Where the elements shall be; by default "device" if the runtime computes on GPUs, else "host". */
  memory?: Memory;
}

/** The names of {@linkcode LoadNpyOptions}. */
export const LOAD_KEYS = keysOf<LoadNpyOptions>({ dtype: true, order: true, memory: true });

/**
 * Read an array that `numpy.save` wrote. Each rank reads its own part of the file only, which all ranks must see under
 * the same path. Collective.
 *
 * float16/32/64, complex64/128, int8/32/64, uint8, of either byte order; format versions 1.0 to 3.0, C and Fortran order.
 * A single number, of no dimensions there, becomes an array of one element.
 *
 * @throws {TypeError} if an option is not known.
 * @throws {ConfigurationError} if the file cannot be opened, has a broken header or is too short.
 * @throws {DTypeError} if it holds other types.
 * @throws {DistributionError} if the distribution does not fit the shape, or is bound to another one.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, loadNpy, saveNpy, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * const path = runtime.communicator.broadcastObject(runtime.rank === 0 ? Deno.makeTempFileSync() : "");
 * saveNpy(DistributedArray.random(runtime, [100, 80], Slab.X), path);
 * using columns = loadNpy(runtime, path, Slab.Y, { dtype: "float32" });
 * console.log(columns.local.shape); // [100, 80 / size]
 * ```
 */
export function loadNpy<D extends DType = DType>(
  runtime: Runtime,
  path: string | URL,
  distribution: Distribution,
  options: LoadNpyOptions<D> = {},
): DistributedArray<D> {
  let array!: DistributedArray;
  let wanted!: Distribution;
  let given!: LoadNpyOptions;
  agreeWith(runtime, "loadNpy", () => {
    given = readOptions("the options of loadNpy", options, LOAD_KEYS);
    checkPath(path);
    checkDistribution(distribution);
    checkStorage(runtime, given);
    return about(path, () => {
      using file = openFile(path);
      const found = readArray(runtime, wholeFile(file), distribution, given, String(path));
      [array, wanted] = [found.array, found.wanted];
      return { path: String(path), ...found.facts };
    });
  });
  return finish(array, wanted, given) as DistributedArray<D>;
}

/** What was read, where it is wanted, and what all ranks must agree on. */
export interface FoundArray {
  readonly array: DistributedArray;
  readonly wanted: Distribution;
  readonly facts: Record<string, unknown>;
}

/** Read this rank's part of a .npy file, as it is there; `name` is what it is called where it takes long. Local. */
export function readArray(
  runtime: Runtime,
  source: NpySource,
  distribution: Distribution,
  options: LoadNpyOptions,
  name: string,
): FoundArray {
  const header = readHeader(source);
  const { descr, order } = header;
  const elements = npyElements(descr, options.dtype);
  checkConvertible(elements.dtype, options.dtype ?? elements.dtype);
  checkLength(source, header, elements.dtype);
  // A single number has no dimension that could be distributed: it becomes an array of one element.
  const shape = header.shape.length === 0 ? [1] : header.shape;
  const wanted = bindTo(distribution, shape, runtime.size);
  const isDirect = isWorthSeeking(wanted, order, elements.dtype);
  const bound = isDirect ? wanted : fileSlab(shape, order, runtime.size);
  const ranges = bound.ranges(runtime.rank);
  const bytes = bytesOfArray(ranges.map(countOf), elements.dtype);
  const local = readPart(
    source,
    { ...header, shape },
    elements,
    ranges,
    fileProgress(runtime, `reading ${name}`, bytes),
  );
  const { dtype = null, order: wantedOrder = null, memory = null } = options;
  return {
    array: DistributedArray.wrap(runtime, local, bound, order),
    wanted,
    facts: { descr, order, shape, distribution: String(wanted), dtype, wantedOrder, memory },
  };
}

/** Bring what was read into the distribution, dtype and order that were asked for. Collective. */
export function finish(read: DistributedArray, bound: Distribution, options: LoadNpyOptions): DistributedArray {
  const placed = read.distribution.equals(bound) ? read : read.redistribute(bound);
  const { dtype = read.dtype, order = read.order, memory = read.runtime.stream ? "device" : "host" } = options;
  const isReady = dtype === placed.dtype && order === placed.order && memory === placed.memory;
  return isReady ? placed : placed.to({ dtype, order, memory });
}

/**
 * Write an array as `numpy.save` does; each rank writes its own part of the file only, which all ranks must see under the
 * same path. The file appears under its name when it is complete: if anything fails on any rank, or a rank is killed, none
 * is left, and an older one stays as it was. (Where files need a name, as between machines, a machine that
 * goes, or a rank that is killed where no shell may be run, leaves `NAME.….part`, which the next call with the same path
 * removes.) A symbolic link stays, and the file that it points to is written. Collective.
 *
 * bfloat16, float8 and complex32 are written as raw bits (`V2`, `V1`, `V4`): `numpy.load(path).view(ml_dtypes.bfloat16)`,
 * `numpy.load(path).view(numpy.float16)`.
 *
 * @throws {TypeError} if it is no array, or the path is none.
 * @throws {ConfigurationError} if the file cannot be written.
 * @throws {StateError} if the array was freed.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, saveNpy, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.random(runtime, [1000, 1000], Slab.X);
 * const folder = runtime.communicator.broadcastObject(runtime.rank === 0 ? Deno.makeTempDirSync() : "");
 * saveNpy(a, `${folder}/a.npy`);
 * ```
 */
export function saveNpy(array: DistributedArray, path: string | URL): void {
  const runtime = runtimeOf(array);
  agree(runtime, "saveNpy", () => {
    checkArray(array, "saveNpy: the array");
    checkPath(path);
    return { array: String(array), path: String(path) };
  });
  const file = fileOf(array);
  using made = new DisposableStack();
  made.defer(file.free);
  writeTogether(runtime, "saveNpy", path, [{ ...file, offset: 0 }], (temporary) => {
    writeAt(temporary, 0, file.header);
  });
}

/** An array as it is written: its header, and its elements in a distribution that makes long runs in the file. */
export interface NpyFile {
  readonly header: Uint8Array<ArrayBuffer>;
  readonly part: DistributedArray;
  /** Bytes, header included. */
  readonly size: number;
  /** Let go of the part, if it was made for the file. */
  readonly free: () => void;
}

/** Get an array ready to be written. Collective. */
export function fileOf(array: DistributedArray): NpyFile {
  const { shape, dtype, order, runtime, distribution } = array;
  const header = encodeNpyHeader({ descr: npyDescr(dtype), order, shape });
  const isInRuns = !distribution.isReplicated && isWorthSeeking(distribution, order, dtype);
  const part = isInRuns ? array : array.redistribute(fileSlab(shape, order, runtime.size));
  const free = () => {
    if (part !== array) part.free();
  };
  return { header, part, size: header.length + bytesOfArray(shape, dtype), free };
}

/**
 * Write a file: each rank its parts of the arrays at their offsets, then rank 0 what else there is. It appears under its name
 * when it is complete. Collective.
 */
export function writeTogether(
  runtime: Runtime,
  name: string,
  path: string | URL,
  files: readonly (NpyFile & { readonly offset: number })[],
  complete: (temporary: string) => void,
): void {
  /** A step that every rank has finished, or failed at, before the next one begins. */
  const step = <T>(action: () => T): T[] => exchange(runtime, name, () => about(path, action));
  const onFirst = <T>(action: () => T): T | null => step(() => runtime.rank === 0 ? action() : null)[0];
  let draft = null as Draft | null;
  try {
    const unnamed = onFirst(() => {
      const target = targetOf(path);
      removeAbandonedDrafts(target);
      draft = unnamedDraft(target);
      return draft && markDraft(draft);
    });
    const isSeen = unnamed !== null && step(() => seesDraft(unnamed)).every(Boolean);
    const place = isSeen ? unnamed.path : onFirst(() => {
      draft?.[Symbol.dispose]();
      draft = namedDraft(targetOf(path));
      return draft.path;
    })!;
    step(() => {
      const size = files.reduce((end, { offset, size }) => Math.max(end, offset + size), 0);
      draft?.resize(size);
      const bytes = files.reduce((sum, { part }) => sum + part.local.size * dtypeInfo(part.dtype).itemSize, 0);
      const progress = fileProgress(runtime, `writing ${path}`, bytes);
      files.forEach(({ part, offset, header }) => writePart(place, part, offset + header.length, progress));
    });
    onFirst(() => {
      complete(place);
      draft?.publish();
    });
  } finally {
    draft?.[Symbol.dispose]();
  }
}

// ---- which part of the file a rank takes ------------------------------------------------------------------------------

/** From this many bytes a run on, each rank seeks its own runs; below, it takes one piece, and the ranks exchange. */
const WORTH_SEEKING = 2048;

/** Whether all ranks' runs in the file are long enough. The same on all ranks. */
function isWorthSeeking(bound: Distribution, order: Order, dtype: DType): boolean {
  const { itemSize } = dtypeInfo(dtype);
  const { size, globalShape } = bound;
  if (size === 1 || bound.isReplicated) return true;
  for (let rank = 0; rank < size!; rank++) {
    const ranges = bound.ranges(rank);
    const inner = innerDimension(ranges.length, order);
    // A whole inner dimension makes one run with its neighbours.
    if (countOf(ranges[inner]) === globalShape![inner] || ranges[inner].length === 0) continue;
    if (countOf(ranges[inner]) * itemSize < WORTH_SEEKING * ranges[inner].length) return false;
  }
  return true;
}

/** One contiguous piece of the file for each rank. */
function fileSlab(shape: readonly number[], order: Order, size: number): Distribution {
  return new Slab(order === "C" ? 0 : shape.length - 1).bind(shape, size);
}

/**
 * Visit a rank's elements in the order of the file, as runs (place and length, in elements); neighbours are joined.
 */
function forEachFileRun(
  ranges: Ranges,
  shape: readonly number[],
  order: Order,
  visit: (start: number, length: number) => void,
): void {
  const inner = innerDimension(shape.length, order);
  const strides = stridesOf(shape, order);
  let [start, end] = [0, 0];
  forEachRow(ranges, order, (index) => {
    const row = index.reduce((sum, i, dimension) => sum + i * strides[dimension], 0);
    for (const [from, to] of ranges[inner]) {
      if (row + from !== end) {
        if (start < end) visit(start, end - start);
        start = row + from;
      }
      end = row + to;
    }
  });
  if (start < end) visit(start, end - start);
}

// ---- reading ----------------------------------------------------------------------------------------------------------

/** The bytes of a .npy file: a file, or a part of one. */
export interface NpySource {
  readonly size: number;
  /** Read from a place on, until the buffer is full or nothing is left; the number of bytes. */
  read(place: number, into: Uint8Array): number;
}

/** A whole file as the bytes of an array. */
export function wholeFile(file: Deno.FsFile, start = 0, size: number = file.statSync().size): NpySource {
  return {
    size,
    read(place, into) {
      file.seekSync(start + place, Deno.SeekMode.Start);
      return readUpTo(file, into.subarray(0, Math.max(0, size - place)));
    },
  };
}

/** Open a file to read it. */
export function openFile(path: string | URL): Deno.FsFile {
  // To open a named pipe is to wait for whoever writes into it.
  if (!Deno.statSync(path).isFile) throw new ConfigurationError("it is no plain file; give the path of a .npy file.");
  return Deno.openSync(path, { read: true });
}

function readHeader(source: NpySource): NpyHeader {
  const prefix = new Uint8Array(PREFIX_BYTES);
  const length = source.read(0, prefix);
  const bytes = new Uint8Array(npyDataOffset(prefix.subarray(0, length)));
  return parseNpyHeader(bytes.subarray(0, source.read(0, bytes)));
}

function checkLength({ size }: NpySource, { shape, dataOffset }: NpyHeader, dtype: DType): void {
  const needed = dataOffset + bytesOfArray(shape, dtype);
  if (size >= needed) return;
  throw new ConfigurationError(
    `the file is too short: for shape [${shape}] of ${dtype} its header promises ${needed} bytes, but it has ${size}. ` +
      `Write it again.`,
  );
}

function bytesOfArray(shape: readonly number[], dtype: DType): number {
  return sizeOfShape(shape) * dtypeInfo(dtype).itemSize;
}

/** A rank's part, in the order of the file. */
function readPart(
  source: NpySource,
  { shape, order, dataOffset }: NpyHeader,
  { dtype, isBigEndian }: NpyElements,
  ranges: Ranges,
  progress: FileProgress,
): LocalArray {
  const { itemSize } = dtypeInfo(dtype);
  const local = LocalArray.empty(dtype, ranges.map(countOf), order);
  const bytes = bytesOf(local.data);
  let at = 0;
  forEachFileRun(ranges, shape, order, (start, length) => {
    const run = bytes.subarray(at, at += length * itemSize);
    forEachPiece(run, (piece, offset) => {
      if (source.read(dataOffset + start * itemSize + offset, piece) < piece.length) {
        throw new ConfigurationError("the file became shorter while it was read; write it again.");
      }
      progress(piece.length);
    });
  });
  if (isBigEndian) swapBytes(bytes, local.data.BYTES_PER_ELEMENT);
  return local;
}

/** Visit bytes in pieces that take little time, with the places where they begin. */
function forEachPiece(bytes: Uint8Array, visit: (piece: Uint8Array, offset: number) => void): void {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) visit(bytes.subarray(at, at + PIECE_BYTES), at);
}

/** Read until the buffer is full or the file ends; returns the number of bytes. */
function readUpTo(file: Deno.FsFile, bytes: Uint8Array): number {
  let filled = 0;
  while (filled < bytes.length) {
    const count = file.readSync(bytes.subarray(filled, filled + 2 ** 30));
    if (count === null || count === 0) break;
    filled += count;
  }
  return filled;
}

function bytesOf({ buffer, byteOffset, byteLength }: TypedArray): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function swapBytes(bytes: Uint8Array, width: number): void {
  for (let start = 0; start < bytes.length; start += width) bytes.subarray(start, start + width).reverse();
}

// ---- writing ----------------------------------------------------------------------------------------------------------

/** Write bytes at a place of a file that is there. */
export function writeAt(path: string, place: number, bytes: Uint8Array): void {
  using file = Deno.openSync(path, { write: true });
  file.seekSync(place, Deno.SeekMode.Start);
  writeAll(file, bytes);
}

function writePart(temporary: string, array: DistributedArray, dataOffset: number, progress: FileProgress): void {
  const { distribution, order, dtype, shape, runtime } = array;
  const local = array.local.isOnDevice ? array.local.toHost(order) : array.local;
  const { itemSize } = dtypeInfo(dtype);
  using file = Deno.openSync(temporary, { write: true });
  const bytes = bytesOf(local.isDense(order) ? local.view() : local.copy(order).data);
  let at = 0;
  forEachFileRun(distribution.ranges(runtime.rank), shape, order, (start, length) => {
    file.seekSync(dataOffset + start * itemSize, Deno.SeekMode.Start);
    forEachPiece(bytes.subarray(at, at += length * itemSize), (piece) => {
      writeAll(file, piece);
      progress(piece.length);
    });
  });
}

function writeAll(file: Deno.FsFile, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length;) at += file.writeSync(bytes.subarray(at, at + 2 ** 30));
}

// ---- errors -----------------------------------------------------------------------------------------------------------

/** Refuse what is no path. */
export function checkPath(path: unknown): void {
  if (typeof path === "string" || path instanceof URL) return;
  throw new TypeError(`The path must be a string or a URL, not ${describe(path)}.`);
}

/** Run something, and name the file in what it throws. */
export function about<T>(path: string | URL, action: () => T): T {
  try {
    return action();
  } catch (error) {
    // Those of native libraries are no matter of the file.
    if (!(error instanceof Error) || error instanceof NativeError || error instanceof LibraryNotFoundError) throw error;
    if (error instanceof DistmathError || error instanceof RangeError) {
      throw new (error.constructor as ErrorConstructor)(`${path}: ${error.message}`, { cause: error });
    }
    throw new ConfigurationError(`${path}: ${reasonOf(error)}`, { cause: error });
  }
}

/** What the system says about a file, on one line, and what to do. */
function reasonOf(error: Error): string {
  if (error instanceof Deno.errors.NotFound) {
    return "no such file or folder; check the path, which has to lead to the same file on every rank.";
  }
  const text = error.message.replace(/\s+/g, " ");
  if (error instanceof Deno.errors.NotCapable || error instanceof TypeError) return text;
  return `${text}; check permissions and free space, on the machine of every rank.`;
}
