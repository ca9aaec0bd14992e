/**
 * Started on one rank by `doctor` and by the set-up: opens the libraries, multiplies two small matrices, transforms one on
 * the CPU, and prints what it found as one line of JSON. Given a number, it computes on that GPU, else on the CPU.
 *
 * @module
 */
import {
  BlockCyclic,
  DistributedArray,
  fft,
  initialize,
  type LibraryVersion,
  matmul,
  ProcessGrid,
  type Runtime,
  Slab,
} from "../../mod.ts";

/** What a launcher's MPI can do. */
export interface Probe {
  libraries: LibraryVersion[];
  /** Threads of BLAS a rank. */
  threads: number | null;
  /** Whether a product on a process grid, which on CPUs needs ScaLAPACK, came out right. */
  canMultiply: boolean;
  /** What failed, or `null`. */
  error: string | null;
  /** Why arrays cannot be transformed, or `null`. */
  transformError: string | null;
}

/** Begins the line with the result, among whatever else is printed. */
export const marker = "distmath probe: ";

function probe(device: "cpu" | number): Probe {
  const found: Probe = { libraries: [], threads: null, canMultiply: false, error: null, transformError: null };
  try {
    using runtime = initialize({ device });
    found.threads = runtime.threads;
    found.error = errorOf(() => multiply(runtime));
    found.canMultiply = found.error === null;
    if (device === "cpu") found.transformError = errorOf(() => transform(runtime));
    found.libraries = runtime.versions();
  } catch (error) {
    found.error = found.transformError = messageOf(error);
  }
  return found;
}

function multiply(runtime: Runtime): void {
  const grid = new BlockCyclic(new ProcessGrid({ shape: [1, runtime.size] }), [2, 2]);
  using a = DistributedArray.generate(runtime, [3, 2], grid, (i, j) => i + 10 * j, { dtype: "float64" });
  using product = matmul(a, a, { qualifiers: { a: { isTranspose: true } }, distribution: grid });
  // Columns (0, 1, 2) and (10, 11, 12).
  assertValues(product, "5,35,35,365", "product");
}

/** In both precisions, which may come from libraries of their own. */
function transform(runtime: Runtime): void {
  for (const dtype of ["complex64", "complex128"] as const) {
    using line = DistributedArray.full(runtime, [4], Slab.X, 1, { dtype });
    using spectrum = fft(line);
    assertValues(spectrum, "4,0,0,0,0,0,0,0", "transform");
  }
}

function assertValues(array: DistributedArray, wanted: string, what: string): void {
  const values = Array.from(array.allGather(), Number).join();
  if (values !== wanted) throw new Error(`a small ${what} came out as ${values}`);
}

function errorOf(run: () => void): string | null {
  try {
    run();
    return null;
  } catch (error) {
    return messageOf(error);
  }
}

const messageOf = (error: unknown) => error instanceof Error ? error.message : String(error);

if (import.meta.main) {
  console.log(`${marker}${JSON.stringify(probe(Deno.args.length > 0 ? Number(Deno.args[0]) : "cpu"))}`);
}
