/** Each method of Communicator makes the MPI calls that it names, and no others: its peers may be other programs. */
import { assertEquals } from "@std/assert";
import { MPI_FUNCTION_NAMES, openMpi } from "../../ffi/mpi/mod.ts";
import { Communicator, DistributedArray, Slab } from "../../mod.ts";
import { clusterTest } from "../../src/testing/mod.ts";

/** What needs no other rank. */
const LOCAL = /^MPI_(Comm_(rank|size|set_errhandler|group|c2f|toint)|Group_.*|Get_count|Type_.*|Op_.*|Error_.*)$/;

/** The calls of MPI that concern other ranks, in order. */
function callsOf(action: () => unknown): string[] {
  const { symbols } = openMpi();
  const table = symbols as unknown as Record<string, (...values: unknown[]) => number>;
  const own = { ...table };
  const calls: string[] = [];
  for (const name of MPI_FUNCTION_NAMES) {
    table[name] = (...values) => {
      calls.push(name.replace(/_(in_place|at)$/, ""));
      return own[name](...values);
    };
  }
  try {
    action();
  } finally {
    Object.assign(table, own);
  }
  return calls.filter((name) => !LOCAL.test(name));
}

/** Something for the next sweep, so that one would show. */
function queueSomething(): void {
  Communicator.self().duplicate()[Symbol.dispose]();
}

const one = () => new Float64Array(1);
const half = () => new Float16Array(1);

/** Every method, and the calls that it makes. */
function methods(world: Communicator): Record<string, [call: () => unknown, calls: string[]][]> {
  const { rank, size } = world;
  const each = new Array<number>(size).fill(1);
  const many = () => new Float64Array(size);
  const [to, from] = [(rank + 1) % size, (rank + size - 1) % size];
  const pass = (send: () => unknown) => {
    const received = world.ireceive(one(), from);
    send();
    received.wait();
  };
  const passObject = (send: () => unknown) => {
    const received = world.ireceiveObject(from);
    send();
    received.wait();
  };
  const made = world.duplicate();
  const grid = world.createCartesian([size], { periodic: true })!;
  return {
    barrier: [[() => world.barrier(), ["Barrier"]]],
    broadcast: [[() => world.broadcast(one()), ["Bcast"]]],
    allReduce: [[() => world.allReduce(one()), ["Allreduce"]], [() => world.allReduce(half()), ["Allreduce"]]],
    reduce: [[() => world.reduce(one()), ["Reduce"]], [() => world.reduce(half()), ["Reduce"]]],
    scan: [[() => world.scan(one()), ["Scan"]], [() => world.scan(half()), ["Scan"]]],
    exclusiveScan: [[() => world.exclusiveScan(one()), ["Exscan"]], [() => world.exclusiveScan(half()), ["Exscan"]]],
    reduceScatter: [
      [() => world.reduceScatter(many()), ["Reduce_scatter"]],
      [() => world.reduceScatter(new Float16Array(size)), ["Reduce_scatter"]],
    ],
    gather: [[() => world.gather(one()), ["Gather"]]],
    gatherV: [[() => world.gatherV(one(), { counts: each }), ["Gatherv"]]],
    allGather: [[() => world.allGather(one()), ["Allgather"]]],
    allGatherV: [[() => world.allGatherV(one(), { counts: each }), ["Allgatherv"]]],
    scatter: [[() => world.scatter(rank === 0 ? many() : null, one()), ["Scatter"]]],
    scatterV: [[() => world.scatterV(rank === 0 ? many() : null, one(), { counts: each }), ["Scatterv"]]],
    allToAll: [[() => world.allToAll(many()), ["Alltoall"]]],
    allToAllV: [[() => world.allToAllV(many(), { sendCounts: each, receiveCounts: each }), ["Alltoallv"]]],
    send: [[() => pass(() => world.send(one(), to)), ["Irecv", "Send", "Wait"]]],
    receive: [[() => {
      const sent = world.isend(one(), to);
      world.receive(one(), from);
      sent.wait();
    }, ["Isend", "Recv", "Wait"]]],
    sendReceive: [[() => world.sendReceive(one(), to, one(), { source: from }), ["Sendrecv"]]],
    isend: [[() => pass(() => world.isend(one(), to).wait()), ["Irecv", "Isend", "Wait", "Wait"]]],
    ireceive: [[() => {
      const received = world.ireceive(one(), null);
      received.wait();
    }, ["Irecv", "Wait"]]],
    ibroadcast: [[() => world.ibroadcast(one()).wait(), ["Ibcast", "Wait"]]],
    ireduce: [[() => world.ireduce(one()).wait(), ["Ireduce", "Wait"]]],
    iallReduce: [[() => world.iallReduce(one()).wait(), ["Iallreduce", "Wait"]]],
    igather: [[() => world.igather(one()).wait(), ["Igather", "Wait"]]],
    iscatter: [[() => world.iscatter(rank === 0 ? many() : null, one()).wait(), ["Iscatter", "Wait"]]],
    iallGather: [[() => world.iallGather(one()).wait(), ["Iallgather", "Wait"]]],
    iallToAll: [[() => world.iallToAll(many()).wait(), ["Ialltoall", "Wait"]]],
    ibarrier: [[() => world.ibarrier().wait(), ["Ibarrier", "Wait"]]],
    iallGatherV: [[() => world.iallGatherV(one(), { counts: each }).wait(), ["Iallgatherv", "Wait"]]],
    sendInit: [[() => {
      using prepared = world.sendInit(one(), to);
      pass(() => prepared.start().wait());
    }, ["Send_init", "Irecv", "Start", "Wait", "Wait", "Request_free"]]],
    receiveInit: [[() => {
      using prepared = world.receiveInit(one(), null);
      prepared.start().wait();
    }, ["Recv_init", "Start", "Wait", "Request_free"]]],
    probe: [[() => world.probe(null), ["Probe"]]],
    probeNow: [[() => world.probeNow(null), ["Iprobe"]]],
    broadcastObject: [[() => world.broadcastObject("a value"), ["Bcast", "Bcast"]]],
    gatherObject: [[() => world.gatherObject("a value"), ["Allgather", "Gatherv"]]],
    allGatherObject: [[() => world.allGatherObject("a value"), ["Allgather", "Allgatherv"]]],
    scatterObject: [[() => world.scatterObject(rank === 0 ? each : null), ["Scatter", "Scatterv"]]],
    allToAllObject: [[() => world.allToAllObject(each), ["Alltoall", "Alltoallv"]]],
    reduceObject: [[() => world.reduceObject(1, Math.max), ["Allgather", "Gatherv"]]],
    allReduceObject: [[() => world.allReduceObject(1, Math.max), ["Allgather", "Allgatherv"]]],
    scanObject: [[() => world.scanObject(1, Math.max), ["Allgather", "Allgatherv"]]],
    exclusiveScanObject: [[() => world.exclusiveScanObject(1, Math.max), ["Allgather", "Allgatherv"]]],
    sendObject: [[() => passObject(() => world.sendObject(1, to)), ["Irecv", "Send", "Wait"]]],
    receiveObject: [[() => {
      const sent = world.isendObject(1, to);
      world.receiveObject(from);
      sent.wait();
    }, ["Isend", "Probe", "Recv", "Wait"]]],
    sendReceiveObject: [
      [() => world.sendReceiveObject(1, to, { source: from }), ["Isend", "Probe", "Recv", "Wait"]],
    ],
    isendObject: [[() => passObject(() => world.isendObject(1, to).wait()), ["Irecv", "Isend", "Wait", "Wait"]]],
    ireceiveObject: [[() => world.ireceiveObject(null).wait(), ["Irecv", "Wait"]]],
    print: [[() => world.print(), []]],
    deal: [[() => world.deal(each), []]],
    ringObject: [[
      () => [...world.ringObject(1)],
      [...each].slice(1).flatMap(() => ["Isend", "Probe", "Recv", "Wait"]),
    ]],
    reduceByKey: [[() => world.reduceByKey([["a", 1]], Math.max), ["Allgather", "Gatherv"]]],
    createCartesian: [[() => world.createCartesian([size])!.free(), ["Cart_create", "Comm_free"]]],
    coordinates: [[() => grid.coordinates(), ["Cart_coords"]]],
    shift: [[() => grid.shift(0), ["Cart_shift"]]],
    neighborAllGather: [[() => grid.neighborAllGather(one()), ["Neighbor_allgather"]]],
    neighborAllToAll: [[() => grid.neighborAllToAll(new Float64Array(2)), ["Neighbor_alltoall"]]],
    split: [[() => world.split(rank % 2)!.free(), ["Comm_split", "Comm_free"]]],
    splitShared: [[() => world.splitShared().free(), ["Comm_split_type", "Comm_free"]]],
    duplicate: [[() => world.duplicate().free(), ["Comm_dup", "Comm_free"]]],
    free: [[() => made.free(), ["Comm_free"]]],
    fortranHandle: [[() => world.fortranHandle(), []]],
  };
}

