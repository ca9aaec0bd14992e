/**
 * Typed arrays that all ranks exchange as they are.
 *
 * @module
 */
import { checkMpi } from "../../ffi/mpi/mod.ts";
import {
  checkInto,
  EMPTY_RECEIVE,
  EMPTY_SEND,
  isPartOf,
  receiveBuffer,
  refuseOverlap,
  refuseShort,
  sameClass,
  sendBuffer,
} from "./buffers.ts";
import { checkedArray, checkedRoot } from "./checks.ts";
import { refuseFreed } from "./communicator_handle.ts";
import {
  type AllToAllVOptions,
  type GatherVOptions,
  type GatherVRootOptions,
  type IntoOptions,
  NO_OPTIONS,
  OptionKeys,
  refuseExtra,
  type RootOptions,
  type ScatterOptions,
  type ScatterVOptions,
} from "./communicator_options.ts";
import { checkedParts, checkedTotal, checkOwnPart, equalPart, type Parts, receivedParts } from "./counts.ts";
import { copyOf, type Element, elementOf, entriesFrom, lengthOf, newLike, type NumericArray } from "./elements.ts";
import { startMpi } from "./init_finalize.ts";
import { ReductionMethods } from "./reduction_methods.ts";
import { Request } from "./request.ts";

/** The methods of a communicator by which all ranks exchange typed arrays, or wait for each other. */
export abstract class CollectiveMethods extends ReductionMethods {
  /** Wait until every rank is here. Source: MPI_Barrier. */
  barrier(): void {
    refuseFreed(this, "barrier");
    const code = startMpi().symbols.MPI_Barrier(this.handle);
    checkMpi(code, "MPI_Barrier");
  }

  /** Give every rank the root's entries, in place; returns the array. Source: MPI_Bcast. */
  broadcast<T extends NumericArray>(data: T, options: ScatterOptions = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("broadcast", "data", OptionKeys.scatter);
    const { element, length } = checkedArray(this, "broadcast", "data", data, options, OptionKeys.scatter);
    const root = checkedRoot(this, "broadcast", options.root);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const code = symbols.MPI_Bcast(receiveBuffer(data, length), length, type, root, this.handle);
    checkMpi(code, "MPI_Bcast");
    return data;
  }

  /**
   * Collect equal parts on the root, in the order of the ranks; `null` on the others. Source: MPI_Gather.
   */
  gather<T extends NumericArray>(send: T, options: RootOptions<T> = NO_OPTIONS): T | null {
    if (arguments.length > 2) refuseExtra("gather", "send", OptionKeys.root);
    const { element, length } = checkedArray(this, "gather", "send", send, options, OptionKeys.root);
    const root = checkedRoot(this, "gather", options.root);
    const total = checkedTotal("gather", length, this.size);
    const into = this.rank === root ? options.into ?? newLike(send, total) : null;
    if (into) checkInto("gather", into, send, total);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const target = into === null ? EMPTY_RECEIVE : receiveBuffer(into, total);
    const code = symbols.MPI_Gather(sendBuffer(send, length), length, type, target, length, type, root, this.handle);
    checkMpi(code, "MPI_Gather");
    return into;
  }

  /**
   * Collect parts of different lengths on the root, which needs `counts`; `null` on the others. Source: MPI_Gatherv.
   */
  gatherV<T extends NumericArray>(send: T, options: GatherVRootOptions<T> = NO_OPTIONS): T | null {
    if (arguments.length > 2) refuseExtra("gatherV", "send", OptionKeys.gatherVRoot);
    const { element, length } = checkedArray(this, "gatherV", "send", send, options, OptionKeys.gatherVRoot);
    const root = checkedRoot(this, "gatherV", options.root);
    const isRoot = this.rank === root;
    const parts = isRoot ? receivedParts("gatherV", this.size, options.counts, options.displacements) : null;
    if (parts) checkOwnPart("gatherV", this.rank, parts.counts, length);
    const into = parts ? options.into ?? newLike(send, parts.extent) : null;
    if (parts && into) checkInto("gatherV", into, send, parts.extent);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const target = parts && into ? receiveBuffer(into, parts.extent) : EMPTY_RECEIVE;
    const counts = parts?.counts ?? null;
    const displacements = parts?.displacements ?? null;
    const code = symbols.MPI_Gatherv(
      sendBuffer(send, length),
      length,
      type,
      target,
      counts,
      displacements,
      type,
      root,
      this.handle,
    );
    checkMpi(code, "MPI_Gatherv");
    return into;
  }

