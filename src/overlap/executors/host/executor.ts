/**
 * Stage schedules on CPUs: the ranks of one machine, each with BLAS, and windows in memory that they share.
 *
 * A rank takes its steps in the order of the list. Blocks of a window lie column by column without gaps, and BLAS reads
 * and writes those of other ranks where they are.
 *
 * @module
 */
import type { BlasType, GemmFunction } from "../../../../ffi/blas/blas.ts";
import { BLAS_TYPES } from "../../../../ffi/blas/blas.ts";
import { copyStrided } from "../../../array/layout.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import { scalar } from "../../../blas/arguments.ts";
import { beginningAt, type Extents, GemmCall, inMemory, type MatrixInMemory } from "../../../blas/gemm.ts";
import type { Operation } from "../../../blas/operation.ts";
import { type AccumulatorDType, dtypeInfo, type TypedArray } from "../../../dtype/dtype.ts";
import { type Axis, lengthOf, lineElements, MATRIX_AXES, type MatrixName, type Part } from "../../partition.ts";
import type { Gemm, Place, Reduce, Schedule } from "../../schedule.ts";
import type { Windows } from "./windows.ts";

/** What a schedule multiplies: matrices that lie column by column. */
export interface HostProduct {
  /** The type of all of them. */
  readonly dtype: AccumulatorDType;
  /** What is done to A as it is stored. */
  readonly operationA: Operation;
  /** What is done to B. */
  readonly operationB: Operation;
  /** BLAS, by type. */
  readonly gemm: Readonly<Record<BlasType, GemmFunction>>;
}

/** This rank's parts of the matrices. */
export interface HostOperands {
  /** A. */
  readonly a: LocalArray;
  /** B. */
  readonly b: LocalArray;
  /** D, with what is added to the product. */
  readonly d: LocalArray;
  /** All ranks' parts of the factor that travels, if it lies where this rank addresses them. */
  readonly factors?: readonly LocalArray[];
}

/** A block in memory, for JavaScript. */
interface Block {
  readonly data: TypedArray;
  readonly offset: number;
  readonly strides: readonly number[];
}

/** Bytes of a schedule's window. */
export function windowBytes({ partition, windowLines }: Schedule, dtype: AccumulatorDType): number {
  return windowLines * lineElements(partition) * dtypeInfo(dtype).itemSize;
}

/** One rank's schedule, to be run again and again. */
export class HostExecutor {
  readonly #schedule: Schedule;
  readonly #product: HostProduct;
  readonly #itemSize: number;
  readonly #parts: 1 | 2;
  readonly #calls: ReadonlyMap<Gemm, GemmCall>;
  readonly #zero;
  readonly #one;

