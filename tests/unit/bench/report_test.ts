import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { chart, margin } from "../../../bench/harness/chart.ts";
import { scalapackFiles } from "../../../bench/harness/libraries.ts";
import { machineKind } from "../../../bench/harness/machine.ts";
import { type GroupRecord, merged, type Row, type RunRecord, type Verdict } from "../../../bench/harness/record.ts";
import { formatRow, formatSeconds } from "../../../bench/harness/table.ts";

const machine = { processor: "AMD EPYC", cores: 2, memoryGiB: 23, kernel: "6.1", hugePages: "madvise" };
const summary = (median: number) => ({ median, low: median * 0.9, high: median * 1.1, count: 5 });
const kept: Verdict = { quantity: "speed / C", value: summary(0.99), relation: ">=", bound: 0.9, pass: true };
const missed: Verdict = { quantity: "seconds", value: summary(2e-5), relation: "<=", bound: 1e-5, pass: false };
const shorter: Verdict = {
  quantity: "seconds beyond C",
  value: summary(-2e-6),
  relation: "<=",
  bound: 1e-5,
  pass: true,
};
const unknown: Verdict = { quantity: "time / <peer>", value: null, relation: "<=", bound: 1, pass: null };
const row: Row = {
  title: "n = 1000 & more",
  operations: 2e9,
  seconds: { distmath: summary(0.02), C: summary(0.01) },
  missing: { "<peer>": "not installed" },
  verdicts: [kept, missed, unknown, shorter],
};

function group(name: string, commit: string, ranks = 2): GroupRecord {
  return { name, description: "", time: "2026-01-02T03:04:05Z", commit, ranks, rows: [row] };
}

function run(...groups: GroupRecord[]): RunRecord {
  return { machine, versions: {}, settings: {}, groups };
}

Deno.test("bench: times have three digits and a fitting unit", () => {
  assertEquals([1.5, 0.0123, 4.56e-6, 7e-9, 2e-10].map(formatSeconds), [
    "1.50 s",
    "12.3 ms",
    "4.56 µs",
    "7.00 ns",
    "0.200 ns",
  ]);
});

Deno.test("bench: a row names times, rates, missing peers, targets and outcomes", () => {
  const text = formatRow(row);
  for (
    const part of [
      "distmath 20.0 ms (100.0 GFLOP/s), C 10.0 ms (200.0 GFLOP/s)",
      "<peer> is missing: not installed",
      "pass: speed / C 0.990",
      "target >= 0.900",
      "MISS: time 20.0 µs",
      "target <= 10.0 µs",
      "peer missing: time / <peer>",
      "pass: time beyond C -2.00 µs",
    ]
  ) assertStringIncludes(text, part);
});

Deno.test("bench: a margin above 1 means that the target is kept, whichever side it bounds", () => {
  assertEquals(margin(kept), 0.99 / 0.9);
  assertEquals(margin(missed), 1e-5 / 2e-5);
  assertEquals(margin(unknown), null);
  assertEquals(margin(shorter), Infinity);
});

Deno.test("bench: a chart is well-formed and has one bar for each verdict", () => {
  const svg = chart(run(group("pgemm", "abc")));
  assertEquals(svg.match(/<rect x=/g)?.length, 4);
  assertStringIncludes(svg, "n = 1000 &amp; more");
  assertStringIncludes(svg, "time / &lt;peer&gt;");
  const opened = [...svg.matchAll(/<([a-z]+)(?:\s[^>]*)?(?<!\/)>/g)].map(([, name]) => name);
  const closed = [...svg.matchAll(/<\/([a-z]+)>/g)].map(([, name]) => name);
  assertEquals(opened.toSorted(), closed.toSorted());
});

Deno.test("bench: a chart is as wide as its longest label needs", () => {
  const long = "x".repeat(200);
  const record = run(group("pgemm", "abc"));
  const row = { ...record.groups[0].rows[0], verdicts: [{ ...kept, quantity: long }] };
  const wide = chart({ ...record, groups: [{ ...record.groups[0], rows: [row] }] });
  const widthOf = (svg: string) => Number(/width="(\d+)"/.exec(svg)![1]);
  assert(widthOf(wide) > widthOf(chart(record)) + 7 * 100);
});

Deno.test("bench: a record keeps the groups that were not measured again, on as many ranks", () => {
  const earlier = run(group("pgemm", "old"), group("arrays", "old"), group("arrays", "old", 4));
  const now = run(group("arrays", "new"), group("startup", "new"), group("pgemm", "new", 4));
  const commits = merged(earlier, now).groups.map(({ name, ranks, commit }) => `${name} ${ranks} ${commit}`);
  assertEquals(commits, ["pgemm 2 old", "arrays 2 new", "arrays 4 old", "startup 2 new", "pgemm 4 new"]);
  assertEquals(merged(null, now), now);
});

Deno.test("bench: MKL's files are put in the order in which they can be loaded", () => {
  const mapped = [
    "/x/libmpi.so.40",
    "/x/libmkl_scalapack_lp64.so.2",
    "/x/libmkl_avx512.so.3",
    "/x/libmkl_core.so.3",
    "/x/libmkl_blacs_openmpi_lp64.so.2",
    "/x/libmkl_intel_lp64.so.3",
    "/x/libmkl_sequential.so.3",
  ];
  const order = ["core.so.3", "sequential.so.3", "intel_lp64.so.3", "blacs_openmpi_lp64.so.2", "scalapack_lp64.so.2"];
  assertEquals(scalapackFiles(mapped), order.map((file) => `/x/libmkl_${file}`));
  assertEquals(scalapackFiles(["/y/libscalapack-openmpi.so.2.2", "/y/libblas.so.3"]), [
    "/y/libscalapack-openmpi.so.2.2",
  ]);
});

Deno.test("bench: a machine's kind fits into a file name", () => {
  assertEquals(machineKind(machine), "amd-epyc-2-cores");
  const processor = "Intel(R) Xeon(R) CPU @ 2.20GHz";
  assertEquals(machineKind({ ...machine, processor, cores: 8 }), "intel-xeon-cpu-2-20ghz-8-cores");
});
