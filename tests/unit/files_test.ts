/** `src/files.ts` names what `mod.ts` loads, and nothing else: so one source map is parsed at a start. */
import { assertEquals } from "@std/assert";

const root = new URL("../../", import.meta.url);
const list = new URL("src/files.ts", root).href;

/** The static imports of code that Deno finds in each file which `mod.ts` needs. */
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

Deno.test("src/files.ts names each file that mod.ts needs", () => {
  const imports = findImports();
  const needed = new Set<string>();
  const visit = (file: string): void => {
    if (needed.has(file) || file === list) return;
    needed.add(file);
    imports.get(file)!.forEach(visit);
  };
  const page = new URL("mod.ts", root).href;
  visit(page);
  needed.delete(page);
  const named = new Set(imports.get(list));
  assertEquals([...needed.difference(named)], [], "src/files.ts lacks them");
  assertEquals([...named.difference(needed)], [], "mod.ts does not need them, and src/files.ts names them");
});
