import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { Slab } from "../../../src/distribution/slab.ts";
import { algorithmNames } from "../../../src/linalg/engines/registry.ts";
import { MATMUL_OPTION_KEYS, RESET_OPTION_KEYS } from "../../../src/linalg/matmul/options.ts";
import { checkBoolean, checkKeys, checkName, describe, nearest } from "../../../src/options.ts";

Deno.test("an unknown key is refused with the nearest allowed one", () => {
  const meant: Record<string, string> = {
    inPlace: "inplace",
    epilogue: "epilog",
    compute_type: "computeType",
    result_amax: "resultAmax",
    bta: "beta",
    distributions: "distribution",
    dtsitribution: "distribution",
  };
  for (const [key, nearestKey] of Object.entries(meant)) {
    const error = assertThrows(() => checkKeys("the options", { [key]: 1 }, MATMUL_OPTION_KEYS), TypeError, key);
    assertEquals(/did you mean "(\w+)"/.exec((error as Error).message)?.[1], nearestKey);
  }
  for (const key of ["transposeA", "smCount", "x", ""]) {
    const error = assertThrows(() => checkKeys("the options", { [key]: 1 }, MATMUL_OPTION_KEYS), TypeError);
    assertStringIncludes((error as Error).message, `the options may have no key "${key}". Allowed: `);
  }
  checkKeys("the options", undefined, MATMUL_OPTION_KEYS);
  checkKeys("the options", Object.fromEntries(MATMUL_OPTION_KEYS.map((key) => [key, 1])), MATMUL_OPTION_KEYS);
  for (const bad of [null, 3, "c", []]) {
    assertThrows(() => checkKeys("the options", bad, RESET_OPTION_KEYS), TypeError, "must be an object");
  }
});

Deno.test("names and booleans are checked", () => {
  checkName("algorithm", undefined, algorithmNames());
  checkName("algorithm", "pgemm", algorithmNames());
  assertThrows(() => checkName("algorithm", "SPLIT_P2P", algorithmNames()), TypeError, 'Did you mean "split_p2p"?');
  assertThrows(() => checkName("algorithm", 1, algorithmNames()), TypeError, "got 1");
  const silu = assertThrows(() => checkName("epilog", "silu", ["relu", "gelu"]), TypeError);
  assertEquals((silu as Error).message, 'epilog must be one of relu, gelu; got "silu".');
  checkBoolean("inplace", undefined);
  checkBoolean("inplace", false);
  assertThrows(() => checkBoolean("inplace", "yes"), TypeError, "true or false");
});

Deno.test("describe() is brief, and tells classes and values apart", () => {
  class Tile {}
  const table: [value: unknown, text: string][] = [
    [undefined, "undefined"],
    [null, "null"],
    [-0.5, "-0.5"],
    [3n, "3n"],
    ["sum", '"sum"'],
    ["x".repeat(1e6), `"${"x".repeat(80)}…"`],
    [Tile, "the class Tile"],
    [new Tile(), "a Tile"],
    [() => {}, "the function"],
    [[1, "a", null], '[1, "a", null]'],
    [Array(20).fill(0), "[0, 0, 0, 0, 0, 0, 0, 0, …]"],
    [new Int8Array(9), "an Int8Array"],
    [{ order: "C" }, "an object with the keys [order]"],
  ];
  for (const [value, text] of table) assertEquals(describe(value), text);
});

Deno.test("the nearest word is the one with the fewest edits, if they are few", () => {
  assertEquals(nearest("relubias", ["relu", "relu_bias", "bias"]), "relu_bias");
  assertEquals(nearest("GELU", ["relu", "gelu"]), "gelu");
  assertEquals(nearest("dtpye", ["order", "dtype"]), "dtype");
  assertEquals(nearest("operation", ["order", "op"]), "op");
  assertEquals(nearest("dist", ["dtype", "distribution"]), "distribution");
  for (const far of ["", "q", "silu", "transposeA"]) assertEquals(nearest(far, ["relu", "alpha", "a", "abc"]), null);
});

Deno.test("an object of another copy of the library, whose class has the same name, is told from one of this", () => {
  const Other = { Slab: class Slab {} };
  assertEquals(describe(Slab.X), "a Slab");
  assertEquals(
    describe(new Other.Slab()),
    "a Slab of another copy of distmath (import it from one and the same URL everywhere)",
  );
});
