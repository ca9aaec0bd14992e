/**
 * The PBLAS routines on GPUs.
 *
 * @module
 */
import { CublasDiagType, CublasFillMode, CublasOperation, CublasSideMode } from "../../../../ffi/cuda/cublaslt.ts";
import { checkCublasMp, cublasMpError, openCublasMp, openCublasMpPblas } from "../../../../ffi/cuda/cublasmp.ts";
import { taskCommand } from "../../../../ffi/task_command.ts";
import { allocate, type Scalar } from "../../../dtype/dtype.ts";
import { LocalArray } from "../../../array/local_array.ts";
import type { ProcessGrid } from "../../../distribution/mod.ts";
import { ConfigurationError } from "../../../errors.ts";
import { DeviceBuffer } from "../../../memory/device_buffer.ts";
import { agree, freeUnlessAgreed } from "../../../runtime/agreement.ts";
import { recordSpan } from "../../../runtime/recorder.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { refuseCapture } from "../../../gpu/graph.ts";
import { defaultComputeType } from "../../matmul/compute_type.ts";
import {
  argumentsOf,
  type PblasCall,
  type PblasEngine,
  type PblasMatrix,
  type PblasRoutine,
  type RoutineLetters,
} from "../../pblas/call.ts";
import type { AccumulatorDType } from "../../../dtype/dtype.ts";
import { MatrixDescriptor } from "./descriptor.ts";
import { observe } from "./log.ts";
import { gridShapeOf } from "./paths.ts";
import { type CublasMpResources, cublasMpResources } from "./resources.ts";
import { leadingDimensionOf } from "../../../blas/gemm.ts";
import { scalar, setScalar } from "../../../blas/arguments.ts";
import { COMPUTE_CODES } from "../../../blas/cublas_codes.ts";

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
function functionName(routine: PblasRoutine): string {
  return `cublasMp${routine[0].toUpperCase()}${routine.slice(1)}`;
}

type Argument = bigint | number | ArrayBufferView<ArrayBuffer>;
type NativeFunction = (...values: Argument[]) => number;

