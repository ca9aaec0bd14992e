import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { allocate, type DType, dtypeInfo, type TypedArray } from "../../../src/dtype/dtype.ts";
import {
  checkShape,
  copyRuns,
  copyStrided,
  isDense,
  leadingDimension,
  prepareCopy,
  type Run,
  sizeOfShape,
  type Strided,
  stridesOf,
} from "../../../src/array/layout.ts";
import { ShapeError, StateError } from "../../../src/errors.ts";

/** All index tuples of a shape, the last one fastest. */
function* indices(shape: readonly number[]): Generator<number[]> {
  if (shape.length === 0) return yield [];
  for (let i = 0; i < shape[0]; i++) for (const rest of indices(shape.slice(1))) yield [i, ...rest];
}

function at({ offset, strides }: Strided, index: readonly number[]): number {
  return index.reduce((sum, i, d) => sum + i * strides[d], offset);
}

/** A layout of a shape: some order of the dimensions, with gaps between neighbours and in front. */
function stridedArray(
  dtype: DType,
  shape: readonly number[],
  axes: readonly number[],
  gaps: readonly number[],
): Strided {
  const strides = new Array<number>(shape.length);
  let stride = 1;
  for (const [i, axis] of axes.entries()) {
    stride *= gaps[i];
    strides[axis] = stride;
    stride *= Math.max(1, shape[axis]);
  }
  return { data: allocate(dtype, stride + 3), offset: 3, strides };
}

function fillWithCounter(data: TypedArray): void {
  for (let i = 0; i < data.length; i++) data[i] = data instanceof BigInt64Array ? BigInt(i + 1) : (i % 100) + 1;
}

const dtype = fc.constantFrom<DType>("int8", "float16", "float32", "float64", "complex64", "complex128", "int64");
const layout = (dimensions: number) =>
  fc.record({
    axes: fc.shuffledSubarray([...Array(dimensions).keys()], { minLength: dimensions }),
    gaps: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: dimensions, maxLength: dimensions }),
  });

Deno.test("copyStrided copies any layout to any other, and nothing else", () => {
  const shapes = fc.array(fc.integer({ min: 0, max: 7 }), { minLength: 1, maxLength: 4 });
  const cases = shapes.chain((shape) =>
    fc.record({ shape: fc.constant(shape), dtype, from: layout(shape.length), to: layout(shape.length) })
  );
  fc.assert(fc.property(cases, ({ shape, dtype, from, to }) => {
    const { parts } = dtypeInfo(dtype);
    const source = stridedArray(dtype, shape, from.axes, from.gaps);
    const target = stridedArray(dtype, shape, to.axes, to.gaps);
    fillWithCounter(source.data);
    const wanted = target.data.slice();
    for (const index of indices(shape)) {
      for (let part = 0; part < parts; part++) {
        wanted[at(target, index) * parts + part] = source.data[at(source, index) * parts + part];
      }
    }
    copyStrided(source, target, shape, parts);
    assertEquals(target.data, wanted);
  }));
});

Deno.test("copyStrided copies long lines whole, whatever the width of their numbers", () => {
  const bytes = fc.integer({ min: 1, max: 2 ** 20 });
  fc.assert(
    fc.property(fc.constantFrom<DType>("int8", "float16", "float32", "float64"), bytes, (dtype, bytes) => {
      const length = Math.ceil(bytes / dtypeInfo(dtype).itemSize);
      const source = allocate(dtype, length + 5);
      const target = allocate(dtype, length + 5);
      fillWithCounter(source);
      copyStrided({ data: source, offset: 2, strides: [1] }, { data: target, offset: 3, strides: [1] }, [length]);
      const wanted = allocate(dtype, length + 5) as Float64Array;
      wanted.set(source.subarray(2, 2 + length) as Float64Array, 3);
      assert(target.every((value, i) => value === wanted[i]));
    }),
    { numRuns: 30, examples: [["float32", 2 ** 18], ["float64", 2 ** 18 + 8], ["int8", 2 ** 19 - 1]] },
  );
});

