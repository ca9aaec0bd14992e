/** Communicator: every method, on any number of ranks, against values that are computed without communication. */
import { Buffer } from "node:buffer";
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { launcher } from "../../ffi/mpi/mod.ts";
import {
  Communicator,
  DistributedArray,
  DTypeError,
  type ElementName,
  LocalArray,
  MpiError,
  type NumericArray,
  type ReduceOperation,
  ReductionOperator,
  Slab,
  startAll,
  StateError,
  type StridedView,
  waitAll,
  waitAny,
} from "../../mod.ts";
import { assertThrowsEverywhere, clusterTest, type ErrorClass } from "../../src/testing/mod.ts";

type ArrayClass = { new (length: number): NumericArray; readonly name: string };

const CLASSES: ArrayClass[] = [
  Int8Array,
  Uint8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  BigInt64Array,
  BigUint64Array,
  Float16Array,
  Float32Array,
  Float64Array,
];

/** An array of a class from small numbers. */
function make(arrayClass: ArrayClass, values: readonly number[]): NumericArray {
  const array = new arrayClass(values.length);
  const isBig = array instanceof BigInt64Array || array instanceof BigUint64Array;
  values.forEach((value, i) => (array as unknown as (number | bigint)[])[i] = isBig ? BigInt(value) : value);
  return array;
}

const numbers = (array: NumericArray): number[] => Array.from(array as ArrayLike<number | bigint>, Number);
const range = (length: number): number[] => Array.from({ length }, (_, i) => i);

/** Combine lists of the same length entry by entry. */
function combine(lists: number[][], f: (a: number, b: number) => number): number[] {
  return lists.reduce((all, list) => all.map((value, i) => f(value, list[i])));
}

const ORACLES: Record<ReduceOperation, (a: number, b: number) => number> = {
  sum: (a, b) => a + b,
  prod: (a, b) => a * b,
  min: Math.min,
  max: Math.max,
  land: (a, b) => Number(a !== 0 && b !== 0),
  lor: (a, b) => Number(a !== 0 || b !== 0),
  lxor: (a, b) => Number((a !== 0) !== (b !== 0)),
  band: (a, b) => a & b,
  bor: (a, b) => a | b,
  bxor: (a, b) => a ^ b,
};

/** What rank `rank` contributes: small, different on each rank, with a zero. */
const contribution = (rank: number): number[] => [rank + 1, (rank * 3) % 4, 2, 0, rank % 2];

clusterTest("rank, size and handle describe the communicator", ({ communicator: world }) => {
  assert(Communicator.world() === world);
  assertEquals(world.allGatherObject(world.rank), range(world.size));
  assertEquals(typeof world.handle, world.handleType === "i32" ? "number" : "bigint");
  assert(Number.isInteger(world.fortranHandle()));
  assertEquals([Communicator.self().rank, Communicator.self().size], [0, 1]);
});

for (const arrayClass of CLASSES) {
  clusterTest(`collective methods carry ${arrayClass.name}`, ({ communicator: world }) => {
    const { rank, size } = world;
    const mine = make(arrayClass, contribution(rank));
    const all = range(size).flatMap(contribution);

    assertEquals(numbers(world.allReduce(mine)), combine(range(size).map(contribution), ORACLES.sum));
    assertEquals(numbers(world.allGather(mine)), all);
    const gathered = world.gather(mine, { root: size - 1 });
    assertEquals(gathered && numbers(gathered), rank === size - 1 ? all : null);

    const sent = make(arrayClass, contribution(rank));
    assertEquals(world.broadcast(sent, { root: size - 1 }), make(arrayClass, contribution(size - 1)));

    const scattered = world.scatter(rank === 0 ? make(arrayClass, all) : null, new arrayClass(5));
    assertEquals(numbers(scattered), contribution(rank));

    const letters = make(arrayClass, range(size).flatMap((to) => [rank, to]));
    assertEquals(numbers(world.allToAll(letters)), range(size).flatMap((from) => [from, rank]));

    const to = (rank + 1) % size;
    const from = (rank + size - 1) % size;
    const received = new arrayClass(5);
    const status = world.sendReceive(mine, to, received, { source: from, tag: 7 });
    assertEquals(status, { source: from, tag: 7, count: 5 });
    assertEquals(numbers(received), contribution(from));
    assertEquals(numbers(mine), contribution(rank), "what is sent stays as it is");
  });

  const isFloat = arrayClass.name.startsWith("Float");
  const operations = Object.keys(ORACLES) as ReduceOperation[];
  const possible = isFloat ? operations.slice(0, 4) : operations;

  clusterTest(`reductions of ${arrayClass.name}: ${possible.join(", ")}`, ({ communicator: world }) => {
    const { rank, size } = world;
    for (const op of possible) {
      const before = range(rank).map(contribution);
      const expected = combine(range(size).map(contribution), ORACLES[op]);
      const mine = make(arrayClass, contribution(rank));

      assertEquals(numbers(world.allReduce(mine, { op })), expected, op);
      const into = new arrayClass(7);
      assert(world.allReduce(mine, { op, into }) === into);
      assertEquals(numbers(into), [...expected, 0, 0]);
      const inPlace = mine.slice();
      assertEquals(numbers(world.allReduce(inPlace, { op, into: inPlace })), expected);

      const root = size - 1;
      const reduced = world.reduce(mine, { op, root });
      assertEquals(reduced && numbers(reduced), rank === root ? expected : null);
      const reducedInPlace = mine.slice();
      world.reduce(reducedInPlace, { op, root, into: reducedInPlace });
      assertEquals(numbers(reducedInPlace), rank === root ? expected : contribution(rank));

      assertEquals(numbers(world.scan(mine, { op })), combine([...before, contribution(rank)], ORACLES[op]));
      const scanned = mine.slice();
      assertEquals(world.scan(scanned, { op, into: scanned }), world.scan(mine, { op }));
      const exclusive = rank === 0 ? [0, 0, 0, 0, 0] : combine(before, ORACLES[op]);
      assertEquals(numbers(world.exclusiveScan(mine, { op })), exclusive);

      const long = make(arrayClass, range(size).flatMap((part) => [part, rank]));
      const sums = range(size).map((from) => [rank, from]);
      assertEquals(numbers(world.reduceScatter(long, { op })), combine(sums, ORACLES[op]));
    }
  });
}

clusterTest("barrier() holds every rank until the last one comes", async ({ communicator: world }) => {
  const last = world.size - 1;
  if (world.rank === last) await new Promise((resolve) => setTimeout(resolve, 100));
  const arrived = Date.now();
  world.barrier();
  const left = Date.now();
  const times = world.allGather(new Float64Array([arrived, left]));
  assert(
    range(world.size).every((rank) => times[2 * rank + 1] >= times[2 * last]),
    "nobody leaves before the last arrives",
  );
});

clusterTest("gatherV(), allGatherV(), scatterV() take parts of any length", ({ communicator: world }) => {
  const { rank, size } = world;
  const counts = range(size).map((part) => (part * 2) % 3); // 0, 2, 1, 0: also empty ones
  const part = (of: number) => Float64Array.from({ length: counts[of] }, (_, i) => 10 * of + i);
  const all = Float64Array.from(range(size).flatMap((of) => [...part(of)]));

  assertEquals(world.allGatherV(part(rank), { counts }), all);
  assertEquals(world.gatherV(part(rank), { counts }), rank === 0 ? all : null);
  assertEquals(
    world.gatherV(part(rank), rank === size - 1 ? { counts, root: size - 1 } : { root: size - 1 }),
    rank === size - 1 ? all : null,
  );
  assertEquals(world.scatterV(rank === 0 ? all : null, new Float64Array(counts[rank]), { counts }), part(rank));

  // Parts in reverse order, one entry apart.
  const displacements = Int32Array.from(range(size), (of) => 4 * (size - 1 - of) + 1);
  const into = new Float64Array(4 * size).fill(-1);
  world.allGatherV(part(rank), { counts: Int32Array.from(counts), displacements, into });
  const expected = new Float64Array(4 * size).fill(-1);
  for (const of of range(size)) expected.set(part(of), displacements[of]);
  assertEquals(into, expected);
  const scattered = world.scatterV(rank === 0 ? into : null, new Float64Array(counts[rank]), { counts, displacements });
  assertEquals(scattered, part(rank));

  // Of one rank, too.
  const alone = world.split(rank)!;
  const gathered = alone.allGatherV(Int32Array.of(7, 8), { counts: [2], displacements: [3] });
  assertEquals(gathered, Int32Array.of(0, 0, 0, 7, 8));
  assertEquals(alone.allGatherV(gathered.subarray(3), { counts: [2], displacements: [3], into: gathered }), gathered);
  alone.free();
});

clusterTest("allGather() and allGatherV() can gather in place", ({ communicator: world }) => {
  const { rank, size } = world;
  const into = new Int32Array(2 * size);
  const mine = into.subarray(2 * rank, 2 * rank + 2);
  mine.set([rank, -rank]);
  assertEquals(numbers(world.allGather(mine, { into })), range(size).flatMap((of) => [of, 0 - of]));

  const counts = range(size).map((of) => of + 1);
  const start = rank * (rank + 1) / 2;
  const uneven = new Int32Array(size * (size + 1) / 2);
  uneven.subarray(start, start + rank + 1).fill(rank);
  world.allGatherV(uneven.subarray(start, start + rank + 1), { counts, into: uneven });
  assertEquals(numbers(uneven), range(size).flatMap((of) => Array(of + 1).fill(of)));
});

clusterTest("allToAll() can exchange in place", ({ communicator: world }) => {
  const letters = Float32Array.from(range(world.size), (to) => 10 * world.rank + to);
  assert(world.allToAll(letters, { into: letters }) === letters);
  assertEquals(numbers(letters), range(world.size).map((from) => 10 * from + world.rank));
});

clusterTest("allToAll() in place on some ranks alone", ({ communicator: world }) => {
  const { rank, size } = world;
  for (const part of [1, 100, 100_000]) {
    const send = Float64Array.from(range(size * part), (i) => 100 * rank + Math.floor(i / part));
    const received = rank % 2 === 0 ? world.allToAll(send, { into: send }) : world.allToAll(send);
    assert(received.every((value, i) => value === 100 * Math.floor(i / part) + rank), `${part} entries a rank`);
  }
});

clusterTest("allToAllV() exchanges parts of any length", ({ communicator: world }) => {
  const { rank, size } = world;
  const length = (from: number, to: number) => (from + 2 * to) % 3;
  const letter = (from: number, to: number) => Array(length(from, to)).fill(10 * from + to);
  const sendCounts = range(size).map((to) => length(rank, to));
  const receiveCounts = range(size).map((from) => length(from, rank));
  const send = BigInt64Array.from(range(size).flatMap((to) => letter(rank, to)), BigInt);
  const expected = range(size).flatMap((from) => letter(from, rank));
  assertEquals(numbers(world.allToAllV(send, { sendCounts, receiveCounts })), expected);

  const receiveDisplacements = Int32Array.from(range(size), (from) => 3 * (size - 1 - from));
  const into = new BigInt64Array(3 * size);
  world.allToAllV(send, { sendCounts, receiveCounts, receiveDisplacements, into });
  const placed = new Array(3 * size).fill(0);
  for (const from of range(size)) {
    letter(from, rank).forEach((value, i) => placed[receiveDisplacements[from] + i] = value);
  }
  assertEquals(numbers(into), placed);
});

