/**
 * The arguments of a matmul, checked on this rank, with everything that was left out filled in.
 *
 * @module
 */
import { checkAlive } from "../../array/base_array.ts";
import { DistributedArray } from "../../array/distributed_array.ts";
import { dtypeInfo, dtypes, type Scalar } from "../../dtype/dtype.ts";
import { Replicated } from "../../distribution/mod.ts";
import { ConfigurationError, DistributionError, DTypeError, ShapeError } from "../../errors.ts";
import { SymmetricBuffer } from "../../memory/symmetric_memory.ts";
import { checkBoolean, checkName, describe, readOptions } from "../../options.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { checkSettings } from "../../runtime/operation.ts";
import {
  checkAddend,
  checkAddendShape,
  checkAliasing,
  checkMatrix,
  checkScalar,
  type DescribedMatrix,
  matrixFact,
  resultDistribution,
  scalarFact,
  text,
} from "../operands.ts";
import { COMPUTE_TYPES, computeTypeNote, type ProductTypes, resolveTypes, SCALE_TYPES } from "./compute_type.ts";
import { inferDistribution, inferOrder } from "./inference.ts";
import { MATMUL_OPTION_KEYS, type MatmulOptions } from "./options.ts";
import { canonicalProblem, type MatmulProblem } from "./problem.ts";
import { type Operations, operationsOf } from "./qualifiers.ts";
import {
  isQuantized,
  type OperandTypes,
  type QuantizationValues,
  quantizationValues,
  type ScaledFactors,
  scaleFacts,
  type Scaling,
  scalingOf,
} from "./quantization.ts";

/** What a matmul computes, apart from its epilog: fixed from construction on. */
export interface CheckedProduct {
  readonly runtime: Runtime;
  /** A as the user sees it. */
  readonly a: DescribedMatrix;
  /** B as the user sees it. */
  readonly b: DescribedMatrix;
  /** C as the user sees it, or null. */
  readonly c: DescribedMatrix | null;
  /** D as the user sees it. */
  readonly d: DescribedMatrix;
  /** What is done to A and B. */
  readonly operations: Operations;
  readonly types: ProductTypes;
  /** Whether D is written into C. */
  readonly inplace: boolean;
  /** Whether D is in symmetric memory, unless operands of another kind follow. */
  readonly isInSymmetricMemory: boolean;
  /** Whether the largest absolute value of D is asked for. */
  readonly resultAmax: boolean;
  /** What shares a scale in A and B, or null if each is scaled as a whole. */
  readonly scaling: Scaling | null;
  /** The column-major problem that engines see. */
  readonly problem: MatmulProblem;
  /** What is done differently from what was asked for, whatever the engine. */
  readonly notes: readonly string[];
}

/** The matrices of a matmul. */
export interface CheckedOperands {
  /** The left factor. */
  readonly a: DistributedArray;
  /** The right factor. */
  readonly b: DistributedArray;
  /** The addend, or null. */
  readonly c: DistributedArray | null;
}

/** The numbers of a matmul. */
export interface CheckedScalars {
  /** Scales op(A) op(B). */
  readonly alpha: Scalar;
  /** Scales C. */
  readonly beta: Scalar;
  /** Scales of 8-bit matrices. */
  readonly scales: QuantizationValues;
}

/** The options, read once. Refuses C, and whatever else, as an argument of its own: `form` tells how to call. */
export function readArguments(form: string, options: MatmulOptions, count: number): MatmulOptions {
  if (options instanceof DistributedArray) {
    throw new TypeError(`${form} takes c among the options: { c, beta }; a third matrix was given.`);
  }
  if (count > 3) throw new TypeError(`${form} takes three arguments; got ${count}. Put all options into one object.`);
  return readOptions("the options of matmul", options, MATMUL_OPTION_KEYS);
}

/** Which of the problems for the memory orders of D is preferred, if both are alike to the user. */
export type OrderChoice = (problemOf: (order: "C" | "F") => MatmulProblem, otherwise: "C" | "F") => "C" | "F";

