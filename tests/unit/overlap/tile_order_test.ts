/** The lists of tiles of all ranks together: D is covered once, what is sent is what is waited for, nobody waits for ever. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import {
  SHAPES_BETWEEN,
  TILE_SHAPES,
  type TileShape,
  tileShapeNamed,
} from "../../../src/overlap/executors/tile/configuration.ts";
import { tilePrograms, withMeeting } from "../../../src/overlap/actions.ts";
import { type Action, check, type Finding, type RankProgram } from "../../../src/overlap/proof.ts";
import {
  packTiles,
  panelTiles,
  partsOf,
  plainOrder,
  reduceOrder,
  type Region,
  sentPanels,
  spotsByRank,
  spotsOf,
  type Tile,
  tileOrder,
  type TileProblem,
  type TileVariant,
} from "../../../src/overlap/tile_order.ts";

const shapes = fc.constantFrom<TileShape>(
  ...Object.values(TILE_SHAPES),
  ...SHAPES_BETWEEN.map((name) => tileShapeNamed(name)!),
);
const kinds = fc.constantFrom<TileProblem["kind"]>("gather", "reduce", "all_reduce");
const cases = fc.record({
  kind: kinds,
  split: fc.constantFrom<"rows" | "columns">("rows", "columns"),
  size: fc.integer({ min: 2, max: 8 }),
  m: fc.integer({ min: 8, max: 3000 }),
  n: fc.integer({ min: 8, max: 3000 }),
  clusters: fc.integer({ min: 1, max: 66 }),
  shape: shapes,
  band: fc.option(fc.integer({ min: 1, max: 9 }), { nil: undefined }),
  lead: fc.option(fc.oneof(fc.integer({ min: 0, max: 300 }), fc.constant(Infinity))),
  isExchange: fc.boolean(),
  panels: fc.option(fc.integer({ min: 1, max: 9 })),
  pulls: fc.boolean(),
  pieces: fc.integer({ min: 1, max: 5 }),
});

type Case = typeof cases extends fc.Arbitrary<infer T> ? T : never;

function variantOf(given: Case): TileVariant {
  const { shape, band, lead, isExchange, panels, pulls, pieces, size, clusters } = given;
  const variant = {
    shape,
    ...band !== undefined && { band },
    isExchange,
    pieces,
    ...panels !== null && { panels },
    ...pulls && panels === null && !isExchange && { pulls },
  };
  if (lead === null) return variant;
  const panel = given.kind === "gather" ? null : panelTiles(problemOf(given), variant);
  return { ...variant, lead: panel === null ? lead : lead + (size - 1) * panel + clusters };
}

function problemOf({ kind, split, size, m, n }: Case): TileProblem {
  return { kind, split, size, m, n, dtype: "bfloat16", k: 200, isRowMajorA: true, isRowMajorB: false, rank: 0 };
}

function ordersOf(given: Case): Tile[][] {
  const { size, clusters } = given;
  return Array.from(
    { length: size },
    (_, rank) => tileOrder({ ...problemOf(given), rank }, variantOf(given), clusters),
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
function programsOf(given: Case, orders = ordersOf(given)): RankProgram[] {
  return tilePrograms({ problem: problemOf(given), variant: variantOf(given), clusters: given.clusters, orders });
}

/** What is wrong; a kernel's flags hold the call's number, in one word. */
const findings = (programs: RankProgram[]) => check([programs], { flagTurns: 1 });

const fewer = cases.chain((given) => {
  const small = { m: fc.integer({ min: 8, max: 1500 }), n: fc.integer({ min: 8, max: 1000 }) };
  return fc.record({ ...small, clusters: fc.integer({ min: 1, max: 8 }) }).map((change) => ({ ...given, ...change }));
});

Deno.test("the lists of all ranks together are right, whatever the number of clusters", () => {
  fc.assert(fc.property(fewer, (given) => assertEquals(findings(programsOf(given)), [])), { numRuns: 150 });
});

