/**
 * How a checked product becomes D, on this rank: its plan, what executions pass to it, and one execution.
 *
 * @module
 */
import { DistributedArray } from "../../array/distributed_array.ts";
import { LocalArray } from "../../array/local_array.ts";
import { largestOfAll } from "../../array/extremes.ts";
import { allocateSymmetricMemory, SymmetricArray } from "../../array/symmetric_array.ts";
import type { Stream } from "../../gpu/stream.ts";
import { agree } from "../../runtime/agreement.ts";
import type { CollectiveStep, OperationPlan } from "../../runtime/operation.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { planProduct, requestOf } from "../engines/choice.ts";
import type { AlgorithmReport, EnginePlan, EngineValues, MatmulEngine } from "../engines/engine.ts";
import { areSymmetric, type CheckedOperands, type CheckedProduct, type CheckedScalars } from "./checked_product.ts";
import { type Epilog, type EpilogValues, isTrivial, requiredInputs } from "./epilog.ts";
import type { PlanOptions } from "./options.ts";
import type { LocalOperands } from "./problem.ts";
import type { QuantizationValues } from "./quantization.ts";

/** What an execution produced besides D: this rank's parts. */
export interface Auxiliary {
  /** Of `relu_aux*`: the bit mask of positive elements, uint8, column-major, 8 rows a byte, padded to 16 bytes. */
  readonly reluAux?: LocalArray;
  /** Of `gelu_aux*`: what gelu was given, column-major, rows padded to 8. */
  readonly geluAux?: LocalArray;
  /** The largest absolute value in all ranks' `geluAux`, before scaling. */
  readonly geluAuxAmax?: number;
  /** Of `drelu_bgrad`: the sums of the rows of D, one a local row. */
  readonly dreluBgrad?: LocalArray;
  /** Of `dgelu_bgrad`: the sums of the rows of D, one a local row. */
  readonly dgeluBgrad?: LocalArray;
  /** Of `bgrada`: the sums of the rows of op(A), one a local row of D. */
  readonly bgrada?: LocalArray;
  /** Of `bgradb`: the sums of the columns of op(B), one a global column of D. */
  readonly bgradb?: LocalArray;
  /** With `resultAmax`: the largest absolute value of D on all ranks, before it is scaled and rounded. */
  readonly resultAmax?: number;
}

/** No outputs but D. */
export const NOTHING: Auxiliary = Object.freeze({});

/**
 * A planned product and what follows it. A class, since V8 makes a hidden class for each object whose literal has a getter,
 * and keeps with it what the getter sees.
 */
export class MatmulPlan implements OperationPlan {
  readonly #notes: readonly string[];

  /** Of the engine's part, and what follows the product; `notes` are on the options. */
  constructor(
    readonly engine: EnginePlan,
    readonly epilog: Epilog,
    readonly options: PlanOptions,
    notes: readonly string[],
  ) {
    this.#notes = notes;
  }

