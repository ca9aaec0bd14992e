/**
 * Elementwise operations on arrays of several ranks: all ranks agree on the operands, and each computes its part. No
 * element travels.
 *
 * @module
 */
import type { Distribution } from "../../distribution/mod.ts";
import { type DType, dtypeInfo, type Scalar } from "../../dtype/dtype.ts";
import { promote } from "../../dtype/promotion.ts";
import { isPair } from "../../dtype/scalar.ts";
import { DTypeError, ShapeError, StateError } from "../../errors.ts";
import { describe, readOptions } from "../../options.ts";
import { agree, type Facts } from "../../runtime/agreement.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { Stream } from "../../gpu/stream.ts";
import { BaseArray, checkAlive, type Held, runtimeOf } from "../base_array.ts";
import { prepareStridedCopy } from "../on_device/copies.ts";
import { type Order, sizeOfShape } from "../layout.ts";
import { LocalArray } from "../local_array.ts";
import { prepareOnce } from "../redistribution/redistributor.ts";
import { broadcastShapes, operandPart, resultDistribution } from "./broadcast.ts";
import { type Elements, letGoOf, type Part, typeOf } from "./loops.ts";
import { languageOf, type Means, prepare } from "./execution.ts";
import { compile, type ElementProgram, type Expression } from "./expression.ts";
import { isBits } from "./javascript_loops.ts";

/** What an operation takes: an array, or a number, a bigint or `[re, im]` that stands beside each element. */
export type AnyOperand = BaseArray | Scalar;

/** Where a result goes. */
export interface TargetOptions<A extends BaseArray = BaseArray> {
  /**
   * An array that the result is written into, and that is returned; one of the operands, to compute in place. It has the
   * shape of the result, each rank's part of it decides where elements are computed, and its dtype holds the result's,
   * rounded if need be.
   */
  into?: A;
  /**
   * Whether operands of the result's shape that are distributed differently are redistributed for it, at every call; false by
   * default: they are an error. The result is distributed as `into` is, or as the first operand that is divided.
   */
  redistribute?: boolean;
}

/** What came of an operation: a new array's parts, or the array that it was written into. */
export type Made<A extends BaseArray> = { readonly held: Held } | { readonly into: A };

/** Operands that fit together, on this rank. */
export interface Aligned {
  /** The global shape of the result. */
  readonly shape: readonly number[];
  /** The distribution of the result. */
  readonly distribution: Distribution;
  /** The memory order of the result. */
  readonly order: Order;
  /** The shape of this rank's part of the result. */
  readonly localShape: readonly number[];
  /** The operands, in their order. */
  readonly parts: readonly Part[];
  /** What brings operands to this rank that are elsewhere, before they are read. Each is collective. */
  readonly moves: readonly (() => void)[];
  /** The stream of the GPU on which it is computed; null on a CPU. */
  readonly stream: Stream | null;
  /** How it may be computed on CPUs. */
  readonly means: Means;
  /** What all ranks must share. */
  readonly facts: Facts;
}

/**
 * Compute an expression of operands, element by element. Collective.
 *
 * @throws {TypeError} if an operand is neither an array nor a number, or none is an array.
 * @throws {StateError} if one was freed, belongs to another runtime, or they are in different memories.
 * @throws {ShapeError | DTypeError | DistributionError} if they do not fit together, or the result does not fit `into`.
 */
export function elementwise<A extends BaseArray>(
  name: string,
  expression: Expression,
  operands: readonly AnyOperand[],
  options: TargetOptions<A> | undefined,
  words: Words = WORDS,
): Made<A> {
  return expressed(name, operands, options, () => ({ expression, numbers: [], title: name }), words);
}

/**
 * As {@linkcode elementwise}, of an expression, and further numbers as operands, that `express` finds in the agreement. Errors
 * name its title, or else the operation of the expression.
 */
