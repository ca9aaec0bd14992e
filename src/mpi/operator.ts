/**
 * How the entries of ranks are combined: MPI's own operations, and operations of the script's.
 *
 * @module
 */
import { checkMpi, type Handle, type ReduceOperation } from "../../ffi/mpi/mod.ts";
import { joinedPresence } from "../../ffi/mpi/presence.ts";
import { ConfigurationError, DTypeError, StateError } from "../errors.ts";
import { checkBoolean, describe, isObject, readOptions } from "../options.ts";
import { arrayClass, checkOperation, CLASSES, type Element, type NumericArray } from "./elements.ts";
import { isMpiFinalized, startMpi } from "./init_finalize.ts";
import { handleCell } from "./handle_cell.ts";

/** MPI's own operations by name, and those that find the place of an extreme. */
export type OperationWord = ReduceOperation | "maxloc" | "minloc";

/** Options of a {@linkcode ReductionOperator}. */
export interface OperatorOptions {
  /** Whether the order of the ranks does not matter, so that MPI may change it. False when left out. */
  commutes?: boolean;
  /** Entries that belong together, so that the function always gets whole blocks of them. 1 when left out. */
  blockLength?: number;
}

/** What combines entries: `accumulated` becomes what `incoming`, from lower ranks, and itself give. */
export type Combine<T extends NumericArray = NumericArray> = (incoming: T, accumulated: T) => void;

/** MPI's C function: `invec`, `inoutvec`, `len`, `datatype`. */
const CALLBACK = { parameters: ["pointer", "pointer", "pointer", "pointer"], result: "void" } as const;

/** What the call that goes on reduces; MPI calls back on the thread that called it, and only until that call returns. */
interface Running {
  readonly like: NumericArray;
  failure: { readonly error: unknown } | null;
}

/** Have an operator combine arrays of the class of `like`, and tell at the end what its function threw. */
let run: (operator: ReductionOperator, like: NumericArray) => void;
let finish: (operator: ReductionOperator) => Running["failure"];

/**
 * A reduction of the script's own, for `op` of `reduce`, `allReduce`, `scan`, `exclusiveScan` and `reduceScatter`. All ranks
 * pass the same. The function must be associative; it makes no call of MPI, and its arrays are empty once it has returned.
 * What it throws is thrown by the call on the rank where it did so, once MPI is through; the results of other ranks lack
 * what it would have combined, so end the job.
 * Source: MPI_Op_create.
 *
 * @example
 * ```ts
 * import { Communicator, ReductionOperator } from "@distmath/distmath";
 * const world = Communicator.world();
 * // The product of 2 x 2 matrices of all ranks, in the order of the ranks.
 * using product = new ReductionOperator<Float64Array>((a, b) => {
 *   for (let i = 0; i < b.length; i += 4) {
 *     const [e, f, g, h] = b.slice(i, i + 4);
 *     b.set([a[i] * e + a[i + 1] * g, a[i] * f + a[i + 1] * h, a[i + 2] * e + a[i + 3] * g, a[i + 2] * f + a[i + 3] * h], i);
 *   }
 * }, { blockLength: 4 });
 * const power = world.allReduce(Float64Array.of(1, 1, 0, 1), { op: product });
 * console.assert(power[1] === world.size);
 * ```
 */
export class ReductionOperator<T extends NumericArray = NumericArray> implements Disposable {
  /** Entries that belong together. */
  readonly blockLength: number;
  /** Whether the order of the ranks does not matter. */
  readonly commutes: boolean;
  readonly #combine: Combine<T>;
  #callback: Deno.UnsafeCallback<typeof CALLBACK> | null = null;
  #handle: Handle | null = null;
  #running: Running | null = null;
  #isFreed = false;

  /** Only what the constructor made is one: no Proxy, and nothing that merely has the prototype. */
  static [Symbol.hasInstance](value: unknown): boolean {
    return isObject(value) && #combine in value;
  }

