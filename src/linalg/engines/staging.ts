/**
 * Bringing matrices into the form in which they are multiplied: where an algorithm wants them, in the type in which
 * products are summed, conjugated if BLAS cannot do it. What is there already is used as it is.
 *
 * @module
 */
import { decode, type DType, dtypeInfo, encode, type TypedArray } from "../../array/dtype.ts";
import { copyStrided } from "../../array/layout.ts";
import { LocalArray } from "../../array/local_array.ts";
import { planRedistribution, type RedistributionPlan } from "../../array/redistribution_plan.ts";
import type { Distribution } from "../../distribution/mod.ts";
import type { Communicator } from "../../runtime/communicator.ts";
import type { AccumulatorDType, Matrix } from "../problem.ts";
import { isWindow } from "./division.ts";

/** Something that is done to a local matrix; the result is a buffer of the step, or a view of what it was given. */
interface Step {
  /** Do it. */
  apply(local: LocalArray): LocalArray;
  /** Bytes of its buffers. */
  readonly byteLength: number;
  /** For the report, or null if nothing is copied. */
  readonly description: string | null;
}

/** A buffer that grows when it has to. */
export class DenseCopy {
  #buffer: LocalArray | null = null;

  /** Bytes that it holds. */
  get byteLength(): number {
    return this.#buffer?.byteLength ?? 0;
  }

  /** The elements of a matrix, column by column without gaps: its own memory if they lie so, else a copy. */
  of(local: LocalArray): TypedArray {
    if (local.isDense("F")) return local.view();
    if (this.#buffer?.dtype !== local.dtype || this.#buffer.shape.join() !== local.shape.join()) {
      this.#buffer = LocalArray.zeros(local.dtype, local.shape, "F");
    }
    copyStrided(local, this.#buffer, local.shape, dtypeInfo(local.dtype).parts);
    return this.#buffer.data;
  }
}

/** Move a matrix to another distribution. */
class Move implements Step {
  readonly description: string;
  readonly #plan: RedistributionPlan;
  readonly #communicator: Communicator;
  readonly #target: LocalArray;

  constructor(communicator: Communicator, from: Distribution, to: Distribution, dtype: DType, description: string) {
    this.#plan = planRedistribution(from, to, communicator.rank);
    this.#communicator = communicator;
    this.#target = LocalArray.zeros(dtype, to.localShape(communicator.rank), "F");
    this.description = description;
  }

  get byteLength(): number {
    return this.#target.byteLength + this.#plan.workspaceBytes;
  }

  apply(local: LocalArray): LocalArray {
    this.#plan.execute(this.#communicator, local, this.#target, "F");
    return this.#target;
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

  apply(local: LocalArray): LocalArray {
    return local.slice(this.#start, this.#shape);
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

  apply(local: LocalArray): LocalArray {
    decode(local.dtype, this.#dense.of(local), this.#target.data as Float32Array<ArrayBuffer>);
    return this.#target;
  }
}

/** Conjugate a copy. */
class Conjugate implements Step {
  readonly #target: LocalArray;

  constructor(shape: readonly number[], accumulator: AccumulatorDType, readonly description: string) {
    this.#target = LocalArray.zeros(accumulator, shape, "F");
  }

  get byteLength(): number {
    return this.#target.byteLength;
  }

  apply(local: LocalArray): LocalArray {
    copyStrided(local, this.#target, local.shape, 2);
    const data = this.#target.data as Float32Array | Float64Array;
    for (let i = 1; i < data.length; i += 2) data[i] = -data[i];
    return this.#target;
  }
}

/** Where a matrix is to be brought, and what it is called in reports. */
export interface Destination {
  /** The distribution. */
  readonly distribution: Distribution;
  /** The type. */
  readonly accumulator: AccumulatorDType;
  /** Whether it is conjugated, which real numbers are anyway. */
  readonly conjugate: boolean;
  /** The matrix's name. */
  readonly name: string;
  /** The distribution in words, such as `divided along k`. */
  readonly place: string;
}

/** The steps that bring an operand where it is multiplied; none if it is there. */
export class Staging {
  readonly #steps: readonly Step[];

  /** Plan the steps of this rank. */
  constructor(communicator: Communicator, matrix: Matrix, destination: Destination) {
    const { distribution, accumulator, conjugate, name, place } = destination;
    const shape = distribution.localShape(communicator.rank);
    const steps: Step[] = [];
    if (!matrix.distribution.coincidesWith(distribution)) {
      steps.push(
        isWindow(matrix.distribution, distribution)
          ? new Window(distribution, communicator.rank)
          : new Move(communicator, matrix.distribution, distribution, matrix.dtype, `${name} redistributed: ${place}`),
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

  /** The matrix as it is multiplied. Collective if it is moved. */
  bring(local: LocalArray): LocalArray {
    for (const step of this.#steps) local = step.apply(local);
    return local;
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
  readonly #plan: RedistributionPlan | null;
  readonly #communicator: Communicator;

  /** Plan for a product that is computed in another distribution, or in another type, than D's. */
  constructor(communicator: Communicator, matrix: Matrix, computed: Destination) {
    const { distribution, accumulator, name, place } = computed;
    const [isMoved, isNarrow] = [!matrix.distribution.coincidesWith(distribution), matrix.dtype !== accumulator];
    const buffer = (of: Distribution) => LocalArray.zeros(accumulator, of.localShape(communicator.rank), "F");
    this.#communicator = communicator;
    this.#plan = isMoved ? planRedistribution(distribution, matrix.distribution, communicator.rank) : null;
    this.#wide = isNarrow ? buffer(matrix.distribution) : null;
    this.#product = isMoved ? buffer(distribution) : this.#wide;
    this.copies = [
      ...isMoved ? [`${name} computed ${place}, then redistributed`] : [],
      ...isNarrow ? [`${name} rounded from ${accumulator} to ${matrix.dtype}`] : [],
    ];
  }

  /** Bytes of buffers on this rank. */
  get byteLength(): number {
    const moved = this.#plan ? this.#product!.byteLength + this.#plan.workspaceBytes : 0;
    return moved + (this.#wide?.byteLength ?? 0);
  }

  /** Where the product is computed: D itself, if it can be. */
  product(d: LocalArray): LocalArray {
    return this.#product ?? d;
  }

  /** This rank's part of D, as it is distributed at the end, in the accumulator's type. Collective if D is moved. */
  collect(d: LocalArray): LocalArray {
    const target = this.#wide ?? d;
    if (this.#plan) this.#plan.execute(this.#communicator, this.#product!, target, "F");
    return target;
  }

  /** Round to D's type, times a factor. */
  round(d: LocalArray, scale: number): void {
    if (!this.#wide) return;
    const data = this.#wide.data as Float32Array<ArrayBuffer>;
    if (scale !== 1) { for (let i = 0; i < data.length; i++) data[i] *= scale; }
    if (d.isDense("F")) {
      encode(d.dtype, data, d.view());
    } else {
      copyStrided({ ...this.#wide, data: encode(d.dtype, data) }, d, d.shape);
    }
  }
}
