/**
 * Executing a redistribution where the elements are: by MPI between hosts, by NCCL between GPUs.
 *
 * @module
 */
import { DeviceBuffer } from "../../memory/device_buffer.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { Stream } from "../../gpu/stream.ts";
import { copyRunsOnDevice, type DeviceArray, prepareRuns } from "../device_elements.ts";
import { dtypeInfo } from "../../dtype/dtype.ts";
import { type Order, sizeOfShape, stridesOf } from "../layout.ts";
import type { LocalArray } from "../local_array.ts";
import type { RedistributionPlan, Transfer } from "./plan.ts";

/** Packed blocks begin at multiples of this many bytes, so that any element is aligned. */
const ALIGNMENT = 256;

/**
 * Get ready to move the elements of a plan from `source` to `target`, which are both in host memory or both on GPUs: check
 * them, and allocate what that needs. `order`, the same on all ranks, is the order of the elements in messages. Returns
 * what moves them, which is collective, for when all ranks have agreed that they are ready.
 */
export function prepareMove(
  plan: RedistributionPlan,
  runtime: Runtime,
  source: LocalArray,
  target: LocalArray,
  order: Order,
): () => void {
  if (!source.isOnDevice) {
    const move = plan.prepare(source, target, order);
    return () => move(runtime.communicator);
  }
  const { itemSize } = plan.check(source, target);
  const stream = runtime.stream!;
  const { stays, sends, receives } = plan;
  prepareRuns(stays.runs, target.buffer.stream);
  if (plan.elementsMoved === 0) return () => copyRunsOnDevice(source, target, stays.runs);

  // To a replicated target everybody gets the same block: it is packed once.
  const packed = plan.to.isReplicated ? sends.slice(0, 1) : sends;
  const outgoing = new Blocks(sends, source, order, stream, plan.to.isReplicated);
  const incoming = new Blocks(receives, target, order, stream, false);
  for (const { runs } of packed) prepareRuns(runs, stream);
  for (const { runs } of receives) prepareRuns(runs, target.buffer.stream);
  return () => {
    using _outgoing = outgoing;
    using _incoming = incoming;
    copyRunsOnDevice(source, target, stays.runs);
    const nccl = runtime.nccl();
    for (const transfer of packed) copyRunsOnDevice(source, outgoing.block(transfer), transfer.runs);
    const bytes = ({ shape }: Transfer): number => sizeOfShape(shape) * itemSize;
    nccl.group(() => {
      for (const transfer of sends) nccl.send(outgoing.address(transfer), bytes(transfer), transfer.peer, stream);
      for (const transfer of receives) {
        nccl.receive(incoming.address(transfer), bytes(transfer), transfer.peer, stream);
      }
    });
    for (const transfer of receives) copyRunsOnDevice(incoming.block(transfer), target, transfer.runs);
    // The blocks are freed in the order of their stream: it has to wait for the unpacking.
    stream.wait(target.buffer.stream);
  };
}

/** Dense blocks for the transfers, in one buffer. */
class Blocks implements Disposable {
  readonly #buffer: DeviceBuffer;
  readonly #offsets = new Map<Transfer, number>();
  readonly #like: LocalArray;
  readonly #order: Order;

  constructor(transfers: readonly Transfer[], like: LocalArray, order: Order, stream: Stream, isShared: boolean) {
    const { itemSize } = dtypeInfo(like.dtype);
    let total = 0;
    for (const transfer of transfers) {
      const bytes = Math.ceil(sizeOfShape(transfer.shape) * itemSize / ALIGNMENT) * ALIGNMENT;
      this.#offsets.set(transfer, isShared ? 0 : total);
      total = isShared ? bytes : total + bytes;
    }
    this.#like = like;
    this.#order = order;
    this.#buffer = new DeviceBuffer(stream, total);
  }

  address(transfer: Transfer): bigint {
    return this.#buffer.address + BigInt(this.#offsets.get(transfer)!);
  }

  block(transfer: Transfer): DeviceArray {
    const { dtype } = this.#like;
    const { shape } = transfer;
    const offset = this.#offsets.get(transfer)! / dtypeInfo(dtype).itemSize;
    return { buffer: this.#buffer, dtype, shape, strides: stridesOf(shape, this.#order), offset };
  }

  [Symbol.dispose](): void {
    this.#buffer.free();
  }
}