clusterTest("reduceScatter() takes parts of any length", ({ communicator: world }) => {
  const { rank, size } = world;
  const counts = range(size).map((part) => (part * 2) % 3);
  const total = counts.reduce((a, b) => a + b);
  const result = world.reduceScatter(Int32Array.from(range(total), (i) => i + rank), { counts });
  const start = counts.slice(0, rank).reduce((a, b) => a + b, 0);
  const sumOfRanks = size * (size - 1) / 2;
  assertEquals(numbers(result), range(counts[rank]).map((i) => size * (start + i) + sumOfRanks));
});

clusterTest("empty arrays are allowed everywhere", ({ communicator: world }) => {
  const empty = () => new Float64Array(0);
  const counts = new Int32Array(world.size);
  assertEquals(world.allReduce(empty()).length, 0);
  assertEquals(world.allGather(empty()).length, 0);
  assertEquals(world.gather(empty())?.length ?? 0, 0);
  assertEquals(world.broadcast(empty()).length, 0);
  assertEquals(world.scatter(world.rank === 0 ? empty() : null, empty()).length, 0);
  assertEquals(world.allToAll(empty()).length, 0);
  assertEquals(world.allGatherV(empty(), { counts }).length, 0);
  assertEquals(world.gatherV(empty(), { counts })?.length ?? 0, 0);
  assertEquals(world.allToAllV(empty(), { sendCounts: counts, receiveCounts: counts }).length, 0);
  assertEquals(world.sendReceive(empty(), world.rank, empty()).count, 0);
});

clusterTest("views and subclasses of typed arrays are sent from where they lie", ({ communicator: world }) => {
  const memory = Float64Array.from([9, world.rank, 1, 9]);
  const sum = world.size * (world.size - 1) / 2;
  assertEquals(numbers(world.allReduce(memory.subarray(1, 3))), [sum, world.size]);
  class Bytes extends Uint8Array {}
  assertEquals(numbers(world.allReduce(new Bytes([1]))), [world.size]);
  const shared: Int32Array = new Int32Array(new SharedArrayBuffer(8));
  shared.set([1, 2]);
  assertEquals(numbers(world.allReduce(shared, { into: new Int32Array(2) })), [world.size, 2 * world.size]);
});

/** A point, whose constructor takes something else than those of typed arrays. */
class Point extends Float64Array {
  constructor(x: number, y: number, z: number) {
    super([x, y, z]);
  }
  get sum(): number {
    return this[0] + this[1] + this[2];
  }
}

clusterTest("arrays of classes with constructors of their own", ({ communicator: world }) => {
  const { rank, size } = world;
  const [right, left] = [(rank + 1) % size, (rank + size - 1) % size];
  const point = new Point(1, 2, rank);
  const sum = world.allReduce(point);
  assert(sum instanceof Point && sum.sum === 3 * size + size * (size - 1) / 2);
  assertEquals(world.allGather(point).length, 3 * size);
  if (rank === 0) assertEquals(numbers(world.exclusiveScan(point)), [0, 0, 0]);
  else world.exclusiveScan(point);
  // Views, whose memory begins behind the first entry.
  const last = (data: NumericArray) => ({ data, shape: [2], strides: [1], offset: 1 });
  const into = new Point(-1, -1, -1);
  world.sendReceive(last(point), right, last(into), { source: left });
  assertEquals(numbers(into), [-1, 2, left]);
  const gathered = new Point(0, 0, 0);
  const alone = Communicator.self();
  alone.allGatherV(Float64Array.of(7) as Point, { counts: [1], displacements: [2], into: gathered });
  assertEquals(numbers(gathered), [0, 0, 7]);
  const bytes = world.allGather(Buffer.from([65 + rank]));
  assertEquals(bytes.toString(), "ABCDEFGHIJ".slice(0, size));
});

const bfloat16 = (...values: number[]): Uint16Array<ArrayBuffer> =>
  Uint16Array.from(new Uint32Array(Float32Array.from(values).buffer), (bits) => bits >>> 16);

clusterTest("bfloat16 sums are computed in float32 and rounded once", ({ communicator: world }) => {
  const dtype = "bfloat16";
  // 256 + 1 needs 9 bits: in bfloat16 each addition of 1 would be lost; in float32 their sum is rounded once.
  const mine = world.rank === 0 ? bfloat16(256, 1, -2) : bfloat16(1, 1, 0.5);
  const exact = [256 + world.size - 1, world.size, -2 + (world.size - 1) / 2];
  // 257 lies between 256 and 258, and goes to the even 256; 259 between 258 and 260, to 260.
  const nearest = new Map([[256, 256], [257, 256], [258, 258], [259, 260]]).get(exact[0])!;
  const expected = bfloat16(nearest, exact[1], exact[2]);
  assertEquals(world.allReduce(mine, { dtype }), expected);
  assertEquals(world.allReduce(mine.slice(), { dtype, into: mine.slice() }), expected);
  const inPlace = mine.slice();
  assertEquals(world.allReduce(inPlace, { dtype, into: inPlace }), expected);
  assertEquals(world.reduce(mine, { dtype }), world.rank === 0 ? expected : null);
  assertEquals(world.scan(mine, { dtype })[1], bfloat16(world.rank + 1)[0]);
  assertEquals(numbers(world.exclusiveScan(mine, { dtype }))[1], world.rank === 0 ? 0 : bfloat16(world.rank)[0]);
  assertEquals(world.allReduce(bfloat16(world.rank), { dtype, op: "max" }), bfloat16(world.size - 1));
  assertEquals(world.allGather(bfloat16(world.rank), { dtype }), bfloat16(...range(world.size)));
  const parts = Uint16Array.from(range(world.size), () => bfloat16(3)[0]);
  assertEquals(world.reduceScatter(parts, { dtype }), bfloat16(3 * world.size));
  const nan = world.allReduce(bfloat16(NaN), { dtype })[0];
  assert((nan & 0x7fff) > 0x7f80, "NaN stays NaN");
});

clusterTest("float16 sums are computed in float32, and overflow to Infinity", ({ communicator: world }) => {
  const big = world.allReduce(Float16Array.of(60000, 1));
  assertEquals([...big], [world.size === 1 ? 60000 : Infinity, world.size]);
  // 2048 + 1 cannot be held by float16: one after the other the ones would be lost.
  const [sum] = world.allReduce(Float16Array.of(world.rank === 0 ? 2048 : 1));
  assertEquals(sum, Math.f16round(2048 + world.size - 1));
});

clusterTest("complex numbers are summed as pairs", ({ communicator: world }) => {
  const z = Float64Array.of(world.rank, -1, 0.5, 2);
  const sum = world.size * (world.size - 1) / 2;
  assertEquals([...world.allReduce(z, { dtype: "complex128" })], [sum, -world.size, world.size / 2, 2 * world.size]);
  assertEquals(world.allGather(Float32Array.of(1, 2), { dtype: "complex64" }).length, 2 * world.size);
});

clusterTest("float8 bits travel, but do not reduce", (runtime) => {
  const world = runtime.communicator;
  const dtype = "float8_e4m3" as const;
  assertEquals(numbers(world.allGather(Uint8Array.of(world.rank), { dtype })), range(world.size));
  assertThrowsEverywhere(
    runtime,
    () => world.allReduce(Uint8Array.of(1), { dtype }),
    DTypeError,
    "float8_e4m3 has no sums",
  );
});

clusterTest("messages find their receiver by source and tag", { ranks: [2, 3, 4] }, ({ communicator: world }) => {
  const { rank, size } = world;
  if (rank === 0) {
    // In another order than they are sent in.
    const into = new Float64Array(4);
    for (const from of range(size).slice(1).reverse()) {
      assertEquals(world.receive(into, from, { tag: 2 }), { source: from, tag: 2, count: 2 });
      assertEquals([...into.subarray(0, 2)], [from, 0.5]);
      assertEquals(world.receive(into, from, { tag: 1 }), { source: from, tag: 1, count: 3 });
    }
    const seen = range(size - 1).map(() => {
      const { source, tag, count } = world.probe("any", { tag: 3 });
      assertEquals([tag, count], [3, source! * 8], "a probed count is in bytes");
      assertEquals(world.receive(into, source, { tag: 3 }).count, source);
      return source!;
    });
    assertEquals(seen.toSorted(), range(size).slice(1));
    assertEquals(world.probeNow(), null);
  } else {
    world.send(Float64Array.of(rank, 1, 1), 0, { tag: 1 });
    world.send(Float64Array.of(rank, 0.5), 0, { tag: 2 });
    world.send(new Float64Array(rank), 0, { tag: 3 });
  }
});

clusterTest("null as destination or source sends and receives nothing", async ({ communicator: world }) => {
  // A shift without wrapping around.
  const { rank, size } = world;
  const into = Int32Array.of(-1);
  const status = world.sendReceive(Int32Array.of(rank), rank + 1 < size ? rank + 1 : null, into, {
    source: rank > 0 ? rank - 1 : null,
  });
  assertEquals(into[0], rank > 0 ? rank - 1 : -1);
  assertEquals([status.source, status.count], rank > 0 ? [rank - 1, 1] : [null, 0]);
  world.send(into, null);
  const nothing = { source: null, tag: -1, count: 0 };
  assertEquals([world.receive(into, null), world.probe(null), world.probeNow(null)], [nothing, nothing, nothing]);
  assertEquals([await world.ireceive(into, null), world.ireceive(into, null).wait()], [nothing, nothing]);
  using prepared = world.receiveInit(into, null);
  assertEquals([prepared.start().wait(), await prepared.start()], [nothing, nothing]);
  assertEquals(waitAll(startAll([prepared])), [nothing]);
});

clusterTest("a message that is longer than the array is an MpiError", async ({ communicator: world }) => {
  const next = (world.rank + 1) % world.size;
  const sent = world.isend(new Int32Array(5), next);
  const error = assertThrows(() => world.receive(new Int32Array(4)), MpiError, "MPI_ERR_TRUNCATE");
  assertEquals(error.symbol, "MPI_ERR_TRUNCATE");
  assertEquals(error.failure.functionName, "MPI_Recv");
  assert(error.failure.text.length > 5 && error.code !== 0);
  await sent;
  const second = world.isend(new Int32Array(64), next);
  await assertRejects(async () => await world.ireceive(new Int32Array(4)), MpiError, "MPI_ERR_TRUNCATE");
  await second;
});

clusterTest(
  "requests are awaited, tested or waited for, and let go of their buffers",
  async ({ communicator: world }) => {
    const { rank, size } = world;
    const [to, from] = [(rank + 1) % size, (rank + size - 1) % size];
    const into = new Float64Array(3);
    const received = world.ireceive(into, from, { tag: 5 });
    assertEquals(received.heldBuffers, 1);
    const sent = world.isend(Float64Array.of(rank, 1, 2), to, { tag: 5 });
    assertEquals(await received, { source: from, tag: 5, count: 3 });
    assertEquals([...into], [from, 1, 2]);
    await sent;
    assertEquals([received.heldBuffers, sent.heldBuffers, received.isComplete], [0, 0, true]);
    assertEquals(await received, received.wait(), "a second await gives the same");

    const waited = world.ireceive(into, from);
    const other = world.isend(Float64Array.of(rank), to);
    assertEquals(waited.wait().count, 1);
    while (!other.test()) await new Promise((resolve) => setTimeout(resolve, 1));
    assertEquals(into[0], from);
  },
);