  static {
    run = (operator, like) => operator.#running = { like, failure: null };
    finish = (operator) => {
      const { failure } = operator.#running!;
      operator.#running = null;
      if (operator.#isFreed) operator.#release();
      return failure;
    };
  }

  /**
   * Note the function; MPI learns of it when it is used first.
   *
   * @throws {TypeError | RangeError} if it is none, or an option is wrong.
   */
  constructor(combine: Combine<T>, options: OperatorOptions = {}) {
    if (typeof combine !== "function") {
      throw new TypeError(
        `ReductionOperator takes a function (incoming, accumulated) => void, not ${describe(combine)}.`,
      );
    }
    const { commutes = false, blockLength = 1 } = readOptions<OperatorOptions>(
      "the options of ReductionOperator",
      options,
      ["commutes", "blockLength"],
    );
    checkBoolean("commutes", commutes);
    if (!(Number.isInteger(blockLength) && blockLength >= 1 && blockLength <= 2 ** 20)) {
      throw new RangeError(`blockLength must be a whole number from 1 to 2^20, not ${describe(blockLength)}.`);
    }
    this.#combine = combine;
    this.commutes = commutes;
    this.blockLength = blockLength;
  }

  /** Whether `free()` was called. */
  get isFreed(): boolean {
    return this.#isFreed;
  }

  /** MPI's handle. */
  get handle(): Handle {
    if (this.#isFreed) throw new StateError("This ReductionOperator was freed. Make a new one.");
    return this.#handle ??= this.#create();
  }

  /**
   * Let MPI forget it. Not collective. Source: MPI_Op_free.
   *
   * @throws {StateError} in its own function.
   */
  free(): void {
    if (this.#isFreed) return;
    if (this.#running !== null) {
      throw new StateError("free: this ReductionOperator is combining. Free it after the call that it combines for.");
    }
    this[Symbol.dispose]();
  }

  /** As `free()`; one that is combining is freed when it is through. */
  [Symbol.dispose](): void {
    if (this.#isFreed) return;
    this.#isFreed = true;
    if (this.#running === null) this.#release();
  }

  #release(): void {
    const isThere = this.#handle !== null && !isMpiFinalized();
    if (isThere) checkMpi(startMpi().symbols.MPI_Op_free(handleCell(this.#handle!)), "MPI_Op_free");
    this.#callback?.close();
  }

  #create(): Handle {
    this.#callback = makeCallback((incoming, accumulated, length) => this.#call(incoming, accumulated, length));
    const out = handleCell();
    const address = BigInt(Deno.UnsafePointer.value(this.#callback.pointer));
    checkMpi(startMpi().symbols.MPI_Op_create(address, Number(this.commutes), out), "MPI_Op_create");
    return out[0];
  }

  #call(incoming: Deno.PointerValue, accumulated: Deno.PointerValue, length: Deno.PointerValue): void {
    const running = this.#running;
    // After a failure there is nothing left to compute.
    if (running === null || running.failure !== null || !incoming || !accumulated || !length) return;
    let views: NumericArray[] = [];
    try {
      const { like } = running;
      const blocks = new Deno.UnsafePointerView(length).getInt32();
      const bytes = blocks * this.blockLength * like.BYTES_PER_ELEMENT;
      views = [viewOf(like, incoming, bytes), viewOf(like, accumulated, bytes)];
      const combine = () => this.#combine(views[0] as T, views[1] as T);
      const presence = joinedPresence();
      if (presence === null) combine();
      else presence.working(combine);
    } catch (error) {
      running.failure = { error };
    } finally {
      views.forEach(takeBack);
    }
  }
}

/** @throws {ConfigurationError} if a script may not be called back. */
function makeCallback(
  call: (...pointers: [Deno.PointerValue, Deno.PointerValue, Deno.PointerValue, Deno.PointerValue]) => void,
): Deno.UnsafeCallback<typeof CALLBACK> {
  try {
    return new Deno.UnsafeCallback(CALLBACK, call);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotCapable)) throw cause;
    throw new ConfigurationError(
      "A ReductionOperator is called by MPI, which Deno allows only with --allow-ffi for all paths. Run with --allow-ffi.",
      { cause },
    );
  }
}

/** MPI's memory as an array of the class of another one. */
function viewOf(like: NumericArray, pointer: Deno.PointerObject, bytes: number): NumericArray {
  return new CLASSES[arrayClass(like)](Deno.UnsafePointerView.getArrayBuffer(pointer, bytes));
}

/** MPI may give the memory back: a view that the script keeps has none any more. */
function takeBack({ buffer }: NumericArray): void {
  if (buffer instanceof ArrayBuffer && !buffer.detached) buffer.transfer(0);
}

/**
 * Of pairs of a value and its place the one with the larger value, or the smaller; of equal ones that of the first place. NaN
 * comes before all others, so that the order of the ranks does not matter.
 */
function located(isBetter: (a: number | bigint, b: number | bigint) => boolean): ReductionOperator {
  const isNaN = (value: number | bigint) => value !== value;
  const combine = (incoming: NumericArray, accumulated: NumericArray) => {
    for (let i = 0; i < accumulated.length; i += 2) {
      const [value, best] = [incoming[i], accumulated[i]];
      const isAlike = value === best || isNaN(value) && isNaN(best);
      const isFirst = isAlike && incoming[i + 1] < accumulated[i + 1];
      if (!isFirst && (isAlike || isNaN(best) || !isNaN(value) && !isBetter(value, best))) continue;
      accumulated[i] = value;
      accumulated[i + 1] = incoming[i + 1];
    }
  };
  return new ReductionOperator(combine, { commutes: true, blockLength: 2 });
}

let [maxloc, minloc]: (ReductionOperator | undefined)[] = [];

/** The operator that a name stands for, or that was given; `null` for MPI's own operations. */
function ownOperator(op: unknown): ReductionOperator | null {
  if (op === "maxloc") return maxloc ??= located((a, b) => a > b);
  if (op === "minloc") return minloc ??= located((a, b) => a < b);
  return op instanceof ReductionOperator ? op : null;
}

/**
 * The operator by which `length` entries are combined; `null` for MPI's own operations.
 *
 * @throws {DTypeError | TypeError | RangeError} if it has none.
 */
export function checkedOperator(
  method: string,
  element: Element,
  op: unknown,
  length: number,
): ReductionOperator | null {
  return op === "sum" && element.reduces === "natively" ? null : lookedUpOperator(method, element, op, length);
}

function lookedUpOperator(method: string, element: Element, op: unknown, length: number): ReductionOperator | null {
  const own = ownOperator(op);
  if (own === null) {
    checkOperation(method, element, op, length);
    return null;
  }
  if (typeof op === "string" && element.reduces !== "natively" && element.name !== "float16") {
    throw new DTypeError(
      `${method}: op ${JSON.stringify(op)} compares numbers; ${element.name} are bits or pairs here.`,
    );
  }
  if (element.parts === 2 && own.blockLength % 2 !== 0) {
    throw new RangeError(
      `${method}: ${element.name} has two entries a number: the operator needs an even blockLength.`,
    );
  }
  return own;
}

/** Whether MPI's own operation, which a checked `op` is then, combines the entries in another form (`widen`). */
export function isWidened(element: Element, own: ReductionOperator | null, op: unknown): op is ReduceOperation {
  if (own !== null || typeof op !== "string") return false;
  return element.reduces === "in float32" || (op === "max" || op === "min") && isComparedAsSigned(element);
}

/** These compare unsigned integers as signed ones. */
const COMPARES_AS_SIGNED = /^MPICH Version: 4\.0(\.[0-2])?$/;

function isComparedAsSigned({ type, reduces }: Element): boolean {
  return reduces === "natively" && type.startsWith("uint") && COMPARES_AS_SIGNED.test(startMpi().version);
}

/** The number of what is combined as a whole in `length` entries. */
export function blocksIn(method: string, length: number, own: ReductionOperator | null): number {
  return own === null ? length : wholeBlocks(method, length, own.blockLength);
}

function wholeBlocks(method: string, length: number, blockLength: number): number {
  if (length % blockLength === 0) return length / blockLength;
  throw new RangeError(
    `${method}: the operator combines ${blockLength} entries at a time, and there are ${length} for a rank.`,
  );
}

/** Begin to combine arrays like this one: the type of what is combined as a whole. */
export function beginCombining(element: Element, own: ReductionOperator | null, like: NumericArray): Handle {
  const entry = startMpi().constants.types[element.type];
  return own === null ? entry : beginOwn(entry, own, like);
}

function beginOwn(entry: Handle, own: ReductionOperator, like: NumericArray): Handle {
  const { symbols } = startMpi();
  const out = handleCell();
  checkMpi(symbols.MPI_Type_contiguous(own.blockLength, entry, out), "MPI_Type_contiguous");
  checkMpi(symbols.MPI_Type_commit(out), "MPI_Type_commit");
  run(own, like);
  return out[0];
}

/** What MPI is told to combine by. */
export function operationOf(op: unknown, own: ReductionOperator | null): Handle {
  return own === null ? startMpi().constants.operations[op as ReduceOperation] : own.handle;
}

/** See what came of it: what MPI's function returned, and what the script's may have thrown. */
export function endCombining(own: ReductionOperator | null, type: Handle, code: number, functionName: string): void {
  if (own !== null) endOwn(own, type, code, functionName);
  else checkMpi(code, functionName);
}

function endOwn(own: ReductionOperator, type: Handle, code: number, functionName: string): void {
  const failure = finish(own);
  checkMpi(startMpi().symbols.MPI_Type_free(handleCell(type)), "MPI_Type_free");
  checkMpi(code, functionName);
  if (failure !== null) throw failure.error;
}
