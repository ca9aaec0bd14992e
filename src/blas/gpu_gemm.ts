/**
 * The product of matrices in the memory of one GPU, by cuBLASLt.
 *
 * @module
 */
import {
  checkCublas,
  CUBLASLT_MATMUL_HEURISTIC_RESULT as RESULT,
  CublasLtMatmulDescAttribute,
  CublasLtMatmulPreferenceAttribute,
  CublasOperation,
  openCublasLt,
} from "../../ffi/cuda/cublaslt.ts";
import { type DType, dtypeInfo } from "../dtype/dtype.ts";
import { ConfigurationError } from "../errors.ts";
import type { Stream } from "../gpu/stream.ts";
import type { DeviceMemory } from "../memory/device_buffer.ts";
import type { Extents, MatrixInMemory } from "./gemm.ts";
import type { Operation } from "./operation.ts";

/** Bytes of a workspace: what NVIDIA recommends for Hopper. */
export const GEMM_WORKSPACE_BYTES = 32 * 2 ** 20;

/** How many algorithms the heuristic is asked for. */
const MOST_ALGORITHMS = 8;

/** No algorithm needs more. */
const LARGEST_ALIGNMENT = 256;

/** The matrices of D = alpha op(A) op(B) + beta C. */
export type GemmMatrix = "a" | "b" | "c" | "d";

/** What all products of a {@linkcode GpuGemm} have in common. */
export interface GpuGemmOptions {
  /** The element types. */
  readonly types: Readonly<Record<GemmMatrix, DType>>;
  /** What is done to A as it is stored. */
  readonly operationA: Operation;
  /** What is done to B. */
  readonly operationB: Operation;
  /** `cublasComputeType_t`. */
  readonly computeType: number;
  /** The type of alpha and beta. */
  readonly scaleType: DType;
  /** Where factors of float32 lie in the GPU's memory, for matrices of 8 bits an element. */
  readonly scales?: Partial<Record<GemmMatrix, bigint>>;
  /** Which of the algorithms that the heuristic proposes: the first if left out, the last if there are not so many. */
  readonly algorithm?: number;
}

/** Alpha and beta: numbers of the scale type. */
export type GemmScalar = Float32Array<ArrayBuffer> | Float64Array<ArrayBuffer>;

/** One product: C is as large as D, and may be D. */
export interface GpuProduct {
  /** m, n and k. */
  readonly extents: Extents;
  /** Where the matrices lie, column by column. */
  readonly matrices: Readonly<Record<GemmMatrix, MatrixInMemory>>;
}

/** A product that can be put on a stream again and again. */
export type GemmLaunch = (alpha: GemmScalar, beta: GemmScalar, stream: Stream) => void;

/** `cublasOperation_t`; a real matrix is its own conjugate. */
function gpuOperation({ transpose, conjugate }: Operation, dtype: DType): number {
  if (!transpose) return CublasOperation.N;
  return conjugate && dtypeInfo(dtype).isComplex ? CublasOperation.C : CublasOperation.T;
}

let handle: bigint | undefined;

/** cuBLASLt's handle: one a process, since it holds nothing of a GPU. */
function handleOfProcess(): bigint {
  if (handle !== undefined) return handle;
  const out = new BigUint64Array(1);
  checkCublas(openCublasLt().symbols.cublasLtCreate(out), "cublasLtCreate");
  return handle = out[0];
}

/** Products of the same types and operations, of any extents. */
export class GpuGemm implements Disposable {
  readonly #options: GpuGemmOptions;
  readonly #workspace: DeviceMemory;
  readonly #description: bigint;
  readonly #preference: bigint;
  readonly #layouts = new Map<string, bigint>();
  readonly #algorithms = new Map<string, Uint8Array<ArrayBuffer>>();

  /** The workspace is for one product at a time. */
  constructor(workspace: DeviceMemory, options: GpuGemmOptions) {
    const { types, computeType, scaleType, operationA, operationB, scales = {} } = options;
    const { symbols } = openCublasLt();
    this.#options = options;
    const out = new BigUint64Array(1);
    checkCublas(symbols.cublasLtMatmulPreferenceCreate(out), "cublasLtMatmulPreferenceCreate");
    this.#preference = out[0];
    const code = symbols.cublasLtMatmulDescCreate(out, computeType, dtypeInfo(scaleType).cuda);
    checkCublas(code, "cublasLtMatmulDescCreate");
    this.#description = out[0];
    const { TRANSA, TRANSB, A_SCALE_POINTER, B_SCALE_POINTER, C_SCALE_POINTER, D_SCALE_POINTER } =
      CublasLtMatmulDescAttribute;
    this.#describe(TRANSA, Int32Array.of(gpuOperation(operationA, types.a)));
    this.#describe(TRANSB, Int32Array.of(gpuOperation(operationB, types.b)));
    const pointers = { a: A_SCALE_POINTER, b: B_SCALE_POINTER, c: C_SCALE_POINTER, d: D_SCALE_POINTER };
    for (const [name, address] of Object.entries(scales)) {
      this.#describe(pointers[name as GemmMatrix], BigUint64Array.of(address));
    }
    this.#workspace = workspace;
  }

