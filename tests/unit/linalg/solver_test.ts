import { assert, assertEquals } from "@std/assert";
import { LocalArray } from "../../../src/array/local_array.ts";
import { faultOf, isFiniteMatrix, workspaceLength } from "../../../src/linalg/solver/lapack.ts";

Deno.test("faultOf() says what LAPACK's info means", () => {
  assertEquals(faultOf("gesv", 0), null);
  assertEquals(faultOf("gesv", 3), "the matrix is singular: pivot 3 is zero.");
  assertEquals(
    faultOf("posv", 2),
    "the matrix is not positive definite: its leading minor of order 2 is not positive.",
  );
  for (const routine of ["syevd", "heevd"] as const) {
    assertEquals(faultOf(routine, 7), "the eigenvalues did not converge.");
    assertEquals(faultOf(routine, -8), `LAPACK refuses argument 8 of ?${routine}.`);
  }
});

Deno.test("workspaceLength() is enough where float32 rounds the answer down, and fits 32 bits", () => {
  for (const n of [1, 100, 2897, 5001, 12345, 32766]) {
    const needed = 1 + 6 * n + 2 * n ** 2;
    const length = workspaceLength(Math.fround(needed));
    assert(length >= needed && length < 2 ** 31, `${n}`);
  }
});

Deno.test("isFiniteMatrix() looks at all elements, or at the lower triangle", () => {
  for (const dtype of ["float32", "complex128"] as const) {
    for (const value of [NaN, Infinity, -Infinity]) {
      for (const [i, j] of [[0, 0], [2, 0], [2, 1], [0, 2], [1, 2]]) {
        const a = LocalArray.zeros(dtype, [3, 3], "F");
        a.slice([i, j], [1, 1]).fill(value);
        assertEquals([isFiniteMatrix(a, true), isFiniteMatrix(a, false)], [false, i < j], `${dtype} ${i} ${j}`);
      }
    }
    assert(isFiniteMatrix(LocalArray.zeros(dtype, [0, 0], "F"), true));
  }
});
