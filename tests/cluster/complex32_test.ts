/** Arrays of complex numbers of half precision: all that arrays do, or an error that says what to do. */
import { assert, assertEquals } from "@std/assert";
import {
  add,
  BlockCyclic,
  concatenate,
  DistributedArray,
  divide,
  dot,
  DTypeError,
  evaluate,
  herk,
  loadNpy,
  loadNpz,
  LocalArray,
  matmul,
  multiply,
  ProcessGrid,
  Replicated,
  type Runtime,
  saveNpy,
  saveNpz,
  Slab,
} from "../../mod.ts";
import { assertThrowsEverywhere, clusterTest } from "../../src/testing/mod.ts";

const dtype = "complex32";

/** Numbers that float16 holds, different for each element. */
const value = (i: number, j: number): [number, number] => [i - j / 4, 3 * j - i / 8];

const make = (runtime: Runtime) => DistributedArray.generate(runtime, [7, 5], Slab.X, value, { dtype });

/** All elements, [re, im] by [re, im], in C order. */
const wholeOf = (array: DistributedArray): number[] => [...array.to({ dtype: "complex128" }).allGather()].map(Number);

const table = (at: (i: number, j: number) => readonly number[]): number[] =>
  Array.from({ length: 35 }, (_, k) => at(Math.floor(k / 5), k % 5)).flat().map((x) => x === 0 ? 0 : x);

clusterTest("complex32: made, moved, read and written as every other dtype", (runtime) => {
  const { rank, size } = runtime;
  const a = make(runtime);
  const all = a.allGather();
  assert(all instanceof Float16Array);
  assertEquals([...all], table(value));
  const grid = new ProcessGrid({ shape: [1, size] });
  for (const distribution of [Slab.Y, new BlockCyclic(grid, [2, 1]), Replicated]) {
    assertEquals([...a.redistribute(distribution).allGather()], table(value));
  }
  assertEquals([...a.to({ order: "F" }).transpose().at(4, 6)], [...value(6, 4)]);
  assertEquals(a.slice([[2, 6], [1, 3]]).at(1, 1), value(3, 2));
  a.set([3, 2], [0.5, -2]);
  assertEquals([a.at(3, 2), a.at(-1, -1)], [[0.5, -2], value(6, 4)]);
  a.set([0, 0], 2049);
  assertEquals(a.at(0, 0), [2048, 0]);
  assertEquals([...DistributedArray.full(runtime, [2], Slab.X, [1, -2], { dtype }).allGather()], [1, -2, 1, -2]);
  assertEquals([...DistributedArray.zeros(runtime, [2], Slab.X, { dtype }).allGather()], [0, 0, 0, 0]);
  const mine = DistributedArray.fromLocal(runtime, Float16Array.of(rank, 0.1), new Slab(0), {
    dtype,
    localShape: [1],
    memory: "host",
  });
  assertEquals(
    [...mine.allGather()],
    Array.from({ length: size }, (_, i) => [i, Math.f16round(0.1)]).flat(),
  );
  assertEquals(mine.format().split("j")[0], "[0.+0.1");
  assertEquals(concatenate([mine, mine]).shape, [2 * size]);
  const random = DistributedArray.random(runtime, [40], Slab.X, { dtype, seed: 7 });
  const numbers = wholeOf(random);
  assert(new Set(numbers).size > 60 && numbers.every((x) => x >= 0 && x < 1));
  assertEquals(numbers, wholeOf(DistributedArray.random(runtime, [40], Replicated, { dtype, seed: 7 })));
});

clusterTest("complex32: conversions round once, and drop nothing", (runtime) => {
  const a = make(runtime);
  for (const to of ["complex64", "complex128"] as const) {
    assertEquals([a.to({ dtype: to }).dtype, ...wholeOf(a.to({ dtype: to }))], [to, ...table(value)]);
    // In the middle between two but for one bit of float64: twice rounded, it would be 2048.
    const fine = DistributedArray.full(runtime, [3], Slab.X, [2049 + 2 ** -11, 1e6], { dtype: to });
    assertEquals(fine.to({ dtype }).at(2), [2050, Infinity]);
  }
  const halves = DistributedArray.full(runtime, [3], Slab.X, 1.5, { dtype: "bfloat16" });
  assertEquals(halves.to({ dtype }).at(2), [1.5, 0]);
  assertThrowsEverywhere(runtime, () => a.to({ dtype: "float16" }), DTypeError, "imaginary parts would be lost");
});

