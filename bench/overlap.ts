/**
 * Products that hide what travels between GPUs: distmath's tile kernels beside cuBLASMp, NCCL and cuBLASLt one after the
 * other, and cuBLASLt alone; bench/peers/overlap.py is PyTorch's side. Random normal numbers, of bfloat16 or, with
 * --dtype float8_e4m3, factors of 8 bits with a product of bfloat16 (PyTorch's side has bfloat16 alone). Started by mpirun,
 * one rank a GPU; prints a line for each row, then one JSON line on rank 0.
 *
 * ag: M x K is gathered by rows, each rank has K x N/P. rs, ar: each rank has K/P, and gets M/P rows or all of the sum.
 * B lies with its columns in sequence. Times are microseconds of the slowest rank, at half duty: see bench/overlap/;
 * --steady adds those of the steady state, one program after the other. Rows also have the host's time to put an execution
 * of `Matmul` on its stream, and how long GPUs do nothing between two runs of the tile kernel.
 *
 * usage: mpirun --bind-to none -n 2 deno run -A bench/overlap.ts [--kinds ag,rs,ar] [--shapes M,N,K;…] [--rounds N]
 *   [--dtype bfloat16|float8_e4m3] [--geometry P] [--steady] [--without cublasmp,nccl] [--json FILE]; or deno task bench overlap, with the same options
 * With --geometry each rank does what one of P ranks would, all of whose peers are on the other GPU.
 *
 * @module
 */
import {
  allocateSymmetricMemory,
  DistributedArray,
  freeSymmetricMemory,
  initialize,
  Matmul,
  Replicated,
  type Runtime,
  Slab,
  type SymmetricArray,
} from "../mod.ts";
import { CudaMemcpyKind, openCudaRuntime } from "../ffi/cuda/runtime.ts";
import { checkNccl, NcclDataType, NcclRedOp, openNccl } from "../ffi/cuda/nccl.ts";
import { copyFromDevice, copyToDevice } from "../src/memory/copy.ts";
import { DeviceBuffer } from "../src/memory/device_buffer.ts";
import { allocateSymmetric, freeSymmetric } from "../src/memory/symmetric_memory.ts";
import { STAMPED_RUNS } from "../src/overlap/executors/tile/parameters.ts";
import { variantNamed, variantsWorthMeasuring } from "../src/linalg/engines/overlap/tile_variants.ts";
import { exchangeLayout } from "../src/overlap/executors/tile/exchange.ts";
import type { TileOperands } from "../src/overlap/executors/tile/operands.ts";
import { TileProduct } from "../src/overlap/executors/tile/product.ts";
import type { TileProblem, TileVariant } from "../src/overlap/tile_order.ts";
import { type Kind, parseOverlapArguments, type Shape } from "./overlap/arguments.ts";
import type { FactorTypes } from "../src/overlap/executors/tile/configuration.ts";
import { type Call, Contest, median, type Standing } from "./overlap/contest.ts";
import { cublasLtCalls } from "./overlap/cublaslt.ts";
import { fillNormal, randomNormal } from "./overlap/random.ts";

const LINK = 390e3; // bytes a microsecond
const COMMON: readonly Shape[] = [
  [8192, 11008, 4096],
  [8192, 28672, 8192],
  [8192, 10240, 8192],
  [8192, 8192, 8192],
  [4096, 8192, 8192],
  [2048, 8192, 8192],
  [512, 8192, 8192],
];
const LONG: readonly Shape[] = [[8192, 8192, 28672], [8192, 4096, 14336]];
const FEW: readonly Shape[] = [16, 64, 128, 256].map((m) => [m, 8192, 8192]);
const SHAPES: Record<Kind, readonly Shape[]> = {
  ag: COMMON,
  rs: [...COMMON, ...LONG],
  ar: [...COMMON, ...LONG, ...FEW],
};

