/** The variants of tile kernels by name, and which ones are worth measuring. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  usualVariant,
  variantNamed,
  variantsWorthMeasuring,
} from "../../../../src/linalg/engines/overlap/tile_variants.ts";
import { areCopiesFaster } from "../../../../src/linalg/engines/overlap/gpu_engine.ts";
import { TILE_SHAPES } from "../../../../src/overlap/executors/tile/configuration.ts";

interface Measured {
  readonly kind: "ag" | "rs" | "ar";
  readonly shape: [number, number, number];
  readonly dtype: string;
  readonly measured: Record<string, number>;
}

Deno.test("the rule between tile kernels and copy engines picks within 3 % of the best, on every recorded row", async () => {
  const file = new URL("../../../../bench/results/overlap_copies_h200.json", import.meta.url);
  const { autotune } = JSON.parse(await Deno.readTextFile(file)) as { autotune: Measured[] };
  const rows = autotune.filter(({ dtype }) => dtype === "bfloat16");
  assertEquals(rows.length, 8);
  const kinds = { ag: "gather", rs: "reduce", ar: "all_reduce" } as const;
  for (const { kind, shape: [m, n, k], measured } of rows) {
    const extents = { m, n, k, size: 2 };
    const copies = kind === "ag" ? "copies: push" : "copies: ring";
    const pick = areCopiesFaster(kinds[kind], extents) ? copies : usualVariant(kinds[kind], extents);
    // The hybrid came later, and is in the other record.
    if (pick.includes("hybrid")) continue;
    const ours = Object.entries(measured).filter(([name]) => !name.startsWith("cublasmp")).map(([, time]) => time);
    assert(measured[pick] <= 1.03 * Math.min(...ours), `${kind} ${m},${n},${k}: ${pick} ${measured[pick]}`);
  }
});

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
        const isOfSums = (name: string) => /peers first|hybrid|exchange/.test(name);
        if (kind === "gather") assert(!names.some(isOfSums), names.join());
      }
    }
  }
});
