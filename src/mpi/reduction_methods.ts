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
import { lengthOf, narrow, newLike, type NumericArray, widen } from "./elements.ts";
import { startMpi } from "./init_finalize.ts";
import { MessageMethods } from "./message_methods.ts";
import { beginCombining, checkedUnit, endCombining, isWidened } from "./operator.ts";

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
    const unit = checkedUnit("allReduce", element, op, length);
    if (isWidened(element, op)) {
      const wide = widen(send, element);
      narrow(this.allReduce(wide, { op, into: wide }), into, element);
      return into;
    }
    const { symbols, constants: { inPlace } } = startMpi();
    const [source, target, count] = [sendBuffer(send, length), receiveBuffer(into, length), length / unit];
    const by = beginCombining(element, op, send);
    const code = into === send
      ? symbols.MPI_Allreduce_in_place(inPlace, target, count, by.type, by.operation, this.handle)
      : symbols.MPI_Allreduce(source, target, count, by.type, by.operation, this.handle);
    endCombining(by, code, "MPI_Allreduce");
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
    const unit = checkedUnit("reduce", element, op, length);
    const isRoot = this.rank === root;
    const into = isRoot ? options.into ?? newLike(send, length) : null;
    if (into !== null && into !== send) checkInto("reduce", into, send, length);
    if (isWidened(element, op)) {
      const wide = widen(send, element);
      const result = this.reduce(wide, { op, root, into: wide });
      if (into && result) narrow(result, into, element);
      return into;
    }
    const { symbols, constants: { inPlace } } = startMpi();
    const [source, count] = [sendBuffer(send, length), length / unit];
    const target = into === null ? EMPTY_RECEIVE : receiveBuffer(into, length);
    const by = beginCombining(element, op, send);
    const code = into === send
      ? symbols.MPI_Reduce_in_place(inPlace, target, count, by.type, by.operation, root, this.handle)
      : symbols.MPI_Reduce(source, target, count, by.type, by.operation, root, this.handle);
    endCombining(by, code, "MPI_Reduce");
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
    const unit = checkedUnit(method, element, op, length);
    if (isWidened(element, op)) {
      const wide = widen(send, element);
      this.#scan(method, functionName, wide, { op, into: wide });
      if (functionName === "MPI_Scan" || this.rank > 0) narrow(wide, into, element);
      return into;
    }
    const { symbols, constants: { inPlace } } = startMpi();
    const [source, target, count] = [sendBuffer(send, length), receiveBuffer(into, length), length / unit];
    const by = beginCombining(element, op, send);
    const code = into === send
      ? symbols[`${functionName}_in_place`](inPlace, target, count, by.type, by.operation, this.handle)
      : symbols[functionName](source, target, count, by.type, by.operation, this.handle);
    endCombining(by, code, functionName);
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
    const unit = checkedUnit(method, element, op, length);
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
    if (isWidened(element, op)) {
      narrow(this.reduceScatter(widen(send, element), { op, counts }), into, element);
      return into;
    }
    const units = counts.map((count) => wholeBlocks(method, count, unit));
    const [source, target] = [sendBuffer(send, length), receiveBuffer(into, counts[this.rank])];
    const by = beginCombining(element, op, send);
    const code = startMpi().symbols.MPI_Reduce_scatter(source, target, units, by.type, by.operation, this.handle);
    endCombining(by, code, "MPI_Reduce_scatter");
    return into;
  }
}

/** A count in blocks of what an operator combines as a whole. */
function wholeBlocks(method: string, count: number, blockLength: number): number {
  if (count % blockLength === 0) return count / blockLength;
  throw new RangeError(`${method}: the operator combines ${blockLength} entries at a time, and a count is ${count}.`);
}
