/**
 * Times on GPUs, by their own events.
 *
 * @module
 */
import { Event, type Runtime } from "../../mod.ts";

/** A clock for calls that put work on the runtime's stream: microseconds of one of so many, on the slowest rank. */
export function gpuTimer({ communicator, stream }: Runtime, calls: number): (call: () => void) => number {
  if (stream === null) throw new Error("This benchmark needs a GPU for each rank: see deno task doctor.");
  const [start, end] = [new Event({ timing: true }), new Event({ timing: true })];
  return (call) => {
    communicator.barrier();
    stream.record(start);
    for (let i = 0; i < calls; i++) call();
    stream.record(end);
    stream.synchronize();
    const own = end.elapsedSince(start) * 1e6 / calls;
    return communicator.allReduce(Float64Array.of(own), { op: "max" })[0];
  };
}
