import { assertEquals } from "@std/assert";
import { BlockCyclic, type Distribution, ProcessGrid, Slab } from "../../../src/distribution/mod.ts";
import { cublasMpPblas } from "../../../src/linalg/engines/cublasmp/pblas.ts";
import { chooseBlocks, type PblasRoutine, type RoutineLetters, type Side } from "../../../src/linalg/pblas/call.ts";
import type { Runtime } from "../../../src/runtime/runtime.ts";

const letters = (side: Side): RoutineLetters => ({ side, uplo: "lower", trans: "none", diag: "non_unit" });

/** The grid and the block size on which GPUs run a routine. */
function chosen(size: number, routine: PblasRoutine, side: Side, ...given: readonly Distribution[]) {
  const runtime = { size } as Runtime;
  const bound = given.map((distribution) => distribution.bind([64, 64], size));
  const { grid, blockSize } = chooseBlocks(
    bound,
    (grid) => cublasMpPblas.accepts(runtime, grid, routine, letters(side)),
  );
  return [...grid.shape, blockSize];
}

const square = (layout: "row-major" | "column-major") =>
  new BlockCyclic(new ProcessGrid({ shape: [2, 2], layout }), [8, 8]);

Deno.test("chooseBlocks() keeps matrices where they are, if they agree", () => {
  for (const layout of ["row-major", "column-major"] as const) {
    assertEquals(chosen(4, "trmm", "left", square(layout), square(layout)), [2, 2, 8]);
  }
  assertEquals(chosen(4, "symm", "left", Slab.X, Slab.X), [4, 1, 16]);
  assertEquals(chosen(4, "symm", "left", Slab.Y, Slab.Y), [1, 4, 16]);
});

Deno.test("GPUs solve triangular systems on grids along the systems only", () => {
  for (const given of [[square("row-major"), square("row-major")], [Slab.X, Slab.X], [Slab.Y, Slab.Y]]) {
    assertEquals(chosen(4, "trsm", "left", ...given).slice(0, 2), [1, 4]);
    assertEquals(chosen(4, "trsm", "right", ...given).slice(0, 2), [4, 1]);
  }
  assertEquals(chosen(4, "trsm", "left", Slab.Y, Slab.Y), [1, 4, 16]);
  assertEquals(chosen(1, "trsm", "left", Slab.X, Slab.X).slice(0, 2), [1, 1]);
  assertEquals(chosen(6, "trsm", "right", Slab.Y), [6, 1, 11]);
  assertEquals(chosen(7, "trsm", "left", Slab.X), [1, 7, 10]);
});

Deno.test("chooseBlocks() takes the most nearly square grid that is accepted", () => {
  const shapes: (readonly number[])[] = [];
  const bound = Slab.X.bind([0, 0], 12);
  const { grid } = chooseBlocks([bound], (candidate) => {
    shapes.push(candidate.shape);
    return candidate.shape[0] === 6;
  });
  assertEquals([...grid.shape], [6, 2]);
  assertEquals(shapes.slice(1), [[3, 4], [4, 3], [2, 6], [6, 2]]);
});
