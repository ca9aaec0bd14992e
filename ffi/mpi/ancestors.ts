/**
 * The processes above this one, up to the launcher that started the rank: which job this is, and whether this process is
 * the rank, or a program that the rank has started, to which the launcher's variables come down as well.
 *
 * @module
 */
import { environment } from "../library.ts";
import { libcFunctions } from "../memory.ts";

const LIBC_SYMBOLS = {
  /** `int open(const char* path, int flags, mode_t mode)` */
  open: { parameters: ["buffer", "i32", "u32"], result: "i32" },
  /** `ssize_t read(int fd, void* buf, size_t count)` */
  read: { parameters: ["i32", "buffer", "usize"], result: "isize" },
  /** `int close(int fd)` */
  close: { parameters: ["i32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

const O_CLOEXEC = 0o2000000;
const LARGEST_FILE = 4096;
const MAXIMUM_DEPTH = 8;

/** The programs that start ranks on a machine, as the kernel names them. */
const LAUNCHER_PROGRAMS = /^(mpirun|mpiexec|orte|prte|hydra_pmi|slurmstepd)/;

/** Programs that start one other and end with it. */
const WRAPPERS = /^(timeout|time|strace|gdb|perf|nsys|node|npm|npx)/;

/** A process above this one. */
interface Ancestor {
  readonly pid: number;
  /** As the kernel names it. */
  readonly program: string;
  /** When it started, which tells it from others of its number. */
  readonly start: string;
  readonly isLauncher: boolean;
}

/** A file of /proc, read past Deno's permissions on files, which the smallest set does not have; `null` if there is none. */
function readProc(path: string): string | null {
  const { open, read, close } = libcFunctions(LIBC_SYMBOLS);
  const file = open(new TextEncoder().encode(`${path}\0`), O_CLOEXEC, 0);
  if (file < 0) return null;
  const bytes = new Uint8Array(LARGEST_FILE);
  const count = Number(read(file, bytes, BigInt(bytes.length)));
  close(file);
  return new TextDecoder().decode(bytes.subarray(0, Math.max(0, count)));
}

/** The processes above this one as far as they can be seen, the nearest first; the launcher is the last. */
function ancestors(): Ancestor[] {
  const found: Ancestor[] = [];
  for (let pid = Deno.ppid; pid > 1 && found.length < MAXIMUM_DEPTH;) {
    const [, program, rest] = /^\d+ \((.*)\) (.*)/s.exec(readProc(`/proc/${pid}/stat`) ?? "") ?? [];
    if (program === undefined) break;
    const fields = rest.split(" ");
    const isLauncher = LAUNCHER_PROGRAMS.test(program);
    found.push({ pid, program, start: fields[19], isLauncher });
    if (isLauncher) break;
    pid = Number(fields[1]);
  }
  return found;
}

/** The process number and start of the launcher above this process; of its parent if none is known to be one. */
export function launcherName(): string | null {
  const above = ancestors();
  const { pid, start } = above.find(({ isLauncher }) => isLauncher) ?? above[0] ?? {};
  return pid === undefined ? null : `${pid}.${start}`;
}

/** The number of the launcher's process above this one; `null` if none is known. */
export function launcherProcess(): number | null {
  return ancestors().find(({ isLauncher }) => isLauncher)?.pid ?? null;
}

/** Whether it is Deno that runs a script, and no task, which starts the rank. */
function runsScript({ pid, program }: Ancestor): boolean {
  if (program !== "deno") return false;
  const [, ...words] = readProc(`/proc/${pid}/cmdline`)?.split("\0") ?? [];
  return words.find((word) => !word.startsWith("-")) !== "task";
}

/** Whether another script of Deno's has started this one below the launcher: that one is the rank. */
export function isStartedByRank(): boolean {
  const above = ancestors();
  return above.at(-1)?.isLauncher === true && above.some(runsScript);
}

/** Whether this process is below another one, and started by the same launcher. */
export function isBelow(process: number): boolean {
  return ancestors().some(({ pid, isLauncher }) => pid === process && !isLauncher);
}

/** MPICH's launcher on a machine: a command puts a shell between it and the rank. */
const HYDRA = /^hydra/;

/**
 * Whether the rank ends with this process. One that a shell has started may be followed by another of the same rank, unless
 * it is the shell that a command puts between the launcher and the rank.
 */
export function endsRank(): boolean {
  const above = ancestors();
  const starter = above.at(-1);
  if (starter?.isLauncher !== true) return true;
  const hasShell = environment("DISTMATH_TELL_END") !== undefined && HYDRA.test(starter.program);
  const between = above.slice(0, hasShell ? -2 : -1);
  return between.every((one) => WRAPPERS.test(one.program) || (one.program === "deno" && !runsScript(one)));
}
