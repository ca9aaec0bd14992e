/**
 * GPUs.
 *
 * @module
 */
import { checkCudaDriver, CuDeviceAttribute, CuResult, openCudaDriver } from "../../ffi/cuda/driver.ts";
import { checkCuda, openCudaRuntime } from "../../ffi/cuda/runtime.ts";
import { LibraryNotFoundError } from "../../ffi/library.ts";
import { fromCString } from "../../ffi/memory.ts";
import { ConfigurationError } from "../errors.ts";
import { waitForDevice } from "./waiting.ts";

const CAPABILITY = [CuDeviceAttribute.COMPUTE_CAPABILITY_MAJOR, CuDeviceAttribute.COMPUTE_CAPABILITY_MINOR];

let count: number | undefined;

/**
 * A GPU that this process sees. Source: the CUDA driver's and runtime's device management.
 *
 * @example
 * ```ts
 * import { Device } from "@distmath/distmath";
 * for (let ordinal = 0; ordinal < Device.count(); ordinal++) {
 *   using device = new Device(ordinal);
 *   console.log(device.name, device.computeCapability.join("."), device.memoryBytes);
 * }
 * ```
 */
export class Device implements Disposable {
  /** The number of the GPU among those that `CUDA_VISIBLE_DEVICES` leaves visible. */
  readonly ordinal: number;
  /** The vendor's name. */
  readonly name: string;
  /** Such as `[9, 0]`. */
  readonly computeCapability: readonly [major: number, minor: number];
  /** Bytes of the GPU's memory. */
  readonly memoryBytes: number;
  /** What tells the GPU from all others, such as `GPU-0b7c…`. */
  readonly uuid: string;

  /** The number of GPUs that this process sees; 0 on a machine without a driver. Opens no library but the driver. */
  static count(): number {
    return count ??= countDevices();
  }

  /**
   * Look at a GPU, without making it current.
   *
   * @throws {ConfigurationError} if there is no such GPU.
   */
  constructor(ordinal: number) {
    const available = Device.count();
    if (!(Number.isInteger(ordinal) && ordinal >= 0 && ordinal < available)) {
      throw new ConfigurationError(
        `There is no GPU ${ordinal}: this process sees ${available}${available === 0 ? "" : ", numbered from 0"}. ` +
          `Check nvidia-smi and CUDA_VISIBLE_DEVICES, or use device "cpu".`,
      );
    }
    const { symbols } = openCudaDriver();
    const device = new Int32Array(1);
    checkCudaDriver(symbols.cuDeviceGet(device, ordinal), "cuDeviceGet");
    const [name, uuid, bytes] = [new Uint8Array(256), new Uint8Array(16), new BigUint64Array(1)];
    checkCudaDriver(symbols.cuDeviceGetName(name, name.length, device[0]), "cuDeviceGetName");
    checkCudaDriver(symbols.cuDeviceGetUuid(uuid, device[0]), "cuDeviceGetUuid");
    checkCudaDriver(symbols.cuDeviceTotalMem(bytes, device[0]), "cuDeviceTotalMem");
    const [major, minor] = CAPABILITY.map((attribute) => {
      const value = new Int32Array(1);
      checkCudaDriver(symbols.cuDeviceGetAttribute(value, attribute, device[0]), "cuDeviceGetAttribute");
      return value[0];
    });
    this.ordinal = ordinal;
    this.name = fromCString(name);
    this.uuid = formatUuid(uuid);
    this.memoryBytes = Number(bytes[0]);
    this.computeCapability = [major, minor];
  }

  /** Make this thread use the GPU, and start its context. Source: cudaSetDevice, cudaFree(0). */
  makeCurrent(): void {
    const { symbols } = openCudaRuntime();
    checkCuda(symbols.cudaSetDevice(this.ordinal), "cudaSetDevice");
    checkCuda(symbols.cudaFree(0n), "cudaFree");
  }

  /** Wait until all work of this process on the current GPU has ended. Source: cudaDeviceSynchronize. */
  synchronize(): void {
    waitForDevice(openCudaRuntime().symbols.cudaDeviceSynchronize);
  }

  /** Bytes of memory that are free, and all, on the current GPU. Source: cudaMemGetInfo. */
  memoryInfo(): { freeBytes: number; totalBytes: number } {
    const [free, total] = [new BigUint64Array(1), new BigUint64Array(1)];
    checkCuda(openCudaRuntime().symbols.cudaMemGetInfo(free, total), "cudaMemGetInfo");
    return { freeBytes: Number(free[0]), totalBytes: Number(total[0]) };
  }

  /** What the GPU is or can do: a value of `CudaDeviceAttribute` in ./ffi. Source: cudaDeviceGetAttribute. */
  attribute(attribute: number): number {
    const value = new Int32Array(1);
    checkCuda(
      openCudaRuntime().symbols.cudaDeviceGetAttribute(value, attribute, this.ordinal),
      "cudaDeviceGetAttribute",
    );
    return value[0];
  }

  /** Such as `GPU 0 (NVIDIA H200, GPU-0b7c…)`. */
  toString(): string {
    return `GPU ${this.ordinal} (${this.name}, ${this.uuid})`;
  }

  /** A device holds nothing by itself: its streams and memory have lifetimes of their own. */
  [Symbol.dispose](): void {}
}

function countDevices(): number {
  const found = new Int32Array(1);
  try {
    const { symbols } = openCudaDriver();
    if (symbols.cuInit(0) !== CuResult.SUCCESS) return 0;
    return symbols.cuDeviceGetCount(found) === CuResult.SUCCESS ? found[0] : 0;
  } catch (error) {
    if (error instanceof LibraryNotFoundError) return 0;
    throw error;
  }
}

/** As `nvidia-smi -L` prints it. */
function formatUuid(bytes: Uint8Array): string {
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const parts = [[0, 8], [8, 12], [12, 16], [16, 20], [20, 32]].map(([start, end]) => hex.slice(start, end));
  return `GPU-${parts.join("-")}`;
}
