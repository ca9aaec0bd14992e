/**
 * Communication that goes on while the script does something else.
 *
 * @module
 */
import { Asking, type AwaitedCall } from "../../ffi/awaiting.ts";
import { checkMpi, mpiError } from "../../ffi/mpi/mod.ts";
import { awaitedFrom, waitingFor } from "../../ffi/mpi/waits.ts";
import { noteWaiting } from "../../ffi/waiting.ts";
import { StateError } from "../errors.ts";
import { describe } from "../options.ts";
import { leaveAfterSending } from "./departure.ts";
import { beforeMpiEnds, startMpi } from "./init_finalize.ts";

/** What is known about a message that was received or probed. */
export interface Status {
  /** The rank that sent it; `null` if there was no sender, or the receive was cancelled. */
  source: number | null;
  /** Its tag; -1 without a sender. */
  tag: number;
  /** Its length in entries: of the receiving array, of a probed message those of the dtype that was named, or bytes. */
  count: number;
}

/** Read an `MPI_Status`; `entryBytes` is the size of an entry. */
export function readStatus(status: Int32Array, entryBytes: number): Status {
  const { status: layout, constants } = startMpi();
  const bytes = layout.bytes?.(status) ?? bytesByCount(status);
  const source = status[layout.source];
  return {
    source: source === constants.nullProcess ? null : source,
    tag: source === constants.nullProcess ? NO_MESSAGE.tag : status[layout.tag],
    count: bytes / entryBytes,
  };
}

/** Entries that a message is counted in, with their bytes: the next larger ones where C's `int` does not hold their number. */
const COUNTED = [["uint8", 1], ["uint16", 2], ["uint32", 4], ["uint64", 8]] as const;

const COUNT = new Int32Array(1);

/** The bytes of a message where the status has them in no place that is known. */
function bytesByCount(status: Int32Array): number {
  const { symbols, constants } = startMpi();
  for (const [type, entryBytes] of COUNTED) {
    checkMpi(symbols.MPI_Get_count(status, constants.types[type], COUNT), "MPI_Get_count");
    if (COUNT[0] !== constants.undefined) return COUNT[0] * entryBytes;
  }
  return NaN;
}

/** What is known of a message that was cancelled: of such a status MPI tells nothing else. */
export const NO_MESSAGE: Status = Object.freeze({ source: null, tag: -1, count: 0 });

/** Requests that are under way; being here keeps them and their buffers alive. */
const pending = new Set<Request<unknown>>();

/** What begins messages: MPI can give them up. */
const MESSAGES: ReadonlySet<string> = new Set(["MPI_Isend", "MPI_Irecv", "MPI_Start", "MPI_Startall"]);

/** The number of tries before the first pause, and the pauses, in milliseconds: short at first, then longer. */
const IMMEDIATE_TRIES = 50;
const LONGEST_PAUSE = 5;

function pause(tries: number): Promise<void> {
  return new Promise((resolve) => {
    if (tries < IMMEDIATE_TRIES) setImmediate(resolve);
    else setTimeout(resolve, Math.min(LONGEST_PAUSE, 1 + (tries - IMMEDIATE_TRIES) / 10));
  });
}

/**
 * Something that MPI does in the background: the result of `isend`, `ireceive`, `iallReduce` and the like. `await` it, which
 * leaves the event loop free, or call `wait()`, or ask `test()` from time to time. It keeps its buffers alive until it
 * is complete; do not touch, detach or resize them before.
 *
 * @example
 * ```ts
 * import { Communicator } from "@distmath/distmath";
 * const self = Communicator.self();
 * const into = new Float64Array(2);
 * const received = self.ireceive(into, 0);
 * await self.isend(new Float64Array([1, 2]), 0);
 * console.assert((await received).count === 2 && into[1] === 2);
 * ```
 */
export class Request<T> implements PromiseLike<T> {
  #handle: Int32Array | BigUint64Array;
  #functionName: string;
  #status: Int32Array;
  #finish: (status: Int32Array, isCancelled: boolean) => T;
  #release: () => void;
  #buffers: readonly unknown[];
  readonly #isReceive: boolean;
  #outcome: { value: T } | { error: unknown } | null = null;
  #promise: Promise<T> | undefined;
  #isToBeCancelled = false;
  #isCancelled = false;
  readonly #awaited: AwaitedCall;
  readonly #asking = new Asking(() => this.#awaited);

