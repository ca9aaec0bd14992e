// Columns of an Arrow table: each rank reads its rows of them, computes, and the results become columns again.
//
//   deno task run -n 2 examples/arrow.ts
import { tableFromArrays, tableFromIPC, tableToIPC } from "apache-arrow";
import { DistributedArray, initialize, Slab } from "../mod.ts";

using runtime = initialize({ device: "cpu" });
const { rank, size } = runtime;

// A table, as another program would have written it: a stream of bytes.
const rows = 1000;
const column = (value: (i: number) => number) => Float64Array.from({ length: rows }, (_, i) => value(i));
const written = tableToIPC(tableFromArrays({
  time: Int32Array.from({ length: rows }, (_, i) => i),
  height: column((i) => Math.sin(i / 50)),
  weight: column((i) => 3 + Math.cos(i / 80)),
}));

// Without nulls, a column of one batch is a typed array, which parts are made of without a copy.
const table = tableFromIPC(written);
const [[[first, end]]] = Slab.X.bind([rows], size).ranges(rank);
const part = (name: string): Float64Array<ArrayBuffer> => table.getChild(name)!.slice(first, end).toArray();
using height = DistributedArray.fromLocal(runtime, part("height"), Slab.X, { localShape: [end - first] });
using weight = DistributedArray.fromLocal(runtime, part("weight"), Slab.X, { localShape: [end - first] });

using density = weight.divide(height.multiply(height).add(1));
const mean = density.mean();
using score = density.subtract(mean).divide(density.std());

// Back on rank 0, beside the columns that were there.
const scores = score.gather();
if (scores !== null) {
  const result = tableFromIPC(tableToIPC(table.assign(tableFromArrays({ score: scores }))));
  console.log(`${result.numRows} rows of ${result.schema.names.join(", ")}; mean density ${mean}`);
  console.log(`the score at time 700 is ${result.getChild("score")!.get(700)}`);
}
