/**
 * Joining the job.
 *
 * @module
 */
import { allowedCores, machineCores } from "../../ffi/machine.ts";
import { keepFreedMemory } from "../../ffi/memory.ts";
import { launcher } from "../../ffi/mpi/mod.ts";
import { StateError } from "../errors.ts";
import { describe, keysOf, readOptions } from "../options.ts";
import { agree, alone } from "./agreement.ts";
import { Communicator } from "../mpi/communicator.ts";
import { hasCurrentRuntime, setCurrentRuntime } from "./current.ts";
import { chooseDevice } from "./device_choice.ts";
import { setIfUnset } from "../environment.ts";
import { freeQueued, queuedCount } from "../mpi/collective_free.ts";
import { lookElsewhere, speakersOf } from "../mpi/elsewhere.ts";
import { awaitJoining, beforeMpiEnds, isMpiFinalized, startMpi } from "../mpi/init_finalize.ts";
import { measureNetwork } from "./network.ts";
import { joining } from "./onlooking.ts";
import { Runtime } from "./runtime.ts";
import { bindingWarning, type Placement, threadsOf } from "./threads.ts";
import { changeWaitingLimit, startWatchdog, waitingLimit } from "./watchdog.ts";

/** Options of {@linkcode initialize}. */
export interface InitializeOptions {
  /**
   * What to compute on: `"cpu"`; a GPU by its number among the visible ones; or `"auto"`, the default: what
   * `DISTMATH_DEVICE` says, else the only visible GPU, else the one whose number is this rank's on its machine, else the
   * CPU.
   */
  device?: "auto" | "cpu" | number;
  /**
   * The ranks that take part; all of the job when left out. All of them pass the same one: ranks that pass communicators
   * of different ranks wait for each other.
   */
  communicator?: Communicator;
  /**
   * `"collective"` (the default): preconditions are exchanged once a call, and fail on every rank in the same way.
   * `"local"`: each rank checks for itself, for hot loops. All ranks make the same calls nevertheless: in one of sixteen,
   * executions of plans apart, they exchange a number, to free what `using` has disposed of and all ranks have to free. A call in which they
   * exchange something in any case (`fromLocal`, `saveNpy`, `allocateSymmetricMemory`) frees it at once.
   */
  checks?: "collective" | "local";
  /**
   * End the job, with exit code 124, when a rank waits for longer than this in a call of MPI, NCCL or ScaLAPACK, for its GPU,
   * or for a collective request (`iallReduce`) that it awaits, or asks for in a loop; no limit when left out. A routine of
   * ScaLAPACK, and a wait for a GPU, count as a whole, with what is computed. A request counts from its first second on,
   * again from each call that waits, and 50 ms at most each time that it is asked for; messages that are awaited, and
   * streams and events that are asked whether they are done, have no limit. GPUs whose products wait in kernels of this
   * library wait as long for each other, 8 s at least: then it throws.
   */
  timeoutSeconds?: number;
  /**
   * The number of threads that BLAS uses on each rank. When left out: the cores that the launcher left this rank, divided
   * by the ranks that it left the same ones.
   */
  threads?: number;
}

const INITIALIZE_OPTION_KEYS = keysOf<InitializeOptions>({
  device: true,
  communicator: true,
  checks: true,
  timeoutSeconds: true,
  threads: true,
});

/** Freed memory that a rank keeps for its next arrays. */
const KEPT_BYTES = 2 ** 28;

/**
 * Join the job that the launcher started; without one, be its only rank. Collective over the ranks of the communicator.
 * Ranks on GPUs need no MPI: started by torchrun, or with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, they
 * join by TCP and NCCL.
 * From then on the process keeps up to 256 MiB of freed memory for its next arrays.
 *
 * @throws {ConfigurationError} if MPI is missing or not the launcher's, a GPU does not exist, two ranks would share one,
 * some ranks would compute on GPUs and others on CPUs, or, without MPI, ranks do not come or would compute on CPUs.
 * @throws {StateError} if there is a runtime already, or MPI has ended.
 * @throws {TypeError} or {RangeError} for an option that is none. Each of these is thrown on every rank.
 *
 * @example
 * ```ts
 * import { initialize } from "@distmath/distmath";
 * using runtime = initialize({ device: "cpu", threads: 1 });
 * console.log(`rank ${runtime.rank} of ${runtime.size}`);
 * ```
 */
export function initialize(options: InitializeOptions = {}): Runtime {
  if (isMpiFinalized()) throw new StateError("initialize: MPI was finalized in this process and cannot start again.");
  return joining(() => join(options));
}

function join(options: InitializeOptions): Runtime {
  const asked = communicatorOf(options);
  let given!: InitializeOptions;
  const place = meetingPlace(asked?.communicator);
  if (asked?.communicator === undefined) awaitJoining();
  const agreeThere = () =>
    agree({ communicator: place, checks: "collective" }, "initialize", () => {
      given = readOptions("initialize: options", options, INITIALIZE_OPTION_KEYS, asked);
      const facts = checkOptions(given);
      // Already here: ranks that pass communicators of different ranks wait for each other.
      const limit = given.timeoutSeconds ?? null;
      if (limit !== null) startWatchdog(Communicator.world().rank, limit);
      return facts;
    });
  // That of a runtime before, which has ended.
  const earlier = waitingLimit();
  try {
    agreeThere();
  } catch (error) {
    changeWaitingLimit(earlier);
    throw error;
  } finally {
    if (place !== Communicator.world()) place.free();
  }
  const { communicator = Communicator.world(), checks = "collective", timeoutSeconds = null } = given;
  changeWaitingLimit(timeoutSeconds);
  const { localRank, localSize } = machineOf(communicator);
  const { device, stream } = chooseDevice(communicator, given.device ?? "auto", localRank);
  const placement: Placement = {
    masks: masksOf(communicator),
    rank: communicator.rank,
    localSize,
    cores: navigator.hardwareConcurrency,
  };
  const threads = given.threads ?? threadsOf(placement);
  setThreads(threads);
  keepFreedMemory(KEPT_BYTES);
  arrangeOnce(communicator, localSize);
  const runtime = new Runtime({ communicator, localRank, localSize, device, stream, checks, timeoutSeconds, threads });
  setCurrentRuntime(runtime);
  const warning = bindingWarning(placement, machineCores(), launcher()?.kind === "open_mpi");
  if (warning !== null && given.threads === undefined) runtime.warnOnce("binding", warning);
  return runtime;
}

