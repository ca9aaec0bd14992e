/** The lists of tiles of all ranks together: D is covered once, what is sent is what is waited for, nobody waits for ever. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { TILE_SHAPES, type TileShape } from "../../../src/overlap/executors/tile/configuration.ts";
import { tilePrograms } from "../../../src/overlap/actions.ts";
import { type Action, check, type Finding, type Program } from "../../../src/overlap/check.ts";
import {
  packTiles,
  partsOf,
  plainOrder,
  reduceOrder,
  type Region,
  spotsOf,
  type Tile,
  tileOrder,
  type TileProblem,
  type TileVariant,
} from "../../../src/overlap/tile_order.ts";

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

/** The programs of all ranks, from their lists or from changed ones. */
function programsOf(given: Case, orders = ordersOf(given)): Program[] {
  const { kind, split, size, m, n, clusters } = given;
  const problem = { dtype: "bfloat16", k: 64, isRowMajorA: true, isRowMajorB: false, rank: 0 } as const;
  return tilePrograms({
    problem: { ...problem, kind, split, size, m, n },
    variant: variantOf(given),
    clusters,
    orders,
  });
}

/** What is wrong; a kernel's flags hold the call's number, in one word. */
const findings = (programs: Program[]) => check([programs], { flagTurns: 1 });

Deno.test("the lists of all ranks together are right, whatever the number of clusters", () => {
  const small = { m: fc.integer({ min: 8, max: 1500 }), n: fc.integer({ min: 8, max: 1000 }) };
  const fewer = cases.chain((given) =>
    fc.record({ ...small, clusters: fc.integer({ min: 1, max: 8 }) }).map((change) => ({ ...given, ...change }))
  );
  fc.assert(fc.property(fewer, (given) => assertEquals(findings(programsOf(given)), [])), { numRuns: 150 });
});

const example: Case = {
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

/** Change one rank's list; the mistake has to be found as one of these. */
function plant(given: Case, change: (order: Tile[]) => Tile[], kinds: readonly Finding["kind"][]): void {
  const orders = ordersOf(given);
  const found = findings(programsOf(given, orders.with(1, change(orders[1]))));
  assert(found.some(({ kind }) => kinds.includes(kind)), JSON.stringify(found));
}

Deno.test("planted: all own tiles first, on all ranks", () => {
  const ownFirst = ordersOf(example).map((order) => order.toSorted((a, b) => b.senders.length - a.senders.length));
  const found = findings(programsOf(example, ownFirst));
  assertEquals(new Set(found.map(({ kind }) => kind)), new Set(["deadlock"]));
  assertEquals(new Set(found.map(({ rank }) => rank)), new Set([0, 1, 2]));
});

Deno.test("planted: a tile that is never sent, one that is sent twice, one with another's number", () => {
  const isSent = ({ receivers, number }: Tile) => receivers[0] === 2 && number === 3;
  plant(example, (order) => order.filter((tile) => !isSent(tile)), ["deadlock"]);
  plant(example, (order) => [...order, order.find(isSent)!], ["flag"]);
  const other = (tile: Tile) => ({ ...tile, number: 7 - tile.number });
  const isOne = (tile: Tile) => tile.receivers[0] === 2 && (tile.number === 3 || tile.number === 4);
  plant(example, (order) => order.map((tile) => isOne(tile) ? other(tile) : tile), ["content", "deadlock"]);
});

Deno.test("planted: a tile of another place, or for another rank", () => {
  plant(
    example,
    (order) => order.map((tile, i) => i === 5 ? { ...tile, row: order[6].row, column: order[6].column } : tile),
    [
      "content",
    ],
  );
  plant(example, (order) => order.map((tile, i) => i === 0 ? { ...tile, receivers: [0] } : tile), [
    "deadlock",
    "flag",
    "content",
  ]);
});

Deno.test("planted: what arrives is not added, or is added twice", () => {
  const isOwn = ({ senders }: Tile) => senders.length > 0;
  const change = (senders: number[]) => (order: Tile[]) => {
    const first = order.findIndex(isOwn);
    return order.map((tile, i) => i === first ? { ...tile, senders } : tile);
  };
  plant(example, change([0]), ["content", "flag"]);
  plant(example, change([0, 2, 2]), ["content"]);
});

Deno.test("planted: a tile that does not wait for the part that it reads", () => {
  const given = { ...example, kind: "gather" } as const;
  plant(given, (order) => order.map((tile) => tile.awaits === null ? tile : { ...tile, awaits: null }), [
    "race",
    "content",
  ]);
  const other = (awaits: number | null) => awaits === null ? null : 2 - awaits;
  plant(given, (order) => order.map((tile) => ({ ...tile, awaits: other(tile.awaits) })), ["race", "content"]);
});

Deno.test("planted: memory that does not take turns by the parity of the call, or is too small", () => {
  for (const kind of ["gather", "reduce"] as const) {
    // With a small lead, a rank that is a call ahead waits for the others before it comes to memory that they still read.
    const programs = programsOf({ ...example, kind, lead: Infinity });
    const found = findings(programs.map((program) => ({ ...program, turns: {} })));
    assert(found.some((one) => one.kind === "race" || one.kind === "content"), kind);
  }
  const small = programsOf(example).map((program) => ({
    ...program,
    sizes: { ...program.sizes, "from 1": program.sizes["from 1"] - 1 },
  }));
  assert(findings(small).some(({ kind }) => kind === "bounds"));
});

Deno.test("planted: a kernel that ends before the others have stored into its D", () => {
  const programs = programsOf({ ...example, kind: "all_reduce" });
  const isLast = (action: Action) => action.kind === "wait" && action.flag >= 3 + 3 * programs[0].sizes["from 1"];
  const hasty = programs.with(1, {
    ...programs[1],
    lanes: programs[1].lanes.map((lane) => lane.filter((action) => !isLast(action))),
  });
  assert(findings(hasty).some(({ kind }) => kind === "race" || kind === "content"));
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
