/**
 * cuBLASLt: matrix products on one GPU, with epilogs and a choice of algorithms. And the enums of cuBLAS, which
 * cuBLASMp shares.
 *
 * Source: `cublasLt.h` and `cublas_api.h` of cuBLAS 13.1. Emulation descriptors are optional, since cuBLAS 12 lacks
 * them.
 *
 * @module
 */
import type { EnumValue } from "../enums.ts";
import { noteVersion, openCudaLibrary, versionParts } from "./library.ts";
import { NativeError } from "../errors.ts";
import type { Library } from "../library.ts";
import { readCString } from "../memory.ts";
import type { StructLayout } from "../struct.ts";

/** The results of cuBLAS and cuBLASLt (`cublasStatus_t`, without `CUBLAS_STATUS_`). */
export const CublasStatus = {
  SUCCESS: 0,
  NOT_INITIALIZED: 1,
  ALLOC_FAILED: 3,
  INVALID_VALUE: 7,
  ARCH_MISMATCH: 8,
  MAPPING_ERROR: 11,
  EXECUTION_FAILED: 13,
  INTERNAL_ERROR: 14,
  NOT_SUPPORTED: 15,
  LICENSE_ERROR: 16,
} as const;

/** What is done to a matrix before it is multiplied (`cublasOperation_t`, without `CUBLAS_OP_`). */
export const CublasOperation = {
  N: 0,
  T: 1,
  C: 2,
  CONJG: 3,
} as const;

/** The triangle of a matrix that is used (`cublasFillMode_t`, without `CUBLAS_FILL_MODE_`). */
export const CublasFillMode = {
  LOWER: 0,
  UPPER: 1,
  FULL: 2,
} as const;

/** The side on which a triangular or symmetric matrix stands (`cublasSideMode_t`, without `CUBLAS_SIDE_`). */
export const CublasSideMode = {
  LEFT: 0,
  RIGHT: 1,
} as const;

/** Whether a triangular matrix has ones on its diagonal (`cublasDiagType_t`, without `CUBLAS_DIAG_`). */
export const CublasDiagType = {
  NON_UNIT: 0,
  UNIT: 1,
} as const;

/** The precision that products are computed in (`cublasComputeType_t`, without `CUBLAS_COMPUTE_`). */
export const CublasComputeType = {
  "16F": 64,
  "16F_PEDANTIC": 65,
  "32F": 68,
  "32F_PEDANTIC": 69,
  "64F": 70,
  "64F_PEDANTIC": 71,
  "32I": 72,
  "32I_PEDANTIC": 73,
  "32F_FAST_16F": 74,
  "32F_FAST_16BF": 75,
  "32F_FAST_TF32": 77,
  "32F_EMULATED_16BFX9": 78,
  "64F_EMULATED_FIXEDPOINT": 79,
} as const;

/** The attributes of a product (`cublasLtMatmulDescAttributes_t`, without `CUBLASLT_MATMUL_DESC_`). */
export const CublasLtMatmulDescAttribute = {
  COMPUTE_TYPE: 0,
  SCALE_TYPE: 1,
  POINTER_MODE: 2,
  TRANSA: 3,
  TRANSB: 4,
  TRANSC: 5,
  FILL_MODE: 6,
  EPILOGUE: 7,
  BIAS_POINTER: 8,
  BIAS_BATCH_STRIDE: 10,
  EPILOGUE_AUX_POINTER: 11,
  EPILOGUE_AUX_LD: 12,
  EPILOGUE_AUX_BATCH_STRIDE: 13,
  ALPHA_VECTOR_BATCH_STRIDE: 14,
  SM_COUNT_TARGET: 15,
  A_SCALE_POINTER: 17,
  B_SCALE_POINTER: 18,
  C_SCALE_POINTER: 19,
  D_SCALE_POINTER: 20,
  AMAX_D_POINTER: 21,
  EPILOGUE_AUX_DATA_TYPE: 22,
  EPILOGUE_AUX_SCALE_POINTER: 23,
  EPILOGUE_AUX_AMAX_POINTER: 24,
  FAST_ACCUM: 25,
  BIAS_DATA_TYPE: 26,
  A_SCALE_MODE: 31,
  B_SCALE_MODE: 32,
  C_SCALE_MODE: 33,
  D_SCALE_MODE: 34,
  EPILOGUE_AUX_SCALE_MODE: 35,
  D_OUT_SCALE_POINTER: 36,
  D_OUT_SCALE_MODE: 37,
  EMULATION_DESCRIPTOR: 38,
} as const;
export type CublasLtMatmulDescAttribute = EnumValue<typeof CublasLtMatmulDescAttribute>;

/** The attributes of a matrix (`cublasLtMatrixLayoutAttribute_t`, without `CUBLASLT_MATRIX_LAYOUT_`). */
export const CublasLtMatrixLayoutAttribute = {
  TYPE: 0,
  ORDER: 1,
  ROWS: 2,
  COLS: 3,
  LD: 4,
  BATCH_COUNT: 5,
  STRIDED_BATCH_OFFSET: 6,
  PLANE_OFFSET: 7,
  BATCH_MODE: 8,
} as const;

