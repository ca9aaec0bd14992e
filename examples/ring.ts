// A sum around a ring: each rank passes on what it has heard, and adds its own.
//
//   deno task run -n 3 examples/ring.ts
import { Communicator } from "../mod.ts";

const world = Communicator.world();
const { rank, size } = world;
const [left, right] = [(rank + size - 1) % size, (rank + 1) % size];

// The numbers 0 … 99, dealt in turn.
const own = Array.from({ length: 100 }, (_, i) => i).filter((i) => i % size === rank);
const passed = Float64Array.of(own.reduce((sum, i) => sum + Math.sqrt(i), 0));
let total = passed[0];
for (let step = 1; step < size; step++) {
  const heard = new Float64Array(1);
  world.sendReceive(passed, right, heard, { source: left });
  total += heard[0];
  passed.set(heard);
}
if (rank === 0) console.log(`the sum of the square roots of 0 … 99: ${total}`);
