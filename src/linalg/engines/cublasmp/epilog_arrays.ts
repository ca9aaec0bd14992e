/**
 * What an epilog of cuBLASMp reads and writes besides D: bias, aux matrices, bias gradients, padded as the product is.
 *
 * @module
 */
import { CublasMpMatmulDescriptorAttribute as Attribute } from "../../../../ffi/cuda/cublasmp.ts";
import { LocalArray } from "../../../array/local_array.ts";
import { largest } from "../../../array/reductions/sums.ts";
import { type DType, dtypeInfo } from "../../../dtype/dtype.ts";
import { agree } from "../../../runtime/agreement.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import {
  auxName,
  biasOf,
  type EpilogValues,
  geluAuxShape,
  gradientName,
  hasExtraOutputs,
  reluAuxShape,
} from "../../matmul/epilog.ts";
import { isQuantized } from "../../matmul/quantization.ts";
import type { EngineRequest } from "../engine.ts";
import { biasType } from "./attributes.ts";
import type { MatmulDescriptor } from "./descriptor.ts";
import type { CublasMpCall } from "./paths.ts";
import { hasOtherAux, type ProductScales } from "./product_scales.ts";

/** An address that is none, where only the library's check for null must be passed. */
export const SOMEWHERE = 256n;

/** A bias or aux input in cuBLASMp's form, and what it was made of: on the GPU, it may be the same. */
export interface AdaptedInput {
  readonly from: LocalArray;
  readonly given: LocalArray;
}

/** An output as cuBLASMp writes it, and as it is returned: without padding, in the type that engines return. */
interface Output {
  readonly name: keyof EpilogValues;
  readonly written: LocalArray;
  readonly returned: LocalArray;
}

/** What an execution writes besides D. */
export interface Outputs {
  readonly arrays: readonly Output[];
  /** Maxima that the library finds. */
  readonly maxima: Readonly<EpilogValues>;
}

/** The inputs and outputs of a product's epilog on this rank. */
export class EpilogArrays {
  readonly #runtime: Runtime;
  readonly #request: EngineRequest;
  readonly #call: CublasMpCall;
  readonly #scales: ProductScales;
  /** Local rows and columns of D, padding included, and without. */
  readonly #padded: readonly [rows: number, columns: number];
  readonly #inner: readonly [rows: number, columns: number];
  #input: AdaptedInput | null = null;

  constructor(runtime: Runtime, request: EngineRequest, call: CublasMpCall, scales: ProductScales) {
    const [rows, columns] = call.d.distribution.localShape(runtime.rank);
    this.#runtime = runtime;
    this.#request = request;
    this.#call = call;
    this.#scales = scales;
    this.#inner = [rows, columns];
    this.#padded = call.d.padded ?? this.#inner;
  }

