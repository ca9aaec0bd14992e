import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import fc from "fast-check";
import {
  BlockCyclic,
  BlockNonCyclic,
  Box,
  CollectiveError,
  ConfigurationError,
  DistributedArray,
  type Distribution,
  DistributionError,
  type DType,
  DTypeError,
  dtypeInfo,
  dtypes,
  initialize,
  LocalArray,
  type Memory,
  type Order,
  ProcessGrid,
  redistribute,
  Redistribution,
  type RedistributionAlgorithm,
  Replicated,
  type Runtime,
  ShapeError,
  Slab,
  StateError,
} from "../../mod.ts";
import { viewOfAddress } from "../../ffi/memory.ts";
import { PackedExecutor } from "../../src/array/redistribution/packed_executor.ts";
import { planRedistribution } from "../../src/array/redistribution/plan.ts";
import { prepareThroughWindow } from "../../src/array/redistribution/window_executor.ts";
import { MpiWindow } from "../../src/memory/mpi_window.ts";
import { TypedExecutor } from "../../src/array/redistribution/typed_executor.ts";
import { openChannels, PeerChannels } from "../../src/memory/peer_channels.ts";
import { startMpi } from "../../src/mpi/init_finalize.ts";
import { prepareOnce, Redistributor } from "../../src/array/redistribution/redistributor.ts";
import { agree } from "../../src/runtime/agreement.ts";
import { assertThrowsEverywhere, clusterTest } from "../../src/testing/mod.ts";

/** Distributions of arrays with this many dimensions, of every class. */
function distributions(size: number, shape: readonly number[]): Distribution[] {
  const dimensions = shape.length;
  const fill = <T>(first: T, rest: T): T[] => [first, ...new Array<T>(dimensions - 1).fill(rest)];
  const line = new ProcessGrid({ shape: fill(size, 1), layout: "row-major" });
  const last = new ProcessGrid({ shape: fill(size, 1).toReversed(), layout: "column-major" });
  const cut = Math.floor(shape[0] / 3);
  const boxes = Array.from({ length: size }, (_, rank) => {
    const [from, to] = rank === 0 ? [cut, shape[0]] : rank === size - 1 ? [0, cut] : [0, 0];
    return [fill(size === 1 ? 0 : from, 0), [size === 1 ? shape[0] : to, ...shape.slice(1)]] as const;
  });
  const list: Distribution[] = [
    ...shape.map((_, dimension) => new Slab(dimension)),
    new BlockCyclic(line, fill(1, 2)),
    new BlockCyclic(last, fill(2, 3)),
    new BlockNonCyclic(line),
    new Box(boxes),
    Replicated,
  ];
  if (size === 4 && dimensions >= 2) {
    const square = [2, 2, ...new Array<number>(dimensions - 2).fill(1)];
    for (const layout of ["row-major", "column-major"] as const) {
      list.push(new BlockCyclic(new ProcessGrid({ shape: square, layout }), fill(2, 1)));
    }
    list.push(new BlockNonCyclic(new ProcessGrid({ shape: square, layout: "row-major", processes: [3, 1, 2, 0] })));
  }
  return list;
}

const valueOf = (index: readonly number[]): number => index.reduce((sum, i) => (7 * sum + i) % 13, 1);

function make(
  runtime: Runtime,
  shape: number[],
  distribution: Distribution,
  dtype: DType,
  order: Order,
  memory?: Memory,
): DistributedArray {
  const options = { dtype, order, ...memory && { memory } };
  return DistributedArray.generate(runtime, shape, distribution, (...index) => valueOf(index), options);
}

/** The local part, element by element, against the formula at the global index of each. */
function check(array: DistributedArray): void {
  const { local, distribution, runtime, dtype } = array;
  assertEquals([...local.shape], distribution.localShape(runtime.rank));
  const values = local.toNumbers();
  const { parts } = dtypeInfo(dtype);
  const index = local.shape.map(() => 0);
  for (let i = 0; i < local.size; i++) {
    const wanted = valueOf(distribution.toGlobal(runtime.rank, index));
    if (values[i * parts] !== wanted) assertEquals(values[i * parts], wanted, `${array} at ${index}`);
    for (let d = index.length - 1; d >= 0 && ++index[d] === local.shape[d]; d--) index[d] = 0;
  }
}

for (const shape of [[23], [7, 10], [5, 4, 6], [3, 4, 2, 5]]) {
  clusterTest(`any distribution to any other, shape [${shape}]`, (runtime) => {
    const list = distributions(runtime.size, shape);
    for (const [i, from] of list.entries()) {
      for (const [j, to] of list.entries()) {
        const dtype = (["float32", "complex128", "bfloat16", "int8", "complex64", "int64"] as const)[(i + 3 * j) % 6];
        const value = (...index: number[]) => dtype === "int64" ? BigInt(valueOf(index)) : valueOf(index);
        const order = (i + j) % 2 === 0 ? "C" : "F";
        const a = DistributedArray.generate(runtime, shape, from, value, { dtype, order });
        const b = redistribute(a, to);
        assert(b.distribution.equals(to) && b.order === order && b.dtype === dtype);
        check(b);
        check(a);
      }
    }
  });
}

