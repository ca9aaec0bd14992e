/**
 * The way of a transform: which axes are transformed where, and how the array moves in between. Pure functions of shapes
 * and distributions, so that every rank finds the same way.
 *
 * An axis can be transformed where every rank has all of its indices. The array passes through places in which that holds
 * for some of the axes, until it does for all of them: slabs, pencils, the distributions that were asked for.
 *
 * @module
 */
import type { Distribution, Range } from "../distribution/mod.ts";
import { sizeOfShape } from "../array/layout.ts";
import { ROUTE_ALGORITHMS } from "./engines/staged/algorithms.ts";
import { fourStepRoute, refusalOfFourSteps } from "./four_step.ts";
import {
  inShape,
  isWhole,
  type Place,
  placeOf,
  placeOfResult,
  placesBetween,
  root,
  slabs,
  usesAll,
} from "./pass_places.ts";
import { type FFTProblem, type FFTShape, itemSizeOf } from "./problem.ts";
import type { Route, RouteStep, TransformStep } from "./steps.ts";

/** What a redistribution takes even if nothing moves, in bytes that could be copied meanwhile. */
const LATENCY_BYTES = 2 ** 16;

/** A stage of a way: where the array is, and which axes are transformed there. */
interface Stage {
  readonly place: Place;
  /** The axes, in this order; of `r2c` the halved one first, of `c2r` last. */
  readonly axes: readonly number[];
}

/** Where a way has come to. */
interface State {
  readonly place: Place;
  readonly done: readonly number[];
  readonly stages: readonly Stage[];
  readonly cost: number;
}

/** What a step costs. */
interface Costs {
  move(from: Distribution, to: Distribution, isReal: boolean): number;
  transform(where: Distribution, axes: number, isReal: boolean): number;
}

/** Whether elements are real numbers, once these axes are transformed. */
function isRealAfter({ type, halved }: FFTShape, done: readonly number[]): boolean {
  return type === "r2c" && !done.includes(halved!) || type === "c2r" && done.includes(halved!);
}

/** Whether the shape is the result's. */
function isResultShape({ halved }: FFTShape, done: readonly number[]): boolean {
  return halved === null || done.includes(halved);
}

/** What can be transformed in a place, if these axes are done already. */
function possible(shape: FFTShape, place: Place, done: readonly number[]): number[] {
  const { type, axes, halved } = shape;
  const open = axes.filter((axis) => !done.includes(axis));
  const wholeIn = (where: Distribution | null, axis: number) => where !== null && isWhole(where, axis);
  const canHalve = halved !== null && open.includes(halved) && wholeIn(place.operand, halved) &&
    wholeIn(place.result, halved);
  if (type === "r2c" && open.includes(halved!)) {
    return canHalve ? [halved!, ...open.filter((axis) => axis !== halved && wholeIn(place.result, axis))] : [];
  }
  const where = isResultShape(shape, done) ? place.result : place.operand;
  const others = open.filter((axis) => axis !== halved && wholeIn(where, axis));
  const isLast = canHalve && others.length === open.length - 1;
  return isLast ? [...others, halved!] : others;
}

/** The cheapest way through some places, of which some may be the end; null if there is none. */
function search(
  shape: FFTShape,
  places: readonly Place[],
  start: Place,
  isEnd: (place: Place) => boolean,
  costs: Costs,
): State | null {
  const arrive = (place: Place, { done, stages, cost }: Omit<State, "place">): State => {
    const axes = possible(shape, place, done);
    const where = place.operand ?? place.result!;
    const price = axes.length === 0 ? 0 : costs.transform(where, axes.length, isRealAfter(shape, done));
    return { place, done: [...done, ...axes], stages: [...stages, { place, axes }], cost: cost + price };
  };
  const open = [arrive(start, { done: [], stages: [], cost: 0 })];
  const seen = new Set<string>();
  while (open.length > 0) {
    const next = open.reduce((best, state, i) => state.cost < open[best].cost ? i : best, 0);
    const [state] = open.splice(next, 1);
    const isDone = state.done.length === shape.axes.length;
    if (isDone && isEnd(state.place)) return state;
    const key = `${places.indexOf(state.place)}:${state.done.toSorted((a, b) => a - b)}`;
    if (seen.has(key)) continue;
    seen.add(key);
    const at = (place: Place) => isResultShape(shape, state.done) ? place.result : place.operand;
    const from = at(state.place);
    if (from === null) continue;
    for (const place of places) {
      const to = at(place);
      if (place === state.place || to === null) continue;
      open.push(arrive(place, { ...state, cost: state.cost + costs.move(from, to, isRealAfter(shape, state.done)) }));
    }
  }
  return null;
}

