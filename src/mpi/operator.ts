/**
 * How the entries of ranks are combined: MPI's own operations, and operations of the script's.
 *
 * @module
 */
import { checkMpi, type Handle, type ReduceOperation } from "../../ffi/mpi/mod.ts";
import { ConfigurationError, DTypeError, StateError } from "../errors.ts";
import { checkBoolean, describe, readOptions } from "../options.ts";
import { arrayClass, checkOperation, type Element, type NumericArray } from "./elements.ts";
import { startMpi } from "./init_finalize.ts";
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

/**
 * A reduction of the script's own, for `op` of `reduce`, `allReduce`, `scan`, `exclusiveScan` and `reduceScatter`. All ranks
 * pass the same. The function must be associative; it makes no call of MPI. What it throws is thrown by the call on the rank
 * where it did so, once MPI is through; the results of other ranks lack what it would have combined, so end the job.
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
   * Make a call of MPI that combines arrays of the class of `like`.
   *
   * @throws what the function threw, once MPI is through.
   */
  during(like: NumericArray, call: () => number, functionName: string): void {
    const running = this.#running = { like, failure: null } as Running;
    try {
      checkMpi(call(), functionName);
    } finally {
      this.#running = null;
    }
    if (running.failure !== null) throw running.failure.error;
  }

  /** Let MPI forget it. Not collective. Source: MPI_Op_free. */
  free(): void {
    if (this.#isFreed) return;
    this.#isFreed = true;
    if (this.#handle !== null) checkMpi(startMpi().symbols.MPI_Op_free(handleCell(this.#handle)), "MPI_Op_free");
    this.#callback?.close();
  }

  /** As `free()`. */
  [Symbol.dispose](): void {
    this.free();
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
    try {
      const { like } = running;
      const blocks = new Deno.UnsafePointerView(length).getInt32();
      const bytes = blocks * this.blockLength * like.BYTES_PER_ELEMENT;
      this.#combine(viewOf(like, incoming, bytes) as T, viewOf(like, accumulated, bytes) as T);
    } catch (error) {
      running.failure = { error };
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

const CLASSES: Readonly<Record<string, new (buffer: ArrayBuffer) => NumericArray>> = {
  Int8Array,
  Uint8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  BigInt64Array,
  BigUint64Array,
  Float16Array,
  Float32Array,
  Float64Array,
};

/** MPI's memory as an array of the class of another one. */
function viewOf(like: NumericArray, pointer: Deno.PointerObject, bytes: number): NumericArray {
  return new CLASSES[arrayClass(like)](Deno.UnsafePointerView.getArrayBuffer(pointer, bytes));
}

/** Of pairs of a value and its place the one with the larger value, or the smaller; of equal ones that of the first place. */
function located(isBetter: (a: number | bigint, b: number | bigint) => boolean): ReductionOperator {
  const combine = (incoming: NumericArray, accumulated: NumericArray) => {
    for (let i = 0; i < accumulated.length; i += 2) {
      const [value, best] = [incoming[i], accumulated[i]];
      if (!isBetter(value, best) && !(value === best && incoming[i + 1] < accumulated[i + 1])) continue;
      accumulated[i] = value;
      accumulated[i + 1] = incoming[i + 1];
    }
  };
  return new ReductionOperator(combine, { commutes: true, blockLength: 2 });
}

const LOCATORS = { maxloc: located((a, b) => a > b), minloc: located((a, b) => a < b) } as const;

/** Whether entries are to be combined in float32, by one of MPI's own operations: they have no such of their own. */
export function isWidened(element: Element, op: unknown): op is ReduceOperation {
  return element.reduces === "in float32" && !(op instanceof ReductionOperator) && locatorOf(op) === null;
}

function locatorOf(op: unknown): ReductionOperator | null {
  return typeof op === "string" && Object.hasOwn(LOCATORS, op) ? LOCATORS[op as keyof typeof LOCATORS] : null;
}

/** A call of MPI, given what is combined as a whole, how many of it `length` entries are, and the operation. */
type Combining = (type: Handle, unit: number, operation: Handle) => number;

/**
 * Combine `length` entries by an operation, which must have a meaning for them; `like` is an array of them.
 *
 * @throws {DTypeError | TypeError | RangeError} if it has none.
 */
export function combine<T extends NumericArray>(
  method: string,
  functionName: string,
  element: Element,
  op: OperationWord | ReductionOperator<T>,
  like: T,
  length: number,
  call: Combining,
): void {
  const { constants: { types, operations }, symbols } = startMpi();
  const locator = locatorOf(op);
  const own: ReductionOperator<T> | null = op instanceof ReductionOperator ? op : locator;
  const entry = types[element.type];
  if (own === null) {
    if (op !== "sum" || element.reduces !== "natively") checkOperation(method, element, op, length);
    return checkMpi(call(entry, 1, operations[op]), functionName);
  }
  const { blockLength, handle } = own;
  if (locator !== null && element.reduces !== "natively" && element.name !== "float16") {
    throw new DTypeError(
      `${method}: op ${JSON.stringify(op)} compares numbers; ${element.name} are bits or pairs here.`,
    );
  }
  if (element.reduces === "as pairs" && blockLength % 2 !== 0) {
    throw new RangeError(
      `${method}: ${element.name} has two entries a number: the operator needs an even blockLength.`,
    );
  }
  if (length % blockLength !== 0) {
    throw new RangeError(`${method}: the operator combines ${blockLength} entries at a time, and there are ${length}.`);
  }
  const out = handleCell();
  checkMpi(symbols.MPI_Type_contiguous(blockLength, entry, out), "MPI_Type_contiguous");
  try {
    checkMpi(symbols.MPI_Type_commit(out), "MPI_Type_commit");
    own.during(like, () => call(out[0], blockLength, handle), functionName);
  } finally {
    checkMpi(symbols.MPI_Type_free(out), "MPI_Type_free");
  }
}
