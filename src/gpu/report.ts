/**
 * What a process sees of GPUs and of NVIDIA's libraries, told without starting anything.
 *
 * @module
 */
import { CudaDeviceP2PAttribute, type CudaRuntime, CudaStatus, openCudaRuntime } from "../../ffi/cuda/runtime.ts";
import {
  type CudaDriver,
  cudaDriverError,
  CuDeviceAttribute,
  CuResult,
  openCudaDriver,
} from "../../ffi/cuda/driver.ts";
import { openCublas, openCublasLt } from "../../ffi/cuda/cublaslt.ts";
import { openCublasMp } from "../../ffi/cuda/cublasmp.ts";
import { environment, LibraryNotFoundError, type LibraryVersion, openedLibraries } from "../../ffi/library.ts";
import { openNccl } from "../../ffi/cuda/nccl.ts";
import { openNvrtc } from "../../ffi/cuda/nvrtc.ts";
import { openNvshmem } from "../../ffi/cuda/nvshmem.ts";
import { Device } from "./device.ts";

/** The NVIDIA driver of a machine. */
export interface GpuDriver {
  /** The version of the kernel's module, such as `580.95.05`; `null` where the system does not tell. */
  version: string | null;
  /** The newest CUDA that the driver serves, such as `[13, 0]`. */
  cuda: readonly [major: number, minor: number];
  /** The driver's library. */
  path: string;
  /** How it was found. */
  source: string;
}

/** A GPU, as plain data. */
export interface GpuFacts {
  /** Its number among the visible ones. */
  ordinal: number;
  /** The vendor's name. */
  name: string;
  /** What tells it from all others. */
  uuid: string;
  /** Such as `[9, 0]`. */
  computeCapability: readonly [major: number, minor: number];
  /** Bytes of its memory. */
  memoryBytes: number;
  /** Whether its links offer NVLink multicast (NVLS). */
  hasMulticast: boolean;
}

/** How two GPUs reach each other. */
export interface GpuLink {
  /** The numbers of the two. */
  ordinals: readonly [number, number];
  /** What lies between them; `null` if CUDA does not tell. */
  kind: "nvlink" | "pcie" | null;
  /** Whether each can access the other's memory; `null` if CUDA does not tell. */
  hasPeerAccess: boolean | null;
}

/** What {@linkcode inspectGpus} returns. */
export interface GpuReport {
  /** The driver, or `null` on a machine without one. */
  driver: GpuDriver | null;
  /** Why there is no GPU to compute on, and whether that is a fault; `null` if there is one. */
  absence: { reason: string; isFault: boolean } | null;
  /** The visible GPUs. */
  devices: GpuFacts[];
  /** Each pair of them. */
  links: GpuLink[];
  /** NVIDIA's libraries that were opened; none is on a machine without a GPU. */
  libraries: LibraryVersion[];
  /** Those that could not be opened, and why. */
  missing: { name: string; reason: string }[];
  /** What the environment says of NVLink multicast; distmath switches it off unless it is allowed explicitly. */
  multicast: { NCCL_NVLS_ENABLE: string | null; NVSHMEM_DISABLE_NVLS: string | null };
}

/** The libraries in the order of their dependence. */
const LIBRARIES: readonly (readonly [name: string, open: () => unknown])[] = [
  ["CUDA runtime", openCudaRuntime],
  ["NVRTC", openNvrtc],
  ["cuBLASLt", openCublasLt],
  ["cuBLAS", openCublas],
  ["NCCL", openNccl],
  ["NVSHMEM", openNvshmem],
  ["cuBLASMp", openCublasMp],
];

/** Where Linux tells the version of the driver's module. */
const MODULE_FILES = ["/sys/module/nvidia/version", "/proc/driver/nvidia/version"];

/** The driver's version out of what such a file says. */
export function parseDriverVersion(text: string): string | null {
  return /\b\d{3,}\.\d+(\.\d+)?\b/.exec(text)?.[0] ?? null;
}

function moduleVersion(): string | null {
  for (const path of MODULE_FILES) {
    try {
      const version = parseDriverVersion(Deno.readTextFileSync(path));
      if (version !== null) return version;
    } catch {
      // A container may hide the file, and a script may lack the permission.
    }
  }
  return null;
}

/**
 * The NVIDIA driver of this machine, or `null`. Not collective.
 *
 * @example
 * ```ts
 * import { findGpuDriver } from "@distmath/distmath/internals";
 * console.log(findGpuDriver()?.cuda ?? "no driver");
 * ```
 */
export function findGpuDriver(): GpuDriver | null {
  try {
    const { version, path, source } = openCudaDriver();
    const cuda = [Math.floor(version / 1000), Math.floor(version % 1000 / 10)] as const;
    return { version: moduleVersion(), cuda, path, source };
  } catch (error) {
    if (error instanceof LibraryNotFoundError) return null;
    throw error;
  }
}

