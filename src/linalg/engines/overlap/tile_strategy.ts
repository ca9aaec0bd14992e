/**
 * Which products a tile kernel runs as they are, and how: pure functions of the problem, so that all ranks choose alike.
 *
 * The kernel's D lies row by row, the problem's column by column: what it multiplies is the transpose, with A and B
 * exchanged.
 *
 * @module
 */
import { dtypeInfo } from "../../../dtype/dtype.ts";
import { TILE_SHAPES, type TileDType, type TileShapeName } from "../../../overlap/executors/tile/configuration.ts";
import { evenParts, lengthOf, type Part, type Partition } from "../../../overlap/partition.ts";
import type { TileProblem, TileVariant } from "../../../overlap/tile_order.ts";
import type { MatmulProblem } from "../../matmul/problem.ts";
import type { EngineRequest, Refusal } from "../engine.ts";
import type { OneDimensionalStrategy } from "../host/one_dimensional.ts";
import { hostPartition, hostStrategy } from "./host_strategy.ts";

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
}

const CHANGE = "Leave engine out: cublasmp takes the product.";

const sameParts = (some: readonly Part[], others: readonly Part[]) =>
  some.every((part, i) =>
    lengthOf(part) === lengthOf(others[i]) && (lengthOf(part) === 0 || part.start === others[i].start)
  );

/** What a tile kernel does, or why it cannot. */
export function tileStrategy(request: EngineRequest): TileStrategy | Refusal {
  const { problem, epilog, algorithm, scaling } = request;
  const { a, b, c, d, m, n, k, accumulator } = problem;
  const refuse = (reason: string): Refusal => ({ reason, instead: CHANGE });
  const { dtype } = a;
  if ((dtype !== "bfloat16" && dtype !== "float16") || b.dtype !== dtype || d.dtype !== dtype) {
    const given = [a, b, d].map((matrix) => matrix.dtype).join(", ");
    return refuse(`tile kernels take bfloat16 or float16, the same for all matrices, not ${given}`);
  }
  if (accumulator !== "float32") return refuse(`tile kernels sum in float32, not in ${accumulator}`);
  if (epilog.biasGradient !== "none") return refuse(`tile kernels sum no gradient of a bias (epilog ${epilog.name})`);
  if (epilog.resultAmax || epilog.auxAmax) return refuse("tile kernels look for no largest value");
  if (epilog.activation === "gelu" && epilog.aux === "output" && epilog.auxDType !== dtype) {
    return refuse(`tile kernels write gelu's aux matrix in D's type, not in ${epilog.auxDType}`);
  }
  if (c !== null && c.dtype !== dtype) return refuse(`tile kernels add a C of D's type, not of ${c.dtype}`);
  if (scaling) return refuse("tile kernels have no scales");
  const strategy = hostStrategy(
    problem,
    algorithm,
    (one) => one.moves === 0 && hostPartition(problem, one).axis !== "k",
  );
  if (strategy === null) {
    return refuse(
      "tile kernels take matrices where they lie, gather factors along m or n, and sum factors that are divided along k; " +
        "these distributions would have to be changed",
    );
  }
  const partition = hostPartition(problem, strategy);
  const { axis, size, parts, extents, kind } = partition;
  if (!sameParts(parts, evenParts(extents[axis], size))) {
    return refuse(`tile kernels take even parts of ${problem.transposed === (axis === "m") ? "n" : "m"}`);
  }
  const problemOf = (rank: number) => tileProblem(problem, partition, dtype, rank);
  const { split } = problemOf(0);
  const [rows, columns] = split === "rows" ? [n, m] : [m, n];
  const chosen = tileVariantFor(kind, { m: rows, n: columns, k, size });
  return { strategy, partition, problemOf, ...chosen };
}

/** The kernel's problem on a rank. */
function tileProblem(
  { operationA, operationB }: MatmulProblem,
  { kind, extents, axis, fixedAxis, fixedParts, size }: Partition,
  dtype: TileDType,
  rank: number,
): TileProblem {
  const own = { ...extents, [fixedAxis]: lengthOf(fixedParts[rank]) };
  return {
    kind,
    dtype,
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

/**
 * The kernel that measured best on such a product (`bench/results/overlap_h200.json`): `m` is the extent that is split,
 * all extents are those of the whole product.
 */
export function tileVariantFor(
  kind: Partition["kind"],
  { m, n, k, size }: Readonly<Record<"m" | "n" | "k" | "size", number>>,
): { shape: TileShapeName; variant: TileVariant } {
  const of = (shape: TileShapeName, more: Partial<TileVariant> = {}) => ({
    shape,
    variant: { shape: TILE_SHAPES[shape], ...more },
  });
  const isSmall = m <= 512 || (m <= 2048 && size >= 4);
  if (kind === "gather") return isSmall ? of("narrow") : of(n / size >= 12_288 ? "roomy" : "wide");
  const terms = k / size;
  if (kind === "reduce") {
    if (isSmall) return of("narrow");
    if (m <= 4096) return of("wide");
    return of(n <= 8192 && terms <= 4096 ? "medium" : "roomy");
  }
  if (m <= 128) return of("flat", { isExchange: true });
  if (m <= 256) return of("narrow", { isExchange: true });
  if (m <= 2048) return of("narrow");
  if (m <= 4096) return of("wide");
  if (terms <= 4096) return of("medium");
  return n >= 8192 ? of("roomy", { lead: Infinity }) : of("wide");
}

/** Bytes that leave ranks, over all ranks. */
export function tileTraffic({ strategy }: TileStrategy, { d }: MatmulProblem): number {
  return strategy.traffic * dtypeInfo(d.dtype).itemSize / 4;
}
