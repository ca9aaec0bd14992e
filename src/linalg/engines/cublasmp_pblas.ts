/**
 * The PBLAS routines on GPUs.
 *
 * @module
 */
import { CublasDiagType, CublasFillMode, CublasOperation, CublasSideMode } from "../../../ffi/cublaslt.ts";
import { checkCublasMp, cublasMpError, openCublasMp, openCublasMpPblas } from "../../../ffi/cublasmp.ts";
import { checkCuda, CudaStreamCaptureStatus, openCudaGraphs } from "../../../ffi/cuda_runtime.ts";
import { dtypeInfo, type Scalar } from "../../array/dtype.ts";
import { LocalArray } from "../../array/local_array.ts";
import type { ProcessGrid } from "../../distribution/mod.ts";
import { ConfigurationError, StateError } from "../../errors.ts";
import { DeviceBuffer } from "../../memory/device.ts";
import { agree } from "../../runtime/agreement.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { Stream } from "../../runtime/stream.ts";
import type { PblasCall, PblasEngine, PblasMatrix, PblasRoutine, RoutineLetters } from "../pblas_call.ts";
import type { AccumulatorDType } from "../problem.ts";
import { COMPUTE_CODES, defaultComputeType } from "./cublasmp_attributes.ts";
import { observe } from "./cublasmp_log.ts";
import { gridShapeOf } from "./cublasmp_paths.ts";
import { type CublasMpResources, cublasMpResources } from "./cublasmp_resources.ts";
import { inMemory } from "./local_gemm.ts";
import { scalar, setScalar } from "./native_arguments.ts";

const LETTERS = {
  left: CublasSideMode.LEFT,
  right: CublasSideMode.RIGHT,
  lower: CublasFillMode.LOWER,
  upper: CublasFillMode.UPPER,
  none: CublasOperation.N,
  transpose: CublasOperation.T,
  conjugate_transpose: CublasOperation.C,
  non_unit: CublasDiagType.NON_UNIT,
  unit: CublasDiagType.UNIT,
} as const;

/** `cublasMpTrsm` and so on, without the letters of the type. */
const FUNCTIONS = {
  trsm: "cublasMpTrsm",
  trmm: "cublasMpTrmm",
  syrk: "cublasMpSyrk",
  herk: "cublasMpHerk",
  symm: "cublasMpSymm",
  geadd: "cublasMpGeadd",
  tradd: "cublasMpTradd",
} as const satisfies Record<PblasRoutine, string>;

type Argument = bigint | number | ArrayBufferView<ArrayBuffer>;
type NativeFunction = (...values: Argument[]) => number;

function valuesOf(dtype: AccumulatorDType, value: Scalar): Float32Array<ArrayBuffer> | Float64Array<ArrayBuffer> {
  const cell = scalar(dtype, 0);
  setScalar(cell, value);
  return cell.values;
}

const MOST_MATRICES = 3;
const NOWHERE_BYTES = 256;

/** Matrix descriptors of one call. */
class Descriptors implements Disposable {
  readonly #resources: CublasMpResources;
  readonly #call: PblasCall;
  readonly #grid: bigint;
  readonly #made: bigint[] = [];
  /** Addresses for parts without elements: cuBLASMp refuses null, and takes equal addresses for one matrix. */
  readonly #nowhere: DeviceBuffer;

  constructor(resources: CublasMpResources, call: PblasCall, { size, stream }: Runtime) {
    this.#nowhere = new DeviceBuffer(stream!, MOST_MATRICES * NOWHERE_BYTES);
    this.#resources = resources;
    this.#call = call;
    this.#grid = resources.grid(gridShapeOf(call.blocks.grid, size)!);
  }

