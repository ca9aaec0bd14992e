/**
 * The time of one `matmul()` call on matrices of 16 x 16, where agreeing is all that takes time: what the fastest 5 %, 25 %
 * and 50 % of calls stay below, in microseconds, since a busy machine only makes calls slower. A script of its own, so that
 * it runs on any version:
 *
 *     deno task run -n 2 bench/one_call.ts
 *
 * @module
 */
import { DistributedArray, initialize, matmul, Slab } from "../mod.ts";

const [n, warmUp, calls] = [16, 500, 2000];

using runtime = initialize({ device: "cpu", threads: 1 });
const [a, b] = [1, 2].map((seed) => DistributedArray.random(runtime, [n, n], Slab.X, { seed }));
for (let call = 0; call < warmUp; call++) matmul(a, b).free();
const times = Array.from({ length: calls }, () => {
  const start = performance.now();
  matmul(a, b).free();
  return (performance.now() - start) * 1000;
}).sort((one, other) => one - other);
if (runtime.rank === 0) {
  const [p5, p25, p50] = [0.05, 0.25, 0.5].map((share) => times[Math.floor(share * calls)].toFixed(1));
  console.log(
    `matmul() of ${n} x ${n} on ${runtime.size} ranks: 5 % below ${p5} us, 25 % below ${p25}, 50 % below ${p50}`,
  );
}
