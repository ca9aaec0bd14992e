/**
 * The part of an array that one rank holds.
 *
 * @module
 */
import { addressOf } from "../../ffi/memory.ts";
import { ShapeError, StateError } from "../errors.ts";
import { describe, isObject, keysOf, noteOwnClass, readOptions } from "../options.ts";
import { clearOnDevice, copyFromDevice, copyToDevice } from "../memory/copy.ts";
import { DeviceBuffer, type DeviceMemory } from "../memory/device_buffer.ts";
import { keepSpare, lend, takeSpare } from "../memory/spare.ts";
import type { Stream } from "../gpu/stream.ts";
import { copyStridedOnDevice } from "./on_device/copies.ts";
import { convertOnDevice, fillOnDevice } from "./on_device/filling.ts";
import { lengthOf } from "../mpi/elements.ts";
import { checkConvertible, convert } from "../dtype/conversion.ts";
import {
  allocate,
  type DType,
  dtypeInfo,
  dtypeOf,
  elementCount,
  HUGE_BYTES,
  MAXIMUM_LENGTH,
  type Scalar,
  type TypedArray,
} from "../dtype/dtype.ts";
import type { DataOf, ElementOf } from "../dtype/element_types.ts";
import { loadScalar, storeScalar } from "../dtype/scalar.ts";
import { checkFormat, formatElements, type FormatOptions, shownIndices } from "./format.ts";
import { checkShape, copyStrided, isDense, type Order, sizeOfShape, type Strided, stridesOf } from "./layout.ts";

/** Where an array's elements are: in the memory of the process, of its GPU, or in memory that all ranks address. */
export type Memory = "host" | "device" | "symmetric";

/** What a {@linkcode LocalArray} is made of. */
export interface LocalArrayOptions<D extends DType = DType> {
  /** The memory, of the process or of a GPU. It is shared, not copied. */
  data: TypedArray | DeviceMemory;
  /** The type of the elements. */
  dtype: D;
  /** The extents. */
  shape: readonly number[];
  /** The distance of neighbours along each dimension, in elements; those of a dense array in C order if left out. */
  strides?: readonly number[];
  /** The element at index (0, 0, …); 0 if left out. */
  offset?: number;
  /** Whether other ranks can address the memory, too; then "symmetric". By default "host" or "device". */
  memory?: Memory;
}

const LOCAL_ARRAY_KEYS = keysOf<LocalArrayOptions>({
  data: true,
  dtype: true,
  shape: true,
  strides: true,
  offset: true,
  memory: true,
});

/**
 * An n-dimensional array in the memory of this process or of its GPU: typed data, a shape and strides.
 *
 * @example
 * ```ts
 * import { LocalArray } from "@distmath/distmath";
 * const matrix = new LocalArray({ data: Float64Array.of(1, 2, 3, 4, 5, 6), dtype: "float64", shape: [2, 3] });
 * console.assert(matrix.transpose().toNumbers().join() === "1,4,2,5,3,6");
 * ```
 */
export class LocalArray<D extends DType = DType> implements Strided {
  static {
    noteOwnClass(this);
  }

  /** The type of the elements. */
  readonly dtype: D;
  /** The extents. */
  readonly shape: readonly number[];
  /** The distance of neighbours along each dimension, in elements. */
  readonly strides: readonly number[];
  /** The element of the memory at index (0, 0, …). */
  readonly offset: number;
  /** Where the elements are. */
  readonly memory: Memory;
  readonly #host: TypedArray | null;
  readonly #device: DeviceMemory | null;
  /** The address of the first element in host memory, once it was asked for: it stays as long as the memory does. */
  #address: bigint | null = null;

  /** Only what the constructor made is one: no Proxy, and nothing that merely has the prototype. */
  static [Symbol.hasInstance](value: unknown): boolean {
    return isObject(value) && #host in value && Function.prototype[Symbol.hasInstance].call(this, value);
  }

  /**
   * Make an array on existing memory.
   *
   * @throws {TypeError} if an option is not known, the offset is no number, there is no such kind of memory, or `data` is in
   *   memory that can be resized.
   * @throws {StateError} if the memory of `data` was transferred away.
   * @throws {DTypeError} if `data` is not the kind of typed array that holds the dtype.
   * @throws {ShapeError} if strides do not fit the shape, the offset is no whole number, or `data` is too short.
   */
  constructor(options: LocalArrayOptions<D>) {
    const { data, dtype, shape, strides, offset, memory } = options instanceof Checked ? options : checked(options);
    const isHost = ArrayBuffer.isView(data);
    this.#host = isHost ? data : null;
    this.#device = isHost ? null : data;
    this.memory = memory;
    this.dtype = dtype;
    this.shape = shape;
    this.strides = strides;
    this.offset = offset;
  }

