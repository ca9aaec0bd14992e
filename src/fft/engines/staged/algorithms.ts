/**
 * The names of the ways that engines share which transform by stages.
 *
 * @module
 */

/** The names of the kinds of ways, which are the algorithms of engines that take them. */
export const ROUTE_ALGORITHMS = {
  /** Nothing moves. */
  local: "local",
  /** Between distributions in which some axes are whole. */
  transpose: "transpose",
  /** One long vector, as a matrix. */
  fourStep: "four_step",
  /** To one rank and back. */
  gather: "gather",
} as const;

/** How a transform goes about it. */
export type RouteAlgorithm = typeof ROUTE_ALGORITHMS[keyof typeof ROUTE_ALGORITHMS];
