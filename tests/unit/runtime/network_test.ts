import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { neighbours } from "../../../src/runtime/network.ts";

const test = (name: string, machines: fc.Arbitrary<number[]>, check: (machines: number[]) => void) =>
  Deno.test(name, () => fc.assert(fc.property(machines, check)));

/** Ranks of some machines, in any order. */
const anyMachines = fc.array(fc.nat(3), { minLength: 2, maxLength: 24 });

test("who sends to whom is a permutation, and both know it", anyMachines, (machines) => {
  const pairs = machines.map((_, rank) => neighbours(machines, rank));
  pairs.forEach(([to], rank) => assertEquals(neighbours(machines, to)[1], rank));
  assertEquals(new Set(pairs.map(([to]) => to)).size, machines.length);
});

const equalMachines = fc.tuple(fc.integer({ min: 2, max: 5 }), fc.integer({ min: 1, max: 6 })).chain(
  ([count, each]) => {
    const machines = Array.from({ length: count * each }, (_, rank) => rank % count);
    return fc.shuffledSubarray(machines, { minLength: machines.length });
  },
);

test("machines of as many ranks send to others only", equalMachines, (machines) => {
  machines.forEach((machine, rank) => assert(machines[neighbours(machines, rank)[0]] !== machine));
});