  /** A dense array of zeros: in host memory, or given a stream in the memory of its GPU. */
  static zeros<D extends DType>(
    dtype: D,
    shape: readonly number[],
    order: Order = "C",
    stream: Stream | null = null,
  ): LocalArray<D> {
    const array = make(dtype, shape, order, stream, true);
    if (stream) clearOnDevice(array.address, array.byteLength, stream);
    return array;
  }

  /** As {@linkcode zeros}, but with whatever was in the memory. */
  static empty<D extends DType>(
    dtype: D,
    shape: readonly number[],
    order: Order = "C",
    stream: Stream | null = null,
  ): LocalArray<D> {
    return make(dtype, shape, order, stream, false);
  }

  /**
   * The memory that holds the elements, and perhaps others; it need not begin where its buffer does.
   *
   * @throws {StateError} if it is the memory of a GPU, or that of an array that was freed.
   */
  get data(): DataOf<D> {
    const host = this.#host;
    if (host !== null && !isDetached(host)) return host as DataOf<D>;
    if (host !== null) {
      throw new StateError(
        "These elements were in the memory of an array that was freed, or in a buffer that was transferred away. " +
          "Take a copy before.",
      );
    }
    throw new StateError(
      `These elements are in the memory of a GPU, where a script cannot read them. Copy them: toTypedArray(), ` +
        `toNumbers(), or an array's to({ memory: "host" }).`,
    );
  }

