/**
 * Group `overhead`: what a call costs besides the work, with matrices of 16 x 16 on one rank.
 *
 * Started as a program it is our side of the comparison, and the bare native calls through Deno's FFI.
 *
 * @module
 */
import { createGrid } from "../ffi/blas/blacs.ts";
import { addressOf } from "../ffi/memory.ts";
import { openScalapack } from "../ffi/blas/scalapack.ts";
import { BlockCyclic, DistributedArray, initialize, Matmul, ProcessGrid, type Runtime } from "../mod.ts";
import { type Group, ours, turn } from "./harness/bench.ts";
import { c, deno } from "./harness/programs.ts";
import { serve, timeChunks } from "./harness/worker.ts";

const n = 16;
const rounds = 15;
/** Chunks a round and calls a chunk: the times are averages over a chunk. */
const [chunks, calls] = [9, 1000];
const warmUp = 30_000;
const secondsAtMost = 10e-6;

/** Ways to multiply in place; `default` is a local product of BLAS. */
const algorithms = [["default", "gemm"], ["pgemm", "pgemm"]] as const;

/** The group. */
export const overhead: Group = {
  name: "overhead",
  description: `host time of Matmul.execute, ${n} x ${n}, one rank, checks "local", beside the bare native calls`,
  ranks: 1,
  async run(bench) {
    const { libraries } = bench;
    const peer = c("pgemm", libraries, { files: libraries.scalapack });
    await using jobs = await bench.start({ [ours]: deno("overhead.ts"), C: peer });
    for (const dtype of ["float64", "float32"]) {
      const type = dtype === "float64" ? "d" : "s";
      for (const [algorithm, call] of algorithms) {
        const bare = `${call === "gemm" ? type : `p${type}`}gemm by FFI`;
        const native = `p${type}gemm in C`;
        await bench.row({
          title: `${dtype} in place, algorithm ${algorithm}`,
          rounds,
          turns: {
            [ours]: turn(jobs[ours], `execute ${dtype} ${algorithm} true ${chunks} ${calls}`),
            [bare]: turn(jobs[ours], `${call} ${type} ${chunks} ${calls}`),
            ...call === "pgemm"
              ? { [native]: turn(jobs.C, `pgemm ${type} ${n} ${n} 1 1 0.67 ${chunks} ${calls}`) }
              : {},
          },
          comparisons: [{ quantity: "time", against: bare }],
          secondsAtMost,
        });
      }
      await bench.row({
        title: `${dtype}, a new D each time`,
        rounds,
        turns: { [ours]: turn(jobs[ours], `execute ${dtype} default false ${chunks} ${calls}`) },
        comparisons: [],
      });
    }
  },
};

type Real = "float32" | "float64";

/** A planned Matmul, warm. */
function prepare(runtime: Runtime, dtype: Real, algorithm: "default" | "pgemm", inplace: boolean): Matmul {
  const blocks = new BlockCyclic(new ProcessGrid({ shape: [1, 1] }), [n, n]);
  const make = (seed: number): DistributedArray =>
    DistributedArray.random(runtime, [n, n], blocks, { dtype, order: "F", seed });
  const options = inplace ? { c: make(3), alpha: 0.45, beta: 0.67, inplace } : { distribution: blocks };
  const matmul = new Matmul(make(1), make(2), { ...options, algorithm, ...inplace ? {} : { order: "F" } });
  matmul.plan();
  for (let call = 0; call < warmUp; call++) matmul.execute();
  return matmul;
}

/** The native calls themselves, with all arguments in memory that stays. */
function bareCalls(runtime: Runtime, type: "s" | "d"): { gemm: () => void; pgemm: () => void; kept: unknown[] } {
  const { blas, blacs, pgemm } = openScalapack(1);
  const Numbers = type === "d" ? Float64Array : Float32Array;
  const system = blacs.Csys2blacs_handle(runtime.communicator.handle);
  const context = createGrid(blacs, system, { rows: 1, columns: 1, ranks: Int32Array.of(0) });
  const [size, one] = [Int32Array.of(n), Int32Array.of(1)];
  const descriptor = Int32Array.of(1, context, n, n, n, n, 0, 0, n);
  const [alpha, beta] = [Numbers.of(0.45), Numbers.of(0.67)];
  const [a, b, c] = [1, 2, 3].map((value) => new Numbers(n * n).fill(value / n));
  const kept = [Uint8Array.of("N".charCodeAt(0)), size, one, descriptor, alpha, beta, a, b, c];
  const [none, extent, first, layout, ofProduct, ofC, atA, atB, atC] = kept.map(addressOf);
  const [gemmCall, pgemmCall] = [blas.gemm[type], pgemm[type]];
  return {
    kept,
    // deno-fmt-ignore
    gemm: () => gemmCall(
      none, none, extent, extent, extent, ofProduct, atA, extent, atB, extent, ofC, atC, extent, 1n, 1n,
    ),
    // deno-fmt-ignore
    pgemm: () => pgemmCall(
      none, none, extent, extent, extent,
      ofProduct, atA, first, first, layout, atB, first, first, layout,
      ofC, atC, first, first, layout,
    ),
  };
}

if (import.meta.main) {
  using runtime = initialize({ device: "cpu", checks: "local", threads: 1 });
  const planned = new Map<string, Matmul>();
  const bare = { s: bareCalls(runtime, "s"), d: bareCalls(runtime, "d") };

  /** Measures a bare call, after a warm-up. */
  const measureBare = (call: () => void, chunks: string, calls: string): number[] => {
    for (let i = 0; i < warmUp; i++) call();
    return timeChunks(Number(chunks), Number(calls), call);
  };

  await serve(runtime.rank, {
    execute(dtype, algorithm, inplace, chunks, calls) {
      const key = `${dtype} ${algorithm} ${inplace}`;
      const matmul = planned.get(key) ??
        prepare(runtime, dtype as Real, algorithm as "default" | "pgemm", inplace === "true");
      planned.set(key, matmul);
      return timeChunks(Number(chunks), Number(calls), () => matmul.execute());
    },
    gemm: (type, chunks, calls) => measureBare(bare[type as "s" | "d"].gemm, chunks, calls),
    pgemm: (type, chunks, calls) => measureBare(bare[type as "s" | "d"].pgemm, chunks, calls),
  });
}
