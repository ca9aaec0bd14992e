import { assertEquals, assertStringIncludes } from "@std/assert";
import { BlockCyclic, Box, type Distribution, ProcessGrid, Replicated, Slab } from "../../../mod.ts";
import { algorithmsOf, bytesOf, layoutOf, refusalOf } from "../../../src/fft/engines/cufftmp/layout.ts";
import { type FFTProblem, type FFTType, shapeOf } from "../../../src/fft/problem.ts";

function problem(
  type: FFTType,
  operand: readonly number[],
  from: Distribution,
  to: Distribution,
  order: "C" | "F" = "C",
  axes = operand.map((_, d) => d),
  size = 2,
): FFTProblem {
  const shape = shapeOf(type, axes, operand);
  return { ...shape, precision: "float64", order, from: from.bind(operand, size), to: to.bind(shape.result, size) };
}

Deno.test("slabs along the first and the second axis are told as such, in the forward direction's order", () => {
  const there = problem("c2c", [8, 6, 5], Slab.X, Slab.Y);
  assertEquals(algorithmsOf(there), ["slabs", "boxes"]);
  assertEquals(layoutOf(there, "slabs", "forward", 0), { formats: [2, 3], boxes: null });
  assertEquals(layoutOf(there, "slabs", "inverse", 0), { formats: [3, 2], boxes: null });
  assertEquals(algorithmsOf(problem("c2c", [8, 6, 5], Slab.X, Slab.X)), ["boxes"]);
  assertEquals(algorithmsOf(problem("c2c", [8, 6, 5], Slab.Z, Slab.Y, "F")), ["slabs", "boxes"]);
  // Of two dimensions real numbers are in slabs along the first.
  assertEquals(algorithmsOf(problem("r2c", [8, 6], Slab.X, Slab.Y)), ["slabs", "boxes"]);
  assertEquals(algorithmsOf(problem("r2c", [8, 6], Slab.Y, Slab.X)), ["boxes"]);
  assertEquals(algorithmsOf(problem("c2r", [8, 6], Slab.Y, Slab.X)), ["slabs", "boxes"]);
  assertEquals(algorithmsOf(problem("c2r", [8, 6], Slab.X, Slab.Y)), ["boxes"]);
  assertEquals(algorithmsOf(problem("r2c", [8, 6, 4], Slab.Y, Slab.X)), ["slabs", "boxes"]);
});

Deno.test("boxes: corners, and strides of rows that are padded to whole complex numbers", () => {
  const real = problem("r2c", [5, 4, 7], Slab.X, Slab.Y);
  const [space, spectrum] = [
    { lower: [3, 0, 0], upper: [5, 4, 7], strides: [32, 8, 1] },
    { lower: [0, 2, 0], upper: [5, 4, 4], strides: [8, 4, 1] },
  ];
  assertEquals(layoutOf(real, "boxes", "forward", 1), { formats: [5, 6], boxes: [space, spectrum] });
  // Three planes of 4 rows of 8 numbers on rank 0; 5 x 2 x 4 complex numbers in the spectrum.
  assertEquals(bytesOf(real), 96 * 8);
  const back = problem("c2r", [5, 4, 4], Slab.Y, Slab.X);
  assertEquals(layoutOf(back, "boxes", "inverse", 1).boxes?.[1], spectrum);
  assertEquals(layoutOf(back, "boxes", "inverse", 1).boxes?.[0].strides, [4 * 8, 8, 1]);
  const other = problem("r2c", [7, 4, 5], Slab.Z, Slab.Y, "F", [2, 1, 0]);
  assertEquals(layoutOf(other, "boxes", "forward", 1).boxes, [space, spectrum]);
});

Deno.test("what it cannot transform is refused, with the reason", () => {
  const refused = (problem: FFTProblem, reason: string) => assertStringIncludes(refusalOf(problem) ?? "", reason);
  assertEquals(refusalOf(problem("c2c", [8, 6, 5], Slab.X, Slab.Y)), null);
  refused(problem("c2c", [8], Slab.X, Slab.X), "arrays of 2 or 3 dimensions, and this one has 1");
  refused(problem("c2c", [8, 8], Slab.X, Slab.X, "C", [1]), "this one has 2 of which the axes 1 are transformed");
  refused(problem("r2c", [8, 8], Slab.X, Slab.Y, "F"), "here 0, and this transform axis 1");
  refused(problem("c2c", [8, 1, 8], Slab.X, Slab.Z), "an index for each of 2 ranks, and their extents are 8 and 1");
  refused(
    problem("c2c", [8, 8], Slab.X, Replicated),
    "one box of elements from each rank, which Replicated does not have",
  );
  const grid = new ProcessGrid({ shape: [2, 1], layout: "row-major" });
  refused(problem("c2c", [8, 8], new BlockCyclic(grid, [2, 2]), Slab.X), "one box of elements from each rank");
  const onOne = new Box([[[0, 0], [8, 8]], [[0, 0], [0, 0]]]);
  refused(problem("c2c", [8, 8], onOne, Slab.X), "leaves some without");
  refused(problem("c2c", [8, 2 ** 31], Slab.X, Slab.X), "its extents are below 2^31, and these are 8, 2147483648");
  assertEquals(refusalOf(problem("c2c", [8, 8], Replicated, Replicated, "C", [0, 1], 1)), null);
});
