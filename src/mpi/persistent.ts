/**
 * Messages that are prepared once and started again and again.
 *
 * @module
 */
import { checkMpi, mpiError } from "../../ffi/mpi/mod.ts";
import { StateError } from "../errors.ts";
import { describe } from "../options.ts";
import { isMpiFinalized, startMpi } from "./init_finalize.ts";
import { Request } from "./request.ts";
import { handleCell } from "./handle_cell.ts";

/** MPI's handle of a request, in memory. */
type Cell = ReturnType<typeof handleCell>;

/** The requests of prepared messages that were started. */
export type Started<R extends readonly PersistentRequest<unknown>[]> = {
  -readonly [I in keyof R]: R[I] extends PersistentRequest<infer T> ? Request<T> : never;
};

/**
 * A message that `sendInit` or `receiveInit` prepared. `start()` begins it, and returns a {@linkcode Request} that is
 * complete when it has come through; then it can be started again. Free it, or declare it by `using`.
 *
 * @example
 * ```ts
 * import { Communicator } from "@distmath/distmath";
 *
 * const world = Communicator.world();
 * const next = (world.rank + 1) % world.size, previous = (world.rank + world.size - 1) % world.size;
 * const data = new Float64Array(1), received = new Float64Array(1);
 * using sending = world.sendInit(data, next);
 * using receiving = world.receiveInit(received, previous);
 * for (let round = 0; round < 3; round++) {
 *   data[0] = round;
 *   await Promise.all([receiving.start(), sending.start()]);
 * }
 * console.log(received[0]); // 2
 * ```
 */
export class PersistentRequest<T> implements Disposable {
  readonly #buffer: unknown;
  readonly #finish: (status: Int32Array, isCancelled: boolean) => T;
  readonly #checkMemory: (method: string) => void;
  readonly #isReceive: boolean;
  #handle: Cell;
  #current: Request<T> | null = null;
  #isFreed = false;

  /**
   * Made by the methods of `Communicator`; `prepare` returns MPI's code, `finish` makes the value of each round, `checkMemory`
   * refuses to start where there is none any more.
   */
  constructor(
    functionName: string,
    buffer: unknown,
    prepare: (handle: Cell) => number,
    finish: (status: Int32Array, isCancelled: boolean) => T,
    checkMemory: (method: string) => void,
  ) {
    this.#buffer = buffer;
    this.#finish = finish;
    this.#checkMemory = checkMemory;
    this.#isReceive = functionName === "MPI_Recv_init";
    this.#handle = handleCell();
    const code = prepare(this.#handle);
    if (code !== 0) throw mpiError(functionName, code);
  }

  /** Whether it was started and is not complete. */
  get isUnderWay(): boolean {
    return this.#current?.isComplete === false;
  }

  /** Whether `free()` was called. */
  get isFreed(): boolean {
    return this.#isFreed;
  }

  /**
   * Begin. Source: MPI_Start.
   *
   * @throws {StateError} if it is under way, or was freed.
   * @throws {TypeError | RangeError} if its memory was transferred away, or cut off, since it was prepared.
   */
  start(): Request<T> {
    this.#check("start");
    this.#checkMemory("start");
    return this.#begin("MPI_Start", (handle) => startMpi().symbols.MPI_Start(handle));
  }

  /**
   * Let MPI forget it. Source: MPI_Request_free.
   *
   * @throws {StateError} if it is under way.
   */
  free(): void {
    if (this.#isFreed) return;
    this.#check("free");
    this.#release();
  }

  /** As `free()`; one that is under way is freed when it is complete. */
  [Symbol.dispose](): void {
    if (this.#isFreed) return;
    this.#isFreed = true;
    if (!this.isUnderWay) this.#release();
  }

  /** Begin several. */
  static startAll(requests: readonly PersistentRequest<unknown>[]): Request<unknown>[] {
    requests.forEach((request, i) => {
      request.#check("startAll");
      request.#checkMemory("startAll");
      if (requests.indexOf(request) !== i) throw new StateError("startAll: a request is in the list twice.");
    });
    const handles = handleCell() instanceof Int32Array
      ? Int32Array.from(requests, (request) => Number(request.#handle[0]))
      : BigUint64Array.from(requests, (request) => BigInt(request.#handle[0]));
    if (requests.length > 0) checkMpi(startMpi().symbols.MPI_Startall(requests.length, handles), "MPI_Startall");
    return requests.map((request, i) =>
      request.#begin("MPI_Startall", (handle) => {
        handle[0] = handles[i];
        return 0;
      })
    );
  }

  #check(method: string): void {
    if (this.#isFreed) throw new StateError(`${method}: this request was freed. Prepare a new one.`);
    if (this.isUnderWay) {
      throw new StateError(`${method}: this request is under way. Wait for what start() returned first.`);
    }
  }

  #begin(functionName: string, start: (handle: Cell) => number): Request<T> {
    return this.#current = new Request<T>(
      functionName,
      [this.#buffer],
      (handle) => {
        handle[0] = this.#handle[0];
        const code = start(handle as Cell);
        // Open MPI starts a new one in the place of one whose message is still on its way.
        this.#handle[0] = handle[0];
        return code;
      },
      (status, isCancelled) => this.#finish(status, isCancelled),
      () => {
        if (this.#isFreed) this.#release();
      },
      this.#isReceive,
    );
  }

  #release(): void {
    this.#isFreed = true;
    if (isMpiFinalized()) return;
    checkMpi(startMpi().symbols.MPI_Request_free(this.#handle), "MPI_Request_free");
  }
}

/**
 * Start several prepared messages at once; returns a request for each, for `waitAll`. Source: MPI_Startall.
 *
 * @throws {TypeError} if it is given something else.
 * @throws {StateError} if one is under way or was freed.
 * @throws {TypeError | RangeError} also if the memory of one was transferred away, or cut off.
 *
 * @example
 * ```ts
 * import { Communicator, startAll, waitAll } from "@distmath/distmath";
 *
 * const world = Communicator.world();
 * const next = (world.rank + 1) % world.size, previous = (world.rank + world.size - 1) % world.size;
 * const received = new Float64Array(1);
 * using sending = world.sendInit(Float64Array.of(5), next);
 * using receiving = world.receiveInit(received, previous);
 * waitAll(startAll([receiving, sending]));
 * console.log(received[0]); // 5
 * ```
 */
export function startAll<R extends readonly PersistentRequest<unknown>[] | []>(requests: R): Started<R> {
  const given: unknown = requests;
  if (!Array.isArray(given) || !given.every((request) => request instanceof PersistentRequest)) {
    throw new TypeError(`startAll takes a list of what sendInit and receiveInit returned, not ${describe(requests)}.`);
  }
  return PersistentRequest.startAll(requests) as Started<R>;
}
