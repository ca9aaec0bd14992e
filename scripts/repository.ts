/**
 * Commands that need the repository, not only the published package: `bench`, `test:abi`, `test:gpu`.
 *
 * @module
 */
import { Device } from "../mod.ts";
import { clusterTests } from "./cluster_tests.ts";
import { readyLauncher } from "./setup.ts";
import { CommandError, parseCommand, parseCount, scriptAddress } from "./terminal.ts";

/** The path of a file of the repository. */
function repositoryFile(path: string): string {
  const file = scriptAddress(`../${path}`);
  try {
    Deno.statSync(file);
  } catch {
    throw new CommandError(`${path} is in the repository, not in the package: clone it, and run the task there`);
  }
  return file;
}

async function runProgram(path: string, args: readonly string[]): Promise<number> {
  const child = new Deno.Command(Deno.execPath(), { args: ["run", "-A", path, ...args] }).spawn();
  return (await child.status).code;
}

/** `bench`: benchmarks against peers in the same run; hands its arguments to `bench/main.ts`. */
export async function bench(args: string[]): Promise<number> {
  const program = repositoryFile("bench/main.ts");
  if (!args.includes("--help")) await readyLauncher();
  return await runProgram(program, args);
}

/** `test:abi`: the declarations of `ffi/` against the vendors' headers and libraries, from their wheels. */
export async function abiTests(args: string[]): Promise<number> {
  return await runProgram(repositoryFile("tests/abi/check_against_wheels.ts"), args);
}

const gpuHelp = `Run the GPU tests, one rank a GPU: those of GPUs alone, and the cluster tests on device arrays.

Usage: test:gpu [options]

  -n, --ranks N      number of ranks, and of GPUs (1)
  --timeout SECONDS  time limit of a file (300)
`;

/** The cluster tests that run on GPUs too. */
const sharedTests = ["arrays", "redistribute", "npy", "symmetric", "matmul", "epilog", "pblas"];

/** `test:gpu`: the tests on GPUs; says why there is nothing to run on a machine without one. */
export async function gpuTests(args: string[]): Promise<number> {
  const { values } = parseCommand(args, {
    ranks: { type: "string", short: "n", default: "1" },
    timeout: { type: "string", default: "300" },
    help: { type: "boolean", short: "h", default: false },
  });
  if (values.help) {
    console.log(gpuHelp);
    return 0;
  }
  const ranks = parseCount(values.ranks, "--ranks");
  const found = Device.count();
  if (found < ranks) {
    console.log(`skipped: the tests on ${ranks} GPUs need as many, and this machine has ${found} that CUDA can use`);
    return 0;
  }
  const files = [
    ...["memory", "arrays", "symmetric", "matmul"].map((name) => `tests/gpu/${name}_test.ts`),
    ...sharedTests.map((name) => `tests/cluster/${name}_test.ts`),
  ].map(repositoryFile);
  return await clusterTests(["--ranks", String(ranks), "--timeout", values.timeout, ...files]);
}
