// NumPy's files: every rank writes and reads its own part only.
//
//   deno task run -n 2 examples/npy_files.ts
import { DistributedArray, initialize, loadNpy, matmul, saveNpy, Slab } from "../mod.ts";

using runtime = initialize();
// Rank 0 makes a folder and tells the others.
const folder = runtime.communicator.broadcastObject(runtime.rank === 0 ? Deno.makeTempDirSync() : "");

using written = DistributedArray.generate(runtime, [50, 40], Slab.X, (i, j) => 40 * i + j, { dtype: "float64" });
saveNpy(written, `${folder}/a.npy`);

using read = loadNpy(runtime, `${folder}/a.npy`, Slab.Y); // another distribution than it was written with
using product = matmul(read, read, { qualifiers: { a: { isTranspose: true } } });
saveNpy(product, `${folder}/d.npy`);

// The sum over i of (40 i + p)(40 i + q), in closed form.
const inClosedForm = (p: number, q: number) => 64_680_000 + 49_000 * (p + q) + 50 * p * q;
using expected = DistributedArray.generate(runtime, [40, 40], Slab.X, inClosedForm, { dtype: "float64" });
const error = loadNpy(runtime, `${folder}/d.npy`, Slab.X).maxAbsDifference(expected);

if (runtime.rank === 0) {
  console.log(`${read.shape.join(" x ")} ${read.dtype} read as ${read.distribution}; error of d.npy ${error}`);
  Deno.removeSync(folder, { recursive: true });
}
if (error !== 0) Deno.exit(1);
