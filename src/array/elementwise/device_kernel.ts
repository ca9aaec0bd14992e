/**
 * Elementwise operations and reductions on GPUs: for each expression, dtypes and layout one kernel, compiled by NVRTC at its
 * first use and kept on disk. All operations of an expression are in it, so that elements are read and written once.
 *
 * @module
 */
import { dtypeInfo, type Scalar, type TypedArray } from "../../dtype/dtype.ts";
import { Program } from "../../gpu/kernels/program.ts";
import type { Stream } from "../../gpu/stream.ts";
import { copyFromDevice, copyToDevice } from "../../memory/copy.ts";
import { DeviceBuffer, type DeviceMemory } from "../../memory/device_buffer.ts";
import { recordSpan } from "../../runtime/recorder.ts";
import {
  elementwiseSource,
  MERGE_WIDTH,
  type Nest,
  reductionSource,
  sizeOfNest,
  THREADS,
  UNROLL,
} from "./device_source.ts";
import { type Accumulation, type Elements, isOnDevice, type Loop, loopsOf, numbersOf, type Part } from "./loops.ts";
import type { ElementProgram } from "./expression.ts";
import { refuseNegative } from "./helpers.ts";

/** The most blocks that are worth having: threads loop over the rest. */
const MOST_BLOCKS = 65536;

const programs = new Map<string, Program>();

function programOf(source: string): Program {
  let program = programs.get(source);
  if (program === undefined) {
    program = new Program("expression", source);
    programs.set(source, program);
  }
  return program;
}

/** The extents and strides of a nest in a kernel's argument. */
function wordsOf({ loops }: Nest): bigint[] {
  return [...loops.map(({ extent }) => extent), ...loops.flatMap(({ strides }) => strides)].map(BigInt);
}

/** The numbers of the script in a kernel's argument. */
function numberWords(program: ElementProgram, operands: readonly Part[]): (bigint | number)[] {
  const scalars = operands.map((operand): Scalar | null => "scalar" in operand ? operand.scalar : null);
  const numbers = numbersOf(program, scalars);
  return program.parameters
    .flatMap(({ dtype }) => Array.from({ length: dtypeInfo(dtype).parts }, () => dtypeInfo(dtype).isInteger))
    .map((isInteger, i) => isInteger ? BigInt(numbers[i]) : numbers[i]);
}

const arraysOf = (operands: readonly Part[]): (Elements | null)[] =>
  operands.map((operand) => "scalar" in operand ? null : operand);

/** Arrays whose memory is a GPU's: what lies in the host's is brought there until `free`. */
function onDevice(arrays: readonly (Elements | null)[], stream: Stream) {
  const uploads: DeviceBuffer[] = [];
  const addresses = arrays.map((array) => {
    if (array === null) return 0n;
    const skipped = BigInt(array.offset * dtypeInfo(array.dtype).itemSize);
    if (isOnDevice(array)) {
      stream.wait(array.storage.stream);
      return array.storage.address + skipped;
    }
    const data = array.storage as TypedArray;
    const buffer = new DeviceBuffer(stream, data.byteLength);
    uploads.push(buffer);
    copyToDevice(buffer.address, data, stream);
    return buffer.address + skipped;
  });
  return { addresses, free: () => uploads.forEach((buffer) => buffer.free()) };
}

/** Run what may refuse a value of integers, and throw what it then says. */
function withRefusal(program: ElementProgram, stream: Stream, launch: (refused: bigint) => void): void {
  if (!program.mayThrow) return launch(0n);
  using word = new DeviceBuffer(stream, 8);
  const exponent = new BigInt64Array(1);
  copyToDevice(word.address, exponent, stream);
  launch(word.address);
  copyFromDevice(exponent, word.address, stream);
  if (exponent[0] !== 0n) refuseNegative(exponent[0]);
}

/**
 * Get ready to compute all elements of a target on its GPU. What this returns does so; it takes no memory, unless it may
 * refuse a value.
 */
export function prepareOnDevice(
  program: ElementProgram,
  operands: readonly Part[],
  target: Elements,
  shape: readonly number[],
): () => void {
  if (shape.includes(0) || !isOnDevice(target)) return () => {};
  const { stream } = target.storage;
  const arrays = [...arraysOf(operands), target];
  const nest: Nest = { loops: loopsOf(shape, arrays, operands.length).reverse(), name: "k" };
  const count = sizeOfNest(nest);
  const dtypes = arrays.map((array) => array?.dtype ?? null);
  const source = elementwiseSource({ program, dtypes, nest });
  const kernels = programOf(source);
  kernels.function("elementwise", stream.device);
  const { addresses, free } = onDevice(arrays, stream);
  const rest = [...addresses, ...wordsOf(nest), ...numberWords(program, operands)];
  const blocks = Math.min(MOST_BLOCKS, Math.ceil(count / (THREADS * UNROLL)));
  return () => {
    withRefusal(program, stream, (refused) => {
      recordSpan(stream, { kind: "compute", label: `kernel over ${shape.join(" x ")}` }, () => {
        kernels.launch("elementwise", stream, blocks, [BigInt(count), refused, ...rest], THREADS);
      });
    });
    free();
  };
}

