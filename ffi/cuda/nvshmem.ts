/**
 * NVSHMEM's host library: a symmetric heap over GPUs, copies, signals, teams and collectives on streams.
 *
 * Source: the headers of NVSHMEM 3.4.5. The library is driven by its unique-id bootstrap, which needs no MPI; its
 * `nvshmem_bootstrap_uid.so.3` lies in the same folder. Functions of the header that only exist inlined
 * (`nvshmem_init`, `nvshmem_finalize`) have `nvshmemx_hostlib_…` counterparts here. The multicast address of symmetric
 * memory is left out on purpose.
 *
 * @module
 */
import { type MulticastOptions, noteVersion, openCudaLibrary, openGroup, settleMulticast } from "./library.ts";
import { enumName } from "../enums.ts";
import { NativeError } from "../errors.ts";
import { type Library, LibraryNotFoundError } from "../library.ts";
import { openNccl } from "./nccl.ts";
import { NVSHMEM_WAITS } from "./waiting_functions.ts";
import { noteWaiting } from "../waiting.ts";
import { createStruct, type StructLayout } from "../struct.ts";

/** The results of NVSHMEM (`nvshmemx_status`, without `NVSHMEMX_`). */
export const NvshmemStatus = {
  SUCCESS: 0,
  ERROR_INVALID_VALUE: 1,
  ERROR_OUT_OF_MEMORY: 2,
  ERROR_NOT_SUPPORTED: 3,
  ERROR_SYMMETRY: 4,
  ERROR_GPU_NOT_SELECTED: 5,
  ERROR_COLLECTIVE_LAUNCH_FAILED: 6,
  ERROR_INTERNAL: 7,
} as const;

/** How far NVSHMEM's initialization is (`nvshmemx_init_status_t`, without `NVSHMEM_STATUS_`). */
export const NvshmemInitStatus = {
  NOT_INITIALIZED: 0,
  IS_BOOTSTRAPPED: 1,
  IS_INITIALIZED: 2,
  LIMITED_MPG: 3,
  FULL_MPG: 4,
} as const;

/** How NVSHMEM finds the other processes (without `NVSHMEMX_INIT_`). */
export const NvshmemInitFlags = {
  THREAD_PES: 1,
  WITH_MPI_COMM: 2,
  WITH_SHMEM: 4,
  WITH_UNIQUEID: 8,
} as const;

/** The predefined teams of processes (C names in full, since they have two prefixes). */
export const NvshmemTeam = {
  NVSHMEM_TEAM_INVALID: -1,
  NVSHMEM_TEAM_WORLD: 0,
  NVSHMEM_TEAM_SHARED: 1,
  NVSHMEMX_TEAM_NODE: 2,
  NVSHMEMX_TEAM_SAME_MYPE_NODE: 3,
} as const;

/** How a signal changes its target (`nvshmemx_signal_op_t`, without `NVSHMEM_SIGNAL_`). */
export const NvshmemSignalOp = {
  SET: 9,
  ADD: 10,
} as const;

/** What a wait compares with (`nvshmemi_cmp_type`, without `NVSHMEM_CMP_`). */
export const NvshmemCompare = {
  EQ: 0,
  NE: 1,
  GT: 2,
  LE: 3,
  LT: 4,
  GE: 5,
} as const;

/** What tells the processes of a job from those of another: made on one rank, passed to all. */
export const NVSHMEM_UNIQUE_ID = {
  name: "nvshmemx_uniqueid_t",
  size: 128,
  fields: { version: [0, "i32"], internal: [4, 124] },
} as const satisfies StructLayout;

/** How to initialize; {@linkcode createNvshmemInitAttr} makes one. */
export const NVSHMEM_INIT_ATTR = {
  name: "nvshmemx_init_attr_t",
  size: 144,
  fields: {
    version: [0, "i32"],
    mpi_comm: [8, "u64"],
    "args.version": [16, "i32"],
    "args.uid_args.version": [24, "i32"],
    "args.uid_args.id": [32, "u64"],
    "args.uid_args.myrank": [40, "i32"],
    "args.uid_args.nranks": [44, "i32"],
    "args.content": [48, 96],
  },
} as const satisfies StructLayout;

/** Settings of a new team; a NULL config and an empty mask mean the defaults. */
export const NVSHMEM_TEAM_CONFIG = {
  name: "nvshmem_team_config_t",
  size: 64,
  fields: { version: [0, "i32"], num_contexts: [4, "i32"], uniqueid: [8, "u64"] },
} as const satisfies StructLayout;

