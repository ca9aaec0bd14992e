/**
 * What has to be freed by all ranks together, and was disposed of by `using`, which may not communicate: it waits here
 * for the next point that all ranks reach: a collective operation on arrays, `runtime.collect()`, the end of MPI.
 *
 * @module
 */

/** Something to free. */
interface Waiting {
  /** The number of ranks that have to free it together. */
  members: number;
  /** Frees it; collective over its members. */
  free: () => void;
}

const waiting = new Map<string, Waiting>();
/** How often something was queued that is wanted no more, so far and at the last freeing by each communicator. */
let disposals = 0;
const disposalsAtLast = new WeakMap<Gathering, number>();

/** Queue something under a key that is the same on all its ranks, and on no others. */
export function queueCollectiveFree(key: string, members: number, free: () => void): void {
  disposals++;
  keepForReuse(key, members, free);
}

/** Queue something that may be used again before: by itself it is no reason to free anything. */
export function keepForReuse(key: string, members: number, free: () => void): void {
  waiting.set(key, { members, free });
}

/** Whether something was queued on this rank since this communicator's ranks freed what they could. */
export function hasNewlyQueued(communicator: Gathering): boolean {
  return disposals > (disposalsAtLast.get(communicator) ?? 0);
}

/** It was freed in another way. */
export function forgetCollectiveFree(key: string): void {
  waiting.delete(key);
}

/** How much waits on this rank. */
export function queuedCount(): number {
  return waiting.size;
}

/** What can exchange the keys. */
export interface Gathering {
  /** Every rank's value. */
  allGatherObject<T>(value: T): T[];
}

/**
 * Free what all of its ranks have queued, in the same order everywhere. Collective; returns what was thrown on this rank:
 * it must not keep the others from being freed.
 */
export function freeQueued(communicator: Gathering): { count: number; errors: unknown[] } {
  disposalsAtLast.set(communicator, disposals);
  const counts = new Map<string, number>();
  for (const key of communicator.allGatherObject([...waiting.keys()]).flat()) {
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const ready = [...counts].filter(([key, count]) => waiting.get(key)?.members === count);
  const errors: unknown[] = [];
  for (const [key] of ready) {
    const { free } = waiting.get(key)!;
    waiting.delete(key);
    try {
      free();
    } catch (error) {
      errors.push(error);
    }
  }
  return { count: ready.length, errors };
}