export function expressed<A extends BaseArray>(
  name: string,
  operands: readonly AnyOperand[],
  options: TargetOptions<A> | undefined,
  express: () => { readonly expression: Expression; readonly numbers: readonly Scalar[]; readonly title?: string },
  words: Words = WORDS,
): Made<A> {
  const runtime = runtimeOf(...operands);
  let held: Held | null = null;
  let into: A | undefined;
  let moves: Aligned["moves"] = [];
  let parts!: readonly Part[];
  let compute!: () => () => void;
  let finish = (): void => {};
  agree(runtime, name, () => {
    const given = readOptions<TargetOptions<A>>(`the options of ${name}`, options, ["into", "redistribute"]);
    const { redistribute = false } = given;
    if (typeof redistribute !== "boolean") {
      throw new TypeError(`${name}: redistribute must be true or false, not ${describe(redistribute)}.`);
    }
    into = given.into;
    const { expression, numbers, title } = express();
    const aligned = alignOperands(name, runtime, [...operands, ...numbers], into, redistribute, words);
    const { distribution, order, localShape, stream } = aligned;
    ({ parts, moves } = aligned);
    const program = compile(expression, parts.map(typeOf), languageOf(stream), title);
    if (into === undefined) {
      const local = LocalArray.empty(program.dtype, localShape, order, stream);
      held = { runtime, local, distribution, order };
      compute = () => {
        prepare(program, parts, local, aligned.means)();
        return () => {};
      };
    } else {
      checkInto(name, into, program.dtype, words.refusal);
      const { local } = into;
      compute = () => writer(program, aligned, local);
    }
    if (moves.length === 0) finish = compute();
    const { statements, result, parameters } = program;
    const reads = parameters.map(({ index, dtype }) => `${index} ${dtype}`);
    return { ...aligned.facts, redistribute, program: [...statements, ...result].join(), reads: reads.join() };
  });
  if (moves.length > 0) {
    for (const move of moves) move();
    agree(runtime, name, (): Facts => {
      finish = compute();
      return {};
    });
  }
  finish();
  letGoOf(parts);
  return into === undefined ? { held: held! } : { into };
}

/** What an operand is to the other ranks. */
function factOf(operand: AnyOperand): unknown {
  if (!(operand instanceof BaseArray)) return operand;
  const { shape, dtype, distribution, order, memory } = operand;
  return { shape, dtype, distribution: String(distribution), order, memory };
}

/**
 * Check what a user gave as operands of an elementwise operation, and bring this rank's parts together; with `redistribute`
 * also those that are elsewhere, by the moves that it returns. Local.
 */
export function alignOperands(
  name: string,
  runtime: Runtime,
  operands: readonly AnyOperand[],
  into?: BaseArray,
  redistribute = false,
  words: Words = WORDS,
): Aligned {
  operands.forEach((operand, i) => checkOperand(name, words.operands?.[i] ?? `operand ${i + 1}`, operand, runtime));
  const arrays = operands.filter((operand): operand is BaseArray => operand instanceof BaseArray);
  if (arrays.length === 0) throw new TypeError(`${name} needs at least one DistributedArray among its operands.`);
  if (into !== undefined) checkTarget(name, into, runtime);
  checkTogether(name, into === undefined ? arrays : [...arrays, into]);
  const own = broadcastShapes(name, arrays.map((array) => array.shape));
  if (into !== undefined && !fitsInto(own, into.shape)) {
    throw new ShapeError(`${name}: ${words.into} has shape [${into.shape}], but the result has [${own}].`);
  }
  const shape = into?.shape ?? own;
  const distribution = into?.distribution ??
    resultDistribution(shape, arrays.map((array) => array.distribution), runtime.size);
  const model = into ??
    arrays.find((array) => array.shape.length === shape.length && !array.distribution.isReplicated) ??
    arrays.find((array) => array.shape.length === shape.length);
  const stream = arrays[0].local.isOnDevice ? runtime.stream : null;
  const main = into?.local.isOnDevice ? into.local.buffer.stream : stream;
  const moves: (() => void)[] = [];
  const parts = operands.map((operand): Part => {
    if (!(operand instanceof BaseArray)) return { scalar: isPair(operand) ? [operand[0], operand[1]] : operand };
    if (redistribute && isElsewhere(operand, distribution)) return movedPart(operand, distribution, main, moves);
    return operandPart(name, operand.local, operand.distribution, distribution, runtime.rank, main);
  });
  return {
    shape,
    distribution,
    order: model!.order,
    localShape: distribution.localShape(runtime.rank),
    parts,
    moves,
    stream,
    means: { size: sizeOfShape(shape), threads: runtime.threads },
    facts: { operands: operands.map(factOf), into: into === undefined ? null : factOf(into) },
  };
}

