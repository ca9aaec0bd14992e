/** Arrays of other shapes, slices that are overwritten, arrays put together: against plain loops over indices. */
import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import {
  arange,
  BlockCyclic,
  Box,
  broadcastTo,
  concatenate,
  type Corners,
  cumulativeSum,
  DistributedArray,
  type Distribution,
  DistributionError,
  DTypeError,
  expandDims,
  eye,
  flip,
  kron,
  linspace,
  positive,
  ProcessGrid,
  Replicated,
  reshape,
  roll,
  ShapeError,
  Slab,
  squeeze,
  stack,
  StateError,
  vecdot,
} from "../../mod.ts";
import { assertThrowsEverywhere, clusterTest, type ErrorClass } from "../../src/testing/mod.ts";
import { distributions, table, whole } from "./array_oracle.ts";

const memory = "host";

clusterTest("slices count from the end, may leave out dimensions, and can be overwritten", (runtime) => {
  for (const distribution of distributions(runtime.size, [1, runtime.size], [2, 1])) {
    using a = DistributedArray.generate(runtime, [7, 5], distribution, (i, j) => 10 * i + j, { memory });
    assertEquals([...a.slice([[-3, -1]]).shape], [2, 5]);
    assertEquals(whole(a.slice([null, [-2, null]])), table(7, 2, (i, j) => 10 * i + 3 + j));
    assertEquals(whole(a.slice([[null, 2], [1, -1]])), table(2, 3, (i, j) => 10 * i + j + 1));
    a.slice([[1, 3]]).assign(-1);
    using row = DistributedArray.generate(runtime, [5], Replicated, (j) => j, { dtype: "float32", memory });
    assertStrictEquals(a.assign(a), a);
    a.slice([[-1, null]]).assign(row);
    // Elements of another distribution and dtype move.
    using other = DistributedArray.generate(runtime, [2, 2], Slab.Y, (i, j) => 50 + i + j, { dtype: "int32", memory });
    a.slice([[4, 6], [0, 2]]).assign(other);
    const wanted = (i: number, j: number) =>
      i === 6 ? j : i === 1 || i === 2 ? -1 : (i === 4 || i === 5) && j < 2 ? 50 + i - 4 + j : 10 * i + j;
    assertEquals(whole(a), table(7, 5, wanted), `${a}`);
  }
});

clusterTest("a smaller array is repeated, whoever has its elements", (runtime) => {
  for (const distribution of distributions(runtime.size, [1, runtime.size], [2, 1])) {
    using a = DistributedArray.zeros(runtime, [7, 5], distribution, { memory });
    for (const from of [Slab.X, Replicated]) {
      using row = DistributedArray.generate(runtime, [5], from, (j) => j, { dtype: "int32", memory });
      assertEquals(whole(a.assign(row)), table(7, 5, (_, j) => j), `${a}, ${row}`);
      using column = DistributedArray.generate(runtime, [7, 1], from, (i) => i, { memory });
      assertEquals(whole(a.assign(column)), table(7, 5, (i) => i), `${a}, ${column}`);
    }
  }
});

clusterTest("many integers are shown", (runtime) => {
  using a = DistributedArray.zeros(runtime, [6, 6, 6, 6, 6, 6, 6], Slab.X, { dtype: "int32", memory });
  assertEquals(a.format().replaceAll(/[^0]/g, "").length, 6 ** 7);
});

clusterTest("expandDims, squeeze and broadcastTo", (runtime) => {
  for (const distribution of distributions(runtime.size, [1, runtime.size], [2, 1])) {
    for (const order of ["C", "F"] as const) {
      using a = DistributedArray.generate(runtime, [4, 3], distribution, (i, j) => 10 * i + j, { order, memory });
      const wider = expandDims(a, 1);
      assertEquals([[...wider.shape], wider.isView], [[4, 1, 3], true]);
      assertEquals(whole(wider), whole(a));
      assertEquals(whole(expandDims(a, -1)), whole(a));
      assertEquals([[...squeeze(wider, 1).shape], ...whole(squeeze(wider, -2))], [[4, 3], ...whole(a)]);
      wider.assign(5);
      assertEquals(a.sum(), 60);
    }
  }
  // One rank has all of it.
  for (const distribution of distributions(runtime.size, [runtime.size, 1], [1, 3])) {
    using row = DistributedArray.generate(runtime, [1, 3], distribution, (_, j) => j, { memory });
    const vector = squeeze(row, 0);
    assertEquals([[...vector.shape], ...whole(vector), vector.sum()], [[3], 0, 1, 2, 3], `${distribution}`);
  }
  using column = DistributedArray.generate(runtime, [4, 1], Slab.X, (i) => i, { memory });
  using full = broadcastTo(column, [2, 4, 3]);
  assertEquals([String(full.distribution), ...whole(full)], ["Slab.Y", ...table(8, 3, (i) => i % 4)]);
});

