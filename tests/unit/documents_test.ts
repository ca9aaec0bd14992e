/** Names and files that the documents speak of: the tables of README, the container's files, the changelog. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import * as distmath from "../../mod.ts";
import * as testing from "../../src/testing/mod.ts";

const root = new URL("../../", import.meta.url);
const read = (path: string) => Deno.readTextFileSync(new URL(path, root));

/** The last column of the tables under "Coming from". */
function ownNames(): string[] {
  const [, section] = read("README.md").split("## Coming from\n");
  const rows = section.split("\n").filter((line) => /^\| `/.test(line));
  return rows.flatMap((row) => [...row.split("|")[2].matchAll(/`([^`]+)`/g)].map(([, name]) => name))
    .filter((name) => !["using", "await"].includes(name));
}

/** What a name such as `Matmul.plan` stands for: an export, a static member, or a method or property of instances. */
function isThere(name: string): boolean {
  const [first, member] = name.split(".");
  const exported = ({ ...distmath, ...testing } as Record<string, unknown>)[first];
  if (exported === undefined || member === undefined) return exported !== undefined;
  const { prototype } = exported as { prototype: object };
  // Properties that the constructor sets are in the source alone.
  return member in (exported as object) || member in prototype || (first === "DistributedArray" && member === "local");
}

Deno.test("README's names for what others call otherwise are there", () => {
  const names = ownNames();
  assert(names.length > 50, `${names.length}`);
  assertEquals(names.filter((name) => !isThere(name)), []);
  assert(!isThere("Matmul.fly") && !isThere("fly"));
});

/** The rows of a section's tables, in cells. */
function rowsOf(section: string): string[][] {
  const [, text] = read("README.md").split(`## ${section}\n`);
  const lines = text.split("\n## ")[0].split("\n").filter((line) => line.startsWith("|"));
  return lines.slice(2).map((line) => line.split(/ *\| */).slice(1, -1));
}

/** All of the published source, in one text, strings that go on in the next line joined. */
function source(): string {
  const texts: string[] = [];
  const visit = (folder: URL) => {
    for (const { name, isDirectory } of Deno.readDirSync(folder)) {
      if (isDirectory) visit(new URL(`${name}/`, folder));
      else if (name.endsWith(".ts")) texts.push(Deno.readTextFileSync(new URL(name, folder)));
    }
  };
  for (const folder of ["src/", "ffi/", "scripts/"]) visit(new URL(folder, root));
  return texts.join("\n");
}

Deno.test("README's troubleshooting is by messages that there are", () => {
  const text = source();
  const messages = rowsOf("Troubleshooting").map(([message]) => /^`(.*)`$/.exec(message)?.[1] ?? message);
  assert(messages.length > 5, `${messages.length}`);
  assertEquals(messages.filter((message) => !text.includes(message)), []);
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
  // Two peers of each of five, one of each of two.
  assertEquals(checked, 12);
  near(
    ratios("2026-11-22-amd-epyc-2-cores.json", "speed / C", "pgemm", { title: "float64" }),
    shown(measured[0][1])[0],
    3,
  );
  for (const [, path] of read("README.md").matchAll(/\]\(([^)#:]+)\)/g)) {
    assert(Deno.statSync(new URL(path, root)).isFile);
  }
});

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