/** The cores of each rank, gathered as bytes: objects take modules of Node, which take 15 ms to load. */
function masksOf(communicator: Communicator): string[] {
  const mask = allowedCores();
  const all = communicator.allGather(mask);
  return Array.from(
    { length: communicator.size },
    (_, rank) => all.subarray(rank * mask.length, (rank + 1) * mask.length).join(),
  );
}

/** The communicator that options name, which has to be known first; nothing if it cannot be read. */
function communicatorOf(options: InitializeOptions): Pick<InitializeOptions, "communicator"> | undefined {
  try {
    return alone("initialize", () => ({ communicator: options.communicator! }));
  } catch {
    return undefined;
  }
}

/**
 * Where the ranks agree on the options: a communicator of their own for the ranks of the one that these name, which may be
 * freed or another one than that of other ranks; the world if it has all ranks of the job, or they name none.
 */
function meetingPlace(communicator: unknown): Communicator {
  const world = Communicator.world();
  if (!(communicator instanceof Communicator) || communicator.size === world.size) return world;
  return Communicator.ofWorldRanks(communicator.worldRanks);
}

/** Refuse wrong options; the facts are those that all ranks have to share. */
function checkOptions(options: InitializeOptions): Record<string, unknown> {
  const { device = "auto", checks = "collective", timeoutSeconds = null, threads, communicator } = options;
  if (hasCurrentRuntime()) {
    throw new StateError("initialize: there is a runtime already; currentRuntime() returns it.");
  }
  if (communicator !== undefined && !(communicator instanceof Communicator)) {
    throw new TypeError(`initialize: communicator must be a Communicator, not ${describe(communicator)}.`);
  }
  if (communicator?.isFreed) {
    throw new StateError(`initialize: ${communicator} can have no runtime. Pass a communicator that is alive.`);
  }
  if (checks !== "collective" && checks !== "local") {
    throw new TypeError(`initialize: checks is ${describe(checks)}, allowed are "collective" and "local".`);
  }
  if (timeoutSeconds !== null && !(Number.isFinite(timeoutSeconds) && timeoutSeconds > 0)) {
    throw new RangeError(
      `initialize: timeoutSeconds is ${describe(timeoutSeconds)}, it must be a positive number of seconds.`,
    );
  }
  if (threads !== undefined && !(Number.isInteger(threads) && threads >= 1)) {
    throw new RangeError(`initialize: threads is ${describe(threads)}, it must be an integer from 1.`);
  }
  checkDevice(device);
  const { name } = communicator ?? Communicator.world();
  return { communicator: name, device: typeof device === "number" ? "a GPU" : device, checks, timeoutSeconds };
}

function checkDevice(device: unknown): void {
  if (device === "auto" || device === "cpu") return;
  if (typeof device !== "number") {
    throw new TypeError(
      `initialize: device is ${describe(device)}, allowed are "auto", "cpu" and a GPU's number.`,
    );
  }
  if (!Number.isInteger(device) || device < 0) {
    throw new RangeError(`initialize: device is ${device}, a GPU's number is an integer from 0.`);
  }
}

/** This rank's place among the ranks on the same machine; asks MPI where the launcher does not tell. */
function machineOf(communicator: Communicator): { localRank: number; localSize: number } {
  const { rank, size } = Communicator.world();
  if (size === 1) return { localRank: rank, localSize: size };
  const starter = launcher();
  const told = communicator === Communicator.world() ? starter : null;
  if (told?.localRank != null && told.localSize !== null) {
    return { localRank: told.localRank, localSize: told.localSize };
  }
  const shared = communicator.splitShared();
  shared.free();
  return { localRank: told?.localRank ?? shared.rank, localSize: shared.size };
}

const arranged = new WeakSet<Communicator>();

/** What the ranks of a communicator need once, by another one that nobody else knows. */
function arrangeOnce(communicator: Communicator, localSize: number): void {
  if (arranged.has(communicator)) return;
  arranged.add(communicator);
  const own = communicator.size === 1 ? Communicator.self() : communicator.duplicate();
  meetAtEnd(own);
  if (localSize === own.size || startMpi().vendor === "none") return;
  const speakers = speakersOf(own);
  measureNetwork(communicator, own, speakers);
  lookElsewhere(own, speakers);
}

/**
 * Have the ranks free what they have queued before MPI ends, where a rank that comes early waits, and is not taken for one
 * that takes part in what the others do.
 */
function meetAtEnd(own: Communicator): void {
  const free = () => {
    if (own.allReduce(Int32Array.of(queuedCount()), { op: "max" })[0] === 0) return;
    const { errors } = freeQueued(own);
    if (errors.length > 0) throw errors[0];
  };
  beforeMpiEnds(free, "first");
}

/** BLAS libraries read these when they are opened. What the user has set stays. */
const THREAD_VARIABLES = ["OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"];

function setThreads(threads: number): void {
  for (const name of THREAD_VARIABLES) setIfUnset(name, String(threads));
}
