/**
 * Products by cuBLASLt and copy engines on small integers, whose sums are exact in any order, beside plain loops. A process
 * can play several ranks, so that more ranks than GPUs are tried.
 */
import { delayStream } from "./delay.ts";
import { fail } from "@std/assert";
import { CollectiveError, type DType, dtypeInfo, LocalArray, type Runtime, Stream } from "../../mod.ts";
import { CublasComputeType } from "../../ffi/cuda/cublaslt.ts";
import { inMemory } from "../../src/blas/gemm.ts";
import type { AccumulatorDType } from "../../src/dtype/dtype.ts";
import { RunOrder } from "../../src/gpu/run_order.ts";
import { allocateSymmetric, freeSymmetric } from "../../src/memory/symmetric_memory.ts";
import { clearOnDevice, copyToDevice } from "../../src/memory/copy.ts";
import { DeviceBuffer } from "../../src/memory/device_buffer.ts";
import {
  type CopyEngineProblem,
  CopyEngineProduct,
  type CopyEngineVariant,
  exchangeBytes,
} from "../../src/overlap/executors/copy_engine/product.ts";
import {
  type Box,
  made,
  needed,
  owned,
  type Partition,
  partitionOf,
  type PartitionOptions,
} from "../../src/overlap/partition.ts";

/** A product of all ranks together. */
export interface CopyEngineCase extends Omit<PartitionOptions, "size" | "parts" | "fixedParts"> {
  /** How it is done. */
  readonly variant: CopyEngineVariant;
  /** The type of A, B and C. */
  readonly dtype: DType;
  /** The type of D, if it is another. */
  readonly resultType?: DType;
  /** Whether the factors are transposed as they are stored. */
  readonly transposes?: readonly [a: boolean, b: boolean];
  /** Whether C is added, times -2. */
  readonly hasAddend?: boolean;
  /** How many ranks each process plays. */
  readonly ranksPerGpu: number;
  /** How often it runs, with three sets of operands in turn. */
  readonly runs: number;
  /** The most that a rank is late by, at random, in microseconds. */
  readonly delay?: number;
}

const SETS = 3;

type Number = readonly [re: number, im: number];

/** Small integers that any rank can compute. */
function element(seed: number, row: number, column: number, isComplex: boolean): Number {
  let x = Math.imul(row, 0x9e3779b1) ^ Math.imul(column, 0x85ebca6b) ^ Math.imul(seed + 1, 0xc2b2ae35);
  x = Math.imul(x ^ x >>> 15, 0x2c1b3c6d);
  x = (x ^ x >>> 13) >>> 4;
  return [x % 3 - 1, isComplex ? (x >>> 8) % 3 - 1 : 0];
}

/** The elements of a rectangle as `LocalArray.set` takes them. */
function numbers(
  rows: readonly [number, number],
  columns: readonly [number, number],
  isComplex: boolean,
  at: (row: number, column: number) => Number,
): Float64Array<ArrayBuffer> {
  const parts: number[] = [];
  for (let i = rows[0]; i < rows[1]; i++) {
    for (let j = columns[0]; j < columns[1]; j++) parts.push(...at(i, j).slice(0, isComplex ? 2 : 1));
  }
  return Float64Array.from(parts);
}

const side = (box: Box, axis: "m" | "n" | "k"): [number, number] => [box[axis].start, box[axis].end];

