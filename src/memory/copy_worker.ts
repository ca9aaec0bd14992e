/**
 * A thread of the copy crew.
 *
 * @module
 */
import { workerData } from "node:worker_threads";
import { copyNextChunk, CREW, type CrewMember, LIMIT, READY } from "./copy_crew.ts";

/** Between the chunks of a copy a worker looks again so often before it sleeps, since waking up takes longer. */
const LOOKS = 2_000;

function copyForEver({ state, worker }: CrewMember): never {
  const { counters } = state;
  Atomics.add(counters, READY, 1);
  while (true) {
    const crew = Atomics.load(counters, CREW);
    if (worker >= crew) {
      Atomics.wait(counters, CREW, crew);
      continue;
    }
    const limit = Atomics.load(counters, LIMIT);
    if (copyNextChunk(state)) continue;
    let looks = 0;
    while (looks < LOOKS && Atomics.load(counters, LIMIT) === limit) looks++;
    if (looks === LOOKS) Atomics.wait(counters, LIMIT, limit);
  }
}

copyForEver(workerData as CrewMember);