/** How many indices two lists of ranges have in common. */
function common(a: readonly Range[], b: readonly Range[]): number {
  let [i, j, count] = [0, 0, 0];
  while (i < a.length && j < b.length) {
    count += Math.max(0, Math.min(a[i][1], b[j][1]) - Math.max(a[i][0], b[j][0]));
    if (a[i][1] <= b[j][1]) i++;
    else j++;
  }
  return count;
}

/** The most elements that a rank has. */
function largest(distribution: Distribution): number {
  let most = 0;
  for (let rank = 0; rank < distribution.size!; rank++) {
    most = Math.max(most, sizeOfShape(distribution.localShape(rank)));
  }
  return most;
}

/** What is read and written, by the rank that has the most to do. */
function byteCosts(itemSize: number): Costs {
  const rangesOf = new Map<Distribution, Range[][][]>();
  const ranges = (distribution: Distribution, rank: number) => {
    const known = rangesOf.get(distribution) ?? rangesOf.set(distribution, []).get(distribution)!;
    return known[rank] ??= distribution.ranges(rank);
  };
  const bytes = (isReal: boolean) => isReal ? itemSize : 2 * itemSize;
  return {
    move(from, to, isReal) {
      let most = 0;
      for (let rank = 0; rank < from.size!; rank++) {
        const [has, wants] = [ranges(from, rank), ranges(to, rank)];
        const wanted = sizeOfShape(to.localShape(rank));
        const stays = from.isReplicated ? wanted : has.reduce((n, list, d) => n * common(list, wants[d]), 1);
        most = Math.max(most, 2 * wanted - stays);
      }
      return LATENCY_BYTES + bytes(isReal) * most;
    },
    transform: (where, axes, isReal) => axes * bytes(isReal) * largest(where),
  };
}

const MOVES_ONLY: Costs = { move: () => 1, transform: () => 0 };

/**
 * Where the result is if nobody asks for anything: where the operand is, if nothing has to move for the transform; of an
 * operand in slabs, the slab that takes the fewest redistributions, the first of those; else where the cheapest way ends.
 */
export function naturalDistribution(shape: FFTShape, from: Distribution, itemSize: number): Distribution {
  const size = from.size!;
  const places = placesBetween(shape, from, null);
  const [start, ...others] = places;
  if (start.result !== null && possible(shape, start, []).length === shape.axes.length) return start.result;
  const own = slabs(shape, size).find(({ operand }) => operand!.coincidesWith(from));
  if (own === undefined) {
    const found = search(shape, places, start, ({ result }) => result !== null, byteCosts(itemSize));
    return found?.place.result ?? slabs(shape, size)[0].result!;
  }
  const line = [start, ...others.filter(({ kind }) => kind === "slab")];
  const spread = slabs(shape, size).filter(({ result }) => usesAll(result!));
  const isEnd = ({ result }: Place) => result !== null && spread.some((slab) => slab.result!.coincidesWith(result));
  const found = search(shape, line, start, isEnd, MOVES_ONLY);
  return found?.place.result ?? own.result!;
}

/** Which ways are looked for. */
export interface RouteOptions {
  /** The algorithm; `default` is any. */
  readonly algorithm?: string;
  /** Whether CPUs transform, whose caches are small. */
  readonly isOnHost?: boolean;
}

/** The ways from the operand's to the result's distribution, the cheapest first. */
export function findRoutes(
  problem: FFTProblem,
  { algorithm = "default", isOnHost = false }: RouteOptions = {},
): Route[] {
  const routes = [transposing(problem), gathering(problem, isOnHost), fourStepRoute(problem, LATENCY_BYTES)]
    .filter((route) => route !== null)
    .filter((route) => algorithm === "default" || route.algorithm === algorithm);
  return routes.sort((one, other) => one.cost - other.cost);
}

