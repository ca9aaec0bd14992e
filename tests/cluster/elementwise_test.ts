/** Elementwise functions over distributions: what each rank computes is what plain loops over whole arrays give. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import * as api from "../../mod.ts";
import {
  add,
  Box,
  clip,
  CollectiveError,
  conj,
  DistributedArray,
  type Distribution,
  DistributionError,
  divide,
  DTypeError,
  equal,
  evaluate,
  exp,
  greater,
  imag,
  initialize,
  multiply,
  power,
  real,
  Replicated,
  ShapeError,
  sin,
  Slab,
  StateError,
  subtract,
  tanh,
  where,
} from "../../mod.ts";
import { assertThrowsEverywhere, clusterTest, type ErrorClass } from "../../src/testing/mod.ts";
import { FUNCTIONS } from "../../src/array/elementwise/expression.ts";
import { LARGE } from "../../src/array/elementwise/vectors.ts";
import { distributions as usualDistributions, table, whole } from "./array_oracle.ts";

/** Those of all tests, and columns of several widths, for arrays of 7 x 5. */
function distributions(size: number): Distribution[] {
  const columns = Array.from({ length: size + 1 }, (_, rank) => Math.floor(5 * rank * rank / (size * size)));
  const box = new Box(Array.from({ length: size }, (_, rank) => [[0, columns[rank]], [7, columns[rank + 1]]] as const));
  return [...usualDistributions(size), box];
}

const memory = "host";

clusterTest("operands of one distribution, replicated ones, rows, columns and numbers", (runtime) => {
  for (const distribution of distributions(runtime.size)) {
    for (const order of ["C", "F"] as const) {
      using a = DistributedArray.generate(runtime, [7, 5], distribution, (i, j) => i - j, { order, memory });
      using b = DistributedArray.generate(runtime, [7, 5], distribution, (i, j) => i * j, { dtype: "int32", memory });
      using all = DistributedArray.generate(runtime, [7, 5], Replicated, (i, j) => i + 10 * j, { memory });
      using row = DistributedArray.generate(runtime, [5], Replicated, (j) => j, { dtype: "float32", memory });
      using column = DistributedArray.generate(runtime, [7, 1], Replicated, (i) => 2 * i, { memory });
      using sum = add(a, b);
      assertEquals([sum.dtype, sum.order, sum.memory, sum.isView], ["float64", order, "host", false]);
      assertEquals(sum.distribution.toString(), a.distribution.toString());
      assertEquals(whole(sum), table(7, 5, (i, j) => i - j + i * j), `${a}`);
      assertEquals(whole(add(all, b)), table(7, 5, (i, j) => i + 10 * j + i * j), `${a}`);
      assertEquals(whole(multiply(a, row)), table(7, 5, (i, j) => (i - j) * j), `${a}`);
      assertEquals(whole(subtract(column, a)), table(7, 5, (i, j) => i + j), `${a}`);
      assertEquals(whole(divide(a, 2)), table(7, 5, (i, j) => (i - j) / 2));
      assertEquals(whole(power(2, b)), table(7, 5, (i, j) => 2 ** (i * j)));
      const positive = greater(a, 0);
      assertEquals(positive.dtype, "uint8");
      assertEquals(whole(where(positive, a, column)), table(7, 5, (i, j) => i > j ? i - j : 2 * i));
      assertEquals(whole(clip(a, -2, row)), table(7, 5, (i, j) => Math.min(Math.max(i - j, -2), j)));
    }
  }
});

