/**
 * Elements of an array as they are asked for: all of them, the shown ones, single ones.
 *
 * @module
 */
import { Replicated } from "../distribution/mod.ts";
import { type DType, elementCount, type Scalar, type TypedArray } from "../dtype/dtype.ts";
import type { DataOf, ElementOf } from "../dtype/element_types.ts";
import { checkExact } from "../dtype/scalar.ts";
import { ShapeError } from "../errors.ts";
import { describe, keysOf, readOptions } from "../options.ts";
import { agreeOnMethod, BaseArray } from "./base_array.ts";
import { prepareStridedCopy } from "./on_device/copies.ts";
import { checkFormat, formatElements, type FormatOptions, type FullFormat, shownIndices } from "./format.ts";
import { prepareElements } from "./gathered_elements.ts";
import { checkRank, nothing } from "./given_data.ts";
import { stridesOf } from "./layout.ts";
import { exactArray, LocalArray } from "./local_array.ts";
import { onRoot } from "./redistribution/plan.ts";
import { prepareOnce } from "./redistribution/redistributor.ts";
import { valuesOf } from "./difference.ts";

/** Options of {@linkcode DistributedArray.gather}. */
export interface GatherOptions {
  /** The rank that gets the elements; 0 by default. */
  root?: number;
  /** Where they go on that rank; a new typed array by default. */
  into?: TypedArray;
}

const GATHER_KEYS = keysOf<GatherOptions>({ root: true, into: true });

/** The methods of a `DistributedArray` by which scripts get, show and set its elements; none makes an array. */
export abstract class ElementAccess<D extends DType = DType> extends BaseArray<D> {
  /**
   * All elements on one rank, flat in the array's order; `null` on the others. Collective.
   *
   * @param root that rank, as a number or as `{ root, into }`; into `into` on that rank, which saves the time of new memory
   * @throws {RangeError} if there is no such rank.
   * @throws {DTypeError} if `into` is not the kind of typed array that holds the dtype.
   * @throws {ShapeError} if `into` is too short, or the array's own memory.
   * @throws {StateError} after `free`.
   *
   * @example
   * ```ts
   * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
   *
   * using runtime = initialize();
   * const a = DistributedArray.generate(runtime, [6], Slab.X, (i) => i);
   * console.log(a.gather()); // 0, 1, 2, 3, 4, 5 on rank 0, null on the others
   * ```
   */
  gather(root: number | GatherOptions = 0): DataOf<D> | null {
    const { runtime, dtype, shape, order } = this;
    let to!: number;
    let target!: LocalArray;
    let move!: () => void;
    agreeOnMethod(this, "gather", () => {
      const options = typeof root === "object" ? root : { root };
      const given = readOptions<GatherOptions>("the options of gather", options, GATHER_KEYS);
      to = checkRank(given.root === undefined ? 0 : given.root, runtime.size, "root");
      target = runtime.rank === to ? this.#whole("gather", given.into) : nothing(dtype, shape);
      move = prepareOnce(runtime, this.distribution, onRoot(shape, runtime.size, to), this.hostPart(), target, order);
      return { root: to };
    });
    move();
    return runtime.rank === to ? target.data as DataOf<D> : null;
  }

  /**
   * All elements on every rank, flat in the array's order, into `into` if it is given. Collective; throws as
   * {@linkcode gather} does.
   */
  allGather(options: { into?: TypedArray } = {}): DataOf<D> {
    const { runtime, shape, order } = this;
    let target!: LocalArray;
    let move!: () => void;
    agreeOnMethod(this, "allGather", () => {
      const { into } = readOptions("the options of allGather", options, keysOf<typeof options>({ into: true }));
      target = this.#whole("allGather", into);
      move = prepareOnce(
        runtime,
        this.distribution,
        Replicated.bind(shape, runtime.size),
        this.hostPart(),
        target,
        order,
      );
      return {};
    });
    move();
    return target.data as DataOf<D>;
  }

  /**
   * The values as text, as NumPy prints them: of large arrays the edges, which alone travel. On every rank. Collective.
   *
   * @throws {RangeError | TypeError} if an option is no whole number.
   * @throws {StateError} after `free`.
   *
   * @example
   * ```ts
   * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
   *
   * using runtime = initialize();
   * using a = DistributedArray.generate(runtime, [2, 3], Slab.X, (i, j) => i + j / 2);
   * console.assert(a.format() === "[[0.  0.5 1. ]\n [1.  1.5 2. ]]");
   * ```
   */
  format(options: FormatOptions = {}): string {
    return this.#formatted("format", options);
  }

