/**
 * The time of one `execute` of planned transforms and redistributions of 16 x 16, in place or into a given array, with
 * collective checks or, after the argument `local`, without: what the fastest 5 %, 25 % and 50 % of chunks of calls stay below,
 * in microseconds a call, since a busy machine only makes calls slower. Beside it all that ranks exchange to agree, alone: the
 * least of 32 bytes over all ranks. A script of its own, so that it runs on any version:
 *
 *     deno task run -n 2 bench/one_execute.ts [local]
 *
 * @module
 */
import { DistributedArray, FFT, initialize, Redistribution, Slab } from "../mod.ts";

const [n, warmUp, chunks, calls] = [16, 2000, 2000, 5];
const checks = Deno.args[0] === "local" ? "local" : "collective";

using runtime = initialize({ device: "cpu", threads: 1, checks });
const options = { dtype: "complex128" } as const;
const [field, source] = [1, 2].map((seed) => DistributedArray.random(runtime, [n, n], Slab.X, { ...options, seed }));
using transform = new FFT(field, { inplace: true, norm: "ortho" });
transform.plan();
using target = DistributedArray.zeros(runtime, [n, n], Slab.Y, options);
using move = new Redistribution(source, target);
const digest = new Float64Array(4);

const measured: Record<string, () => void> = {
  [`FFT.execute of ${n} x ${n}`]: () => void transform.execute(),
  [`Redistribution.execute of ${n} x ${n}`]: () => void move.execute(),
  "32 bytes over all ranks": () => void runtime.communicator.allReduce(digest, { op: "min", into: digest }),
};
for (const [name, call] of Object.entries(measured)) {
  for (let i = 0; i < warmUp; i++) call();
  const times = Array.from({ length: chunks }, () => {
    const start = performance.now();
    for (let i = 0; i < calls; i++) call();
    return (performance.now() - start) * 1000 / calls;
  }).sort((one, other) => one - other);
  const [p5, p25, p50] = [0.05, 0.25, 0.5].map((share) => times[Math.floor(share * chunks)].toFixed(1));
  if (runtime.rank === 0) {
    console.log(
      `${name}, ${checks} checks, ${runtime.size} ranks: 5 % below ${p5} us, 25 % ${p25}, 50 % ${p50}`,
    );
  }
}
