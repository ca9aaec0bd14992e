/**
 * Making programs ready to run: ours, the C peers (compiled on demand), the Python peers (packages installed on demand).
 * Each says why, if it cannot be had here.
 *
 * @module
 */
import { basename, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import type { Libraries } from "./libraries.ts";

const bench = fileURLToPath(new URL("../", import.meta.url));

/** Something to run on each rank. */
export interface Program {
  /** The program and its arguments. */
  command: string[];
  /** Environment variables that it needs. */
  env?: Record<string, string>;
}

async function output(command: string, args: string[]): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(command, { args }).output().catch(() => {
    throw new Error(`${command} is not installed.`);
  });
  const [out, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes).trim());
  if (code !== 0) throw new Error(`${command} ${args.join(" ")}: ${errors.split("\n").slice(-5).join("\n") || out}`);
  return out;
}

/** The version line of a tool. */
export async function versionOf(command: string, flag = "--version"): Promise<string> {
  return await output(command, [flag]).then((text) => text.split("\n")[0], (error) => error.message);
}

/** A TypeScript file under bench/. */
export function deno(file: string): Program {
  return { command: [Deno.execPath(), "run", "-A", `${bench}${file}`] };
}

async function mpiInclude(mpi: string): Promise<string> {
  const candidates = [
    `${dirname(dirname(mpi))}/include`,
    ...basename(mpi).startsWith("libmpich")
      ? [`${dirname(mpi).replace("/lib/", "/include/")}/mpich`]
      : [`${dirname(mpi)}/openmpi/include`, `${dirname(mpi).replace("/lib/", "/include/")}/openmpi`],
    // All releases of Open MPI from 3 on have one binary interface, and wheels bring no headers.
    ...basename(mpi) === "libmpi.so.40" ? [`/usr/lib/${Deno.build.arch}-linux-gnu/openmpi/include`] : [],
  ];
  for (const folder of candidates) {
    if (await Deno.stat(`${folder}/mpi.h`).then(() => true, () => false)) return folder;
  }
  throw new Error(`mpi.h of ${mpi} was not found in ${candidates.join(", ")}.`);
}

/** Compiled programs by name: each is compiled once a run. */
const compiled = new Map<string, Promise<string>>();
let folder: string | undefined;

async function compile(name: string, mpi: string | null): Promise<string> {
  folder ??= Deno.makeTempDirSync({ prefix: "distmath-bench-" });
  const program = `${folder}/${name}`;
  const linking = mpi === null
    ? []
    : [`-I${await mpiInclude(mpi)}`, mpi, `-Wl,-rpath,${dirname(mpi)}`, "-Wl,--allow-shlib-undefined"];
  const source = `${bench}peers/${name}.c`;
  await output("gcc", ["-O2", "-D_GNU_SOURCE", source, "-o", program, ...linking, "-ldl"]);
  return program;
}

/** A C peer, linked with the MPI that distmath uses unless `withMpi` is false; `files` are the libraries it loads. */
export async function c(
  name: string,
  { mpi }: Libraries,
  { files = [], withMpi = true }: { files?: readonly string[]; withMpi?: boolean } = {},
): Promise<Program> {
  if (!compiled.has(name)) compiled.set(name, compile(name, withMpi ? mpi : null));
  return { command: [await compiled.get(name)!, ...files] };
}

/** Remove the compiled programs. */
export function cleanUp(): void {
  if (folder !== undefined) Deno.removeSync(folder, { recursive: true });
  folder = undefined;
}

/** The folders with the packages of each list, by its name. */
const packages = new Map<string, Promise<string>>();

/**
 * The folder with the packages of a list; they are installed at the first call, outside of Python's own. Without wheels
 * they are built here.
 */
async function install(list: string, options: readonly string[]): Promise<string> {
  const cache = Deno.env.get("XDG_CACHE_HOME") ?? `${Deno.env.get("HOME")}/.cache`;
  const version = await output("python3", ["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]);
  const requirements = await Deno.readTextFile(`${bench}${list}`);
  const names = requirements.trim().replaceAll("\n", "-").replaceAll("==", "-");
  const target = `${cache}/distmath/bench/python${version}-${names}`;
  if (await Deno.stat(target).then(() => true, () => false)) return target;
  const unfinished = `${target}.part`;
  await output("python3", [
    ...["-m", "pip", "install", "--quiet", "--no-deps", ...options, "--disable-pip-version-check"],
    ...["--target", unfinished, "--upgrade", "-r", `${bench}${list}`],
  ]);
  await Deno.rename(unfinished, target);
  return target;
}

function installed(list: string, options: readonly string[]): Promise<string> {
  if (!packages.has(list)) packages.set(list, install(list, options));
  return packages.get(list)!;
}

/** A Python peer, with NumPy and an mpi4py over the MPI that distmath uses, and what is built from source, if asked for. */
export async function python(
  name: string,
  { mpi }: Libraries,
  { isBuilt = false }: { isBuilt?: boolean } = {},
): Promise<Program> {
  const folders = [
    await installed("requirements.txt", ["--only-binary=:all:"]),
    ...isBuilt ? [await installed("requirements-source.txt", ["--no-binary=mpi4py-fft"])] : [],
  ];
  const env = { PYTHONPATH: folders.join(":"), MPI4PY_LIBMPI: mpi, PYTHONDONTWRITEBYTECODE: "1" };
  return { command: ["python3", `${bench}peers/${name}.py`], env };
}
