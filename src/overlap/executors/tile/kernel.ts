/**
 * Tile kernels on a GPU: compiled on demand, launched so that all their blocks run at the same time or none does, or so that
 * they are made ready while the kernel before them ends.
 *
 * @module
 */
import {
  checkCudaDriver,
  CU_LAUNCH_ATTRIBUTE,
  CU_LAUNCH_CONFIG,
  CuFunctionAttribute,
  CuLaunchAttributeId,
  openCudaDriver,
} from "../../../../ffi/cuda/driver.ts";
import { CudaDeviceAttribute } from "../../../../ffi/cuda/runtime.ts";
import { addressOf } from "../../../../ffi/memory.ts";
import { createStruct } from "../../../../ffi/struct.ts";
import { ConfigurationError } from "../../../errors.ts";
import { Program } from "../../../gpu/kernels/program.ts";
import type { Device } from "../../../gpu/device.ts";
import type { Stream } from "../../../gpu/stream.ts";
import { sharedBytes, TILE_THREADS, type TileConfiguration } from "./configuration.ts";
import { TILE_KERNEL, tileSource } from "./source.ts";

/** All its blocks run at the same time, or none. */
const TOGETHER = createStruct(CU_LAUNCH_ATTRIBUTE, { id: CuLaunchAttributeId.COOPERATIVE, "value.cooperative": 1 });

/** It is made ready while the kernel before it on the stream ends: 0.5 to 0.9 us that those above take longer. */
const EARLY = createStruct(CU_LAUNCH_ATTRIBUTE, {
  id: CuLaunchAttributeId.PROGRAMMATIC_STREAM_SERIALIZATION,
  "value.programmaticStreamSerializationAllowed": 1,
});

const TILE_LAUNCH = `the launch of ${TILE_KERNEL}`;

/** A kernel for one configuration. */
export class TileKernel {
  /** What it is compiled for. */
  readonly configuration: TileConfiguration;
  readonly #program: Program;
  readonly #functions = new Map<number, bigint>();

  private constructor(configuration: TileConfiguration) {
    this.configuration = configuration;
    const source = tileSource(configuration);
    this.#program = new Program("tiles", source, { isArchitectureSpecific: true });
  }

  static readonly #kernels = new Map<string, TileKernel>();

  /** The kernel of a configuration, one a process. */
  static of(configuration: TileConfiguration): TileKernel {
    const { columns, stages, slots, cluster, dtype, narrow = [], isRowMajorA, isRowMajorB } = configuration;
    const { hasBias = false, activation = "none", blocksPush = false } = configuration;
    const sizes = [columns, stages, slots, cluster];
    const key = [...sizes, dtype, isRowMajorA, isRowMajorB, hasBias, activation, blocksPush, ...narrow].join();
    const found = this.#kernels.get(key) ?? new TileKernel(configuration);
    this.#kernels.set(key, found);
    return found;
  }

  /** Compile kernels that will be needed, at the same time. */
  static compileAll(configurations: readonly TileConfiguration[], device: Device): void {
    Program.compileAll(configurations.map((configuration) => TileKernel.of(configuration).#program), device);
  }

  /** Compile it, if it has not been, and at the same time others that may be needed later. */
  compileBeside(configurations: readonly TileConfiguration[], device: Device): void {
    this.#program.compileBeside(configurations.map((configuration) => TileKernel.of(configuration).#program), device);
  }

  /** How many blocks a GPU runs at a time: one on each multiprocessor, whole clusters. */
  blocksOn(device: Device): number {
    const { cluster } = this.configuration;
    return Math.floor(device.attribute(CudaDeviceAttribute.MultiProcessorCount) / cluster) * cluster;
  }

  /** Compile and load it. */
  prepare(device: Device): void {
    this.#function(device);
  }

  /**
   * Have ready what puts it on streams of a GPU: `blocks` is a multiple of the cluster, and no more than the GPU has
   * multiprocessors. The argument may be changed between launches. Where blocks wait for what others of the same GPU make
   * first, `isCooperative` has all of them run at the same time, or none.
   */
  prepareLaunch(
    device: Device,
    blocks: number,
    parameters: Uint8Array<ArrayBuffer>,
    isCooperative: boolean,
  ): (stream: Stream) => void {
    const { cuLaunchKernelEx } = openCudaDriver().symbols;
    const kernel = this.#function(device);
    const config = createStruct(CU_LAUNCH_CONFIG, {
      gridDimX: blocks,
      gridDimY: 1,
      gridDimZ: 1,
      blockDimX: TILE_THREADS,
      blockDimY: 1,
      blockDimZ: 1,
      sharedMemBytes: sharedBytes(this.configuration),
      attrs: addressOf(isCooperative ? TOGETHER : EARLY),
      numAttrs: 1,
    });
    const words = new BigUint64Array(config.buffer);
    const handleAt = CU_LAUNCH_CONFIG.fields.hStream[0] / 8;
    const pointers = BigUint64Array.of(addressOf(parameters));
    return ({ handle }) => {
      words[handleAt] = handle;
      checkCudaDriver(cuLaunchKernelEx(config, kernel, pointers, null), TILE_LAUNCH);
    };
  }

  #function(device: Device): bigint {
    let found = this.#functions.get(device.ordinal);
    if (found !== undefined) return found;
    const capability = device.computeCapability.join(".");
    if (capability !== "9.0") {
      throw new ConfigurationError(
        `Tile kernels are for GPUs of compute capability 9.0 (H100, H200), and ${device.name} has ${capability}.`,
      );
    }
    found = this.#program.function(TILE_KERNEL, device);
    const code = openCudaDriver().symbols.cuFuncSetAttribute(
      found,
      CuFunctionAttribute.MAX_DYNAMIC_SHARED_SIZE_BYTES,
      sharedBytes(this.configuration),
    );
    checkCudaDriver(code, "cuFuncSetAttribute");
    this.#functions.set(device.ordinal, found);
    return found;
  }
}