clusterTest("random grids, blocks, shapes (the same on all ranks)", (runtime) => {
  const { size } = runtime;
  const shapes = fc.array(fc.integer({ min: 0, max: 12 }), { minLength: 2, maxLength: 2 });
  const divisors = [1, 2, 3, 4].filter((count) => size % count === 0);
  const blocks = fc.tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 5 }));
  const distribution = fc.record({
    rows: fc.constantFrom(...divisors),
    layout: fc.constantFrom<"row-major" | "column-major">("row-major", "column-major"),
    blocks,
    first: fc.tuple(fc.nat(5), fc.nat(5)),
    kind: fc.constantFrom("cyclic", "x", "y"),
  }).map(({ rows, layout, blocks, first, kind }) => {
    if (kind !== "cyclic") return kind === "x" ? Slab.X : Slab.Y;
    const grid = new ProcessGrid({ shape: [rows, size / rows], layout });
    return new BlockCyclic(grid, [...blocks], { firstProcess: [first[0] % rows, first[1] % (size / rows)] });
  });
  const order = fc.constantFrom<Order>("C", "F");
  const cases = fc.record({ shape: shapes, from: distribution, to: distribution, order });
  fc.assert(
    fc.property(
      cases,
      ({ shape, from, to, order }) => check(make(runtime, shape, from, "float32", order).redistribute(to)),
    ),
    { numRuns: 60, seed: 4711 },
  );
});

clusterTest("uneven slabs to a ScaLAPACK grid and back", (runtime) => {
  const grid = new ProcessGrid({ shape: [1, runtime.size], layout: "column-major" });
  for (const n of [1, 2, 5, 17, 64]) {
    const a = make(runtime, [n, n + 1], Slab.X, "float64", "F");
    const b = a.redistribute(new BlockCyclic(grid, [3, 2]));
    check(b);
    assertEquals(b.redistribute(Slab.X).maxAbsDifference(a), 0);
  }
});

clusterTest("views and slices are redistributed like any array", (runtime) => {
  const grid = new ProcessGrid({ shape: [runtime.size, 1], layout: "row-major" });
  const whole = DistributedArray.generate(runtime, [9, 11], new BlockCyclic(grid, [2, 3]), (i, j) => 100 * i + j);
  const part = whole.slice([[2, 8], [3, 10]]).redistribute(Slab.Y);
  const wanted = DistributedArray.generate(runtime, [6, 7], Slab.Y, (i, j) => 100 * (i + 2) + j + 3);
  assertEquals(part.maxAbsDifference(wanted), 0);
  assertEquals(part.local.toNumbers(), wanted.local.toNumbers());
  const flipped = whole.transpose().redistribute(Slab.X);
  const flippedWanted = DistributedArray.generate(runtime, [11, 9], Slab.X, (i, j) => 100 * j + i);
  assertEquals(flipped.local.toNumbers(), flippedWanted.local.toNumbers());
});

clusterTest("NaN payloads and int64 bit patterns arrive unchanged", (runtime) => {
  const shape = [6, 8];
  const pattern = (i: number, j: number) => 0x7ff0000000000001n + BigInt(i * 8 + j) * 0x0123456789abn;
  const a = DistributedArray.generate(runtime, shape, Slab.X, pattern, { dtype: "int64" }).redistribute(Slab.Y);
  const [, columns] = a.distribution.localShape(runtime.rank);
  const [, first] = columns > 0 ? a.distribution.toGlobal(runtime.rank, [0, 0]) : [0, 0];
  for (let i = 0; i < 6; i++) {
    for (let j = 0; j < columns; j++) assertEquals(a.local.at(i, j), pattern(i, first + j));
  }
});

clusterTest("Redistribution is planned once and executed often", (runtime) => {
  const { size } = runtime;
  const a = make(runtime, [12, 8], Slab.X, "float32", "C");
  using plan = new Redistribution(a, Slab.Y);
  assertEquals(plan.communication.total, plan.bytesMoved);
  const shares = `this rank sends ${plan.communication.sent(runtime.rank)} bytes`;
  const times = runtime.stream ? " GB/s between GPUs, " : "  predicted ";
  for (
    const part of [times, "from Slab.X", "to Slab.Y", `algorithm ${plan.algorithm.algorithm}`, shares, "was recorded"]
  ) {
    assert(plan.explain().includes(part), plan.explain());
  }
  let stays = 0;
  const [rows, columns] = [Slab.X.bind([12, 8], size), Slab.Y.bind([12, 8], size)];
  for (let rank = 0; rank < size; rank++) stays += rows.localShape(rank)[0] * columns.localShape(rank)[1];
  assertEquals(plan.bytesMoved, 4 * (96 - stays));
  check(plan.execute());
  a.local.fill(5);
  assertEquals(plan.execute().sum(), 5 * 96);
  const b = make(runtime, [12, 8], Slab.X, "float32", "C");
  plan.resetOperands({ array: b });
  check(plan.execute());
  const other = make(runtime, [8, 12], Slab.X, "float32", "C");
  assertThrowsEverywhere(runtime, () => plan.resetOperands({ array: other }), ShapeError, "planned for [12,8]");
  b.free();
  const freed = "The array was freed. Pass one that is alive to resetOperands()";
  for (const use of [() => plan.execute(), () => plan.plan(), () => plan.autotune({ repetitions: 1 })]) {
    assertThrowsEverywhere(runtime, use, StateError, freed);
  }
  const nothing = "resetOperands was given nothing; pass at least one of array, target";
  assertThrowsEverywhere(runtime, () => plan.resetOperands(undefined as never), TypeError, nothing);
  plan.free();
  plan.free();
  assertThrowsEverywhere(
    runtime,
    () => plan.resetOperands({ array: a }),
    StateError,
    "Redistribution.resetOperands() was used after free()",
  );
  assertThrowsEverywhere(runtime, () => new Redistribution(a, Slab.Z), DistributionError, "Slab.Z");
});

