/**
 * A product on cuBLASMp, planned: descriptors, workspace, and what is done in each execution.
 *
 * @module
 */
import {
  checkCublasMp,
  CublasMpMatmulDescriptorAttribute as Attribute,
  CublasMpResultScheme,
  openCublasMp,
} from "../../../../ffi/cuda/cublasmp.ts";
import { allocate, type DType, dtypeInfo, type Scalar } from "../../../dtype/dtype.ts";
import { LocalArray } from "../../../array/local_array.ts";
import { Scratch } from "../../../array/redistribution/gpu_executor.ts";
import { largest } from "../../../array/reduction.ts";
import { clearOnDevice, copyToDevice } from "../../../memory/copy.ts";
import { DeviceBuffer } from "../../../memory/device_buffer.ts";
import { agree, exchange } from "../../../runtime/agreement.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import type { Stream } from "../../../gpu/stream.ts";
import { type ScaleType, scaleTypeOf } from "../../matmul/compute_type.ts";
import {
  type Epilog,
  type EpilogValues,
  geluAuxShape,
  gradientName,
  hasExtraOutputs,
  reluAuxShape,
} from "../../matmul/epilog.ts";
import { type LocalOperands, type MatmulProblem, type Matrix, matrixName } from "../../matmul/problem.ts";
import { isQuantized, type QuantizationValues, type ScaleMode } from "../../matmul/quantization.ts";
import { scalarOf } from "../host/block_scaling.ts";
import {
  addendType,
  ALGORITHM_CODES,
  algorithmFor,
  algorithmsOf,
  biasType,
  COMPUTE_CODES,
  type CublasMpAlgorithm,
  defaultComputeType,
  epilogueCode,
  operationCode,
} from "./attributes.ts";
import { MatrixDescriptor } from "./descriptor.ts";
import { observe, type ObservedAlgorithm } from "./log.ts";
import { type CublasMpCall, type GivenMatrix, PATH_NAMES } from "./paths.ts";
import { type CublasMpResources, cublasMpResources, type Workspace } from "./resources.ts";
import { SCALE_MODE_CODES, ScaleTensor } from "./scales.ts";
import { Stage, type Staged } from "./staging.ts";
import type { AlgorithmReport, EnginePlan, EngineRequest, EngineValues } from "../engine.ts";
import { isOne, isZero } from "../../../blas/arguments.ts";

/** The name that `options.engine` takes. */
export const ENGINE_NAME = "cublasmp";

/** An address that is none, where only the library's check for null must be passed. */
const SOMEWHERE = 256n;

/** Scalars of 8-bit products lie this far apart. */
const CELL_BYTES = 256;

/** Where each scalar of an 8-bit product lies. */
const CELLS = ["a", "b", "c", "d", "aux", "resultAmax", "auxAmax"] as const; // the maxima are cleared together

type Cell = typeof CELLS[number];

/** Memory for alpha or beta. */
function scalarCell(
  type: ScaleType,
): Float16Array<ArrayBuffer> | Float32Array<ArrayBuffer> | Float64Array<ArrayBuffer> {
  if (type === "float16") return new Float16Array(2);
  return type === "float64" || type === "complex128" ? new Float64Array(2) : new Float32Array(2);
}

function setCell(cell: ReturnType<typeof scalarCell>, value: Scalar): void {
  [cell[0], cell[1]] = typeof value === "object" ? value : [Number(value), 0];
}

/** The epilog's vectors and matrices have this many rows and columns on this rank, padding included, and without. */
interface LocalExtents {
  readonly rows: number;
  readonly columns: number;
  readonly innerRows: number;
  readonly innerColumns: number;
}

/** Matrices as a call takes them. */
interface GivenOperands {
  readonly a: LocalArray;
  readonly b: LocalArray;
  readonly c: LocalArray | null;
  readonly d: LocalArray;
}

/** A bias or aux input of the epilog in cuBLASMp's form, and what it was made of: on the GPU, it may be the same. */
interface AdaptedInput {
  readonly from: LocalArray;
  readonly given: LocalArray;
}

/** The operands as the call exchanges them, and what brings them; without an addend that beta takes away. */
interface StagedOperands {
  readonly a: Staged;
  readonly b: Staged;
  readonly c: Staged | null;
  readonly d: Staged;
}

