/**
 * Matmul.execute on cuBLASMp beside the bare native call: time on the GPUs, to be compared with bench/peers/cublasmp.py
 * too, and time on the host. Started by mpirun, one rank a GPU; prints one JSON line on rank 0.
 *
 * Both programs do the same: memory for A, B and D from the stream's pool, one workspace of 1/128 of the GPU's memory for
 * all shapes, allocated with the first D's grid and registered with the other, as many calls before the clocks are looked
 * at (GPUs slow down as they get warm), as many rounds and calls, a barrier before each round. A start finds its memory
 * and its links as they happen to be, so start them in turn, several times each.
 *
 * usage: mpirun --bind-to none -n 4 deno run -A bench/cublasmp.ts [ROUNDS]
 *
 * @module
 */
import { CublasComputeType, CublasOperation } from "../ffi/cuda/cublaslt.ts";
import { checkCublasMp, CublasMpMatmulAlgoType, CublasMpMatmulDescriptorAttribute } from "../ffi/cuda/cublasmp.ts";
import { CudaDataType } from "../ffi/cuda/runtime.ts";
import { DistributedArray, Event, initialize, Matmul, type Runtime, Slab } from "../mod.ts";
import { cublasMpResources } from "../src/linalg/engines/cublasmp/resources.ts";

const WARMUPS = 200;
const CALLS = 20;
const HOST_ROUNDS = 200;
const SHAPES = [[8192, 11008, 4096], [8192, 8192, 8192]] as const;
const rounds = Number(Deno.args[0] ?? 9);

const median = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

type Kind = "gather" | "reduce";
type Shape = readonly [m: number, n: number, k: number];

/** The same product as a bare native call with everything ready, on its own descriptors. */
function bareCall(runtime: Runtime, kind: Kind, [m, n, k]: Shape, at: [a: bigint, b: bigint, d: bigint]): () => void {
  const { size } = runtime;
  const resources = cublasMpResources(runtime);
  const { symbols } = resources;
  const columns = resources.grid({ rows: size, columns: 1, layout: "column-major" });
  const rows = resources.grid({ rows: 1, columns: size, layout: "row-major" });
  const out = new BigUint64Array(1);
  const matrix = (grid: bigint, ...extents: number[]) => {
    const [r, c, mb, nb, leading] = extents.map(BigInt);
    checkCublasMp(
      symbols.cublasMpMatrixDescriptorCreate(r, c, mb, nb, 0n, 0n, leading, CudaDataType.R_16BF, grid, out),
      "matrix",
    );
    return out[0];
  };
  const [a, b, d] = kind === "gather"
    ? [
      matrix(rows, k, m, k, m / size, k),
      matrix(rows, k, n, k, n / size, k),
      matrix(columns, m, n, m / size, n / size, m / size),
    ]
    : [
      matrix(columns, k, m, k / size, m, k / size),
      matrix(columns, k, n, k / size, n / size, k / size),
      matrix(rows, m, n, m, n / size, m),
    ];
  checkCublasMp(symbols.cublasMpMatmulDescriptorCreate(out, CublasComputeType["32F"]), "product");
  const product = out[0];
  const { TRANSA, TRANSB, ALGO_TYPE } = CublasMpMatmulDescriptorAttribute;
  const attributes = [
    [TRANSA, CublasOperation.T],
    [TRANSB, CublasOperation.N],
    [ALGO_TYPE, CublasMpMatmulAlgoType.SPLIT_P2P],
  ];
  for (const [attribute, value] of attributes) {
    symbols.cublasMpMatmulDescriptorSetAttribute(product, attribute, Int32Array.of(value), 4n);
  }
  const [alpha, beta] = [Float32Array.of(1, 0), Float32Array.of(0, 0)];
  const handle = resources.handleOn(runtime.stream!);
  const [M, N, K] = [m, n, k].map(BigInt);
  const [device, host] = [new BigUint64Array(1), new BigUint64Array(1)];
  const [atA, atB, atD] = at;
  // deno-fmt-ignore
  checkCublasMp(symbols.cublasMpMatmul_bufferSize(handle, product, M, N, K, alpha, atA, 1n, 1n, a, atB, 1n, 1n, b,
    beta, 0n, 1n, 1n, d, atD, 1n, 1n, d, device, host), "size");
  const own = kind === "gather" ? columns : rows;
  const workspace = resources.workspace(() => Number(device[0]), [own, own === columns ? rows : columns]);
  const [bytes, hostBytes] = [BigInt(workspace.byteLength), host[0] < 16n ? 16n : host[0]];
  const hostWorkspace = new Uint8Array(Number(hostBytes));
  const { address } = workspace;
  // deno-fmt-ignore
  return () => {
    symbols.cublasMpMatmul(handle, product, M, N, K, alpha, atA, 1n, 1n, a, atB, 1n, 1n, b,
      beta, 0n, 1n, 1n, d, atD, 1n, 1n, d, address, bytes, hostWorkspace, hostBytes);
  };
}

