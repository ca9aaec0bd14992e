import { assertEquals, assertThrows } from "@std/assert";
import { parseArguments } from "../../../bench/main.ts";

Deno.test("bench: without names all groups run, on 2 ranks", () => {
  const { groups, ranks, json, pause } = parseArguments([]);
  assertEquals(groups.map(({ name }) => name), [
    "pgemm",
    "scaling",
    "overhead",
    "communicator",
    "startup",
    "arrays",
    "fft",
  ]);
  assertEquals([ranks, json, pause], [2, null, 0]);
});

Deno.test("bench: groups, ranks and the file are read in any order", () => {
  const { groups, ranks, json } = parseArguments(["arrays", "--json", "x.json", "--ranks", "4", "pgemm"]);
  assertEquals(groups.map(({ name }) => name), ["pgemm", "arrays"]);
  assertEquals([ranks, json], [4, "x.json"]);
});

Deno.test("bench: what cannot be measured is refused with the usage", () => {
  assertThrows(() => parseArguments(["gpu"]), Error, "no group gpu");
  assertThrows(() => parseArguments(["--ranks", "1"]), Error, "at least 2, not 1");
  assertThrows(() => parseArguments(["--ranks", "two"]), Error, "not two");
  assertThrows(() => parseArguments(["--pause=-1"]), Error, "--pause takes milliseconds");
  assertThrows(() => parseArguments(["--pause", "soon"]), Error, "not soon");
  assertThrows(() => parseArguments(["--fast"]), Error, "--fast");
  assertThrows(() => parseArguments(["--help"]), Error, "Usage: deno task bench");
});
