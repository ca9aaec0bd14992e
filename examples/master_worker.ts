// A master hands out tasks, and workers ask for the next one when they have done theirs. Alone, the master works itself.
//
//   deno task run -n 3 examples/master_worker.ts
import { Communicator } from "../mod.ts";

const world = Communicator.world();
const { rank, size } = world;
const tasks = 40;

/** The area below 4 / (1 + x^2) in one of the strips between 0 and 1. */
function area(task: number): number {
  const points = 1000;
  let sum = 0;
  for (let k = 0; k < points; k++) sum += 4 / (1 + ((task + (k + 0.5) / points) / tasks) ** 2);
  return sum / (points * tasks);
}

if (rank === 0) {
  let [next, sum] = [0, 0];
  while (size === 1 && next < tasks) sum += area(next++);
  for (let busy = size - 1; busy > 0;) {
    const { source } = world.probe();
    sum += world.receiveObject<number>(source!);
    if (next === tasks) busy--;
    world.sendObject(next < tasks ? next++ : null, source);
  }
  console.log(`pi is about ${sum}`);
} else {
  let task: number | null = null;
  do {
    world.sendObject(task === null ? 0 : area(task), 0); // nothing yet, or what the last task gave
    task = world.receiveObject<number | null>(0);
  } while (task !== null);
}
