/** What is refused, with which error, and what the message says. */
import { assertEquals, assertThrows } from "@std/assert";
import { DistmathError, DistributionError, ShapeError } from "../../../src/errors.ts";
import {
  BlockCyclic,
  BlockNonCyclic,
  Box,
  type Corners,
  ProcessGrid,
  Replicated,
  ReplicatedDistribution,
  Slab,
} from "../../../src/distribution/mod.ts";
import { bindTo } from "../../../src/distribution/distribution.ts";

// deno-lint-ignore no-explicit-any
const wrong = (value: unknown) => value as any;
const square = new ProcessGrid({ shape: [2, 2] });
const slab = Slab.X.bind([5, 4], 2);
const box = (...boxes: Corners[]) => new Box(boxes);
const cyclic = new BlockCyclic(new ProcessGrid({ shape: [2] }), [2]).bind([8], 2);

const cases: Record<string, [() => unknown, new (...args: never[]) => Error, ...string[]]> = {
  "grid: no shape": [() => new ProcessGrid({ shape: [] }), ShapeError, "empty", "one number of processes a dimension"],
  "grid: zero extent": [() => new ProcessGrid({ shape: [2, 0] }), RangeError, "grid's shape[1]", "at least 1", "got 0"],
  "grid: nearly square of a fraction": [
    () => ProcessGrid.nearlySquare(2.5),
    RangeError,
    "the number of processes must be an integer of at least 1, got 2.5",
  ],
  "grid: nearly square of a text": [
    () => ProcessGrid.nearlySquare(wrong("4")),
    TypeError,
    "the number of processes must be a number",
    '"4"',
  ],
  "grid: fraction": [() => new ProcessGrid({ shape: [1.5] }), RangeError, "integer", "1.5"],
  "grid: text": [() => new ProcessGrid({ shape: wrong(["2"]) }), TypeError, "must be a number", '"2"'],
  "grid: no array": [() => new ProcessGrid({ shape: wrong(4) }), TypeError, "must be an array", "4"],
  "grid: layout": [() => new ProcessGrid({ shape: [2], layout: wrong("C") }), TypeError, '"row-major"', 'got "C"'],
  "grid: unknown option": [
    () => new ProcessGrid(wrong({ shape: [2], layuot: "row-major" })),
    TypeError,
    'no key "layuot"; did you mean "layout"?',
  ],
  "grid: options are null": [() => new ProcessGrid(wrong(null)), TypeError, "ProcessGrid must be an object; got null"],
  "grid: no options": [() => new ProcessGrid(wrong(undefined)), TypeError, "must be an object"],
  "grid: too few processes": [
    () => new ProcessGrid({ shape: [2, 2], processes: [0, 1] }),
    DistributionError,
    "has 4 processes",
    "2 were given",
  ],
  "grid: a rank twice": [
    () => new ProcessGrid({ shape: [2, 2], processes: [0, 1, 1, 2] }),
    DistributionError,
    "rank 1 stands twice",
  ],
  "grid: negative rank": [() => new ProcessGrid({ shape: [2], processes: [0, -1] }), RangeError, "processes[1]", "-1"],
  "grid: coordinate outside": [() => square.rank([0, 2]), RangeError, "coordinate 1", "at most 1", "got 2"],
  "grid: coordinate count": [() => square.rank([0]), ShapeError, "[0]", "[2, 2]", "give 2"],
  "grid: axes": [() => square.transpose([0, 0]), DistributionError, "axes", "once", "[0, 0]"],
  "slab: negative dimension": [() => new Slab(-1), RangeError, "dimension of a slab", "at least 0", "got -1"],
  "slab: text": [() => new Slab(wrong("X")), TypeError, "must be a number", '"X"'],
  "slab: no such dimension": [
    () => Slab.Z.bind([4, 4], 2),
    DistributionError,
    "Slab.Z divides dimension 2",
    "[4, 4]",
    "0..1",
  ],
  "slab: transpose unbound": [() => Slab.Z.transpose(), DistributionError, "dimension 2", "bind it first"],
  "bind: negative extent": [() => Slab.X.bind([-1, 4], 2), RangeError, "global shape[0]", "at least 0", "-1"],
  "bind: NaN": [() => Replicated.bind([NaN], 2), RangeError, "integer", "NaN"],
  "bind: no ranks": [() => Slab.X.bind([4], 0), RangeError, "number of ranks", "at least 1"],
  "bind: size missing": [() => Slab.X.bind([4], wrong(undefined)), TypeError, "number of ranks", "undefined"],
  "bind: dimensions of the grid": [
    () => new BlockCyclic(square, [1, 1]).bind([4], 4),
    DistributionError,
    "has 2 dimensions",
    "[4] has 1",
  ],
  "bind: grid too large": [
    () => new BlockNonCyclic(square).bind([4, 4], 3),
    DistributionError,
    "needs 4 processes",
    "3 ranks",
    "smaller grid",
  ],
  "bind: rank that does not exist": [
    () => new BlockNonCyclic(new ProcessGrid({ shape: [2], processes: [0, 7] })).bind([4], 4),
    DistributionError,
    "rank 7",
    "0..3",
  ],
  "blocks: no grid": [() => new BlockNonCyclic(wrong([2, 2])), TypeError, "ProcessGrid", "[2, 2]"],
  "blocks: unknown option": [
    () => new BlockCyclic(square, [1, 1], wrong({ firstProces: [1, 0] })),
    TypeError,
    "the options of BlockCyclic",
    'no key "firstProces"; did you mean "firstProcess"?',
  ],
  "blocks: options are null": [() => new BlockNonCyclic(square, wrong(null)), TypeError, "BlockNonCyclic must be an"],
  "blocks: the class of a grid": [() => new BlockNonCyclic(wrong(ProcessGrid)), TypeError, "got the class ProcessGrid"],
  "blocks: size 0": [() => new BlockCyclic(square, [0, 1]), RangeError, "blockSizes[0]", "at least 1"],
  "blocks: count": [() => new BlockCyclic(square, [2]), ShapeError, "blockSizes has 1 entries", "2 dimensions"],
  "blocks: first process outside": [
    () => new BlockCyclic(square, [1, 1], { firstProcess: [2, 0] }),
    RangeError,
    "firstProcess [2, 0]",
    "2 x 2",
  ],
  "blocks: first process count": [
    () => new BlockNonCyclic(square, { firstProcess: [0] }),
    ShapeError,
    "firstProcess has 1 entries",
  ],
  "box: none": [() => new Box([]), TypeError, "[lower, upper]", "at least one"],
  "box: one corner": [() => new Box(wrong([[[0, 0]]])), TypeError, "box of rank 0", "[lower, upper]"],
  "box: corner lengths": [() => box([[0, 0], [1]]), ShapeError, "box of rank 0", "[0, 0] and [1]"],
  "box: dimensions differ": [
    () => box([[0], [1]], [[1, 0], [2, 2]]),
    ShapeError,
    "rank 0 has 1 dimensions",
    "rank 1 has 2",
  ],
  "box: inverted": [
    () => box([[0, 0], [2, 2]], [[3, 0], [2, 2]]),
    DistributionError,
    "rank 1",
    "inverted",
    "[3, 0] is above upper [2, 2]",
  ],
  "box: negative": [() => box([[-1, 0], [2, 2]]), RangeError, "lower corner", "rank 0", "-1"],
  "box: overlap": [
    () => box([[0, 0], [2, 2]], [[2, 0], [4, 2]], [[1, 1], [3, 2]]),
    DistributionError,
    "ranks 0 and 2 overlap",
    "both hold [1:2, 1:2]",
  ],
  "box: hole": [
    () => box([[0, 0], [2, 4]], [[2, 0], [4, 3]]).bind([4, 4], 2),
    DistributionError,
    "hole",
    "no rank holds [2:4, 3:4]",
  ],
  "box: outside": [
    () => box([[0, 0], [2, 4]], [[2, 0], [4, 4]]).bind([3, 4], 2),
    DistributionError,
    "[2:4, 0:4] of rank 1",
    "outside the global shape [3, 4]",
  ],
  "box: number of ranks": [
    () => box([[0], [2]], [[2], [4]]).bind([4], 3),
    DistributionError,
    "2 boxes",
    "3 ranks",
    "one box a rank",
  ],
  "box: dimensions": [() => box([[0], [2]]).bind([2, 2], 1), DistributionError, "has 1 dimensions", "[2, 2] has 2"],
  "unbound: localShape": [
    () => Slab.X.localShape(0),
    DistributionError,
    "Slab.X is not bound",
    "so localShape has no answer",
    "bind it first",
  ],
  "unbound: owners": [() => Replicated.owners([0]), DistributionError, "so owners has no answer"],
  "unbound: toLocal": [() => Slab.X.toLocal([0]), DistributionError, "so toLocal has no answer"],
  "unbound: toGlobal": [() => Slab.X.toGlobal(0, [0]), DistributionError, "so toGlobal has no answer"],
  "unbound: ranges": [() => Slab.X.ranges(0), DistributionError, "so ranges has no answer"],
  "unbound: indexSets": [() => Slab.X.indexSets(0), DistributionError, "so indexSets has no answer"],
  "unbound: localRanges": [() => Slab.X.localRanges(0, [[0, 1]]), DistributionError, "so localRanges has no answer"],
  "bound to another shape": [
    () => bindTo(slab, [4, 4], 2, "D"),
    DistributionError,
    "Slab.X is bound to shape [5, 4] on 2 ranks, but D has [4, 4] on 2",
    "Pass it unbound.",
  ],
  "bound to other ranks": [
    () => bindTo(slab, [5, 4], 3),
    DistributionError,
    "on 2 ranks, but the array has [5, 4] on 3",
  ],
  "no distribution: a class": [
    () => bindTo(wrong(Slab), [4], 2),
    TypeError,
    "not the class Slab. Did you mean Slab.X?",
  ],
  "no distribution: another class": [
    () => bindTo(wrong(Box), [4], 2),
    TypeError,
    "not the class Box. Make one with new.",
  ],
  "no distribution: a function": [() => bindTo(wrong(() => Slab.X), [4], 2), TypeError, "not the function."],
  "no distribution: options": [
    () => bindTo(wrong({ order: "C" }), [4], 2),
    TypeError,
    "an object with the keys [order]",
  ],
  "owner: no list": [() => Slab.X.bind([4], 2).owner(1 as never), TypeError, "a list of 1 coordinates, not 1"],
  "rank in a grid: no list": [
    () => new ProcessGrid({ shape: [2, 2] }).rank(null as never),
    TypeError,
    "the coordinates in a process grid must be a list of 2 numbers, not null",
  ],
  "coincidesWith: no distribution": [
    () => Slab.X.bind([4], 2).coincidesWith(null as never),
    TypeError,
    "coincidesWith takes a distribution, not null",
  ],
  "unbound: owner": [() => Replicated.owner([0]), DistributionError, "owner", "bind it first"],
  "unbound: toSVG": [() => Slab.Y.toSVG(), DistributionError, "toSVG", "bind it first"],
  "unbound: slice": [() => Slab.Y.slice([[0, 1]]), DistributionError, "slice", "bind it first"],
  "unbound: coincidesWith": [() => slab.coincidesWith(Slab.X), DistributionError, "bind it first"],
  "rank outside": [() => slab.localShape(2), RangeError, "rank", "at most 1", "got 2"],
  "rank negative": [() => slab.ranges(-1), RangeError, "rank", "at least 0"],
  "rank of a wrong type": [() => slab.ranges(wrong("0")), TypeError, "rank must be a number"],
  "index outside": [() => slab.owner([5, 0]), RangeError, "global index [5, 0]", "[5, 4]"],
  "index count": [() => slab.owner([1]), ShapeError, "1 coordinates", "[5, 4] has 2"],
  "index fraction": [() => slab.toLocal([0.5, 0]), RangeError, "[0.5, 0]"],
  "local index outside": [() => slab.toGlobal(1, [2, 0]), RangeError, "rank 1", "[2, 0]", "[2, 4]"],
  "slice: count": [() => slab.slice([[0, 1]]), ShapeError, "ranges has 1 entries", "2 dimensions"],
  "slice: inverted": [() => slab.slice([[3, 2], [0, 4]]), RangeError, "end of range 0", "at least 3"],
  "slice: outside": [() => slab.slice([[0, 5], [0, 5]]), RangeError, "end of range 1", "at most 4"],
  "slice: no range": [() => slab.slice(wrong([0, 2])), TypeError, "range 0", "[start, end], got 0"],
  "slice: no array": [() => slab.slice(wrong("all")), TypeError, "[start, end]"],
  "transpose: axes": [() => slab.transpose([0, 2]), DistributionError, "axes", "0..1", "[0, 2]"],
  "to: no class": [() => slab.to(wrong("Box")), TypeError, "class of a distribution", "Box"],
  "to: unbound": [() => Slab.X.to(Box), DistributionError, "Slab.X is a Box depends", "bind it first"],
  "to: uneven slab": [
    () => slab.bind([10, 4], 4).to(BlockCyclic),
    DistributionError,
    "Slab.X of shape [10, 4] on 4 ranks",
    "BlockCyclic",
    "redistribute()",
  ],
  "to: pieces": [() => cyclic.to(Box), DistributionError, "several separate pieces"],
  "to: replicated": [() => slab.to(ReplicatedDistribution), DistributionError, "no rank holds all"],
  "picture: unknown option": [() => slab.toSVG(wrong({ blocks: 3 })), TypeError, 'no key "blocks"', "maxBlocks"],
  "picture: no blocks": [() => slab.toText({ maxBlocks: 0 }), RangeError, "maxBlocks", "at least 1"],
  "sliced: another shape": [() => cyclic.slice([[1, 6]]).bind([8], 2), DistributionError, "[5] on 2", "BlockCyclic"],
};

for (const [name, [action, type, ...parts]] of Object.entries(cases)) {
  Deno.test(`refused: ${name}`, () => {
    const error = assertThrows(action, type);
    assertEquals(error.constructor, type);
    assertEquals(parts.filter((part) => !error.message.includes(part)), [], error.message);
  });
}

Deno.test("errors name the ranks that they concern", () => {
  const ranks = (action: () => unknown) => (assertThrows(action, DistmathError) as DistmathError).ranks;
  assertEquals(ranks(() => box([[0], [2]], [[1], [3]])), [0, 1]);
  assertEquals(ranks(() => box([[0], [2]], [[3], [1]])), [1]);
  assertEquals(ranks(() => box([[0], [2]], [[2], [9]]).bind([4], 2)), [1]);
  assertEquals(ranks(() => new ProcessGrid({ shape: [2], processes: [1, 1] })), [1]);
});

Deno.test("at least 60 misuses are listed", () => {
  assertEquals(Object.keys(cases).length >= 60, true);
});