clusterTest("reshape keeps the elements in C order", (runtime) => {
  distributions(runtime.size, [1, runtime.size], [2, 1]).forEach((distribution, k) => {
    const order = k % 2 === 0 ? "C" : "F";
    using a = DistributedArray.generate(runtime, [6, 4], distribution, (i, j) => 4 * i + j, { order, memory });
    for (const shape of [[24], [3, 8], [2, -1, 3], [1, 24], [24, 1]]) {
      using b = reshape(a, shape);
      assertEquals(b.size, 24);
      assertEquals(whole(b), Array.from({ length: 24 }, (_, i) => i), `${a} to ${b}`);
      assertEquals(String(b.distribution), distribution === Replicated ? "Replicated" : "Slab.X");
    }
    using c = reshape(a, [2, 12], { distribution: Slab.Y });
    assertEquals([String(c.distribution), ...whole(c)], ["Slab.Y", ...Array.from({ length: 24 }, (_, i) => i)]);
  });
  using empty = DistributedArray.zeros(runtime, [0, 4], Slab.X, { memory });
  assertEquals([...reshape(empty, [2, 0]).shape], [2, 0]);
});

clusterTest("concatenate and stack", (runtime) => {
  for (const distribution of distributions(runtime.size, [1, runtime.size], [2, 1])) {
    using a = DistributedArray.generate(runtime, [4, 3], distribution, (i, j) => 10 * i + j, { dtype: "int8", memory });
    using b = DistributedArray.generate(runtime, [2, 3], Slab.Y, (i, j) => -10 * i - j, { dtype: "float32", memory });
    using rows = concatenate([a, b]);
    assertEquals([rows.dtype, [...rows.shape], String(rows.distribution)], ["float32", [6, 3], String(distribution)]);
    assertEquals(whole(rows), [...whole(a), ...whole(b)]);
    using columns = concatenate([a, a.slice([null, [1, 2]])], { axis: -1, distribution: Slab.X });
    assertEquals(whole(columns), table(4, 4, (i, j) => j < 3 ? 10 * i + j : 10 * i + 1));
    using pair = stack([a, a], { axis: 1 });
    assertEquals([[...pair.shape], ...whole(pair)], [[4, 2, 3], ...table(8, 3, (k, j) => 10 * Math.floor(k / 2) + j)]);
  }
});

clusterTest(
  "elements that only move keep their bits: infinities of float8, whose largest results are finite",
  (runtime) => {
    // Both infinities, the largest finite number, NaN, -0, the smallest number.
    const bits = [0x7c, 0xfc, 0x7b, 0x7e, 0x80, 1];
    const text = "[    inf    -inf  6.e+04     nan -0.e+00  2.e-05]";
    using all = DistributedArray.generate(runtime, [6], Slab.X, (i) => i, { dtype: "uint8", memory });
    const part = (all.local.data as Uint8Array).map((i) => bits[i]);
    const options = { dtype: "float8_e5m2", localShape: [part.length], memory } as const;
    using a = DistributedArray.fromLocal(runtime, part, Slab.X, options);
    using target = DistributedArray.zeros(runtime, [6], Slab.X, { dtype: "float8_e5m2", memory });
    using twice = concatenate([a, a]);
    using rows = stack([a, a]);
    using repeated = broadcastTo(a, [2, 6]);
    using rolled = roll(a, 1);
    using same = positive(a);
    using other = a.redistribute(Replicated);
    for (const array of [twice, rows, repeated]) assertEquals([...array.allGather()], [...bits, ...bits]);
    assertEquals([...rolled.allGather()], [...bits.slice(-1), ...bits.slice(0, -1)]);
    for (const array of [same, other, target.assign(a)]) assertEquals([...array.allGather()], bits);
    assertEquals([a.format(), a.at(0), a.at(1)], [text, Infinity, -Infinity]);
  },
);

