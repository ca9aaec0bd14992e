/** Every picture in a browser, on the page of `view`: what it shows, and that no label covers another or is cut. */
import { assert, assertEquals } from "@std/assert";
import {
  BlockCyclic,
  CommunicationMatrix,
  type Distribution,
  type Interval,
  ProcessGrid,
  Replicated,
  Slab,
  Timeline,
} from "../../mod.ts";
import { Browser, chromium, type Drawing, drawingOfPage, faultsOf } from "./chromium.ts";
import { main, root, startMain, temporaryFolder } from "./command.ts";

/** The page that `view` has of a file, in a browser. */
async function look(browser: Browser, path: string): Promise<Drawing> {
  const child = startMain(["view", path]);
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  try {
    const { value = "" } = await reader.read();
    const url = /^http:\/\/127\.0\.0\.1:\d+\//.exec(value)?.[0] ?? "";
    assert(url !== "", value);
    return await browser.ask(url, drawingOfPage);
  } finally {
    child.kill("SIGINT");
    await Promise.all([reader.cancel(), child.stderr.cancel()]);
    await child.status;
  }
}

const bound = (distribution: Distribution, shape: readonly number[], size: number) => distribution.bind(shape, size);
const grid = new ProcessGrid({ shape: [2, 3], layout: "row-major" });

/** Two ranks that do a bit of everything, on lanes with numbers. */
const drawn: Interval[] = (["operation", "gemm", "fft", "compute", "copy", "reduce", "wait"] as const).flatMap(
  (kind, i) => [0, 11].map((rank) => ({ rank, lane: i % 3, kind, label: kind, start: 10 * i, end: 10 * i + 8 })),
);

/** What each picture is of, and how many elements of a kind it has at the least. */
const pictures: readonly (readonly [name: string, svg: string, elements: Readonly<Record<string, number>>])[] = [
  ["slab.svg", bound(Slab.X, [1000, 30], 4).toSVG(), { ".block": 4, ".frame": 1 }],
  ["blocks.svg", bound(new BlockCyclic(grid, [2, 3]), [17, 31], 6).toSVG(), { ".block": 99 }],
  ["narrow.svg", bound(new BlockCyclic(grid, [1, 1]), [40, 1000], 6).toSVG(), { ".block": 100 }],
  ["space.svg", bound(Slab.Y, [4, 6, 5], 3).toSVG(), { ".block": 3 }],
  ["replicated.svg", bound(Replicated, [4, 4], 3).toSVG(), { ".block": 1 }],
  [
    "matrix.svg",
    new CommunicationMatrix(
      Array.from({ length: 40 }, (_, from) => Array.from({ length: 40 }, (_, to) => (from + 1) * 7 ** (to % 19))),
      ["without what p?gemm sends, which ScaLAPACK does not tell"],
    ).toSVG(),
    { ".cell": 32 * 32 },
  ],
  ["two.svg", new CommunicationMatrix([[0, 8], [16, 0]]).toSVG(), { ".cell": 4 }],
  ["drawn.svg", new Timeline(drawn, []).toSVG("predicted"), { ".interval": 14 }],
];

Deno.test({
  name: chromium === null
    ? "no label of a picture covers another (skipped: no Chromium; apt-get install chromium-headless-shell)"
    : "no label of a picture covers another",
  ignore: chromium === null,
  async fn() {
    using folder = temporaryFolder();
    const script = `${root}tests/system/fixtures/pictures.ts`;
    const { code, stdout, stderr } = await main(["run", "-n", "2", "--profile", folder.path, script, folder.path]);
    assertEquals(code, 0, stdout + stderr);
    for (const [name, svg] of pictures) Deno.writeTextFileSync(`${folder.path}/${name}`, svg);
    const results = `${root}bench/results`;
    const charts = [...Deno.readDirSync(results)].filter(({ name }) => name.endsWith(".svg")).map(({ name }) => name);
    assert(charts.length > 0);
    const all: [path: string, elements: Readonly<Record<string, number>>][] = [
      ...pictures.map(([name, , elements]) => [`${folder.path}/${name}`, elements] as [string, typeof elements]),
      [`${folder.path}/timeline.svg`, { ".interval": 12, text: 6 }],
      [`${folder.path}/timeline.json`, { rect: 6, ".lane": 4 }],
      [`${folder.path}/product.svg`, { ".cell": 4 }],
      [`${folder.path}/redistribution.svg`, { ".cell": 4 }],
      [`${folder.path}/trace.json`, { rect: 10, ".lane": 2 }],
      ...charts.map((name) => [`${results}/${name}`, { rect: 4, text: 4 }] as [string, Record<string, number>]),
    ];
    await using browser = await Browser.start(chromium!);
    const faults: string[] = [];
    for (const [path, elements] of all) {
      const drawing = await look(browser, path);
      assertEquals(drawing.title, path.slice(path.lastIndexOf("/") + 1));
      for (const [name, least] of Object.entries(elements)) {
        const found = drawing.counts[name] ?? 0;
        if (found < least) faults.push(`${drawing.title} has ${found} ${name}, not ${least}`);
      }
      faults.push(...faultsOf(drawing).map((fault) => `${drawing.title}: ${fault}`));
    }
    assertEquals(faults, []);
  },
});

Deno.test("labels that cover each other or are cut are found", () => {
  const label = (text: string, left: number, top: number) => ({ text, left, top, right: left + 20, bottom: top + 10 });
  const labels = [label("a", 0, 0), label("b", 15, 5), label("c", 0, 20), label("d", 90, 40), label(" ", 0, 0)];
  const drawing = { title: "", width: 100, height: 100, counts: {}, labels };
  assertEquals(faultsOf(drawing), ['"a" and "b" overlap', '"d" is cut']);
});
