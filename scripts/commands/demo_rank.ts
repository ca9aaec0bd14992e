/**
 * The worked example, as each rank runs it.
 *
 * @module
 */
import {
  decode as decodeNarrow,
  DistributedArray,
  initialize,
  Matmul,
  type Runtime,
  Slab,
  type TypedArray,
} from "../../mod.ts";

/** The dtypes that the demo takes. */
export const demoDTypes = ["float32", "float64", "float16", "bfloat16", "complex64", "complex128"] as const;

export interface DemoSettings {
  /** Rows of D. */
  m: number;
  /** Columns of D. */
  n: number;
  /** Terms of each sum. */
  k: number;
  dtype: (typeof demoDTypes)[number];
}

const alpha = 0.45;
const beta = 0.67;

/** The error that rounding may cause, relative to the largest element of D. */
const tolerances: Record<DemoSettings["dtype"], number> = {
  float16: 2e-3,
  bfloat16: 1.6e-2,
  float32: 1e-5,
  float64: 1e-13,
  complex64: 1e-5,
  complex128: 1e-13,
};

/** More multiplications than this, and only some rows are computed serially. */
const serialLimit = 5e8;

const repetitions = 5;

/** Global matrices as flat rows of float64; complex ones interleaved. */
interface Matrices {
  a: Float64Array;
  b: Float64Array;
  c: Float64Array;
  d: Float64Array;
}

/** The largest difference between D and 0.45 Aᵀ B + 0.67 C by plain loops, and the largest element, over `rows`. */
function compareSerially({ a, b, c, d }: Matrices, { m, n, k }: DemoSettings, parts: number, rows: number[]): number {
  let [difference, largest] = [0, 0];
  const sums = new Float64Array(n * parts);
  for (const i of rows) {
    sums.fill(0);
    for (let p = 0; p < k; p++) {
      if (parts === 1) {
        const factor = a[p * m + i];
        for (let j = 0; j < n; j++) sums[j] += factor * b[p * n + j];
      } else {
        const [re, im] = [a[2 * (p * m + i)], a[2 * (p * m + i) + 1]];
        for (let j = 0; j < n; j++) {
          const [x, y] = [b[2 * (p * n + j)], b[2 * (p * n + j) + 1]];
          sums[2 * j] += re * x - im * y;
          sums[2 * j + 1] += re * y + im * x;
        }
      }
    }
    for (let j = 0; j < n * parts; j++) {
      const expected = alpha * sums[j] + beta * c[i * n * parts + j];
      const error = Math.abs(expected - d[i * n * parts + j]);
      difference = error <= difference ? difference : error;
      largest = Math.max(largest, Math.abs(expected));
    }
  }
  return difference / (largest || 1);
}

/** The rows to compute serially: all of them, or as many as fit into the limit, spread evenly. */
function rowsToCompare({ m, n, k }: DemoSettings): number[] {
  const rows = Math.max(1, Math.min(m, Math.floor(serialLimit / (n * k))));
  return Array.from({ length: rows }, (_, index) => Math.floor(index * m / rows));
}

/** The values of a gathered array. */
function decode(array: TypedArray | null, dtype: DemoSettings["dtype"]): Float64Array {
  if (array === null) return new Float64Array(0);
  return Float64Array.from(dtype === "bfloat16" ? decodeNarrow(dtype, array) : array as Float64Array);
}

/** The best time of a few executions, in seconds: of the slowest rank each. */
function measure(runtime: Runtime, execute: () => void): number {
  let best = Infinity;
  for (let repetition = 0; repetition < repetitions; repetition++) {
    runtime.communicator.barrier();
    const started = performance.now();
    execute();
    const mine = new Float64Array([performance.now() - started]);
    best = Math.min(best, runtime.communicator.allReduce(mine, { op: "max" })[0]);
  }
  return best / 1000;
}

function demo(settings: DemoSettings): void {
  const { m, n, k, dtype } = settings;
  using runtime = initialize({ device: "cpu" });
  const isRoot = runtime.rank === 0;
  const print = (text: string) => isRoot && console.log(text);

  using a = DistributedArray.random(runtime, [k, m], Slab.Y, { dtype, seed: 1 });
  using b = DistributedArray.random(runtime, [k, n], Slab.Y, { dtype, seed: 2 });
  using c = DistributedArray.random(runtime, [m, n], Slab.X, { dtype, seed: 3 });
  const qualifiers = { a: { isTranspose: true } };
  using matmul = new Matmul(a, b, { c, alpha, beta, qualifiers, distribution: Slab.X, order: "C" });
  matmul.plan();
  using d = matmul.execute();

  const { engine, algorithm, variant } = matmul.algorithm;
  print(`engine      ${engine}, ${algorithm}: ${variant}`);
  for (const { name, version, path } of runtime.versions()) print(`library     ${name}: ${version} (${path})`);
  print(`problem     D = ${alpha} Aᵀ B + ${beta} C, ${dtype}, m, n, k = ${m}, ${n}, ${k}`);

  const local = { a: a.local.shape, b: b.local.shape, c: c.local.shape, d: d.local.shape };
  const everybody = runtime.communicator.gatherObject(local);
  everybody?.forEach((shapes, rank) => {
    const list = Object.entries(shapes).map(([name, shape]) => `${name.toUpperCase()} ${shape.join(" x ")}`);
    print(`rank ${rank}      local ${list.join(", ")}`);
  });
  for (const [name, array] of Object.entries({ A: a, B: b, "C, D": d })) {
    print(`\n${name}: ${array.distribution.toText()}`);
  }

  const parts = dtype.startsWith("complex") ? 2 : 1;
  const seconds = measure(runtime, () => matmul.execute()[Symbol.dispose]());
  const operations = 2 * m * n * k * (parts === 2 ? 4 : 1);
  print(`\nspeed       ${(operations / seconds / 1e9).toPrecision(3)} GFLOP/s, ${(seconds * 1000).toPrecision(3)} ms`);

  const [globalA, globalB, globalC, globalD] = [a, b, c, d].map((array) => decode(array.gather(0), dtype));
  if (!isRoot) return;
  const rows = rowsToCompare(settings);
  const error = compareSerially({ a: globalA, b: globalB, c: globalC, d: globalD }, settings, parts, rows);
  const tolerance = tolerances[dtype];
  const compared = rows.length === m ? "all" : `${rows.length} of ${m}`;
  const isGood = error <= tolerance;
  print(`compared    ${compared} rows with a serial computation, relative to the largest element of D`);
  print(`            ${isGood ? "within" : "ABOVE"} the tolerance of ${tolerance}`);
  if (!isGood) Deno.exitCode = 1;
  print(`max error ${error.toExponential(2)}`);
}

if (import.meta.main) demo(JSON.parse(Deno.args[0]));