  /** Tell cuBLASMp of their types; where they lie follows. */
  describe(descriptor: MatmulDescriptor): void {
    const { problem, epilog } = this.#request;
    if (epilog.bias !== "none" || epilog.biasGradient !== "none") {
      descriptor.setNumber(Attribute.BIAS_DATA_TYPE, dtypeInfo(biasType(problem)).cuda);
      descriptor.setPointer(Attribute.BIAS_POINTER, SOMEWHERE);
    }
    if (epilog.aux !== "none") this.#setAux(descriptor, SOMEWHERE);
    if (hasOtherAux(this.#request)) {
      descriptor.setNumber(Attribute.EPILOGUE_AUX_DATA_TYPE, dtypeInfo(epilog.auxDType).cuda);
    }
  }

  /** The input as cuBLASMp takes it, or null. Local. */
  prepareInput(inputs: EpilogValues): AdaptedInput | null {
    const { problem, epilog } = this.#request;
    const bias = biasOf(epilog, inputs);
    if (bias !== null) return this.#adapt(bias, biasType(problem), [this.#padded[0]]);
    if (epilog.aux !== "input") return null;
    return this.#adapt(inputs[auxName(epilog)]!, this.#auxType, this.#auxShape(this.#padded));
  }

  /** Memory for what the epilog writes, new for each execution; null if it writes nothing but D. Local. */
  prepareOutputs(): Outputs | null {
    const { problem: { accumulator, m, n }, epilog } = this.#request;
    if (!hasExtraOutputs(epilog)) return null;
    const { biasGradient, aux } = epilog;
    const arrays: Output[] = [];
    const add = (name: keyof EpilogValues, from: DType, padded: number[], to: DType, inner: number[]) => {
      const written = LocalArray.zeros(from, padded, "F", this.#runtime.stream);
      const isReturned = from === to && padded.join() === inner.join();
      arrays.push({ name, written, returned: isReturned ? written : this.#empty(to, inner) });
    };
    if (aux === "output") {
      const shapes = [this.#padded, this.#inner].map((extents) => this.#auxShape(extents));
      add(auxName(epilog), this.#auxType, shapes[0], this.#auxType, shapes[1]);
    }
    const wide = accumulator === "float64" ? "float64" : "float32";
    if (biasGradient === "b") {
      add("bgradb", biasType(this.#request.problem), [this.#call.n], wide, [this.#call.isExchanged ? m : n]);
    } else if (biasGradient !== "none") {
      const name = biasGradient === "a" ? "bgrada" : gradientName(epilog);
      add(name, biasType(this.#request.problem), [this.#padded[0]], wide, [this.#inner[0]]);
    }
    const maxima: EpilogValues = {};
    if (epilog.auxAmax && isQuantized(epilog.auxDType)) maxima.geluAuxAmax = this.#empty("float32", [1]);
    if (epilog.resultAmax) maxima.resultAmax = this.#empty("float32", [1]);
    return { arrays, maxima };
  }

  /** Say where the input lies, and keep it. */
  bindInput(descriptor: MatmulDescriptor, input: AdaptedInput): void {
    if (this.#request.epilog.bias !== "none") descriptor.setPointer(Attribute.BIAS_POINTER, input.given.address);
    else this.#setAux(descriptor, input.given.address);
    if (input === this.#input || input.given === input.from) return;
    this.#input?.given.release();
    this.#input = input;
  }

  /** Say where the outputs go. */
  bindOutputs(descriptor: MatmulDescriptor, { arrays }: Outputs): void {
    for (const { name, written } of arrays) {
      if (name === "reluAux" || name === "geluAux") this.#setAux(descriptor, written.address);
      else descriptor.setPointer(Attribute.BIAS_POINTER, written.address);
    }
    const { auxAmax, resultAmax } = this.#request.epilog;
    if (auxAmax || resultAmax) this.#scales.clearMaxima();
  }

  /** What the product wrote, as engines return it. Collective. */
  finish({ arrays, maxima }: Outputs): EpilogValues {
    const result: EpilogValues = { ...maxima };
    for (const { name, written, returned } of arrays) {
      result[name] = returned;
      if (returned === written) continue;
      const { shape } = returned;
      returned.set(written.slice(shape.map(() => 0), shape));
      written.release();
    }
    maxima.geluAuxAmax?.set(this.#scales.maximum("auxAmax"));
    maxima.resultAmax?.set(this.#scales.maximum("resultAmax"));
    if (this.#request.epilog.auxAmax && !maxima.geluAuxAmax) {
      agree(this.#runtime, "Matmul.execute", () => {
        const data = Float32Array.of(largest(result.geluAux!));
        result.geluAuxAmax = new LocalArray({ data, dtype: "float32", shape: [1] });
      });
    }
    return result;
  }

  /** Give the memory back. */
  free(): void {
    this.#input?.given.release();
  }

  get #auxType(): DType {
    const { activation, auxDType } = this.#request.epilog;
    return activation === "relu" ? "uint8" : auxDType;
  }

  #auxShape([rows, columns]: readonly [number, number]): [number, number] {
    return this.#request.epilog.activation === "relu" ? reluAuxShape(rows, columns) : geluAuxShape(rows, columns);
  }

  #setAux(descriptor: MatmulDescriptor, address: bigint): void {
    const [rows] = this.#auxShape(this.#padded);
    descriptor.setPointer(Attribute.EPILOGUE_AUX_POINTER, address);
    // relu's mask is counted in bits.
    const isMask = this.#request.epilog.activation === "relu";
    descriptor.setPointer(Attribute.EPILOGUE_AUX_LD, BigInt(isMask ? rows * 8 : rows));
  }

  /** On the GPU, dense, of this type, padded with zeros: copied anew, since what is given again may have changed. */
  #adapt(input: LocalArray, dtype: DType, shape: readonly number[]): AdaptedInput {
    const isFit = input.isOnDevice && input.dtype === dtype && input.shape.join() === shape.join() &&
      input.isDense("F");
    if (isFit) return { from: input, given: input };
    const given = LocalArray.zeros(dtype, shape, "F", this.#runtime.stream);
    const seen = shape.length === 1 ? asVector(input) : input;
    given.slice(shape.map(() => 0), seen.shape).set(seen);
    return { from: input, given };
  }

  #empty(dtype: DType, shape: readonly number[]): LocalArray {
    return LocalArray.empty(dtype, shape, "F", this.#runtime.stream);
  }
}

/** A matrix of one column as a vector. */
export function asVector(local: LocalArray): LocalArray {
  if (local.shape.length === 1) return local;
  const { shape: [length], strides: [stride], offset, dtype, memory } = local;
  const data = local.isOnDevice ? local.buffer : local.data;
  return new LocalArray({ data, dtype, shape: [length], strides: [stride], offset, memory });
}
