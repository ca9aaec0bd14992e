/**
 * `matmul`: multiply the matrices of two NumPy files on several ranks.
 *
 * @module
 */
import { existsSync, lstatSync, statfsSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { type NpyHeader, parseNpyHeader } from "../../internals.ts";
import { dtypeInfo } from "../../mod.ts";
import { denoRun } from "../launch/job.ts";
import type { Launcher } from "../launch/launcher.ts";
import { runFiltered } from "../launch/job_output.ts";
import {
  marker,
  type MatmulDType,
  matmulDTypes,
  type MatmulJob,
  type MatmulOutcome,
  type MatmulStage,
  stageMarker,
} from "./matmul_rank.ts";
import { parsePlace, type Place, placeOptions } from "../launch/job_place.ts";
import { readyLauncher } from "../launch/ready_launcher.ts";
import {
  colorVariables,
  CommandError,
  formatBytes,
  oneLine,
  parseCommand,
  parseCount,
  ProgressBar,
  scriptAddress,
  unwritable,
  userPath,
} from "../terminal.ts";

const help = `Multiply the matrices of two NumPy files. Each rank reads and writes only its own part of the files.

Usage: matmul A.npy B.npy --out D.npy [options]

  --out FILE               where the product goes
  -n, --ranks N            number of ranks (2)
  --transpose-a            multiply by the transpose of A
  --transpose-b            multiply by the transpose of B
  --alpha X                a factor (1)
  --distribution D         slab-x, slab-y or block-cyclic:MBxNB, for all three matrices (slab-x)
  --order c|f              memory order of the product (c)
  --json                   print what was done as JSON
  --hosts A:2,B:2          hosts with their slots; the allocation's, or this host alone, when left out
  --hostfile FILE          a file with a line for each host: "a", "a:2" or "a slots=2"
  --timeout SECONDS        give up after this time
  --mpirun PATH            the launcher to use (also DISTMATH_MPIRUN)

Matrices of dtype ${matmulDTypes.join(", ")}, in C or Fortran order. Exit code 2 for input that does not
fit; for a job that failed 1, or its own code, such as 124 for --timeout. No output file is left then.
`;

/** The longest header that is read: the most that the format's reader takes. */
const longestHeader = 2 ** 20 + 12;

/** A file that was looked at. */
export interface Input {
  path: string;
  dtype: MatmulDType;
  /** Its rows and columns. */
  shape: readonly number[];
}

function readStart(path: string): { bytes: Uint8Array; size: number } {
  try {
    // Opening a pipe would wait for someone to write.
    const { size, isFile } = Deno.statSync(path);
    if (!isFile) throw new CommandError(`${path} is no file`);
    using file = Deno.openSync(path);
    const bytes = new Uint8Array(Math.min(size, longestHeader));
    let filled = 0;
    while (filled < bytes.length) filled += file.readSync(bytes.subarray(filled)) ?? bytes.length;
    return { bytes, size };
  } catch (error) {
    if (error instanceof CommandError) throw error;
    if (error instanceof Deno.errors.NotFound) throw new CommandError(`there is no file ${path}`);
    throw new CommandError(`cannot read ${path}: ${oneLine(error)}`);
  }
}

/**
 * Look at a NumPy file without reading its data.
 *
 * @throws {CommandError} if it is no matrix that matmul can take, or too short for what its header says.
 */
function inspectInput(path: string): Input {
  const { bytes, size } = readStart(path);
  let header: NpyHeader;
  try {
    header = parseNpyHeader(bytes);
  } catch (error) {
    throw new CommandError(`${path}: ${oneLine(error)}`);
  }
  const { descr, shape, dataOffset } = header;
  // The byte order, the first character, does not matter.
  const dtype = /^[<>|=]/.test(descr) && matmulDTypes.find((name) => dtypeInfo(name).npy?.slice(1) === descr.slice(1));
  if (!dtype) throw new CommandError(`${path} holds ${descr}; matmul takes ${matmulDTypes.join(", ")}`);
  if (shape.length !== 2) {
    throw new CommandError(`${path} holds an array of ${shape.length} dimensions, and a matrix has 2`);
  }
  const needed = dataOffset + shape[0] * shape[1] * dtypeInfo(dtype).itemSize;
  if (size < needed) {
    throw new CommandError(`${path} is too short: its header promises ${needed} bytes, and it has ${size}`);
  }
  return { path, dtype, shape };
}

/** The shape of op(A) op(B), after checking that the two fit. */
export function productShape(a: Input, b: Input, isTransposed: { a: boolean; b: boolean }): [number, number] {
  if (a.dtype !== b.dtype) {
    throw new CommandError(
      `${a.path} holds ${a.dtype} and ${b.path} ${b.dtype}; they must be of one dtype`,
    );
  }
  const [m, k] = isTransposed.a ? a.shape.toReversed() : a.shape;
  const [kOfB, n] = isTransposed.b ? b.shape.toReversed() : b.shape;
  if (k !== kOfB) {
    const name = (letter: string, isT: boolean) => isT ? `the transpose of ${letter}` : letter;
    throw new CommandError(
      `the shapes do not fit: ${name("A", isTransposed.a)} is ${m} x ${k} and ${
        name("B", isTransposed.b)
      } is ${kOfB} x ${n}; the columns of the first must be as many as the rows of the second`,
    );
  }
  return [m, n];
}

/** Read `--distribution`. */
export function parseDistribution(text: string): MatmulJob["distribution"] {
  if (text === "slab-x" || text === "slab-y") return { kind: text };
  const blocks = /^block-cyclic:([1-9]\d*)x([1-9]\d*)$/.exec(text);
  const blockSizes = blocks?.slice(1).map(Number) ?? [];
  if (blocks && blockSizes.every(Number.isSafeInteger)) {
    return { kind: "block-cyclic", blockSizes: [blockSizes[0], blockSizes[1]] };
  }
  throw new CommandError(`--distribution takes slab-x, slab-y or block-cyclic:MBxNB (such as 64x64), not "${text}"`);
}

function parseAlpha(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value)) throw new CommandError(`--alpha takes a number, not "${text}"`);
  return value;
}

