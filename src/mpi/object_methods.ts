/**
 * Values that ranks exchange: what JSON holds, and what else the structured clone algorithm knows.
 *
 * @module
 */
import { copyFromAddress } from "../../ffi/memory.ts";
import { LARGEST_INT, refuseLong } from "./buffers.ts";
import { checkCombine, checkedRoot, checkedSource, checkedTag } from "./checks.ts";
import { BackgroundMethods } from "./background_methods.ts";
import { refuseFreed } from "./communicator_handle.ts";
import {
  checkOptions,
  NO_OPTIONS,
  type ObjectOptions,
  OptionKeys,
  type ReceiveOptions,
  refuseExtra,
  type SendOptions,
  type SendReceiveOptions,
  type Source,
} from "./communicator_options.ts";
import { startMpi } from "./init_finalize.ts";
import { decodeObject, decodeObjects, type EncodedObjects, encodeObject, encodeObjects } from "./objects.ts";
import { readStatus, Request, type Status } from "./request.ts";
import { giveRoomBack, takeRoom } from "./message_room.ts";

/**
 * The methods of a communicator for values: JSON's up to 256 MiB, and what else the structured clone algorithm knows,
 * undefined, NaN, bigint, Map, …. A message is the bytes of one value (objects.ts) and nothing else; collectives exchange
 * the numbers of bytes first.
 */
export abstract class ObjectMethods extends BackgroundMethods {
  /** Give every rank the root's value; what other ranks pass is ignored. */
  broadcastObject<T>(value: T, options: ObjectOptions = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("broadcastObject", "value", OptionKeys.object);
    checkOptions("broadcastObject", options, OptionKeys.object);
    refuseFreed(this, "broadcastObject");
    const root = checkedRoot(this, "broadcastObject", options.root);
    const isRoot = this.rank === root;
    const bytes = isRoot ? encodeObject("broadcastObject", value) : null;
    const [length] = this.broadcast(new Float64Array([bytes?.length ?? 0]), { root });
    if (length > LARGEST_INT) refuseLong("broadcastObject", "the value in bytes", length);
    const received = this.broadcast(bytes ?? new Uint8Array(length), { root });
    return isRoot ? value : decodeObject<T>(received);
  }

  /** Collect every rank's value on the root; `null` on the others. */
  gatherObject<T>(value: T, options: ObjectOptions = NO_OPTIONS): T[] | null {
    if (arguments.length > 2) refuseExtra("gatherObject", "value", OptionKeys.object);
    checkOptions("gatherObject", options, OptionKeys.object);
    refuseFreed(this, "gatherObject");
    const root = checkedRoot(this, "gatherObject", options.root);
    const { bytes, counts } = this.#objectLengths("gatherObject", value);
    return decodeObjects(counts, this.gatherV(bytes, { root, counts }));
  }

  /**
   * Give every rank everybody's value, in the order of the ranks. Where the values take more than a mebibyte together, the
   * ranks agree, by one more reduction, that each has memory for them. Other methods that receive into new memory do not: a
   * rank that has none throws alone, while the others are in MPI. Do not catch that, so that it ends the job.
   *
   * @throws {RangeError} on every rank, if one has no memory for the values.
   */
  allGatherObject<T>(value: T): T[] {
    if (arguments.length > 1) refuseExtra("allGatherObject", "value");
    const { bytes, counts } = this.#objectLengths("allGatherObject", value);
    const into = this.#agreedRoom("allGatherObject", counts.reduce((sum, count) => sum + count, 0));
    return decodeObjects<T>(counts, this.allGatherV(bytes, { counts, into }))!;
  }

  /** Give each rank one value of the root's list, which has as many as there are ranks; others pass `null`. */
  scatterObject<T>(values: readonly T[] | null, options: ObjectOptions = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("scatterObject", "values", OptionKeys.object);
    const method = "scatterObject";
    checkOptions(method, options, OptionKeys.object);
    refuseFreed(this, method);
    const root = checkedRoot(this, method, options.root);
    const encoded = this.rank === root ? encodeObjects(method, values, this.size) : null;
    const [length] = this.scatter(encoded ? Float64Array.from(encoded.counts) : null, new Float64Array(1), { root });
    const parts = encoded ? { root, counts: encoded.counts } : { root };
    return decodeObject<T>(this.scatterV(encoded?.bytes ?? null, new Uint8Array(length), parts));
  }