function scalarOf(dtype: AccumulatorDType, value: Scalar): Float32Array<ArrayBuffer> | Float64Array<ArrayBuffer> {
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
  readonly #made: MatrixDescriptor[] = [];
  /** Addresses for parts without elements: cuBLASMp refuses null, and takes equal addresses for one matrix. */
  readonly #nowhere: DeviceBuffer;

  constructor(resources: CublasMpResources, grid: bigint, call: PblasCall, { stream }: Runtime) {
    this.#nowhere = new DeviceBuffer(stream!, MOST_MATRICES * NOWHERE_BYTES);
    this.#resources = resources;
    this.#call = call;
    this.#grid = grid;
    freeUnlessAgreed(this);
  }

  /** A whole matrix: its address, its first row and column, its descriptor. */
  matrix({ distribution, local }: PblasMatrix): [bigint, bigint, bigint, bigint] {
    const [rows, columns] = distribution.globalShape!;
    const { blocks: { blockSize }, dtype } = this.#call;
    const given = { rows, columns, blockRows: blockSize, blockColumns: blockSize };
    const descriptor = new MatrixDescriptor(this.#resources, given, dtype, this.#grid, leadingDimensionOf(local));
    const nowhere = this.#nowhere.address + BigInt(this.#made.length * NOWHERE_BYTES);
    this.#made.push(descriptor);
    return [local.size === 0 ? nowhere : local.address, 1n, 1n, descriptor.handle];
  }

  [Symbol.dispose](): void {
    for (const descriptor of this.#made) descriptor[Symbol.dispose]();
    this.#nowhere.free();
  }
}

function valuesOf(call: PblasCall, descriptors: Descriptors, target: PblasMatrix): Argument[] {
  const { routine, letters, dtype } = call;
  return argumentsOf<Argument>(routine, {
    side: LETTERS[letters.side],
    uplo: LETTERS[letters.uplo],
    trans: LETTERS[letters.trans],
    diag: LETTERS[letters.diag],
    m: BigInt(call.m),
    n: BigInt(call.n),
    k: BigInt(call.k),
    alpha: scalarOf(dtype, call.alpha),
    beta: scalarOf(dtype, call.beta),
    a: descriptors.matrix(call.a),
    b: call.b ? descriptors.matrix(call.b) : [],
    result: descriptors.matrix(call.result),
    output: target === call.result ? [] : descriptors.matrix(target),
    computeType: COMPUTE_CODES[defaultComputeType(dtype)],
  });
}

/** A routine's two functions: the question for workspace, and the computation. */
function functionsOf(routine: PblasRoutine): [query: NativeFunction, compute: NativeFunction] {
  const symbols = openCublasMpPblas() as unknown as Record<string, NativeFunction | null>;
  const name = functionName(routine);
  const [query, compute] = [symbols[`${name}_bufferSize`], symbols[name]];
  if (query && compute) return [query, compute];
  throw new ConfigurationError(`${routine} needs cuBLASMp 0.9 or newer. Run: ${taskCommand("native install cuda")}`);
}

/** Workspace of a call, as large as cuBLASMp wants it. What it refuses is refused here, with its reason. */
function workspaceFor({ stream }: Runtime, { symbols }: CublasMpResources, { routine }: PblasCall, values: Argument[]) {
  const name = `${functionName(routine)}_bufferSize`;
  const [query] = functionsOf(routine);
  const [device, host] = [new BigUint64Array(1), new BigUint64Array(1)];
  const code = query(...values, device, host);
  if (code !== 0) observe(symbols, () => checkCublasMp(query(...values, device, host) || code, name));
  return {
    onHost: allocate("uint8", Math.max(16, Number(host[0]))) as Uint8Array<ArrayBuffer>,
    onDevice: new DeviceBuffer(stream!, Math.max(256, Number(device[0]))),
  };
}

function describe({ routine, dtype, m, n, letters, blocks: { grid, blockSize } }: PblasCall): string {
  return `${routine} (${
    Object.values(letters).join(", ")
  }) of ${m} x ${n} ${dtype} in blocks of ${blockSize} on ${grid}`;
}

/** All that a call needs on this rank. */
interface Ready {
  readonly descriptors: Descriptors;
  readonly values: readonly Argument[];
  readonly onHost: Uint8Array<ArrayBuffer>;
  readonly onDevice: DeviceBuffer;
  /** Where the result is written. */
  readonly target: PblasMatrix;
}

/** Get ready on every rank, or on none. Collective. */
function prepare(runtime: Runtime, call: PblasCall): Ready {
  const resources = cublasMpResources(runtime);
  const grid = resources.grid(gridShapeOf(call.blocks.grid, runtime.size)!);
  let ready!: Ready;
  agree(runtime, call.routine, () => {
    const { routine, dtype, result } = call;
    // cublasMpTrmm does not work in place.
    const target = routine === "trmm"
      ? { ...result, local: LocalArray.empty(dtype, result.local.shape, "F", runtime.stream) }
      : result;
    const descriptors = new Descriptors(resources, grid, call, runtime);
    const values = [resources.handleOn(runtime.stream!), ...valuesOf(call, descriptors, target)];
    ready = { target, descriptors, values, ...workspaceFor(runtime, resources, call, values) };
  });
  return ready;
}

function compute(runtime: Runtime, call: PblasCall, ready: Ready): void {
  using _descriptors = ready.descriptors;
  using workspace = ready.onDevice;
  const { onHost, values } = ready;
  const [, routine] = functionsOf(call.routine);
  const resources = cublasMpResources(runtime);
  resources.settle();
  resources.keepUntilDone(onHost);
  const code = routine(...values, workspace.address, BigInt(workspace.byteLength), onHost, BigInt(onHost.length));
  if (code === 0) return;
  const error = cublasMpError(functionName(call.routine), code);
  error.message += ` It was called for ${describe(call)}.`;
  throw error;
}

/** Of several errors the first: on a GPU that has failed, freeing memory fails as well. */
function firstOf(error: unknown): unknown {
  return error instanceof SuppressedError ? firstOf(error.suppressed) : error;
}

function run(runtime: Runtime, call: PblasCall): void {
  const { result } = call;
  const ready = prepare(runtime, call);
  const { target } = ready;
  try {
    const span = { kind: "gemm", label: `${call.routine} by cuBLASMp, with what travels in it` } as const;
    recordSpan(runtime.stream, span, () => compute(runtime, call, ready));
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
    // They allocate memory and wait for the GPU.
    refuseCapture(stream, "PBLAS routines");
    openCublasMpPblas();
    return `cuBLASMp ${openCublasMp().version}`;
  },
  run,
};