/** What a search for algorithms respects (`cublasLtMatmulPreferenceAttributes_t`, without `CUBLASLT_MATMUL_PREF_`). */
export const CublasLtMatmulPreferenceAttribute = {
  SEARCH_MODE: 0,
  MAX_WORKSPACE_BYTES: 1,
  REDUCTION_SCHEME_MASK: 3,
  MIN_ALIGNMENT_A_BYTES: 5,
  MIN_ALIGNMENT_B_BYTES: 6,
  MIN_ALIGNMENT_C_BYTES: 7,
  MIN_ALIGNMENT_D_BYTES: 8,
  MAX_WAVES_COUNT: 9,
  IMPL_MASK: 12,
} as const;

/** The order of a matrix in memory (`cublasLtOrder_t`, without `CUBLASLT_ORDER_`). */
export const CublasLtOrder = {
  COL: 0,
  ROW: 1,
} as const;

/** What is done to a product before it is written (`cublasLtEpilogue_t`, without `CUBLASLT_EPILOGUE_`). */
export const CublasLtEpilogue = {
  DEFAULT: 1,
  RELU: 2,
  BIAS: 4,
  RELU_BIAS: 6,
  GELU: 32,
  GELU_BIAS: 36,
  RELU_AUX: 130,
  RELU_AUX_BIAS: 134,
  DRELU: 136,
  DRELU_BGRAD: 152,
  GELU_AUX: 160,
  GELU_AUX_BIAS: 164,
  DGELU: 192,
  DGELU_BGRAD: 208,
  BGRADA: 256,
  BGRADB: 512,
} as const;

/** Where alpha and beta lie (`cublasLtPointerMode_t`, without `CUBLASLT_POINTER_MODE_`). */
export const CublasLtPointerMode = {
  HOST: 0,
  DEVICE: 1,
  DEVICE_VECTOR: 2,
  ALPHA_DEVICE_VECTOR_BETA_ZERO: 3,
  ALPHA_DEVICE_VECTOR_BETA_HOST: 4,
} as const;

/** How the scales of a matrix are laid out (`cublasLtMatmulMatrixScale_t`, without `CUBLASLT_MATMUL_MATRIX_SCALE_`). */
export const CublasLtMatmulMatrixScale = {
  SCALAR_32F: 0,
  VEC16_UE4M3: 1,
  VEC32_UE8M0: 2,
  OUTER_VEC_32F: 3,
  VEC128_32F: 4,
  BLK128x128_32F: 5,
} as const;

/** The parts of a library's version (`libraryPropertyType`). */
export const LibraryProperty = {
  MAJOR_VERSION: 0,
  MINOR_VERSION: 1,
  PATCH_LEVEL: 2,
} as const;

/** An algorithm, opaque; it may be kept and used for the same problem again. */
export const CUBLASLT_MATMUL_ALGO = {
  name: "cublasLtMatmulAlgo_t",
  size: 64,
  fields: { data: [0, 64] },
} as const satisfies StructLayout;

/** One result of a search for algorithms. */
export const CUBLASLT_MATMUL_HEURISTIC_RESULT = {
  name: "cublasLtMatmulHeuristicResult_t",
  size: 96,
  fields: {
    algo: [0, 64],
    workspaceSize: [64, "u64"],
    state: [72, "i32"],
    wavesCount: [76, "f32"],
  },
} as const satisfies StructLayout;

