/**
 * Collective calls that go on while the script does something else.
 *
 * @module
 */
import { checkInto, EMPTY_RECEIVE, EMPTY_SEND, receiveBuffer, sendBuffer } from "./buffers.ts";
import { checkedArray, checkedRoot } from "./checks.ts";
import { CollectiveMethods, equalParts } from "./collective_methods.ts";
import {
  type IntoOptions,
  NO_OPTIONS,
  OptionKeys,
  type ReduceOptions,
  type ReduceRootOptions,
  refuseExtra,
  type RootOptions,
  type ScatterOptions,
} from "./communicator_options.ts";
import { checkedTotal, equalPart } from "./counts.ts";
import { checkOperation, elementOf, narrow, newLike, type NumericArray, widen } from "./elements.ts";
import { startMpi } from "./init_finalize.ts";
import { isWidened } from "./operator.ts";
import { Request } from "./request.ts";

/**
 * The methods of a communicator that begin what {@linkcode CollectiveMethods} and {@linkcode ReductionMethods} do at once, and
 * return a {@linkcode Request}. All ranks begin them in the same order.
 */
export abstract class BackgroundMethods extends CollectiveMethods {
  /** Begin a `broadcast`; the request's value is the array. Source: MPI_Ibcast. */
  ibroadcast<T extends NumericArray>(data: T, options: ScatterOptions = NO_OPTIONS): Request<T> {
    if (arguments.length > 2) refuseExtra("ibroadcast", "data", OptionKeys.scatter);
    const { element, length } = checkedArray(this, "ibroadcast", "data", data, options, OptionKeys.scatter);
    const root = checkedRoot(this, "ibroadcast", options.root);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    return new Request(
      "MPI_Ibcast",
      [data],
      (request) => symbols.MPI_Ibcast(receiveBuffer(data, length), length, type, root, this.handle, request),
      () => data,
    );
  }

  /**
   * Begin an `allReduce`; the request's value is the result. Source: MPI_Iallreduce.
   *
   * @throws {DTypeError} if the operation has no meaning for the elements.
   */
  iallReduce<T extends NumericArray>(send: T, options: ReduceOptions<T> = NO_OPTIONS): Request<T> {
    if (arguments.length > 2) refuseExtra("iallReduce", "send", OptionKeys.reduce);
    const { element, length } = checkedArray(this, "iallReduce", "send", send, options, OptionKeys.reduce);
    const { op = "sum" } = options;
    const into = options.into ?? newLike(send, length);
    checkInto("iallReduce", into, send, length);
    checkOperation("iallReduce", element, op, length);
    const isWide = isWidened(element, null, op);
    const from = isWide ? widen(send, element) : send;
    const to = isWide ? newLike(from, length) : into;
    const { symbols, constants } = startMpi();
    const type = constants.types[isWide ? elementOf("iallReduce", "send", from).type : element.type];
    return new Request(
      "MPI_Iallreduce",
      [from, to, into],
      (request) =>
        symbols.MPI_Iallreduce(
          sendBuffer(from, length),
          receiveBuffer(to, length),
          length,
          type,
          constants.operations[op],
          this.handle,
          request,
        ),
      () => {
        if (isWide) narrow(to, into, element);
        return into;
      },
    );
  }

  /**
   * Begin a `reduce`; the request's value is the result on the root, `null` on the others. Source: MPI_Ireduce.
   *
   * @throws {DTypeError} if the operation has no meaning for the elements.
   */
  ireduce<T extends NumericArray>(send: T, options: ReduceRootOptions<T> = NO_OPTIONS): Request<T | null> {
    if (arguments.length > 2) refuseExtra("ireduce", "send", OptionKeys.reduceRoot);
    const { element, length } = checkedArray(this, "ireduce", "send", send, options, OptionKeys.reduceRoot);
    const { op = "sum" } = options;
    const root = checkedRoot(this, "ireduce", options.root);
    checkOperation("ireduce", element, op, length);
    const into = this.rank === root ? options.into ?? newLike(send, length) : null;
    if (into !== null) checkInto("ireduce", into, send, length);
    const isWide = isWidened(element, null, op);
    const from = isWide ? widen(send, element) : send;
    const to = into !== null && isWide ? newLike(from, length) : into;
    const { symbols, constants } = startMpi();
    const type = constants.types[isWide ? elementOf("ireduce", "send", from).type : element.type];
    return new Request(
      "MPI_Ireduce",
      [from, to, into],
      (request) =>
        symbols.MPI_Ireduce(
          sendBuffer(from, length),
          to === null ? EMPTY_RECEIVE : receiveBuffer(to, length),
          length,
          type,
          constants.operations[op],
          root,
          this.handle,
          request,
        ),
      () => {
        if (isWide && into !== null) narrow(to!, into, element);
        return into;
      },
    );
  }

