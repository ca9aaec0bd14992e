/** Redistributions between GPUs, by each way that elements can travel, against the same in host memory. */
import { assert, assertEquals } from "@std/assert";
import {
  BlockCyclic,
  Box,
  ConfigurationError,
  DistributedArray,
  type Distribution,
  dtypes,
  Graph,
  type Order,
  ProcessGrid,
  Redistribution,
  Replicated,
  Slab,
} from "../../mod.ts";
import { liveAllocations } from "../../internals.ts";
import { PeerExecutor } from "../../src/array/redistribution/peer_executor.ts";
import { planRedistribution } from "../../src/array/redistribution/plan.ts";
import { makeDeviceChannels } from "../../src/memory/device_channels.ts";
import { assertThrowsEverywhere } from "../../src/testing/mod.ts";
import { gpuTest, isMock } from "./gpu_test_kit.ts";

/** A small generator, the same on all ranks: numbers from 0 to below a limit. */
function numbers(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9 | 0;
    return ((state ^ (state >>> 13)) >>> 0) % limit;
  };
}

/** Boxes along an axis, of which some are empty. */
function unevenBoxes(shape: readonly number[], axis: number, size: number, draw: (limit: number) => number): Box {
  const cuts = Array.from({ length: size - 1 }, () => draw(shape[axis] + 1)).sort((a, b) => a - b);
  const bounds = [0, ...cuts, shape[axis]];
  return new Box(Array.from({ length: size }, (_, rank) =>
    [
      shape.map((_, d) => d === axis ? bounds[rank] : 0),
      shape.map((extent, d) => d === axis ? bounds[rank + 1] : extent),
    ] as [number[], number[]]));
}

/** A box with all of an array on one rank. */
function allOn(owner: number, shape: readonly number[], size: number): Box {
  const bounds = (rank: number) => [shape.map(() => 0), shape.map((extent) => rank === owner ? extent : 0)];
  return new Box(Array.from({ length: size }, (_, rank) => bounds(rank) as [number[], number[]]));
}

function place(shape: readonly number[], size: number, draw: (limit: number) => number): Distribution {
  const axis = draw(shape.length);
  const kind = draw(5);
  if (kind === 0) return unevenBoxes(shape, axis, size, draw);
  if (kind === 1) return Replicated;
  if (kind <= 3 && shape.length === 2) {
    const grid = new ProcessGrid({ shape: draw(2) ? [size, 1] : [1, size], layout: "row-major" });
    return new BlockCyclic(grid, [1 + draw(7), 1 + draw(7)]);
  }
  return new Slab(axis);
}

/** Whether two arrays have the same bits here. */
function assertSame(actual: DistributedArray, expected: DistributedArray, message: string): void {
  const [a, b] = [actual, expected].map(({ local }) => {
    const { buffer, byteOffset, byteLength } = local.toTypedArray();
    return new Uint8Array(buffer, byteOffset, byteLength);
  });
  assert(a.length === b.length && a.every((byte, i) => byte === b[i]), message);
}

gpuTest(
  "random redistributions and windows, through slots, straight, and by NCCL, move the bits that the host moves",
  (runtime) => {
    const { size } = runtime;
    for (let seed = 1; seed <= (isMock(runtime) ? 12 : 60); seed++) {
      const draw = numbers(seed);
      const shape = Array.from({ length: 1 + draw(4) }, () => draw(8) === 0 ? draw(2) : 1 + draw(24));
      const [from, to] = [place(shape, size, draw), place(shape, size, draw)];
      const dtype = dtypes[draw(dtypes.length)];
      const orders = [0, 1].map((): Order => draw(2) ? "C" : "F");
      const source = DistributedArray.random(runtime, shape, from, { dtype, order: orders[0], seed });
      const host = source.to({ memory: "host" });
      const inHost = DistributedArray.zeros(runtime, shape, to, { dtype, order: orders[1], memory: "host" });
      host.redistribute(inHost);
      for (const memory of ["device", "symmetric"] as const) {
        const target = DistributedArray.zeros(runtime, shape, to, { dtype, order: orders[1], memory });
        const move = new Redistribution(source, target);
        for (const algorithm of ["auto", "packed_nccl"] as const) {
          move.plan({ algorithm });
          for (let round = 0; round < 2; round++) {
            target.assign(0);
            move.execute();
            const name = `${dtype} [${shape}] ${from} ${orders[0]} -> ${to} ${orders[1]}, ${move.algorithm.algorithm}`;
            assertSame(target, inHost, name);
          }
        }
        // A window into a window, whose surroundings stay as they are.
        const window = shape.map((extent): [number, number] => [draw(extent + 1), extent]);
        const corner = window.map(([start, end]): [number, number] => [0, end - start]);
        target.assign(0);
        inHost.assign(0);
        source.slice(window).redistribute(target.slice(corner));
        host.slice(window).redistribute(inHost.slice(corner));
        assertSame(target, inHost, `${dtype} [${shape}] ${from} -> ${to}, a window from ${window}`);
        host.redistribute(inHost);
        move.free();
        target.free();
      }
      for (const array of [source, host, inHost]) array.free();
      runtime.collect();
    }
  },
);

