/** Rounds of making and freeing, and what they leave behind. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { assert, fail } from "@std/assert";
import { libcFunctions } from "../../ffi/memory.ts";
import { liveAllocations } from "../../internals.ts";
import { MemoryPool, type Runtime } from "../../mod.ts";

/** Each round uses about this much on each rank. */
export const ROUND_BYTES = 2 ** 18;

/** What the memory of the host may grow by: a fifth of what so many rounds use, or what garbage collection is apart by. */
const hostBound = (rounds: number) => Math.max(2 ** 24, rounds * ROUND_BYTES / 5);

const isMock = ({ device }: Runtime) => device.name === "Mock GPU";

const { malloc_trim } = libcFunctions({ malloc_trim: { parameters: ["usize"], result: "i32" } });

/** Collect garbage and give back freed memory, so that only what is held counts: what finalizers let go of, too. */
async function collectGarbage(): Promise<void> {
  setFlagsFromString("--expose-gc");
  for (let i = 0; i < 3; i++) {
    runInNewContext("gc")();
    await nextTurn();
  }
  malloc_trim(0n);
}

const nextTurn = () => new Promise((resolve) => setTimeout(resolve, 0));

/** The number of rounds: fewer where a processor plays a GPU, or ranks share cores. */
function roundsFor(runtime: Runtime, wanted: number): number {
  if (isMock(runtime)) return 30;
  return runtime.stream || runtime.size <= 2 ? wanted : Math.ceil(wanted / 10);
}

/** Bytes in use: of the host by this process, of the GPU's pool, and of the GPU as a whole. */
function used({ stream }: Runtime): { host: number; pool: number; device: number } {
  const host = Deno.memoryUsage().rss;
  if (stream === null) return { host, pool: 0, device: 0 };
  stream.synchronize();
  using pool = new MemoryPool(stream.device);
  const { freeBytes, totalBytes } = stream.device.memoryInfo();
  return { host, pool: pool.usedBytes, device: totalBytes - freeBytes };
}

/** How often the rounds are run again while the host's memory grows: a leak grows every time, the heap's noise does not. */
const PERIODS = 4;

/**
 * Run a round often, and compare what is in use before and after: nothing that is counted may be left, and the host's
 * memory may not grow by much in every period.
 */
export async function checkRounds(
  runtime: Runtime,
  name: string,
  wanted: number,
  round: (i: number) => void,
): Promise<void> {
  const rounds = roundsFor(runtime, wanted);
  // Plans, pools and compiled code settle first. What is dropped is collected between the rounds.
  const run = async (count: number) => {
    for (let i = 0; i < count; i++) {
      round(i);
      if (i % 50 === 49) await nextTurn();
    }
    runtime.collect();
    await collectGarbage();
  };
  await run(Math.max(10, rounds / 5));
  const live = liveAllocations().length;
  for (let period = 1; period <= PERIODS; period++) {
    const before = used(runtime);
    await run(rounds);
    const after = used(runtime);
    // The ranks judge together, as rounds are collective: by the rank that holds most.
    const most = (value: number) => runtime.communicator.allReduceObject(value, Math.max);
    const grown = {
      live: most(liveAllocations().length - live),
      host: most(after.host - before.host),
      pool: most(after.pool - before.pool),
      device: most(after.device - before.device),
    };
    const text =
      `${name}, ${rounds} rounds: host ${(grown.host / 2 ** 20).toFixed(1)} MiB, pool ${grown.pool} bytes, ` +
      `device ${(grown.device / 2 ** 20).toFixed(1)} MiB more in use`;
    if (runtime.rank === 0) console.log(`\n${text}`);
    // What earlier tests have dropped may be collected meanwhile.
    assert(grown.live <= 0 && grown.pool <= 0, text);
    // Other processes may use the GPU, but not much.
    assert(grown.device < 2 ** 26, text);
    if (grown.host < hostBound(rounds)) return;
  }
  fail(`${name}: the host's memory grew by ${hostBound(rounds) / 2 ** 20} MiB or more in each of ${PERIODS} periods`);
}