  /** Begin a `gather`; the request's value is the whole on the root, `null` on the others. Source: MPI_Igather. */
  igather<T extends NumericArray>(send: T, options: RootOptions<T> = NO_OPTIONS): Request<T | null> {
    if (arguments.length > 2) refuseExtra("igather", "send", OptionKeys.root);
    const { element, length } = checkedArray(this, "igather", "send", send, options, OptionKeys.root);
    const root = checkedRoot(this, "igather", options.root);
    const total = checkedTotal("igather", length, this.size);
    const into = this.rank === root ? options.into ?? newLike(send, total) : null;
    if (into) checkInto("igather", into, send, total);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const target = into === null ? EMPTY_RECEIVE : receiveBuffer(into, total);
    return new Request(
      "MPI_Igather",
      [send, into],
      (request) =>
        symbols.MPI_Igather(sendBuffer(send, length), length, type, target, length, type, root, this.handle, request),
      () => into,
    );
  }

  /** Begin a `scatter`; the request's value is `into`. Source: MPI_Iscatter. */
  iscatter<T extends NumericArray>(send: T | null, into: T, options: ScatterOptions = NO_OPTIONS): Request<T> {
    if (arguments.length > 3) refuseExtra("iscatter", "send, into", OptionKeys.scatter);
    const { element, length } = checkedArray(this, "iscatter", "into", into, options, OptionKeys.scatter);
    const root = checkedRoot(this, "iscatter", options.root);
    const source = equalParts(this, "iscatter", send, into, root);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const from = source ? sendBuffer(source, length * this.size) : EMPTY_SEND;
    const target = receiveBuffer(into, length);
    return new Request(
      "MPI_Iscatter",
      [source, into],
      (request) => symbols.MPI_Iscatter(from, length, type, target, length, type, root, this.handle, request),
      () => into,
    );
  }

  /** Begin an `allGather`; the request's value is the whole. Source: MPI_Iallgather. */
  iallGather<T extends NumericArray>(send: T, options: IntoOptions<T> = NO_OPTIONS): Request<T> {
    if (arguments.length > 2) refuseExtra("iallGather", "send", OptionKeys.into);
    const { element, length } = checkedArray(this, "iallGather", "send", send, options, OptionKeys.into);
    const total = checkedTotal("iallGather", length, this.size);
    const into = options.into ?? newLike(send, total);
    checkInto("iallGather", into, send, total);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const target = receiveBuffer(into, total);
    return new Request(
      "MPI_Iallgather",
      [send, into],
      (request) =>
        symbols.MPI_Iallgather(sendBuffer(send, length), length, type, target, length, type, this.handle, request),
      () => into,
    );
  }

  /** Begin an `allToAll`; the request's value is what comes from each rank. Source: MPI_Ialltoall. */
  iallToAll<T extends NumericArray>(send: T, options: IntoOptions<T> = NO_OPTIONS): Request<T> {
    if (arguments.length > 2) refuseExtra("iallToAll", "send", OptionKeys.into);
    const { element, length } = checkedArray(this, "iallToAll", "send", send, options, OptionKeys.into);
    const part = equalPart("iallToAll", "send", length, this.size, "use allToAllV");
    const into = options.into ?? newLike(send, length);
    checkInto("iallToAll", into, send, length);
    const { symbols, constants } = startMpi();
    const type = constants.types[element.type];
    const target = receiveBuffer(into, length);
    return new Request(
      "MPI_Ialltoall",
      [send, into],
      (request) =>
        symbols.MPI_Ialltoall(sendBuffer(send, length), part, type, target, part, type, this.handle, request),
      () => into,
    );
  }
}
