/**
 * Which products a tile kernel runs as they are, and how: pure functions of the problem, so that all ranks choose alike.
 *
 * The kernel's D lies row by row, the problem's column by column: what it multiplies is the transpose, with A and B
 * exchanged.
 *
 * @module
 */
import { dtypeInfo } from "../../../dtype/dtype.ts";
import { limitOf, type Rates, slownessOf, tileSpeed } from "../../../overlap/cost_model.ts";
import {
  factorBytes,
  type FactorTypes,
  type NarrowDType,
  type TileShapeName,
} from "../../../overlap/executors/tile/configuration.ts";
import { evenParts, lengthOf, type Part, type Partition } from "../../../overlap/partition.ts";
import type { TileProblem, TileVariant } from "../../../overlap/tile_order.ts";
import type { MatmulProblem } from "../../matmul/problem.ts";
import { isQuantized } from "../../matmul/quantization.ts";
import type { EngineRequest, Refusal } from "../engine.ts";
import type { OneDimensionalStrategy } from "../host/one_dimensional.ts";
import { hostPartition, notInPlace, strategyInPlace } from "./host_strategy.ts";
import { isOwnActivation } from "./tile_epilog.ts";
import { type Extents, usualVariant, variantNamed } from "./tile_variants.ts";

/** What a tile kernel does for a problem. */
export interface TileStrategy {
  /** The algorithm, and where matrices lie. */
  readonly strategy: OneDimensionalStrategy;
  /** Where everything is. */
  readonly partition: Partition;
  /** What the kernel multiplies on a rank. */
  readonly problemOf: (rank: number) => TileProblem;
  /** The name of its tiles' shape. */
  readonly shape: TileShapeName;
  /** How it goes through them. */
  readonly variant: TileVariant;
  /** What reports call both. */
  readonly name: string;
  /** The extents of the whole product, `m` being the one that is split. */
  readonly extents: Extents;
}

const CHANGE = "Leave engine out: cublasmp takes the product.";

const sameParts = (some: readonly Part[], others: readonly Part[]) =>
  some.every((part, i) =>
    lengthOf(part) === lengthOf(others[i]) && (lengthOf(part) === 0 || part.start === others[i].start)
  );

/** What a tile kernel does, or why it cannot. */
export function tileStrategy(request: EngineRequest): TileStrategy | Refusal {
  const { problem, epilog, algorithm, scaling, settings = {} } = request;
  const { a, b, c, d, m, n, k, accumulator } = problem;
  const refuse = (reason: string): Refusal => ({ reason, instead: CHANGE });
  const types = typesOf(problem);
  if (types === null) {
    const given = [a, b, d].map((matrix) => matrix.dtype).join(", ");
    return refuse(
      "tile kernels take bfloat16 or float16, the same for all matrices, or factors of 8 bits with a result of these, " +
        `not ${given}`,
    );
  }
  const { dtype, narrow } = types;
  if (narrow !== undefined && (!problem.operationA.transpose || problem.operationB.transpose)) {
    return refuse("8-bit factors have to lie with k in sequence");
  }
  if (accumulator !== "float32") return refuse(`tile kernels sum in float32, not in ${accumulator}`);
  if (epilog.biasGradient !== "none") return refuse(`tile kernels sum no gradient of a bias (epilog ${epilog.name})`);
  if (epilog.resultAmax || epilog.auxAmax) return refuse("tile kernels look for no largest value");
  if (!isOwnActivation(epilog.activation)) return refuse(`tile kernels have no ${epilog.activation}`);
  if (epilog.activation === "gelu" && epilog.aux === "output" && epilog.auxDType !== dtype) {
    return refuse(`tile kernels write gelu's aux matrix in D's type, not in ${epilog.auxDType}`);
  }
  if (c !== null && c.dtype !== dtype) return refuse(`tile kernels add a C of D's type, not of ${c.dtype}`);
  if (scaling) return refuse("tile kernels take one scale a matrix");
  const { communicationType = dtype, communicationSmCount, computeType = "float32" } = settings;
  if (communicationType !== dtype) {
    return refuse(`tile kernels send partial sums in D's type, not in ${communicationType}`);
  }
  if (computeType !== "float32") return refuse(`tile kernels compute in float32, not by computeType ${computeType}`);
  if (communicationSmCount !== undefined) return refuse("tile kernels leave no multiprocessors to communication");
  const strategy = strategyInPlace(problem, algorithm);
  if (strategy === null) return refuse(notInPlace("tile kernels"));
  const partition = hostPartition(problem, strategy);
  const { axis, size, parts, extents, kind } = partition;
  if (!sameParts(parts, evenParts(extents[axis], size))) {
    return refuse(`tile kernels take even parts of ${problem.transposed === (axis === "m") ? "n" : "m"}`);
  }
  const problemOf = (rank: number) => tileProblem(problem, partition, types, rank);
  const { split } = problemOf(0);
  const [rows, columns] = split === "rows" ? [n, m] : [m, n];
  const extentsOfAll = { m: rows, n: columns, k, size, split };
  const chosen = variantNamed(request.variant ?? usualVariant(kind, extentsOfAll, narrow !== undefined));
  return { strategy, partition, problemOf, extents: extentsOfAll, ...chosen };
}