clusterTest("methods are the functions of their names", (runtime) => {
  const floats = { low: -2, high: 2, memory } as const;
  using x = DistributedArray.random(runtime, [7, 5], Slab.X, { ...floats, seed: 1 });
  using y = DistributedArray.random(runtime, [7, 5], Slab.X, { ...floats, seed: 2, dtype: "float32" });
  for (const [name, { arity }] of Object.entries(FUNCTIONS)) {
    const others = [y, 0.5].slice(0, arity - 1);
    const expected = Reflect.get(api, name)(x, ...others);
    const result = Reflect.get(x, name).call(x, ...others);
    assertEquals([result.dtype, ...whole(result)], [expected.dtype, ...whole(expected)], name);
    using into = DistributedArray.zeros(runtime, [7, 5], Slab.X, { memory });
    assertStrictEquals(Reflect.get(x, name).call(x, ...others, { into }), into, name);
    assertEquals(whole(into), whole(expected), name);
  }
  using a = DistributedArray.generate(runtime, [7, 5], Slab.X, (i, j) => i - j, { dtype: "int32", memory });
  assertEquals(whole(a.square().add(a).multiply(2)), table(7, 5, (i, j) => 2 * (i - j) * (i - j + 1)));
  assertEquals(whole(a.greater(1).where(a, -1).clip(0, 3)), table(7, 5, (i, j) => i - j > 1 ? Math.min(i - j, 3) : 0));
  assertEquals(whole(evaluate((a) => a.clip(-1, 2), [a])), table(7, 5, (i, j) => Math.min(Math.max(i - j, -1), 2)));
});

clusterTest("a divided column stands beside each column, without moving", (runtime) => {
  using a = DistributedArray.generate(runtime, [7, 5], Slab.X, (i, j) => i * j, { memory });
  using column = DistributedArray.generate(runtime, [7, 1], Slab.X, (i) => i, { memory });
  using row = DistributedArray.generate(runtime, [1, 5], Replicated, (_, j) => 100 * j, { memory });
  assertEquals(whole(subtract(a, column)), table(7, 5, (i, j) => i * j - i));
  using outer = add(column, row);
  assertEquals([outer.distribution.toString(), ...outer.shape], ["Slab.X", 7, 5]);
  assertEquals(whole(outer), table(7, 5, (i, j) => i + 100 * j));
  using vector = DistributedArray.generate(runtime, [5], Slab.X, (j) => j, { memory });
  using wide = add(vector, DistributedArray.zeros(runtime, [7, 1], Replicated, { memory }));
  assertEquals([wide.distribution.toString(), ...whole(wide)], ["Slab.Y", ...table(7, 5, (_, j) => j)]);
});

clusterTest("results go into arrays that are there, in place too", (runtime) => {
  using a = DistributedArray.generate(runtime, [6, 4], Slab.X, (i, j) => i + j, { dtype: "float32", memory });
  assertStrictEquals(add(a, a, { into: a }), a);
  assertStrictEquals(a.multiply(a, { into: a }), a);
  assertEquals(whole(a), table(6, 4, (i, j) => 4 * (i + j) ** 2));
  // Into a slice of the operand itself, one further: the elements are read before they are overwritten.
  using line = DistributedArray.generate(runtime, [8 * runtime.size], Replicated, (i) => i, { memory });
  const length = line.size;
  const [from, to] = [line.slice([[0, length - 1]]), line.slice([[1, length]])];
  add(from, 1, { into: to });
  assertEquals(whole(line), Array.from({ length }, (_, i) => i === 0 ? 0 : i));
  // Replicated operands and a divided target: each rank computes its part.
  using target = DistributedArray.zeros(runtime, [6, 4], Slab.Y, { dtype: "bfloat16", order: "F", memory });
  using all = DistributedArray.generate(runtime, [6, 4], Replicated, (i, j) => i * j, { memory });
  exp(multiply(all, 0), { into: target });
  assertEquals(whole(target), table(6, 4, () => 1));
  // Symmetric memory is the GPU's where there is one.
  const symmetric = DistributedArray.zeros(runtime, [6, 4], Slab.X, { dtype: "float32", memory: "symmetric" });
  const beside = runtime.device.kind === "gpu" ? a.to({ memory: "device" }) : a;
  assertStrictEquals(add(beside, 1, { into: symmetric }), symmetric);
  assertEquals(whole(symmetric), table(6, 4, (i, j) => 4 * (i + j) ** 2 + 1));
  symmetric.free();
});

