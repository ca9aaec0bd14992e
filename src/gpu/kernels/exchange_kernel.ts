/**
 * How GPUs of one machine exchange little: one kernel that waits until each of the others can be written to, or has written,
 * copies between layouts, and tells them.
 *
 * @module
 */
import type { Device } from "../device.ts";
import type { Stream } from "../stream.ts";
import { COPY_WAYS, copyFunctions, type CopyWords, MOST_AXES } from "./copy_kernels.ts";
import { type Mark, MARK_WORDS, type MeetingLimit, note, waiting } from "./meeting_kernel.ts";
import { Program, type Words } from "./program.ts";

/** How many copies one launch makes at most: one for each of 8 ranks fits into what a kernel can be given, and what stays. */
export const MOST_LANES = 9;

/** How many marks are raised first, and awaited in the end. */
const MOST_MARKS = MOST_LANES - 1;

/** As many blocks fill a link; more would only take the place of other work while they wait. */
const MOST_BLOCKS = 528;

const SOURCE = `
${waiting}
struct Lane { Copy copy; i64 way, counter; Mark raised, awaited; };
struct Exchange {
  i64 lanes, counter, raises, waits, cycles, failure;
  Mark raised[${MOST_MARKS}], awaited[${MOST_MARKS}];
  Lane lane[${MOST_LANES}];
};

// Whether this thread's block is the last of so many that come here.
__device__ bool is_last(i64 counter, i64 blocks) {
  if (atomicAdd((unsigned long long*)counter, 1ULL) + 1 < (unsigned long long)blocks) return false;
  *(volatile i64*)counter = 0;
  return true;
}

// Blocks take turns at the lanes. Who waits keeps nobody from coming: blocks that have no room yet only begin later, and what
// they wait for is raised by kernels that came before, or by the first block.
extern "C" __global__ void exchange(const Exchange p) {
  const Lane& lane = p.lane[blockIdx.x % p.lanes];
  i64 block = blockIdx.x / p.lanes, blocks = gridDim.x / p.lanes;
  if (threadIdx.x == 0) {
    if (blockIdx.x == 0) raise_all(p.raised, p.raises);
    if (lane.awaited.address) await_all(&lane.awaited, 1, p.cycles, p.failure);
  }
  __syncthreads();
  if (lane.way == ${COPY_WAYS.across}) across(lane.copy, block, blocks);
  else if (lane.way == ${COPY_WAYS.rows}) by_rows(lane.copy, block, blocks);
  else along(lane.copy, block, blocks);
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x != 0 || !is_last(lane.counter, blocks)) return;
  if (lane.raised.address) raise_all(&lane.raised, 1);
  if (p.waits && is_last(p.counter, p.lanes)) await_all(p.awaited, p.waits, p.cycles, p.failure);
}
`;

const sourceOf = (itemSize: number): string => copyFunctions(itemSize) + SOURCE;

/** A source, for tests that compile it without a GPU. */
export const exchangeKernelSource: string = sourceOf(16);

const programs = new Map<number, Program>();

function programOf(itemSize: number): Program {
  let program = programs.get(itemSize);
  if (program === undefined) programs.set(itemSize, program = new Program(`exchanges_${itemSize}`, sourceOf(itemSize)));
  return program;
}

/** What a lane copies, and 8 bytes of the GPU's memory, 0 before and after, in which its blocks are counted. */
export interface ExchangeLane {
  readonly copy: CopyWords;
  readonly counter: bigint;
}

/** What a lane does this time. */
export interface LaneTurn {
  /** Awaited before it copies. */
  readonly awaited: Mark | null;
  /** Raised afterwards. */
  readonly raised: Mark | null;
  /** How many bytes further on the source begins, and the target. */
  readonly sourceShift: bigint;
  readonly targetShift: bigint;
}

/** What is raised before all lanes, and awaited after them. */
export interface ExchangeMarks {
  readonly raised: readonly Mark[];
  readonly awaited: readonly Mark[];
}

const COPY_WORDS = 4 + 4 * MOST_AXES;
const LANE_WORDS = COPY_WORDS + 2 + 2 * MARK_WORDS;
const HEAD_WORDS = 6;
const FIRST_LANE = HEAD_WORDS + 2 * MOST_MARKS * MARK_WORDS;

/** Put an exchange on a stream: of each lane what it does this time. */
export type Exchange = (
  stream: Stream,
  turns: readonly LaneTurn[],
  marks: ExchangeMarks,
  limit: MeetingLimit,
) => void;

/**
 * Have an exchange of at most {@linkcode MOST_LANES} lanes ready, all in units of the same size. In `counter`, 8 bytes as
 * those of a lane, lanes are counted.
 */
export function prepareExchange(device: Device, lanes: readonly ExchangeLane[], counter: bigint): Exchange {
  const all = lanes.flatMap(({ copy, counter }): Words => [
    ...copy.words,
    ...new Array<bigint>(COPY_WORDS - copy.words.length).fill(0n),
    COPY_WAYS[copy.way],
    counter,
    ...new Array<bigint>(2 * MARK_WORDS).fill(0n),
  ]);
  const rest = new Array<bigint>(FIRST_LANE - 2 + (MOST_LANES - lanes.length) * LANE_WORDS).fill(0n);
  const head = [BigInt(lanes.length), counter, ...rest.splice(0, FIRST_LANE - 2)];
  const wanted = Math.max(...lanes.map(({ copy }) => copy.blocks));
  const blocks = Math.max(1, Math.min(wanted, Math.floor(MOST_BLOCKS / lanes.length))) * lanes.length;
  const program = programOf(lanes[0].copy.unitBytes);
  const launch = program.prepare("exchange", device, blocks, [...head, ...all, ...rest]);
  const { words } = launch;
  const starts = lanes.map(({ copy }) => [copy.words[0], copy.words[1]] as const);
  return (stream, turns, { raised, awaited }, { cycles, failure }) => {
    words[2] = BigInt(raised.length);
    words[3] = BigInt(awaited.length);
    words[4] = cycles;
    words[5] = failure;
    raised.forEach((mark, i) => note(words, HEAD_WORDS + i * MARK_WORDS, mark));
    awaited.forEach((mark, i) => note(words, HEAD_WORDS + (MOST_MARKS + i) * MARK_WORDS, mark));
    turns.forEach((turn, i) => {
      const at = FIRST_LANE + i * LANE_WORDS;
      words[at] = starts[i][0] + turn.sourceShift;
      words[at + 1] = starts[i][1] + turn.targetShift;
      note(words, at + COPY_WORDS + 2, turn.raised);
      note(words, at + COPY_WORDS + 2 + MARK_WORDS, turn.awaited);
    });
    launch.put(stream);
  };
}
