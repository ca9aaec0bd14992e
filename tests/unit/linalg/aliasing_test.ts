/** Matrices that share elements, against sets of all their elements. */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { LocalArray } from "../../../src/array/local_array.ts";
import { sharesElements } from "../../../src/linalg/aliasing.ts";

const memory = new Float32Array(400);

function matrix(shape: readonly number[], strides: readonly number[], offset: number): LocalArray {
  return new LocalArray({ data: memory, dtype: "float32", shape, strides, offset });
}

/** Every element of a matrix, by its place in the memory. */
function elements({ shape, strides, offset }: LocalArray): Set<number> {
  const places = new Set<number>();
  for (let i = 0; i < shape[0]; i++) {
    for (let j = 0; j < shape[1]; j++) places.add(offset + i * strides[0] + j * strides[1]);
  }
  return places;
}

const part = (width: number) =>
  fc.record({
    rows: fc.integer({ min: 1, max: 5 }),
    columns: fc.integer({ min: 1, max: width }),
    offset: fc.integer({ min: 0, max: 100 }),
    isTransposed: fc.boolean(),
  }).map(({ rows, columns, offset, isTransposed }) => {
    const local = matrix([rows, columns], [width, 1], offset);
    return isTransposed ? local.transpose() : local;
  });

Deno.test("parts of one memory share elements exactly where the sets of their elements meet", () => {
  const pairs = fc.integer({ min: 1, max: 12 }).chain((width) => fc.tuple(part(width), part(width)));
  fc.assert(
    fc.property(pairs, ([one, other]) => {
      assertEquals(sharesElements(one, other), !elements(one).isDisjointFrom(elements(other)));
    }),
    { numRuns: 2000 },
  );
});

Deno.test("matrices share nothing across memories, nor without elements; with gaps or unequal distances they may", () => {
  const a = matrix([4, 4], [8, 1], 0);
  const elsewhere = new LocalArray({ data: new Float32Array(400), dtype: "float32", shape: [4, 4] });
  assertEquals(sharesElements(a, elsewhere), false);
  assertEquals(sharesElements(a, matrix([0, 4], [8, 1], 0)), false);
  assertEquals(sharesElements(a, matrix([4, 4], [8, 1], 32)), false);
  assertEquals(sharesElements(a, matrix([4, 2], [9, 1], 4)), true);
  assertEquals(sharesElements(matrix([2, 3], [8, 2], 0), matrix([2, 3], [8, 2], 4)), true);
  const bits = new Uint16Array(memory.buffer);
  const half = new LocalArray({ data: bits, dtype: "bfloat16", shape: [4, 4], strides: [16, 1], offset: 8 });
  assertEquals(sharesElements(a, half), true);
});