  /** Prepare the calls of BLAS. */
  constructor(schedule: Schedule, product: HostProduct) {
    const { dtype, gemm, operationA, operationB } = product;
    this.#schedule = schedule;
    this.#product = product;
    ({ itemSize: this.#itemSize, parts: this.#parts } = dtypeInfo(dtype));
    this.#zero = scalar(dtype, 0);
    this.#one = scalar(dtype, 1);
    this.#calls = new Map(
      schedule.steps.filter((step) => step.kind === "gemm").map((step) => [
        step,
        new GemmCall(gemm[BLAS_TYPES[dtype]], operationA, operationB, this.#extents(step.range)),
      ]),
    );
  }

  /** Multiply: D = alpha op(A) op(B) + beta D, with the addresses of alpha and beta. All ranks do it. */
  run(operands: HostOperands, alpha: bigint, beta: bigint, windows: Windows): void {
    windows.begin();
    for (const step of this.#schedule.steps) {
      switch (step.kind) {
        case "signal":
          windows.signal(step.rank, step.flag);
          break;
        case "wait":
          windows.wait(step.flag);
          break;
        case "gemm":
          this.#multiply(step, operands, alpha, beta, windows);
          break;
        case "copy": {
          const [from, to] = [step.from, step.to].map((place) => this.#block(place, operands, windows));
          copyStrided(from, to, this.#shape(step.from.lines), this.#parts);
          break;
        }
        case "reduce":
          this.#reduce(step, operands, windows);
      }
    }
  }

  #extents(range: Part): Extents {
    const { partition: { extents, axis, fixedAxis, fixedParts }, rank } = this.#schedule;
    return { ...extents, [fixedAxis]: lengthOf(fixedParts[rank]), [axis]: lengthOf(range) };
  }

  #multiply(step: Gemm, operands: HostOperands, alpha: bigint, beta: bigint, windows: Windows): void {
    const { travels, axis } = this.#schedule.partition;
    const { range, factor, to, adds } = step;
    const side = (name: "a" | "b"): MatrixInMemory => {
      if (factor !== null && name === travels) return this.#matrix(factor, operands, windows);
      const matrix = inMemory(operands[name]);
      const dimension = this.#dimensionOf(name, axis);
      return dimension === null ? matrix : beginningAt(matrix, dimension, range.start, this.#itemSize);
    };
    const added = adds === "addend" ? beta : adds === "sum" ? this.#one.address : this.#zero.address;
    const call = this.#calls.get(step)!;
    call.setMatrices(side("a"), side("b"), this.#matrix(to, operands, windows));
    call.run(alpha, added);
  }

  #reduce({ from, to }: Reduce, operands: HostOperands, windows: Windows): void {
    const [rows, columns] = this.#shape(to.lines);
    const target = this.#block(to, operands, windows);
    for (const place of from) {
      add(this.#block(place, operands, windows), target, rows * this.#parts, columns, this.#parts);
    }
  }

  /** Which dimension of a stored matrix an axis is; null if it has it not. */
  #dimensionOf(matrix: MatrixName, axis: Axis): 0 | 1 | null {
    const axes: readonly Axis[] = MATRIX_AXES[matrix];
    const index = axes.indexOf(axis);
    if (index < 0) return null;
    const { operationA, operationB } = this.#product;
    const isTransposed = matrix === "a" ? operationA.transpose : matrix === "b" ? operationB.transpose : false;
    return (isTransposed ? 1 - index : index) as 0 | 1;
  }

  /** The shape of so many lines of the matrix that travels, as it is stored. */
  #shape(lines: number): [rows: number, columns: number] {
    const { partition } = this.#schedule;
    const other = lineElements(partition);
    return this.#dimensionOf(partition.travels, partition.axis) === 0 ? [lines, other] : [other, lines];
  }

  /** The matrix that a place outside of windows is in. */
  #array({ rank, memory }: Place, { a, b, d, factors }: HostOperands): LocalArray {
    if (memory === "result") return d;
    if (rank !== this.#schedule.rank) return factors![rank];
    return this.#schedule.partition.travels === "a" ? a : b;
  }

  /** The dimension along which the lines of a place are counted; null for a result that is a single line. */
  #lineDimension({ memory }: Place): 0 | 1 | null {
    const { travels, axis } = this.#schedule.partition;
    return this.#dimensionOf(memory === "result" ? "d" : travels, axis);
  }

  #byteOf(at: number): number {
    return at * lineElements(this.#schedule.partition) * this.#itemSize;
  }

  /** A place, for BLAS. */
  #matrix(place: Place, operands: HostOperands, windows: Windows): MatrixInMemory {
    if (place.memory === "window") {
      const [rows] = this.#shape(place.lines);
      return { address: windows.address(place.rank, this.#byteOf(place.at)), leadingDimension: Math.max(1, rows) };
    }
    const matrix = inMemory(this.#array(place, operands));
    const dimension = this.#lineDimension(place);
    return dimension === null ? matrix : beginningAt(matrix, dimension, place.at, this.#itemSize);
  }

  /** A place, for JavaScript. */
  #block(place: Place, operands: HostOperands, windows: Windows): Block {
    if (place.memory === "window") {
      const [rows, columns] = this.#shape(place.lines);
      const { buffer, offset } = windows.host(place.rank, this.#byteOf(place.at));
      const length = rows * columns * this.#parts;
      const isDouble = this.#itemSize / this.#parts === 8;
      const data = isDouble ? new Float64Array(buffer, offset, length) : new Float32Array(buffer, offset, length);
      return { data, offset: 0, strides: [1, rows] };
    }
    const { data, offset, strides } = this.#array(place, operands);
    return { data, offset: offset + place.at * strides[this.#lineDimension(place)!], strides };
  }
}

/** Add columns of numbers to others. */
function add(from: Block, to: Block, length: number, columns: number, parts: 1 | 2): void {
  const [source, target] = [from.data, to.data] as (Float32Array | Float64Array)[];
  for (let column = 0; column < columns; column++) {
    let at = (from.offset + column * from.strides[1]) * parts;
    const start = (to.offset + column * to.strides[1]) * parts;
    for (let i = start; i < start + length; i++) target[i] += source[at++];
  }
}
