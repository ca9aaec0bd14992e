// NumPy's files: every rank writes and reads its own part only.
//
//   deno task run -n 2 examples/npy_files.ts
import { DistributedArray, initialize, loadNpy, matmul, saveNpy, Slab } from "../mod.ts";

using runtime = initialize();
// Rank 0 makes a folder and tells the others.
const folder = runtime.communicator.broadcastObject(runtime.rank === 0 ? Deno.makeTempDirSync() : null) as string;

using written = DistributedArray.generate(runtime, [50, 40], Slab.X, (i, j) => i * 40 + j, { dtype: "float32" });
saveNpy(written, `${folder}/a.npy`);

using read = loadNpy(runtime, `${folder}/a.npy`, Slab.Y); // another distribution than it was written with
using product = matmul(read, read, { qualifiers: { a: { isTranspose: true } } });
saveNpy(product, `${folder}/d.npy`);

if (runtime.rank === 0) {
  console.log(`${read.shape.join(" x ")} ${read.dtype} read as ${read.distribution}`);
  Deno.removeSync(folder, { recursive: true });
}
