/**
 * An array in the memory of a GPU, as kernels see it.
 *
 * @module
 */
import { type DType, dtypeInfo } from "../../dtype/dtype.ts";
import { ELEMENT_TYPES } from "../../gpu/kernels/array_kernels.ts";
import type { Stream } from "../../gpu/stream.ts";
import { copyToDevice } from "../../memory/copy.ts";
import { DeviceBuffer, type DeviceMemory } from "../../memory/device_buffer.ts";
import { sizeOfShape } from "../layout.ts";

/** An array on a GPU. */
export interface DeviceArray {
  /** The memory. */
  readonly buffer: DeviceMemory;
  /** The type of the elements. */
  readonly dtype: DType;
  /** The extents. */
  readonly shape: readonly number[];
  /** The distance of neighbours along each dimension, in elements. */
  readonly strides: readonly number[];
  /** The element at index (0, 0, …). */
  readonly offset: number;
}

/** Where its first element lies. */
export function addressOf({ buffer, dtype, offset }: DeviceArray): bigint {
  return buffer.address + BigInt(offset * dtypeInfo(dtype).itemSize);
}

/** The number of the numbers' type in the kernels: of the parts of complex elements. */
export function typeOf(dtype: DType): bigint {
  return ELEMENT_TYPES[dtypeInfo(dtype).real as keyof typeof ELEMENT_TYPES];
}

/** How many elements it has. */
export function sizeOf({ shape }: DeviceArray): number {
  return sizeOfShape(shape);
}

/** Memory of a GPU with such contents, in the order of a stream. */
export function upload(data: BigInt64Array<ArrayBuffer> | Uint8Array<ArrayBuffer>, stream: Stream): DeviceBuffer {
  const buffer = new DeviceBuffer(stream, data.byteLength);
  copyToDevice(buffer.address, data, stream);
  return buffer;
}
