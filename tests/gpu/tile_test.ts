/** Products by tile kernels, exact on small integers: shapes that no tile divides, all layouts, 2 to 8 ranks on the GPUs at hand. */
import "./many_queues.ts";
import { assertEquals, assertThrows } from "@std/assert";
import { CollectiveError, Device, ShapeError } from "../../mod.ts";
import { copyFromDevice } from "../../src/memory/copy.ts";
import { DeviceBuffer } from "../../src/memory/device_buffer.ts";
import { allocateSymmetric, freeSymmetric } from "../../src/memory/symmetric_memory.ts";
import { TILE_SHAPES, type TileShape, tileShapeNamed } from "../../src/overlap/executors/tile/configuration.ts";
import { exchangeLayout } from "../../src/overlap/executors/tile/exchange.ts";
import { TileProduct } from "../../src/overlap/executors/tile/product.ts";
import { clusterTest } from "../../src/testing/mod.ts";
import { areGpusShared, hasGpu } from "./gpu_test_kit.ts";
import { checkTileProduct, type TileCase } from "./tile_kit.ts";

const isServed = hasGpu && new Device(0).computeCapability.join(".") === "9.0";
const options = { ignore: !isServed && "no GPU of compute capability 9.0", timeoutSeconds: 120 };

const between = ["wide 232", "wide 200", "medium 168"];
const shapes: [string, TileShape][] = [...Object.keys(TILE_SHAPES), ...between].map((
  name,
) => [name, tileShapeNamed(name)!]);
const layouts = [[true, false], [true, true], [false, false], [false, true]] as const;
const base = {
  dtype: "bfloat16",
  isRowMajorA: true,
  isRowMajorB: false,
  split: "rows",
  ranksPerGpu: 1,
  runs: 3,
} as const;

for (const [name, shape] of shapes) {
  clusterTest(`${name} tiles multiply in every layout, and in both dtypes`, options, (runtime) => {
    const given = { ...base, kind: "plain", m: 301, n: 520, k: 133, variant: { shape } } as const;
    for (const [isRowMajorA, isRowMajorB] of layouts) checkTileProduct(runtime, { ...given, isRowMajorA, isRowMajorB });
    checkTileProduct(runtime, { ...given, dtype: "float16" });
    for (const [m, n, k] of [[1, 8, 1], [16, 1000, 333], [129, 264, 64], [700, 2056, 77]]) {
      checkTileProduct(runtime, { ...base, kind: "plain", m, n, k, variant: { shape } });
    }
  });

  clusterTest(`${name} tiles between 2 to 8 ranks, in every layout`, options, (runtime) => {
    const most = 8 / runtime.size;
    for (const ranksPerGpu of [1, 2, 3, 4, 8].filter((count) => count <= most && count * runtime.size > 1)) {
      for (const [isRowMajorA, isRowMajorB] of layouts) {
        const given = { ...base, isRowMajorA, isRowMajorB, ranksPerGpu, variant: { shape }, delay: 100 };
        for (const kind of ["gather", "reduce"] as const) {
          const size = ranksPerGpu * runtime.size;
          checkTileProduct(runtime, { ...given, kind, m: isRowMajorA ? 523 : 40 * size, n: 392, k: 200 });
          checkTileProduct(runtime, { ...given, kind, split: "columns", m: 200, n: 48 * size, k: 136 });
        }
        for (const blocksPush of [false, ...shape.columns <= 128 ? [true] : []]) {
          const inPieces = { ...given, kind: "gather", variant: { shape, pieces: 3, blocksPush }, k: 300 } as const;
          const many = 48 * ranksPerGpu * runtime.size;
          checkTileProduct(runtime, { ...inPieces, m: isRowMajorA ? 523 : many, n: 392 });
          checkTileProduct(runtime, { ...inPieces, split: "columns", m: 200, n: many });
        }
        const peersFirst = { shape, lead: Infinity };
        const m = isRowMajorA ? 523 : 264 * ranksPerGpu * runtime.size;
        checkTileProduct(runtime, { ...given, kind: "reduce", m, n: 392, k: 200, variant: peersFirst });
        checkTileProduct(runtime, { ...given, kind: "all_reduce", m: 523, n: 392, k: 200 });
        const fetched = { shape, pulls: true };
        checkTileProduct(runtime, { ...given, kind: "reduce", m, n: 392, k: 200, variant: fetched });
        if (isRowMajorA) {
          checkTileProduct(runtime, { ...given, kind: "all_reduce", m: 523, n: 392, k: 200, variant: fetched });
        }
        if (!isRowMajorB) checkTileProduct(runtime, { ...given, kind: "reduce", dtype: "float16", m, n: 392, k: 200 });
        const exchange = { shape, isExchange: true };
        checkTileProduct(runtime, { ...given, kind: "all_reduce", m: 100, n: 392, k: 200, variant: exchange });
      }
    }
  });
}