/** Where the ranks write: beside the output, so that one rename makes it the output. */
function partialFile(out: string): string {
  return join(dirname(out), `.distmath.${Deno.hostname()}.${Deno.pid}.partial`);
}

/** Remove what commands on this host have left that were killed: their partial files name a process that is no more. */
function removeAbandoned(folder: string): void {
  for (const { name } of Deno.readDirSync(folder)) {
    const [, host, process] = /^\.distmath\.(.+)\.(\d+)\.partial/.exec(name) ?? [];
    if (host !== Deno.hostname() || existsSync(`/proc/${process}`)) continue;
    try {
      Deno.removeSync(join(folder, name));
    } catch {
      // It is another user's, or another command has removed it.
    }
  }
}

/** Where a path leads, also by links to a file that is still to be made. */
function behindLinks(path: string): string {
  if (!lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()) return path;
  return behindLinks(resolve(Deno.realPathSync(dirname(path)), Deno.readLinkSync(path)));
}

/** Where the product goes in the end, and where the ranks write it. */
interface Output {
  /** The file, behind symbolic links. */
  target: string;
  /** The file that becomes it. */
  partial: string;
}

/** Check that the output can be written, by making the file that the ranks write to, for a moment. */
function openOutput(out: string, inputs: readonly string[]): Output {
  let target = out;
  try {
    const { isFile, isDirectory } = Deno.statSync(out);
    // A rename would put a file in the place of a device such as /dev/null.
    if (!isFile) throw new CommandError(`${out} is ${isDirectory ? "a folder" : "no file"}`);
    target = Deno.realPathSync(out);
    if (inputs.some((path) => Deno.realPathSync(path) === target)) {
      throw new CommandError(`${out} is an input as well; give another --out`);
    }
    Deno.openSync(target, { append: true }).close();
  } catch (error) {
    if (error instanceof CommandError) throw error;
    if (!(error instanceof Deno.errors.NotFound)) throw unwritable(out, "--out", error);
    target = behindLinks(out);
  }
  const partial = partialFile(target);
  try {
    removeAbandoned(dirname(target));
    Deno.writeTextFileSync(partial, "", { createNew: true });
    // The ranks make it again: a command that is killed before they run leaves nothing.
    Deno.removeSync(partial);
  } catch (error) {
    throw unwritable(out, "--out", error, dirname(target));
  }
  return { target, partial };
}

/** The header of a matrix's file. */
const npyHeaderBytes = 128;

/** Refuse an output for which the disk has no room. */
function checkSpace(target: string, [m, n]: readonly number[], dtype: MatmulDType): void {
  const { bavail, bsize } = statfsSync(dirname(target));
  const [needed, free] = [npyHeaderBytes + m * n * dtypeInfo(dtype).itemSize, bavail * bsize];
  if (needed <= free) return;
  throw new CommandError(
    `cannot write ${target}: it takes ${formatBytes(needed)}, and the disk has ${formatBytes(free)} free`,
  );
}

/** Bytes of the three files, and what tells of work on them: a bar, or lines in a pipe if that takes long. */
interface FileSizes {
  readonly a: number;
  readonly b: number;
  readonly out: number;
}

/** Files of so many bytes take a while. */
const LARGE_BYTES = 2 ** 28;

/** What tells how far a multiplication is, by the bytes that were read and written before each stage. */
export function stageProgress({ a, b, out }: FileSizes): { begin(stage: MatmulStage): void; end(): void } {
  const total = a + b + out;
  const bar = new ProgressBar(total, { hasLines: total >= LARGE_BYTES });
  const stages: Record<MatmulStage, [text: string, done: number]> = {
    "read A": [`reading A (${formatBytes(a)})`, 0],
    "read B": [`reading B (${formatBytes(b)})`, a],
    "multiply": ["multiplying", a + b],
    "write": [`writing (${formatBytes(out)})`, a + b],
  };
  return { begin: (stage) => bar.update(...stages[stage]), end: () => bar.end() };
}

