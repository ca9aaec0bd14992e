/**
 * The command line: `deno run -A scripts/main.ts COMMAND …`, from a file or from a URL.
 *
 * @module
 */
import { nearest } from "../internals.ts";
import { CommandError, Help, oneLine, style, userPath } from "./terminal.ts";

/** One command: what it does, in a line, and how it is loaded. */
interface Command {
  summary: string;
  load: () => Promise<(args: string[]) => Promise<number>>;
}

const commands: Record<string, Command> = {
  demo: {
    summary: "the worked example on 2 ranks, with its set-up",
    load: async () => (await import("./commands/demo.ts")).demo,
  },
  test: {
    summary: "every test that this machine can run, with its set-up",
    load: async () => (await import("./commands/tests.ts")).test,
  },
  run: { summary: "start a script on several ranks", load: async () => (await import("./commands/run.ts")).run },
  matmul: {
    summary: "multiply two NumPy files on several ranks",
    load: async () => (await import("./commands/matmul.ts")).matmulFiles,
  },
  doctor: {
    summary: "what was found, what is missing, what to do about it",
    load: async () => (await import("./commands/doctor.ts")).doctor,
  },
  native: {
    summary: "install, list or remove native libraries",
    load: async () => (await import("./commands/native.ts")).native,
  },
  "cluster-test": {
    summary: "run test files on 1, 2, … ranks",
    load: async () => (await import("./commands/cluster_tests.ts")).clusterTests,
  },
  view: {
    summary: "show a picture or a trace on a page of this machine",
    load: async () => (await import("./commands/view.ts")).view,
  },
  soak: {
    summary: "random operations on several ranks against a plain model",
    load: async () => (await import("./commands/repository.ts")).soak,
  },
  bench: {
    summary: "benchmarks against peers in the same run",
    load: async () => (await import("./commands/repository.ts")).bench,
  },
  "test:abi": {
    summary: "the declarations of ffi/ against the vendors' headers and libraries (downloads wheels)",
    load: async () => (await import("./commands/repository.ts")).abiTests,
  },
  "test:gpu": {
    summary: "the tests on 1, 2 or 4 GPUs: test:gpu -n 2",
    load: async () => (await import("./commands/gpu_tests.ts")).gpuTests,
  },
};

/** The text of `--help`. */
export function usage(): string {
  const lines = Object.entries(commands).map(([name, { summary }]) => `  ${name.padEnd(14)}${summary}`);
  return `distmath: distributed linear algebra

Usage: main.ts COMMAND [options]

${lines.join("\n")}

"COMMAND --help" tells the options of a command.`;
}

/** Make the folders that variables name absolute: the ranks run in the user's folder, this process in the repository's. */
function resolveVariables(): void {
  for (const name of ["DISTMATH_NATIVE", "DISTMATH_LIBRARY_PATH"]) {
    const folders = (Deno.env.get(name) ?? "").split(":").filter(Boolean);
    if (folders.length > 0) Deno.env.set(name, folders.map(userPath).join(":"));
  }
}

/** The command that is named by the first argument. */
function commandOf([name, ...rest]: string[]): Command["load"] {
  if (Object.hasOwn(commands, name)) return commands[name].load;
  const isHelp = name === undefined || ["--help", "-h", "help"].includes(name);
  if (isHelp && rest.length === 0) return () => Promise.resolve(() => help(name === undefined ? 2 : 0));
  if (isHelp) throw new CommandError(`${name} takes no arguments; for the options of a command: ${rest[0]} --help`);
  const names = Object.keys(commands);
  const near = nearest(name, names);
  const hint = near === null ? "." : `; did you mean "${near}"?`;
  throw new CommandError(`there is no command "${name}"${hint} There are ${names.join(", ")}`);
}

function help(code: number): Promise<number> {
  console.log(usage());
  return Promise.resolve(code);
}

/** Whether the operating system refused something, such as to write to a disk that is read-only: no fault of a command. */
function isSystemError(error: unknown): error is Error {
  return error instanceof Error && "code" in error && /^E[A-Z0-9]+$/.test(String(error.code));
}

/** Print a line on standard error, if it can be written. */
function complain(text: string): void {
  try {
    console.error(`${style("red", "error", "stderr")}: ${text}`);
  } catch {
    // The exit code has to tell it.
  }
}

/** Run a command; returns the exit code. */
export async function main(args: string[]): Promise<number> {
  return await exitCodeOf(async () => {
    const load = commandOf(args);
    resolveVariables();
    return await (await load())(args.slice(1));
  });
}

/** What a command returns; 0 where it was asked how it is used. */
async function orHelp(command: () => Promise<number>): Promise<number> {
  try {
    return await command();
  } catch (error) {
    if (!(error instanceof Help)) throw error;
    console.log(error.message);
    return 0;
  }
}

/** The exit code of a command, once what ended it has been told. */
export async function exitCodeOf(command: () => Promise<number>): Promise<number> {
  try {
    return await orHelp(command);
  } catch (error) {
    // Nobody reads the output any more, as in "run … | head": the exit code is that of SIGPIPE.
    if (error instanceof Deno.errors.BrokenPipe) return 141;
    if (error instanceof CommandError) {
      complain(oneLine(error));
      return error.code;
    }
    if (error instanceof Deno.errors.NotCapable) {
      complain(`${oneLine(error)}; commands start other programs and load libraries: start them by deno run -A`);
      return 1;
    }
    if (!isSystemError(error)) throw error;
    complain(isDiskFull(error) ? `the output cannot be written: ${oneLine(error)}` : oneLine(error));
    return 1;
  }
}

/** Whether a device, or the user's share of it, has no room for what is written, such as the output. */
function isDiskFull(error: unknown): boolean {
  return error instanceof Error && "code" in error && ["ENOSPC", "EDQUOT"].includes(String(error.code));
}

if (import.meta.main) Deno.exit(await main(Deno.args));