/** Why there is no GPU for this process, or `null` if there is one. */
function absenceOf(driver: CudaDriver | null): GpuReport["absence"] {
  if (driver === null) return { reason: "no NVIDIA driver (libcuda.so.1) was found", isFault: false };
  const code = driver.symbols.cuInit(0);
  if (code === CuResult.ERROR_NO_DEVICE || code === CuResult.SUCCESS && Device.count() === 0) {
    const visible = environment("CUDA_VISIBLE_DEVICES");
    const hint = visible === undefined ? "" : `; CUDA_VISIBLE_DEVICES is "${visible}"`;
    return { reason: `the NVIDIA driver sees no GPU${hint}`, isFault: false };
  }
  if (code === CuResult.SUCCESS) return null;
  return { reason: `the NVIDIA driver does not start: ${cudaDriverError("cuInit", code).message}`, isFault: true };
}

function factsOf(ordinal: number): GpuFacts {
  const { name, uuid, computeCapability, memoryBytes } = new Device(ordinal);
  const { symbols } = openCudaDriver();
  const [device, value] = [new Int32Array(1), new Int32Array(1)];
  const code = symbols.cuDeviceGet(device, ordinal) ||
    symbols.cuDeviceGetAttribute(value, CuDeviceAttribute.MULTICAST_SUPPORTED, device[0]);
  const hasMulticast = code === CuResult.SUCCESS && value[0] === 1;
  return { ordinal, name, uuid, computeCapability, memoryBytes, hasMulticast };
}

/** Between GPUs, atomics of the hardware travel over NVLink and not over PCIe: this tells the two apart. */
function linkOf({ symbols }: CudaRuntime, from: number, to: number): GpuLink {
  const value = new Int32Array(1);
  const isTrue = (code: number) => code === CudaStatus.Success ? value[0] === 1 : null;
  const [there, back] = [[from, to], [to, from]].map(([device, peer]) =>
    isTrue(symbols.cudaDeviceCanAccessPeer(value, device, peer))
  );
  const attribute = CudaDeviceP2PAttribute.NativeAtomicSupported;
  const hasAtomics = isTrue(symbols.cudaDeviceGetP2PAttribute(value, attribute, from, to));
  return {
    ordinals: [from, to],
    kind: hasAtomics === null ? null : hasAtomics ? "nvlink" : "pcie",
    hasPeerAccess: there === null || back === null ? null : there && back,
  };
}

/** The links between the first so many GPUs. */
export function linksOf(count: number): GpuLink[] {
  const ordinals = Array.from({ length: count }, (_, ordinal) => ordinal);
  return ordinals.flatMap((from) => ordinals.slice(from + 1).map((to) => linkOf(openCudaRuntime(), from, to)));
}

/** Why a library was not opened, in a line: files that are not there are no news. */
function reasonOf(error: unknown): string {
  if (!(error instanceof LibraryNotFoundError)) return error instanceof Error ? error.message : String(error);
  if (error.isDamaged) return error.message;
  const refused = error.attempts.find(({ outcome }) => outcome !== "absent");
  const [summary] = error.message.split(/ Tried:|\n/);
  return refused ? `${summary} ${refused.path} (${refused.source}): ${refused.reason}` : summary;
}

/**
 * Look at the driver, the GPUs, their links and NVIDIA's libraries. Opens the libraries where there is a GPU, and makes
 * no GPU current. Not collective. Source: the device management of the CUDA driver and runtime.
 *
 * @example
 * ```ts
 * import { inspectGpus } from "@distmath/distmath/internals";
 * const { devices, links, libraries } = inspectGpus();
 * for (const { name, version } of libraries) console.log(name, version);
 * console.log(devices.length, links.every(({ kind }) => kind === "nvlink"));
 * ```
 */
export function inspectGpus(): GpuReport {
  const multicast = {
    NCCL_NVLS_ENABLE: environment("NCCL_NVLS_ENABLE") ?? null,
    NVSHMEM_DISABLE_NVLS: environment("NVSHMEM_DISABLE_NVLS") ?? null,
  };
  const driver = findGpuDriver();
  const absence = absenceOf(driver && openCudaDriver());
  if (absence) return { driver, absence, devices: [], links: [], libraries: [], missing: [], multicast };
  const missing: GpuReport["missing"] = [];
  for (const [name, open] of LIBRARIES) {
    try {
      open();
    } catch (error) {
      missing.push({ name, reason: reasonOf(error) });
    }
  }
  const devices = Array.from({ length: Device.count() }, (_, ordinal) => factsOf(ordinal));
  const links = missing.some(({ name }) => name === "CUDA runtime") ? [] : linksOf(devices.length);
  const names = new Set(LIBRARIES.map(([name]) => name));
  const libraries = openedLibraries().filter(({ name }) => names.has(name));
  return { driver, absence, devices, links, libraries, missing, multicast };
}
