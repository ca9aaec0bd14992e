/** Files, variables, messages and results that the documents speak of; coming_from_test.ts has the names of others. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import * as ffi from "../../ffi/mod.ts";
import * as distmath from "../../mod.ts";
import { commandLine } from "../../scripts/launch/launcher.ts";

const root = new URL("../../", import.meta.url);
const read = (path: string) => Deno.readTextFileSync(new URL(path, root));

Deno.test("README names what run sets and plain mpirun does not", () => {
  const text = read("README.md");
  // Names that differ in their last word are given once, and then by that.
  const isTold = ([name, value]: [string, string]) =>
    [name, name.slice(name.lastIndexOf("_"))].some((told) => text.includes(`\`${told}=${value}\``));
  const machine = { cores: 2, isRoot: false, environment: {} };
  const jobs = [{ ranks: 4, program: [] }, { ranks: 4, program: [], hosts: ["a:2", "b:2"] }];
  const launchers = [{ kind: "open_mpi", version: "5.0.11" }, { kind: "mpich", version: "4.3.1" }] as const;
  const set = launchers.flatMap((one) =>
    jobs.flatMap((job) => Object.entries(commandLine({ path: "mpirun", source: "PATH", ...one }, job, machine).env))
  ).filter(([name]) => name !== "PRTE_MCA_rmaps_default_mapping_policy"); // told of as --oversubscribe
  assertEquals(new Set(set.map(([name]) => name)).size, 10);
  assertEquals(set.filter((one) => !isTold(one)), []);
  assert(!isTold(["OMPI_MCA_fly", "1"]));
});

/** The rows of a section's table, in cells; of the first one unless another is asked for. */
function rowsOf(section: string, which = 0): string[][] {
  const [, text] = read("README.md").split(`## ${section}\n`);
  const tables = text.split("\n## ")[0].split("\n\n").filter((block) => block.trim().startsWith("|"));
  const lines = tables[which].trim().split("\n");
  return lines.slice(2).map((line) => line.split(/ *\| */).slice(1, -1));
}

