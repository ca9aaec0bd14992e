/**
 * Products by tile kernels on small integers, whose sums are exact in any order, beside plain loops. A process can play
 * several ranks, each with some of the GPU's multiprocessors, so that more ranks than GPUs are tried.
 */
import { delayStream } from "./delay.ts";
import { fail } from "@std/assert";
import { copyFromDevice, copyOnDevice, copyToDevice } from "../../src/memory/copy.ts";
import { DeviceBuffer } from "../../src/memory/device_buffer.ts";
import { allocateSymmetric, freeSymmetric } from "../../src/memory/symmetric_memory.ts";
import { factorBytes } from "../../src/overlap/executors/tile/configuration.ts";
import { exchangeLayout, padded } from "../../src/overlap/executors/tile/exchange.ts";
import type { TileOperands } from "../../src/overlap/executors/tile/operands.ts";
import { TileProduct } from "../../src/overlap/executors/tile/product.ts";
import { evenParts } from "../../src/overlap/partition.ts";
import type { TileProblem, TileVariant } from "../../src/overlap/tile_order.ts";
import type { Runtime } from "../../src/runtime/runtime.ts";
import { Graph } from "../../src/gpu/graph.ts";
import { RunOrder } from "../../src/gpu/run_order.ts";
import { Stream } from "../../src/gpu/stream.ts";

/** A product of all ranks together: k is that of all of them. */
export interface TileCase extends Omit<TileProblem, "rank" | "size"> {
  /** How it is done. */
  readonly variant: TileVariant;
  /** How many ranks each process plays. */
  readonly ranksPerGpu: number;
  /** How often it runs, with three sets of operands in turn. */
  readonly runs: number;
  /** The most that a rank is late by, at random, in microseconds; of one rank after the other, ten times as much. */
  readonly delay?: number;
  /** Whether a graph repeats it, each fifth run apart. */
  readonly isCaptured?: boolean;
}

const SETS = 3;

/** Small integers that any rank can compute: -1, 0 or 1. */
function element(seed: number, row: number, column: number): number {
  let x = Math.imul(row, 0x9e3779b1) ^ Math.imul(column, 0x85ebca6b) ^ Math.imul(seed + 1, 0xc2b2ae35);
  x = Math.imul(x ^ x >>> 15, 0x2c1b3c6d);
  return ((x ^ x >>> 13) >>> 4) % 3 - 1;
}

function matrix(seed: number, rows: number, columns: number): Float32Array {
  const values = new Float32Array(rows * columns);
  for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) values[i * columns + j] = element(seed, i, j);
  return values;
}

const sums = new Map<string, Float32Array>();

/** The product of two sets' matrices, by plain loops; kept, since cases share extents. */
function product(set: number, m: number, n: number, k: number): { a: Float32Array; b: Float32Array; d: Float32Array } {
  const [a, b] = [matrix(2 * set, m, k), matrix(2 * set + 1, k, n)];
  const key = [set, m, n, k].join();
  let d = sums.get(key);
  if (d === undefined) {
    d = new Float32Array(m * n);
    for (let i = 0; i < m; i++) {
      for (let l = 0; l < k; l++) {
        const x = a[i * k + l];
        if (x === 0) continue;
        for (let j = 0; j < n; j++) d[i * n + j] += x * b[l * n + j];
      }
    }
    sums.set(key, d);
  }
  return { a, b, d };
}

/** The 16 bits of a number that both dtypes have exactly. */
function bitsOf(dtype: TileProblem["dtype"], values: Float32Array): Uint16Array<ArrayBuffer> {
  if (dtype === "float16") return new Uint16Array(Float16Array.from(values).buffer);
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const bits = new Uint16Array(words.length);
  for (let i = 0; i < words.length; i++) bits[i] = words[i] >>> 16;
  return bits;
}

/** One in 8 bits. */
const ONES = { float8_e4m3: 0x38, float8_e5m2: 0x3c } as const;

/** The bytes of -1, 0, 1 and what is no number, as a factor has them. */
function factorBits(type: TileProblem["dtype"] | keyof typeof ONES, values: Float32Array): Uint8Array<ArrayBuffer> {
  if (type === "bfloat16" || type === "float16") return new Uint8Array(bitsOf(type, values).buffer);
  return Uint8Array.from(values, (x) => Number.isNaN(x) ? 0x7f : x === 0 ? 0 : ONES[type] | (x < 0 ? 0x80 : 0));
}

