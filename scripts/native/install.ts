/**
 * Installing native libraries: pinned, hash-checked wheels, in a folder of their own, without root.
 *
 * @module
 */
import { statfsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { nativePrefix, taskCommand } from "../../internals.ts";
import { CommandError, formatBytes, onSignals, ProgressBar } from "../terminal.ts";
import { findPip } from "./python.ts";
import { downloadBytes, type NativeSet, pinnedPackages, sets } from "./sets.ts";

/** What an install leaves beside its files. */
export interface InstallRecord {
  /** The sha256 of the pins. */
  pins: string;
  /** The sha256 of what is kept of the wheels. */
  kept?: string;
  /** The wheels with their versions. */
  packages: string[];
  /** The size of all files. */
  bytes: number;
}

/** Where the record lies in an install's folder. */
const recordFile = "distmath.json";

/** Where `native install` puts a set of libraries. */
export function setFolder({ folder }: Pick<NativeSet, "folder">): string {
  const prefix = nativePrefix();
  if (!prefix) throw new CommandError("neither HOME nor DISTMATH_NATIVE is set, so there is no place to install to", 1);
  return join(prefix, folder);
}

async function sha256(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return new Uint8Array(digest).toHex();
}

/** What is installed in a folder, or `null` when there is no complete install. */
export function readRecord(folder: string): InstallRecord | null {
  try {
    const record = JSON.parse(Deno.readTextFileSync(join(folder, recordFile)));
    // One that a crash of the machine cut short is none.
    return Array.isArray(record?.packages) && typeof record.bytes === "number" ? record : null;
  } catch (error) {
    const { NotFound, NotADirectory, PermissionDenied } = Deno.errors;
    // Where this user may not look, nothing can be loaded from either.
    const isAbsent = [NotFound, NotADirectory, PermissionDenied].some((reason) => error instanceof reason);
    if (isAbsent || error instanceof SyntaxError) return null;
    throw error;
  }
}

/** What of an install is not as it was put there; `null` if all is well, or nothing is installed. */
export function damageOf(folder: string): string | null {
  const record = readRecord(folder);
  if (!record) return null;
  const bytes = folderBytes(folder) - Deno.lstatSync(join(folder, recordFile)).size;
  return bytes === record.bytes ? null : `its files have ${bytes} bytes, and ${record.bytes} were installed`;
}

/** What is wrong with the installed libraries for CPUs; `null` if nothing is, or none are installed. */
export function cpuDamage(): string | null {
  const folder = nativePrefix() && setFolder({ folder: "cpu" });
  const damage = folder ? damageOf(folder) : null;
  return damage && `what is installed in ${folder} is damaged: ${damage}`;
}

/** What to do about a damaged install. */
export function toMend(folder: string): string {
  return `to mend it: ${taskCommand(`native install ${folder}`)}`;
}

/** What tells one version of a set from others. */
export async function versionOf(set: NativeSet): Promise<Pick<InstallRecord, "pins" | "kept">> {
  const kept = [...set.libraries, ...set.folders].join("\n");
  return { pins: await sha256(set.requirements), kept: await sha256(kept) };
}

/** Whether the pinned set is there, complete. */
export async function isInstalled(set: NativeSet): Promise<boolean> {
  const folder = setFolder(set);
  const [record, { pins, kept }] = [readRecord(folder), await versionOf(set)];
  return record?.pins === pins && record.kept === kept && damageOf(folder) === null;
}

/** All files below a folder with their sizes; links count nothing. */
function* filesBelow(folder: string): Generator<{ path: string; bytes: number }> {
  try {
    for (const entry of Deno.readDirSync(folder)) {
      const path = join(folder, entry.name);
      if (entry.isDirectory) yield* filesBelow(path);
      else if (entry.isFile) yield { path, bytes: Deno.lstatSync(path).size };
    }
  } catch (error) {
    // pip moves and removes files while they are counted.
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** The size of all files below a folder. */
function folderBytes(folder: string): number {
  return filesBelow(folder).reduce((sum, { bytes }) => sum + bytes, 0);
}

function removeFolder(path: string): void {
  try {
    Deno.removeSync(path, { recursive: true });
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/**
 * Take out of a fresh install what is never loaded, and put the libraries side by side in `lib`. NVIDIA's wheels have
 * each in a folder of its own, below that of Python's packages.
 */
export function arrange(folder: string, { folders, libraries }: Pick<NativeSet, "folders" | "libraries">): void {
  const isKept = (name: string) => libraries.some((pattern) => pattern.test(name));
  const lib = join(folder, "lib");
  Deno.mkdirSync(lib, { recursive: true });
  for (const { path } of [...filesBelow(folder)]) {
    const isNvidias = path.slice(folder.length).includes("/nvidia/");
    if (isNvidias && isKept(basename(path))) Deno.renameSync(path, join(lib, basename(path)));
  }
  for (const { name } of Deno.readDirSync(folder)) {
    if (name !== "lib" && !folders.includes(name)) removeFolder(join(folder, name));
  }
  for (const { name } of Deno.readDirSync(lib)) {
    if (!isKept(name)) removeFolder(join(lib, name));
  }
}

/** Why pip failed, in a sentence, out of all that it printed. */
export function explainPip(output: string): string {
  if (/No space left on device/.test(output)) return "the disk is full";
  if (/DO NOT MATCH THE HASHES/.test(output)) {
    const name = /^\s*([\w-]+)(?:==\S+)? from /m.exec(output)?.[1] ?? "a wheel";
    const expected = /Expected sha256 (\w+)/.exec(output)?.[1];
    const got = /Got\s+(\w+)/.exec(output)?.[1];
    return `${name} does not match its pinned sha256 (expected ${expected}, got ${got}): ` +
      "it was damaged on its way, or it is not the file that was tested";
  }
  const missing = /No matching distribution found for (\S+)/.exec(output);
  if (missing || /ConnectionError|Max retries exceeded|ReadTimeout|Temporary failure in name/.test(output)) {
    return `pip's package index has no ${missing?.[1] ?? "answer"}, or cannot be reached; ` +
      "check the network and PIP_INDEX_URL, or set PIP_FIND_LINKS to a folder that has the wheels";
  }
  const last = output.trim().split("\n").findLast((line) => /^ERROR:/.test(line)) ?? output.trim().split("\n").at(-1);
  return `pip failed: ${last?.replace(/^ERROR: /, "") ?? "it printed nothing"}`;
}

/** What pip needs to put the wheels where it is told, whatever the distribution and the user have set. */
const pipEnvironment = {
  // Debian's python3 would put all of it below local/, and its pip would refuse.
  DEB_PYTHON_INSTALL_LAYOUT: "deb_system",
  PIP_BREAK_SYSTEM_PACKAGES: "1",
  // These would contradict --prefix.
  PIP_USER: "0",
  PIP_REQUIRE_VIRTUALENV: "0",
  PIP_TARGET: "",
  PIP_ROOT: "",
  PIP_DRY_RUN: "0",
  PIP_ROOT_USER_ACTION: "ignore",
  PIP_DISABLE_PIP_VERSION_CHECK: "1",
  PIP_NO_INPUT: "1",
};

const unpacking = "unpacking";

/** Runs pip while its standard input is open: one that outlived this process would write between the files of the next install. */
const pipWhileOpen = `import os, runpy, threading
def end():
    os.read(0, 1)
    os._exit(1)
threading.Thread(target=end, daemon=True).start()
runpy.run_module("pip", run_name="__main__", alter_sys=True)
`;

/** Run pip, showing how far it is. */
async function runPip(python: string, staging: string, set: NativeSet): Promise<void> {
  const downloads = join(staging, "tmp");
  Deno.mkdirSync(downloads);
  const file = join(staging, "requirements.txt");
  Deno.writeTextFileSync(file, set.requirements);
  const child = new Deno.Command(python, {
    args: [
      ...["-c", pipWhileOpen, "install", "--prefix", join(staging, "prefix"), "--requirement", file],
      ...["--require-hashes", "--no-deps", "--only-binary=:all:", "--ignore-installed", "--no-compile"],
      // Without colours, whatever FORCE_COLOR says: its words are read.
      ...["--no-cache-dir", "--no-warn-script-location", "--progress-bar", "off", "--no-color"],
    ],
    env: { ...pipEnvironment, TMPDIR: downloads },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let interruption: number | null = null;
  using _signals = onSignals((code) => () => {
    interruption = code;
    try {
      child.kill("SIGTERM");
    } catch {
      // It has ended by itself.
    }
  });

  const bar = new ProgressBar(downloadBytes(set));
  let step = "asking for the wheels";
  // pip tells nothing of its progress to a pipe, in most versions: what it has written so far tells as well.
  const timer = setInterval(() => bar.update(step, step === unpacking ? Infinity : folderBytes(downloads)), 250);
  let output = "";
  const read = async (stream: ReadableStream<Uint8Array>) => {
    for await (const text of stream.pipeThrough(new TextDecoderStream())) {
      output += text;
      const name = [...text.matchAll(/^Collecting ([\w-]+)/gm)].at(-1)?.[1];
      if (name && name in set.wheels) step = describeDownload(name, set);
      if (/^Installing collected packages/m.test(text)) step = unpacking;
      bar.update(step, step === unpacking ? Infinity : folderBytes(downloads));
    }
  };
  try {
    const [status] = await Promise.all([child.status, read(child.stdout), read(child.stderr)]);
    if (interruption !== null) {
      throw new CommandError("native install was interrupted; nothing was installed", interruption);
    }
    if (!status.success) throw new CommandError(`native install: ${explainPip(output)}; nothing was installed`, 1);
  } finally {
    clearInterval(timer);
    bar.end();
    await child.stdin.abort().catch(() => {});
  }
}

function describeDownload(name: string, { wheels }: NativeSet): string {
  const { purpose, bytes } = wheels[name];
  return `downloading ${name} (${formatBytes(bytes)}), ${purpose}`;
}

function checkMachine(folder: string, set: NativeSet): void {
  if (Deno.build.target !== "x86_64-unknown-linux-gnu") {
    throw new CommandError(
      `native install ${set.name} has libraries for Linux x86-64 with glibc only, and this is ${Deno.build.target}; ` +
        set.otherwise,
      1,
    );
  }
  const { bavail, bsize } = statfsSync(folder);
  checkSpace(folder, set.bytesNeeded, bavail * bsize);
}

/**
 * Refuse a disk that has too little space for an install.
 *
 * @throws {CommandError} that says how much is needed and free.
 */
export function checkSpace(folder: string, needed: number, free: number): void {
  if (free >= needed) return;
  throw new CommandError(
    `native install needs ${formatBytes(needed)} for a while, but ${folder} has only ${
      formatBytes(free)
    } free; free some, or set DISTMATH_NATIVE to a folder on another disk`,
    1,
  );
}

/** What will be downloaded, and how much it is. */
function announce(set: NativeSet): void {
  console.error(
    `installing native libraries for ${set.purpose} into ${setFolder(set)}: a download of ${
      formatBytes(downloadBytes(set))
    }, and ${formatBytes(set.bytesNeeded)} of the disk while it runs`,
  );
  for (const [name, { purpose, bytes }] of Object.entries(set.wheels)) {
    console.error(`  ${name}, ${purpose}: ${formatBytes(bytes)}`);
  }
}

/** Whether a path still leads to an open file. */
function isStillAt(path: string, file: Deno.FsFile): boolean {
  try {
    const [here, there] = [file.statSync(), Deno.statSync(path)];
    return here.ino === there.ino && here.dev === there.dev;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Wait until no other process changes a folder. Who holds the lock may remove its file, and the next one makes it again. */
async function lockFolder(folder: string): Promise<Deno.FsFile> {
  const path = `${folder}.lock`;
  while (true) {
    const lock = Deno.openSync(path, { create: true, write: true });
    if (!lock.tryLockSync(true)) {
      console.error("another install is running: waiting for it");
      await lock.lock(true);
    }
    if (isStillAt(path, lock)) return lock;
    lock.close();
  }
}

/** What the operating system refuses to do in a folder, as the end of a command. */
async function writing<T>(what: string, path: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof CommandError || !(error instanceof Error) || !("code" in error)) throw error;
    throw new CommandError(`native ${what} cannot write to ${path}: ${error.message}`, 1);
  }
}

/**
 * Install a set, unless it is there and whole. Nothing half done is left by an install that fails or is interrupted; a
 * second one at the same time waits for the first. Returns whether anything had to be installed.
 */
export async function install(set: NativeSet): Promise<boolean> {
  if (await isInstalled(set)) return false;
  const folder = setFolder(set);
  const prefix = dirname(folder);
  return await writing("install", prefix, async () => {
    Deno.mkdirSync(prefix, { recursive: true });
    const python = await findPip();
    using _lock = await lockFolder(folder);
    if (await isInstalled(set)) return false;
    // Not before: an install that was waited for took space, and gave it back.
    checkMachine(prefix, set);
    const damage = damageOf(folder);
    if (damage !== null) console.error(`what is installed in ${folder} is damaged, and is replaced: ${damage}`);
    announce(set);
    await installInto(folder, set, python);
    return true;
  });
}

/** Install a set by way of a folder beside its own. */
async function installInto(folder: string, set: NativeSet, python: string): Promise<void> {
  const staging = `${folder}.staging`;
  removeFolder(staging);
  Deno.mkdirSync(staging);
  try {
    await runPip(python, staging, set);
    const fresh = join(staging, "prefix");
    arrange(fresh, set);
    const bytes = folderBytes(fresh);
    if (bytes === 0) {
      throw new CommandError(
        "native install: pip put no library in its place, so nothing was installed. " +
          "Look for settings in pip.conf or PIP_ variables that change where pip installs",
        1,
      );
    }
    const record: InstallRecord = { ...await versionOf(set), packages: pinnedPackages(set), bytes };
    Deno.writeTextFileSync(join(fresh, recordFile), JSON.stringify(record, null, 2));
    // The old set goes first and the new one comes by one rename, so that there is never a mixture.
    if (readRecord(folder)) Deno.renameSync(folder, join(staging, "old"));
    else removeFolder(folder);
    Deno.renameSync(fresh, folder);
    console.error(`installed ${record.packages.join(", ")}: ${formatBytes(bytes)}`);
  } finally {
    removeFolder(staging);
  }
}

/** Install the set for CPUs, unless it is there; returns whether anything had to be installed. */
export function installCpu(): Promise<boolean> {
  return install(sets.cpu);
}

/** Remove the set in a folder, once no install is at work there; returns whether there was one. */
export async function remove(set: Pick<NativeSet, "folder">): Promise<boolean> {
  const folder = setFolder(set);
  const paths = [folder, `${folder}.staging`, `${folder}.lock`];
  if (!paths.some(isThere)) return false;
  return await writing("remove", dirname(folder), async () => {
    using _lock = await lockFolder(folder);
    const isInstalled = readRecord(folder) !== null;
    // The folder may be a link to one on another disk.
    const linked = isInstalled ? [Deno.realPathSync(folder)] : [];
    for (const path of [...linked, ...paths]) removeFolder(path);
    return isInstalled;
  });
}

function isThere(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}