/** A source without comments, strings that go on in the next line joined. */
const withoutComments = (text: string) =>
  text.replaceAll(/\/\*.*?\*\//gs, "").replaceAll(/^\s*\/\/.*$/gm, "").replaceAll(/["`'] \+\s+["`']/g, "");

/** All of the published source, in one text. */
function source(): string {
  const texts: string[] = [];
  const visit = (folder: URL) => {
    for (const { name, isDirectory } of Deno.readDirSync(folder)) {
      if (isDirectory) visit(new URL(`${name}/`, folder));
      else if (name.endsWith(".ts")) texts.push(withoutComments(Deno.readTextFileSync(new URL(name, folder))));
    }
  };
  for (const folder of ["src/", "ffi/", "scripts/"]) visit(new URL(folder, root));
  return texts.join("\n");
}

Deno.test("README's troubleshooting is by messages that there are", () => {
  const text = source();
  const messages = rowsOf("Troubleshooting").map(([message]) => /^`(.*)`$/.exec(message)?.[1] ?? message);
  assert(messages.length > 15, `${messages.length}`);
  assertEquals(messages.filter((message) => !text.includes(message)), []);
  assert(!text.includes("This message is said by nobody"));
  assertEquals(withoutComments('// one\n/** two */\nsay("three " +\n  "four");').trim(), 'say("three four");');
});

Deno.test("README's troubleshooting has each class of errors", () => {
  const known = Object.entries({ ...distmath, ...ffi }).filter(([, value]) =>
    value === distmath.DistmathError || (value as { prototype?: unknown }).prototype instanceof distmath.DistmathError
  );
  const told = rowsOf("Troubleshooting", 1).flatMap(([classes]) => classes.replaceAll("`", "").split(", "));
  assert(known.length > 15, `${known.length}`);
  assertEquals(told.toSorted(), [...known.map(([name]) => name), "RangeError", "TypeError"].sort());
});

Deno.test("README's measured results are those of the records that it names", () => {
  const measured = rowsOf("Measured");
  assert(measured.length > 2);
  const ratios = (record: string, quantity: string, group: string, { title = "", ranks = 0 } = {}) => {
    const { groups } = JSON.parse(read(`bench/results/${record}`)) as {
      groups: {
        name: string;
        ranks: number;
        rows: { title: string; verdicts: { quantity: string; value: { median: number } }[] }[];
      }[];
    };
    const found = groups.find((one) => one.name === group && (ranks === 0 || one.ranks === ranks))!;
    const rows = found.rows.filter((row) => row.title.startsWith(title));
    const values = rows.flatMap(({ verdicts }) => verdicts.filter((one) => one.quantity === quantity))
      .map(({ value }) => value.median);
    return [Math.min(...values), Math.max(...values)];
  };
  const shown = (cell: string) => [...cell.matchAll(/([\d.]+) to ([\d.]+)/g)].map(([, ...ends]) => ends.map(Number));
  const near = (found: readonly number[], said: readonly number[], digits: number) =>
    assertEquals(found.map((value) => Number(value.toPrecision(digits))), said);
  const peers: Record<string, readonly string[]> = {
    redistribution: ["speed / p?gemr2d", "speed / mpi4py"],
    fft: ["speed / FFTW-MPI", "speed / mpi4py-fft"],
    communicator: ["time / mpi4py"],
    elementwise: ["time / NumPy"],
  };
  let checked = 0;
  for (const [what, said, cell] of measured) {
    const record = cell.replaceAll("`", "");
    assert(Deno.statSync(new URL(`bench/results/${record}`, root)).isFile);
    const [group] = record.split("_");
    const ranks = what.includes("4 ranks") ? 4 : what.includes("2 ranks") ? 2 : 0;
    for (const [i, quantity] of (peers[group] ?? []).entries()) {
      near(ratios(record, quantity, group, { ranks }), shown(said)[i], 2);
      checked++;
    }
  }
  // Two peers of each of six, one of each of two.
  assertEquals(checked, 14);
  const onGpus: Record<string, readonly [ours: string, peer: string]> = {
    gpu_redistribution: ["distmath", "NCCL, packed"],
    gpu_fft: ["FFT, Slab.X to Slab.Y", "cuFFTMp, in place"],
  };
  const rowsOnGpus = measured.filter(([, , cell]) => cell.startsWith("`gpu_"));
  assertEquals(rowsOnGpus.length, 6);
  for (const [, said, cell] of rowsOnGpus) {
    const record = cell.replaceAll("`", "");
    const [ours, peer] = onGpus[record.replace(/(_\d)?_\w\d+\.json$/, "")];
    const found = JSON.parse(read(`bench/results/${record}`));
    const parts = [found["two GPUs"] ?? found.results, found.besideCublasMpGemr2D?.results ?? {}];
    const rows: { results: Record<string, { microseconds: number }> }[] = parts.flatMap((part) => Object.values(part));
    const speeds = rows.map(({ results }) => results[peer].microseconds / results[ours].microseconds);
    const [[least, most]] = shown(said);
    near([Math.min(...speeds)], [least], String(least).replace(/^0?\./, "").replace(".", "").length);
    near([Math.max(...speeds)], [most], String(most).replace(".", "").length);
  }
  const products = measured.filter(([, said, cell]) => cell.startsWith("`overlap_") && said.includes("best peer"));
  assertEquals(products.length, 2);
  for (const [, said, cell] of products) {
    const speeds = speedsOfProducts(JSON.parse(read(`bench/results/${cell.replaceAll("`", "")}`)));
    const [[least, most]] = shown(said);
    near([Math.min(...speeds)], [least], String(least).replace(/^0?\./, "").replace(".", "").length);
    near([Math.max(...speeds)], [most], 2);
    const ahead = Number(/ahead on (\d+)/.exec(said)?.[1] ?? speeds.length);
    assertEquals([speeds.length, speeds.filter((speed) => speed > 1).length], [29, ahead]);
  }
  const [, messages] = measured.find(([, , cell]) => cell === "`messages_2_cores.json`")!;
  const { runs } = JSON.parse(read("bench/results/messages_2_cores.json")) as {
    runs: { network: string; "packed / types, geometric means": Record<string, { planned: number[] }> }[];
  };
  for (const [i, group] of ["large", "large, pieces of 8 to 32 bytes"].entries()) {
    const speeds = runs.filter(({ network }) => network.startsWith("TCP"))
      .flatMap((run) => run["packed / types, geometric means"][group].planned).map((time) => 1 / time);
    near([Math.min(...speeds), Math.max(...speeds)], shown(messages)[i], 2);
  }
  near(
    ratios("2026-11-22-amd-epyc-2-cores.json", "speed / C", "pgemm", { title: "float64" }),
    shown(measured[0][1])[0],
    3,
  );
  for (const [, path] of read("README.md").matchAll(/\]\(([^)#:]+)\)/g)) {
    assert(Deno.statSync(new URL(path, root)).isFile);
  }
});

Deno.test("README's words on redistributions with and without autotune are those of the records", () => {
  const [sentence] = /After `autotune` they reach[^]*?on 4\. Of/.exec(read("README.md"))!;
  const said = [...sentence.matchAll(/([\d.]+)\s+to\s+([\d.]+)/g)].map(([, ...ends]) => ends.map(Number));
  const records = [
    ["redistribution_2_cores", 2, "autotuned"],
    ["redistribution_2_cores", 4, "autotuned"],
    ["redistribution_2_cores_amd", 2, "as a rule"],
    ["redistribution_2_cores_amd_4_ranks", 4, "as a rule"],
  ] as const;
  const found = records.flatMap(([record, ranks, ours]) => {
    const { groups } = JSON.parse(read(`bench/results/${record}.json`)) as {
      groups: { name: string; ranks: number; rows: { seconds: Record<string, { median: number }> }[] }[];
    };
    const { rows } = groups.find((group) => group.name === "redistribution" && group.ranks === ranks)!;
    return ["p?gemr2d", "mpi4py"].map((peer) => {
      const speeds = rows.map(({ seconds }) => seconds[peer].median / seconds[ours].median);
      return [Math.min(...speeds), Math.max(...speeds)].map((speed) => Number(speed.toPrecision(2)));
    });
  });
  assertEquals(found, said);
});

interface Products {
  overlap: { rows: ProductRow[] }[];
  torch: { rows: ProductRow[] }[];
}

interface ProductRow {
  kind: string;
  shape: number[];
  standings: Record<string, { time: number }>;
}

/** The speed of engine `overlap` over that of the fastest peer, on each row. */
function speedsOfProducts({ overlap, torch }: Products): number[] {
  const nameOf = ({ kind, shape }: ProductRow) => `${kind} ${shape}`;
  const theirs = torch.flatMap(({ rows }) => rows);
  return overlap.flatMap(({ rows }) => rows).map((row) => {
    const { matmul, cublasmp, nccl } = row.standings;
    const { gemm: _, ...others } = theirs.find((one) => nameOf(one) === nameOf(row))!.standings;
    return Math.min(...[cublasmp, nccl, ...Object.values(others)].map(({ time }) => time)) / matmul.time;
  });
}

/** The instructions of a container file, with lines that go on joined. */
function instructionsOf(text: string): [name: string, rest: string][] {
  const lines = text.replaceAll(/^#.*\n/gm, "").replaceAll(/\\\n/g, " ").split("\n").filter(Boolean);
  return lines.map((line) => {
    const [, name, rest] = /^([A-Z]+) (\S.*)$/.exec(line) ?? [];
    assert(name !== undefined, `no instruction: ${line}`);
    return [name, rest];
  });
}

Deno.test("the container file has instructions that there are, and shell that sh takes", async () => {
  const instructions = instructionsOf(read("Containerfile"));
  assertEquals(instructions.map(([name]) => name), ["FROM", "COPY", "RUN", "COPY", "WORKDIR", "RUN", "CMD"]);
  for (const [, script] of instructions.filter(([name]) => name === "RUN")) {
    const { code, stderr } = await new Deno.Command("sh", { args: ["-n", "-c", script] }).output();
    assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
  }
  assert(Array.isArray(JSON.parse(instructions.at(-1)![1])));
  const [version] = read("README.md").match(/deno@[\d.]+/)!;
  assertStringIncludes(instructions[1][1], `deno:bin-${version.slice(5)} `);
  const { build } = JSON.parse(read(".devcontainer/devcontainer.json"));
  assert(Deno.statSync(new URL(build.dockerfile, new URL(".devcontainer/", root))).isFile);
});

Deno.test("the changelog tells of this version", () => {
  const { version } = JSON.parse(read("deno.json"));
  assert(RegExp(`^## ${version.replaceAll(".", "\\.")}\\b`, "m").test(read("CHANGELOG.md")));
});

Deno.test("the package has the command line, and what README shows and links", () => {
  const { exports, publish } = JSON.parse(read("deno.json")) as {
    exports: Record<string, string>;
    publish: { include: string[] };
  };
  assertEquals(exports["./cli"], "./scripts/main.ts");
  const paths = [...read("README.md").matchAll(/\]\(([^)#:]+)\)/g)].map(([, path]) => path);
  assert(paths.includes("bench/results/overlap_h200.svg"));
  const isPublished = (path: string) => publish.include.some((one) => path === one || path.startsWith(`${one}/`));
  assertEquals([...paths, ...Object.values(exports)].filter((path) => !isPublished(path.replace(/^\.\//, ""))), []);
});

Deno.test("the documentation of what the package exports is checked, and tells what each module is for", () => {
  const { exports, tasks } = JSON.parse(read("deno.json")) as {
    exports: Record<string, string>;
    tasks: Record<string, { command: string }>;
  };
  const [, checked] = tasks.check.command.split("deno doc --lint ");
  const entries = Object.values(exports).map((path) => path.replace(/^\.\//, ""));
  // Of ffi/ tests/unit/ffi/documentation_test.ts asks less.
  assertEquals([...checked.split(" "), "ffi/mod.ts"].toSorted(), entries.toSorted());
  const isTold = (text: string) => /^\/\*\*\n( \*.*\n)*? \* @module\n \*\//.test(text);
  assertEquals(entries.filter((path) => !isTold(read(path))), []);
  assert(!isTold("/** The entry. */\nexport {};\n"));
});
