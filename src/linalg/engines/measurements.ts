/**
 * What `autotune` measured, kept on disk by machine, its ranks, product and versions, so that the next plan of such a
 * product takes the fastest without measuring. Rank 0 reads and writes for all ranks of a communicator.
 *
 * @module
 */
import { digest } from "../../../ffi/digest.ts";
import { cacheFolder, readCached, writeCached } from "../../../ffi/kernel_cache.ts";
import type { Communicator } from "../../mpi/communicator.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { EngineRequest } from "./engine.ts";

/** One measurement. */
export interface Measured {
  /** The engine. */
  readonly engine: string;
  /** Its algorithm. */
  readonly algorithm: string;
  /** The variant of the algorithm, if there are several. */
  readonly variant?: string;
  /** The time of an execution on the slowest rank. */
  readonly seconds: number;
}

/** What the ranks of a communicator know: the same on all of them. */
const known = new WeakMap<Communicator, Map<string, readonly Measured[]>>();

/** What measurements of a request are told apart by, whichever engine and algorithm is asked for: the same on all ranks. */
function keyOf({ problem, epilog, scaling = null, settings = {} }: EngineRequest, size: number): string {
  const { m, n, k, a, b, c, d, operationA, operationB, accumulator, transposed } = problem;
  const matrices = [a, b, c, d].map((matrix) => matrix && [matrix.dtype, placesOf(matrix.distribution, size)]);
  return JSON.stringify([
    m,
    n,
    k,
    size,
    matrices,
    operationA,
    operationB,
    accumulator,
    transposed,
    epilog,
    scaling,
    settings,
  ]);
}

/** A distribution in words, and what each rank has of it. */
function placesOf(distribution: EngineRequest["problem"]["a"]["distribution"], size: number): string {
  return `${distribution} ${Array.from({ length: size }, (_, rank) => distribution.localShape(rank).join("x"))}`;
}

/** What is known of a request; undefined if nobody has looked. Local, and the same on all ranks. */
export function knownOf({ communicator, size }: Runtime, request: EngineRequest): readonly Measured[] | undefined {
  return known.get(communicator)?.get(keyOf(request, size));
}

/** What rank 0's disk has of a request; `versions` are those of the engines. Collective. */
export function lookUp(runtime: Runtime, request: EngineRequest, versions: readonly string[]): readonly Measured[] {
  const { communicator, rank, size } = runtime;
  const key = keyOf(request, size);
  const found = communicator.broadcastObject(rank === 0 ? read(fileOf(runtime, key, versions)) : null) ?? [];
  note(communicator, key, found);
  return found;
}

/** Keep what was measured, the same on all ranks; that rank 0 cannot write it is no error. Local. */
export function keep(
  runtime: Runtime,
  request: EngineRequest,
  versions: readonly string[],
  measured: readonly Measured[],
): void {
  const { communicator, rank, size, device } = runtime;
  const key = keyOf(request, size);
  note(communicator, key, measured);
  if (rank === 0) {
    writeFacts(fileOf(runtime, key, versions), { device: device.name, product: JSON.parse(key), versions, measured });
  }
}

function note(communicator: Communicator, key: string, measured: readonly Measured[]): void {
  const ofCommunicator = known.get(communicator) ?? new Map<string, readonly Measured[]>();
  known.set(communicator, ofCommunicator);
  ofCommunicator.set(key, measured);
}

function fileOf({ device, localSize }: Runtime, key: string, versions: readonly string[]): string | undefined {
  // As many ranks on several machines take other times, and other engines.
  return cachedFile("product", [device.name, String(localSize), key, ...versions]);
}

function read(file: string | undefined): readonly Measured[] | null {
  const { measured } = readFacts(file) as { measured?: unknown } ?? {};
  if (!Array.isArray(measured)) return null;
  const isMeasured = (one: Measured) => typeof one?.engine === "string" && one.seconds > 0;
  return measured.every(isMeasured) ? measured : null;
}

/** A file of the cache, by what its contents depend on; undefined where there is no place for it. */
export function cachedFile(name: string, facts: readonly string[]): string | undefined {
  const folder = cacheFolder();
  return folder && `${folder}/${name}-${digest(facts.join("\0")).slice(0, 32)}.json`;
}

/** What such a file holds; null if there is none, or it may not be read. */
export function readFacts(file: string | undefined): unknown {
  const bytes = file === undefined ? undefined : readCached(file);
  try {
    return bytes === undefined ? null : JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    // Damaged: as if it were not there.
    return null;
  }
}

/** Write such a file, if that is possible: without it the next process goes by the rule. */
export function writeFacts(file: string | undefined, contents: unknown): void {
  if (file !== undefined) writeCached(file, new TextEncoder().encode(`${JSON.stringify(contents, null, 1)}\n`));
}
