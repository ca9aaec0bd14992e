/**
 * Group `elementwise`: functions of all elements, and reductions, of 10^7 numbers on one rank, against NumPy.
 *
 * Started as a program it is our side of the comparison.
 *
 * @module
 */
import { add, DistributedArray, divide, exp, initialize, less, minimum, multiply, Slab, sqrt } from "../mod.ts";
import { type Group, ours, turn } from "./harness/bench.ts";
import { deno, python } from "./harness/programs.ts";
import { serve, timeEach } from "./harness/worker.ts";

const n = 10_000_000;
const rounds = 7;
const repeats = 3;
const peer = "NumPy";

/** What is measured, and what a title calls it. */
const titles: Record<string, string> = {
  add: "add, into",
  new: "add, new array",
  scale: "multiply by a number, into",
  divide: "divide, into",
  minimum: "minimum, into",
  less: "less, new array",
  sqrt: "sqrt, into",
  exp: "exp, into",
  sum: "sum",
  max: "max",
};

/** The group. */
export const elementwise: Group = {
  name: "elementwise",
  description: "functions of all elements and reductions, 10^7 numbers on one rank, against NumPy",
  ranks: 1,
  async run(bench) {
    await using jobs = await bench.start({
      [ours]: deno("elementwise.ts"),
      [peer]: python("elementwise", bench.libraries),
    }, 1);
    for (const dtype of ["float64", "float32"]) {
      for (const [what, title] of Object.entries(titles)) {
        const words = `${what} ${dtype} ${n} ${repeats}`;
        await bench.row({
          title: `${title} ${dtype}`,
          rounds,
          turns: { [ours]: turn(jobs[ours], words), [peer]: turn(jobs[peer], words) },
          comparisons: [{ quantity: "time", against: peer, bound: 1.5 }],
        });
      }
    }
  },
};

if (import.meta.main) {
  using runtime = initialize({ device: "cpu", checks: "local" });
  type Three = readonly [DistributedArray, DistributedArray, DistributedArray];

  /** Kept between the turns. */
  const made = new Map<string, Three>();
  const arrays = (dtype: "float32" | "float64", size: number): Three => {
    const make = () => DistributedArray.random(runtime, [size], Slab.X, { dtype, low: 0.5, high: 1.5 });
    if (!made.has(dtype)) made.set(dtype, [make(), make(), make()]);
    return made.get(dtype)!;
  };
  const measured = (run: (...arrays: Three) => void) => (dtype: string, size: string, repeats: string): number[] => {
    const three = arrays(dtype as "float32" | "float64", Number(size));
    run(...three);
    return timeEach(Number(repeats), () => run(...three), () => {});
  };

  await serve(runtime.rank, {
    add: measured((a, b, c) => void add(a, b, { into: c })),
    new: measured((a, b) => add(a, b).free()),
    scale: measured((a, _, c) => void multiply(a, 2, { into: c })),
    divide: measured((a, b, c) => void divide(a, b, { into: c })),
    minimum: measured((a, b, c) => void minimum(a, b, { into: c })),
    less: measured((a, b) => less(a, b).free()),
    sqrt: measured((a, _, c) => void sqrt(a, { into: c })),
    exp: measured((a, _, c) => void exp(a, { into: c })),
    sum: measured((a) => void a.sum()),
    max: measured((a) => void a.max()),
  });
}
