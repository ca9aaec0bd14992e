/**
 * The arguments of a transform, checked on this rank, with everything that was left out filled in.
 *
 * @module
 */
import { checkAlive } from "../array/base_array.ts";
import { DistributedArray } from "../array/distributed_array.ts";
import { bindTo } from "../distribution/distribution.ts";
import type { Distribution } from "../distribution/mod.ts";
import { type DType, dtypeInfo } from "../dtype/dtype.ts";
import { ConfigurationError, DistributionError, DTypeError, ShapeError, StateError } from "../errors.ts";
import { checkBoolean, checkName, describe } from "../options.ts";
import type { Facts } from "../runtime/agreement.ts";
import { checkSettings } from "../runtime/operation.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { FFT_EFFORTS, type FFTEngine, type FFTPlace } from "./engines/engine.ts";
import { checkAlgorithm, checkEngine, chooseFFTEngine } from "./engines/registry.ts";
import type { FFTOptions, FFTPlanOptions } from "./options.ts";
import { inShape } from "./pass_places.ts";
import { checkRoom, isWholeInSymmetric } from "./operand_room.ts";
import {
  FFT_NORMS,
  FFT_TYPES,
  type FFTNorm,
  type FFTPrecision,
  type FFTProblem,
  type FFTShape,
  type FFTType,
  PARITIES,
  shapeOf,
} from "./problem.ts";
import { naturalDistribution } from "./route.ts";

/** A transform with everything that the options say, checked. */
export interface CheckedTransform {
  /** The runtime of the operand. */
  readonly runtime: Runtime;
  /** What is transformed. */
  readonly problem: FFTProblem;
  /** How it is scaled. */
  readonly norm: FFTNorm;
  /** Whether the result is written into the operand's memory. */
  readonly inplace: boolean;
  /** What runs it. */
  readonly engine: FFTEngine;
  /** What has to be the same on every rank. */
  readonly facts: Facts;
}

/** What the four functions ask for, of which the class, and who allocates for it, leave the type open. */
export interface Asked {
  /** The name for messages. */
  readonly name: string;
  /** The type, if it is not an option. */
  readonly type?: FFTType;
  /** What it calls the option of the result's distribution; `distribution` if left out. */
  readonly distributionOption?: string;
}

/** The types of operands, and functions that take them. */
const OPERANDS: Readonly<Record<FFTType, readonly DType[]>> = {
  c2c: ["complex64", "complex128", "complex32"],
  r2c: ["float32", "float64", "float16"],
  c2r: ["complex64", "complex128", "complex32"],
};

/** Check a transform. Communicates nothing. */
export function checkTransform(
  runtime: Runtime,
  asked: Asked,
  operand: unknown,
  options: FFTOptions,
): CheckedTransform {
  checkOperand(operand, runtime);
  const { norm = "backward", inplace = false } = options;
  checkName("norm", norm, FFT_NORMS);
  checkBoolean("inplace", inplace);
  checkSettings(options, runtime);
  const { dtype, shape, distribution, order } = operand;
  const problem = describeProblem(asked, dtype, shape, distribution, order, options);
  const engine = chooseFFTEngine(runtime, options.engine, leading(asked, operand, problem, options));
  checkEngine(engine, problem);
  checkPlanOptions(engine, problem, options);
  const library = engine.open(runtime, problem);
  if (inplace) checkRoom(operand, problem, runtime);
  const facts = {
    operand: String(operand),
    type: problem.type,
    axes: problem.axes,
    halved: problem.halved,
    result: problem.result,
    distribution: String(problem.to),
    norm,
    inplace,
    engine: options.engine ?? "auto",
    blocking: options.blocking ?? "auto",
    library,
    ...planFacts(options),
  };
  return { runtime, problem, norm, inplace, engine, facts };
}

/**
 * What class FFT tells of its executions, by which an engine may lead. Nothing of a function, which plans for one: a plan of
 * cuFFTMp takes longer than it gains; nor if an algorithm was asked for, which only the first may have.
 */
function leading(
  { type }: Asked,
  { local }: DistributedArray,
  problem: FFTProblem,
  { algorithm = "default", inplace = false }: FFTOptions,
): { readonly problem: FFTProblem; readonly place: FFTPlace } | undefined {
  if (type !== undefined || algorithm !== "default") return undefined;
  return { problem, place: !inplace ? "new" : isWholeInSymmetric(local) ? "symmetric" : "operand" };
}

/** What all ranks must plan alike. */
export function planFacts({ algorithm, effort }: FFTPlanOptions): Facts {
  return { algorithm: algorithm ?? "default", effort: effort ?? "default" };
}

/** Refuse plans that no engine makes. */
export function checkPlanOptions(engine: FFTEngine, problem: FFTProblem, options: FFTPlanOptions): void {
  checkAlgorithm(engine, problem, options.algorithm);
  checkName("effort", options.effort, FFT_EFFORTS);
}

