/** Predictions by rates that make the right times plain, and pictures of timelines. */
import { assert, assertAlmostEquals, assertEquals, assertStringIncludes } from "@std/assert";
import {
  durationOf,
  H200_RATES,
  limitOf,
  predictStages,
  predictTiles,
  type Rates,
  tileSpeed,
} from "../../../src/overlap/cost_model.ts";
import { TILE_SHAPES } from "../../../src/overlap/executors/tile/configuration.ts";
import { partitionOf } from "../../../src/overlap/partition.ts";
import type { TileProblem } from "../../../src/overlap/tile_order.ts";
import { chromeTrace, type Interval, timelineSVG } from "../../../src/runtime/timeline.ts";

/** A line of the matrix that travels is multiplied, and sent, in a microsecond; nothing else takes time. */
const SIMPLE: Rates = {
  ...H200_RATES,
  flops: 2 * 10 * 10,
  link: 10,
  memory: Infinity,
  gemmStart: 0,
  copyStart: 0,
  flag: 0,
};
const gather = partitionOf({ kind: "gather", extents: { m: 40, n: 20, k: 10 }, size: 2 });
const reduce = partitionOf({ kind: "reduce", extents: { m: 40, n: 10, k: 20 }, size: 2 });

const at = (timeline: readonly Interval[], rank: number, kind: Interval["kind"]) =>
  timeline.filter((interval) => interval.rank === rank && interval.kind === kind).map(({ start, end }) => [start, end]);

Deno.test("a part travels while the rank's own one is multiplied", () => {
  const timeline = predictStages(gather, { way: "push" }, SIMPLE, 1);
  assertEquals(at(timeline, 0, "gemm"), [[0, 20], [20, 40]]);
  assertEquals(at(timeline, 1, "copy"), [[0, 20]]);
  assertEquals(at(timeline, 0, "wait"), []);
  assertEquals(durationOf(timeline), 40);
});

Deno.test("what takes longer to travel is waited for, and is the limit", () => {
  const slow = { ...SIMPLE, link: 2 };
  const timeline = predictStages(gather, { way: "push" }, slow, 1);
  assertEquals(at(timeline, 0, "wait"), [[20, 100]]);
  assertEquals(durationOf(timeline), 120);
  assertEquals(limitOf(gather, slow, 1), 100);
  assertEquals(limitOf(gather, SIMPLE, 1), 40);
  // In pieces, the first is multiplied while the second one comes.
  assertEquals(durationOf(predictStages(gather, { way: "push", pieces: 2 }, slow, 1)), 108);
});

Deno.test("a rank that does one thing at a time hides nothing", () => {
  assertEquals(durationOf(predictStages(gather, { way: "push" }, SIMPLE, 1, "list")), 60);
});

Deno.test("starts, flags and sums count", () => {
  const costly = { ...SIMPLE, gemmStart: 3, copyStart: 2, flag: 1, memory: 100 };
  // 3 + 20, sent in 2 + 20, seen 1 later; added by reading and writing 3 x 20 x 10 bytes.
  const timeline = predictStages(reduce, { way: "scatter" }, costly, 1);
  assertEquals(at(timeline, 0, "gemm"), [[0, 23], [23, 46]]);
  assertEquals(at(timeline, 0, "copy"), [[23, 45]]);
  assertEquals(at(timeline, 0, "reduce"), [[46, 52]]);
});

Deno.test("a link carries one thing at a time, in either direction", () => {
  const partition = partitionOf({ kind: "gather", extents: { m: 30, n: 30, k: 10 }, size: 3 });
  const timeline = predictStages(partition, { way: "push" }, SIMPLE, 1);
  for (const rank of [0, 1, 2]) assertEquals(at(timeline, rank, "copy"), [[0, 10], [10, 20]]);
});

Deno.test("tiles come in waves of as many as there are clusters, and wait for parts that travel", () => {
  const problem = {
    kind: "gather",
    dtype: "bfloat16",
    m: 1024,
    n: 256,
    k: 64,
    isRowMajorA: true,
    isRowMajorB: false,
    split: "rows",
    size: 2,
  } as const;
  const onAll = [0, 1].map((rank) => ({ ...problem, rank }));
  const shape = TILE_SHAPES.wide;
  const tile = 2 * 256 * 256 * 64;
  const rates = { ...SIMPLE, flops: tile, link: Infinity, stores: Infinity, tiles: { ...H200_RATES.tiles, wide: 1 } };
  // Four tiles on two clusters, each of which takes twice as long as one on all.
  assertEquals(durationOf(predictTiles(onAll, { shape }, 2, rates)), 4);
  const late = predictTiles(onAll, { shape }, 2, { ...rates, link: 512 * 64 * 2 / 10 });
  assertEquals(durationOf(late), 12);
  assert(late.some(({ kind, start, end }) => kind === "wait" && start === 2 && end === 10));
});