/** Run a case on the ranks of a runtime, and compare every result with plain loops. */
export function checkCopyEngineProduct(runtime: Runtime, given: CopyEngineCase): void {
  const { variant, dtype, resultType = dtype, transposes = [false, false], hasAddend = false, ranksPerGpu, runs } =
    given;
  const { delay = 0 } = given;
  const size = runtime.size * ranksPerGpu;
  const partition: Partition = partitionOf({ ...given, size });
  const { isComplex } = dtypeInfo(dtype);
  const isDouble = dtype === "float64" || dtype === "complex128";
  const scaleType: AccumulatorDType = isComplex
    ? isDouble ? "complex128" : "complex64"
    : isDouble
    ? "float64"
    : "float32";
  const addendType = dtypeInfo(resultType).itemSize === 1 ? "bfloat16" : resultType;
  const { m, n, k } = partition.extents;
  const a = (set: number) => (i: number, j: number) => element(2 * set, i, j, isComplex);
  const b = (set: number) => (i: number, j: number) => element(2 * set + 1, i, j, isComplex);
  const c = (i: number, j: number) => element(99, i, j, isComplex);
  const expected = Array.from({ length: SETS }, (_, set) => {
    const [left, right] = [numbers([0, m], [0, k], true, a(set)), numbers([0, k], [0, n], true, b(set))];
    const sums = new Float64Array(2 * m * n);
    for (let i = 0; i < m; i++) {
      for (let l = 0; l < k; l++) {
        const [x, y] = [left[2 * (i * k + l)], left[2 * (i * k + l) + 1]];
        for (let j = 0; j < n; j++) {
          const [u, v] = [right[2 * (l * n + j)], right[2 * (l * n + j) + 1]];
          sums[2 * (i * n + j)] += x * u - y * v;
          sums[2 * (i * n + j) + 1] += x * v + y * u;
        }
      }
    }
    return (i: number, j: number): Number => {
      const [re, im] = hasAddend ? c(i, j) : [0, 0];
      return [sums[2 * (i * n + j)] - 2 * re, sums[2 * (i * n + j) + 1] - 2 * im];
    };
  });
  const operation = (transpose: boolean) => ({ transpose, conjugate: false });
  const { device } = runtime.stream!;
  const one = new DeviceBuffer(runtime.stream!, 16);
  copyToDevice(one.address, Float32Array.of(1, 0, 0, 0), runtime.stream!);
  runtime.stream!.synchronize();
  const isNarrow = dtypeInfo(dtype).itemSize === 1;
  const problemOf = (rank: number): CopyEngineProblem => ({
    partition,
    rank,
    types: { a: dtype, b: dtype, c: addendType, d: resultType },
    sumType: addendType,
    operationA: operation(transposes[0]),
    operationB: operation(transposes[1]),
    computeType: isDouble ? CublasComputeType["64F"] : CublasComputeType["32F"],
    scaleType,
    ...isNarrow && { scales: { a: one.address, b: one.address } },
  });
  const ranks = Array.from({ length: ranksPerGpu }, (_, i) => runtime.rank * ranksPerGpu + i);
  const bytes = exchangeBytes(problemOf(0), variant);
  const exchanges = ranks.map(() =>
    allocateSymmetric(runtime, () => ({ bytes, backend: "nvshmem", makeSymmetric: true, facts: {}, offer: null }))
      .buffer
  );
  const peers = Array.from(
    { length: size },
    (_, rank) => exchanges[rank % ranksPerGpu].peerAddress(Math.floor(rank / ranksPerGpu)),
  );
  const played = ranks.map((rank) => {
    const stream = new Stream(device);
    RunOrder.apart(stream);
    const matrix = (
      type: DType,
      rows: [number, number],
      columns: [number, number],
      isTransposed: boolean,
      at: (row: number, column: number) => Number,
    ) => {
      const [outer, inner] = isTransposed ? [columns, rows] : [rows, columns];
      const local = LocalArray.zeros(type, [outer[1] - outer[0], inner[1] - inner[0]], "F", stream);
      if (local.size > 0) local.set(numbers(outer, inner, isComplex, (i, j) => isTransposed ? at(j, i) : at(i, j)));
      return local;
    };
    const product = new CopyEngineProduct(stream, problemOf(rank), variant, peers);
    const boxOf = (name: "a" | "b") =>
      name === partition.travels ? owned(partition, name, rank) : needed(partition, name, rank);
    const box = partition.travels === "d" ? owned(partition, "d", rank) : made(partition, rank);
    const result = () => matrix(resultType, side(box, "m"), side(box, "n"), false, () => [7, 7]);
    const sets = Array.from({ length: SETS }, (_, set) => ({
      a: matrix(dtype, side(boxOf("a"), "m"), side(boxOf("a"), "k"), transposes[0], a(set)),
      b: matrix(dtype, side(boxOf("b"), "k"), side(boxOf("b"), "n"), transposes[1], b(set)),
      d: result(),
    }));
    const addend = hasAddend ? matrix(addendType, side(box, "m"), side(box, "n"), false, c) : null;
    return { rank, stream, product, sets, addend, box, results: Array.from({ length: runs }, result) };
  });
  // A kernel that is loaded at its first launch waits for all kernels that run, such as those that wait for a rank whose
  // launches come later in this process: so all are launched once, without patience.
  if (ranksPerGpu > 1) {
    for (const { rank, stream, sets: [{ a, b, d }], addend } of played) {
      using hasty = new CopyEngineProduct(stream, problemOf(rank), variant, peers, { patienceSeconds: 1e-3 });
      const [left, right, result] = [a, b, d].map(inMemory);
      hasty.execute({ a: left, b: right, c: addend && inMemory(addend), d: result }, 1, addend ? -2 : 0);
      try {
        hasty.check();
      } catch (error) {
        if (!(error instanceof CollectiveError)) throw error;
      }
    }
    for (const { stream } of played) stream.synchronize();
    runtime.communicator.barrier();
    exchanges.forEach(({ address, byteLength }, i) => clearOnDevice(address, byteLength, played[i].stream));
  }
  for (const { stream } of played) stream.synchronize();
  runtime.communicator.barrier();

  let random = 12345 + runtime.rank;
  const chance = () => (random = Math.imul(random, 1103515245) + 12345 >>> 0) / 2 ** 32;
  for (let run = 0; run < runs; run++) {
    for (const { stream, product, sets, addend, results } of played) {
      if (delay > 0) delayStream(stream, chance() * delay * 1000);
      const { d } = sets[run % SETS];
      const [left, right, target] = [sets[run % SETS].a, sets[run % SETS].b, d].map(inMemory);
      product.execute({ a: left, b: right, c: addend && inMemory(addend), d: target }, 1, addend ? -2 : 0);
      results[run].set(d);
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
  for (const { box, results } of played) {
    results.forEach((result, run) => {
      const wanted = numbers(side(box, "m"), side(box, "n"), isComplex, expected[run % SETS]);
      if (result.size === 0) return;
      const found = result.toNumbers();
      const wrong = wanted.findIndex((value, i) => found[i] !== value && !(found[i] === 0 && value === 0));
      if (wrong < 0) return;
      fail(`found ${found[wrong]}, not ${wanted[wrong]}, at ${wrong} in run ${run} of ${JSON.stringify(given)}`);
    });
  }
  runtime.communicator.barrier();
  for (const { stream, product, sets, addend, results } of played) {
    for (const local of [...sets.flatMap(Object.values<LocalArray>), ...addend ? [addend] : [], ...results]) {
      local.release();
    }
    product[Symbol.dispose]();
    stream.synchronize();
  }
  one.free();
  freeSymmetric(runtime, () => exchanges);
  for (const { stream } of played) stream[Symbol.dispose]();
}
