/**
 * Matmul.execute of products whose operands have to be redistributed, on GPUs. Started by mpirun, one rank a GPU; prints
 * one JSON line on rank 0: for each product the microseconds of one execution, by the stream's clock and by the host's
 * (which is what starting it costs if nothing waits for the GPU), a median of rounds, the slowest rank counting.
 *
 * It takes nothing but mod.ts, so that it runs on older trees, too.
 *
 * usage: mpirun --bind-to none -n 2 deno run -A bench/staged.ts [ROUNDS]
 *
 * @module
 */
import { DistributedArray, type Distribution, Event, initialize, Matmul, type Runtime, Slab } from "../mod.ts";

const WARMUPS = 20;
const CALLS = 20;
const EXTENTS = [1024, 4096];
const rounds = Number(Deno.args[0] ?? 9);

/**
 * Where A, B and D are, column by column, in the products of a transposed A and B. cuBLASMp's split_p2p takes A and B in
 * Slab.Y for D in Slab.X: the first is such a product, the others have a matrix to move.
 */
const PLACES: Readonly<Record<string, readonly [Distribution, Distribution, Distribution]>> = {
  "in place": [Slab.Y, Slab.Y, Slab.X],
  "A moved": [Slab.X, Slab.Y, Slab.X],
  "B moved": [Slab.Y, Slab.X, Slab.X],
  "B moved, sums scattered": [Slab.X, Slab.Y, Slab.Y],
};

const median = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** Microseconds of one execution, on the stream and on the host, in one round. */
function time(runtime: Runtime, call: () => void, start: Event, end: Event): [device: number, host: number] {
  const stream = runtime.stream!;
  runtime.communicator.barrier();
  const begin = performance.now();
  stream.record(start);
  for (let i = 0; i < CALLS; i++) call();
  stream.record(end);
  const host = (performance.now() - begin) * 1e3 / CALLS;
  stream.synchronize();
  return [end.elapsedSince(start) * 1e6 / CALLS, host];
}

function measure(runtime: Runtime, extent: number, places: readonly [Distribution, Distribution, Distribution]) {
  const options = { dtype: "bfloat16", order: "F" } as const;
  const qualifiers = { a: { isTranspose: true } };
  const [a, b, c] = places.map((place) => DistributedArray.full(runtime, [extent, extent], place, 0.0115, options));
  using product = new Matmul(a, b, { c, beta: 0, inplace: true, qualifiers, algorithm: "split_p2p" });
  product.plan();
  const call = () => void product.execute();
  for (let i = 0; i < WARMUPS; i++) call();
  runtime.stream!.synchronize();
  using start = new Event({ timing: true });
  using end = new Event({ timing: true });
  const times = Array.from({ length: rounds }, () => time(runtime, call, start, end));
  const own = Float64Array.of(median(times.map(([device]) => device)), median(times.map(([, host]) => host)));
  const [device, host] = runtime.communicator.allReduce(own, { op: "max" });
  const { algorithm, copies, workspaceBytes } = product.algorithm;
  for (const array of [a, b, c]) array.free();
  return { device: Number(device.toFixed(1)), host: Number(host.toFixed(1)), algorithm, copies, workspaceBytes };
}

using runtime = initialize();
if (runtime.stream === null) throw new Error("This benchmark needs a GPU for each rank: see deno task doctor.");
const results: Record<string, unknown> = {};
for (const extent of EXTENTS) {
  for (const [name, places] of Object.entries(PLACES)) results[`${extent} ${name}`] = measure(runtime, extent, places);
}
if (runtime.rank === 0) {
  console.log(JSON.stringify({ program: "distmath", device: runtime.device.name, ranks: runtime.size, results }));
}
