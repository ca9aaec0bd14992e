/**
 * Reductions: the entries of all ranks combined.
 *
 * @module
 */
import { checkInto, EMPTY_RECEIVE, receiveBuffer, sendBuffer } from "./buffers.ts";
import { checkedElement, checkedRoot } from "./checks.ts";
import {
  NO_OPTIONS,
  OptionKeys,
  type ReduceOptions,
  type ReduceRootOptions,
  type ReduceScatterOptions,
  refuseExtra,
} from "./communicator_options.ts";
import { entryCounts, equalPart, sumOf } from "./counts.ts";
import { checkOperation, lengthOf, narrow, newLike, type NumericArray, widen } from "./elements.ts";
import { startMpi } from "./init_finalize.ts";
import { MessageMethods } from "./message_methods.ts";
import { combine, isWidened } from "./operator.ts";

/** The methods of a communicator that combine the entries of all ranks. */
export abstract class ReductionMethods extends MessageMethods {
  /**
   * Combine the entries of all ranks on every rank. `into` may be `send` itself.
   * Source: MPI_Allreduce.
   *
   * @throws {DTypeError} if the operation has no meaning for the elements.
   */
  allReduce<T extends NumericArray>(send: T, options: ReduceOptions<T> = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("allReduce", "send", OptionKeys.reduce);
    const element = checkedElement(this, "allReduce", "send", send, options, OptionKeys.reduce);
    const length = lengthOf(send);
    const { op = "sum" } = options;
    const into = options.into ?? newLike(send, length);
    if (into !== send) checkInto("allReduce", into, send, length);
    if (isWidened(element, op)) {
      checkOperation("allReduce", element, op, length);
      const wide = widen(send, element);
      narrow(this.allReduce(wide, { op, into: wide }), into, element);
      return into;
    }
    const { symbols, constants: { inPlace } } = startMpi();
    const target = receiveBuffer(into, length);
    combine(
      "allReduce",
      "MPI_Allreduce",
      element,
      op,
      send,
      length,
      (type, unit, operation) =>
        into === send
          ? symbols.MPI_Allreduce_in_place(inPlace, target, length / unit, type, operation, this.handle)
          : symbols.MPI_Allreduce(sendBuffer(send, length), target, length / unit, type, operation, this.handle),
    );
    return into;
  }

  /**
   * Combine the entries of all ranks on the root; `null` on the others. On the root, `into` may be `send` itself.
   * Source: MPI_Reduce.
   *
   * @throws {DTypeError} if the operation has no meaning for the elements.
   */
  reduce<T extends NumericArray>(send: T, options: ReduceRootOptions<T> = NO_OPTIONS): T | null {
    if (arguments.length > 2) refuseExtra("reduce", "send", OptionKeys.reduceRoot);
    const element = checkedElement(this, "reduce", "send", send, options, OptionKeys.reduceRoot);
    const length = lengthOf(send);
    const { op = "sum" } = options;
    const root = checkedRoot(this, "reduce", options.root);
    const isWide = isWidened(element, op);
    if (isWide) checkOperation("reduce", element, op, length);
    const isRoot = this.rank === root;
    const into = isRoot ? options.into ?? newLike(send, length) : null;
    if (into !== null && into !== send) checkInto("reduce", into, send, length);
    if (isWide) {
      const wide = widen(send, element);
      const result = this.reduce(wide, { op, root, into: wide });
      if (into && result) narrow(result, into, element);
      return into;
    }
    const { symbols, constants: { inPlace } } = startMpi();
    const target = into === null ? EMPTY_RECEIVE : receiveBuffer(into, length);
    combine(
      "reduce",
      "MPI_Reduce",
      element,
      op,
      send,
      length,
      (type, unit, operation) =>
        into === send
          ? symbols.MPI_Reduce_in_place(inPlace, target, length / unit, type, operation, root, this.handle)
          : symbols.MPI_Reduce(sendBuffer(send, length), target, length / unit, type, operation, root, this.handle),
    );
    return into;
  }

