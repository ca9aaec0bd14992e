/**
 * What `ffi/` has to tell, of which `deno doc --lint` would want more: constants and what opens libraries are documented,
 * files of libraries name their sources, and no comment only repeats a name.
 */
import { assert, assertEquals } from "@std/assert";

const root = new URL("../../../ffi/", import.meta.url);
const read = (path: string) => Deno.readTextFileSync(new URL(path, root));

/** All files of `ffi/`. */
function filesBelow(folder = ""): string[] {
  return [...Deno.readDirSync(new URL(folder, root))].flatMap(({ name, isDirectory }) =>
    isDirectory ? filesBelow(`${folder}${name}/`) : [folder + name]
  );
}

interface DocumentedSymbol {
  name: string;
  declarations: { kind: string; jsDoc?: { doc?: string } }[];
}

Deno.test("constants of ffi/mod.ts, and functions that open libraries, are documented", () => {
  const entry = new URL("mod.ts", root).href;
  const { stdout } = new Deno.Command(Deno.execPath(), { args: ["doc", "--json", entry] }).outputSync();
  const { symbols } = JSON.parse(new TextDecoder().decode(stdout)).nodes[entry] as { symbols: DocumentedSymbol[] };
  const isAsked = (name: string, kind: string) => kind === "variable" || kind === "function" && /^open[A-Z]/.test(name);
  const asked = symbols.filter(({ name, declarations }) => declarations.some(({ kind }) => isAsked(name, kind)));
  assert(asked.some(({ name }) => name === "openPblas") && asked.length > 100, `${asked.length}`);
  const isDocumented = ({ declarations }: DocumentedSymbol) => declarations.some(({ jsDoc }) => jsDoc?.doc);
  assertEquals(asked.filter((one) => !isDocumented(one)).map(({ name }) => name), []);
});

Deno.test("files of libraries that ffi/mod.ts exports name their sources", () => {
  const exported = [...read("mod.ts").matchAll(/"\.\/(\w+\/\w+\.ts)"/g)].map(([, path]) => path);
  const ofLibraries = exported.filter((path) => path !== "cuda/library.ts"); // which only finds them
  assert(ofLibraries.length > 10, ofLibraries.join());
  assertEquals(ofLibraries.filter((path) => !/^\/\*\*\n( \*.*\n)*? \*.*\bSources?: /.test(read(path))), []);
});

const SMALL_WORDS = /^(an?|the|of|its?|this|that|which|what|all|one|is|are|was|for|to|in|by|and|or|from|with)$/;

/** The words of a name or a text, without their endings. */
function wordsOf(text: string): string[] {
  const words = text.replaceAll(/([a-z\d])([A-Z])/g, "$1 $2").match(/[A-Za-z]+/g) ?? [];
  return words.map((word) => word.toLowerCase()).filter((word) => !SMALL_WORDS.test(word))
    .map((word) => word.replace(/(s|ed|ing)$/, ""));
}

/** Whether a comment has no word that its declaration lacks. Numbers and what is in C's words say more. */
function repeats(comment: string, declaration: string): boolean {
  if (/[`\d]/.test(comment)) return false;
  const known = new Set(wordsOf(declaration));
  return wordsOf(comment).every((word) => known.has(word));
}

Deno.test("no comment of ffi/ only repeats the name behind it", () => {
  const found = filesBelow().flatMap((path) =>
    [...read(path).matchAll(/^ *\/\*\* (.*) \*\/\n(.*)/gm)]
      .filter(([, comment, declaration]) => repeats(comment, declaration))
      .map(([, comment, declaration]) => `${path}: ${comment} ${declaration.trim()}`)
  );
  assertEquals(found, []);
  assert(repeats("The name of a field.", 'export type FieldName<L> = keyof L["fields"] & string;'));
  assert(repeats("Write a field of a struct.", "export function writeField<L extends StructLayout>("));
  assert(!repeats("Bytes of the whole struct.", "readonly size: number;"));
  assert(!repeats("The version, such as 1000 for 0.10.0.", "version: number;"));
});
