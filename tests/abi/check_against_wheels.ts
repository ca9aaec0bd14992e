/**
 * The slower check of the declarations in `ffi/`: downloads the pinned wheels, reads their headers again, compares
 * with the committed snapshot, and verifies that the shipped libraries export each declared function.
 *
 *     deno run -A tests/abi/check_against_wheels.ts [--update]
 *
 * `--update` writes the snapshot. The check needs Python 3.9 with pip, gcc or clang, and about 2 GB in its cache, which
 * `DISTMATH_ABI_CACHE` moves; a second run downloads nothing.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { findFaults, type LibraryFacts, type Snapshot } from "./compare.ts";
import { constantsOf, DECLARATIONS, functionsOf, type LibraryDeclaration } from "./declarations.ts";
import { exportedSymbols } from "./elf.ts";

const here = import.meta.dirname!;
const snapshotPath = `${here}/snapshot.json`;
const cache = Deno.env.get("DISTMATH_ABI_CACHE") ??
  `${Deno.env.get("XDG_CACHE_HOME") ?? `${Deno.env.get("HOME")}/.cache`}/distmath/abi`;

interface Pin {
  requirement: string;
  filePrefix: string;
  sha256: string;
}

function readPins(): Pin[] {
  const lines = Deno.readTextFileSync(`${here}/wheels.txt`).split("\n").filter((line) => /^\w/.test(line));
  return lines.map((line) => {
    const [requirement, hash] = line.split(" --hash=sha256:");
    const [name, version] = requirement.split("==");
    return { requirement, filePrefix: `${name.replaceAll("-", "_")}-${version}-`, sha256: hash };
  });
}

async function run(command: string, args: string[], input?: string): Promise<string> {
  const child = new Deno.Command(command, {
    args,
    env: { PYTHONPATH: `${cache}/python`, PYTHONDONTWRITEBYTECODE: "1" },
    stdin: input === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  if (input !== undefined) {
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(input));
    await writer.close();
  }
  const { success, stdout, stderr } = await child.output();
  if (!success) throw new Error(`${command} ${args[0]} failed:\n${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}

async function sha256(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk);
  return hash.digest("hex");
}

/** The wheel of a pin, if it lies in a folder unharmed. */
async function findWheel(folder: string, { filePrefix, sha256: expected }: Pin): Promise<string | undefined> {
  const file = [...Deno.readDirSync(folder)].find(({ name }) => name.startsWith(filePrefix));
  return file && await sha256(`${folder}/${file.name}`) === expected ? `${folder}/${file.name}` : undefined;
}

/** Download the wheels that are missing; the paths of all. */
async function downloadWheels(pins: readonly Pin[]): Promise<string[]> {
  const folder = `${cache}/wheels`;
  Deno.mkdirSync(folder, { recursive: true });
  const find = () => Promise.all(pins.map((pin) => findWheel(folder, pin)));
  let wheels = await find();
  if (wheels.includes(undefined)) {
    console.log(`downloading the wheels of wheels.txt to ${folder} …`);
    // deno-fmt-ignore
    await run("python3", [
      "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:",
      "--dest", folder, "-r", `${here}/wheels.txt`,
    ]);
    wheels = await find();
  }
  return wheels.map((wheel, index) => {
    if (!wheel) throw new Error(`pip did not download ${pins[index].requirement}`);
    return wheel;
  });
}

function readIfExists(path: string): string | null {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** Unpack headers and libraries of wheels, once; the folder. */
async function unpackWheels(wheels: string[]): Promise<string> {
  const folder = `${cache}/current`;
  const libraries = DECLARATIONS.flatMap(({ library }) => library ?? []);
  const contents = JSON.stringify({ wheels, libraries });
  if (readIfExists(`${folder}/contents.json`) === contents) return folder;
  for (const wheel of wheels) await run("python3", [`${here}/extract.py`, "unpack", folder, wheel, ...libraries]);
  Deno.writeTextFileSync(`${folder}/contents.json`, contents);
  return folder;
}

async function installLibclang(wheels: string[]): Promise<void> {
  if (readIfExists(`${cache}/python/clang/cindex.py`) !== null) return;
  const wheel = wheels.find((path) => path.includes("/libclang-"))!;
  await run("python3", ["-m", "pip", "install", "--quiet", "--no-deps", "--target", `${cache}/python`, wheel]);
}

function question(library: LibraryDeclaration, folder: string): Record<string, unknown> {
  const unique = (names: string[]) => [...new Set(names)].sort();
  return {
    folders: [folder],
    headers: library.headers,
    functions: unique(functionsOf(library).map(({ symbol }) => symbol)),
    constants: unique(constantsOf(library).map(([name]) => name)),
    structs: Object.fromEntries(library.structs.map(({ name, fields }) => [name, Object.keys(fields)])),
  };
}

/** Read the facts about everything that is declared from the headers in a folder. */
async function extractSnapshot(folder: string, pins: readonly Pin[]): Promise<Snapshot> {
  const request = Object.fromEntries(DECLARATIONS.map((library) => [library.name, question(library, folder)]));
  const answer = await run("python3", [`${here}/extract.py`, "facts"], JSON.stringify(request));
  const wheels = pins.map(({ requirement }) => requirement).filter((name) => !name.startsWith("libclang"));
  return { wheels, libraries: JSON.parse(answer) as Record<string, LibraryFacts> };
}

/** The snapshot's text: one fact a line. */
function formatSnapshot(snapshot: Snapshot): string {
  return JSON.stringify(snapshot, null, 2).replaceAll(/\[\s+(\d+),\s+(\d+)\s+\]/g, "[$1, $2]") + "\n";
}

/** The declared functions that the shipped libraries lack. */
function missingExports(folder: string): string[] {
  return DECLARATIONS.flatMap((library) => {
    if (library.library === null) return [];
    const exported = exportedSymbols(`${folder}/${library.library}`);
    return functionsOf(library)
      .filter(({ symbol }) => !exported.has(symbol))
      .map(({ symbol }) => `${library.name}: ${library.library} does not export ${symbol}`);
  });
}

const pins = readPins();
const wheels = await downloadWheels(pins);
await installLibclang(wheels);
const folder = await unpackWheels(wheels);
const snapshot = await extractSnapshot(folder, pins);
const text = formatSnapshot(snapshot);
const faults = [...findFaults(DECLARATIONS, snapshot), ...missingExports(folder)];
if (Deno.args.includes("--update")) Deno.writeTextFileSync(snapshotPath, text);
else if (text !== Deno.readTextFileSync(snapshotPath)) {
  faults.push("tests/abi/snapshot.json is not what the headers say: run this with --update and look at the difference");
}
for (const fault of faults) console.error(fault);
const counted = DECLARATIONS.map((library) => `${library.name} ${functionsOf(library).length}`).join(", ");
console.log(`${snapshot.wheels.length} wheels; functions: ${counted}; ${faults.length} faults`);
if (faults.length > 0) Deno.exit(1);