clusterTest("a request keeps its buffers alive when the script forgets them", async ({ communicator: world }) => {
  const { rank, size } = world;
  const length = 1 << 20;
  const received = world.ireceive(new Int32Array(length), (rank + size - 1) % size);
  let garbage = 0;
  for (let i = 0; i < 50; i++) garbage += new Uint8Array(1 << 20).fill(i)[5];
  assert(garbage > 0);
  await world.isend(new Int32Array(length).fill(rank), (rank + 1) % size);
  assertEquals((await received).count, length);
});

clusterTest("the event loop runs while a request is awaited", { ranks: [2, 3, 4] }, async ({ communicator: world }) => {
  if (world.rank === 0) {
    // It sends what they await when their timers have told it to.
    for (const from of range(world.size).slice(1)) world.receive(new Int8Array(1), from);
    for (const to of range(world.size).slice(1)) world.send(Int8Array.of(to), to);
  } else {
    let ticks = 0;
    const timer = setInterval(() => ++ticks === 5 && world.send(Int8Array.of(5), 0), 2);
    await world.ireceive(new Int8Array(1), 0);
    clearInterval(timer);
    assert(ticks >= 5, `only ${ticks} ticks`);
  }
});

clusterTest("ibarrier() and iallGatherV() complete in the background", async ({ communicator: world }) => {
  const { rank, size } = world;
  const counts = range(size).map((part) => part + 1);
  const request = world.iallGatherV(new Float32Array(rank + 1).fill(rank), { counts });
  await world.ibarrier();
  assertEquals(numbers(await request), range(size).flatMap((part) => Array(part + 1).fill(part)));
  const alone = world.split(rank)!;
  const gathered = alone.iallGatherV(Int32Array.of(7, 8), { counts: [2], displacements: [3] });
  assertEquals(await gathered, Int32Array.of(0, 0, 0, 7, 8));
  alone.free();
});

clusterTest("collective calls in the background give what the blocking ones do", async ({ communicator: world }) => {
  const { rank, size } = world;
  const root = size - 1;
  const send = Float32Array.of(rank + 1, -rank);
  const many = Int32Array.from(range(size), (part) => 10 * rank + part);
  const bits = Uint16Array.of(0x3f80, 0x4000); // 1 and 2 in bfloat16
  const began = [
    world.ibroadcast(Float64Array.of(rank === root ? 7 : 0), { root }),
    world.iallReduce(send, { op: "max" }),
    world.iallReduce(bits, { dtype: "bfloat16" }),
    world.ireduce(send, { root }),
    world.igather(send, { root }),
    world.iscatter(rank === root ? Int32Array.from(range(size)) : null, new Int32Array(1), { root }),
    world.iallGather(send),
    world.iallToAll(many),
  ] as const;
  const [broadcast, largest, sums, sum, gathered, part, all, exchanged] = await Promise.all(began);
  assertEquals([...broadcast], [7]);
  assertEquals(numbers(largest), [size, 0].map((x) => x || -0).map((x) => x + 0));
  assertEquals([...sums], [...world.allReduce(bits, { dtype: "bfloat16" })]);
  assertEquals(sum && numbers(sum), rank === root ? numbers(world.allReduce(send)) : (world.allReduce(send), null));
  assertEquals(
    gathered && numbers(gathered),
    rank === root ? numbers(world.allGather(send)) : (world.allGather(send), null),
  );
  assertEquals([[...part], numbers(all)], [[rank], numbers(world.allGather(send))]);
  assertEquals([...exchanged], range(size).map((from) => 10 * from + rank));
  const two = [world.iallReduce(send), world.iallGather(send)];
  assertEquals(waitAll(two).map((array) => array.length), [2, 2 * size]);
  const received = world.ireceive(new Int8Array(1), rank, { tag: 98 });
  const [index, value] = waitAny([received, world.ibroadcast(send)]);
  assertEquals([index, (value as Float32Array).length], [1, 2]);
  world.send(new Int8Array(1), rank, { tag: 98 });
  received.wait();
  const odd = new Int8Array(size + 1);
  if (size > 1) assertThrows(() => world.iallToAll(odd), RangeError, "equal parts; use allToAllV");
  assertThrows(() => waitAny([]), RangeError, "waitAny needs one request at least");
  assertThrows(
    () => waitAny(3 as never),
    TypeError,
    "waitAny takes a list of requests, such as isend() returns, not 3",
  );
  using prepared = world.sendInit(odd, null);
  assertThrows(() => waitAll([prepared as never]), TypeError, "Of prepared messages pass what startAll() returns");
  assertThrows(() => world.iallReduce(send, { into: send }), RangeError, "into overlaps");
});

clusterTest("grids: coordinates, neighbours, and what they exchange", ({ communicator: world }) => {
  const { rank, size } = world;
  const ring = world.createCartesian([1, size], { periodic: [false, true] })!;
  assertEquals([ring.coordinates(), ring.coordinates(0)], [[0, rank], [0, 0]]);
  const [before, behind] = [(rank + size - 1) % size, (rank + 1) % size];
  assertEquals(ring.shift(1), { source: before, destination: behind });
  assertEquals(ring.shift(0), { source: null, destination: null });
  assertEquals([ring.shift(1, -0), ring.shift(-0)], [{ source: rank, destination: rank }, ring.shift(0)]);
  const copy = ring.duplicate();
  assertEquals([copy.shift(1), copy.coordinates()], [ring.shift(1), [0, rank]]);
  copy.free();
  const heard = Int32Array.of(0);
  ring.sendReceive(Int32Array.of(rank), behind, heard, { source: before });
  assertEquals(heard[0], before);
  const all = ring.neighborAllGather(Float32Array.of(rank), { into: new Float32Array(4).fill(-1) });
  assertEquals([...all], [-1, -1, before, behind]);
  // Of two ranks each is both neighbours of the other, and MPI does not say which part is which.
  const exchanged = ring.neighborAllToAll(Int32Array.of(0, 0, 10 * rank, 10 * rank + 1));
  if (size > 2) assertEquals([...exchanged].slice(2), [10 * before + 1, 10 * behind]);
  const small = size > 1 ? world.createCartesian([size - 1]) : ring;
  assertEquals(small === null, size > 1 && rank === size - 1);
  for (const grid of [...small === null || small === ring ? [] : [small], ring]) grid.free();
  assertThrows(() => world.coordinates(), StateError, "has no grid. Make one by createCartesian");
  assertThrows(() => world.createCartesian([size, 2]), RangeError, "takes");
  assertThrows(() => world.createCartesian([0.5]), RangeError, "whole numbers from 1");
  assertThrows(() => world.createCartesian([size], { periodic: [true, false] }), TypeError, "one for each dimension");
  const wrong = 1 as unknown as boolean;
  assertThrows(() => world.createCartesian([size], { periodic: wrong }), TypeError, "one for each dimension, not 1");
  const line = world.createCartesian([size])!;
  assertThrows(() => line.coordinates(size), RangeError, `coordinates: rank is ${size}, but the ranks`);
  assertThrows(() => line.coordinates("a" as unknown as number), TypeError, "coordinates: rank must be a rank");
  assertThrows(() => line.shift(0, 2 ** 32), RangeError, "a 32-bit integer, not 0 and 4294967296");
  assertThrows(() => line.neighborAllToAll(new Int8Array(3)), RangeError, "equal parts; give each part as many");
  assertThrows(() => line.shift(1), RangeError, "a dimension from 0 to 0");
  line.free();
});

clusterTest("prepared messages are started again and again", async ({ communicator: world }) => {
  const { rank, size } = world;
  const [right, left] = [(rank + 1) % size, (rank + size - 1) % size];
  const [value, arrived] = [new Float64Array(3), new Float64Array(3)];
  using sends = world.sendInit(value, right, { tag: 3 });
  using receives = world.receiveInit(arrived, left, { tag: 3 });
  for (let step = 0; step < 4; step++) {
    value.fill(10 * step + rank);
    if (step % 2) {
      const [{ source, count }] = waitAll(startAll([receives, sends]));
      assertEquals([source, count], [left, 3]);
    } else {
      const received = receives.start();
      assertThrows(() => receives.start(), StateError, "under way");
      assertThrows(() => receives.free(), StateError, "under way");
      assertThrows(() => startAll([receives]), StateError, "under way");
      await sends.start();
      const { source, tag, count } = await received;
      assertEquals([source, tag, count], [left, 3, 3]);
    }
    assertEquals([...arrived], Array(3).fill(10 * step + left));
  }
  assertEquals([sends.isUnderWay, sends.isFreed], [false, false]);
  sends.free();
  assertThrows(() => sends.start(), StateError, "was freed");
  assertThrows(() => startAll([sends]), StateError, "was freed");
  assertThrows(() => startAll([receives, receives]), StateError, "twice");
  assertThrows(() => startAll(3 as never), TypeError, "startAll takes a list");
  assertEquals(startAll([]), []);
  // One that is under way when its scope ends goes when it is complete.
  const { late, request } = (() => {
    using late = world.receiveInit(arrived, left, { tag: 4 });
    return { late, request: late.start() };
  })();
  assertEquals([late.isFreed, late.isUnderWay], [true, true]);
  world.send(value, right, { tag: 4 });
  assertEquals((await request).count, 3);
});

clusterTest("prepared messages of memory that is gone are not started", ({ communicator: world }) => {
  const { rank } = world;
  const shrinking = new Float64Array(new ArrayBuffer(32, { maxByteLength: 32 }));
  const moved = new Float64Array(4);
  const column = { data: new Float64Array(4), shape: [2], strides: [2], offset: 1 };
  using requests = new DisposableStack();
  const prepared = [
    world.sendInit(shrinking, rank),
    world.receiveInit(moved, rank),
    world.sendInit(column, rank),
    world.receiveInit(column, rank),
  ];
  for (const request of prepared) requests.use(request);
  shrinking.buffer.resize(16);
  moved.buffer.transfer(0);
  column.data.buffer.transfer(0);
  const [shrunk, gone, ...views] = prepared;
  assertThrows(() => shrunk.start(), RangeError, "start: data has 2 entries, it needs 4");
  assertThrows(() => gone.start(), TypeError, "start: the memory of into was transferred away");
  for (const request of views) assertThrows(() => request.start(), TypeError, "start: the memory of ");
  assertThrows(() => startAll([shrunk]), RangeError, "startAll: data has 2 entries");
  assertThrows(() => startAll([gone]), TypeError, "startAll: the memory of into was transferred away");
  shrinking.buffer.resize(32);
  const received = world.ireceive(new Float64Array(4), rank);
  waitAll([shrunk.start(), received]);
  assertEquals(prepared.map(({ isUnderWay }) => isUnderWay), [false, false, false, false]);
});

/** All elements of a view, the last dimension first. */
function elementsOf({ data, shape, strides, offset = 0 }: StridedView): number[] {
  if (shape.length === 0) return [Number(data[offset])];
  const [extent, stride] = [shape[0], strides[0]];
  return range(extent).flatMap((i) =>
    elementsOf({ data, shape: shape.slice(1), strides: strides.slice(1), offset: offset + i * stride })
  );
}

