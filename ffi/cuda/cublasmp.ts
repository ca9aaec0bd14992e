/**
 * cuBLASMp: matrix products and PBLAS routines over many GPUs, communication included.
 *
 * Source: `cublasmp.h` of cuBLASMp 0.10.0, which holds for 0.8 and newer; later additions are optional. Older ones are
 * refused: 0.7 gave wrong sums.
 *
 * Matrices are column-major; `ia`, `ja` and so on begin at 1; `alpha` and `beta` are host memory of the scale type.
 * Every routine is collective over the grid and runs on the handle's stream; `h_work` has to stay alive until it ends.
 *
 * @module
 */
import { CublasLtEpilogue, openCublas } from "./cublaslt.ts";
import { type MulticastOptions, noteVersion, openCudaLibrary, openGroup, versionParts } from "./library.ts";
import { openCudaRuntime } from "./runtime.ts";
import { enumName } from "../enums.ts";
import { ConfigurationError, NativeError } from "../errors.ts";
import { type Library, LibraryNotFoundError } from "../library.ts";
import { keepLoaded, readCString } from "../memory.ts";
import { taskCommand } from "../task_command.ts";
import { openNccl, requireNcclVersion } from "./nccl.ts";
import { openNvshmem } from "./nvshmem.ts";
import { CUBLASMP_WAITS } from "./waiting_functions.ts";
import { noteWaiting } from "../waiting.ts";

/** The results of cuBLASMp (`cublasMpStatus_t`, without `CUBLASMP_STATUS_`). */
export const CublasMpStatus = {
  SUCCESS: 0,
  NOT_INITIALIZED: 1,
  ALLOCATION_FAILED: 2,
  INVALID_VALUE: 3,
  ARCHITECTURE_MISMATCH: 4,
  EXECUTION_FAILED: 5,
  INTERNAL_ERROR: 6,
  NOT_SUPPORTED: 7,
} as const;

/** The order of the ranks in a process grid (`cublasMpGridLayout_t`, without `CUBLASMP_GRID_LAYOUT_`). */
export const CublasMpGridLayout = {
  COL_MAJOR: 0,
  ROW_MAJOR: 1,
} as const;

/** The attributes of a product (`cublasMpMatmulDescriptorAttribute_t`, without `CUBLASMP_MATMUL_DESCRIPTOR_ATTRIBUTE_`). */
export const CublasMpMatmulDescriptorAttribute = {
  TRANSA: 0,
  TRANSB: 1,
  COMPUTE_TYPE: 2,
  ALGO_TYPE: 3,
  COMMUNICATION_SM_COUNT: 4,
  EPILOGUE: 5,
  BIAS_POINTER: 6,
  BIAS_BATCH_STRIDE: 7,
  BIAS_DATA_TYPE: 8,
  EPILOGUE_AUX_POINTER: 9,
  EPILOGUE_AUX_LD: 10,
  EPILOGUE_AUX_BATCH_STRIDE: 11,
  EPILOGUE_AUX_DATA_TYPE: 12,
  EPILOGUE_AUX_SCALE_POINTER: 13,
  EPILOGUE_AUX_AMAX_POINTER: 14,
  EPILOGUE_AUX_SCALE_MODE: 15,
  A_SCALE_POINTER: 16,
  A_SCALE_MODE: 17,
  B_SCALE_POINTER: 18,
  B_SCALE_MODE: 19,
  C_SCALE_POINTER: 20,
  C_SCALE_MODE: 21,
  D_SCALE_POINTER: 22,
  D_SCALE_MODE: 23,
  AMAX_D_POINTER: 24,
  D_OUT_SCALE_POINTER: 25,
  D_OUT_SCALE_MODE: 26,
  COMMUNICATION_TYPE: 27,
  BIAS_RESULT_SCHEME: 28,
} as const;
export type CublasMpMatmulDescriptorAttribute =
  typeof CublasMpMatmulDescriptorAttribute[keyof typeof CublasMpMatmulDescriptorAttribute];

/** The algorithms of a product. SPLIT_MULTICAST, ATOMIC_MULTICAST and FUSED use NVLink multicast; FUSED needs 0.10 (`cublasMpMatmulAlgoType_t`, without `CUBLASMP_MATMUL_ALGO_TYPE_`). */
export const CublasMpMatmulAlgoType = {
  DEFAULT: 0,
  SPLIT_P2P: 1,
  SPLIT_MULTICAST: 2,
  ATOMIC_P2P: 3,
  ATOMIC_MULTICAST: 4,
  NO_OVERLAP: 5,
  FUSED: 6,
} as const;

