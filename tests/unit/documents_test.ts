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