clusterTest("rows, columns and faces are sent and received where they lie", async ({ communicator: world }) => {
  const { rank, size } = world;
  const [right, left] = [(rank + 1) % size, (rank + size - 1) % size];
  // Parts of a box of 3 x 4 x 5.
  const parts: Omit<StridedView, "data">[] = [
    { shape: [5], strides: [1], offset: 10 },
    { shape: [4], strides: [5], offset: 3 },
    { shape: [3, 4], strides: [20, 5], offset: 4 },
    { shape: [3, 5], strides: [20, 1], offset: 15 },
    { shape: [3, 2, 2], strides: [20, 5, 2], offset: 1 },
    { shape: [1, 3], strides: [-1, 2], offset: 9 },
    { shape: [], strides: [], offset: 7 },
    { shape: [0, 4], strides: [20, 5] },
  ];
  for (const arrayClass of [Float64Array, Uint8Array, BigInt64Array]) {
    const box = (owner: number) => make(arrayClass, range(60).map((i) => (i + 7 * owner) % 100));
    for (const part of parts) {
      const [own, others] = [{ ...part, data: box(rank) }, elementsOf({ ...part, data: box(left) })];
      const dense = make(arrayClass, range(others.length));
      const status = world.sendReceive(own, right, dense, { source: left });
      assertEquals([numbers(dense), status.count], [others, others.length]);
      const target = { ...part, data: make(arrayClass, Array(60).fill(99)) };
      const received = world.ireceive(target, left);
      world.isend(own, right).wait();
      assertEquals((await received).count, others.length);
      assertEquals(elementsOf(target), others);
      const touched = numbers(target.data).filter((value) => value !== 99).length;
      assertEquals(touched, others.filter((value) => value !== 99).length, "nothing beside it");
    }
  }
  // Complex numbers, by a LocalArray: column 1 of 3 x 2.
  const data = Float64Array.from(range(12), (i) => i + 100 * rank);
  const matrix = new LocalArray({ data, dtype: "complex128", shape: [3, 2] });
  const pairs = new Float64Array(6);
  world.sendReceive(matrix.slice([0, 1], [3, 1]), right, pairs, { source: left });
  assertEquals([...pairs], [2, 3, 6, 7, 10, 11].map((i) => i + 100 * left));
  // The halos of a grid with a border, in its own memory.
  const grid = new Float64Array(16).fill(rank);
  const column = (offset: number) => ({ data: grid, shape: [2], strides: [4], offset: 4 + offset });
  world.sendReceive(column(1), left, column(3), { source: right });
  assertEquals([grid[7], grid[11], grid[3]], [right, right, rank]);
});

clusterTest("views that cannot be sent or received are refused", ({ communicator: world }) => {
  const data = new Float64Array(10);
  const view = (part: Partial<StridedView>) => ({ data, shape: [2], strides: [1], ...part });
  const refuse = (part: Partial<StridedView>, text: string, type: new (message: string) => Error = RangeError) =>
    assertThrows(() => world.isend(view(part), world.rank), type, text);
  refuse({ offset: 9 }, "data takes the entries from 9 to 10, but its data has 10");
  refuse({ strides: [-1], offset: 5 }, "data has negative strides");
  refuse({ offset: -1 }, "takes the entries from -1 to 0");
  refuse({ shape: [2, 2] }, "as many strides", TypeError);
  refuse({ strides: [0.5] }, "whole numbers", TypeError);
  refuse({ offset: 0.5 }, "whole number", TypeError);
  refuse({ data: [1, 2] as never }, "data.data must be a typed array", TypeError);
  refuse({ dtype: "float32" }, "lives in Float32Array", DTypeError);
  assertThrows(() => world.ireceive(view({ strides: [0] })), RangeError, "into may have an element twice");
  assertThrows(() => world.ireceive(view({ shape: [2, 3], strides: [1, 1] })), RangeError, "twice");
});

clusterTest("a probe counts entries of the dtype that it is told", ({ communicator: world }) => {
  const { rank, size } = world;
  const [right, left] = [(rank + 1) % size, (rank + size - 1) % size];
  const sent = world.isend(new Float64Array(5), right);
  assertEquals(world.probe(left).count, 40);
  assertEquals(world.probe(left, { dtype: "float64" }).count, 5);
  assertEquals(world.probeNow(left, { dtype: "complex128" })!.count, 5);
  assertEquals(world.probe(left, { dtype: "bfloat16" }).count, 20);
  assertThrows(() => world.probe(left, { dtype: "float128" as never }), DTypeError, "known are");
  assertEquals(world.receive(new Float64Array(5), left).count, 5);
  const odd = world.isend(new Uint8Array(7), right);
  assertThrows(() => world.probe(left, { dtype: "float32" }), RangeError, "the message has 7 bytes");
  world.receive(new Uint8Array(7), left);
  waitAll([sent, odd]);
});

clusterTest("maxloc and minloc find the first place of an extreme", ({ communicator: world }) => {
  const { rank, size } = world;
  for (const arrayClass of [Float64Array, Float32Array, Int32Array, BigInt64Array, Float16Array]) {
    // Values 0, 1, 2, 0, …: equal ones on several ranks.
    const pairs = make(arrayClass, [rank % 3, rank, -(rank % 2), rank]);
    const most = Math.min(2, size - 1);
    assertEquals(numbers(world.allReduce(pairs, { op: "maxloc" })), [most, most, 0, 0]);
    assertEquals(
      numbers(world.allReduce(pairs, { op: "minloc" })),
      [0, 0, size > 1 ? -1 : -0, size > 1 ? 1 : 0].map(Number),
    );
    const onRoot = world.reduce(pairs, { op: "maxloc", root: size - 1 });
    assertEquals(onRoot && numbers(onRoot), rank === size - 1 ? [most, most, 0, 0] : null);
  }
  assertThrows(() => world.allReduce(new Float64Array(3), { op: "maxloc" }), RangeError, "2 entries at a time");
  assertThrows(
    () => world.allReduce(new Uint16Array(2), { op: "maxloc", dtype: "bfloat16" }),
    DTypeError,
    "compares numbers",
  );
  assertThrows(() => world.iallReduce(new Float64Array(2), { op: "maxloc" }), TypeError, "is unknown");
});

clusterTest("operators of the script combine blocks in the order of the ranks", ({ communicator: world }) => {
  const { rank, size } = world;
  // a x + b after c x + d, which does not commute.
  const after = (f: number[], g: number[]) => [f[0] * g[0], g[0] * f[1] + g[1]];
  using compose = new ReductionOperator<Float64Array>((incoming, accumulated) => {
    for (let i = 0; i < accumulated.length; i += 2) {
      accumulated.set(after([...incoming.subarray(i, i + 2)], [...accumulated.subarray(i, i + 2)]), i);
    }
  }, { blockLength: 2 });
  const own = (of: number) => [2, of, -1, 3 * of + 1];
  const upTo = (last: number) =>
    range(last + 1).map(own).reduce((f, g) => [
      ...after(f.slice(0, 2), g.slice(0, 2)),
      ...after(f.slice(2), g.slice(2)),
    ]);
  const mine = Float64Array.from(own(rank));
  assertEquals([...world.allReduce(mine, { op: compose })], upTo(size - 1));
  assertEquals([...world.scan(mine, { op: compose })], upTo(rank));
  if (rank > 0) assertEquals([...world.exclusiveScan(mine, { op: compose })], upTo(rank - 1));
  else world.exclusiveScan(mine, { op: compose });
  const root = world.reduce(mine, { op: compose });
  assertEquals(root && [...root], rank === 0 ? upTo(size - 1) : null);
  const inPlace = mine.slice();
  assertEquals([...world.allReduce(inPlace, { op: compose, into: inPlace })], upTo(size - 1));
  // As many blocks as ranks, each of which gets one.
  const many = Float64Array.from(range(size).flatMap(() => own(rank).slice(0, 2)));
  assertEquals([...world.reduceScatter(many, { op: compose })], upTo(size - 1).slice(0, 2));
  using largest = new ReductionOperator<NumericArray>((a, b) => {
    for (let i = 0; i < b.length; i++) if (a[i] > b[i]) b[i] = a[i];
  }, { commutes: true });
  for (const arrayClass of CLASSES) {
    assertEquals(
      numbers(world.allReduce(make(arrayClass, [rank, 3]), { op: largest })),
      [size - 1, 3],
      arrayClass.name,
    );
  }
  const long = Float64Array.from(range(50_000), (i) => i + rank);
  assertEquals(world.allReduce(long, { op: largest }).at(-1), 49_999 + size - 1);
  const complex = new ReductionOperator<Float32Array>((a, b) => {
    for (let i = 0; i < b.length; i += 2) {
      [b[i], b[i + 1]] = [a[i] * b[i] - a[i + 1] * b[i + 1], a[i] * b[i + 1] + a[i + 1] * b[i]];
    }
  }, { blockLength: 2, commutes: true });
  const turned = world.allReduce(Float32Array.of(0, 1), { op: complex, dtype: "complex64" });
  assertEquals([...turned].map((x) => x || 0), [[1, 0], [0, 1], [-1, 0], [0, -1]][size % 4]);
  complex.free();
  complex.free();
  assertThrows(() => world.allReduce(mine, { op: complex as never }), StateError, "was freed");
  assertThrows(() => world.allReduce(mine.subarray(1), { op: compose }), RangeError, "2 entries at a time");
  assertThrows(
    () => world.allReduce(new Float32Array(2), { op: largest, dtype: "complex64" }),
    RangeError,
    "an even blockLength",
  );
  assertThrows(() => world.iallReduce(mine, { op: compose }), TypeError, "is unknown; known are sum");
  assertThrows(() => new ReductionOperator(3 as never), TypeError, "takes a function");
  assertThrows(() => new ReductionOperator(() => {}, { blockLength: 0 }), RangeError, "blockLength must be");
  assertThrows(() => new ReductionOperator(() => {}, { commute: true } as never), TypeError, "commute");
});

clusterTest("what an operator throws is thrown by the call, and MPI goes on", { ranks: [2, 3, 4] }, (runtime) => {
  const world = runtime.communicator;
  const broken = new ReductionOperator(() => {
    throw new TypeError("no such thing");
  });
  let thrown: unknown = null;
  try {
    world.allReduce(Float64Array.of(1), { op: broken });
  } catch (error) {
    thrown = error;
  }
  // Which ranks combine something is up to MPI.
  const texts = world.allGatherObject(thrown === null ? null : String(thrown));
  assert(texts.includes("TypeError: no such thing"), String(texts));
  assertEquals(texts.filter((text) => text !== null && text !== "TypeError: no such thing"), []);
  assertEquals(world.allReduce(Float64Array.of(1))[0], world.size);
  broken.free();
});

