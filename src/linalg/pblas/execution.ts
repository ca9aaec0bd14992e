/**
 * How a checked PBLAS routine runs: its matrices are brought where an engine takes them, and the result where it is wanted.
 *
 * @module
 */
import { DistributedArray } from "../../array/distributed_array.ts";
import type { Order } from "../../array/layout.ts";
import { LocalArray } from "../../array/local_array.ts";
import { prepareOnce } from "../../array/redistribution/redistributor.ts";
import { type Distribution, type Range, Slab } from "../../distribution/mod.ts";
import type { AccumulatorDType, Scalar } from "../../dtype/dtype.ts";
import { isZero } from "../../blas/arguments.ts";
import { agree } from "../../runtime/agreement.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { pblasEngineOf } from "../engines/choice.ts";
import { isInPlace } from "../matrix_division.ts";
import {
  canonicalLetters,
  chooseBlocks,
  type CommonBlocks,
  inBlocks,
  isUpdate,
  type PblasMatrix,
  type PblasRoutine,
  type RoutineLetters,
  traitsOf,
} from "./call.ts";
import type { CheckedRoutine } from "./checked_routine.ts";

/** How a matrix is stored. */
interface Layout {
  readonly distribution: Distribution;
  readonly order: Order;
}

/** A matrix, and this rank's part of it where an engine can read it. */
interface Stored extends Layout {
  readonly local: LocalArray;
}

/** Gets the matrices of one call ready, all that one rank can fail at alone, and collects what the ranks then do together. */
class Preparation {
  readonly #runtime: Runtime;
  readonly #dtype: AccumulatorDType;
  readonly #steps: (() => void)[] = [];
  readonly #own = new Set<LocalArray>();

  constructor(runtime: Runtime, dtype: AccumulatorDType) {
    this.#runtime = runtime;
    this.#dtype = dtype;
  }

  /** Add what comes next. */
  then(step: () => void): void {
    this.#steps.push(step);
  }