  /**
   * Made by the methods of `Communicator`; `start` begins the operation and returns MPI's code, `finish` makes the value,
   * `release` is called at the end, whatever it is. Nobody waits for what a receive does.
   */
  constructor(
    functionName: string,
    buffers: readonly unknown[],
    start: (handle: Int32Array | BigUint64Array) => number,
    finish: (status: Int32Array, isCancelled: boolean) => T,
    release: () => void = () => {},
    isReceive: boolean = functionName === "MPI_Irecv",
  ) {
    const mpi = startMpi();
    this.#functionName = functionName;
    this.#buffers = buffers;
    this.#finish = finish;
    this.#release = release;
    this.#isReceive = isReceive;
    this.#status = new Int32Array(mpi.status.words);
    this.#handle = mpi.handle === "i32" ? new Int32Array(1) : new BigUint64Array(1);
    try {
      checkMpi(start(this.#handle), functionName);
    } catch (error) {
      release();
      throw error;
    }
    this.#awaited = awaitedFrom(functionName);
    pending.add(this);
  }

  /** What is waited for by who waits for any of these: for other ranks, if all are of collective calls. */
  static awaitedOfAny(requests: readonly Request<unknown>[]): AwaitedCall {
    return (requests.find((request) => request.#awaited.turn === 0) ?? requests[0]).#awaited;
  }

  /** Which of these is complete; -1 if none is. */
  static findComplete(requests: readonly Request<unknown>[]): number {
    return requests.findIndex((request) => request.#test());
  }

  /** Whether MPI may still read or write a buffer in the background. */
  static isUsing(buffer: ArrayBuffer): boolean {
    for (const request of pending) {
      if (request.#buffers.some((held) => ArrayBuffer.isView(held) && held.buffer === buffer)) return true;
    }
    return false;
  }

  /** Let MPI work on what other ranks may wait for, and tell whether there is such; those that are complete stay pending. */
  static isAnySending(): boolean {
    const flag = new Int32Array(1);
    const sends = [...pending].filter((request) => !request.#isReceive);
    return sends.some((request) => {
      const code = startMpi().symbols.MPI_Test(request.#handle, flag, request.#status);
      return code === 0 && flag[0] === 0;
    });
  }

  /** Whether it is complete. */
  get isComplete(): boolean {
    return this.#outcome !== null;
  }

  /** Whether it was ended by `cancel()` before it took place. */
  get isCancelled(): boolean {
    return this.#isCancelled;
  }

  /**
   * Let MPI work on it, without waiting; `true` when it is complete. A script that asks ten times, for a second, waits as one
   * that awaits does: others are told, and a job ends that waits in a collective call for a rank that has ended; a message may be
   * awaited beside other work. Source: MPI_Test.
   */
  test(): boolean {
    const isComplete = this.#test();
    if (!isComplete) this.#asking.again();
    return isComplete;
  }

  #test(): boolean {
    if (this.#outcome) return true;
    const flag = new Int32Array(1);
    const code = startMpi().symbols.MPI_Test(this.#handle, flag, this.#status);
    if (code !== 0 || flag[0] !== 0) this.#complete(code);
    return this.isComplete;
  }

  /**
   * Wait until it is complete, blocking the event loop. Source: MPI_Wait.
   *
   * @throws {MpiError} if it failed.
   */
  wait(): T {
    if (!this.#outcome) {
      const { symbols } = startMpi();
      this.#complete(waitingFor(this.#awaited, () => symbols.MPI_Wait(this.#handle, this.#status)));
    }
    const outcome = this.#outcome!;
    if ("error" in outcome) throw outcome.error;
    return outcome.value;
  }

  /**
   * Ask MPI to give it up, which it does for a receive that no message has reached yet; await the request afterwards. A
   * second call does nothing. Source: MPI_Cancel.
   *
   * @throws {StateError} for a collective call, which MPI does not give up.
   */
  cancel(): void {
    // Open MPI 4.1 crashes at the second one.
    if (this.#outcome || this.#isToBeCancelled) return;
    if (!MESSAGES.has(this.#functionName)) {
      throw new StateError(
        `cancel: ${this.#functionName} is a collective call, which cannot be given up. Cancel what isend, ireceive and ` +
          "prepared messages return.",
      );
    }
    this.#isToBeCancelled = true;
    checkMpi(startMpi().symbols.MPI_Cancel(this.#handle), "MPI_Cancel");
  }

  /** Wait without blocking the event loop. */
  then<A = T, B = never>(
    fulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#promise ??= this.#poll();
    return this.#promise.then(fulfilled, rejected);
  }

  async #poll(): Promise<T> {
    for (let tries = 0; !this.test(); tries++) await pause(tries);
    return this.wait();
  }

  #complete(code: number): void {
    pending.delete(this);
    this.#asking.end();
    this.#buffers = [];
    try {
      if (code !== 0) throw mpiError(this.#functionName, code);
      if (this.#isToBeCancelled) this.#isCancelled = this.#testCancelled();
      this.#outcome = { value: this.#finish(this.#status, this.#isCancelled) };
    } catch (error) {
      this.#outcome = { error };
    } finally {
      this.#release();
    }
  }

  #testCancelled(): boolean {
    const flag = new Int32Array(1);
    checkMpi(startMpi().symbols.MPI_Test_cancelled(this.#status, flag), "MPI_Test_cancelled");
    return flag[0] !== 0;
  }

  /** The number of buffers that the request holds; 0 once it is complete. */
  get heldBuffers(): number {
    return this.#buffers.length;
  }
}

function checkRequests(name: string, requests: unknown): void {
  if (Array.isArray(requests) && requests.every((request) => request instanceof Request)) return;
  throw new TypeError(
    `${name} takes a list of requests, such as isend() returns, not ${
      describe(requests)
    }. Of prepared messages pass what ` +
      `startAll() returns.`,
  );
}

/**
 * Wait until all are complete, blocking the event loop; returns their values, in the order of the requests. `await
 * Promise.all(requests)` leaves the event loop free.
 *
 * @throws {TypeError} if it is given something else.
 * @throws {MpiError} if one failed; the others are complete then, too.
 *
 * @example
 * ```ts
 * import { Communicator, waitAll } from "@distmath/distmath";
 *
 * const world = Communicator.world();
 * const [left, right] = [(world.rank + world.size - 1) % world.size, (world.rank + 1) % world.size];
 * const received = new Float64Array(3);
 * const [status] = waitAll([world.ireceive(received, left), world.isend(Float64Array.of(1, 2, 3), right)]);
 * console.log(status.source, received);
 * ```
 */
export function waitAll<R extends readonly Request<unknown>[] | []>(
  requests: R,
): { -readonly [I in keyof R]: Awaited<R[I]> } {
  checkRequests("waitAll", requests);
  const outcomes = requests.map((request) => {
    try {
      return { value: request.wait() };
    } catch (error) {
      return { error };
    }
  });
  return outcomes.map((outcome) => {
    if ("error" in outcome) throw outcome.error;
    return outcome.value;
  }) as ReturnType<typeof waitAll<R>>;
}

/**
 * Wait until one is complete, blocking the event loop; returns its place in the list and its value. One that is complete
 * stays so: take it out of the list before the next call, unlike with MPI_Waitany. `await Promise.race(requests)` leaves the
 * event loop free.
 *
 * @throws {TypeError} if it is given something else.
 * @throws {RangeError} if there are none.
 * @throws {MpiError} if it failed.
 *
 * @example
 * ```ts
 * import { Communicator, waitAny } from "@distmath/distmath";
 *
 * const world = Communicator.world();
 * const next = (world.rank + 1) % world.size, previous = (world.rank + world.size - 1) % world.size;
 * const requests = [
 *   world.ireceive(new Float64Array(1), previous),
 *   world.isend(Float64Array.of(world.rank), next),
 * ];
 * const [first] = waitAny(requests);
 * console.log(first === 0 ? "received" : "sent");
 * await Promise.all(requests);
 * ```
 */
export function waitAny<R extends Request<unknown>>(requests: readonly R[]): [index: number, value: Awaited<R>] {
  checkRequests("waitAny", requests);
  if (requests.length === 0) throw new RangeError("waitAny needs one request at least.");
  const complete = Request.findComplete(requests);
  const index = complete >= 0
    ? complete
    : waitingFor(Request.awaitedOfAny(requests), () => polling.firstComplete(requests));
  return [index, requests[index].wait() as Awaited<R>];
}

const polling = {
  firstComplete(requests: readonly Request<unknown>[]): number {
    for (;;) {
      const index = Request.findComplete(requests);
      if (index >= 0) return index;
    }
  },
};
// Time limits, and the words on who waits for whom, are those of a wait for one.
noteWaiting(polling, { firstComplete: "MPI_Wait" });

beforeMpiEnds(() => {
  if (pending.size === 0) return;
  console.warn(`distmath: MPI ends while requests are under way (${pending.size}); await them before the script ends.`);
});

leaveAfterSending(() => Request.isAnySending());
