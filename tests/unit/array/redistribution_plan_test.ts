import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { type DType, dtypeInfo } from "../../../src/dtype/dtype.ts";
import { loadScalar, storeScalar } from "../../../src/dtype/scalar.ts";
import { type Order, sizeOfShape } from "../../../src/array/layout.ts";
import { LocalArray } from "../../../src/array/local_array.ts";
import { type Exchanging, PackedExecutor } from "../../../src/array/redistribution/packed_executor.ts";
import { halvesOf, type Packed, partsAlong, piecesOf } from "../../../src/array/redistribution/pieces.ts";
import {
  onRoot,
  type Parts,
  planRedistribution,
  type RedistributionPlan,
  type Transfer,
} from "../../../src/array/redistribution/plan.ts";
import {
  BlockCyclic,
  BlockNonCyclic,
  Box,
  type Distribution,
  ProcessGrid,
  Replicated,
  Slab,
} from "../../../src/distribution/mod.ts";
import { DistributionError, DTypeError, ShapeError } from "../../../src/errors.ts";

type Options = Parameters<Exchanging["allToAllV"]>[1];

/** Thrown when a simulated rank has said how many messages it needs. */
class Asked extends Error {}

/** What a rank hands to MPI. */
type Exchange = (send: BigInt64Array, options: Options) => void;

/** A rank without MPI: what it does in an exchange can be changed. */
class Rank implements Exchanging {
  readonly plan: RedistributionPlan;
  readonly executor: PackedExecutor;
  exchange: Exchange = () => {};
  agree: (rounds: number) => number = () => {
    throw new Error("Parts are small: all ranks know that there is one message.");
  };

  constructor(from: Parts, to: Parts, rank: number, mostBytes?: number, readonly size = from.size!) {
    this.plan = planRedistribution(from, to, rank);
    this.executor = new PackedExecutor(this.plan, this, mostBytes);
  }

  allReduce(rounds: Int32Array<ArrayBuffer>): Int32Array {
    return Int32Array.of(this.agree(rounds[0]));
  }

  allToAllV(send: BigInt64Array<ArrayBuffer>, options: Options): void {
    this.exchange(send, options);
  }

  execute(source: LocalArray, target: LocalArray, order: Order = "C"): void {
    this.plan.check(source, target);
    this.executor.prepare(source, target, order)();
  }
}

/** The most messages that any rank needs, where they have to find out. */
function agreeOnRounds(
  ranks: readonly Rank[],
  sources: readonly LocalArray[],
  targets: readonly LocalArray[],
  order: Order,
): void {
  let rounds = 0;
  ranks.forEach((rank, i) => {
    rank.exchange = () => {};
    rank.agree = (needed) => {
      rounds = Math.max(rounds, needed);
      throw new Asked();
    };
    try {
      rank.execute(sources[i], targets[i], order);
    } catch (error) {
      if (!(error instanceof Asked)) throw error;
    }
  });
  for (const rank of ranks) rank.agree = () => rounds;
}

/**
 * Execute the plans of all ranks without MPI: a first pass records what each rank sends, a second one delivers it.
 */
function executeOnAll(
  ranks: readonly Rank[],
  sources: readonly LocalArray[],
  targets: readonly LocalArray[],
  order: Order,
): number {
  const size = ranks.length;
  agreeOnRounds(ranks, sources, targets, order);
  const sent = ranks.map((rank, i) => {
    const records: { data: BigInt64Array; options: Options }[] = [];
    rank.exchange = (send, options) => void records.push({ data: send.slice(), options });
    rank.execute(sources[i], targets[i], order);
    return records;
  });
  // As many MPI_Alltoallv on all ranks.
  assertEquals(sent.map(({ length }) => length), sent.map(() => sent[0].length));
  let words = 0;
  ranks.forEach((rank, i) => {
    let round = 0;
    rank.exchange = (_, { receiveCounts, receiveDisplacements, into }) => {
      for (let peer = 0; peer < size; peer++) {
        const { data, options } = sent[peer][round];
        const { sendCounts, sendDisplacements } = options;
        assertEquals(sendCounts[i], receiveCounts[peer], `words from ${peer} to ${i}`);
        const [start, count] = [sendDisplacements[i], sendCounts[i]];
        into.set(data.subarray(start, start + count), receiveDisplacements[peer]);
        words += count;
      }
      round++;
    };
    rank.execute(sources[i], targets[i], order);
  });
  return words;
}