clusterTest(
  "arrays of a runtime that was closed are refused on all ranks, also if one rank alone has one",
  (runtime) => {
    const old = make(runtime, [6, 4], Slab.X, "float32", "C", "host");
    runtime[Symbol.dispose]();
    // Its ranks in another order: what moves would come from others.
    using communicator = runtime.communicator.split(0, -runtime.rank)!;
    using next = initialize({ device: "cpu", communicator });
    const own = make(next, [6, 4], Slab.X, "float32", "C", "host");
    const into = make(next, [6, 4], Slab.Y, "float32", "C", "host");
    for (const target of [Slab.Y, into]) {
      using plan = new Redistribution(own, target);
      // On all ranks, and on one.
      for (const array of [old, next.rank === 0 ? old : own]) {
        const reset = () => plan.resetOperands({ array });
        assertThrowsEverywhere(next, reset, StateError, "array belongs to another runtime");
        const move = () => redistribute(array, target as Slab);
        assertThrowsEverywhere(next, move, StateError, "the runtime was closed; there is another one since then");
      }
      check(plan.execute());
    }
  },
);

clusterTest("a redistributor moves the local parts of any arrays into each other", (runtime) => {
  const { rank, size } = runtime;
  const [from, to] = [Slab.X.bind([6, 5], size), Slab.Y.bind([6, 5], size)];
  const redistributor = new Redistributor(runtime, from, to);
  const padded = LocalArray.zeros("complex64", [9, 9]);
  const [source] = [padded.slice([1, 2], from.localShape(rank))];
  const a = DistributedArray.generate(runtime, [6, 5], Slab.X, (i, j) => [i, j], { dtype: "complex64" });
  source.set(a.local);
  const target = LocalArray.zeros("complex64", to.localShape(rank), "F");
  redistributor.prepare(source, target, "C")();
  const wanted = DistributedArray.generate(runtime, [6, 5], Slab.Y, (i, j) => [i, j], { dtype: "complex64" });
  assertEquals(target.toNumbers(), wanted.local.toNumbers());
});

clusterTest("ranks that disagree about the target fail together", { ranks: [2, 3, 4] }, (runtime) => {
  const a = make(runtime, [4, 4], Slab.X, "float32", "C");
  const target = runtime.rank === 1 ? Slab.X : Slab.Y;
  assertThrowsEverywhere(runtime, () => a.redistribute(target), CollectiveError, "Slab.X");
  assertThrowsEverywhere(runtime, () => new Redistribution(a, target), CollectiveError, "Slab.X");
  check(a.redistribute(Slab.Y));
});

clusterTest("what is no array or no distribution is an error on every rank, also if one rank passes it", (runtime) => {
  const a = make(runtime, [4, 4], Slab.X, "float32", "C");
  const isLast = runtime.rank === runtime.size - 1;
  for (const array of [null as never, isLast ? null as never : a, isLast ? {} as never : a]) {
    const throws = (fn: () => unknown) => assertThrowsEverywhere(runtime, fn, TypeError, "must be a DistributedArray");
    throws(() => redistribute(array, Slab.Y));
    throws(() => new Redistribution(array, Slab.Y));
    using plan = new Redistribution(a, Slab.Y);
    throws(() => plan.resetOperands({ array: array }));
  }
  const target = isLast ? null as never : Slab.Y;
  assertThrowsEverywhere(runtime, () => redistribute(a, target), TypeError, "not null");
  assertThrowsEverywhere(runtime, () => new Redistribution(a, target), TypeError, "not null");
  check(redistribute(a, Slab.Y));
});

clusterTest("a target that is bound to another shape or size is refused", (runtime) => {
  const a = make(runtime, [4, 4], Slab.X, "float32", "C");
  for (const target of [Slab.Y.bind([5, 4], runtime.size), Slab.Y.bind([4, 4], runtime.size + 1)]) {
    assertThrowsEverywhere(runtime, () => redistribute(a, target), DistributionError, "Pass it unbound");
    assertThrowsEverywhere(runtime, () => new Redistribution(a, target), DistributionError, "Pass it unbound");
  }
  check(redistribute(a, Slab.Y.bind([4, 4], runtime.size)));
});

