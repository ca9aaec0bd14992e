import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  BlockCyclic,
  BlockNonCyclic,
  Box,
  type Distribution,
  ProcessGrid,
  Replicated,
  Slab,
  Sliced,
} from "../../../src/distribution/mod.ts";
import { ShapeError } from "../../../src/errors.ts";
import { inferDistribution, inferOrder } from "../../../src/linalg/matmul/inference.ts";

const [M, N, K, P] = [12, 8, 16, 4];

function infer(a: Distribution, b: Distribution, transposeA = false, transposeB = false): Distribution {
  const d = inferDistribution(
    a.bind(transposeA ? [K, M] : [M, K], P),
    b.bind(transposeB ? [N, K] : [K, N], P),
    { a: { transpose: transposeA, conjugate: false }, b: { transpose: transposeB, conjugate: false } },
    [M, N],
    P,
  );
  assert(d.isBound);
  assertEquals([...d.globalShape!], [M, N]);
  return d;
}

Deno.test("D of slabs is that of AG+GEMM and GEMM+RS in nvmath's table", () => {
  const { X, Y } = Slab;
  const table: [boolean, boolean, [Slab, Slab, Slab], [Slab, Slab, Slab]][] = [
    [true, false, [Y, Y, X], [X, X, Y]],
    [false, false, [X, Y, X], [Y, X, Y]],
    [false, true, [X, X, X], [Y, Y, Y]],
    [true, true, [Y, X, X], [X, Y, Y]],
  ];
  for (const [transposeA, transposeB, ...rows] of table) {
    for (const [a, b, d] of rows) {
      assertEquals(String(infer(a, b, transposeA, transposeB)), String(d));
      const [gridA, gridB] = [a, b].map((slab) => {
        const shape = slab === X ? [P, 1] : [1, P];
        return new BlockNonCyclic(new ProcessGrid({ shape }));
      });
      const grid = infer(gridA, gridB, transposeA, transposeB);
      assert(grid instanceof BlockNonCyclic);
      assert(grid.coincidesWith(d.bind([M, N], P)), `${grid} for ${d}`);
    }
  }
});

Deno.test("other mixes of slabs keep D where a factor's dimension is, and move the other factor", () => {
  assertEquals(String(infer(Slab.X, Slab.X)), "Slab.X");
  assertEquals(String(infer(Slab.Y, Slab.Y)), "Slab.Y");
});

Deno.test("replicated factors cost nothing", () => {
  assertEquals(infer(Replicated, Replicated).isReplicated, true);
  assertEquals(String(infer(Slab.X, Replicated)), "Slab.X");
  assertEquals(String(infer(Replicated, Slab.Y)), "Slab.Y");
  assertEquals(String(infer(Replicated, Slab.X)), "Slab.Y");
  assertEquals(String(infer(Slab.Y, Replicated)), "Slab.Y");
});

/** The block sizes of a distribution on a grid; null if it is another one. */
function blocksOn(grid: ProcessGrid, distribution: Distribution): number[] | null {
  if (!(distribution instanceof BlockCyclic && distribution.grid.equals(grid))) return null;
  return [...distribution.blockSizes];
}

Deno.test("2-D blocks stay on the grid of the factors", () => {
  const grid = new ProcessGrid({ shape: [2, 2], layout: "column-major" });
  const d = infer(new BlockCyclic(grid, [3, 4]), new BlockCyclic(grid, [4, 2]));
  assertEquals(blocksOn(grid, d), [3, 2]);
  const transposed = infer(new BlockCyclic(grid, [4, 3]), new BlockCyclic(grid, [4, 2]), true);
  assertEquals(blocksOn(grid, transposed), [3, 2]);
  assert(infer(new BlockNonCyclic(grid), new BlockNonCyclic(grid)) instanceof BlockNonCyclic);
  const mixed = infer(Slab.X, new BlockCyclic(grid, [4, 2]));
  assertEquals(blocksOn(grid, mixed), [4, 2]);
});

Deno.test("boxes, and slices that are none, give rows", () => {
  const box = Slab.X.bind([M, K], P).to(Box);
  assertEquals(String(infer(box, Slab.Y)), "Slab.X");
  const whole = new BlockCyclic(new ProcessGrid({ shape: [P, 1] }), [2, 1]).bind([M + 1, K], P);
  const slice = whole.slice([[1, M + 1], [0, K]]);
  assert(slice instanceof Sliced);
  assertEquals(String(infer(slice, Slab.Y)), "Slab.X");
});

Deno.test("D's order is c's, else the one asked for, else that of both factors, else C", () => {
  assertEquals(inferOrder({ a: "F", b: "F", c: "C" }, undefined), "C");
  assertEquals(inferOrder({ a: "C", b: "C", c: null }, "F"), "F");
  assertEquals(inferOrder({ a: "F", b: "F", c: null }, undefined), "F");
  assertEquals(inferOrder({ a: "F", b: "C", c: null }, undefined), "C");
});

Deno.test("what are no factors, operations or shapes is refused by name", () => {
  type Arguments = Parameters<typeof inferDistribution>;
  const none = { transpose: false, conjugate: false };
  const good: Arguments = [Slab.X.bind([M, K], P), Slab.Y.bind([K, N], P), { a: none, b: none }, [M, N], P];
  const wrong: [number, unknown, new (message: string) => Error, string][] = [
    [
      0,
      undefined,
      TypeError,
      "The distribution of a must be one such as Slab.X, a BlockCyclic or Replicated, not undef",
    ],
    [1, null, TypeError, "The distribution of b must be one such as Slab.X, a BlockCyclic or Replicated, not null"],
    [1, Slab, TypeError, "Did you mean Slab.X?"],
    [0, Slab.X.bind([M, K, 2], P), ShapeError, "a is distributed as Slab.X, in 3 dimensions; matrices have 2"],
    [1, new BlockNonCyclic(new ProcessGrid({ shape: [2, 1, 1] })), ShapeError, "in 3 dimensions"],
    [2, undefined, TypeError, "The operations must be an object; got undefined"],
    [2, { a: none }, TypeError, "operations.b must be an object; got undefined"],
    [2, null, TypeError, "The operations must be an object; got null"],
    [2, { a: { transposes: true }, b: none }, TypeError, 'operations.a may have no key "transposes"'],
    [2, { a: none, b: { transpose: 1 } }, TypeError, "operations.b.transpose must be true or false; got 1"],
    [3, undefined, TypeError, "The shape of the product must be [rows, columns], not undefined"],
    [3, [M], TypeError, "The shape of the product must be [rows, columns], not [12]"],
    [3, [M, "8"], TypeError, 'the global shape[1] must be a number, got "8"'],
    [4, null, TypeError, "the number of ranks must be a number, got null"],
  ];
  for (const [position, value, errorClass, message] of wrong) {
    const given = good.with(position, value as never) as unknown as Arguments;
    assertThrows(() => inferDistribution(...given), errorClass, message);
  }
  assert(inferDistribution(...good).equals(Slab.X));
});
