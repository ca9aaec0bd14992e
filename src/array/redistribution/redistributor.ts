/**
 * One rank's part in a redistribution, planned once and executed where the elements are: on hosts or on GPUs.
 *
 * @module
 */
import { isWithoutMpi, type Mpi } from "../../../ffi/mpi/mod.ts";
import { dtypeInfo } from "../../dtype/dtype.ts";
import { type DeviceChannels, openDeviceChannels, openedDeviceChannels } from "../../memory/device_channels.ts";
import {
  MOST_OFFERED_DIMENSIONS,
  openChannels,
  openedChannels,
  type PeerChannels,
} from "../../memory/peer_channels.ts";
import { startMpi } from "../../mpi/init_finalize.ts";
import { agreeStrictly, freeUnlessAgreed } from "../../runtime/agreement.ts";
import { recorder } from "../../runtime/recorder.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { type Order, prepareCopy } from "../layout.ts";
import { LocalArray } from "../local_array.ts";
import { SymmetricArray } from "../symmetric_array.ts";
import { GpuExecutor, type Laid, Scratch } from "./gpu_executor.ts";
import { PackedExecutor } from "./packed_executor.ts";
import { type Making, prepareMaking, type Using } from "./making_executor.ts";
import { PeerExecutor } from "./peer_executor.ts";
import { ProcessExecutor } from "./process_executor.ts";
import { type Parts, planRedistribution, type RedistributionPlan } from "./plan.ts";
import { TypedExecutor } from "./typed_executor.ts";
import { prepareThroughWindow } from "./window_executor.ts";

/**
 * How elements travel: not at all; in host memory, if all ranks are on one machine, from the memory of one process straight
 * into that of another, or through memory that they share, else packed by `MPI_Alltoallv`, or not packed by
 * `MPI_Alltoallw`; between GPUs of one machine straight into a target in symmetric memory, or through slots in such memory;
 * between others packed by NCCL.
 */
export type RedistributionAlgorithm =
  | "local_copy"
  | "shared_window"
  | "packed_alltoallv"
  | "derived_types"
  | "direct_copies"
  | "peer_copies"
  | "packed_nccl";

/** How elements are asked to travel; "auto" is the fastest way that there is. */
export type AskedAlgorithm = "auto" | Exclude<RedistributionAlgorithm, "local_copy">;

/**
 * How messages between hosts are made if nobody asks for one way: the faster one as measured over TCP. Who moves elements
 * again and again packs them. Once, buffers for that are new memory, which costs more than Open MPI's derived types do;
 * MPICH's cost as much, and several times more between ranks of one machine. Pure.
 */
export function messagesFor(vendor: Mpi["vendor"], isOnce: boolean): "packed_alltoallv" | "derived_types" {
  return isOnce && vendor === "open_mpi" ? "derived_types" : "packed_alltoallv";
}

/** A move between two arrays. */
interface Kept {
  readonly source: LocalArray;
  readonly target: LocalArray;
  readonly order: Order;
  readonly move: () => void;
}

/** Moves local parts from one distribution to another, and keeps for the next time what it allocates for that. */
export class Redistributor {
  readonly #runtime: Runtime;
  readonly #plan: RedistributionPlan;
  readonly #host: PackedExecutor;
  readonly #typed: TypedExecutor;
  readonly #processes: ProcessExecutor;
  readonly #gpu: GpuExecutor;
  readonly #peers: PeerExecutor | null;
  readonly #scratch: Scratch;
  readonly #asked: AskedAlgorithm;
  readonly #isOnce: boolean;
  readonly #isOnDevice: boolean;
  /** What was copied, for parts that share memory. */
  readonly #copies: LocalArray[] = [];
  /** What was prepared last for arrays that stay. */
  #kept: Kept | null = null;
  /** Whether the last move was captured in a graph. */
  #isCaptured = false;