  /** Send the r-th value of the list to rank r, and receive one from each rank. */
  allToAllObject<T>(values: readonly T[]): T[] {
    if (arguments.length > 1) refuseExtra("allToAllObject", "values");
    refuseFreed(this, "allToAllObject");
    const { bytes, counts } = encodeObjects("allToAllObject", values, this.size);
    const receiveCounts = this.allToAll(counts);
    return decodeObjects<T>(receiveCounts, this.allToAllV(bytes, { sendCounts: counts, receiveCounts }))!;
  }

  /** Combine the values of all ranks on the root, from rank 0 upwards; `null` on the others. */
  reduceObject<T>(value: T, combine: (a: T, b: T) => T, options: ObjectOptions = NO_OPTIONS): T | null {
    if (arguments.length > 3) refuseExtra("reduceObject", "value, combine", OptionKeys.object);
    checkCombine("reduceObject", combine);
    const values = this.gatherObject(value, options);
    return values && fold(values, combine);
  }

  /** Combine the values of all ranks, from rank 0 upwards, on every rank. */
  allReduceObject<T>(value: T, combine: (a: T, b: T) => T): T {
    if (arguments.length > 2) refuseExtra("allReduceObject", "value, combine");
    checkCombine("allReduceObject", combine);
    return fold(this.allGatherObject(value), combine);
  }

  /** Combine the values of the ranks up to this one, from rank 0 upwards. */
  scanObject<T>(value: T, combine: (a: T, b: T) => T): T {
    if (arguments.length > 2) refuseExtra("scanObject", "value, combine");
    checkCombine("scanObject", combine);
    return fold(this.allGatherObject(value).slice(0, this.rank + 1), combine);
  }

  /** Combine the values of the ranks before this one, from rank 0 upwards; `null` on rank 0. */
  exclusiveScanObject<T>(value: T, combine: (a: T, b: T) => T): T | null {
    if (arguments.length > 2) refuseExtra("exclusiveScanObject", "value, combine");
    checkCombine("exclusiveScanObject", combine);
    const before = this.allGatherObject(value).slice(0, this.rank);
    return before.length === 0 ? null : fold(before, combine);
  }

  /**
   * Send a value to one rank, which receives it by `receiveObject`; may wait for that. It travels as one message, the bytes
   * of its structured clone. Not collective. Source: MPI_Send.
   */
  sendObject(value: unknown, destination: number | null, options: Pick<SendOptions, "tag"> = NO_OPTIONS): void {
    if (arguments.length > 3) refuseExtra("sendObject", "value, destination", OptionKeys.objectMessage);
    checkOptions("sendObject", options, OptionKeys.objectMessage);
    this.send(encodeObject("sendObject", value), destination, onlyTag(options.tag));
  }

  /**
   * Wait for a value; from `null` comes `null` at once. What a receive that began earlier takes is not for this one. Not
   * collective. Source: MPI_Probe, MPI_Recv.
   */
  receiveObject<T>(source: Source = "any", options: Pick<ReceiveOptions, "tag"> = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("receiveObject", "source", OptionKeys.objectMessage);
    checkOptions("receiveObject", options, OptionKeys.objectMessage);
    const status = this.probe(source, onlyTag(options.tag));
    if (status.source === null) return null as T;
    const bytes = new Uint8Array(status.count);
    this.receive(bytes, status.source, { tag: status.tag });
    return decodeObject<T>(bytes, nameOf("receiveObject", status));
  }

  /** Send a value to one rank and receive one, without the danger that both wait. Not collective. */
  sendReceiveObject<T>(
    value: unknown,
    destination: number,
    options: Omit<SendReceiveOptions, "dtype"> = NO_OPTIONS,
  ): T {
    if (arguments.length > 3) refuseExtra("sendReceiveObject", "value, destination", OptionKeys.objectSendReceive);
    checkOptions("sendReceiveObject", options, OptionKeys.objectSendReceive);
    const { tag = 0, source = destination, receiveTag } = options;
    // Before anything is sent.
    checkedSource(this, "sendReceiveObject", source);
    checkedTag("sendReceiveObject", receiveTag);
    const sent = this.isendObject(value, destination, { tag });
    let received: T;
    try {
      received = this.receiveObject<T>(source, onlyTag(receiveTag));
    } catch (error) {
      // Who should take what was sent may wait for this rank.
      sent.test();
      throw error;
    }
    sent.wait();
    return received;
  }

