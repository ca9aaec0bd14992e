/**
 * What follows from the operands when it is left out: D's distribution and memory order.
 *
 * @module
 */
import { checkDistribution } from "../../distribution/distribution.ts";
import { BlockCyclic, BlockNonCyclic, type Distribution, Replicated, Slab, Sliced } from "../../distribution/mod.ts";
import { ShapeError } from "../../errors.ts";
import type { Operation } from "../../blas/transposition.ts";
import { checkBoolean, checkKeys, describe, keysOf } from "../../options.ts";
import type { Operations } from "./qualifiers.ts";

/** Which dimensions of a matrix are divided among ranks. */
type Divided = "rows" | "columns" | "both" | "none" | "irregular";

function divided(distribution: Distribution): Divided {
  if (distribution.isReplicated) return "none";
  if (distribution instanceof Slab) return distribution.partitionDimension === 0 ? "rows" : "columns";
  if (!distribution.grid || distribution instanceof Sliced) return "irregular";
  const { line } = distribution.grid;
  if (line === null || distribution.grid.size === 1) return "both";
  return line === 0 ? "rows" : "columns";
}

/**
 * The distribution of D, bound, that needs the least communication for factors distributed as `a` and `b`.
 *
 * | op(A), m x k | op(B), k x n | D, m x n | how |
 * |---|---|---|---|
 * | replicated | replicated | replicated | no communication |
 * | on m | anything 1-D | on m, as A | all-gather of B (none if B is replicated) |
 * | on k or replicated | on n | on n, as B | all-gather of A (none if A is replicated) |
 * | on k or replicated | on k | on n, as B on k | reduce-scatter of D |
 * | on k | replicated | on n, as A on k | reduce-scatter of D |
 * | 2-D | any, or the reverse | blocks on the grid of A, or else of B | p?gemm or cuBLASMp's SUMMA |
 * | a `Box` or `Sliced` | any, or the reverse | `Slab.X` | by redistribution |
 *
 * @throws {TypeError} if a factor has no distribution, the operations are none, or the shape is not that of a matrix
 * @throws {ShapeError} if a factor is no matrix
 * @throws {DistributionError} if the result's grid has more processes than there are ranks
 *
 * @example
 * ```ts
 * import { inferDistribution, Slab } from "@distmath/distmath";
 * const operations = { a: { transpose: true, conjugate: false }, b: { transpose: false, conjugate: false } };
 * const [a, b] = [Slab.Y.bind([1024, 128], 2), Slab.Y.bind([1024, 512], 2)];
 * console.assert(inferDistribution(a, b, operations, [128, 512], 2).equals(Slab.X));
 * ```
 */
export function inferDistribution(
  a: Distribution,
  b: Distribution,
  operations: Operations,
  shape: readonly [number, number],
  size: number,
): Distribution {
  checkFactors({ a, b }, operations);
  if (!Array.isArray(shape) || shape.length !== 2) {
    throw new TypeError(`The shape of the product must be [rows, columns], not ${describe(shape)}.`);
  }
  const left = operations.a.transpose ? a.transpose() : a;
  const right = operations.b.transpose ? b.transpose() : b;
  return patternOf(a, b, left, right).bind(shape, size);
}

const FACTORS = keysOf<Operations>({ a: true, b: true });
const OPERATION_KEYS = keysOf<Operation>({ transpose: true, conjugate: true });

/** As {@linkcode checkKeys}, of what may not be left out. */
function checkGiven(what: string, given: unknown, allowed: readonly string[]): void {
  if (given === undefined) throw new TypeError(`${what} must be an object; got undefined.`);
  checkKeys(what, given, allowed);
}

/** Refuse what are no distributions of matrices, and no operations on them. */
function checkFactors(factors: Readonly<Record<"a" | "b", Distribution>>, operations: Operations): void {
  checkGiven("The operations", operations, FACTORS);
  for (const name of FACTORS) {
    const distribution = factors[name];
    checkDistribution(distribution, `The distribution of ${name}`);
    const dimensions = distribution.globalShape?.length ?? distribution.dimensions ?? 2;
    if (dimensions !== 2) {
      throw new ShapeError(`${name} is distributed as ${distribution}, in ${dimensions} dimensions; matrices have 2.`);
    }
    checkGiven(`operations.${name}`, operations[name], OPERATION_KEYS);
    checkBoolean(`operations.${name}.transpose`, operations[name].transpose);
  }
}

/** The same for unbound distributions; `left` and `right` are those of op(A) and op(B). */
function patternOf(a: Distribution, b: Distribution, left: Distribution, right: Distribution): Distribution {
  const [l, r] = [divided(left), divided(right)];
  if (l === "irregular" || r === "irregular") return Slab.X;
  if (l === "both") return blocks(a, left, right);
  if (r === "both") return blocks(b, left, right);
  if (l === "none" && r === "none") return Replicated;
  if (l === "rows") return left;
  if (r === "columns") return right;
  return r === "rows" ? right.transpose() : left;
}

/** Blocks on the grid of one of the factors as stored, as large as theirs along m and n. */
function blocks(onGridOf: Distribution, left: Distribution, right: Distribution): Distribution {
  const grid = onGridOf.grid!;
  const rows = blockSize(left, 0) ?? blockSize(right, 0);
  const columns = blockSize(right, 1) ?? blockSize(left, 1);
  if (rows === null || columns === null) return new BlockNonCyclic(grid);
  return new BlockCyclic(grid, [rows, columns]);
}

function blockSize(distribution: Distribution, dimension: number): number | null {
  return distribution instanceof BlockCyclic ? distribution.blockSizes[dimension] : null;
}

/** The memory order of D: that of C, else the one asked for, else `F` if A and B both have it, else `C`. */
export function inferOrder(
  orders: { readonly a: "C" | "F"; readonly b: "C" | "F"; readonly c: "C" | "F" | null },
  asked: "C" | "F" | undefined,
): "C" | "F" {
  return orders.c ?? asked ?? (orders.a === "F" && orders.b === "F" ? "F" : "C");
}
