/**
 * CUDA C++ in strings, compiled by NVRTC for the GPU at hand at the first use, and kept on disk for the next process.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { checkCudaDriver, openCudaDriver } from "../../../ffi/cuda/driver.ts";
import { ConfigurationError } from "../../../ffi/errors.ts";
import { cacheFolder, readCached, writeCached } from "../../../ffi/kernel_cache.ts";
import { addressOf, fromCString, toCString } from "../../../ffi/memory.ts";
import { checkNvrtc, nvrtcError, NvrtcResult, openNvrtc } from "../../../ffi/cuda/nvrtc.ts";
import type { Device } from "../device.ts";
import type { Stream } from "../stream.ts";

/** How many threads each kernel of distmath runs in a block. */
const THREADS = 256;

/** A kernel's argument: one struct of 8-byte fields; a bigint is an integer or an address, a number a `double`. */
export type Words = readonly (bigint | number)[];

/** A launch that is ready. */
export interface PreparedLaunch {
  /** The kernel's argument, which may be changed between launches. */
  readonly words: BigInt64Array<ArrayBuffer>;
  /** Put it on a stream of the GPU that it was prepared for. */
  put(stream: Stream): void;
}

/** What a program needs beyond the usual. */
export interface ProgramOptions {
  /** Whether it uses what only GPUs of one architecture have (`sm_90a`), so that it runs on no other. */
  isArchitectureSpecific?: boolean;
}

/**
 * A program of kernels, each `extern "C" __global__ void name(const Parameters p)` with one struct of 8-byte fields.
 */
export class Program {
  readonly name: string;
  readonly #source: string;
  readonly #isSpecific: boolean;
  readonly #modules = new Map<number, bigint>();
  readonly #functions = new Map<string, bigint>();

  /** Note the source; nothing is compiled yet. */
  constructor(name: string, source: string, options: ProgramOptions = {}) {
    this.name = name;
    this.#source = source;
    this.#isSpecific = options.isArchitectureSpecific ?? false;
  }

  /** Put a kernel on a stream: so many blocks of 256 threads each, or of another number. */
  launch(kernel: string, stream: Stream, blocks: number, words: Words, threads = THREADS): void {
    this.prepare(kernel, stream.device, blocks, words, threads).put(stream);
  }

  /** Have a launch ready that is made often. */
  prepare(kernel: string, device: Device, blocks: number, words: Words, threads = THREADS): PreparedLaunch {
    const { symbols } = openCudaDriver();
    const handle = this.function(kernel, device);
    const bytes = packWords(words);
    const pointers = BigUint64Array.of(addressOf(bytes));
    return {
      words: new BigInt64Array(bytes.buffer),
      put(stream) {
        const code = symbols.cuLaunchKernel(handle, blocks, 1, 1, threads, 1, 1, 0, stream.handle, pointers, null);
        if (code !== 0) checkCudaDriver(code, `cuLaunchKernel of ${kernel}`);
      },
    };
  }

  /** The handle of a kernel on a GPU, compiled and loaded at the first call. */
  function(kernel: string, device: Device): bigint {
    const key = `${device.ordinal}/${kernel}`;
    let found = this.#functions.get(key);
    if (found === undefined) {
      const out = new BigUint64Array(1);
      const code = openCudaDriver().symbols.cuModuleGetFunction(out, this.#module(device), toCString(kernel));
      checkCudaDriver(code, `cuModuleGetFunction of ${kernel}`);
      found = out[0];
      this.#functions.set(key, found);
    }
    return found;
  }

  #module(device: Device): bigint {
    let found = this.#modules.get(device.ordinal);
    if (found === undefined) {
      const out = new BigUint64Array(1);
      const image = compile(this.name, this.#source, device.computeCapability, this.#isSpecific);
      checkCudaDriver(openCudaDriver().symbols.cuModuleLoadData(out, image), "cuModuleLoadData");
      found = out[0];
      this.#modules.set(device.ordinal, found);
    }
    return found;
  }
}

/** The bytes of a struct of 8-byte fields. */
export function packWords(words: Words): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(words.length * 8);
  const view = new DataView(bytes.buffer);
  words.forEach((word, i) => {
    if (typeof word === "bigint") view.setBigInt64(8 * i, BigInt.asIntN(64, word), true);
    else view.setFloat64(8 * i, word, true);
  });
  return bytes;
}