clusterTest("complex32: elementwise functions are computed in float64 and rounded once", (runtime) => {
  const a = make(runtime);
  const parts = [a.real(), a.imag(), a.abs(), a.conj()];
  assertEquals(parts.map((part) => part.dtype), ["float16", "float16", "float16", dtype]);
  const read = (array: DistributedArray): number[] => [...array.to({ dtype: "float64" }).allGather()].map(Number);
  assertEquals(read(parts[0]), table((i, j) => [value(i, j)[0]]));
  assertEquals(read(parts[1]), table((i, j) => [value(i, j)[1]]));
  assertEquals(read(parts[2]), table((i, j) => [Math.f16round(Math.hypot(...value(i, j)))]));
  assertEquals(wholeOf(parts[3]), table((i, j) => [value(i, j)[0], -value(i, j)[1]]));
  const square = (i: number, j: number) => {
    const [re, im] = value(i, j);
    return [re * re - im * im, 2 * re * im].map(Math.f16round);
  };
  assertEquals(wholeOf(multiply(a, a)), table(square));
  assertEquals(wholeOf(a.power(2)), table(square));
  assertEquals(wholeOf(add(a, [1, 1])), table((i, j) => value(i, j).map((x) => Math.f16round(x + 1))));
  assertEquals(divide(a, 3).at(6, 4), value(6, 4).map((x) => Math.f16round(x / 3)) as [number, number]);
  // What stands between lies beyond the largest float16.
  assertEquals(
    wholeOf(evaluate((x) => x.multiply(32768).multiply(2 ** -15).add(1), [a])),
    table((i, j) => [value(i, j)[0] + 1, value(i, j)[1]]),
  );
  const dtypes = (["float16", "bfloat16", "float32", "float64", "uint8", "int32"] as const).map((other) =>
    add(a, DistributedArray.full(runtime, [7, 5], Slab.X, 1, { dtype: other })).dtype
  );
  assertEquals(dtypes, [dtype, "complex64", "complex64", "complex128", dtype, "complex128"]);
  const into = DistributedArray.zeros(runtime, [7, 5], Slab.X, { dtype });
  add(a, a.to({ dtype: "complex128" }), { into });
  assertEquals(wholeOf(into), table((i, j) => value(i, j).map((x) => 2 * x)));
  assertEquals(a.map(([re, im]) => [im, re]).at(1, 2), value(1, 2).toReversed() as [number, number]);
  assertThrowsEverywhere(runtime, () => a.floor(), DTypeError, "floor has no meaning for complex32");
  assertThrowsEverywhere(
    runtime,
    () => add(a, a, { into: DistributedArray.zeros(runtime, [7, 5], Slab.X, { dtype: "float16" }) }),
    DTypeError,
    "complex32",
  );
});

clusterTest("complex32: reductions and products of vectors are exact until they are rounded", (runtime) => {
  const a = make(runtime);
  const numbers = table(value);
  const sumOf = (list: readonly number[]) => list.reduce((x, y) => x + y, 0);
  const [re, im] = [0, 1].map((part) => numbers.filter((_, k) => k % 2 === part));
  assertEquals(a.sum(), [sumOf(re), sumOf(im)]);
  const rows = a.sum({ axis: 1 });
  assertEquals([rows.dtype, rows.at(6)], [dtype, [
    Math.f16round(sumOf(re.slice(30))),
    Math.f16round(sumOf(im.slice(30))),
  ]]);
  assert(Math.abs(a.norm() - Math.hypot(...numbers)) < 1e-10);
  assertEquals(a.maxAbsDifference(a.conj()), 2 * Math.max(...im.map(Math.abs)));
  const line = DistributedArray.full(runtime, [600], Slab.X, [0, 1], { dtype });
  assertEquals(dot(line, line), [-600, 0]);
  assertThrowsEverywhere(runtime, () => a.max(), DTypeError, "complex numbers have no order");
  const sums = runtime.communicator.allReduce(Float16Array.of(1, 2 ** -11), { dtype });
  assertEquals([...sums], [runtime.size, Math.f16round(runtime.size * 2 ** -11)]);
});

clusterTest("complex32: files hold its bits; engines that lack it refuse it, with what to do", (runtime) => {
  const a = DistributedArray.full(runtime, [4, 4], Slab.X, [1, 2], { dtype });
  const fails = (action: () => unknown, message: string) =>
    assertThrowsEverywhere(runtime, action, DTypeError, message);
  const path = runtime.communicator.broadcastObject(runtime.rank === 0 ? Deno.makeTempFileSync() : "");
  saveNpy(a.to({ dtype: "complex64" }), path);
  assertEquals(loadNpy(runtime, path, Slab.Y, { dtype }).at(3, 3), [1, 2]);
  saveNpz({ a }, path);
  const { a: read } = loadNpz(runtime, path, Slab.Y, { dtype });
  assertEquals([read.dtype, read.at(3, 3)], [dtype, [1, 2]]);
  const advice = 'a: The .npy file holds elements of type "|V4"; distmath reads f2, f4, f8, c8, c16, i1, u1, i4, i8. ' +
    'If these are pairs of float16, pass { dtype: "complex32" }. Options are for all arrays that are read: name those ' +
    'that need them, { "a": … }, and read the others by another call.';
  fails(() => loadNpz(runtime, path, Slab.Y), advice);
  runtime.communicator.barrier();
  if (runtime.rank === 0) Deno.removeSync(path);
  fails(() => matmul(a, a), 'No engine multiplies complex32: convert with to({ dtype: "complex64" })');
  fails(
    () => herk(a),
    'herk takes float32, float64, complex64, complex128; got complex32. Convert with to({ dtype: "complex64"',
  );
  const local = new LocalArray({ data: Float16Array.of(1, 2, 3, 4), dtype, shape: [2] });
  assertEquals([local.toString(), local.at(1), local.toNumbers()], ["LocalArray(complex32, [2])", [3, 4], [
    1,
    2,
    3,
    4,
  ]]);
});
