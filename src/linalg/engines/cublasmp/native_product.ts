/**
 * A product as cuBLASMp holds it: its descriptors, its scalars, its workspace, and the call.
 *
 * @module
 */
import {
  checkCublasMp,
  CublasMpMatmulDescriptorAttribute as Attribute,
  CublasMpResultScheme,
} from "../../../../ffi/cuda/cublasmp.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import { operationCode } from "../../../blas/cublas_codes.ts";
import { allocate, type DType, dtypeInfo, type Scalar } from "../../../dtype/dtype.ts";
import type { Stream } from "../../../gpu/stream.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { defaultComputeType, type ScaleType, scaleTypeOf } from "../../matmul/compute_type.ts";
import type { MatmulProblem } from "../../matmul/problem.ts";
import type { EngineRequest } from "../engine.ts";
import { addendType, ALGORITHM_CODES, type CublasMpAlgorithm, epilogueCode } from "./attributes.ts";
import { MatmulDescriptor, MatrixDescriptor } from "./descriptor.ts";
import { SOMEWHERE } from "./epilog_arrays.ts";
import type { CublasMpCall, GivenMatrix } from "./paths.ts";
import { type CublasMpResources, cublasMpResources, type Workspace } from "./resources.ts";

/** Matrices as a call takes them. */
export interface GivenOperands {
  readonly a: LocalArray;
  readonly b: LocalArray;
  readonly c: LocalArray | null;
  readonly d: LocalArray;
}

/** Memory for alpha or beta. */
type ScalarCell = Float16Array<ArrayBuffer> | Float32Array<ArrayBuffer> | Float64Array<ArrayBuffer>;

function scalarCell(type: ScaleType): ScalarCell {
  if (type === "float16") return new Float16Array(2);
  return type === "float64" || type === "complex128" ? new Float64Array(2) : new Float32Array(2);
}

function setCell(cell: ScalarCell, value: Scalar): void {
  [cell[0], cell[1]] = typeof value === "object" ? value : [Number(value), 0];
}

/** The matrices of a problem as cuBLASMp's call has them. */
export function matricesOf(
  problem: MatmulProblem,
  { isExchanged }: CublasMpCall,
): Pick<MatmulProblem, "a" | "b" | "c"> {
  return isExchanged ? { a: problem.b, b: problem.a, c: problem.c } : problem;
}

/** What cuBLASMp has been told of a product on this rank. */
export class NativeProduct implements Disposable {
  /** What is told of it besides the matrices. */
  readonly descriptor: MatmulDescriptor;
  /** The memory that it works in, of the rank that needs the most. */
  readonly workspace: Workspace;
  readonly #resources: CublasMpResources;
  readonly #matrices: Readonly<Record<"a" | "b" | "c" | "d", MatrixDescriptor>>;
  readonly #extents: readonly [bigint, bigint, bigint];
  readonly #alpha: ScalarCell;
  readonly #beta: ScalarCell;
  readonly #gridB: bigint;
  #hostWorkspace!: Uint8Array<ArrayBuffer>;

