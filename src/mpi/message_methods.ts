/**
 * Messages from one rank to another.
 *
 * @module
 */
import { checkMpi } from "../../ffi/mpi/mod.ts";
import { checkedDestination, checkedSource, checkedTag } from "./checks.ts";
import { CommunicatorHandle, refuseFreed } from "./communicator_handle.ts";
import {
  checkOptions,
  type ElementOptions,
  NO_OPTIONS,
  OptionKeys,
  type ReceiveOptions,
  refuseExtra,
  type SendOptions,
  type SendReceiveOptions,
  type Source,
} from "./communicator_options.ts";
import { namedEntryBytes, overlap } from "./elements.ts";
import { startMpi } from "./init_finalize.ts";
import { PersistentRequest } from "./persistent.ts";
import { readStatus, Request, type Status } from "./request.ts";
import { checkedMessage, freeType, type Message, type MessageArray } from "./strided.ts";

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
    const message = checkedMessage(this, "send", "data", data, options, OptionKeys.send, false);
    try {
      const to = checkedDestination(this, "send", destination);
      const tag = checkedTag("send", options.tag ?? 0);
      const { buffer, count, type } = message;
      checkMpi(startMpi().symbols.MPI_Send(buffer, count, type, to, tag, this.handle), "MPI_Send");
    } finally {
      freeType(message);
    }
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
    const message = checkedMessage(this, "receive", "into", into, options, OptionKeys.receive, true);
    try {
      const from = checkedSource(this, "receive", source);
      const tag = checkedTag("receive", options.tag);
      const { buffer, count, type } = message;
      checkMpi(startMpi().symbols.MPI_Recv(buffer, count, type, from, tag, this.handle, this.#status), "MPI_Recv");
    } finally {
      freeType(message);
    }
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
    const sent = checkedMessage(this, method, "data", data, options, OptionKeys.sendReceive, false);
    let received: Message | null = null;
    try {
      received = checkedMessage(this, method, "into", into, options, OptionKeys.sendReceive, true);
      if (!sent.isDerived && !received.isDerived && overlap(sent.held, received.held)) {
        throw new RangeError(`${method}: into overlaps data; give separate memory.`);
      }
      const to = checkedDestination(this, method, destination);
      const tag = checkedTag(method, options.tag ?? 0);
      const from = checkedSource(this, method, options.source === undefined ? destination : options.source);
      const receiveTag = checkedTag(method, options.receiveTag);
      const code = startMpi().symbols.MPI_Sendrecv(
        sent.buffer,
        sent.count,
        sent.type,
        to,
        tag,
        received.buffer,
        received.count,
        received.type,
        from,
        receiveTag,
        this.handle,
        this.#status,
      );
      checkMpi(code, "MPI_Sendrecv");
    } finally {
      freeType(sent);
      if (received !== null) freeType(received);
    }
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
    const entryBytes = this.#probedEntry("probe", options);
    const [from, tag] = this.#origin("probe", source, options.tag);
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
    const entryBytes = this.#probedEntry("probeNow", options);
    const [from, tag] = this.#origin("probeNow", source, options.tag);
    const flag = new Int32Array(1);
    const code = startMpi().symbols.MPI_Iprobe(from, tag, this.handle, flag, this.#status);
    checkMpi(code, "MPI_Iprobe");
    return flag[0] === 0 ? null : this.#probed("probeNow", entryBytes, options);
  }

  /** Begin to send; do not change `data` before the request is complete. Not collective. Source: MPI_Isend. */
  isend(data: MessageArray, destination: number | null, options: SendOptions = NO_OPTIONS): Request<void> {
    if (arguments.length > 3) refuseExtra("isend", "data, destination", OptionKeys.send);
    const message = checkedMessage(this, "isend", "data", data, options, OptionKeys.send, false);
    const { symbols } = startMpi();
    return this.#background(message, () => {
      const [to, tag] = this.#target("isend", destination, options.tag);
      const { buffer, count, type, held } = message;
      return new Request(
        "MPI_Isend",
        [held],
        (request) => symbols.MPI_Isend(buffer, count, type, to, tag, this.handle, request),
        () => {},
      );
    });
  }

  /** Begin to receive; `into` holds the message when the request is complete. Not collective. Source: MPI_Irecv. */
  ireceive(into: MessageArray, source: Source = "any", options: ReceiveOptions = NO_OPTIONS): Request<Status> {
    if (arguments.length > 3) refuseExtra("ireceive", "into, source", OptionKeys.receive);
    const message = checkedMessage(this, "ireceive", "into", into, options, OptionKeys.receive, true);
    const { symbols } = startMpi();
    return this.#background(message, () => {
      const [from, tag] = this.#origin("ireceive", source, options.tag);
      const { buffer, count, type, held, entryBytes } = message;
      return new Request(
        "MPI_Irecv",
        [held],
        (request) => symbols.MPI_Irecv(buffer, count, type, from, tag, this.handle, request),
        (status) => readStatus(status, entryBytes),
      );
    });
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
    const message = checkedMessage(this, "sendInit", "data", data, options, OptionKeys.send, false);
    const { symbols } = startMpi();
    return this.#background(message, () => {
      const [to, tag] = this.#target("sendInit", destination, options.tag);
      const { buffer, count, type, held } = message;
      return new PersistentRequest(
        "MPI_Send_init",
        held,
        (request) => symbols.MPI_Send_init(buffer, count, type, to, tag, this.handle, request),
        () => {},
      );
    });
  }

  /** Prepare a receive that is started as often as it is needed. Not collective. Source: MPI_Recv_init. */
  receiveInit(
    into: MessageArray,
    source: Source = "any",
    options: ReceiveOptions = NO_OPTIONS,
  ): PersistentRequest<Status> {
    if (arguments.length > 3) refuseExtra("receiveInit", "into, source", OptionKeys.receive);
    const message = checkedMessage(this, "receiveInit", "into", into, options, OptionKeys.receive, true);
    const { symbols } = startMpi();
    return this.#background(message, () => {
      const [from, tag] = this.#origin("receiveInit", source, options.tag);
      const { buffer, count, type, held, entryBytes } = message;
      return new PersistentRequest(
        "MPI_Recv_init",
        held,
        (request) => symbols.MPI_Recv_init(buffer, count, type, from, tag, this.handle, request),
        (status) => readStatus(status, entryBytes),
      );
    });
  }

  #target(method: string, destination: number | null, tag: number | undefined): [rank: number, tag: number] {
    return [checkedDestination(this, method, destination), checkedTag(method, tag ?? 0)];
  }

  #origin(method: string, source: Source, tag: number | undefined): [rank: number, tag: number] {
    return [checkedSource(this, method, source), checkedTag(method, tag)];
  }

  /** Begin what goes on in the background; MPI keeps the type of its message. */
  #background<R>(message: Message, begin: () => R): R {
    try {
      return begin();
    } finally {
      freeType(message);
    }
  }

  #probedEntry(method: string, options: ElementOptions): number {
    checkOptions(method, options, OptionKeys.receive);
    refuseFreed(this, method);
    return options.dtype === undefined ? 1 : namedEntryBytes(method, options.dtype);
  }

  #probed(method: string, entryBytes: number, { dtype }: ElementOptions): Status {
    const status = readStatus(this.#status, entryBytes);
    if (Number.isInteger(status.count)) return status;
    throw new RangeError(
      `${method}: the message has ${status.count * entryBytes} bytes, no whole number of entries of ${dtype}.`,
    );
  }
}
