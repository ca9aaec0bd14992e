/**
 * NCCL: communicators between GPUs, collectives, point to point, registered and symmetric memory.
 *
 * Source: `nccl.h` and `nccl_device/core.h` of NCCL 2.30.7. What came after NCCL 2.26 is optional, so that an older
 * library still opens; cuBLASMp from 0.8 on needs NCCL 2.29.2.
 *
 * @module
 */
import { type MulticastOptions, noteVersion, openCudaLibrary, settleMulticast, versionParts } from "./library.ts";
import { enumName, type EnumValue } from "../enums.ts";
import { ConfigurationError, NativeError } from "../errors.ts";
import type { Library } from "../library.ts";
import { readCString } from "../memory.ts";
import { noteWaiting } from "../waiting.ts";
import { NCCL_WAITS } from "./waiting_functions.ts";
import { createStruct, type FieldValues, type StructLayout } from "../struct.ts";
import { taskCommand } from "../task_command.ts";

/** The results of NCCL (`ncclResult_t`, without `nccl`). */
export const NcclResult = {
  Success: 0,
  UnhandledCudaError: 1,
  SystemError: 2,
  InternalError: 3,
  InvalidArgument: 4,
  InvalidUsage: 5,
  RemoteError: 6,
  InProgress: 7,
  Timeout: 8,
} as const;

/** The type of an element (`ncclDataType_t`, without `nccl`). */
export const NcclDataType = {
  Int8: 0,
  Uint8: 1,
  Int32: 2,
  Uint32: 3,
  Int64: 4,
  Uint64: 5,
  Float16: 6,
  Float32: 7,
  Float64: 8,
  Bfloat16: 9,
  Float8e4m3: 10,
  Float8e5m2: 11,
} as const;
export type NcclDataType = EnumValue<typeof NcclDataType>;

/** The built-in reductions (`ncclRedOp_t`, without `nccl`). */
export const NcclRedOp = {
  Sum: 0,
  Prod: 1,
  Max: 2,
  Min: 3,
  Avg: 4,
} as const;

/** Where the factor of a user-defined reduction lies (`ncclScalarResidence_t`, without `ncclScalar`). */
export const NcclScalarResidence = {
  Device: 0,
  HostImmediate: 1,
} as const;

/** What `ncclCommMemStats` counts (`ncclCommMemStat_t`, without `ncclStat`). */
export const NcclCommMemStat = {
  GpuMemSuspend: 0,
  GpuMemSuspended: 1,
  GpuMemPersist: 2,
  GpuMemTotal: 3,
} as const;

/** Flags of `ncclCommWindowRegister` (without `NCCL_WIN_`). */
export const NcclWindowFlags = {
  DEFAULT: 0,
  COLL_SYMMETRIC: 1,
  STRICT_ORDERING: 2,
} as const;

/** How NCCL uses the GPU's multiprocessors (without `NCCL_CTA_POLICY_`). */
export const NcclCtaPolicy = {
  DEFAULT: 0,
  EFFICIENCY: 1,
  ZERO: 2,
} as const;

/** Flags of `ncclCommShrink` (without `NCCL_SHRINK_`). */
export const NcclShrinkFlags = {
  DEFAULT: 0,
  ABORT: 1,
} as const;

/** Single constants of NCCL (without `NCCL_`). */
export const NcclConstant = {
  UNIQUE_ID_BYTES: 128,
  API_MAGIC: 0xcafebeef,
  CONFIG_UNDEF_INT: -2147483648,
  SPLIT_NOCOLOR: -1,
  WIN_REQUIRED_ALIGNMENT: 4096,
  SUSPEND_MEM: 1,
} as const;

/** What tells the ranks of a communicator from those of another: made on one rank, passed to all. */
export const NCCL_UNIQUE_ID = {
  name: "ncclUniqueId",
  size: 128,
  fields: { internal: [0, 128] },
} as const satisfies StructLayout;