  /**
   * Combine the entries of the ranks up to this one. `into` may be `send` itself.
   * Source: MPI_Scan.
   */
  scan<T extends NumericArray>(send: T, options: ReduceOptions<T> = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("scan", "send", OptionKeys.reduce);
    return this.#scan("scan", "MPI_Scan", send, options);
  }

  /**
   * Combine the entries of the ranks before this one; rank 0 gets zeros, or keeps what `into` holds.
   * `into` may be `send` itself. Source: MPI_Exscan.
   */
  exclusiveScan<T extends NumericArray>(send: T, options: ReduceOptions<T> = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("exclusiveScan", "send", OptionKeys.reduce);
    return this.#scan("exclusiveScan", "MPI_Exscan", send, options);
  }

  #scan<T extends NumericArray>(
    method: string,
    functionName: "MPI_Scan" | "MPI_Exscan",
    send: T,
    options: ReduceOptions<T>,
  ): T {
    const element = checkedElement(this, method, "send", send, options, OptionKeys.reduce);
    const length = lengthOf(send);
    const { op = "sum" } = options;
    const into = options.into ?? newLike(send, length);
    if (into !== send) checkInto(method, into, send, length);
    if (isWidened(element, op)) {
      checkOperation(method, element, op, length);
      const wide = widen(send, element);
      this.#scan(method, functionName, wide, { op, into: wide });
      if (functionName === "MPI_Scan" || this.rank > 0) narrow(wide, into, element);
      return into;
    }
    const { symbols, constants: { inPlace } } = startMpi();
    const target = receiveBuffer(into, length);
    combine(
      method,
      functionName,
      element,
      op,
      send,
      length,
      (type, unit, operation) =>
        into === send
          ? symbols[`${functionName}_in_place`](inPlace, target, length / unit, type, operation, this.handle)
          : symbols[functionName](sendBuffer(send, length), target, length / unit, type, operation, this.handle),
    );
    return into;
  }

  /**
   * Combine the entries of all ranks and give each rank its part of the result: `counts[r]` entries to rank r.
   * Source: MPI_Reduce_scatter.
   */
  reduceScatter<T extends NumericArray>(send: T, options: ReduceScatterOptions<T> = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("reduceScatter", "send", OptionKeys.reduceScatter);
    const method = "reduceScatter";
    const element = checkedElement(this, method, "send", send, options, OptionKeys.reduceScatter);
    const length = lengthOf(send);
    const { op = "sum" } = options;
    const isWide = isWidened(element, op);
    if (isWide) checkOperation(method, element, op, length);
    const given = options.counts;
    const counts = given === undefined
      ? new Int32Array(this.size).fill(equalPart(method, "send", length, this.size, "pass counts"))
      : entryCounts(method, "counts", given, this.size);
    const total = sumOf(counts);
    if (total !== length) {
      throw new RangeError(`${method}: the counts add up to ${total}, but send has ${length} entries.`);
    }
    const into = options.into ?? newLike(send, counts[this.rank]);
    checkInto(method, into, send, counts[this.rank]);
    if (isWide) {
      narrow(this.reduceScatter(widen(send, element), { op, counts }), into, element);
      return into;
    }
    const target = receiveBuffer(into, counts[this.rank]);
    combine(method, "MPI_Reduce_scatter", element, op, send, length, (type, unit, operation) => {
      const units = counts.map((count) => wholeBlocks(method, count, unit));
      const from = sendBuffer(send, length);
      return startMpi().symbols.MPI_Reduce_scatter(from, target, units, type, operation, this.handle);
    });
    return into;
  }
}

/** A count in blocks of what an operator combines as a whole. */
function wholeBlocks(method: string, count: number, blockLength: number): number {
  if (count % blockLength === 0) return count / blockLength;
  throw new RangeError(`${method}: the operator combines ${blockLength} entries at a time, and a count is ${count}.`);
}
