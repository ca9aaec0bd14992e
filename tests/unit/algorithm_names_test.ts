/**
 * The names of engines, and of their algorithms, are written below the folders of engines alone, in comments too, and each
 * algorithm's in one file there: what else depends on an algorithm, plans and strategies tell.
 */
import { assertEquals } from "@std/assert";
import { FFT_ENGINES } from "../../src/fft/engines/registry.ts";
import { ENGINES } from "../../src/linalg/engines/registry.ts";
import type { Engine } from "../../src/runtime/engines.ts";

const root = new URL("../../src/", import.meta.url);

/** What may name engines, and why. */
const ALLOWED: Readonly<Record<string, string>> = {
  "dtype/dtype.ts": "a column of the table is called like the library and its engine",
  "fft/options.ts": "the documentation of option engine tells users which one is taken",
};

/** The text of each file of a folder. */
function* textIn(folder: string): Generator<[file: string, text: string]> {
  for (const { name, isDirectory } of Deno.readDirSync(new URL(folder, root))) {
    const path = `${folder}${name}`;
    if (isDirectory) yield* textIn(`${path}/`);
    else yield [path, Deno.readTextFileSync(new URL(path, root))];
  }
}

const withoutComments = (text: string) => text.replace(/\/\*[^]*?\*\/|\/\/ .*/g, "");

const isInEngine = (file: string) => /\/engines\/\w+\//.test(file);

/**
 * A name as a string, unless it is the value of option checks; one of several words also as a word, if it is not a file's,
 * which can mean nothing else.
 */
function patternOf(name: string): RegExp {
  return new RegExp(`(?<!checks: )["'\`]${name}["'\`]${name.includes("_") ? `|\\b${name}\\b(?!\\.ts)` : ""}`);
}

/** The same, and as a word beside the word engine. */
function enginePatternOf(name: string): RegExp {
  return new RegExp(`${patternOf(name).source}|engine ${name}\\b`);
}

const algorithmsOf = (engines: readonly Engine[]) => new Set(engines.flatMap(({ algorithms }) => algorithms));

/** Each file that writes one of some names, with the name, sorted. */
function writers(
  names: Iterable<string>,
  pattern: (name: string) => RegExp,
  texts: Iterable<readonly [file: string, text: string]>,
): string[] {
  const all = [...texts];
  return [...names].flatMap((name) =>
    all.filter(([, text]) => pattern(name).test(text)).map(([file]) => `${name}: ${file}`)
  ).sort();
}

/** What is written elsewhere than below the folders of engines. */
function strays(names: Iterable<string>, pattern: (name: string) => RegExp, folder: string): string[] {
  return writers(names, pattern, textIn(folder).filter(([file]) => !isInEngine(file) && !(file in ALLOWED)));
}

for (
  const [what, engines, folder, one] of [
    ["products", ENGINES, "", "pgemm: linalg/engines/scalapack/strategy.ts"],
    // Elsewhere some of these words mean other things.
    ["transforms", FFT_ENGINES, "fft/", "four_step: fft/engines/staged/algorithms.ts"],
  ] as const
) {
  Deno.test(`the name of an algorithm of ${what} stands in one file of src/, in a folder of engines/`, () => {
    const names = algorithmsOf(engines);
    assertEquals(strays(names, patternOf, folder), []);
    const inCode = writers(names, patternOf, textIn(folder).map(([file, text]) => [file, withoutComments(text)]));
    assertEquals(inCode.map((line) => line.split(": ")[0]), [...names].sort());
    assertEquals(inCode.includes(one), true);
  });

  Deno.test(`the name of an engine of ${what} stands in a folder of engines/`, () => {
    assertEquals(strays(engines.map(({ name }) => name), enginePatternOf, ""), []);
  });
}

Deno.test("what may name engines does", () => {
  const names = [...ENGINES, ...FFT_ENGINES].map(({ name }) => name);
  for (const file of Object.keys(ALLOWED)) {
    const text = Deno.readTextFileSync(new URL(file, root));
    assertEquals(names.some((name) => enginePatternOf(name).test(text)), true, file);
  }
});