/** A part of a matrix as it lies in memory, with padding after each row or column unless it is dense. */
function layOut(
  whole: Float32Array,
  columns: number,
  [top, bottom, left, right]: readonly number[],
  isRowMajor: boolean,
  isDense: boolean,
  itemSize: number,
): { values: Float32Array; leading: number } {
  const [rows, width] = [bottom - top, right - left];
  const inner = isRowMajor ? width : rows;
  const leading = padded(inner, itemSize) + (isDense ? 0 : 16 / itemSize);
  // What lies between rows is not a number, and must not get into sums.
  const values = new Float32Array((isRowMajor ? rows : width) * leading).fill(NaN);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < width; j++) {
      values[isRowMajor ? i * leading + j : j * leading + i] = whole[(top + i) * columns + left + j];
    }
  }
  return { values, leading };
}

/** The parts of A, B and D that a rank has: first and last row, first and last column. */
function rectanglesOf(problem: TileProblem, kPart: { start: number; end: number }): Record<"a" | "b" | "d", number[]> {
  const { kind, m, n, split, rank, size } = problem;
  const { start, end } = evenParts(split === "rows" ? m : n, size)[rank];
  const [rows, columns] = split === "rows" ? [[start, end], [0, n]] : [[0, m], [start, end]];
  const ks = [kPart.start, kPart.end];
  switch (kind) {
    case "gather":
      return { a: [...rows, ...ks], b: [...ks, ...columns], d: [0, m, 0, n] };
    case "reduce":
      return { a: [0, m, ...ks], b: [...ks, 0, n], d: [...rows, ...columns] };
    default:
      return { a: [0, m, ...ks], b: [...ks, 0, n], d: [0, m, 0, n] };
  }
}

