/**
 * Starting and ending MPI in this process.
 *
 * MPI starts once, at the first `Communicator.world()` or `initialize()`, and ends once: by `finalizeMpi()`, or when the
 * process ends normally ("unload"). With an exit code other than 0 the whole job is aborted instead, since a rank that
 * waits in MPI_Finalize for ranks that wait elsewhere hangs for ever. All this happens in one thread, and not in a Worker:
 * no event tells a worker that the process ends. At an uncaught error "unload" does not fire: the process exits with
 * code 1, and the launcher ends the other ranks; Hydra is asked to, and before MPI starts other launchers need help, too.
 * A rank that ends well while others wait for it ends the job as well.
 *
 * @module
 */
import { environment } from "../../ffi/library.ts";
import { endsRank, isBelow, isStartedByRank } from "../../ffi/mpi/ancestors.ts";
import { prepareEarlyEnd } from "../../ffi/mpi/early_end.ts";
import { endFunctions } from "../../ffi/mpi/functions.ts";
import { hydraSocket } from "../../ffi/mpi/hydra.ts";
import { endProcess, sayAtExit, tellEnd, withdrawEnd, withdrawWords } from "../../ffi/mpi/last_words.ts";
import { removeByLauncher } from "../../ffi/mpi/launcher_cleanup.ts";
import {
  checkMpi,
  type Handle,
  howToStart,
  type Launcher,
  launcher,
  type Mpi,
  openMpi,
  openMpiRelease,
} from "../../ffi/mpi/mod.ts";
import { joinedPresence, joinPresence, joinPresenceAt, type Presence, presenceAlone } from "../../ffi/mpi/presence.ts";
import { PRESENT } from "../../ffi/mpi/presence_page.ts";
import { tellIfKilled } from "../../ffi/mpi/killed_rank.ts";
import { makeSegmentFolder, SEGMENT_SETTINGS } from "../../ffi/mpi/segment_folder.ts";
import { MPICH_NAMES, removeMpichNames } from "../../ffi/mpi/mpich_names.ts";
import { publishWaits } from "../../ffi/mpi/waits.ts";
import { libcFunctions } from "../../ffi/memory.ts";
import { taskCommand } from "../../ffi/task_command.ts";
import { endWithParent, isMainThread, writeImmediately } from "../../ffi/process.ts";
import { noteWaiting } from "../../ffi/waiting.ts";
import { ConfigurationError, StateError } from "../errors.ts";
import { setIfUnset } from "../environment.ts";
import { describe } from "../options.ts";
import { type Elsewhere, leaveBeforeStart, leftBeforeStart, waitForOthers, waitWhileFailing } from "./departure.ts";

let started: Mpi | undefined;
let isFinalized = false;
const beforeEnd: Record<"first" | "then", (() => void)[]> = { first: [], then: [] };

const isWorker = "DedicatedWorkerGlobalScope" in globalThis;

// A worker's failures are reported to the main thread.
if (!isWorker) {
  for (const event of ["error", "unhandledrejection"]) {
    globalThis.addEventListener(event, (about) => {
      prepareFailure(1, "an uncaught error");
      queueMicrotask(() => about.defaultPrevented && withdrawEnd());
    });
  }
  globalThis.addEventListener("unload", endBeforeStart);
}

/** See to it that the job ends when this process does, by what and with which code: the script may still handle an error. */
function prepareFailure(code: number, how: string): void {
  try {
    // Whoever started it may handle that.
    if (started === undefined && isStartedByRank()) return;
    sayAtExit(code, how, isFinalized);
    if (started === undefined) prepareEarlyEnd();
  } catch {
    // Without --allow-ffi there is no MPI either. The error to see is the one that brought us here.
  }
}

/** See to it that the job ends when this process, which the launcher may not know yet, fails, or leaves others waiting. */
function endBeforeStart(): void {
  if (started !== undefined) return;
  if (Deno.exitCode === 0) return leaveWithoutStart();
  prepareFailure(processCode(Deno.exitCode), EXIT);
}

function leaveWithoutStart(): void {
  withdrawWords();
  if ((launcher()?.size ?? 1) === 1) return;
  try {
    if (!isMainThread() || !endsRank()) return;
  } catch {
    return;
  }
  const presence = joinPresence();
  const line = presence && leaveBeforeStart(launcher()!.rank, presence);
  if (line === null) return;
  writeImmediately(line);
  prepareFailure(1, "it left while others waited for it");
  Deno.exit(1);
}

/** The MPI of this process, started at the first call. */
export function startMpi(): Mpi {
  return started ?? start();
}

