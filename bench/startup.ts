/**
 * Group `startup`: from the start to the end of an empty script on 4 ranks.
 *
 * @module
 */
import { type Bench, type Group, ours, type Turn } from "./harness/bench.ts";
import { deno, type Program, python } from "./harness/programs.ts";

const rounds = 11;

/** Runs a program from start to finish. */
function whole(bench: Bench, program: Program): Turn {
  const [command, ...args] = bench.command(program, bench.ranks);
  const env = { ...bench.settings(bench.ranks), ...program.env };
  return async () => {
    const start = performance.now();
    const { code, stderr } = await new Deno.Command(command, { args, env, stdin: "null" }).output();
    if (code !== 0) throw new Error(new TextDecoder().decode(stderr));
    return [(performance.now() - start) / 1000];
  };
}

/** The group. */
export const startup: Group = {
  name: "startup",
  description: "start to finish of an empty script on 4 ranks, against mpi4py with NumPy",
  ranks: 4,
  async run(bench) {
    const peer = await python("empty", bench.libraries).catch((error: Error) => error);
    await bench.row({
      title: `initialize() and nothing else, ${bench.ranks} ranks`,
      rounds,
      turns: {
        [ours]: whole(bench, deno("empty.ts")),
        mpi4py: peer instanceof Error ? peer : whole(bench, peer),
      },
      comparisons: [{ quantity: "time", against: "mpi4py", bound: 1 }],
    });
  },
};
