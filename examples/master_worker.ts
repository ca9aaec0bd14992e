// A master hands out tasks, and workers take the next one when they have done theirs. Alone, the master works itself.
//
//   deno task run -n 3 examples/master_worker.ts
import { Communicator, mapTasks } from "../mod.ts";

const world = Communicator.world();
const [tasks, points] = [40, 1000];

/** The area below 4 / (1 + x^2) in one of the strips between 0 and 1. */
function area(task: number): number {
  let sum = 0;
  for (let k = 0; k < points; k++) sum += 4 / (1 + ((task + (k + 0.5) / points) / tasks) ** 2);
  return sum / (points * tasks);
}

const areas = mapTasks(world, Array.from({ length: tasks }, (_, task) => task), area);
world.print(`pi is about ${areas.reduce((sum, part) => sum + part, 0)}`);
