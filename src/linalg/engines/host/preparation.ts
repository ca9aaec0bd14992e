/**
 * Bringing matrices into the form in which they are multiplied: where an algorithm wants them, in the type in which
 * products are summed, conjugated if BLAS cannot do it. What is there already is used as it is.
 *
 * @module
 */
import { allocate, type DType, dtypeInfo, type TypedArray } from "../../../dtype/dtype.ts";
import { decode, encode } from "../../../dtype/narrow_floats.ts";
import { copyStrided } from "../../../array/layout.ts";
import { LocalArray } from "../../../array/local_array.ts";
import { Redistributor } from "../../../array/redistribution/redistributor.ts";
import type { Distribution } from "../../../distribution/mod.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import type { Matrix } from "../../matmul/problem.ts";
import type { AccumulatorDType } from "../../../dtype/dtype.ts";
import { isWindow } from "../../matrix_division.ts";

/** What becomes of a local matrix: where it will be, and what brings it there. */
export interface Prepared {
  /** A buffer, or a view of what was given. */
  readonly local: LocalArray;
  /** Bring it there. Collective if it is moved. */
  readonly bring: () => void;
}

/** Something that is done to a local matrix. */
interface Step {
  /** Allocate what it needs. */
  prepare(local: LocalArray): Prepared;
  readonly byteLength: number;
  /** For the report, or null if nothing is copied. */
  readonly description: string | null;
}

/** A buffer that grows when it has to. */
export class DenseCopy {
  #buffer: LocalArray | null = null;

  get byteLength(): number {
    return this.#buffer?.byteLength ?? 0;
  }

  /** Have the buffer for a matrix; null if it needs none, since its elements lie column by column without gaps. */
  reserve(local: LocalArray): LocalArray | null {
    if (local.isDense("F")) return null;
    if (this.#buffer?.dtype !== local.dtype || this.#buffer.shape.join() !== local.shape.join()) {
      this.#buffer = LocalArray.zeros(local.dtype, local.shape, "F");
    }
    return this.#buffer;
  }

  /** The elements of a matrix, column by column without gaps: its own memory if they lie so, else a copy. */
  of(local: LocalArray): TypedArray {
    const buffer = this.reserve(local);
    if (buffer === null) return local.view();
    copyStrided(local, buffer, local.shape, dtypeInfo(local.dtype).parts);
    return buffer.data;
  }
}

/** Move a matrix to another distribution. */
class Move implements Step {
  readonly #redistributor: Redistributor;
  readonly #target: LocalArray;

  constructor(runtime: Runtime, from: Distribution, to: Distribution, dtype: DType, readonly description: string) {
    this.#redistributor = new Redistributor(runtime, from, to);
    this.#target = LocalArray.zeros(dtype, to.localShape(runtime.rank), "F");
  }

  get byteLength(): number {
    return this.#target.byteLength + this.#redistributor.byteLength;
  }

  prepare(local: LocalArray): Prepared {
    return { local: this.#target, bring: this.#redistributor.prepare(local, this.#target, "F") };
  }
}

/** Take this rank's part of a replicated matrix, where it lies. */
class Window implements Step {
  readonly description = null;
  readonly byteLength = 0;
  readonly #start: readonly number[];
  readonly #shape: readonly number[];

  constructor(to: Distribution, rank: number) {
    this.#start = to.indexSets(rank).map((set) => set.count === 0 ? 0 : set.at(0));
    this.#shape = to.localShape(rank);
  }