function transposing(problem: FFTProblem): Route | null {
  const { from, to } = problem;
  const places = placesBetween(problem, from, to);
  const isEnd = ({ result }: Place) =>
    result !== null && result.coincidesWith(to) &&
    result.isReplicated === to.isReplicated;
  const found = search(problem, places, places[0], isEnd, byteCosts(itemSizeOf(problem)));
  if (found === null) return null;
  const algorithm = found.stages.length === 1 ? ROUTE_ALGORITHMS.local : ROUTE_ALGORITHMS.transpose;
  return { algorithm, ...routeOf(problem, found.stages), cost: found.cost };
}

/**
 * What the transform of one vector of so many bytes takes on a CPU, in passes over it: more with each doubling beyond the
 * caches. As measured on 2 ranks of 2^18 to 2^24 complex128, and taken for other types and numbers of ranks.
 */
const passesOnHost = (bytes: number) => Math.max(1, 2 * Math.log2(bytes) - 45.5);

function gathering(problem: FFTProblem, isOnHost: boolean): Route | null {
  const { from, to } = problem;
  if (from.size === 1) return null;
  const middle = root(problem, from.size!);
  const [start, end] = [placeOf(problem, from), placeOfResult(problem, to)];
  const costs = byteCosts(itemSizeOf(problem));
  const isRealBefore = problem.type === "r2c";
  const pass = costs.transform(middle.operand!, problem.axes.length, isRealBefore);
  const isLine = isOnHost && problem.operand.length === 1;
  const cost = costs.move(from, middle.operand!, isRealBefore) +
    costs.move(middle.result!, to, problem.type === "c2r") + (isLine ? passesOnHost(pass) : 1) * pass;
  const { halved, axes } = problem;
  const others = axes.filter((axis) => axis !== halved);
  const ordered = halved === null ? others : problem.type === "r2c" ? [halved, ...others] : [...others, halved];
  const stages = [{ place: start, axes: [] }, { place: middle, axes: ordered }, { place: end, axes: [] }];
  const refusal = refusalOfFourSteps(problem);
  return {
    algorithm: ROUTE_ALGORITHMS.gather,
    ...routeOf(problem, stages),
    notes: refusal === null ? [] : [refusal],
    cost,
  };
}

/** The steps of some stages. */
function routeOf(problem: FFTProblem, stages: readonly Stage[]): Pick<Route, "steps" | "variant"> {
  const steps: RouteStep[] = [];
  const words: string[] = [];
  const done: number[] = [];
  let before: Place | null = null;
  for (const { place, axes } of stages) {
    const at = (where: Place) => isResultShape(problem, done) ? where.result! : where.operand!;
    if (before) steps.push({ kind: "move", from: at(before), to: at(place), isReal: isRealAfter(problem, done) });
    steps.push(...transforms(problem, place, axes, done));
    words.push(
      axes.length === 0 ? place.name : `${place.name} (${axes.length > 1 ? "axes" : "axis"} ${axes.join(", ")})`,
    );
    done.push(...axes);
    before = place;
  }
  return { steps, variant: words.join(" -> ") };
}

/** The transforms of one stage: `r2c` takes other axes along, `c2r` comes after them. */
function transforms(
  { type, halved, result }: FFTProblem,
  place: Place,
  axes: readonly number[],
  done: readonly number[],
): TransformStep[] {
  if (axes.length === 0) return [];
  const isLocal = halved !== null && axes.includes(halved);
  const others = axes.filter((axis) => axis !== halved);
  if (!isLocal) {
    const where = halved === null || done.includes(halved) ? place.result! : place.operand!;
    return [{ kind: "transform", type: "c2c", axes: others, from: where, to: where }];
  }
  const [from, to] = [place.operand!, place.result ?? inShape(place.operand!, result)!];
  if (type === "r2c") return [{ kind: "transform", type, axes: [...others, halved], from, to }];
  return [
    ...others.length > 0 ? [{ kind: "transform", type: "c2c", axes: others, from, to: from } as const] : [],
    { kind: "transform", type: "c2r", axes: [halved], from, to },
  ];
}
