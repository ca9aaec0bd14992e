/**
 * Host memory as C sees it: addresses, C strings, copies from and to foreign memory.
 *
 * Everything goes through libc's `memcpy` and `dlopen` with plain integers as addresses, since `Deno.UnsafePointer`
 * is slower and refused under `--allow-ffi=<folders>`.
 *
 * @module
 */
import { ConfigurationError } from "./errors.ts";

const MACHINE = Deno.build.arch === "aarch64" ? "aarch64-linux-gnu" : "x86_64-linux-gnu";

/** Where glibc may lie: Debian's folders, then those of others. */
export const GLIBC_FOLDERS: readonly string[] = [`/lib/${MACHINE}`, `/usr/lib/${MACHINE}`, "/lib64"];

/** The files of glibc: absolute paths first, since a bare name is refused under `--allow-ffi=<folders>`. */
export const LIBC_CANDIDATES: readonly string[] = [
  ...GLIBC_FOLDERS.map((folder) => `${folder}/libc.so.6`),
  "libc.so.6",
];

/** Whether this process may open a library, or all in a folder. Deno asks the user where there is one to ask. */
export function mayOpen(path: string): boolean {
  return Deno.permissions.requestSync({ name: "ffi", path }).state === "granted";
}

const LIBC_SYMBOLS = {
  /** The address of a buffer: copying zero bytes returns the destination. */
  addressOf: { name: "memcpy", parameters: ["buffer", "buffer", "usize"], result: "u64" },
  addressOfPointer: { name: "memcpy", parameters: ["pointer", "pointer", "usize"], result: "u64" },
  copyFrom: { name: "memcpy", parameters: ["buffer", "u64", "usize"], result: "u64" },
  copyTo: { name: "memcpy", parameters: ["u64", "buffer", "usize"], result: "u64" },
  pointerOf: { name: "memcpy", parameters: ["u64", "u64", "usize"], result: "pointer" },
  strlen: { parameters: ["u64"], result: "usize" },
  dlopen: { parameters: ["buffer", "i32"], result: "u64" },
  dlerror: { parameters: [], result: "u64" },
  dlinfo: { parameters: ["u64", "i32", "buffer"], result: "i32" },
  madvise: { parameters: ["u64", "usize", "i32"], result: "i32" },
  mallopt: { parameters: ["i32", "i32"], result: "i32" },
  free: { parameters: ["u64"], result: "void" },
} as const satisfies Deno.ForeignLibraryInterface;

let libc: Deno.DynamicLibrary<typeof LIBC_SYMBOLS>["symbols"] | undefined;
let openedFile: string | undefined;

function openLibc(): Deno.DynamicLibrary<typeof LIBC_SYMBOLS>["symbols"] {
  return libc = libcFunctions(LIBC_SYMBOLS);
}

/**
 * Functions of the C library.
 *
 * @throws {ConfigurationError} if it cannot be opened.
 */
export function libcFunctions<const S extends Deno.ForeignLibraryInterface>(
  symbols: S,
): Deno.DynamicLibrary<S>["symbols"] {
  const reasons: string[] = [];
  for (const path of LIBC_CANDIDATES) {
    if (!mayOpen(path)) continue;
    try {
      const { symbols: functions } = Deno.dlopen(path, symbols);
      openedFile = path;
      return functions;
    } catch (error) {
      reasons.push(`${path}: ${error instanceof Error ? error.message : error}`);
    }
  }
  throw new ConfigurationError(
    reasons.length > 0
      ? `glibc cannot be opened; distmath needs Linux with glibc 2.34 or newer. Tried:\n  ${reasons.join("\n  ")}`
      : `This process may not open glibc, which every call of a native library takes: start it with --allow-ffi, or with ` +
        `the folder of libc.so.6 in its --allow-ffi=<folders>: ${GLIBC_FOLDERS[0]} on Debian and Ubuntu, ` +
        `${GLIBC_FOLDERS.at(-1)} elsewhere.`,
  );
}

/** The file of the C library, which can be opened. */
export function libcFile(): string {
  if (openedFile === undefined) openLibc();
  return openedFile!;
}

/** The address of the first byte of a typed array or ArrayBuffer. It keeps nothing alive: hold on to the buffer. */
export function addressOf(buffer: BufferSource): bigint {
  return (libc ?? openLibc()).addressOf(buffer, buffer, 0n);
}

/** A pointer as an integer; the address of a symbol that is declared as a `pointer` static. */
export function addressOfPointer(pointer: Deno.PointerValue): bigint {
  return (libc ?? openLibc()).addressOfPointer(pointer, pointer, 0n);
}

