/**
 * How GPUs of one machine tell each other how far they are: a kernel of one thread that raises a number in the memory of
 * another GPU, and waits for one in its own.
 *
 * @module
 */
import type { Stream } from "../stream.ts";
import { type PreparedLaunch, Program } from "./program.ts";

const SOURCE = `
typedef long long i64;

struct Meeting { i64 raised, value, awaited, least, cycles, failure, peer; };

// Numbers only grow. A rank that does not come is an error, never a GPU that waits for ever.
extern "C" __global__ void meet(const Meeting p) {
  if (p.raised) {
    __threadfence_system();
    *(volatile i64*)p.raised = p.value;
  }
  if (!p.awaited) return;
  i64 start = clock64();
  while (*(volatile i64*)p.awaited < p.least) {
    __nanosleep(50);
    if (clock64() - start < p.cycles) continue;
    *(volatile i64*)p.failure = p.peer + 1;
    __threadfence_system();
    __trap();
  }
  __threadfence_system();
}
`;

/** The source, for tests that compile it without a GPU. */
export const meetingKernelSource: string = SOURCE;

const program = new Program("meeting", SOURCE);

/** A number in the memory of a GPU, and the value that it gets, or that it has at least. */
export interface Mark {
  /** Where it lies, 8 bytes. */
  readonly address: bigint;
  /** The value. */
  readonly value: bigint;
}

/** How long is waited, and where it is noted for whom in vain. */
export interface Patience {
  /** Cycles of the GPU. */
  readonly cycles: bigint;
  /** Pinned memory of the host, 8 bytes: 0, or one more than the rank that did not come. */
  readonly failure: bigint;
}

/** By the number of the GPU. */
const launches = new Map<number, PreparedLaunch>();

function launchOn({ device }: Stream): PreparedLaunch {
  const known = launches.get(device.ordinal);
  if (known !== undefined) return known;
  const made = program.prepare("meet", device, 1, new Array<bigint>(7).fill(0n), 1);
  launches.set(device.ordinal, made);
  return made;
}

/** Put it on a stream: raise one mark if there is one, then wait for another if there is one. */
export function meet(
  stream: Stream,
  raised: Mark | null,
  awaited: Mark | null,
  peer: number,
  patience: Patience,
): void {
  if (raised === null && awaited === null) return;
  const launch = launchOn(stream);
  const { words } = launch;
  words[0] = raised?.address ?? 0n;
  words[1] = raised?.value ?? 0n;
  words[2] = awaited?.address ?? 0n;
  words[3] = awaited?.value ?? 0n;
  words[4] = patience.cycles;
  words[5] = patience.failure;
  words[6] = BigInt(peer);
  launch.put(stream);
}