/** The value of a global element: its C-order number, kept small enough for every dtype. */
function valueOf(index: readonly number[], shape: readonly number[]): number {
  return index.reduce((sum, i, d) => sum * shape[d] + i, 0) % 15;
}

function globalIndex(parts: Parts, rank: number, local: readonly number[]): number[] {
  return parts.ranges(rank).map((ranges, d) => {
    const all = ranges.flatMap(([start, end]) => Array.from({ length: end - start }, (_, i) => start + i));
    return all[local[d]];
  });
}

function* indices(shape: readonly number[]): Generator<number[]> {
  if (shape.length === 0) return yield [];
  for (let i = 0; i < shape[0]; i++) for (const rest of indices(shape.slice(1))) yield [i, ...rest];
}

function partOf(parts: Parts, rank: number, dtype: DType, order: Order): LocalArray {
  const shape = parts.ranges(rank).map((ranges) => ranges.reduce((sum, [start, end]) => sum + end - start, 0));
  return LocalArray.zeros(dtype, shape, order);
}

function put(array: LocalArray, index: readonly number[], value: number): void {
  const at = index.reduce((sum, i, d) => sum + i * array.strides[d], array.offset);
  storeScalar(array.dtype, array.data, at, dtypeInfo(array.dtype).isComplex ? [value, -value] : value);
}

function get(array: LocalArray, index: readonly number[]): number {
  const at = index.reduce((sum, i, d) => sum + i * array.strides[d], array.offset);
  const value = loadScalar(array.dtype, array.data, at);
  if (!Array.isArray(value)) return Number(value);
  assertEquals(value[1], -value[0] + 0);
  return value[0];
}

function checkMove(
  from: Parts,
  to: Parts,
  dtype: DType,
  orders: readonly [Order, Order, Order],
  mostBytes?: number,
): void {
  const [shape, size] = [from.globalShape!, from.size!];
  const ranks = Array.from({ length: size }, (_, rank) => rank);
  const plans = ranks.map((rank) => planRedistribution(from, to, rank));
  const executors = ranks.map((rank) => new Rank(from, to, rank, mostBytes));
  const sources = ranks.map((rank) => partOf(from, rank, dtype, orders[0]));
  for (const rank of ranks) {
    for (const local of indices(sources[rank].shape)) {
      put(sources[rank], local, valueOf(globalIndex(from, rank, local), shape));
    }
  }
  // Twice: buffers are reused.
  for (let round = 0; round < 2; round++) {
    const targets = ranks.map((rank) => partOf(to, rank, dtype, orders[1]));
    executeOnAll(executors, sources, targets, orders[2]);
    for (const rank of ranks) {
      for (const local of indices(targets[rank].shape)) {
        assertEquals(get(targets[rank], local), valueOf(globalIndex(to, rank, local), shape));
      }
    }
  }
  // Elements that a rank wants and has not.
  let moved = 0;
  for (const rank of ranks) {
    const own = new Set([...indices(sources[rank].shape)].map((local) => globalIndex(from, rank, local).join()));
    const wanted = [...indices(partOf(to, rank, dtype, "C").shape)].map((local) => globalIndex(to, rank, local).join());
    moved += wanted.filter((index) => !own.has(index)).length;
  }
  assertEquals(plans.map((plan) => plan.elementsMoved), ranks.map(() => moved));
  assertEquals(plans[0].bytesMoved(dtypeInfo(dtype).itemSize), moved * dtypeInfo(dtype).itemSize);
}