/** Copy bytes from foreign memory into a typed array; as many as the array holds, or `bytes`. */
export function copyFromAddress(target: ArrayBufferView<ArrayBuffer>, source: bigint, bytes = target.byteLength): void {
  (libc ?? openLibc()).copyFrom(target, source, BigInt(bytes));
}

/** Copy a typed array into foreign memory. */
export function copyToAddress(target: bigint, source: ArrayBufferView<ArrayBuffer>): void {
  (libc ?? openLibc()).copyTo(target, source, BigInt(source.byteLength));
}

/** Copies bytes between places that do not overlap: target, source, how many. */
export type CopyMemory = (target: bigint, source: bigint, bytes: bigint) => void;

const COPY_SYMBOLS = {
  memcpy: { parameters: ["u64", "u64", "usize"], result: "void" },
} as const satisfies Deno.ForeignLibraryInterface;

let copyMemory: CopyMemory | null | undefined;

/**
 * `memcpy`, whose call takes 6 ns where `set` of a subarray takes 40; `null` for a process that may not call it and has not
 * been asked.
 */
export function fastCopy(): CopyMemory | null {
  if (copyMemory === undefined) copyMemory = mayOpenUnasked() ? libcFunctions(COPY_SYMBOLS).memcpy : null;
  return copyMemory;
}

function mayOpenUnasked(): boolean {
  return LIBC_CANDIDATES.some((path) => Deno.permissions.querySync({ name: "ffi", path }).state === "granted");
}

/**
 * Foreign memory as an ArrayBuffer, without a copy. It keeps nothing alive, and becomes invalid with the memory: detach it
 * then by its `transfer()`. Refused under `--allow-ffi=<folders>`: {@linkcode mayViewAddresses} tells.
 */
export function viewOfAddress(address: bigint, bytes: number): ArrayBuffer {
  if (bytes === 0) return new ArrayBuffer(0);
  const pointer = (libc ?? openLibc()).pointerOf(address, address, 0n);
  return Deno.UnsafePointerView.getArrayBuffer(pointer!, bytes);
}

let mayView = false;

/** Whether this process may make views of foreign memory, which takes `--allow-ffi` without a list. */
export function mayViewAddresses(): boolean {
  return mayView ||= Deno.permissions.requestSync({ name: "ffi" }).state === "granted";
}

/** A zero-terminated copy of a string. */
export function toCString(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text + "\0");
}

/** The text in a buffer up to its first zero byte. */
export function fromCString(buffer: Uint8Array): string {
  const end = buffer.indexOf(0);
  return new TextDecoder().decode(buffer.subarray(0, end < 0 ? buffer.length : end));
}

/** The C string at an address; the empty string for NULL. */
export function readCString(address: bigint): string {
  if (address === 0n) return "";
  const bytes = new Uint8Array(Number((libc ?? openLibc()).strlen(address)));
  copyFromAddress(bytes, address);
  return new TextDecoder().decode(bytes);
}

/** The C string at an address that is this process's to free, which it does; the empty string for NULL. Source: free. */
export function takeCString(address: bigint): string {
  const text = readCString(address);
  (libc ?? openLibc()).free(address);
  return text;
}

/**
 * Keep a shared library loaded until the process has ended; returns the file that the loader found. Deno unloads what it
 * opened when its runtime ends, also before it prints an uncaught error, and a thread of an unloaded library crashes the
 * process. Source: dlopen, dlinfo.
 */
export function keepLoaded(path: string): string {
  const { dlopen, dlinfo } = libc ?? openLibc();
  const handle = dlopen(toCString(path), RTLD_LAZY);
  const map = new BigUint64Array(1);
  if (handle === 0n || dlinfo(handle, RTLD_DI_LINKMAP, map) !== 0) return path;
  // struct link_map begins with { ElfW(Addr) l_addr; char* l_name; }.
  const fields = new BigUint64Array(2);
  copyFromAddress(fields, map[0]);
  return readCString(fields[1]) || path;
}

const RTLD_DI_LINKMAP = 2;