clusterTest("operands of other distributions are redistributed, if that is asked for", (runtime) => {
  const redistribute = true;
  using row = DistributedArray.generate(runtime, [5], Replicated, (j) => j, { memory });
  for (const from of distributions(runtime.size)) {
    using a = DistributedArray.generate(runtime, [7, 5], from, (i, j) => i - j, { order: "F", memory });
    for (const to of distributions(runtime.size)) {
      using b = DistributedArray.generate(runtime, [7, 5], to, (i, j) => i * j, { dtype: "int32", memory });
      using sum = add(b, a, { redistribute });
      assertEquals(whole(sum), table(7, 5, (i, j) => i * j + i - j), `${to} and ${from}`);
      assertEquals(`${sum.distribution}`, `${to.isReplicated ? a.distribution : b.distribution}`);
      const expression = evaluate((x, y, z) => x.multiply(y).add(z), [a, b, row], { redistribute, into: a });
      assertStrictEquals(expression, a);
      assertEquals(whole(a), table(7, 5, (i, j) => (i - j) * i * j + j), `${from} and ${to}`);
      a.assign(DistributedArray.generate(runtime, [7, 5], from, (i, j) => i - j, { memory }));
    }
  }
  // What has fewer dimensions is moved to where it is repeated, also as large as it is.
  using vector = DistributedArray.generate(runtime, [5], Slab.X, (j) => j, { memory });
  for (const rows of [1, 3]) {
    using target = DistributedArray.zeros(runtime, [rows, 5], Slab.X, { memory });
    assertEquals(whole(target.assign(vector)), table(rows, 5, (_, j) => j));
  }
  // Slices of one array, which is written: all of them are read before.
  for (const distribution of distributions(runtime.size)) {
    using u = DistributedArray.generate(runtime, [7, 5], distribution, (i, j) => i * i + j, { memory });
    const [inner, up, down] = [[1, -1], [0, -2], [2, null]].map((rows) => u.slice([rows as [number, number]]));
    evaluate((a, b) => a.add(b), [up, down], { into: inner, redistribute });
    const rows = (i: number, j: number) => i % 6 === 0 ? i * i + j : (i - 1) ** 2 + (i + 1) ** 2 + 2 * j;
    assertEquals(whole(u), table(7, 5, rows), `${distribution}`);
  }
  const fails = (action: () => unknown, type: ErrorClass<Error>, message: string) =>
    assertThrowsEverywhere(runtime, action, type, message);
  using integers = DistributedArray.generate(runtime, [7, 5], Slab.X, (i) => i + 1, { dtype: "int32", memory });
  using powers = DistributedArray.full(runtime, [7, 5], Slab.Y, -1, { dtype: "int32", memory });
  fails(() => power(integers, powers, { redistribute }), RangeError, "integers have no negative powers");
  const wrong = () => add(integers, powers, { redistribute: 1 as unknown as boolean });
  fails(wrong, TypeError, "redistribute must be true or false, not 1");
  if (runtime.size > 1) {
    const unlike = () => add(integers, integers, { redistribute: runtime.rank > 0 });
    fails(unlike, CollectiveError, "add: the ranks disagree on redistribute");
  }
});

