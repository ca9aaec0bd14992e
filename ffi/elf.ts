/**
 * What the file of a shared library tells without being loaded: whether it is whole, and which libraries it needs. The
 * loader maps a file that was cut short without complaint, and the first access behind its end kills the process.
 *
 * Read through libc, which needs no permission to read files. Source: the ELF-64 object file format, System V ABI.
 *
 * @module
 */
import { fromCString, libcFunctions, toCString } from "./memory.ts";

const SYMBOLS = {
  open: { parameters: ["buffer", /* const char* path */ "i32" /* int flags */], result: "i32" },
  pread: { parameters: ["i32", "buffer", "usize", "i64" /* off_t offset */], result: "isize" },
  lseek: { parameters: ["i32", "i64", "i32" /* int whence */], result: "i64" },
  close: { parameters: ["i32"], result: "i32" },
  realpath: { parameters: ["buffer", "buffer" /* char resolved[PATH_MAX] */], result: "u64" },
} as const satisfies Deno.ForeignLibraryInterface;

const O_RDONLY_CLOEXEC = 0o2000000;
const SEEK_END = 2;
const PATH_MAX = 4096;

let opened: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"] | undefined;
const libc = () => opened ??= libcFunctions(SYMBOLS);

/** Part of a file; zeros stand for what lies behind its end. */
type Read = (offset: number, bytes: number) => DataView<ArrayBuffer>;

/** Read a file; `null` if it cannot be opened. */
function withFile<T>(path: string, use: (read: Read, size: number) => T): T | null {
  const { open, pread, lseek, close } = libc();
  const file = open(toCString(path), O_RDONLY_CLOEXEC);
  if (file < 0) return null;
  try {
    const read = (offset: number, bytes: number) => {
      const buffer = new Uint8Array(bytes);
      pread(file, buffer, BigInt(bytes), BigInt(offset));
      return new DataView(buffer.buffer);
    };
    return use(read, Number(lseek(file, 0n, SEEK_END)));
  } finally {
    close(file);
  }
}

const MAGIC = 0x7f454c46;
const HEADER_BYTES = 64;
/** `EM_X86_64`, `EM_AARCH64`. */
const MACHINE = Deno.build.arch === "aarch64" ? 183 : 62;
const PT_LOAD = 1;
const PT_DYNAMIC = 2;

interface Segment {
  type: number;
  offset: number;
  address: number;
  bytes: number;
}

function segmentsOf(read: Read, header: DataView): Segment[] {
  const [start, size, count] = [
    Number(header.getBigUint64(32, true)),
    header.getUint16(54, true),
    header.getUint16(56, true),
  ];
  const table = read(start, size * count);
  return Array.from({ length: count }, (_, i) => ({
    type: table.getUint32(i * size, true),
    offset: Number(table.getBigUint64(i * size + 8, true)),
    address: Number(table.getBigUint64(i * size + 16, true)),
    bytes: Number(table.getBigUint64(i * size + 32, true)),
  }));
}

/** What is known of a library's file: `foreign` if it is not for this machine's loader, for a `reason`. */
export type LibraryFile =
  | { state: "absent" | "whole" }
  | { state: "foreign" | "damaged"; reason: string };

/**
 * Look at the file of a library, and at the libraries that it needs where it says itself that they are.
 *
 * @throws {ConfigurationError} if libc may not be opened.
 */
export function inspectLibrary(path: string): LibraryFile {
  const own = inspectFile(path);
  if (own.state !== "whole") return own;
  const { files, folders } = dependenciesOf(path);
  for (const needed of folders.flatMap((folder) => files.map((name) => `${folder}/${name}`))) {
    const file = inspectFile(needed);
    if (file.state === "damaged") return { state: "damaged", reason: `it needs ${needed}, and ${file.reason}` };
  }
  return own;
}

function inspectFile(path: string): LibraryFile {
  return withFile(path, (read, size): LibraryFile => {
    const header = read(0, HEADER_BYTES);
    const start = new TextDecoder().decode(header.buffer);
    if (/^(\/\* GNU ld script|INPUT ?\(|GROUP ?\()/.test(start)) {
      return { state: "foreign", reason: "it is a script for the linker" };
    }
    if (size < HEADER_BYTES || header.getUint32(0) !== MAGIC) {
      return { state: "damaged", reason: `with ${size} bytes it is no shared library` };
    }
    if (header.getUint8(4) !== 2 || header.getUint8(5) !== 1 || header.getUint16(18, true) !== MACHINE) {
      return { state: "foreign", reason: "it is built for another kind of machine" };
    }
    const sections = Number(header.getBigUint64(40, true)) + header.getUint16(58, true) * header.getUint16(60, true);
    const needed = Math.max(sections, ...segmentsOf(read, header).map(({ offset, bytes }) => offset + bytes));
    return size >= needed ? { state: "whole" } : {
      state: "damaged",
      reason: `it was cut short, to ${size} of at least ${needed} bytes`,
    };
  }) ?? { state: "absent" };
}

/** What a library says of those that it needs. */
export interface Dependencies {
  /** File names, such as `libmpi.so.40`. */
  files: string[];
  /** Where the library itself says that they are, if it does. */
  folders: string[];
}

const DT_NEEDED = 1;
const DT_STRTAB = 5;
const DT_RPATH = 15;
const DT_RUNPATH = 29;

/** The libraries that a library needs; none if it cannot be read. */
export function dependenciesOf(path: string): Dependencies {
  return withFile(path, (read): Dependencies | null => {
    const segments = segmentsOf(read, read(0, HEADER_BYTES));
    const dynamic = segments.find(({ type }) => type === PT_DYNAMIC);
    if (dynamic === undefined) return null;
    const table = read(dynamic.offset, dynamic.bytes);
    const entries = Array.from({ length: Math.floor(dynamic.bytes / 16) }, (_, i) => ({
      tag: Number(table.getBigInt64(16 * i, true)),
      value: Number(table.getBigUint64(16 * i + 8, true)),
    }));
    const valueOf = (wanted: number) => entries.find(({ tag }) => tag === wanted)?.value ?? 0;
    const address = valueOf(DT_STRTAB);
    const home = segments.find((segment) =>
      segment.type === PT_LOAD && address >= segment.address && address < segment.address + segment.bytes
    );
    if (home === undefined) return null;
    const strings = home.offset + address - home.address;
    const textAt = (position: number) => fromCString(new Uint8Array(read(strings + position, PATH_MAX).buffer));
    const textsOf = (...tags: number[]) =>
      entries.filter(({ tag }) => tags.includes(tag)).map(({ value }) => textAt(value));
    const origin = path.slice(0, path.lastIndexOf("/"));
    return {
      files: textsOf(DT_NEEDED),
      folders: textsOf(DT_RPATH, DT_RUNPATH).flatMap((list) => list.split(":"))
        .map((folder) => folder.replace(/\$ORIGIN|\$\{ORIGIN\}/, origin)),
    };
  }) ?? { files: [], folders: [] };
}

/** The file behind symbolic links, by its absolute path; `null` if there is none. Source: realpath. */
export function realPath(path: string): string | null {
  const resolved = new Uint8Array(PATH_MAX);
  return libc().realpath(toCString(path), resolved) === 0n ? null : fromCString(resolved);
}
