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
  openCublasLt,
} from "../../ffi/cuda/cublaslt.ts";
import { type DType, dtypeInfo } from "../dtype/dtype.ts";
import { ConfigurationError } from "../errors.ts";
import type { Stream } from "../gpu/stream.ts";
import type { DeviceMemory } from "../memory/device_buffer.ts";
import { operationCode } from "./cublas_codes.ts";
import type { Extents, MatrixInMemory } from "./gemm.ts";
import type { Operation } from "./transposition.ts";

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
  /**
   * Which of the algorithms that the heuristic proposes: the first if left out, the last if there are not so many; `fuller`
   * is the one of the first two by {@linkcode fullerOf}.
   */
  readonly algorithm?: number | "fuller";
}

/** With fewer waves of blocks their number tells little: the heuristic knows better. */
const FEW_WAVES = 3;

/** The share of the GPU's multiprocessors that so many waves of blocks keep busy. */
const fullness = (waves: number) => waves / Math.ceil(waves);

/**
 * Which of two algorithms leaves less of its last wave of blocks idle, by the waves that each takes: 0 or 1. On two H200s
 * twelve products with three waves and more took no longer by it than by the other one, but for 0.2 %; by the first one
 * up to 7 % (`bench/results/overlap_copies_h200.json`).
 */
export function fullerOf([first, second]: readonly number[]): 0 | 1 {
  return first >= FEW_WAVES && second !== undefined && fullness(second) > fullness(first) ? 1 : 0;
}

/** Whether that algorithm keeps all multiprocessors busy to the end. */
export function areWavesFull(waves: readonly number[]): boolean {
  const taken = waves[fullerOf(waves)] ?? 0;
  return taken >= FEW_WAVES && fullness(taken) >= 0.99;
}

/** Alpha and beta: numbers of the scale type. */
export type GemmScalar = Float32Array<ArrayBuffer> | Float64Array<ArrayBuffer>;

/** One product: C is as large as D, and may be D. */
export interface GemmInMemory {
  /** m, n and k. */
  readonly extents: Extents;
  /** Where the matrices lie, column by column. */
  readonly matrices: Readonly<Record<GemmMatrix, MatrixInMemory>>;
}

/** A product that can be put on a stream again and again. */
export type GemmLaunch = (alpha: GemmScalar, beta: GemmScalar, stream: Stream) => void;

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
    this.#describe(TRANSA, Int32Array.of(operationCode(operationA, types.a)));
    this.#describe(TRANSB, Int32Array.of(operationCode(operationB, types.b)));
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
  prepare({ extents, matrices }: GemmInMemory): GemmLaunch {
    const { a, b, c, d } = matrices;
    const [layoutA, layoutB, layoutC, layoutD] = this.#layoutsOf({ extents, matrices });
    const algorithm = this.#algorithmFor({ extents, matrices }, [layoutA, layoutB, layoutC, layoutD]);
    const { symbols } = openCublasLt();
    const process = handleOfProcess();
    const [description, workspace] = [this.#description, this.#workspace];
    // Where nothing is added C stands in for D's place, which it cannot be with another type.
    const addend = c.address === d.address && this.#options.types.c !== this.#options.types.d ? 0n : c.address;
    return (alpha, beta, stream) => {
      // deno-fmt-ignore
      const code = symbols.cublasLtMatmul(process, description, alpha, a.address, layoutA, b.address, layoutB, beta,
        addend, layoutC, d.address, layoutD, algorithm, workspace.address, BigInt(workspace.byteLength), stream.handle);
      checkCublas(code, "cublasLtMatmul");
    };
  }

  /** The waves of blocks of the first two algorithms, for dense matrices; none where there is no kernel. */
  wavesOf(extents: Extents): number[] {
    const dense = { address: 0n, leadingDimension: 0 };
    const layouts = this.#layoutsOf({ extents, matrices: { a: dense, b: dense, c: dense, d: dense } });
    return this.#ask(layouts, layouts.map(() => LARGEST_ALIGNMENT), 2).map(({ waves }) => waves);
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

  #layoutsOf({ extents: { m, n, k }, matrices }: GemmInMemory): bigint[] {
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

  #algorithmFor({ extents, matrices }: GemmInMemory, layouts: readonly bigint[]): Uint8Array<ArrayBuffer> {
    const alignments = (["a", "b", "c", "d"] as const).map((name) => alignmentOf(matrices[name].address));
    const isInPlace = matrices.c.address === matrices.d.address;
    const key = [layouts, alignments, isInPlace].join();
    let algorithm = this.#algorithms.get(key);
    if (algorithm === undefined) {
      algorithm = this.#choose(layouts, alignments, extents);
      this.#algorithms.set(key, algorithm);
    }
    return algorithm;
  }

  #choose(layouts: readonly bigint[], alignments: readonly number[], { m, n, k }: Extents): Uint8Array<ArrayBuffer> {
    const { types, algorithm = 0 } = this.#options;
    const proposed = this.#ask(layouts, alignments, algorithm === "fuller" ? 2 : algorithm + 1);
    if (proposed.length === 0) {
      throw new ConfigurationError(
        `cuBLASLt has no kernel for ${types.a} x ${types.b} to ${types.d} with m, n, k = ${m}, ${n}, ${k}, aligned to ` +
          `${alignments.join(", ")} bytes. Leave engine out, or pass another.`,
      );
    }
    const at = algorithm === "fuller" ? fullerOf(proposed.map(({ waves }) => waves)) : algorithm;
    return proposed[Math.min(at, proposed.length - 1)].algorithm;
  }

  /** What the heuristic proposes, at most so many. */
  #ask(layouts: readonly bigint[], alignments: readonly number[], wanted: number): Proposal[] {
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
    const most = Math.min(wanted, MOST_ALGORITHMS);
    const results = new Uint8Array(RESULT.size * most);
    const found = new Int32Array(1);
    const [a, b, c, d] = layouts;
    // deno-fmt-ignore
    const code = symbols.cublasLtMatmulAlgoGetHeuristic(handleOfProcess(), this.#description, a, b, c, d, this.#preference,
      most, results, found);
    const view = new DataView(results.buffer);
    return Array.from({ length: code === 0 ? found[0] : 0 }, (_, i) => {
      const at = RESULT.size * i;
      return {
        algorithm: results.slice(at, at + RESULT.fields.algo[1]),
        waves: view.getFloat32(at + RESULT.fields.wavesCount[0], true),
      };
    });
  }
}

/** An algorithm, and how often its blocks fill the GPU. */
interface Proposal {
  readonly algorithm: Uint8Array<ArrayBuffer>;
  readonly waves: number;
}

type EnumOfPreferences = keyof typeof CublasLtMatmulPreferenceAttribute;

/** The largest power of two that divides an address, up to what matters. */
function alignmentOf(address: bigint): number {
  return Number(address & -address & BigInt(2 * LARGEST_ALIGNMENT - 1)) || LARGEST_ALIGNMENT;
}
