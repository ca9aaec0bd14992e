/**
 * Started on every rank by `test:gpu`: multiplies two small matrices on the GPUs, and prints on rank 0 what they are and
 * which libraries did it, as one line of JSON.
 *
 * @module
 */
import {
  allocateSymmetricMemory,
  DistributedArray,
  freeSymmetricMemory,
  initialize,
  matmul,
  type Runtime,
  Slab,
} from "../../mod.ts";

export interface GpuProbe {
  readonly gpus: readonly string[];
  /** The libraries' versions, by name. */
  readonly versions: Readonly<Record<string, string>>;
}

/** Begins the line with the result, among whatever else is printed. */
export const marker = "distmath GPUs: ";

/** Open NVSHMEM too, if it works: whether it does, the tests tell. */
function trySymmetricMemory(runtime: Runtime): void {
  try {
    freeSymmetricMemory(allocateSymmetricMemory(runtime, [16], { dtype: "float32" }));
  } catch (error) {
    console.error(error);
  }
}

function probe(): GpuProbe | null {
  using runtime = initialize();
  using a = DistributedArray.full(runtime, [64, 64], Slab.X, 1, { dtype: "float32" });
  using product = matmul(a, a);
  if (product.sum() !== 64 ** 3) throw new Error(`the sum of a product of ones is ${product.sum()}, not ${64 ** 3}`);
  trySymmetricMemory(runtime);
  const gpus = runtime.communicator.gatherObject(runtime.device.name);
  if (gpus === null) return null;
  const versions = runtime.versions().map(({ name, version }) => [name, version]);
  return { gpus: gpus as string[], versions: { Deno: Deno.version.deno, ...Object.fromEntries(versions) } };
}

if (import.meta.main) {
  const found = probe();
  if (found) console.log(`${marker}${JSON.stringify(found)}`);
}
