/**
 * Matrices as the hardware sees them that copies boxes of them.
 *
 * @module
 */
import {
  checkCudaDriver,
  CU_TENSOR_MAP,
  CuTensorMapDataType,
  CuTensorMapFloatOobFill,
  CuTensorMapInterleave,
  CuTensorMapL2Promotion,
  CuTensorMapSwizzle,
  openCudaDriver,
} from "../../../../ffi/cuda/driver.ts";
import { addressOf } from "../../../../ffi/memory.ts";
import type { NarrowDType, TileDType } from "./configuration.ts";

/** A matrix whose rows lie in sequence. */
export interface BoxedMatrix {
  /** The type of its elements. */
  readonly dtype: TileDType | NarrowDType;
  /** Where row 0 and column 0 lie, a multiple of 16; they need not exist. */
  readonly address: bigint;
  /** The row after the last. */
  readonly rows: number;
  /** The column after the last. */
  readonly columns: number;
  /** Elements from a row to the next, a multiple of 16 bytes. */
  readonly leading: number;
  /** Rows of a box, of 128 bytes each. */
  readonly boxRows: number;
}

/** The hardware's type, and bytes of an element. */
const TYPES = {
  bfloat16: [CuTensorMapDataType.BFLOAT16, 2],
  float16: [CuTensorMapDataType.FLOAT16, 2],
  float8_e4m3: [CuTensorMapDataType.UINT8, 1],
  float8_e5m2: [CuTensorMapDataType.UINT8, 1],
} as const;

const BOX_BYTES = 128;

/** Write the description of a matrix into 128 bytes at an offset of `target`. Source: cuTensorMapEncodeTiled. */
export function encodeTensorMap(target: Uint8Array<ArrayBuffer>, offset: number, matrix: BoxedMatrix): void {
  const { dtype, address, rows, columns, leading, boxRows } = matrix;
  const [type, itemSize] = TYPES[dtype];
  const scratch = new Uint8Array(CU_TENSOR_MAP.size + 64);
  const start = Number(-addressOf(scratch) & 63n);
  const map = scratch.subarray(start, start + CU_TENSOR_MAP.size);
  const code = openCudaDriver().symbols.cuTensorMapEncodeTiled(
    map,
    type,
    2,
    address,
    BigUint64Array.of(BigInt(columns), BigInt(rows)),
    BigUint64Array.of(BigInt(leading * itemSize)),
    Uint32Array.of(BOX_BYTES / itemSize, boxRows),
    Uint32Array.of(1, 1),
    CuTensorMapInterleave.NONE,
    CuTensorMapSwizzle.SWIZZLE_128B,
    CuTensorMapL2Promotion.L2_256B,
    CuTensorMapFloatOobFill.NONE,
  );
  checkCudaDriver(code, `cuTensorMapEncodeTiled of ${rows} x ${columns} at 0x${address.toString(16)}`);
  target.set(map, offset);
}