clusterTest("what an operator's function gets is gone when it has returned", ({ communicator: world }) => {
  const kept: Float64Array[] = [];
  using sum = new ReductionOperator<Float64Array>((a, b) => {
    for (let i = 0; i < b.length; i++) b[i] += a[i];
    kept.push(a, b);
  });
  for (const length of [1, 100_000]) {
    const [first] = world.allReduce(new Float64Array(length).fill(1), { op: sum });
    assertEquals(first, world.size);
  }
  assertEquals(kept.filter(({ length }) => length > 0), []);
  using moving = new ReductionOperator<Float64Array>((a, b) => {
    b[0] += a[0];
    (a.buffer as ArrayBuffer).transfer(0);
  });
  assertEquals(world.allReduce(Float64Array.of(1), { op: moving })[0], world.size);
});

clusterTest("an operator is not freed while it combines", { ranks: [2, 3, 4] }, ({ communicator: world }) => {
  const freed: boolean[] = [];
  const operator: ReductionOperator<Float64Array> = new ReductionOperator((a, b) => {
    b[0] += a[0];
    assertThrows(() => operator.free(), StateError, "free: this ReductionOperator is combining");
    freed.push(operator.isFreed);
  });
  assertEquals(world.allReduce(Float64Array.of(1), { op: operator })[0], world.size);
  assertEquals(freed.filter((is) => is), []);
  operator.free();
  assert(operator.isFreed);
  const once: ReductionOperator<Float64Array> = new ReductionOperator((a, b) => {
    b[0] += a[0];
    once[Symbol.dispose]();
  });
  assertEquals(world.allReduce(Float64Array.of(1), { op: once })[0], world.size);
  once.free();
});

clusterTest("an operator can be freed after a call that made none", (runtime) => {
  const copy = runtime.communicator.duplicate();
  const sum = new ReductionOperator<Float64Array>((a, b) => b.set([a[0] + b[0]]));
  const options = {
    op: sum,
    get into() {
      copy.free();
      return new Float64Array(1);
    },
  };
  assertThrows(() => copy.allReduce(Float64Array.of(1), options), StateError, "was freed");
  sum.free();
});

clusterTest("a collective call cannot be cancelled", ({ communicator: world }) => {
  for (const request of [world.ibarrier(), world.iallReduce(f64(1))]) {
    if (!request.isComplete) assertThrows(() => request.cancel(), StateError, "cancel: ");
    request.wait();
  }
});

clusterTest("a receive can be cancelled", async ({ communicator: world }) => {
  const request = world.ireceive(new Int8Array(1), world.rank, { tag: 99 });
  request.cancel();
  assertEquals(await request, { source: null, tag: -1, count: 0 });
  assert(request.isCancelled);
  using prepared = world.receiveInit(new Int8Array(1), world.rank, { tag: 99 });
  const started = prepared.start();
  started.cancel();
  assertEquals([await started, started.isCancelled], [{ source: null, tag: -1, count: 0 }, true]);
  assertEquals(world.probeNow(world.rank, { tag: 99 }), null);
});

clusterTest("parts without elements are sent and received where they lie", ({ communicator: world }) => {
  const { rank, size } = world;
  const sum = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);
  // Of three ranks the second has nothing, of two the last.
  const counts = Array.from({ length: size }, (_, other) => other === size - 1 && size > 2 ? 1 : other === 0 ? 2 : 0);
  const starts = counts.map((_, other) => sum(counts.slice(0, other)));
  const into = new Float64Array(sum(counts) + 1);
  into.fill(rank, starts[rank], starts[rank] + counts[rank]);
  world.allGatherV(into.subarray(starts[rank], starts[rank] + counts[rank]), { counts, into });
  assertEquals([...into], [...counts.flatMap((count, other) => Array(count).fill(other)), 0]);
  const rows = rank === 0 ? 0 : 2;
  const grid = new Float64Array(4 * (rows + 2)).fill(1);
  const column = (c: number) => ({ data: grid, shape: [rows], strides: [4], offset: 4 + c });
  grid.fill(7, 5, 6);
  const status = world.sendReceive(column(1), rank, column(3));
  assertEquals([status.count, grid[7]], [rows, rows === 0 ? 1 : 7]);
});

clusterTest("a color of -0 is 0", ({ communicator: world }) => {
  const all = world.split(-0)!;
  assertEquals(all.size, world.size);
  all.free();
});

clusterTest("elements more than 2^31 apart are sent", { ranks: [1] }, ({ communicator: world }) => {
  const data = new Uint8Array(2 ** 31 + 8);
  [data[0], data[2 ** 31]] = [3, 4];
  const into = new Uint8Array(2);
  world.sendReceive({ data, shape: [2], strides: [2 ** 31] }, 0, into);
  assertEquals([...into], [3, 4]);
});

const VALUES: unknown[] = [
  null,
  undefined,
  true,
  "é🙂",
  -0,
  NaN,
  Infinity,
  2n ** 70n,
  [],
  {},
  { shape: [1, 2, 3], nested: { list: [{ a: null }, undefined, NaN] } },
  new Map([["key", new Set([1, 2])]]),
  new Date(0),
  Float64Array.of(1, 2),
];

clusterTest("values arrive as they were sent: also undefined, NaN, bigint, Map", ({ communicator: world }) => {
  for (const value of VALUES) {
    const root = world.size - 1;
    assertEquals(world.broadcastObject(world.rank === root ? value : "ignored", { root }), value);
    assertEquals(world.allGatherObject(value), range(world.size).map(() => value));
    assertEquals(world.sendReceiveObject(value, world.rank), value);
  }
  assert(Object.is(world.broadcastObject(-0), -0));
});

clusterTest("the methods that end in Object", async ({ communicator: world }) => {
  const { rank, size } = world;
  const of = (r: number) => ({ rank: r, text: "x".repeat(r * 3) });
  const all = range(size).map(of);
  assertEquals(world.gatherObject(of(rank), { root: size - 1 }), rank === size - 1 ? all : null);
  assertEquals(world.allGatherObject(of(rank)), all);
  assertEquals(world.scatterObject(rank === 0 ? all : null), of(rank));
  assertEquals(world.allToAllObject(range(size).map((to) => [rank, to])), range(size).map((from) => [from, rank]));
  assertEquals(world.allReduceObject(String(rank), (a, b) => a + b), range(size).join(""));
  assertEquals(world.reduceObject(String(rank), (a, b) => a + b), rank === 0 ? range(size).join("") : null);
  assertEquals(world.scanObject(String(rank), (a, b) => a + b), range(rank + 1).join(""));
  assertEquals(world.allReduceObject(rank, Math.max), size - 1, "a function of any number of arguments gets two");
  assertEquals([world.receiveObject(null), await world.ireceiveObject(null)], [null, null]);
  assertEquals(world.exclusiveScanObject(String(rank), (a, b) => a + b), rank === 0 ? null : range(rank).join(""));

  const [to, from] = [(rank + 1) % size, (rank + size - 1) % size];
  assertEquals(world.sendReceiveObject(of(rank), to, { source: from, tag: 3, receiveTag: 3 }), of(from));
  const sent = world.isendObject(of(rank), to);
  assertEquals(await world.ireceiveObject(from), of(from));
  await sent;
  if (size > 1) {
    if (rank === 0) world.sendObject({ hello: 1n }, 1, { tag: 4 });
    if (rank === 1) assertEquals(world.receiveObject("any", { tag: 4 }), { hello: 1n });
  }
});

clusterTest("what scripts write again and again: a share, a ring, values by key", ({ communicator: world }) => {
  const { rank, size } = world;
  const items = range(7);
  assertEquals(world.allGatherObject(world.deal(items)), range(size).map((r) => items.filter((i) => i % size === r)));
  assertEquals(world.deal("abc").join(""), [..."abc"].filter((_, i) => i % size === rank).join(""));

  assertEquals([...world.ringObject({ rank })], range(size).map((step) => ({ rank: (rank + size - step) % size })));
  // Other messages between the same ranks, while values go around, are not taken for them.
  const [to, from] = [(rank + 1) % size, (rank + size - 1) % size];
  const sent = world.isendObject("else", to, { tag: 5 });
  for (const part of world.ringObject(new Float64Array([rank, 0.5]))) assertEquals(part[1], 0.5);
  assertEquals(world.receiveObject(from, { tag: 5 }), "else");
  sent.wait();

  // What no method for values has sent: numbers, nothing, and what mpi4py's pickle begins with.
  const self = Communicator.self();
  for (const other of [Int32Array.of(5), new Uint8Array(0), Uint8Array.of(0x80, 5, 0x4b, 5, 0x2e)]) {
    const why = `the message from rank 0 with tag 3, of ${other.byteLength} bytes, is no value of the methods`;
    for (const receive of [() => self.receiveObject(0), () => self.ireceiveObject(0).wait()]) {
      const request = self.isend(other, 0, { tag: 3 });
      assertThrows(receive, TypeError, why);
      request.wait();
    }
  }

  const root = size - 1;
  const words: [string, string][] = [["all", `${rank}`], [`of ${rank}`, "a"], ["all", "+"]];
  const expected = new Map(range(size).map((r) => [`of ${r}`, "a"])).set(
    "all",
    range(size).map((r) => `${r}+`).join(""),
  );
  assertEquals(world.reduceByKey(words, (a, b) => a + b, { root }), rank === root ? expected : null);
  const kept = world.reduceByKey(new Map([[rank % 2, [rank]]]), (a, b) => [...a, ...b]);
  const even = range(size).filter((r) => r % 2 === 0);
  if (rank === 0) assertEquals(kept!.get(0), even);
  const nothing = world.reduceByKey<string, undefined>([["key", undefined]], () => undefined);
  assertEquals(nothing, rank === 0 ? new Map([["key", undefined]]) : null, "undefined is a value");
});

clusterTest(
  "values that are waited for at the same time come in the order in which they were sent",
  async (runtime) => {
    const world = runtime.communicator;
    const { rank, size } = world;
    const [to, from] = [(rank + 1) % size, (rank + size - 1) % size];
    for (let round = 0; round < 20; round++) {
      const waiting = [world.ireceiveObject(from), world.ireceiveObject(), world.ireceiveObject(from, { tag: 1 })];
      if (round % 2 > 0) await new Promise((resolve) => setTimeout(resolve, 2 * rank));
      const sent = ["first", "second", "third", "fourth"].map((text) => world.isendObject(text, to, { tag: 1 }));
      // Called last, it gets what the others leave.
      const last = world.receiveObject(from);
      assertEquals([...await Promise.all(waiting), last], ["first", "second", "third", "fourth"]);
      await Promise.all(sent);
    }
  },
);

clusterTest("a request that receives from nobody has no sender", async ({ communicator: world }) => {
  for (let round = 0; round < 3; round++) {
    const status = await world.ireceive(new Int8Array(1), null);
    assertEquals([status.source, status.count], [null, 0]);
    assertEquals(world.ireceive(new Int8Array(1), null).wait(), status);
    assertEquals([await world.ireceiveObject(null), world.ireceiveObject(null).wait()], [null, null]);
  }
});

clusterTest("ireceiveObject() posts a receive: a blocking send to this rank itself ends", async (runtime) => {
  const world = runtime.communicator;
  for (const length of [0, 1, 1000, 100_000, 1_000_000, 20_000_000]) {
    const text = "x".repeat(length);
    const received = world.ireceiveObject<string>(world.rank);
    world.sendObject(text, world.rank);
    assert(await received === text, `${length} characters`);
  }
});

