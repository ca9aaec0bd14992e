/**
 * The scales of an 8-bit product and the maxima that it writes, where cuBLASMp finds them: scalars in cells of one buffer,
 * arrays of scales in memory of their own.
 *
 * @module
 */
import { CublasMpMatmulDescriptorAttribute as Attribute } from "../../../../ffi/cuda/cublasmp.ts";
import { LocalArray } from "../../../array/local_array.ts";
import type { Scratch } from "../../../array/redistribution/gpu_executor.ts";
import { clearOnDevice, copyToDevice } from "../../../memory/copy.ts";
import { DeviceBuffer } from "../../../memory/device_buffer.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { isQuantized, type QuantizationValues, type ScaleMode, type Scaling } from "../../matmul/quantization.ts";
import type { EngineRequest, EngineValues } from "../engine.ts";
import { scalarOf } from "../host/block_scaling.ts";
import type { MatmulDescriptor } from "./descriptor.ts";
import type { CublasMpCall, GivenMatrix } from "./paths.ts";
import { SCALE_MODE_CODES, ScaleTensor } from "./scales.ts";

/** Where each scalar lies; the maxima are neighbours, since they are cleared together. */
const CELLS = ["a", "b", "c", "d", "aux", "resultAmax", "auxAmax"] as const;

type Cell = typeof CELLS[number];

/** Scalars lie this far apart. */
const CELL_BYTES = 256;

const NO_ARRAYS: Scaling = { a: "tensor", b: "tensor" };

/** The scales of a product on this rank; it has none of its own if no matrix is 8 bits wide. */
export class ProductScales {
  readonly #runtime: Runtime;
  readonly #request: EngineRequest;
  readonly #isExchanged: boolean;
  readonly #cells: DeviceBuffer | null;
  /** Of cuBLASMp's A and B. */
  readonly #modes: { a: ScaleMode; b: ScaleMode };
  readonly #tensors: { a: ScaleTensor | null; b: ScaleTensor | null };
  #bound: QuantizationValues | null = null;

  /** Allocate them. Local. */
  constructor(runtime: Runtime, request: EngineRequest, call: CublasMpCall, scratch: Scratch) {
    const { problem, epilog, scaling } = request;
    this.#runtime = runtime;
    this.#request = request;
    this.#isExchanged = call.isExchanged;
    this.#cells = isQuantized(problem.a.dtype) || epilog.auxAmax || isQuantized(epilog.auxDType)
      ? new DeviceBuffer(runtime.stream!, CELL_BYTES * CELLS.length)
      : null;
    const modes = this.#modes = this.#ordered(scaling ?? NO_ARRAYS);
    const tensor = (mode: ScaleMode, given: GivenMatrix, pieces: number) =>
      mode === "tensor" ? null : new ScaleTensor(runtime, mode, given, pieces, scratch);
    // Each rank's columns of D are computed apart.
    const pieces = call.path === "reduce_scatter" ? runtime.size : 1;
    this.#tensors = { a: tensor(modes.a, call.a, 1), b: tensor(modes.b, call.b, pieces) };
  }