clusterTest("an expression is computed in one pass, and rounded once", (runtime) => {
  using a = DistributedArray.generate(runtime, [7, 5], Slab.X, (i, j) => i + j, { dtype: "float32", memory });
  using row = DistributedArray.generate(runtime, [5], Replicated, (j) => j, { dtype: "int32", memory });
  const result = evaluate((a, j) => a.greater(3).where(a.multiply(j).subtract(0.5), a.negative()), [a, row]);
  assertEquals(result.dtype, "float64");
  assertEquals(whole(result), table(7, 5, (i, j) => i + j > 3 ? (i + j) * j - 0.5 : i + j === 0 ? -0 : -(i + j)));
  // 2^24 + 1 is no float32, but it is exact between.
  using large = DistributedArray.full(runtime, [4], Slab.X, 2 ** 24, { dtype: "float32", memory });
  assertEquals(whole(evaluate((x) => x.add(1).subtract(2 ** 24), [large])), [1, 1, 1, 1]);
  assertStrictEquals(evaluate((x, f) => x.multiply(f), [large, 0.5], { into: large }), large);
  assertEquals(large.sum(), 2 ** 25);
  const fails = (action: () => unknown, message: string) => assertThrowsEverywhere(runtime, action, TypeError, message);
  // deno-lint-ignore no-explicit-any
  const wrong = evaluate as any;
  fails(() => wrong([a], (x: unknown) => x), "evaluate takes a function of terms and a list of operands");
  fails(() => evaluate((x) => x.add(), [a]), "evaluate: add takes 1 operands beside its own, not 0.");
  const noTerm = "evaluate: the function must return a term of the same evaluate(), such as a.add(b), not";
  let other: unknown;
  evaluate((x) => other = x, [a]);
  for (const result of ["x", 5, [1, 2], a, other]) fails(() => wrong(() => result, [a]), noTerm);
  if (runtime.size > 1) {
    const unlike = () => evaluate((x) => runtime.rank === 0 ? x.exp() : x.log(), [a]);
    assertThrowsEverywhere(runtime, unlike, CollectiveError, "evaluate");
  }
});

clusterTest("complex arrays and maps of two arrays", (runtime) => {
  using z = DistributedArray.generate(runtime, [5, 3], Slab.X, (i, j) => [i, j], { dtype: "complex64", memory });
  assertEquals(whole(conj(z)), table(5, 3, (i) => i).flatMap((i, k) => [i, -(k % 3)]).map((x) => x === 0 ? 0 : x));
  assertEquals([real(z).dtype, ...whole(imag(z))], ["float32", ...table(5, 3, (_, j) => j)]);
  assertEquals([multiply(z, [0, 1]).dtype, ...whole(real(multiply(z, [0, 1])))], [
    "complex64",
    ...table(5, 3, (_, j) => 0 - j),
  ]);
  using a = DistributedArray.generate(runtime, [5, 3], Slab.X, (i, j) => i + j, { dtype: "int8", memory });
  using row = DistributedArray.generate(runtime, [3], Replicated, (j) => j / 2, { memory });
  using zipped = a.zip(row, (x, y, i, j) => Number(x) * Number(y) + 100 * i + j);
  assertEquals([zipped.dtype, ...whole(zipped)], ["float64", ...table(5, 3, (i, j) => (i + j) * j / 2 + 100 * i + j)]);
  assertEquals(whole(a.zip(1, (x, y) => Number(x) + Number(y))), table(5, 3, (i, j) => i + j + 1));
});

clusterTest("what does not fit is an error that says what to do", (runtime) => {
  using a = DistributedArray.zeros(runtime, [6, 4], Slab.X, { memory });
  using b = DistributedArray.zeros(runtime, [6, 4], Slab.Y, { memory });
  using wrong = DistributedArray.zeros(runtime, [5, 4], Slab.X, { memory });
  using complex = DistributedArray.zeros(runtime, [6, 4], Slab.X, { dtype: "complex64", memory });
  using integers = DistributedArray.zeros(runtime, [6, 4], Slab.X, { dtype: "int32", memory });
  const fails = (action: () => unknown, type: ErrorClass<Error>, message: string) =>
    assertThrowsEverywhere(runtime, action, type, message);
  if (runtime.size > 1) {
    fails(
      () => add(a, b),
      DistributionError,
      "add: the operands are distributed differently, Slab.X of shape [6,4] and Slab.Y",
    );
    fails(() => add(a, b), DistributionError, "redistribute()");
    fails(() => a.zip(b, (x) => x), DistributionError, "zip: the operands are distributed differently");
    fails(() => add(a, a, { into: b }), DistributionError, "redistribute()");
  }
  fails(() => add(a, wrong), ShapeError, "add: shapes [6,4] and [5,4] do not fit together");
  fails(() => add(a, 1, { into: wrong }), ShapeError, "into has shape [5,4], but the result has [6,4]");
  fails(() => add(a, "1" as unknown as number), TypeError, "add: operand 2 must be a DistributedArray, a number");
  fails(() => add(1, 2), TypeError, "add needs at least one DistributedArray");
  fails(
    () => add(a, 1, { into: 3 as unknown as DistributedArray }),
    TypeError,
    "into must be a DistributedArray, not 3",
  );
  fails(
    () => add(a, complex, { into: a }),
    DTypeError,
    "the result is of dtype complex128, which into, of dtype float64, does not",
  );
  fails(() => add(a, 1, { into: integers }), DTypeError, "does not hold");
  fails(() => equal(a, 1, { into: integers }).add(a, { into: integers }), DTypeError, 'to({ dtype: "int32" })');
  fails(() => power(integers, -1), RangeError, "integers have no negative powers");
  fails(() => a.zip(b, 1 as unknown as () => number), TypeError, "zip takes a function");
  const freed = a.copy();
  freed.free();
  fails(() => add(a, freed), StateError, "add: operand 2 was freed");
});

