/**
 * Group `elementwise`: functions of all elements, and reductions, of 10^7 numbers on one rank, against NumPy.
 *
 * Started as a program it is our side of the comparison.
 *
 * @module
 */
import * as functions from "../mod.ts";
import { type DistributedArray, initialize, Slab } from "../mod.ts";
import { type Group, ours, turn } from "./harness/bench.ts";
import { deno, python } from "./harness/programs.ts";
import { serve, timeEach } from "./harness/worker.ts";

const n = 10_000_000;
const rounds = 7;
const repeats = 3;
const peer = "NumPy";

/** What is measured: functions by our names, most of them with results in memory that is given. */
const unary = ["abs", "sqrt", "exp", "log", "tanh", "sin", "cos", "sign"] as const;
const binary = ["add", "subtract", "multiply", "divide", "power", "minimum", "maximum"] as const;
const comparisons = ["less", "equal"] as const;
const reductions = ["sum", "mean", "var", "min", "max", "argmin", "norm"] as const;
const others = { new: "add, new array", scale: "multiply by a number", clip: "clip", where: "where, new array" };
const titles: Record<string, string> = {
  ...Object.fromEntries([...binary, ...unary, ...comparisons, ...reductions].map((name) => [name, name])),
  ...others,
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
  using runtime = initialize({ device: "cpu", checks: "local", threads: 1 });
  interface Arrays {
    readonly a: DistributedArray;
    readonly b: DistributedArray;
    readonly c: DistributedArray;
    /** Whether elements of a are less than those of b: for conditions, and for what is true or false. */
    readonly truths: DistributedArray<"uint8">;
    readonly given: DistributedArray<"uint8">;
  }

  /** Kept between the turns. */
  const made = new Map<string, Arrays>();
  const arrays = (dtype: "float32" | "float64", size: number): Arrays => {
    if (!made.has(dtype)) {
      const make = () => functions.DistributedArray.random(runtime, [size], Slab.X, { dtype, low: 0.5, high: 1.5 });
      const [a, b, c] = [make(), make(), make()];
      made.set(dtype, { a, b, c, truths: functions.less(a, b), given: functions.less(a, b) });
    }
    return made.get(dtype)!;
  };
  const measured = (run: (arrays: Arrays) => void) => (dtype: string, size: string, repeats: string): number[] => {
    const all = arrays(dtype as "float32" | "float64", Number(size));
    run(all);
    return timeEach(Number(repeats), () => run(all), () => {});
  };

  await serve(runtime.rank, {
    ...Object.fromEntries(unary.map((name) => [name, measured(({ a, c }) => void functions[name](a, { into: c }))])),
    ...Object.fromEntries(
      binary.map((name) => [name, measured(({ a, b, c }) => void functions[name](a, b, { into: c }))]),
    ),
    ...Object.fromEntries(
      comparisons.map((name) => [name, measured(({ a, b, given }) => void functions[name](a, b, { into: given }))]),
    ),
    ...Object.fromEntries(reductions.map((name) => [name, measured(({ a }) => void a[name]())])),
    new: measured(({ a, b }) => functions.add(a, b).free()),
    scale: measured(({ a, c }) => void functions.multiply(a, 2, { into: c })),
    clip: measured(({ a, c }) => void functions.clip(a, 0.7, 1.2, { into: c })),
    where: measured(({ a, b, truths }) => functions.where(truths, a, b).free()),
  });
}