Deno.test("each rank has the tiles of its own extents, whoever asks", () => {
  const given = {
    ...{ dtype: "bfloat16", m: 1024, n: 256, k: 64, split: "rows", size: 2 } as const,
    isRowMajorA: true,
    isRowMajorB: false,
  };
  const shape = TILE_SHAPES.wide;
  const tile = 2 * 256 * 256 * 64;
  const rates = { ...SIMPLE, flops: tile, link: Infinity, stores: Infinity, tiles: { ...H200_RATES.tiles, wide: 1 } };
  const busy = (problems: readonly Omit<TileProblem, "rank">[]) => {
    const timeline = predictTiles(problems.map((problem, rank) => ({ ...problem, rank })), { shape }, 2, rates);
    return [0, 1].map((rank) =>
      timeline.filter((one) => one.rank === rank && one.kind === "gemm")
        .reduce((sum, { start, end }) => sum + end - start, 0)
    );
  };
  const gather = { ...given, kind: "gather" } as const;
  assertEquals(busy([gather, { ...gather, n: 512 }]), [8, 16]);
  assertEquals(busy([{ ...gather, n: 512 }, gather]), [16, 8]);
  const reduce = { ...given, kind: "reduce" } as const;
  assertEquals(busy([reduce, { ...reduce, k: 192 }]), [8, 24]);
});

Deno.test("tiles between the shapes in use are as fast as these on either side, in proportion", () => {
  const rates = { tiles: { wide: 1, roomy: 0.7, medium: 0.8, narrow: 0.5, flat: 0.4 } };
  for (const name of ["wide", "roomy", "medium", "narrow", "flat"] as const) {
    assertEquals(tileSpeed(TILE_SHAPES[name], rates), rates.tiles[name]);
  }
  assertAlmostEquals(tileSpeed({ ...TILE_SHAPES.wide, columns: 224 }, rates), 0.9);
  assertAlmostEquals(tileSpeed({ ...TILE_SHAPES.medium, columns: 144 }, rates), 0.575);
});

Deno.test("no schedule is predicted to be faster than the product alone", () => {
  const partition = partitionOf({ kind: "gather", extents: { m: 2048, n: 8192, k: 8192 }, size: 2 });
  const { m, n, k } = partition.extents;
  const limit = limitOf(partition, H200_RATES, 2);
  assertAlmostEquals(limit, 2 * m * n * k / 2 / 790e6, 1e-6);
  for (const way of ["push", "pull"] as const) {
    const predicted = durationOf(predictStages(partition, { way, pieces: 2 }, H200_RATES, 2));
    assert(predicted >= limit && predicted < 2 * limit, `${way}: ${predicted}`);
  }
});

Deno.test("a timeline is a picture with a bar for each interval, and a trace", () => {
  const timeline = predictStages(gather, { way: "push" }, { ...SIMPLE, link: 2 }, 1);
  const picture = timelineSVG(timeline, "gather <push>");
  assertEquals(picture.match(/<title>/g)!.length, timeline.length);
  assertStringIncludes(picture, "gather &lt;push&gt; (120.0 us)");
  assertStringIncludes(picture, ">rank 1, lane 1</text>");
  const { traceEvents } = JSON.parse(chromeTrace(timeline));
  const events = traceEvents.filter(({ ph }: { ph: string }) => ph === "X");
  assertEquals(events.length, timeline.length);
  const wait = events.find(({ cat, pid }: { cat: string; pid: number }) => cat === "wait" && pid === 0);
  assertEquals([wait.ts, wait.dur, wait.tid], [20, 80, 0]);
  const named = traceEvents.filter(({ ph }: { ph: string }) => ph === "M").map(({ name }: { name: string }) => name);
  assertEquals(named.filter((name: string) => name === "process_name").length, 2);
  assertEquals(named.filter((name: string) => name === "thread_name").length, 4);
  assertStringIncludes(timelineSVG([]), "</svg>");
  // A lane has the name of a stream, which is the user's.
  const streams = timelineSVG(timeline, "", (lane) => `<stream ${lane} & more>`);
  assertStringIncludes(streams, "&lt;stream 0 &amp; more&gt;</text>");
  assert(!streams.includes("<stream"));
});