  /** A whole matrix: its address, its first row and column, its descriptor. */
  matrix({ distribution, local }: PblasMatrix): [bigint, bigint, bigint, bigint] {
    const [rows, columns] = distribution.globalShape!.map(BigInt);
    const block = BigInt(this.#call.blocks.blockSize);
    const leading = Math.max(1, local.shape[0], local.size === 0 ? 1 : inMemory(local).leadingDimension);
    const type = dtypeInfo(this.#call.dtype).cuda;
    const out = new BigUint64Array(1);
    const { cublasMpMatrixDescriptorCreate: create } = this.#resources.symbols;
    checkCublasMp(
      create(rows, columns, block, block, 0n, 0n, BigInt(leading), type, this.#grid, out),
      "cublasMpMatrixDescriptorCreate",
    );
    const nowhere = this.#nowhere.address + BigInt(this.#made.length * NOWHERE_BYTES);
    this.#made.push(out[0]);
    return [local.size === 0 ? nowhere : local.address, 1n, 1n, out[0]];
  }

  [Symbol.dispose](): void {
    const { cublasMpMatrixDescriptorDestroy: destroy } = this.#resources.symbols;
    for (const handle of this.#made) checkCublasMp(destroy(handle), "cublasMpMatrixDescriptorDestroy");
    this.#nowhere.free();
  }
}

function argumentsOf(call: PblasCall, descriptors: Descriptors, target: PblasMatrix): Argument[] {
  const { routine, letters, dtype } = call;
  const [side, uplo] = [LETTERS[letters.side], LETTERS[letters.uplo]];
  const [trans, diag] = [LETTERS[letters.trans], LETTERS[letters.diag]];
  const [m, n, k] = [call.m, call.n, call.k].map(BigInt);
  const [alpha, beta] = [valuesOf(dtype, call.alpha), valuesOf(dtype, call.beta)];
  const compute = COMPUTE_CODES[defaultComputeType(dtype)];
  const a = descriptors.matrix(call.a);
  const result = descriptors.matrix(call.result);
  switch (routine) {
    case "trsm":
      return [side, uplo, trans, diag, m, n, alpha, ...a, ...result, compute];
    case "trmm":
      return [side, uplo, trans, diag, m, n, alpha, ...a, ...result, ...descriptors.matrix(target), compute];
    case "syrk":
    case "herk":
      return [uplo, trans, n, k, alpha, ...a, beta, ...result, compute];
    case "symm":
      return [side, uplo, m, n, alpha, ...a, ...descriptors.matrix(call.b!), beta, ...result, compute];
    case "geadd":
      return [trans, m, n, alpha, ...a, beta, ...result];
    case "tradd":
      return [uplo, trans, m, n, alpha, ...a, beta, ...result];
  }
}

/** A routine's two functions: the question for workspace, and the computation. */
function functionsOf(routine: PblasRoutine): [query: NativeFunction, compute: NativeFunction] {
  const symbols = openCublasMpPblas() as unknown as Record<string, NativeFunction | null>;
  const name = FUNCTIONS[routine];
  const [query, compute] = [symbols[`${name}_bufferSize`], symbols[name]];
  if (query && compute) return [query, compute];
  throw new ConfigurationError(`${routine} needs cuBLASMp 0.9 or newer. Run: deno task native install cuda`);
}

/** The routines allocate memory and wait for the GPU, which a graph cannot hold. */
function refuseCapture({ handle }: Stream): void {
  const status = new Int32Array(1);
  checkCuda(openCudaGraphs().cudaStreamIsCapturing(handle, status), "cudaStreamIsCapturing");
  if (status[0] === CudaStreamCaptureStatus.None) return;
  throw new StateError("PBLAS routines cannot be captured in a CUDA graph. Call them before or after Graph.capture.");
}

/** Bytes of workspace on the GPU and on the host. What cuBLASMp refuses is refused here, on every rank, with its reason. */
function askForWorkspace(runtime: Runtime, { symbols }: CublasMpResources, call: PblasCall, values: Argument[]) {
  const name = `${FUNCTIONS[call.routine]}_bufferSize`;
  const [query] = functionsOf(call.routine);
  const [device, host] = [new BigUint64Array(1), new BigUint64Array(1)];
  agree(runtime, call.routine, () => {
    const code = query(...values, device, host);
    if (code !== 0) observe(symbols, () => checkCublasMp(query(...values, device, host) || code, name));
  });
  return { deviceBytes: Number(device[0]), hostBytes: Number(host[0]) };
}

function describe({ routine, dtype, m, n, letters, blocks: { grid, blockSize } }: PblasCall): string {
  return `${routine} (${
    Object.values(letters).join(", ")
  }) of ${m} x ${n} ${dtype} in blocks of ${blockSize} on ${grid}`;
}

function compute(runtime: Runtime, call: PblasCall, target: PblasMatrix): void {
  const stream = runtime.stream!;
  const resources = cublasMpResources(runtime);
  const [, routine] = functionsOf(call.routine);
  using descriptors = new Descriptors(resources, call, runtime);
  const values = [resources.handleOn(stream), ...argumentsOf(call, descriptors, target)];
  const { deviceBytes, hostBytes } = askForWorkspace(runtime, resources, call, values);
  const onHost = new Uint8Array(Math.max(16, hostBytes));
  resources.keepUntilDone(onHost);
  using workspace = new DeviceBuffer(stream, Math.max(256, deviceBytes));
  const sizes = [workspace.address, BigInt(workspace.byteLength), onHost, BigInt(onHost.length)];
  const code = routine(...values, ...sizes);
  if (code === 0) return;
  const error = cublasMpError(FUNCTIONS[call.routine], code);
  error.message += ` It was called for ${describe(call)}.`;
  throw error;
}

/** Of several errors the first: on a GPU that has failed, freeing memory fails as well. */
function firstOf(error: unknown): unknown {
  return error instanceof SuppressedError ? firstOf(error.suppressed) : error;
}

function run(runtime: Runtime, call: PblasCall): void {
  const { routine, result } = call;
  // cublasMpTrmm does not work in place.
  const target = routine === "trmm"
    ? { ...result, local: LocalArray.empty(call.dtype, result.local.shape, "F", runtime.stream) }
    : result;
  try {
    compute(runtime, call, target);
  } catch (error) {
    throw firstOf(error);
  }
  if (target === result) return;
  result.local.set(target.local);
  target.local.release();
}

/**
 * cublasMpTrsm has failed on a GPU of a 2 x 2 grid; grids along the systems, which are independent of each other, need
 * less of it.
 */
function isAlongSystems({ shape: [rows, columns] }: ProcessGrid, { side }: RoutineLetters): boolean {
  return (side === "left" ? rows : columns) === 1;
}

/** cuBLASMp's routines. */
export const cublasMpPblas: PblasEngine = {
  name: "cublasmp",
  squareOnly: ["tradd"],
  accepts: ({ size }, grid, routine, letters) =>
    gridShapeOf(grid, size) !== null && (routine !== "trsm" || isAlongSystems(grid, letters)),
  open({ stream }) {
    refuseCapture(stream!);
    openCublasMpPblas();
    return `cuBLASMp ${openCublasMp().version}`;
  },
  run,
};
