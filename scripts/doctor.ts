/**
 * `doctor`: what was found, what is missing, what to do about it.
 *
 * @module
 */
import { totalmem } from "node:os";
import { describeLauncher, findLaunchers, installHint, type Launcher, namedLauncher } from "./launcher.ts";
import { readRecord, setFolder } from "./native/install.ts";
import type { Probe } from "./probe_rank.ts";
import { probeLauncher } from "./setup.ts";
import { formatBytes, oneLine, parseCommand, style } from "./terminal.ts";

const help = `Show what was found, what is missing and what to do about it. Exit code 0 if matmul can run, else 1.

Usage: doctor [--json]

  --json          print the findings as JSON
  --mpirun PATH   look at this launcher only (also DISTMATH_MPIRUN)
`;

/** What `doctor --json` prints. */
export interface Findings {
  /** Deno's version, its program and the permissions that this process lacks. */
  deno: { version: string; path: string; missingPermissions: string[] };
  /** Cores and memory. */
  machine: { target: string; cores: number; memoryBytes: number };
  /** NumPy's version, or `null`; only tests and benchmarks use it. */
  numpy: string | null;
  /** What `native install` has put where, or `null`. */
  native: { packages: string[]; folder: string } | null;
  /** Every launcher, in order of preference, with what its MPI can do. */
  launchers: (Launcher & Probe)[];
  /** Whether matmul can run under one of them. */
  canMultiply: boolean;
  /** What is wrong, and what to do about it. */
  problems: string[];
}

async function numpyVersion(): Promise<string | null> {
  try {
    const args = ["-c", "import numpy; print(numpy.__version__)"];
    const { success, stdout } = await new Deno.Command("python3", { args, stderr: "null" }).output();
    return success ? new TextDecoder().decode(stdout).trim() : null;
  } catch {
    return null;
  }
}

function nativeRecord(): Findings["native"] {
  try {
    const folder = setFolder();
    const record = readRecord(folder);
    return record && { packages: record.packages, folder };
  } catch {
    return null;
  }
}

/** What is wrong with what was found, and what to do about it. */
export function findProblems(
  launchers: readonly (Launcher & Probe)[],
  missingPermissions: readonly string[],
): string[] {
  const problems: string[] = [];
  if (missingPermissions.length > 0) {
    problems.push(`this process lacks permissions (${missingPermissions.join(", ")}): start it with -A`);
  }
  if (launchers.length === 0) problems.push(`no MPI launcher (mpirun) was found; ${installHint}`);
  const working = launchers.find(({ canMultiply }) => canMultiply);
  if (launchers.length > 0 && !working) problems.push(`no MPI here has a ScaLAPACK that works; ${installHint}`);
  if (working && working !== launchers[0]) {
    problems.push(
      `"run" takes ${launchers[0].path}, whose MPI cannot run matmul; set DISTMATH_MPIRUN=${working.path}, or: ` +
        "deno task native install cpu",
    );
  }
  const slow = working?.libraries.find(({ version }) => /reference BLAS/.test(version));
  if (slow) {
    problems.push(
      `the BLAS of ${slow.path} is the reference implementation, about 7 times slower than an optimised one; ` +
        "install one: apt-get install libopenblas0-pthread, or deno task native install cpu",
    );
  }
  return problems;
}

/** Look at everything. */
export async function examine(mpirun?: string): Promise<Findings> {
  const names = ["ffi", "env", "read", "write", "run", "sys"] as const;
  const missingPermissions = names.filter((name) => Deno.permissions.querySync({ name }).state !== "granted");
  const named = await namedLauncher(mpirun);
  const launchers: (Launcher & Probe)[] = [];
  for (const launcher of named ? [named] : await findLaunchers()) {
    launchers.push({ ...launcher, ...await probeLauncher(launcher) });
  }
  return {
    deno: { version: Deno.version.deno, path: Deno.execPath(), missingPermissions },
    machine: { target: Deno.build.target, cores: navigator.hardwareConcurrency, memoryBytes: totalmem() },
    numpy: await numpyVersion(),
    native: nativeRecord(),
    launchers,
    canMultiply: launchers.some(({ canMultiply }) => canMultiply),
    problems: findProblems(launchers, missingPermissions),
  };
}

function print({ deno, machine, numpy, native, launchers, problems }: Findings): void {
  const row = (name: string, text: string) => console.log(`${style("bold", name.padEnd(12))}${text}`);
  row("Deno", `${deno.version} (${deno.path})`);
  row("machine", `${machine.target}, ${machine.cores} cores, ${formatBytes(machine.memoryBytes)} of memory`);
  row("native", native ? `${native.packages.join(", ")} (${native.folder})` : "nothing installed");
  row("NumPy", numpy ?? "not found; only some tests and benchmarks use it");
  for (const launcher of launchers) {
    console.log();
    row("launcher", `${describeLauncher(launcher)}, found by ${launcher.source}`);
    for (const { name, version, path, source } of launcher.libraries) {
      row(`  ${name}`, `${version.split("\n")[0]} (${path}, found by ${source})`);
    }
    if (launcher.threads !== null) row("  threads", `${launcher.threads} of BLAS on one rank`);
    const verdict = launcher.canMultiply ? style("green", "works") : style("red", "does not work");
    row("  matmul", launcher.error ? `${verdict}: ${oneLine(launcher.error)}` : verdict);
  }
  console.log();
  if (problems.length === 0) console.log(style("green", "nothing is wrong"));
  for (const problem of problems) console.log(`${style("yellow", "to do")}: ${problem}`);
}

/** The command. */
export async function doctor(args: string[]): Promise<number> {
  const { values } = parseCommand(args, {
    json: { type: "boolean", default: false },
    mpirun: { type: "string" },
    help: { type: "boolean", short: "h", default: false },
  });
  if (values.help) {
    console.log(help);
    return 0;
  }
  const findings = await examine(values.mpirun);
  if (values.json) console.log(JSON.stringify(findings, null, 2));
  else print(findings);
  return findings.canMultiply ? 0 : 1;
}