/** The array cut into boxes anywhere, again and again, empty ones included. */
function tilings(shape: readonly number[], size: number): fc.Arbitrary<Box> {
  const cut = fc.record({
    box: fc.nat(),
    dimension: fc.nat(shape.length - 1),
    at: fc.double({ min: 0, max: 1, noNaN: true }),
  });
  return fc.array(cut, { minLength: size - 1, maxLength: size - 1 }).map((cuts) => {
    const boxes: [number[], number[]][] = [[shape.map(() => 0), [...shape]]];
    for (const { box, dimension, at } of cuts) {
      const [lower, upper] = boxes[box % boxes.length];
      const middle = Math.round(lower[dimension] + at * (upper[dimension] - lower[dimension]));
      boxes[box % boxes.length] = [lower, upper.with(dimension, middle)];
      boxes.push([lower.with(dimension, middle), upper]);
    }
    return new Box(boxes).bind(shape, size);
  });
}

/** Any distribution of a shape on a number of ranks. */
function distributions(shape: readonly number[], size: number): fc.Arbitrary<Parts> {
  const dimensions = shape.length;
  const divisors = [1, 2, 3, 4, 5, 6].filter((count) => count <= size);
  const gridShape = fc.array(fc.constantFrom(...divisors), { minLength: dimensions, maxLength: dimensions })
    .map((extents) => {
      let left = size;
      return extents.map((extent) => {
        const used = Math.min(extent, left);
        left = Math.floor(left / used);
        return used;
      });
    });
  const grid = gridShape.chain((extents) =>
    fc.constantFrom<"row-major" | "column-major">("row-major", "column-major").map((layout) =>
      new ProcessGrid({ shape: extents, layout })
    )
  );
  const blocks = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: dimensions, maxLength: dimensions });
  const options: fc.Arbitrary<Parts>[] = [
    fc.nat(dimensions - 1).map((dimension) => new Slab(dimension).bind(shape, size)),
    fc.constant(Replicated.bind(shape, size)),
    fc.nat(size - 1).map((root) => onRoot(shape, size, root)),
    fc.tuple(grid, blocks).map(([grid, blocks]) => new BlockCyclic(grid, blocks).bind(shape, size)),
    grid.map((grid) => new BlockNonCyclic(grid).bind(shape, size)),
    tilings(shape, size),
  ];
  return fc.oneof(...options);
}

Deno.test("any distribution to any other: every element arrives, on every rank, in every order", () => {
  const cases = fc.record({
    shape: fc.array(fc.integer({ min: 0, max: 7 }), { minLength: 1, maxLength: 3 }),
    size: fc.integer({ min: 1, max: 6 }),
  }).chain(({ shape, size }) =>
    fc.record({
      from: distributions(shape, size),
      to: distributions(shape, size),
      dtype: fc.constantFrom<DType>("float8_e4m3", "float16", "float32", "complex64", "complex128", "int64", "int8"),
      orders: fc.tuple(...[0, 1, 2].map(() => fc.constantFrom<Order>("C", "F"))) as fc.Arbitrary<[Order, Order, Order]>,
      mostBytes: fc.constantFrom(undefined, 16, 100, 500),
    })
  );
  fc.assert(
    fc.property(cases, ({ from, to, dtype, orders, mostBytes }) => checkMove(from, to, dtype, orders, mostBytes)),
    { numRuns: 300 },
  );
});

/** The elements at the indices of runs, by their numbers in the whole array, in the order of the packed block. */
function numbersOf(transfer: Transfer, side: "source" | "target", parts: Parts, rank: number, order: Order): number[] {
  const shape = parts.globalShape!;
  const held = parts.ranges(rank).map((ranges) =>
    ranges.flatMap(([start, end]) => Array.from({ length: end - start }, (_, i) => start + i))
  );
  const lists = transfer.runs.map((runs, d) =>
    runs.flatMap((run) => Array.from({ length: run.length }, (_, i) => held[d][run[side] + i]))
  );
  assertEquals(lists.map(({ length }) => length), [...transfer.shape]);
  let numbers = [0];
  const dimensions = shape.map((_, d) => d);
  for (const d of order === "C" ? dimensions : dimensions.toReversed()) {
    const stride = sizeOfShape(shape.slice(d + 1));
    numbers = numbers.flatMap((number) => lists[d].map((i) => number + i * stride));
  }
  return numbers;
}

