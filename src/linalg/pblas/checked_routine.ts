/**
 * The arguments of a PBLAS routine, checked on this rank, with everything that was left out filled in.
 *
 * @module
 */
import { PBLAS_ROUTINES } from "../../../ffi/blas/pblas.ts";
import type { DistributedArray } from "../../array/distributed_array.ts";
import type { Distribution } from "../../distribution/mod.ts";
import { type DType, dtypeInfo, type Scalar } from "../../dtype/dtype.ts";
import { DTypeError, ShapeError } from "../../errors.ts";
import { checkBoolean, checkName, readOptions } from "../../options.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import {
  checkAddend,
  checkAddendShape,
  checkAliasing,
  checkBlasTypes,
  checkMatrix,
  checkScalar,
  matrixFact,
  resultDistribution,
  scalarFact,
  text,
} from "../operands.ts";
import { isUpdate, type PblasRoutine, type RoutineLetters, traitsOf, type Transposition } from "./call.ts";

/** Every option that a routine may have. */
export interface AnyOptions extends Partial<RoutineLetters> {
  readonly c?: DistributedArray;
  readonly alpha?: Scalar;
  readonly beta?: Scalar;
  readonly inplace?: boolean;
  readonly distribution?: Distribution;
}

/** What follows from the arguments of a routine once they are known to be matrices. */
export interface Described {
  /** The matrix that is only read. */
  readonly a: DistributedArray;
  /** The second factor, of routines that have one. */
  readonly b: DistributedArray | null;
  readonly shape: readonly [number, number];
  /** What an update sums over. */
  readonly k: number;
  /** A matrix that has the order of the result if there is no C. */
  readonly like: DistributedArray;
  /** The distribution of the result if there is no C and none is asked for. */
  readonly pattern: () => Distribution;
}

/** A routine as its function passes it on. */
export interface RoutineRequest {
  readonly routine: PblasRoutine;
  /** The matrices that the function takes by position. */
  readonly given: readonly unknown[];
  readonly options: AnyOptions;
  readonly keys: readonly (keyof AnyOptions)[];
  /** Check the shapes. */
  readonly describe: (options: AnyOptions) => Described;
}

/** Everything about a call, checked. */
export interface CheckedRoutine extends Described {
  readonly letters: RoutineLetters;
  readonly alpha: Scalar;
  readonly beta: Scalar;
  /** What the result starts from: C, or B of trsm and trmm; null for zeros. */
  readonly start: DistributedArray | null;
  /** Whether the result is written into `start`. */
  readonly inplace: boolean;
  readonly order: "C" | "F";
  readonly distribution: Distribution;
}

const TRANSPOSITIONS: readonly Transposition[] = ["none", "transpose", "conjugate_transpose"];

/** Check a call. Local. */
export function checkRoutine(
  runtime: Runtime,
  { routine, given, options: asked, keys, describe }: RoutineRequest,
): CheckedRoutine {
  const options = readOptions(`the options of ${routine}`, asked, keys);
  given.forEach((array, i) => checkMatrix("ab"[i], array, runtime));
  const { c, side = "left", uplo = "lower", trans = "none", diag = "non_unit", inplace = false } = options;
  checkName("side", side, ["left", "right"]);
  checkName("uplo", uplo, ["lower", "upper"]);
  checkName("trans", trans, TRANSPOSITIONS);
  checkName("diag", diag, ["non_unit", "unit"]);
  checkBoolean("inplace", inplace);
  if (c !== undefined) checkMatrix("c", c, runtime);
  const described = describe(options);
  const { kind, symmetricTwin } = traitsOf(routine);
  const isTriangular = kind === "triangular";
  const start = isTriangular ? described.like : c ?? null;
  const arrays = [...given, c].filter((array) => array !== undefined) as DistributedArray[];
  checkTypes(routine, arrays, trans);
  if (!isTriangular) checkAddend(options);
  if (c !== undefined) checkAddendShape(c, described.shape);
  const { shape, pattern } = described;
  const distribution = resultDistribution(options.distribution, start, inplace, shape, runtime.size, pattern);
  const { dtype } = described.a;
  const realForDType = dtypeInfo(dtype).isComplex ? null : `the result is ${dtype}`;
  const realForUpdate = isUpdate(routine) && symmetricTwin
    ? `${routine} keeps its result Hermitian with a real one`
    : null;
  const checked: CheckedRoutine = {
    ...described,
    letters: { side, uplo, trans: realTransposition(trans, dtype), diag },
    alpha: checkScalar(
      "alpha",
      options.alpha === undefined ? 1 : options.alpha,
      (kind === "rank_k" ? realForUpdate : null) ?? realForDType,
    ),
    beta: checkScalar("beta", options.beta === undefined ? 0 : options.beta, realForUpdate ?? realForDType),
    start,
    inplace,
    order: start?.order ?? described.like.order,
    distribution,
  };
  const { a, b } = described;
  if (inplace) checkAliasing(isTriangular ? "b" : "c", start!, { a, b });
  return checked;
}

/** A real matrix is its own conjugate. */
function realTransposition(trans: Transposition, dtype: DType): Transposition {
  return trans === "conjugate_transpose" && !dtypeInfo(dtype).isComplex ? "transpose" : trans;
}

/** Refuse a matrix that is not square and as large as B wants it. */
export function checkSquare(name: string, { shape: [rows, columns] }: DistributedArray, extent: number): void {
  if (rows === extent && columns === extent) return;
  throw new ShapeError(`${name} has shape ${text([rows, columns])}, but must be ${extent} x ${extent}, to fit b.`);
}

/** Refuse factors of different shapes. */
export function checkSameShape(a: DistributedArray, b: DistributedArray): void {
  if (a.shape.join() === b.shape.join()) return;
  throw new ShapeError(`b has shape ${text(b.shape)}, but must have that of a, ${text(a.shape)}.`);
}

function checkTypes(routine: PblasRoutine, arrays: readonly DistributedArray[], trans: Transposition): void {
  checkBlasTypes(routine, arrays);
  const [{ dtype }] = arrays;
  const { isComplex } = dtypeInfo(dtype);
  const { symmetricTwin } = traitsOf(routine);
  if (symmetricTwin && !isComplex) {
    throw new DTypeError(
      `${routine} is for complex matrices; got ${dtype}. Use ${symmetricTwin}, which is the same for real ones.`,
    );
  }
  if (!isUpdate(routine)) return;
  if (symmetricTwin && trans === "transpose") {
    throw new TypeError(
      `${routine} takes trans "none" or "conjugate_transpose"; got "transpose". Use ${symmetricTwin} for that.`,
    );
  }
  if (!symmetricTwin && isComplex && trans === "conjugate_transpose") {
    throw new TypeError(
      `${routine} takes trans "none" or "transpose" for complex matrices. Use ${hermitianTwin(routine)} to conjugate.`,
    );
  }
}

function hermitianTwin(routine: PblasRoutine): string {
  return Object.entries(PBLAS_ROUTINES).find(([, { symmetricTwin }]) => symmetricTwin === routine)![0];
}

/** What all ranks must agree on. */
export function routineFacts(checked: CheckedRoutine): Record<string, unknown> {
  const { a, b, start, letters, alpha, beta, inplace, distribution } = checked;
  const fact = (array: DistributedArray | null) =>
    array === null ? "none" : `${matrixFact(array)}, ${array.memory} memory`;
  return {
    a: fact(a),
    b: fact(b),
    result: fact(start),
    ...letters,
    alpha: scalarFact(alpha),
    beta: scalarFact(beta),
    inplace,
    distribution: String(distribution),
  };
}