for (const name of ["narrow", "flat"] as const) {
  const shape = TILE_SHAPES[name];
  clusterTest(
    `${name} tiles multiply factors of 8 bits, alone and between 2 to 8 ranks`,
    options,
    (runtime) => {
      const { size } = runtime;
      const pairs = [["float8_e4m3", "float8_e4m3"], ["float8_e5m2", "float8_e4m3"], [
        "float8_e4m3",
        "float8_e5m2",
      ]] as const;
      for (const [i, types] of pairs.entries()) {
        const dtype = i === 1 ? "float16" : "bfloat16";
        const given = {
          ...base,
          dtype,
          narrow: types,
          variant: { shape },
          delay: 100,
          m: 523,
          n: 392,
          k: 200,
        } as const;
        for (const [m, n, k] of [[301, 520, 133], [1, 8, 1], [16, 1000, 333], [129, 264, 128], [700, 2056, 77]]) {
          checkTileProduct(runtime, { ...given, kind: "plain", m, n, k });
        }
        for (const ranksPerGpu of [1, 2, 4].filter((count) => count * size > 1 && count * size <= 8)) {
          const between = { ...given, ranksPerGpu };
          for (const kind of ["gather", "reduce", "all_reduce"] as const) {
            checkTileProduct(runtime, { ...between, kind });
          }
          const columns = { ...between, split: "columns", m: 200, n: 48 * ranksPerGpu * size } as const;
          checkTileProduct(runtime, { ...columns, kind: "gather", k: 700, variant: { shape, pieces: 2 } });
          const blocksPush = { shape, pieces: 8, blocksPush: true };
          checkTileProduct(runtime, { ...columns, kind: "gather", k: 1100, variant: blocksPush });
          checkTileProduct(runtime, { ...columns, kind: "reduce" });
          checkTileProduct(runtime, { ...between, kind: "reduce", variant: { shape, panels: 2 } });
          checkTileProduct(runtime, { ...between, kind: "all_reduce", variant: { shape, panels: 3 } });
          checkTileProduct(runtime, { ...between, kind: "reduce", variant: { shape, pulls: true, lead: Infinity } });
          checkTileProduct(runtime, { ...between, kind: "all_reduce", variant: { shape, pulls: true } });
          checkTileProduct(runtime, { ...between, kind: "all_reduce", m: 100, variant: { shape, isExchange: true } });
        }
      }
    },
  );
}

