/**
 * Messages from one rank to another.
 *
 * @module
 */
import { checkMpi } from "../../ffi/mpi/mod.ts";
import { refuseOverlap } from "./buffers.ts";
import { checkCall, checkedDestination, checkedSource, checkedTag } from "./checks.ts";
import { CommunicatorHandle } from "./communicator_handle.ts";
import {
  type ElementOptions,
  NO_OPTIONS,
  OptionKeys,
  type ReceiveOptions,
  refuseExtra,
  type SendOptions,
  type SendReceiveOptions,
  type Source,
} from "./communicator_options.ts";
import { namedEntryBytes } from "./elements.ts";
import { startMpi } from "./init_finalize.ts";
import { PersistentRequest } from "./persistent.ts";
import { NO_MESSAGE, readStatus, Request, type Status } from "./request.ts";
import { checkedMessage, checkHeld, freeType, type MessageArray, typeOf, withType } from "./strided.ts";

/**
 * The methods of a communicator by which one rank sends to another; none is collective. What is sent or received is a whole
 * typed array or, as a {@linkcode StridedView}, elements of one where they lie: a row, a column, a face.
 */
export abstract class MessageMethods extends CommunicatorHandle {
  readonly #status = new Int32Array(startMpi().status.words);

  /**
   * Send entries to one rank, which receives them; may wait for that. `null` as destination sends nothing. Not collective.
   * Source: MPI_Send.
   */
  send(data: MessageArray, destination: number | null, options: SendOptions = NO_OPTIONS): void {
    if (arguments.length > 3) refuseExtra("send", "data, destination", OptionKeys.send);
    checkCall(this, "send", options, OptionKeys.send);
    const to = checkedDestination(this, "send", destination);
    const tag = checkedTag("send", options.tag ?? 0);
    const message = checkedMessage("send", "data", data, options.dtype, false);
    const type = typeOf(message);
    const code = startMpi().symbols.MPI_Send(message.buffer, message.count, type, to, tag, this.handle);
    freeType(message, type);
    checkMpi(code, "MPI_Send");
  }