/** Check what a matmul computes. Communicates nothing. */
export function checkProduct(
  runtime: Runtime,
  a: unknown,
  b: unknown,
  options: MatmulOptions,
  chooseOrder: OrderChoice = (_, otherwise) => otherwise,
): { product: CheckedProduct; operands: CheckedOperands; scalars: CheckedScalars } {
  checkSimpleOptions(options, runtime);
  checkMatrix("a", a, runtime);
  checkMatrix("b", b, runtime);
  const { c = null } = options;
  if (c !== null) checkMatrix("c", c, runtime);
  checkAddend(options);

  const operations = operationsOf(options.qualifiers, { a: a.dtype, b: b.dtype });
  const types = resolveTypes({
    a: a.dtype,
    b: b.dtype,
    c: c?.dtype ?? null,
    computeType: options.computeType,
    scaleType: options.scaleType,
    resultType: options.resultType,
  });
  const resultAmax = options.resultAmax ?? false;
  if (resultAmax && !isQuantized(types.d)) {
    throw new DTypeError(
      `resultAmax is for results of 8 bits (float8_e4m3, float8_e5m2), and D is ${types.d}. Leave it out.`,
    );
  }
  const shape = resultShape(a, b, operations);
  if (c !== null) checkAddendShape(c, shape);
  const inferred = inferOrder({ a: a.order, b: b.order, c: c?.order ?? null }, options.order);
  const { inplace = false, epilog } = options;
  const distribution = resultDistribution(
    options.distribution,
    c,
    inplace,
    shape,
    runtime.size,
    () =>
      epilog === "all_reduce"
        ? Replicated
        : inferDistribution(a.distribution, b.distribution, operations, shape, runtime.size),
  );
  if (inplace && c!.dtype !== types.d) {
    throw new DTypeError(`inplace: D is ${types.d} and c is ${c!.dtype}. They must be equal; leave inplace out.`);
  }
  if (inplace) checkAliasing("c", c!, { a, b });

  const describeIn = (order: "C" | "F") => ({
    a: describeMatrix(a),
    b: describeMatrix(b),
    c: c && describeMatrix(c),
    d: { shape, order, distribution, dtype: types.d },
  });
  // One for each order: engines remember what they have worked out for a problem.
  const problems: { C?: MatmulProblem; F?: MatmulProblem } = {};
  const problemIn = (order: "C" | "F") =>
    problems[order] ??= canonicalProblem({
      ...describeIn(order),
      operationA: operations.a,
      operationB: operations.b,
      accumulator: types.accumulator,
    });
  const order = c !== null || options.order ? inferred : chooseOrder(problemIn, inferred);
  const described = describeIn(order);
  const problem = problemIn(order);
  const notes = [
    runtime.device.kind === "cpu" ? computeTypeNote(types.computeType) : null,
    options.order && order !== options.order ? `D has the memory order of c, "${order}", not "${options.order}"` : null,
  ].filter((note) => note !== null);
  const scales = quantizationValues(options.quantizationScales, dtypesOf(described));
  const scaling = scalingOf(scales, factorsOf({ ...described, operations }), dtypesOf(described));
  const isInSymmetricMemory = inplace ? c!.memory === "symmetric" : areSymmetric({ a, b, c });
  return {
    product: {
      runtime,
      ...described,
      operations,
      types,
      inplace,
      isInSymmetricMemory,
      resultAmax,
      scaling,
      problem,
      notes,
    },
    operands: { a, b, c },
    scalars: {
      alpha: checkFactor("alpha", options.alpha === undefined ? 1 : options.alpha, types),
      beta: checkFactor("beta", options.beta === undefined ? 0 : options.beta, types),
      scales,
    },
  };
}

/** Whether all operands are in symmetric memory, so that a new result is too. */
export function areSymmetric({ a, b, c }: CheckedOperands): boolean {
  return a.memory === "symmetric" && b.memory === "symmetric" && (c === null || c.memory === "symmetric");
}

/** The factors as their scales see them. */
export function factorsOf({ a, b, operations }: Pick<CheckedProduct, "a" | "b" | "operations">): ScaledFactors {
  return {
    a: { shape: a.shape, summed: operations.a.transpose ? 0 : 1 },
    b: { shape: b.shape, summed: operations.b.transpose ? 1 : 0 },
  };
}

export function dtypesOf({ a, b, c, d }: Pick<CheckedProduct, "a" | "b" | "c" | "d">): OperandTypes {
  return { a: a.dtype, b: b.dtype, c: c?.dtype ?? null, d: d.dtype };
}

/** What all ranks must agree on. */
export function productFacts(
  product: CheckedProduct,
  scalars: CheckedScalars,
  options: MatmulOptions,
): Record<string, unknown> {
  const { a, b, c, d, operations, types, inplace, resultAmax } = product;
  return {
    a: matrixFact(a),
    b: matrixFact(b),
    c: c ? matrixFact(c) : "none",
    d: matrixFact(d),
    "qualifiers.a": operations.a,
    "qualifiers.b": operations.b,
    ...scalarFacts(scalars),
    computeType: types.computeType,
    inplace,
    resultAmax,
    engine: options.engine ?? "auto",
    blocking: options.blocking ?? "auto",
  };
}

/** Where the operands are, on which all ranks must agree: a result beside symmetric ones is made together. */
export function memoryFacts({ a, b, c }: CheckedOperands): Record<string, unknown> {
  return { memory: [a, b, c].map((operand) => operand?.memory ?? null), placeOfC: placeFact(c) };
}

/** Where a C that all ranks have lies in symmetric memory: engines store sums into all of them, at one place. */
function placeFact(c: DistributedArray | null): string | null {
  if (!c?.distribution.isReplicated || !c.local.isOnDevice) return null;
  const { buffer, address, strides } = c.local;
  if (!(buffer instanceof SymmetricBuffer)) return null;
  return `byte ${address - buffer.address} of buffer ${buffer.id} of ${buffer.backend}, strides ${strides}`;
}

