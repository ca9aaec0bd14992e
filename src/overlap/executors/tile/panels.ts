/**
 * Partial sums that copy engines push: the kernel stores tiles for other ranks beside it and counts them, and copies wait
 * until a panel of them is complete. Copy engines send faster than a kernel's own stores, which slow its loads besides.
 *
 * @module
 */
import {
  checkCudaDriver,
  CU_STREAM_BATCH_MEM_OP_PARAMS as OPERATION,
  CuStreamBatchMemOpType,
  CuStreamWaitValueFlags,
  CuStreamWriteValueFlags,
  openCudaDriver,
} from "../../../../ffi/cuda/driver.ts";
import { checkCuda, CudaMemcpyKind, openCudaRuntime } from "../../../../ffi/cuda/runtime.ts";
import { createStruct } from "../../../../ffi/struct.ts";
import { DeviceBuffer } from "../../../memory/device_buffer.ts";
import { Stream } from "../../../gpu/stream.ts";
import { others } from "../../partition.ts";
import { spotsByRank, type TileProblem, type TileVariant } from "../../tile_order.ts";
import { CHUNK, CHUNK_BYTES } from "./configuration.ts";

/** Where a receiver has this rank's partial sums, and their flags; and where this rank counts them. */
export interface Destination {
  /** The first counter; those of panels follow each other. Not in a pool's memory, which streams cannot wait for. */
  readonly counters: bigint;
  /** Where the data begins, by the parity of the run. */
  readonly data: readonly [bigint, bigint];
  /** The first flag; the flags of panels follow each other. */
  readonly flags: bigint;
}

/** One push: a panel for a rank. */
interface Push {
  readonly peer: number;
  readonly from: bigint;
  readonly to: bigint;
  readonly bytes: bigint;
  /** Waits until the kernel has counted all of it. */
  readonly wait: MemoryOperation;
  /** Tells the rank that it is there. */
  readonly raise: MemoryOperation;
}

/** What a stream does with a word in memory: its value is the number of the run, so many times. */
interface MemoryOperation {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly times: number;
}

/** Has a stream do some operations in memory, with the values of a run. */
type PutOperations = (run: number, stream: Stream) => void;

/**
 * The panels of a product on one rank. Memory takes turns by the parity of the run: a run on this rank ends once it has
 * what all others sent in it, which they do after they had all of this rank's run before.
 */
export class Panels implements Disposable {
  /** Halves of tiles in a panel. */
  readonly halves: number;
  readonly #stream: Stream;
  readonly #memory: DeviceBuffer;
  readonly #dataBytes: number;
  readonly #slots: ReadonlyMap<number, number>;
  /** By the parity of the run, in the order of the list of tiles: panel after panel, each for one rank after the other. */
  readonly #pushes: readonly (readonly Push[])[];
  /** By the parity of the run: what comes before each push, and after the last one. */
  readonly #between: readonly (readonly PutOperations[])[];

