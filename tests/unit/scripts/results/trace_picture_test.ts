import { assert, assertEquals } from "@std/assert";
import { type DrawnEvent, traceSvg } from "../../../../scripts/results/trace_picture.ts";

const call = (name: string, pid: number, ts: number, dur: number): DrawnEvent => ({
  name,
  ph: "X",
  pid,
  tid: 0,
  ts,
  dur,
});

const traceEvents: DrawnEvent[] = [
  { name: "process_name", ph: "M", pid: 0, tid: 0, args: { name: "rank 0" } },
  { name: "process_name", ph: "M", pid: 1, tid: 0, args: { name: "rank <1>" } },
  call("outer", 0, 1000, 1000),
  call("inner", 0, 1100, 400),
  call("a name that is much longer than its box", 0, 1500, 20),
  call("outer", 1, 1200, 800),
  call("too short to be seen", 1, 1300, 0.01),
];

Deno.test("traceSvg() draws a lane a rank, calls below those that they are in, and labels where there is room", () => {
  const svg = traceSvg({ traceEvents });
  const boxes = [...svg.matchAll(/<rect x="([\d.]+)" y="(\d+)" width="([\d.]+)"[^>]*><title>([^:]*)/g)]
    .map(([, x, y, width, name]) => ({ name, x: Number(x), y: Number(y), width: Number(width) }));
  assertEquals(boxes.map(({ name }) => name), ["outer", "inner", "a name that is much longer than its box", "outer"]);
  const [outer, inner, long, second] = boxes;
  assertEquals([outer.x, inner.y - outer.y, long.y - outer.y], [120, 16, 16]);
  assert(second.y > inner.y && second.x > outer.x);
  assertEquals([...svg.matchAll(/<text class="lane"[^>]*>([^<]*)/g)].map(([, name]) => name), [
    "rank 0",
    "rank &lt;1&gt;",
  ]);
  const labels = [...svg.matchAll(/<\/rect><text x="([\d.]+)" y="(\d+)">([^<]*)/g)]
    .map(([, x, y, name]) => ({ start: Number(x), end: Number(x) + 6 * name.length, y: Number(y), name }));
  assertEquals(labels.map(({ name }) => name), ["outer", "inner", "outer"]);
  for (const a of labels) {
    for (const b of labels) {
      assert(a === b || a.y !== b.y || a.end <= b.start || b.end <= a.start, `${a.name}, ${b.name}`);
    }
  }
  assert(traceSvg({ traceEvents: [] }).includes("no calls"));
});

Deno.test("traceSvg() leaves room for the longest title of a lane", () => {
  const title = "stream 1 (arrivals)";
  const named = { name: "thread_name", ph: "M", pid: 0, tid: 0, args: { name: title } };
  const svg = traceSvg({ traceEvents: [named, ...traceEvents] });
  const [x] = [...svg.matchAll(/<rect x="([\d.]+)"/g)].map((match) => Number(match[1]));
  assert(x >= 4 + 6 * `rank 0, ${title}`.length, svg);
});

Deno.test("traceSvg() draws calls without a name, and leaves out what is no event and what XML cannot have", () => {
  const { name: _, ...nameless } = call("", 0, 0, 1000);
  const named = { name: "process_name", ph: "M", pid: 0, tid: 0, args: { name: "rank\x1b 0" } };
  const odd = [null, 1, { ...call("text", 0, 0, 1), ts: "1", dur: "2" }] as unknown as DrawnEvent[];
  const svg = traceSvg({ traceEvents: [...odd, named, nameless, call("a\x01\ufffe", 0, 2000, 1000)] });
  assertEquals([...svg.matchAll(/<title>([^<]*)/g)].map(([, title]) => title), [": 1.000 ms", "a: 1.000 ms"]);
  assertEquals(/<text class="lane"[^>]*>([^<]*)/.exec(svg)?.[1], "rank 0");
  // deno-lint-ignore no-control-regex
  assert(!/[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe]/.test(svg));
});
