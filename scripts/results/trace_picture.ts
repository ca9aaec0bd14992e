/**
 * A trace in Chrome's format as a picture: a lane for each process and thread, calls within calls below each other.
 *
 * @module
 */
import { xml } from "./reports.ts";

/** An event of a trace, as far as it is drawn. */
export interface DrawnEvent {
  name?: string;
  ph: string;
  pid: number | string;
  tid: number | string;
  ts?: number;
  dur?: number;
  args?: Record<string, unknown>;
}

/** A call, with what it is below of. */
interface Call extends Required<Pick<DrawnEvent, "name" | "ts" | "dur">> {
  depth: number;
}

/** A call as a trace has it. */
type TimedEvent = DrawnEvent & Pick<Call, "ts" | "dur">;

const [width, leastMargin, rowHeight, letterWidth, narrowest] = [1600, 120, 16, 6.2, 0.5];

/** The calls of a lane with their depths. */
function nest(events: readonly TimedEvent[]): Call[] {
  const open: number[] = [];
  return events.map(({ name = "", ts, dur }) => ({ name: String(name), ts, dur }))
    .sort((a, b) => a.ts - b.ts || b.dur - a.dur)
    .map((call) => {
      while (open.length > 0 && open.at(-1)! <= call.ts) open.pop();
      open.push(call.ts + call.dur);
      return { ...call, depth: open.length - 1 };
    });
}

/** A colour that the same name always has. */
function colorOf(name: string): string {
  let hash = 0;
  for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)!) % 360;
  return `hsl(${hash} 55% 72%)`;
}

const isCall = (event: DrawnEvent): event is TimedEvent =>
  event.ph === "X" && typeof event.ts === "number" && typeof event.dur === "number";

/** Draw a trace. What is narrower than half a pixel is left out, and text that does not fit its box. */
export function traceSvg(trace: { traceEvents: readonly DrawnEvent[] }): string {
  const events = trace.traceEvents.filter((event) => typeof event === "object" && event !== null);
  const calls = events.filter(isCall);
  const begin = calls.reduce((least, { ts }) => Math.min(least, ts), Infinity);
  const end = calls.reduce((most, { ts, dur }) => Math.max(most, ts + dur), -Infinity);
  const namesOf = (kind: string, keyOf: (event: DrawnEvent) => string) =>
    new Map(events.filter(({ name }) => name === kind).map((e) => [keyOf(e), String(e.args?.name)]));
  const processes = namesOf("process_name", ({ pid }) => `${pid}`);
  const threads = namesOf("thread_name", ({ pid, tid }) => `${pid} ${tid}`);
  const lanes = Map.groupBy(calls, ({ pid, tid }) => `${pid} ${tid}`);
  const titleOf = (key: string, [{ pid }]: readonly DrawnEvent[]) =>
    [processes.get(`${pid}`) ?? `process ${pid}`, threads.get(key) ?? []].flat().join(", ");
  const longest = Array.from(lanes, ([key, lane]) => titleOf(key, lane).length).reduce((a, b) => Math.max(a, b), 0);
  const margin = Math.max(leastMargin, longest * letterWidth + 8);
  const scale = (width - margin) / Math.max(1, end - begin);
  const drawn: string[] = [];
  let top = rowHeight;
  for (const [key, lane] of lanes) {
    const nested = nest(lane);
    const title = titleOf(key, lane);
    drawn.push(`<text class="lane" x="4" y="${top + 12}">${xml(title)}</text>`);
    for (const { name, ts, dur, depth } of nested) {
      const size = dur * scale;
      if (size < narrowest) continue;
      const [x, y] = [margin + (ts - begin) * scale, top + depth * rowHeight];
      const box = `<rect x="${x.toFixed(2)}" y="${y}" width="${size.toFixed(2)}" height="${rowHeight - 1}" fill="${
        colorOf(name)
      }"><title>${xml(name)}: ${(dur / 1000).toFixed(3)} ms</title></rect>`;
      const fits = name.length * letterWidth + 4 < size;
      drawn.push(fits ? `${box}<text x="${(x + 2).toFixed(2)}" y="${y + 12}">${xml(name)}</text>` : box);
    }
    top += (nested.reduce((most, { depth }) => Math.max(most, depth), 0) + 2) * rowHeight;
  }
  const length = calls.length === 0 ? "no calls" : `${((end - begin) / 1000).toFixed(1)} ms`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${top}" font-family="monospace" font-size="10">
<text x="4" y="12">${length}</text>
${drawn.join("\n")}
</svg>
`;
}
