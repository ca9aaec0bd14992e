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
import { GemmCall, inMemory, type MatrixInMemory } from "../../../blas/gemm.ts";
import type { Operation } from "../../../blas/transposition.ts";
import { recorder } from "../../../runtime/recorder.ts";
import { type AccumulatorDType, dtypeInfo, type TypedArray } from "../../../dtype/dtype.ts";
import { lineElements } from "../../partition.ts";
import { type Gemm, type MemoryLines, type Reduce, type Schedule, type ScheduleStep, spanOf } from "../../schedule.ts";
import type { Span } from "../../../runtime/timeline.ts";
import { Places } from "../places.ts";
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
  /** Told when each step began and ended, in milliseconds; null if nobody asks. */
  note: ((span: Span, start: number, end: number) => void) | null = null;
  readonly #schedule: Schedule;
  readonly #places: Places;
  readonly #itemSize: number;
  readonly #parts: 1 | 2;
  readonly #calls: ReadonlyMap<Gemm, GemmCall>;
  readonly #zero;
  readonly #one;

  /** Prepare the calls of BLAS. */
  constructor(schedule: Schedule, product: HostProduct) {
    const { dtype, gemm, operationA, operationB } = product;
    this.#schedule = schedule;
    this.#places = new Places(schedule, product);
    ({ itemSize: this.#itemSize, parts: this.#parts } = dtypeInfo(dtype));
    this.#zero = scalar(dtype, 0);
    this.#one = scalar(dtype, 1);
    this.#calls = new Map(
      schedule.steps.filter((step) => step.kind === "gemm").map((step) => [
        step,
        new GemmCall(gemm[BLAS_TYPES[dtype]], operationA, operationB, this.#places.extents(step.range)),
      ]),
    );
  }

  /** Multiply: D = alpha op(A) op(B) + beta D, with the addresses of alpha and beta. All ranks do it. */
  run(operands: HostOperands, alpha: bigint, beta: bigint, windows: Windows): void {
    windows.begin();
    for (const step of this.#schedule.steps) {
      const span = this.note && spanOf(step);
      const start = span ? performance.now() : 0;
      // BLAS and waits are recorded where they are called.
      const isOwn = step.kind === "copy" || step.kind === "reduce";
      const recorded = isOwn ? recorder?.begin(step.kind, spanOf(step)!.label) : null;
      this.#take(step, operands, alpha, beta, windows);
      recorded?.end();
      if (span) this.note!(span, start, performance.now());
    }
  }

  #take(step: ScheduleStep, operands: HostOperands, alpha: bigint, beta: bigint, windows: Windows): void {
    switch (step.kind) {
      case "signal":
        return windows.signal(step.rank, step.flag);
      case "wait":
        return windows.wait(step.flag);
      case "gemm":
        return this.#multiply(step, operands, alpha, beta, windows);
      case "copy": {
        const [from, to] = [step.from, step.to].map((place) => this.#block(place, operands, windows));
        return copyStrided(from, to, this.#places.shape(step.from.lines), this.#parts);
      }
      case "reduce":
        return this.#reduce(step, operands, windows);
    }
  }

  #multiply(step: Gemm, operands: HostOperands, alpha: bigint, beta: bigint, windows: Windows): void {
    const { travels } = this.#schedule.partition;
    const { factor, to, adds } = step;
    const matrices = {
      a: inMemory(operands.a),
      b: inMemory(operands.b),
      d: inMemory(operands.d),
      ...operands.factors && { factors: operands.factors.map(inMemory) },
    };
    const at = (place: MemoryLines) =>
      this.#places.matrixAt(
        place,
        matrices,
        this.#itemSize,
        (rank, element) => windows.address(rank, element * this.#itemSize),
      );
    const side = (name: "a" | "b"): MatrixInMemory =>
      factor !== null && name === travels
        ? at(factor)
        : this.#places.ownSide(step, name, matrices[name], this.#itemSize);
    const added = adds === "addend" ? beta : adds === "sum" ? this.#one.address : this.#zero.address;
    const call = this.#calls.get(step)!;
    call.setMatrices(side("a"), side("b"), at(to));
    call.run(alpha, added);
  }

  #reduce({ from, to }: Reduce, operands: HostOperands, windows: Windows): void {
    const [rows, columns] = this.#places.shape(to.lines);
    const target = this.#block(to, operands, windows);
    for (const place of from) {
      add(this.#block(place, operands, windows), target, rows * this.#parts, columns, this.#parts);
    }
  }

  /** The matrix that a place outside of windows is in. */
  #array({ rank, memory }: MemoryLines, { a, b, d, factors }: HostOperands): LocalArray {
    if (memory === "result") return d;
    if (rank !== this.#schedule.rank) return factors![rank];
    return this.#schedule.partition.travels === "a" ? a : b;
  }

  /** A place, for JavaScript. */
  #block(place: MemoryLines, operands: HostOperands, windows: Windows): Block {
    if (place.memory === "window") {
      const [rows, columns] = this.#places.shape(place.lines);
      const { buffer, offset } = windows.host(place.rank, this.#places.elementsBefore(place.at) * this.#itemSize);
      const length = rows * columns * this.#parts;
      const isDouble = this.#itemSize / this.#parts === 8;
      const data = isDouble ? new Float64Array(buffer, offset, length) : new Float32Array(buffer, offset, length);
      return { data, offset: 0, strides: [1, rows] };
    }
    const { data, offset, strides } = this.#array(place, operands);
    return { data, offset: offset + place.at * strides[this.#places.lineDimension(place)!], strides };
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
