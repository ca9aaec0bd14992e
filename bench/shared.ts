/**
 * Group `shared`: products of matrices that are divided along one dimension, by schedules in shared memory (engine overlap)
 * against the same by messages (engine scalapack).
 *
 * Started as a program it is either side of the comparison, on each rank.
 *
 * @module
 */
import { DistributedArray, type EngineName, initialize, Matmul, Replicated, Slab } from "../mod.ts";
import { type Group, ours, turn } from "./harness/bench.ts";
import { deno } from "./harness/programs.ts";
import { serve, timeEach } from "./harness/worker.ts";

/** Where A, B and D are, by algorithm. */
const PLACES = {
  all_gather_gemm: [Slab.X, Slab.Y, Slab.X],
  gemm_reduce_scatter: [Slab.Y, Slab.X, Slab.X],
  gemm_all_reduce: [Slab.Y, Slab.X, Replicated],
} as const;

/** Extents m, n and k, calls a round, and rounds. */
const sizes = [
  [16, 16, 16, 200, 31],
  [128, 128, 128, 100, 31],
  [512, 512, 512, 20, 15],
  [2048, 2048, 2048, 1, 11],
  [4096, 512, 4096, 1, 11],
] as const;

/** The group. */
export const shared: Group = {
  name: "shared",
  description: "engine overlap, in shared memory, against engine scalapack, by messages; beta 0 and 1",
  async run(bench) {
    await using jobs = await bench.start({ [ours]: deno("shared.ts"), messages: deno("shared.ts") });
    for (const dtype of ["float32", "float64"]) {
      for (const algorithm of Object.keys(PLACES)) {
        for (const [m, n, k, repeats, rounds] of sizes) {
          for (const beta of [0, 1]) {
            const order = (engine: string) =>
              `product ${engine} ${dtype} ${algorithm} ${m},${n},${k} ${beta} ${repeats}`;
            await bench.row({
              title: `${algorithm}, ${dtype}, ${m} x ${n} x ${k}, beta ${beta}`,
              operations: 2 * m * n * k,
              rounds,
              turns: {
                [ours]: turn(jobs[ours], order("overlap")),
                messages: turn(jobs.messages, order("scalapack")),
              },
              comparisons: [{ quantity: "speed", against: "messages", bound: 1 }],
            });
          }
        }
      }
    }
  },
};

if (import.meta.main) {
  using runtime = initialize({ device: "cpu", checks: "local" });
  let last: { key: string; matmul: Matmul } | null = null;
  await serve(runtime.rank, {
    product(engine, dtype, algorithm, extents, beta, repeats) {
      const key = [engine, dtype, algorithm, extents, beta].join();
      if (last?.key !== key) {
        last?.matmul.free();
        const [m, n, k] = extents.split(",").map(Number);
        const shapes = [[m, k], [k, n], [m, n]];
        const [a, b, c] = PLACES[algorithm as keyof typeof PLACES].map((place, seed) =>
          DistributedArray.random(runtime, shapes[seed], place as Slab, { dtype: dtype as "float32" | "float64", seed })
        );
        const options = {
          c,
          beta: Number(beta),
          alpha: 1e-3,
          inplace: true,
          algorithm: algorithm as "default",
        } as const;
        const matmul = new Matmul(a, b, { ...options, engine: engine as EngineName });
        matmul.plan();
        last = { key, matmul };
      }
      const { matmul } = last;
      matmul.execute();
      return timeEach(Number(repeats), () => void matmul.execute(), () => runtime.communicator.barrier());
    },
  });
}
