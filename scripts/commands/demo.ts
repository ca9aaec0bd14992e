/**
 * `demo`: the worked example, D = 0.45 Aᵀ B + 0.67 C, with its set-up.
 *
 * @module
 */
import { demoDTypes, type DemoSettings } from "./demo_rank.ts";
import { denoRun } from "../launch/job.ts";
import { describeLauncher } from "../launch/launcher.ts";
import { runVisibly } from "../launch/visible_job.ts";
import { readyLauncher } from "../launch/ready_launcher.ts";
import { CommandError, parseCommand, parseCount, refuseArguments, scriptAddress } from "../terminal.ts";

const help = `Run the worked example, D = 0.45 Aᵀ B + 0.67 C on slabs, and compare it with a serial computation.
Sets up MPI and ScaLAPACK first where there are none. Exit code 1 if the error is above the tolerance.

Usage: demo [options]

  -n, --ranks N     number of ranks (2)
  --shape M,N,K     D is M x N, the sums have K terms (128,512,1024)
  --dtype T         ${demoDTypes.join(", ")} (float32)
  --mpirun PATH     the launcher to use (also DISTMATH_MPIRUN)
`;

/** Read `--shape` and `--dtype`. */
export function parseDemo(shape: string, dtype: string): DemoSettings {
  const sizes = shape.split(",").map((text) => parseCount(text.trim(), "--shape"));
  if (sizes.length !== 3) throw new CommandError(`--shape takes three numbers m,n,k, not "${shape}"`);
  const found = demoDTypes.find((name) => name === dtype);
  if (!found) throw new CommandError(`--dtype takes one of ${demoDTypes.join(", ")}, not "${dtype}"`);
  return { m: sizes[0], n: sizes[1], k: sizes[2], dtype: found };
}

export async function demo(args: string[]): Promise<number> {
  const { values, positionals } = parseCommand(args, {
    ranks: { type: "string", short: "n", default: "2" },
    shape: { type: "string", default: "128,512,1024" },
    dtype: { type: "string", default: "float32" },
    mpirun: { type: "string" },
  }, help);
  refuseArguments("demo", positionals);
  const ranks = parseCount(values.ranks, "--ranks");
  const settings = parseDemo(values.shape, values.dtype);
  const launcher = await readyLauncher(values.mpirun);
  console.log(`launcher    ${describeLauncher(launcher)}`);
  const program = denoRun(scriptAddress("commands/demo_rank.ts"), [JSON.stringify(settings)]);
  const { code } = await runVisibly(launcher, { ranks, program });
  return code;
}
