import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { ProcessGrid } from "../../../src/distribution/mod.ts";
import { gridOf, indices } from "./arbitraries.ts";

const anyGrid = fc.integer({ min: 1, max: 3 }).chain(gridOf);

Deno.test("row-major counts the last coordinate fastest, column-major the first", () => {
  const rows = new ProcessGrid({ shape: [2, 3], layout: "row-major" });
  const columns = new ProcessGrid({ shape: [2, 3], layout: "column-major" });
  for (let rank = 0; rank < 6; rank++) {
    assertEquals(rows.coordinates(rank), [Math.floor(rank / 3), rank % 3]);
    assertEquals(columns.coordinates(rank), [rank % 2, Math.floor(rank / 2)]);
  }
  assertEquals(new ProcessGrid({ shape: [2, 3] }).layout, "row-major");
  const cube = new ProcessGrid({ shape: [2, 3, 4] });
  assertEquals(cube.coordinates(23), [1, 2, 3]);
  assertEquals(cube.rank([1, 0, 2]), 14);
});

Deno.test("processes name the ranks in the order of the layout; others lie outside", () => {
  const rows = new ProcessGrid({ shape: [2, 2], processes: [5, 1, 3, 0] });
  assertEquals([rows.rank([0, 0]), rows.rank([0, 1]), rows.rank([1, 0]), rows.rank([1, 1])], [5, 1, 3, 0]);
  assertEquals(rows.coordinates(3), [1, 0]);
  assertEquals(rows.coordinates(2), null);
  const columns = new ProcessGrid({ shape: [2, 2], layout: "column-major", processes: [5, 1, 3, 0] });
  assertEquals(columns.coordinates(1), [1, 0]);
  assertEquals(new ProcessGrid({ shape: [2, 2] }).coordinates(4), null);
});

Deno.test("rank and coordinates are inverse", () => {
  fc.assert(fc.property(anyGrid, ({ grid, size }) => {
    const inside = Array.from({ length: size }, (_, rank) => rank).filter((rank) => grid.coordinates(rank));
    assertEquals(inside.length, grid.size);
    for (const rank of inside) assertEquals(grid.rank(grid.coordinates(rank)!), rank);
    for (const coordinates of indices(grid.shape)) {
      assertEquals(grid.coordinates(grid.rank(coordinates)), coordinates);
    }
  }));
});

Deno.test("equal grids have the same rank everywhere", () => {
  fc.assert(fc.property(fc.integer({ min: 1, max: 3 }).chain((n) => fc.tuple(gridOf(n), gridOf(n))), ([a, b]) => {
    const ranks = ({ grid }: typeof a) => indices(grid.shape).map((coordinates) => grid.rank(coordinates)).join();
    const expected = a.grid.shape.join() === b.grid.shape.join() && ranks(a) === ranks(b);
    assertEquals(a.grid.equals(b.grid), expected);
    assertEquals(b.grid.equals(a.grid), expected);
  }));
  const row = (layout: "row-major" | "column-major") => new ProcessGrid({ shape: [1, 4], layout });
  assertEquals(row("row-major").equals(row("column-major")), true);
  assertEquals(new ProcessGrid({ shape: [4] }).equals(new ProcessGrid({ shape: [4], processes: [0, 1, 2, 3] })), true);
  assertEquals(new ProcessGrid({ shape: [4, 1] }).equals(new ProcessGrid({ shape: [1, 4] })), false);
  const square = (layout: "row-major" | "column-major", processes?: number[]) =>
    new ProcessGrid({ shape: [2, 2], layout, processes: processes ?? null });
  assertEquals(square("row-major").equals(square("column-major")), false);
  assertEquals(square("row-major").equals(square("column-major", [0, 2, 1, 3])), true);
});

Deno.test("transposition moves ranks to swapped coordinates", () => {
  fc.assert(fc.property(anyGrid, fc.nat(2), ({ grid }, turn) => {
    const reversed = grid.transpose();
    const axes = grid.shape.map((_, d) => (d + turn) % grid.shape.length);
    const rotated = grid.transpose(axes);
    for (const coordinates of indices(grid.shape)) {
      assertEquals(reversed.rank(coordinates.toReversed()), grid.rank(coordinates));
      assertEquals(rotated.rank(axes.map((axis) => coordinates[axis])), grid.rank(coordinates));
    }
    assertEquals(reversed.transpose().equals(grid), true);
  }));
  const flipped = new ProcessGrid({ shape: [2, 3] }).transpose();
  assertEquals([flipped.layout, flipped.processes], ["column-major", null]);
});

Deno.test("withoutProcesses finds the layout that gives the same grid, if there is one", () => {
  fc.assert(fc.property(anyGrid, ({ grid }) => {
    const plain = grid.withoutProcesses();
    const layouts = (["row-major", "column-major"] as const).map((layout) =>
      new ProcessGrid({ shape: grid.shape, layout })
    );
    assertEquals(plain !== null, layouts.some((candidate) => candidate.equals(grid)));
    if (plain) assertEquals([plain.processes, plain.equals(grid)], [null, true]);
  }));
  const explicit = new ProcessGrid({ shape: [2, 2], layout: "row-major", processes: [0, 2, 1, 3] });
  assertEquals(explicit.withoutProcesses()?.layout, "column-major");
  assertEquals(new ProcessGrid({ shape: [2], processes: [1, 0] }).withoutProcesses(), null);
});

Deno.test("a line is a grid with one long dimension", () => {
  const line = (...shape: number[]) => new ProcessGrid({ shape }).line;
  assertEquals([line(4, 1), line(1, 4), line(1, 1), line(1, 1, 2), line(2, 2)], [0, 1, 0, 2, null]);
});

Deno.test("a grid as text", () => {
  assertEquals(String(new ProcessGrid({ shape: [2, 3], layout: "column-major" })), "2 x 3 column-major");
  assertEquals(String(new ProcessGrid({ shape: [4, 1] })), "4 x 1");
  assertEquals(String(new ProcessGrid({ shape: [2], processes: [1, 0] })), "2 of ranks 1, 0");
});

Deno.test("nearlySquare() is as near to a square as it can be", () => {
  const shape = (size: number) => [...ProcessGrid.nearlySquare(size).shape];
  assertEquals([1, 2, 3, 4, 6, 12, 13].map(shape), [[1, 1], [1, 2], [1, 3], [2, 2], [2, 3], [3, 4], [1, 13]]);
  assertEquals(ProcessGrid.nearlySquare(4).layout, "row-major");
  assertEquals(ProcessGrid.nearlySquare(4, "column-major").rank([1, 0]), 1);
});