/** Whether an operand of the result's shape is divided among the ranks in another way. */
function isElsewhere({ distribution: own }: BaseArray, result: Distribution): boolean {
  return !own.isReplicated && own.globalShape!.join() === result.globalShape!.join() && !own.equals(result);
}

/** This rank's part of an operand in the result's distribution: new memory, and in `moves` what fills it. */
function movedPart(
  { runtime, local, distribution, order }: BaseArray,
  result: Distribution,
  stream: Stream | null,
  moves: (() => void)[],
): Elements {
  const moved = LocalArray.empty(local.dtype, result.localShape(runtime.rank), order, stream);
  moves.push(prepareOnce(runtime, distribution, result, local, moved, order));
  const { storage, dtype, offset, strides } = moved;
  return { storage, dtype, offset, strides, letGo: () => moved.release() };
}

/** Whether a result may be repeated to a shape. */
function fitsInto(shape: readonly number[], target: readonly number[]): boolean {
  const shift = target.length - shape.length;
  return shift >= 0 && shape.every((extent, d) => extent === 1 || extent === target[d + shift]);
}

/**
 * Refuse what is no operand.
 *
 * @throws {TypeError | StateError} saying why.
 */
function checkOperand(name: string, what: string, operand: unknown, runtime: Runtime): void {
  if (operand instanceof BaseArray) return checkOwnArray(name, what, operand, runtime);
  if (typeof operand === "number" || typeof operand === "bigint" || isPair(operand)) return;
  throw new TypeError(
    `${name}: ${what} must be a DistributedArray, a number, a bigint or [re, im], not ${describe(operand)}.`,
  );
}

/**
 * Refuse an array that is gone, or is another runtime's.
 *
 * @throws {StateError} saying why.
 */
export function checkOwnArray(name: string, what: string, array: BaseArray, runtime: Runtime): void {
  checkAlive(`${name}: ${what}`, array);
  if (array.runtime === runtime) return;
  throw new StateError(`${name}: ${what} belongs to another runtime. All arrays must come from one initialize().`);
}

/** Refuse arrays some of which are in host memory, and some on GPUs: what travels between is said by the script. */
export function checkTogether(name: string, arrays: readonly BaseArray[]): void {
  const [first, ...others] = arrays;
  const other = others.find(({ local }) => local.isOnDevice !== first.local.isOnDevice);
  if (other === undefined) return;
  throw new StateError(
    `${name}: one array is in ${first.memory} memory, another in ${other.memory} memory. Bring them to the same: ` +
      `to({ memory: "${first.memory === "symmetric" ? other.memory : first.memory}" }).`,
  );
}

function checkTarget(name: string, into: unknown, runtime: Runtime): void {
  if (!(into instanceof BaseArray)) {
    throw new TypeError(`${name}: into must be a DistributedArray, not ${describe(into)}.`);
  }
  checkOwnArray(name, "into", into, runtime);
}

/** What a target is called that does not hold a result, what the result is called, and what to do: by the dtypes of both. */
export type TargetWords = (into: DType, result: DType) => {
  readonly target: string;
  readonly values: string;
  readonly advice: string;
};

/** How to make values of a narrower dtype; those of `from` are complex where that one is not. */
const conversion = (into: DType, from: DType) =>
  `with to({ dtype: "${into}" })${dtypeInfo(from).isComplex ? " after real() or abs()" : ""}`;

