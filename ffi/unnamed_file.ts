/**
 * Files without a name, of which nothing is left when the process that made them ends, however that is.
 *
 * @module
 */
import { libcFunctions, toCString } from "./memory.ts";

export interface UnnamedFile {
  /** Where processes of this machine open it, until it is closed. */
  readonly path: string;
  /** Give it a name that nothing has; returns whether it could be. */
  link(name: string): boolean;
  close(): void;
}

const SYMBOLS = {
  open: { parameters: ["buffer", "i32", "u32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
  linkat: { parameters: ["i32", "buffer", "i32", "buffer", "i32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

const O_RDWR = 0o2;
const O_CLOEXEC = 0o2000000;
/** With O_DIRECTORY, whose value depends on the processor. */
const O_TMPFILE = 0o20000000 | (Deno.build.arch === "aarch64" ? 0o40000 : 0o200000);
const AT_FDCWD = -100;
const AT_SYMLINK_FOLLOW = 0x400;

/** Make a file in a folder; null if the file system has none without names, or if this process may not open it then. */
export function makeUnnamedFile(folder: string): UnnamedFile | null {
  if (!isAllPermitted()) return null;
  const { open, close, linkat } = libcFunctions(SYMBOLS);
  const descriptor = open(toCString(folder), O_TMPFILE | O_RDWR | O_CLOEXEC, 0o666);
  if (descriptor < 0) return null;
  const path = `/proc/${Deno.pid}/fd/${descriptor}`;
  return {
    path,
    link: (name) => linkat(AT_FDCWD, toCString(path), AT_FDCWD, toCString(name), AT_SYMLINK_FOLLOW) === 0,
    close: () => void close(descriptor),
  };
}

const PERMISSIONS = ["read", "write", "net", "env", "run", "sys", "ffi", "import"] as const;

/** Deno opens files of `/proc` with all permissions only; a query asks nobody. */
function isAllPermitted(): boolean {
  return PERMISSIONS.every((name) => Deno.permissions.querySync({ name }).state === "granted");
}
