/** What a product whose matrices have to be redistributed does in its first execution only. */
import { assert, assertEquals } from "@std/assert";
import { liveAllocations } from "../../internals.ts";
import {
  BlockCyclic,
  Communicator,
  DistributedArray,
  type Distribution,
  type DType,
  geadd,
  geluAuxShape,
  initialize,
  LocalArray,
  Matmul,
  ProcessGrid,
  reluAuxShape,
  type Runtime,
  Slab,
  symm,
  tradd,
} from "../../mod.ts";
import { openCudaRuntime } from "../../ffi/cuda/runtime.ts";
import { Distribution as AnyDistribution } from "../../src/distribution/mod.ts";
import { clusterTest } from "../../src/testing/mod.ts";
import { assertMatrix, combine, distribute, integers, product } from "./matmul_oracle.ts";

const SEVERAL = { ranks: [2, 3, 4] };

/** What one execution did. */
interface Counted {
  /** Reductions over the ranks: each agreement is one. */
  agreements: number;
  /** Index maps that were looked at as a whole, which only planning does. */
  planned: number;
  /** Allocations on the GPU. */
  allocated: number;
  /** What was given to MPI_Alltoallv. */
  readonly buffers: ArrayBufferLike[];
}

/** Count what happens in `body`. */
function count({ stream }: Runtime, body: () => void): Counted {
  const counted: Counted = { agreements: 0, planned: 0, allocated: 0, buffers: [] };
  const [communicator, distribution] = [Communicator.prototype, AnyDistribution.prototype];
  const { allReduce, allToAllV } = communicator;
  const { ranges } = distribution;
  const cuda = stream ? openCudaRuntime() : null;
  const symbols = cuda?.symbols;
  communicator.allReduce = function (this: Communicator, ...given: unknown[]) {
    counted.agreements++;
    return Reflect.apply(allReduce, this, given);
  } as typeof allReduce;
  communicator.allToAllV = function (this: Communicator, ...given: Parameters<typeof allToAllV>) {
    counted.buffers.push((given[0] as Int8Array).buffer, (given[1].into as Int8Array).buffer);
    return Reflect.apply(allToAllV, this, given);
  } as typeof allToAllV;
  distribution.ranges = function (rank) {
    counted.planned++;
    return ranges.call(this, rank);
  };
  if (cuda) {
    cuda.symbols = {
      ...symbols!,
      cudaMallocAsync: (...given) => (counted.allocated++, symbols!.cudaMallocAsync(...given)),
    };
  }
  try {
    body();
  } finally {
    Object.assign(communicator, { allReduce, allToAllV });
    distribution.ranges = ranges;
    if (cuda) cuda.symbols = symbols!;
  }
  return counted;
}

const onDevice = () => liveAllocations().filter(({ kind }) => kind === "device").length;

/** Distributions of A, B and C, of which some have to be moved. */
function places({ size }: Runtime): (readonly [Distribution, Distribution, Distribution])[] {
  const cyclic = new BlockCyclic(new ProcessGrid({ shape: [size, 1] }), [2, 3]);
  const across = new BlockCyclic(new ProcessGrid({ shape: [1, size] }), [3, 2]);
  return [[cyclic, across, Slab.X], [across, cyclic, cyclic], [Slab.Y, across, cyclic]];
}

for (const order of ["C", "F"] as const) {
  for (const memory of ["usual", "host"] as const) {
    const name = `a staged product in order ${order}, operands in ${memory} memory`;
    clusterTest(`${name}: the second execution agrees once, plans and allocates nothing`, SEVERAL, (runtime) => {
      const usual = runtime.stream ? "device" : "host";
      const [a, b, c] = [integers(23, 17, 1), integers(17, 29, 2), integers(23, 29, 3)];
      const ab = product(a, b);
      for (const [at, bt, ct] of places(runtime)) {
        const place = (matrix: typeof a, distribution: Distribution) =>
          distribute(runtime, matrix, { distribution, dtype: "float32", order });
        const [x, y] = [place(a, at), place(b, bt)]
          .map((array) => array.to({ memory: memory === "usual" ? usual : "host" }));
        const sum = memory === "usual" ? place(c, ct) : place(c, ct).to({ memory: "host" });
        const before = onDevice();
        const object = new Matmul(x, y, { c: sum, beta: 1, inplace: true });
        object.plan();
        const { copies } = object.algorithm;
        assert(copies.some((copy) => copy.includes("redistributed")), copies.join("; "));
        const [first, second, third] = [1, 2, 3].map(() => {
          const counted = count(runtime, () => void object.execute());
          return { ...counted, bytes: object.algorithm.workspaceBytes };
        });
        const { agreements, planned, allocated } = second;
        assertEquals(
          { agreements, planned, allocated },
          { agreements: 1, planned: 0, allocated: 0 },
          copies.join("; "),
        );
        // Memory for packed blocks comes with the plan; parts in host memory get a copy on the GPU when there are any.
        if (memory === "usual") assertEquals(first.allocated, 0, "the first execution allocates nothing");
        assertEquals(second.bytes, first.bytes);
        assert(second.bytes > 0);
        assert(second.buffers.every((buffer, i) => buffer === third.buffers[i]), "buffers of messages are kept");
        assertMatrix(sum, combine(3, ab, 1, c), copies.join("; "));
        object.free();
        assertEquals(onDevice(), before, "free gives everything on the GPU back");
      }
    });
  }
}

