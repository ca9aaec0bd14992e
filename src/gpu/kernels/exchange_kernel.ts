/**
 * How GPUs of one machine exchange little: one kernel that waits until each of the others can be written to, or has written,
 * copies between layouts, and tells them.
 *
 * @module
 */
import { CudaDeviceAttribute } from "../../../ffi/cuda/runtime.ts";
import type { Device } from "../device.ts";
import type { Stream } from "../stream.ts";
import { COPY_WAYS, copyFunctions, type CopyWords, MOST_AXES } from "./copy_kernels.ts";
import { type Mark, MARK_WORDS, type MeetingLimit, note, waiting } from "./meeting_kernel.ts";
import { Program, type Words } from "./program.ts";

/** How many copies one launch makes at most: more do not fit into what a kernel can be given. */
export const MOST_LANES = 9;

/** How many marks are raised first, and awaited in the end. */
const MOST_MARKS = MOST_LANES - 1;

/** On each multiprocessor: enough to fill a link, and few enough to leave half of it to other work while they wait. */
const MOST_BLOCKS_OF_EACH = 2;

const SOURCE = `
${waiting}
struct Lane { Copy copy; i64 way, counter; Mark raised, awaited; };
struct Exchange {
  i64 first, firstBlocks, rest, restBlocks, turns, ended, raises, waits, cycles, failure;
  Mark raised[${MOST_MARKS}], awaited[${MOST_MARKS}];
  Lane lane[${MOST_LANES}];
};

// The how many-th of so many this is that come here.
__device__ i64 arrive(i64 counter, i64 count) {
  if (count == 1) return 0;
  i64 before = atomicAdd((unsigned long long*)counter, 1ULL);
  if (before + 1 == count) *(volatile i64*)counter = 0;
  return before;
}

// Blocks take turns at the lanes in the order in which they begin, those of the first lanes before all others. Who waits keeps
// nobody from coming: the first lanes wait for kernels that came before, or the first block of others; the rest for the first
// lanes, also of other ranks, all of which somebody has taken by then.
extern "C" __global__ void exchange(const Exchange p) {
  __shared__ i64 turn;
  if (threadIdx.x == 0) {
    turn = arrive(p.turns, gridDim.x);
    if (turn == 0) raise_all(p.raised, p.raises);
  }
  __syncthreads();
  bool isFirst = turn < p.first * p.firstBlocks;
  i64 index = isFirst ? turn : turn - p.first * p.firstBlocks, lanes = isFirst ? p.first : p.rest;
  const Lane& lane = p.lane[index % lanes + (isFirst ? 0 : p.first)];
  i64 block = index / lanes, blocks = isFirst ? p.firstBlocks : p.restBlocks;
  if (threadIdx.x == 0 && lane.awaited.address) await_all(&lane.awaited, 1, p.cycles, p.failure);
  __syncthreads();
  if (lane.way == ${COPY_WAYS.across}) across(lane.copy, block, blocks);
  else if (lane.way == ${COPY_WAYS.rows}) by_rows(lane.copy, block, blocks);
  else along(lane.copy, block, blocks);
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x != 0 || arrive(lane.counter, blocks) + 1 < blocks) return;
  if (lane.raised.address) raise_all(&lane.raised, 1);
  lanes = p.first + p.rest;
  if (p.waits && arrive(p.ended, lanes) + 1 == lanes) await_all(p.awaited, p.waits, p.cycles, p.failure);
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
const HEAD_WORDS = 10;
const FIRST_LANE = HEAD_WORDS + 2 * MOST_MARKS * MARK_WORDS;

/** Put an exchange on a stream: of each lane what it does this time. */
export type Exchange = (
  stream: Stream,
  turns: readonly LaneTurn[],
  marks: ExchangeMarks,
  limit: MeetingLimit,
) => void;

/** Memory as that in which a lane counts its blocks. */
export interface ExchangeCounters {
  /** For blocks that have begun. */
  readonly turns: bigint;
  /** For lanes that have ended. */
  readonly ended: bigint;
}

/** How many blocks each of some lanes gets, which together are not more than `most`. */
function blocksOf(lanes: readonly ExchangeLane[], most: number): number {
  const wanted = Math.max(1, ...lanes.map(({ copy }) => copy.blocks));
  return Math.max(1, Math.min(wanted, Math.floor(most / lanes.length)));
}

/**
 * Have an exchange of at most {@linkcode MOST_LANES} lanes ready, all in units of the same size. Others than the `first` ones
 * may wait for what these do, here and on other ranks.
 */
export function prepareExchange(
  device: Device,
  lanes: readonly ExchangeLane[],
  first: number,
  { turns, ended }: ExchangeCounters,
): Exchange {
  const all = lanes.flatMap(({ copy, counter }): Words => [
    ...copy.words,
    ...new Array<bigint>(COPY_WORDS - copy.words.length).fill(0n),
    COPY_WAYS[copy.way],
    counter,
    ...new Array<bigint>(2 * MARK_WORDS).fill(0n),
  ]);
  const zeros = (count: number) => new Array<bigint>(count).fill(0n);
  const most = MOST_BLOCKS_OF_EACH * device.attribute(CudaDeviceAttribute.MultiProcessorCount);
  const groups = [lanes.slice(0, first), lanes.slice(first)].map((group) =>
    [group.length, blocksOf(group, most)] as const
  );
  const head = [...groups.flat().map(BigInt), turns, ended];
  const blocks = groups.reduce((sum, [lanes, blocks]) => sum + lanes * blocks, 0);
  const program = programOf(lanes[0].copy.unitBytes);
  const { words, put } = program.prepare("exchange", device, blocks, [
    ...head,
    ...zeros(FIRST_LANE - head.length),
    ...all,
    ...zeros((MOST_LANES - lanes.length) * LANE_WORDS),
  ]);
  const starts = lanes.map(({ copy }) => [copy.words[0], copy.words[1]] as const);
  return (stream, turns, { raised, awaited }, { cycles, failure }) => {
    words[6] = BigInt(raised.length);
    words[7] = BigInt(awaited.length);
    words[8] = cycles;
    words[9] = failure;
    raised.forEach((mark, i) => note(words, HEAD_WORDS + i * MARK_WORDS, mark));
    awaited.forEach((mark, i) => note(words, HEAD_WORDS + (MOST_MARKS + i) * MARK_WORDS, mark));
    turns.forEach((turn, i) => {
      const at = FIRST_LANE + i * LANE_WORDS;
      words[at] = starts[i][0] + turn.sourceShift;
      words[at + 1] = starts[i][1] + turn.targetShift;
      note(words, at + COPY_WORDS + 2, turn.raised);
      note(words, at + COPY_WORDS + 2 + MARK_WORDS, turn.awaited);
    });
    put(stream);
  };
}
