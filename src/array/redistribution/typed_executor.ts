/**
 * Executing a redistribution by `MPI_Alltoallw`: MPI is told where the elements lie, by derived types, and nothing is packed
 * before.
 *
 * @module
 */
import { checkMpi, type Handle } from "../../../ffi/mpi/mod.ts";
import { dtypeInfo } from "../../dtype/dtype.ts";
import { blockType, freeBlockType } from "../../mpi/block_type.ts";
import type { Communicator } from "../../mpi/communicator.ts";
import { handleCell } from "../../mpi/handle_cell.ts";
import { startMpi } from "../../mpi/init_finalize.ts";
import { recorder } from "../../runtime/recorder.ts";
import { type Order, prepareCopy, sizeOfShape } from "../layout.ts";
import type { LocalArray } from "../local_array.ts";
import { type Packed, roundsOf } from "./pieces.ts";
import type { RedistributionPlan, Transfer } from "./plan.ts";
import { piecesIn } from "./segments.ts";

/** A rank sends at most this much at once: less than 2^31 bytes, which some MPIs do not send to one rank. */
const MOST_BYTES = 2 ** 30;

/** What MPI is told of one side in a round: how many blocks, where they begin, and their types. */
interface Blocks {
  readonly counts: Int32Array<ArrayBuffer>;
  readonly starts: Int32Array<ArrayBuffer>;
  readonly types: Int32Array<ArrayBuffer> | BigUint64Array<ArrayBuffer>;
}

/** The types for parts that lie in some way. */
interface Types {
  readonly sends: readonly Blocks[];
  readonly receives: readonly Blocks[];
}

/** Moves elements in the memory of hosts. It keeps the types for the next time. */
export class TypedExecutor {
  readonly #plan: RedistributionPlan;
  readonly #communicator: Communicator;
  readonly #mostBytes: number;
  readonly #types = new Map<string, Types>();
  readonly #made: Handle[] = [];

  /** Types are made when they are needed. What is larger than `mostBytes` travels in several messages. */
  constructor(plan: RedistributionPlan, communicator: Communicator, mostBytes: number = MOST_BYTES) {
    this.#plan = plan;
    this.#communicator = communicator;
    this.#mostBytes = mostBytes;
  }

  /** As `PackedExecutor.prepare`, with `MPI_Alltoallw`. */
  prepare(source: LocalArray, target: LocalArray, order: Order): () => void {
    const plan = this.#plan;
    const { itemSize, parts } = dtypeInfo(source.dtype);
    const stay = prepareCopy(source, target, plan.stays.runs, parts, sizeOfShape(target.shape) * itemSize);
    const isOneRound = plan.largestPart * itemSize <= this.#mostBytes;
    const { sends, receives } = this.#typesFor(source, target, order, isOneRound);
    // Two lists: of a rank without memory at either end MPICH refuses one for both, as buffers that are the same.
    const [noSends, noReceives] = [
      this.#blocks([], source, "source", order),
      this.#blocks([], target, "target", order),
    ];
    const [from, to] = [source, target].map(bytesOf);
    let rounds = isOneRound ? 1 : 0;
    return () => {
      const span = recorder?.begin("copy", "redistribution");
      const { symbols } = startMpi();
      const { handle } = this.#communicator;
      const needed = Math.max(sends.length, receives.length);
      rounds ||= this.#communicator.allReduce(Int32Array.of(needed), { op: "max" })[0];
      stay();
      for (let round = 0; round < rounds; round++) {
        const [out, into] = [sends[round] ?? noSends, receives[round] ?? noReceives];
        // deno-fmt-ignore
        const code = symbols.MPI_Alltoallw(from, out.counts, out.starts, out.types, to, into.counts, into.starts, into.types, handle);
        checkMpi(code, "MPI_Alltoallw");
      }
      span?.end();
    };
  }

  /** Let go of the types. */
  free(): void {
    for (const type of this.#made.splice(0)) freeBlockType(type);
    this.#types.clear();
  }

  #typesFor(source: LocalArray, target: LocalArray, order: Order, isOneRound: boolean): Types {
    const key = [order, source.dtype, source.strides, target.strides].join(" ");
    const known = this.#types.get(key);
    if (known !== undefined) return known;
    const { itemSize } = dtypeInfo(source.dtype);
    const plan = this.#plan;
    const most = isOneRound ? Infinity : Math.max(1, Math.floor(this.#mostBytes / plan.from.size! / itemSize));
    const blocks = (transfers: readonly Transfer[], array: LocalArray, side: "source" | "target", packed: Packed) =>
      roundsOf(transfers, most, order, packed).map((round) => this.#blocks(round, array, side, order));
    const types: Types = {
      sends: blocks(plan.sends, source, "source", "target"),
      receives: blocks(plan.receives, target, "target", "source"),
    };
    this.#types.set(key, types);
    return types;
  }

  #blocks(transfers: readonly Transfer[], array: LocalArray, side: "source" | "target", order: Order): Blocks {
    const { size } = this.#communicator;
    const { constants: { types: { uint8 } }, handle } = startMpi();
    const types = handle === "i32"
      ? new Int32Array(size).fill(Number(uint8))
      : new BigUint64Array(size).fill(BigInt(uint8));
    const blocks: Blocks = { counts: new Int32Array(size), starts: new Int32Array(size), types };
    const { itemSize } = dtypeInfo(array.dtype);
    for (const { peer, runs } of transfers) {
      const type = blockType({ itemSize, ...piecesIn({ runs, side, strides: array.strides }, order) });
      this.#made.push(type);
      blocks.counts[peer] = 1;
      types.set(handleCell(type) as never, peer);
    }
    return blocks;
  }
}

/** An array's memory from its first element on. */
function bytesOf({ data, offset, dtype }: LocalArray): Uint8Array<ArrayBuffer> {
  const start = data.byteOffset + offset * dtypeInfo(dtype).itemSize;
  return new Uint8Array(data.buffer as ArrayBuffer, Math.min(start, data.buffer.byteLength));
}
