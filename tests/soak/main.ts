/** `deno task soak`: random operations on several ranks against a plain model, by a seed that is printed. */
import { fileURLToPath } from "node:url";
import { describeLauncher, findLauncher } from "../../scripts/launch/launcher.ts";
import { runVisibly } from "../../scripts/launch/visible_job.ts";
import { exitCodeOf } from "../../scripts/main.ts";
import { CommandError, parseCommand, parseCount, parseSeconds, refuseArguments } from "../../scripts/terminal.ts";
import type { Soak } from "./rank.ts";

const help =
  `Random operations on several ranks against a plain model: arrays, functions of elements, reductions, shapes,
redistributions, products, PBLAS routines, Fourier transforms, files, damaged files, wrong arguments, messages; memory,
open files, and what native libraries hold (communicators, datatypes, plans, streams, …) have to stay as they are while
the same operations are done a second time.

Usage: soak [options]

  -n, --ranks N      number of ranks (2)
  --seed S           what everything follows from, a whole number; another one each time when left out
  --seconds T        how long both rounds go on (60, or until all operations are done)
  --operations N     how many operations both rounds have, however long it takes
  --first N          the number of the first operation (0)
  --mpirun PATH      the launcher to use (also DISTMATH_MPIRUN)

What is wrong is printed with the command that does it again. Exit code 1 if something is.
`;

async function main(args: string[]): Promise<number> {
  const { values, positionals } = parseCommand(args, {
    ranks: { type: "string", short: "n", default: "2" },
    seed: { type: "string" },
    seconds: { type: "string" },
    operations: { type: "string" },
    first: { type: "string", default: "0" },
    mpirun: { type: "string" },
  }, help);
  refuseArguments("soak", positionals);
  const operations = values.operations === undefined ? null : parseCount(values.operations, "--operations");
  const seconds = values.seconds !== undefined
    ? parseSeconds(values.seconds, "--seconds")
    : operations === null
    ? 60
    : null;
  const soak: Soak = {
    seed: values.seed === undefined ? Date.now() % 2 ** 31 : whole(values.seed, "--seed"),
    first: whole(values.first, "--first"),
    operations,
    seconds,
  };
  const ranks = parseCount(values.ranks, "-n");
  const launcher = await findLauncher(values.mpirun);
  console.log(`seed ${soak.seed}, ${ranks} ranks, ${describeLauncher(launcher)}`);
  const rank = fileURLToPath(new URL("./rank.ts", import.meta.url));
  const program = [Deno.execPath(), "run", "-A", "--v8-flags=--expose-gc", rank, JSON.stringify(soak)];
  return (await runVisibly(launcher, { ranks, program })).code;
}

function whole(text: string, option: string): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value < 2 ** 32) return value;
  throw new CommandError(`${option} takes a whole number below 2^32, not ${text}`);
}

if (import.meta.main) Deno.exit(await exitCodeOf(() => main(Deno.args)));