  /**
   * Get a product ready.
   *
   * @throws {ConfigurationError} if cuBLASLt has no kernel for it.
   */
  prepare({ extents, matrices }: GpuProduct): GemmLaunch {
    const { a, b, c, d } = matrices;
    const [layoutA, layoutB, layoutC, layoutD] = this.#layoutsOf({ extents, matrices });
    const algorithm = this.#algorithmFor({ extents, matrices }, [layoutA, layoutB, layoutC, layoutD]);
    const { symbols } = openCublasLt();
    const process = handleOfProcess();
    const [description, workspace] = [this.#description, this.#workspace];
    return (alpha, beta, stream) => {
      // deno-fmt-ignore
      const code = symbols.cublasLtMatmul(process, description, alpha, a.address, layoutA, b.address, layoutB, beta,
        c.address, layoutC, d.address, layoutD, algorithm, workspace.address, BigInt(workspace.byteLength), stream.handle);
      checkCublas(code, "cublasLtMatmul");
    };
  }

  /** Free the descriptions. */
  [Symbol.dispose](): void {
    const { symbols } = openCublasLt();
    for (const layout of this.#layouts.values()) {
      checkCublas(symbols.cublasLtMatrixLayoutDestroy(layout), "cublasLtMatrixLayoutDestroy");
    }
    this.#layouts.clear();
    checkCublas(symbols.cublasLtMatmulDescDestroy(this.#description), "cublasLtMatmulDescDestroy");
    checkCublas(symbols.cublasLtMatmulPreferenceDestroy(this.#preference), "cublasLtMatmulPreferenceDestroy");
  }

  #describe(
    attribute: CublasLtMatmulDescAttribute,
    value: Int32Array<ArrayBuffer> | BigUint64Array<ArrayBuffer>,
  ): void {
    const { symbols } = openCublasLt();
    const code = symbols.cublasLtMatmulDescSetAttribute(
      this.#description,
      attribute,
      value,
      BigInt(value.byteLength),
    );
    checkCublas(code, "cublasLtMatmulDescSetAttribute");
  }

  #layoutsOf({ extents: { m, n, k }, matrices }: GpuProduct): bigint[] {
    const { operationA, operationB } = this.#options;
    const shapes: Record<GemmMatrix, [number, number]> = {
      a: operationA.transpose ? [k, m] : [m, k],
      b: operationB.transpose ? [n, k] : [k, n],
      c: [m, n],
      d: [m, n],
    };
    return (["a", "b", "c", "d"] as const).map((name) => {
      const [rows, columns] = shapes[name];
      const leading = Math.max(matrices[name].leadingDimension, rows);
      const type = dtypeInfo(this.#options.types[name]).cuda;
      const key = [type, rows, columns, leading].join();
      let layout = this.#layouts.get(key);
      if (layout === undefined) {
        const out = new BigUint64Array(1);
        const code = openCublasLt().symbols.cublasLtMatrixLayoutCreate(
          out,
          type,
          BigInt(rows),
          BigInt(columns),
          BigInt(leading),
        );
        checkCublas(code, "cublasLtMatrixLayoutCreate");
        this.#layouts.set(key, layout = out[0]);
      }
      return layout;
    });
  }

  #algorithmFor({ extents, matrices }: GpuProduct, layouts: readonly bigint[]): Uint8Array<ArrayBuffer> {
    const alignments = (["a", "b", "c", "d"] as const).map((name) => alignmentOf(matrices[name].address));
    const isInPlace = matrices.c.address === matrices.d.address;
    const key = [layouts, alignments, isInPlace].join();
    let algorithm = this.#algorithms.get(key);
    if (algorithm === undefined) {
      algorithm = this.#ask(layouts, alignments, extents);
      this.#algorithms.set(key, algorithm);
    }
    return algorithm;
  }

  #ask(layouts: readonly bigint[], alignments: readonly number[], { m, n, k }: Extents): Uint8Array<ArrayBuffer> {
    const { symbols } = openCublasLt();
    const attribute = CublasLtMatmulPreferenceAttribute;
    const prefer = (name: EnumOfPreferences, value: Uint32Array<ArrayBuffer> | BigUint64Array<ArrayBuffer>) => {
      const bytes = BigInt(value.byteLength);
      const code = symbols.cublasLtMatmulPreferenceSetAttribute(this.#preference, attribute[name], value, bytes);
      checkCublas(code, "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer("MAX_WORKSPACE_BYTES", BigUint64Array.of(BigInt(this.#workspace.byteLength)));
    const names = ["A", "B", "C", "D"] as const;
    names.forEach((name, i) => prefer(`MIN_ALIGNMENT_${name}_BYTES`, Uint32Array.of(alignments[i])));
    const { types, algorithm = 0 } = this.#options;
    const wanted = Math.min(algorithm + 1, MOST_ALGORITHMS);
    const results = new Uint8Array(RESULT.size * wanted);
    const found = new Int32Array(1);
    const [a, b, c, d] = layouts;
    // deno-fmt-ignore
    const code = symbols.cublasLtMatmulAlgoGetHeuristic(handleOfProcess(), this.#description, a, b, c, d, this.#preference,
      wanted, results, found);
    if (code !== 0 || found[0] === 0) {
      throw new ConfigurationError(
        `cuBLASLt has no kernel for ${types.a} x ${types.b} to ${types.d} with m, n, k = ${m}, ${n}, ${k}, aligned to ` +
          `${alignments.join(", ")} bytes. Leave engine out, or pass another.`,
      );
    }
    const at = RESULT.size * (Math.min(wanted, found[0]) - 1);
    return results.slice(at, at + RESULT.fields.algo[1]);
  }
}

type EnumOfPreferences = keyof typeof CublasLtMatmulPreferenceAttribute;

/** The largest power of two that divides an address, up to what matters. */
function alignmentOf(address: bigint): number {
  return Number(address & -address & BigInt(2 * LARGEST_ALIGNMENT - 1)) || LARGEST_ALIGNMENT;
}
