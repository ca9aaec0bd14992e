/**
 * Arrays of scales as cuBLASMp reads them: each rank's part in memory of its own, laid out as cuBLASLt wants it.
 *
 * A factor of an 8-bit product is stored with k along its rows. Its scales on a rank are those of its local part, with
 * s counting blocks along k and c columns or blocks of columns:
 *
 * | mode | element (s, c) lies at |
 * |---|---|
 * | `outer_vector` | c |
 * | `vector_128` | s * columns + c |
 * | `block_128x128` | s + c * (blocks along k, rounded up to 4) |
 *
 * For GEMM+ReduceScatter the columns of B are as many pieces as there are ranks, each with scales that lie so.
 *
 * @module
 */
import type { DistributedArray } from "../../../array/distributed_array.ts";
import { LocalArray } from "../../../array/local_array.ts";
import type { Scratch } from "../../../array/redistribution/gpu_executor.ts";
import { Redistributor } from "../../../array/redistribution/redistributor.ts";
import { type Distribution, type Range, Replicated } from "../../../distribution/mod.ts";
import { clearOnDevice } from "../../../memory/copy.ts";
import { DeviceBuffer } from "../../../memory/device_buffer.ts";
import { CublasMpMatmulMatrixScale } from "../../../../ffi/cuda/cublasmp.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { SCALE_BLOCK, type ScaleMode } from "../../matmul/quantization.ts";
import type { GivenMatrix } from "./paths.ts";
import { KeptArray } from "../kept_array.ts";
import { divided, isInPlace, splitAlong } from "../../matrix_division.ts";

/** `cublasMpMatmulMatrixScale_t` of each mode. */
export const SCALE_MODE_CODES: Readonly<Record<ScaleMode, number>> = {
  tensor: CublasMpMatmulMatrixScale.SCALAR_FP32,
  outer_vector: CublasMpMatmulMatrixScale.OUTER_VEC_FP32,
  vector_128: CublasMpMatmulMatrixScale.VEC128_FP32,
  block_128x128: CublasMpMatmulMatrixScale.BLK128x128_FP32,
};

/** Modes whose arrays of scales are a table: all but `tensor`. */
export type ScaleArrayMode = Exclude<ScaleMode, "tensor">;

/** Rows and columns of a factor that share a scale; null for all of them. */
const SHARED: Readonly<Record<ScaleArrayMode, readonly [rows: number | null, columns: number]>> = {
  outer_vector: [null, 1],
  vector_128: [SCALE_BLOCK, 1],
  block_128x128: [SCALE_BLOCK, SCALE_BLOCK],
};

function countOf(extent: number, shared: number | null): number {
  return shared === null ? 1 : Math.ceil(extent / shared);
}

/** Where the scales of a rank's part lie. */
export interface ScaleLayout {
  readonly rows: number;
  readonly columns: number;
  /** The distance of neighbouring rows and columns of a piece, in scales. */
  readonly strides: readonly [number, number];
  /** The number of pieces side by side. */
  readonly pieces: number;
  /** The distance of pieces, in scales. */
  readonly pieceLength: number;
}

/** The layout for a local part of so many rows and columns, padding included. Pure. */
export function scaleLayout(mode: ScaleArrayMode, [m, n]: readonly [number, number], pieces: number): ScaleLayout {
  const [perRow, perColumn] = SHARED[mode];
  const [rows, columns] = [countOf(m, perRow), countOf(Math.ceil(n / pieces), perColumn)];
  const roundUp = (count: number) => Math.ceil(count / 4) * 4;
  const isColumnMajor = mode === "block_128x128";
  const strides = isColumnMajor ? [1, roundUp(rows)] as const : [roundUp(columns), 1] as const;
  return { rows, columns, strides, pieces, pieceLength: isColumnMajor ? columns * strides[1] : rows * strides[0] };
}