/** The functions of NVSHMEM; addresses on the symmetric heap are `u64`. */
// deno-fmt-ignore
export const NVSHMEM_SYMBOLS = {
  // library and bootstrap
  nvshmem_info_get_version: { parameters: [/* major */ "buffer", /* minor */ "buffer"], result: "void" },
  nvshmemx_vendor_get_version_info: { result: "void", parameters: [
    /* major */ "buffer", /* minor */ "buffer", /* patch */ "buffer",
  ] },
  nvshmemx_init_status: { parameters: [], result: "i32" },
  nvshmemx_get_uniqueid: { parameters: [/* uniqueid */ "buffer"], result: "i32" },
  nvshmemx_set_attr_uniqueid_args: { result: "i32", parameters: [
    /* myrank */ "i32", /* nranks */ "i32", /* uniqueid */ "buffer", /* attr */ "buffer",
  ] },
  nvshmemx_hostlib_init_attr: { parameters: [/* flags */ "u32", /* attr */ "buffer"], result: "i32" },
  nvshmemx_hostlib_finalize: { parameters: [], result: "void" },
  nvshmem_global_exit: { parameters: [/* status */ "i32"], result: "void" },
  nvshmem_my_pe: { parameters: [], result: "i32" },
  nvshmem_n_pes: { parameters: [], result: "i32" },

  // symmetric heap
  nvshmem_malloc: { parameters: [/* size */ "usize"], result: "u64" },
  nvshmem_calloc: { parameters: [/* count */ "usize", /* size */ "usize"], result: "u64" },
  nvshmem_align: { parameters: [/* alignment */ "usize", /* size */ "usize"], result: "u64" },
  nvshmem_free: { parameters: [/* ptr */ "u64"], result: "void" },
  nvshmem_ptr: { parameters: [/* ptr */ "u64", /* pe */ "i32"], result: "u64" },
  nvshmemx_buffer_register_symmetric: { optional: true, result: "u64", parameters: [
    /* buf_ptr */ "u64", /* size */ "usize", /* flags */ "i32",
  ] },
  nvshmemx_buffer_unregister_symmetric: { optional: true, result: "i32", parameters: [
    /* mmap_ptr */ "u64", /* size */ "usize",
  ] },
  nvshmemx_buffer_register: { parameters: [/* addr */ "u64", /* length */ "usize"], result: "i32" },
  nvshmemx_buffer_unregister: { parameters: [/* addr */ "u64"], result: "i32" },

  // host-side ordering
  nvshmem_barrier: { parameters: [/* team */ "i32"], result: "i32" },
  nvshmem_barrier_all: { parameters: [], result: "void" },
  nvshmem_team_sync: { parameters: [/* team */ "i32"], result: "i32" },
  nvshmem_sync_all: { parameters: [], result: "void" },
  nvshmem_quiet: { parameters: [], result: "void" },
  nvshmem_fence: { parameters: [], result: "void" },

  // data movement, signals and barriers on a stream
  nvshmemx_putmem_on_stream: { result: "void", parameters: [
    /* dest */ "u64", /* source */ "u64", /* bytes */ "usize", /* pe */ "i32", /* cstrm */ "u64",
  ] },
  nvshmemx_putmem_nbi_on_stream: { result: "void", parameters: [
    /* dest */ "u64", /* source */ "u64", /* bytes */ "usize", /* pe */ "i32", /* cstrm */ "u64",
  ] },
  nvshmemx_getmem_on_stream: { result: "void", parameters: [
    /* dest */ "u64", /* source */ "u64", /* bytes */ "usize", /* pe */ "i32", /* cstrm */ "u64",
  ] },
  nvshmemx_getmem_nbi_on_stream: { result: "void", parameters: [
    /* dest */ "u64", /* source */ "u64", /* bytes */ "usize", /* pe */ "i32", /* cstrm */ "u64",
  ] },
  nvshmemx_putmem_signal_on_stream: { result: "void", parameters: [
    /* dest */ "u64", /* source */ "u64", /* bytes */ "usize", /* sig_addr */ "u64", /* signal */ "u64",
    /* sig_op */ "i32", /* pe */ "i32", /* cstrm */ "u64",
  ] },
  nvshmemx_putmem_signal_nbi_on_stream: { result: "void", parameters: [
    /* dest */ "u64", /* source */ "u64", /* bytes */ "usize", /* sig_addr */ "u64", /* signal */ "u64",
    /* sig_op */ "i32", /* pe */ "i32", /* cstrm */ "u64",
  ] },
  nvshmemx_signal_op_on_stream: { result: "void", parameters: [
    /* sig_addr */ "u64", /* signal */ "u64", /* sig_op */ "i32", /* pe */ "i32", /* cstrm */ "u64",
  ] },
  nvshmemx_signal_wait_until_on_stream: { result: "void", parameters: [
    /* sig_addr */ "u64", /* cmp */ "i32", /* cmp_value */ "u64", /* cstream */ "u64",
  ] },
  nvshmemx_uint64_wait_until_on_stream: { result: "void", parameters: [
    /* ivar */ "u64", /* cmp */ "i32", /* cmp_value */ "u64", /* cstream */ "u64",
  ] },
  nvshmem_signal_fetch: { parameters: [/* sig_addr */ "u64"], result: "u64" },
  nvshmemx_barrier_on_stream: { parameters: [/* team */ "i32", /* stream */ "u64"], result: "i32" },
  nvshmemx_barrier_all_on_stream: { parameters: [/* cstrm */ "u64"], result: "void" },
  nvshmemx_team_sync_on_stream: { parameters: [/* team */ "i32", /* stream */ "u64"], result: "i32" },
  nvshmemx_sync_all_on_stream: { parameters: [/* cstrm */ "u64"], result: "void" },
  nvshmemx_quiet_on_stream: { parameters: [/* cstrm */ "u64"], result: "void" },
  // data movement on the host
  nvshmem_putmem: { result: "void", parameters: [
    /* dest */ "u64", /* source */ "u64", /* bytes */ "usize", /* pe */ "i32",
  ] },
  nvshmem_getmem: { result: "void", parameters: [
    /* dest */ "u64", /* source */ "u64", /* bytes */ "usize", /* pe */ "i32",
  ] },

  // teams
  nvshmem_team_my_pe: { parameters: [/* team */ "i32"], result: "i32" },
  nvshmem_team_n_pes: { parameters: [/* team */ "i32"], result: "i32" },
  nvshmem_team_translate_pe: { result: "i32", parameters: [
    /* src_team */ "i32", /* src_pe */ "i32", /* dest_team */ "i32",
  ] },
  nvshmem_team_get_config: { parameters: [/* team */ "i32", /* config */ "buffer"], result: "void" },
  nvshmem_team_split_strided: { result: "i32", parameters: [
    /* parent_team */ "i32", /* PE_start */ "i32", /* PE_stride */ "i32", /* PE_size */ "i32", /* config */ "buffer",
    /* config_mask */ "i64", /* new_team */ "buffer",
  ] },
  nvshmem_team_split_2d: { result: "i32", parameters: [
    /* parent_team */ "i32", /* xrange */ "i32", /* xaxis_config */ "buffer", /* xaxis_mask */ "i64",
    /* xaxis_team */ "buffer", /* yaxis_config */ "buffer", /* yaxis_mask */ "i64", /* yaxis_team */ "buffer",
  ] },
  nvshmem_team_destroy: { parameters: [/* team */ "i32"], result: "void" },

  // collectives on a stream; reductions are in a table of their own
  nvshmemx_fcollectmem_on_stream: { result: "i32", parameters: [
    /* team */ "i32", /* dest */ "u64", /* src */ "u64", /* nelem */ "usize", /* stream */ "u64",
  ] },
  nvshmemx_alltoallmem_on_stream: { result: "i32", parameters: [
    /* team */ "i32", /* dest */ "u64", /* src */ "u64", /* nelem */ "usize", /* stream */ "u64",
  ] },
  nvshmemx_broadcastmem_on_stream: { result: "i32", parameters: [
    /* team */ "i32", /* dest */ "u64", /* src */ "u64", /* nelem */ "usize", /* PE_root */ "i32", /* stream */ "u64",
  ] },
} as const satisfies Deno.ForeignLibraryInterface;