clusterTest("a megabyte of single elements, block-cyclic by 1", (runtime) => {
  const grid = new ProcessGrid({ shape: [1, runtime.size], layout: "row-major" });
  const a = DistributedArray.random(runtime, [400, 320], Slab.X, { seed: 1 });
  const b = a.redistribute(new BlockCyclic(grid, [1, 1])).redistribute(Slab.Y);
  assertEquals(b.maxAbsDifference(DistributedArray.random(runtime, [400, 320], Slab.Y, { seed: 1 })), 0);
});

/** Distributions of the most different kinds. */
function few(size: number, dimensions: number): Distribution[] {
  const shape = new Array<number>(dimensions).fill(1).with(-1, size);
  const onLast = (global: readonly number[]) =>
    new Box(Array.from({ length: size }, (_, rank) => {
      const empty = global.map(() => 0);
      return [empty, rank === size - 1 ? [...global] : empty] as const;
    }));
  const global = Array.from({ length: dimensions }, (_, d) => 2 + d % 2);
  return [new Slab(0), new BlockCyclic(new ProcessGrid({ shape }), shape.map(() => 1)), onLast(global), Replicated];
}

for (const dimensions of [1, 2, 5, 8]) {
  clusterTest(`${dimensions} dimensions, from order C into arrays of order F and back`, (runtime) => {
    const shape = Array.from({ length: dimensions }, (_, d) => 2 + d % 2);
    const dtypes: DType[] = ["float64", "complex128", "int8", "bfloat16"];
    for (const [i, from] of few(runtime.size, dimensions).entries()) {
      const to = few(runtime.size, dimensions)[(i + dimensions) % 4];
      const a = make(runtime, shape, from, dtypes[i], "C");
      const b = DistributedArray.zeros(runtime, shape, to, { dtype: dtypes[i], order: "F" });
      assert(redistribute(a, b) === b);
      check(b);
      a.local.fill(0);
      b.redistribute(a);
      check(a);
    }
  });
}

clusterTest("every dtype", (runtime) => {
  // Exact in each of them.
  const value = (i: number, j: number) => (7 * i + j) % 8;
  const grid = new ProcessGrid({ shape: [1, runtime.size] });
  for (const dtype of dtypes) {
    const moved = DistributedArray.generate(runtime, [5, 7], Slab.X, value, { dtype })
      .redistribute(new BlockCyclic(grid, [2, 1])).redistribute(Slab.Y);
    const { local } = DistributedArray.generate(runtime, [5, 7], Slab.Y, value, { dtype });
    assertEquals([moved.dtype, moved.local.toNumbers()], [dtype, local.toNumbers()]);
  }
});

clusterTest("windows move into windows of other arrays, and nothing else changes", (runtime) => {
  const grid = new ProcessGrid({ shape: [runtime.size, 1] });
  for (const [from, to, order] of [[Slab.X, new BlockCyclic(grid, [2, 3]), "C"], [Slab.Y, Slab.X, "F"]] as const) {
    const whole = DistributedArray.generate(runtime, [9, 11], from, (i, j) => 100 * i + j);
    const target = DistributedArray.full(runtime, [12, 10], to, -1, { order });
    redistribute(whole.slice([[2, 8], [3, 10]]), target.slice([[5, 11], [1, 8]]));
    const wanted = DistributedArray.generate(runtime, [12, 10], to, (i, j) => {
      return i >= 5 && i < 11 && j >= 1 && j < 8 ? 100 * (i - 3) + j + 2 : -1;
    });
    assertEquals(target.maxAbsDifference(wanted), 0);
  }
});

clusterTest("windows of one array may overlap", (runtime) => {
  const value = (i: number, j: number) => 100 * i + j;
  for (const distribution of [Slab.X, Slab.Y]) {
    const a = DistributedArray.generate(runtime, [8, 8], distribution, value);
    redistribute(a.slice([[0, 6], [0, 7]]), a.slice([[2, 8], [1, 8]]));
    const wanted = DistributedArray.generate(runtime, [8, 8], distribution, (i, j) => {
      return i >= 2 && j >= 1 ? value(i - 2, j - 1) : value(i, j);
    });
    assertEquals(a.maxAbsDifference(wanted), 0);
    redistribute(a, a);
    assertEquals(a.maxAbsDifference(wanted), 0);
  }
});

clusterTest("windows of one array that lie apart move in packed messages as well", { ranks: [2, 3, 4] }, (runtime) => {
  const a = DistributedArray.generate(runtime, [8, 8], Slab.X, (i, j) => 100 * i + j, { memory: "host" });
  using plan = new Redistribution(a.slice([[0, 2]]), a.slice([[6, 8]]));
  plan.plan({ algorithm: "packed_alltoallv" });
  plan.execute();
  const wanted = (i: number, j: number) => 100 * (i >= 6 ? i - 6 : i) + j;
  assertEquals(a.maxAbsDifference(DistributedArray.generate(runtime, [8, 8], Slab.X, wanted, { memory: "host" })), 0);
});