clusterTest("roll", (runtime) => {
  for (const distribution of distributions(runtime.size, [1, runtime.size], [2, 1])) {
    using a = DistributedArray.generate(runtime, [5, 3], distribution, (i, j) => 10 * i + j, { memory });
    assertEquals(whole(roll(a, 2, 0)), table(5, 3, (i, j) => 10 * ((i + 3) % 5) + j));
    assertEquals(whole(roll(a, -1, 1)), table(5, 3, (i, j) => 10 * i + (j + 1) % 3));
    assertEquals(whole(roll(a, 5, 0)), whole(a));
    assertEquals(whole(roll(a, [2, -1], [0, -1])), table(5, 3, (i, j) => 10 * ((i + 3) % 5) + (j + 1) % 3));
    assertEquals(whole(roll(a, 1, [0, 1])), table(5, 3, (i, j) => 10 * ((i + 4) % 5) + (j + 2) % 3));
    for (const shift of [2, -4, 16]) {
      const along = (i: number, j: number) => (3 * i + j - shift + 30) % 15;
      const wanted = table(5, 3, (i, j) => 10 * Math.floor(along(i, j) / 3) + along(i, j) % 3);
      const rolled = roll(a, shift);
      assertEquals([whole(rolled), rolled.order, `${rolled.distribution}`], [wanted, a.order, `${a.distribution}`]);
    }
    assertEquals(whole(roll(a, [9, -6, 3], [0, 0, 1])), table(5, 3, (i, j) => 10 * ((i + 2) % 5) + j));
  }
});

clusterTest("eye, arange, linspace", (runtime) => {
  assertEquals(whole(eye(runtime, [2, 3], Slab.Y, { dtype: "int64", memory })), [1, 0, 0, 0, 1, 0]);
  assertEquals(whole(arange(runtime, 5, 0, -2, Slab.X, { dtype: "int32", memory })), [5, 3, 1]);
  assertEquals(whole(arange(runtime, 0, 1, 0.25, Slab.X, { memory })), [0, 0.25, 0.5, 0.75]);
  assertEquals(arange(runtime, 1, 0, 1, Slab.X, { memory }).size, 0);
  // Which float64 has no numbers for.
  const large = 2 ** 53 - 2;
  using integers = arange(runtime, large, large + 6, 1, Slab.X, { dtype: "int64", memory });
  assertEquals([...integers.allGather()], [0n, 1n, 2n, 3n, 4n, 5n].map((i) => BigInt(large) + i));
  const form = { factors: [5], offset: -large, modulus: 2 ** 60 - 2 ** 10 };
  using residues = DistributedArray.generate(runtime, [3], Slab.X, form, { dtype: "int64", memory });
  const least = BigInt(form.modulus) - BigInt(large);
  assertEquals([...residues.allGather()], [least, least + 5n, least + 10n]);
  assertEquals(whole(linspace(runtime, 0, 0.3, 4, Slab.X, { memory })).at(-1), 0.3);
  assertEquals(whole(linspace(runtime, 2, 8, 1, Slab.X, { memory })), [2]);
});