  /** Begin to send a value. Not collective. Source: MPI_Isend. */
  isendObject(
    value: unknown,
    destination: number | null,
    options: Pick<SendOptions, "tag"> = NO_OPTIONS,
  ): Request<void> {
    if (arguments.length > 3) refuseExtra("isendObject", "value, destination", OptionKeys.objectMessage);
    checkOptions("isendObject", options, OptionKeys.objectMessage);
    return this.isend(encodeObject("isendObject", value), destination, onlyTag(options.tag));
  }

  /**
   * Begin to receive a value of any size; from `null`, and if it is cancelled, comes `null`. Values arrive in the order in
   * which they were sent, for the receives in the order in which those began. Not collective. Source: MPI_Irecv.
   */
  ireceiveObject<T>(source: Source = "any", options: Pick<ReceiveOptions, "tag"> = NO_OPTIONS): Request<T> {
    if (arguments.length > 2) refuseExtra("ireceiveObject", "source", OptionKeys.objectMessage);
    checkOptions("ireceiveObject", options, OptionKeys.objectMessage);
    refuseFreed(this, "ireceiveObject");
    const from = checkedSource(this, "ireceiveObject", source);
    const tag = checkedTag("ireceiveObject", options.tag);
    const { symbols, constants } = startMpi();
    // The length is not known before the message is there, and a receive that is posted has to have room for it.
    const address = takeRoom();
    let written = LARGEST_INT;
    return new Request(
      "MPI_Irecv",
      [],
      (request) => symbols.MPI_Irecv_at(address, LARGEST_INT, constants.types.uint8, from, tag, this.handle, request),
      (status, isCancelled) => {
        if (isCancelled || source === null) return null as T;
        const received = readStatus(status, 1);
        written = received.count;
        const bytes = new Uint8Array(received.count);
        copyFromAddress(bytes, address);
        return decodeObject<T>(bytes, nameOf("ireceiveObject", received));
      },
      () => giveRoomBack(address, written),
    );
  }

  /** The bytes of this rank's value, and everybody's number of bytes. */
  #objectLengths(method: string, value: unknown): EncodedObjects {
    const bytes = encodeObject(method, value);
    const lengths = this.allGather(new Float64Array([bytes.length]));
    const total = lengths.reduce((sum, length) => sum + length, 0);
    if (total > LARGEST_INT) refuseLong(method, "the values in bytes", total);
    return { bytes, counts: Int32Array.from(lengths) };
  }

  /** New memory on every rank or on none; a little is taken to be there. */
  #agreedRoom(method: string, bytes: number): Uint8Array<ArrayBuffer> {
    if (bytes <= UNDOUBTED_BYTES) return new Uint8Array(bytes);
    let room: Uint8Array<ArrayBuffer> | null = null;
    try {
      room = new Uint8Array(bytes);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    const [without] = this.allReduce(Int32Array.of(room === null ? this.rank : -1), { op: "max" });
    if (room !== null && without < 0) return room;
    throw new RangeError(
      `${method}: rank ${without} has no memory for the ${bytes} bytes of all values. Send smaller ones.`,
    );
  }
}

/** All ranks know how much it is, and thus whether they agree on it. */
const UNDOUBTED_BYTES = 2 ** 20;

/** One value of all, from the first one onwards; `combine` gets two values and nothing else, so that Math.max is one. */
function fold<T>(values: readonly T[], combine: (a: T, b: T) => T): T {
  return values.reduce((a, b) => combine(a, b));
}

/** Options of a message of bytes: a dtype would have them counted as other entries. */
function onlyTag(tag: number | undefined): Pick<ReceiveOptions, "tag"> {
  return tag === undefined ? NO_OPTIONS : { tag };
}

/** A message, in what is told of it. */
function nameOf(method: string, { source, tag }: Status): string {
  return `${method}: the message from rank ${source} with tag ${tag}`;
}