clusterTest("Redistribution into a given array: other operands, released ones, other algorithms", (runtime) => {
  const [a, b] = [
    make(runtime, [9, 8], Slab.X, "float32", "C", "host"),
    make(runtime, [9, 8], Slab.X, "float32", "F", "host"),
  ];
  const [c, d] = [Slab.Y, Slab.Y].map((to) =>
    DistributedArray.zeros(runtime, [9, 8], to, { dtype: "float32", memory: "host" })
  );
  using plan = new Redistribution(a, c);
  const isAlone = runtime.size === 1;
  const { algorithm, workspaceBytes } = plan.algorithm;
  assertEquals([algorithm, workspaceBytes], [isAlone ? "local_copy" : "shared_window", 0]);
  assert(plan.execute() === c);
  check(c);
  for (const algorithm of ["packed_alltoallv", "derived_types", "shared_window", "auto"] as const) {
    plan.plan({ algorithm });
    const wanted = algorithm === "auto" ? "shared_window" : algorithm;
    assertEquals(plan.algorithm.algorithm, isAlone ? "local_copy" : wanted);
    d.local.fill(0);
    plan.resetOperands({ array: b, target: d });
    check(plan.execute());
    plan.resetOperands({ target: c });
    c.local.fill(0);
    assert(plan.execute() === c);
    check(c);
  }
  const throws = (options: object, kind: new (message: string) => Error, text: string) =>
    assertThrowsEverywhere(runtime, () => plan.resetOperands(options), kind, text);
  throws({}, TypeError, "pass at least one of array, target");
  const turned = make(runtime, [8, 9], Slab.Y, "float32", "C", "host");
  throws({ target: null }, TypeError, "resetOperands: target must be a DistributedArray, not null");
  throws({ target: turned }, ShapeError, "planned for [9,8] in Slab.Y, not for [8,9] in Slab.Y");
  throws({ target: make(runtime, [9, 8], Slab.Y, "float64", "C", "host") }, DTypeError, "not from float32 to float64");
  plan.releaseOperands();
  assertThrowsEverywhere(runtime, () => plan.execute(), StateError, "after releaseOperands()");
  assertThrowsEverywhere(runtime, () => plan.plan(), StateError, "There is no array to plan for");
  assertThrowsEverywhere(runtime, () => plan.algorithm, StateError, "After releaseOperands() nothing runs");
  throws({ target: d }, StateError, "resetOperands needs array too");
  throws({ array: a }, StateError, "resetOperands needs target too");
  plan.resetOperands({ array: a, target: d });
  check(plan.execute());
  using other = new Redistribution(a, Slab.Y);
  const resetTarget = () => other.resetOperands({ target: c });
  assertThrowsEverywhere(runtime, resetTarget, TypeError, "This redistribution makes new arrays");
  const nccl = () => other.plan({ algorithm: "packed_nccl" });
  assertThrowsEverywhere(runtime, nccl, ConfigurationError, 'or "shared_window" or "packed_alltoallv" or');
  const wrong = () => other.plan({ algorithm: "fast" as never });
  assertThrowsEverywhere(runtime, wrong, TypeError, 'algorithm must be "auto" or "');
});

clusterTest("a target that the elements do not fit into is refused", (runtime) => {
  const a = make(runtime, [4, 4], Slab.X, "float32", "C");
  const refused = (target: DistributedArray, kind: new (message: string) => Error, text: string) => {
    assertThrowsEverywhere(runtime, () => redistribute(a, target), kind, text);
    assertThrowsEverywhere(runtime, () => new Redistribution(a, target), kind, text);
  };
  refused(make(runtime, [4, 5], Slab.Y, "float32", "C"), ShapeError, "do not fit into a target of [4,5]");
  refused(
    make(runtime, [4, 4], Slab.Y, "float64", "C"),
    DTypeError,
    'Convert the array before: to({ dtype: "float64" })',
  );
  const freed = make(runtime, [4, 4], Slab.Y, "float32", "C");
  freed.free();
  refused(freed, StateError, "freed");
});

clusterTest("pieces go round in small rings, in both orders", { ranks: [2, 3, 4] }, (runtime) => {
  const { communicator, rank, size } = runtime;
  const slotBytes = 64;
  const partBytes = 4096 + size * 16 * slotBytes;
  const window = new MpiWindow(communicator, partBytes);
  const memories = Array.from({ length: size }, (_, peer) => viewOfAddress(window.peerAddress(peer), partBytes));
  const channels = new PeerChannels(rank, slotBytes, memories);
  const grid = new ProcessGrid({ shape: [1, size] });
  for (const dtype of ["complex128", "float32", "int8"] as const) {
    const shape = [37, 41];
    const places = [Slab.X, new BlockCyclic(grid, [1, 3]), Replicated, Slab.Y].map((to) => to.bind(shape, size));
    for (const [i, from] of places.slice(0, -1).entries()) {
      const [a, b] = [
        make(runtime, shape, from, dtype, "C", "host"),
        make(runtime, shape, places[i + 1], dtype, "F", "host"),
      ];
      b.local.fill(0);
      const plan = planRedistribution(from, places[i + 1], rank);
      const move = prepareThroughWindow(plan, channels, a.local, b.local, i % 2 === 0 ? "C" : "F");
      for (let round = 0; round < 2; round++) move();
      check(b);
    }
  }
  communicator.barrier();
  for (const memory of memories) memory.transfer();
  window.free();
});