  /** Do everything, and let go of what was made on the way, save for the result. Collective. */
  run(result: LocalArray): void {
    try {
      for (const step of this.#steps) step();
      this.#own.delete(result);
    } finally {
      for (const local of this.#own) local.release();
    }
  }

  /** A matrix where an engine can read it, and in a memory order if one is wanted. */
  stored(array: DistributedArray, order: Order = array.order): Stored {
    const { distribution, local } = array;
    const near = this.#isReachable(array) ? local : this.#keep(local.toDevice(this.#runtime.stream!, array.order));
    return { distribution, order, local: array.order === order ? near : this.#keep(near.copy(order)) };
  }

  zeros(distribution: Distribution, order: Order): Stored {
    const { rank, stream } = this.#runtime;
    const local = this.#keep(LocalArray.zeros(this.#dtype, distribution.localShape(rank), order, stream));
    return { distribution, order, local };
  }

  /** A matrix in another distribution: as it is if it lies so, unless it must be a copy. */
  moved(from: Stored, distribution: Distribution, isCopied = false): Stored {
    if (!isCopied && isInPlace(from.distribution, distribution)) return { ...from, distribution };
    const { rank, stream } = this.#runtime;
    const local = this.#keep(LocalArray.empty(this.#dtype, distribution.localShape(rank), from.order, stream));
    const to = { distribution, order: from.order, local };
    this.#move(from, to);
    return to;
  }

  #move(from: Stored, to: Stored): void {
    this.then(
      isInPlace(from.distribution, to.distribution)
        ? () => to.local.set(from.local)
        : prepareOnce(this.#runtime, from.distribution, to.distribution, from.local, to.local, from.order),
    );
  }

  /** Bring elements to an array of the user's. */
  write(from: Stored, array: DistributedArray): void {
    if (this.#isReachable(array)) return this.#move(from, array);
    const { local } = this.moved(from, array.distribution);
    this.then(() => agree(this.#runtime, "DistributedArray.to", () => array.local.set(local)));
  }

  #keep(local: LocalArray): LocalArray {
    this.#own.add(local);
    return local;
  }

  /** Whether an engine can read an array: a GPU cannot read the memory of the host. */
  #isReachable({ memory }: DistributedArray): boolean {
    return this.#runtime.stream === null || memory !== "host";
  }
}

/** A distribution seen column-major; the same function leads back. */
function columnMajor(distribution: Distribution, order: Order): Distribution {
  return order === "F" ? distribution : distribution.transpose();
}

/** The distribution that a stored matrix must have for an engine to find it in these blocks. */
function storedInBlocks(blocks: CommonBlocks, { distribution, order }: Layout): Distribution {
  return columnMajor(inBlocks(blocks, columnMajor(distribution, order)), order);
}

function asMatrix({ distribution, order, local }: Stored): PblasMatrix {
  return { distribution: columnMajor(distribution, order), local: order === "F" ? local : local.transpose() };
}

/** What a routine is brought to. */
export interface RoutinePlan {
  /** The letters, for the column-major matrices. */
  readonly letters: RoutineLetters;
  /** The grid and the block size. */
  readonly blocks: CommonBlocks;
  /** The factors, as they are stored before they move, and in which distributions they take part. */
  readonly a: Placed;
  readonly b: Placed | null;
  /** What the result starts from, or where it is wanted; and where it is computed. */
  readonly result: Placed;
}

interface Placed extends Layout {
  readonly there: Distribution;
}

/**
 * Whether nothing is added to beta C. The libraries return at once then if beta is 1; but the imaginary parts of a Hermitian
 * diagonal are to become zero, so that a column of zeros is multiplied.
 */
function addsNothing(routine: PblasRoutine, { a, alpha }: CheckedRoutine): boolean {
  return a.shape.includes(0) || isUpdate(routine) && traitsOf(routine).symmetricTwin !== null && isZero(alpha);
}

/** How a routine runs. Local, and the same on all ranks. */
export function planRoutine(runtime: Runtime, routine: PblasRoutine, checked: CheckedRoutine): RoutinePlan {
  const { start, order, distribution } = checked;
  const lettersFor = (orderOfA: Order) => canonicalLetters(routine, checked.letters, { a: orderOfA, result: order });
  const usual = lettersFor(checked.a.order);
  const letters = usual ?? lettersFor(order)!;
  const orderOfA = usual ? checked.a.order : order;
  const zeros = addsNothing(routine, checked) ? shapeOfZeros(checked, runtime.size) : null;
  const factor = (array: DistributedArray, order: Order) => ({ distribution: zeros ?? array.distribution, order });
  const a = factor(checked.a, orderOfA);
  // The factors of an update are transposed together; another second factor stands beside the result.
  const b = checked.b && factor(checked.b, isUpdate(routine) ? orderOfA : order);
  const result = { distribution: start?.distribution ?? distribution, order };
  const columns = [result, a, ...b ? [b] : []].map(({ distribution, order }) => columnMajor(distribution, order));
  const engine = pblasEngineOf(runtime);
  const blocks = chooseBlocks(columns, (grid) => engine.accepts(runtime, grid, routine, letters));
  const placed = (layout: Layout) => ({ ...layout, there: storedInBlocks(blocks, layout) });
  return { letters, blocks, a: placed(a), b: b && placed(b), result: placed(result) };
}

/**
 * Get ready to run a routine. Local; what it returns is collective. Where every operand is in symmetric memory, a new
 * result is too.
 */
export function prepareRoutine(
  runtime: Runtime,
  routine: PblasRoutine,
  checked: CheckedRoutine,
): () => DistributedArray {
  const { start, inplace, order, shape, alpha, beta } = checked;
  const { letters, blocks, ...places } = planRoutine(runtime, routine, checked);
  const preparation = new Preparation(runtime, checked.a.dtype as AccumulatorDType);
  const isScaledOnly = addsNothing(routine, checked);
  const placed = (array: DistributedArray, { distribution, order, there }: Placed) => {
    const stored = isScaledOnly ? preparation.zeros(distribution, order) : preparation.stored(array, order);
    return asMatrix(preparation.moved(stored, there));
  };
  const first = start && preparation.stored(start);
  const isOwn = inplace || first !== null && first.local !== start!.local;
  const result = first
    ? preparation.moved(first, places.result.there, !isOwn)
    : preparation.zeros(places.result.there, order);
  const a = placed(checked.a, places.a);
  const b = checked.b && placed(checked.b, places.b!);

  const [m, n] = order === "F" ? shape : shape.toReversed();
  const call = {
    routine,
    dtype: checked.a.dtype as AccumulatorDType,
    letters,
    blocks,
    m,
    n,
    k: isScaledOnly ? 1 : checked.k,
    alpha: isScaledOnly ? 1 : scaleFor(routine, order, alpha),
    beta: start === null ? 0 : beta,
    a,
    b,
    result: asMatrix(result),
  };
  preparation.then(() => pblasEngineOf(runtime).run(runtime, call));
  return inplace ? writeBack(preparation, result, start!) : makeResult(runtime, preparation, result, checked);
}

/** What scales the column-major product: her2k's transpose is its conjugate, and so is the scale of its first half. */
function scaleFor(routine: PblasRoutine, order: Order, alpha: Scalar): Scalar {
  const { kind, symmetricTwin } = traitsOf(routine);
  const isConjugated = kind === "rank_2k" && symmetricTwin !== null && order === "C";
  return isConjugated && typeof alpha === "object" ? [alpha[0], -alpha[1]] : alpha;
}

/** The result in the array that it overwrites. */
function writeBack(preparation: Preparation, result: Stored, target: DistributedArray): () => DistributedArray {
  if (result.local !== target.local) preparation.write(result, target);
  return () => {
    preparation.run(target.local);
    return target;
  };
}

/** The result as an array of its own. */
function makeResult(
  runtime: Runtime,
  preparation: Preparation,
  result: Stored,
  { a, b, start, distribution, order }: CheckedRoutine,
): () => DistributedArray {
  const { local } = preparation.moved(result, distribution);
  const isSymmetric = [a, b, start].every((array) => array === null || array.memory === "symmetric");
  return () => {
    preparation.run(local);
    const made = DistributedArray.wrap(runtime, local, distribution, order);
    if (!isSymmetric) return made;
    using usual = made;
    return usual.to({ memory: "symmetric" });
  };
}

/** In place of an A without columns, whose update adds nothing: a column of zeros. */
function shapeOfZeros({ a, letters }: CheckedRoutine, size: number): Distribution {
  const extents = letters.trans === "none" ? [a.shape[0], 1] : [1, a.shape[1]];
  return Slab.X.bind(extents, size);
}

/** Get ready for a result without elements: C itself, or zeros. Local; what it returns is collective. */
export function prepareEmptyResult(runtime: Runtime, checked: CheckedRoutine): () => DistributedArray {
  if (checked.inplace) return () => checked.start!;
  const preparation = new Preparation(runtime, checked.a.dtype as AccumulatorDType);
  return makeResult(runtime, preparation, preparation.zeros(checked.distribution, checked.order), checked);
}

/**
 * Get ready to run tradd where the library takes square matrices only: the square at the top left by tradd, and what a
 * lower trapezoid has below it, or an upper one on its right, by geadd. Local; what it returns is collective.
 */
export function prepareTraddInParts(runtime: Runtime, checked: CheckedRoutine): () => DistributedArray {
  const { a, start, inplace, distribution, letters: { uplo, trans }, shape: [rows, columns] } = checked;
  const preparation = new Preparation(runtime, a.dtype as AccumulatorDType);
  const from = inplace
    ? start!
    : start === null
    ? preparation.zeros(distribution, checked.order)
    : preparation.moved(preparation.stored(start), distribution, true);
  const target = inplace ? start! : DistributedArray.wrap(runtime, from.local, distribution, from.order);
  const square = Math.min(rows, columns);
  const parts: [PblasRoutine, Range, Range][] = [["tradd", [0, square], [0, square]]];
  if (uplo === "lower" && rows > square) parts.push(["geadd", [square, rows], [0, columns]]);
  if (uplo === "upper" && columns > square) parts.push(["geadd", [0, rows], [square, columns]]);
  for (const [routine, r, c] of parts) {
    const part = partOf(target, [r, c]);
    const step = prepareRoutine(runtime, routine, {
      ...checked,
      a: partOf(a, trans === "none" ? [r, c] : [c, r]),
      start: part,
      shape: [r[1] - r[0], c[1] - c[0]],
      distribution: part.distribution,
      beta: start === null ? 0 : checked.beta,
      inplace: true,
    });
    preparation.then(() => void step());
  }
  if (!inplace) return makeResult(runtime, preparation, from, checked);
  return () => {
    preparation.run(target.local);
    return target;
  };
}

/** The same elements as `slice` has, without an agreement. */
function partOf(array: DistributedArray, ranges: readonly Range[]): DistributedArray {
  const own = array.distribution.localRanges(array.runtime.rank, ranges);
  const local = array.local.slice(own.map(([start]) => start), own.map(([start, end]) => end - start));
  return DistributedArray.share(array, local, array.distribution.slice(ranges), array.order);
}