/** The element types of reductions, as NVSHMEM's functions name them. */
export type NvshmemReducedType =
  | "half"
  | "bfloat16"
  | "float"
  | "double"
  | "int8"
  | "uint8"
  | "int32"
  | "uint32"
  | "int64"
  | "uint64";

export type NvshmemReduction = "sum" | "prod" | "min" | "max";

/** The names of the reductions, such as `nvshmemx_float_sum_reduce_on_stream`. */
export type NvshmemReductionName = `nvshmemx_${NvshmemReducedType}_${NvshmemReduction}_${
  | "reduce"
  | "reducescatter"}_on_stream`;

/** The types of each reduction. */
export const NVSHMEM_REDUCE = {
  parameters: [/* team */ "i32", /* dest */ "u64", /* src */ "u64", /* nreduce */ "usize", /* stream */ "u64"],
  result: "i32",
} as const satisfies Deno.ForeignFunction;

function reductionTable(): Record<NvshmemReductionName, typeof NVSHMEM_REDUCE> {
  const integers = ["int8", "uint8", "int32", "uint32", "int64", "uint64"] as const;
  const types: readonly NvshmemReducedType[] = ["half", "bfloat16", "float", "double", ...integers];
  const operations: readonly NvshmemReduction[] = ["sum", "prod", "min", "max"];
  const names = types.flatMap((type) =>
    operations.flatMap((operation) =>
      (["reduce", "reducescatter"] as const).map((kind) => `nvshmemx_${type}_${operation}_${kind}_on_stream` as const)
    )
  );
  return Object.fromEntries(names.map((name) => [name, NVSHMEM_REDUCE])) as ReturnType<typeof reductionTable>;
}

