/** What a timeline shows of tiles: waves, and the waits and copies beside them. */
import { assertEquals } from "@std/assert";
import { wavesOf } from "../../../src/overlap/waves.ts";
import type { Interval } from "../../../src/runtime/timeline.ts";

const interval = (rank: number, lane: number, kind: Interval["kind"], start: number, end: number): Interval => ({
  rank,
  lane,
  kind,
  label: "",
  start,
  end,
});

const shown = (timeline: readonly Interval[]) =>
  timeline.map(({ rank, lane, kind, label, start, end }) => [rank, lane, kind, label, start, end].join(" "));

Deno.test("tiles that clusters take side by side are waves, which end where the next one begins", () => {
  const tiles = [[0, 0, 4], [1, 1, 6], [0, 4, 9], [1, 6, 11]].map(([lane, start, end]) =>
    interval(0, lane, "gemm", start, end)
  );
  assertEquals(shown(wavesOf(tiles)), ["0 0 gemm tiles, wave 1 0 4", "0 0 gemm tiles, wave 2 4 11"]);
});

Deno.test("waits of a rank that overlap are one, and tell of how many clusters", () => {
  const waits = [[0, 3, 5, 8], [0, 1, 4, 6], [0, 1, 7, 9], [0, 2, 12, 13], [1, 0, 5, 6]].map((
    [rank, lane, start, end],
  ) => interval(rank, lane, "wait", start, end));
  const expected = [
    "0 2 wait waits of 2 clusters 4 9",
    "0 2 wait waits of a cluster 12 13",
    "1 2 wait waits of a cluster 5 6",
  ];
  assertEquals(shown(wavesOf([...waits, interval(0, 7, "copy", 1, 2)])), ["0 1 copy  1 2", ...expected]);
});