function start(): Mpi {
  if (isWorker) {
    throw new StateError(
      "MPI cannot be used in a Worker, which does not learn that the process ends, when MPI has to end as well. Use " +
        "communicators, initialize() and arrays in the main script, and post to the worker what it needs.",
    );
  }
  const mpi = openMpi();
  const { symbols, constants } = mpi;
  const flag = new Int32Array(1);
  symbols.MPI_Finalized(flag);
  if (flag[0] !== 0) {
    throw new StateError("MPI was finalized in this process and cannot start again; start a new process.");
  }
  symbols.MPI_Initialized(flag);
  if (flag[0] === 0) {
    if (mpi.vendor === "open_mpi") {
      // Open MPI 5's PMIx wants shared memory at an address of the launcher's choice, where V8 sometimes has its own. That
      // of Open MPI 4 does not, and has ranks of other languages, which use it, find nothing.
      if (openMpiRelease(mpi.version) !== 4) {
        setIfUnset("PMIX_MCA_gds", "hash");
        // Slurm offers munge first, which the PMIx of wheels has not: it prints an error, and takes the other one.
        if (environment("PMIX_SECURITY_MODE") === "munge,native") setIfUnset("PMIX_MCA_psec", "native");
      }
      // Windows are in shared memory; the component for UCX prints errors where there is no UCX.
      setIfUnset("OMPI_MCA_osc", "^ucx");
      // With it sums of 8 and 16 bits stop at their limits, but for some of the last ones, which go beyond as all others do.
      setIfUnset("OMPI_MCA_op", "^avx");
      // Looking for the networks of libfabric costs a second, and ranks of one host need none.
      if (isOnOneHost(launcher())) setIfUnset("OMPI_MCA_btl", "^ofi");
      // Ranks that lose the connection to one that is killed would end the job before the launcher has heard which one it is.
      else setIfUnset("OMPI_MCA_mpi_abort_delay", "1");
    }
    refuseSecondProcess();
    // Hydra's proxy, once dead, ends nobody, and its ranks would wait for ever.
    if (hydraSocket() !== null) endWithParent();
    const known = joinPresence();
    if (known !== null) {
      announceStart(known);
      waitWhileFailing(known);
      // MPI_Init would wait for them all the same, without a word. Who comes late on other machines is not known.
      if (!known.isSeen && !(known.isWhole && known.waitForArrivals(ARRIVAL_MILLISECONDS))) lookOn(known, "late");
    }
    const folder = mpi.vendor === "open_mpi" ? shareInOwnFolder() : null;
    checkMpi(symbols.MPI_Init_thread(0n, 0n, constants.threadSerialized, flag), "MPI_Init_thread");
    // Jobs that the script starts would have theirs there, too, and may outlive it.
    for (const name of SEGMENT_SETTINGS) if (folder !== null && environment(name) === folder) Deno.env.delete(name);
    if (folder !== null) removeByLauncher(folder, openMpiRelease(mpi.version));
    const place = mpi.place();
    const presence = place === null ? known : joinPresenceAt(place);
    // Nobody works, fails or leaves before all are to be seen there.
    if (mpi.vendor === "none") checkMpi(symbols.MPI_Barrier(constants.world), "MPI_Barrier");
    if (presence !== null) {
      announceWaits(mpi, presence);
      if (!presence.isSeen) presence.atNextWait = () => lookOn(presence, "call");
    }
    tellHowKilled(presence);
    if (presence?.countStart() && mpi.vendor === "mpich") removeMpichNames(libcFunctions(MPICH_NAMES));
    globalThis.addEventListener("unload", endWithProcess);
  } else refuseOtherThread(mpi);
  for (const communicator of [constants.world, constants.self]) {
    checkMpi(symbols.MPI_Comm_set_errhandler(communicator, constants.errorsReturn), "MPI_Comm_set_errhandler");
  }
  refuseSingleton(mpi);
  tellIfAlone(mpi);
  globalThis.addEventListener(MPI_HAS_ENDED, noteEnd);
  return started = mpi;
}

/** The event by which all copies of this library in the process learn of the end; its name stays, for copies of other versions. */
const MPI_HAS_ENDED = "distmath-mpi-has-ended";

function noteEnd(): void {
  isFinalized = true;
  for (const others of elsewhere) others.end();
  endFunctions(started!.symbols, () => {
    throw new StateError("MPI was finalized; no communicator or array can be used any more.");
  });
}

/** Where a rank leaves the number of its process to those that it starts, which get its launcher's variables as well. */
const RANK_PROCESS = "DISTMATH_RANK_PROCESS";

