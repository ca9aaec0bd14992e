/** Rounds of making and freeing, and what they leave behind. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { assert } from "@std/assert";
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

/**
 * Run a round often, and compare what is in use before and after: nothing that is counted may be left, and the host's
 * memory may grow by little.
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
  const before = used(runtime);
  await run(rounds);
  const after = used(runtime);
  const grown = {
    host: after.host - before.host,
    pool: after.pool - before.pool,
    device: after.device - before.device,
  };
  const text = `${name}, ${rounds} rounds: host ${(grown.host / 2 ** 20).toFixed(1)} MiB, pool ${grown.pool} bytes, ` +
    `device ${(grown.device / 2 ** 20).toFixed(1)} MiB more in use`;
  if (runtime.rank === 0) console.log(`\n${text}`);
  // What earlier tests have dropped may be collected meanwhile.
  assert(liveAllocations().length <= live && grown.pool <= 0, text);
  assert(grown.host < hostBound(rounds), text);
  // Other processes may use the GPU, but not much.
  assert(grown.device < 2 ** 26, text);
}
