/**
 * Started on one rank by `doctor` and by the set-up: opens the libraries, multiplies two small matrices, and prints what
 * it found as one line of JSON. Given a number, it computes on that GPU, else on the CPU.
 *
 * @module
 */
import { BlockCyclic, DistributedArray, initialize, type LibraryVersion, matmul, ProcessGrid } from "../../mod.ts";

/** What a launcher's MPI can do. */
export interface Probe {
  /** The libraries that were opened. */
  libraries: LibraryVersion[];
  /** Threads of BLAS a rank. */
  threads: number | null;
  /** Whether a product on a process grid, which on CPUs needs ScaLAPACK, came out right. */
  canMultiply: boolean;
  /** What failed, or `null`. */
  error: string | null;
}

/** Begins the line with the result, among whatever else is printed. */
export const marker = "distmath probe: ";

function probe(device: "cpu" | number): Probe {
  const found: Probe = { libraries: [], threads: null, canMultiply: false, error: null };
  try {
    using runtime = initialize({ device });
    found.threads = runtime.threads;
    found.libraries = runtime.versions();
    const grid = new BlockCyclic(new ProcessGrid({ shape: [1, runtime.size] }), [2, 2]);
    using a = DistributedArray.generate(runtime, [3, 2], grid, (i, j) => i + 10 * j, { dtype: "float64" });
    using product = matmul(a, a, { qualifiers: { a: { isTranspose: true } }, distribution: grid });
    found.libraries = runtime.versions();
    // Columns (0, 1, 2) and (10, 11, 12).
    const values = Array.from(product.allGather(), Number);
    found.canMultiply = values.join() === "5,35,35,365";
    if (!found.canMultiply) found.error = `a small product came out as ${values}`;
  } catch (error) {
    found.error = error instanceof Error ? error.message : String(error);
  }
  return found;
}

if (import.meta.main) {
  console.log(`${marker}${JSON.stringify(probe(Deno.args.length > 0 ? Number(Deno.args[0]) : "cpu"))}`);
}
