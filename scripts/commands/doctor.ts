/**
 * `doctor`: what was found, what is missing, what to do about it.
 *
 * @module
 */
import { totalmem } from "node:os";
import { basename } from "node:path";
import { type Compiler, findCompiler, type GpuLink, type GpuReport, taskCommand } from "../../internals.ts";
import { describeLauncher, findLaunchers, installHint, type Launcher, namedLauncher } from "../launch/launcher.ts";
import { damageOf, readRecord, setFolder, toMend } from "../native/install.ts";
import type { Probe } from "../launch/probe_rank.ts";
import { probeGpus, probeLauncher } from "../launch/probe.ts";
import { formatBytes, oneLine, parseCommand, refuseArguments, style } from "../terminal.ts";

const help = `Show what was found, what is missing and what to do about it. Exit code 0 if matmul can run, else 1.

Usage: doctor [options]

  --json          print the findings as JSON
  --mpirun PATH   look at this launcher only (also DISTMATH_MPIRUN)
`;

/** The GPUs, and whether a product comes out right on the first one, under the launcher that `run` takes. */
export interface GpuFindings extends GpuReport {
  /** `null` where there is no GPU or no MPI to try it with. */
  product: Pick<Probe, "canMultiply" | "error"> | null;
}

/** What `doctor --json` prints. */
export interface Findings {
  /** Deno's version, its program and the permissions that this process lacks. */
  deno: { version: string; path: string; missingPermissions: string[] };
  machine: { target: string; cores: number; memoryBytes: number };
  /** The C compiler that makes loops for this CPU, or `null`. */
  compiler: string | null;
  /** NumPy's version, or `null`; only tests and benchmarks use it. */
  numpy: string | null;
  /** What `native install` has put where. */
  native: { packages: string[]; folder: string; damage: string | null }[];
  /** Every launcher, in order of preference, with what its MPI can do on CPUs. */
  launchers: (Launcher & Probe)[];
  /** Driver, GPUs, links, NVIDIA's libraries. */
  gpus: GpuFindings;
  /** Whether matmul can run under one of the launchers, or on a GPU. */
  canMultiply: boolean;
  /** What is wrong, and what to do about it. */
  problems: string[];
}

function describeCompiler(compiler: Compiler | null): string | null {
  return compiler && `${compiler.version} (${compiler.program})`;
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

function nativeRecords(): Findings["native"] {
  try {
    return (["cpu", "cuda"] as const).map((name) => setFolder({ folder: name })).flatMap((folder) => {
      const record = readRecord(folder);
      return record ? [{ packages: record.packages, folder, damage: damageOf(folder) }] : [];
    });
  } catch {
    return [];
  }
}

/** What is wrong with the files of `native install`. */
function findDamage(native: Findings["native"]): string[] {
  return native.flatMap(({ folder, damage }) =>
    damage === null ? [] : [`what is installed in ${folder} is damaged: ${damage}; ${toMend(basename(folder))}`]
  );
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
        taskCommand("native install cpu"),
    );
  }
  if (working && working.transformError !== null) {
    problems.push(`fft does not work: ${oneLine(working.transformError)}`);
  }
  const slow = working?.libraries.find(({ version }) => /reference BLAS/.test(version));
  if (slow) {
    problems.push(
      `the BLAS of ${slow.path} is the reference implementation, about 7 times slower than an optimised one; ` +
        `install one: apt-get install libopenblas0-pthread, or ${taskCommand("native install cpu")}`,
    );
  }
  return problems;
}

