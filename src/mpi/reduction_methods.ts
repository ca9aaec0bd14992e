/**
 * Reductions: the entries of all ranks combined.
 *
 * @module
 */
import { checkInto, EMPTY_RECEIVE, receiveBuffer, sendBuffer } from "./buffers.ts";
import { checkCall, checkedArray, checkedLength, checkedRoot } from "./checks.ts";
import {
  NO_OPTIONS,
  OptionKeys,
  type ReduceOptions,
  type ReduceRootOptions,
  type ReduceScatterOptions,
  refuseExtra,
} from "./communicator_options.ts";
import { entryCounts, equalPart, sumOf } from "./counts.ts";
import { copyOf, elementOf, narrow, newLike, type NumericArray, widen } from "./elements.ts";
import { startMpi } from "./init_finalize.ts";
import { MessageMethods } from "./message_methods.ts";
import { beginCombining, blocksIn, checkedOperator, endCombining, isWidened, operationOf } from "./operator.ts";

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
    // As checkedArray, without an object: this is the call that loops make most.
    checkCall(this, "allReduce", options, OptionKeys.reduce);
    const element = elementOf("allReduce", "send", send, options.dtype);
    const length = checkedLength("allReduce", "send", send);
    const { op = "sum" } = options;
    const into = options.into ?? newLike(send, length);
    if (into !== send) checkInto("allReduce", into, send, length);
    const own = checkedOperator("allReduce", element, op, length);
    if (isWidened(element, own, op)) {
      const wide = widen(send, element);
      narrow(this.allReduce(wide, { op, into: wide }), into, element);
      return into;
    }
    const { symbols, constants: { inPlace } } = startMpi();
    const source = sendBuffer(send, length);
    // Since `into` was looked at no code of the user's has run, which could have changed it.
    const target = length === 0 ? EMPTY_RECEIVE : into;
    const count = blocksIn("allReduce", length, own);
    const [operation, handle] = [operationOf(op, own), this.handle];
    const type = beginCombining(element, own, send);
    const code = into === send
      ? symbols.MPI_Allreduce_in_place(inPlace, target, count, type, operation, handle)
      : symbols.MPI_Allreduce(source, target, count, type, operation, handle);
    endCombining(own, type, code, "MPI_Allreduce");
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
    const { element, length } = checkedArray(this, "reduce", "send", send, options, OptionKeys.reduceRoot);
    const { op = "sum" } = options;
    const root = checkedRoot(this, "reduce", options.root);
    const own = checkedOperator("reduce", element, op, length);
    const isRoot = this.rank === root;
    const into = isRoot ? options.into ?? newLike(send, length) : null;
    if (into !== null && into !== send) checkInto("reduce", into, send, length);
    if (isWidened(element, own, op)) {
      const wide = widen(send, element);
      const result = this.reduce(wide, { op, root, into: wide });
      if (into && result) narrow(result, into, element);
      return into;
    }
    // In place MPICH 4.0 crashes, where the root is not rank 0.
    const source = sendBuffer(into === send ? copyOf(send, length) : send, length);
    const target = into === null ? EMPTY_RECEIVE : receiveBuffer(into, length);
    const count = blocksIn("reduce", length, own);
    const [operation, handle] = [operationOf(op, own), this.handle];
    const type = beginCombining(element, own, send);
    const code = startMpi().symbols.MPI_Reduce(source, target, count, type, operation, root, handle);
    endCombining(own, type, code, "MPI_Reduce");
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
    const { element, length } = checkedArray(this, method, "send", send, options, OptionKeys.reduce);
    const { op = "sum" } = options;
    const into = options.into ?? newLike(send, length);
    if (into !== send) checkInto(method, into, send, length);
    const own = checkedOperator(method, element, op, length);
    if (isWidened(element, own, op)) {
      const wide = widen(send, element);
      this.#scan(method, functionName, wide, { op, into: wide });
      if (functionName === "MPI_Scan" || this.rank > 0) narrow(wide, into, element);
      return into;
    }
    const { symbols, constants: { inPlace } } = startMpi();
    const [source, target] = [sendBuffer(send, length), receiveBuffer(into, length)];
    const count = blocksIn(method, length, own);
    const [operation, handle] = [operationOf(op, own), this.handle];
    const type = beginCombining(element, own, send);
    const code = into === send
      ? symbols[`${functionName}_in_place`](inPlace, target, count, type, operation, handle)
      : symbols[functionName](source, target, count, type, operation, handle);
    endCombining(own, type, code, functionName);
    return into;
  }

  /**
   * Combine the entries of all ranks and give each rank its part of the result: `counts[r]` entries to rank r.
   * Source: MPI_Reduce_scatter.
   */
  reduceScatter<T extends NumericArray>(send: T, options: ReduceScatterOptions<T> = NO_OPTIONS): T {
    if (arguments.length > 2) refuseExtra("reduceScatter", "send", OptionKeys.reduceScatter);
    const method = "reduceScatter";
    const { element, length } = checkedArray(this, method, "send", send, options, OptionKeys.reduceScatter);
    const { op = "sum" } = options;
    const own = checkedOperator(method, element, op, length);
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
    if (isWidened(element, own, op)) {
      narrow(this.reduceScatter(widen(send, element), { op, counts }), into, element);
      return into;
    }
    const blocks = counts.map((count) => blocksIn(method, count, own));
    const [source, target] = [sendBuffer(send, length), receiveBuffer(into, counts[this.rank])];
    const [operation, handle] = [operationOf(op, own), this.handle];
    const type = beginCombining(element, own, send);
    const code = startMpi().symbols.MPI_Reduce_scatter(source, target, blocks, type, operation, handle);
    endCombining(own, type, code, "MPI_Reduce_scatter");
    return into;
  }
}