/** Microseconds of a call on the GPU, in one round. */
function time(runtime: Runtime, call: () => void, start: Event, end: Event): number {
  const stream = runtime.stream!;
  runtime.communicator.barrier();
  stream.record(start);
  for (let i = 0; i < CALLS; i++) call();
  stream.record(end);
  stream.synchronize();
  return end.elapsedSince(start) * 1e6 / CALLS;
}

/** Microseconds that the host needs to start one call on an idle GPU. */
function startTime(runtime: Runtime, call: () => void): number {
  const begin = performance.now();
  call();
  const microseconds = (performance.now() - begin) * 1e3;
  runtime.stream!.synchronize();
  return microseconds;
}

function measure(runtime: Runtime, kind: Kind, shape: Shape): Record<string, unknown> {
  const [m, n, k] = shape;
  const [slab, result] = kind === "gather" ? [Slab.Y, Slab.X] : [Slab.X, Slab.Y];
  const options = { dtype: "bfloat16", order: "F" } as const;
  const a = DistributedArray.full(runtime, [k, m], slab, 0.0115, options);
  const b = DistributedArray.full(runtime, [k, n], slab, 0.0115, options);
  const c = DistributedArray.full(runtime, [m, n], result, 0.0115, options);
  const qualifiers = { a: { isTranspose: true } };
  using product = new Matmul(a, b, { c, beta: 0, inplace: true, qualifiers, engine: "cublasmp" });
  const planStart = performance.now();
  product.plan();
  const planMilliseconds = performance.now() - planStart;
  const calls = {
    execute: () => void product.execute(),
    bare: bareCall(runtime, kind, shape, [a.local.address, b.local.address, c.local.address]),
  };
  for (const call of Object.values(calls)) for (let i = 0; i < WARMUPS; i++) call();
  runtime.stream!.synchronize();
  const device: Record<keyof typeof calls, number[]> = { execute: [], bare: [] };
  const host: Record<keyof typeof calls, number[]> = { execute: [], bare: [] };
  using start = new Event({ timing: true });
  using end = new Event({ timing: true });
  const names = ["execute", "bare"] as const;
  for (let round = 0; round < rounds; round++) {
    const inTurn = round % 2 === 0 ? names : names.toReversed();
    for (const name of inTurn) device[name].push(time(runtime, calls[name], start, end));
  }
  for (let round = 0; round < HOST_ROUNDS; round++) {
    for (const name of names) host[name].push(startTime(runtime, calls[name]));
  }
  const { algorithm, variant, workspaceBytes } = product.algorithm;
  for (const array of [a, b, c]) array.free();
  const times = (name: keyof typeof calls) => ({
    rounds: device[name].map((microseconds) => Number(microseconds.toFixed(1))),
    device: median(device[name]),
    host: median(host[name]),
  });
  return { execute: times("execute"), bare: times("bare"), algorithm, variant, workspaceBytes, planMilliseconds };
}

using runtime = initialize({ checks: "local" });
const results: Record<string, unknown> = {};
for (const shape of SHAPES) {
  for (const kind of ["gather", "reduce"] as const) {
    results[`${kind} ${shape.join("x")}`] = measure(runtime, kind, shape);
  }
}
if (runtime.rank === 0) console.log(JSON.stringify({ program: "distmath", ranks: runtime.size, results }));
