/** The lists of tiles of all ranks together: D is covered once, what is sent is what is waited for, nobody waits for ever. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { TILE_SHAPES, type TileShape } from "../../../src/overlap/executors/tile/configuration.ts";
import {
  evenParts,
  findDeadlock,
  packTiles,
  plainOrder,
  reduceOrder,
  type Region,
  spotsOf,
  type Tile,
} from "../../../src/overlap/executors/tile/order.ts";
import { partsOf, tileOrder, type TileProblem, type TileVariant } from "../../../src/overlap/executors/tile/product.ts";

const shapes = fc.constantFrom<TileShape>(...Object.values(TILE_SHAPES));
const kinds = fc.constantFrom<TileProblem["kind"]>("gather", "reduce", "all_reduce");
const cases = fc.record({
  kind: kinds,
  split: fc.constantFrom<"rows" | "columns">("rows", "columns"),
  size: fc.integer({ min: 2, max: 8 }),
  m: fc.integer({ min: 8, max: 3000 }),
  n: fc.integer({ min: 8, max: 3000 }),
  clusters: fc.integer({ min: 1, max: 66 }),
  shape: shapes,
  band: fc.integer({ min: 1, max: 9 }),
  lead: fc.option(fc.oneof(fc.integer({ min: 0, max: 300 }), fc.constant(Infinity))),
  isExchange: fc.boolean(),
});

type Case = typeof cases extends fc.Arbitrary<infer T> ? T : never;

function variantOf({ shape, band, lead, isExchange }: Case): TileVariant {
  return { shape, band, isExchange, ...lead === null ? {} : { lead } };
}

function ordersOf(given: Case): Tile[][] {
  const { kind, split, size, m, n, clusters } = given;
  const common = { dtype: "bfloat16", k: 64, isRowMajorA: true, isRowMajorB: false } as const;
  return Array.from(
    { length: size },
    (_, rank) => tileOrder({ ...common, kind, split, size, m, n, rank }, variantOf(given), clusters),
  );
}

/** How often each block of D of one row of a tile by one column is stored, by the tiles' first corners. */
function corners(tiles: readonly { row: number; column: number }[]): string[] {
  return tiles.map(({ row, column }) => `${row}/${column}`).sort();
}

Deno.test("parts of an extent follow each other, and differ by at most one", () => {
  fc.assert(fc.property(fc.integer({ min: 0, max: 1000 }), fc.integer({ min: 1, max: 8 }), (extent, count) => {
    const parts = evenParts(extent, count);
    assertEquals([parts[0].start, parts.at(-1)!.end], [0, extent]);
    for (const [i, { start, end }] of parts.entries()) {
      if (i > 0) assertEquals(start, parts[i - 1].end);
      assert(end - start === Math.floor(extent / count) || end - start === Math.ceil(extent / count));
    }
  }));
});

Deno.test("the spots of a region cover it once, whatever the band", () => {
  const region = fc.record({
    top: fc.integer({ min: 0, max: 500 }),
    height: fc.integer({ min: 1, max: 3000 }),
    left: fc.integer({ min: 0, max: 500 }),
    width: fc.integer({ min: 1, max: 3000 }),
  });
  fc.assert(
    fc.property(region, shapes, fc.integer({ min: 1, max: 20 }), ({ top, height, left, width }, shape, band) => {
      const rows = { start: top, end: top + height }, columns = { start: left, end: left + width };
      const spots = spotsOf({ rows, columns }, shape, band);
      const [tall, wide] = [128 * shape.cluster, shape.columns];
      assertEquals(spots.length, Math.ceil(height / tall) * Math.ceil(width / wide));
      assertEquals(new Set(corners(spots)).size, spots.length);
      for (const { row, column } of spots) {
        assert((row - top) % tall === 0 && row < rows.end && (column - left) % wide === 0 && column < columns.end);
      }
    }),
  );
});

Deno.test("each rank stores what is its own to store, once", () => {
  fc.assert(
    fc.property(cases, (given) => {
      const { kind, split, m, n, size, shape } = given;
      const orders = ordersOf(given);
      const [rows, columns] = [{ start: 0, end: m }, { start: 0, end: n }];
      const parts = partsOf({ ...given, dtype: "bfloat16", k: 64, isRowMajorA: true, isRowMajorB: false, rank: 0 });
      const regionOf = (part: number): Region =>
        split === "rows" ? { rows: parts[part], columns } : { rows, columns: parts[part] };
      const stored = (rank: number) => orders.flatMap((order) => order.filter(({ targets }) => targets.includes(rank)));
      for (let rank = 0; rank < size; rank++) {
        if (kind === "gather") {
          // Here targets are parts of the rank's own D.
          const wanted = parts.flatMap((_, part) => spotsOf(regionOf(part), shape, 8));
          assertEquals(corners(orders[rank]), corners(wanted));
          assert(orders[rank].every(({ targets, partA, partB }) => targets[0] === (split === "rows" ? partA : partB)));
        } else {
          const wanted = spotsOf(kind === "reduce" ? regionOf(rank) : { rows, columns }, shape, 8);
          assertEquals(corners(stored(rank)), corners(wanted));
        }
      }
    }),
    { numRuns: 200 },
  );
});

