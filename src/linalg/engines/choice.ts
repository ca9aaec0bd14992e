/**
 * Which engine multiplies, and whether it can do what is asked.
 *
 * The engine that was asked for; else, of those for the runtime's device that can run the product, the one that costs
 * least.
 *
 * @module
 */
import { type DType, dtypeInfo, dtypes } from "../../dtype/dtype.ts";
import { ConfigurationError, DTypeError } from "../../errors.ts";
import { checkBoolean, checkName, describe } from "../../options.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { CheckedProduct, OrderChoice } from "../matmul/checked_product.ts";
import { isCheaper } from "./cost.ts";
import { planEmptyProduct } from "./host/empty_product.ts";
import type { EnginePlan, EngineRequest, MatmulEngine, Refusal } from "./engine.ts";
import { describeEpilog, type Epilog, epilogNamed } from "../matmul/epilog.ts";
import type { MatmulOptions, PlanOptions } from "../matmul/options.ts";
import { isEmpty, type MatmulProblem } from "../matmul/problem.ts";
import type { PblasEngine } from "../pblas/call.ts";
import { loadRates } from "./machine_rates.ts";
import { keep, knownOf, lookUp, type Measured } from "./measurements.ts";
import { type FasterPlan, RecordedPlan } from "./recorded_plan.ts";
import { type AlgorithmName, algorithmNames, type EngineName, enginesFor } from "./registry.ts";

/** Null if an engine can run a request. */
export function refusalOf(engine: MatmulEngine, runtime: Runtime, request: EngineRequest): Refusal | null {
  const { algorithm } = request;
  if (algorithm === "default" || engine.algorithms.includes(algorithm)) return engine.supports(request, runtime);
  return {
    reason: `there is no algorithm ${algorithm} on ${engine.device.toUpperCase()}s`,
    instead: `Use default, or one of ${engine.algorithms.join(", ")}.`,
  };
}

/** The cheapest of some engines that can run a request; undefined if none can. */
function cheapest(
  candidates: readonly MatmulEngine[],
  runtime: Runtime,
  request: EngineRequest,
): MatmulEngine | undefined {
  const able = candidates.filter((engine) => refusalOf(engine, runtime, request) === null);
  if (able.length < 2 || isEmpty(request.problem)) return able[0];
  if (able.every(({ seconds }) => seconds)) {
    const times = able.map((engine) => engine.seconds!(request, runtime));
    return able[times.indexOf(Math.min(...times))];
  }
  const costs = able.map((engine) => engine.cost?.(request, runtime) ?? Infinity);
  return able[costs.indexOf(Math.min(...costs))];
}

/** The order of D that costs the engine less, if it tells costs. */
export function orderChoice(runtime: Runtime, options: MatmulOptions): OrderChoice {
  return (problemOf, otherwise) => {
    const own = enginesFor(runtime, options.engine);
    const name = epilogNamed(options.epilog);
    const requestFor = (problem: MatmulProblem): EngineRequest => {
      const epilog = describeEpilog(name, { auxDType: problem.d.dtype, resultAmax: options.resultAmax ?? false });
      return { problem, epilog, algorithm: options.algorithm ?? "default" };
    };
    if (own.every(({ costOfOrder }) => !costOfOrder)) return otherwise;
    const request = requestFor(problemOf(otherwise));
    if (isEmpty(request.problem)) return otherwise;
    const engine = own.length === 1 ? own[0] : cheapest(own, runtime, request) ?? own[0];
    const other = otherwise === "C" ? "F" : "C";
    const usual = engine.costOfOrder?.(request) ?? null;
    const unusual = engine.costOfOrder?.(requestFor(problemOf(other))) ?? null;
    if (unusual === null) return otherwise;
    return usual === null || isCheaper(unusual, usual) ? other : otherwise;
  };
}