Deno.test("every element is sent once and received once, in the same order, whatever the pieces", () => {
  const cases = fc.record({
    shape: fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 8 })
      .filter((shape) => sizeOfShape(shape) <= 200),
    size: fc.integer({ min: 1, max: 5 }),
  }).chain(({ shape, size }) =>
    fc.record({
      from: distributions(shape, size),
      to: distributions(shape, size),
      order: fc.constantFrom<Order>("C", "F"),
      most: fc.constantFrom(1, 3, 7, 1000),
      dimension: fc.nat(shape.length - 1),
      parts: fc.constantFrom(1, 2, 3),
      least: fc.constantFrom(1, 2, 5),
    })
  );
  interface Case {
    readonly from: Parts;
    readonly to: Parts;
    readonly order: Order;
    readonly most: number;
    readonly dimension: number;
    readonly parts: number;
    readonly least: number;
  }
  const check = ({ from, to, order, most, dimension, parts, least }: Case): void => {
    const cut = (transfer: Transfer, packed: Packed) =>
      partsAlong(transfer, dimension, parts, packed).flatMap((part) => piecesOf(part, most, order, packed))
        .flatMap((piece, i) => i % 3 === 2 ? halvesOf(piece, least, order, packed) : [piece]);
    const plans = Array.from({ length: from.size! }, (_, rank) => planRedistribution(from, to, rank));
    for (const [rank, { receives, stays }] of plans.entries()) {
      const arrived = numbersOf(stays, "target", to, rank, order);
      assertEquals(numbersOf(stays, "source", from, rank, order), arrived);
      for (const receive of receives) {
        const send = plans[receive.peer].sends.find(({ peer }) => peer === rank)!;
        const [sent, received] = [cut(send, "target"), cut(receive, "source")];
        assertEquals(sent.map(({ shape }) => shape), received.map(({ shape }) => shape));
        for (const [i, piece] of received.entries()) {
          assert(sizeOfShape(piece.shape) <= most);
          const numbers = numbersOf(piece, "target", to, rank, order);
          assertEquals(numbersOf(sent[i], "source", from, receive.peer, order), numbers);
          arrived.push(...numbers);
          for (const [packed, { runs }] of [["target", sent[i]], ["source", piece]] as const) {
            // In the packed piece the positions of each dimension are 0, 1, 2, …
            for (const list of runs) {
              list.reduce((at, run) => (assertEquals(run[packed], at), at + run.length), 0);
            }
          }
        }
      }
      for (const direct of plans[rank].directSends) {
        const numbers = numbersOf(direct, "source", from, rank, order);
        assertEquals(numbers, numbersOf(direct, "target", to, direct.peer, order));
        assertEquals(direct.shape, plans[rank].sends.find(({ peer }) => peer === direct.peer)!.shape);
      }
      const wanted = numbersOf(planRedistribution(to, to, rank).stays, "target", to, rank, order);
      assertEquals(arrived.sort((a, b) => a - b), wanted.sort((a, b) => a - b));
      const sends = plans.flatMap(({ receives }) => receives.filter(({ peer }) => peer === rank));
      assertEquals(plans[rank].sends.length, sends.length);
    }
  };
  fc.assert(fc.property(cases, check), { numRuns: 2000 });
});

Deno.test("large cyclic distributions are planned without looking at single elements", () => {
  const shape = [2 ** 40, 3];
  const [from, to] = [Slab.X, Slab.Y].map((slab) => slab.bind(shape, 3));
  assertEquals(planRedistribution(from, to, 1).sends.map(({ runs }) => runs.map(({ length }) => length)), [[1, 1], [
    1,
    1,
  ]]);
  const blocks = new BlockCyclic(new ProcessGrid({ shape: [2, 2] }), [1, 64]).bind([16384, 16384], 4);
  const plan = planRedistribution(Slab.X.bind([16384, 16384], 4), blocks, 0);
  assertEquals(plan.sends.map(({ shape }) => shape), [[2048, 8192], [2048, 8192], [2048, 8192]]);
  assertEquals(plan.sends.map(({ runs }) => runs.map(({ length }) => length)), [[2048, 128], [2048, 128], [2048, 128]]);
});