/** What an execution has prepared besides matrices. */
interface Ready {
  readonly input: AdaptedInput | null;
  readonly outputs: EpilogValues | null;
  readonly bringScales: (() => void) | null;
}

function factorsOf(problem: MatmulProblem, { isExchanged }: CublasMpCall): Pick<MatmulProblem, "a" | "b" | "c"> {
  return isExchanged ? { a: problem.b, b: problem.a, c: problem.c } : problem;
}

function computeTypeOf({ problem, settings }: EngineRequest) {
  return settings?.computeType ?? defaultComputeType(problem.accumulator);
}

/** An execution that can be repeated by the call alone: nothing is brought, nothing comes out but D. */
interface Repeatable {
  readonly a: LocalArray;
  readonly b: LocalArray;
  readonly c: LocalArray | null;
  readonly values: EngineValues;
  /** D's strides. */
  readonly strides: readonly number[];
  /** The call, given D's address. */
  readonly call: (d: bigint) => number;
  /** C's address, if that is where D was written. */
  readonly inPlace: bigint | null;
}

/** Memory that was freed refuses to tell its address. */
function checkAlive({ a, b, c }: Repeatable): void {
  void a.buffer.address;
  void b.buffer.address;
  void c?.buffer.address;
}

/** The plan of a product, on this rank. */
export class CublasMpPlan implements EnginePlan {
  readonly #runtime: Runtime;
  readonly #problem: MatmulProblem;
  readonly #epilog: Epilog;
  readonly #call: CublasMpCall;
  readonly #algorithm: CublasMpAlgorithm;
  readonly #request: EngineRequest;
  #resources!: CublasMpResources;
  #descriptor!: bigint;
  #descriptors!: Record<"a" | "b" | "c" | "d", MatrixDescriptor>;
  readonly #stages: { a: Stage; b: Stage; c: Stage | null; d: Stage };
  /** For packed blocks: matrices are brought one after the other. */
  readonly #scratch = new Scratch();
  readonly #scaleTensors: { a: ScaleTensor | null; b: ScaleTensor | null };
  readonly #scaleModes: { a: ScaleMode; b: ScaleMode };
  #workspace!: Workspace;
  #workspaceBytes!: bigint;
  #hostWorkspace!: Uint8Array<ArrayBuffer>;
  #hostBytes!: bigint;
  readonly #alpha: ReturnType<typeof scalarCell>;
  readonly #beta: ReturnType<typeof scalarCell>;
  readonly #extents: readonly [bigint, bigint, bigint];
  readonly #local: LocalExtents;
  #gridB!: bigint;
  readonly #cells: DeviceBuffer | null;
  #scales: QuantizationValues | null = null;
  /** A bias or aux input in cuBLASMp's form, and what it was made of. */
  #input: AdaptedInput | null = null;
  #values: EngineValues | null = null;
  #observed: ObservedAlgorithm | null = null;
  #isObserved = false;
  #repeatable: Repeatable | null = null;
  #isOpen = false;
  #isDisposed = false;

