/**
 * Which device a rank computes on: the same kind on all ranks, and no GPU twice unless that is asked for.
 *
 * @module
 */
import { openCudaRuntime } from "../../ffi/cuda/runtime.ts";
import { environment, LibraryNotFoundError } from "../../ffi/library.ts";
import { machineMemoryBytes } from "../../ffi/machine.ts";
import { isWithoutMpi } from "../../ffi/mpi/mod.ts";
import { taskCommand } from "../../ffi/task_command.ts";
import { ConfigurationError } from "../errors.ts";
import { agree, makeOnAll } from "./agreement.ts";
import type { Communicator } from "../mpi/communicator.ts";
import { Device } from "../gpu/device.ts";
import { mayShareGpus, roomOnGpus, SHARING_SWITCH } from "../gpu/sharing.ts";
import { joinSlowly } from "./onlooking.ts";
import type { CpuDescription, DeviceDescription } from "./runtime.ts";
import { Stream } from "../gpu/stream.ts";

/** A device, ready to compute on. */
export interface ChosenDevice {
  device: DeviceDescription;
  /** Where a GPU's work is queued; `null` on a CPU. */
  stream: Stream | null;
}

/** What a rank wants to compute on: a GPU, or the CPU, perhaps for a reason that should be told. */
interface Wish {
  gpu: Device | null;
  warning?: string;
}

const CPU_HINT = `or compute on CPUs: initialize({ device: "cpu" }) or DISTMATH_DEVICE=cpu`;

const HINT =
  `${CPU_HINT}; or, to try things out, let ranks share GPUs: ${SHARING_SWITCH}=1 for all (NCCL 2.30 or newer)`;

function describeCpu(): CpuDescription {
  return {
    kind: "cpu",
    ordinal: null,
    name: `${Deno.build.arch} CPU`,
    computeCapability: null,
    memoryBytes: machineMemoryBytes(),
    cores: navigator.hardwareConcurrency,
  };
}

/**
 * Choose this rank's device, agree on it with the other ranks, and make it current. Collective.
 *
 * @throws {ConfigurationError} on every rank if a GPU does not exist, two ranks would share one, or kinds differ.
 */
export function chooseDevice(
  communicator: Communicator,
  wanted: "auto" | "cpu" | number,
  localRank: number,
): ChosenDevice {
  let wish!: Wish;
  const subject = { communicator, checks: "collective" } as const;
  agree(subject, "initialize", () => {
    wish = wishOf(wanted, localRank);
    if (wish.gpu !== null) joinSlowly();
  });
  // From here on all ranks judge the same data, so that they fail together.
  refuseMixture(Array.from(communicator.allGather(Uint8Array.of(wish.gpu === null ? 0 : 1)), Boolean));
  if (wish.warning !== undefined && communicator.rank === 0) console.warn(`distmath: ${wish.warning}`);
  if (wish.gpu === null) {
    refuseCpusWithoutMpi();
    return { device: describeCpu(), stream: null };
  }
  const { ordinal, name, computeCapability, memoryBytes, uuid } = wish.gpu;
  const isShared = checkSharing(
    communicator.allGatherObject({ uuid, ordinal, mayShare: mayShareGpus() }),
    communicator.rank,
  );
  // A GPU whose memory others have is none.
  const stream = makeOnAll(subject, "initialize", () => {
    wish.gpu!.makeCurrent();
    return new Stream(wish.gpu!, { name: "main" });
  });
  return { device: { kind: "gpu", ordinal, name, computeCapability, memoryBytes, uuid, isShared }, stream };
}

/** Ranks on CPUs exchange their data by MPI. */
function refuseCpusWithoutMpi(): void {
  if (!isWithoutMpi()) return;
  throw new ConfigurationError(
    "initialize: this job was started without MPI, by RANK and WORLD_SIZE, as torchrun does. That is for GPUs, which NCCL " +
      `connects, and here CPUs would compute. Start the script by mpirun (${
        taskCommand("run -n 4 script.ts")
      } finds it), or on ` +
      "machines with a GPU for each rank.",
  );
}