  prepare(local: LocalArray): Prepared {
    return { local: local.slice(this.#start, this.#shape), bring: () => {} };
  }
}

/** Decode a narrow floating point type to float32, which is exact. */
class Widen implements Step {
  readonly #target: LocalArray;
  readonly #dense = new DenseCopy();

  constructor(shape: readonly number[], accumulator: AccumulatorDType, readonly description: string) {
    this.#target = LocalArray.zeros(accumulator, shape, "F");
  }

  get byteLength(): number {
    return this.#target.byteLength + this.#dense.byteLength;
  }

  prepare(local: LocalArray): Prepared {
    this.#dense.reserve(local);
    const target = this.#target.data as Float32Array<ArrayBuffer>;
    return { local: this.#target, bring: () => void decode(local.dtype, this.#dense.of(local), target) };
  }
}

class Conjugate implements Step {
  readonly #target: LocalArray;

  constructor(shape: readonly number[], accumulator: AccumulatorDType, readonly description: string) {
    this.#target = LocalArray.zeros(accumulator, shape, "F");
  }

  get byteLength(): number {
    return this.#target.byteLength;
  }

  prepare(local: LocalArray): Prepared {
    const bring = () => {
      copyStrided(local, this.#target, local.shape, 2);
      const data = this.#target.data as Float32Array | Float64Array;
      for (let i = 1; i < data.length; i += 2) data[i] = -data[i];
    };
    return { local: this.#target, bring };
  }
}

/** Where a matrix is to be brought, and what it is called in reports. */
export interface Destination {
  readonly distribution: Distribution;
  readonly accumulator: AccumulatorDType;
  /** Whether it is conjugated, which real numbers are anyway. */
  readonly conjugate: boolean;
  /** The matrix's name. */
  readonly name: string;
  /** The distribution in words, such as `divided along k`. */
  readonly place: string;
}

const NOTHING_TO_DO = () => {};

/** The steps that bring an operand where it is multiplied; none if it is there. */
export class Preparation {
  readonly #steps: readonly Step[];

  /** Plan the steps of this rank. */
  constructor(runtime: Runtime, matrix: Matrix, destination: Destination) {
    const { distribution, accumulator, conjugate, name, place } = destination;
    const shape = distribution.localShape(runtime.rank);
    const steps: Step[] = [];
    if (!matrix.distribution.coincidesWith(distribution)) {
      steps.push(
        isWindow(matrix.distribution, distribution)
          ? new Window(distribution, runtime.rank)
          : new Move(runtime, matrix.distribution, distribution, matrix.dtype, `${name} redistributed: ${place}`),
      );
    }
    if (matrix.dtype !== accumulator) {
      steps.push(new Widen(shape, accumulator, `${name} widened from ${matrix.dtype} to ${accumulator}`));
    }
    if (conjugate && dtypeInfo(accumulator).isComplex) {
      steps.push(new Conjugate(shape, accumulator, `${name} conjugated`));
    }
    this.#steps = steps;
  }

  /** The matrix as it is multiplied, and what brings it there. */
  prepare(local: LocalArray): Prepared {
    if (this.#steps.length === 0) return { local, bring: NOTHING_TO_DO };
    const brings = this.#steps.map((step) => {
      const prepared = step.prepare(local);
      local = prepared.local;
      return prepared.bring;
    });
    return { local, bring: () => brings.forEach((bring) => bring()) };
  }

  /** What is copied, in words. */
  get copies(): string[] {
    return this.#steps.flatMap(({ description }) => description ?? []);
  }

  /** Bytes of buffers on this rank. */
  get byteLength(): number {
    return this.#steps.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }
}

/** How the product becomes D: moved to D's distribution, and rounded to D's type, if need be. */
export class Delivery {
  /** What is copied, in words. */
  readonly copies: readonly string[];
  readonly #product: LocalArray | null;
  readonly #wide: LocalArray | null;
  /** D rounded, for one that has gaps. */
  #narrow: TypedArray | null = null;
  readonly #redistributor: Redistributor | null;

  /** Plan for a product that is computed in another distribution, or in another type, than D's. */
  constructor(runtime: Runtime, matrix: Matrix, computed: Destination) {
    const { distribution, accumulator, name, place } = computed;
    const [isMoved, isNarrow] = [!matrix.distribution.coincidesWith(distribution), matrix.dtype !== accumulator];
    const buffer = (of: Distribution) => LocalArray.zeros(accumulator, of.localShape(runtime.rank), "F");
    this.#redistributor = isMoved ? new Redistributor(runtime, distribution, matrix.distribution) : null;
    this.#wide = isNarrow ? buffer(matrix.distribution) : null;
    this.#product = isMoved ? buffer(distribution) : this.#wide;
    this.copies = [
      ...isMoved ? [`${name} computed ${place}, then redistributed`] : [],
      ...isNarrow ? [`${name} rounded from ${accumulator} to ${matrix.dtype}`] : [],
    ];
  }

  /** Bytes of buffers on this rank. */
  get byteLength(): number {
    const moved = this.#redistributor ? this.#product!.byteLength + this.#redistributor.byteLength : 0;
    return moved + (this.#wide?.byteLength ?? 0) + (this.#narrow?.byteLength ?? 0);
  }

  /** Where the product is computed: D itself, if it can be. */
  product(d: LocalArray): LocalArray {
    return this.#product ?? d;
  }

  /**
   * This rank's part of D, as it is distributed at the end, in the accumulator's type, and what brings the product there:
   * collective if D is moved.
   */
  prepare(d: LocalArray): Prepared {
    const local = this.#wide ?? d;
    if (this.#wide && !d.isDense("F") && this.#narrow?.length !== d.size) this.#narrow = allocate(d.dtype, d.size);
    return { local, bring: this.#redistributor?.prepare(this.#product!, local, "F") ?? NOTHING_TO_DO };
  }

  /** Round to D's type, times a factor. */
  round(d: LocalArray, scale: number): void {
    if (!this.#wide) return;
    const data = this.#wide.data as Float32Array<ArrayBuffer>;
    if (scale !== 1) { for (let i = 0; i < data.length; i++) data[i] *= scale; }
    if (d.isDense("F")) {
      encode(d.dtype, data, d.view());
    } else {
      copyStrided({ ...this.#wide, data: encode(d.dtype, data, this.#narrow!) }, d, d.shape);
    }
  }
}