/** What is wrong with the GPUs, and what to do about it; nothing on a machine without one. */
export function findGpuProblems({ driver, absence, libraries, missing, product }: GpuFindings): string[] {
  if (absence) return absence.isFault ? [`${oneLine(absence.reason)}; see what nvidia-smi says`] : [];
  const runtime = libraries.find(({ name }) => name === "CUDA runtime");
  if (driver && runtime && Number.parseInt(runtime.version) > driver.cuda[0]) {
    return [
      `the libraries are for CUDA ${runtime.version} (${runtime.path}), but the driver serves CUDA ` +
      `${driver.cuda.join(".")}; to install those for it: ${taskCommand("native install cuda")}`,
    ];
  }
  if (missing.length > 0) {
    const names = missing.map(({ name }) => name).join(", ");
    return [
      `of NVIDIA's libraries, ${names} cannot be used; to install all of them: ${taskCommand("native install cuda")}`,
    ];
  }
  return product && !product.canMultiply ? [`matmul fails on GPU 0: ${oneLine(product.error ?? "")}`] : [];
}

/** Whether a product on a GPU comes out right, where there is a GPU with all libraries and an MPI. */
async function tryGpu(report: GpuReport, launchers: readonly (Launcher & Probe)[]): Promise<GpuFindings["product"]> {
  const launcher = launchers.find(({ libraries }) => libraries.length > 0);
  if (!launcher || report.devices.length === 0 || report.missing.length > 0) return null;
  const { canMultiply, error } = await probeLauncher(launcher, {}, "gpu");
  return { canMultiply, error };
}

/** Look at everything. */
async function examine(mpirun?: string): Promise<Findings> {
  const names = ["ffi", "env", "read", "write", "run", "sys"] as const;
  const missingPermissions = names.filter((name) => Deno.permissions.querySync({ name }).state !== "granted");
  const named = await namedLauncher(mpirun);
  const launchers: (Launcher & Probe)[] = [];
  for (const launcher of named ? [named] : await findLaunchers()) {
    launchers.push({ ...launcher, ...await probeLauncher(launcher) });
  }
  const report = await probeGpus();
  const gpus = { ...report, product: await tryGpu(report, launchers) };
  const native = nativeRecords();
  return {
    deno: { version: Deno.version.deno, path: Deno.execPath(), missingPermissions },
    machine: { target: Deno.build.target, cores: navigator.hardwareConcurrency, memoryBytes: totalmem() },
    compiler: describeCompiler(findCompiler()),
    numpy: await numpyVersion(),
    native,
    launchers,
    gpus,
    canMultiply: launchers.some(({ canMultiply }) => canMultiply) || gpus.product?.canMultiply === true,
    problems: [
      ...findDamage(native),
      ...findProblems(launchers, missingPermissions),
      ...findGpuProblems(gpus),
    ],
  };
}

/**
 * The links between GPUs in a line: what all pairs have in common, or the pairs of each kind.
 */
export function describeLinks(links: readonly GpuLink[]): string {
  const kinds = { nvlink: "NVLink", pcie: "PCIe" };
  const describe = ({ kind, hasPeerAccess }: GpuLink) => {
    const access = hasPeerAccess === null ? "peer access unknown" : `${hasPeerAccess ? "" : "no "}peer access`;
    return `${kind ? kinds[kind] : "of unknown kind"}, ${access}`;
  };
  const pairs = (group: readonly GpuLink[]) => group.map(({ ordinals }) => ordinals.join("-")).join(" ");
  return [...Map.groupBy(links, describe)].map(([text, group]) => `${text}: ${pairs(group)}`).join("; ");
}

/** Whether NVLink multicast is on, and who says so. */
export function describeMulticast({ multicast, devices }: Pick<GpuReport, "multicast" | "devices">): string {
  const off = { NCCL_NVLS_ENABLE: "0", NVSHMEM_DISABLE_NVLS: "1" } as const;
  const settings = Object.entries(off).map(([name, value]) => `${name}=${value}`).join(" and ");
  const others = Object.entries(multicast).filter(([name, value]) => value !== off[name as keyof typeof off]);
  const found = others.map(([name, value]) => `${name} ${value === null ? "unset" : `= ${value}`}`).join(" and ");
  const hardware = devices.some(({ hasMulticast }) => hasMulticast) ? "these GPUs have it" : "these GPUs lack it";
  return others.length === 0
    ? `off: the environment has ${settings} (${hardware})`
    : `off: distmath sets ${settings}, where the environment has ${found} (${hardware})`;
}