  /** Tell cuBLASMp of it, `describe` of what only its caller knows, and have the workspace. Collective. */
  constructor(
    runtime: Runtime,
    request: EngineRequest,
    call: CublasMpCall,
    algorithm: CublasMpAlgorithm,
    describe: (descriptor: MatmulDescriptor) => void,
  ) {
    const { problem, settings } = request;
    const computeType = settings?.computeType ?? defaultComputeType(problem.accumulator);
    const scaleType = scaleTypeOf(computeType, problem.accumulator);
    const resources = this.#resources = cublasMpResources(runtime);
    const [gridD, gridA, gridB] = [call.d, call.a, call.b].map(({ grid }) => resources.grid(grid));
    const matrix = (given: GivenMatrix, dtype: DType, grid: bigint) => {
      const [rows] = given.padded ?? given.distribution.localShape(runtime.rank);
      return new MatrixDescriptor(resources, given, dtype, grid, Math.max(1, rows));
    };
    const { a, b } = matricesOf(problem, call);
    this.#gridB = gridB;
    this.#matrices = {
      a: matrix(call.a, a.dtype, gridA),
      b: matrix(call.b, b.dtype, gridB),
      c: matrix(call.d, addendType(problem), gridD),
      d: matrix(call.d, problem.d.dtype, gridD),
    };
    this.#extents = [BigInt(call.m), BigInt(call.n), BigInt(call.k)];
    this.#alpha = scalarCell(scaleType);
    this.#beta = scalarCell(scaleType);
    this.descriptor = new MatmulDescriptor(resources, computeType);
    this.#describe(request, call, algorithm);
    describe(this.descriptor);
    const ask = () => this.#askForWorkspace(runtime, problem.c !== null);
    this.workspace = resources.workspace(ask, [...new Set([gridD, gridA, gridB])]);
  }

  setScalars(alpha: Scalar, beta: Scalar): void {
    setCell(this.#alpha, alpha);
    setCell(this.#beta, beta);
  }

  /** Register B, which is gathered, if it lies in symmetric memory. Collective at its first use. */
  shareB(b: LocalArray): void {
    this.#resources.share(b, this.#gridB);
  }

  multiply(given: GivenOperands, stream: Stream): void {
    const { a, b, c, d } = this.#matrices;
    a.describe(given.a);
    b.describe(given.b);
    if (given.c) c.describe(given.c);
    d.describe(given.d);
    checkCublasMp(this.prepareCall(given, stream)(given.d.address), "cublasMpMatmul");
  }

  /** The call with all arguments ready but D's address. */
  prepareCall(given: GivenOperands, stream: Stream): (d: bigint) => number {
    const { symbols: { cublasMpMatmul } } = this.#resources;
    const handle = this.#resources.handleOn(stream);
    const descriptor = this.descriptor.handle;
    const [m, n, k] = this.#extents;
    const [alpha, beta] = [this.#alpha, this.#beta];
    const { a: { handle: descA }, b: { handle: descB }, c: { handle: descC }, d: { handle: descD } } = this.#matrices;
    const [a, b, c] = [given.a.address, given.b.address, given.c?.address ?? 0n];
    const { address: workspace, byteLength } = this.workspace;
    const hostWorkspace = this.#hostWorkspace;
    const [workspaceBytes, hostBytes] = [BigInt(byteLength), BigInt(hostWorkspace.length)];
    // deno-fmt-ignore
    return (d) => cublasMpMatmul(
      handle, descriptor, m, n, k, alpha, a, 1n, 1n, descA, b, 1n, 1n, descB, beta, c, 1n, 1n, descC, d, 1n, 1n, descD,
      workspace, workspaceBytes, hostWorkspace, hostBytes,
    );
  }

  /** Free it, once it is no longer in use. */
  [Symbol.dispose](): void {
    this.#resources.settle();
    this.#resources.keepUntilDone(this.#hostWorkspace);
    this.descriptor[Symbol.dispose]();
    for (const matrix of Object.values(this.#matrices)) matrix[Symbol.dispose]();
  }

  #describe({ problem, epilog, settings }: EngineRequest, call: CublasMpCall, algorithm: CublasMpAlgorithm): void {
    const { a: { dtype } } = problem;
    const { descriptor } = this;
    descriptor.setNumber(Attribute.TRANSA, operationCode(call.operationA, dtype));
    descriptor.setNumber(Attribute.TRANSB, operationCode(call.operationB, dtype));
    descriptor.setNumber(Attribute.ALGO_TYPE, ALGORITHM_CODES[algorithm]);
    descriptor.setNumber(Attribute.EPILOGUE, epilogueCode(epilog, call.path));
    descriptor.setNumber(Attribute.BIAS_RESULT_SCHEME, CublasMpResultScheme.FULL);
    const { communicationSmCount, communicationType } = settings ?? {};
    if (communicationSmCount !== undefined) {
      descriptor.setNumber(Attribute.COMMUNICATION_SM_COUNT, communicationSmCount);
    }
    if (communicationType !== undefined) {
      descriptor.setNumber(Attribute.COMMUNICATION_TYPE, dtypeInfo(communicationType).cuda);
    }
  }

  /** Allocate workspace on the host, and return how much is needed on the GPU. Local. */
  #askForWorkspace({ stream }: Runtime, withC: boolean): number {
    const [device, host] = [new BigUint64Array(1), new BigUint64Array(1)];
    const { a, b, c, d } = this.#matrices;
    const [m, n, k] = this.#extents;
    this.setScalars(1, withC ? 1 : 0);
    // deno-fmt-ignore
    checkCublasMp(
      this.#resources.symbols.cublasMpMatmul_bufferSize(
        this.#resources.handleOn(stream!), this.descriptor.handle, m, n, k,
        this.#alpha, SOMEWHERE, 1n, 1n, a.handle, SOMEWHERE, 1n, 1n, b.handle,
        this.#beta, withC ? SOMEWHERE : 0n, 1n, 1n, c.handle, SOMEWHERE, 1n, 1n, d.handle,
        device, host,
      ),
      "cublasMpMatmul_bufferSize",
    );
    this.#hostWorkspace = allocate("uint8", Math.max(16, Number(host[0]))) as Uint8Array<ArrayBuffer>;
    return Number(device[0]);
  }
}
