/**
 * Group `arrays`: making, collecting and reading arrays, against NumPy's time for the same bytes.
 *
 * Started as a program it is our side of the comparison, on each rank.
 *
 * @module
 */
import { DistributedArray, initialize, loadNpy, Slab } from "../mod.ts";
import { type Group, ours, turn } from "./harness/bench.ts";
import { deno, python } from "./harness/programs.ts";
import { rankCount } from "./harness/table.ts";
import { serve, timeEach } from "./harness/worker.ts";

const n = 2048;
const rounds = 31;
const repeats = 3;
const peer = "NumPy";
/** NumPy without a function of indices: `generate`'s values as a sum of a column and a row. */
const arithmetic = "NumPy broadcast";

const titles: Record<string, string> = {
  gather: "gather into given memory",
  "gather-new": "gather into new memory, dropped at once",
  "gather-kept": "gather into new memory, kept until the next",
  npy: "loadNpy",
};

/** A matrix of ones as NumPy saves it: format 1.0, C order. */
function writeNpy(path: string, descriptor: string, bytes: number): void {
  const header = `{'descr': '${descriptor}', 'fortran_order': False, 'shape': (${n}, ${n}), }`;
  const padded = header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11) + "\n";
  using file = Deno.openSync(path, { write: true, create: true, truncate: true });
  const prefix = new Uint8Array([
    0x93,
    ...new TextEncoder().encode("NUMPY"),
    1,
    0,
    padded.length & 255,
    padded.length >> 8,
  ]);
  file.writeSync(prefix);
  file.writeSync(new TextEncoder().encode(padded));
  const data = new Uint8Array(bytes).fill(1);
  for (let written = 0; written < bytes;) written += file.writeSync(data.subarray(written));
}

/** The group. */
export const arrays: Group = {
  name: "arrays",
  description:
    `generate, random, gather and npy reading of ${n} x ${n} matrices, against NumPy (between ranks: mpi4py)`,
  async run(bench) {
    const folder = await Deno.makeTempDir({ prefix: "distmath-bench-" });
    try {
      for (const ranks of [1, bench.ranks]) {
        await using jobs = await bench.start({
          [ours]: deno("arrays.ts"),
          [peer]: python("arrays", bench.libraries),
        }, ranks);
        for (const [dtype, descriptor, size] of [["float64", "<f8", 8], ["float32", "<f4", 4]] as const) {
          const path = `${folder}/${dtype}.npy`;
          writeNpy(path, descriptor, n * n * size);
          for (const what of ["generate", "random", "gather", "gather-new", "gather-kept", "npy"]) {
            const words = what === "npy" ? `${path} ${repeats}` : `${dtype} ${n} ${repeats}`;
            const isGenerate = what === "generate";
            await bench.row({
              title: `${titles[what] ?? what} ${dtype}, ${rankCount(ranks)}`,
              rounds,
              turns: {
                [ours]: turn(jobs[ours], `${what} ${words}`),
                [peer]: turn(jobs[peer], `${what} ${words}`),
                ...isGenerate ? { [arithmetic]: turn(jobs[peer], `broadcast ${words}`) } : {},
              },
              comparisons: [
                { quantity: "time", against: peer, bound: 2 },
                ...isGenerate ? [{ quantity: "time", against: arithmetic } as const] : [],
              ],
            });
          }
        }
      }
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
};

if (import.meta.main) {
  using runtime = initialize({ device: "cpu", checks: "local" });
  type Real = "float32" | "float64";

  const measure = (repeats: string, run: () => void): number[] => {
    run();
    return timeEach(Number(repeats), run, () => runtime.communicator.barrier());
  };
  const shape = (size: string): [number, number] => [Number(size), Number(size)];

  await serve(runtime.rank, {
    generate(dtype, size, repeats) {
      const columns = Number(size);
      const make = (): DistributedArray =>
        DistributedArray.generate(runtime, shape(size), Slab.X, (i, j) => i * columns + j, { dtype: dtype as Real });
      return measure(repeats, () => make()[Symbol.dispose]());
    },
    random(dtype, size, repeats) {
      const make = (): DistributedArray =>
        DistributedArray.random(runtime, shape(size), Slab.X, { dtype: dtype as Real });
      return measure(repeats, () => make()[Symbol.dispose]());
    },
    gather(dtype, size, repeats) {
      using array = DistributedArray.full(runtime, shape(size), Slab.X, 1, { dtype: dtype as Real });
      const into = array.gather();
      return measure(repeats, () => void array.gather(into ? { into } : 0));
    },
    "gather-new"(dtype, size, repeats) {
      using array = DistributedArray.full(runtime, shape(size), Slab.X, 1, { dtype: dtype as Real });
      return measure(repeats, () => void array.gather());
    },
    "gather-kept"(dtype, size, repeats) {
      using array = DistributedArray.full(runtime, shape(size), Slab.X, 1, { dtype: dtype as Real });
      let result: ReturnType<DistributedArray["gather"]> = null;
      const seconds = measure(repeats, () => void (result = array.gather()));
      if (result === null && runtime.rank === 0) throw new Error("nothing was gathered");
      return seconds;
    },
    npy(path, repeats) {
      return measure(repeats, () => loadNpy(runtime, path, Slab.X)[Symbol.dispose]());
    },
  });
}