/** What the kernel multiplies, whose A is the problem's B; null if there is no such kernel. */
function typesOf({ a, b, d }: MatmulProblem): FactorTypes | null {
  const dtype = d.dtype;
  if (dtype !== "bfloat16" && dtype !== "float16") return null;
  if (a.dtype === dtype && b.dtype === dtype) return { dtype };
  return isQuantized(a.dtype) && isQuantized(b.dtype)
    ? { dtype, narrow: [b.dtype as NarrowDType, a.dtype as NarrowDType] }
    : null;
}

/** The kernel's problem on a rank. */
function tileProblem(
  { operationA, operationB }: MatmulProblem,
  { kind, extents, axis, fixedAxis, fixedParts, size }: Partition,
  types: FactorTypes,
  rank: number,
): TileProblem {
  const own = { ...extents, [fixedAxis]: lengthOf(fixedParts[rank]) };
  return {
    kind,
    ...types,
    m: own.n,
    n: own.m,
    k: own.k,
    isRowMajorA: !operationB.transpose,
    isRowMajorB: !operationA.transpose,
    split: axis === "n" ? "rows" : "columns",
    rank,
    size,
  };
}

/** Seconds that a strategy takes by what a machine can do, and what nothing can be faster than. */
export function tileSeconds(
  { partition, problemOf, variant, extents: { m, n } }: TileStrategy,
  given: Rates,
): { predicted: number; limit: number } {
  const { kind, size } = partition;
  const { narrow: [narrow] = [null] } = problemOf(0);
  const rates = narrow === null ? given : { ...given, flops: given.flops / slownessOf(narrow) };
  const itemSize = kind === "gather" ? factorBytes(problemOf(0)) : 2;
  const limit = limitOf(partition, rates, itemSize);
  const work = limitOf(partition, { ...rates, link: Infinity }, itemSize) / tileSpeed(variant.shape, rates);
  const sent = exchangedShare(variant, size) * limitOf(partition, { ...rates, flops: Infinity }, itemSize) * rates.link;
  // What arrives is read once more, where it is added.
  const added = kind === "gather" ? 0 : m * n * 2 * (size - 1) / (variant.isExchange ? 1 : size) / rates.memory;
  // All but what a kernel stores at others: what is gathered, partial sums that are fetched, or panels of them.
  const isAtLinkSpeed = kind === "gather" || variant.pulls || variant.panels !== undefined;
  const atLinkSpeed = !isAtLinkSpeed ? 0 : kind === "all_reduce" ? 0.5 : 1;
  const travels = sent * (atLinkSpeed / rates.link + (1 - atLinkSpeed) / rates.stores);
  return { predicted: (Math.max(work + added, travels) + rates.copyStart + 4 * rates.flag) / 1e6, limit: limit / 1e6 };
}

/** What leaves ranks over what the strategy says: all terms go to all in an exchange, not to their owner, and sums from there. */
function exchangedShare({ isExchange = false }: TileVariant, size: number): number {
  return isExchange ? size / 2 : 1;
}

/** Bytes that leave ranks, over all ranks. */
export function tileTraffic({ strategy, partition, variant }: TileStrategy, { a, d }: MatmulProblem): number {
  const { kind, size } = partition;
  const { dtype } = kind === "gather" ? a : d;
  return exchangedShare(variant, size) * strategy.traffic * dtypeInfo(dtype).itemSize / 4;
}