/** What an engine is asked to plan. */
export function requestOf(
  { problem, types, scaling, isInSymmetricMemory }: CheckedProduct,
  epilog: Epilog,
  options: PlanOptions,
  variant?: string,
): EngineRequest {
  const { algorithm = "default", communicationSmCount, communicationType, allowMulticast } = options;
  return {
    problem,
    epilog,
    algorithm,
    ...variant !== undefined && { variant },
    scaling: scaling && problem.transposed ? { a: scaling.b, b: scaling.a } : scaling,
    settings: {
      computeType: types.computeType,
      ...communicationSmCount !== undefined && { communicationSmCount },
      ...communicationType !== undefined && { communicationType },
      ...allowMulticast !== undefined && { allowMulticast },
      ...isInSymmetricMemory && { isInSymmetricMemory },
    },
  };
}

/**
 * The plan of an engine, or, on GPUs, of what was measured to be faster, if that is an engine that was asked for; a product
 * without elements to multiply needs none. Local.
 */
export function planProduct(
  engine: MatmulEngine,
  runtime: Runtime,
  request: EngineRequest,
  options: MatmulOptions = {},
): EnginePlan {
  if (isEmpty(request.problem)) return planEmptyProduct(runtime, request, engine.name);
  if (runtime.stream === null) return engine.plan(runtime, request);
  const own = enginesFor(runtime, options.engine);
  const faster = (measured: readonly Measured[], planned: Measured | null): FasterPlan | null => {
    const best = fastestOf(measured, own, runtime, request);
    if (best === null) return null;
    return { make: best === planned ? null : () => planMeasured(best, own, runtime, request), seconds: best.seconds };
  };
  const known = knownOf(runtime, request);
  if (known === undefined) {
    const plan = engine.plan(runtime, request);
    return new RecordedPlan(runtime, plan, () => {
      loadRates(runtime);
      return faster(lookUp(runtime, request, versionsOf(runtime)), null);
    });
  }
  const best = fastestOf(known, own, runtime, request);
  const plan = best === null ? engine.plan(runtime, request) : planMeasured(best, own, runtime, request);
  return new RecordedPlan(runtime, plan, () => faster(known, best));
}

/** The fastest of what was measured that may be taken for a request; null if nothing may. */
function fastestOf(
  measured: readonly Measured[],
  own: readonly MatmulEngine[],
  runtime: Runtime,
  request: EngineRequest,
): Measured | null {
  const sorted = measured.toSorted((one, other) => one.seconds - other.seconds);
  return sorted.find(({ engine: name, algorithm, variant }) => {
    const engine = own.find((one) => one.name === name);
    if (engine === undefined || (request.algorithm !== "default" && request.algorithm !== algorithm)) return false;
    if (request.variant !== undefined && request.variant !== variant) return false;
    if (refusalOf(engine, runtime, { ...request, algorithm }) !== null) return false;
    return variant === undefined || engine.variants?.({ ...request, algorithm }, runtime)?.includes(variant) === true;
  }) ?? null;
}

function planMeasured(
  { engine: name, algorithm, variant }: Measured,
  own: readonly MatmulEngine[],
  runtime: Runtime,
  request: EngineRequest,
): EnginePlan {
  const engine = own.find((one) => one.name === name)!;
  engine.open?.(runtime);
  return engine.plan(runtime, { ...request, algorithm, ...variant !== undefined && { variant } });
}

/** The libraries of all engines for a runtime's device; what is not installed has no version. */
function versionsOf(runtime: Runtime): string[] {
  return enginesFor(runtime).map((engine) => {
    try {
      return engine.open?.(runtime) ?? "";
    } catch (error) {
      if (error instanceof ConfigurationError) return "";
      throw error;
    }
  });
}

/** Keep what was measured of a product for its next plan. The same on all ranks. */
export function remember(
  { runtime, ...product }: CheckedProduct,
  epilog: Epilog,
  options: PlanOptions,
  measured: readonly (Trial & { readonly seconds: number })[],
): void {
  if (runtime.stream === null || measured.length === 0) return;
  const request = requestOf({ runtime, ...product }, epilog, options);
  const all = measured.map(({ engine, options: { algorithm }, variant, seconds }): Measured => (
    { engine: engine.name, algorithm, ...variant !== undefined && { variant }, seconds }
  ));
  // What another engine took before stays.
  const names = new Set(all.map(({ engine }) => engine));
  const others = (knownOf(runtime, request) ?? []).filter(({ engine }) => !names.has(engine));
  keep(runtime, request, versionsOf(runtime), [...all, ...others]);
}