/** How the scales of a matrix must be distributed for each rank to have those of its part. Pure. */
export function scaleDistribution(mode: ScaleArrayMode, { distribution, grid }: GivenMatrix): Distribution {
  const shared = SHARED[mode];
  const [rows, columns] = distribution.globalShape!.map((extent, d) => countOf(extent, shared[d]));
  const size = distribution.size!;
  const along = grid.rows > 1 ? 0 : 1;
  const block = shared[along];
  if (size === 1 || block === null) return Replicated.bind([rows, columns], size);
  const ranges = splitAlong(distribution, along)!.map(([start, end]): Range =>
    start === end ? [0, 0] : [start / block, Math.ceil(end / block)]
  );
  const whole = Replicated.bind([rows, columns], size);
  return divided({ rows, columns, distribution: whole, dtype: "float32" }, along, ranges);
}

/** The scales of one factor on this rank. */
export class ScaleTensor {
  readonly #runtime: Runtime;
  readonly #given: GivenMatrix;
  readonly #scratch: Scratch;
  readonly #memory: DeviceBuffer;
  readonly #target: Distribution;
  readonly #pieces: readonly LocalArray[];
  /** Copies of scales on the host, and of those that lay elsewhere. */
  readonly #near: KeptArray;
  readonly #moved: KeptArray;
  #source: Distribution | null = null;
  #redistributor: Redistributor | null = null;

  /** Memory for the scales of a factor, in so many pieces. */
  constructor(runtime: Runtime, mode: ScaleArrayMode, given: GivenMatrix, pieces: number, scratch: Scratch) {
    const { rank, stream } = runtime;
    const [m, n] = given.padded ?? given.distribution.localShape(rank);
    const { rows, columns, strides, pieceLength } = scaleLayout(mode, [m, n], pieces);
    const memory = new DeviceBuffer(stream!, Math.max(1, pieces * pieceLength) * 4);
    clearOnDevice(memory.address, memory.byteLength, stream!);
    this.#runtime = runtime;
    this.#scratch = scratch;
    this.#near = new KeptArray(stream!);
    this.#moved = new KeptArray(stream!);
    this.#given = given;
    this.#memory = memory;
    this.#target = scaleDistribution(mode, given);
    this.#pieces = Array.from(
      { length: pieces },
      (_, i) =>
        new LocalArray({ data: memory, dtype: "float32", shape: [rows, columns], strides, offset: i * pieceLength }),
    );
  }

  get address(): bigint {
    return this.#memory.address;
  }

  /** Bytes that it keeps, without the scratch memory. */
  get byteLength(): number {
    const held = [this.#memory, this.#near, this.#moved, this.#redistributor];
    return held.reduce((sum, memory) => sum + (memory?.byteLength ?? 0), 0);
  }

  /**
   * Get ready to copy scales that have the rows and columns of the stored factor. Local. Returns what copies them, which
   * is collective if they lie elsewhere.
   */
  prepare(stored: DistributedArray): () => void {
    const { distribution, local, order } = this.#given.isTransposed ? stored.transpose() : stored;
    const near = local.isOnDevice ? local : this.#near.of(local, order);
    if (isInPlace(distribution, this.#target)) return () => this.#fill(near);
    const moved = this.#moved.have("float32", this.#target.localShape(this.#runtime.rank), order);
    const move = this.#redistributorFrom(distribution).prepare(near, moved, order);
    return () => {
      move();
      this.#fill(moved);
    };
  }

  /** Planned again only for scales that lie elsewhere than the last ones. */
  #redistributorFrom(distribution: Distribution): Redistributor {
    if (this.#source === null || !isInPlace(this.#source, distribution)) {
      this.#redistributor?.free();
      this.#redistributor = new Redistributor(this.#runtime, distribution, this.#target, { scratch: this.#scratch });
      this.#source = distribution;
    }
    return this.#redistributor!;
  }

  #fill(local: LocalArray): void {
    const [rows, columns] = local.shape;
    for (const [i, piece] of this.#pieces.entries()) {
      const start = i * piece.shape[1];
      const shape = [rows, Math.max(0, Math.min(piece.shape[1], columns - start))];
      if (!shape.includes(0)) piece.slice([0, 0], shape).set(local.slice([0, start], shape));
    }
  }

  /** Give the memory back. */
  free(): void {
    for (const memory of [this.#memory, this.#near, this.#moved, this.#redistributor]) memory?.free();
  }
}