  /** Collect equal parts on every rank, in the order of the ranks. `send` may be this rank's part of `into`. Source: MPI_Allgather. */
  allGather<T extends NumericArray>(send: T, options: IntoOptions<T> = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("allGather", "send", OptionKeys.into);
    const { element, length } = checkedArray(this, "allGather", "send", send, options, OptionKeys.into);
    const total = checkedTotal("allGather", length, this.size);
    const into = options.into ?? newLike(send, total);
    const isInPlace = isPartOf(into, send, this.rank * length);
    checkInto("allGather", into, isInPlace ? newLike(send, 0) : send, total);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const target = receiveBuffer(into, total);
    const code = isInPlace
      ? symbols.MPI_Allgather_in_place(constants.inPlace, length, type, target, length, type, this.handle)
      : symbols.MPI_Allgather(sendBuffer(send, length), length, type, target, length, type, this.handle);
    checkMpi(code, "MPI_Allgather");
    return into;
  }

  /**
   * Collect parts of different lengths on every rank. `send` may be this rank's part of `into`. Source: MPI_Allgatherv.
   */
  allGatherV<T extends NumericArray>(send: T, options: GatherVOptions<T>): T {
    if (arguments.length > 2) refuseExtra("allGatherV", "send", OptionKeys.gatherV);
    const { element, length, into, written, parts, isInPlace } = this.#prepareAllGatherV("allGatherV", send, options);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const { counts, displacements } = parts;
    const target = receiveBuffer(written, parts.extent);
    const code = isInPlace
      ? symbols.MPI_Allgatherv_in_place(
        constants.inPlace,
        length,
        type,
        target,
        counts,
        displacements,
        type,
        this.handle,
      )
      : symbols.MPI_Allgatherv(
        sendBuffer(send, length),
        length,
        type,
        target,
        counts,
        displacements,
        type,
        this.handle,
      );
    checkMpi(code, "MPI_Allgatherv");
    return into;
  }

