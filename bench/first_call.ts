/**
 * How long the first calls of products on GPUs take, by engine `overlap`: `deno task run -n 2 bench/first_call.ts rs`, with
 * empty cache folders (`XDG_CACHE_HOME`, and `CUDA_CACHE_PATH`, where NVRTC keeps what it has compiled as well) for a
 * machine that has compiled and measured nothing yet.
 *
 * `rs`, `ag` and `ar` are sums whose parts are scattered, factors that are gathered, and sums that all ranks have. The
 * first plan of a process starts NVSHMEM and, with an empty cache, compiles the kernels and measures the machine; of `ag`,
 * whose plan needs no kernel, `autotune` compiles them. A shape that comes later has the kernels.
 *
 * @module
 */
import { DistributedArray, type Distribution, initialize, Matmul, Replicated, Slab } from "../mod.ts";

const [kind] = Deno.args;
const distributions: Record<string, readonly [a: Distribution, b: Distribution, d: Distribution]> = {
  rs: [Slab.X, Slab.X, Slab.X],
  ag: [Slab.Y, Slab.Y, Slab.X],
  ar: [Slab.X, Slab.X, Replicated],
};

using runtime = initialize();
if (runtime.stream === null) throw new Error("This benchmark needs a GPU for each rank: see deno task doctor.");
const stream = runtime.stream;
const [ofA, ofB, distribution] = distributions[kind];

/** Milliseconds until what a function starts is done. */
function milliseconds(start: () => void): string {
  const before = performance.now();
  start();
  stream.synchronize();
  return (performance.now() - before).toFixed(1);
}

for (const [m, n, k] of [[8192, 8192, 8192], [8192, 28672, 8192], [4096, 8192, 8192]]) {
  using a = DistributedArray.random(runtime, [k, m], ofA, { dtype: "bfloat16" });
  using b = DistributedArray.random(runtime, [k, n], ofB, { dtype: "bfloat16" });
  using product = new Matmul(a, b, { qualifiers: { a: { isTranspose: true } }, distribution, engine: "overlap" });
  const plan = milliseconds(() => void product.plan());
  const execute = milliseconds(() => product.execute().free());
  const autotune = milliseconds(() => void product.autotune());
  runtime.print(`${kind} ${m} x ${n} x ${k}: plan ${plan} ms, first execute ${execute} ms, autotune ${autotune} ms`);
}
