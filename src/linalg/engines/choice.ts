/**
 * Which engine multiplies, and whether it can do what is asked.
 *
 * @module
 */
import { type DType, dtypeInfo, dtypes } from "../../dtype/dtype.ts";
import { ConfigurationError, DTypeError } from "../../errors.ts";
import { checkBoolean, checkName } from "../../options.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { CheckedProduct, OrderChoice } from "../matmul/checked_product.ts";
import { cublasMpEngine } from "./cublasmp/engine.ts";
import { isCheaper } from "./cublasmp/paths.ts";
import { planEmptyProduct } from "./empty_product.ts";
import type { EnginePlan, EngineRequest, MatmulEngine } from "./engine.ts";
import { scalapackEngine } from "./scalapack/engine.ts";
import { describeEpilog, type Epilog, epilogNamed } from "../matmul/epilog.ts";
import {
  ALGORITHM_NAMES,
  type AlgorithmName,
  ENGINE_NAMES,
  type MatmulOptions,
  type PlanOptions,
} from "../matmul/options.ts";
import { isEmpty, type MatmulProblem } from "../matmul/problem.ts";

/**
 * The engine that was asked for, or the one for this runtime's device.
 *
 * @throws {TypeError} if there is no such engine
 * @throws {ConfigurationError} if this machine does not have it
 */
export function chooseEngine(runtime: Runtime, { engine = "auto" }: MatmulOptions): MatmulEngine {
  checkName("engine", engine, ENGINE_NAMES);
  const own = runtime.device.kind === "gpu" ? cublasMpEngine(runtime) : scalapackEngine;
  if (engine === "auto" || engine === own.name) return own;
  const what = engine === "overlap"
    ? "is not part of this version"
    : `multiplies on ${engine === scalapackEngine.name ? "CPUs" : "GPUs"}`;
  throw new ConfigurationError(
    `engine ${engine} is not available: it ${what}, and this runtime's device is ${runtime.device.name} ` +
      `(${runtime.device.kind}). Leave engine out, or pass "${own.name}".`,
  );
}

/** The order of D that costs the engine less, if it tells costs. */
export function orderChoice(runtime: Runtime, options: MatmulOptions): OrderChoice {
  return (problemOf, otherwise) => {
    const engine = chooseEngine(runtime, options);
    const name = epilogNamed(options.epilog);
    const costOf = (problem: MatmulProblem) => {
      if (isEmpty(problem)) return null;
      const epilog = describeEpilog(name, { auxDType: problem.d.dtype, resultAmax: options.resultAmax ?? false });
      return engine.cost?.({ problem, epilog, algorithm: options.algorithm ?? "default" }) ?? null;
    };
    const other = otherwise === "C" ? "F" : "C";
    const [usual, unusual] = [costOf(problemOf(otherwise)), costOf(problemOf(other))];
    if (unusual === null) return otherwise;
    return usual === null || isCheaper(unusual, usual) ? other : otherwise;
  };
}

/** What an engine is asked to plan. */
export function requestOf(
  { problem, types, scaling }: CheckedProduct,
  epilog: Epilog,
  options: PlanOptions,
): EngineRequest {
  const { algorithm = "default", communicationSmCount, communicationType, allowMulticast } = options;
  return {
    problem,
    epilog,
    algorithm,
    scaling: scaling && problem.transposed ? { a: scaling.b, b: scaling.a } : scaling,
    settings: {
      computeType: types.computeType,
      ...communicationSmCount !== undefined && { communicationSmCount },
      ...communicationType !== undefined && { communicationType },
      ...allowMulticast !== undefined && { allowMulticast },
    },
  };
}

/** The plan of an engine; a product without elements to multiply needs none. Local. */
export function planProduct(engine: MatmulEngine, runtime: Runtime, request: EngineRequest): EnginePlan {
  return isEmpty(request.problem) ? planEmptyProduct(runtime, request, engine.name) : engine.plan(runtime, request);
}

/** The algorithms of an engine that are worth measuring for a product. */
export function algorithmsToTry(engine: MatmulEngine, { problem }: CheckedProduct): readonly AlgorithmName[] {
  return isEmpty(problem) ? [] : engine.tuned ?? ALGORITHM_NAMES;
}

/**
 * Refuse what an engine cannot do.
 *
 * @throws {TypeError | RangeError | DTypeError} if the options are none
 * @throws {ConfigurationError} with the engine's reason, and what to do instead
 */
export function checkAlgorithm(
  engine: MatmulEngine,
  product: CheckedProduct,
  epilog: Epilog,
  options: PlanOptions,
): void {
  const { algorithm, communicationSmCount, communicationType, allowMulticast } = options;
  checkName("algorithm", algorithm, ALGORITHM_NAMES);
  if (communicationSmCount !== undefined && !(Number.isInteger(communicationSmCount) && communicationSmCount > 0)) {
    throw new RangeError(`communicationSmCount must be a whole number from 1; got ${communicationSmCount}.`);
  }
  checkBoolean("allowMulticast", allowMulticast);
  checkCommunicationType(communicationType, product);
  const refusal = engine.supports(requestOf(product, epilog, options));
  if (refusal) throw new ConfigurationError(`engine ${engine.name}: ${refusal.reason}. ${refusal.instead}`);
}

/** cuBLASMp wants a type between those of D and of alpha. */
function checkCommunicationType(communicationType: DType | undefined, { types }: CheckedProduct): void {
  checkName("communicationType", communicationType, dtypes);
  if (communicationType === undefined) return;
  const { itemSize, isInteger, isComplex } = dtypeInfo(communicationType);
  const [narrowest, widest] = [dtypeInfo(types.d).itemSize, dtypeInfo(types.accumulator).itemSize];
  const isReal = !dtypeInfo(types.accumulator).isComplex;
  if (isInteger || isComplex === isReal || itemSize < narrowest || itemSize > widest) {
    throw new DTypeError(
      `communicationType ${communicationType} does not fit: it must be a type between D's, ${types.d}, and that of the ` +
        `sums, ${types.accumulator}.`,
    );
  }
}