/** As cuBLASLt names it, but for the first two; ALLREDUCE may be combined with others by OR (`cublasMpMatmulEpilogue_t`, without `CUBLASMP_MATMUL_EPILOGUE_`). */
export const CublasMpMatmulEpilogue = { ...CublasLtEpilogue, DEFAULT: 0, ALLREDUCE: 1 } as const;

/** How the scales of a matrix are laid out (`cublasMpMatmulMatrixScale_t`, without `CUBLASMP_MATMUL_MATRIX_SCALE_`). */
export const CublasMpMatmulMatrixScale = {
  SCALAR_FP32: 0,
  VEC16_UE4M3: 1,
  VEC32_UE8M0: 2,
  OUTER_VEC_FP32: 3,
  VEC128_FP32: 4,
  BLK128x128_FP32: 5,
} as const;

/** When cuBLASMp emulates a precision (`cublasMpEmulationStrategy_t`, without `CUBLASMP_EMULATION_STRATEGY_`). */
export const CublasMpEmulationStrategy = {
  DEFAULT: 0,
  PERFORMANT: 1,
  EAGER: 2,
} as const;

/** Whether each rank keeps its part of a gradient or gets the sum (`cublasMpResultScheme_t`, without `CUBLASMP_RESULT_SCHEME_`). */
export const CublasMpResultScheme = {
  DEFAULT: 0,
  PARTIAL: 1,
  FULL: 2,
} as const;

// One distributed matrix as an argument: local memory, first row and column (from 1), descriptor.
const A = [/* a */ "u64", /* ia */ "i64", /* ja */ "i64", /* descA */ "u64"] as const;
const B = [/* b */ "u64", /* ib */ "i64", /* jb */ "i64", /* descB */ "u64"] as const;
const C = [/* c */ "u64", /* ic */ "i64", /* jc */ "i64", /* descC */ "u64"] as const;
const D = [/* d */ "u64", /* id */ "i64", /* jd */ "i64", /* descD */ "u64"] as const;

// Each routine ends with workspaces, and its `_bufferSize` twin with where to write their sizes.
const WORKSPACES = [
  /* d_work */ "u64",
  /* workspaceSizeInBytesOnDevice */ "usize",
  /* h_work */ "buffer",
  /* workspaceSizeInBytesOnHost */ "usize",
] as const;
const SIZES = [/* workspaceSizeInBytesOnDevice */ "buffer", /* workspaceSizeInBytesOnHost */ "buffer"] as const;

// deno-fmt-ignore
const MATRIX_DESCRIPTOR = [
  /* m */ "i64", /* n */ "i64", /* mb */ "i64", /* nb */ "i64", /* rsrc */ "i64", /* csrc */ "i64", /* lld */ "i64",
  /* type */ "i32", /* grid */ "u64",
] as const;

// deno-fmt-ignore
const MATMUL = [
  /* handle */ "u64", /* matmulDesc */ "u64", /* m */ "i64", /* n */ "i64", /* k */ "i64",
  /* alpha */ "buffer", ...A, ...B, /* beta */ "buffer", ...C, ...D,
] as const;