  /** Bytes that the arrays keep, without the scratch memory. */
  get byteLength(): number {
    return (this.#tensors.a?.byteLength ?? 0) + (this.#tensors.b?.byteLength ?? 0);
  }

  /** Tell cuBLASMp where they lie. */
  describe(descriptor: MatmulDescriptor): void {
    const { problem: { a, c, d }, epilog } = this.#request;
    if (isQuantized(a.dtype)) {
      for (const [name, pointer, mode] of FACTOR_ATTRIBUTES) {
        descriptor.setPointer(pointer, this.#tensors[name]?.address ?? this.#address(name));
        descriptor.setNumber(mode, SCALE_MODE_CODES[this.#modes[name]]);
      }
      for (const [name, pointer, mode] of OTHER_ATTRIBUTES) {
        if (!isQuantized((name === "c" ? c : d)?.dtype ?? null)) continue;
        descriptor.setPointer(pointer, this.#address(name));
        descriptor.setNumber(mode, SCALE_MODE_CODES.tensor);
      }
    }
    if (isQuantized(epilog.auxDType) && hasOtherAux(this.#request)) {
      descriptor.setPointer(Attribute.EPILOGUE_AUX_SCALE_POINTER, this.#address("aux"));
    }
    // cuBLASMp looks for the maximum of 8-bit matrices only.
    if (epilog.auxAmax && isQuantized(epilog.auxDType)) {
      descriptor.setPointer(Attribute.EPILOGUE_AUX_AMAX_POINTER, this.#address("auxAmax"));
    }
    if (epilog.resultAmax) descriptor.setPointer(Attribute.AMAX_D_POINTER, this.#address("resultAmax"));
  }

  /** Get ready to bring arrays of scales where cuBLASMp reads them; null if there are none. */
  prepare(scales: QuantizationValues): (() => void) | null {
    if (this.#modes.a === "tensor") return null;
    const { a, b } = this.#ordered(scales);
    const bringA = typeof a === "object" ? this.#tensors.a!.prepare(a) : null;
    const bringB = typeof b === "object" ? this.#tensors.b!.prepare(b) : null;
    return () => {
      bringA?.();
      bringB?.();
    };
  }

  /** Bring scalars there, unless they are. */
  bind({ scales, epilog }: EngineValues): void {
    if (this.#cells === null || scales === this.#bound) return;
    this.#bound = scales;
    const { a, b } = this.#ordered(scales);
    const values: Partial<Record<Cell, number>> = {
      a: scalarOf(a),
      b: scalarOf(b),
      c: scales.c ?? 1,
      d: scales.d ?? 1,
      aux: epilog.auxQuantizationScale?.toNumbers()[0] ?? 1,
    };
    const numbers = new Float32Array(CELLS.length * CELL_BYTES / 4);
    CELLS.forEach((cell, i) => numbers[i * CELL_BYTES / 4] = values[cell] ?? 0);
    copyToDevice(this.#cells.address, numbers, this.#runtime.stream!);
  }

  /** Forget what was bound. */
  release(): void {
    this.#bound = null;
  }

  /** Set the maxima to zero, which a product raises. */
  clearMaxima(): void {
    clearOnDevice(this.#address("resultAmax"), 2 * CELL_BYTES, this.#runtime.stream!);
  }

  /** What a product has raised a maximum to. */
  maximum(cell: "resultAmax" | "auxAmax"): LocalArray {
    const offset = CELLS.indexOf(cell) * CELL_BYTES / 4;
    return new LocalArray({ data: this.#cells!, dtype: "float32", shape: [1], offset });
  }

  /** Give the memory back. */
  free(): void {
    for (const memory of [this.#tensors.a, this.#tensors.b, this.#cells]) memory?.free();
  }

  #address(cell: Cell): bigint {
    return this.#cells!.address + BigInt(CELLS.indexOf(cell) * CELL_BYTES);
  }

  /** What belongs to A and B of the problem, as cuBLASMp's A and B have it. */
  #ordered<T extends { readonly a?: unknown; readonly b?: unknown }>({ a, b }: T): { a: T["a"]; b: T["b"] } {
    return this.#isExchanged ? { a: b, b: a } : { a, b };
  }
}

const FACTOR_ATTRIBUTES = [
  ["a", Attribute.A_SCALE_POINTER, Attribute.A_SCALE_MODE],
  ["b", Attribute.B_SCALE_POINTER, Attribute.B_SCALE_MODE],
] as const;

const OTHER_ATTRIBUTES = [
  ["c", Attribute.C_SCALE_POINTER, Attribute.C_SCALE_MODE],
  ["d", Attribute.D_SCALE_POINTER, Attribute.D_SCALE_MODE],
] as const;

/** Whether gelu's aux matrix has another type than D. */
export function hasOtherAux({ problem, epilog }: EngineRequest): boolean {
  return epilog.aux !== "none" && epilog.activation === "gelu" && epilog.auxDType !== problem.d.dtype;
}