  /**
   * Plan this rank's part. Local. Redistributions of one owner may share the memory for packed blocks on the GPU; it is
   * freed with any of them.
   *
   * @throws {DistributionError} if the distributions are not bound to the same shape and number of ranks.
   */
  constructor(
    runtime: Runtime,
    from: Parts,
    to: Parts,
    { scratch = new Scratch(), algorithm = "auto", isOnce = false, isOnDevice = runtime.stream !== null }: {
      /** Memory for packed blocks on the GPU. */
      readonly scratch?: Scratch;
      /** How elements travel. */
      readonly algorithm?: AskedAlgorithm;
      /** Whether they travel only once. */
      readonly isOnce?: boolean;
      /** Whether they are on GPUs. */
      readonly isOnDevice?: boolean;
    } = {},
  ) {
    this.#runtime = runtime;
    this.#plan = planRedistribution(from, to, runtime.rank);
    this.#host = new PackedExecutor(this.#plan, runtime.communicator);
    this.#typed = new TypedExecutor(this.#plan, runtime.communicator);
    this.#processes = new ProcessExecutor(this.#plan);
    this.#gpu = new GpuExecutor(this.#plan, runtime, scratch);
    this.#peers = runtime.stream && new PeerExecutor(this.#plan, runtime.stream);
    this.#scratch = scratch;
    this.#asked = algorithm;
    this.#isOnce = isOnce;
    this.#isOnDevice = isOnDevice;
  }

  /** Bytes that leave a rank, over all ranks, for elements of this size. */
  bytesMoved(itemSize: number): number {
    return this.#plan.bytesMoved(itemSize);
  }

  /** Bytes that it keeps, without the scratch memory. */
  get byteLength(): number {
    const copied = this.#copies.reduce((sum, { byteLength }) => sum + byteLength, 0);
    return this.#host.byteLength + this.#processes.byteLength + this.#gpu.byteLength + (this.#peers?.byteLength ?? 0) +
      copied;
  }

