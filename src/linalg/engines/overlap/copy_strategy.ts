/**
 * Which product cuBLASLt and copy engines run on each rank for a problem, or why they cannot. Pure functions of the problem,
 * so that all ranks choose alike.
 *
 * @module
 */
import { COMPUTE_CODES } from "../../../blas/cublas_codes.ts";
import { type DType, dtypeInfo } from "../../../dtype/dtype.ts";
import { canSum } from "../../../gpu/kernels/sum_kernels.ts";
import { MOST_MEETING } from "../../../gpu/kernels/flag_kernels.ts";
import { durationOf, limitOf, predictStages, type Rates, slownessOf } from "../../../overlap/cost_model.ts";
import type { CopyEngineProblem, CopyEngineVariant } from "../../../overlap/executors/copy_engine/product.ts";
import { lengthOf, type Part, type Partition } from "../../../overlap/partition.ts";
import type { Interval } from "../../../runtime/timeline.ts";
import { type ComputeType, defaultComputeType } from "../../matmul/compute_type.ts";
import type { MatmulProblem } from "../../matmul/problem.ts";
import { isQuantized } from "../../matmul/quantization.ts";
import type { EngineRequest, Refusal } from "../engine.ts";
import type { OneDimensionalStrategy } from "../host/one_dimensional.ts";
import { hostPartition, notInPlace, strategyInPlace } from "./host_strategy.ts";

/** What copy engines and cuBLASLt do for a problem. */
export interface CopyStrategy {
  /** The algorithm, and where matrices lie. */
  readonly strategy: OneDimensionalStrategy;
  /** What is multiplied on a rank. */
  readonly problemOf: (rank: number) => CopyEngineProblem;
  /** How. */
  readonly variant: CopyEngineVariant;
  /** What reports and records call it. */
  readonly name: string;
}

const CHANGE = "Leave engine out: cublasmp takes the product.";

/** How it is done, by the name that reports and records use. */
const VARIANTS: Readonly<Record<Partition["kind"], Readonly<Record<string, CopyEngineVariant>>>> = {
  gather: {
    "copies: push": { way: "push", algorithm: "fuller" },
    "copies: push, second algorithm": { way: "push", algorithm: 1 },
  },
  reduce: {
    "copies: ring": { way: "ring", pieces: 2 },
    "copies: ring, second algorithm": { way: "ring", pieces: 2, algorithm: 1 },
    "copies: scatter": { way: "scatter" },
  },
  all_reduce: {
    "copies: ring": { way: "ring", pieces: 2 },
    // What is summed last travels back when there is nothing left to multiply.
    "copies: ring, 3 pieces": { way: "ring", pieces: [5, 5, 4] },
    "copies: ring, 4 pieces": { way: "ring", pieces: 4 },
    "copies: scatter": { way: "scatter" },
  },
};

/** Whether a name is one of a variant of copy engines. */
export function isCopyVariant(name: string): boolean {
  return name.startsWith("copies: ");
}

/** Compute types that cuBLASLt has wherever it has their matrices, and that sum as wide as alpha and beta are. */
const COPY_COMPUTE_TYPES: readonly ComputeType[] = [
  "float32",
  "float32_pedantic",
  "float32_fast_float16",
  "float32_fast_bfloat16",
  "float32_fast_tf32",
  "float64",
  "float64_pedantic",
];

/** Elements of 8 bits that tensor cores take at a time. */
const NARROW_MULTIPLE = 16;

/** The type in which sums travel: D's, or for a D of 8 bits the one that C would have. */
function sumTypeOf({ c, d }: MatmulProblem): DType {
  return isQuantized(d.dtype) ? c?.dtype ?? "bfloat16" : d.dtype;
}

