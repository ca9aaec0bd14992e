/** What `autotune` measured, as rank 0 keeps it on disk: no GPU is needed. */
import { assertEquals } from "@std/assert";
import { Slab } from "../../../../src/distribution/mod.ts";
import type { EngineRequest } from "../../../../src/linalg/engines/engine.ts";
import { keep, knownOf, lookUp } from "../../../../src/linalg/engines/measurements.ts";
import { describeEpilog } from "../../../../src/linalg/matmul/epilog.ts";
import { canonicalProblem } from "../../../../src/linalg/matmul/problem.ts";
import type { Runtime } from "../../../../src/runtime/runtime.ts";

const SIZE = 4;

/** Rank 0 of some ranks, of which so many are on its machine: as if of a new process. */
function runtime(localSize: number): Runtime {
  const communicator = { broadcastObject: (value: unknown) => value };
  return { communicator, rank: 0, size: SIZE, localSize, device: { kind: "gpu", name: "A GPU" } } as unknown as Runtime;
}

function requestOf(m: number): EngineRequest {
  const matrix = (rows: number, columns: number, slab: Slab) => {
    const shape = [rows, columns] as const;
    return { shape, order: "C", dtype: "bfloat16", distribution: slab.bind(shape, SIZE) } as const;
  };
  const operation = { transpose: false, conjugate: false };
  const problem = canonicalProblem({
    a: matrix(m, 8, Slab.X),
    b: matrix(8, 16, Slab.Y),
    c: null,
    d: matrix(m, 16, Slab.Y),
    operationA: operation,
    operationB: operation,
    accumulator: "float32",
  });
  return { problem, epilog: describeEpilog("none", { auxDType: "bfloat16" }), algorithm: "default" };
}

Deno.test("what was measured is found again for the same product, versions and ranks on a machine alone", () => {
  const folder = Deno.makeTempDirSync();
  const before = Deno.env.get("DISTMATH_NATIVE");
  // Kernels and measurements are kept beside it.
  Deno.env.set("DISTMATH_NATIVE", `${folder}/native`);
  try {
    const measured = [{ engine: "overlap", algorithm: "all_gather_gemm", variant: "wide", seconds: 1e-3 }];
    const versions = ["one", "other"];
    const own = runtime(SIZE);
    keep(own, requestOf(32), versions, measured);
    assertEquals(knownOf(own, requestOf(32)), measured);
    assertEquals(knownOf(runtime(SIZE), requestOf(32)), undefined);
    assertEquals(lookUp(runtime(SIZE), requestOf(32), versions), measured);
    assertEquals(lookUp(runtime(SIZE), requestOf(40), versions), []);
    assertEquals(lookUp(runtime(SIZE), requestOf(32), ["one", "newer"]), []);
    // Half of the ranks on another machine.
    assertEquals(lookUp(runtime(SIZE / 2), requestOf(32), versions), []);
    // A file that is cut off, or holds something else, is none.
    const [{ name }] = Deno.readDirSync(`${folder}/kernels`);
    const path = `${folder}/kernels/${name}`;
    const whole = Deno.readTextFileSync(path);
    for (const text of ["", whole.slice(0, -20), "null", "[]", '{ "measured": [null] }', '{ "measured": [{}] }']) {
      Deno.writeTextFileSync(path, text);
      assertEquals(lookUp(runtime(SIZE), requestOf(32), versions), [], text);
    }
  } finally {
    if (before === undefined) Deno.env.delete("DISTMATH_NATIVE");
    else Deno.env.set("DISTMATH_NATIVE", before);
    Deno.removeSync(folder, { recursive: true });
  }
});