  /**
   * The memory of the GPU that holds the elements, and perhaps others.
   *
   * @throws {StateError} if the elements are in host memory.
   */
  get buffer(): DeviceMemory {
    if (this.#device !== null) return this.#device;
    throw new StateError(`These elements are in host memory. Move them to a GPU: an array's to({ memory: "device" }).`);
  }

  /** The memory, of the host or of a GPU: `data` or `buffer`. */
  get storage(): TypedArray | DeviceMemory {
    return this.isOnDevice ? this.buffer : this.data;
  }

  /** Whether the memory is gone: freed, or the buffer was transferred away by `transfer()`, `postMessage()` and the like. */
  get isLost(): boolean {
    return this.#host !== null ? isDetached(this.#host) : this.buffer.isFreed ?? false;
  }

  /** Whether the elements are in the memory of a GPU, so that `data` and `view()` do not exist. */
  get isOnDevice(): boolean {
    return this.#device !== null;
  }

  /** The number of elements. */
  get size(): number {
    return sizeOfShape(this.shape);
  }

  /** Bytes of the elements, without gaps between them. */
  get byteLength(): number {
    return this.size * dtypeInfo(this.dtype).itemSize;
  }

  /** The address of element (0, 0, …). It keeps nothing alive: hold on to the array. */
  get address(): bigint {
    if (this.#host === null) return this.#shifted(this.buffer.address);
    // Which throws if the memory is gone.
    const { data } = this;
    if (this.#address !== null) return this.#address;
    return this.#address = this.#shifted(addressOf(data));
  }

  /** From the address of the memory to that of the first element. */
  #shifted(start: bigint): bigint {
    return this.offset === 0 ? start : start + BigInt(this.offset * dtypeInfo(this.dtype).itemSize);
  }

  /** Whether elements follow each other without gaps in this order. */
  isDense(order: Order): boolean {
    return isDense(this.shape, this.strides, order);
  }

  /**
   * The elements as they lie in memory, without a copy: from the first to the last one, in the array's own order, and
   * with the gaps of an array that is not dense. Not to be used after the array was freed.
   */
  view(): DataOf<D> {
    const { parts } = dtypeInfo(this.dtype);
    const last = this.shape.reduce((sum, extent, dimension) => sum + (extent - 1) * this.strides[dimension], 0);
    const span = this.size === 0 ? 0 : last + 1;
    return this.data.subarray(this.offset * parts, (this.offset + span) * parts) as DataOf<D>;
  }

  /** A dense copy of the elements; `order` "C" has the last index run fastest, "F" the first. */
  toTypedArray(order: Order = "C"): DataOf<D> {
    const target = exactArray(this.dtype, this.shape, order);
    if (this.isOnDevice) this.#bringTo(target, order);
    else copyStrided(this, target, this.shape, dtypeInfo(this.dtype).parts);
    return target.data;
  }

  /** A dense copy in host memory, from a GPU too. */
  toHost(order: Order = "C"): LocalArray<D> {
    if (!this.isOnDevice) return this.copy(order);
    const host = LocalArray.empty(this.dtype, this.shape, order);
    this.#bringTo(host, order);
    return host;
  }

  /** From the GPU into a dense array of the host. */
  #bringTo(host: LocalArray, order: Order): void {
    const dense = this.isDense(order) ? this : this.copy(order);
    copyFromDevice(host.data, dense.address, this.buffer.stream);
    if (dense !== this) dense.release();
  }

  /** A dense copy in the memory of a stream's GPU, in the order of the stream. */
  toDevice(stream: Stream, order: Order = "C"): LocalArray<D> {
    const device = LocalArray.empty(this.dtype, this.shape, order, stream);
    if (this.isOnDevice) copyStridedOnDevice(this, device);
    else copyToDevice(device.address, this.isDense(order) ? this.view() : this.copy(order).data, stream);
    return device;
  }

  /**
   * Give back memory that was made for this array: a GPU's to its pool, large host memory to arrays that follow, so that
   * views of it are empty afterwards. Other memory is left to its owner or the garbage collector.
   */
  release(): void {
    if (this.#device instanceof DeviceBuffer) this.#device.free();
    if (this.#host?.buffer instanceof ArrayBuffer) keepSpare(this.#host.buffer);
  }

  /**
   * The values as numbers, in C order: float16, bfloat16 and float8 decoded, complex ones as two numbers each, int64
   * rounded to the nearest number.
   */
  toNumbers(): number[] {
    const data = this.toTypedArray();
    const { dtype } = this;
    const { parts, real } = dtypeInfo(dtype);
    const numbers = new Float64Array(data.length);
    convert(parts === 2 ? real : dtype, data, "float64", numbers);
    return Array.from(numbers);
  }

  /** The value at an index. */
  at(...index: number[]): ElementOf<D> {
    const position = this.#position(index);
    if (!this.isOnDevice) return loadScalar(this.dtype, this.data, position) as ElementOf<D>;
    const element = this.slice(index, index.map(() => 1));
    return loadScalar(this.dtype, element.toTypedArray(), 0) as ElementOf<D>;
  }

  /** Such as `LocalArray(float32, [64, 64])`. */
  toString(): string {
    return `LocalArray(${this.dtype}, [${this.shape.join(", ")}])`;
  }

  /** What `console.log` shows: {@linkcode toString}, and the values. */
  [Symbol.for("Deno.customInspect")](): string {
    return this.isLost ? `${this}, its memory gone` : `${this}\n${this.format()}`;
  }

  /** The values as text, as NumPy prints them: of large arrays the edges. */
  format(options: FormatOptions = {}): string {
    const full = checkFormat(options);
    const indices = shownIndices(this.shape, full);
    const values: Scalar[] = [];
    const visit = (index: number[]): void => {
      if (index.length === indices.length) values.push(this.at(...index));
      else for (const i of indices[index.length]) visit([...index, i]);
    };
    if (this.size > 0) visit([]);
    return formatElements(this.dtype, this.shape, values, full);
  }

  /** A dense copy in its own memory, of the host or of the same GPU. */
  copy(order: Order = "C"): LocalArray<D> {
    if (this.isOnDevice) return this.toDevice(this.buffer.stream, order);
    const copy = LocalArray.empty(this.dtype, this.shape, order);
    copyStrided(this, copy, this.shape, dtypeInfo(this.dtype).parts);
    return copy;
  }

  /**
   * Overwrite all elements with one value, for an integer dtype cut toward zero and kept inside the range.
   *
   * @throws {DTypeError} if the dtype does not take the value, such as a pair where it is real.
   */
  fill(value: Scalar): void {
    const { dtype, shape, strides } = this;
    const { parts } = dtypeInfo(dtype);
    const one = allocate(dtype, 1);
    storeScalar(dtype, one, 0, value);
    if (this.isOnDevice) return fillOnDevice(this, new Uint8Array(one.buffer));
    if (parts === 1 && (this.isDense("C") || this.isDense("F"))) {
      (this.view() as Float64Array).fill(one[0] as number);
    } else {
      // Strides of 0 repeat the one element.
      copyStrided({ data: one, offset: 0, strides: strides.map(() => 0) }, this, shape, parts);
    }
  }

  /**
   * Overwrite all elements: with another array of the same shape (converted to this dtype if it has another one), with a
   * flat list of values in C order, or with one number; for an integer dtype numbers are cut as by {@linkcode fill}. In a list
   * for a complex array each element is two numbers; for bfloat16 and float8 a `Uint16Array` or `Uint8Array` holds bits, any
   * other list values.
   *
   * @throws {TypeError} if the values are neither numbers nor a list of them.
   * @throws {ShapeError} if there are too few or too many values.
   * @throws {DTypeError} if they do not convert to the dtype.
   */
  set(values: number | bigint | LocalArray | ArrayLike<number> | ArrayLike<bigint>): void {
    if (values instanceof LocalArray) return this.#setArray(values);
    if (typeof values === "number" || typeof values === "bigint") return this.fill(values);
    if (!isList(values)) {
      throw new TypeError(
        `set takes a number, a bigint, a LocalArray of the same shape, or a list of numbers such as [1, 2] or a typed ` +
          `array, not ${describe(values)}.`,
      );
    }
    const { dtype, shape, size } = this;
    const { parts } = dtypeInfo(dtype);
    if (values.length !== size * parts) {
      throw new ShapeError(
        `An array of shape [${shape}] and dtype ${dtype} takes ${
          size * parts
        } numbers, but ${values.length} were given.`,
      );
    }
    const flat = new LocalArray({ data: flatData(dtype, values), dtype, shape });
    if (this.isOnDevice) return this.#setOnDevice(flat);
    const isOwn = flat.data.buffer === this.data.buffer;
    copyStrided(isOwn ? flat.copy("C") : flat, this, shape, parts);
  }

  #setArray(values: LocalArray): void {
    if (values.shape.join() !== this.shape.join()) {
      throw new ShapeError(`An array of shape [${this.shape}] cannot take the elements of one of [${values.shape}].`);
    }
    if (this.isOnDevice) return this.#setOnDevice(values);
    if (values.isOnDevice) return this.#setArray(values.toHost(values.isDense("F") ? "F" : "C"));
    const { parts } = dtypeInfo(this.dtype);
    const source = values.dtype === this.dtype && values.data.buffer !== this.data.buffer ? values : values.copy("C");
    if (source.dtype === this.dtype) return copyStrided(source, this, this.shape, parts);
    const converted = LocalArray.zeros(this.dtype, this.shape);
    convert(source.dtype, source.data, this.dtype, converted.data);
    copyStrided(converted, this, this.shape, parts);
  }

  /** On a GPU, elements are moved, then converted, then brought into place; steps that change nothing are left out. */
  #setOnDevice(values: LocalArray): void {
    checkConvertible(values.dtype, this.dtype);
    const { stream } = this.buffer;
    const order = this.isDense("F") ? "F" : "C";
    if (!values.isOnDevice && values.dtype === this.dtype && this.isDense(order) && values.isDense(order)) {
      return copyToDevice(this.address, values.view(), stream);
    }
    const mayOverlap = values.isOnDevice && values.buffer === this.buffer;
    const isReady = values.isOnDevice && !mayOverlap && (values.dtype === this.dtype || values.isDense(order));
    const moved = isReady ? values : values.toDevice(stream, order);
    if (moved.dtype === this.dtype) {
      copyStridedOnDevice(moved, this);
    } else if (this.isDense(order)) {
      convertOnDevice(moved, this);
    } else {
      const converted = LocalArray.empty(this.dtype, this.shape, order, stream);
      convertOnDevice(moved, converted);
      copyStridedOnDevice(converted, this);
      converted.release();
    }
    if (moved !== values) moved.release();
  }

  #with(layout: Pick<LocalArrayOptions, "shape" | "strides" | "offset">): LocalArray<D> {
    return new LocalArray({ data: this.#host ?? this.buffer, dtype: this.dtype, memory: this.memory, ...layout });
  }

  /** The same memory with other extents and strides: for code that knows them to fit. */
  reshaped(shape: readonly number[], strides: readonly number[]): LocalArray<D> {
    return this.#with({ shape, strides, offset: this.offset });
  }

  /** The same memory with the dimensions in reverse order. */
  transpose(): LocalArray<D> {
    return this.#with({
      shape: this.shape.toReversed(),
      strides: this.strides.toReversed(),
      offset: this.offset,
    });
  }

