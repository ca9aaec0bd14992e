// A sum around a ring: each rank passes on what it has heard, and adds its own.
//
//   deno task run -n 3 examples/ring.ts
import { Communicator } from "../mod.ts";

const world = Communicator.world();
const { rank, size } = world;
// The numbers 0 … 99, dealt in turn.
const own = Array.from({ length: 100 }, (_, i) => i).filter((i) => i % size === rank);
let passed = own.reduce((sum, i) => sum + Math.sqrt(i), 0);
let total = passed;
for (let step = 1; step < size; step++) {
  passed = world.sendReceiveObject<number>(passed, (rank + 1) % size, { source: (rank + size - 1) % size });
  total += passed;
}
if (rank === 0) console.log(`the sum of the square roots of 0 … 99: ${total}`);
