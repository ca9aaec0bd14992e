/**
 * Group `communicator`: small messages through `Communicator`, through the same FFI symbols without the wrapper, in C
 * and with mpi4py.
 *
 * Started as a program it is our side of the comparison, on each rank.
 *
 * @module
 */
import { openMpi } from "../ffi/mpi/mod.ts";
import { Communicator } from "../mod.ts";
import { type Group, ours, turn } from "./harness/bench.ts";
import { c, deno, python } from "./harness/programs.ts";
import { serve, timeChunks } from "./harness/worker.ts";

const rounds = 21;
const [chunks, calls] = [9, 1000];

const orders = [["allreduce", "allReduce of 8 bytes, into"], ["pingpong", "ping-pong of 1 byte, round trip"]] as const;

/** The group. */
export const communicator: Group = {
  name: "communicator",
  description: "small messages on 2 ranks: Communicator, the raw FFI calls, C, mpi4py's buffer interface",
  ranks: 2,
  async run(bench) {
    const { libraries } = bench;
    await using jobs = await bench.start({
      [ours]: deno("communicator.ts"),
      C: c("communicator", libraries),
      mpi4py: python("communicator", libraries),
    });
    for (const [order, title] of orders) {
      await bench.row({
        title,
        rounds,
        turns: {
          [ours]: turn(jobs[ours], `${order} ${chunks} ${calls}`),
          "raw FFI": turn(jobs[ours], `raw-${order} ${chunks} ${calls}`),
          C: turn(jobs.C, `${order} ${chunks} ${calls}`),
          mpi4py: turn(jobs.mpi4py, `${order} ${chunks} ${calls}`),
        },
        comparisons: [
          { quantity: "time", against: "mpi4py", bound: 0.5 },
          { quantity: "time", against: "raw FFI", bound: 1.5 },
          { quantity: "time", against: "C" },
        ],
      });
    }
  },
};

if (import.meta.main) {
  const world = Communicator.world();
  const { rank } = world;
  const { symbols, constants: { world: handle, types, operations }, status: { words } } = openMpi();
  const sent = new Float64Array([1]);
  const received = new Float64Array(1);
  const byte = new Uint8Array(1);
  const status = new Int32Array(words);
  const other = 1 - rank;

  const runs: Record<string, () => void> = {
    allreduce: () => void world.allReduce(sent, { op: "sum", into: received }),
    "raw-allreduce": () => void symbols.MPI_Allreduce(sent, received, 1, types.float64, operations.sum, handle),
    pingpong() {
      if (rank === 0) world.send(byte, 1);
      world.receive(byte, other);
      if (rank === 1) world.send(byte, 0);
    },
    "raw-pingpong"() {
      if (rank === 0) symbols.MPI_Send(byte, 1, types.uint8, 1, 0, handle);
      symbols.MPI_Recv(byte, 1, types.uint8, other, 0, handle, status);
      if (rank === 1) symbols.MPI_Send(byte, 1, types.uint8, 0, 0, handle);
    },
  };
  const handler = (run: () => void) => (chunks: string, calls: string): number[] => {
    for (let call = 0; call < 20_000; call++) run();
    return timeChunks(Number(chunks), Number(calls), run, () => world.barrier());
  };
  await serve(rank, Object.fromEntries(Object.entries(runs).map(([name, run]) => [name, handler(run)])));
}