const SEARCH_SYMBOLS = {
  dlsym: { parameters: ["u64", "buffer"], result: "u64" },
  dladdr: { parameters: ["u64", "buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

let search: Deno.DynamicLibrary<typeof SEARCH_SYMBOLS>["symbols"] | undefined;

/**
 * Where a function lies, in a library or one that it depends on; 0 if none has it. Source: dlsym.
 *
 * @throws {Error} with the loader's text, if it cannot load the library.
 */
export function addressOfFunction(path: string, name: string): bigint {
  const { dlopen, dlerror } = libc ?? openLibc();
  const { dlsym } = search ??= libcFunctions(SEARCH_SYMBOLS);
  const handle = dlopen(toCString(path), RTLD_LAZY);
  if (handle === 0n) throw new Error(readCString(dlerror()));
  return dlsym(handle, toCString(name));
}

/** The file that has a function: the library itself, or one that it depends on; `null` if none has it. Source: dladdr. */
export function fileOfFunction(path: string, name: string): string | null {
  const { dladdr } = search ??= libcFunctions(SEARCH_SYMBOLS);
  const address = addressOfFunction(path, name);
  // Dl_info begins with { const char* dli_fname; … }, and has four fields.
  const info = new BigUint64Array(4);
  return address === 0n || dladdr(address, info) === 0 ? null : readCString(info[0]);
}

const PAGE_BYTES = 4096n;
const MADV_HUGEPAGE = 14;
const MADV_COLLAPSE = 25;

/**
 * Ask the kernel to back a new buffer by huge pages: the first write to 32 MiB then takes 2 to 8 times less time, and
 * another process reads it 3 times faster. Pages that the C library hands out again are collapsed (Linux 6.1 or newer),
 * since only pages never written become huge by themselves. A hint: where it is not possible, nothing changes.
 */
export function preferHugePages(buffer: ArrayBufferView<ArrayBuffer>): void {
  const { madvise, addressOf } = libc ?? openLibc();
  const address = addressOf(buffer, buffer, 0n);
  const start = (address + PAGE_BYTES - 1n) & ~(PAGE_BYTES - 1n);
  const end = (address + BigInt(buffer.byteLength)) & ~(PAGE_BYTES - 1n);
  if (start >= end) return;
  madvise(start, end - start, MADV_HUGEPAGE);
  madvise(start, end - start, MADV_COLLAPSE);
}

const MAP_SYMBOLS = {
  mmap: { parameters: ["u64", "usize", "i32", "i32", "i32", "i64"], result: "u64" },
  munmap: { parameters: ["u64", "usize"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

let map: Deno.DynamicLibrary<typeof MAP_SYMBOLS>["symbols"] | undefined;

const PROT_READ_WRITE = 3;
const MAP_PRIVATE_ANONYMOUS_NORESERVE = 0x2 | 0x20 | 0x4000;
const MAP_FAILED = 2n ** 64n - 1n;

/**
 * Addresses for as many bytes, which take memory only where they are written to; give them back by {@linkcode release}.
 * Source: mmap.
 *
 * @throws {ConfigurationError} if the process may not have as many.
 */
export function reserve(bytes: number): bigint {
  const { mmap } = map ??= libcFunctions(MAP_SYMBOLS);
  const address = mmap(0n, BigInt(bytes), PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS_NORESERVE, -1, 0n);
  if (address !== MAP_FAILED) return address;
  throw new ConfigurationError(
    `The kernel gives this process no ${bytes} bytes of address space, written to or not. Raise its limit (ulimit -v), ` +
      `or allow overcommitting memory (sysctl vm.overcommit_memory=0).`,
  );
}

/** Give back what {@linkcode reserve} gave. Source: munmap. */
export function release(address: bigint, bytes: number): void {
  (map ??= libcFunctions(MAP_SYMBOLS)).munmap(address, BigInt(bytes));
}

const M_TRIM_THRESHOLD = -1;
const M_MMAP_THRESHOLD = -3;
/** The most that glibc takes: larger blocks are always mapped and unmapped. */
const MOST_MMAP_THRESHOLD = 2 ** 25;

/**
 * Let the C library keep up to `bytes` of what this process frees, typed arrays of up to 32 MiB among it, for what it
 * allocates next: pages that go back to the kernel are cleared and mapped again at the next use, which takes longer than a
 * copy. Source: mallopt.
 */
export function keepFreedMemory(bytes: number): void {
  const { mallopt } = libc ?? openLibc();
  mallopt(M_MMAP_THRESHOLD, MOST_MMAP_THRESHOLD);
  mallopt(M_TRIM_THRESHOLD, bytes);
}

const RTLD_LAZY = 0x001;
const RTLD_GLOBAL = 0x100;

/**
 * Load a shared library so that libraries loaded later find its symbols (`RTLD_GLOBAL`), which `Deno.dlopen` cannot.
 * MKL's libraries need it, since they name no dependencies.
 *
 * @throws {Error} with the loader's text.
 */
export function loadGlobally(path: string): void {
  const { dlopen, dlerror } = libc ?? openLibc();
  if (dlopen(toCString(path), RTLD_LAZY | RTLD_GLOBAL) === 0n) throw new Error(readCString(dlerror()));
}