Deno.test("a slice of a distribution, and a transposed one, can be redistributed like any other", () => {
  const grid = new ProcessGrid({ shape: [2, 2], layout: "row-major" });
  const blocks = new BlockCyclic(grid, [2, 3]).bind([9, 11], 4);
  const sliced: Distribution = blocks.slice([[1, 8], [2, 10]]);
  checkMove(sliced, Slab.Y.bind([7, 8], 4), "float32", ["C", "C", "C"]);
  checkMove(Slab.X.bind([7, 8], 4), sliced, "complex64", ["F", "C", "F"]);
  checkMove(blocks.transpose(), new BlockCyclic(grid, [1, 1]).bind([11, 9], 4), "float64", ["C", "F", "C"]);
});

Deno.test("views and padded arrays are sources and targets", () => {
  const [from, to] = [Slab.X.bind([4, 6], 2), Slab.Y.bind([4, 6], 2)];
  const ranks = [0, 1].map((rank) => new Rank(from, to, rank));
  const sources = [0, 1].map((rank) => {
    const padded = LocalArray.zeros("float64", [3, 8]).slice([1, 1], [2, 6]);
    padded.set(Array.from({ length: 12 }, (_, i) => 12 * rank + i));
    return padded;
  });
  const targets = [0, 1].map(() => LocalArray.zeros("float64", [5, 5]).slice([0, 2], [4, 3]));
  executeOnAll(ranks, sources, targets, "C");
  assertEquals(targets[0].toNumbers(), [0, 1, 2, 6, 7, 8, 12, 13, 14, 18, 19, 20]);
  assertEquals(targets[1].toNumbers(), [3, 4, 5, 9, 10, 11, 15, 16, 17, 21, 22, 23]);
});

Deno.test("the same distribution moves nothing, and needs no exchange", () => {
  const rows = Slab.X.bind([6, 3], 3);
  const blocks = new BlockNonCyclic(new ProcessGrid({ shape: [3, 1] })).bind([6, 3], 3);
  for (const [from, to] of [[rows, blocks], [blocks, rows], [Replicated.bind([6, 3], 3), rows]]) {
    const plan = planRedistribution(from, to, 1);
    assertEquals([plan.elementsMoved, plan.sends.length, plan.receives.length], [0, 0, 0]);
    const rank = new Rank(from, to, 1);
    rank.exchange = () => assert(false, "there is nothing to exchange");
    rank.execute(partOf(from, 1, "float32", "C"), partOf(to, 1, "float32", "C"));
    checkMove(from, to, "float32", ["C", "F", "C"]);
  }
});

Deno.test("what a plan refuses", () => {
  const [rows, columns] = [Slab.X.bind([4, 4], 2), Slab.Y.bind([4, 4], 2)];
  assertThrows(() => planRedistribution(Slab.X, columns, 0), DistributionError, "bind both");
  assertThrows(() => planRedistribution(rows, Slab.Y.bind([4, 5], 2), 0), DistributionError, "[4,5]");
  assertThrows(() => planRedistribution(rows, Slab.Y.bind([4, 4], 3), 0), DistributionError, "on 3");
  const rank = new Rank(rows, columns, 0);
  const part = (dtype: DType, shape: number[]) => LocalArray.zeros(dtype, shape);
  const run = (source: LocalArray, target: LocalArray) => () => rank.execute(source, target);
  assertThrows(run(part("float32", [2, 4]), part("float64", [4, 2])), DTypeError, "not from float32 to float64");
  assertThrows(run(part("float32", [3, 4]), part("float32", [4, 2])), ShapeError, "The source has shape [3,4]");
  assertThrows(run(part("float32", [2, 4]), part("float32", [4, 4])), ShapeError, "The target has shape [4,4]");
  const huge = planRedistribution(Slab.X.bind([2 ** 20, 2 ** 20], 2), Slab.Y.bind([2 ** 20, 2 ** 20], 2), 0);
  assertEquals(huge.bytesMoved(1), 2 ** 39);
  assertEquals(sizeOfShape(huge.sends[0].shape), 2 ** 38);
});

