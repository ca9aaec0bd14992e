/** One rank of the soak: operations one after the other, each drawn from the seed and its number. */
import { libcFunctions } from "../../ffi/memory.ts";
import { Device, initialize, type Runtime } from "../../mod.ts";
import { Draw } from "./draw.ts";
import { countHandles, type LiveHandles } from "./handles.ts";
import { operations } from "./operations.ts";

/** What the ranks are told, as JSON. */
export interface Soak {
  /** What everything follows from. */
  seed: number;
  /** The number of the first operation. */
  first: number;
  /** How many operations there are in both rounds; null for as many as there is time for. */
  operations: number | null;
  /** How long both rounds go on; null until all operations are done. */
  seconds: number | null;
}

/** What this process holds of what, by the words for it: MiB, files, handles of native libraries. */
export type Holdings = Readonly<Record<string, number>>;

/** Fewer operations in a round tell nothing of memory: V8 and malloc still fill up what they have taken. */
const LEAST_FOR_MEMORY = 200;

/** Growth in a round of so many operations that is no leak: pages that V8 and malloc fill up. Handles may not grow at all. */
function allowance(operations: number, ranksOnDevice: number): Holdings {
  const isLong = operations >= LEAST_FOR_MEMORY;
  return {
    "MiB of objects": isLong ? 8 : Infinity,
    "MiB resident": isLong ? Math.min(128, 64 + operations / 50) : Infinity,
    "open files": 4,
    "mapped files of /dev/shm": 2,
    "MiB of its GPU": isLong ? ranksOnDevice * 64 : Infinity,
  };
}

/** How often the ranks look at the time, and rank 0 tells where they are. */
const STRIDE = 25;