clusterTest("what does not fit says what would", (runtime) => {
  using a = DistributedArray.zeros(runtime, [4, 3], Slab.X, { memory });
  const fails = (action: () => unknown, type: ErrorClass<Error>, message: string) =>
    assertThrowsEverywhere(runtime, action, type, message);
  const list = [2, 2, 2] as unknown as [number, number];
  fails(() => eye(runtime, list, Slab.X), ShapeError, "eye makes a matrix, not an array of shape [2,2,2]");
  const other = { distribution: Slab.X.bind([99, 3], runtime.size) };
  fails(() => reshape(a, [2, 6], other), DistributionError, "Slab.X is bound to shape [99, 3]");
  fails(() => concatenate([a, a], other), DistributionError, "Slab.X is bound to shape [99, 3]");
  fails(() => a.slice([null, null, null]), ShapeError, "slice was given 3 ranges, but an array of shape [4,3] has 2");
  fails(() => a.slice([[-5, 2]]), RangeError, "Range 0 begins or ends at -5, before the first of 4 indices");
  fails(() => a.slice([[-1, -3]]), RangeError, "Range 0, [-1, -3], ends before it begins: of 4 indices it is [3, 1].");
  fails(
    () => a.slice([[5, -1]]),
    RangeError,
    "the start of range 0 must be an integer of at least 0 and at most 4, got 5",
  );
  fails(
    () => a.slice([null, [2, -2]]),
    RangeError,
    "Range 1, [2, -2], ends before it begins: of 3 indices it is [2, 1].",
  );
  fails(() => a.slice([[0, 4, -1]]), RangeError, "from 1, not -1. Views do not run backwards: take flip(array, 0)");
  fails(() => a.slice([[0, 4, "2" as unknown as number]]), TypeError, "The step of range 0 must be a whole number");
  fails(() => a.assign([1, 2] as unknown as number), DTypeError, "float64 takes a number");
  fails(
    () => a.assign(DistributedArray.zeros(runtime, [4, 2], Slab.X, { memory })),
    ShapeError,
    "the array has shape [4,3], but the result has [4,2]",
  );
  // Whether elements move does not matter.
  for (const distribution of [Slab.X, Slab.Y]) {
    using integers = DistributedArray.zeros(runtime, [4, 3], distribution, { dtype: "int32", memory });
    fails(() => integers.assign(a), DTypeError, "the values are of dtype float64, which the array, of dtype int32");
  }
  fails(() => expandDims(a, 4), RangeError, "The axis must be a whole number from -3 to 2, not 4");
  fails(() => squeeze(a, 0), ShapeError, "squeeze takes away dimensions of extent 1");
  fails(() => broadcastTo(a, [4, 1]), ShapeError, "broadcastTo: ");
  fails(() => reshape(a, [5, 3]), ShapeError, "reshape: 12 elements do not make an array of shape [5, 3]");
  const open = "reshape: 12 elements do not make an array of shape [5, -1]. No whole number times 5 is 12; give";
  fails(() => reshape(a, [5, -1]), ShapeError, open);
  fails(() => reshape(a, [0, -1]), ShapeError, "do not make an array of shape [0, -1]. No whole number times 0 is 12");
  fails(() => reshape(a, [-1, -1]), ShapeError, "the shape [-1, -1] has 2 extents of -1, but only one may be -1");
  fails(() => reshape(a, [-1, 2.5]), ShapeError, "The shape is [-1, 2.5], but needs");
  fails(() => reshape(a, [-1, -2, -3]), ShapeError, "The shape is [-1, -2, -3], but needs");
  fails(() => reshape(a, 12 as unknown as number[]), TypeError, "The shape must be an array of numbers");
  fails(() => reshape(a, [-1, "4" as unknown as number]), TypeError, 'not [-1, "4"]');
  using none = DistributedArray.zeros(runtime, [0, 3], Slab.X, { memory });
  fails(() => reshape(none, [0, -1]), ShapeError, "-1 could stand for any extent. Give it.");
  assertEquals([...reshape(none, [-1, 7]).shape], [0, 7]);
  for (const count of [2.5, -1]) {
    const message = `linspace: count must be a whole number from 0, not ${count}`;
    fails(() => linspace(runtime, 0, 1, count, Slab.X), ShapeError, message);
  }
  const larger = " numbers, and an array holds less than 2^53. Take a larger step.";
  fails(() => arange(runtime, 0, 1, 1e-20, Slab.X), ShapeError, `there would be 100000000000000000000${larger}`);
  fails(
    () => arange(runtime, 0, 1, 1e-320, Slab.X),
    ShapeError,
    `there would be more than ${Number.MAX_VALUE}${larger}`,
  );
  fails(() => concatenate([]), TypeError, "concatenate takes a list of arrays, one at least, not []");
  fails(() => concatenate([a, a.transpose()]), ShapeError, "differ beside dimension 0");
  fails(() => stack([a], { axis: 3 }), RangeError, "The axis must be");
  using vector = DistributedArray.zeros(runtime, [3], Replicated, { memory });
  const shapes = "stack: the arrays must have one shape; they have [4,3] and [3]";
  fails(() => stack([a, vector], { axis: 2 }), ShapeError, shapes);
  fails(() => roll(a, 0.5, 0), RangeError, "The shift must be a whole number, not 0.5");
  fails(() => roll(a, [1], [0, 1]), RangeError, "roll takes a shift for each axis, or one for all: not 1 for 2");
  fails(() => arange(runtime, 0, NaN, 1, Slab.X), TypeError, "stop must be a finite number, not NaN");
  fails(() => arange(runtime, 0, 1, 0, Slab.X), ShapeError, "a step of 0 never arrives");
  assert(a.sum() === 0);
});

