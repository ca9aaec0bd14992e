/**
 * Executing a redistribution between GPUs: packed blocks travel by NCCL.
 *
 * @module
 */
import { dtypeInfo } from "../../dtype/dtype.ts";
import { RunOrder } from "../../gpu/run_order.ts";
import type { Stream } from "../../gpu/stream.ts";
import { DeviceBuffer } from "../../memory/device_buffer.ts";
import { recordSpan } from "../../runtime/recorder.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { copyRunsOnDevice, prepareRuns } from "../on_device/copies.ts";
import type { DeviceArray } from "../on_device/device_array.ts";
import { type Order, sizeOfShape, stridesOf } from "../layout.ts";
import type { LocalArray } from "../local_array.ts";
import { type RedistributionPlan, startOfBlock, type Transfer } from "./plan.ts";

/** Packed blocks begin at multiples of this many bytes, so that any element is aligned. */
const ALIGNMENT = 256;

/** Memory of a GPU for packed blocks. Redistributions on one stream, which run one after the other, may share it. */
export class Scratch {
  /** The last is the largest. Captured graphs may still use the others. */
  #buffers: DeviceBuffer[] = [];

  /** Bytes that it keeps. */
  get byteLength(): number {
    return this.#buffers.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /** The memory that was reserved. */
  get buffer(): DeviceBuffer {
    // Ranks that did not agree have freed what they had allocated.
    return this.#buffers.findLast(({ isFreed }) => !isFreed)!;
  }

  /** Have at least so many bytes. */
  reserve(stream: Stream, bytes: number): void {
    this.#buffers = this.#buffers.filter(({ isFreed }) => !isFreed);
    if (bytes > (this.#buffers.at(-1)?.byteLength ?? -1)) this.#buffers.push(new DeviceBuffer(stream, bytes));
  }

  /** Give the memory back. */
  free(): void {
    for (const buffer of this.#buffers) buffer.free();
    this.#buffers = [];
  }
}

/** A transfer's block: in the array from element `start` on, where it lies in one piece, or else at byte `at` of the scratch memory. */
interface Block {
  readonly transfer: Transfer;
  readonly start: number | null;
  readonly at: number;
}

/** How a part lies in memory. */
export type Laid = Pick<LocalArray, "dtype" | "strides" | "offset">;

/** Moves elements in the memory of GPUs. It keeps its index lists for the next time, and scratch memory for packed blocks. */
export class GpuExecutor {
  readonly #plan: RedistributionPlan;
  readonly #runtime: Runtime;
  readonly #scratch: Scratch;
  readonly #tables = new Set<DeviceBuffer>();

  /** Memory is allocated when it is needed. */
  constructor(plan: RedistributionPlan, runtime: Runtime, scratch: Scratch) {
    this.#plan = plan;
    this.#runtime = runtime;
    this.#scratch = scratch;
  }

  /** Bytes of the index lists. */
  get byteLength(): number {
    return [...this.#tables].reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /**
   * Check the parts and have the memory that moving them needs: all that one rank can fail at alone. Returns what moves
   * the elements, which is collective: on the runtime's stream, in order with the streams of both parts. `order`, the same
   * on all ranks, is the order of the elements in messages.
   */
  prepare(source: LocalArray, target: LocalArray, order: Order): () => void {
    const plan = this.#plan;
    plan.check(source, target);
    const { itemSize } = dtypeInfo(source.dtype);
    const stream = this.#runtime.stream!;
    const { stays, sends } = plan;
    const { outgoing, incoming } = this.reserve(source, target, order, target.buffer.stream);
    if (plan.elementsMoved === 0) return () => copyRunsOnDevice(source, target, stays.runs);
    return () => {
      const { buffer } = this.#scratch;
      const { dtype } = source;
      const packed = ({ transfer: { shape }, at }: Block): DeviceArray => (
        { buffer, dtype, shape, strides: stridesOf(shape, order), offset: at / itemSize }
      );
      const addressIn = (array: LocalArray, { start, at }: Block): bigint =>
        start === null ? buffer.address + BigInt(at) : array.buffer.address + BigInt(start * itemSize);
      const bytesOf = ({ shape }: Transfer): number => sizeOfShape(shape) * itemSize;

      RunOrder.of(stream).settle();
      copyRunsOnDevice(source, target, stays.runs);
      for (const block of outgoing) {
        if (block.start === null) copyRunsOnDevice(source, packed(block), block.transfer.runs);
      }
      for (const array of [source, target]) stream.wait(array.buffer.stream);
      const nccl = this.#runtime.nccl();
      const exchange = () =>
        nccl.group(() => {
          for (const [i, transfer] of sends.entries()) {
            const block = outgoing[plan.to.isReplicated ? 0 : i];
            nccl.send(addressIn(source, block), bytesOf(transfer), transfer.peer, stream);
          }
          for (const block of incoming) {
            nccl.receive(addressIn(target, block), bytesOf(block.transfer), block.transfer.peer, stream);
          }
        });
      recordSpan(stream, { kind: "copy", label: "by NCCL, which waits for the other ranks" }, exchange);
      for (const array of [source, target]) array.buffer.stream.wait(stream);
      for (const block of incoming) {
        if (block.start === null) copyRunsOnDevice(packed(block), target, block.transfer.runs);
      }
      // What is packed next, or freed, comes after the unpacking.
      stream.wait(target.buffer.stream);
    };
  }

  /** Have the memory that moving parts which lie so needs: index lists, and room for blocks that are packed. Local. */
  reserve(
    source: Laid,
    target: Laid,
    order: Order,
    targetStream: Stream,
  ): { readonly outgoing: readonly Block[]; readonly incoming: readonly Block[] } {
    const { stays, distinctSends, receives } = this.#plan;
    const { itemSize } = dtypeInfo(source.dtype);
    const stream = this.#runtime.stream!;
    let packedBytes = 0;
    const blockOf = (transfer: Transfer, array: Laid, side: "source" | "target"): Block => {
      const start = startOfBlock(array, transfer, side, order);
      const at = packedBytes;
      if (start === null) {
        packedBytes += Math.ceil(sizeOfShape(transfer.shape) * itemSize / ALIGNMENT) * ALIGNMENT;
        this.#prepareRuns(transfer, side === "source" ? stream : targetStream);
      }
      return { transfer, start, at };
    };
    this.#prepareRuns(stays, targetStream);
    const outgoing = distinctSends.map((transfer) => blockOf(transfer, source, "source"));
    const incoming = receives.map((transfer) => blockOf(transfer, target, "target"));
    if (packedBytes > 0) this.#scratch.reserve(stream, packedBytes);
    return { outgoing, incoming };
  }

  /** Give the index lists back; the scratch memory is its owner's. */
  free(): void {
    for (const table of this.#tables) table.free();
    this.#tables.clear();
  }

  #prepareRuns({ runs }: Transfer, stream: Stream): void {
    for (const table of prepareRuns(runs, stream)) this.#tables.add(table);
  }
}
