/**
 * Messages from one rank to another.
 *
 * @module
 */
import { checkMpi } from "../../ffi/mpi/mod.ts";
import { receiveBuffer, sendBuffer } from "./buffers.ts";
import { checkedDestination, checkedElement, checkedSource, checkedTag } from "./checks.ts";
import { CommunicatorHandle, refuseFreed } from "./communicator_handle.ts";
import {
  checkOptions,
  NO_OPTIONS,
  OptionKeys,
  type ReceiveOptions,
  refuseExtra,
  type SendOptions,
  type SendReceiveOptions,
  type Source,
} from "./communicator_options.ts";
import { lengthOf, type NumericArray, overlap } from "./elements.ts";
import { startMpi } from "./init_finalize.ts";
import { readStatus, Request, type Status } from "./request.ts";

/** The methods of a communicator by which one rank sends to another; none is collective. */
export abstract class MessageMethods extends CommunicatorHandle {
  readonly #status = new Int32Array(startMpi().status.words);

  /**
   * Send entries to one rank, which receives them; may wait for that. `null` as destination sends nothing. Not collective.
   * Source: MPI_Send.
   */
  send(data: NumericArray, destination: number | null, options: SendOptions = NO_OPTIONS): void {
    if (arguments.length > 3) refuseExtra("send", "data, destination", OptionKeys.send);
    const element = checkedElement(this, "send", "data", data, options, OptionKeys.send);
    const length = lengthOf(data);
    const to = checkedDestination(this, "send", destination);
    const tag = checkedTag("send", options.tag ?? 0);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const code = symbols.MPI_Send(sendBuffer(data, length), length, type, to, tag, this.handle);
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
  receive(into: NumericArray, source: Source = "any", options: ReceiveOptions = NO_OPTIONS): Status {
    if (arguments.length > 3) refuseExtra("receive", "into, source", OptionKeys.receive);
    const element = checkedElement(this, "receive", "into", into, options, OptionKeys.receive);
    const length = lengthOf(into);
    const from = checkedSource(this, "receive", source);
    const tag = checkedTag("receive", options.tag);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const code = symbols.MPI_Recv(receiveBuffer(into, length), length, type, from, tag, this.handle, this.#status);
    checkMpi(code, "MPI_Recv");
    return readStatus(this.#status, into.BYTES_PER_ELEMENT);
  }

  /** Send to one rank and receive from one, without the danger that both wait. Not collective. Source: MPI_Sendrecv. */
  sendReceive(
    data: NumericArray,
    destination: number | null,
    into: NumericArray,
    options: SendReceiveOptions = NO_OPTIONS,
  ): Status {
    if (arguments.length > 4) refuseExtra("sendReceive", "data, destination, into", OptionKeys.sendReceive);
    const method = "sendReceive";
    const sent = checkedElement(this, method, "data", data, options, OptionKeys.sendReceive);
    const received = checkedElement(this, method, "into", into, options, OptionKeys.sendReceive);
    const [length, room] = [lengthOf(data), lengthOf(into)];
    if (overlap(data, into)) throw new RangeError(`${method}: into overlaps data; give separate memory.`);
    const to = checkedDestination(this, method, destination);
    const from = checkedSource(this, method, options.source === undefined ? destination : options.source);
    const tag = checkedTag(method, options.tag ?? 0);
    const receiveTag = checkedTag(method, options.receiveTag);
    const { symbols, constants: { types } } = startMpi();
    const code = symbols.MPI_Sendrecv(
      sendBuffer(data, length),
      length,
      types[sent.type],
      to,
      tag,
      receiveBuffer(into, room),
      room,
      types[received.type],
      from,
      receiveTag,
      this.handle,
      this.#status,
    );
    checkMpi(code, "MPI_Sendrecv");
    return readStatus(this.#status, into.BYTES_PER_ELEMENT);
  }

  /** Wait for a message without receiving it; its `count` is in bytes. Not collective. Source: MPI_Probe. */
  probe(source: Source = "any", options: ReceiveOptions = NO_OPTIONS): Status {
    if (arguments.length > 2) refuseExtra("probe", "source", OptionKeys.receive);
    checkOptions("probe", options, OptionKeys.receive);
    refuseFreed(this, "probe");
    const from = checkedSource(this, "probe", source);
    const code = startMpi().symbols.MPI_Probe(from, checkedTag("probe", options.tag), this.handle, this.#status);
    checkMpi(code, "MPI_Probe");
    return readStatus(this.#status, 1);
  }

  /** Look for a message without waiting; `null` if there is none yet. Not collective. Source: MPI_Iprobe. */
  probeNow(source: Source = "any", options: ReceiveOptions = NO_OPTIONS): Status | null {
    if (arguments.length > 2) refuseExtra("probeNow", "source", OptionKeys.receive);
    checkOptions("probeNow", options, OptionKeys.receive);
    refuseFreed(this, "probeNow");
    const from = checkedSource(this, "probeNow", source);
    const tag = checkedTag("probeNow", options.tag);
    const flag = new Int32Array(1);
    const code = startMpi().symbols.MPI_Iprobe(from, tag, this.handle, flag, this.#status);
    checkMpi(code, "MPI_Iprobe");
    return flag[0] === 0 ? null : readStatus(this.#status, 1);
  }

  /** Begin to send; do not change `data` before the request is complete. Not collective. Source: MPI_Isend. */
  isend(data: NumericArray, destination: number | null, options: SendOptions = NO_OPTIONS): Request<void> {
    if (arguments.length > 3) refuseExtra("isend", "data, destination", OptionKeys.send);
    const element = checkedElement(this, "isend", "data", data, options, OptionKeys.send);
    const length = lengthOf(data);
    const to = checkedDestination(this, "isend", destination);
    const tag = checkedTag("isend", options.tag ?? 0);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    return new Request(
      "MPI_Isend",
      [data],
      (request) => symbols.MPI_Isend(sendBuffer(data, length), length, type, to, tag, this.handle, request),
      () => {},
    );
  }

  /** Begin to receive; `into` holds the message when the request is complete. Not collective. Source: MPI_Irecv. */
  ireceive(into: NumericArray, source: Source = "any", options: ReceiveOptions = NO_OPTIONS): Request<Status> {
    if (arguments.length > 3) refuseExtra("ireceive", "into, source", OptionKeys.receive);
    const element = checkedElement(this, "ireceive", "into", into, options, OptionKeys.receive);
    const length = lengthOf(into);
    const from = checkedSource(this, "ireceive", source);
    const tag = checkedTag("ireceive", options.tag);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const bytes = into.BYTES_PER_ELEMENT;
    return new Request(
      "MPI_Irecv",
      [into],
      (request) => symbols.MPI_Irecv(receiveBuffer(into, length), length, type, from, tag, this.handle, request),
      // MPICH 4.0 leaves the status as it was when there is no sender.
      (status) => source === null ? { source: null, tag: constants.anyTag, count: 0 } : readStatus(status, bytes),
    );
  }
}
