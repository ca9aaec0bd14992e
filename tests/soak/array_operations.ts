/** The soak's operations on elements, along dimensions, and on shapes; and those that are planned once. */
import {
  BlockCyclic,
  concatenate,
  cumulativeSum,
  DistributedArray,
  type DType,
  dtypes,
  evaluate,
  expandDims,
  flip,
  type LocalArray,
  Redistribution,
  Replicated,
  reshape,
  roll,
  squeeze,
  stack,
  where,
} from "../../mod.ts";
import {
  at,
  type Complex,
  conjugated,
  fromScalar,
  indicesOf,
  mapped,
  type Model,
  placeOf,
  plus,
  tabulate,
  times,
  toScalar,
  transposed,
  wrongNumbers,
  wrongPart,
} from "./model.ts";
import { type Context, elements, finish, type Given, isComplex, make } from "./given.ts";

/** The element of a model that meets an index of a larger shape. */
function broadcastAt(model: Model, index: readonly number[]): Complex {
  const own = index.slice(index.length - model.shape.length);
  return at(model, own.map((i, d) => model.shape[d] === 1 ? 0 : i));
}

/** An operand for an array: where the array is, or on every rank and perhaps of fewer elements. */
function operandFor(context: Context, { array, model }: Given, dtype: DType): Given {
  const { draw } = context;
  const isWhole = draw.once(2);
  const shape = isWhole
    ? model.shape
    : model.shape.slice(draw.below(model.shape.length)).map((extent) => draw.once(3) ? 1 : extent);
  const other = make(context, shape, dtype, elements(context, shape, dtype, 2));
  const moved = other.array.redistribute(isWhole && draw.once(2) ? array.distribution : Replicated);
  other.array.free();
  return { array: moved, model: other.model };
}

/** Functions of elements: one by one, as one expression, into memory that is given. */
export function elementwise(context: Context): void {
  const { draw } = context;
  // Of all types, sums and products of numbers up to 2 are exact.
  const dtype = draw.pick(dtypes);
  const shape = draw.shape();
  const one = make(context, shape, dtype, elements(context, shape, dtype, 2));
  const other = operandFor(context, one, dtype);
  const both = (f: (a: Complex, b: Complex) => Complex) =>
    mapped(one.model, (value, index) => f(value, broadcastAt(other.model, index)));
  const [a, b] = [one.array, other.array];
  const sum = both(plus);
  finish(context, a.add(b), sum, dtype);
  finish(context, a.multiply(b), both(times), dtype);
  if (dtype !== "uint8") finish(context, a.subtract(b), both(([x, y], [u, v]) => [x - u, y - v]), dtype);
  const truth = both(([x, y], [u, v]) => [Number(x === u && y === v), 0]);
  finish(context, a.equal(b), truth, "uint8");
  if (isComplex(dtype)) finish(context, a.conj(), conjugated(one.model), dtype);
  else finish(context, a.maximum(b), both(([x], [u]) => [Math.max(x, u), 0]), dtype);
  using isSame = a.equal(b);
  finish(context, where(isSame, a, b), both((value, other) => `${value}` === `${other}` ? value : other), dtype);
  finish(context, evaluate((a, b) => a.multiply(b).add(a), [a, b]), both((x, y) => plus(times(x, y), x)), dtype);
  const into = DistributedArray.zeros(a.runtime, shape, a.distribution, { dtype, order: draw.order() });
  if (a.add(b, { into }) !== into) context.report("into was not heeded");
  context.report(wrongPart(into, sum, dtype));
  a.multiply(2, { into: a });
  context.report(wrongPart(a, mapped(one.model, ([x, y]) => [2 * x, 2 * y]), dtype));
  for (const array of [into, a, b]) array.free();
}

const COUNTED: readonly DType[] = ["float32", "float64", "int32", "int64", "uint8", "complex64", "complex128"];