function wishOf(wanted: "auto" | "cpu" | number, localRank: number): Wish {
  const device = wanted === "auto" ? fromEnvironment() : wanted;
  if (device === "cpu") return { gpu: null };
  if (device !== "auto") {
    const gpu = new Device(device);
    openCudaRuntime();
    return { gpu };
  }
  const count = Device.count();
  if (count === 0) return { gpu: null };
  try {
    openCudaRuntime();
  } catch (error) {
    if (!(error instanceof LibraryNotFoundError)) throw error;
    return {
      gpu: null,
      warning:
        `this machine has a GPU, but the CUDA libraries were not found, so that CPUs compute. To install them: ` +
        `${taskCommand("native install cuda")}; to silence this: DISTMATH_DEVICE=cpu`,
    };
  }
  if (count > 1 && localRank >= roomOnGpus()) {
    throw new ConfigurationError(
      `initialize: a rank is number ${localRank} on its machine, where only ${count} GPUs are visible, and each rank ` +
        `needs its own. Start at most ${count} ranks a machine, ${HINT}.`,
    );
  }
  return { gpu: new Device(count === 1 ? 0 : localRank % count) };
}

/** What `DISTMATH_DEVICE` asks for. */
function fromEnvironment(): "auto" | "cpu" | number {
  const text = environment("DISTMATH_DEVICE") ?? "auto";
  if (text === "auto" || text === "cpu") return text;
  if (/^\d+$/.test(text)) return Number(text);
  throw new ConfigurationError(
    `DISTMATH_DEVICE is ${JSON.stringify(text)}; allowed are "auto", "cpu" and a GPU's number.`,
  );
}

function refuseMixture(isGpu: readonly boolean[]): void {
  const on = (wanted: boolean) => isGpu.flatMap((is, rank) => is === wanted ? [rank] : []);
  const [gpus, cpus] = [on(true), on(false)];
  if (gpus.length === 0 || cpus.length === 0) return;
  throw new ConfigurationError(
    `initialize: ranks ${gpus.join(", ")} have a GPU and ranks ${
      cpus.join(", ")
    } have none, but all ranks compute on ` +
      `the same kind of device. Start ranks only on machines with GPUs, ${CPU_HINT}.`,
    { ranks: cpus.length <= gpus.length ? cpus : gpus },
  );
}

/** What a rank's GPU is, and whether the rank may share it. */
interface Offer {
  readonly uuid: string;
  readonly ordinal: number;
  readonly mayShare: boolean;
}

/** Whether ranks share GPUs, which rank 0 tells of; refused if not all of them permit it. */
function checkSharing(offers: readonly Offer[], rank: number): boolean {
  const second = offers.findIndex(({ uuid }, rank) => offers.findIndex((other) => other.uuid === uuid) < rank);
  if (second === -1) return false;
  if (!offers.every(({ mayShare }) => mayShare)) refuseSharing(offers, second);
  if (rank === 0) tellOfSharing(offers);
  return true;
}

function tellOfSharing(offers: readonly Offer[]): void {
  const gpus = new Set(offers.map(({ uuid }) => uuid)).size;
  console.warn(
    `distmath: ${offers.length} ranks share ${
      gpus === 1 ? "one GPU" : `${gpus} GPUs`
    }, as ${SHARING_SWITCH}=1 permits. ` +
      `They take turns on it: results are right, but times say nothing about ranks with GPUs of their own.`,
  );
}

function refuseSharing(offers: readonly Offer[], second: number): never {
  const { uuid, ordinal } = offers[second];
  const first = offers.findIndex((other) => other.uuid === uuid);
  throw new ConfigurationError(
    `initialize: ranks ${first} and ${second} would share GPU ${ordinal} (${uuid}), but each rank needs its own. ` +
      `Start at most as many ranks as there are GPUs, leave device and CUDA_VISIBLE_DEVICES to the launcher, ${HINT}.`,
    { ranks: [first, second] },
  );
}