Deno.test("copyRuns copies products of runs between any layouts", () => {
  // The runs of a dimension: lengths with gaps before them on both sides.
  const runList = fc.array(
    fc.record({ skip: fc.nat(2), leave: fc.nat(2), length: fc.integer({ min: 1, max: 5 }) }),
    { maxLength: 4 },
  ).map((steps) => {
    const runs: Run[] = [];
    let [source, target] = [0, 0];
    for (const { skip, leave, length } of steps) {
      runs.push({ source: source + skip, target: target + leave, length });
      source += skip + length;
      target += leave + length;
    }
    return { runs, source, target };
  });
  const cases = fc.array(runList, { minLength: 1, maxLength: 3 }).chain((lists) =>
    fc.record({ lists: fc.constant(lists), dtype, from: layout(lists.length), to: layout(lists.length) })
  );
  fc.assert(fc.property(cases, ({ lists, dtype, from, to }) => {
    const { parts } = dtypeInfo(dtype);
    const source = stridedArray(dtype, lists.map((list) => list.source), from.axes, from.gaps);
    const target = stridedArray(dtype, lists.map((list) => list.target), to.axes, to.gaps);
    fillWithCounter(source.data);
    const wanted = target.data.slice();
    const pairs = lists.map(({ runs }) =>
      runs.flatMap((run) => Array.from({ length: run.length }, (_, i) => [run.source + i, run.target + i]))
    );
    for (const index of indices(pairs.map((list) => list.length))) {
      const moved = index.map((i, d) => pairs[d][i]);
      for (let part = 0; part < parts; part++) {
        const from = at(source, moved.map(([i]) => i)) * parts + part;
        wanted[at(target, moved.map(([, i]) => i)) * parts + part] = source.data[from];
      }
    }
    copyRuns(source, target, lists.map((list) => list.runs), parts);
    assertEquals(target.data, wanted);
  }));
});

Deno.test("copies keep all bits of 8-byte elements, in cold and in hot loops", () => {
  const n = 64;
  const patterns = new BigUint64Array(n * n);
  for (let i = 0; i < patterns.length; i++) patterns[i] = 0x7ff0000000000001n + BigInt(i) * 0x0001000100010001n;
  const source = { data: new BigInt64Array(patterns.buffer), offset: 0, strides: stridesOf([n, n], "C") };
  for (let round = 0; round < 300; round++) {
    const target = { data: new BigInt64Array(n * n), offset: 0, strides: stridesOf([n, n], "F") };
    copyStrided(source, target, [n, n]);
    const bits = new BigUint64Array(target.data.buffer);
    if (round % 100 !== 0 && round !== 299) continue;
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) assertEquals(bits[i + n * j], patterns[n * i + j]);
  }
});

Deno.test("a transposing copy of a large matrix goes tile by tile to the right places", () => {
  const shape = [100, 77];
  const source = { data: Float32Array.from({ length: 7700 }, (_, i) => i), offset: 0, strides: stridesOf(shape, "C") };
  const target = { data: new Float32Array(7700), offset: 0, strides: stridesOf(shape, "F") };
  copyStrided(source, target, shape);
  for (let i = 0; i < 100; i++) for (let j = 0; j < 77; j++) assert(target.data[i + 100 * j] === 77 * i + j);
});

Deno.test("complex64 that begins between two 8-byte words is copied like any other", () => {
  const buffer = Float32Array.from({ length: 13 }, (_, i) => i).buffer;
  const source = { data: new Float32Array(buffer, 4), offset: 0, strides: [1, 2] };
  const target = { data: new Float32Array(12), offset: 0, strides: [3, 1] };
  copyStrided(source, target, [2, 3], 2);
  assertEquals([...target.data], [1, 2, 5, 6, 9, 10, 3, 4, 7, 8, 11, 12]);
});

Deno.test("strides and density", () => {
  assertEquals(stridesOf([2, 3, 4], "C"), [12, 4, 1]);
  assertEquals(stridesOf([2, 3, 4], "F"), [1, 2, 6]);
  assert(isDense([2, 3], [3, 1], "C") && !isDense([2, 3], [3, 1], "F"));
  assert(isDense([1, 3], [99, 1], "C") && isDense([1, 3], [99, 1], "F"));
  assert(isDense([0, 3], [7, 9], "F"));
  assertEquals(sizeOfShape([3, 0, 5]), 0);
  assertEquals(sizeOfShape([]), 1);
});