  /**
   * Wait for a message and put it into `into`, which may be longer. Not collective. Source: MPI_Recv.
   *
   * Where the length is not known, `probe` first: Open MPI writes beyond `into` when a message of more than 4 KiB is too
   * long for it, which ends the process.
   *
   * @throws {MpiError} `MPI_ERR_TRUNCATE` if the message is longer than `into`.
   */
  receive(into: MessageArray, source: Source = "any", options: ReceiveOptions = NO_OPTIONS): Status {
    if (arguments.length > 3) refuseExtra("receive", "into, source", OptionKeys.receive);
    checkCall(this, "receive", options, OptionKeys.receive);
    const from = checkedSource(this, "receive", source);
    const tag = checkedTag("receive", options.tag);
    const message = checkedMessage("receive", "into", into, options.dtype, true);
    const { buffer, count } = message;
    const type = typeOf(message);
    const code = startMpi().symbols.MPI_Recv(buffer, count, type, from, tag, this.handle, this.#status);
    freeType(message, type);
    checkMpi(code, "MPI_Recv");
    return readStatus(this.#status, message.entryBytes);
  }

  /**
   * Send to one rank and receive from one, without the danger that both wait. Views may have elements between each other's,
   * but none in common. Not collective. Source: MPI_Sendrecv.
   */
  sendReceive(
    data: MessageArray,
    destination: number | null,
    into: MessageArray,
    options: SendReceiveOptions = NO_OPTIONS,
  ): Status {
    if (arguments.length > 4) refuseExtra("sendReceive", "data, destination, into", OptionKeys.sendReceive);
    const method = "sendReceive";
    checkCall(this, method, options, OptionKeys.sendReceive);
    const { dtype, tag, source, receiveTag } = options;
    const to = checkedDestination(this, method, destination);
    const from = checkedSource(this, method, source === undefined ? destination : source);
    const [sendTag, wantedTag] = [checkedTag(method, tag ?? 0), checkedTag(method, receiveTag)];
    const sent = checkedMessage(method, "data", data, dtype, false);
    const received = checkedMessage(method, "into", into, dtype, true);
    // Getters of a view may have changed it.
    checkHeld(method, "data", sent);
    // Nobody knows which elements views have in common; those of no elements none.
    const mayOverlap = [sent, received].every(({ dimensions, count }) => dimensions === null && count > 0);
    if (mayOverlap) refuseOverlap(method, received.held, sent.held, "data");
    const [sendType, receiveType] = [typeOf(sent), typeOf(received)];
    // deno-fmt-ignore
    const code = startMpi().symbols.MPI_Sendrecv(
      sent.buffer, sent.count, sendType, to, sendTag, received.buffer, received.count, receiveType, from, wantedTag,
      this.handle, this.#status,
    );
    freeType(sent, sendType);
    freeType(received, receiveType);
    checkMpi(code, "MPI_Sendrecv");
    return readStatus(this.#status, received.entryBytes);
  }

  /**
   * Wait for a message without receiving it. Its `count` is in entries of the dtype that the options name, in bytes without
   * one. Not collective. Source: MPI_Probe.
   *
   * @throws {RangeError} if the message is no whole number of such entries.
   */
  probe(source: Source = "any", options: ReceiveOptions = NO_OPTIONS): Status {
    if (arguments.length > 2) refuseExtra("probe", "source", OptionKeys.receive);
    const [from, tag] = this.#origin("probe", source, options);
    const entryBytes = probedEntry("probe", options);
    checkMpi(startMpi().symbols.MPI_Probe(from, tag, this.handle, this.#status), "MPI_Probe");
    return this.#probed("probe", entryBytes, options);
  }

  /**
   * Look for a message without waiting; `null` if there is none yet. Its `count` is as `probe` gives it. Not collective.
   * Source: MPI_Iprobe.
   *
   * @throws {RangeError} if the message is no whole number of the entries that the options name.
   */
  probeNow(source: Source = "any", options: ReceiveOptions = NO_OPTIONS): Status | null {
    if (arguments.length > 2) refuseExtra("probeNow", "source", OptionKeys.receive);
    const [from, tag] = this.#origin("probeNow", source, options);
    const entryBytes = probedEntry("probeNow", options);
    const flag = new Int32Array(1);
    const code = startMpi().symbols.MPI_Iprobe(from, tag, this.handle, flag, this.#status);
    checkMpi(code, "MPI_Iprobe");
    return flag[0] === 0 ? null : this.#probed("probeNow", entryBytes, options);
  }

  /** Begin to send; do not change `data` before the request is complete. Not collective. Source: MPI_Isend. */
  isend(data: MessageArray, destination: number | null, options: SendOptions = NO_OPTIONS): Request<void> {
    if (arguments.length > 3) refuseExtra("isend", "data, destination", OptionKeys.send);
    const [to, tag] = this.#target("isend", destination, options);
    const message = checkedMessage("isend", "data", data, options.dtype, false);
    const { buffer, count, held } = message;
    const { symbols } = startMpi();
    return new Request(
      "MPI_Isend",
      [held],
      (request) => withType(message, (type) => symbols.MPI_Isend(buffer, count, type, to, tag, this.handle, request)),
      () => {},
    );
  }

  /** Begin to receive; `into` holds the message when the request is complete. Not collective. Source: MPI_Irecv. */
  ireceive(into: MessageArray, source: Source = "any", options: ReceiveOptions = NO_OPTIONS): Request<Status> {
    if (arguments.length > 3) refuseExtra("ireceive", "into, source", OptionKeys.receive);
    const [from, tag] = this.#origin("ireceive", source, options);
    const message = checkedMessage("ireceive", "into", into, options.dtype, true);
    const { buffer, count, held, entryBytes } = message;
    const { symbols } = startMpi();
    return new Request(
      "MPI_Irecv",
      [held],
      (request) => withType(message, (type) => symbols.MPI_Irecv(buffer, count, type, from, tag, this.handle, request)),
      (status, isCancelled) => isCancelled || source === null ? NO_MESSAGE : readStatus(status, entryBytes),
    );
  }

  /**
   * Prepare a send that is started as often as it is needed: of what `data` holds then. Not collective.
   * Source: MPI_Send_init.
   *
   * @example
   * ```ts
   * import { Communicator, startAll, waitAll } from "@distmath/distmath";
   * const world = Communicator.world();
   * const [right, left] = [(world.rank + 1) % world.size, (world.rank + world.size - 1) % world.size];
   * const [value, arrived] = [new Float64Array(1), new Float64Array(1)];
   * using sends = world.sendInit(value, right);
   * using receives = world.receiveInit(arrived, left);
   * for (let step = 0; step < 3; step++) {
   *   value[0] = 10 * step + world.rank;
   *   waitAll(startAll([sends, receives]));
   *   console.assert(arrived[0] === 10 * step + left);
   * }
   * ```
   */
  sendInit(data: MessageArray, destination: number | null, options: SendOptions = NO_OPTIONS): PersistentRequest<void> {
    if (arguments.length > 3) refuseExtra("sendInit", "data, destination", OptionKeys.send);
    const [to, tag] = this.#target("sendInit", destination, options);
    const message = checkedMessage("sendInit", "data", data, options.dtype, false);
    const { buffer, count, held } = message;
    const { symbols } = startMpi();
    return new PersistentRequest(
      "MPI_Send_init",
      held,
      (request) =>
        withType(message, (type) => symbols.MPI_Send_init(buffer, count, type, to, tag, this.handle, request)),
      () => {},
      (method) => checkHeld(method, "data", message),
    );
  }

  /** Prepare a receive that is started as often as it is needed. Not collective. Source: MPI_Recv_init. */
  receiveInit(
    into: MessageArray,
    source: Source = "any",
    options: ReceiveOptions = NO_OPTIONS,
  ): PersistentRequest<Status> {
    if (arguments.length > 3) refuseExtra("receiveInit", "into, source", OptionKeys.receive);
    const [from, tag] = this.#origin("receiveInit", source, options);
    const message = checkedMessage("receiveInit", "into", into, options.dtype, true);
    const { buffer, count, held, entryBytes } = message;
    const { symbols } = startMpi();
    return new PersistentRequest(
      "MPI_Recv_init",
      held,
      (request) =>
        withType(message, (type) => symbols.MPI_Recv_init(buffer, count, type, from, tag, this.handle, request)),
      // MPICH leaves the status as it was where nobody sends.
      (status, isCancelled) => isCancelled || source === null ? NO_MESSAGE : readStatus(status, entryBytes),
      (method) => checkHeld(method, "into", message),
    );
  }

  #target(method: string, destination: number | null, options: SendOptions): [rank: number, tag: number] {
    checkCall(this, method, options, OptionKeys.send);
    return [checkedDestination(this, method, destination), checkedTag(method, options.tag ?? 0)];
  }

  #origin(method: string, source: Source, options: ReceiveOptions): [rank: number, tag: number] {
    checkCall(this, method, options, OptionKeys.receive);
    return [checkedSource(this, method, source), checkedTag(method, options.tag)];
  }

  #probed(method: string, entryBytes: number, { dtype }: ElementOptions): Status {
    const status = readStatus(this.#status, entryBytes);
    if (Number.isInteger(status.count)) return status;
    throw new RangeError(
      `${method}: the message has ${status.count * entryBytes} bytes, no whole number of entries of ${dtype}.`,
    );
  }
}

function probedEntry(method: string, { dtype }: ElementOptions): number {
  return dtype === undefined ? 1 : namedEntryBytes(method, dtype);
}
