/**
 * cuBLASMp's descriptors, of matrices and of products.
 *
 * @module
 */
import { checkCublasMp } from "../../../../ffi/cuda/cublasmp.ts";
import { leadingDimension } from "../../../array/layout.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import { COMPUTE_CODES } from "../../../blas/cublas_codes.ts";
import { type DType, dtypeInfo } from "../../../dtype/dtype.ts";
import type { ComputeType } from "../../matmul/compute_type.ts";
import type { GivenMatrix } from "./paths.ts";
import type { CublasMpResources } from "./resources.ts";

/** A whole matrix in blocks on a grid. */
export class MatrixDescriptor implements Disposable {
  /** cuBLASMp's handle. */
  readonly handle: bigint;
  readonly #symbols: CublasMpResources["symbols"];
  readonly #given: Pick<GivenMatrix, "rows" | "columns" | "blockRows" | "blockColumns">;
  readonly #dtype: number;
  readonly #grid: bigint;
  #leading: number;

  /** Describe a matrix whose local part has this leading dimension. */
  constructor(
    { symbols }: CublasMpResources,
    given: Pick<GivenMatrix, "rows" | "columns" | "blockRows" | "blockColumns">,
    dtype: DType,
    grid: bigint,
    leading: number,
  ) {
    this.#symbols = symbols;
    this.#given = given;
    this.#dtype = dtypeInfo(dtype).cuda;
    this.#grid = grid;
    this.#leading = leading;
    const out = new BigUint64Array(1);
    checkCublasMp(symbols.cublasMpMatrixDescriptorCreate(...this.#fields(), out), "cublasMpMatrixDescriptorCreate");
    this.handle = out[0];
  }

  /** Describe this local part: made again if it has another leading dimension. */
  describe(local: LocalArray): void {
    const leading = leadingDimension(local, "F")?.leadingDimension ?? Math.max(1, local.shape[0]);
    if (leading === this.#leading) return;
    this.#leading = leading;
    checkCublasMp(
      this.#symbols.cublasMpMatrixDescriptorInit(...this.#fields(), this.handle),
      "cublasMpMatrixDescriptorInit",
    );
  }

  [Symbol.dispose](): void {
    checkCublasMp(this.#symbols.cublasMpMatrixDescriptorDestroy(this.handle), "cublasMpMatrixDescriptorDestroy");
  }

  #fields() {
    const { rows, columns, blockRows, blockColumns } = this.#given;
    const [m, n, mb, nb] = [rows, columns, blockRows, blockColumns].map(BigInt);
    return [m, n, mb, nb, 0n, 0n, BigInt(this.#leading), this.#dtype, this.#grid] as const;
  }
}

/** What cuBLASMp is told of a product besides its matrices. */
export class MatmulDescriptor implements Disposable {
  /** cuBLASMp's handle. */
  readonly handle: bigint;
  readonly #symbols: CublasMpResources["symbols"];

  /** Nothing is told yet but the precision that the product is computed in. */
  constructor({ symbols }: CublasMpResources, computeType: ComputeType) {
    const out = new BigUint64Array(1);
    checkCublasMp(
      symbols.cublasMpMatmulDescriptorCreate(out, COMPUTE_CODES[computeType]),
      "cublasMpMatmulDescriptorCreate",
    );
    this.#symbols = symbols;
    this.handle = out[0];
  }

  /** Set an attribute of 32 bits. */
  setNumber(attribute: number, value: number): void {
    this.#set(attribute, Int32Array.of(value));
  }

  /** Set an attribute of 64 bits: an address, or a leading dimension. */
  setPointer(attribute: number, value: bigint): void {
    this.#set(attribute, BigUint64Array.of(value));
  }

  [Symbol.dispose](): void {
    checkCublasMp(this.#symbols.cublasMpMatmulDescriptorDestroy(this.handle), "cublasMpMatmulDescriptorDestroy");
  }

  #set(attribute: number, { buffer, byteLength }: Int32Array<ArrayBuffer> | BigUint64Array<ArrayBuffer>): void {
    const code = this.#symbols.cublasMpMatmulDescriptorSetAttribute(
      this.handle,
      attribute,
      new Uint8Array(buffer),
      BigInt(byteLength),
    );
    checkCublasMp(code, "cublasMpMatmulDescriptorSetAttribute");
  }
}
