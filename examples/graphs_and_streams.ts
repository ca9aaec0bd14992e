// On GPUs: a product that is captured once and launched again as a CUDA graph, and one on a stream of its own.
//
//   deno task run -n 4 examples/graphs_and_streams.ts
import { DistributedArray, Graph, initialize, Matmul, Slab, Stream } from "../mod.ts";

using runtime = initialize();
if (runtime.stream === null) {
  runtime.print("this machine has no GPU; there is nothing to capture");
} else {
  const options = { dtype: "bfloat16", order: "F" } as const;
  const a = DistributedArray.full(runtime, [256, 128], Slab.Y, 1, options);
  const b = DistributedArray.full(runtime, [256, 64], Slab.Y, 1, options);
  const c = DistributedArray.zeros(runtime, [128, 64], Slab.X, options);
  const qualifiers = { a: { isTranspose: true } };
  using product = new Matmul(a, b, { c, beta: 0, inplace: true, qualifiers });
  product.plan();
  product.execute();
  using graph = Graph.capture(runtime, () => void product.execute());
  for (let i = 0; i < 3; i++) graph.launch();
  using stream = new Stream(runtime.stream.device);
  product.execute({ stream });
  runtime.stream.wait(stream);
  const sum = c.sum();
  runtime.print(`${product.algorithm.algorithm}: the sum of D is ${sum}`);
  if (sum !== 256 * 128 * 64) Deno.exit(1);
}
