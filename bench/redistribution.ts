/**
 * Group `redistribution`: `Redistribution.execute` into a given array, the way that is taken by default, against p?gemr2d
 * called from C, against mpi4py's Alltoallw with derived types of NumPy arrays, and against a plain copy of as many bytes.
 * Beside them, by how much other ways are slower: what `autotune` takes, packed blocks by Alltoallv, messages from pair to
 * pair of derived types and packed.
 *
 * Started as a program it is our side of the comparison, on each rank.
 *
 * @module
 */
import {
  BlockCyclic,
  Box,
  DistributedArray,
  type Distribution,
  type DType,
  initialize,
  ProcessGrid,
  Redistribution,
  type RedistributionAlgorithm,
  Slab,
} from "../mod.ts";
import { type Group, ours, turn } from "./harness/bench.ts";
import { c, deno, python } from "./harness/programs.ts";
import { serve, timeEach } from "./harness/worker.ts";

/** A distribution of a C-order array: the extents of a row-major grid of processes, and the block sizes. */
interface Place {
  readonly grid: readonly number[];
  readonly blocks: readonly number[];
}

/** An array that goes from one distribution to another. */
interface Case {
  readonly title: string;
  readonly shape: readonly number[];
  readonly dtype: "float64" | "complex128";
  readonly from: Place;
  readonly to: Place;
}

/** One block a process. */
function blocksOn(shape: readonly number[], grid: readonly number[]): Place {
  return { grid, blocks: shape.map((extent, d) => Math.ceil(extent / grid[d])) };
}

function slab(shape: readonly number[], dimension: number, ranks: number): Place {
  return blocksOn(shape, shape.map((_, d) => d === dimension ? ranks : 1));
}

function cases(ranks: number): Case[] {
  const [square, cube] = [[4096, 4096], [256, 256, 256]];
  const rows = ranks % 4 === 0 ? 2 : 1;
  const cyclic = { grid: [rows, ranks / rows], blocks: [64, 64] };
  const [x, y] = [slab(square, 0, ranks), slab(square, 1, ranks)];
  const pencils = [[rows, ranks / rows, 1], [rows, 1, ranks / rows]].map((grid) => blocksOn(cube, grid));
  const ofMatrix = { shape: square, dtype: "float64" } as const;
  const ofCube = { shape: cube, dtype: "complex128" } as const;
  return [
    { title: "4096^2 float64, Slab.X to Slab.Y", ...ofMatrix, from: x, to: y },
    { title: "4096^2 float64, Slab.Y to Slab.X", ...ofMatrix, from: y, to: x },
    { title: "4096^2 float64, Slab.X to block-cyclic", ...ofMatrix, from: x, to: cyclic },
    { title: "4096^2 float64, block-cyclic to Slab.X", ...ofMatrix, from: cyclic, to: x },
    { title: "256^3 complex128, Slab.X to Slab.Y", ...ofCube, from: slab(cube, 0, ranks), to: slab(cube, 1, ranks) },
    { title: "256^3 complex128, Slab.Y to Slab.X", ...ofCube, from: slab(cube, 1, ranks), to: slab(cube, 0, ranks) },
    { title: "256^3 complex128, Z pencils to Y pencils", ...ofCube, from: pencils[0], to: pencils[1] },
    { title: "256^3 complex128, Y pencils to Z pencils", ...ofCube, from: pencils[1], to: pencils[0] },
  ];
}

/** The order for C: a C-order array is a column-major matrix of its last dimensions by the first. */
function gemr2dOrder({ shape, dtype, from, to }: Case): string {
  const [columns, ...rest] = shape;
  const rows = rest.reduce((product, extent) => product * extent);
  const gridOf = ({ grid, blocks }: Place): number[] => {
    const divided = grid.findLastIndex((extent, d) => d > 0 && extent > 1);
    const inner = shape.slice(divided + 1).reduce((product, extent) => product * extent, 1);
    return [
      divided < 0 ? 1 : grid[divided],
      grid[0],
      divided < 0 ? rows : blocks[divided] * inner,
      blocks[0],
    ];
  };
  return `gemr2d ${dtype === "float64" ? "d" : "z"} ${rows} ${columns} ${gridOf(from).join(" ")} ${
    gridOf(to).join(" ")
  }`;
}

/** Calls a round, and rounds. */
const [calls, rounds] = [4, 15];