/** The number of blocks for so many elements, few enough that each thread may loop over several. */
export function blocksFor(elements: number): number {
  return Math.max(1, Math.min(65536, Math.ceil(elements / THREADS)));
}

// ---- compiling ------------------------------------------------------------------------------------------------------

/**
 * Machine code for a GPU; PTX, which the driver translates, if NVRTC is older than the GPU.
 *
 * @throws {ConfigurationError} if NVRTC no longer knows a GPU as old as this.
 */
export function compile(
  name: string,
  source: string,
  computeCapability: readonly [major: number, minor: number],
  isSpecific = false,
): Uint8Array<ArrayBuffer> {
  const { version } = openNvrtc();
  const { option, isPtx } = architectureFor(computeCapability, isSpecific);
  const key = createHash("sha256").update([source, option, version.join(".")].join("\0")).digest("hex").slice(0, 32);
  const path = cacheFolder() && `${cacheFolder()}/${name}-${key}.bin`;
  const kept = path && readCached(path);
  if (kept) return kept;
  const image = compileNow(name, source, option, isPtx);
  if (path) writeCached(path, image);
  return image;
}

/**
 * NVRTC's option for a compute capability: exactly it, or the newest older one that NVRTC knows.
 *
 * @throws {ConfigurationError} if NVRTC knows only newer ones.
 */
function architectureFor(
  [major, minor]: readonly [number, number],
  isSpecific: boolean,
): { option: string; isPtx: boolean } {
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
        `${
          Math.min(...known) / 10
        } and newer. For an older CUDA: deno task native install cuda12; or use device "cpu".`,
    );
  }
  return { option: `--gpu-architecture=compute_${Math.max(...older)}`, isPtx: true };
}

function compileNow(name: string, source: string, architecture: string, isPtx: boolean): Uint8Array<ArrayBuffer> {
  const { symbols } = openNvrtc();
  const program = new BigUint64Array(1);
  const [text, file] = [toCString(source), toCString(`${name}.cu`)];
  checkNvrtc(symbols.nvrtcCreateProgram(program, text, file, 0, null, null), "nvrtcCreateProgram");
  try {
    const options = [architecture, "--std=c++17", "--fmad=false"].map(toCString);
    const addresses = BigUint64Array.from(options, addressOf);
    const code = symbols.nvrtcCompileProgram(program[0], options.length, addresses);
    if (code === NvrtcResult.ERROR_COMPILATION) throw nvrtcError("nvrtcCompileProgram", code, logOf(program[0]));
    checkNvrtc(code, "nvrtcCompileProgram");
    const size = new BigUint64Array(1);
    if (isPtx) checkNvrtc(symbols.nvrtcGetPTXSize(program[0], size), "nvrtcGetPTXSize");
    else checkNvrtc(symbols.nvrtcGetCUBINSize(program[0], size), "nvrtcGetCUBINSize");
    const image = new Uint8Array(Number(size[0]));
    if (isPtx) checkNvrtc(symbols.nvrtcGetPTX(program[0], image), "nvrtcGetPTX");
    else checkNvrtc(symbols.nvrtcGetCUBIN(program[0], image), "nvrtcGetCUBIN");
    return image;
  } finally {
    symbols.nvrtcDestroyProgram(program);
  }
}

function logOf(program: bigint): string {
  const { symbols } = openNvrtc();
  const size = new BigUint64Array(1);
  symbols.nvrtcGetProgramLogSize(program, size);
  const log = new Uint8Array(Number(size[0]));
  symbols.nvrtcGetProgramLog(program, log);
  return fromCString(log).trim();
}