clusterTest("stepped slices are views, wherever each rank has every so manieth element", (runtime) => {
  const { size } = runtime;
  const value = (i: number, j: number) => 10 * i + j;
  const grid = new ProcessGrid({ shape: [size, 1] });
  const slices = [[0, 11, 2], [1, 10, 2], [2, 8, 4]] as const;
  [Slab.X, Slab.Y, Replicated, new BlockCyclic(grid, [2, 3])].forEach((distribution, k) => {
    const order = k % 2 === 0 ? "C" : "F";
    using a = DistributedArray.generate(runtime, [11, 7], distribution, value, { order, memory });
    // Steps over blocks have to divide them.
    for (const [from, to, step] of k === 3 ? slices.slice(0, 2) : slices) {
      const part = a.slice([[from, to, step], [-6, null]]);
      const rows = Array.from({ length: Math.ceil((to - from) / step) }, (_, k) => from + k * step);
      assertEquals([part.isView, ...part.shape], [true, rows.length, 6]);
      const wanted = rows.flatMap((i) => [1, 2, 3, 4, 5, 6].map((j) => value(i, j)));
      assertEquals(whole(part), wanted, `${part}`);
      assertEquals(part.sum(), wanted.reduce((sum, x) => sum + x, 0));
    }
    if (k === 3) return;
    const columns = a.slice([null, [0, 7, 3]]);
    columns.assign(columns.add(1));
    assertEquals(whole(a), table(11, 7, (i, j) => value(i, j) + (j % 3 === 0 ? 1 : 0)));
    assertEquals(whole(columns.slice([[1, 3], [1, 3]])), [14, 17, 24, 27]);
    assertEquals(whole(columns.transpose().redistribute(Slab.X)).slice(0, 3), [1, 11, 21]);
  });
  if (size !== 2) return;
  using cyclic = DistributedArray.zeros(runtime, [12, 2], new BlockCyclic(grid, [3, 1]), { memory });
  assertThrowsEverywhere(runtime, () => cyclic.slice([[0, 12, 2]]), DistributionError, "Redistribute the array before");
});

clusterTest("assign tells all ranks that the values were freed on one of them", { ranks: [2, 3] }, (runtime) => {
  using a = DistributedArray.full(runtime, [6, 4], Slab.X, 1, { memory });
  const make = (shape: number[], distribution: Distribution, dtype: "float32" | "float64" = "float64") =>
    DistributedArray.full(runtime, shape, distribution, 2, { dtype, memory });
  const values = {
    "in place": () => make([6, 4], Slab.X),
    "on other ranks": () => make([6, 4], Slab.Y),
    "on other ranks, of another dtype": () => make([6, 4], Slab.Y, "float32"),
    "repeated, on other ranks": () => make([4], Slab.X),
  };
  for (const [name, of] of Object.entries(values)) {
    const kept = of();
    assertEquals(whole(a.assign(kept)), table(6, 4, () => 2), name);
    a.assign(1);
    if (runtime.rank === runtime.size - 1) kept.free();
    const text = "DistributedArray.assign: the value was freed";
    assertThrowsEverywhere(runtime, () => a.assign(kept), StateError, text);
    assertEquals(whole(a), table(6, 4, () => 1), name);
  }
});

clusterTest("flip and cumulativeSum where an empty box lies outside", { ranks: [2, 3] }, (runtime) => {
  for (const empty of [[[0, 0], [0, 100]], [[90, 90], [90, 95]]] as Corners[]) {
    const filled: Corners[] = runtime.size === 2 ? [[[0, 0], [4, 4]]] : [[[0, 0], [2, 4]], [[2, 0], [4, 4]]];
    using a = DistributedArray.generate(runtime, [4, 4], new Box([...filled, empty]), (i, j) => 10 * i + j, { memory });
    assertEquals(whole(flip(a, 0)), table(4, 4, (i, j) => 10 * (3 - i) + j));
    assertEquals(whole(flip(a, 1)), table(4, 4, (i, j) => 10 * i + 3 - j));
    assertEquals(whole(cumulativeSum(a, { axis: 1 })), table(4, 4, (i, j) => (j + 1) * (10 * i + j / 2)));
  }
});