  /**
   * The same memory, from index `starts` on, with another shape.
   *
   * @throws {ShapeError} if that reaches beyond the array.
   */
  slice(starts: readonly number[], shape: readonly number[]): LocalArray<D> {
    checkShape(shape, "The shape of a slice");
    if (
      starts.length !== this.shape.length || shape.length !== this.shape.length ||
      !starts.every((start, i) => Number.isInteger(start) && start >= 0 && start + shape[i] <= this.shape[i])
    ) {
      throw new ShapeError(
        `A slice of shape [${shape}] from [${starts}] on does not lie in an array of [${this.shape}].`,
      );
    }
    const skipped = shape.includes(0) ? 0 : starts.reduce((sum, start, i) => sum + start * this.strides[i], 0);
    return this.#with({ shape, strides: this.strides, offset: this.offset + skipped });
  }

  #position(index: readonly number[]): number {
    const { shape, strides, offset } = this;
    if (
      index.length !== shape.length ||
      !index.every((at, dimension) => Number.isInteger(at) && at >= 0 && at < shape[dimension])
    ) {
      throw new RangeError(`The index [${index}] does not lie in an array of shape [${shape}].`);
    }
    return index.reduce((sum, at, dimension) => sum + at * strides[dimension], offset);
  }
}

/** What an array is made of, once it is known to fit. A class, so that the constructor knows it again. */
class Checked<D extends DType> implements LocalArrayOptions<D> {
  constructor(
    readonly data: TypedArray | DeviceMemory,
    readonly dtype: D,
    readonly shape: readonly number[],
    readonly strides: readonly number[],
    readonly offset: number,
    readonly memory: Memory,
  ) {}
}