/** Whether Linux lets these ranks copy from and to each other's memory. */
function mayReach(runtime: Runtime): boolean {
  return openChannels(runtime.communicator)?.processes != null;
}

/** Distributions between which blocks lie in long pieces and in short ones, on either side or on both. */
function places({ size }: Runtime, shape: readonly number[]): Distribution[] {
  const grid = new ProcessGrid({ shape: [1, size] });
  return [Slab.X, Slab.Y, new BlockCyclic(grid, [1, 3]), Replicated, Slab.Y, new BlockCyclic(grid, [2, 200]), Slab.X]
    .map((to) => to.bind(shape, size));
}

clusterTest(
  "what lies in short pieces at both ends, more than fits into a block, arrives by each way",
  { ranks: [2, 3] },
  (runtime) => {
    const { size } = runtime;
    const ways = ["packed_alltoallv", "derived_types", "shared_window"] as const;
    for (const [order, shape] of [["C", [240, 600]], ["F", [600, 240]]] as const) {
      const axis = order === "C" ? 1 : 0;
      const grid = new ProcessGrid({ shape: axis === 1 ? [1, size] : [size, 1] });
      const [from, to] = [4, 6].map((block) => new BlockCyclic(grid, axis === 1 ? [5, block] : [block, 5]));
      const a = make(runtime, [...shape], from, "complex128", order, "host");
      for (const algorithm of [...ways, ...mayReach(runtime) ? ["direct_copies" as const] : []]) {
        using there = new Redistribution(a, to);
        there.plan({ algorithm });
        using moved = there.execute();
        assertEquals(there.algorithm.algorithm, algorithm);
        check(moved);
        using back = new Redistribution(moved, from);
        back.plan({ algorithm });
        check(back.execute());
      }
    }
  },
);

clusterTest(
  "a rank that has nothing at either end takes part in each way, and in autotune",
  { ranks: [3, 4] },
  (runtime) => {
    const on = (owner: number) =>
      new Box(Array.from({ length: runtime.size }, (_, rank) => [[0, 0], rank === owner ? [4, 6] : [0, 0]] as const));
    const a = make(runtime, [4, 6], on(1), "float32", "C", "host");
    using there = new Redistribution(a, on(2));
    const ways = ["packed_alltoallv", "derived_types", "shared_window"] as const;
    for (const algorithm of [...ways, ...mayReach(runtime) ? ["direct_copies" as const] : []]) {
      there.plan({ algorithm });
      check(there.execute());
    }
    assert(there.autotune({ repetitions: 1 }).length >= ways.length);
    check(there.execute());
  },
);

clusterTest(
  "each way between the memories of ranks, in both orders, there and back, from and to windows",
  (runtime) => {
    const ways = ["derived_types", "shared_window", ...mayReach(runtime) ? ["direct_copies" as const] : []] as const;
    const shape = [9, 300];
    const list = places(runtime, shape);
    for (const algorithm of ways) {
      for (const [i, dtype] of (["complex128", "int8", "float32", "bfloat16", "float64", "uint8"] as const).entries()) {
        const [from, to] = [list[i], list[i + 1]];
        const a = make(runtime, shape, from, dtype, i % 2 === 0 ? "C" : "F", "host");
        const b = DistributedArray.zeros(runtime, shape, to, { dtype, order: i % 3 === 0 ? "F" : "C", memory: "host" });
        using there = new Redistribution(a, b);
        there.plan({ algorithm });
        there.execute();
        check(b);
        a.local.fill(0);
        using back = new Redistribution(b, a);
        back.plan({ algorithm });
        there.resetOperands({ array: make(runtime, shape, from, dtype, "C", "host") });
        for (let round = 0; round < 2; round++) {
          there.execute();
          back.execute();
        }
        check(a);
      }
      const whole = DistributedArray.generate(runtime, [9, 11], Slab.X, (i, j) => 100 * i + j, { memory: "host" });
      const target = DistributedArray.full(runtime, [12, 10], Slab.Y, -1, { memory: "host" });
      using part = new Redistribution(whole.slice([[2, 8], [3, 10]]), target.slice([[5, 11], [1, 8]]));
      part.plan({ algorithm });
      part.execute();
      const wanted = (i: number, j: number) => i >= 5 && i < 11 && j >= 1 && j < 8 ? 100 * (i - 3) + j + 2 : -1;
      assertEquals(target.maxAbsDifference(DistributedArray.generate(runtime, [12, 10], Slab.Y, wanted)), 0);
    }
  },
);