clusterTest("flip, cumulativeSum, kron, vecdot", (runtime) => {
  const grid = new ProcessGrid({ shape: [runtime.size, 1] });
  for (const distribution of [Slab.X, Slab.Y, new BlockCyclic(grid, [2, 3]), Replicated]) {
    using a = DistributedArray.generate(runtime, [7, 5], distribution, (i, j) => i - 2 * j, { dtype: "int32", memory });
    const [down, right] = [flip(a, 0), flip(a, -1)];
    assertEquals(String(down.distribution), String(a.distribution));
    assertEquals(whole(down), table(7, 5, (i, j) => 6 - i - 2 * j));
    assertEquals(whole(right), table(7, 5, (i, j) => i - 2 * (4 - j)));
    const sums = cumulativeSum(a, { axis: 0 });
    assertEquals([sums.dtype, String(sums.distribution)], ["int64", String(a.distribution)]);
    assertEquals(whole(sums), table(7, 5, (i, j) => i * (i + 1) / 2 - 2 * j * (i + 1)));
    using z = DistributedArray.generate(runtime, [7, 5], distribution, (i, j) => [i, j], {
      dtype: "complex64",
      memory,
    });
    const parts = whole(cumulativeSum(z, { axis: 1 }));
    assertEquals(parts, table(7, 5, (i, j) => i * (j + 1)).flatMap((re, k) => [re, (k % 5) * (k % 5 + 1) / 2]));
    using f = DistributedArray.random(runtime, [7, 5], distribution, { seed: 3, dtype: "float64", memory });
    using alone = f.redistribute(Replicated);
    for (const axis of [0, 1]) assertEquals(whole(cumulativeSum(f, { axis })), whole(cumulativeSum(alone, { axis })));
    assertEquals(whole(vecdot(z, z)).filter((_, k) => k % 2 === 0), [0, 1, 2, 3, 4, 5, 6].map((i) => 5 * i * i + 30));
  }
  assertEquals(whole(cumulativeSum(arange(runtime, 1, 6, 1, Slab.X))), [1, 3, 6, 10, 15]);
  using small = DistributedArray.generate(runtime, [3, 2], Slab.X, (i, j) => 1 + i + 10 * j, { memory });
  using b = DistributedArray.generate(runtime, [2, 2], Replicated, (i, j) => i + 2 * j, { memory });
  const product = kron(small, b);
  const element = (i: number, j: number) => (1 + (i >> 1) + 10 * (j >> 1)) * (i % 2 + 2 * (j % 2));
  assertEquals([[...product.shape], whole(product)], [[6, 4], table(6, 4, element)]);
  const fails = (action: () => unknown, type: ErrorClass<Error>, message: string) =>
    assertThrowsEverywhere(runtime, action, type, message);
  fails(() => kron(small, b.slice([[0, 1]]).sum({ axis: 0 })), ShapeError, "kron takes arrays of as many dimensions");
  fails(() => cumulativeSum(small), TypeError, "from -2 to 1, not undefined");
  fails(() => flip(small, 2), RangeError, "from -2 to 1");
  fails(() => vecdot(small.sum({ axis: 1 }), small.sum({ axis: 1 })), ShapeError, "Take vdot(a, b)");
  using wide = DistributedArray.generate(runtime, [3, 4], Replicated, (i, j) => 10 * i + j, { order: "F", memory });
  const turned = flip(wide.slice([[0, 2], [1, 4]]), 0);
  assertEquals([turned.order, turned.local.isDense("F")], ["F", true]);
  assertEquals(whole(turned), [11, 12, 13, 1, 2, 3]);
  // Long lines, rows that are copied as a whole, and lines that lie across in memory.
  const cases: [number[], number][] = [[[100_003], 0], [[211, 307], 0], [[211, 307], 1], [[5, 70, 90], 1]];
  for (const [shape, axis] of cases) {
    for (const order of ["C", "F"] as const) {
      using long = DistributedArray.random(runtime, shape, Slab.X, { dtype: "complex64", seed: 2, memory });
      using source = long.to({ order });
      using backwards = flip(source, axis);
      const steps = shape.slice(axis + 1).reduce((product, extent) => product * extent, 2);
      const [given, found] = [long, backwards].map((array) => array.to({ order: "C" }).allGather());
      const block = steps * shape[axis];
      const isTurned = found.every((value, at) => {
        const [outer, i, inner] = [Math.floor(at / block), Math.floor(at % block / steps), at % steps];
        return value === given[outer * block + (shape[axis] - 1 - i) * steps + inner];
      });
      assert(isTurned, `${shape} along ${axis} in ${order}`);
    }
  }
});