/** Check what an array is to be made of. */
function checked<D extends DType>(options: LocalArrayOptions<D>): Checked<D> {
  const given = readOptions("the options of LocalArray", options ?? null, LOCAL_ARRAY_KEYS);
  const { data, dtype, offset = 0, memory } = given;
  const shape = checkShape(given.shape, "The local shape");
  const strides = Object.freeze([...given.strides ?? stridesOf(shape, "C")]);
  if (strides.length !== shape.length || !strides.every((stride) => Number.isInteger(stride) && stride >= 0)) {
    throw new ShapeError(`Strides [${strides}] do not fit the shape [${shape}]: give one whole number a dimension.`);
  }
  checkOffset(offset);
  if (memory !== undefined) checkMemory(memory);
  const isHost = ArrayBuffer.isView(data);
  if (isHost) checkFixed(data);
  const available = isHost ? elementCount(dtype, data) : Math.floor(data.byteLength / dtypeInfo(dtype).itemSize);
  const needed = shape.includes(0)
    ? offset
    : offset + 1 + shape.reduce((sum, extent, dimension) => sum + (extent - 1) * strides[dimension], 0);
  if (!(offset >= 0 && needed <= available)) {
    throw new ShapeError(
      `An array of shape [${shape}] with strides [${strides}] from element ${offset} on needs ${needed} elements, ` +
        `but the ${data.constructor.name} holds ${available} of ${dtype}.`,
    );
  }
  return new Checked(data, dtype, shape, strides, offset, memory ?? (isHost ? "host" : "device"));
}

function checkOffset(offset: unknown): void {
  if (typeof offset !== "number") throw new TypeError(`The offset must be a number, not ${describe(offset)}.`);
  if (!Number.isInteger(offset)) {
    throw new ShapeError(`The offset is ${offset}, but elements are whole numbers from 0.`);
  }
}

/**
 * Refuse what is no kind of memory.
 *
 * @throws {TypeError} if it is none.
 */
export function checkMemory(memory: unknown): void {
  if (memory === "host" || memory === "device" || memory === "symmetric") return;
  throw new TypeError(`The memory must be "host", "device" or "symmetric", not ${describe(memory)}.`);
}

/** Whether the buffer of a typed array was transferred away, which leaves no length. Shared memory never is. */
function isDetached(data: TypedArray): boolean {
  if (lengthOf(data) > 0) return false;
  const { buffer } = data;
  return buffer instanceof ArrayBuffer && buffer.detached;
}