clusterTest(
  "large blocks go from process to process, small ones, and those of short rows at both ends, do not",
  (runtime) => {
    const { size } = runtime;
    const algorithmOf = (shape: number[], to: Distribution, dtype: DType, from: Distribution = Slab.X) => {
      using a = DistributedArray.zeros(runtime, shape, from, { dtype, memory: "host" });
      using plan = new Redistribution(a, to);
      return plan.algorithm.algorithm;
    };
    const other = (name: RedistributionAlgorithm) => size === 1 ? "local_copy" : name;
    const direct = mayReach(runtime) ? "direct_copies" : "shared_window";
    assertEquals(algorithmOf([1024, 2048], Slab.Y, "complex128"), other(direct));
    assertEquals(algorithmOf([64, 2048], Slab.Y, "complex128"), other("shared_window"));
    const cyclic = (columns: number) => new BlockCyclic(new ProcessGrid({ shape: [1, size] }), [8, columns]);
    assertEquals(algorithmOf([1024, 2048], cyclic(8), "complex128"), other(direct));
    assertEquals(algorithmOf([1024, 2048], cyclic(4), "complex128", cyclic(8)), other("shared_window"));
  },
);

clusterTest("autotune measures each way that elements can go, and takes the fastest", (runtime) => {
  const a = make(runtime, [9, 8], Slab.X, "float32", "C", "host");
  using plan = new Redistribution(a, Slab.Y);
  const measured = plan.autotune({ repetitions: 1 });
  const ways = [...mayReach(runtime) ? ["direct_copies"] : [], "shared_window", "packed_alltoallv", "derived_types"];
  const expected = runtime.size === 1 ? ways.map(() => "local_copy") : ways;
  assertEquals(measured.map(({ algorithm }) => algorithm as string).sort(), expected.sort());
  assertEquals(plan.algorithm.algorithm, measured[0].algorithm);
  assert(measured.every(({ seconds }, i) => seconds > 0 && (i === 0 || seconds >= measured[i - 1].seconds)));
  assertStringIncludes(plan.explain(), "autotune measured");
  check(plan.execute());
  const c = DistributedArray.zeros(runtime, [9, 8], Slab.Y, { dtype: "float32", memory: "host" });
  using into = new Redistribution(a, c);
  into.autotune();
  assert(into.execute() === c);
  check(c);
  const wrong = () => plan.autotune({ repetitions: 0 });
  assertThrowsEverywhere(runtime, wrong, RangeError, "repetitions must be a whole number from 1 to 1048576; got 0");
  plan.releaseOperands();
  assertThrowsEverywhere(runtime, () => plan.autotune(), StateError, "after releaseOperands()");
});

clusterTest("autotune leaves arrays that share memory as they were", (runtime) => {
  const tuned = (isTuned: boolean, options: { repetitions?: number } = {}) => {
    const a = DistributedArray.generate(runtime, [8], Slab.X, (i) => i + 1, { memory: "host" });
    const square = DistributedArray.generate(runtime, [5, 5], Slab.X, (i, j) => 10 * i + j, {
      order: "F",
      memory: "host",
    });
    const moves = [
      [a, new Redistribution(a.slice([[0, 7]]), a.slice([[1, 8]]))],
      [square, new Redistribution(square.transpose(), square)],
    ] as const;
    return moves.map(([array, move]) => {
      const before = array.to({ order: "C" }).allGather();
      if (isTuned) {
        move.autotune(options);
        assertEquals(array.to({ order: "C" }).allGather(), before);
        assertStringIncludes(move.explain(), "autotune measured");
      }
      move.execute();
      const after = array.to({ order: "C" }).allGather();
      move.free();
      return after;
    });
  };
  const expected = [
    Float64Array.of(1, 1, 2, 3, 4, 5, 6, 7),
    Float64Array.from({ length: 25 }, (_, k) => 10 * (k % 5) + Math.floor(k / 5)),
  ];
  assertEquals(tuned(false), expected);
  assertEquals(tuned(true), expected);
  assertEquals(tuned(true, { repetitions: 1 }), expected);
  // What shares memory on one rank only moves on from there.
  const own = [new Float64Array(2).fill(runtime.rank + 1), new Float64Array(2).fill(-1)];
  const onHost = { localShape: [2], memory: "host" } as const;
  const source = DistributedArray.fromLocal(runtime, own[0], Slab.X, onHost);
  const target = DistributedArray.fromLocal(runtime, runtime.rank === 0 ? own[0] : own[1], Slab.X, onHost);
  using move = new Redistribution(source, target);
  const before = [source, target].map((array) => array.allGather());
  move.autotune();
  assertEquals([source, target].map((array) => array.allGather()), before);
  move.execute();
  assertEquals(target.allGather(), before[0]);
});

/** Calls of MPI by name, while `body` runs. */
function countCalls(names: readonly string[], body: () => void): Record<string, number> {
  const table = startMpi().symbols as unknown as Record<string, (...given: unknown[]) => number>;
  const known = names.map((name) => table[name]);
  const counts = Object.fromEntries(names.map((name) => [name, 0]));
  for (const [i, name] of names.entries()) {
    table[name] = (...given) => {
      counts[name]++;
      return known[i](...given);
    };
  }
  try {
    body();
  } finally {
    for (const [i, name] of names.entries()) table[name] = known[i];
  }
  return counts;
}

const typeCalls = ["MPI_Type_contiguous", "MPI_Type_create_hindexed", "MPI_Type_create_resized"];

/** How many derived types were made that were not freed. */
function typesLeft({ MPI_Type_free: freed, ...made }: Record<string, number>): number {
  return typeCalls.reduce((sum, name) => sum + made[name], 0) - freed;
}