/** What copy engines and cuBLASLt do, or why they cannot. */
export function copyStrategy(request: EngineRequest): CopyStrategy | Refusal {
  const { problem, epilog, algorithm, scaling, settings = {} } = request;
  const { a, b, c, d, accumulator, operationA, operationB } = problem;
  const refuse = (reason: string): Refusal => ({ reason, instead: CHANGE });
  const hasEpilog = epilog.name !== "none" && epilog.name !== "all_reduce" || epilog.resultAmax;
  if (hasEpilog) return refuse(`copy engines have no epilogs (${epilog.name})`);
  if (scaling) return refuse("copy engines take one scale a matrix");
  const sumType = sumTypeOf(problem);
  const { communicationType = sumType, communicationSmCount } = settings;
  const computeType = settings.computeType ?? defaultComputeType(accumulator);
  if (communicationType !== sumType) return refuse(`partial sums travel in ${sumType}, not in ${communicationType}`);
  if (communicationSmCount !== undefined) return refuse("copy engines need no multiprocessors for communication");
  if (!COPY_COMPUTE_TYPES.includes(computeType)) {
    return refuse(`copy engines do not compute by computeType ${computeType}`);
  }
  for (const [matrix, operation] of [[a, operationA], [b, operationB]] as const) {
    if (dtypeInfo(matrix.dtype).isComplex && operation.conjugate && !operation.transpose) {
      return refuse("cuBLASLt conjugates only what it transposes");
    }
  }
  const strategy = strategyInPlace(problem, algorithm);
  if (strategy === null) return refuse(notInPlace("copy engines"));
  const partition = hostPartition(problem, strategy);
  const { kind, size, fixedParts, fixedAxis, parts } = partition;
  if (size > MOST_MEETING) return refuse(`at most ${MOST_MEETING} ranks meet, not ${size}`);
  const isEmptyPart = (part: Part) => lengthOf(part) === 0;
  if (fixedParts.some(isEmptyPart)) {
    return refuse(`each rank needs a part of ${fixedAxis}, and ${fixedParts.filter(isEmptyPart).length} have none`);
  }
  const isSum = kind !== "gather";
  if (isSum && !canSum(sumType)) return refuse(`there are no sums of ${sumType}`);
  if (isQuantized(a.dtype)) {
    const isKFirst = operationA.transpose && !operationB.transpose;
    if (!isKFirst) return refuse("8-bit factors have to lie with k in sequence");
    const extents = [
      problem.m,
      problem.n,
      problem.k,
      ...[...parts, ...fixedParts].flatMap(({ start, end }) => [start, end]),
    ];
    const step = isSum ? 2 * NARROW_MULTIPLE : NARROW_MULTIPLE;
    if (extents.some((extent) => extent % step !== 0)) {
      return refuse(`parts of 8-bit products have to begin and end at multiples of ${step}`);
    }
    if (isQuantized(d.dtype) && isSum && c !== null) return refuse("a D of 8 bits is not added to twice");
  }
  const named = VARIANTS[kind];
  const name = request.variant ?? usualCopies(partition, a.dtype, d.dtype);
  const variant = named[name];
  if (variant === undefined) throw new RangeError(`There is no variant "${name}" of copy engines.`);
  const problemOf = (rank: number): CopyEngineProblem => ({
    partition,
    rank,
    types: { a: a.dtype, b: b.dtype, c: c?.dtype ?? sumType, d: d.dtype },
    sumType,
    operationA,
    operationB,
    computeType: COMPUTE_CODES[computeType],
    scaleType: accumulator,
  });
  return { strategy, problemOf, variant, name };
}

/**
 * The variant that measured best: rings between two ranks, whatever the sum; between more of them sums of terms. What is
 * multiplied in little time has more to gain by pieces than it loses.
 */
function usualCopies({ kind, size }: Partition, factors: DType, d: DType): string {
  if (kind === "gather") return "copies: push";
  if (isQuantized(d)) return "copies: ring";
  if (size > 2) return "copies: scatter";
  return kind === "all_reduce" && dtypeInfo(factors).itemSize === 2 ? "copies: ring, 3 pieces" : "copies: ring";
}

/** The variants that are worth measuring, the usual one first. */
export function copiesWorthMeasuring({ problemOf, name }: CopyStrategy): string[] {
  const { partition: { kind }, types } = problemOf(0);
  const names = Object.keys(VARIANTS[kind]).filter((other) =>
    !(isQuantized(types.d) && other.includes("scatter")) &&
    // Halves of what 8-bit factors are divided into begin where cuBLASLt takes them; smaller pieces may not.
    !(isQuantized(types.a) && other.includes("pieces"))
  );
  return [...new Set([name, ...names])];
}

/** The bytes of an element that travels: of what all ranks get a half are sums, the other half results. */
function travellingBytes({ problemOf }: CopyStrategy): number {
  const { partition: { kind, travels }, types, sumType } = problemOf(0);
  const { itemSize } = dtypeInfo(travels === "d" ? sumType : types[travels]);
  return kind === "all_reduce" ? (itemSize + dtypeInfo(types.d).itemSize) / 2 : itemSize;
}

/** Bytes that leave ranks, over all ranks. */
export function copyTraffic(copies: CopyStrategy, { accumulator }: MatmulProblem): number {
  return copies.strategy.traffic * travellingBytes(copies) / dtypeInfo(accumulator).itemSize;
}

/** What a machine can do with a strategy's types, and the bytes of an element that travels. */
function ratesFor(copies: CopyStrategy, rates: Rates): { own: Rates; itemSize: number } {
  const { types } = copies.problemOf(0);
  return { own: { ...rates, flops: rates.flops / slownessOf(types.a) }, itemSize: travellingBytes(copies) };
}

/** What all ranks do when, by what a machine can do. */
export function predictCopies(strategy: CopyStrategy, rates: Rates): Interval[] {
  const { own, itemSize } = ratesFor(strategy, rates);
  const { variant: { way, pieces = 1 }, problemOf } = strategy;
  return predictStages(problemOf(0).partition, { way, pieces, canAddApart: true }, own, itemSize);
}

/** Seconds that a strategy takes by what a machine can do, and what nothing can be faster than. */
export function copySeconds(strategy: CopyStrategy, rates: Rates): { predicted: number; limit: number } {
  const { own, itemSize } = ratesFor(strategy, rates);
  const predicted = durationOf(predictCopies(strategy, rates));
  return { predicted: predicted / 1e6, limit: limitOf(strategy.problemOf(0).partition, own, itemSize) / 1e6 };
}
