/** One rank of the soak: operations one after the other, each drawn from the seed and its number. */
import { libcFunctions } from "../../ffi/memory.ts";
import { Device, initialize, type Runtime } from "../../mod.ts";
import { Draw } from "./draw.ts";
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

/** What this process holds. */
interface Holdings {
  /** MiB that JavaScript's objects and their buffers take. */
  heap: number;
  /** MiB of memory in all. */
  resident: number;
  files: number;
  shared: number;
  /** MiB in use of this rank's GPU, by whomever; 0 without one. */
  device: number;
}

/** Fewer operations in a round tell nothing: V8 and malloc still fill up what they have taken. */
const LEAST_FOR_GROWTH = 200;

/** Growth that is no leak: pages that V8 and malloc fill up in the first ten thousand operations. */
const ALLOWED: Holdings = { heap: 8, resident: 128, files: 4, shared: 2, device: 64 };

/** How often the ranks look at the time, and rank 0 tells where they are. */
const STRIDE = 25;

/** What is still held after all that nobody refers to has gone, and what malloc keeps of it as well. */
async function holdings(runtime: Runtime): Promise<Holdings> {
  // What weak references refer to stays until a turn of the event loop ends, and buffers go beside the script.
  for (let round = 0; round < 3; round++) {
    runtime.collect();
    (globalThis as { gc?: () => void }).gc?.();
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  libcFunctions({ malloc_trim: { parameters: ["usize"], result: "i32" } }).malloc_trim(0n);
  const { rss, heapUsed, external } = Deno.memoryUsage();
  const maps = Deno.readTextFileSync("/proc/self/maps").split("\n");
  return {
    heap: Math.round((heapUsed + external) / 2 ** 20),
    resident: Math.round(rss / 2 ** 20),
    files: [...Deno.readDirSync("/proc/self/fd")].length,
    shared: new Set(maps.filter((line) => line.includes("/dev/shm/")).map((line) => line.split("/dev/shm/")[1])).size,
    device: usedOnDevice(runtime),
  };
}

function usedOnDevice({ device, stream }: Runtime): number {
  if (device.kind === "cpu") return 0;
  stream!.synchronize();
  const { freeBytes, totalBytes } = new Device(device.ordinal).memoryInfo();
  return Math.round((totalBytes - freeBytes) / 2 ** 20);
}

/** What grew by more than is allowed; null if nothing did. So many ranks are on a GPU, and what is held there is theirs. */
export function growth(before: Holdings, after: Holdings, ranksOnDevice = 1): string | null {
  const allowed = { ...ALLOWED, device: ranksOnDevice * ALLOWED.device };
  const names = {
    heap: "MiB of objects",
    resident: "MiB of memory",
    files: "open files",
    shared: "mapped files of /dev/shm",
    device: "MiB of the GPU",
  };
  const grown = (Object.keys(names) as (keyof Holdings)[]).filter((key) => after[key] - before[key] > allowed[key]);
  return grown.length === 0 ? null : grown.map((key) => `${before[key]} to ${after[key]} ${names[key]}`).join(", ");
}

function describe({ heap, resident, files, shared, device }: Holdings): string {
  const onDevice = device > 0 ? `, ${device} MiB of its GPU` : "";
  return `${heap} MiB of objects, ${resident} MiB in all, ${files} open files, ${shared} mapped files of /dev/shm${onDevice}`;
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
        const now = describe(await holdings(runtime));
        say(`${done} operations in ${Math.round(elapsed())} s; rank 0 has ${now}`);
      }
    }
    return n;
  };
  try {
    const drawn = await round(Math.ceil((count ?? Infinity) / 2), (seconds ?? Infinity) / 2);
    const before = await holdings(runtime);
    const again = wrong === null ? await round(Math.min(drawn, (count ?? Infinity) - drawn), seconds ?? Infinity) : 0;
    if (wrong === null && again >= LEAST_FOR_GROWTH) {
      const after = await holdings(runtime);
      const onDevice = runtime.device.kind === "gpu" && runtime.device.isShared ? size : 1;
      const all = communicator.allGatherObject({ grown: growth(before, after, onDevice), before, after });
      all.forEach(({ before, after }, i) =>
        say(
          `rank ${i}: ${before.heap} to ${after.heap} MiB of objects, ${before.resident} to ${after.resident} MiB in all, ` +
            `${before.files} to ${after.files} open files, ${before.shared} to ${after.shared} mapped files of /dev/shm` +
            (after.device > 0 ? `, ${before.device} to ${after.device} MiB of its GPU` : ""),
        )
      );
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
