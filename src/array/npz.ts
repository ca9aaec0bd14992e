/**
 * Several arrays in one file, as `numpy.savez` writes them: each rank reads and writes its own parts only.
 *
 * @module
 */
import type { DType } from "../dtype/dtype.ts";
import { checkDistribution, Distribution } from "../distribution/distribution.ts";
import { ConfigurationError, DTypeError, StateError } from "../errors.ts";
import { describe, isObject, readEntries, readOptions } from "../options.ts";
import { agree } from "../runtime/agreement.ts";
import { agreeWith, type Runtime } from "../runtime/runtime.ts";
import { checkArray, runtimeOf } from "./base_array.ts";
import type { DistributedArray } from "./distributed_array.ts";
import { type FileProgress, fileProgress } from "./file_progress.ts";
import { checkStorage } from "./new_part.ts";
import {
  about,
  checkPath,
  fileOf,
  finish,
  LOAD_KEYS,
  type LoadNpyOptions,
  type NpySource,
  openFile,
  readArray,
  wholeFile,
  writeAt,
  writeTogether,
} from "./npy.ts";
import {
  directory,
  directoryEntries,
  directoryPlace,
  LOCAL_PREFIX_BYTES,
  localHeaderBytes,
  type StoredEntry,
  storedHeader,
  storedHeaderBytes,
  TAIL_BYTES,
  type ZipEntry,
} from "./zip_archive.ts";

const SUFFIX = ".npy";

/**
 * Read arrays that `numpy.savez` or `numpy.savez_compressed` wrote, by their names: all of them in one distribution, or those
 * that are named in the distributions that are given. Of stored arrays each rank reads its own part only, whose checksum
 * nobody has; compressed ones it unpacks whole, and compares the checksum. Collective. The options hold for all; what files may hold is what {@linkcode loadNpy} says.
 *
 * @throws {TypeError} if an option is not known.
 * @throws {ConfigurationError} if the file cannot be opened, is damaged, or lacks an array.
 * @throws {DTypeError | DistributionError} as {@linkcode loadNpy} does.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, loadNpz, saveNpz, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * const path = runtime.communicator.broadcastObject(runtime.rank === 0 ? Deno.makeTempFileSync() : "");
 * using weights = DistributedArray.random(runtime, [100, 80], Slab.X);
 * using bias = DistributedArray.zeros(runtime, [80], Slab.X);
 * saveNpz({ weights, bias }, path);
 * const { weights: columns } = loadNpz(runtime, path, { weights: Slab.Y });
 * console.log(columns.shape); // [100, 80]
 * ```
 */
export function loadNpz<D extends DType = DType>(
  runtime: Runtime,
  path: string | URL,
  distribution: Distribution,
  options?: LoadNpyOptions<D>,
): Record<string, DistributedArray<D>>;
/** Those that are named, in the distributions that are given. */
export function loadNpz<Name extends string, D extends DType = DType>(
  runtime: Runtime,
  path: string | URL,
  distributions: Readonly<Record<Name, Distribution>>,
  options?: LoadNpyOptions<D>,
): Record<Name, DistributedArray<D>>;
export function loadNpz(
  runtime: Runtime,
  path: string | URL,
  distribution: Distribution | Readonly<Record<string, Distribution>>,
  options: LoadNpyOptions = {},
): Record<string, DistributedArray> {
  let wanted: [string, Distribution][] = [];
  let given!: LoadNpyOptions;
  agreeWith(runtime, "loadNpz", () => {
    given = readOptions("the options of loadNpz", options, LOAD_KEYS);
    checkPath(path);
    checkStorage(runtime, given);
    const asked = askedFor(distribution);
    return about(path, () => {
      using file = openFile(path);
      const names = entriesOf(file).map(({ name }) => nameOf(name));
      wanted = wantedOf(asked, names);
      return { path: String(path), names: wanted.map(([name, one]) => [name, String(one)]) };
    });
  });
  const arrays: [string, DistributedArray][] = [];
  try {
    for (const [name, one] of wanted) arrays.push([name, loadOne(runtime, path, name, one, given)]);
  } catch (error) {
    for (const [, array] of arrays) array.free();
    throw error;
  }
  return Object.fromEntries(arrays);
}