/** The functions of cuBLASLt. `alpha` and `beta` are host memory, as `CublasLtPointerMode.HOST` says. */
// deno-fmt-ignore
export const CUBLASLT_SYMBOLS = {
  // library
  cublasLtGetVersion: { parameters: [], result: "usize" },
  cublasLtGetStatusName: { parameters: [/* status */ "i32"], result: "u64" },
  cublasLtGetStatusString: { parameters: [/* status */ "i32"], result: "u64" },
  cublasLtCreate: { parameters: [/* lightHandle */ "buffer"], result: "i32" },
  cublasLtDestroy: { parameters: [/* lightHandle */ "u64"], result: "i32" },

  // descriptors
  cublasLtMatmulDescCreate: { result: "i32", parameters: [
    /* matmulDesc */ "buffer", /* computeType */ "i32", /* scaleType */ "i32",
  ] },
  cublasLtMatmulDescDestroy: { parameters: [/* matmulDesc */ "u64"], result: "i32" },
  cublasLtMatmulDescSetAttribute: { result: "i32", parameters: [
    /* matmulDesc */ "u64", /* attr */ "i32", /* buf */ "buffer", /* sizeInBytes */ "usize",
  ] },
  cublasLtMatrixLayoutCreate: { result: "i32", parameters: [
    /* matLayout */ "buffer", /* type */ "i32", /* rows */ "u64", /* cols */ "u64", /* ld */ "i64",
  ] },
  cublasLtMatrixLayoutDestroy: { parameters: [/* matLayout */ "u64"], result: "i32" },
  cublasLtMatrixLayoutSetAttribute: { result: "i32", parameters: [
    /* matLayout */ "u64", /* attr */ "i32", /* buf */ "buffer", /* sizeInBytes */ "usize",
  ] },
  cublasLtMatmulPreferenceCreate: { parameters: [/* pref */ "buffer"], result: "i32" },
  cublasLtMatmulPreferenceDestroy: { parameters: [/* pref */ "u64"], result: "i32" },
  cublasLtMatmulPreferenceSetAttribute: { result: "i32", parameters: [
    /* pref */ "u64", /* attr */ "i32", /* buf */ "buffer", /* sizeInBytes */ "usize",
  ] },

  // algorithms
  cublasLtMatmulAlgoGetHeuristic: { result: "i32", parameters: [
    /* lightHandle */ "u64", /* operationDesc */ "u64", /* Adesc */ "u64", /* Bdesc */ "u64", /* Cdesc */ "u64",
    /* Ddesc */ "u64", /* preference */ "u64", /* requestedAlgoCount */ "i32", /* heuristicResultsArray */ "buffer",
    /* returnAlgoCount */ "buffer",
  ] },

  // computation
  cublasLtMatmul: { result: "i32", parameters: [
    /* lightHandle */ "u64", /* computeDesc */ "u64", /* alpha */ "buffer", /* A */ "u64", /* Adesc */ "u64",
    /* B */ "u64", /* Bdesc */ "u64", /* beta */ "buffer", /* C */ "u64", /* Cdesc */ "u64", /* D */ "u64",
    /* Ddesc */ "u64", /* algo */ "buffer", /* workspace */ "u64", /* workspaceSizeInBytes */ "usize",
    /* stream */ "u64",
  ] },
} as const satisfies Deno.ForeignLibraryInterface;

/** cuBLAS itself is opened because cuBLASMp needs it; only its version is asked for. */
export const CUBLAS_SYMBOLS = {
  cublasGetProperty: { parameters: [/* type */ "i32", /* value */ "buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** A failed call of cuBLAS or cuBLASLt. */
export class CublasError extends NativeError {}

export interface CublasLt extends Library<typeof CUBLASLT_SYMBOLS> {
  /** The version, such as 130100 for 13.1.0. */
  version: number;
}

let cublasLt: CublasLt | undefined;
let cublas: Library<typeof CUBLAS_SYMBOLS> | undefined;

const WHEEL_FOLDERS = ["cu13/lib", "cublas/lib"];

/**
 * cuBLASLt, opened at the first call.
 *
 * @throws {LibraryNotFoundError} if it is not installed.
 */
export function openCublasLt(): CublasLt {
  if (cublasLt) return cublasLt;
  const library = openCudaLibrary({
    name: "cuBLASLt",
    files: ["libcublasLt.so.13", "libcublasLt.so.12"],
    wheelFolders: WHEEL_FOLDERS,
  }, CUBLASLT_SYMBOLS);
  const version = Number(library.symbols.cublasLtGetVersion());
  noteVersion(library.name, ...versionParts(version));
  return cublasLt = { ...library, version };
}

/**
 * cuBLAS, opened at the first call, after cuBLASLt, on which it depends.
 *
 * @throws {LibraryNotFoundError} if it is not installed.
 */
export function openCublas(): Library<typeof CUBLAS_SYMBOLS> {
  if (cublas) return cublas;
  openCublasLt();
  const library = openCudaLibrary({
    name: "cuBLAS",
    files: ["libcublas.so.13", "libcublas.so.12"],
    wheelFolders: WHEEL_FOLDERS,
  }, CUBLAS_SYMBOLS);
  const parts = Object.values(LibraryProperty).map((property) => {
    const value = new Int32Array(1);
    library.symbols.cublasGetProperty(property, value);
    return value[0];
  });
  noteVersion(library.name, ...parts);
  return cublas = library;
}

function cublasError(functionName: string, code: number): CublasError {
  const { symbols } = openCublasLt();
  return new CublasError({
    functionName,
    code,
    symbol: readCString(symbols.cublasLtGetStatusName(code)),
    text: readCString(symbols.cublasLtGetStatusString(code)),
  });
}

/**
 * Throw the {@linkcode CublasError} for a code other than success.
 *
 * @example
 * ```ts no-eval
 * import { checkCublas, openCublasLt } from "@distmath/distmath/ffi";
 * const handle = new BigUint64Array(1);
 * checkCublas(openCublasLt().symbols.cublasLtCreate(handle), "cublasLtCreate");
 * ```
 */
export function checkCublas(code: number, functionName: string): void {
  if (code !== CublasStatus.SUCCESS) throw cublasError(functionName, code);
}