  get report(): AlgorithmReport {
    const { report } = this.engine;
    return { ...report, notes: [...this.#notes, ...report.notes] };
  }

  open(): void {
    this.engine.open();
  }

  release(): void {
    this.engine.release?.();
  }

  [Symbol.dispose](): void {
    this.engine[Symbol.dispose]();
  }
}

/** Matrices, and what executions pass on for them: there once the product is planned. */
export interface BoundOperands extends CheckedOperands {
  readonly bound: {
    readonly locals: LocalOperands;
    readonly values: EngineValues;
    /** Streams, other than the runtime's, in whose order operands are used. */
    readonly streams: readonly Stream[];
  } | null;
}

/** Let an engine plan a product, with its library, which is the same on all ranks. Local. */
export function planMatmul(
  engine: MatmulEngine,
  product: CheckedProduct,
  epilog: Epilog,
  options: PlanOptions,
  variant?: string,
): { plan: MatmulPlan; facts: { library: string; choice?: string } } {
  const { runtime } = product;
  const library = engine.open?.(runtime) ?? "";
  const notes = runtime.device.kind === "gpu"
    ? []
    : (["communicationSmCount", "communicationType"] as const).filter((name) => options[name] !== undefined)
      .map((name) => `${name} has no meaning on a CPU and was not used`);
  const planned = planProduct(engine, runtime, requestOf(product, epilog, options, variant), options);
  const { choice } = planned;
  return {
    plan: new MatmulPlan(planned, epilog, options, notes),
    facts: { library, ...choice !== undefined && { choice } },
  };
}

/** Everything that executions pass on, made ready once. Local. */
export function bindOperands(
  { runtime: { stream }, problem: { transposed } }: CheckedProduct,
  { a, b, c }: CheckedOperands,
  { alpha, beta, scales }: CheckedScalars,
  inputs: EpilogValues,
  epilog: Epilog,
): BoundOperands {
  const left = columnMajor(a.local, a.order);
  const right = columnMajor(b.local, b.order);
  const addend = c && columnMajor(c.local, c.order);
  const needed = requiredInputs(epilog).map((name): [string, LocalArray] => {
    const input = inputs[name]!;
    const isForGpu = stream !== null && name !== "auxQuantizationScale" && !input.isOnDevice;
    return [name, isForGpu ? input.toDevice(stream, "F") : input];
  });
  const bound = {
    // The result of a product that is not in place gets its own memory at each execution.
    locals: { a: transposed ? right : left, b: transposed ? left : right, c: addend, d: addend ?? left },
    values: {
      alpha,
      beta,
      epilog: Object.fromEntries(needed),
      scales: canonicalScales(scales, a.order, b.order, transposed),
    },
    streams: streamsOf([left, right, addend, ...needed.map(([, input]) => input)]).filter((one) => one !== stream),
  };
  return { a, b, c, bound };
}

/** Get an execution ready, D's memory included. Local; what it returns is collective. */
export function prepareExecution(
  product: CheckedProduct,
  { engine, epilog }: MatmulPlan,
  operands: BoundOperands,
  stream: Stream | null,
): CollectiveStep<{ d: DistributedArray; auxiliary: Auxiliary }> {
  const { runtime, d: { order, distribution } } = product;
  const { locals, values, streams } = operands.bound!;
  const prepareOn = (given: LocalOperands) =>
    inOrder(streams, stream ?? runtime.stream, engine.prepare(given, values, stream));
  const finish = (d: DistributedArray, outputs: EpilogValues) => ({
    d,
    auxiliary: isTrivial(epilog) ? NOTHING : complete(runtime, outputs),
  });
  if (product.inplace) {
    const multiply = prepareOn(locals);
    return { run: () => finish(operands.c!, multiply()) };
  }
  const prepare = (d: LocalArray) => prepareOn({ ...locals, d: columnMajor(d, order) });
  const wrap = (d: LocalArray) => DistributedArray.wrap(runtime, d, distribution, order);
  if (!areSymmetric(operands)) {
    const d = allocateResult(product);
    const multiply = prepare(d);
    return { run: () => finish(wrap(d), multiply()) };
  }
  return {
    run() {
      const d = allocateSymmetric(product, operands.a);
      let multiply!: () => EpilogValues;
      try {
        agree(runtime, "Matmul.execute", () => {
          multiply = prepare(d);
        });
      } catch (error) {
        d.release();
        throw error;
      }
      return finish(wrap(d), multiply());
    },
  };
}

/** The streams in whose order arrays on a GPU are used. */
function streamsOf(arrays: readonly (LocalArray | null)[]): Stream[] {
  return [...new Set(arrays.flatMap((array) => array?.isOnDevice ? [array.buffer.stream] : []))];
}

/** A product in the order of the streams of its operands, too; in a graph it follows the graph's alone. */
function inOrder(
  streams: readonly Stream[],
  on: Stream | null,
  multiply: () => EpilogValues,
): () => EpilogValues {
  if (streams.length === 0) return multiply;
  return () => {
    const others = on!.isCapturing ? [] : streams.filter(({ isDisposed }) => !isDisposed);
    for (const stream of others) on!.wait(stream);
    const outputs = multiply();
    for (const stream of others) stream.wait(on!);
    return outputs;
  };
}

/** Memory for this rank's part of D. */
export function allocateResult({ runtime, d: { distribution, dtype, order } }: CheckedProduct): LocalArray {
  return LocalArray.empty(dtype, distribution.localShape(runtime.rank), order, runtime.stream);
}

/** Symmetric memory for this rank's part of D, of the kind that an operand has. Collective. */
export function allocateSymmetric(
  { runtime, d: { distribution, dtype, order } }: CheckedProduct,
  { local }: DistributedArray,
): LocalArray {
  const backend = local instanceof SymmetricArray ? { backend: local.backend } : {};
  const options = { dtype, order, makeSymmetric: true, ...backend };
  return allocateSymmetricMemory(runtime, distribution.localShape(runtime.rank), options);
}

/** The outputs of all ranks together. Collective if there are maxima among them. */
function complete({ communicator }: Runtime, { geluAuxAmax, resultAmax, ...outputs }: EpilogValues): Auxiliary {
  const maximum = (local: LocalArray) => largestOfAll(communicator, (local.toTypedArray() as Float32Array)[0]);
  const { reluAux, geluAux, dreluBgrad, dgeluBgrad, bgrada, bgradb } = outputs;
  return {
    ...reluAux && { reluAux },
    ...geluAux && { geluAux },
    ...geluAuxAmax && { geluAuxAmax: maximum(geluAuxAmax) },
    ...dreluBgrad && { dreluBgrad },
    ...dgeluBgrad && { dgeluBgrad },
    ...bgrada && { bgrada },
    ...bgradb && { bgradb },
    ...resultAmax && { resultAmax: maximum(resultAmax) },
  };
}

/** A local part seen column-major. */
export function columnMajor(local: LocalArray, order: "C" | "F"): LocalArray {
  return order === "F" ? local : local.transpose();
}

/** The scales of the canonical problem: arrays seen column-major, those of A and B exchanged if A and B are. */
function canonicalScales(
  { a, b, ...others }: QuantizationValues,
  orderA: "C" | "F",
  orderB: "C" | "F",
  transposed: boolean,
): QuantizationValues {
  const seen = (scales: typeof a, order: "C" | "F") =>
    typeof scales === "object" && order === "C" ? scales.transpose() : scales;
  const [left, right] = [seen(a, orderA), seen(b, orderB)];
  const [first, second] = transposed ? [right, left] : [left, right];
  return { ...others, ...first !== undefined && { a: first }, ...second !== undefined && { b: second } };
}