const options = parseOverlapArguments(Deno.args);
const { kinds, rounds, without, dtype } = options;
const isNarrow = dtype !== "bfloat16";
const itemSize = isNarrow ? 1 : 2;
const KINDS = { ag: "gather", rs: "reduce", ar: "all_reduce" } as const;

/** The variants that are tried for a row, by name. */
function variantsFor(kind: Kind, [m, n, k]: Shape): string[] {
  return variantsWorthMeasuring(KINDS[kind], { m, n, k, size: options.geometry ?? runtime.size }, isNarrow);
}

/** What one rank multiplies. */
function problemOf(kind: Kind, [m, n, k]: Shape, rank: number, size: number): TileProblem {
  const types = { dtype: "bfloat16", ...isNarrow && { narrow: [dtype, dtype] } } as FactorTypes;
  const common = { ...types, isRowMajorA: true, isRowMajorB: false, split: "rows", rank, size } as const;
  const own = kind === "ag" ? { n: n / size, k } : { n, k: k / size };
  return { ...common, kind: KINDS[kind], m, ...own };
}

/** NCCL and cuBLASLt one after the other. */
function nccl(
  runtime: Runtime,
  kind: Kind,
  { m, n, k }: TileProblem,
  gemm: Call,
  at: Record<"a" | "d" | "whole", bigint>,
): Call {
  const { symbols } = openNccl();
  const { handle } = runtime.nccl();
  const stream = runtime.stream!.handle;
  const type = NcclDataType.Bfloat16;
  const share = (elements: number) => BigInt(elements / runtime.size);
  if (kind === "ag") {
    return () => {
      const ofFactors = isNarrow ? NcclDataType.Uint8 : type;
      checkNccl(symbols.ncclAllGather(at.a, at.whole, share(m * k), ofFactors, handle, stream), "ncclAllGather");
      gemm();
    };
  }
  if (kind === "rs") {
    return () => {
      gemm();
      checkNccl(
        symbols.ncclReduceScatter(at.whole, at.d, share(m * n), type, NcclRedOp.Sum, handle, stream),
        "ncclReduceScatter",
      );
    };
  }
  return () => {
    gemm();
    checkNccl(
      symbols.ncclAllReduce(at.whole, at.d, BigInt(m * n), type, NcclRedOp.Sum, handle, stream),
      "ncclAllReduce",
    );
  };
}

/** The same product by `Matmul` on an engine; cuBLASMp's column-major view has M and N exchanged. */
function byMatmul(
  runtime: Runtime,
  engine: "cublasmp" | "overlap",
  kind: Kind,
  [m, n, k]: Shape,
): { call: Call; variant: string; free: () => void } {
  const options = { dtype: "bfloat16", order: "F" } as const;
  const factors = { ...options, dtype } as const;
  const [slab, result] = kind === "ag" ? [Slab.Y, Slab.X] : [Slab.X, kind === "rs" ? Slab.Y : Replicated];
  const symmetric: SymmetricArray[] = [];
  const make = (
    shape: [number, number],
    distribution: typeof slab | typeof Replicated,
    seed: number,
    given: typeof options | typeof factors = factors,
  ) => {
    // What all ranks store into is used where it is if it is symmetric.
    const isSymmetric = engine === "overlap" && distribution === Replicated;
    if (isSymmetric) symmetric.push(allocateSymmetricMemory(runtime, shape, options));
    const array = isSymmetric
      ? DistributedArray.fromLocal(runtime, symmetric[0], Replicated)
      : DistributedArray.full(runtime, shape, distribution as typeof Slab.X, 0, given);
    const [rows, columns] = array.local.shape;
    fillNormal(runtime.stream!, array.local.address, rows * columns, seed, given.dtype !== "bfloat16");
    return array;
  };
  const [a, b, c] = [make([k, n], slab, 1), make([k, m], slab, 2), make([n, m], result, 3, options)];
  const product = new Matmul(a, b, {
    c,
    beta: 0,
    inplace: true,
    qualifiers: { a: { isTranspose: true } },
    engine,
    ...isNarrow && { quantizationScales: { a: 1, b: 1 } },
    ...kind === "ar" ? { epilog: "all_reduce" as const } : {},
  });
  product.plan();
  const { variant } = product.algorithm;
  return {
    call: () => void product.execute(),
    variant: variant.replace(/^.*; tiles: /, ""),
    free: () => {
      product[Symbol.dispose]();
      for (const array of symmetric.length > 0 ? [a, b] : [a, b, c]) array.free();
      if (symmetric.length > 0) freeSymmetricMemory(...symmetric);
    },
  };
}