/** Run the ranks; returns what rank 0 reports. */
async function multiply(
  launcher: Launcher,
  ranks: number,
  place: Place,
  job: MatmulJob,
  sizes: FileSizes,
): Promise<MatmulOutcome> {
  const lines: string[] = [];
  const progress = stageProgress(sizes);
  const { code, isTimedOut, isInterrupted, failure } = await runFiltered(launcher, {
    ranks,
    ...place,
    unfinished: job.out,
    program: denoRun(scriptAddress("commands/matmul_rank.ts"), [JSON.stringify(job)]),
    env: colorVariables(),
    onLine: (_stream, line) => {
      if (line.startsWith(stageMarker)) progress.begin(line.slice(stageMarker.length) as MatmulStage);
      else lines.push(line);
    },
  });
  progress.end();
  if (isInterrupted) throw new CommandError("interrupted; nothing was written", code);
  const report = lines.find((line) => line.startsWith(marker));
  for (const line of lines) if (!line.startsWith(marker)) console.error(line);
  const outcome = report === undefined ? {} : JSON.parse(report.slice(marker.length));
  if (code === 0 && "seconds" in outcome) return outcome;
  const reason = isTimedOut
    ? `it did not end within ${place.timeoutSeconds} s`
    : outcome.error ?? failure ?? `exit code ${code}`;
  const isTold = code === 0 || outcome.error !== undefined;
  throw new CommandError(`the multiplication failed: ${reason}; nothing was written`, isTold ? 1 : code);
}

export async function matmulFiles(args: string[]): Promise<number> {
  const { values, positionals } = parseCommand(args, {
    out: { type: "string" },
    ranks: { type: "string", short: "n", default: "2" },
    "transpose-a": { type: "boolean", default: false },
    "transpose-b": { type: "boolean", default: false },
    alpha: { type: "string", default: "1" },
    distribution: { type: "string", default: "slab-x" },
    order: { type: "string", default: "c" },
    json: { type: "boolean", default: false },
    ...placeOptions,
    mpirun: { type: "string" },
  }, help);
  if (positionals.length !== 2) throw new CommandError("matmul takes two files: matmul A.npy B.npy --out D.npy");
  if (values.out === undefined) throw new CommandError("matmul needs --out FILE for the product");
  if (values.order !== "c" && values.order !== "f") {
    throw new CommandError(`--order takes c or f, not "${values.order}"`);
  }
  const ranks = parseCount(values.ranks, "--ranks");
  const place = parsePlace(values);
  const alpha = parseAlpha(values.alpha);
  const distribution = parseDistribution(values.distribution);
  const [a, b] = positionals.map((path) => inspectInput(userPath(path)));
  const isTransposed = { a: values["transpose-a"], b: values["transpose-b"] };
  const shape = productShape(a, b, isTransposed);
  const out = userPath(values.out);
  const { target, partial } = openOutput(out, [a.path, b.path]);
  try {
    checkSpace(target, shape, a.dtype);
    const launcher = await readyLauncher(values.mpirun);
    const outcome = await multiply(launcher, ranks, place, {
      a: a.path,
      b: b.path,
      out: partial,
      isTransposed,
      alpha,
      distribution,
      order: values.order === "c" ? "C" : "F",
    }, {
      a: Deno.statSync(a.path).size,
      b: Deno.statSync(b.path).size,
      out: npyHeaderBytes + shape[0] * shape[1] * dtypeInfo(a.dtype).itemSize,
    });
    finishOutput(partial, target, out);
    report({ shape, dtype: a.dtype, ranks, out, ...outcome }, values.json);
    return 0;
  } finally {
    removeBeginningWith(partial);
  }
}

/** Give a file the permissions of the one in whose place it will be, where its file system has any. */
function keepMode(partial: string, target: string): void {
  try {
    Deno.chmodSync(partial, Deno.statSync(target).mode! & 0o7777);
  } catch {
    // There is none before.
  }
}

/** Put what the ranks wrote in its place. */
function finishOutput(partial: string, target: string, out: string): void {
  try {
    keepMode(partial, target);
    Deno.renameSync(partial, target);
  } catch (error) {
    throw new CommandError(`cannot write ${out}: ${oneLine(error).replaceAll(partial, dirname(target))}`, 1);
  }
}

/** Remove what an interrupted job may have left: the ranks' own temporary file begins with the name of `partial`. */
function removeBeginningWith(partial: string): void {
  const folder = dirname(partial);
  try {
    for (const { name } of Deno.readDirSync(folder)) {
      if (name.startsWith(basename(partial))) Deno.removeSync(join(folder, name));
    }
  } catch (error) {
    // The folder is gone, and all that was in it.
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

function report(
  result: MatmulOutcome & { shape: number[]; dtype: string; ranks: number; out: string },
  asJson: boolean,
): void {
  if (asJson) {
    console.log(JSON.stringify(result));
    return;
  }
  const { shape, dtype, ranks, out, seconds, gflops, algorithm } = result;
  console.log(
    `${out}: ${shape.join(" x ")} ${dtype}, ${ranks} ${ranks === 1 ? "rank" : "ranks"}, ` +
      `${seconds.toPrecision(3)} s, ${gflops.toPrecision(3)} GFLOP/s, ${algorithm.engine} ${algorithm.algorithm}`,
  );
}