Deno.test("a gathered part is waited for, but for the rank's own, which comes first", () => {
  fc.assert(fc.property(cases, (given) => {
    for (const [rank, order] of ordersOf({ ...given, kind: "gather" }).entries()) {
      const partName = given.split === "rows" ? "partA" : "partB";
      assert(order.every((tile) => tile.awaits === (tile[partName] === rank ? null : tile[partName])));
      const turns = [...new Set(order.map((tile) => tile[partName]))];
      assertEquals(turns, Array.from({ length: given.size }, (_, i) => (rank + i) % given.size));
    }
  }));
});

Deno.test("what is added is what was sent: the same place, from every sender, once", () => {
  fc.assert(
    fc.property(cases, fc.constantFrom<"reduce" | "all_reduce">("reduce", "all_reduce"), (given, kind) => {
      const orders = ordersOf({ ...given, kind });
      const sent = new Map<string, string>();
      for (const [rank, order] of orders.entries()) {
        for (const { receivers, number, row, column } of order) {
          for (const receiver of receivers) {
            const key = `${rank}/${receiver}/${number}`;
            assert(!sent.has(key), `${key} is sent twice`);
            sent.set(key, `${row}/${column}`);
          }
        }
      }
      for (const [rank, order] of orders.entries()) {
        for (const { senders, number, row, column } of order) {
          for (const sender of senders) {
            const key = `${sender}/${rank}/${number}`;
            assertEquals(sent.get(key), `${row}/${column}`);
            sent.delete(key);
          }
        }
      }
      assertEquals(sent.size, 0, "something is sent that nobody adds");
    }),
    { numRuns: 200 },
  );
});

Deno.test("no rank waits for ever, whatever the number of clusters", () => {
  fc.assert(fc.property(cases, (given) => assertEquals(findDeadlock(ordersOf(given), given.clusters), [])), {
    numRuns: 200,
  });
});

Deno.test("an order in which ranks wait for each other is found", () => {
  const given: Case = {
    kind: "reduce",
    split: "rows",
    size: 3,
    m: 2000,
    n: 2000,
    clusters: 4,
    shape: TILE_SHAPES.wide,
    band: 8,
    lead: null,
    isExchange: false,
  };
  const orders = ordersOf(given);
  assertEquals(findDeadlock(orders, 4), []);
  // All own tiles first.
  const ownFirst = orders.map((order) => [...order].sort((a, b) => b.senders.length - a.senders.length));
  assertEquals(findDeadlock(ownFirst, 4), [0, 1, 2]);
  // One tile is never sent.
  const dropped = orders.with(1, orders[1].filter(({ receivers, number }) => !(receivers[0] === 2 && number === 3)));
  assertEquals(findDeadlock(dropped, 4), [0, 1, 2]);
});

Deno.test("tiles for others lead, then own ones alternate with them", () => {
  const spots = [0, 1, 2].map((rank) => Array.from({ length: 4 }, (_, i) => ({ row: rank, column: i })));
  const order = (lead: number) =>
    reduceOrder(spots, 1, { lead, partName: "partA", targets: [1] }).map(({ receivers, number }) =>
      `${receivers.length > 0 ? `to ${receivers}` : "own"} ${number}`
    );
  assertEquals(order(4).slice(0, 8), ["to 2 0", "to 0 0", "to 2 1", "to 0 1", "to 2 2", "to 0 2", "own 0", "to 2 3"]);
  assertEquals(order(Infinity).slice(8), ["own 0", "own 1", "own 2", "own 3"]);
});

Deno.test("an exchange of two ranks sends to the other, one of more to itself too, so that all add in one order", () => {
  const given: Case = {
    kind: "all_reduce",
    split: "rows",
    size: 2,
    m: 16,
    n: 64,
    clusters: 4,
    shape: TILE_SHAPES.flat,
    band: 8,
    lead: null,
    isExchange: true,
  };
  assertEquals(ordersOf(given).map(([{ receivers }]) => receivers), [[1], [0]]);
  assertEquals(ordersOf({ ...given, size: 3 }).map(([{ senders }]) => senders), [[0, 1, 2], [0, 1, 2], [0, 1, 2]]);
});

Deno.test("a tile is four words", () => {
  const [plain] = plainOrder([{ row: 256, column: 512 }]);
  assertEquals([...packTiles([plain], 2)], [256, 512, 1 << 24, 0]);
  const tile: Tile = {
    row: 1,
    column: 2,
    partA: 3,
    partB: 4,
    awaits: 5,
    receivers: [0, 7],
    senders: [1, 7],
    targets: [7],
    number: 9,
  };
  assertEquals([...packTiles([tile], 2)], [
    1,
    2,
    (18 | 1 << 31) >>> 0,
    (3 | 4 << 4 | 6 << 8 | 0x81 << 16 | 0x82 << 24) >>> 0,
  ]);
});