/** A prototype and those that it inherits from, without Object's. */
function chapters(prototype: object): object[] {
  return prototype === Object.prototype ? [] : [prototype, ...chapters(Object.getPrototypeOf(prototype))];
}

clusterTest("each method makes the calls that it names, also while something waits to be freed", (runtime) => {
  const world = runtime.communicator;
  const table = methods(world);
  const all = chapters(Communicator.prototype)
    .flatMap((prototype) => Object.entries(Object.getOwnPropertyDescriptors(prototype)))
    .flatMap(([name, { value }]) => typeof value === "function" ? [name] : []);
  assertEquals(
    all.filter((name) => !["constructor", "abort", "toString"].includes(name)).toSorted(),
    Object.keys(table).toSorted(),
  );
  for (const [name, cases] of Object.entries(table)) {
    for (const [call, calls] of cases) {
      queueSomething();
      assertEquals(callsOf(call), calls.map((call) => `MPI_${call}`), name);
    }
  }
  runtime.collect();
});

clusterTest("disposing of a communicator makes no call", ({ communicator: world }) => {
  const made = world.duplicate();
  assertEquals(callsOf(() => made[Symbol.dispose]()), []);
});

clusterTest(
  "a collective operation on arrays frees what any rank has queued, once",
  { ranks: [2, 3, 4] },
  (runtime) => {
    const world = runtime.communicator;
    const operation = () => DistributedArray.zeros(runtime, [4, 4], Slab.X);
    runtime.collect();
    operation();
    const usual = callsOf(operation);
    const part = world.split(world.rank === 0 ? 0 : 1)!;
    if (world.rank > 0) part[Symbol.dispose]();
    // The keys of all, and whether all went well.
    const sweep = ["MPI_Allgather", "MPI_Allgatherv", "MPI_Allreduce"];
    const freed = world.rank > 0 ? ["MPI_Comm_free"] : [];
    assertEquals(callsOf(operation).toSorted(), [...usual, ...sweep, ...freed].toSorted());
    assertEquals(part.isFreed, world.rank > 0);
    const kept = world.duplicate();
    if (world.rank === 0) kept[Symbol.dispose]();
    operation();
    assertEquals(kept.isFreed, false, "the others have not disposed of it");
    assertEquals(callsOf(operation), usual, "what others still use is looked at once");
    if (world.rank > 0) kept[Symbol.dispose]();
    operation();
    assertEquals(kept.isFreed, true);
    part.free();
  },
);