  /** Plan a request by a call that is possible. */
  constructor(runtime: Runtime, request: EngineRequest, call: CublasMpCall) {
    const { problem, epilog } = request;
    const scaleType = scaleTypeOf(computeTypeOf(request), problem.accumulator);
    this.#runtime = runtime;
    this.#request = request;
    this.#problem = problem;
    this.#epilog = epilog;
    this.#call = call;
    this.#algorithm = algorithmFor(call.path, request.algorithm, openCublasMp().version)!;
    this.#extents = [BigInt(call.m), BigInt(call.n), BigInt(call.k)];
    this.#alpha = scalarCell(scaleType);
    this.#beta = scalarCell(scaleType);

    const { a, b, c } = factorsOf(problem, call);
    const names = call.isExchanged ? ["b", "a"] as const : ["a", "b"] as const;
    const stage = (matrix: Matrix, given: GivenMatrix, name: "a" | "b" | "c" | "d") => {
      // What is summed over the ranks must lie without gaps.
      const isDense = (call.path === "all_reduce" || call.path === "reduce_scatter") && (name === "c" || name === "d");
      const options = { name: matrixName(problem, name), isDense, isResult: name === "d", scratch: this.#scratch };
      return new Stage(runtime, matrix, given, options);
    };
    this.#stages = {
      a: stage(a, call.a, names[0]),
      b: stage(b, call.b, names[1]),
      c: c && stage(c, call.c!, "c"),
      d: stage(problem.d, call.d, "d"),
    };
    const [innerRows, innerColumns] = call.d.distribution.localShape(runtime.rank);
    const [rows, columns] = call.d.padded ?? [innerRows, innerColumns];
    this.#local = { rows, columns, innerRows, innerColumns };
    this.#cells = isQuantized(a.dtype) || epilog.auxAmax || isQuantized(epilog.auxDType)
      ? new DeviceBuffer(runtime.stream!, CELL_BYTES * CELLS.length)
      : null;

    const { scaling = null } = request;
    const modes = scaling ?? { a: "tensor", b: "tensor" } as const;
    this.#scaleModes = call.isExchanged ? { a: modes.b, b: modes.a } : modes;
    const tensor = (mode: ScaleMode, given: GivenMatrix, pieces: number) =>
      mode === "tensor" ? null : new ScaleTensor(runtime, mode, given, pieces, this.#scratch);
    // Each rank's columns of D are computed apart.
    const pieces = call.path === "reduce_scatter" ? runtime.size : 1;
    this.#scaleTensors = {
      a: tensor(this.#scaleModes.a, call.a, 1),
      b: tensor(this.#scaleModes.b, call.b, pieces),
    };
  }

  /** Make descriptors and grids, and have the workspace. Collective. */
  open(): void {
    const [runtime, request, problem, call] = [this.#runtime, this.#request, this.#problem, this.#call];
    const { a, b } = factorsOf(problem, call);
    const resources = this.#resources = cublasMpResources(runtime);
    const grids = [call.d, call.a, call.b].map(({ grid }) => resources.grid(grid));
    const [gridD, gridA, gridB] = grids;
    this.#gridB = gridB;
    const describe = (given: GivenMatrix, dtype: DType, grid: bigint) => {
      const [rows] = given.padded ?? given.distribution.localShape(runtime.rank);
      return new MatrixDescriptor(resources, given, dtype, grid, Math.max(1, rows));
    };
    this.#descriptors = {
      a: describe(call.a, a.dtype, gridA),
      b: describe(call.b, b.dtype, gridB),
      c: describe(call.d, addendType(problem), gridD),
      d: describe(call.d, problem.d.dtype, gridD),
    };
    const out = new BigUint64Array(1);
    checkCublasMp(
      resources.symbols.cublasMpMatmulDescriptorCreate(out, COMPUTE_CODES[computeTypeOf(request)]),
      "cublasMpMatmulDescriptorCreate",
    );
    this.#descriptor = out[0];
    this.#setAttributes(request);
    const deviceBytes = this.#askForWorkspace();
    this.#hostBytes = BigInt(this.#hostWorkspace.length);
    this.#workspace = resources.workspace(deviceBytes, [...new Set(grids)]);
    this.#workspaceBytes = BigInt(this.#workspace.byteLength);
    this.#isOpen = true;
  }

  get workspaceBytes(): number {
    const held = [...Object.values(this.#stages), ...Object.values(this.#scaleTensors), this.#scratch];
    return held.reduce((sum, memory) => sum + (memory?.byteLength ?? 0), this.#workspace?.byteLength ?? 0);
  }

  get report(): AlgorithmReport {
    const { path, traffic, moved } = this.#call;
    const stages = [this.#stages.a, this.#stages.b, this.#stages.c, this.#stages.d].filter((stage) => stage !== null);
    const observed = this.#observed;
    return {
      engine: ENGINE_NAME,
      algorithm: observed?.algorithm ?? this.#algorithm,
      variant: observed ? `${observed.text}, as its log says` : `${PATH_NAMES[path]}, as expected`,
      workspaceBytes: this.workspaceBytes,
      bytesMoved: moved + traffic,
      copies: stages.flatMap(({ copies }) => copies),
      notes: this.#notes(),
    };
  }

  prepare(operands: LocalOperands, values: EngineValues, stream: Stream | null = null): () => EpilogValues {
    const own = this.#runtime.stream!;
    const last = this.#repeatable;
    if (
      last !== null && last.values === values && last.a === operands.a && last.b === operands.b &&
      last.c === operands.c &&
      (stream === null || stream === own) && this.#resources.isSettled
    ) {
      const { d } = operands;
      if (this.#runtime.checks === "collective") checkAlive(last);
      const isInPlace = d === last.c && last.inPlace !== null;
      if (isInPlace || d.strides[0] === last.strides[0] && d.strides[1] === last.strides[1]) {
        return () => {
          const code = last.call(isInPlace ? last.inPlace! : d.address);
          if (code !== 0) checkCublasMp(code, "cublasMpMatmul");
          return NOTHING;
        };
      }
    }
    return this.#prepareOn(stream ?? own, operands, values);
  }

  #prepareOn(on: Stream, operands: LocalOperands, values: EngineValues): () => EpilogValues {
    const { a, b, c, d } = this.#stages;
    const [left, right] = this.#call.isExchanged ? [operands.b, operands.a] : [operands.a, operands.b];
    const addend = operands.c !== null && !isZero(values.beta) ? operands.c : null;
    const staged = {
      a: a.prepare(left),
      b: b.prepare(right),
      c: addend && c!.prepare(addend),
      d: d.prepare(operands.d),
    };
    const ready = {
      input: this.#adapted(values),
      outputs: this.#newOutputs(),
      bringScales: this.#prepareScales(values.scales),
    };
    return () => this.#execute(on, operands, staged, values, ready);
  }

  #execute(
    on: Stream,
    operands: LocalOperands,
    { a, b, c, d }: StagedOperands,
    values: EngineValues,
    { input, outputs, bringScales }: Ready,
  ): EpilogValues {
    const own = this.#runtime.stream!;
    const isStaged = [a, b, c, d].some((staged) => staged?.bring) || bringScales !== null;
    this.#repeatable = null;
    // Elements are brought on the runtime's stream, between what is on the other one before and after.
    if (isStaged) own.wait(on);
    for (const staged of [a, b, c]) staged?.bring?.();
    const brought = { a: a.local, b: b.local, c: c && c.local, d: d.local };
    const given = isZero(values.alpha) && isOne(values.beta) ? withAddendInPlace(brought) : brought;
    // What is gathered is B.
    if (this.#call.path === "all_gather") this.#resources.share(given.b, this.#gridB);
    if (values !== this.#values) this.#bindValues(values, c !== null, input);
    bringScales?.();
    if (outputs) this.#bindOutputs(outputs);
    this.#resources.begin(on);
    try {
      if (this.#isObserved) this.#multiply(given, on);
      else this.#firstTime(given, on);
    } finally {
      if (on !== own) this.#resources.end(on);
    }
    const isDirect = !isStaged && given.c === brought.c && !hasExtraOutputs(this.#epilog);
    if (on !== own) {
      // What follows on the runtime's stream reads D, or writes what the product has read.
      if (!isDirect) this.#resources.settle();
    } else if (isDirect) {
      const { a, b, c, d } = operands;
      const call = this.#prepareCall(given, on);
      this.#repeatable = { a, b, c, values, strides: d.strides, call, inPlace: d === c ? d.address : null };
    }
    d.bring?.();
    if (d.bring) on.wait(own);
    return outputs ? this.#finish(outputs) : NOTHING;
  }

  release(): void {
    this.#repeatable = null;
    this.#values = null;
    this.#scales = null;
  }

  [Symbol.dispose](): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.#repeatable = null;
    if (this.#isOpen) this.#close();
    const held = [...Object.values(this.#stages), ...Object.values(this.#scaleTensors), this.#scratch];
    for (const memory of held) memory?.free();
    this.#input?.given.release();
    this.#cells?.free();
  }

  #close(): void {
    const { symbols } = this.#resources;
    this.#resources.settle();
    this.#resources.keepUntilDone(this.#hostWorkspace);
    checkCublasMp(symbols.cublasMpMatmulDescriptorDestroy(this.#descriptor), "cublasMpMatmulDescriptorDestroy");
    for (const descriptor of Object.values(this.#descriptors)) descriptor[Symbol.dispose]();
  }

  #notes(): string[] {
    const { path } = this.#call;
    const notes = path === "fallback"
      ? ["cuBLASMp has no overlapped algorithm for this mixture of distributions; others of D may be faster"]
      : [];
    const observed = this.#observed;
    if (observed === null) return notes;
    const asked = algorithmsOf(path).length > 0 ? this.#algorithm : null;
    const isOther = path !== "local" && (observed.path !== path || asked !== null && observed.algorithm !== asked);
    if (isOther) {
      const wanted = `${asked ? `${asked} ` : ""}${PATH_NAMES[path]}`;
      notes.push(`cuBLASMp was asked for ${wanted} and ran ${observed.text}`);
    }
    return notes;
  }

  #set(attribute: number, value: ArrayBufferView<ArrayBuffer>): void {
    const bytes = new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    checkCublasMp(
      this.#resources.symbols.cublasMpMatmulDescriptorSetAttribute(
        this.#descriptor,
        attribute,
        bytes,
        BigInt(bytes.length),
      ),
      "cublasMpMatmulDescriptorSetAttribute",
    );
  }

  #setNumber(attribute: number, value: number): void {
    this.#set(attribute, Int32Array.of(value));
  }

  #setPointer(attribute: number, address: bigint): void {
    this.#set(attribute, BigUint64Array.of(address));
  }

  #setAttributes({ settings }: EngineRequest): void {
    const { operationA, operationB, path } = this.#call;
    const { a, d } = this.#problem;
    const epilog = this.#epilog;
    this.#setNumber(Attribute.TRANSA, operationCode(operationA, a.dtype));
    this.#setNumber(Attribute.TRANSB, operationCode(operationB, a.dtype));
    this.#setNumber(Attribute.ALGO_TYPE, ALGORITHM_CODES[this.#algorithm]);
    this.#setNumber(Attribute.EPILOGUE, epilogueCode(epilog, path));
    this.#setNumber(Attribute.BIAS_RESULT_SCHEME, CublasMpResultScheme.FULL);
    if (settings?.communicationSmCount !== undefined) {
      this.#setNumber(Attribute.COMMUNICATION_SM_COUNT, settings.communicationSmCount);
    }
    if (settings?.communicationType !== undefined) {
      this.#setNumber(Attribute.COMMUNICATION_TYPE, dtypeInfo(settings.communicationType).cuda);
    }
    if (epilog.hasBias || epilog.biasGradient !== "none") {
      this.#setNumber(Attribute.BIAS_DATA_TYPE, dtypeInfo(biasType(this.#problem)).cuda);
      this.#setPointer(Attribute.BIAS_POINTER, SOMEWHERE);
    }
    if (epilog.aux !== "none") this.#setAux(SOMEWHERE);
    if (isQuantized(a.dtype)) this.#setScaleAttributes();
    if (epilog.aux !== "none" && epilog.activation === "gelu" && epilog.auxDType !== d.dtype) {
      this.#setNumber(Attribute.EPILOGUE_AUX_DATA_TYPE, dtypeInfo(epilog.auxDType).cuda);
      if (isQuantized(epilog.auxDType)) {
        this.#setPointer(Attribute.EPILOGUE_AUX_SCALE_POINTER, this.#cell("aux"));
      }
    }
    // cuBLASMp looks for the maximum of 8-bit matrices only.
    if (epilog.auxAmax && isQuantized(epilog.auxDType)) {
      this.#setPointer(Attribute.EPILOGUE_AUX_AMAX_POINTER, this.#cell("auxAmax"));
    }
    if (epilog.resultAmax) this.#setPointer(Attribute.AMAX_D_POINTER, this.#cell("resultAmax"));
  }

  #setScaleAttributes(): void {
    const { c, d } = this.#problem;
    const scale = (pointer: number, mode: number, cell: Cell) => {
      this.#setPointer(pointer, this.#cell(cell));
      this.#setNumber(mode, SCALE_MODE_CODES.tensor);
    };
    const scaleFactor = (pointer: number, mode: number, name: "a" | "b") => {
      this.#setPointer(pointer, this.#scaleTensors[name]?.address ?? this.#cell(name));
      this.#setNumber(mode, SCALE_MODE_CODES[this.#scaleModes[name]]);
    };
    scaleFactor(Attribute.A_SCALE_POINTER, Attribute.A_SCALE_MODE, "a");
    scaleFactor(Attribute.B_SCALE_POINTER, Attribute.B_SCALE_MODE, "b");
    if (c && isQuantized(c.dtype)) scale(Attribute.C_SCALE_POINTER, Attribute.C_SCALE_MODE, "c");
    if (isQuantized(d.dtype)) scale(Attribute.D_SCALE_POINTER, Attribute.D_SCALE_MODE, "d");
  }

  #cell(cell: Cell): bigint {
    return this.#cells!.address + BigInt(CELLS.indexOf(cell) * CELL_BYTES);
  }

  /** The shape of an aux matrix on this rank, padding included. */
  get #auxShape(): [number, number] {
    const { rows, columns } = this.#local;
    return this.#epilog.activation === "relu" ? reluAuxShape(rows, columns) : geluAuxShape(rows, columns);
  }

  #setAux(address: bigint): void {
    const [rows] = this.#auxShape;
    this.#setPointer(Attribute.EPILOGUE_AUX_POINTER, address);
    // relu's mask is counted in bits.
    this.#set(
      Attribute.EPILOGUE_AUX_LD,
      BigInt64Array.of(BigInt(this.#epilog.activation === "relu" ? rows * 8 : rows)),
    );
  }

  /** Allocate workspace on the host, and return how much is needed on the GPU. Collective. */
  #askForWorkspace(): number {
    const [device, host] = [new BigUint64Array(1), new BigUint64Array(1)];
    const { a, b, c, d } = this.#descriptors;
    const [m, n, k] = this.#extents;
    const withC = this.#problem.c !== null;
    setCell(this.#alpha, 1);
    setCell(this.#beta, withC ? 1 : 0);
    exchange(this.#runtime, "cublasMpMatmul_bufferSize", () => {
      // deno-fmt-ignore
      checkCublasMp(
        this.#resources.symbols.cublasMpMatmul_bufferSize(
          this.#resources.handleOn(this.#runtime.stream!), this.#descriptor, m, n, k,
          this.#alpha, SOMEWHERE, 1n, 1n, a.handle, SOMEWHERE, 1n, 1n, b.handle,
          this.#beta, withC ? SOMEWHERE : 0n, 1n, 1n, c.handle, SOMEWHERE, 1n, 1n, d.handle,
          device, host,
        ),
        "cublasMpMatmul_bufferSize",
      );
      this.#hostWorkspace = allocate("uint8", Math.max(16, Number(host[0]))) as Uint8Array<ArrayBuffer>;
    });
    return Number(device[0]);
  }

  #multiply(given: GivenOperands, stream: Stream): void {
    const { a, b, c, d } = this.#descriptors;
    a.describe(given.a);
    b.describe(given.b);
    if (given.c) c.describe(given.c);
    d.describe(given.d);
    const code = this.#prepareCall(given, stream)(given.d.address);
    if (code !== 0) checkCublasMp(code, "cublasMpMatmul");
  }

  /** The call with all arguments ready but D's address. */
  #prepareCall(given: GivenOperands, stream: Stream): (d: bigint) => number {
    const { symbols: { cublasMpMatmul } } = this.#resources;
    const handle = this.#resources.handleOn(stream);
    const descriptor = this.#descriptor;
    const [m, n, k] = this.#extents;
    const [alpha, beta] = [this.#alpha, this.#beta];
    const { a: { handle: descA }, b: { handle: descB }, c: { handle: descC }, d: { handle: descD } } =
      this.#descriptors;
    const [a, b, c] = [given.a.address, given.b.address, given.c?.address ?? 0n];
    const { address: workspace } = this.#workspace;
    const [workspaceBytes, hostWorkspace, hostBytes] = [this.#workspaceBytes, this.#hostWorkspace, this.#hostBytes];
    // deno-fmt-ignore
    return (d) => cublasMpMatmul(
      handle, descriptor, m, n, k, alpha, a, 1n, 1n, descA, b, 1n, 1n, descB, beta, c, 1n, 1n, descC, d, 1n, 1n, descD,
      workspace, workspaceBytes, hostWorkspace, hostBytes,
    );
  }

  /** Run, and learn from the log what ran. */
  #firstTime(given: GivenOperands, stream: Stream): void {
    this.#observed = observe(this.#resources.symbols, () => this.#multiply(given, stream));
    this.#isObserved = true;
    for (const note of this.#notes()) this.#runtime.warnOnce(note, note);
  }

  #bindValues(values: EngineValues, hasAddend: boolean, input: AdaptedInput | null): void {
    this.#values = values;
    setCell(this.#alpha, values.alpha);
    setCell(this.#beta, hasAddend ? values.beta : 0);
    this.#bindScales(values);
    if (input === null) return;
    if (this.#epilog.hasBias) this.#setPointer(Attribute.BIAS_POINTER, input.given.address);
    else this.#setAux(input.given.address);
    if (input === this.#input || input.given === input.from) return;
    this.#input?.given.release();
    this.#input = input;
  }

  /** The input of the epilog as cuBLASMp takes it; null if there is none, or none that is new. */
  #adapted(values: EngineValues): AdaptedInput | null {
    if (values === this.#values) return null;
    const { bias, reluAux, geluAux } = values.epilog;
    const epilog = this.#epilog;
    if (epilog.hasBias) return this.#adapt(bias!, biasType(this.#problem), [this.#local.rows]);
    if (epilog.aux !== "input") return null;
    return this.#adapt((reluAux ?? geluAux)!, epilog.activation === "relu" ? "uint8" : epilog.auxDType, this.#auxShape);
  }

  /** On the GPU, dense, of this type, padded with zeros. */
  #adapt(input: LocalArray, dtype: DType, shape: readonly number[]): AdaptedInput {
    const isFit = input.isOnDevice && input.dtype === dtype && input.shape.join() === shape.join() &&
      input.isDense("F");
    if (isFit) return { from: input, given: input };
    if (this.#input?.from === input) return this.#input;
    const given = LocalArray.zeros(dtype, shape, "F", this.#runtime.stream);
    const { shape: inner } = input;
    const flat = shape.length === 1 && inner.length === 2 ? input.slice([0, 0], [inner[0], 1]) : input;
    const seen = shape.length === 1 ? asVector(flat) : flat;
    given.slice(shape.map(() => 0), seen.shape).set(seen);
    return { from: input, given };
  }

  #bindScales({ scales, epilog }: EngineValues): void {
    if (this.#cells === null || scales === this.#scales) return;
    this.#scales = scales;
    const { a, b } = this.#call.isExchanged ? { a: scales.b, b: scales.a } : scales;
    const cells = new Float32Array(CELLS.length * CELL_BYTES / 4);
    const put = (cell: Cell, value: number) => cells[CELLS.indexOf(cell) * CELL_BYTES / 4] = value;
    put("a", scalarOf(a));
    put("b", scalarOf(b));
    put("c", scales.c ?? 1);
    put("d", scales.d ?? 1);
    put("aux", epilog.auxQuantizationScale?.toNumbers()[0] ?? 1);
    copyToDevice(this.#cells.address, cells, this.#runtime.stream!);
  }

  /** Get ready to bring arrays of scales where cuBLASMp reads them; null if there are none. */
  #prepareScales(scales: QuantizationValues): (() => void) | null {
    if (this.#scaleModes.a === "tensor") return null;
    const { a, b } = this.#call.isExchanged ? { a: scales.b, b: scales.a } : scales;
    const bringA = typeof a === "object" ? this.#scaleTensors.a!.prepare(a) : null;
    const bringB = typeof b === "object" ? this.#scaleTensors.b!.prepare(b) : null;
    return () => {
      bringA?.();
      bringB?.();
    };
  }

  /** Memory for what the epilog writes, new for each execution; null if it writes nothing but D. */
  #newOutputs(): EpilogValues | null {
    if (!hasExtraOutputs(this.#epilog)) return null;
    const stream = this.#runtime.stream!;
    const { biasGradient, aux, activation, auxDType } = this.#epilog;
    const outputs: EpilogValues = {};
    if (aux === "output") {
      const dtype = activation === "relu" ? "uint8" : auxDType;
      outputs[activation === "relu" ? "reluAux" : "geluAux"] = LocalArray.zeros(dtype, this.#auxShape, "F", stream);
    }
    if (biasGradient !== "none") {
      const length = biasGradient === "b" ? this.#call.n : this.#local.rows;
      const name = biasGradient === "a" ? "bgrada" : biasGradient === "b" ? "bgradb" : gradientName(this.#epilog);
      outputs[name] = LocalArray.zeros(biasType(this.#problem), [length], "F", stream);
    }
    return outputs;
  }

  #bindOutputs({ reluAux, geluAux, ...others }: EpilogValues): void {
    const { auxAmax, resultAmax } = this.#epilog;
    const aux = reluAux ?? geluAux;
    if (aux) this.#setAux(aux.address);
    for (const gradient of Object.values(others)) this.#setPointer(Attribute.BIAS_POINTER, gradient!.address);
    if (auxAmax || resultAmax) this.#clearMaxima();
  }

  #clearMaxima(): void {
    clearOnDevice(this.#cell("resultAmax"), 2 * CELL_BYTES, this.#runtime.stream!);
  }

  /** What the epilog wrote, without padding, in the types that engines return. Collective. */
  #finish(outputs: EpilogValues): EpilogValues {
    let result!: EpilogValues;
    agree(this.#runtime, "Matmul.execute", () => {
      result = this.#cut(outputs);
    });
    return result;
  }

  #cut(outputs: EpilogValues): EpilogValues {
    const { innerRows, innerColumns } = this.#local;
    const { biasGradient, auxAmax, resultAmax } = this.#epilog;
    const result: EpilogValues = {};
    if (outputs.reluAux) result.reluAux = cut(outputs.reluAux, reluAuxShape(innerRows, innerColumns));
    if (outputs.geluAux) result.geluAux = cut(outputs.geluAux, geluAuxShape(innerRows, innerColumns));
    const { accumulator } = this.#problem;
    const n = this.#call.isExchanged ? this.#problem.m : this.#problem.n;
    const wide = accumulator === "float64" ? "float64" : "float32";
    if (biasGradient === "d") {
      const name = gradientName(this.#epilog);
      result[name] = widen(cut(outputs[name]!, [innerRows]), wide);
    } else if (biasGradient === "a") {
      result.bgrada = widen(cut(outputs.bgrada!, [innerRows]), wide);
    } else if (biasGradient === "b") {
      result.bgradb = widen(cut(outputs.bgradb!, [n]), wide);
    }
    if (auxAmax) result.geluAuxAmax = this.#auxMaximum(result.geluAux!);
    if (resultAmax) result.resultAmax = this.#maximum("resultAmax");
    return result;
  }

  #auxMaximum(aux: LocalArray): LocalArray {
    if (isQuantized(aux.dtype)) return this.#maximum("auxAmax");
    return new LocalArray({ data: Float32Array.of(largest(aux)), dtype: "float32", shape: [1] });
  }

  #maximum(cell: Cell): LocalArray {
    const offset = CELLS.indexOf(cell) * CELL_BYTES / 4;
    return new LocalArray({ data: this.#cells!, dtype: "float32", shape: [1], offset }).copy();
  }
}

/** With alpha = 0 and beta = 1 cuBLASMp writes nothing, as if C lay where D does: see to it that it does. */
function withAddendInPlace(given: GivenOperands): GivenOperands {
  const { c, d } = given;
  if (c === null || c.address === d.address || c.dtype !== d.dtype || isQuantized(d.dtype)) return given;
  d.set(c);
  return { ...given, c: d };
}

const NOTHING: EpilogValues = Object.freeze({});

/** The first elements of an array in each dimension, dense. */
function cut(local: LocalArray, shape: readonly number[]): LocalArray {
  if (local.shape.join() === shape.join()) return local;
  const dense = local.slice(shape.map(() => 0), shape).copy("F");
  local.release();
  return dense;
}

function widen(local: LocalArray, dtype: DType): LocalArray {
  if (local.dtype === dtype) return local;
  const wide = LocalArray.empty(dtype, local.shape, "F", local.buffer.stream);
  wide.set(local);
  local.release();
  return wide;
}

/** A column as a vector. */
function asVector(local: LocalArray): LocalArray {
  if (local.shape.length === 1) return local;
  const { shape: [length], strides: [stride], offset, dtype, memory } = local;
  const data = local.isOnDevice ? local.buffer : local.data;
  return new LocalArray({ data, dtype, shape: [length], strides: [stride], offset, memory });
}
