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
import { createStruct } from "../../../../ffi/struct.ts";
import { copyOnDevice } from "../../../memory/copy.ts";
import { DeviceBuffer } from "../../../memory/device_buffer.ts";
import { Stream } from "../../../gpu/stream.ts";
import { others } from "../../partition.ts";
import { sentPanels, spotsByRank, type TileProblem, type TileVariant } from "../../tile_order.ts";
import { CHUNK_BYTES, chunksOf } from "./configuration.ts";

/** Where a receiver has this rank's partial sums, and their flags; and where this rank counts them. */
export interface Destination {
  /** The first counter; those of panels follow each other. Not in a pool's memory, which streams cannot wait for. */
  readonly counters: bigint;
  /** Where the data begins, by the parity of the run. */
  readonly data: readonly [bigint, bigint];
  /** The first flag; the flags of panels follow each other. */
  readonly flags: bigint;
}

/** A panel for a rank. */
interface Push {
  /** What timelines call it. */
  readonly label: string;
  readonly copy: (stream: Stream) => void;
  /** Waits until the kernel has counted all of it. */
  readonly wait: MemoryOperation;
  /** Tells the rank that it is there. */
  readonly raise: MemoryOperation;
}

/** So many copies are on their way at a time: between one and the next on its stream the link has nothing to do for some us. */
const STREAMS = 2;

/** Pushes that streams take in turn; what a stream does in memory between two copies is one call. */
class Pushes {
  readonly #pushes: readonly Push[];
  readonly #between: readonly PutOperations[];

  constructor(pushes: readonly Push[]) {
    this.#pushes = pushes;
    this.#between = [...pushes, ...Array<null>(STREAMS).fill(null)].map((push, i) =>
      prepareOperations([pushes[i - STREAMS]?.raise, push?.wait].filter((operation) => operation !== undefined))
    );
  }

  /** Put those of a run on the streams, each copy by `around`. */
  put(run: number, streams: readonly Stream[], around: PutCopy): void {
    this.#between.forEach((operations, i) => {
      const [stream, push] = [streams[i % STREAMS], this.#pushes[i]];
      operations(run, stream);
      if (push === undefined) return;
      around(stream, push.label, () => push.copy(stream));
    });
  }
}

/** Has a copy put on a stream, under a name for timelines. */
type PutCopy = (stream: Stream, label: string, copy: () => void) => void;

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
  readonly #streams: readonly Stream[];
  readonly #memory: DeviceBuffer;
  readonly #dataBytes: number;
  readonly #slots: ReadonlyMap<number, number>;
  /** By the parity of the run, in the order of {@linkcode sentPanels}. */
  readonly #pushes: readonly Pushes[];

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
    const { cluster } = variant.shape;
    const peers = others(rank, size);
    const tiles = spotsByRank(problem, variant).map(({ length }) => length);
    const halfBytes = chunksOf(variant.shape) * CHUNK_BYTES;
    this.halves = panel * cluster * 2;
    this.#dataBytes = dataBytes;
    this.#slots = new Map(peers.map((peer, slot) => [peer, slot]));
    this.#memory = new DeviceBuffer(stream, 2 * peers.length * dataBytes);
    this.#streams = Array.from({ length: STREAMS }, () => new Stream(stream.device, { name: "copies" }));
    const sent = sentPanels(problem, variant);
    this.#pushes = [0, 1].map((parity) =>
      new Pushes(sent.map(({ receiver, index }): Push => {
        const count = Math.min(panel, tiles[receiver] - index * panel) * cluster * 2;
        const { counters, data, flags } = destinationOf(receiver);
        const [offset, word] = [BigInt(index * this.halves * halfBytes), BigInt(4 * index)];
        const [from, to] = [this.dataFor(receiver, parity) + offset, data[parity] + offset];
        return {
          label: `a panel for rank ${receiver}`,
          copy: (stream) => copyOnDevice(to, from, count * halfBytes, stream),
          wait: waitOperation(counters + word, count),
          raise: writeOperation(flags + word),
        };
      }))
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
   * Push what the run of this number stores, panel after panel, each once it is complete. The kernel is on its way. Each
   * copy is put on its stream by `put`.
   */
  push(run: number, put: PutCopy): void {
    this.#pushes[run % 2].put(run, this.#streams, put);
  }

  /** Wait until all has been pushed. */
  settle(): void {
    for (const stream of this.#streams) stream.synchronize();
  }

  /** Free the memory once all has been pushed. */
  [Symbol.dispose](): void {
    for (const stream of this.#streams) {
      stream.synchronize();
      stream[Symbol.dispose]();
    }
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