  #prepareAllGatherV<T extends NumericArray>(
    method: string,
    send: T,
    options: GatherVOptions<T>,
  ): { element: Element; length: number; into: T; written: NumericArray; parts: Parts; isInPlace: boolean } {
    const { element, length } = checkedArray(this, method, "send", send, options, OptionKeys.gatherV);
    const parts = receivedParts(method, this.size, options?.counts, options?.displacements);
    checkOwnPart(method, this.rank, parts.counts, length);
    const into = options.into ?? newLike(send, parts.extent);
    const isInPlace = isPartOf(into, send, parts.displacements[this.rank]);
    checkInto(method, into, isInPlace ? newLike(send, 0) : send, parts.extent);
    const [start] = parts.displacements;
    if (this.size > 1 || start === 0) return { element, length, into, written: into, parts, isInPlace };
    // With one rank MPICH up to 4.0.3 and Intel MPI write to the beginning of the array, wherever the part begins.
    const own = { counts: parts.counts, displacements: Int32Array.of(0), extent: parts.counts[0] };
    return { element, length, into, written: entriesFrom(into, start), parts: own, isInPlace };
  }

  /** Give each rank one of the root's equal parts, into `into`. Ranks other than the root pass `null`. Source: MPI_Scatter. */
  scatter<T extends NumericArray>(send: T | null, into: T, options: ScatterOptions = NO_OPTIONS): T {
    if (arguments.length > 3) refuseExtra("scatter", "send, into", OptionKeys.scatter);
    const { element, length } = checkedArray(this, "scatter", "into", into, options, OptionKeys.scatter);
    const root = checkedRoot(this, "scatter", options.root);
    const source = equalParts(this, "scatter", send, into, root);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const from = source ? sendBuffer(source, length * this.size) : EMPTY_SEND;
    const code = symbols.MPI_Scatter(from, length, type, receiveBuffer(into, length), length, type, root, this.handle);
    checkMpi(code, "MPI_Scatter");
    return into;
  }

  /**
   * Give each rank its part of the root's array, into `into`. Ranks other than the root pass `null`; the root needs
   * `counts`. Source: MPI_Scatterv.
   */
  scatterV<T extends NumericArray>(send: T | null, into: T, options: ScatterVOptions = NO_OPTIONS): T {
    if (arguments.length > 3) refuseExtra("scatterV", "send, into", OptionKeys.scatterV);
    const { element, length } = checkedArray(this, "scatterV", "into", into, options, OptionKeys.scatterV);
    const root = checkedRoot(this, "scatterV", options.root);
    const source = rootArray(this.rank, "scatterV", send, into, root);
    const parts = source ? checkedParts("scatterV", this.size, options.counts, options.displacements) : null;
    if (source && parts) {
      checkOwnPart("scatterV", this.rank, parts.counts, length, "into");
      if (lengthOf(source) < parts.extent) refuseShort("scatterV", lengthOf(source), parts.extent, "send");
    }
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const from = source && parts ? sendBuffer(source, parts.extent) : EMPTY_SEND;
    const counts = parts?.counts ?? null;
    const displacements = parts?.displacements ?? null;
    const code = symbols.MPI_Scatterv(
      from,
      counts,
      displacements,
      type,
      receiveBuffer(into, length),
      length,
      type,
      root,
      this.handle,
    );
    checkMpi(code, "MPI_Scatterv");
    return into;
  }

  /** Send the r-th of equal parts to rank r, and receive one from each. `into` may be `send` itself. Source: MPI_Alltoall. */
  allToAll<T extends NumericArray>(send: T, options: IntoOptions<T> = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("allToAll", "send", OptionKeys.into);
    const { element, length } = checkedArray(this, "allToAll", "send", send, options, OptionKeys.into);
    const part = equalPart("allToAll", "send", length, this.size, "use allToAllV");
    const into = options.into ?? newLike(send, length);
    if (into !== send) checkInto("allToAll", into, send, length);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const target = receiveBuffer(into, length);
    // In place MPI takes other steps: where some ranks do, all wait for ever.
    const source = sendBuffer(into === send ? copyOf(send, length) : send, length);
    const code = symbols.MPI_Alltoall(source, part, type, target, part, type, this.handle);
    checkMpi(code, "MPI_Alltoall");
    return into;
  }

  /** Send to each rank a part, and receive one from each, of any lengths. Source: MPI_Alltoallv. */
  allToAllV<T extends NumericArray>(send: T, options: AllToAllVOptions<T>): T {
    if (arguments.length > 2) refuseExtra("allToAllV", "send", OptionKeys.allToAllV);
    const method = "allToAllV";
    const { element, length } = checkedArray(this, method, "send", send, options, OptionKeys.allToAllV);
    const sent = checkedParts(
      method,
      this.size,
      options?.sendCounts,
      options?.sendDisplacements,
      "sendCounts",
      "sendDisplacements",
    );
    const received = receivedParts(
      method,
      this.size,
      options?.receiveCounts,
      options?.receiveDisplacements,
      "receiveCounts",
      "receiveDisplacements",
    );
    if (length < sent.extent) refuseShort(method, length, sent.extent, "send");
    const into = options.into ?? newLike(send, received.extent);
    checkInto(method, into, send, received.extent);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const code = symbols.MPI_Alltoallv(
      sendBuffer(send, sent.extent),
      sent.counts,
      sent.displacements,
      type,
      receiveBuffer(into, received.extent),
      received.counts,
      received.displacements,
      type,
      this.handle,
    );
    checkMpi(code, "MPI_Alltoallv");
    return into;
  }

  /** Begin an `allGatherV`; the request's value is the gathered array. Source: MPI_Iallgatherv. */
  iallGatherV<T extends NumericArray>(send: T, options: GatherVOptions<T>): Request<T> {
    if (arguments.length > 2) refuseExtra("iallGatherV", "send", OptionKeys.gatherV);
    const { element, length, into, written, parts, isInPlace } = this.#prepareAllGatherV("iallGatherV", send, options);
    if (isInPlace) throw new RangeError("iallGatherV: into overlaps the array that is sent; give separate memory.");
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const { counts, displacements } = parts;
    return new Request(
      "MPI_Iallgatherv",
      [send, into, counts, displacements],
      (request) =>
        symbols.MPI_Iallgatherv(
          sendBuffer(send, length),
          length,
          type,
          receiveBuffer(written, parts.extent),
          counts,
          displacements,
          type,
          this.handle,
          request,
        ),
      () => into,
    );
  }

  /** Begin a barrier; the request is complete when every rank has begun it. Source: MPI_Ibarrier. */
  ibarrier(): Request<void> {
    refuseFreed(this, "ibarrier");
    const { symbols } = startMpi();
    return new Request(
      "MPI_Ibarrier",
      [],
      (request) => symbols.MPI_Ibarrier(this.handle, request),
      () => {},
    );
  }
}

/** The array of the root, checked; `null` on the other ranks. */
function rootArray<T extends NumericArray>(
  rank: number,
  method: string,
  send: T | null,
  into: T,
  root: number,
): T | null {
  if (rank !== root) return null;
  elementOf(method, "send on the root", send!);
  sameClass(method, "send", send!, into);
  refuseOverlap(method, into, send!, "send");
  return send;
}

/** The root's array for a scattering of equal parts, whose length must fit. */
export function equalParts<T extends NumericArray>(
  { rank, size }: { readonly rank: number; readonly size: number },
  method: string,
  send: T | null,
  into: T,
  root: number,
): T | null {
  const length = lengthOf(into);
  const source = rootArray(rank, method, send, into, root);
  const total = source ? checkedTotal(method, length, size) : 0;
  if (source === null || lengthOf(source) === total) return source;
  throw new RangeError(
    `${method}: send has ${lengthOf(source)} entries, but ${size} ranks with into.length = ${length} ` +
      `take ${total}; for parts of different lengths use scatterV.`,
  );
}