/** The functions of cuBLASMp 0.8 and newer. */
// deno-fmt-ignore
export const CUBLASMP_SYMBOLS = {
  // library and handle
  cublasMpGetVersion: { parameters: [/* version */ "buffer"], result: "i32" },
  cublasMpCreate: { parameters: [/* handle */ "buffer", /* stream */ "u64"], result: "i32" },
  cublasMpDestroy: { parameters: [/* handle */ "u64"], result: "i32" },
  cublasMpSetEmulationStrategy: { optional: true, result: "i32", parameters: [
    /* handle */ "u64", /* emulationStrategy */ "i32",
  ] },
  cublasMpGetEmulationStrategy: { optional: true, result: "i32", parameters: [
    /* handle */ "u64", /* emulationStrategy */ "buffer",
  ] },

  // process grids
  cublasMpGridCreate: { result: "i32", parameters: [
    /* nprow */ "i64", /* npcol */ "i64", /* layout */ "i32", /* comm */ "u64", /* grid */ "buffer",
  ] },
  cublasMpGridDestroy: { parameters: [/* grid */ "u64"], result: "i32" },
  cublasMpNumroc: { result: "i64", parameters: [
    /* n */ "i64", /* nb */ "i64", /* iproc */ "u32", /* isrcproc */ "u32", /* nprocs */ "u32",
  ] },

  // descriptors
  cublasMpMatrixDescriptorCreate: { parameters: [...MATRIX_DESCRIPTOR, /* desc */ "buffer"], result: "i32" },
  cublasMpMatrixDescriptorInit: { parameters: [...MATRIX_DESCRIPTOR, /* desc */ "u64"], result: "i32" },
  cublasMpMatrixDescriptorDestroy: { parameters: [/* desc */ "u64"], result: "i32" },
  cublasMpMatmulDescriptorCreate: { parameters: [/* matmulDesc */ "buffer", /* computeType */ "i32"], result: "i32" },
  cublasMpMatmulDescriptorInit: { parameters: [/* matmulDesc */ "u64", /* computeType */ "i32"], result: "i32" },
  cublasMpMatmulDescriptorDestroy: { parameters: [/* matmulDesc */ "u64"], result: "i32" },

  // products
  cublasMpMatmul: { parameters: [...MATMUL, ...WORKSPACES], result: "i32" },
  cublasMpMatmul_bufferSize: { parameters: [...MATMUL, ...SIZES], result: "i32" },

  // the log; a callback may come from a foreign thread, so prefer a file
  cublasMpLoggerSetCallback: { parameters: [/* callback */ "function"], result: "i32" },
  cublasMpLoggerSetFile: { parameters: [/* file */ "u64"], result: "i32" },
  cublasMpLoggerOpenFile: { parameters: [/* logFile */ "buffer"], result: "i32" },
  cublasMpLoggerSetLevel: { parameters: [/* level */ "i32"], result: "i32" },
  cublasMpLoggerSetMask: { parameters: [/* mask */ "i32"], result: "i32" },
  cublasMpLoggerForceDisable: { parameters: [], result: "i32" },

  // status and stream
  cublasMpGetStatusString: { parameters: [/* status */ "i32"], result: "u64" },
  cublasMpSetStream: { parameters: [/* handle */ "u64", /* stream */ "u64"], result: "i32" },
  cublasMpGetStream: { parameters: [/* handle */ "u64", /* stream */ "buffer"], result: "i32" },
  cublasMpMatmulDescriptorSetAttribute: { result: "i32", parameters: [
    /* matmulDesc */ "u64", /* attr */ "i32", /* buf */ "buffer", /* sizeInBytes */ "usize",
  ] },
  cublasMpMatmulDescriptorGetAttribute: { result: "i32", parameters: [
    /* matmulDesc */ "u64", /* attr */ "i32", /* buf */ "buffer", /* sizeInBytes */ "usize", /* sizeWritten */ "buffer",
  ] },

  // memory that the other ranks of a grid reach; collective
  cublasMpMalloc: { parameters: [/* grid */ "u64", /* ptr */ "buffer", /* size */ "usize"], result: "i32" },
  cublasMpFree: { parameters: [/* grid */ "u64", /* ptr */ "u64"], result: "i32" },
  cublasMpBufferRegister: { parameters: [/* grid */ "u64", /* ptr */ "u64", /* size */ "usize"], result: "i32" },
  cublasMpBufferDeregister: { parameters: [/* grid */ "u64", /* ptr */ "u64"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** How float64 products are emulated; from 0.9 on. */
// deno-fmt-ignore
export const CUBLASMP_EMULATION_SYMBOLS = {
  cublasMpSetFixedPointEmulationMaxMantissaBitCount: { optional: true, result: "i32", parameters: [
    /* handle */ "u64", /* bitCount */ "i32",
  ] },
  cublasMpGetFixedPointEmulationMaxMantissaBitCount: { optional: true, result: "i32", parameters: [
    /* handle */ "u64", /* bitCount */ "buffer",
  ] },
  cublasMpSetFixedPointEmulationMantissaBitOffset: { optional: true, result: "i32", parameters: [
    /* handle */ "u64", /* bitOffset */ "i32",
  ] },
  cublasMpGetFixedPointEmulationMantissaBitOffset: { optional: true, result: "i32", parameters: [
    /* handle */ "u64", /* bitOffset */ "buffer",
  ] },
  cublasMpSetFixedPointEmulationMantissaBitCountPointer: { optional: true, result: "i32", parameters: [
    /* handle */ "u64", /* ptr */ "u64",
  ] },
  cublasMpGetFixedPointEmulationMantissaBitCountPointer: { optional: true, result: "i32", parameters: [
    /* handle */ "u64", /* ptr */ "buffer",
  ] },
  cublasMpSetFixedPointEmulationMantissaControl: { optional: true, result: "i32", parameters: [
    /* handle */ "u64", /* mantissaControl */ "i32",
  ] },
  cublasMpGetFixedPointEmulationMantissaControl: { optional: true, result: "i32", parameters: [
    /* handle */ "u64", /* mantissaControl */ "buffer",
  ] },
  cublasMpSetEmulationSpecialValuesSupport: { optional: true, result: "i32", parameters: [
    /* handle */ "u64", /* mask */ "i32",
  ] },
  cublasMpGetEmulationSpecialValuesSupport: { optional: true, result: "i32", parameters: [
    /* handle */ "u64", /* mask */ "buffer",
  ] },
} as const satisfies Deno.ForeignLibraryInterface;

// deno-fmt-ignore
const GEMM = [
  /* handle */ "u64", /* transA */ "i32", /* transB */ "i32", /* m */ "i64", /* n */ "i64", /* k */ "i64",
  /* alpha */ "buffer", ...A, ...B, /* beta */ "buffer", ...C, /* computeType */ "i32",
] as const;
// deno-fmt-ignore
const TRSM = [
  /* handle */ "u64", /* side */ "i32", /* uplo */ "i32", /* trans */ "i32", /* diag */ "i32",
  /* m */ "i64", /* n */ "i64", /* alpha */ "buffer", ...A, ...B, /* computeType */ "i32",
] as const;
// deno-fmt-ignore
const TRMM = [
  /* handle */ "u64", /* side */ "i32", /* uplo */ "i32", /* trans */ "i32", /* diag */ "i32",
  /* m */ "i64", /* n */ "i64", /* alpha */ "buffer", ...A, ...B, ...C, /* computeType */ "i32",
] as const;
// deno-fmt-ignore
const SYMM = [
  /* handle */ "u64", /* side */ "i32", /* uplo */ "i32", /* m */ "i64", /* n */ "i64",
  /* alpha */ "buffer", ...A, ...B, /* beta */ "buffer", ...C, /* computeType */ "i32",
] as const;
// deno-fmt-ignore
const SYRK = [
  /* handle */ "u64", /* uplo */ "i32", /* trans */ "i32", /* n */ "i64", /* k */ "i64",
  /* alpha */ "buffer", ...A, /* beta */ "buffer", ...C, /* computeType */ "i32",
] as const;
// deno-fmt-ignore
const SYR2K = [
  /* handle */ "u64", /* uplo */ "i32", /* trans */ "i32", /* n */ "i64", /* k */ "i64",
  /* alpha */ "buffer", ...A, ...B, /* beta */ "buffer", ...C, /* computeType */ "i32",
] as const;
// deno-fmt-ignore
const GEADD = [
  /* handle */ "u64", /* trans */ "i32", /* m */ "i64", /* n */ "i64",
  /* alpha */ "buffer", ...A, /* beta */ "buffer", ...C,
] as const;
// deno-fmt-ignore
const TRADD = [
  /* handle */ "u64", /* uplo */ "i32", /* trans */ "i32", /* m */ "i64", /* n */ "i64",
  /* alpha */ "buffer", ...A, /* beta */ "buffer", ...C,
] as const;
const GEMR2D = [/* handle */ "u64", /* m */ "i64", /* n */ "i64", ...A, ...B] as const;
// deno-fmt-ignore
const TRMR2D = [
  /* handle */ "u64", /* uplo */ "i32", /* diag */ "i32", /* m */ "i64", /* n */ "i64", ...A, ...B,
] as const;

// cublasMpGemr2D and cublasMpTrmr2D take one more, after the workspaces.
const BETWEEN_GRIDS = [/* global_comm */ "u64"] as const;

/** A routine, of which the workspaces or their sizes are left out. */
interface Routine {
  readonly parameters: readonly Deno.NativeType[];
  /** What comes after the workspaces. */
  readonly last?: readonly Deno.NativeType[];
  readonly optional?: true;
}

/** The PBLAS routines, by their names after `cublasMp`. */
const ROUTINES = {
  Gemm: { parameters: GEMM },
  Trsm: { parameters: TRSM },
  Syrk: { parameters: SYRK },
  Geadd: { parameters: GEADD },
  Tradd: { parameters: TRADD },
  Gemr2D: { parameters: GEMR2D, last: BETWEEN_GRIDS },
  Trmr2D: { parameters: TRMR2D, last: BETWEEN_GRIDS },
  // from 0.9 on
  Trmm: { parameters: TRMM, optional: true },
  Symm: { parameters: SYMM, optional: true },
  Syr2k: { parameters: SYR2K, optional: true },
  Syrkx: { parameters: SYR2K, optional: true },
  // from 0.9 on too, for complex types: Herk's alpha and beta are real, and so is beta of Her2k and Herkx
  Hemm: { parameters: SYMM, optional: true },
  Herk: { parameters: SYRK, optional: true },
  Her2k: { parameters: SYR2K, optional: true },
  Herkx: { parameters: SYR2K, optional: true },
} as const satisfies Record<string, Routine>;

type Routines = typeof ROUTINES;

type SymbolOf<R extends Routine, Workspaces extends readonly Deno.NativeType[]> =
  & { readonly result: "i32" }
  & {
    readonly parameters: readonly [
      ...R["parameters"],
      ...Workspaces,
      ...R extends { last: infer Last extends readonly Deno.NativeType[] } ? Last : [],
    ];
  }
  & (R extends { optional: true } ? { readonly optional: true } : unknown);

/** Each routine, and the question for its workspaces. */
type PblasSymbols =
  & { readonly [Name in keyof Routines as `cublasMp${Name}`]: SymbolOf<Routines[Name], typeof WORKSPACES> }
  & { readonly [Name in keyof Routines as `cublasMp${Name}_bufferSize`]: SymbolOf<Routines[Name], typeof SIZES> };

/** The PBLAS routines of cuBLASMp 0.8 and newer; `null` where the library is too old for one. */
export const CUBLASMP_PBLAS_SYMBOLS: PblasSymbols = Object.fromEntries(
  Object.entries<Routine>(ROUTINES).flatMap(([name, { parameters, last = [], ...rest }]) => [
    [`cublasMp${name}`, { ...rest, parameters: [...parameters, ...WORKSPACES, ...last], result: "i32" }],
    [`cublasMp${name}_bufferSize`, { ...rest, parameters: [...parameters, ...SIZES, ...last], result: "i32" }],
  ]),
) as unknown as PblasSymbols;

export class CublasMpError extends NativeError {}

/** The opened cuBLASMp, 0.8 or newer. */
export interface CublasMp extends Library<typeof CUBLASMP_SYMBOLS> {
  /** The version, such as 1000 for 0.10.0. */
  version: number;
}

/** The oldest cuBLASMp that distmath's products take. */
const MINIMUM_VERSION = 800;

/** The oldest NCCL that has every function cuBLASMp 0.8 and newer calls. */
const MINIMUM_NCCL = 22902;

const REQUEST = {
  name: "cuBLASMp",
  files: ["libcublasmp.so.0"],
  wheelFolders: ["cublasmp/cu13/lib", "cublasmp/cu12/lib"],
};

/** The files of libraries of a name that the process has mapped; none if it may not look. */
function mappedFiles(name: string): string[] {
  let maps: string;
  try {
    maps = Deno.readTextFileSync("/proc/self/maps");
  } catch {
    return [];
  }
  const paths = maps.split("\n").flatMap((line) => line.match(/\S+\/[^/]+$/)?.[0] ?? []);
  return [...new Set(paths)].filter((path) => path.slice(path.lastIndexOf("/") + 1).startsWith(name));
}

/**
 * Refuse two NCCLs in one process: cuBLASMp would call the first with communicators of the other.
 *
 * @throws {ConfigurationError} naming both files.
 */
export function refuseSecondNccl(files: readonly string[]): void {
  if (files.length < 2) return;
  throw new ConfigurationError(
    `This process has ${files.length} NCCLs, and cuBLASMp needs one: ${
      files.join(" and ")
    }. Something opened the first ` +
      `by its bare name. Call runtime.nccl() before it does, or put the folder of the right one first in LD_LIBRARY_PATH.`,
  );
}

let current: CublasMp | undefined;
let pblas: Deno.DynamicLibrary<typeof CUBLASMP_PBLAS_SYMBOLS>["symbols"] | undefined;
let emulation: Deno.DynamicLibrary<typeof CUBLASMP_EMULATION_SYMBOLS>["symbols"] | undefined;

const VERSION_SYMBOL = { cublasMpGetVersion: CUBLASMP_SYMBOLS.cublasMpGetVersion } as const;

function askVersion(symbols: Deno.DynamicLibrary<typeof VERSION_SYMBOL>["symbols"]): number {
  const version = new Int32Array(1);
  symbols.cublasMpGetVersion(version);
  return version[0];
}

function versionOf(symbols: Deno.DynamicLibrary<typeof VERSION_SYMBOL>["symbols"]): number {
  const version = askVersion(symbols);
  noteVersion(REQUEST.name, ...versionParts(version));
  return version;
}

/** The version of a cuBLASMp of any age; null if the file is none. */
function versionOfFile(path: string): number | null {
  try {
    return askVersion(openGroup({ path }, VERSION_SYMBOL));
  } catch {
    return null;
  }
}

/** What to throw after a search in vain: if it met an older cuBLASMp, an error that says so. */
function explained(error: LibraryNotFoundError, options: MulticastOptions): ConfigurationError {
  try {
    openNvshmem(options); // Older ones may not find it themselves.
  } catch {
    // Or they may.
  }
  for (const { path } of error.attempts) {
    const version = versionOfFile(path);
    if (version === null || version >= MINIMUM_VERSION) continue;
    return new ConfigurationError(
      `cuBLASMp ${versionParts(version).join(".")} (${keepLoaded(path)}) is too old: distmath needs 0.8 or newer. ` +
        `Run: ${taskCommand("native install cuda")}`,
      { cause: error },
    );
  }
  return error;
}

function openCurrent(options: MulticastOptions): Library<typeof CUBLASMP_SYMBOLS> {
  try {
    return openCudaLibrary(REQUEST, CUBLASMP_SYMBOLS);
  } catch (error) {
    throw error instanceof LibraryNotFoundError ? explained(error, options) : error;
  }
}

/**
 * cuBLASMp 0.8 or newer, opened at the first call with the libraries that it depends on. An older one lacks functions
 * of this table and is passed over.
 *
 * @throws {LibraryNotFoundError} if a library is not installed.
 * @throws {ConfigurationError} if cuBLASMp or NCCL is too old, or if multicast cannot be switched off.
 */
export function openCublasMp(options: MulticastOptions = {}): CublasMp {
  if (current) return current;
  openCudaRuntime();
  requireNcclVersion(openNccl(options), MINIMUM_NCCL, "cuBLASMp");
  refuseSecondNccl(mappedFiles("libnccl.so"));
  openCublas();
  const library = openCurrent(options);
  noteWaiting(library.symbols, CUBLASMP_WAITS);
  return current = { ...library, version: versionOf(library.symbols) };
}

/** The PBLAS routines of {@linkcode openCublasMp}'s library. */
export function openCublasMpPblas(): Deno.DynamicLibrary<typeof CUBLASMP_PBLAS_SYMBOLS>["symbols"] {
  return pblas ??= openGroup(openCublasMp(), CUBLASMP_PBLAS_SYMBOLS);
}

/** The emulation settings of {@linkcode openCublasMp}'s library; each is `null` before 0.9. */
export function openCublasMpEmulation(): Deno.DynamicLibrary<typeof CUBLASMP_EMULATION_SYMBOLS>["symbols"] {
  return emulation ??= openGroup(openCublasMp(), CUBLASMP_EMULATION_SYMBOLS);
}

const HINTS: Readonly<Record<number, string>> = {
  [CublasMpStatus.NOT_SUPPORTED]: "Set CUBLASMP_LOG_LEVEL=3 to see why, or ask for another algorithm.",
  [CublasMpStatus.INVALID_VALUE]: "Set CUBLASMP_LOG_LEVEL=1 to see which argument.",
};

export function cublasMpError(
  functionName: string,
  code: number,
  hint: string | undefined = HINTS[code],
): CublasMpError {
  return new CublasMpError({
    functionName,
    code,
    symbol: enumName(CublasMpStatus, code, "CUBLASMP_STATUS_"),
    text: readCString(openCublasMp().symbols.cublasMpGetStatusString(code)),
    hint,
  });
}

/**
 * Throw the {@linkcode CublasMpError} for a code other than success.
 *
 * @example
 * ```ts no-eval
 * import { checkCublasMp, openCublasMp } from "@distmath/distmath/ffi";
 * const handle = new BigUint64Array(1);
 * checkCublasMp(openCublasMp().symbols.cublasMpCreate(handle, 0n), "cublasMpCreate");
 * ```
 */
export function checkCublasMp(code: number, functionName: string): void {
  if (code !== CublasMpStatus.SUCCESS) throw cublasMpError(functionName, code);
}
