/** The variants of tile kernels by name, and which ones are worth measuring. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  fastestOf,
  usualVariant,
  variantNamed,
  variantsWorthMeasuring,
} from "../../../../src/linalg/engines/overlap/tile_variants.ts";
import { TILE_SHAPES } from "../../../../src/overlap/executors/tile/configuration.ts";

Deno.test("a name stands for tiles and the way through them", () => {
  assertEquals(variantNamed("wide"), { name: "wide", shape: "wide", variant: { shape: TILE_SHAPES.wide } });
  assertEquals(variantNamed("roomy, peers first").variant, { shape: TILE_SHAPES.roomy, lead: Infinity });
  assertEquals(variantNamed("flat, exchange").variant, { shape: TILE_SHAPES.flat, isExchange: true });
  for (const name of ["", "large", "wide, backwards", "toString"]) {
    assertThrows(() => variantNamed(name), RangeError, `There is no variant "${name}" of tile kernels.`);
  }
});

Deno.test("what is worth measuring are a few variants that there are, the usual one first, each once", () => {
  for (const kind of ["gather", "reduce", "all_reduce"] as const) {
    for (const m of [16, 128, 256, 512, 2048, 4096, 8192]) {
      for (const size of [2, 4, 8]) {
        const extents = { m, n: 8192, k: 8192, size };
        const names = variantsWorthMeasuring(kind, extents);
        assertEquals(names[0], usualVariant(kind, extents));
        assertEquals(new Set(names).size, names.length);
        assert(names.length >= 3 && names.length <= 6, names.join());
        for (const name of names) assertEquals(variantNamed(name).name, name);
        if (kind === "gather") assert(names.every((name) => !name.includes(",")), names.join());
      }
    }
  }
});

Deno.test("the fastest of what was measured is taken", () => {
  assertEquals(fastestOf({ wide: 3e-4, roomy: 2e-4, medium: 4e-4 }), "roomy");
});