/** Reductions on a stream: one function for each element type and operation, all with the same parameters. */
export const NVSHMEM_REDUCTION_SYMBOLS: Readonly<Record<NvshmemReductionName, typeof NVSHMEM_REDUCE>> =
  reductionTable();

export class NvshmemError extends NativeError {}

export interface Nvshmem extends Library<typeof NVSHMEM_SYMBOLS> {
  /** The version, such as `[3, 4, 5]`. */
  version: readonly [major: number, minor: number, patch: number];
}

let nvshmem: Nvshmem | undefined;
let reductions: Deno.DynamicLibrary<typeof NVSHMEM_REDUCTION_SYMBOLS>["symbols"] | undefined;

/**
 * NVSHMEM, opened at the first call, whose options count; multicast is off unless they allow it.
 *
 * @throws {LibraryNotFoundError} if it is not installed.
 * @throws {ConfigurationError} if multicast cannot be switched off.
 */
export function openNvshmem(options: MulticastOptions = {}): Nvshmem {
  if (nvshmem) return nvshmem;
  settleMulticast(options);
  openNcclBefore(options);
  const library = openCudaLibrary({
    name: "NVSHMEM",
    files: ["libnvshmem_host.so.3"],
    wheelFolders: ["nvshmem/lib"],
  }, NVSHMEM_SYMBOLS);
  const [major, minor, patch] = [new Int32Array(1), new Int32Array(1), new Int32Array(1)];
  library.symbols.nvshmemx_vendor_get_version_info(major, minor, patch);
  noteVersion(library.name, major[0], minor[0], patch[0]);
  noteWaiting(library.symbols, NVSHMEM_WAITS);
  return nvshmem = { ...library, version: [major[0], minor[0], patch[0]] };
}

/** NVSHMEM opens NCCL by its bare name. Let it find the one that all others use: a process can have one only. */
function openNcclBefore(options: MulticastOptions): void {
  try {
    openNccl(options);
  } catch (error) {
    if (!(error instanceof LibraryNotFoundError) || error.isDamaged) throw error;
  }
}

/** The reductions of {@linkcode openNvshmem}'s library. */
export function openNvshmemReductions(): Deno.DynamicLibrary<typeof NVSHMEM_REDUCTION_SYMBOLS>["symbols"] {
  return reductions ??= openGroup(openNvshmem(), NVSHMEM_REDUCTION_SYMBOLS);
}

/** The version field of a struct: its first version, and its size. */
function versionField(size: number): number {
  return (1 << 16) + size;
}

/**
 * The argument of `nvshmemx_hostlib_init_attr`, as the C header's initializer makes it.
 * `nvshmemx_set_attr_uniqueid_args` then sets rank, size and the address of the id, which has to stay alive meanwhile.
 *
 * @example
 * ```ts
 * import { createNvshmemInitAttr, NVSHMEM_INIT_ATTR, readField } from "@distmath/distmath/ffi";
 * console.assert(readField(NVSHMEM_INIT_ATTR, createNvshmemInitAttr(), "version") === 65680);
 * ```
 */
export function createNvshmemInitAttr(): Uint8Array<ArrayBuffer> {
  return createStruct(NVSHMEM_INIT_ATTR, {
    version: versionField(NVSHMEM_INIT_ATTR.size),
    "args.version": versionField(128),
    "args.uid_args.version": versionField(24),
  });
}

/** A buffer for `nvshmemx_get_uniqueid`. */
export function createNvshmemUniqueId(): Uint8Array<ArrayBuffer> {
  return createStruct(NVSHMEM_UNIQUE_ID, { version: versionField(NVSHMEM_UNIQUE_ID.size) });
}

/** The error for what a function of NVSHMEM returned. NVSHMEM has no function that describes its codes. */
function nvshmemError(functionName: string, code: number): NvshmemError {
  return new NvshmemError({
    functionName,
    code,
    symbol: enumName(NvshmemStatus, code, "NVSHMEMX_"),
    text: "NVSHMEM prints its reason only",
    hint: "Set NVSHMEM_DEBUG=WARN to see it.",
  });
}

/**
 * Throw the {@linkcode NvshmemError} for a code other than success.
 *
 * @example
 * ```ts no-eval
 * import { checkNvshmem, createNvshmemUniqueId, openNvshmem } from "@distmath/distmath/ffi";
 * const id = createNvshmemUniqueId();
 * checkNvshmem(openNvshmem().symbols.nvshmemx_get_uniqueid(id), "nvshmemx_get_uniqueid");
 * ```
 */
export function checkNvshmem(code: number, functionName: string): void {
  if (code !== NvshmemStatus.SUCCESS) throw nvshmemError(functionName, code);
}
