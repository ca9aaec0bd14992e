import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import fc from "fast-check";
import { BlockCyclic, BlockNonCyclic, Box, ProcessGrid, Replicated, Slab } from "../../../src/distribution/mod.ts";
import { anyCase } from "./arbitraries.ts";

const square = new ProcessGrid({ shape: [2, 2] });

/** The blocks of a picture, `rank: rows, columns`. */
function blocksOf(svg: string): string[] {
  assertWellFormed(svg);
  assertEquals(svg.match(/<rect class="block"/g)?.length ?? 0, svg.match(/<g>/g)?.length ?? 0);
  return [...svg.matchAll(/<g><title>rank (.*?): \[(.*?)\]<\/title>/g)].map(([, rank, where]) => `${rank}: ${where}`);
}

/** Every tag is closed in order, attributes are quoted, no stray characters. */
function assertWellFormed(svg: string): void {
  const open: string[] = [];
  const rest = svg.replace(
    /<(\/?)([a-z]+)((?: [a-zA-Z-]+="[^"<]*")*)(\/?)>/g,
    (_, closing, name, attributes, empty) => {
      if (closing) assertEquals(open.pop(), name);
      else if (!empty) open.push(name);
      assert(!attributes.includes("NaN") && !attributes.includes("Infinity"), attributes);
      return "";
    },
  );
  assertEquals(open, []);
  assert(!/[<>]/.test(rest) && !/&(?!amp;|lt;|gt;)/.test(rest), rest);
  assert(svg.startsWith(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 `) && svg.endsWith("</svg>\n"));
}

Deno.test("an SVG has one rectangle a block", () => {
  assertEquals(blocksOf(Slab.X.bind([10, 4], 3).toSVG()), ["0: 0:4, 0:4", "1: 4:7, 0:4", "2: 7:10, 0:4"]);
  assertEquals(blocksOf(Slab.X.bind([10], 2).toSVG()), ["0: 0:1, 0:5", "1: 0:1, 5:10"]);
  assertEquals(blocksOf(Replicated.bind([4, 4], 3).toSVG()), ["all: 0:4, 0:4"]);
  assertEquals(blocksOf(Slab.X.bind([1, 4], 3).toSVG()), ["0: 0:1, 0:4"]);
  assertEquals(blocksOf(Slab.X.bind([0, 4], 3).toSVG()), []);
  assertEquals(blocksOf(new BlockCyclic(square, [3, 4]).bind([13, 21], 4).toSVG()).length, 5 * 6);
  const boxes = new Box([[[0, 0], [2, 4]], [[2, 0], [4, 3]], [[2, 3], [4, 4]]]).bind([4, 4], 3);
  assertEquals(blocksOf(boxes.toSVG()), ["0: 0:2, 0:4", "1: 2:4, 0:3", "2: 2:4, 3:4"]);
});

Deno.test("an SVG of more dimensions has a panel for each step along the others", () => {
  const svg = Slab.X.bind([4, 3, 2], 2).toSVG();
  assertEquals(blocksOf(svg), ["0: 0:3, 0:2", "1: 0:3, 0:2"]);
  assertStringIncludes(svg, "[0:2, :, :]");
  assertStringIncludes(svg, "[2:4, :, :]");
  assertEquals(blocksOf(Slab.Y.bind([4, 3, 2], 2).toSVG()), ["0: 0:2, 0:2", "1: 2:3, 0:2"]);
});

Deno.test("rectangles have the colour of their rank, within the frame", () => {
  const svg = new BlockNonCyclic(square).bind([4, 4], 4).toSVG();
  const fills = [...svg.matchAll(/data-rank="(\d)".*?fill="(.*?)"/g)].map(([, rank, fill]) => `${rank} ${fill}`);
  assertEquals(new Set(fills).size, 4);
  assertEquals(new Set(fills.map((fill) => fill.slice(2))).size, 4);
  const frame = svg.match(/class="frame" x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"/)!.slice(1).map(Number);
  const areas = [...svg.matchAll(/class="block".*?width="([\d.]+)" height="([\d.]+)"/g)].map(([, w, h]) => +w * +h);
  assertEquals(Math.round(areas.reduce((sum, area) => sum + area, 0)), frame[2] * frame[3]);
});

Deno.test("a picture of very many blocks shows the first ones and says so", () => {
  const many = new BlockCyclic(square, [1, 1]).bind([1_000_000, 500_000], 4);
  const svg = many.toSVG({ maxBlocks: 8 });
  assertEquals(blocksOf(svg).length, 64);
  assertStringIncludes(svg, "the first [8, 8] of it");
  assertStringIncludes(many.toText({ maxBlocks: 3 }), "the first [3, 3] of it");
  assertEquals(Slab.X.bind([100, 4, 4], 100).toSVG({ maxBlocks: 4 }).match(/<g>/g)!.length, 4);
  assert(!many.bind([4, 4], 4).toSVG().includes("of it"));
});

Deno.test("a text picture draws the blocks with their ranks and ranges", () => {
  assertEquals(
    new BlockNonCyclic(square).bind([5, 4], 4).toText().split("\n").map((line) => line.trimEnd()),
    [
      "BlockNonCyclic(2 x 2 row-major) of [5, 4] on 4 ranks",
      "┌────────────────────────┬────────────────────────┐",
      "│                        │                        │",
      "│           0            │           1            │  0:3",
      "│                        │                        │",
      "│                        │                        │",
      "├────────────────────────┼────────────────────────┤",
      "│           2            │           3            │  3:5",
      "│                        │                        │",
      "└────────────────────────┴────────────────────────┘",
      "           0:2                      2:4",
    ],
  );
});

Deno.test("a text picture joins what one rank holds", () => {
  const boxes = new Box([[[0, 0], [2, 4]], [[2, 0], [4, 2]], [[2, 2], [4, 4]]]).bind([4, 4], 3).toText();
  assertStringIncludes(boxes, "├────────────────────────┬────────────────────────┤");
  assertEquals(boxes.match(/0 {2,}│/g)?.length, 1);
  assertStringIncludes(Replicated.bind([4, 4], 3).toText(), " all ");
  assertEquals(Slab.X.bind([0, 3], 2).toText(), "Slab.X of [0, 3] on 2 ranks: no elements");
  assertStringIncludes(Slab.X.bind([4, 3, 2], 2).toText(), "[2:4, :, :]");
});

Deno.test("pictures of anything are well-formed and show the ranks that hold something", () => {
  fc.assert(fc.property(anyCase, ({ distribution, size }) => {
    const svg = distribution.toSVG();
    assertWellFormed(svg);
    const shown = new Set([...svg.matchAll(/data-rank="(\d+)"/g)].map(([, rank]) => Number(rank)));
    const text = distribution.toText();
    for (let rank = 0; rank < size && !distribution.isReplicated; rank++) {
      const isHolder = !distribution.localShape(rank).includes(0);
      assertEquals(shown.has(rank), isHolder);
      if (isHolder) assert(new RegExp(`\\b${rank}\\b`).test(text), text);
    }
    const [, ...lines] = text.split("\n");
    const drawing = lines.filter((line) => /[─│]/.test(line)).map((line) => line.search(/[^─│┌┐└┘├┤┬┴┼ \dal]|$/));
    assert(drawing.length === 0 || Math.max(...drawing) < 200);
  }));
});
