/** `null` is no value that was left out: every rank is told so, also if only one rank passed it. */
import { assertThrows } from "@std/assert";
import {
  DistributedArray,
  evaluate,
  geadd,
  inferDistribution,
  Matmul,
  matmul,
  type Runtime,
  Slab,
  syrk,
  trsm,
} from "../../mod.ts";
import { clusterTest } from "../../src/testing/mod.ts";

// deno-lint-ignore no-explicit-any
type Call = (runtime: Runtime, a: DistributedArray, value: any) => unknown;

/** Calls that get their value in one place, and what the message says of null there. */
const calls: Record<string, [Call, string]> = {
  low: [(r, _, low) => DistributedArray.random(r, [4], Slab.X, { low }), "low must be a number, not null"],
  high: [(r, _, high) => DistributedArray.random(r, [4], Slab.X, { high }), "high must be a number, not null"],
  seed: [(r, _, seed) => DistributedArray.random(r, [4], Slab.X, { seed }), "seed must be a whole number"],
  dtype: [(r, _, dtype) => DistributedArray.zeros(r, [4], Slab.X, { dtype }), "no dtype null"],
  order: [(r, _, order) => DistributedArray.zeros(r, [4], Slab.X, { order }), 'order must be "C" or "F", not null'],
  memory: [(r, _, memory) => DistributedArray.zeros(r, [4], Slab.X, { memory }), "The memory must be"],
  value: [(r, _, value) => DistributedArray.full(r, [4], Slab.X, value), "takes a number, not null"],
  offset: [(r, _, offset) => DistributedArray.generate(r, [4], Slab.X, { factors: [1], offset }), "finite offset"],
  "gather's root": [(_, a, root) => a.gather({ root }), "The root must be a rank from 0"],
  "scatter's root": [
    (r, _, root) => DistributedArray.scatter(r, Float32Array.of(1), [1], Slab.X, { root }),
    "The root must be a rank from 0",
  ],
  "scatter's dtype": [
    (r, _, dtype) => DistributedArray.scatter(r, Float32Array.of(1), [1], Slab.X, { dtype }),
    "no dtype null",
  ],
  "fromLocal's dtype": [
    (r, _, dtype) => DistributedArray.fromLocal(r, Float32Array.of(1), Slab.X, { dtype, localShape: [1] }),
    "no dtype null",
  ],
  "fromLocal's memory": [
    (r, _, memory) => DistributedArray.fromLocal(r, Float32Array.of(1), Slab.X, { memory, localShape: [1] }),
    "The memory must be",
  ],
  alpha: [(_, a, alpha) => matmul(a, a, { alpha }), "alpha must be a number"],
  beta: [(_, a, beta) => matmul(a, a, { c: a, beta }), "beta must be a number"],
  qualifiers: [(_, a, qualifiers) => matmul(a, a, { qualifiers }), "qualifiers must be an object"],
  "trsm's alpha": [(_, a, alpha) => trsm(a, a, { alpha }), "alpha must be a number"],
  "syrk's beta": [(_, a, beta) => syrk(a, { c: a, beta }), "beta must be a number"],
  "geadd's alpha": [(_, a, alpha) => geadd(a, { alpha }), "alpha must be a number"],
  "resetOperands' alpha": [(_, a, alpha) => new Matmul(a, a).resetOperands({ alpha }), "alpha must be a number"],
  repetitions: [
    (_, a, repetitions) => {
      using product = new Matmul(a, a);
      product.plan();
      product.autotune({ repetitions });
    },
    "repetitions must be a whole number from 1 to 1048576; got null",
  ],
  communicationSmCount: [
    (_, a, communicationSmCount) => matmul(a, a, { communicationSmCount }),
    "communicationSmCount must be a whole number from 1 to 2147483647; got null",
  ],
  resultAmax: [
    (_, a, resultAmax) => matmul(a, a, { resultAmax }),
    "resultAmax must be true or false; got null",
  ],
  "evaluate's operands": [
    (_1, _2, operands) => evaluate((x) => x.add(1), operands),
    "evaluate takes a function of terms and a list of operands",
  ],
};

for (const [name, [call, message]] of Object.entries(calls)) {
  clusterTest(`null for ${name} is refused on every rank`, (runtime) => {
    using a = DistributedArray.full(runtime, [6, 6], Slab.X, 1);
    const { size } = runtime;
    assertThrows(() => call(runtime, a, null), Error, message);
    // On one rank alone, with the default on the others: the same error everywhere, or one that names the ranks.
    if (size > 1) assertThrows(() => call(runtime, a, runtime.rank === size - 1 ? null : undefined), Error);
    runtime.communicator.barrier();
  });
}

clusterTest("inferDistribution refuses null on the rank that passes it", () => {
  assertThrows(() => inferDistribution(...[null] as unknown as Parameters<typeof inferDistribution>), TypeError);
});