const INTO: TargetWords = (into, result) => ({
  target: "into",
  values: "the result is",
  advice: `Leave into out, and convert the result ${conversion(into, result)}`,
});

/** What a function's arguments are called in its errors. */
export interface Words {
  /** The operands; "operand 1", "operand 2" if left out. */
  readonly operands?: readonly string[];
  /** The target. */
  readonly into: string;
  /** A target that does not hold the result. */
  readonly refusal: TargetWords;
}

const WORDS: Words = { into: "into", refusal: INTO };

/** The words of a function whose operands have names. */
export function named(...operands: readonly string[]): Words {
  return { ...WORDS, operands };
}

/** The words of a method that takes values into an array. */
export const ASSIGNED: Words = {
  operands: ["the value"],
  into: "the array",
  refusal: (into, result) => ({
    target: "the array",
    values: "the values are",
    advice: `Convert them ${conversion(into, result)}`,
  }),
};

/** The words of a function that changes the operand of the name `into`. */
export function changed(into: string, operands: readonly string[]): Words {
  const refusal: TargetWords = (_into, result) => ({
    target: into,
    values: "the result is",
    advice: `Convert ${into} with to({ dtype: "${result}" }) first`,
  });
  return { operands, into, refusal };
}

/**
 * Refuse a target whose dtype does not take a result: a complex one for a real dtype, a float for an integer one, an integer
 * for a narrower one. Floats are rounded.
 */
export function checkInto(name: string, into: BaseArray, result: DType, words: TargetWords = INTO): void {
  const [from, to] = [dtypeInfo(result), dtypeInfo(into.dtype)];
  const isFloat = !from.isInteger && !to.isInteger;
  if (isFloat ? to.isComplex || !from.isComplex : promote(result, into.dtype) === into.dtype) return;
  const { target, values, advice } = words(into.dtype, result);
  throw new DTypeError(
    `${name}: ${values} of dtype ${result}, which ${target}, of dtype ${into.dtype}, does not hold. ${advice}.`,
  );
}

/** Get ready to compute into a user's array; returns what writes it, and cannot fail. */
function writer(
  program: ElementProgram,
  { parts, localShape, order, stream, means }: Aligned,
  target: LocalArray,
): () => void {
  const isSafe = parts.every((part) => "scalar" in part || !overlaps(part, target, localShape));
  if (isSafe && !program.mayThrow && (target.isOnDevice || !isBits(target.dtype))) {
    return prepare(program, parts, target, means);
  }
  // In the order of the stream on which it is read last.
  const result = LocalArray.empty(target.dtype, localShape, order, target.isOnDevice ? target.buffer.stream : stream);
  prepare(program, parts, result, means)();
  const move = stream === null ? () => target.set(result) : prepareStridedCopy(result, target);
  return () => {
    move();
    result.release();
  };
}

/** Whether writing to `target` may change elements of an operand that are read later. */
function overlaps(part: Elements, target: Elements, shape: readonly number[]): boolean {
  if (shape.includes(0)) return false;
  const [one, other] = [part, target].map((elements) => spanOf(elements, shape));
  if (one.memory !== other.memory || one.end <= other.start || other.end <= one.start) return false;
  const isSame = part.dtype === target.dtype && one.start === other.start &&
    shape.every((extent, d) => extent === 1 || part.strides[d] === target.strides[d]);
  return !isSame;
}

/** Where elements begin and end, in bytes from the start of a memory: a buffer, or all that a GPU has. */
function spanOf({ storage, dtype, offset, strides }: Elements, shape: readonly number[]) {
  const { itemSize } = dtypeInfo(dtype);
  const last = shape.reduce((sum, extent, d) => sum + (extent - 1) * strides[d], 0);
  const isHost = ArrayBuffer.isView(storage);
  const start = (isHost ? storage.byteOffset : Number(storage.address)) + offset * itemSize;
  return { memory: isHost ? storage.buffer : null, start, end: start + (last + 1) * itemSize };
}
