/**
 * Partial sums that copy engines push: the kernel stores tiles for other ranks beside it and counts them, and copies wait
 * until a panel of them is complete. Copy engines send faster than a kernel's own stores, which slow its loads besides.
 *
 * @module
 */
import {
  checkCudaDriver,
  CuStreamWaitValueFlags,
  CuStreamWriteValueFlags,
  openCudaDriver,
} from "../../../../ffi/cuda/driver.ts";
import { checkCuda, CudaMemcpyKind, openCudaRuntime } from "../../../../ffi/cuda/runtime.ts";
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
  readonly counter: bigint;
  /** How many halves of tiles the kernel counts in a run. */
  readonly count: number;
  readonly from: bigint;
  readonly to: bigint;
  readonly bytes: bigint;
  readonly flag: bigint;
}

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
            counter: counters + word,
            count,
            from: this.dataFor(peer, parity) + offset,
            to: data[parity] + offset,
            bytes: BigInt(count * halfBytes),
            flag: flags + word,
          }];
        })
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
    const { cuStreamWaitValue32, cuStreamWriteValue32 } = openCudaDriver().symbols;
    const { handle } = this.#stream;
    for (const { peer, counter, count, from, to, bytes, flag } of this.#pushes[run % 2]) {
      // Counters go on from run to run, and may come round.
      const counted = cuStreamWaitValue32(handle, counter, run * count >>> 0, CuStreamWaitValueFlags.GEQ);
      checkCudaDriver(counted, "cuStreamWaitValue32");
      put(this.#stream, peer, () => {
        checkCuda(cudaMemcpyAsync(to, from, bytes, CudaMemcpyKind.DeviceToDevice, handle), "cudaMemcpyAsync");
      });
      const raised = cuStreamWriteValue32(handle, flag, run, CuStreamWriteValueFlags.DEFAULT);
      checkCudaDriver(raised, "cuStreamWriteValue32");
    }
  }

  /** Free the memory once all has been pushed. */
  [Symbol.dispose](): void {
    this.#stream.synchronize();
    this.#stream[Symbol.dispose]();
    this.#memory.free();
  }
}
