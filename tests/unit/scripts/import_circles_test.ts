/** No file of the published part needs itself by way of others, for types neither. */
import { assertEquals } from "@std/assert";
import { importVisitor } from "../../../scripts/lint_layers.ts";

const root = new URL("../../../", import.meta.url);

/** Reports each specifier that a file imports. */
const plugin: Deno.lint.Plugin = {
  name: "imports",
  rules: {
    all: { create: (context) => importVisitor((message, node) => context.report({ node, message })) },
  },
};

/** The other files that a file imports, by their paths in the repository; it may name itself. */
function importsOf(path: string, source: string): string[] {
  return Deno.lint.runPlugin(plugin, path, source)
    .filter(({ message }) => message.startsWith("."))
    .map(({ message }) => new URL(message, new URL(path, root)).href.slice(root.href.length))
    .filter((imported) => imported !== path);
}

/** All files of TypeScript below a folder, with their text. */
function* filesBelow(folder: string): Generator<[path: string, source: string]> {
  for (const { name, isDirectory } of Deno.readDirSync(new URL(folder, root))) {
    const path = `${folder}${name}`;
    if (isDirectory) yield* filesBelow(`${path}/`);
    else if (name.endsWith(".ts")) yield [path, Deno.readTextFileSync(new URL(path, root))];
  }
}

/** A circle of imports, from a file to the same file; `null` if there is none. */
function findCircle(files: Iterable<readonly [path: string, source: string]>): string[] | null {
  const imports = new Map(Array.from(files, ([path, source]) => [path, importsOf(path, source)]));
  const done = new Set<string>();
  const visit = (path: string, way: readonly string[]): string[] | null => {
    if (way.includes(path)) return [...way.slice(way.indexOf(path)), path];
    if (done.has(path)) return null;
    for (const next of imports.get(path) ?? []) {
      const circle = visit(next, [...way, path]);
      if (circle) return circle;
    }
    done.add(path);
    return null;
  };
  for (const path of imports.keys()) {
    const circle = visit(path, []);
    if (circle) return circle;
  }
  return null;
}

Deno.test("imports run in no circle, types included", () => {
  const published = ["ffi/", "src/", "scripts/"].flatMap((folder) => [...filesBelow(folder)]);
  const pages = ["mod.ts", "internals.ts"].map((page) => [page, Deno.readTextFileSync(new URL(page, root))] as const);
  const files = [...published, ...pages];
  assertEquals(findCircle(files), null);
  // One more line in a file that many use, and there is one.
  const [path, source] = files.find(([path]) => path === "src/errors.ts")!;
  const planted = files.map((file) =>
    file[0] === path ? [path, `${source}\nexport type { Runtime } from "./runtime/mod.ts";`] as const : file
  );
  const circle = findCircle(planted)!;
  assertEquals(circle.includes(path) && circle[0] === circle.at(-1), true, circle.join(" -> "));
});

Deno.test("a circle is found, whatever kind of import closes it", () => {
  const closings = [
    `import "./a.ts";`,
    `import type { A } from "../src/a.ts";`,
    `export * from "./a.ts";`,
    `await import("./a.ts");`,
    `type A = import("./a.ts").A;`,
  ];
  for (const closing of closings) {
    const files = [["src/a.ts", `import "./b.ts";`], ["src/b.ts", `import "./c.ts"`], ["src/c.ts", closing]] as const;
    assertEquals(findCircle(files), ["src/a.ts", "src/b.ts", "src/c.ts", "src/a.ts"], closing);
  }
  assertEquals(findCircle([["src/a.ts", `import "./b.ts"; import "./c.ts";`], ["src/b.ts", `import "./c.ts";`]]), null);
});