/** The numbers that all ranks must agree on. */
export function scalarFacts({ alpha, beta, scales }: CheckedScalars): Record<string, unknown> {
  return { alpha: scalarFact(alpha), beta: scalarFact(beta), quantizationScales: scaleFacts(scales) };
}

/** A new operand in place of one of the same kind. */
export function checkReplacement(
  name: "a" | "b" | "c",
  array: unknown,
  expected: DescribedMatrix | null,
  runtime: Runtime,
): DistributedArray {
  if (expected === null) {
    throw new TypeError(`${name} was not there when the Matmul was made. Make a new Matmul with ${name}.`);
  }
  checkMatrix(name, array, runtime);
  const given = describeMatrix(array);
  if (given.dtype !== expected.dtype) {
    throw new DTypeError(
      `${name} is ${given.dtype}; this Matmul was made for ${expected.dtype}. ` +
        `Convert it with ${name}.to({ dtype: "${expected.dtype}" }).`,
    );
  }
  if (given.shape.join() !== expected.shape.join() || given.order !== expected.order) {
    throw new ShapeError(
      `${name} has shape ${text(given.shape)} and order "${given.order}"; this Matmul was made for ${
        text(expected.shape)
      } and "${expected.order}". ` +
        (given.order === expected.order
          ? "Make a new Matmul for other shapes."
          : `Convert it with ${name}.to({ order: "${expected.order}" }).`),
    );
  }
  if (!given.distribution.equals(expected.distribution)) {
    throw new DistributionError(
      `${name} is distributed as ${given.distribution}; this Matmul was made for ${expected.distribution}. ` +
        `Convert it with ${name}.redistribute().`,
    );
  }
  return array;
}

export function checkFactor(name: string, value: unknown, { accumulator, d }: ProductTypes): Scalar {
  return checkScalar(name, value, dtypeInfo(accumulator).isComplex ? null : `the result is ${d}`);
}

const RESET = "Pass an array that is alive to resetOperands().";

/**
 * Refuse operands that were freed, or whose memory has gone, since they were given.
 *
 * @throws {StateError} naming the operand.
 */
export function checkNotFreed({ a, b, c }: CheckedOperands): void {
  checkAlive("a", a, RESET);
  checkAlive("b", b, RESET);
  if (c !== null) checkAlive("c", c, RESET);
}

function checkSimpleOptions(options: MatmulOptions, runtime: Runtime): void {
  checkName("order", options.order, ["C", "F"]);
  checkName("computeType", options.computeType, COMPUTE_TYPES);
  checkName("scaleType", options.scaleType, SCALE_TYPES);
  checkName("resultType", options.resultType, dtypes);
  checkBoolean("inplace", options.inplace);
  checkBoolean("resultAmax", options.resultAmax);
  checkSettings(options, runtime);
  checkBlockScaling(options.blockScaling, runtime);
}

/** 8-bit scales of blocks are a matter of the newest GPUs. */
function checkBlockScaling(format: MatmulOptions["blockScaling"], { device }: Runtime): void {
  if (format === undefined || format === false) return;
  if (format !== true && format !== "mxfp8" && format !== "nvfp4") {
    throw new TypeError(`blockScaling must be true, false, "mxfp8" or "nvfp4"; got ${describe(format)}.`);
  }
  const name = format === "nvfp4" ? "NVFP4" : "MXFP8";
  const capability = device.kind === "gpu" ? device.computeCapability.join(".") : null;
  const isNewEnough = device.kind === "gpu" && device.computeCapability[0] >= 10;
  throw new ConfigurationError(
    (isNewEnough
      ? `blockScaling (${name}) is not supported by this version. `
      : `blockScaling (${name}) needs a GPU of compute capability 10.0 or newer${
        capability ? `, and ${device.name} has ${capability}` : ""
      }. `) + "Leave blockScaling out, and pass quantizationScales as numbers or as arrays of float32.",
  );
}

function resultShape(a: DistributedArray, b: DistributedArray, operations: Operations): [number, number] {
  const [m, k] = operations.a.transpose ? a.shape.toReversed() : a.shape;
  const [inner, n] = operations.b.transpose ? b.shape.toReversed() : b.shape;
  if (k !== inner) {
    throw new ShapeError(
      `op(a) is ${m} x ${k} (a ${text(a.shape)}${operations.a.transpose ? " transposed" : ""}) and op(b) is ` +
        `${inner} x ${n} (b ${text(b.shape)}${operations.b.transpose ? " transposed" : ""}): the inner extents ` +
        `${k} and ${inner} must be equal. Check the shapes and qualifiers.`,
    );
  }
  return [m, n];
}

function describeMatrix({ shape, order, distribution, dtype }: DistributedArray): DescribedMatrix {
  return { shape: [shape[0], shape[1]], order, distribution, dtype };
}