/** The settings of a communicator; {@linkcode createNcclConfig} makes one. */
export const NCCL_CONFIG = {
  name: "ncclConfig_t",
  size: 96,
  fields: {
    size: [0, "u64"],
    magic: [8, "u32"],
    version: [12, "u32"],
    blocking: [16, "i32"],
    cgaClusterSize: [20, "i32"],
    minCTAs: [24, "i32"],
    maxCTAs: [28, "i32"],
    netName: [32, "u64"],
    splitShare: [40, "i32"],
    trafficClass: [44, "i32"],
    commName: [48, "u64"],
    collnetEnable: [56, "i32"],
    CTAPolicy: [60, "i32"],
    shrinkShare: [64, "i32"],
    nvlsCTAs: [68, "i32"],
    nChannelsPerNetPeer: [72, "i32"],
    nvlinkCentricSched: [76, "i32"],
    graphUsageMode: [80, "i32"],
    numRmaCtx: [84, "i32"],
    maxP2pPeers: [88, "i32"],
    graphStreamOrdering: [92, "i32"],
  },
} as const satisfies StructLayout;

/** What a communicator can do; `size`, `magic` and `version` are set by the caller. */
export const NCCL_COMM_PROPERTIES = {
  name: "ncclCommProperties_t",
  size: 56,
  fields: {
    size: [0, "u64"],
    magic: [8, "u32"],
    version: [12, "u32"],
    rank: [16, "i32"],
    nRanks: [20, "i32"],
    cudaDev: [24, "i32"],
    nvmlDev: [28, "i32"],
    deviceApiSupport: [32, "u8"],
    multimemSupport: [33, "u8"],
    ginType: [36, "i32"],
    nLsaTeams: [40, "i32"],
    hostRmaSupport: [44, "u8"],
    railedGinType: [48, "i32"],
  },
} as const satisfies StructLayout;

/** What `ncclGroupSimulateEnd` tells; `size`, `magic` and `version` are set by the caller. */
export const NCCL_SIM_INFO = {
  name: "ncclSimInfo_t",
  size: 24,
  fields: {
    size: [0, "u64"],
    magic: [8, "u32"],
    version: [12, "u32"],
    estimatedTime: [16, "f32"],
  },
} as const satisfies StructLayout;

/** Signals that `ncclWaitSignal` waits for. */
export const NCCL_WAIT_SIGNAL_DESC = {
  name: "ncclWaitSignalDesc_t",
  size: 16,
  fields: {
    opCnt: [0, "i32"],
    peer: [4, "i32"],
    sigIdx: [8, "i32"],
    ctx: [12, "i32"],
  },
} as const satisfies StructLayout;

/** `ncclUniqueId`, passed by value: a buffer of 128 bytes. */
const UNIQUE_ID = {
  // deno-fmt-ignore
  struct: [
    "u64", "u64", "u64", "u64", "u64", "u64", "u64", "u64",
    "u64", "u64", "u64", "u64", "u64", "u64", "u64", "u64",
  ],
} as const;

