/**
 * Redistributions between GPUs: `Redistribution.execute` into ordinary and into symmetric memory, beside NCCL with packing,
 * cuFFTMp's reshape from and into symmetric memory if it is installed, if it is asked for cublasMpGemr2D, told of whole slabs
 * and of smaller blocks of them, and copies of as many bytes to the next GPU alone, which are the limit. Started by an MPI
 * launcher, one rank a GPU of one machine; tells each row as it is done, and prints one JSON line on rank 0: microseconds of
 * a call, medians of rounds in which all take turns, the slowest rank counting.
 *
 * usage: mpirun --bind-to none -n 2 deno run -A bench/gpu_redistribution.ts [ROUNDS] [gemr2d] [TITLES]
 *
 * TITLES is a regular expression for the rows that are wanted.
 *
 * @module
 */
import { checkCublasMp, openCublasMpPblas } from "../ffi/cuda/cublasmp.ts";
import { checkCufft } from "../ffi/cuda/cufft.ts";
import { CufftMpComm, openCufftMp } from "../ffi/cuda/cufftmp.ts";
import { CudaDataType } from "../ffi/cuda/runtime.ts";
import {
  allocateSymmetricMemory,
  BlockCyclic,
  ConfigurationError,
  DistributedArray,
  type Distribution,
  initialize,
  ProcessGrid,
  Redistribution,
  Slab,
} from "../mod.ts";
import { cublasMpResources } from "../src/linalg/engines/cublasmp/resources.ts";
import { copyOnDevice } from "../src/memory/copy.ts";
import { gpuTimer } from "./harness/gpu_timer.ts";
import { quantile } from "./harness/statistics.ts";

/** Calls of a round. */
const CALLS = 5;
const rounds = Number(Deno.args.find((arg) => /^\d+$/.test(arg)) ?? 9);
const hasGemr2d = Deno.args.includes("gemr2d");
const titles = RegExp(Deno.args.find((arg) => arg !== "gemr2d" && !/^\d+$/.test(arg)) ?? "");

using runtime = initialize({ checks: "local" });
const { rank, size } = runtime;
const stream = runtime.stream!;
const cyclic = new BlockCyclic(new ProcessGrid({ shape: [1, size], layout: "row-major" }), [64, 64]);

/** A C-order array as cublasMpGemr2D sees it: a column-major matrix of its last dimensions by the first. */
interface Side {
  readonly distribution: Distribution;
  /** The grid, and the extents of blocks. */
  readonly grid: readonly [rows: number, columns: number];
  readonly blocks: readonly [rows: number, columns: number];
}

interface Case {
  readonly shape: readonly number[];
  readonly dtype: "float32" | "complex64";
  readonly from: Side;
  readonly to: Side;
}

function sides(shape: readonly number[]): Record<"x" | "y" | "cyclic", Side> {
  const columns = shape[0];
  const rows = shape.slice(1).reduce((product, extent) => product * extent, 1);
  return {
    x: { distribution: Slab.X, grid: [1, size], blocks: [rows, columns / size] },
    y: { distribution: Slab.Y, grid: [size, 1], blocks: [rows / size, columns] },
    cyclic: { distribution: cyclic, grid: [size, 1], blocks: [64, 64] },
  };
}

const [square, cube] = [[16384, 16384], [512, 512, 512]];
const ofSquare = { shape: square, dtype: "float32" } as const;
const ofCube = { shape: cube, dtype: "complex64" } as const;
const { x, y, cyclic: blocks } = sides(square);
const ofSquares = (n: number) =>
  ({ shape: [n, n], dtype: "float32", from: sides([n, n]).x, to: sides([n, n]).y }) as const;
/** Small ones first: it is slow. */
const gemr2dCases: Record<string, Case> = {
  "1024^2 float32, Slab.X to Slab.Y": ofSquares(1024),
  "4096^2 float32, Slab.X to Slab.Y": ofSquares(4096),
  "16384^2 float32, Slab.X to Slab.Y": ofSquares(16384),
  "16384^2 float32, Slab.Y to Slab.X": { ...ofSquare, from: y, to: x },
};
const cases: Record<string, Case> = hasGemr2d ? gemr2dCases : {
  "16384^2 float32, Slab.X to Slab.Y": { ...ofSquare, from: x, to: y },
  "16384^2 float32, Slab.Y to Slab.X": { ...ofSquare, from: y, to: x },
  "16384^2 float32, Slab.X to block-cyclic": { ...ofSquare, from: x, to: blocks },
  "16384^2 float32, block-cyclic to Slab.X": { ...ofSquare, from: blocks, to: x },
  "512^3 complex64, Slab.X to Slab.Y": { ...ofCube, from: sides(cube).x, to: sides(cube).y },
  "512^3 complex64, Slab.Y to Slab.X": { ...ofCube, from: sides(cube).y, to: sides(cube).x },
  "2048^2 float32, Slab.X to Slab.Y": ofSquares(2048),
  "512^2 float32, Slab.X to Slab.Y": ofSquares(512),
  "64^2 float32, Slab.X to Slab.Y": ofSquares(64),
};