  #formatted(method: string, options: FormatOptions): string {
    const { shape, dtype } = this;
    let full!: FullFormat;
    let collect!: () => Scalar[];
    agreeOnMethod(this, method, () => {
      full = checkFormat(options, method);
      collect = prepareElements(this, shownIndices(shape, full));
      return { ...full };
    });
    return formatElements(dtype, shape, collect(), full);
  }

  /** Print the array and its values, {@linkcode format}, on rank 0. Collective. */
  show(options: FormatOptions = {}): void {
    const text = this.#formatted("show", options);
    if (this.runtime.rank === 0) console.log(`${this}\n${text}`);
  }

  /**
   * The element at an index; negative ones count from the end. It travels to every rank: all ranks call it, with the same
   * index. Elements of one's own are in {@linkcode local} and {@linkcode entries}. Collective.
   *
   * @throws {RangeError} if there is no such element.
   *
   * @example
   * ```ts
   * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
   *
   * using runtime = initialize();
   * using a = DistributedArray.generate(runtime, [5, 3], Slab.X, (i, j) => 10 * i + j);
   * a.set([0, 0], 7);
   * console.log(a.at(0, 0), a.at(-1, 2)); // 7 42
   * ```
   */
  at(...index: number[]): ElementOf<D> {
    let collect!: () => Scalar[];
    agreeOnMethod(this, "at", () => {
      const checked = checkIndex(index, this.shape);
      collect = prepareElements(this, checked.map((i) => [i]));
      return { index: checked };
    });
    return collect()[0] as ElementOf<D>;
  }

  /**
   * Overwrite the element at an index, as {@linkcode at} has it, on the rank that has it. Collective.
   *
   * @throws {RangeError} if there is no such element, or the value lies outside the range of an integer dtype.
   * @throws {DTypeError} if the dtype does not take the value.
   */
  set(index: readonly number[], value: ElementOf<D> | number): void {
    let write = (): void => {};
    agreeOnMethod(this, "set", () => {
      const checked = checkIndex(index, this.shape);
      checkExact(this.dtype, value);
      const one = LocalArray.empty(this.dtype, [1]);
      one.fill(value);
      const sets = this.distribution.indexSets(this.runtime.rank);
      const isOwn = checked.every((i, d) => sets[d].before(i + 1) > sets[d].before(i));
      const place = checked.map((i, d) => sets[d].before(i));
      const target = isOwn ? this.local.slice(place, place.map(() => 1)) : null;
      if (target?.isOnDevice) {
        const there = one.toDevice(target.buffer.stream).reshaped(target.shape, target.strides);
        const move = prepareStridedCopy(there, target);
        write = () => {
          move();
          there.release();
        };
      } else {
        write = () => target?.fill(value);
      }
      return { index: checked, value };
    });
    write();
  }

  /**
   * The elements that this rank holds, in C order, each with its global index. Local; not collective.
   *
   * @throws {StateError} after `free`.
   *
   * @example
   * ```ts
   * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
   *
   * using runtime = initialize();
   * using a = DistributedArray.generate(runtime, [4, 4], Slab.X, (i, j) => i * j);
   * for (const [[i, j], value] of a.entries()) console.assert(value === i * j);
   * ```
   */
  *entries(): Generator<[index: number[], value: ElementOf<D>]> {
    const { local } = this;
    if (local.size === 0) return;
    // Freed in the loop, the array says so.
    const check = () => void this.local;
    const lists = this.distribution.ranges(this.runtime.rank).map((ranges) =>
      ranges.flatMap(([start, end]) => Array.from({ length: end - start }, (_, i) => start + i))
    );
    const next = valuesOf(local, "C");
    const visit = function* (index: number[]): Generator<[number[], ElementOf<D>]> {
      if (index.length === lists.length) {
        check();
        yield [index, next() as ElementOf<D>];
      } else for (const i of lists[index.length]) yield* visit([...index, i]);
    };
    yield* visit([]);
  }

  /** Memory for all elements. */
  #whole(operation: string, into?: TypedArray): LocalArray {
    const { dtype, order, shape } = this;
    if (into === undefined) return exactArray(dtype, shape, order);
    elementCount(dtype, into);
    if (!this.local.isOnDevice && this.local.data.buffer === into.buffer) {
      throw new ShapeError(`${operation}: into is memory of the array itself. Give other memory.`);
    }
    return new LocalArray({ data: into, dtype, shape, strides: stridesOf(shape, order) });
  }
}

/** An index, read once, without what is negative. */
function checkIndex(given: readonly number[], shape: readonly number[]): number[] {
  const index = Array.isArray(given) ? [...given] : [];
  const isInside = (i: unknown, d: number) => Number.isInteger(i) && i as number >= -shape[d] && i as number < shape[d];
  if (Array.isArray(given) && index.length === shape.length && index.every(isInside)) {
    return index.map((i, d) => i < 0 ? i + shape[d] : i);
  }
  const kind = Array.isArray(given) ? RangeError : TypeError;
  throw new kind(
    `An index of an array of shape [${shape}] is a list of ${shape.length} whole numbers inside of it, not ` +
      `${describe(given)}.`,
  );
}
