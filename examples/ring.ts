// A sum around a ring: each rank passes on what it has heard, and adds it to its own.
//
//   deno task run -n 3 examples/ring.ts
import { Communicator } from "../mod.ts";

const world = Communicator.world();
// The numbers 0 … 99, dealt in turn.
const own = world.deal(Array(100).keys()).reduce((sum, i) => sum + Math.sqrt(i), 0);
const total = world.ringObject(own).reduce((sum, passed) => sum + passed);
world.print(`the sum of the square roots of 0 … 99: ${total}`);