/** Extents of cublasMpGemr2D's blocks along the dimension that is not divided: any describes the same slabs. */
const GEMR2D_BLOCKS = [256, 2048, Infinity];

/** The same by cublasMpGemr2D, of plain matrices. */
function gemr2d(
  { shape, dtype, from, to }: Case,
  source: DistributedArray,
  target: DistributedArray,
  mostExtent: number,
): () => void {
  const resources = cublasMpResources(runtime);
  const [columns, ...inner] = shape;
  const rows = inner.reduce((product, extent) => product * extent, 1);
  const out = new BigUint64Array(1);
  const type = dtype === "float32" ? CudaDataType.R_32F : CudaDataType.C_32F;
  const grids = [from, to].map(({ grid: [rows, columns] }) =>
    resources.grid({ rows, columns, layout: "column-major" })
  );
  const matrices = [from, to].map(({ grid, blocks }, i) => {
    const [mb, nb] = blocks.map((extent, d) => grid[d] === 1 ? Math.min(extent, mostExtent) : extent);
    const [m, n, block, width, leading] = [rows, columns, mb, nb, rows / grid[0]].map(BigInt);
    const { cublasMpMatrixDescriptorCreate } = resources.symbols;
    checkCublasMp(cublasMpMatrixDescriptorCreate(m, n, block, width, 0n, 0n, leading, type, grids[i], out), "matrix");
    return out[0];
  });
  const { cublasMpGemr2D, cublasMpGemr2D_bufferSize } = openCublasMpPblas();
  const [m, n] = [rows, columns].map(BigInt);
  const [from0, to0] = [source.local.address, target.local.address];
  const [device, host] = [new BigUint64Array(1), new BigUint64Array(1)];
  const handle = resources.handleOn(stream);
  const comm = runtime.nccl().handle;
  // deno-fmt-ignore
  checkCublasMp(cublasMpGemr2D_bufferSize(handle, m, n, from0, 1n, 1n, matrices[0], to0, 1n, 1n, matrices[1], device,
    host, comm), "cublasMpGemr2D_bufferSize");
  const { address } = resources.workspace(() => Number(device[0]), grids);
  const hostWork = new Uint8Array(Number(host[0]) + 16);
  // deno-fmt-ignore
  return () => checkCublasMp(cublasMpGemr2D(handle, m, n, from0, 1n, 1n, matrices[0], to0, 1n, 1n, matrices[1], address,
    device[0], hostWork, host[0], comm), "cublasMpGemr2D");
}

/** What works by itself, with what it holds. */
interface Peer extends Disposable {
  readonly target: DistributedArray;
  call(): void;
}

/** The same by cuFFTMp's reshape, whose ends are symmetric memory; null if it is not installed, or there are no boxes. */
function reshape({ shape, dtype, from, to }: Case): Peer | null {
  if ([from, to].some(({ distribution }) => !(distribution instanceof Slab))) return null;
  let symbols: ReturnType<typeof openCufftMp>["symbols"];
  try {
    symbols = openCufftMp().symbols;
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    if (rank === 0) console.error(error.message.split("\n")[0]);
    return null;
  }
  const stack = new DisposableStack();
  const source = stack.use(
    DistributedArray.random(runtime, shape, from.distribution, { dtype, seed: 1, memory: "symmetric" }),
  );
  const target = stack.use(DistributedArray.zeros(runtime, shape, to.distribution, { dtype, memory: "symmetric" }));
  // It knows three dimensions.
  const missing = new Array<number>(3 - shape.length).fill(0);
  const [[a, b, c], [d, e, f]] = [source, target].map(({ distribution, local }) => {
    const [lower, upper] = distribution.bounds()![rank];
    return [
      [...missing, ...lower],
      [...missing.map(() => 1), ...upper],
      [...missing.map(() => local.size), ...local.strides],
    ].map((list) => BigInt64Array.from(list, BigInt));
  });
  const [handle, bytes] = [new BigUint64Array(1), new BigUint64Array(1)];
  const itemSize = BigInt(source.local.byteLength / source.local.size);
  checkCufft(symbols.cufftMpCreateReshape(handle), "cufftMpCreateReshape");
  stack.defer(() => void symbols.cufftMpDestroyReshape(handle[0]));
  checkCufft(
    symbols.__cufftMpMakeReshape_11_4(handle[0], itemSize, 3, a, b, c, d, e, f, 0n, CufftMpComm.COMM_NONE),
    "__cufftMpMakeReshape_11_4",
  );
  checkCufft(symbols.cufftMpGetReshapeSize(handle[0], bytes), "cufftMpGetReshapeSize");
  const work = stack.use(
    allocateSymmetricMemory(runtime, [1 + Number(bytes[0])], { dtype: "uint8", makeSymmetric: true }),
  );
  return {
    target,
    call: () =>
      checkCufft(
        symbols.cufftMpExecReshapeAsync(
          handle[0],
          target.local.address,
          source.local.address,
          work.address,
          stream.handle,
        ),
        "cufftMpExecReshapeAsync",
      ),
    [Symbol.dispose]: () => stack.dispose(),
  };
}