function loadOne(
  runtime: Runtime,
  path: string | URL,
  name: string,
  distribution: Distribution,
  options: LoadNpyOptions,
): DistributedArray {
  let found!: ReturnType<typeof readArray>;
  agreeWith(runtime, "loadNpz", () =>
    aboutOne(path, name, () => {
      using file = openFile(path);
      const entry = entriesOf(file).findLast((entry) => nameOf(entry.name) === name);
      if (entry === undefined) throw new ConfigurationError("it has gone while it was read.");
      found = readArray(runtime, sourceOf(file, entry), distribution, options, `${path}: ${name}`);
      return { name, ...found.facts };
    }));
  return finish(found.array, found.wanted, options);
}

/** As {@linkcode about}, of one of several arrays: what it needs as an option would change the others. */
function aboutOne<T>(path: string | URL, name: string, read: () => T): T {
  try {
    return about(`${path}: ${name}`, read);
  } catch (error) {
    if (!(error instanceof DTypeError)) throw error;
    const advice =
      `Options are for all arrays that are read: name those that need them, { ${JSON.stringify(name)}: … }, ` +
      "and read the others by another call.";
    throw new DTypeError(`${error.message} ${advice}`, { cause: error });
  }
}

type Asked = Distribution | readonly [name: string, distribution: Distribution][];

/** What was asked for, checked. */
function askedFor(distribution: unknown): Asked {
  if (!isObject(distribution) || distribution instanceof Distribution) {
    checkDistribution(distribution);
    return distribution;
  }
  return Object.entries(distribution).map(([name, one]) => {
    checkDistribution(one);
    return [name, one];
  });
}

/** Which arrays are read: all in the order of the file, or those that are asked for. */
function wantedOf(asked: Asked, names: readonly string[]): [string, Distribution][] {
  if (asked instanceof Distribution) return [...new Set(names)].map((name) => [name, asked]);
  return asked.map(([name, one]) => {
    if (names.includes(name)) return [name, one];
    throw new ConfigurationError(`it has no array ${JSON.stringify(name)}; it has: ${names.join(", ")}.`);
  });
}

/** ZIP files count the bytes of a name by 16 bits. */
const MOST_NAME_BYTES = 2 ** 16 - 1 - SUFFIX.length;

/** @throws {TypeError} if ZIP files, or who reads them, have no such name. */
function checkName(name: string): void {
  if (name === "") throw new TypeError("saveNpz: an array needs a name that is not empty.");
  const bytes = new TextEncoder().encode(name).length;
  if (bytes > MOST_NAME_BYTES) {
    throw new TypeError(
      `saveNpz: a name of ${bytes} bytes is too long; ZIP files take at most ${MOST_NAME_BYTES}. Choose a shorter one.`,
    );
  }
  if (name.includes("\0") || !name.isWellFormed()) {
    throw new TypeError(
      `saveNpz: the name ${
        JSON.stringify(name)
      } has a NUL or half a character, which files do not keep. Choose another.`,
    );
  }
}

function nameOf(entry: string): string {
  return entry.endsWith(SUFFIX) ? entry.slice(0, -SUFFIX.length) : entry;
}

function readAt(file: Deno.FsFile, place: number, length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  return bytes.subarray(0, wholeFile(file).read(place, bytes));
}

function entriesOf(file: Deno.FsFile): ZipEntry[] {
  const { size } = file.statSync();
  const start = Math.max(0, size - TAIL_BYTES);
  const place = directoryPlace(readAt(file, start, size - start), start);
  if (place.offset + place.size > size) throw new ConfigurationError("its directory is cut off. Write it again.");
  return directoryEntries(readAt(file, place.offset, place.size));
}

/** The bytes of an array in an archive. */
function sourceOf(file: Deno.FsFile, entry: ZipEntry): NpySource {
  const { name, method, offset, packedSize, size } = entry;
  const start = offset + localHeaderBytes(readAt(file, offset, LOCAL_PREFIX_BYTES));
  if (method === 0) return wholeFile(file, start, size);
  if (method !== 8) throw new ConfigurationError(`${name} is packed by method ${method}; save it with numpy.savez.`);
  const bytes = unpacked(entry, readAt(file, start, packedSize));
  return {
    size: bytes.length,
    read(place, into) {
      const part = bytes.subarray(place, place + into.length);
      into.set(part);
      return part.length;
    },
  };
}