Deno.test("what a graph repeats is right, with flags that are taken back and memory that does not take turns", () => {
  const repeated = { flags: "captured", flagTurns: 1 } as const;
  fc.assert(
    fc.property(fewer, (given) => assertEquals(check([withMeeting(programsOf(given))], repeated), [])),
    { numRuns: 40 },
  );
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
  panels: null,
  pulls: false,
  pieces: 2,
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

Deno.test("planted: what is fetched is fetched from elsewhere, too early, or from memory that does not take turns", () => {
  const fetched: Case = { ...example, pulls: true, lead: Infinity };
  const programs = programsOf(fetched);
  assertEquals(findings(programs), []);
  const changed = (change: (lane: readonly Action[]) => Action[]) =>
    findings(programs.with(1, { ...programs[1], lanes: programs[1].lanes.map(change) }));
  const isFetch = (action: Action) => action.kind === "put" && action.to[0].memory === "result";
  const elsewhere = changed((lane) =>
    lane.map((action) =>
      isFetch(action) && action.kind === "put"
        ? { ...action, from: action.from.map((span) => ({ ...span, rank: 0 })) }
        : action
    )
  );
  assert(elsewhere.some(({ kind }) => kind === "content" || kind === "race"));
  const early = changed((lane) => lane.filter(({ kind }) => kind !== "wait"));
  assert(early.some(({ kind }) => kind === "content" || kind === "race"));
  const found = findings(programs.map((program) => ({ ...program, turns: {} })));
  assert(found.some(({ kind }) => kind === "race" || kind === "content"));
});

/**
 * Run the lists with so many clusters of each rank at a time, which begin in the order of their numbers: whether all end.
 * What a rank adds is there once it was made.
 */
function endsWith(given: Case, orders: readonly (readonly Tile[])[], atOnce: readonly number[]): boolean {
  const made = new Set<string>();
  const at = orders.map(() => Array.from({ length: given.clusters }, (_, cluster) => cluster));
  const started = atOnce.map((count) => Math.min(count, given.clusters));
  let isMoving = true;
  while (isMoving) {
    isMoving = false;
    for (const [rank, order] of orders.entries()) {
      for (let cluster = 0; cluster < started[rank]; cluster++) {
        while (at[rank][cluster] < order.length) {
          const tile = order[at[rank][cluster]];
          for (const receiver of tile.receivers) made.add(`${rank}/${receiver}/${tile.number}`);
          if (!tile.senders.every((sender) => made.has(`${sender}/${rank}/${tile.number}`))) break;
          at[rank][cluster] += given.clusters;
          isMoving = true;
        }
      }
      const running = at[rank].slice(0, started[rank]).filter((position) => position < order.length).length;
      const next = Math.min(given.clusters, started[rank] + Math.max(0, atOnce[rank] - running));
      if (next > started[rank]) isMoving = true;
      started[rank] = next;
    }
  }
  return orders.every((order, rank) => at[rank].every((position) => position >= order.length));
}

Deno.test("an exchange of one tile a cluster ends with any number of clusters at a time, and other sums may not", () => {
  const atOnce = fc.array(fc.integer({ min: 1, max: 8 }), { minLength: 8, maxLength: 8 });
  fc.assert(
    fc.property(cases, atOnce, (some, counts) => {
      const exchange: Case = { ...some, kind: "all_reduce", isExchange: true, pulls: false, panels: null };
      const given = { ...exchange, clusters: ordersOf(exchange)[0].length };
      assert(endsWith(given, ordersOf(given), counts.slice(0, given.size)));
    }),
    { numRuns: 100 },
  );
  // Eight tiles to send, and eight own ones, on six clusters.
  const given: Case = { ...example, size: 2, m: 1024, n: 1024, clusters: 6, lead: Infinity };
  assert(!endsWith(given, ordersOf(given), [1, 1]) && endsWith(given, ordersOf(given), [6, 6]));
});

Deno.test("what contradicts itself is refused", () => {
  for (const [more, told] of [[{ panels: 2 }, "panels: 2"], [{ isExchange: true }, "isExchange"]] as const) {
    const order = () => tileOrder(problemOf(example), { shape: TILE_SHAPES.wide, pulls: true, ...more }, 4);
    assertThrows(order, RangeError, `not pulls and ${told}: leave one of them out.`);
  }
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
  const order = (lead: number, panel: number | null = null) =>
    reduceOrder(spots, 1, { lead, panel, partName: "partA", targets: [1] }).map(({ receivers, number }) =>
      `${receivers.length > 0 ? `to ${receivers}` : "own"} ${number}`
    );
  assertEquals(order(4).slice(0, 8), ["to 2 0", "to 0 0", "to 2 1", "to 0 1", "to 2 2", "to 0 2", "own 0", "to 2 3"]);
  assertEquals(order(Infinity).slice(8), ["own 0", "own 1", "own 2", "own 3"]);
  // Panels of two come one after the other, and an own tile after each two tiles once the first panels are sent.
  const panels = ["to 2 0", "to 2 1", "to 0 0", "to 0 1", "to 2 2", "to 2 3", "own 0", "to 0 2", "to 0 3", "own 1"];
  assertEquals(order(4, 2).slice(0, 10), panels);
});

Deno.test("panels for one rank follow each other if all tiles for others come first", () => {
  const variant = { shape: TILE_SHAPES.wide, panels: 3 };
  const problem = { ...problemOf({ ...example, size: 4, m: 4 * 2048 }), rank: 1 };
  const sent = (more = {}) =>
    sentPanels(problem, { ...variant, ...more }).map(({ receiver, index }) => `${receiver}/${index}`);
  assertEquals(sent(), ["2/0", "2/1", "2/2", "3/0", "3/1", "3/2", "0/0", "0/1", "0/2"]);
  const receivers = tileOrder(problem, variant, 4).flatMap(({ receivers }) => receivers);
  assertEquals(receivers, receivers.toSorted((one, other) => (one + 2) % 4 - (other + 2) % 4));
  assertEquals(sent({ lead: 400 }), ["2/0", "3/0", "0/0", "2/1", "3/1", "0/1", "2/2", "3/2", "0/2"]);
});

/** Three ranks with 96 tiles for each of them, in panels of 24. */
const inPanels: Case = { ...example, panels: 4 };

Deno.test("a lead so short that ranks could wait for each other's panels is refused", () => {
  const orderWith = (lead: number) =>
    tileOrder(problemOf(inPanels), { shape: TILE_SHAPES.wide, panels: 4, lead }, inPanels.clusters);
  assertEquals(panelTiles(problemOf(inPanels), { shape: TILE_SHAPES.wide, panels: 4 }), 6);
  assertEquals(
    assertThrows(() => orderWith(15), RangeError).message,
    "A lead of 15 tiles is too short for panels of 6 tiles for each of 2 ranks on 4 clusters: 16 is the least, or leave it " +
      "out.",
  );
  orderWith(16);
  // All tiles for others first need no rule.
  orderWith(48);
  orderWith(Infinity);
});

Deno.test("planted: panels with a lead that is too short", () => {
  const spots = spotsByRank(problemOf(inPanels), variantOf(inPanels));
  const options = { partName: "partA", panel: 6 } as const;
  const orders = [0, 1, 2].map((rank) => reduceOrder(spots, rank, { ...options, lead: 4, targets: [rank] }));
  const withLead = { ...inPanels, lead: 0 };
  const found = findings(programsOf(withLead, orders));
  assertEquals(new Set(found.map(({ kind }) => kind)), new Set(["deadlock"]));
  const enough = [0, 1, 2].map((rank) => reduceOrder(spots, rank, { ...options, lead: 16, targets: [rank] }));
  assertEquals(findings(programsOf(withLead, enough)), []);
});

/** Change what rank 1's copy engines do; the mistake has to be found as one of these. */
function plantCopies(
  change: (copies: readonly Action[]) => Action[],
  kinds: readonly Finding["kind"][],
  given: Case = inPanels,
): void {
  const programs = programsOf(given);
  const { lanes } = programs[1];
  const changed = { ...programs[1], lanes: lanes.with(-1, change(lanes.at(-1)!)) };
  const found = findings(programs.with(1, changed));
  assert(found.some(({ kind }) => kinds.includes(kind)), JSON.stringify(found));
}

Deno.test("planted: copies of panels that do not wait, come late, go elsewhere, or are left out", () => {
  const isWait = ({ kind }: Action) => kind === "wait";
  plantCopies((copies) => copies.filter((action) => !isWait(action)), ["race", "content", "flag"]);
  // All but one tile of a panel are waited for.
  const last = (copies: readonly Action[]) => copies.findIndex(({ kind }) => kind === "put") - 1;
  plantCopies((copies) => copies.filter((_, i) => i !== last(copies)), ["race", "content", "flag"]);
  // The flag is raised before the copy.
  const signal = (copies: readonly Action[]) => copies.findIndex(({ kind }) => kind === "signal");
  plantCopies((copies) => {
    const at = signal(copies);
    return copies.toSpliced(at, 1).toSpliced(at - 1, 0, copies[at]);
  }, ["race", "content"]);
  plantCopies((copies) => copies.filter((_, i) => i !== signal(copies)), ["deadlock"]);
  plantCopies(
    (copies) =>
      copies.map((action) =>
        action.kind === "put" ? { ...action, to: [{ ...action.to[0], rank: 3 - action.to[0].rank - 1 }] } : action
      ),
    ["race", "content"],
  );
});

Deno.test("planted: panels that are stored where the run before is still copied from", () => {
  const programs = programsOf(inPanels).map((program) => ({
    ...program,
    turns: Object.fromEntries(Object.entries(program.turns).filter(([memory]) => !memory.startsWith("for"))),
  }));
  assert(findings(programs).some(({ kind }) => kind === "race"));
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
    panels: null,
    pulls: false,
    pieces: 1,
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
