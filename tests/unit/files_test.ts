/**
 * `src/files.ts` names what `mod.ts` loads, but for the inner files of engines, which these name themselves: so a few small
 * source maps are parsed at a start.
 */
import { assert, assertEquals } from "@std/assert";

const root = new URL("../../", import.meta.url);
const list = new URL("src/files.ts", root).href;

/** The static imports and exports of code that Deno finds in each file which `mod.ts` needs. */
function findImports(): Map<string, string[]> {
  const { stdout } = new Deno.Command(Deno.execPath(), { args: ["info", "--json", "mod.ts"], cwd: root }).outputSync();
  const { modules } = JSON.parse(new TextDecoder().decode(stdout)) as {
    modules: { specifier: string; dependencies?: { code?: { specifier: string }; isDynamic?: boolean }[] }[];
  };
  return new Map(modules.map(({ specifier, dependencies = [] }) => [
    specifier,
    dependencies.flatMap(({ code, isDynamic }) => code && !isDynamic ? [code.specifier] : []),
  ]));
}

const imports = findImports();

/** All that `mod.ts` needs, but the list. */
function findNeeded(): Set<string> {
  const needed = new Set<string>();
  const visit = (file: string): void => {
    if (needed.has(file) || file === list) return;
    needed.add(file);
    imports.get(file)!.forEach(visit);
  };
  const page = new URL("mod.ts", root).href;
  visit(page);
  needed.delete(page);
  return needed;
}

/** The pages of engines: each stands for the folder that it is in. */
const pages = ["linalg", "fft"].flatMap((room) => imports.get(new URL(`src/${room}/engines/all.ts`, root).href)!);

const folderOf = (page: string): string => page.slice(0, page.lastIndexOf("/") + 1);

function assertNames(page: string, wanted: Iterable<string>): void {
  const named = new Set(imports.get(page));
  const name = page.slice(root.href.length);
  const all = new Set(wanted);
  assertEquals([...all.difference(named)], [], `${name} lacks them`);
  assertEquals(
    [...named.difference(all)],
    [],
    `mod.ts does not need them, or another page has them, and ${name} names them`,
  );
}

Deno.test("src/files.ts names each file that mod.ts needs and that is no engine's own", () => {
  const isInner = (file: string) => pages.some((page) => file.startsWith(folderOf(page)));
  assertNames(list, [...findNeeded()].filter((file) => !isInner(file)));
});

Deno.test("mod.ts of an engine names each file of its folder that mod.ts of all needs", () => {
  assert(pages.length >= 6, pages.join());
  for (const page of pages) {
    assert(page.endsWith("/mod.ts"), `all.ts names ${page}`);
    assertNames(page, [...findNeeded()].filter((file) => file !== page && file.startsWith(folderOf(page))));
  }
});