/** The group. */
export const redistribution: Group = {
  name: "redistribution",
  description: "arrays that go to other distributions: p?gemr2d in C, mpi4py's Alltoallw, a plain copy of the parts",
  async run(bench) {
    const { libraries, ranks } = bench;
    await using jobs = await bench.start({
      [ours]: deno("redistribution.ts"),
      "p?gemr2d": c("gemr2d", libraries, { files: libraries.scalapack }),
      mpi4py: python("redistribution", libraries),
    });
    for (const one of cases(ranks)) {
      const key = JSON.stringify({ ...one, title: "" });
      await bench.row({
        title: one.title,
        rounds,
        turns: {
          [ours]: turn(jobs[ours], `move ${key} ${calls} auto`),
          "p?gemr2d": turn(jobs["p?gemr2d"], `${gemr2dOrder(one)} ${calls}`),
          mpi4py: turn(jobs.mpi4py, `move ${key} ${calls} alltoallw`),
          copy: turn(jobs[ours], `copy ${key} ${calls}`),
          autotuned: turn(jobs[ours], `move ${key} ${calls} autotuned`),
          "direct copies": turn(jobs[ours], `move ${key} ${calls} direct_copies`),
          "shared window": turn(jobs[ours], `move ${key} ${calls} shared_window`),
          "packed, Alltoallv": turn(jobs[ours], `move ${key} ${calls} packed_alltoallv`),
          "types, Alltoallw": turn(jobs[ours], `move ${key} ${calls} derived_types`),
          "types, pairwise": turn(jobs.mpi4py, `move ${key} ${calls} pairwise`),
          "packed, pairwise": turn(jobs.mpi4py, `move ${key} ${calls} packed`),
        },
        comparisons: [
          { quantity: "speed", against: "p?gemr2d", bound: 1 },
          { quantity: "speed", against: "mpi4py", bound: 1 },
          { quantity: "speed", against: "copy" },
          { quantity: "speed", against: "autotuned" },
          { quantity: "speed", against: "shared window" },
          { quantity: "speed", against: "packed, Alltoallv" },
          { quantity: "speed", against: "types, Alltoallw" },
          { quantity: "speed", against: "types, pairwise" },
          { quantity: "speed", against: "packed, pairwise" },
        ],
      });
    }
  },
};

if (import.meta.main) {
  using runtime = initialize({ device: "cpu" });
  const { communicator, size } = runtime;

  const distributionOf = ({ grid, blocks }: Place, shape: readonly number[]): Distribution => {
    const place = new BlockCyclic(new ProcessGrid({ shape: [...grid], layout: "row-major" }), [...blocks]);
    if (blocks.some((block, d) => block * grid[d] < shape[d])) return place;
    const divided = grid.flatMap((extent, d) => extent > 1 ? [d] : []);
    return divided.length === 1 ? new Slab(divided[0]) : place.bind(shape, size).to(Box);
  };

  /** The arrays of the last order serve all rounds, and a plan for each way. */
  let last:
    | { key: string; source: DistributedArray; target: DistributedArray; moves: Map<string, Redistribution> }
    | null = null;
  const prepare = (key: string): NonNullable<typeof last> => {
    if (last?.key === key) return last;
    for (const held of [...last?.moves.values() ?? [], last?.source, last?.target]) held?.free();
    const { shape, dtype, from, to }: Case & { dtype: DType } = JSON.parse(key);
    const [source, target] = [from, to].map((place) =>
      DistributedArray.random(runtime, shape, distributionOf(place, shape), { dtype })
    );
    return last = { key, source, target, moves: new Map() };
  };

  const prepareMove = (key: string, algorithm: RedistributionAlgorithm | "auto" | "autotuned"): Redistribution => {
    const { source, target, moves } = prepare(key);
    const known = moves.get(algorithm);
    if (known !== undefined) return known;
    const move = new Redistribution(source, target);
    if (algorithm === "autotuned") move.autotune({ repetitions: 9 });
    else if (algorithm !== "auto") move.plan({ algorithm: algorithm as "packed_alltoallv" });
    moves.set(algorithm, move);
    return move;
  };

  await serve(runtime.rank, {
    move(key, repeats, algorithm) {
      const move = prepareMove(key, algorithm as RedistributionAlgorithm | "auto" | "autotuned");
      move.execute();
      return timeEach(Number(repeats), () => void move.execute(), () => communicator.barrier());
    },
    copy(key, repeats) {
      const [source, target] = [prepare(key).source, prepare(key).target].map(({ local }) => local.view());
      const copy = () => (target as Float64Array).set(source as Float64Array);
      copy();
      return timeEach(Number(repeats), copy, () => communicator.barrier());
    },
  });
}