gpuTest("many pieces go round in small rings of slots, and straight to their ranks", (runtime, stream) => {
  const channels = makeDeviceChannels(runtime, 2 ** 12 * 4 * (runtime.size - 1))!;
  assertEquals(channels.slotBytes, 2 ** 12);
  const shape = [29, 37, 3];
  for (
    const [from, to] of [[Slab.X, Slab.Y], [Slab.Z, Slab.X], [unevenBoxes(shape, 0, runtime.size, numbers(5)), Slab.Y]]
  ) {
    for (const orders of [["C", "C"], ["C", "F"], ["F", "C"]] as const) {
      const source = DistributedArray.random(runtime, shape, from, { dtype: "float64", order: orders[0], seed: 3 });
      const plan = planRedistribution(source.distribution, to.bind(shape, runtime.size), runtime.rank);
      for (const memory of ["device", "symmetric"] as const) {
        using target = DistributedArray.zeros(runtime, shape, to, { dtype: "float64", order: orders[1], memory });
        using executor = {
          peers: new PeerExecutor(plan, stream, { leastBytes: 2 ** 10, smallBytes: 0 }),
          [Symbol.dispose]: () => executor.peers.free(),
        };
        const isDirect = memory === "symmetric";
        const move = executor.peers.prepare(channels, source.local, target.local, orders[0], isDirect);
        for (let round = 0; round < 3; round++) {
          target.assign(0);
          move();
          const name = `${from} ${orders[0]} -> ${to} ${orders[1]} in ${memory} memory, round ${round}`;
          assertEquals(target.maxAbsDifference(source), 0, name);
        }
      }
    }
  }
}, { ranks: [2, 3, 4] });

gpuTest("little goes at once, again and again, in any turn with what goes by pieces", (runtime, stream) => {
  const channels = makeDeviceChannels(runtime, 2 ** 14 * 4 * (runtime.size - 1))!;
  const shape = [13, 40, 2];
  for (const [from, to] of [[Slab.X, Slab.Y], [unevenBoxes(shape, 1, runtime.size, numbers(7)), Slab.X]]) {
    for (const orders of [["C", "C"], ["F", "C"]] as const) {
      const random = (seed: number) =>
        DistributedArray.random(runtime, shape, from, { dtype: "float32", order: orders[0], seed });
      using held = new DisposableStack();
      const source = held.use(random(1));
      const others = [2, 3].map((seed) => held.use(random(seed)));
      const plan = planRedistribution(source.distribution, to.bind(shape, runtime.size), runtime.rank);
      const [atOnce, byPieces] = [Infinity, 0].map((smallBytes) => {
        const executor = new PeerExecutor(plan, stream, { leastBytes: 2 ** 10, smallBytes });
        held.defer(() => executor.free());
        return executor;
      });
      for (const memory of ["device", "symmetric"] as const) {
        const target = held.use(
          DistributedArray.zeros(runtime, shape, to, { dtype: "float32", order: orders[1], memory }),
        );
        const [one, other] = [atOnce, byPieces].map((executor) =>
          executor.prepare(channels, source.local, target.local, orders[0], memory === "symmetric")
        );
        for (let round = 0; round < 9; round++) {
          source.assign(others[round % 2]);
          if (round % 5 === 3) other();
          else one();
          const name = `${from} ${orders[0]} -> ${to} ${orders[1]} in ${memory} memory, round ${round}`;
          assertEquals(target.maxAbsDifference(others[round % 2]), 0, name);
        }
      }
    }
  }
}, { ranks: [2, 3, 4, 6] });

