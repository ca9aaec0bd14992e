/**
 * Group `pgemm`: `Matmul.execute` on matrices that share one process grid, against the same p?gemm called from C.
 *
 * Started as a program it is our side of the comparison, on each rank.
 *
 * @module
 */
import { BlockCyclic, DistributedArray, initialize, Matmul, ProcessGrid } from "../mod.ts";
import { type Group, ours, turn } from "./harness/bench.ts";
import { c, deno } from "./harness/programs.ts";
import { serve, timeEach } from "./harness/worker.ts";

/** Sizes, calls a round, and rounds: a round of any size takes a similar time, and all rounds of one do too. */
const sizes = [[1024, 8, 15], [2048, 3, 13], [4096, 1, 9]] as const;

/** The group. */
export const pgemm: Group = {
  name: "pgemm",
  description: "Matmul.execute on one grid against p?gemm of the same libraries in C, 1 x N grid, block-cyclic",
  async run(bench) {
    const { libraries, ranks } = bench;
    await using jobs = await bench.start({
      [ours]: deno("pgemm.ts"),
      C: c("pgemm", libraries, { files: libraries.scalapack }),
    });
    for (const dtype of ["float64", "float32"]) {
      for (const [n, repeats, rounds] of sizes) {
        for (const nb of n === 2048 ? [64, 128, 256] : [64]) {
          for (const inplace of nb === 64 ? [true, false] : [true]) {
            const beta = inplace ? 0.67 : 0;
            await bench.row({
              title: `${dtype} n = ${n}, nb = ${nb}${inplace ? ", in place" : ""}`,
              operations: 2 * n ** 3,
              rounds,
              turns: {
                [ours]: turn(jobs[ours], `pgemm ${dtype} ${n} ${nb} ${inplace} ${repeats}`),
                C: turn(jobs.C, `pgemm ${dtype === "float64" ? "d" : "s"} ${n} ${nb} 1 ${ranks} ${beta} ${repeats} 1`),
              },
              comparisons: [{ quantity: "speed", against: "C", bound: 0.98 }],
            });
          }
        }
      }
    }
  },
};

if (import.meta.main) {
  using runtime = initialize({ device: "cpu", checks: "local" });
  const grid = new ProcessGrid({ shape: [1, runtime.size] });

  const prepare = (dtype: "float32" | "float64", n: number, nb: number, inplace: boolean): Matmul => {
    const blocks = new BlockCyclic(grid, [nb, nb]);
    const make = (seed: number): DistributedArray =>
      DistributedArray.random(runtime, [n, n], blocks, { dtype, order: "F", seed });
    const options = inplace ? { c: make(3), beta: 0.67, inplace } : { distribution: blocks, order: "F" } as const;
    const matmul = new Matmul(make(1), make(2), { ...options, alpha: 0.45, algorithm: "pgemm" });
    matmul.plan();
    return matmul;
  };

  /** The product of the last order; it serves all rounds, as in a program that multiplies again and again. */
  let last: { key: string; matmul: Matmul } | null = null;
  await serve(runtime.rank, {
    pgemm(dtype, size, block, inplace, repeats) {
      const key = [dtype, size, block, inplace].join();
      if (last?.key !== key) {
        last?.matmul.free();
        last = {
          key,
          matmul: prepare(dtype as "float32" | "float64", Number(size), Number(block), inplace === "true"),
        };
      }
      const { matmul } = last;
      const run = inplace === "true" ? () => void matmul.execute() : () => matmul.execute()[Symbol.dispose]();
      run();
      return timeEach(Number(repeats), run, () => runtime.communicator.barrier());
    },
  });
}