clusterTest("panels that copy engines push, between 2 to 8 ranks", options, (runtime) => {
  const { wide, medium, narrow } = TILE_SHAPES;
  for (const ranksPerGpu of [1, 2, 4].filter((count) => count * runtime.size > 1 && count * runtime.size <= 8)) {
    for (const [shape, panels] of [[wide, 1], [medium, 3], [narrow, 5], [wide, 100]] as const) {
      const given = { ...base, ranksPerGpu, variant: { shape, panels }, delay: 100, k: 72 };
      checkTileProduct(runtime, { ...given, kind: "reduce", m: 1100, n: 1000 });
      checkTileProduct(runtime, { ...given, kind: "all_reduce", m: 1100, n: 1000 });
      const [isRowMajorA, isRowMajorB] = layouts[panels % 4];
      const other = { ...given, isRowMajorA, isRowMajorB, dtype: "float16" } as const;
      checkTileProduct(runtime, { ...other, kind: "reduce", split: "columns", m: 530, n: 120 * 8 });
      checkTileProduct(runtime, { ...other, kind: "all_reduce", split: "columns", m: 100, n: 136 });
      // A rank that has nothing but its own kernels on a GPU can begin own tiles before all others are sent.
      const lead = 60 + 40 * runtime.size;
      if (ranksPerGpu > 1 || areGpusShared) continue;
      checkTileProduct(runtime, { ...given, kind: "reduce", m: 2500, n: 2104, variant: { shape, panels: 9, lead } });
    }
  }
});

clusterTest("partial sums that are fetched when they are added, by lists of several waves", options, (runtime) => {
  const { wide, medium, narrow, flat } = TILE_SHAPES;
  for (const ranksPerGpu of [1, 2, 4].filter((count) => count * runtime.size > 1 && count * runtime.size <= 8)) {
    for (const [shape, lead] of [[wide, undefined], [medium, Infinity], [narrow, 7], [flat, 100]] as const) {
      const variant = { shape, pulls: true, ...lead !== undefined && { lead } };
      // Few steps, and so many that some lie between chunks.
      for (const k of [72, 1000]) {
        const given = { ...base, ranksPerGpu, variant, delay: 100, m: 1100, n: 1000, k };
        checkTileProduct(runtime, { ...given, kind: "reduce" });
        checkTileProduct(runtime, { ...given, kind: "all_reduce" });
      }
    }
  }
});

clusterTest(
  "panels, fetched sums and pushed parts in a graph that is repeated, between runs apart",
  options,
  (runtime) => {
    const { wide, narrow } = TILE_SHAPES;
    for (const ranksPerGpu of [1, 2].filter((count) => count * runtime.size > 1)) {
      const variant = { shape: narrow, pieces: 3, blocksPush: true };
      const pushed = { ...base, kind: "gather", variant, ranksPerGpu, runs: 100, isCaptured: true, delay: 50 } as const;
      checkTileProduct(runtime, { ...pushed, m: 300, n: 264, k: 200 });
      for (const [shape, panels] of [[wide, 1], [narrow, 3]] as const) {
        const given = {
          ...base,
          ranksPerGpu,
          variant: { shape, panels },
          delay: 50,
          k: 72,
          runs: 100,
          isCaptured: true,
        };
        checkTileProduct(runtime, { ...given, kind: "reduce", m: 600, n: 264 });
        checkTileProduct(runtime, { ...given, kind: "all_reduce", m: 300, n: 264 });
        const fetched = { ...given, variant: { shape, pulls: true } };
        checkTileProduct(runtime, { ...fetched, kind: "reduce", m: 600, n: 264 });
        checkTileProduct(runtime, { ...fetched, kind: "all_reduce", m: 300, n: 264 });
      }
    }
    if (runtime.size === 1) return;
    // Tiles for all multiprocessors.
    const given = { ...base, variant: { shape: wide, panels: 2 }, k: 40, runs: 10, isCaptured: true };
    for (const kind of ["reduce", "all_reduce"] as const) {
      checkTileProduct(runtime, {
        ...given,
        kind,
        m: 4096,
        n: 2304,
      });
    }
  },
);