/** So many blocks keep a GPU busy. */
const ENOUGH_BLOCKS = 1024;

/** At least so many values a thread are worth a division among more blocks. */
const WORTH_A_BLOCK = 8;

const powerAbove = (n: number): number => 2 ** Math.ceil(Math.log2(Math.max(1, n)));

/** Threads that share a result have at least so many values each, if there are results enough to keep a GPU busy. */
const WORTH_A_THREAD = 32;

/** How the threads of a block stand: so many results side by side, and whether neighbours share one. */
function standing(kept: Nest, reduced: Nest, leading: number): { width: number; isShared: boolean } {
  const [results, length] = [sizeOfNest(kept), sizeOfNest(reduced)];
  const innermost = ({ loops }: Nest) =>
    Math.min(Infinity, ...loops.map(({ strides }) => strides[leading]).filter((stride) => stride > 0));
  // Neighbours reach for neighbours in memory.
  const isShared = innermost(reduced) < innermost(kept);
  const isMany = results >= THREADS * ENOUGH_BLOCKS / 32;
  const sharing = Math.min(THREADS, powerAbove(isMany ? Math.ceil(length / WORTH_A_THREAD) : length));
  const alone = THREADS / sharing;
  return { width: Math.min(powerAbove(results), isShared ? alone : Math.max(32, alone)), isShared };
}

/**
 * Have accumulators take in every value of a program on a GPU. They are float64 or int64, and end in the targets: all in host
 * memory, or all in the GPU's. The order in which values are taken in depends on the shape alone.
 */
export function accumulateOnDevice(
  program: ElementProgram,
  operands: readonly Part[],
  targets: readonly Elements[],
  shape: readonly number[],
  accumulation: Accumulation,
  stream: Stream,
): void {
  const { start } = accumulation;
  const hosts = targets.flatMap((target) => isOnDevice(target) ? [] : [target.storage as Float64Array<ArrayBuffer>]);
  hosts.forEach((host, i) => host.fill(start[i] as number));
  if (shape.includes(0)) {
    if (hosts.length === 0) throw new RangeError("Nothing is accumulated in a GPU's memory.");
    return;
  }
  const own = operands.length;
  const inputs = arraysOf(operands);
  const leading = inputs.findIndex((array) => array !== null);
  const loops = loopsOf(shape, [...inputs, targets[0]], leading).reverse();
  const nestOf = (name: string, isIn: (loop: Loop) => boolean): Nest => ({ loops: loops.filter(isIn), name });
  const kept = nestOf("k", ({ strides }) => strides[own] > 0);
  const reduced = nestOf("r", ({ strides }) => strides[own] === 0);
  const [results, length] = [sizeOfNest(kept), sizeOfNest(reduced)];
  const size = hosts.length > 0 ? hosts[0].length : targets[0].storage.byteLength / 8;
  const { width, isShared } = standing(kept, reduced, leading);
  const tiles = Math.ceil(results / width);
  const worth = Math.floor(length / (THREADS / width * WORTH_A_BLOCK));
  const splits = Math.max(1, Math.min(Math.ceil(ENOUGH_BLOCKS / tiles), worth));
  const dtypes = [...inputs.map((array) => array?.dtype ?? null), targets[0].dtype];
  const kernels = programOf(reductionSource({ program, dtypes, kept, reduced, width, isShared, accumulation }));
  // One after the other, so that one copy brings them to the host.
  const block = (count: number) => new DeviceBuffer(stream, targets.length * count * 8);
  const placed = ({ address }: DeviceBuffer, count: number) => targets.map((_, i) => address + BigInt(8 * i * count));
  const made = hosts.length > 0 ? block(size) : null;
  const found = made === null ? targets.map((target) => (target.storage as DeviceMemory).address) : placed(made, size);
  const shares = splits > 1 ? block(splits * size) : null;
  const { addresses, free } = onDevice([...inputs, null], stream);
  withRefusal(program, stream, (refused) => {
    const argument = [
      ...[results, length, splits, size].map(BigInt),
      refused,
      ...addresses,
      ...shares === null ? found : placed(shares, splits * size),
      ...found,
      ...start,
      ...wordsOf(kept),
      ...wordsOf(reduced),
      ...numberWords(program, operands),
    ];
    recordSpan(stream, { kind: "compute", label: `reduction over ${shape.join(" x ")}` }, () => {
      kernels.launch("reduce", stream, Math.min(MOST_BLOCKS, tiles * splits), argument, THREADS);
      if (splits === 1) return;
      kernels.launch("merge", stream, Math.min(MOST_BLOCKS, Math.ceil(size / MERGE_WIDTH)), argument, THREADS);
    });
  });
  shares?.free();
  free();
  if (made === null) return;
  const bytes = new Uint8Array(made.byteLength);
  copyFromDevice(bytes, made.address, stream);
  hosts.forEach((host, i) => {
    new Uint8Array(host.buffer, host.byteOffset, host.byteLength).set(bytes.subarray(8 * i * size, 8 * (i + 1) * size));
  });
  made.free();
}
