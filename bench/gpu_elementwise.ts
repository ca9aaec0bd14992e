/**
 * Elementwise functions and reductions on a GPU, 10^8 numbers a GPU.
 *
 * Start it on as many ranks as there are GPUs: `deno task run -n 1 bench/gpu_elementwise.ts`. Rank 0 prints microseconds and
 * the gigabytes that a GPU reads and writes a second, as JSON. `bench/peers/gpu_elementwise.py` does the same by PyTorch.
 *
 * @module
 */
import { add, DistributedArray, dtypeInfo, evaluate, exp, initialize, less, multiply, Slab, sqrt } from "../mod.ts";

const ROUNDS = 20;
const COLUMNS = 1000;
const ROWS = 100_000;

const runtime = initialize();
const { stream, device, rank, size } = runtime;
if (stream === null) throw new Error("This benchmark needs a GPU.");
const results: Record<string, { microseconds: number; gigabytesPerSecond: number }> = {};

/** The median of some rounds, each of which has ended. */
function measure(name: string, bytes: number, action: () => void): void {
  action();
  const times = Array.from({ length: ROUNDS }, () => {
    stream!.synchronize();
    const start = performance.now();
    action();
    stream!.synchronize();
    return 1000 * (performance.now() - start);
  }).sort((a, b) => a - b);
  const microseconds = Math.round(10 * times[ROUNDS / 2]) / 10;
  results[name] = { microseconds, gigabytesPerSecond: Math.round(bytes / microseconds / 1e3) };
}

for (const dtype of ["float64", "float32", "bfloat16"] as const) {
  const bytes = ROWS * COLUMNS * dtypeInfo(dtype).itemSize;
  const make = () => DistributedArray.random(runtime, [ROWS * size, COLUMNS], Slab.X, { dtype, low: 0.5, high: 1.5 });
  const [a, b, c] = [make(), make(), make()];
  const row = a.slice([[0, 1]]).redistribute(Slab.Y).redistribute(Slab.X);
  measure(`add ${dtype}`, 3 * bytes, () => void add(a, b, { into: c }));
  measure(`new ${dtype}`, 3 * bytes, () => add(a, b).free());
  measure(`scale ${dtype}`, 2 * bytes, () => void multiply(a, 2, { into: c }));
  measure(`sqrt ${dtype}`, 2 * bytes, () => void sqrt(a, { into: c }));
  measure(`exp ${dtype}`, 2 * bytes, () => void exp(a, { into: c }));
  measure(`less ${dtype}`, 2 * bytes + ROWS * COLUMNS, () => less(a, b).free());
  measure(
    `a * exp(-b) + 1 ${dtype}`,
    3 * bytes,
    () => void evaluate((a, b) => a.multiply(b.negative().exp()).add(1), [a, b], { into: c }),
  );
  for (const name of ["sum", "mean", "var", "norm", "min", "max", "argmin"] as const) {
    measure(`${name} ${dtype}`, bytes, () => void a[name]());
    ["columns", "rows"].forEach((along, axis) =>
      measure(
        `${name} of ${along} ${dtype}`,
        bytes,
        () => (Reflect.apply(a[name], a, [{ axis }]) as DistributedArray).free(),
      )
    );
  }
  [a, b, c, row].forEach((array) => array.free());
}
if (rank === 0) {
  const versions = runtime.versions().map(({ name, version }) => `${name} ${version}`);
  console.log(JSON.stringify({ device: device.name, ranks: size, shape: [ROWS, COLUMNS], versions, results }, null, 1));
}