clusterTest("a ring of blocking sends of large values ends", async ({ communicator: world }) => {
  const { rank, size } = world;
  const [to, from] = [(rank + 1) % size, (rank + size - 1) % size];
  for (const source of [from, "any"] as const) {
    const received = [world.ireceiveObject<string>(source), world.ireceiveObject<string>(source, { tag: 7 })];
    world.sendObject(`${rank}`.repeat(2_000_000), to, { tag: 7 });
    world.sendObject({ small: rank }, to, { tag: 7 });
    assert(await received[0] === `${from}`.repeat(2_000_000));
    assertEquals<unknown>(await received[1], { small: from });
    world.barrier();
  }
});

clusterTest("a value is received while this rank waits elsewhere", { ranks: [2, 3, 4] }, ({ communicator: world }) => {
  const { rank } = world;
  const received = rank === 0 ? world.ireceiveObject<string>(1) : null;
  if (rank === 1) world.sendObject("x".repeat(3_000_000), 0);
  world.barrier();
  assertEquals(received?.wait().length ?? null, rank === 0 ? 3_000_000 : null);
});

clusterTest("a probe does not see what a receive that began earlier takes", async ({ communicator: world }) => {
  const { rank } = world;
  const first = world.ireceiveObject(rank, { tag: 1 });
  const sent = [world.isendObject("first", rank, { tag: 1 }), world.isendObject("second", rank, { tag: 1 })];
  assertEquals(world.receiveObject("any", { tag: 1 }), "second");
  assertEquals(await first, "first");
  assertEquals(world.probeNow(rank), null);
  await Promise.all(sent);
});

clusterTest("many values can be waited for at once", async ({ communicator: world }) => {
  const { rank, size } = world;
  const [to, from] = [(rank + 1) % size, (rank + size - 1) % size];
  const waiting = range(500).map(() => world.ireceiveObject<number>(from));
  for (const i of range(500)) world.sendObject(i, to);
  assertEquals(await Promise.all(waiting), range(500));
});

clusterTest("an expected value can be given up, twice as well as once", async ({ communicator: world }) => {
  for (const times of [1, 2]) {
    const value = world.ireceiveObject(world.rank, { tag: 9 });
    const array = world.ireceive(new Int8Array(1), world.rank, { tag: 9 });
    for (const request of [value, array]) for (let i = 0; i < times; i++) request.cancel();
    assertEquals(await value, null);
    await array;
    assertEquals([value.isCancelled, array.isCancelled], [true, true]);
    value.cancel();
  }
});

clusterTest("values of 40 MiB are carried whole", { ranks: [2] }, ({ communicator: world }) => {
  const text = "distmath".repeat(5 << 20);
  assert(world.broadcastObject(world.rank === 0 ? text : "") === text);
});

clusterTest("split() makes a communicator for each color", ({ communicator: world }) => {
  const { rank, size } = world;
  const same = range(size).filter((other) => other % 2 === rank % 2);
  const part = world.split(rank % 2)!;
  assertEquals(part.allGatherObject(rank), same);
  assertEquals([part.rank, part.size], [same.indexOf(rank), same.length]);
  const reversed = world.split(0, -rank)!;
  assertEquals(reversed.allGatherObject(rank), range(size).reverse());
  const none = world.split(rank === 0 ? null : 1);
  assertEquals(none === null, rank === 0);
  for (const made of [part, reversed, none]) made?.free();
  assert(part.isFreed);
  part.free();
});

clusterTest("sendReceiveObject() refuses before it sends", ({ communicator: world }) => {
  const [to, from] = [(world.rank + 1) % world.size, (world.rank + world.size - 1) % world.size];
  const words: [object, string][] = [
    [{ source: world.size }, `sendReceiveObject: source is ${world.size}`],
    [{ receiveTag: -1 }, "sendReceiveObject: tag is -1"],
  ];
  for (const [options, message] of words) {
    assertThrows(() => world.sendReceiveObject("refused", to, options), RangeError, message);
  }
  assertEquals(world.sendReceiveObject<string>(`of ${world.rank}`, to, { source: from }), `of ${from}`);
});

clusterTest("ofWorldRanks() refuses what is no list of ranks, or has not its caller", (runtime) => {
  const { rank, size } = runtime;
  const wrong: [unknown, typeof TypeError | typeof RangeError, string][] = [
    [3, TypeError, "ofWorldRanks takes a list of ranks, not 3"],
    [[], RangeError, `ofWorldRanks: rank ${rank} calls it, and is not in the list []`],
    [[rank, size], RangeError, `from 0 to ${size - 1}; ${size} is in the list`],
    [[rank, 0.5], RangeError, "0.5 is in the list"],
    [[rank, rank], RangeError, `${rank} is in the list`],
    [[NaN], RangeError, "NaN is in the list"],
  ];
  for (const [list, type, message] of wrong) {
    assertThrows(() => Communicator.ofWorldRanks(list as number[]), type, message);
  }
});

clusterTest("ofWorldRanks() takes a list of ranks, which alone call it, in the order of the list", (runtime) => {
  const { communicator: world, rank, size } = runtime;
  // All but the first, last to first; a rank alone where there is only one.
  const list = size === 1 ? [0] : Array.from({ length: size - 1 }, (_, i) => size - 1 - i);
  if (list.includes(rank)) {
    const [first, second] = [0, 1].map(() => Communicator.ofWorldRanks(list));
    assertEquals([first.size, first.rank, first.worldRanks], [list.length, list.indexOf(rank), list]);
    assertEquals([first.name, second.name], [`ranks ${list}/0`, `ranks ${list}/1`]);
    assertEquals(second.allGather(Int32Array.of(rank)), Int32Array.from(list));
    // Their messages do not meet.
    const sent = first.isend(Int32Array.of(1), first.rank);
    assertEquals(second.probeNow(second.rank), null);
    first.receive(new Int32Array(1), first.rank);
    sent.wait();
    for (const made of [first, second]) made.free();
    assertThrows(() => first.barrier(), StateError, "freed");
  }
  world.barrier();
});

clusterTest("splitShared() and duplicate() hold the same ranks on one machine", ({ communicator: world }) => {
  const shared = world.splitShared();
  const copy = world.duplicate();
  assertEquals([shared.size, copy.size, copy.rank], [world.size, world.size, world.rank]);
  assert(copy.handle !== world.handle);
  // A message in the copy does not meet a receive in the original.
  const request = copy.isend(Int8Array.of(1), copy.rank);
  assertEquals(world.probeNow(world.rank), null);
  assertEquals(copy.receive(new Int8Array(1), copy.rank).count, 1);
  request.wait();
  copy.free();
  shared.free();
});

clusterTest("using a communicator queues it, and collect() frees it on all its ranks", (runtime) => {
  const world = runtime.communicator;
  const made: Communicator[] = [];
  {
    using a = world.duplicate();
    using b = world.split(world.rank % 2)!;
    using c = b.duplicate();
    made.push(a, b, c);
    c.barrier();
  }
  assertEquals(made.map(({ isFreed }) => isFreed), [false, false, false], "dispose only marks");
  runtime.collect();
  assertEquals(made.map(({ isFreed }) => isFreed), [true, true, true]);

  const kept = world.duplicate();
  if (world.rank === 0) kept[Symbol.dispose]();
  runtime.collect();
  assertEquals(kept.isFreed, world.size === 1, "what one rank still uses is not freed");
  if (world.rank !== 0) kept[Symbol.dispose]();
  runtime.collect();
  assert(kept.isFreed);
  world[Symbol.dispose]();
  assert(!world.isFreed);
});

clusterTest("a collective operation on arrays frees the communicators that were queued", (runtime) => {
  const made: Communicator[] = [];
  {
    using copy = runtime.communicator.duplicate();
    using part = runtime.communicator.split(runtime.rank % 2)!;
    using shared = runtime.communicator.splitShared();
    made.push(copy, part, shared);
  }
  assertEquals(made.map(({ isFreed }) => isFreed), [false, false, false]);
  DistributedArray.zeros(runtime, [3], Slab.X);
  assertEquals(made.map(({ isFreed }) => isFreed), [true, true, true]);
});

/** Calls whose arguments change while they are read. */
const CHANGING: Misuse[] = [
  ["a length of its own", (w) => {
    const data = Object.defineProperty(f64(1), "length", { get: () => 1 << 28 });
    assertEquals(w.allReduce(data, { into: data }).byteLength, 8);
    w.allGather(f64(2), { into: Object.defineProperty(f64(1), "length", { value: 2 * w.size }) });
  }, "into has 1 entries, it needs "],
  ["options that shrink the array", (w) => {
    const data = new Float64Array(new ArrayBuffer(800, { maxByteLength: 800 }));
    w.allReduce(data, {
      get into() {
        (data.buffer as ArrayBuffer).resize(8);
        return f64(100);
      },
    });
  }, "An array that had 100 entries has 1 now"],
  ["a view to receive that moves what is sent", (w) => {
    const data = f64(4);
    const into = {
      get data() {
        data.buffer.transfer(0);
        return f64(4);
      },
      shape: [4],
      strides: [1],
    };
    w.sendReceive(data, w.rank, into);
  }, "sendReceive: the memory of data was transferred away"],
  ["a view to receive that shrinks what is sent", (w) => {
    const data = new Float64Array(new ArrayBuffer(80, { maxByteLength: 80 }));
    const into = {
      data: f64(10),
      get shape() {
        data.buffer.resize(40);
        return [10];
      },
      strides: [1],
    };
    w.sendReceive({ data, shape: [3], strides: [3] }, w.rank, into);
  }, "sendReceive: data has 5 entries, it needs 7"],
];

for (const [name, call, message] of CHANGING) {
  clusterTest(`what changes while it is read is refused: ${name}`, (runtime) => {
    const error = assertThrows(() => call(runtime.communicator), Error);
    assertStringIncludes(error.message, message);
  });
}

clusterTest("counts and displacements count as what they are at first", ({ communicator: world }) => {
  const { rank, size } = world;
  const changing = (values: number[]) => {
    const reads = values.map(() => 0);
    const list = [...values];
    values.forEach((value, i) => Object.defineProperty(list, i, { get: () => reads[i]++ === 0 ? value : 1 << 30 }));
    return list;
  };
  const ones = new Array<number>(size).fill(1);
  const send = Float64Array.of(rank);
  const all = range(size).map((_, r) => r);
  const options = () => ({ counts: changing(ones), displacements: changing(all) });
  assertEquals([...world.allGatherV(send, options())], all);
  assertEquals([...world.gatherV(send, options()) ?? all], all);
  assertEquals([...world.iallGatherV(send, options()).wait()], all);
  const scattered = world.scatterV(rank === 0 ? Float64Array.from(all) : null, f64(1), options());
  assertEquals([...scattered], [rank]);
  assertEquals([...world.reduceScatter(Float64Array.from(all), { counts: changing(ones) })], [rank * size]);
  const lists = world.allToAllV(Float64Array.from(all), {
    sendCounts: changing(ones),
    sendDisplacements: changing(all),
    receiveCounts: changing(ones),
    receiveDisplacements: changing(all),
  });
  assertEquals([...lists], ones.map(() => rank));
});

clusterTest("a communicator that was queued cannot make others", (runtime) => {
  const copy = runtime.communicator.duplicate();
  copy[Symbol.dispose]();
  assertThrowsEverywhere(runtime, () => copy.duplicate(), StateError, "duplicate: this communicator was freed");
});