/** What an array of this kind is transformed to, and where that lies. */
export function describeProblem(
  asked: Asked,
  dtype: DType,
  shape: readonly number[],
  from: Distribution,
  order: "C" | "F",
  options: Pick<FFTOptions, "fftType" | "axes" | "distribution" | "redistribute" | "lastAxisParity">,
): FFTProblem {
  const type = checkType(asked, dtype, options.fftType);
  checkName("lastAxisParity", options.lastAxisParity, PARITIES);
  if (options.lastAxisParity !== undefined && type !== "c2r") {
    throw new TypeError(
      `lastAxisParity is for transforms to real numbers (c2r), and this one is ${type}. Leave it out.`,
    );
  }
  const precision = dtypeInfo(dtype).real as FFTPrecision;
  const transform = shapeOf(type, checkAxes(options.axes, shape.length), shape, options.lastAxisParity);
  const to = resultDistribution(asked, transform, from, options, dtypeInfo(precision).itemSize);
  return { ...transform, precision, order, from, to };
}

/** Refuse what is no array of this runtime. */
export function checkOperand(operand: unknown, runtime: Runtime): asserts operand is DistributedArray {
  if (!(operand instanceof DistributedArray)) {
    throw new TypeError(`The operand must be a DistributedArray; got ${describe(operand)}.`);
  }
  checkAlive("The operand", operand);
  if (operand.runtime !== runtime) {
    throw new StateError("The operand belongs to another runtime. Operands must come from the one that planned.");
  }
  if (!operand.local.isOnDevice && runtime.stream !== null) {
    throw new ConfigurationError(
      'The operand is in host memory, and this runtime transforms on GPUs. Move it there: to({ memory: "device" }), or use ' +
        'a runtime of initialize({ device: "cpu" }).',
    );
  }
}

function checkType({ name, type: fixed }: Asked, dtype: DType, given: FFTType | undefined): FFTType {
  checkName("fftType", given, FFT_TYPES);
  const isReal = OPERANDS.r2c.includes(dtype);
  const type = fixed ?? given ?? (isReal || dtype === "bfloat16" ? "r2c" : "c2c");
  if (OPERANDS[type].includes(dtype)) return type;
  const other = isReal
    ? `Use rfft, or class FFT without fftType, for real operands, or convert it: to({ dtype: "complex128" })`
    : OPERANDS.c2c.includes(dtype)
    ? "Use fft or ifft, or class FFT without fftType, for complex operands"
    : `Convert it: to({ dtype: "${OPERANDS[type][0]}" })`;
  throw new DTypeError(
    `${name} (${type}) transforms ${OPERANDS[type].join(", ")}; the operand is ${dtype}. ${other}.`,
  );
}

function checkAxes(given: readonly number[] | undefined, dimensions: number): readonly number[] {
  if (given === undefined) return Array.from({ length: dimensions }, (_, axis) => axis);
  if (!Array.isArray(given) || given.length === 0) {
    throw new TypeError(`axes must be a list of at least one axis, such as [0, 1]; got ${describe(given)}.`);
  }
  const axes = given.map((axis: unknown): number => {
    if (!Number.isInteger(axis)) throw new TypeError(`An axis must be a whole number; got ${describe(axis)}.`);
    const number = axis as number;
    if (number >= -dimensions && number < dimensions) return number < 0 ? number + dimensions : number;
    throw new RangeError(
      `There is no axis ${number}: the operand has ${dimensions} dimensions, 0 to ${dimensions - 1}.`,
    );
  });
  const twice = axes.find((axis, i) => axes.indexOf(axis) !== i);
  if (twice !== undefined) throw new ShapeError(`axes names axis ${twice} twice: [${given.join(", ")}].`);
  return axes;
}

function resultDistribution(
  { distributionOption = "distribution" }: Asked,
  transform: FFTShape,
  from: Distribution,
  { distribution, redistribute }: Pick<FFTOptions, "distribution" | "redistribute">,
  itemSize: number,
): Distribution {
  checkBoolean("redistribute", redistribute);
  if (distribution !== undefined) {
    if (redistribute) {
      throw new TypeError(
        `redistribute: true gives the result the operand's distribution. Leave out ${distributionOption}.`,
      );
    }
    return bindTo(distribution, transform.result, from.size!, "the result");
  }
  if (!redistribute) return naturalDistribution(transform, from, itemSize);
  const same = inShape(from, transform.result);
  if (same !== null) return same;
  throw new DistributionError(
    `redistribute: ${from} of shape [${transform.operand.join(", ")}] has no counterpart for the result's shape ` +
      `[${transform.result.join(", ")}]. Pass the result's distribution instead.`,
  );
}