/** Refuse memory that has gone, or that could become shorter than an array in it. */
function checkFixed(data: TypedArray): void {
  const { buffer } = data;
  if (buffer instanceof ArrayBuffer ? buffer.resizable : (buffer as SharedArrayBuffer).growable) {
    throw new TypeError(
      `An array needs memory of a fixed size, and the buffer of this ${data.constructor.name} can be resized. ` +
        `Pass a copy: data.slice().`,
    );
  }
  if (isDetached(data)) {
    throw new StateError(
      `The buffer of this ${data.constructor.name} was transferred away. Pass memory that is there.`,
    );
  }
}

/** A dense array in host memory that holds nothing else, for scripts that look at a typed array's buffer. */
export function exactArray<D extends DType>(dtype: D, shape: readonly number[], order: Order): LocalArray<D> {
  const data = allocate(dtype, sizeOfShape(shape));
  return new LocalArray({ data, dtype, shape, strides: stridesOf(shape, order) });
}

function make<D extends DType>(
  dtype: D,
  shape: readonly number[],
  order: Order,
  stream: Stream | null,
  isCleared: boolean,
): LocalArray<D> {
  const extents = checkShape(shape, "The local shape");
  const size = sizeOfShape(extents);
  const data = stream ? new DeviceBuffer(stream, size * dtypeInfo(dtype).itemSize) : hostMemory(dtype, size, isCleared);
  const strides = Object.freeze(stridesOf(extents, order));
  return new LocalArray(new Checked(data, dtype, extents, strides, 0, stream ? "device" : "host"));
}

/** From this size on arrays are staggered, and their memory is used again. */
const LARGE_BYTES = 2 ** 20;
const PAGE_BYTES = 2 ** 12;
const HUGE_PAGE_BYTES = 2 ** 21;
const STAGGER_BYTES = 21 * 64;
let staggered = 0;

/**
 * Memory of the host. Large arrays begin at cache lines, at different places of a page: where all begin alike, or C between
 * cache lines, a product of float32 matrices takes up to a fifth longer. Those of several huge pages begin with one: a
 * message of 8 MiB takes 1.7 times longer where its ends lie in small pages.
 */
function hostMemory(dtype: DType, size: number, isCleared: boolean): TypedArray {
  const { array, itemSize, parts } = dtypeInfo(dtype);
  const bytes = size * itemSize;
  if (bytes < LARGE_BYTES) return allocate(dtype, size);
  const alignment = bytes < HUGE_BYTES ? PAGE_BYTES : HUGE_PAGE_BYTES;
  // No room for an alignment, but for the elements there may be.
  if ((size + alignment / itemSize) * parts > MAXIMUM_LENGTH) return allocate(dtype, size);
  const spare = takeSpare(bytes + alignment);
  if (spare !== null && isCleared) new Uint8Array(spare).fill(0);
  const buffer = spare ?? allocate(dtype, size + alignment / itemSize).buffer;
  lend(buffer);
  staggered = (staggered + STAGGER_BYTES) % PAGE_BYTES;
  return new array(buffer, (staggered - remainder(buffer, alignment) + alignment) % alignment, size * parts);
}

/** Bytes from the last multiple of `alignment`. Without --allow-ffi nobody knows, but most often it is this. */
function remainder(buffer: ArrayBuffer, alignment: number): number {
  try {
    return Number(addressOf(new Uint8Array(buffer)) % BigInt(alignment));
  } catch {
    return 16;
  }
}

/** Whether a value is a list or like one. */
function isList(value: unknown): value is ArrayLike<unknown> {
  return isObject(value) && Number.isInteger((value as { readonly length?: unknown }).length);
}

/** A flat list as elements of the dtype: as it is if it holds them already, converted otherwise. */
function flatData(dtype: DType, list: ArrayLike<number> | ArrayLike<bigint>): TypedArray {
  const { array, real, parts } = dtypeInfo(dtype);
  if (list instanceof array) return list as TypedArray;
  const data = allocate(dtype, list.length / parts);
  const given = dtypeOf(list);
  if (given !== null) {
    convert(given, list as TypedArray, real, data);
  } else {
    for (let i = 0; i < list.length; i++) storeScalar(real, data, i, list[i]);
  }
  return data;
}