/** The dimensions without some of them, or with these of extent 1. */
function reducedShape(shape: readonly number[], axes: readonly number[], keepDims: boolean): number[] {
  return shape.flatMap((extent, d) => !axes.includes(d) ? [extent] : keepDims ? [1] : []);
}

/** Sums, extremes and truth along dimensions. */
export function alongAxes(context: Context): void {
  const { draw } = context;
  const dtype = draw.pick(COUNTED);
  const shape = draw.shape(draw.between(2, 3));
  const { array, model } = make(context, shape, dtype);
  const axes = shape.map((_, d) => d).filter(() => draw.once(2)).slice(0, shape.length - 1);
  if (axes.length === 0) axes.push(draw.below(shape.length));
  const keepDims = draw.once(2);
  const options = { axis: axes.length === 1 && draw.once(2) ? axes[0] : axes, keepDims };
  const to = reducedShape(shape, axes, keepDims);
  const count = axes.reduce((product, d) => product * shape[d], 1);
  const groups = new Map<string, Complex[]>();
  for (const index of indicesOf(shape)) {
    const key = reducedShape(shape, axes, true).map((extent, d) => extent === 1 && axes.includes(d) ? 0 : index[d])
      .filter((_, d) => keepDims || !axes.includes(d)).join();
    groups.set(key, [...groups.get(key) ?? [], at(model, index)]);
  }
  const reduced = (of: (group: Complex[]) => Complex) => tabulate(to, (index) => of(groups.get(index.join()) ?? []));
  const sums = array.sum(options);
  finish(context, sums, reduced((group) => group.reduce(plus, [0, 0])), sums.dtype);
  const isNonzero = ([x, y]: Complex) => x !== 0 || y !== 0;
  finish(context, array.any(options), reduced((group) => [Number(group.some(isNonzero)), 0]), "uint8");
  finish(context, array.all(options), reduced((group) => [Number(group.every(isNonzero)), 0]), "uint8");
  if (!isComplex(dtype) && count > 0) {
    const numbers = (group: Complex[]) => group.map(([x]) => x);
    finish(context, array.max(options), reduced((group) => [Math.max(...numbers(group)), 0]), dtype);
    finish(context, array.min(options), reduced((group) => [Math.min(...numbers(group)), 0]), dtype);
    const [axis] = axes;
    if (axes.length === 1) {
      const first = (group: Complex[]): Complex => [numbers(group).indexOf(Math.max(...numbers(group))), 0];
      finish(context, array.argmax({ axis, keepDims }), reduced(first), "int32");
    }
  }
  const along = draw.below(shape.length);
  const running = cumulativeSum(array, { axis: along });
  const upTo = tabulate(shape, (index) => {
    let total: Complex = [0, 0];
    for (let i = 0; i <= index[along]; i++) total = plus(total, at(model, index.with(along, i)));
    return total;
  });
  finish(context, running, upTo, running.dtype);
  array.free();
}

const modulo = (i: number, n: number) => (i % n + n) % n;

