/**
 * Transforms along some axes of an array of any strides, as what a library does in one call: several axes at once, and loops.
 *
 * @module
 */
import type { FFTType } from "../../problem.ts";

/** One dimension of a transform or of a loop: its extent, and the distances of neighbours in input and output. */
export interface Dimension {
  readonly extent: number;
  readonly source: number;
  readonly target: number;
}

/** One plan of the library, called once for each offset. */
export interface Pass {
  /** The type. */
  readonly type: FFTType;
  /** The dimensions that are transformed; what `r2c` and `c2r` halve comes last. */
  readonly transformed: readonly Dimension[];
  /** The dimensions that the library loops over. */
  readonly looped: readonly Dimension[];
  /** The dimensions that remain to be looped over. */
  readonly called: readonly Dimension[];
  /** Whether it works on the output of the pass before it. */
  readonly isInPlace: boolean;
}

/** Where the elements are. */
interface Strides {
  readonly shape: readonly number[];
  readonly strides: readonly number[];
}

/** What a library takes at once. */
export interface PassLimits {
  /** The most dimensions that are transformed. */
  readonly dimensions: number;
  /** The most loops. */
  readonly loops: number;
  /** How many numbers are enough for one call; more are left to further calls if they can be divided evenly. */
  readonly enough?: number;
  /** Whether each dimension has to begin at multiples of the extent of the next one, as in an array with padding. */
  readonly isNested: boolean;
}

/** Fewer neighbours than these are not worth a loop of their own. */
const FEW = 16;

/**
 * How to transform: `r2c` and `c2r` halve the last of the axes. Axes that are neighbours in memory are transformed
 * together. `shape` is that of the real numbers for `r2c`, `c2r`, else of the complex ones.
 */
export function planPasses(
  type: FFTType,
  axes: readonly number[],
  source: Strides,
  target: Strides,
  limits: PassLimits,
): Pass[] {
  const shape = type === "c2r" ? target.shape : source.shape;
  const halved = type === "c2c" ? null : axes[axes.length - 1];
  // Outermost in memory first.
  const order = shape.map((_, d) => d).sort((a, b) => target.strides[b] - target.strides[a] || a - b);
  const groups: number[][] = [];
  for (const [i, axis] of order.entries()) {
    if (!axes.includes(axis)) continue;
    const last = groups.at(-1);
    const follows = last !== undefined && last.at(-1) === order[i - 1] && last.length < limits.dimensions;
    // The halved axis has to be the last one of its group.
    if (follows && last.at(-1) !== halved && (!limits.isNested || isNested(last.at(-1)!, axis))) last.push(axis);
    else groups.push([axis]);
  }
  const first = halved === null ? 0 : groups.findIndex((group) => group.includes(halved));
  // From real to complex comes first. From complex to real there is no other group.
  const ordered = [groups[first], ...groups.filter((_, i) => i !== first)];
  return ordered.map((group, i) => {
    const isInPlace = i > 0;
    const sourceStrides = isInPlace ? target.strides : source.strides;
    const extents = type === "r2c" && isInPlace ? target.shape : shape;
    const at = (d: number): Dimension => ({
      extent: extents[d],
      source: sourceStrides[d],
      target: target.strides[d],
    });
    const loops = merged(order.filter((d) => !group.includes(d)).map((d) => loopOf(d, i, at)));
    const transformed = group.map(at);
    const [looped, called] = divided(dealt(loops, limits.loops), transformed, limits.enough ?? Infinity);
    return { type: isInPlace ? "c2c" : type, transformed, looped, called, isInPlace };
  });

  /** Whether an axis begins at multiples of the whole of another one, in source and target. */
  function isNested(outer: number, inner: number): boolean {
    return [source, target].every(({ shape, strides }) =>
      strides[outer] % strides[inner] === 0 && strides[outer] >= strides[inner] * shape[inner]
    );
  }

  /** A loop goes over what both sides have: along the halved axis over the half. */
  function loopOf(d: number, pass: number, at: (d: number) => Dimension): Dimension {
    return d === halved && pass > 0 ? { ...at(d), extent: target.shape[d] } : at(d);
  }
}

/** Neighbouring loops that lie one after the other in both memories become one; those of one turn are left out. */
function merged(loops: readonly Dimension[]): Dimension[] {
  const result: Dimension[] = [];
  for (const inner of loops.filter(({ extent }) => extent > 1)) {
    const outer = result.at(-1);
    if (outer && outer.source === inner.extent * inner.source && outer.target === inner.extent * inner.target) {
      result[result.length - 1] = { ...inner, extent: outer.extent * inner.extent };
    } else {
      result.push(inner);
    }
  }
  return result;
}

/** Which loops the library takes: neighbours in memory if they are not few, else the longest ones. */
function dealt(loops: readonly Dimension[], most: number): readonly [Dimension[], Dimension[]] {
  if (loops.length <= most) return [[...loops], []];
  const inner = loops[loops.length - 1];
  const byWorth = loops.toSorted((a, b) => worth(b) - worth(a));
  return [byWorth.slice(0, most), byWorth.slice(most)];

  function worth(loop: Dimension): number {
    return loop === inner && loop.extent >= FEW ? Infinity : loop.extent;
  }
}

/** The longest loop of a call in parts of the same length, if it transforms more than enough. */
function divided(
  [looped, called]: readonly [readonly Dimension[], readonly Dimension[]],
  transformed: readonly Dimension[],
  enough: number,
): readonly [readonly Dimension[], readonly Dimension[]] {
  const numbers = [...transformed, ...looped].reduce((product, { extent }) => product * extent, 1);
  const longest = looped.reduce<Dimension | null>(
    (best, loop) => loop.extent > (best?.extent ?? 0) ? loop : best,
    null,
  );
  if (longest === null || numbers <= enough) return [looped, called];
  const { extent, source, target } = longest;
  let parts = Math.ceil(numbers / enough);
  while (parts < extent && extent % parts > 0) parts++;
  const length = extent / parts;
  if (length < FEW) return [looped, called];
  return [
    looped.map((loop) => loop === longest ? { ...loop, extent: length } : loop),
    [...called, { extent: parts, source: source * length, target: target * length }],
  ];
}

/** Where each turn of some loops begins, in bytes. */
export function offsetsOf(loops: readonly Dimension[], side: "source" | "target", itemSize: number): bigint[] {
  return loops.reduce<bigint[]>(
    (starts, loop) =>
      starts.flatMap((start) =>
        Array.from({ length: loop.extent }, (_, i) => start + BigInt(i * loop[side] * itemSize))
      ),
    [0n],
  );
}

/** On one side of a call: how many elements there are, and how far it is from the first one to behind the last one. */
export function placesOn(
  { type, transformed, looped }: Pick<Pass, "type" | "transformed" | "looped">,
  side: "source" | "target",
): { readonly count: number; readonly span: number } {
  const halved = type === (side === "source" ? "c2r" : "r2c") ? transformed.at(-1) : null;
  let [count, span] = [1, 1];
  for (const dimension of [...transformed, ...looped]) {
    const extent = dimension === halved ? Math.floor(dimension.extent / 2) + 1 : dimension.extent;
    count *= extent;
    span += (extent - 1) * dimension[side];
  }
  return { count, span };
}

/** Dimensions in a message. */
export function shown(dimensions: readonly Dimension[]): string {
  return `[${dimensions.map(({ extent, source, target }) => `${extent} (${source}, ${target})`).join(", ")}]`;
}