  /**
   * How the elements of such parts travel, once {@linkcode open} was called; a new target is `null`. `order` is the source's. If
   * the last move was captured in a graph, it is how that one goes.
   */
  algorithmFor(
    source: Pick<LocalArray, "dtype" | "isOnDevice">,
    target: LocalArray | null,
    order: Order,
  ): RedistributionAlgorithm {
    if (this.#plan.elementsMoved === 0) return "local_copy";
    if (!source.isOnDevice) {
      const channels = this.#channels();
      if (!channels) return this.#messages;
      return this.#isBetweenProcesses(channels, dtypeInfo(source.dtype).itemSize, order)
        ? "direct_copies"
        : "shared_window";
    }
    if (this.#isCaptured || !this.#deviceChannels()) return "packed_nccl";
    return this.goesStraight(target, order) ? "direct_copies" : "peer_copies";
  }

  /** Whether it is known how elements travel: {@linkcode open} finds out for all redistributions of these ranks. */
  get isSettled(): boolean {
    if (this.#plan.elementsMoved === 0) return true;
    return (this.#isOnDevice ? this.#deviceChannels() : this.#channels()) !== undefined;
  }

  /** How they can travel, once {@linkcode open} was called. */
  algorithmsFor(source: LocalArray, target: LocalArray | null): AskedAlgorithm[] {
    const isLocal = this.#plan.elementsMoved === 0;
    if (source.isOnDevice) {
      const mayShare = isLocal || openedDeviceChannels(this.#runtime);
      const isSymmetric = isLocal || target instanceof SymmetricArray;
      return [
        ...mayShare && isSymmetric ? ["direct_copies" as const] : [],
        ...mayShare ? ["peer_copies" as const] : [],
        "packed_nccl",
      ];
    }
    const channels = openedChannels(this.#runtime.communicator);
    return [
      ...isLocal || channels?.processes ? ["direct_copies" as const] : [],
      ...isLocal || channels ? ["shared_window" as const] : [],
      "packed_alltoallv",
      ...isWithoutMpi() ? [] : ["derived_types" as const],
    ];
  }

  /**
   * Make what the ranks use together, unless it was made before: the first move does so otherwise. Collective.
   */
  open(): void {
    if (this.#plan.elementsMoved === 0) return;
    if (this.#isOnDevice) {
      if (this.#asked !== "packed_nccl") openDeviceChannels(this.#runtime);
    } else if (!this.#isByMessages) {
      openChannels(this.#runtime.communicator);
    }
  }

  /**
   * Have what moving parts needs that will lie so in the memory of GPUs, before there are any. Local. False if it is not known
   * yet how they travel: {@linkcode open} finds out.
   */
  reserveOnDevice(source: Laid, target: Laid, order: Order): boolean {
    if (this.#plan.elementsMoved === 0) return true;
    const channels = this.#deviceChannels();
    if (channels === undefined) return false;
    if (channels === null) this.#gpu.reserve(source, target, order, this.#runtime.stream!);
    else this.#peers!.reserve(channels, source, target, order);
    return true;
  }

  /**
   * Check the parts, which are both in host memory or both on GPUs, and allocate what moving them needs and is not there
   * yet. Local. Returns what moves the elements, which is collective, for when all ranks have agreed that they are ready,
   * and can be called again as long as the parts' memory is there.
   * `order`, the same on all ranks, is the order of the elements in messages: the source's is the fastest.
   *
   * @throws {DTypeError} if the dtypes differ.
   * @throws {ShapeError} if a part has not the planned shape.
   */
  prepare(source: LocalArray, target: LocalArray, order: Order): () => void {
    const plan = this.#plan;
    plan.check(source, target);
    if (overlap(source, target)) return this.#prepareFromCopy(source, target, order);
    if (plan.elementsMoved === 0) {
      if (source.isOnDevice) return this.#gpu.prepare(source, target, order);
      return prepareCopy(source, target, plan.stays.runs, dtypeInfo(source.dtype).parts);
    }
    const move = source.isOnDevice
      ? this.#prepareOnDevice(source, target, order)
      : this.#prepareOnHost(source, target, order);
    if (move !== null) return move;
    // Whether there are channels, which takes no buffers, only all ranks together find out.
    let opened: (() => void) | undefined;
    return () => {
      if (opened === undefined) {
        if (source.isOnDevice) openDeviceChannels(this.#runtime);
        else openChannels(this.#runtime.communicator);
        agreeStrictly(this.#runtime, "redistribute", () => {
          opened = source.isOnDevice
            ? this.#prepareOnDevice(source, target, order)!
            : this.#prepareOnHost(source, target, order)!;
        });
      }
      opened!();
    };
  }

  /**
   * As {@linkcode prepare}, for arrays that stay the same: in host memory what was prepared for them is kept, until others come
   * or {@linkcode release} is called.
   */
  prepareLasting(source: LocalArray, target: LocalArray, order: Order): () => void {
    if (source.isOnDevice) return this.prepare(source, target, order);
    const kept = this.#kept;
    const isKept = kept?.source === source && kept.target === target && kept.order === order;
    if (isKept && !source.isLost && !target.isLost) return kept.move;
    const move = this.prepare(source, target, order);
    this.#kept = { source, target, order, move };
    return move;
  }

  /** Let go of the arrays. */
  release(): void {
    this.#kept = null;
  }

  /**
   * Whether a source may be made while it moves: the same on all ranks. In host memory it is if elements go from process to
   * process; before {@linkcode open} was called that is a guess.
   */
  canMoveWhile(order: Order, itemSize: number): boolean {
    if (this.#plan.elementsMoved === 0) return false;
    if (this.#isOnDevice) return !!this.#deviceChannels();
    // Targets are offered as they lie, and places have so many strides.
    if (this.#plan.to.globalShape!.length > MOST_OFFERED_DIMENSIONS) return false;
    const channels = this.#channels();
    const { size, localSize } = this.#runtime;
    if (channels === undefined) return size === localSize && this.#processes.isFastest(order, itemSize);
    return channels !== null && this.#isBetweenProcesses(channels, itemSize, order);
  }

  /**
   * Prepare moving a source in host memory that is made meanwhile: returns what prepares the rest, as {@linkcode prepare} does,
   * given a dense target apart from it. `null`, the same on all ranks, if it has to be there before: {@linkcode open} was not
   * called, or ranks cannot write to each other's memory.
   */
  prepareMaking(making: Making, source: LocalArray, order: Order): ((target: LocalArray) => () => void) | null {
    const channels = this.canMoveWhile(order, dtypeInfo(source.dtype).itemSize) ? this.#channels() : null;
    if (!channels) return null;
    const prepare = prepareMaking(this.#plan, channels, making, source, order);
    return (target) => this.#counted("between processes", prepare(target));
  }

  /**
   * As {@linkcode prepare}, of a source on GPUs that is made while it moves, and a target that may be used while it arrives if it
   * {@linkcode goesStraight} there; `null`, the same on all ranks, if the source has to be there before: {@linkcode open} was not
   * called, or these ranks have no channels.
   */
  prepareWhile(
    making: Making,
    source: LocalArray,
    target: LocalArray,
    order: Order,
    using: Using | null = null,
  ): (() => void) | null {
    const canMove = this.canMoveWhile(order, dtypeInfo(target.dtype).itemSize);
    const channels = canMove ? this.#deviceChannels() : null;
    if (!channels || this.#runtime.stream!.isCapturing) return null;
    this.#plan.check(source, target);
    const isDirect = this.goesStraight(target, order);
    const move = this.#peers!.prepare(channels, source, target, order, isDirect, making, using);
    return this.#counted("between GPUs", move);
  }

  /** For parts that share memory, from which nothing may be read after it was written to. */
  #prepareFromCopy(source: LocalArray, target: LocalArray, order: Order): () => void {
    const copy = this.#copyLike(source, order);
    const move = this.prepare(copy, target, order);
    return () => {
      copy.set(source);
      move();
    };
  }

  /** Memory for a copy of a part: the same each time, since moves of one redistribution follow each other. */
  #copyLike(source: LocalArray, order: Order): LocalArray {
    const stream = source.isOnDevice ? source.buffer.stream : null;
    const known = this.#copies.find((copy) =>
      !copy.isLost && copy.dtype === source.dtype && copy.shape.join() === source.shape.join() && copy.isDense(order) &&
      (stream === null ? !copy.isOnDevice : copy.isOnDevice && copy.buffer.stream === stream)
    );
    if (known !== undefined) return known;
    const made = LocalArray.empty(source.dtype, source.shape, order, stream);
    this.#copies.push(made);
    return made;
  }

  /** `undefined` if it is not known yet whether there are any. */
  #channels(): PeerChannels | null | undefined {
    return this.#isByMessages ? null : openedChannels(this.#runtime.communicator);
  }

  /** Whether MPI's messages were asked for. */
  get #isByMessages(): boolean {
    return this.#asked === "packed_alltoallv" || this.#asked === "derived_types";
  }

  /** How messages are made: the same on all ranks. */
  get #messages(): "packed_alltoallv" | "derived_types" {
    const asked = this.#asked;
    if (asked === "packed_alltoallv" || asked === "derived_types") return asked;
    return messagesFor(startMpi().vendor, this.#isOnce);
  }

  /** The same between GPUs. */
  #deviceChannels(): DeviceChannels | null | undefined {
    return this.#asked === "packed_nccl" ? null : openedDeviceChannels(this.#runtime);
  }

  /**
   * Whether elements go straight to where they shall be: the same on all ranks. What would leave gaps between the rows that it
   * writes over a link, or changes its order, was measured to be faster through slots, where it arrives in one piece.
   */
  goesStraight(target: LocalArray | null, order: Order): boolean {
    if (!(target instanceof SymmetricArray) || this.#asked === "peer_copies") return false;
    if (this.#asked === "direct_copies") return true;
    return target.order === order && this.#plan.arrivesWhole;
  }

  /** `null` if it is not known yet how. */
  #prepareOnHost(source: LocalArray, target: LocalArray, order: Order): (() => void) | null {
    const channels = this.#channels();
    if (channels === undefined) return null;
    if (channels === null) {
      const executor = this.#messages === "derived_types" ? this.#typed : this.#host;
      return this.#counted("by messages", executor.prepare(source, target, order));
    }
    if (this.#isBetweenProcesses(channels, dtypeInfo(source.dtype).itemSize, order)) {
      return this.#counted("between processes", this.#processes.prepare(channels, source, target, order));
    }
    return this.#counted("in shared memory", prepareThroughWindow(this.#plan, channels, source, target, order));
  }

  /** What moves elements, with a word on it for who records. */
  #counted(way: string, move: () => void): () => void {
    return () => {
      recorder?.exchange(`${this.#plan.exchange} ${way}`);
      move();
    };
  }

  /** Whether elements go from process to process: the same on all ranks. */
  #isBetweenProcesses({ processes }: PeerChannels, itemSize: number, order: Order): boolean {
    if (processes === null || this.#asked === "shared_window") return false;
    return this.#asked === "direct_copies" || this.#processes.isFastest(order, itemSize);
  }

  /** `null` if it is not known yet how. A graph replays NCCL's calls, but no marks, which grow. */
  #prepareOnDevice(source: LocalArray, target: LocalArray, order: Order): (() => void) | null {
    this.#isCaptured = this.#runtime.stream!.isCapturing;
    const channels = this.#isCaptured ? null : this.#deviceChannels();
    if (channels === undefined) return null;
    if (channels === null) return this.#counted("by NCCL", this.#gpu.prepare(source, target, order));
    const isDirect = this.goesStraight(target, order);
    return this.#counted("between GPUs", this.#peers!.prepare(channels, source, target, order, isDirect));
  }

  /** Let go of what it keeps. */
  free(): void {
    this.release();
    this.#host.free();
    this.#typed.free();
    this.#processes.free();
    this.#gpu.free();
    this.#peers?.free();
    this.#scratch.free();
    for (const copy of this.#copies.splice(0)) copy.release();
  }

  /** As `free`. */
  [Symbol.dispose](): void {
    this.free();
  }
}

/** Whether elements of one part may lie between those of another. */
export function overlap(a: LocalArray, b: LocalArray): boolean {
  if (a.size === 0 || b.size === 0 || a.isOnDevice !== b.isOnDevice) return false;
  const [[aStart, aEnd], [bStart, bEnd]] = [spanOf(a), spanOf(b)];
  const isSameMemory = a.isOnDevice ? a.buffer === b.buffer : a.data.buffer === b.data.buffer;
  return isSameMemory && aStart < bEnd && bStart < aEnd;
}

/** The bytes of its memory from the first element of a part to the last. */
function spanOf(array: LocalArray): [start: number, end: number] {
  const { itemSize } = dtypeInfo(array.dtype);
  const start = (array.isOnDevice ? 0 : array.data.byteOffset) + array.offset * itemSize;
  const last = array.shape.reduce((sum, extent, dimension) => sum + (extent - 1) * array.strides[dimension], 0);
  return [start, start + (last + 1) * itemSize];
}

/** As {@linkcode Redistributor.prepare}, for moving the elements once: what returns lets go of everything in the end. */
export function prepareOnce(
  runtime: Runtime,
  from: Parts,
  to: Parts,
  source: LocalArray,
  target: LocalArray,
  order: Order,
): () => void {
  const redistributor = new Redistributor(runtime, from, to, { isOnce: true });
  // No collector knows of derived types.
  freeUnlessAgreed(redistributor);
  const move = redistributor.prepare(source, target, order);
  return () => {
    try {
      move();
    } finally {
      redistributor.free();
    }
  };
}