/** The row's numbers. */
interface Row {
  kind: Kind;
  shape: Shape;
  limit: number;
  gemm: number;
  variant: string;
  /** What the engine picks by itself; nothing where it was not asked. */
  picked: string;
  standings: Record<string, Standing>;
  variants: Record<string, number>;
  /** Times in the steady state. */
  steady?: Record<string, number>;
  /** What the host takes to put an execution by `Matmul` on the stream. */
  host?: number;
  /** How long a GPU does nothing between two runs of the tile kernel: the median, and the longest. */
  idle: readonly [number, number];
  copies: number;
  missing: Record<string, string>;
}

/** The largest of what the ranks have. */
function largest(runtime: Runtime, value: number): number {
  return runtime.communicator.allReduce(Float64Array.of(value), { op: "max" })[0];
}

/** How long this GPU does nothing between runs that follow each other, by the stamps of the kernel. */
function idleBetween(runtime: Runtime, stamps: DeviceBuffer, call: Call): [number, number] {
  const stream = runtime.stream!;
  const words = new BigUint64Array(2 * STAMPED_RUNS).map((_, i) => i % 2 === 0 ? 2n ** 64n - 1n : 0n);
  copyToDevice(stamps.address, words, stream);
  stream.synchronize();
  runtime.communicator.barrier();
  for (let i = 0; i < STAMPED_RUNS; i++) call();
  copyFromDevice(words, stamps.address, stream);
  const runs = Array.from({ length: STAMPED_RUNS }, (_, i) => [words[2 * i], words[2 * i + 1]])
    .sort(([one], [other]) => Number(one - other));
  // The first ones may have waited for the host.
  const gaps = runs.slice(1).map(([begun], i) => Number(begun - runs[i][1]) / 1e3).slice(STAMPED_RUNS / 4);
  return [largest(runtime, median(gaps)), largest(runtime, Math.max(...gaps))];
}

/**
 * Microseconds of the host for a call, where it need not wait for the GPU, and V8 has seen many of them. The first ones after
 * a pause, in which the GPU begins to work again, are not timed.
 */
function hostTime(runtime: Runtime, call: Call): number {
  const [calls, before, first] = [20, 500, 5];
  for (let i = 1; i <= before; i++) {
    call();
    if (i % calls === 0) runtime.stream!.synchronize();
  }
  const times = Array.from({ length: 5 }, () => {
    runtime.communicator.barrier();
    for (let i = 0; i < first; i++) call();
    const begun = performance.now();
    for (let i = 0; i < calls; i++) call();
    const time = (performance.now() - begun) * 1e3 / calls;
    runtime.stream!.synchronize();
    return time;
  });
  return largest(runtime, Math.min(...times));
}