gpuTest("in step with a rank that is late little goes at once: nothing is read too early", (runtime, stream) => {
  const { rank, size } = runtime;
  const channels = makeDeviceChannels(runtime, 2 ** 14 * 4 * (size - 1))!;
  const shape = [13, 40];
  const random = (distribution: Distribution, seed: number) =>
    DistributedArray.random(runtime, shape, distribution, { dtype: "float32", seed });
  // More than there are slots.
  const seeds = [1, 2, 3, 4, 5, 6, 7];
  const oneWay = [0, size - 1].map((owner) => allOn(owner, shape, size));
  for (const places of [[Slab.X, Slab.Y], oneWay]) {
    using held = new DisposableStack();
    const [sources, expected] = places.map((distribution) => seeds.map((seed) => held.use(random(distribution, seed))));
    const [from, to] = [sources[0].distribution, expected[0].distribution];
    const executor = new PeerExecutor(planRedistribution(from, to, rank), stream);
    held.defer(() => executor.free());
    const zeros = held.use(DistributedArray.zeros(runtime, shape, to, { dtype: "float32" }));
    for (const memory of ["device", "symmetric"] as const) {
      const target = held.use(DistributedArray.zeros(runtime, shape, to, { dtype: "float32", memory }));
      for (let late = 0; late < size; late++) {
        runtime.communicator.barrier();
        const results = sources.map(({ local }) => {
          if (rank === late) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
          target.local.set(zeros.local);
          executor.prepare(channels, local, target.local, "C", memory === "symmetric")();
          return target.local.toTypedArray();
        });
        results.forEach((result, i) => {
          const name = `${from} to ${to}, ${memory} memory, rank ${late} is late, ${i}`;
          assertEquals(result, expected[i].local.toTypedArray(), name);
        });
      }
    }
  }
}, { ranks: [2, 3, 4, 6] });

gpuTest("messages of more bytes than 32 bits count arrive whole, by each way", (runtime) => {
  // Blocks of 2^31 bytes and a few between any two ranks, and all that one of them has.
  const extent = isMock(runtime) ? 2 ** 8 : 2 ** 14 * runtime.size;
  const length = isMock(runtime) ? 2 ** 16 : 2 ** 32 + 4096;
  const [first, last] = [0, runtime.size - 1].map((owner) => allOn(owner, [length], runtime.size));
  for (
    const [shape, from, to, dtype] of [
      [[extent, extent / 2 + 16], Slab.X, Slab.Y, "complex128"],
      [[length], first, last, "uint8"],
    ] as const
  ) {
    using source = DistributedArray.random(runtime, shape, from, { dtype, seed: 31 });
    using expected = DistributedArray.random(runtime, shape, to, { dtype, seed: 31 });
    for (const memory of ["device", "symmetric"] as const) {
      using target = DistributedArray.zeros(runtime, shape, to, { dtype, memory });
      using move = new Redistribution(source, target);
      for (const algorithm of ["auto", "packed_nccl"] as const) {
        move.plan({ algorithm });
        target.assign(0);
        move.execute();
        assertEquals(target.maxAbsDifference(expected), 0, `${dtype} in ${memory} memory, ${move.algorithm.algorithm}`);
      }
    }
  }
}, { ranks: [2, 4], timeoutSeconds: 120 });

gpuTest("windows that share memory move through one copy, whose memory is freed with the plan", (runtime) => {
  using a = DistributedArray.generate(runtime, [12, 3], Slab.X, (i, j) => 3 * i + j);
  const before = liveAllocations().length;
  const windows = new Redistribution(a.slice([[0, 8]]), a.slice([[4, 12]]));
  windows.execute();
  const kept = liveAllocations().length;
  for (let i = 0; i < 3; i++) windows.execute();
  assert(liveAllocations().length <= kept);
  windows.free();
  assert(liveAllocations().length <= before);
});