clusterTest("a communicator tells its name, rank and size", ({ communicator: world }) => {
  const { rank, size } = world;
  assertEquals(`${world}`, `Communicator(world, rank ${rank} of ${size})`);
  assertEquals(`${Communicator.self()}`, `Communicator(self of ${rank}, rank 0 of 1)`);
  const copy = world.duplicate();
  copy.free();
  assertStringIncludes(`${copy}`, `Communicator(world/`);
  assertStringIncludes(`${copy}`, `, rank ${rank} of ${size}, freed)`);
});

clusterTest("many communicators can be made and freed", (runtime) => {
  for (let i = 0; i < 200; i++) {
    using copy = runtime.communicator.duplicate();
    assertEquals(copy.size, runtime.size);
    if (i % 50 === 49) runtime.collect();
  }
  runtime.collect();
});

type Misuse = [name: string, call: (world: Communicator) => unknown, message: string];

/** Calls that must fail with an error of the class, each with a part of its message; none of them may reach MPI. */
function misuse(errorClass: ErrorClass<Error>, calls: readonly Misuse[]): void {
  for (const [name, call, message] of calls) {
    clusterTest(`misuse: ${name}`, (runtime) => {
      assertThrowsEverywhere(runtime, () => call(runtime.communicator), errorClass, message);
    });
  }
}

const f64 = (length: number) => new Float64Array(length);
const wrong = <T>(value: unknown): T => value as T;
/** An array behind which its buffer was shrunk. */
const cutOff = (): Float64Array<ArrayBuffer> => {
  const buffer = new ArrayBuffer(32, { maxByteLength: 64 });
  const array = new Float64Array(buffer, 8, 3);
  buffer.resize(16);
  return array;
};
const detached = (): Float64Array<ArrayBuffer> => {
  const array = f64(4);
  structuredClone(array, { transfer: [array.buffer] });
  return array;
};

misuse(TypeError, [
  [
    "a list instead of a typed array",
    (w) => w.allReduce(wrong([1, 2])),
    "allReduce: send must be a typed array of numbers, not [1, 2]; other values travel by the methods that end in Object.",
  ],
  [
    "undefined",
    (w) => w.broadcast(wrong(undefined)),
    "broadcast: data must be a typed array of numbers, not undefined",
  ],
  ["null", (w) => w.allGather(wrong(null)), "allGather: send must be a typed array of numbers, not null"],
  ["a DataView", (w) => w.allGather(wrong(new DataView(new ArrayBuffer(8)))), "not a DataView"],
  [
    "an ArrayBuffer",
    (w) => w.isend(wrong(new ArrayBuffer(8)), 0),
    "isend: data must be a typed array of numbers, not an ArrayBuffer",
  ],
  [
    "into of another class",
    (w) => w.allReduce(f64(2), { into: wrong(new Float32Array(2)) }),
    "allReduce: into is a Float32Array, it must be a Float64Array",
  ],
  [
    "into that is no array",
    (w) => w.allReduce(f64(2), { into: wrong("text") }),
    'allReduce: into must be a typed array of numbers, not "text"',
  ],
  ["a detached send buffer", (w) => w.allReduce(detached()), "the memory of send was transferred away"],
  ["a detached into", (w) => w.allReduce(f64(4), { into: detached() }), "the memory of into was transferred away"],
  ["an array that is cut off", (w) => w.allReduce(cutOff()), "send reaches beyond the end of its resizable buffer"],
  ["a message that is cut off", (w) => w.isend(cutOff(), 0), "which has 16 bytes now: it has no entries any more"],
  ["an into that is cut off", (w) => w.receive(cutOff(), 0), "pass a new array of what is left"],
  ["a view of what is cut off", (w) => w.isend({ data: cutOff(), shape: [0], strides: [1] }, 0), "data.data reaches"],
  [
    "an unknown operation",
    (w) => w.allReduce(f64(1), { op: wrong("average") }),
    'op "average" is unknown; known are sum, prod',
  ],
  [
    "a root that is no integer",
    (w) => w.reduce(f64(1), { root: 0.5 }),
    "reduce: root must be a rank, an integer, not 0.5",
  ],
  [
    "a root that is a string",
    (w) => w.broadcastObject(1, { root: wrong("0") }),
    'broadcastObject: root must be a rank, an integer, not "0"',
  ],
  [
    "a missing destination",
    (w) => w.send(f64(1), wrong(undefined)),
    "send: destination must be a rank, an integer, not undefined",
  ],
  ["a tag that is no integer", (w) => w.isend(f64(1), 0, { tag: 1.5 }), "isend: tag must be an integer, not 1.5"],
  ["counts that are missing", (w) => w.allGatherV(f64(1), wrong({})), "allGatherV: counts is missing"],
  [
    "counts that are no list",
    (w) => w.allGatherV(f64(1), { counts: wrong("11") }),
    "counts must be an array with one integer a rank",
  ],
  ["a function as a value", (w) => w.allGatherObject(() => 1), "allGatherObject: the value cannot be sent"],
  ["no list for allToAllObject", (w) => w.allToAllObject(wrong<[]>({})), "values must be an array, not an object"],
  [
    "an operation in place of options",
    (w) => w.allReduce(f64(1), wrong("max")),
    'allReduce: options must be an object; got "max"',
  ],
  ["a root in place of options", (w) => w.broadcast(f64(1), wrong(1)), "broadcast: options must be an object"],
  ["null as options", (w) => w.gather(f64(1), wrong(null)), "gather: options must be an object; got null"],
  ["a list as options", (w) => w.scan(f64(1), wrong([])), "scan: options must be an object"],
  [
    "an option that is none",
    (w) => w.allReduce(f64(1), wrong({ operation: "max" })),
    'allReduce: options may have no key "operation"; did you mean "op"? Allowed: dtype, into, op.',
  ],
  [
    "an option of another method",
    (w) => w.allReduce(f64(1), wrong({ root: 0 })),
    'allReduce: options may have no key "root"',
  ],
  [
    "a count beside counts",
    (w) => w.allGatherV(f64(1), wrong({ count: [1] })),
    'may have no key "count"; did you mean "counts"?',
  ],
  [
    "a dtype for values",
    (w) => w.broadcastObject(1, wrong({ dtype: "float64" })),
    'broadcastObject: options may have no key "dtype". Allowed: root.',
  ],
  [
    "a dtype for a value that is sent",
    (w) => w.sendObject(1, 0, wrong({ dtype: "float64" })),
    'sendObject: options may have no key "dtype". Allowed: tag.',
  ],
  ["a dtype for a value that is begun", (w) => w.isendObject(1, 0, wrong({ dtype: "int8" })), 'no key "dtype"'],
  [
    "a dtype for a value that is received",
    (w) => w.receiveObject(0, wrong({ dtype: "float64" })),
    'receiveObject: options may have no key "dtype". Allowed: tag.',
  ],
  ["a dtype for a value that is expected", (w) => w.ireceiveObject(0, wrong({ dtype: "int8" })), 'no key "dtype"'],
  [
    "a dtype for values that are exchanged",
    (w) => w.sendReceiveObject(1, 0, wrong({ dtype: "float64" })),
    'sendReceiveObject: options may have no key "dtype". Allowed: tag, source, receiveTag.',
  ],
  ["a tag in place of options", (w) => w.send(f64(1), 0, wrong(5)), "send: options must be an object"],
  ["a tag to probe for", (w) => w.probe("any", wrong({ Tag: 5 })), 'did you mean "tag"'],
  ["no options for allToAllV", (w) => w.allToAllV(f64(1), wrong(undefined)), "sendCounts is missing"],
  [
    "a root after the options",
    (w) => wrong<(...all: unknown[]) => void>(w.reduce).call(w, f64(1), { op: "max" }, 1),
    "reduce: too many arguments were given; call it as reduce(send, { dtype, into, op, root }).",
  ],
  [
    "options for allReduceObject",
    (w) => wrong<(...all: unknown[]) => void>(w.allReduceObject).call(w, 1, Math.max, { root: 1 }),
    "allReduceObject: too many arguments were given; call it as allReduceObject(value, combine).",
  ],
  [
    "no function to combine values by key with",
    (w) => w.reduceByKey([["a", 1]], wrong(null)),
    "reduceByKey: combine must be a function (a, b) => value, not null",
  ],
  [
    "keys without values",
    (w) => w.reduceByKey(wrong<[string, number][]>(["word"]), Math.max),
    'reduceByKey: an entry must be [key, value], not "word"',
  ],
  ["a number of items", (w) => w.deal(wrong<string[]>(3)), "deal: items must be a list or another iterable, not 3"],
  [
    "no function to combine with",
    (w) => w.reduceObject(1, wrong("sum")),
    'reduceObject: combine must be a function (a, b) => value, not "sum"',
  ],
  ["a color that is a string", (w) => w.split(wrong("red")), "split: color must be null or an integer"],
]);

misuse(RangeError, [
  [
    "into that is too short",
    (w) => w.allReduce(f64(3), { into: f64(2) }),
    "allReduce: into has 2 entries, it needs 3.",
  ],
  [
    "a gathering into that is too short",
    (w) => w.allGather(f64(3), { into: f64(2) }),
    "allGather: into has 2 entries, it needs ",
  ],
  [
    "into that overlaps",
    (w) => {
      const a = f64(6);
      w.allReduce(a.subarray(0, 4), { into: a.subarray(2, 6) });
    },
    "allReduce: into overlaps the array that is sent",
  ],
  [
    "half a complex number",
    (w) => w.allReduce(f64(3), { dtype: "complex128" }),
    "complex128 has two parts a number, but the array holds 3 entries",
  ],
  [
    "a root that is no rank",
    (w) => w.broadcast(f64(1), { root: 99 }),
    "broadcast: root is 99, but the ranks of this communicator are 0 to ",
  ],
  ["a negative root", (w) => w.gather(f64(1), { root: -1 }), "gather: root is -1"],
  ["a destination out of range", (w) => w.send(f64(1), 99), "send: destination is 99"],
  ["a source out of range", (w) => w.receive(f64(1), 99), "receive: source is 99"],
  ["a negative tag", (w) => w.send(f64(1), 0, { tag: -5 }), "send: tag is -5"],
  [
    "counts for other ranks",
    (w) => w.allGatherV(f64(1), { counts: [1, 1, 1, 1, 1, 1, 1] }),
    "counts has 7 numbers, it needs one for each of the ",
  ],
  [
    "a negative count",
    (w) => w.allGatherV(f64(1), { counts: Array(w.size).fill(-1) }),
    "counts[0] is -1, it must be an integer from 0",
  ],
  ["a count that is no integer", (w) => w.allGatherV(f64(1), { counts: Array(w.size).fill(0.5) }), "counts[0] is 0.5"],
  [
    "a count that is not the length",
    (w) => w.allGatherV(f64(2), { counts: Array(w.size).fill(3) }),
    "send has 2 entries, but the count of this rank is 3.",
  ],
  [
    "displacements beyond into",
    (w) =>
      w.allGatherV(f64(1), {
        counts: Array(w.size).fill(1),
        displacements: range(w.size).map((of) => 50 - of),
        into: f64(9),
      }),
    "into has 9 entries, it needs 51",
  ],
  [
    "more than 2^31 - 1 entries in all",
    (w) =>
      w.allToAllV(f64(1), {
        sendCounts: Array(w.size).fill(0),
        receiveCounts: Array(w.size).fill(2 ** 31 - 1),
        receiveDisplacements: Array(w.size).fill(1),
      }),
    "more than MPI's 2^31 - 1",
  ],
  [
    "send counts beyond the array",
    (w) => w.allToAllV(f64(1), { sendCounts: Array(w.size).fill(5), receiveCounts: Array(w.size).fill(5) }),
    "allToAllV: send has 1 entries, it needs ",
  ],
  [
    "reduceScatter with other counts",
    (w) => w.reduceScatter(f64(1), { counts: Array(w.size).fill(7) }),
    "but send has 1 entries",
  ],
  [
    "sendReceive with one memory",
    (w) => {
      const a = f64(2);
      w.sendReceive(a, 0, a);
    },
    "sendReceive: into overlaps data",
  ],
  ["too few values for allToAllObject", (w) => w.allToAllObject([]), "0 values were given for "],
  ["a negative color", (w) => w.split(-1), "split: color must be null or an integer from 0, not -1"],
  ["a key that is no integer", (w) => w.split(0, 0.5), "split: key must be a 32-bit integer, not 0.5"],
]);

