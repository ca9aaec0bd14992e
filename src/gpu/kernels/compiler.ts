/**
 * Machine code of kernels by NVRTC, kept on disk for the next process; of several programs at a time, in threads.
 *
 * @module
 */
import { digest } from "../../../ffi/digest.ts";
import { ConfigurationError } from "../../../ffi/errors.ts";
import { cacheFolder, hasCached, readCached, sealed, unsealed, writeCached } from "../../../ffi/kernel_cache.ts";
import { addressOf, fromCString, toCString } from "../../../ffi/memory.ts";
import { checkNvrtc, NVRTC_SYMBOLS, nvrtcError, NvrtcResult, openNvrtc } from "../../../ffi/cuda/nvrtc.ts";
import { launcher } from "../../../ffi/mpi/mod.ts";
import { taskCommand } from "../../../ffi/task_command.ts";
import { startThread } from "../../../ffi/thread.ts";

/** What is compiled. */
export interface KernelSource {
  /** What the file of its machine code is called, and NVRTC's messages. */
  readonly name: string;
  /** CUDA C++. */
  readonly source: string;
  /** Whether it uses what only GPUs of one architecture have (`sm_90a`), so that it runs on no other. */
  readonly isSpecific?: boolean;
}

type Capability = readonly [major: number, minor: number];

/** How a source is compiled for a GPU, and the file in which that is kept. */
interface Target {
  readonly option: string;
  readonly isPtx: boolean;
  readonly path: string | undefined;
}

/** What was compiled ahead and is not in the file of its name, by that and the source. */
const ahead = new Map<string, Uint8Array<ArrayBuffer>>();

const keyOf = ({ source }: KernelSource, { option }: Target) => `${option}\0${source}`;

/**
 * Machine code for a GPU; PTX, which the driver translates, if NVRTC is older than the GPU.
 *
 * @throws {ConfigurationError} if NVRTC no longer knows a GPU as old as this.
 */
export function compile(given: KernelSource, capability: Capability): Uint8Array<ArrayBuffer> {
  const target = targetFor(given, capability);
  const kept = target.path && readCached(target.path);
  const whole = kept && unsealed(kept);
  if (whole) return whole;
  const key = keyOf(given, target);
  const found = ahead.get(key);
  if (found !== undefined) {
    ahead.delete(key);
    return found;
  }
  const image = compileNow(given, target);
  keep(target, image);
  return image;
}

/** Programs that are compiled by several threads, in memory that they share. */
export interface CompileJobs {
  /** NVRTC's handles. */
  readonly programs: BigUint64Array<SharedArrayBuffer>;
  /** The addresses of the options of each. */
  readonly options: BigUint64Array<SharedArrayBuffer>;
  /** What became of each, or `PENDING`. */
  readonly codes: Int32Array<SharedArrayBuffer>;
  /** The first one that nobody has taken. */
  readonly next: Int32Array<SharedArrayBuffer>;
}

const PENDING = -1;

/** What threads call. */
const COMPILE_SYMBOLS = { nvrtcCompileProgram: NVRTC_SYMBOLS.nvrtcCompileProgram };

type CompileFunctions = Deno.DynamicLibrary<typeof COMPILE_SYMBOLS>["symbols"];

/** Compile what is left. Runs in threads, which see nothing else of this module. */
function compileJobs(
  { programs, options, codes, next }: CompileJobs,
  { nvrtcCompileProgram }: CompileFunctions,
): void {
  const count = options.length / programs.length;
  for (let i = Atomics.add(next, 0, 1); i < programs.length; i = Atomics.add(next, 0, 1)) {
    const code = nvrtcCompileProgram(programs[i], count, options.subarray(count * i, count * (i + 1)));
    Atomics.store(codes, i, code);
    Atomics.notify(codes, i);
  }
}

/** Jobs that nobody has taken; the options are as many for each. */
export function jobsOf(programs: readonly bigint[], options: readonly bigint[]): CompileJobs {
  const words = (values: readonly bigint[]) => {
    const array = new BigUint64Array(new SharedArrayBuffer(8 * values.length));
    array.set(values);
    return array;
  };
  return {
    programs: words(programs),
    options: words(options),
    codes: new Int32Array(new SharedArrayBuffer(4 * programs.length)).fill(PENDING),
    next: new Int32Array(new SharedArrayBuffer(4)),
  };
}

/** Have a thread compile what is left; `path` is NVRTC's file. */
export function startCompiling(jobs: CompileJobs, path: string): void {
  startThread(compileJobs, [], jobs, COMPILE_SYMBOLS, path);
}

/** Wait until a job was done, by whoever has taken it, and return what became of it. */
export function waitForJob({ codes }: CompileJobs, job: number): number {
  Atomics.wait(codes, job, PENDING);
  return codes[job];
}

/**
 * Compile what has not been compiled yet, all at the same time, so that {@linkcode compile} finds it: each takes a core for
 * a second or two. What is wrong with a source is told by `compile`.
 */
export function compileAhead(sources: readonly KernelSource[], capability: Capability): void {
  const missing = sources.map((given) => ({ given, target: targetFor(given, capability) }))
    .filter(({ given, target }) => !isCompiled(given, target));
  if (missing.length < 2) return;
  const { symbols, path } = openNvrtc();
  const programs = missing.map(({ given }) => programOf(given));
  const options = missing.map(({ target }) => optionsFor(target));
  const jobs = jobsOf(programs, options.flat().map(addressOf));
  for (let i = 1; i < Math.min(coresOfRank(), missing.length); i++) startCompiling(jobs, path);
  compileJobs(jobs, symbols);
  missing.forEach(({ given, target }, i) => {
    // Whoever has taken it comes to its end.
    Atomics.wait(jobs.codes, i, PENDING);
    if (jobs.codes[i] === NvrtcResult.SUCCESS) {
      const image = imageOf(programs[i], target);
      if (!keep(target, image)) ahead.set(keyOf(given, target), image);
    }
    symbols.nvrtcDestroyProgram(BigUint64Array.of(programs[i]));
  });
}

