/**
 * Redistributions by messages, packed by `MPI_Alltoallv` and by derived types with `MPI_Alltoallw`, in turns: over TCP, as
 * between machines, if MPI is told to use nothing else. A script of its own, so that it runs on any version that has both:
 *
 *     OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,tcp mpirun -n 2 deno run -A bench/messages.ts [ROUNDS] [FILTER]
 *     MPIR_CVAR_NOLOCAL=1 FI_PROVIDER=tcp mpiexec.mpich -n 2 deno run -A bench/messages.ts [ROUNDS] [FILTER]
 *
 * It prints a line a case on rank 0: the milliseconds of the slowest rank, median and least of the rounds, and packed over
 * types, the median of the rounds' ratios and the ratio of the least. "once" is a redistribution planned for one execution.
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
  Replicated,
  Slab,
} from "../mod.ts";

const WAYS = ["packed_alltoallv", "derived_types"] as const;
const rounds = Number(Deno.args[0] ?? 9);
const filter = Deno.args[1] ?? "";

using runtime = initialize({ device: "cpu", threads: 1 });
const { communicator, size, rank } = runtime;

/** An array that goes from one distribution to another. */
interface Case {
  readonly title: string;
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly from: Distribution;
  readonly to: Distribution;
  /** The order of the target; the source's is C. */
  readonly order?: "C" | "F";
}

function cyclic(block: number, shape: readonly number[] = [1, size]): Distribution {
  return new BlockCyclic(new ProcessGrid({ shape: [...shape], layout: "row-major" }), [block, block]);
}

/** One block a process. */
function boxes(extents: readonly number[], grid: readonly number[]): Distribution {
  const blocks = extents.map((extent, d) => Math.ceil(extent / grid[d]));
  return new BlockCyclic(new ProcessGrid({ shape: [...grid], layout: "row-major" }), blocks).bind(extents, size).to(
    Box,
  );
}

function cases(): Case[] {
  const rows = size % 4 === 0 ? 2 : 1;
  const square = { shape: [4096, 4096], dtype: "float64" } as const;
  const cube = { shape: [256, 256, 256], dtype: "complex128" } as const;
  const [z, y] = [[rows, size / rows, 1], [rows, 1, size / rows]].map((grid) => boxes(cube.shape, grid));
  const ofSquare = (name: string, from: Distribution, to: Distribution, order: "C" | "F" = "C"): Case => (
    { title: `4096^2 float64, ${name}`, ...square, from, to, order }
  );
  const [grid] = [[rows, size / rows]];
  return [
    ofSquare("Slab.X to Slab.Y", Slab.X, Slab.Y),
    ofSquare("Slab.Y to Slab.X", Slab.Y, Slab.X),
    ofSquare("Slab.X to block-cyclic 64", Slab.X, cyclic(64, grid)),
    ofSquare("block-cyclic 64 to Slab.X", cyclic(64, grid), Slab.X),
    ofSquare("Slab.X to Slab.Y of order F", Slab.X, Slab.Y, "F"),
    ...[1, 2, 4, 8, 16, 32, 128].flatMap((block) => [
      ofSquare(`Slab.X to columns in blocks of ${block}`, Slab.X, cyclic(block)),
      ofSquare(`columns in blocks of ${block} to Slab.X`, cyclic(block), Slab.X),
    ]),
    { title: "256^3 complex128, Slab.X to Slab.Y", ...cube, from: Slab.X, to: Slab.Y },
    { title: "256^3 complex128, Slab.X to Slab.Z", ...cube, from: Slab.X, to: Slab.Z },
    { title: "256^3 complex128, Z pencils to Y pencils", ...cube, from: z, to: y },
    { title: "256^3 complex128, Y pencils to Z pencils", ...cube, from: y, to: z },
    ...[16, 64, 128, 256, 512, 1024].map((n): Case => (
      { title: `${n}^2 float64, Slab.X to Slab.Y`, shape: [n, n], dtype: "float64", from: Slab.X, to: Slab.Y }
    )),
    ...[Slab.X, Slab.Y].map((from): Case => (
      { title: `1024^2 float64, ${from} to Replicated`, shape: [1024, 1024], dtype: "float64", from, to: Replicated }
    )),
  ];
}

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

/** Milliseconds of the slowest rank, on average over some calls. */
function time(calls: number, call: () => void): number {
  communicator.barrier();
  const start = performance.now();
  for (let i = 0; i < calls; i++) call();
  const own = (performance.now() - start) / calls;
  return communicator.allReduce(Float64Array.of(own), { op: "max" })[0];
}

/** Both ways in turns, each round beginning with the other one: their times, a list a way. */
function inTurns(calls: number, call: (way: number) => void): number[][] {
  const times: number[][] = [[], []];
  for (let round = -1; round < rounds; round++) {
    for (const way of round % 2 === 0 ? [0, 1] : [1, 0]) {
      const taken = time(calls, () => call(way));
      if (round >= 0) times[way].push(taken);
    }
  }
  return times;
}

function summary([packed, typed]: readonly number[][]) {
  const of = (times: readonly number[]) => [median(times), Math.min(...times)].map((ms) => Number(ms.toPrecision(4)));
  const ratios = [median(packed.map((ms, i) => ms / typed[i])), Math.min(...packed) / Math.min(...typed)];
  return { packed: of(packed), types: of(typed), "packed / types": ratios.map((ratio) => Number(ratio.toFixed(2))) };
}

for (
  const { title, shape, dtype, from, to, order = "C" } of cases().filter(({ title }) => new RegExp(filter).test(title))
) {
  const source = DistributedArray.random(runtime, shape, from, { dtype });
  const target = DistributedArray.zeros(runtime, shape, to, { dtype, order });
  const made = (way: number) => {
    const move = new Redistribution(source, target);
    move.plan({ algorithm: WAYS[way] });
    return move;
  };
  const moves = [0, 1].map(made);
  const calls = Math.max(1, Math.min(100, Math.floor(2 ** 20 / (source.size || 1))));
  const planned = summary(inTurns(calls, (way) => void moves[way].execute()));
  const once = summary(inTurns(1, (way) => {
    using move = made(way);
    move.execute();
  }));
  if (rank === 0) console.log(JSON.stringify({ title, ranks: size, planned, once }));
  for (const held of [...moves, source, target]) held.free();
}