misuse(DTypeError, [
  [
    "a bit operation on floats",
    (w) => w.allReduce(f64(1), { op: "bxor" }),
    'op "bxor" is for integers, not for float64',
  ],
  ["a logical operation on float16", (w) => w.reduce(new Float16Array(1), { op: "land" }), 'op "land" is for integers'],
  [
    "the product of complex numbers",
    (w) => w.allReduce(f64(2), { op: "prod", dtype: "complex128" }),
    "complex numbers can only be summed",
  ],
  [
    "an unknown dtype",
    (w) => w.allReduce(f64(1), { dtype: wrong<ElementName>("float128") }),
    'dtype "float128" is unknown',
  ],
  [
    "bfloat16 in floats",
    (w) => w.broadcast(f64(1), { dtype: "bfloat16" }),
    "data holds bfloat16, which lives in Uint16Array, not in Float64Array",
  ],
  [
    "a scan of float8",
    (w) => w.scan(new Uint8Array(1), { dtype: "float8_e5m2" }),
    "float8_e5m2 has no sums of its own",
  ],
]);

misuse(StateError, [["freeing world", (w) => w.free(), "world and self cannot be freed"]]);

clusterTest("misuse: parts that do not divide", { ranks: [2, 3, 4] }, (runtime) => {
  const world = runtime.communicator;
  const odd = f64(world.size + 1);
  assertThrowsEverywhere(runtime, () => world.allToAll(odd), RangeError, "equal parts; use allToAllV");
  assertThrowsEverywhere(runtime, () => world.reduceScatter(odd), RangeError, "equal parts; pass counts");
});

clusterTest("misuse: parts that have entries in common are not received", { ranks: [2, 3, 4] }, (runtime) => {
  const world = runtime.communicator;
  const counts = Array(world.size).fill(2);
  const displacements = range(world.size).map((of) => world.size - 1 - of);
  const refuse = (call: () => unknown, words: string) => assertThrowsEverywhere(runtime, call, RangeError, words);
  const last = `ranks ${world.size - 1} and ${world.size - 2}`;
  refuse(
    () => world.allGatherV(f64(2), { counts, displacements }),
    `allGatherV: the parts of ${last} have entries in common, by counts and displacements. Receive them apart.`,
  );
  refuse(() => world.iallGatherV(f64(2), { counts, displacements }), "iallGatherV: the parts of");
  refuse(
    () =>
      world.allToAllV(f64(2 * world.size), {
        sendCounts: counts,
        receiveCounts: counts,
        receiveDisplacements: displacements,
      }),
    "entries in common, by receiveCounts and receiveDisplacements",
  );
  if (world.rank === 0) {
    assertThrows(() => world.gatherV(f64(2), { counts, displacements }), RangeError, "gatherV: the parts of");
  }
  // What is sent may be sent to several.
  const sendDisplacements = Array(world.size).fill(0);
  const sent = Float64Array.of(world.rank, 1);
  const received = world.allToAllV(sent, { sendCounts: counts, sendDisplacements, receiveCounts: counts });
  assertEquals([...received], range(world.size).flatMap((of) => [of, 1]));
  // Parts without entries lie anywhere.
  const own = world.rank === 0 ? f64(2) : f64(0);
  const [first, ...others] = range(world.size).map((of) => of === 0 ? 2 : 0);
  world.allGatherV(own, { counts: [first, ...others], displacements: [0, ...others.map(() => 1)] });
});

clusterTest("misuse: what only the root can see is refused there", ({ communicator: world }) => {
  if (world.rank !== 0) return;
  assertThrows(() => world.scatter(null, f64(1)), TypeError, "scatter: send on the root must be a typed array");
  assertThrows(
    () => world.scatter(f64(world.size + 1), f64(1)),
    RangeError,
    "for parts of different lengths use scatterV",
  );
  assertThrows(
    () => world.scatter(new Float32Array(world.size) as unknown as Float64Array, f64(1)),
    TypeError,
    "send is a Float32Array",
  );
  assertThrows(() => world.scatterV(f64(4), f64(1)), TypeError, "scatterV: counts is missing");
  assertThrows(() => world.gatherV(f64(1)), TypeError, "gatherV: counts is missing");
  assertThrows(() => world.scatterObject(null), TypeError, "values must be an array, not null");
});

clusterTest("misuse: a freed communicator", (runtime) => {
  const freed = runtime.communicator.duplicate();
  freed.free();
  const calls: (() => unknown)[] = [
    () => freed.barrier(),
    () => freed.allReduce(f64(1)),
    () => freed.allGatherObject(1),
    () => freed.probe(),
    () => freed.split(0),
    () => freed.duplicate(),
    () => freed.handle,
    () => freed.fortranHandle(),
    () => freed.ibarrier(),
  ];
  for (const call of calls) assertThrowsEverywhere(runtime, call, StateError, "this communicator was freed");
});

// No tag can be that large under MPICH; Open MPI's largest tag is 2^31 - 1.
const ignore = launcher()?.kind !== "mpich" && "not MPICH";
clusterTest("an error of MPI itself is an MpiError with class and text", { ignore }, ({ communicator: world }) => {
  const error = assertThrows(() => world.send(f64(1), 0, { tag: 2 ** 31 - 1 }), MpiError, "MPI_ERR_TAG");
  assertEquals(error.symbol, "MPI_ERR_TAG");
});

clusterTest("sendReceiveObject() does not wait for what it sends once it cannot receive", { ignore }, (runtime) => {
  const { communicator: world, rank, size } = runtime;
  const [to, source] = [(rank + 1) % size, (rank + size - 1) % size];
  const receive = () => world.sendReceiveObject("x".repeat(2e6), to, { source, receiveTag: 2 ** 31 - 1 });
  assertThrows(receive, MpiError, "MPI_ERR_TAG");
  assertEquals(world.receiveObject<string>(source).length, 2e6);
});

/** Arrays of each class of integers, with entries of ranks that go beyond the class when they are added up. */
const WRAPPING = [Int8Array, Uint8Array, Int16Array, Uint16Array, Int32Array, Uint32Array] as const;

clusterTest("sums and products of integers wrap around, in all entries alike", ({ communicator }) => {
  const { rank, size } = communicator;
  for (const IntegerArray of WRAPPING) {
    const Integers = IntegerArray as unknown as Int32ArrayConstructor;
    // So many that vectors take some, and loops the others.
    const entryOf = (rank: number, i: number) => Integers.of(3 ** (rank + 4) * (i + 7) * 1e5)[0];
    const length = 77;
    const own = Integers.from({ length }, (_, i) => entryOf(rank, i));
    const ranks = Array.from({ length: size }, (_, rank) => rank);
    const sum = Integers.from({ length }, (_, i) => ranks.reduce((sum, rank) => sum + entryOf(rank, i), 0));
    const product = Integers.from({ length }, (_, i) => {
      const bits = ranks.reduce((product, rank) => BigInt.asIntN(32, product * BigInt(entryOf(rank, i))), 1n);
      return Number(bits);
    });
    assertEquals(communicator.allReduce(own), sum, Integers.name);
    assertEquals(communicator.allReduce(own, { op: "prod" }), product, Integers.name);
    assertEquals(communicator.iallReduce(own).wait(), sum, Integers.name);
    if (rank === size - 1) assertEquals(communicator.scan(own), sum, Integers.name);
    else communicator.scan(own);
  }
});

clusterTest("the largest and smallest of unsigned integers, also of large ones", ({ communicator }) => {
  const { rank, size } = communicator;
  const cases = [
    [Uint8Array, [200, 5]],
    [Uint8ClampedArray, [200, 5]],
    [Uint16Array, [60_000, 5]],
    [Uint32Array, [4_000_000_000, 5]],
    [BigUint64Array, [2n ** 63n + 1n, 5n]],
  ] as const;
  for (const [Unsigned, [large, small]] of cases) {
    const make = Unsigned as unknown as { from(values: Iterable<unknown>): Uint8Array };
    const [own, all] = [make.from([rank === 0 ? large : small, small]), [large, small]];
    const largest = make.from(all);
    const smallest = make.from([size === 1 ? large : small, small]);
    for (const [op, expected] of [["max", largest], ["min", smallest]] as const) {
      assertEquals(communicator.allReduce(own, { op }), expected);
      assertEquals(communicator.iallReduce(own, { op }).wait(), expected);
      const into = own.slice();
      communicator.allReduce(into, { op, into });
      assertEquals(into, expected);
      for (const reduced of [communicator.reduce(own, { op }), communicator.ireduce(own, { op }).wait()]) {
        assertEquals(reduced, rank === 0 ? expected : null);
      }
      const repeated = make.from(Array.from({ length: size }, () => own[0]));
      assertEquals(communicator.reduceScatter(repeated, { op }), expected.slice(0, 1));
      const sofar = make.from([op === "max" || rank === 0 ? large : small]);
      assertEquals(communicator.scan(own, { op }).slice(0, 1), sofar);
    }
  }
});

clusterTest("a sum on any root in place, and of half precision", ({ communicator }) => {
  const { rank, size } = communicator;
  for (let root = 0; root < size; root++) {
    const total = size * (size + 1) / 2;
    const values = new Float32Array(5000).fill(rank + 1);
    const sums = communicator.reduce(values, { root, into: values });
    assertEquals(sums, rank === root ? new Float32Array(5000).fill(total) : null);
    const halves = communicator.reduce(new Float16Array(5000).fill(rank + 1), { root });
    assertEquals(halves, rank === root ? new Float16Array(5000).fill(total) : null);
  }
});

clusterTest("the place of the largest is the same on all ranks, NaN before all others", ({ communicator }) => {
  const { rank, size } = communicator;
  for (const op of ["maxloc", "minloc"] as const) {
    for (let place = 0; place < size; place++) {
      const found = communicator.allReduce(Float64Array.of(rank >= place ? NaN : rank, rank), { op });
      assertEquals(found, Float64Array.of(NaN, place), op);
    }
  }
});