clusterTest("derived types are freed with their plan", (runtime) => {
  const counts = countCalls([...typeCalls, "MPI_Type_free"], () => {
    const a = make(runtime, [9, 8], Slab.X, "float32", "C", "host");
    using plan = new Redistribution(a, Slab.Y);
    plan.plan({ algorithm: "derived_types" });
    for (let round = 0; round < 3; round++) check(plan.execute());
  });
  assertEquals(counts.MPI_Type_contiguous > 0, runtime.size > 1);
  assertEquals(typesLeft(counts), 0);
});

/** A runtime whose ranks find that each of them is on a machine of its own. */
function asIfApart(runtime: Runtime): Runtime {
  const communicator = runtime.communicator.duplicate();
  Object.defineProperty(communicator, "splitShared", { value: () => communicator.split(communicator.rank) });
  return Object.create(runtime, { communicator: { value: communicator }, isClosed: { value: false } });
}

clusterTest("between machines a move made once and a kept one take their messages, with the same elements", {
  ranks: [2, 3, 4],
}, (runtime) => {
  const apart = asIfApart(runtime);
  const isTyped = startMpi().vendor === "open_mpi";
  const names = ["MPI_Alltoallv", "MPI_Alltoallw", ...typeCalls, "MPI_Type_free"];
  const shape = [9, 300];
  const list = places(runtime, shape);
  for (const [i, dtype] of (["complex128", "int8", "float32", "bfloat16", "float64", "uint8"] as const).entries()) {
    const [from, to] = [list[i], list[i + 1]];
    const a = make(runtime, shape, from, dtype, i % 2 === 0 ? "C" : "F", "host");
    const b = DistributedArray.zeros(runtime, shape, to, { dtype, order: i % 3 === 0 ? "F" : "C", memory: "host" });
    const isMoved = !from.isReplicated;
    const once = countCalls(
      names,
      () => prepareOnce(apart, a.distribution, b.distribution, a.local, b.local, a.order)(),
    );
    check(b);
    const calls = ({ MPI_Alltoallv, MPI_Alltoallw }: Record<string, number>) => [MPI_Alltoallv, MPI_Alltoallw];
    assertEquals(calls(once), !isMoved ? [0, 0] : isTyped ? [0, 1] : [1, 0]);
    assertEquals(typesLeft(once), 0);
    b.local.fill(0);
    using plan = new Redistributor(apart, a.distribution, b.distribution);
    const kept = countCalls(names, () => plan.prepare(a.local, b.local, a.order)());
    check(b);
    assertEquals(calls(kept), isMoved ? [1, 0] : [0, 0]);
    assertEquals(plan.algorithmFor(a.local, b.local, a.order), isMoved ? "packed_alltoallv" : "local_copy");
  }
});

clusterTest("derived types of a move that the ranks do not agree on are freed", { ranks: [2] }, (runtime) => {
  const apart = asIfApart(runtime);
  openChannels(apart.communicator);
  const a = make(runtime, [9, 8], Slab.X, "float32", "C", "host");
  const b = DistributedArray.zeros(runtime, [9, 8], Slab.Y, { dtype: "float32", memory: "host" });
  const counts = countCalls([...typeCalls, "MPI_Type_free"], () => {
    const fail = () =>
      agree(runtime, "a move", () => {
        prepareOnce(apart, a.distribution, b.distribution, a.local, b.local, a.order);
        if (runtime.rank === 1) throw new StateError("not here");
      });
    assertThrowsEverywhere(runtime, fail, StateError, "not here");
  });
  assertEquals(counts.MPI_Type_contiguous > 0, startMpi().vendor === "open_mpi");
  assertEquals(typesLeft(counts), 0);
});

for (const [way, Executor] of [["packed", PackedExecutor], ["by derived types", TypedExecutor]] as const) {
  clusterTest(`messages in many parts, ${way}`, (runtime) => {
    const { communicator, rank, size } = runtime;
    const [from, to] = [Slab.X, Slab.Y].map((slab) => slab.bind([23, 19], size));
    const [a, b] = [
      make(runtime, [23, 19], Slab.X, "complex64", "C", "host"),
      make(runtime, [23, 19], Slab.Y, "complex64", "F", "host"),
    ];
    b.local.fill(0);
    const executor = new Executor(planRedistribution(from, to, rank), communicator, 100);
    executor.prepare(a.local, b.local, "C")();
    executor.free();
    check(b);
  });

  clusterTest(
    `ranks that have nothing at either end take part in messages, ${way}`,
    { ranks: [2, 3, 4] },
    (runtime) => {
      const { communicator, rank, size } = runtime;
      const last = new Box(Array.from({ length: size }, (_, i) => [[0], [i === size - 1 ? 5 : 0]] as const));
      const [a, b] = [0, 1].map(() => make(runtime, [5], last, "float32", "C", "host"));
      b.local.fill(0);
      const executor = new Executor(planRedistribution(a.distribution, b.distribution, rank), communicator);
      executor.prepare(a.local, b.local, "C")();
      executor.free();
      check(b);
    },
  );
}
