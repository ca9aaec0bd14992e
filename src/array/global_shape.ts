/**
 * The shape of a whole array, found out from the shapes of its parts.
 *
 * @module
 */
import { bindTo } from "../distribution/distribution.ts";
import { Box, type Distribution, Replicated, Slab } from "../distribution/mod.ts";
import { DistributionError, ShapeError } from "../errors.ts";
import { sizeOfShape } from "./layout.ts";

/**
 * The distribution bound to the shape that parts of these shapes, one for each rank, make together: extents are summed
 * along the divided dimension of a slab and along each dimension of a process grid; a `Box` says it itself.
 *
 * @throws {ShapeError} if the parts do not fit the distribution; it names the ranks.
 * @throws {DistributionError} if the distribution does not fit the shape, is bound to another one, or cannot tell one.
 */
export function bindToParts(distribution: Distribution, parts: readonly (readonly number[])[]): Distribution {
  const bound = bindTo(distribution, globalShape(distribution, parts), parts.length);
  const wrong = parts.flatMap((shape, rank) => fits(shape, bound.localShape(rank)) ? [] : [rank]);
  if (wrong.length === 0) return bound;
  const [rank] = wrong;
  throw new ShapeError(
    `The parts do not fit ${distribution}: rank ${rank} gave [${parts[rank]}], but of a global shape of ` +
      `[${bound.globalShape}] it holds [${
        bound.localShape(rank)
      }]. Give such parts, or the distribution that yours have: ` +
      "BlockNonCyclic, with equal ones but the last, or Box.fromLocal, with any.",
    { ranks: wrong },
  );
}

/** An empty part may have any zero extents. */
function fits(given: readonly number[], wanted: readonly number[]): boolean {
  return given.join() === wanted.join() || sizeOfShape(given) === 0 && sizeOfShape(wanted) === 0;
}

function globalShape(distribution: Distribution, parts: readonly (readonly number[])[]): readonly number[] {
  const dimensions = parts[0].length;
  const others = parts.flatMap((shape, rank) => shape.length === dimensions ? [] : [rank]);
  if (others.length > 0) {
    const ranks = [0, ...others];
    throw new ShapeError(
      `The parts differ in their number of dimensions: ${
        ranks.map((rank) => `rank ${rank}: [${parts[rank]}]`).join(", ")
      }.`,
      { ranks },
    );
  }
  if (distribution === Replicated || distribution.isReplicated) return parts[0];
  if (distribution instanceof Box) {
    const filled = distribution.boxes.filter(([lower, upper]) => lower.every((start, d) => start < upper[d]));
    if (filled.length === 0 && distribution.globalShape !== null) return distribution.globalShape;
    return Array.from({ length: dimensions }, (_, d) => Math.max(0, ...filled.map(([, upper]) => upper[d])));
  }
  if (distribution instanceof Slab) {
    const divided = distribution.partitionDimension;
    const total = parts.reduce((sum, shape) => sum + (shape[divided] ?? 0), 0);
    return parts[0].map((extent, d) => d === divided ? total : extent);
  }
  const { grid } = distribution;
  if (grid !== null && grid.shape.length === dimensions && grid.size <= parts.length) {
    return grid.shape.map((count, d) => {
      const line = Array.from({ length: count }, (_, c) => grid.rank(grid.shape.map((_, e) => e === d ? c : 0)));
      return line.reduce((sum, rank) => sum + (parts[rank]?.[d] ?? 0), 0);
    });
  }
  if (distribution.globalShape !== null) return distribution.globalShape;
  throw new DistributionError(
    `The global shape of parts with ${dimensions} dimensions on ${parts.length} ranks cannot be told from ` +
      `${distribution}; bind it first with bind(globalShape, size), or take a Slab.`,
  );
}
