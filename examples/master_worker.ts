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

interface Answer {
  task: number;
  area: number;
}

if (rank === 0) {
  const areas = new Float64Array(tasks);
  if (size === 1) areas.forEach((_, task) => areas[task] = area(task));
  let [next, busy] = [0, size - 1];
  while (busy > 0) {
    const { source } = world.probe();
    const answer = world.receiveObject<Answer | null>(source!);
    if (answer !== null) areas[answer.task] = answer.area;
    if (next === tasks) busy--;
    world.sendObject(next < tasks ? next++ : null, source);
  }
  console.log(`pi is about ${areas.reduce((sum, part) => sum + part, 0)}`);
} else {
  let answer: Answer | null = null;
  for (;;) {
    world.sendObject(answer, 0);
    const task = world.receiveObject<number | null>(0);
    if (task === null) break;
    answer = { task, area: area(task) };
  }
}