Deno.test("buffers are kept for the next execution until they are freed", () => {
  const [rows, columns] = [Slab.X.bind([4, 4], 2), Slab.Y.bind([4, 4], 2)];
  const rank = new Rank(rows, columns, 0);
  const seen: ArrayBufferLike[] = [];
  rank.exchange = (send) => seen.push(send.buffer);
  const [source, target] = [LocalArray.zeros("float64", [2, 4]), LocalArray.zeros("float64", [4, 2])];
  rank.execute(source, target);
  rank.execute(source, target);
  assert(seen[0] === seen[1]);
  // The block that is sent has to be packed; the one that is received lies in the target in one piece.
  assertEquals(rank.executor.byteLength, 32);
  rank.executor.free();
  assertEquals(rank.executor.byteLength, 0);
});

Deno.test("whether what arrives makes one block, without gaps", () => {
  const arrivesWhole = (from: Distribution, to: Distribution, shape: number[]) => {
    const plans = [0, 1].map((rank) => planRedistribution(from.bind(shape, 2), to.bind(shape, 2), rank));
    assertEquals(plans[0].arrivesWhole, plans[1].arrivesWhole);
    return plans[0].arrivesWhole;
  };
  const grid = new ProcessGrid({ shape: [1, 2], layout: "row-major" });
  const cyclic = new BlockCyclic(grid, [2, 2]);
  assertEquals(arrivesWhole(Slab.X, Slab.Y, [8, 6]), true);
  assertEquals(arrivesWhole(Slab.X, Slab.Z, [8, 6, 4]), true);
  // The columns of a rank lie side by side there, and apart in whole rows.
  assertEquals(arrivesWhole(Slab.X, cyclic, [8, 8]), true);
  assertEquals(arrivesWhole(cyclic, Slab.X, [8, 8]), false);
  assertEquals(arrivesWhole(cyclic, Slab.Y, [8, 4]), true);
});

Deno.test("an exchange has the name of the collective call that it is", () => {
  const nameOf = (from: Parts, to: Parts) => {
    const plans = [0, 1, 2].map((rank) => planRedistribution(from, to, rank));
    assertEquals(new Set(plans.map(({ exchange }) => exchange)).size, 1);
    return plans[0].exchange;
  };
  const shape = [6, 4];
  const bound = (distribution: Distribution) => distribution.bind(shape, 3);
  assertEquals(nameOf(bound(Slab.X), bound(Slab.Y)), "all-to-all");
  assertEquals(nameOf(bound(Slab.X), bound(Replicated)), "all-gather");
  assertEquals(nameOf(onRoot(shape, 3, 1), bound(Replicated)), "broadcast");
  assertEquals(nameOf(onRoot(shape, 3, 1), bound(Slab.X)), "scatter");
  assertEquals(nameOf(bound(Slab.X), onRoot(shape, 3, 2)), "gather");
});

Deno.test("ranks ask once how many messages the largest part takes, also one that moves other arrays than before", () => {
  const shape = [64, 2];
  const rank = new Rank(Slab.X.bind(shape, 2), Slab.Y.bind(shape, 2), 0, 64);
  let asked = 0;
  rank.agree = (needed) => (asked++, needed);
  const move = (dtype: DType, order: Order) =>
    rank.execute(LocalArray.zeros(dtype, [32, 2], "C"), LocalArray.zeros(dtype, [64, 1], "C"), order);
  const counts = (["float64", "float64", "float32", "float64", "float32"] as const).map((dtype) => {
    move(dtype, "C");
    return asked;
  });
  assertEquals(counts, [1, 1, 2, 2, 2]);
});

Deno.test("the last piece goes in halves of what is left", () => {
  const transfer: Transfer = {
    peer: 1,
    shape: [64, 3],
    runs: [[{ source: 8, target: 0, length: 64 }], [{ source: 0, target: 3, length: 3 }]],
  };
  const extents = (least: number, order: "C" | "F") =>
    halvesOf(transfer, least, order, "target").map(({ shape }) => shape);
  assertEquals(extents(24, "C"), [[32, 3], [16, 3], [8, 3], [8, 3]]);
  assertEquals(extents(97, "C"), [[64, 3]]);
  assertEquals(extents(40, "F"), [[64, 1], [64, 1], [64, 1]]);
  assertEquals(halvesOf(transfer, 48, "C", "target").map(({ runs }) => runs[0]), [
    [{ source: 8, target: 0, length: 32 }],
    [{ source: 40, target: 0, length: 16 }],
    [{ source: 56, target: 0, length: 16 }],
  ]);
});
