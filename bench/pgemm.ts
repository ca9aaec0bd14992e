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

/** Sizes, and calls a round so that a round of any size takes a similar time. */
const sizes = [[1024, 8], [2048, 3], [4096, 1]] as const;
const rounds = 9;

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
      for (const [n, repeats] of sizes) {
        for (const nb of n === 2048 ? [64, 128, 256] : [64]) {
          for (const inplace of [true, false]) {
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

  await serve(runtime.rank, {
    pgemm(dtype, size, block, inplace, repeats) {
      const [n, nb] = [Number(size), Number(block)];
      const options = { dtype: dtype as "float32" | "float64", order: "F" } as const;
      const make = (seed: number): DistributedArray =>
        DistributedArray.random(runtime, [n, n], new BlockCyclic(grid, [nb, nb]), { ...options, seed });
      using a = make(1);
      using b = make(2);
      using c = make(3);
      using matmul = inplace === "true"
        ? new Matmul(a, b, { c, alpha: 0.45, beta: 0.67, inplace: true, algorithm: "pgemm" })
        : new Matmul(a, b, {
          alpha: 0.45,
          distribution: new BlockCyclic(grid, [nb, nb]),
          order: "F",
          algorithm: "pgemm",
        });
      matmul.plan();
      matmul.execute();
      return timeEach(Number(repeats), () => matmul.execute(), () => runtime.communicator.barrier());
    },
  });
}