Deno.test("leading dimensions as BLAS wants them", () => {
  const of = (shape: number[], strides: number[], preferred?: "C" | "F") =>
    leadingDimension({ shape, strides }, preferred);
  assertEquals(of([3, 4], [1, 3]), { order: "F", leadingDimension: 3 });
  assertEquals(of([3, 4], [1, 8]), { order: "F", leadingDimension: 8 });
  assertEquals(of([3, 4], [4, 1]), { order: "C", leadingDimension: 4 });
  assertEquals(of([3, 4], [9, 1]), { order: "C", leadingDimension: 9 });
  assertEquals(of([3, 4], [8, 2]), null);
  assertEquals(of([3, 4], [1, 2]), null);
  assertEquals(of([1, 4], [4, 1]), { order: "F", leadingDimension: 1 });
  assertEquals(of([1, 4], [4, 1], "C"), { order: "C", leadingDimension: 4 });
  assertEquals(of([1, 4], [4, 2]), { order: "F", leadingDimension: 2 });
  assertEquals(of([5, 1], [1, 1]), { order: "F", leadingDimension: 5 });
  assertEquals(of([5, 1], [7, 7]), { order: "C", leadingDimension: 7 });
  assertEquals(of([0, 4], [4, 1]), { order: "F", leadingDimension: 1 });
  assertEquals(of([0, 4], [4, 1], "C"), { order: "C", leadingDimension: 4 });
  assertEquals(leadingDimension({ shape: [3], strides: [1] }), null);
});

Deno.test("what is no shape is refused", () => {
  assertThrows(() => checkShape([2, -1]), ShapeError, "The shape is [2, -1]");
  assertThrows(() => checkShape([2.5]), ShapeError, "whole numbers");
  assertThrows(() => checkShape([]), ShapeError, "at least one extent");
  assertThrows(() => checkShape([2 ** 30, 2 ** 30]), ShapeError, "more than 2^53");
  assertThrows(() => checkShape("4" as unknown as number[]), TypeError, 'not "4"');
  assertThrows(() => checkShape(["4"] as unknown as number[]), TypeError, "array of numbers");
});

Deno.test("copies of short, long and many runs are those of a plain loop, again and again, with shifts", () => {
  const run = (source: number, target: number, length: number) => ({ source, target, length });
  const lines = {
    short: [run(1, 0, 2), run(5, 2, 3)],
    long: [run(0, 3, 20), run(30, 23, 9)],
    huge: [run(2, 1, 70_001)],
  };
  for (const [length, columns] of Object.entries(lines)) {
    for (const array of [Uint8Array, Uint16Array, Float32Array, Float64Array]) {
      const width = length === "huge" ? 70_100 : 60;
      const rows = [run(0, 1, 2), run(3, 3, 1)];
      const source = { data: new array(5 * width).map((_, i) => i % 251), offset: 3, strides: [width, 1] };
      const target = { data: new array(5 * width), offset: 0, strides: [width, 1] };
      const copy = prepareCopy(source, target, [rows, columns]);
      for (const [from, to] of [[0, 0], [2, 7]]) {
        target.data.fill(255);
        copy(from, to);
        const wanted = new array(5 * width).fill(255);
        for (const row of rows) {
          for (let i = 0; i < row.length; i++) {
            for (const column of columns) {
              for (let j = 0; j < column.length; j++) {
                const s = 3 + from + (row.source + i) * width + column.source + j;
                wanted[to + (row.target + i) * width + column.target + j] = source.data[s];
              }
            }
          }
        }
        assert(target.data.every((value, i) => value === wanted[i]), `${array.name}, ${length} runs`);
      }
    }
  }
});

Deno.test("a copy that was prepared refuses memory that has gone since", () => {
  const [source, target] = [0, 1].map(() => ({ data: new Float64Array(100), offset: 0, strides: [1] }));
  const copy = prepareCopy(source, target, [[{ source: 0, target: 0, length: 100 }]]);
  copy();
  source.data.buffer.transfer();
  assertThrows(() => copy(), StateError, "The memory of an array is gone");
});
