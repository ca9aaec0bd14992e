/**
 * A thread of the copy crew.
 *
 * @module
 */
import { workerData } from "node:worker_threads";
import { copyNextChunk, type CrewState, LIMIT, READY } from "./copy_crew.ts";

function copyForEver(state: CrewState): never {
  const { counters } = state;
  Atomics.add(counters, READY, 1);
  while (true) {
    const limit = Atomics.load(counters, LIMIT);
    if (!copyNextChunk(state)) Atomics.wait(counters, LIMIT, limit);
  }
}

copyForEver(workerData as CrewState);