const row = (name: string, text: string) => console.log(`${style("bold", name.padEnd(18))}${text}`);

function verdict({ canMultiply, error }: Pick<Probe, "canMultiply" | "error">): string {
  const text = canMultiply ? style("green", "works") : style("red", "does not work");
  return error ? `${text}: ${firstLine(error)}` : text;
}

/** Of a message with a list, such as of all places where a library is not, only what it begins with. */
function firstLine(message: string): string {
  const [first, ...others] = message.split("\n");
  return others.length === 0 ? first : `${first.replace(/ Tried:$/, "")} (in full: doctor --json)`;
}

function printGpus(gpus: GpuFindings): void {
  const { driver, absence, devices, links, libraries, missing, product } = gpus;
  console.log();
  if (absence) return row("GPUs", `none: ${oneLine(absence.reason)}`);
  row("GPUs", String(devices.length));
  if (driver) {
    const version = driver.version ? `${driver.version}, ` : "";
    row("  driver", `${version}CUDA ${driver.cuda.join(".")} (${driver.path}, found by ${driver.source})`);
  }
  for (const { ordinal, name, computeCapability, memoryBytes } of devices) {
    const facts = [name, `compute capability ${computeCapability.join(".")}`, formatBytes(memoryBytes)];
    row(`  GPU ${ordinal}`, facts.join(", "));
  }
  if (links.length > 0) row("  links", describeLinks(links));
  for (const { name, version, path, source } of libraries) {
    row(`  ${name}`, `${version} (${path}, found by ${source})`);
  }
  for (const { name, reason } of missing) row(`  ${name}`, `${style("red", "missing")}: ${oneLine(reason)}`);
  row("  NVLS", describeMulticast(gpus));
  if (product) row("  matmul", verdict(product));
}

function print({ deno, machine, compiler, numpy, native, launchers, gpus, problems }: Findings): void {
  row("Deno", `${deno.version} (${deno.path})`);
  row("machine", `${machine.target}, ${machine.cores} cores, ${formatBytes(machine.memoryBytes)} of memory`);
  if (native.length === 0) row("native", "nothing installed");
  for (const { packages, folder } of native) row("native", `${packages.join(", ")} (${folder})`);
  row("C compiler", compiler ?? "none: elementwise operations on CPUs are loops of JavaScript, or MKL's");
  row("NumPy", numpy ?? "not found; only some tests and benchmarks use it");
  for (const launcher of launchers) {
    console.log();
    row("launcher", `${describeLauncher(launcher)}, found by ${launcher.source}`);
    for (const { name, version, path, source } of launcher.libraries) {
      row(`  ${name}`, `${version.split("\n")[0]} (${path}, found by ${source})`);
    }
    if (launcher.threads !== null) row("  threads", `${launcher.threads} of BLAS on one rank`);
    row("  matmul", verdict(launcher));
    row("  fft", verdict({ canMultiply: launcher.transformError === null, error: launcher.transformError }));
  }
  printGpus(gpus);
  console.log();
  if (problems.length === 0) console.log(style("green", "nothing is wrong"));
  for (const problem of problems) console.log(`${style("yellow", "to do")}: ${problem}`);
}

export async function doctor(args: string[]): Promise<number> {
  const { values, positionals } = parseCommand(args, {
    json: { type: "boolean", default: false },
    mpirun: { type: "string" },
  }, help);
  refuseArguments("doctor", positionals);
  const findings = await examine(values.mpirun);
  if (values.json) console.log(JSON.stringify(findings, null, 2));
  else print(findings);
  return findings.canMultiply ? 0 : 1;
}
