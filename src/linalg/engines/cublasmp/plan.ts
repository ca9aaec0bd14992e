/**
 * A product on cuBLASMp, planned: what is done in each execution.
 *
 * @module
 */
import { checkCublasMp, openCublasMp } from "../../../../ffi/cuda/cublasmp.ts";
import { sendingRate } from "../../../array/gpu_model.ts";
import type { AlgorithmTimes } from "../../../array/host_model.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import { Scratch } from "../../../array/redistribution/gpu_executor.ts";
import { isOne, isZero } from "../../../blas/arguments.ts";
import type { Stream } from "../../../gpu/stream.ts";
import { agreeStrictly } from "../../../runtime/agreement.ts";
import { recordSpan } from "../../../runtime/recorder.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { type EpilogValues, hasExtraOutputs } from "../../matmul/epilog.ts";
import { type LocalOperands, type Matrix, matrixName } from "../../matmul/problem.ts";
import { isQuantized } from "../../matmul/quantization.ts";
import type { AlgorithmReport, EnginePlan, EngineRequest, EngineValues } from "../engine.ts";
import { algorithmFor, algorithmsOf, type CublasMpAlgorithm, mustBeDense, type Operand } from "./attributes.ts";
import { type AdaptedInput, EpilogArrays, type Outputs } from "./epilog_arrays.ts";
import { observe, type ObservedAlgorithm } from "./log.ts";
import { type GivenOperands, matricesOf, NativeProduct } from "./native_product.ts";
import { type CublasMpCall, type GivenMatrix, PATH_NAMES } from "./paths.ts";
import { ProductScales } from "./product_scales.ts";
import { type CublasMpResources, cublasMpResources } from "./resources.ts";
import { Stage, type Staged } from "./staging.ts";

/** The name that `options.engine` takes. */
export const ENGINE_NAME = "cublasmp";

const NOTHING: EpilogValues = Object.freeze({});

