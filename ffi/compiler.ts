/**
 * The machine's own C compiler: functions of generated C, compiled for the CPU at hand at their first use, and kept on disk.
 *
 * It is a means to be faster, never a need: where it is missing, not permitted or fails, the caller has another way. All of it
 * is local, and throws nothing. `DISTMATH_COMPILER` names another compiler than `cc`, or is `none`.
 *
 * @module
 */
import { digest } from "./digest.ts";
import { cacheFolder, readCached, removeFile, sealed, unsealed, writeCached } from "./kernel_cache.ts";
import { environment } from "./library.ts";
import { keepLoaded } from "./memory.ts";

/** A compiler that works. */
export interface Compiler {
  /** The command that starts it. */
  readonly program: string;
  /** What it says of itself, such as `gcc 12.2.0`. */
  readonly version: string;
  /** All that it defines by itself: its version, the CPU's features, the C library's version. */
  readonly macros: ReadonlyMap<string, string>;
}

/** Optimised for this CPU, by IEEE 754: sums are not reordered, NaN and infinities are what they are, nothing is contracted. */
const FLAGS = [
  ..."-std=gnu11 -O3 -march=native -fPIC -shared -w".split(" "),
  ..."-fno-math-errno -fno-trapping-math -ffp-contract=off -fwrapv -fno-strict-aliasing -fopenmp-simd".split(" "),
  // Without it gcc makes branches of one choice after another, which no vectors can take.
  "-fno-tree-pre",
  ...Deno.build.arch === "x86_64" ? ["-mprefer-vector-width=512"] : [],
];

/** Behind the source: everything that is used is found when it is linked. */
const LIBRARIES = ["-Wl,-z,defs", "-Wl,--as-needed", ...Deno.build.arch === "x86_64" ? ["-lmvec"] : [], "-lm"];

/** Whether its code can write past the caches: `__builtin_ia32_movntdq`, which only gcc has, for x86-64. */
export function writesPastCaches({ macros }: Compiler): boolean {
  return macros.has("__x86_64__") && !macros.has("__clang__");
}

let found: Compiler | null | undefined;

/** The compiler; null if there is none, or it must not be started. Looked for at the first call. */
export function findCompiler(): Compiler | null {
  return found === undefined ? found = lookFor(environment("DISTMATH_COMPILER") || "cc") : found;
}

function lookFor(program: string): Compiler | null {
  if (program === "none" || Deno.build.os !== "linux") return null;
  const text = run(program, [...FLAGS.slice(0, 3), "-include", "features.h", "-dM", "-E", "-x", "c", "/dev/null"]);
  if (text === null) return null;
  const lines = text.matchAll(/^#define (\w+) (.*)$/gm);
  const macros = new Map([...lines].map(([, name, value]) => [name, value]));
  const version = (macros.get("__VERSION__") ?? "").replaceAll('"', "");
  return { program, version: macros.has("__clang__") ? version : `gcc ${version.split(" ")[0]}`, macros };
}

/** Run it without the environment, by which MPI and its launchers would take it for a rank. What it printed; null if it failed. */
function run(program: string, args: readonly string[]): string | null {
  if (Deno.permissions.querySync({ name: "run", command: program }).state !== "granted") return null;
  const kept = ["PATH", "HOME", "TMPDIR"].flatMap((name) => {
    const value = environment(name);
    return value === undefined ? [] : [[name, value]];
  });
  try {
    const { success, stdout } = new Deno.Command(program, {
      args: [...args],
      clearEnv: true,
      env: { ...Object.fromEntries(kept), LC_ALL: "C" },
      stdin: "null",
      stderr: "null",
    }).outputSync();
    return success ? new TextDecoder().decode(stdout) : null;
  } catch {
    return null;
  }
}

const opened = new Map<string, unknown>();

/**
 * The functions of a C source; null if there is no compiler, or it fails. `compiling` is called before it is started, and what
 * that returns after.
 */
export function compileFunctions<const S extends Deno.ForeignLibraryInterface>(
  name: string,
  source: string,
  symbols: S,
  compiling?: () => (() => void) | undefined,
): Deno.DynamicLibrary<S>["symbols"] | null {
  let functions = opened.get(source);
  if (functions === undefined) {
    functions = openKernel(name, source, symbols, compiling);
    opened.set(source, functions);
  }
  return functions as Deno.DynamicLibrary<S>["symbols"] | null;
}

function openKernel<S extends Deno.ForeignLibraryInterface>(
  name: string,
  source: string,
  symbols: S,
  compiling?: () => (() => void) | undefined,
): Deno.DynamicLibrary<S>["symbols"] | null {
  const compiler = findCompiler();
  const folder = cacheFolder();
  if (compiler === null || folder === undefined || !mayUse(folder)) return null;
  const key = digest(JSON.stringify([source, FLAGS, LIBRARIES, compiler.program, ...compiler.macros])).slice(0, 32);
  const path = `${folder}/${name}-${key}.so`;
  if (!isWhole(path)) {
    const end = compiling?.();
    const isThere = alone(folder, () => isWhole(path) || compile(compiler, source, path));
    end?.();
    if (!isThere) return null;
  }
  try {
    const { symbols: functions } = Deno.dlopen(path, symbols);
    keepLoaded(path);
    return functions;
  } catch {
    return null;
  }
}

/** Whether all that it takes is permitted: nobody is asked for what is no need. */
function mayUse(path: string): boolean {
  return (["read", "write", "ffi"] as const).every((name) =>
    Deno.permissions.querySync({ name, path }).state === "granted"
  );
}

/**
 * Whether a file is there, as it was written: a library that lacks its end would crash the process that opens it. Its seal
 * follows it, where the loader does not look.
 */
function isWhole(path: string): boolean {
  const content = readCached(path);
  return content !== undefined && unsealed(content) !== undefined;
}

/** Do something while no other process of this folder does: ranks wait for the one that compiles for all of them. */
function alone<T>(folder: string, action: () => T): T {
  let lock: Deno.FsFile | null = null;
  try {
    Deno.mkdirSync(folder, { recursive: true });
    lock = Deno.openSync(`${folder}/lock`, { write: true, create: true });
    lock.lockSync(true);
  } catch {
    // A file system without locks: each process compiles.
  }
  try {
    return action();
  } finally {
    lock?.close();
  }
}

/** Compile into a file. Whether it is there. */
function compile({ program }: Compiler, source: string, path: string): boolean {
  const [text, library] = ["c", "tmp"].map((ending) => `${path}.${crypto.randomUUID()}.${ending}`);
  try {
    Deno.writeTextFileSync(text, source);
    if (run(program, [...FLAGS, "-o", library, text, ...LIBRARIES]) === null) return false;
    return writeCached(path, sealed(Deno.readFileSync(library)));
  } catch {
    return false;
  } finally {
    [text, library].forEach(removeFile);
  }
}