clusterTest("ranks that pass different operands are told so", (runtime) => {
  if (runtime.size === 1) return;
  using a = DistributedArray.zeros(runtime, [6, 4], Slab.X, { memory });
  assertThrowsEverywhere(runtime, () => add(a, runtime.rank), Error, "add: the ranks disagree on operands");
});

clusterTest("an array of another runtime is refused", (runtime) => {
  using a = DistributedArray.zeros(runtime, [6, 4], Slab.X, { memory });
  runtime[Symbol.dispose]();
  using other = initialize({ device: "cpu" });
  using b = DistributedArray.zeros(other, [6, 4], Slab.X, { memory });
  assertThrowsEverywhere(other, () => add(b, a), StateError, "add: operand 2 belongs to another runtime");
  const compare = () => b.maxAbsDifference(a);
  assertThrowsEverywhere(other, compare, StateError, "maxAbsDifference: other belongs to another runtime");
});

clusterTest(
  "large arrays have the same results wherever their elements are, with vector mathematics or without",
  (runtime) => {
    const value = (i: number) => ((i * 37) % 1000 - 500) / 100;
    for (const dtype of ["float64", "float32"] as const) {
      const make = (distribution: Distribution) =>
        DistributedArray.generate(runtime, [LARGE + 7], distribution, value, { dtype, memory });
      using parts = make(Slab.X);
      using all = make(Replicated);
      const same = (one: DistributedArray, other: DistributedArray) => {
        const [[start, end]] = one.distribution.ranges(runtime.rank)[0];
        assertEquals(one.local.view(), other.local.view().slice(start, end));
        one.free();
        other.free();
      };
      for (const run of [exp, sin, tanh]) same(run(parts), run(all));
      same(power(parts, 3), power(all, 3));
      same(clip(parts, -1, 2), clip(all, -1, 2));
      const logarithm = (array: DistributedArray) => evaluate((x) => x.multiply(x).add(1).log(), [array]);
      same(logarithm(parts), logarithm(all));
      using some = clip(parts, -1, 2);
      assertEquals([some.min(), some.max()], [-1, 2]);
    }
  },
);

clusterTest(
  "ranks that compute different things, or with zeros of different signs, are told so",
  { ranks: [2, 3] },
  (runtime) => {
    const isOther = runtime.rank === 1;
    using zeros = DistributedArray.full(runtime, [4], Slab.X, 0);
    const zero = isOther ? -0 : 0;
    const calls: Record<string, () => unknown> = {
      "one of two terms": () =>
        evaluate((x) => {
          const [one, two] = [x.add(1), x.add(2)];
          return isOther ? two : one;
        }, [zeros]),
      "a number beside an array": () => divide(1, zeros.add(zero)),
      "a number in an expression": () => evaluate((x) => x.multiply(zero), [zeros]),
      "all elements": () => DistributedArray.full(runtime, [4], Slab.X, zero),
      "one element": () => zeros.set([1], zero),
      "elements that are assigned": () => zeros.assign(zero),
    };
    for (const call of Object.values(calls)) assertThrowsEverywhere(runtime, call, CollectiveError);
  },
);

