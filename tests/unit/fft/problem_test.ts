import { assertEquals, assertThrows } from "@std/assert";
import { dtypesOf, type FFTNorm, halfOf, scaleOf, shapeOf, transformSize } from "../../../src/fft/problem.ts";
import { ShapeError } from "../../../mod.ts";

Deno.test("shapeOf() halves the last of the axes, or makes it whole again", () => {
  assertEquals([1, 2, 7, 8].map(halfOf), [1, 2, 4, 5]);
  assertEquals(shapeOf("c2c", [1, 0], [3, 4]).axes, [0, 1]);
  assertEquals(shapeOf("c2c", [1, 0], [3, 4]).halved, null);
  assertEquals(shapeOf("r2c", [0, 1], [3, 4]).result, [3, 3]);
  assertEquals(shapeOf("r2c", [1, 0], [3, 4]).result, [2, 4]);
  assertEquals(shapeOf("c2r", [0, 1], [3, 4]).result, [3, 6]);
  assertEquals(shapeOf("c2r", [0, 1], [3, 4], "odd").result, [3, 7]);
  assertEquals(shapeOf("c2r", [1], [3, 1], "odd").result, [3, 1]);
  assertThrows(
    () => shapeOf("c2r", [1], [3, 1]),
    ShapeError,
    'has one element along axis 1, of which no even number of elements is made. Pass lastAxisParity: "odd".',
  );
  assertThrows(
    () => shapeOf("c2c", [1], [3, 0]),
    ShapeError,
    "has no elements along axis 1, so that nothing can be transformed.",
  );
  assertEquals(shapeOf("c2c", [1], [0, 3]).result, [0, 3]);
});

Deno.test("scaleOf() is that of NumPy's norms, over the elements that are transformed together", () => {
  const shape = shapeOf("c2r", [0, 2], [4, 5, 3]);
  assertEquals(transformSize(shape), 16);
  const both = (norm: FFTNorm) => [scaleOf(shape, "forward", norm), scaleOf(shape, "inverse", norm)];
  assertEquals(both("backward"), [1, 1 / 16]);
  assertEquals(both("forward"), [1 / 16, 1]);
  assertEquals(both("ortho"), [1 / 4, 1 / 4]);
  assertEquals(both("none"), [1, 1]);
});

Deno.test("dtypesOf() pairs real and complex types", () => {
  assertEquals(dtypesOf({ type: "c2c", precision: "float32" }), { operand: "complex64", result: "complex64" });
  assertEquals(dtypesOf({ type: "r2c", precision: "float16" }), { operand: "float16", result: "complex32" });
  assertEquals(dtypesOf({ type: "r2c", precision: "float64" }), { operand: "float64", result: "complex128" });
  assertEquals(dtypesOf({ type: "c2r", precision: "float32" }), { operand: "complex64", result: "float32" });
});
