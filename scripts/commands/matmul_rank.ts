/**
 * The multiplication of two NumPy files, as each rank runs it.
 *
 * @module
 */
import {
  type AlgorithmReport,
  BlockCyclic,
  DistmathError,
  type Distribution,
  initialize,
  loadNpy,
  Matmul,
  ProcessGrid,
  saveNpy,
  Slab,
} from "../../mod.ts";

/** The dtypes that NumPy saves and matmul takes. */
export const matmulDTypes = ["float16", "float32", "float64", "complex64", "complex128"] as const;

export type MatmulDType = (typeof matmulDTypes)[number];

export interface MatmulJob {
  a: string;
  b: string;
  /** The file to write. */
  out: string;
  isTransposed: { a: boolean; b: boolean };
  alpha: number;
  /** The distribution of all three matrices. */
  distribution: { kind: "slab-x" | "slab-y" } | { kind: "block-cyclic"; blockSizes: [number, number] };
  /** The memory order of the product. */
  order: "C" | "F";
}

/** What takes long if files are large. */
export type MatmulStage = "read A" | "read B" | "multiply" | "write";

/** What rank 0 reports. */
export interface MatmulOutcome {
  /** The time of the product alone, on the slowest rank. */
  seconds: number;
  /** Floating-point operations a second, in 10⁹. */
  gflops: number;
  algorithm: AlgorithmReport;
}

/** Begins a line that tells what rank 0 does now: `read A`, `read B`, `multiply`, `write`. */
export const stageMarker = "distmath matmul now: ";

/** Begins the line with the outcome, or with `{ error }`, among whatever else is printed. */
export const marker = "distmath matmul: ";

function distributionOf(choice: MatmulJob["distribution"], ranks: number): Distribution {
  switch (choice.kind) {
    case "slab-x":
      return Slab.X;
    case "slab-y":
      return Slab.Y;
    case "block-cyclic":
      return new BlockCyclic(ProcessGrid.nearlySquare(ranks), choice.blockSizes);
  }
}

function multiply(job: MatmulJob): void {
  using runtime = initialize({ device: "cpu" });
  const distribution = distributionOf(job.distribution, runtime.size);
  const begin = (stage: MatmulStage) => runtime.rank === 0 && console.log(stageMarker + stage);
  begin("read A");
  using a = loadNpy(runtime, job.a, distribution);
  begin("read B");
  using b = loadNpy(runtime, job.b, distribution);
  using matmul = new Matmul(a, b, {
    alpha: job.alpha,
    qualifiers: { a: { isTranspose: job.isTransposed.a }, b: { isTranspose: job.isTransposed.b } },
    distribution,
    order: job.order,
  });
  begin("multiply");
  matmul.plan();
  runtime.communicator.barrier();
  const started = performance.now();
  using d = matmul.execute();
  const mine = new Float64Array([(performance.now() - started) / 1000]);
  const [seconds] = runtime.communicator.allReduce(mine, { op: "max" });
  begin("write");
  saveNpy(d, job.out);
  if (runtime.rank !== 0) return;
  const k = job.isTransposed.a ? a.shape[0] : a.shape[1];
  const operations = 2 * d.shape[0] * d.shape[1] * k * (d.dtype.startsWith("complex") ? 4 : 1);
  const outcome: MatmulOutcome = { seconds, gflops: operations / seconds / 1e9, algorithm: matmul.algorithm };
  console.log(`${marker}${JSON.stringify(outcome)}`);
}

/** Run the job; an error of distmath goes to the command, which tells it in a line. */
function main(): void {
  try {
    multiply(JSON.parse(Deno.args[0]));
  } catch (error) {
    if (!(error instanceof DistmathError || error instanceof RangeError)) throw error;
    console.log(`${marker}${JSON.stringify({ error: error.message })}`);
    Deno.exitCode = 1;
  }
}

if (import.meta.main) main();