function unpacked({ name, size, crc }: ZipEntry, packed: Uint8Array): Uint8Array {
  const { crc32, inflateRawSync } = globalThis.process.getBuiltinModule("node:zlib");
  const refuse = (what: string, cause?: unknown) =>
    new ConfigurationError(`${name} ${what}. Write it again.`, { cause });
  let bytes: Uint8Array;
  try {
    bytes = inflateRawSync(packed, { maxOutputLength: Math.max(1, size) });
  } catch (cause) {
    throw refuse("cannot be unpacked: it is damaged", cause);
  }
  if (bytes.length !== size) throw refuse("is shorter than the directory promises");
  if (crc32(bytes) !== crc) throw refuse("is damaged: its checksum is another one than the directory has");
  return bytes;
}

/**
 * Write arrays by their names into one file, as `numpy.savez` does; each rank writes its own parts only, which all ranks must
 * see under the same path. The file appears under its name when it is complete, as {@linkcode saveNpy}'s does. Collective.
 *
 * @throws {TypeError} if there is no array, or the path is none.
 * @throws {ConfigurationError} if the file cannot be written.
 * @throws {StateError} if an array was freed, or they belong to several runtimes.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, saveNpz, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.random(runtime, [1000, 1000], Slab.X);
 * using b = DistributedArray.random(runtime, [1000], Slab.X);
 * const folder = runtime.communicator.broadcastObject(runtime.rank === 0 ? Deno.makeTempDirSync() : "");
 * saveNpz({ a, b }, `${folder}/system.npz`); // numpy.load("system.npz")["a"]
 * ```
 */
export function saveNpz(arrays: Readonly<Record<string, DistributedArray>>, path: string | URL): void {
  const entries = readEntries(arrays);
  const given = entries.items ?? [];
  const runtime = runtimeOf(...given.map(([, array]) => array));
  agree(runtime, "saveNpz", () => {
    entries.check();
    if (given.length === 0) throw new TypeError(`saveNpz takes { name: array, … }, not ${describe(arrays)}.`);
    for (const [name, array] of given) {
      checkArray(array, `saveNpz: ${name}`);
      if (array.runtime !== runtime) throw new StateError(`saveNpz: ${name} belongs to another runtime.`);
      checkName(name);
    }
    checkPath(path);
    return { arrays: given.map(([name, array]) => [name, String(array)]), path: String(path) };
  });
  let end = 0;
  using made = new DisposableStack();
  const files = given.map(([name, array]) => {
    const file = fileOf(array);
    made.defer(file.free);
    const [start, offset] = [end, end + storedHeaderBytes(name + SUFFIX)];
    end = offset + file.size;
    return { ...file, name: name + SUFFIX, start, offset };
  });
  writeTogether(runtime, "saveNpz", path, files, (temporary) => {
    const progress = fileProgress(runtime, `checksums of ${path}`, end);
    const stored = files.map(({ header, name, start, offset, size }): StoredEntry => {
      writeAt(temporary, offset, header);
      const entry = { name, size, offset: start, crc: checksumOf(temporary, offset, size, progress) };
      writeAt(temporary, start, storedHeader(entry));
      return entry;
    });
    writeAt(temporary, end, directory(stored, end));
  });
}

const PIECE = 2 ** 24;

/** The CRC-32 of a part of a file. */
function checksumOf(path: string, start: number, size: number, progress: FileProgress): number {
  const { crc32 } = globalThis.process.getBuiltinModule("node:zlib");
  using file = Deno.openSync(path, { read: true });
  const source = wholeFile(file, start, size);
  const piece = new Uint8Array(Math.min(PIECE, Math.max(1, size)));
  let crc = 0;
  for (let at = 0; at < size; at += PIECE) {
    const length = source.read(at, piece);
    crc = crc32(piece.subarray(0, length), crc);
    progress(length);
  }
  return crc;
}