const many: readonly (Pick<TileCase, "kind" | "variant"> & { readonly m?: number })[] = [
  { kind: "gather", variant: { shape: TILE_SHAPES.wide } },
  { kind: "gather", variant: { shape: TILE_SHAPES.narrow, pieces: 2 } },
  { kind: "gather", variant: { shape: TILE_SHAPES.narrow, pieces: 3, blocksPush: true } },
  { kind: "reduce", variant: { shape: TILE_SHAPES.roomy } },
  { kind: "reduce", variant: { shape: TILE_SHAPES.medium, panels: 2 } },
  { kind: "all_reduce", variant: { shape: TILE_SHAPES.medium } },
  { kind: "all_reduce", variant: { shape: TILE_SHAPES.wide, panels: 1 } },
  { kind: "reduce", variant: { shape: TILE_SHAPES.wide, pulls: true, lead: Infinity } },
  { kind: "all_reduce", variant: { shape: TILE_SHAPES.narrow, pulls: true }, m: 1100 },
  { kind: "all_reduce", variant: { shape: TILE_SHAPES.flat, isExchange: true } },
];
// Ranks that share a GPU take turns of milliseconds on it.
const manyRuns = areGpusShared ? 50 : 1000;
for (const { kind, variant, m = 301 } of many) {
  const name = `${kind}${
    variant.isExchange
      ? " by exchange"
      : variant.pulls
      ? " of what is fetched"
      : variant.panels
      ? " in panels"
      : variant.blocksPush
      ? " in pieces that blocks push"
      : variant.pieces
      ? " in pieces"
      : ""
  }`;
  clusterTest(
    `${name}, ${manyRuns} times back to back on other operands, each rank late at random`,
    options,
    (runtime) => {
      const ranksPerGpu = runtime.size === 1 ? 2 : 1;
      const given = { ...base, kind, variant, ranksPerGpu, m, n: 264, k: 192, runs: manyRuns };
      checkTileProduct(runtime, given);
      checkTileProduct(runtime, { ...given, delay: 50 });
    },
  );
}

clusterTest(
  "a rank that others wait for in vain is an error that names it, and the GPU goes on",
  options,
  (runtime) => {
    const stream = runtime.stream!;
    const variant = { shape: TILE_SHAPES.wide };
    const problem = {
      ...base,
      kind: "reduce",
      m: 512,
      n: 512,
      k: 64,
      rank: 0,
      size: 2,
    } as const;
    const bytes = exchangeLayout(problem, variant).bytes;
    const { buffer } = allocateSymmetric(
      runtime,
      () => ({ bytes, backend: "nvshmem", makeSymmetric: true, facts: {}, offer: null }),
    );
    {
      // The other rank is this GPU's own memory, in which nobody writes.
      using nobody = new DeviceBuffer(stream, bytes);
      using a = new DeviceBuffer(stream, 512 * 64 * 2);
      using b = new DeviceBuffer(stream, 512 * 64 * 2);
      using d = new DeviceBuffer(stream, 256 * 512 * 2);
      using product = new TileProduct(stream, problem, variant, [buffer.address, nobody.address], {
        patienceSeconds: 0.2,
      });
      const run = () =>
        product.execute({
          a: { address: a.address, leading: 64 },
          b: { address: b.address, leading: 64 },
          d: { address: d.address, leading: 512 },
        });
      for (let i = 0; i < 3; i++) run();
      // Whoever waits for the GPU is told, once; who asks is told again.
      assertThrows(() => stream.synchronize(), CollectiveError, "waited 0.2 s for its partial sums from rank 1");
      stream.synchronize();
      const error = assertThrows(() => product.check(), CollectiveError);
      assertEquals(
        error.message,
        "Rank 0 waited 0.2 s for its partial sums from rank 1 in a run of a product. Look whether that rank has failed, is " +
          "late (timeoutSeconds of initialize() gives it more time), or has run the product less often; start the job again.",
      );
      assertEquals(error.ranks, [1]);
      copyFromDevice(new Uint8Array(16), a.address, stream);
      assertThrows(
        () =>
          product.execute({
            a: { address: a.address, leading: 65 },
            b: { address: b.address, leading: 64 },
            d: { address: d.address, leading: 512 },
          }),
        ShapeError,
        "This product is not for tile kernels: rows and columns have to begin at multiples of 16 bytes, and A has one every 65 elements.",
      );
    }
    freeSymmetric(runtime, () => [buffer]);
    checkTileProduct(runtime, { ...base, kind: "plain", m: 301, n: 520, k: 133, variant });
  },
);