const time = gpuTimer(runtime, CALLS);

const rounded = (value: number) => Math.round(10 * value) / 10;

function measure(one: Case): Record<string, unknown> {
  const { shape, dtype, from, to } = one;
  using source = DistributedArray.random(runtime, shape, from.distribution, { dtype, seed: 1 });
  const targets = (["device", "symmetric", "device", "device"] as const).map((memory) =>
    DistributedArray.zeros(runtime, shape, to.distribution, { dtype, memory })
  );
  const moves = targets.slice(0, 3).map((target) => new Redistribution(source, target));
  moves[2].plan({ algorithm: "packed_nccl" });
  const bytes = moves[0].bytesMoved / size;
  const room = [1, 2].map(() => allocateSymmetricMemory(runtime, [bytes / 4], { dtype: "float32", backend: "nccl" }));
  const next = room[1].peerAddress((rank + 1) % size);
  const byReshape = hasGemr2d ? null : reshape(one);
  const contestants: Record<string, () => void> = {
    "distmath": () => void moves[0].execute(),
    "distmath, into symmetric memory": () => void moves[1].execute(),
    "NCCL, packed": () => void moves[2].execute(),
    ...byReshape && { "cuFFTMp's reshape": byReshape.call },
    ...hasGemr2d && Object.fromEntries(GEMR2D_BLOCKS.map((extent) => [
      `cublasMpGemr2D${extent === Infinity ? "" : `, blocks of ${extent}`}`,
      gemr2d(one, source, targets[3], extent),
    ])),
    "copies alone": () => copyOnDevice(next, room[0].address, bytes, stream),
  };
  const times = Object.fromEntries(Object.keys(contestants).map((name): [string, number[]] => [name, []]));
  for (const [name, call] of Object.entries(contestants)) {
    const first = time(call);
    if (rank === 0) console.error(`  ${name}: ${rounded(first)} us at first`);
  }
  const made = [...targets.slice(0, hasGemr2d ? 4 : 3), ...byReshape ? [byReshape.target] : []];
  const wrong = made.map((target) => target.maxAbsDifference(source));
  for (let round = 0; round < rounds; round++) {
    const inTurn = Object.keys(contestants);
    for (const name of round % 2 === 0 ? inTurn : inTurn.toReversed()) times[name].push(time(contestants[name]));
  }
  const limit = quantile(times["copies alone"], 0.5);
  const algorithms = moves.map(({ algorithm }) => algorithm.algorithm);
  for (const held of [...moves, ...targets]) held.free();
  for (const held of byReshape === null ? room : [...room, byReshape]) held[Symbol.dispose]();
  runtime.collect();
  return {
    bytesPerRank: bytes,
    algorithms,
    wrong,
    results: Object.fromEntries(
      Object.entries(times).map(([name, values]) => {
        const median = quantile(values, 0.5);
        return [name, {
          microseconds: rounded(median),
          quartiles: [quantile(values, 0.25), quantile(values, 0.75)].map(rounded),
          gigabytesPerSecond: rounded(bytes / median / 1e3),
          shareOfCopies: Math.round(1000 * limit / median) / 1000,
        }];
      }),
    ),
  };
}

const results: Record<string, unknown> = {};
for (const [title, one] of Object.entries(cases).filter(([title]) => titles.test(title))) {
  if (rank === 0) console.error(title);
  results[title] = measure(one);
  if (rank === 0) console.error(JSON.stringify(results[title]));
}
if (rank === 0) {
  const versions = runtime.versions().map(({ name, version }) => `${name} ${version}`);
  console.log(JSON.stringify({ device: runtime.device.name, ranks: size, rounds, versions, results }, null, 2));
}