/** @throws {StateError} if this process was started by one that is this rank: MPI_Init would wait for ever. */
function refuseSecondProcess(): void {
  const place = launcher();
  if (place === null) return;
  const process = Number(environment(RANK_PROCESS));
  if (process > 0 && isBelow(process)) {
    throw new StateError(
      `This process was started by rank ${place.rank}, process ${process}, whose variables tell it that it is that rank: MPI, which ` +
        `starts once in a rank, would wait for ever. Start it with the option clearEnv: true of Deno.Command to have it ` +
        `run alone, or by ${taskCommand("run")} for ranks of its own.`,
    );
  }
  Deno.env.set(RANK_PROCESS, String(Deno.pid));
}

/** Have jobs that run at the same time not share memory with each other, unless the user has a place for it. */
function shareInOwnFolder(): string | null {
  if ((launcher()?.size ?? 1) === 1 || SEGMENT_SETTINGS.some((name) => environment(name) !== undefined)) return null;
  const folder = makeSegmentFolder();
  for (const name of SEGMENT_SETTINGS) if (folder !== null) setIfUnset(name, folder);
  return folder;
}

/** Whether all ranks run on this host, as far as the launcher tells. */
function isOnOneHost(starter: Launcher | null): boolean {
  return starter === null || starter.localSize === starter.size;
}

/** Refuse a second thread, whose modules are others: both would call MPI at the same time. */
function refuseOtherThread({ symbols }: Mpi): void {
  const flag = new Int32Array(1);
  checkMpi(symbols.MPI_Is_thread_main(flag), "MPI_Is_thread_main");
  if (flag[0] !== 0) return;
  throw new StateError(
    "MPI was started by another thread of this process, and one thread only can use it. Use it where it was started; " +
      "test files that use MPI are run one a process, or without --parallel.",
  );
}

function announceStart(presence: Presence): void {
  presence.startAt();
  const left = leftBeforeStart(presence);
  if (left.length === 0) return;
  presence.setState(PRESENT.HERE);
  const ranks = `${left.length === 1 ? "rank" : "ranks"} ${left.join(", ")}`;
  throw new StateError(
    `MPI cannot start: ${ranks} ended with exit code 0 before starting it, and MPI_Init would wait for ever. ` +
      "Have every rank call initialize(), or none.",
    { ranks: left },
  );
}

/** Under Hydra, whose words do not say which rank was killed; the command that sees the presence does. */
function tellHowKilled(presence: Presence | null): void {
  if (hydraSocket() === null || presence?.isSeen) return;
  const { rank, size } = launcher()!;
  if (size > 1) tellIfKilled(rank, presence?.otherProcesses() ?? []);
}

function announceWaits(mpi: Mpi, presence: Presence): void {
  presence.setState(PRESENT.HERE);
  const { symbols, constants } = mpi;
  const rank = new Int32Array(1);
  const rankIn = (communicator: Handle) =>
    communicator !== constants.nullCommunicator && symbols.MPI_Comm_rank(communicator, rank) === 0 ? rank[0] : null;
  publishWaits(presence, { handle: constants.world, rank: rankIn(constants.world)! }, constants, rankIn);
}

/** Ranks that are started together come within this time of each other. */
const ARRIVAL_MILLISECONDS = 500;

/** What a rank is about to wait for: ranks that may come late, or those of a call. */
type Wait = "late" | "call";

let lookOn = (_presence: Presence, _wait: Wait) => {};

/** Have something called at each wait of this rank until it is withdrawn, where no command looks on. */
export function atNextWait(action: (presence: Presence, wait: Wait) => void): void {
  lookOn = action;
}

/** Have one look on if other ranks of this machine come late to a runtime of all ranks. MPI has started. */
export function awaitJoining(): void {
  const presence = joinedPresence();
  if (presence === null || presence.isSeen) return;
  if (!presence.waitForJoining(ARRIVAL_MILLISECONDS)) lookOn(presence, "late");
}

let alone: Presence | undefined;

/** Where this rank tells of its waits: for the others of its machine, or, from now on, for its own threads. */
export function presenceHere(): Presence | null {
  const joined = joinedPresence();
  if (joined !== null || started === undefined) return joined;
  if (alone === undefined) {
    const [size, rank] = [new Int32Array(1), new Int32Array(1)];
    started.symbols.MPI_Comm_size(started.constants.world, size);
    started.symbols.MPI_Comm_rank(started.constants.world, rank);
    alone = presenceAlone(rank[0], size[0]);
    announceWaits(started, alone);
  }
  return alone;
}

function worldSize({ symbols, constants }: Mpi): number {
  const size = new Int32Array(1);
  checkMpi(symbols.MPI_Comm_size(constants.world, size), "MPI_Comm_size");
  return size[0];
}