function measure(runtime: Runtime, contest: Contest, kind: Kind, shape: Shape): Row {
  const stream = runtime.stream!;
  const [m, n, k] = shape;
  const size = options.geometry ?? runtime.size;
  const isEmulated = size !== runtime.size;
  const rank = isEmulated ? 0 : runtime.rank;
  const problem = problemOf(kind, shape, rank, size);
  const rows = kind === "ag" ? m / size : m;
  const a = randomNormal(stream, rows * problem.k, 1 + rank, isNarrow);
  const b = randomNormal(stream, problem.n * problem.k, 11 + rank, isNarrow);
  const whole = kind === "ag"
    ? randomNormal(stream, m * Math.max(itemSize * problem.n, k), 21, isNarrow)
    : randomNormal(stream, m * problem.n, 21);
  const gathered = kind === "ag" ? new DeviceBuffer(stream, m * problem.n * 2) : null;
  const symmetric = (bytes: number) =>
    allocateSymmetric(runtime, () => ({ bytes, backend: "nvshmem", makeSymmetric: true, facts: {}, offer: null }))
      .buffer;
  const d = symmetric(m * problem.n * 2);
  const ofGemm = kind === "ag"
    ? { a: { address: whole.address, leading: problem.k }, d: { address: gathered!.address, leading: problem.n } }
    : { a: { address: a.address, leading: problem.k }, d: { address: whole.address, leading: problem.n } };
  const gemms = cublasLtCalls(stream, problem, { ...ofGemm, b: { address: b.address, leading: problem.k } }, 8);
  const missing: Record<string, string> = {};

  // cuBLASLt's best of 8, tuned with pauses; ranks take the same.
  const gemmTimes = gemms.map((call) => {
    contest.slot(call, 1000, 1, false);
    return contest.slot(call, 2 * m * problem.n * problem.k / 700e6, 4);
  });
  const gemm = gemms[gemmTimes.indexOf(Math.min(...gemmTimes))];

  const peerOf = (i: number) => isEmulated ? (i === 0 ? runtime.rank : 1 - runtime.rank) : i;
  const operands: TileOperands = {
    a: { address: a.address, leading: problem.k },
    b: { address: b.address, leading: problem.k },
    d: { address: d.address, leading: problem.n },
    ...kind === "ar" ? { peersOfD: Array.from({ length: size }, (_, i) => d.peerAddress(peerOf(i))) } : {},
  };
  const variants: Record<string, number> = {};
  let best: { name: string; time: number; variant: TileVariant } | null = null;
  const stamps = new DeviceBuffer(stream, 16 * STAMPED_RUNS);
  const withProduct = <T>(variant: TileVariant, use: (call: Call) => T, isStamped = false): T => {
    const exchange = symmetric(exchangeLayout(problem, variant).bytes);
    const peers = Array.from({ length: size }, (_, i) => exchange.peerAddress(peerOf(i)));
    const product = new TileProduct(stream, problem, variant, peers, {
      patienceSeconds: 2,
      ...isStamped && { stamps: stamps.address },
    });
    // Nobody writes into flags that are not zero yet.
    stream.synchronize();
    exchange.synchronize();
    const result = use(() => product.execute(operands));
    product.check();
    product[Symbol.dispose]();
    stream.synchronize();
    freeSymmetric(runtime, () => [exchange]);
    return result;
  };
  for (const name of variantsFor(kind, shape)) {
    const { variant } = variantNamed(name);
    const standing = withProduct(variant, (call) => contest.run(gemm, { tile: call }, 2).tile);
    variants[name] = standing.ratio;
    if (best === null || standing.ratio < best.time) best = { name, time: standing.ratio, variant };
  }
  const chosen = best!;
  let standings: Record<string, Standing> = {};
  let steady: Record<string, number> | undefined;
  let host: number | undefined;
  let picked = "";
  withProduct(chosen.variant, (tile) => {
    const contestants: Record<string, Call> = { tile };
    const free: (() => void)[] = [];
    const attempt = (name: string, make: () => Call) => {
      if (without.includes(name)) return void (missing[name] = "left out by --without");
      if (isEmulated) return void (missing[name] = "has no emulated geometry");
      try {
        contestants[name] = make();
      } catch (error) {
        missing[name] = String(error).slice(0, 300);
      }
    };
    for (const [name, engine] of [["matmul", "overlap"], ["cublasmp", "cublasmp"]] as const) {
      attempt(name, () => {
        const made = byMatmul(runtime, engine, kind, shape);
        free.push(made.free);
        if (engine === "overlap") picked = made.variant;
        return made.call;
      });
    }
    attempt("nccl", () => nccl(runtime, kind, problem, gemm, { a: a.address, d: d.address, whole: whole.address }));
    standings = contest.run(gemm, contestants, rounds);
    if (contestants.matmul) host = hostTime(runtime, contestants.matmul);
    if (options.steady) {
      const before = contest.steady(gemm);
      const { tile, ...others } = contestants;
      const shown = "matmul" in others ? others : { tile };
      steady = Object.fromEntries(Object.entries(shown).map(([name, call]) => [name, contest.steady(call)]));
      steady.gemm = (before + contest.steady(gemm)) / 2;
    }
    for (const one of free) one();
  });
  const idle = withProduct(chosen.variant, (call) => idleBetween(runtime, stamps, call), true);
  // The bytes that travel, by copy engines alone.
  const part = kind === "ag" ? m / size * k * itemSize : m * n / size * 2;
  const bytes = (size - 1) * part * (kind === "ar" ? 2 : 1);
  const copyTarget = symmetric(part);
  const to = copyTarget.peerAddress((runtime.rank + 1) % runtime.size);
  const copies = contest.estimate(() => {
    for (let i = 0; i < bytes / part; i++) {
      openCudaRuntime().symbols.cudaMemcpyAsync(
        to,
        whole.address,
        BigInt(part),
        CudaMemcpyKind.DeviceToDevice,
        stream.handle,
      );
    }
  });
  stream.synchronize();
  freeSymmetric(runtime, () => [d, copyTarget]);
  for (const buffer of [a, b, whole, gathered, stamps]) buffer?.free();
  const time = standings.gemm.time;
  const limit = Math.max(time, bytes / LINK);
  return {
    kind,
    shape,
    limit,
    gemm: time,
    variant: chosen.name,
    picked,
    standings,
    variants,
    ...steady && { steady },
    ...host !== undefined && { host },
    idle,
    copies,
    missing,
  };
}