/** The second execution of a product in place. */
function second(runtime: Runtime, object: Matmul): Pick<Counted, "agreements" | "planned" | "allocated"> {
  object.plan();
  object.execute();
  const { agreements, planned, allocated } = count(runtime, () => void object.execute());
  return { agreements, planned, allocated };
}

clusterTest(
  'a staged product with checks: "local": the second execution agrees on nothing, too',
  SEVERAL,
  (runtime) => {
    const device = runtime.device.kind === "gpu" ? runtime.device.ordinal : "cpu";
    runtime[Symbol.dispose]();
    using local = initialize({ device, checks: "local" });
    const [a, b, c] = [integers(23, 17, 1), integers(17, 29, 2), integers(23, 29, 3)];
    for (const [at, bt, ct] of places(local)) {
      const place = (matrix: typeof a, distribution: Distribution) =>
        distribute(local, matrix, { distribution, dtype: "float32" });
      const sum = place(c, ct);
      using object = new Matmul(place(a, at), place(b, bt), { c: sum, beta: 1, inplace: true });
      assertEquals(second(local, object), { agreements: 0, planned: 0, allocated: 0 });
      const copies = object.algorithm.copies.join("; ");
      assert(copies.includes("redistributed"), copies);
      assertMatrix(sum, combine(2, product(a, b), 1, c), copies);
    }
  },
);

clusterTest(
  "an epilog that the host applies: the second execution agrees once, and allocates nothing",
  SEVERAL,
  (runtime) => {
    const [a, b, c] = [integers(23, 1, 1), integers(1, 29, 2), integers(23, 29, 3)];
    const place = (matrix: typeof a) => distribute(runtime, matrix, { distribution: Slab.X, dtype: "float32" });
    for (const epilog of ["dgelu", "drelu"] as const) {
      const addend = place(c);
      const [rows, columns] = addend.distribution.localShape(runtime.rank);
      using object = new Matmul(place(a), place(b), {
        c: addend,
        beta: 1,
        inplace: true,
        epilog,
        epilogInputs: epilog === "dgelu"
          ? { geluAux: LocalArray.zeros("float32", geluAuxShape(rows, columns), "F") }
          : { reluAux: LocalArray.zeros("uint8", reluAuxShape(rows, columns), "F") },
      });
      assertEquals(second(runtime, object), { agreements: 1, planned: 0, allocated: 0 }, epilog);
    }
  },
);

clusterTest("arrays of scales: the second execution agrees once, and plans nothing", SEVERAL, (runtime) => {
  if (runtime.device.kind === "gpu" && runtime.device.computeCapability[0] !== 9) return;
  const place = (rows: number, columns: number, dtype: DType) =>
    DistributedArray.full(runtime, [rows, columns], Slab.Y, 1, { dtype, order: "F" });
  const [m, n, k] = [128, 144, 256];
  const c = place(m, n, "float32");
  using object = new Matmul(place(k, m, "float8_e4m3"), place(k, n, "float8_e4m3"), {
    qualifiers: { a: { isTranspose: true } },
    c,
    beta: 0,
    inplace: true,
    quantizationScales: { a: place(k / 128, m, "float32"), b: place(k / 128, n, "float32") },
  });
  const { agreements, planned } = second(runtime, object);
  assertEquals({ agreements, planned }, { agreements: 1, planned: 0 });
  assertEquals(c.sum(), m * n * k);
});

clusterTest("a PBLAS routine with matrices that have to be moved agrees once", SEVERAL, (runtime) => {
  const [a, b] = [integers(12, 12, 1), integers(12, 8, 2)];
  const place = (matrix: typeof a, distribution: Distribution) => distribute(runtime, matrix, { distribution });
  const [left, right, sum] = [place(a, Slab.X), place(b, Slab.Y), place(b, Slab.X)];
  const call = () => symm(left, right, { c: sum, beta: 1, inplace: true }).dtype;
  call();
  const { agreements } = count(runtime, call);
  // On a GPU the library is asked for its workspace once the matrices are described.
  assertEquals(agreements, runtime.stream === null ? 1 : 2);
});

clusterTest("PBLAS results that are empty, or made in parts, take one agreement", SEVERAL, (runtime) => {
  const array = (m: number, n: number, distribution: Distribution) =>
    distribute(runtime, integers(m, n, 1), { distribution });
  const [none, start] = [array(0, 5, Slab.X), array(0, 5, Slab.Y)];
  const [tall, target] = [array(13, 5, Slab.X), array(13, 5, Slab.Y)];
  const agreementsOf = (call: () => DistributedArray) => {
    call();
    return count(runtime, () => void call().dtype).agreements;
  };
  assertEquals(agreementsOf(() => geadd(none)), 1);
  assertEquals(agreementsOf(() => geadd(none, { c: start, beta: 1, distribution: Slab.X })), 1);
  // On a GPU the library is asked for the workspace of each part.
  const expected = runtime.stream === null ? 1 : 3;
  assertEquals(agreementsOf(() => tradd(tall)), expected);
  assertEquals(agreementsOf(() => tradd(tall, { c: target, beta: 1 })), expected);
  assertEquals(agreementsOf(() => tradd(tall, { c: target, beta: 1, inplace: true })), expected);
});