  /** `panel` is how many tiles make one, `dataBytes` what a rank's partial sums take. */
  constructor(
    stream: Stream,
    problem: TileProblem,
    variant: TileVariant,
    panel: number,
    dataBytes: number,
    destinationOf: (peer: number) => Destination,
  ) {
    const { rank, size } = problem;
    const { cluster, columns } = variant.shape;
    const peers = others(rank, size);
    const tiles = spotsByRank(problem, variant).map(({ length }) => length);
    const halfBytes = columns / CHUNK * CHUNK_BYTES;
    this.halves = panel * cluster * 2;
    this.#dataBytes = dataBytes;
    this.#slots = new Map(peers.map((peer, slot) => [peer, slot]));
    this.#memory = new DeviceBuffer(stream, 2 * peers.length * dataBytes);
    this.#stream = new Stream(stream.device);
    const indices = Array.from({ length: Math.ceil(Math.max(...tiles) / panel) }, (_, index) => index);
    this.#pushes = [0, 1].map((parity) =>
      indices.flatMap((index) =>
        peers.flatMap((peer): Push[] => {
          const count = Math.min(panel, tiles[peer] - index * panel) * cluster * 2;
          if (count <= 0) return [];
          const { counters, data, flags } = destinationOf(peer);
          const [offset, word] = [BigInt(index * this.halves * halfBytes), BigInt(4 * index)];
          return [{
            peer,
            from: this.dataFor(peer, parity) + offset,
            to: data[parity] + offset,
            bytes: BigInt(count * halfBytes),
            wait: waitOperation(counters + word, count),
            raise: writeOperation(flags + word),
          }];
        })
      )
    );
    // What is done between two copies is one call.
    this.#between = this.#pushes.map((pushes) =>
      [...pushes, null].map((push, i) =>
        prepareOperations([...i > 0 ? [pushes[i - 1].raise] : [], ...push ? [push.wait] : []])
      )
    );
  }

  /** Bytes of memory. */
  get byteLength(): number {
    return this.#memory.byteLength;
  }

  /** Where the kernel stores what is for a rank. */
  dataFor(peer: number, parity: number): bigint {
    const place = parity * this.#slots.size + this.#slots.get(peer)!;
    return this.#memory.address + BigInt(place * this.#dataBytes);
  }

  /**
   * Push what the run of this number stores, panel after panel, each once it is complete. The kernel is on its way. Each copy
   * is put on the stream by `put`.
   */
  push(run: number, put: (stream: Stream, peer: number, copy: () => void) => void): void {
    const { cudaMemcpyAsync } = openCudaRuntime().symbols;
    const stream = this.#stream;
    const [pushes, between] = [this.#pushes[run % 2], this.#between[run % 2]];
    pushes.forEach(({ peer, from, to, bytes }, i) => {
      between[i](run, stream);
      put(stream, peer, () => {
        checkCuda(cudaMemcpyAsync(to, from, bytes, CudaMemcpyKind.DeviceToDevice, stream.handle), "cudaMemcpyAsync");
      });
    });
    between[pushes.length](run, stream);
  }

  /** Free the memory once all has been pushed. */
  [Symbol.dispose](): void {
    this.#stream.synchronize();
    this.#stream[Symbol.dispose]();
    this.#memory.free();
  }
}

/** Wait until a word that the kernel counts up is `count` times the run; it goes on from run to run, and may come round. */
function waitOperation(address: bigint, count: number): MemoryOperation {
  const bytes = createStruct(OPERATION, {
    operation: CuStreamBatchMemOpType.WAIT_VALUE_32,
    "waitValue.address": address,
    "waitValue.flags": CuStreamWaitValueFlags.GEQ,
  });
  return { bytes, times: count };
}

/** Write the run's number to a word. */
function writeOperation(address: bigint): MemoryOperation {
  const bytes = createStruct(OPERATION, {
    operation: CuStreamBatchMemOpType.WRITE_VALUE_32,
    "writeValue.address": address,
    "writeValue.flags": CuStreamWriteValueFlags.DEFAULT,
  });
  return { bytes, times: 1 };
}

function prepareOperations(operations: readonly MemoryOperation[]): PutOperations {
  if (operations.length === 0) return () => {};
  const bytes = new Uint8Array(operations.length * OPERATION.size);
  operations.forEach((operation, i) => bytes.set(operation.bytes, i * OPERATION.size));
  const words = new Uint32Array(bytes.buffer);
  // A value of 32 bits lies at the same place, whether it is waited for or written.
  const [value] = OPERATION.fields["waitValue.value"];
  const places = operations.map(({ times }, i) => [(i * OPERATION.size + value) / 4, times] as const);
  const { cuStreamBatchMemOp } = openCudaDriver().symbols;
  return (run, { handle }) => {
    for (const [place, times] of places) words[place] = run * times;
    checkCudaDriver(cuStreamBatchMemOp(handle, operations.length, bytes, 0), "cuStreamBatchMemOp");
  };
}
