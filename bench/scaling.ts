/**
 * Group `scaling`: ranks against one process whose BLAS uses as many threads, for one product of n = 4000.
 *
 * Started as a program it is our side of the comparison, on each rank.
 *
 * @module
 */
import { BlockCyclic, DistributedArray, type Distribution, initialize, Matmul, ProcessGrid, Slab } from "../mod.ts";
import { type Group, ours, turn } from "./harness/bench.ts";
import { c, deno, type Program } from "./harness/programs.ts";
import type { Libraries } from "./harness/libraries.ts";
import { serve, timeEach } from "./harness/worker.ts";

const n = 4000;
const rounds = 7;
const oneProcess = "one process";
const native = "p?gemm in C";

/** Layouts, their bounds, and the column-major operations of the same product; where p?gemm runs, it is shown from C too. */
const layouts = [
  { layout: "rows", title: "Slab.X, Slab.X -> Slab.X", bound: 0.88, operations: "N N", isPgemm: false },
  { layout: "block-cyclic", title: "block-cyclic, nb = 64", bound: 0.88, operations: "N N", isPgemm: true },
  {
    layout: "example",
    title: "Slab.Y, Slab.Y -> Slab.X, A transposed",
    bound: 0.85,
    operations: "N T",
    isPgemm: false,
  },
] as const;

async function threadedGemm(libraries: Libraries, ranks: number): Promise<Program> {
  if (libraries.threadedBlas instanceof Error) throw libraries.threadedBlas;
  const program = await c("gemm", libraries, { files: libraries.threadedBlas, withMpi: false });
  const threads = String(ranks);
  const env = { OMP_NUM_THREADS: threads, MKL_NUM_THREADS: threads, OPENBLAS_NUM_THREADS: threads };
  return { ...program, env: { ...env, MKL_DYNAMIC: "FALSE" } };
}

/** The group. */
export const scaling: Group = {
  name: "scaling",
  description: `N ranks against one process with N threads of the same BLAS, n = ${n}`,
  async run(bench) {
    const { libraries, ranks } = bench;
    const pgemm = c("pgemm", libraries, { files: libraries.scalapack });
    await using mine = await bench.start({ [ours]: deno("scaling.ts"), [native]: pgemm });
    await using theirs = await bench.start({ [oneProcess]: threadedGemm(libraries, ranks) }, 1);
    for (const dtype of ["float64", "float32"]) {
      const type = dtype === "float64" ? "d" : "s";
      for (const { layout, title, bound, operations, isPgemm } of layouts) {
        await bench.row({
          title: `${dtype}, ${title}`,
          operations: 2 * n ** 3,
          rounds,
          pause: 300, // OpenMP's threads spin for 200 ms after a product
          turns: {
            [ours]: turn(mine[ours], `${layout} ${dtype} 1`),
            [oneProcess]: turn(theirs[oneProcess], `gemm ${type} ${n} ${operations} 1`),
            ...isPgemm ? { [native]: turn(mine[native], `pgemm ${type} ${n} 64 1 ${ranks} 0 1 1`) } : {},
          },
          comparisons: [
            { quantity: "speed", against: oneProcess, bound },
            ...isPgemm ? [{ quantity: "speed", against: native } as const] : [],
          ],
        });
      }
    }
  },
};

if (import.meta.main) {
  using runtime = initialize({ device: "cpu", checks: "local" });
  type Real = "float32" | "float64";

  const measure = (matmul: Matmul, repeats: string): number[] => {
    matmul.plan();
    matmul.execute()[Symbol.dispose]();
    return timeEach(Number(repeats), () => matmul.execute()[Symbol.dispose](), () => runtime.communicator.barrier());
  };
  const random = (distribution: Distribution, dtype: string, order: "C" | "F", seed: number): DistributedArray =>
    DistributedArray.random(runtime, [n, n], distribution, { dtype: dtype as Real, order, seed });

  await serve(runtime.rank, {
    "block-cyclic"(dtype, repeats) {
      const blocks = new BlockCyclic(new ProcessGrid({ shape: [1, runtime.size] }), [64, 64]);
      using a = random(blocks, dtype, "F", 1);
      using b = random(blocks, dtype, "F", 2);
      using matmul = new Matmul(a, b, { distribution: blocks, order: "F" });
      return measure(matmul, repeats);
    },
    rows(dtype, repeats) {
      using a = random(Slab.X, dtype, "C", 1);
      using b = random(Slab.X, dtype, "C", 2);
      using matmul = new Matmul(a, b, { distribution: Slab.X });
      return measure(matmul, repeats);
    },
    example(dtype, repeats) {
      using a = random(Slab.Y, dtype, "C", 1);
      using b = random(Slab.Y, dtype, "C", 2);
      using matmul = new Matmul(a, b, { qualifiers: { a: { isTranspose: true } }, distribution: Slab.X });
      return measure(matmul, repeats);
    },
  });
}