/** What is still held after all that nobody refers to has gone, and what malloc keeps of it as well. */
async function holdings(runtime: Runtime, handles: LiveHandles): Promise<Holdings> {
  // What weak references refer to stays until a turn of the event loop ends, and buffers go beside the script.
  for (let round = 0; round < 3; round++) {
    runtime.collect();
    (globalThis as { gc?: () => void }).gc?.();
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  libcFunctions({ malloc_trim: { parameters: ["usize"], result: "i32" } }).malloc_trim(0n);
  const { rss, heapUsed, external } = Deno.memoryUsage();
  const maps = Deno.readTextFileSync("/proc/self/maps").split("\n");
  const onDevice = usedOnDevice(runtime);
  return {
    "MiB of objects": Math.round((heapUsed + external) / 2 ** 20),
    "MiB resident": Math.round(rss / 2 ** 20),
    "open files": [...Deno.readDirSync("/proc/self/fd")].length,
    "mapped files of /dev/shm":
      new Set(maps.filter((line) => line.includes("/dev/shm/")).map((line) => line.split("/dev/shm/")[1])).size,
    ...onDevice > 0 && { "MiB of its GPU": onDevice },
    ...handles.counts(),
  };
}

/** MiB in use of this rank's GPU, by whomever; 0 without one. */
function usedOnDevice({ device, stream }: Runtime): number {
  if (device.kind === "cpu") return 0;
  stream!.synchronize();
  const { freeBytes, totalBytes } = new Device(device.ordinal).memoryInfo();
  return Math.round((totalBytes - freeBytes) / 2 ** 20);
}

/**
 * What grew in a round of so many operations by more than is allowed; null if nothing did. So many ranks are on a GPU, and what
 * is held there is theirs.
 */
export function growth(before: Holdings, after: Holdings, operations: number, ranksOnDevice = 1): string | null {
  const allowed = allowance(operations, ranksOnDevice);
  const grown = Object.keys(after).filter((what) => after[what] - (before[what] ?? 0) > (allowed[what] ?? 0));
  return grown.length === 0 ? null : changes(before, after, grown);
}

function changes(before: Holdings, after: Holdings, names = Object.keys({ ...before, ...after })): string {
  return names.map((what) => `${before[what] ?? 0} to ${after[what] ?? 0} ${what}`).join(", ");
}

function describe(holdings: Holdings): string {
  return Object.entries(holdings).map(([what, amount]) => `${amount} ${what}`).join(", ");
}

/** Run one operation on all ranks; returns what is wrong on any of them. */
function step(runtime: Runtime, folder: string, seed: number, number: number): string | null {
  const draw = new Draw(seed, number);
  const [name, run] = draw.pick(operations);
  const wrong: string[] = [];
  try {
    run({ runtime, draw, folder, report: (text) => text !== null && wrong.push(text) });
  } catch (error) {
    wrong.push(error instanceof Error ? error.stack ?? error.message : String(error));
  }
  const all = runtime.communicator.allGatherObject(wrong[0] ?? null);
  const rank = all.findIndex((text) => text !== null);
  return rank < 0 ? null : `operation ${number}, ${name}, on rank ${rank}: ${all[rank]}`;
}

/**
 * Two rounds of the same operations: whatever is made once, at first use (kernels, communicators, caches), is there after
 * the first one, so that what grows in the second one leaks.
 */
async function soak({ seed, first, operations: count, seconds }: Soak): Promise<void> {
  const handles = countHandles();
  using runtime = initialize({ timeoutSeconds: 120 });
  const { communicator, rank, size } = runtime;
  const folder = communicator.broadcastObject(rank === 0 ? Deno.makeTempDirSync({ prefix: "distmath-soak-" }) : "");
  const started = performance.now();
  const elapsed = () => (performance.now() - started) / 1000;
  const say = (text: string) => rank === 0 && console.log(text);
  let wrong: string | null = null;
  let at = first;
  let done = 0;
  /** Operations from the first one on, until so many are done or so many seconds are over since the start; their number. */
  const round = async (most: number, end: number): Promise<number> => {
    let n = 0;
    const isTimeUp = () => communicator.broadcastObject(elapsed() > end);
    while (wrong === null && n < most && !(n % STRIDE === 0 && isTimeUp())) {
      at = first + n;
      wrong = step(runtime, folder, seed, at);
      n++;
      done++;
      // What weak references refer to stays until a turn of the event loop ends.
      if (done % STRIDE === 0) await new Promise((resolve) => setTimeout(resolve));
      if (done % (40 * STRIDE) === 0) {
        const now = describe(await holdings(runtime, handles));
        say(`${done} operations in ${Math.round(elapsed())} s; rank 0 has ${now}`);
      }
    }
    return n;
  };
  try {
    const drawn = await round(Math.ceil((count ?? Infinity) / 2), (seconds ?? Infinity) / 2);
    const before = await holdings(runtime, handles);
    const again = wrong === null ? await round(Math.min(drawn, (count ?? Infinity) - drawn), seconds ?? Infinity) : 0;
    if (wrong === null && again > 0) {
      const after = await holdings(runtime, handles);
      const onDevice = runtime.device.kind === "gpu" && runtime.device.isShared ? size : 1;
      const all = communicator.allGatherObject({ grown: growth(before, after, again, onDevice), before, after });
      all.forEach(({ before, after }, i) => say(`rank ${i}: ${changes(before, after)}`));
      const grown = all.findIndex((one) => one.grown !== null);
      if (grown >= 0) {
        wrong = `rank ${grown} went from ${all[grown].grown} while it did the same ${again} operations again`;
      }
    }
  } finally {
    if (rank === 0) Deno.removeSync(folder, { recursive: true });
  }
  if (wrong === null) return void say(`${done} operations on ${size} ranks, 0 wrong`);
  say(`wrong: ${wrong}`);
  const isGrowth = wrong.startsWith("rank ");
  const from = isGrowth ? `--operations ${done}` : `--first ${at} --operations 1`;
  say(`again: deno task soak -n ${size} --seed ${seed} ${from}`);
  Deno.exitCode = 1;
}

if (import.meta.main) await soak(JSON.parse(Deno.args[0]));