/** An engine, by one of its algorithms, in one of its variants. */
export interface Trial {
  readonly engine: MatmulEngine;
  readonly variant?: string;
  /** The options that ask for both. */
  readonly options: PlanOptions & { readonly engine: EngineName; readonly algorithm: AlgorithmName };
}

/** Every engine, algorithm and variant that is worth measuring for a product; none if there is nothing to multiply. */
export function trials(
  runtime: Runtime,
  product: CheckedProduct,
  epilog: Epilog,
  options: MatmulOptions,
): readonly Trial[] {
  if (isEmpty(product.problem)) return [];
  return enginesFor(runtime, options.engine).flatMap((engine) =>
    (engine.tuned ?? engine.algorithms).flatMap((algorithm) => {
      const asking = { ...options, engine: engine.name, algorithm } as Trial["options"];
      const request = requestOf(product, epilog, asking);
      if (refusalOf(engine, runtime, request) !== null) return [];
      const variants = engine.variants?.(request, runtime) ?? [undefined];
      return variants.map((variant) => ({ engine, options: asking, ...variant !== undefined && { variant } }));
    })
  );
}

/** Have the engines of trials compile and measure what these need. Collective. */
export function getReady(
  runtime: Runtime,
  product: CheckedProduct,
  epilog: Epilog,
  all: readonly Trial[],
): void {
  for (const engine of new Set(all.map(({ engine }) => engine))) {
    const own = all.filter((trial) => trial.engine === engine);
    engine.compile?.(own.map(({ options, variant }) => requestOf(product, epilog, options, variant)), runtime);
    engine.calibrate?.(runtime);
  }
}

/**
 * The engine that runs a product, refusing what none can do.
 *
 * @throws {TypeError | RangeError | DTypeError} if the options are none
 * @throws {ConfigurationError} with an engine's reason, and what to do instead
 */
export function chooseEngine(
  runtime: Runtime,
  product: CheckedProduct,
  epilog: Epilog,
  options: MatmulOptions,
): MatmulEngine {
  const { algorithm, communicationSmCount, communicationType, allowMulticast } = options;
  const own = enginesFor(runtime, options.engine);
  checkName("algorithm", algorithm, algorithmNames());
  if (communicationSmCount !== undefined) checkSmCount(communicationSmCount);
  checkBoolean("allowMulticast", allowMulticast);
  checkCommunicationType(communicationType, product);
  const request = requestOf(product, epilog, options);
  const engine = cheapest(own, runtime, request);
  if (engine) return engine;
  // Of those that have the algorithm, if any has.
  const [refusing] = own.toSorted((one, other) => Number(has(other, request)) - Number(has(one, request)));
  const { reason, instead } = refusalOf(refusing, runtime, request)!;
  throw new ConfigurationError(`engine ${refusing.name}: ${reason}. ${instead}`);
}

/** cuBLASMp takes it as an int32. */
const MOST_MULTIPROCESSORS = 2 ** 31 - 1;

function checkSmCount(count: number): void {
  if (Number.isInteger(count) && count >= 1 && count <= MOST_MULTIPROCESSORS) return;
  throw new RangeError(
    `communicationSmCount must be a whole number from 1 to ${MOST_MULTIPROCESSORS}; got ${describe(count)}.`,
  );
}

function has({ algorithms }: MatmulEngine, { algorithm }: EngineRequest): boolean {
  return algorithms.includes(algorithm);
}

/** The engines for a runtime's device whose plans tell what is done when, as an option takes them. */
export function tellingEngines(runtime: Runtime): string {
  return enginesFor(runtime).filter(({ hasTimelines }) => hasTimelines).map(({ name }) => `"${name}"`).join(" or ");
}

/** What runs PBLAS routines on this runtime's device. */
export function pblasEngineOf(runtime: Runtime): PblasEngine {
  return enginesFor(runtime).find(({ pblas }) => pblas)!.pblas!;
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