/**
 * Compile what is needed now, unless it has been compiled, and beside it what may be needed later: as many as there are
 * cores for, so that it takes hardly longer.
 */
export function compileBeside(needed: KernelSource, later: readonly KernelSource[], capability: Capability): void {
  if (isCompiled(needed, targetFor(needed, capability))) return;
  compileAhead([needed, ...later].slice(0, coresOfRank()), capability);
}

const coresOfRank = () => Math.floor(navigator.hardwareConcurrency / (launcher()?.localSize ?? 1));

function isCompiled(given: KernelSource, target: Target): boolean {
  return target.path !== undefined && hasCached(target.path) || ahead.has(keyOf(given, target));
}

/** Keep machine code on disk. Whether it is there now. */
function keep({ path }: Target, image: Uint8Array<ArrayBuffer>): boolean {
  return path !== undefined && writeCached(path, sealed(image));
}

function targetFor(given: KernelSource, capability: Capability): Target {
  const { version } = openNvrtc();
  const { option, isPtx } = architectureFor(capability, given.isSpecific ?? false);
  const folder = cacheFolder();
  const key = digest([given.source, option, version.join(".")].join("\0")).slice(0, 32);
  return { option, isPtx, path: folder && `${folder}/${given.name}-${key}.bin` };
}

/**
 * NVRTC's option for a compute capability: exactly it, or the newest older one that NVRTC knows.
 *
 * @throws {ConfigurationError} if NVRTC knows only newer ones.
 */
function architectureFor([major, minor]: Capability, isSpecific: boolean): Pick<Target, "option" | "isPtx"> {
  const { symbols, version } = openNvrtc();
  const count = new Int32Array(1);
  checkNvrtc(symbols.nvrtcGetNumSupportedArchs(count), "nvrtcGetNumSupportedArchs");
  const known = new Int32Array(count[0]);
  checkNvrtc(symbols.nvrtcGetSupportedArchs(known), "nvrtcGetSupportedArchs");
  const wanted = 10 * major + minor;
  if (known.includes(wanted)) {
    return { option: `--gpu-architecture=sm_${wanted}${isSpecific ? "a" : ""}`, isPtx: false };
  }
  const older = known.filter((architecture) => architecture < wanted);
  if (older.length === 0) {
    throw new ConfigurationError(
      `The GPU has compute capability ${major}.${minor}, and NVRTC ${version.join(".")} compiles for ` +
        `${Math.min(...known) / 10} and newer. For an older CUDA: ${
          taskCommand("native install cuda12")
        }; or use device "cpu".`,
    );
  }
  return { option: `--gpu-architecture=compute_${Math.max(...older)}`, isPtx: true };
}

function compileNow(given: KernelSource, target: Target): Uint8Array<ArrayBuffer> {
  const { symbols } = openNvrtc();
  const program = programOf(given);
  try {
    const options = optionsFor(target);
    const code = symbols.nvrtcCompileProgram(program, options.length, BigUint64Array.from(options, addressOf));
    if (code === NvrtcResult.ERROR_COMPILATION) throw nvrtcError("nvrtcCompileProgram", code, logOf(program));
    checkNvrtc(code, "nvrtcCompileProgram");
    return imageOf(program, target);
  } finally {
    symbols.nvrtcDestroyProgram(BigUint64Array.of(program));
  }
}

/** NVRTC's handle of a source. */
function programOf({ name, source }: KernelSource): bigint {
  const program = new BigUint64Array(1);
  const [text, file] = [toCString(source), toCString(`${name}.cu`)];
  const code = openNvrtc().symbols.nvrtcCreateProgram(program, text, file, 0, null, null);
  checkNvrtc(code, "nvrtcCreateProgram");
  return program[0];
}

/** The strings that NVRTC is told. */
function optionsFor({ option }: Target): Uint8Array<ArrayBuffer>[] {
  return [option, "--std=c++17", "--fmad=false"].map(toCString);
}

/** The machine code of a program that was compiled, or its PTX. */
function imageOf(program: bigint, { isPtx }: Target): Uint8Array<ArrayBuffer> {
  const { symbols } = openNvrtc();
  const size = new BigUint64Array(1);
  if (isPtx) checkNvrtc(symbols.nvrtcGetPTXSize(program, size), "nvrtcGetPTXSize");
  else checkNvrtc(symbols.nvrtcGetCUBINSize(program, size), "nvrtcGetCUBINSize");
  const image = new Uint8Array(Number(size[0]));
  if (isPtx) checkNvrtc(symbols.nvrtcGetPTX(program, image), "nvrtcGetPTX");
  else checkNvrtc(symbols.nvrtcGetCUBIN(program, image), "nvrtcGetCUBIN");
  return image;
}

function logOf(program: bigint): string {
  const { symbols } = openNvrtc();
  const size = new BigUint64Array(1);
  symbols.nvrtcGetProgramLogSize(program, size);
  const log = new Uint8Array(Number(size[0]));
  symbols.nvrtcGetProgramLog(program, log);
  return fromCString(log).trim();
}
