/**
 * Tile kernels on a GPU: compiled on demand, launched so that all their blocks run at the same time or none does.
 *
 * @module
 */
import { checkCudaDriver, CuFunctionAttribute, openCudaDriver } from "../../../../ffi/cuda/driver.ts";
import { CudaDeviceAttribute } from "../../../../ffi/cuda/runtime.ts";
import { addressOf } from "../../../../ffi/memory.ts";
import { ConfigurationError } from "../../../errors.ts";
import { Program } from "../../../gpu/kernels/program.ts";
import type { Device } from "../../../gpu/device.ts";
import type { Stream } from "../../../gpu/stream.ts";
import { sharedBytes, TILE_THREADS, type TileConfiguration } from "./configuration.ts";
import { TILE_KERNEL, tileSource } from "./source.ts";

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
    const { columns, stages, slots, cluster, dtype, isRowMajorA, isRowMajorB } = configuration;
    const key = [columns, stages, slots, cluster, dtype, isRowMajorA, isRowMajorB].join();
    const found = this.#kernels.get(key) ?? new TileKernel(configuration);
    this.#kernels.set(key, found);
    return found;
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
   * Put it on a stream: `blocks` is a multiple of the cluster, and no more than the GPU has multiprocessors. Where blocks
   * wait for blocks of other GPUs, `isCooperative` has all of them run at the same time, or none.
   */
  launch(stream: Stream, blocks: number, parameters: Uint8Array<ArrayBuffer>, isCooperative: boolean): void {
    const { symbols } = openCudaDriver();
    const kernel = this.#function(stream.device);
    const bytes = sharedBytes(this.configuration);
    const pointers = BigUint64Array.of(addressOf(parameters));
    const code = isCooperative
      ? symbols.cuLaunchCooperativeKernel(kernel, blocks, 1, 1, TILE_THREADS, 1, 1, bytes, stream.handle, pointers)
      : symbols.cuLaunchKernel(kernel, blocks, 1, 1, TILE_THREADS, 1, 1, bytes, stream.handle, pointers, null);
    checkCudaDriver(code, `the launch of ${TILE_KERNEL}`);
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
