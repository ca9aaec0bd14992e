/**
 * CUDA C++ in strings, compiled by NVRTC for the GPU at hand at the first use, and kept on disk for the next process.
 *
 * @module
 */
import { checkCudaDriver, openCudaDriver } from "../../../ffi/cuda/driver.ts";
import { addressOf, toCString } from "../../../ffi/memory.ts";
import type { Device } from "../device.ts";
import type { Stream } from "../stream.ts";
import { compile, compileAhead, compileBeside, type KernelSource } from "./compiler.ts";

/** How many threads each kernel of distmath runs in a block. */
const THREADS = 256;

/** Blocks of a kernel, beyond which each of them takes several rows, or so many elements. */
export const MOST_BLOCKS = 65536;

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
  readonly #source: KernelSource;
  readonly #modules = new Map<number, bigint>();
  readonly #functions = new Map<string, bigint>();

  /** Note the source; nothing is compiled yet. */
  constructor(name: string, source: string, options: ProgramOptions = {}) {
    this.#source = { name, source, isSpecific: options.isArchitectureSpecific ?? false };
  }

  /** Have programs compiled at the same time, as far as they are not; what is wrong with one is told when it is used. */
  static compileAll(programs: readonly Program[], device: Device): void {
    const missing = [...new Set(programs)].filter((program) => !program.#modules.has(device.ordinal));
    compileAhead(missing.map((program) => program.#source), device.computeCapability);
  }

  /** Have this one compiled, if it is not, and others that may be needed later at the same time. */
  compileBeside(others: readonly Program[], device: Device): void {
    if (this.#modules.has(device.ordinal)) return;
    const later = new Set(others.filter((program) => program !== this));
    compileBeside(this.#source, [...later].map((program) => program.#source), device.computeCapability);
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
      const image = compile(this.#source, device.computeCapability);
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
  return Math.max(1, Math.min(MOST_BLOCKS, Math.ceil(elements / THREADS)));
}