/** What recordings say of a call: the library does not tell its parts. */
const SPAN = { kind: "gemm", label: "cublasMpMatmul, with what travels in it" } as const;

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
  readonly outputs: Outputs | null;
  readonly bringScales: (() => void) | null;
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
  readonly #request: EngineRequest;
  readonly #call: CublasMpCall;
  readonly #algorithm: CublasMpAlgorithm;
  readonly #stages: { a: Stage; b: Stage; c: Stage | null; d: Stage };
  /** For packed blocks: matrices are brought one after the other. */
  readonly #scratch = new Scratch();
  readonly #scales: ProductScales;
  readonly #epilog: EpilogArrays;
  #resources!: CublasMpResources;
  #native: NativeProduct | null = null;
  #values: EngineValues | null = null;
  #observed: ObservedAlgorithm | null = null;
  #isObserved = false;
  #repeatable: Repeatable | null = null;
  #isDisposed = false;

  readonly #times: () => AlgorithmTimes;

  /** Plan a request by a call that is possible; `times` is what a model says of all of it. */
  constructor(runtime: Runtime, request: EngineRequest, call: CublasMpCall, times: () => AlgorithmTimes) {
    const { problem } = request;
    this.#runtime = runtime;
    this.#request = request;
    this.#call = call;
    this.#times = times;
    this.#algorithm = algorithmFor(call.path, request.algorithm, openCublasMp().version)!;
    const names = call.isExchanged ? ["b", "a"] as const : ["a", "b"] as const;
    const stage = (matrix: Matrix, given: GivenMatrix, as: Operand, name: Operand = as) => {
      const isDense = mustBeDense(call.path, this.#algorithm, as);
      const options = { name: matrixName(problem, name), isDense, isResult: as === "d", scratch: this.#scratch };
      return new Stage(runtime, matrix, given, options);
    };
    const { a, b, c } = matricesOf(problem, call);
    this.#stages = {
      a: stage(a, call.a, "a", names[0]),
      b: stage(b, call.b, "b", names[1]),
      c: c && stage(c, call.c!, "c"),
      d: stage(problem.d, call.d, "d"),
    };
    this.#scales = new ProductScales(runtime, request, call, this.#scratch);
    this.#epilog = new EpilogArrays(runtime, request, call, this.#scales);
  }

  /** Make descriptors and grids, and have the workspace. Collective. */
  open(): void {
    this.#resources = cublasMpResources(this.#runtime);
    this.#native = new NativeProduct(this.#runtime, this.#request, this.#call, this.#algorithm, (descriptor) => {
      this.#epilog.describe(descriptor);
      this.#scales.describe(descriptor);
    });
    const closed = Object.values(this.#stages).filter((stage) => stage?.reserve() === false);
    if (closed.length === 0) return;
    for (const stage of closed) stage!.open();
    agreeStrictly(this.#runtime, "Matmul.plan", () => closed.forEach((stage) => void stage!.reserve()));
  }

  get workspaceBytes(): number {
    const held = [...Object.values(this.#stages), this.#scales, this.#scratch, this.#native?.workspace];
    return held.reduce((sum, memory) => sum + (memory?.byteLength ?? 0), 0);
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
      (stream === null || stream === own)
    ) {
      const { d } = operands;
      if (this.#runtime.checks === "collective") checkAlive(last);
      const isInPlace = d === last.c && last.inPlace !== null;
      if (isInPlace || d.strides[0] === last.strides[0] && d.strides[1] === last.strides[1]) {
        return () => {
          this.#resources.settle();
          recordSpan(own, SPAN, () => {
            const code = last.call(isInPlace ? last.inPlace! : d.address);
            if (code !== 0) checkCublasMp(code, "cublasMpMatmul");
          });
          return NOTHING;
        };
      }
    }
    return this.#prepareOn(stream ?? own, operands, values);
  }

  predict(): AlgorithmTimes | null {
    return sendingRate(this.#runtime) === null ? null : this.#times();
  }

  release(): void {
    this.#repeatable = null;
    this.#values = null;
    this.#scales.release();
  }

  [Symbol.dispose](): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.#repeatable = null;
    this.#native?.[Symbol.dispose]();
    const held = [...Object.values(this.#stages), this.#scales, this.#epilog, this.#scratch];
    for (const memory of held) memory?.free();
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
      input: values === this.#values ? null : this.#epilog.prepareInput(values.epilog),
      outputs: this.#epilog.prepareOutputs(),
      bringScales: this.#scales.prepare(values.scales),
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
    const native = this.#native!;
    const isStaged = [a, b, c, d].some((staged) => staged?.bring) || bringScales !== null;
    this.#repeatable = null;
    // Elements are brought on the runtime's stream, between what is on the other one before and after.
    const areNew = values !== this.#values;
    // Other scales and bias are written where a product on another stream may still read those before.
    if (areNew) this.#resources.settle();
    const isAddend = c !== null && isZero(values.alpha) && isOne(values.beta);
    if (isStaged || areNew || isAddend) own.wait(on);
    for (const staged of [a, b, c]) staged?.bring?.();
    const brought = { a: a.local, b: b.local, c: c && c.local, d: d.local };
    const given = isAddend ? withAddendInPlace(brought) : brought;
    // What is gathered is B.
    if (this.#call.path === "all_gather") native.shareB(given.b);
    if (areNew) this.#bindValues(native, values, c !== null, input);
    bringScales?.();
    if (outputs) this.#epilog.bindOutputs(native.descriptor, outputs);
    this.#resources.begin(on);
    try {
      recordSpan(on, SPAN, () => {
        if (this.#isObserved) native.multiply(given, on);
        else this.#firstTime(native, given, on);
      });
    } finally {
      this.#resources.end(on);
    }
    const isDirect = !isStaged && given.c === brought.c && !hasExtraOutputs(this.#request.epilog);
    if (on !== own) {
      // What follows on the runtime's stream reads D, or writes what the product has read.
      if (!isDirect) this.#resources.settle();
    } else if (isDirect) {
      const { a, b, c, d } = operands;
      const call = native.prepareCall(given, on);
      this.#repeatable = { a, b, c, values, strides: d.strides, call, inPlace: d === c ? d.address : null };
    }
    d.bring?.();
    const finished = outputs ? this.#epilog.finish(outputs) : NOTHING;
    if (d.bring || outputs) on.wait(own);
    return finished;
  }

  #bindValues(native: NativeProduct, values: EngineValues, hasAddend: boolean, input: AdaptedInput | null): void {
    this.#values = values;
    native.setScalars(values.alpha, hasAddend ? values.beta : 0);
    this.#scales.bind(values);
    if (input) this.#epilog.bindInput(native.descriptor, input);
  }

  /** Run, and learn from the log what ran. */
  #firstTime(native: NativeProduct, given: GivenOperands, stream: Stream): void {
    this.#observed = observe(this.#resources.symbols, () => native.multiply(given, stream));
    this.#isObserved = true;
    for (const note of this.#notes()) this.#runtime.warnOnce(note, note);
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
}

/** With alpha = 0 and beta = 1 cuBLASMp writes nothing, as if C lay where D does: see to it that it does. */
function withAddendInPlace(given: GivenOperands): GivenOperands {
  const { c, d } = given;
  if (c === null || c.address === d.address || c.dtype !== d.dtype || isQuantized(d.dtype)) return given;
  d.set(c);
  return { ...given, c: d };
}