gpuTest("Redistribution between GPUs tells how elements travel, and takes another way if it is asked to", (runtime) => {
  const source = DistributedArray.random(runtime, [64, 48], Slab.X, { dtype: "float32", seed: 1 });
  const plain = new Redistribution(source, Slab.Y);
  assertEquals(plain.algorithm.algorithm, "peer_copies");
  assertEquals(plain.execute().maxAbsDifference(source), 0);
  plain.plan({ algorithm: "packed_nccl" });
  assertEquals(plain.algorithm.algorithm, "packed_nccl");
  assertEquals(plain.execute().maxAbsDifference(source), 0);
  assertThrowsEverywhere(
    runtime,
    () => plain.plan({ algorithm: "direct_copies" }),
    ConfigurationError,
    'algorithm "direct_copies" does not serve these arrays on these ranks. Use "auto" or "peer_copies" or "packed_nccl".',
  );
  using target = DistributedArray.zeros(runtime, [64, 48], Slab.Y, { dtype: "float32" });
  using captured = new Redistribution(source, target);
  captured.execute();
  assertEquals(captured.algorithm.algorithm, "peer_copies");
  using graph = Graph.capture(runtime, () => void captured.execute());
  assertEquals(captured.algorithm.algorithm, "packed_nccl");
  if (!isMock(runtime)) {
    // The mock's NCCL is in no graph.
    target.assign(0);
    graph.launch();
    assertEquals(target.maxAbsDifference(source), 0);
  }
  captured.execute();
  assertEquals(captured.algorithm.algorithm, "peer_copies");
  const into = (from: Distribution, to: Distribution, order: Order = "C") => {
    const shape = [8 * runtime.size, 48];
    using array = DistributedArray.random(runtime, shape, from, { dtype: "float32", seed: 1 });
    using target = DistributedArray.zeros(runtime, shape, to, { dtype: "float32", order, memory: "symmetric" });
    using move = new Redistribution(array, target);
    const chosen = move.algorithm.algorithm;
    for (const algorithm of ["auto", "direct_copies", "peer_copies"] as const) {
      move.plan({ algorithm });
      assertEquals(move.algorithm.algorithm, algorithm === "auto" ? chosen : algorithm);
      target.assign(0);
      assertEquals(move.execute().maxAbsDifference(array), 0, algorithm);
    }
    return chosen;
  };
  // What makes one block there goes straight into symmetric memory; what leaves gaps, or changes its order, through slots.
  const cyclic = new BlockCyclic(new ProcessGrid({ shape: [1, runtime.size], layout: "row-major" }), [4, 4]);
  assertEquals([into(Slab.X, Slab.Y), into(Slab.X, cyclic)], ["direct_copies", "direct_copies"]);
  assertEquals([into(cyclic, Slab.X), into(Slab.X, Slab.Y, "F")], ["peer_copies", "peer_copies"]);
}, { ranks: [2, 3, 4] });

gpuTest("a recording has operations on the streams of their GPUs", (runtime) => {
  using a = DistributedArray.full(runtime, [8, 8], Slab.X, 1);
  using turn = new Redistribution(a, Slab.Y);
  turn.execute().free();
  using recording = runtime.record();
  turn.execute().free();
  turn.execute().free();
  const timeline = recording.timeline();
  for (let rank = 0; rank < runtime.size; rank++) {
    const isOperation = ({ kind }: { kind: string }) => kind === "operation";
    const onStream = timeline.measured.filter((one) => one.rank === rank && one.lane === 2).filter(isOperation);
    assertEquals(onStream.map(({ label }) => label), ["Redistribution.execute", "Redistribution.execute"]);
    assert(onStream.every(({ start, end }) => end >= start));
  }
  assert(timeline.toSVG().includes(`>rank ${runtime.size - 1}, stream 0 (main)</text>`));
});