/** The functions of NCCL; `null` where the library is too old for one. */
// deno-fmt-ignore
export const NCCL_SYMBOLS = {
  // library
  ncclGetVersion: { parameters: [/* version */ "buffer"], result: "i32" },
  ncclGetErrorString: { parameters: [/* result */ "i32"], result: "u64" },
  ncclGetLastError: { parameters: [/* comm */ "u64"], result: "u64" },

  // communicators
  ncclGetUniqueId: { parameters: [/* uniqueId */ "buffer"], result: "i32" },
  ncclCommInitRank: { result: "i32", parameters: [
    /* comm */ "buffer", /* nranks */ "i32", /* commId */ UNIQUE_ID, /* rank */ "i32",
  ] },
  ncclCommInitRankConfig: { result: "i32", parameters: [
    /* comm */ "buffer", /* nranks */ "i32", /* commId */ UNIQUE_ID, /* rank */ "i32", /* config */ "buffer",
  ] },
  ncclCommInitRankScalable: { result: "i32", parameters: [
    /* newcomm */ "buffer", /* nranks */ "i32", /* myrank */ "i32", /* nId */ "i32", /* commIds */ "buffer",
    /* config */ "buffer",
  ] },
  ncclCommInitAll: { parameters: [/* comm */ "buffer", /* ndev */ "i32", /* devlist */ "buffer"], result: "i32" },
  ncclCommSplit: { result: "i32", parameters: [
    /* comm */ "u64", /* color */ "i32", /* key */ "i32", /* newcomm */ "buffer", /* config */ "buffer",
  ] },
  ncclCommFinalize: { parameters: [/* comm */ "u64"], result: "i32" },
  ncclCommDestroy: { parameters: [/* comm */ "u64"], result: "i32" },
  ncclCommAbort: { parameters: [/* comm */ "u64"], result: "i32" },
  ncclCommGetAsyncError: { parameters: [/* comm */ "u64", /* asyncError */ "buffer"], result: "i32" },
  ncclCommCount: { parameters: [/* comm */ "u64", /* count */ "buffer"], result: "i32" },
  ncclCommCuDevice: { parameters: [/* comm */ "u64", /* device */ "buffer"], result: "i32" },
  ncclCommUserRank: { parameters: [/* comm */ "u64", /* rank */ "buffer"], result: "i32" },
  ncclCommShrink: { optional: true, result: "i32", parameters: [
    /* comm */ "u64", /* excludeRanksList */ "buffer", /* excludeRanksCount */ "i32", /* newcomm */ "buffer",
    /* config */ "buffer", /* shrinkFlags */ "i32",
  ] },
  ncclCommRevoke: { optional: true, parameters: [/* comm */ "u64", /* revokeFlags */ "i32"], result: "i32" },
  ncclCommGetUniqueId: { optional: true, parameters: [/* comm */ "u64", /* uniqueId */ "buffer"], result: "i32" },
  ncclCommGrow: { optional: true, result: "i32", parameters: [
    /* comm */ "u64", /* nRanks */ "i32", /* uniqueId */ "buffer", /* rank */ "i32", /* newcomm */ "buffer",
    /* config */ "buffer",
  ] },
  ncclCommQueryProperties: { optional: true, parameters: [/* comm */ "u64", /* props */ "buffer"], result: "i32" },
  ncclCommMemStats: { optional: true, result: "i32", parameters: [
    /* comm */ "u64", /* stat */ "i32", /* value */ "buffer",
  ] },
  ncclCommSuspend: { optional: true, parameters: [/* comm */ "u64", /* flags */ "i32"], result: "i32" },
  ncclCommResume: { optional: true, parameters: [/* comm */ "u64"], result: "i32" },
  // this rank's place among the ranks whose memory it can load and store: { nRanks, rank, stride }
  ncclTeamLsa: { optional: true, parameters: [/* comm */ "u64"], result: { struct: ["i32", "i32", "i32"] } },

  // memory and registration
  ncclMemAlloc: { parameters: [/* ptr */ "buffer", /* size */ "usize"], result: "i32" },
  ncclMemFree: { parameters: [/* ptr */ "u64"], result: "i32" },
  ncclCommRegister: { result: "i32", parameters: [
    /* comm */ "u64", /* buff */ "u64", /* size */ "usize", /* handle */ "buffer",
  ] },
  ncclCommDeregister: { parameters: [/* comm */ "u64", /* handle */ "u64"], result: "i32" },
  ncclCommWindowRegister: { optional: true, result: "i32", parameters: [
    /* comm */ "u64", /* buff */ "u64", /* size */ "usize", /* win */ "buffer", /* winFlags */ "i32",
  ] },
  ncclCommWindowDeregister: { optional: true, parameters: [/* comm */ "u64", /* win */ "u64"], result: "i32" },
  ncclWinGetUserPtr: { optional: true, result: "i32", parameters: [
    /* comm */ "u64", /* win */ "u64", /* outUserPtr */ "buffer",
  ] },
  ncclGetLsaDevicePointer: { optional: true, result: "i32", parameters: [
    /* window */ "u64", /* offset */ "usize", /* lsaRank */ "i32", /* outPtr */ "buffer",
  ] },
  ncclGetPeerDevicePointer: { optional: true, result: "i32", parameters: [
    /* window */ "u64", /* offset */ "usize", /* peer */ "i32", /* outPtr */ "buffer",
  ] },

  // collectives
  ncclAllReduce: { result: "i32", parameters: [
    /* sendbuff */ "u64", /* recvbuff */ "u64", /* count */ "usize", /* datatype */ "i32", /* op */ "i32",
    /* comm */ "u64", /* stream */ "u64",
  ] },
  ncclReduce: { result: "i32", parameters: [
    /* sendbuff */ "u64", /* recvbuff */ "u64", /* count */ "usize", /* datatype */ "i32", /* op */ "i32",
    /* root */ "i32", /* comm */ "u64", /* stream */ "u64",
  ] },
  ncclBroadcast: { result: "i32", parameters: [
    /* sendbuff */ "u64", /* recvbuff */ "u64", /* count */ "usize", /* datatype */ "i32", /* root */ "i32",
    /* comm */ "u64", /* stream */ "u64",
  ] },
  ncclBcast: { result: "i32", parameters: [
    /* buff */ "u64", /* count */ "usize", /* datatype */ "i32", /* root */ "i32", /* comm */ "u64", /* stream */ "u64",
  ] },
  ncclReduceScatter: { result: "i32", parameters: [
    /* sendbuff */ "u64", /* recvbuff */ "u64", /* recvcount */ "usize", /* datatype */ "i32", /* op */ "i32",
    /* comm */ "u64", /* stream */ "u64",
  ] },
  ncclAllGather: { result: "i32", parameters: [
    /* sendbuff */ "u64", /* recvbuff */ "u64", /* sendcount */ "usize", /* datatype */ "i32", /* comm */ "u64",
    /* stream */ "u64",
  ] },
  ncclAlltoAll: { optional: true, result: "i32", parameters: [
    /* sendbuff */ "u64", /* recvbuff */ "u64", /* count */ "usize", /* datatype */ "i32", /* comm */ "u64",
    /* stream */ "u64",
  ] },
  ncclGather: { optional: true, result: "i32", parameters: [
    /* sendbuff */ "u64", /* recvbuff */ "u64", /* count */ "usize", /* datatype */ "i32", /* root */ "i32",
    /* comm */ "u64", /* stream */ "u64",
  ] },
  ncclScatter: { optional: true, result: "i32", parameters: [
    /* sendbuff */ "u64", /* recvbuff */ "u64", /* count */ "usize", /* datatype */ "i32", /* root */ "i32",
    /* comm */ "u64", /* stream */ "u64",
  ] },
  // a sum that scales each rank's values first
  ncclRedOpCreatePreMulSum: { result: "i32", parameters: [
    /* op */ "buffer", /* scalar */ "buffer", /* datatype */ "i32", /* residence */ "i32", /* comm */ "u64",
  ] },
  ncclRedOpCreatePreMulSumFromDevice: { name: "ncclRedOpCreatePreMulSum", result: "i32", parameters: [
    /* op */ "buffer", /* scalar */ "u64", /* datatype */ "i32", /* residence */ "i32", /* comm */ "u64",
  ] },
  ncclRedOpDestroy: { parameters: [/* op */ "i32", /* comm */ "u64"], result: "i32" },

  // point to point
  ncclSend: { result: "i32", parameters: [
    /* sendbuff */ "u64", /* count */ "usize", /* datatype */ "i32", /* peer */ "i32", /* comm */ "u64",
    /* stream */ "u64",
  ] },
  ncclRecv: { result: "i32", parameters: [
    /* recvbuff */ "u64", /* count */ "usize", /* datatype */ "i32", /* peer */ "i32", /* comm */ "u64",
    /* stream */ "u64",
  ] },
  ncclPutSignal: { optional: true, result: "i32", parameters: [
    /* localbuff */ "u64", /* count */ "usize", /* datatype */ "i32", /* peer */ "i32", /* peerWin */ "u64",
    /* peerWinOffset */ "usize", /* sigIdx */ "i32", /* ctx */ "i32", /* flags */ "u32", /* comm */ "u64",
    /* stream */ "u64",
  ] },
  ncclSignal: { optional: true, result: "i32", parameters: [
    /* peer */ "i32", /* sigIdx */ "i32", /* ctx */ "i32", /* flags */ "u32", /* comm */ "u64", /* stream */ "u64",
  ] },
  ncclWaitSignal: { optional: true, result: "i32", parameters: [
    /* nDesc */ "i32", /* signalDescs */ "buffer", /* comm */ "u64", /* stream */ "u64",
  ] },

  // groups
  ncclGroupStart: { parameters: [], result: "i32" },
  ncclGroupEnd: { parameters: [], result: "i32" },
  ncclGroupSimulateEnd: { parameters: [/* simInfo */ "buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** A failed call of NCCL; its text is what NCCL says of its last error. */
export class NcclError extends NativeError {}

export interface Nccl extends Library<typeof NCCL_SYMBOLS> {
  /** The version, such as 23007 for 2.30.7. */
  version: number;
}

let nccl: Nccl | undefined;

/**
 * NCCL, opened at the first call, whose options count; multicast is off unless they allow it.
 *
 * @throws {LibraryNotFoundError} if it is not installed.
 * @throws {ConfigurationError} if multicast cannot be switched off.
 */
export function openNccl(options: MulticastOptions = {}): Nccl {
  if (nccl) return nccl;
  settleMulticast(options);
  const library = openCudaLibrary({
    name: "NCCL",
    files: ["libnccl.so.2"],
    wheelFolders: ["nccl/lib"],
  }, NCCL_SYMBOLS);
  const version = new Int32Array(1);
  library.symbols.ncclGetVersion(version);
  noteVersion(library.name, ...versionParts(version[0]));
  noteWaiting(library.symbols, NCCL_WAITS);
  return nccl = { ...library, version: version[0] };
}

/**
 * Refuse an opened NCCL that is older than what `user` needs. A library that calls a function which NCCL lacks ends the
 * process, so that this comes before it is opened.
 *
 * @throws {ConfigurationError} naming both versions and the file.
 */
export function requireNcclVersion(opened: { version: number; path: string }, minimum: number, user: string): void {
  if (opened.version >= minimum) return;
  const [has, needs] = [opened.version, minimum].map((version) => versionParts(version).join("."));
  throw new ConfigurationError(
    `${user} needs NCCL ${needs} or newer, but ${opened.path} is NCCL ${has}. ` +
      `Install a newer one (${
        taskCommand("native install cuda")
      }), and let DISTMATH_LIBRARY_PATH name its folder first.`,
  );
}

/** The part of {@linkcode NCCL_CONFIG} that every NCCL from 2.28 on knows, and the version that says so. */
const COMMON_CONFIG = { size: 80n, version: 22800 };

/**
 * Settings of a communicator, all unset but the given ones.
 *
 * A field behind `nvlinkCentricSched` counts only if `size` and `version` of a newer NCCL are given as well.
 *
 * @example
 * ```ts
 * import { createNcclConfig } from "@distmath/distmath/ffi";
 * const config = createNcclConfig({ blocking: 0 });
 * console.assert(config.length === 96);
 * ```
 */
export function createNcclConfig(values: FieldValues<typeof NCCL_CONFIG> = {}): Uint8Array<ArrayBuffer> {
  const integers = Object.entries(NCCL_CONFIG.fields).filter(([, [, type]]) => type === "i32");
  const unset = Object.fromEntries(integers.map(([field]) => [field, NcclConstant.CONFIG_UNDEF_INT]));
  return createStruct(NCCL_CONFIG, { ...unset, ...COMMON_CONFIG, magic: NcclConstant.API_MAGIC, ...values });
}

const HINTS: Readonly<Record<number, string>> = {
  [NcclResult.UnhandledCudaError]: "Set NCCL_DEBUG=WARN to see the CUDA error.",
  [NcclResult.SystemError]: "Set NCCL_DEBUG=WARN to see the system call; often /dev/shm is too small.",
  [NcclResult.RemoteError]: "Another rank failed first: look at its error.",
};

export function ncclError(
  functionName: string,
  code: number,
  hint?: string,
  ranks: readonly number[] = [],
): NcclError {
  const { symbols } = openNccl();
  const detail = readCString(symbols.ncclGetLastError(0n)).trim();
  const isFull = /out of memory/.test(detail);
  return new NcclError({
    functionName,
    code,
    symbol: enumName(NcclResult, code, "nccl"),
    text: readCString(symbols.ncclGetErrorString(code)) + (detail ? `; ${detail}` : ""),
    hint: hint ?? (isFull ? "Free device memory, or use smaller arrays or more GPUs." : HINTS[code]),
  }, { ranks });
}

/**
 * Throw the {@linkcode NcclError} for a code other than success and, on a communicator that does not block, in progress.
 *
 * @example
 * ```ts no-eval
 * import { checkNccl, NCCL_UNIQUE_ID, openNccl } from "@distmath/distmath/ffi";
 * const id = new Uint8Array(NCCL_UNIQUE_ID.size);
 * checkNccl(openNccl().symbols.ncclGetUniqueId(id), "ncclGetUniqueId");
 * ```
 */
export function checkNccl(code: number, functionName: string): void {
  if (code !== NcclResult.Success && code !== NcclResult.InProgress) throw ncclError(functionName, code);
}
