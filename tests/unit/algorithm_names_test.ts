/** Each algorithm's name is written in one file of `src/`: what else depends on an algorithm, plans and strategies tell. */
import { assertEquals } from "@std/assert";
import { FFT_ENGINES } from "../../src/fft/engines/registry.ts";
import { ENGINES } from "../../src/linalg/engines/registry.ts";
import type { Engine } from "../../src/runtime/engines.ts";

const root = new URL("../../src/", import.meta.url);

/** The code of each file of a folder, without comments. */
function* codeIn(folder: string): Generator<[file: string, code: string]> {
  for (const { name, isDirectory } of Deno.readDirSync(new URL(folder, root))) {
    const path = `${folder}${name}`;
    if (isDirectory) yield* codeIn(`${path}/`);
    else yield [path, Deno.readTextFileSync(new URL(path, root)).replace(/\/\*[^]*?\*\/|\/\/ .*/g, "")];
  }
}

/** A name as a string; one of several words also as a key, which can mean nothing else. */
function patternOf(name: string): RegExp {
  return new RegExp(`["'\`]${name}["'\`]${name.includes("_") ? `|\\b${name}\\b:` : ""}`);
}

/** The files that write a name, by the name. */
function writers(engines: readonly Engine[], folder: string): Record<string, string[]> {
  const code = [...codeIn(folder)];
  const names = new Set(engines.flatMap(({ algorithms }) => algorithms));
  return Object.fromEntries([...names].map((name) => {
    const pattern = patternOf(name);
    return [name, code.filter(([, text]) => pattern.test(text)).map(([file]) => file)];
  }));
}

Deno.test("the name of an algorithm of products stands in one file of src/", () => {
  const found = writers(ENGINES, "");
  assertEquals(Object.entries(found).filter(([, files]) => files.length > 1), []);
  assertEquals(found.pgemm, ["linalg/engines/scalapack/strategy.ts"]);
});

Deno.test("the name of an algorithm of transforms stands in one file of src/fft/", () => {
  // Elsewhere some of these words mean other things.
  const found = writers(FFT_ENGINES, "fft/");
  assertEquals(Object.entries(found).filter(([, files]) => files.length > 1), []);
  assertEquals(found.four_step, ["fft/steps.ts"]);
});