clusterTest("numbers that float8 does not hold stay what they are beside its elements", (runtime) => {
  for (const [dtype, largest] of [["float8_e4m3", 448], ["float8_e5m2", 57344]] as const) {
    using w = DistributedArray.generate(runtime, [3], Slab.X, (i) => [largest, 1, -2][i], { dtype, memory });
    using y = DistributedArray.zeros(runtime, [3], Slab.X, { dtype: "float32", memory });
    const values = (array: DistributedArray) => whole(array).map(Number);
    const beyond = 4 * largest;
    assertEquals(values(api.axpy(beyond, w, y)), [beyond * largest, beyond, -2 * beyond]);
    assertEquals(values(w.multiply(beyond, { into: y })), [beyond * largest, beyond, -2 * beyond]);
    assertEquals(values(w.divide(-Infinity)), [-0, -0, 0]);
    assertEquals([w.equal(beyond), w.less(beyond), w.greater(-beyond)].map(values), [[0, 0, 0], [1, 1, 1], [1, 1, 1]]);
    // Its own results are its largest ones.
    assertEquals(values(w.multiply(beyond)), [largest, largest, -largest]);
  }
});

clusterTest("infinities of float8_e5m2 stay what they are, whatever takes elements", (runtime) => {
  const bits = Uint8Array.of(0x7c, 0xfc, 0x3c, 0x7e);
  using a = DistributedArray.fromLocal(runtime, bits, Replicated, { dtype: "float8_e5m2", localShape: [4], memory });
  assertEquals([...evaluate((x) => x, [a]).allGather()], [...bits]);
  assertEquals([...a.positive().allGather()], [...bits]);
  const none = Infinity;
  const [same, negative] = [[none, -none, 1, NaN], [-none, none, -1, NaN]];
  const results = {
    where: a.where(a, 0),
    clip: a.clip(-none, none),
    map: a.map((x) => x),
    zip: a.zip(0, (x) => x),
    minimum: a.minimum(none),
    to: a.to({ dtype: "float32" }).to({ dtype: "float8_e5m2" }),
    generate: DistributedArray.generate(runtime, [4], Replicated, (i) => same[i], { dtype: "float8_e5m2", memory }),
  };
  for (const [name, array] of Object.entries(results)) assertEquals(whole(array), same, name);
  assertEquals(whole(a.negative()), negative);
  assertEquals(DistributedArray.full(runtime, [1], Replicated, none, { dtype: "float8_e5m2", memory }).at(0), none);
  // What is finite stays finite.
  assertEquals(whole(a.where(a, 0).map((x) => x === 1 ? 1e6 : 0)), [0, 0, 57344, 0]);
});

clusterTest("what does not fit into an array that is changed is told of by its name", (runtime) => {
  using integers = DistributedArray.zeros(runtime, [3], Slab.X, { dtype: "int32", memory });
  using floats = DistributedArray.zeros(runtime, [3], Slab.X, { memory });
  using pairs = floats.to({ dtype: "complex64" });
  const wanted: [call: () => unknown, message: string][] = [
    [
      () => integers.assign(floats),
      'the values are of dtype float64, which the array, of dtype int32, does not hold. Convert them with to({ dtype: "int32" }).',
    ],
    [() => floats.assign(pairs), 'does not hold. Convert them with to({ dtype: "float64" }) after real() or abs().'],
    [
      () => api.scale(integers, 0.5),
      'scale: the result is of dtype float64, which the array, of dtype int32, does not hold. Convert the array with to({ dtype: "float64" }) first.',
    ],
    [
      () => api.axpy(0.5, integers, integers),
      'axpy: the result is of dtype float64, which y, of dtype int32, does not hold. Convert y with to({ dtype: "float64" }) first.',
    ],
    [
      () => add(floats, 1, { into: integers }),
      'add: the result is of dtype float64, which into, of dtype int32, does not hold. Leave into out, and convert the result with to({ dtype: "int32" }).',
    ],
  ];
  for (const [call, message] of wanted) assertThrowsEverywhere(runtime, call, DTypeError, message);
});
