/**
 * This machine: its cores, those that this process may use, and its memory. Asked of libc, which needs neither the
 * permission to read files nor the milliseconds that `node:os` takes to load.
 *
 * @module
 */
import { libcFunctions } from "./memory.ts";

const SYMBOLS = {
  sysconf: { parameters: ["i32" /* int name */], result: "i64" },
  sched_getaffinity: {
    parameters: ["i32", /* pid_t pid */ "usize", /* size_t cpusetsize */ "buffer" /* cpu_set_t* mask */],
    result: "i32",
  },
} as const satisfies Deno.ForeignLibraryInterface;

/** The names of `sysconf` in glibc's `bits/confname.h`. */
const SystemValue = { PAGE_SIZE: 30, PROCESSORS_ONLINE: 84, PHYSICAL_PAGES: 85 } as const;

let opened: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"] | undefined;
const libc = () => opened ??= libcFunctions(SYMBOLS);

/** The number of cores that are in operation, whether or not this process may use them. Source: sysconf. */
export function machineCores(): number {
  return Number(libc().sysconf(SystemValue.PROCESSORS_ONLINE));
}

/** Bytes of memory. Source: sysconf. */
export function machineMemoryBytes(): number {
  return Number(libc().sysconf(SystemValue.PHYSICAL_PAGES) * libc().sysconf(SystemValue.PAGE_SIZE));
}

const LARGEST_MACHINE = 8192;

/**
 * The cores that this process may run on, a bit each; none if the kernel does not tell. A launcher that binds ranks gives
 * each its own. Source: sched_getaffinity.
 */
export function allowedCores(): Uint8Array {
  const mask = new Uint8Array(LARGEST_MACHINE / 8);
  return libc().sched_getaffinity(0, BigInt(mask.length), mask) < 0 ? mask.fill(0) : mask;
}
