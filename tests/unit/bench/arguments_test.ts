import { assertEquals, assertThrows } from "@std/assert";
import { parseArguments, withUserPath } from "../../../bench/main.ts";
import { parseOverlapArguments } from "../../../bench/overlap/arguments.ts";
import { ranksOn, torchArguments } from "../../../bench/overlap/command.ts";

Deno.test("bench: without names all groups run, on 2 ranks", () => {
  const { groups, ranks, json, pause } = parseArguments([]);
  assertEquals(groups.map(({ name }) => name), [
    "pgemm",
    "scaling",
    "overhead",
    "communicator",
    "startup",
    "arrays",
    "elementwise",
    "redistribution",
    "fft",
    "shared",
  ]);
  assertEquals([ranks, json, pause], [2, null, 0]);
});

Deno.test("bench: groups, ranks and the file are read in any order", () => {
  const { groups, ranks, json } = parseArguments(["arrays", "--json", "x.json", "--ranks", "4", "pgemm"]);
  assertEquals(groups.map(({ name }) => name), ["pgemm", "arrays"]);
  assertEquals([ranks, json], [4, "x.json"]);
});

Deno.test("bench: rows by their titles, and how often they are measured", () => {
  const { rounds, filter } = parseArguments(["fft", "--rounds", "1", "--filter", "/128|256/"]);
  assertEquals([rounds, filter], [1, "/128|256/"]);
  assertEquals([parseArguments([]).rounds, parseArguments([]).filter], [null, undefined]);
  assertThrows(() => parseArguments(["--rounds", "0"]), Error, "--rounds takes a whole number of at least 1");
  assertThrows(() => parseArguments(["--filter", "/(/"]), Error, "--filter: Invalid regular expression");
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

Deno.test("bench overlap: kinds, shapes and the rest are read; without options all is measured", () => {
  const usual = {
    kinds: ["ag", "rs", "ar"],
    shapes: null,
    dtype: "bfloat16",
    rounds: 4,
    geometry: null,
    steady: false,
  };
  assertEquals(parseOverlapArguments([]), { ...usual, without: [], json: null } as never);
  const asked = parseOverlapArguments([
    ...["--kinds", "rs,ag", "--shapes", "512,64,128;8,16,24", "--geometry", "4", "--steady", "--rounds", "2"],
    ...["--without", "torch,nccl", "--json", "x.json"],
  ]);
  assertEquals([asked.kinds, asked.shapes], [["rs", "ag"], [[512, 64, 128], [8, 16, 24]]]);
  assertEquals([asked.geometry, asked.steady, asked.rounds, asked.without], [4, true, 2, ["torch", "nccl"]]);
  assertEquals(torchArguments(asked), ["rs,ag", "512,64,128;8,16,24", "2", "steady"]);
  assertEquals(torchArguments({ ...asked, steady: false }), ["rs,ag", "512,64,128;8,16,24", "2"]);
  assertEquals(withUserPath(["--json", "/a/x.json", "--json=/b", "--steady"]), [
    "--json",
    "/a/x.json",
    "--json=/b",
    "--steady",
  ]);
});

Deno.test("bench overlap: what it does not have is refused with the usage", () => {
  const refused = (args: string[], message: string) => assertThrows(() => parseOverlapArguments(args), Error, message);
  refused(["--kinds", "ag,aa"], "--kinds takes ag, rs and ar, not aa.");
  refused(["--shapes", "1,2"], 'and "1,2" is no shape.');
  refused(["--dtype", "float16"], "--dtype takes bfloat16 and float8_e4m3, not float16");
  refused(["--rounds", "0"], "--rounds takes a whole number of at least 1, not 0.");
  refused(["--fast"], "Usage: deno task bench overlap");
});

Deno.test("bench overlap: a rank a GPU of compute capability 9.0, at least two", () => {
  const gpu = (major: number) => ({ name: "GPU", computeCapability: [major, 0] as const });
  assertEquals(ranksOn([gpu(9), gpu(9)], null), 2);
  assertThrows(() => ranksOn([], "no driver"), Error, "bench overlap needs two GPUs: no driver. Products on CPUs: ");
  assertThrows(() => ranksOn([gpu(9)], null), Error, "needs two GPUs, and there is one");
  assertThrows(() => ranksOn([gpu(9), gpu(8)], null), Error, "compute capability 9.0, and GPU has 8.0");
});