/** Somebody who forgot the launcher learns of it; MPI starts once. */
function tellIfAlone(mpi: Mpi): void {
  if (launcher() !== null || worldSize(mpi) !== 1) return;
  const command = taskCommand("run -n 4 script.ts");
  console.warn(`distmath: no launcher started this process: it is the only rank. For 4: ${command}`);
}

/** Refuse a job in which each process is rank 0 of 1, because MPI does not know the launcher. */
function refuseSingleton(mpi: Mpi): void {
  const starter = launcher();
  if (starter === null || starter.size === 1 || worldSize(mpi) !== 1) return;
  throw new ConfigurationError(
    `The launcher started ${starter.size} ranks, but MPI (${mpi.version}, ${mpi.path}, ${mpi.source}) sees only 1, ` +
      `so that every process would be alone. ${howToStart(mpi)}`,
  );
}

/** Whether somebody else in this process, such as another copy of this library, has ended MPI. */
function isFinalizedElsewhere(): boolean {
  const flag = new Int32Array(1);
  started?.symbols.MPI_Finalized(flag);
  return flag[0] !== 0;
}

/** Whether MPI has ended in this process. */
export function isMpiFinalized(): boolean {
  return isFinalized;
}

/** Have something looked at just before MPI ends: first of all, or then; what was asked for last comes first. */
export function beforeMpiEnds(action: () => void, when: "first" | "then" = "then"): void {
  beforeEnd[when].push(action);
}

/** MPI_Finalize, at most once. Collective over all ranks of the job. */
export function finalizeMpi(): void {
  if (!started || isFinalized) return;
  const presence = joinedPresence();
  if (presence !== null) presence.atNextWait = null;
  waitToLeave(started);
  for (const action of [...beforeEnd.then, ...beforeEnd.first].reverse()) action();
  isFinalized = true;
  withdrawWords();
  const code = started.symbols.MPI_Finalize();
  dispatchEvent(new Event(MPI_HAS_ENDED));
  if (code !== 0) throw started.failure() ?? new StateError(`MPI_Finalize returned ${code}.`);
}

// A time limit on waiting is one on this, too.
const departure = { waitForOthers };
noteWaiting(departure, { waitForOthers: "MPI_Finalize" });

const elsewhere: Elsewhere[] = [];

/** Have ranks of other machines told when this one leaves, and waited for if this one is told of theirs. */
export function leaveWith(others: Elsewhere): void {
  elsewhere.push(others);
}

/** Let the others come to their end as well; the job ends if one of them waits for this rank in vain. */
function waitToLeave(mpi: Mpi): void {
  for (const others of elsewhere) others.leave();
  const presence = joinedPresence();
  const line = presence &&
    departure.waitForOthers(mpi, launcher()!.rank, presence, writeImmediately, elsewhere);
  presence?.removeName();
  if (line === null) return elsewhere.forEach((others) => others.settle());
  writeImmediately(line);
  abort(1, "it left while others waited for it");
}

/** How long a launcher gets to read what this rank has printed: MPICH's stops reading when a rank aborts. */
const LAST_WORDS_MILLISECONDS = 500;

/** How long the launcher gets to end this process with the others. */
const ABORT_MILLISECONDS = 1000;

/** End the job: every rank of it, with this exit code. Does not return. */
export function abortJob(code: number): never {
  if (!Number.isInteger(code)) throw new TypeError(`abort: the exit code must be an integer, not ${describe(code)}.`);
  startMpi();
  return abort(processCode(code), "abort()");
}

/** What ends a process with an exit code other than 0 and no error. */
const EXIT = "Deno.exit or Deno.exitCode";

/** A process has 8 bits for its code: 256 would be a success. */
function processCode(code: number): number {
  return code & 255 || 1;
}

function abort(code: number, how: string): never {
  const pause = (milliseconds: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
  withdrawWords();
  tellEnd(code, how);
  removeMpichNames(libcFunctions(MPICH_NAMES), joinedPresence()?.otherProcesses());
  pause(LAST_WORDS_MILLISECONDS);
  const { symbols, constants } = openMpi();
  symbols.MPI_Abort(constants.world, code);
  // MPICH's returns when it has asked the launcher to end all processes, which at times overlooks it, but not an end.
  pause(ABORT_MILLISECONDS);
  return endProcess(code);
}

function endWithProcess(): void {
  const code = Deno.exitCode;
  if (isFinalized || isFinalizedElsewhere()) {
    // Of an error that somebody has handled.
    if (code === 0) withdrawWords();
    return;
  }
  if (code === 0) finalizeMpi();
  else abort(processCode(code), EXIT);
}