/** Run a case on the ranks of a runtime, and compare every result with plain loops. */
export function checkTileProduct(runtime: Runtime, given: TileCase): void {
  const { kind, dtype, narrow, m, n, k, isRowMajorA, isRowMajorB, split, variant, ranksPerGpu, runs, delay = 0 } =
    given;
  const { isCaptured = false } = given;
  const [typeA, typeB] = narrow ?? [dtype, dtype];
  const size = kind === "plain" ? 1 : runtime.size * ranksPerGpu;
  const kParts = kind === "reduce" || kind === "all_reduce"
    ? evenParts(k, size)
    : Array.from({ length: size }, () => ({ start: 0, end: k }));
  const expected = Array.from({ length: SETS }, (_, set) => product(set, m, n, k));
  const problemOf = (rank: number): TileProblem => {
    const { start, end } = kParts[rank];
    const types = { dtype, ...narrow && { narrow } };
    return { kind, ...types, m, n, k: end - start, isRowMajorA, isRowMajorB, split, rank, size };
  };
  const ranks = Array.from({ length: ranksPerGpu }, (_, i) => kind === "plain" ? 0 : runtime.rank * ranksPerGpu + i);
  const layouts = Array.from({ length: size }, (_, rank) => exchangeLayout(problemOf(rank), variant).bytes);
  const bytes = Math.max(...layouts, 16);
  const symmetric = (size: number) =>
    allocateSymmetric(runtime, () => ({ bytes: size, backend: "nvshmem", makeSymmetric: true, facts: {}, offer: null }))
      .buffer;
  const exchanges = ranks.map(() => symmetric(bytes));
  // D lies where the others can store into it.
  const most = Math.max(m * (n + 16), n * (m + 16)) * 2;
  const results = ranks.map(() => symmetric(most));
  const addressIn = (buffers: typeof exchanges, rank: number) =>
    kind === "plain" ? buffers[0].address : buffers[rank % ranksPerGpu].peerAddress(Math.floor(rank / ranksPerGpu));
  const peers = Array.from({ length: size }, (_, rank) => addressIn(exchanges, rank));
  const peersOfD = Array.from({ length: size }, (_, rank) => addressIn(results, rank));
  const { device } = runtime.stream!;
  const share = Math.floor(120 / ranksPerGpu / 2) * 2;

  const played = ranks.map((rank, i) => {
    const stream = new Stream(device);
    RunOrder.apart(stream);
    const problem = problemOf(rank);
    const rectangles = rectanglesOf(problem, kParts[rank]);
    const upload = (values: Float32Array, type: typeof typeA) => {
      const bits = factorBits(type, values);
      const buffer = new DeviceBuffer(stream, bits.byteLength);
      copyToDevice(buffer.address, bits, stream);
      return buffer;
    };
    // The last one is what a graph knows of, and has those of the others in turn.
    const sets = [...expected, ...isCaptured ? expected.slice(0, 1) : []].map(({ a, b }) => {
      const itemSize = factorBytes(problem);
      const ofA = layOut(a, k, rectangles.a, isRowMajorA, kind === "gather" && split === "rows", itemSize);
      const ofB = layOut(b, n, rectangles.b, isRowMajorB, kind === "gather" && split === "columns", itemSize);
      const [bufferA, bufferB] = [upload(ofA.values, typeA), upload(ofB.values, typeB)];
      return {
        buffers: [bufferA, bufferB],
        a: { address: bufferA.address, leading: ofA.leading },
        b: { address: bufferB.address, leading: ofB.leading },
      };
    });
    const [top, bottom, left, right] = rectangles.d;
    const leading = Math.ceil((right - left) / 8) * 8 + 8;
    const dBytes = (bottom - top) * leading * 2;
    const log = new DeviceBuffer(stream, dBytes * runs);
    const poison = new DeviceBuffer(stream, dBytes);
    copyToDevice(poison.address, new Uint16Array(dBytes / 2).fill(0x7fff), stream);
    const options = ranksPerGpu > 1 ? { blocks: share } : {};
    const product = new TileProduct(stream, problem, variant, peers, options);
    const ofD = { address: results[i].address, leading };
    const execute = ({ a, b }: Pick<TileOperands, "a" | "b">) =>
      product.execute({ a, b, d: ofD, ...kind === "all_reduce" ? { peersOfD } : {} });
    const graph = isCaptured ? Graph.capture({ stream }, () => execute(sets[SETS])) : null;
    return {
      rank,
      stream,
      product,
      sets,
      log,
      poison,
      dBytes,
      leading,
      rectangle: rectangles.d,
      d: results[i].address,
      execute,
      graph,
    };
  });
  for (const { stream } of played) stream.synchronize();
  runtime.communicator.barrier();

  let random = 12345 + runtime.rank;
  const chance = () => (random = Math.imul(random, 1103515245) + 12345 >>> 0) / 2 ** 32;
  for (let run = 0; run < runs; run++) {
    for (const { rank, stream, sets, log, poison, dBytes, d, execute, graph } of played) {
      const set = sets[run % SETS];
      if (graph) {
        set.buffers.forEach(({ address, byteLength }, i) => {
          copyOnDevice(sets[SETS].buffers[i].address, address, byteLength, stream);
        });
      }
      // Others store into D once this rank has begun the run: before, it is this rank's own.
      copyOnDevice(d, poison.address, dBytes, stream);
      const most = run % size === rank ? 10 * delay : delay;
      if (delay > 0) delayStream(stream, chance() * most * 1000);
      if (graph && run % 5 !== 3) graph.launch();
      else execute(set);
      copyOnDevice(log.address + BigInt(run * dBytes), d, dBytes, stream);
    }
  }
  const failures: unknown[] = [];
  for (const { product } of played) {
    try {
      product.check();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
  for (const { stream, log, dBytes, leading, rectangle: [top, bottom, left, right] } of played) {
    const wanted = expected.map(({ d }) => {
      const bits = bitsOf(dtype, d);
      const whole = new Uint16Array(dBytes / 2).fill(0x7fff);
      for (let i = top; i < bottom; i++) {
        whole.set(bits.subarray(i * n + left, i * n + right), (i - top) * leading);
      }
      return whole;
    });
    const found = new Uint16Array(dBytes / 2);
    for (let run = 0; run < runs; run++) {
      copyFromDevice(found, log.address + BigInt(run * dBytes), stream);
      const want = wanted[run % SETS];
      // Minus zero is zero.
      let at = 0;
      while (at < found.length && (found[at] === want[at] || (found[at] | want[at]) === 0x8000)) at++;
      if (at < found.length) {
        const [row, column] = [top + Math.floor(at / leading), left + at % leading];
        fail(
          `found ${found[at].toString(16)}, not ${want[at].toString(16)}, at ${row}, ${column} in run ${run} of ${
            JSON.stringify(given)
          }`,
        );
      }
    }
  }
  runtime.communicator.barrier();
  for (const { stream, product, sets, log, poison, graph } of played) {
    graph?.[Symbol.dispose]();
    for (const { buffers } of sets) buffers.forEach((buffer) => buffer.free());
    log.free();
    poison.free();
    product[Symbol.dispose]();
    stream.synchronize();
  }
  freeSymmetric(runtime, () => [...exchanges, ...results]);
  for (const { stream } of played) stream[Symbol.dispose]();
}
