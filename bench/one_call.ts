/**
 * The time of one `matmul()` call on matrices of 16 x 16, where agreeing is all that takes time: the median of some rounds
 * and their range, in microseconds. A script of its own, so that it runs on any version:
 *
 *     deno task run -n 2 bench/one_call.ts
 *
 * @module
 */
import { DistributedArray, initialize, matmul, Slab } from "../mod.ts";

const [n, warmUp, rounds, calls] = [16, 500, 31, 50];

using runtime = initialize({ device: "cpu", threads: 1 });
const [a, b] = [1, 2].map((seed) => DistributedArray.random(runtime, [n, n], Slab.X, { seed }));
const run = (count: number) => {
  for (let call = 0; call < count; call++) matmul(a, b).free();
};
run(warmUp);
const times = Array.from({ length: rounds }, () => {
  runtime.communicator.barrier();
  const start = performance.now();
  run(calls);
  return (performance.now() - start) / calls * 1000;
}).sort((one, other) => one - other);
if (runtime.rank === 0) {
  const [least, median, most] = [times[0], times[rounds >> 1], times[rounds - 1]].map((time) => time.toFixed(1));
  console.log(`matmul() of ${n} x ${n} on ${runtime.size} ranks: ${median} us a call (${least} to ${most})`);
}
