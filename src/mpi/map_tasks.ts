/**
 * Tasks that ranks take as they become free.
 *
 * @module
 */
import { CollectiveError } from "../errors.ts";
import { describe } from "../options.ts";
import { LARGEST_INT, refuseLong } from "./buffers.ts";
import type { Communicator } from "./communicator.ts";
import { decodeObject, encodeObject } from "./objects.ts";

/** What became of a task. */
type Outcome<R> = { readonly result: R } | { readonly failure: string };

/**
 * The results of a function for all tasks, in their order, on every rank. Rank 0 hands the tasks out, and each other rank
 * takes the next one when it has done its last; alone, rank 0 does them itself. Tasks and results travel as the methods
 * that end in Object send them; the tasks of other ranks than 0 are ignored. Collective.
 *
 * It is what `MPICommExecutor` and its `map` are in mpi4py.futures.
 *
 * @example
 * ```ts
 * import { Communicator, mapTasks } from "@distmath/distmath";
 * const squares = mapTasks(Communicator.world(), [1, 2, 3], (n) => n * n);
 * console.assert(squares[2] === 9);
 * ```
 *
 * @throws {TypeError} on every rank, if on one the tasks are no array, or `work` is no function.
 * @throws {CollectiveError} on every rank, if a task fails; those that nobody has begun are left then.
 */
export function mapTasks<T, R>(communicator: Communicator, tasks: readonly T[], work: (task: T) => R): R[] {
  const refusals = communicator.allGatherObject(refusalOf(communicator.rank, tasks, work));
  const refusal = refusals.find((text) => text !== null);
  if (refusal) throw new TypeError(refusal);
  // Its messages do not meet those of the script.
  const line = communicator.duplicate();
  const own = line.rank === 0 ? handOut(line, tasks, work) : takeTasks(line, work);
  const outcome = onAllRanks(line, own);
  line.free();
  if ("failure" in outcome) throw new CollectiveError(`mapTasks: ${outcome.failure}`);
  return outcome.result;
}

function refusalOf(rank: number, tasks: unknown, work: unknown): string | null {
  if (typeof work !== "function") return `mapTasks: work must be a function (task) => result, not ${describe(work)}.`;
  return rank > 0 || Array.isArray(tasks) ? null : `mapTasks: tasks must be an array, not ${describe(tasks)}.`;
}

/** The bytes of what a task gave, or of why it failed; it must not end here, since others wait. */
function outcomeOf<R>(work: () => R): Uint8Array<ArrayBuffer> {
  try {
    return encodeObject("mapTasks", { result: work() });
  } catch (error) {
    return encodeObject("mapTasks", { failure: textOf(error) });
  }
}

/** What was thrown, in words. */
function textOf(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error);
  } catch {
    return "something was thrown that has no text";
  }
}

/** What bytes of another rank hold; what cannot be read has failed. */
function outcomeIn<T extends Outcome<unknown> | null>(bytes: Uint8Array): T | { readonly failure: string } {
  try {
    return decodeObject<T>(bytes);
  } catch (error) {
    return { failure: textOf(error) };
  }
}

/** The bytes of the next message of a rank: one that cannot be read has arrived all the same. */
function nextMessage(line: Communicator, source: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(line.probe(source).count);
  line.receive(bytes, source);
  return bytes;
}

/** What came of all tasks, which rank 0 has, on every rank; a failure on all, if it cannot be written or read on one. */
function onAllRanks<R>(line: Communicator, own: Outcome<R[]> | null): Outcome<R[]> {
  if (line.size === 1) return own!;
  const sent = own && written(own);
  const [length] = line.broadcast(Float64Array.of(sent?.bytes.length ?? 0));
  const bytes = line.broadcast(sent?.bytes ?? new Uint8Array(length));
  const outcome = sent?.outcome ?? outcomeIn<Outcome<R[]>>(bytes);
  const failures = line.allGatherObject("failure" in outcome ? outcome.failure : null);
  const rank = failures.findIndex((failure) => failure !== null);
  if (rank < 0) return outcome;
  return { failure: rank === 0 ? failures[0]! : `the results cannot be read on rank ${rank}: ${failures[rank]}` };
}

/** An outcome with its bytes; one that has none is a failure. */
function written<R>(outcome: Outcome<R[]>): { outcome: Outcome<R[]>; bytes: Uint8Array<ArrayBuffer> } {
  try {
    const bytes = encodeObject("mapTasks", outcome);
    if (bytes.length > LARGEST_INT) refuseLong("mapTasks", "the results in bytes", bytes.length);
    return { outcome, bytes };
  } catch (error) {
    const failed = { failure: `the results do not travel together: ${textOf(error)}` };
    return { outcome: failed, bytes: encodeObject("mapTasks", failed) };
  }
}

/** Rank 0: a task to each rank that is free, until none is left. */
function handOut<T, R>(line: Communicator, tasks: readonly T[], work: (task: T) => R): Outcome<R[]> {
  if (line.size === 1) return allAlone(tasks, work);
  const results: R[] = new Array(tasks.length);
  const doing = new Map<number, number>();
  let [next, failure] = [0, ""];
  const give = (rank: number) => {
    const isOver = failure !== "" || next === tasks.length;
    if (isOver) return line.sendObject(null, rank);
    line.send(outcomeOf(() => tasks[next]), rank);
    doing.set(rank, next++);
  };
  for (let rank = 1; rank < line.size; rank++) give(rank);
  while (doing.size > 0) {
    const source = line.probe().source!;
    const outcome = outcomeIn<Outcome<R>>(nextMessage(line, source));
    const task = doing.get(source)!;
    doing.delete(source);
    if ("result" in outcome) results[task] = outcome.result;
    else failure ||= `task ${task} failed on rank ${source}: ${outcome.failure}`;
    give(source);
  }
  return failure === "" ? { result: results } : { failure };
}

/** One rank: results go the way of those that travel. */
function allAlone<T, R>(tasks: readonly T[], work: (task: T) => R): Outcome<R[]> {
  const results: R[] = [];
  for (const [task, value] of tasks.entries()) {
    const outcome = outcomeIn<Outcome<R>>(outcomeOf(() => work(value)));
    if ("failure" in outcome) return { failure: `task ${task} failed on rank 0: ${outcome.failure}` };
    results.push(outcome.result);
  }
  return { result: results };
}

/** The other ranks: do what comes, until nothing does. */
function takeTasks<T, R>(line: Communicator, work: (task: T) => R): null {
  for (;;) {
    const task = outcomeIn<Outcome<T> | null>(nextMessage(line, 0));
    if (task === null) return null;
    line.send(
      outcomeOf(() => {
        if ("failure" in task) throw new TypeError(task.failure);
        return work(task.result);
      }),
      0,
    );
  }
}