/** A row as a line: shares of the limit, which is the product alone or the link. */
function describe(
  { kind, shape, limit, gemm, variant, picked, standings, variants, copies, missing, steady, host, idle }: Row,
): string {
  const scale = limit / gemm;
  const share = (name: string) => {
    const standing = standings[name];
    return standing
      ? `${name} ${(scale / standing.ratio).toFixed(3)} (${standing.time.toFixed(1)})`
      : `${name} missing: ${missing[name]}`;
  };
  const tried = Object.entries(variants).map(([name, ratio]) => `${name} ${(scale / ratio).toFixed(3)}`).join("; ");
  const hot = Object.entries(steady ?? {}).map(([name, time]) => `${name} ${time.toFixed(1)}`).join(" ");
  return `${kind} ${shape.join(",")}: limit ${limit.toFixed(1)} gemm ${gemm.toFixed(1)} copies ${copies.toFixed(1)} | ${
    share("tile")
  } ${variant} | ` +
    `${share("matmul")} ${picked} | ${share("cublasmp")} | ${share("nccl")} | host ${host?.toFixed(1) ?? "-"} idle ${
      idle.map((time) => time.toFixed(1)).join(" to ")
    } | steady: ${hot} | tried: ${tried}`;
}

function record(): string {
  return JSON.stringify({ program: "distmath", ranks: runtime.size, geometry: options.geometry, rows });
}

using runtime = initialize({ checks: "local" });
if (runtime.stream === null) throw new Error("This benchmark needs a GPU for each rank: see deno task doctor.");
using contest = new Contest(runtime);
const rows: Row[] = [];
for (const kind of kinds) {
  const shapes = options.shapes ?? SHAPES[kind];
  for (const shape of shapes) {
    const row = measure(runtime, contest, kind, shape);
    rows.push(row);
    if (runtime.rank !== 0) continue;
    console.log(describe(row));
    if (options.json) Deno.writeTextFileSync(options.json, record());
  }
}
if (runtime.rank === 0 && !options.json) console.log(record());