/** Other shapes of the same elements, elements elsewhere, several arrays as one; and back into a slice. */
export function shapes(context: Context): void {
  const { runtime, draw } = context;
  const dtype = draw.pick(dtypes);
  const shape = draw.shape();
  const { array, model } = make(context, shape, dtype);
  const size = model.re.length;
  const axis = draw.below(shape.length);
  const extent = shape[axis];

  const factor = draw.pick([1, 2, 3, 4].filter((n) => size % n === 0));
  const flat = [size / factor, factor];
  const place = { distribution: draw.distribution(flat, runtime.size) };
  finish(context, reshape(array, flat, place), { ...model, shape: flat }, dtype);

  const shift = draw.between(-12, 12);
  const from = (index: number[]) => index.with(axis, modulo(index[axis] - shift, extent));
  finish(context, roll(array, shift, axis), tabulate(shape, (index) => at(model, from(index))), dtype);
  const opposite = (index: number[]) => index.with(axis, extent - 1 - index[axis]);
  finish(context, flip(array, axis).copy(), tabulate(shape, (index) => at(model, opposite(index))), dtype);

  const widened = expandDims(array, axis);
  context.report(wrongPart(widened, { ...model, shape: shape.toSpliced(axis, 0, 1) }, dtype));
  context.report(wrongPart(squeeze(widened, axis), model, dtype));

  const other = make(context, shape.with(axis, draw.between(0, 5)), dtype);
  const both = concatenate([array, other.array], { axis });
  const joined = tabulate(
    shape.with(axis, extent + other.model.shape[axis]),
    (index) => index[axis] < extent ? at(model, index) : at(other.model, index.with(axis, index[axis] - extent)),
  );
  finish(context, both, joined, dtype);
  finish(
    context,
    stack([array, array], { axis }),
    tabulate(shape.toSpliced(axis, 0, 2), (index) => at(model, index.toSpliced(axis, 1))),
    dtype,
  );

  // Every other element or so, and zeros in their place. Blocks that lie apart have no view at other distances.
  const step = array.distribution instanceof BlockCyclic ? 1 : draw.between(1, 3);
  const start = draw.between(0, extent);
  const chosen = Array.from({ length: extent }, (_, i) => i).slice(start).filter((i) => (i - start) % step === 0);
  const ranges = shape.map((_, d) => d === axis ? [start, null, step] as const : [0, null] as const);
  const part = tabulate(
    shape.with(axis, chosen.length),
    (index) => at(model, index.with(axis, chosen[index[axis]])),
  );
  const slice = array.slice(ranges);
  context.report(wrongPart(slice, part, dtype));
  finish(context, slice.transpose().copy(), transposed(part), dtype);
  slice.assign(toScalar(dtype, [0, 0]) as never);
  const rest = tabulate(shape, (index) => chosen.includes(index[axis]) ? [0, 0] : at(model, index));
  context.report(wrongPart(array, rest, dtype));
  if (size > 0) {
    const index = shape.map((extent) => draw.below(extent));
    const value = fromScalar(array.at(...index) as never);
    const wanted = [rest.re[placeOf(shape, index)], rest.im[placeOf(shape, index)]];
    context.report(wrongNumbers([...value], wanted));
  }
  for (const one of [array, other.array]) one.free();
}

/** A redistribution that is planned once, of several arrays, perhaps into one that is given. */
export function plannedMoves(context: Context): void {
  const { runtime, draw } = context;
  const dtype = draw.pick(dtypes);
  const shape = draw.shape();
  const { array, model } = make(context, shape, dtype);
  const to = draw.distribution(shape, runtime.size);
  const target = draw.once(2) ? DistributedArray.zeros(runtime, shape, to, { dtype, order: draw.order() }) : null;
  using moves = new Redistribution(array, target ?? to);
  let [from, held] = [array, model];
  for (let round = 0; round < 3; round++) {
    const moved = moves.execute();
    if (target !== null && moved !== target) context.report("the target was not taken");
    context.report(wrongPart(moved, held, dtype));
    if (target === null) moved.free();
    if (round === 1) continue;
    // Other elements of an array that is alike.
    held = mapped(held, ([x, y]) => [x === 0 ? 1 : 0, y]);
    const next = DistributedArray.zeros(runtime, shape, array.distribution, { dtype, order: draw.order() });
    fill(next.local, (index) => at(held, index), next);
    moves.resetOperands({ array: next });
    if (from !== array) from.free();
    from = next;
  }
  for (const one of new Set([from, array, ...target ? [target] : []])) one.free();
}

/** Set a rank's part to what a function of the global index gives. */
function fill(local: LocalArray, value: (index: number[]) => Complex, array: DistributedArray): void {
  if (local.size === 0) return;
  const { distribution, dtype, runtime: { rank } } = array;
  const parts = [...indicesOf(local.shape)].flatMap((index) => {
    const [re, im] = value(distribution.toGlobal(rank, index));
    return isComplex(dtype) ? [re, im] : [re];
  });
  local.set((dtype === "int64" ? parts.map(BigInt) : parts) as never);
}
