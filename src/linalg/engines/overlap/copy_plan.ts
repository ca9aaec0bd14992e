/**
 * A product by cuBLASLt and copy engines, as a plan.
 *
 * @module
 */
import { ratesInWords } from "../../../array/gpu_model.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import { isZero } from "../../../blas/arguments.ts";
import { inMemory, type MatrixInMemory } from "../../../blas/gemm.ts";
import { CommunicationMatrix } from "../../../distribution/mod.ts";
import type { DType } from "../../../dtype/dtype.ts";
import { RunOrder } from "../../../gpu/run_order.ts";
import type { Stream } from "../../../gpu/stream.ts";
import { prepareFlags } from "../../../gpu/kernels/flag_kernels.ts";
import type { CopyEngineOperands } from "../../../overlap/executors/copy_engine/product.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import type { EpilogValues } from "../../matmul/epilog.ts";
import { type LocalOperands, matrixName } from "../../matmul/problem.ts";
import { isQuantized } from "../../matmul/quantization.ts";
import { bytesBetween } from "../product_traffic.ts";
import type { Use } from "../communicator_resources.ts";
import type { AlgorithmReport, EnginePlan, EngineRequest, EngineValues, TimelineSteps } from "../engine.ts";
import { describeOneDimensional } from "../host/one_dimensional.ts";
import { KeptArray } from "../kept_array.ts";
import { ratesOf } from "../machine_rates.ts";
import { type SharedCopies, useCopyProduct } from "./copy_products.ts";
import { copySeconds, type CopyStrategy, copyTraffic, predictCopies } from "./copy_strategy.ts";

const NOTHING: EpilogValues = Object.freeze({});

const NAMES = ["a", "b", "c", "d"] as const;

type Name = typeof NAMES[number];

/** An execution in order: what is copied first, what runs, what is copied then. */
interface Ready {
  readonly operands: CopyEngineOperands;
  readonly before: readonly Copying[];
  readonly after: readonly Copying[];
  /** Which matrices are copied. */
  readonly copied: readonly Name[];
}

/** Copies one of the matrices that it is given: others may lie where that was which it was made for. */
type Copying = (locals: LocalOperands) => void;

/** Where matrices lie; null for one that there is not. Memory that was freed refuses to tell its address. */
type Given = readonly (Pick<LocalArray, "address" | "strides"> | null)[];

function isSame(some: Given, others: Given): boolean {
  return some.every((one, i) => {
    const other = others[i];
    if (one === null || other === null) return one === other;
    const [first, second] = one.strides;
    return one.address === other.address && first === other.strides[0] && second === other.strides[1];
  });
}

/** A product by cuBLASLt and copy engines. */
export class CopyPlan implements EnginePlan {
  readonly #runtime: Runtime;
  readonly #request: EngineRequest;
  readonly #strategy: CopyStrategy;
  /** Copies of what cuBLASLt does not take where it is. */
  readonly #kept: Readonly<Record<Name, KeptArray>>;
  #shared: Use<SharedCopies> | null = null;
  #recent: { readonly given: Given; readonly ready: Ready } | null = null;
  /** What the last execution copied: others had operands that lay otherwise. */
  #copied: readonly Name[] = [];

  /** Plan it. Local. */
  constructor(runtime: Runtime, request: EngineRequest, strategy: CopyStrategy) {
    const stream = runtime.stream!;
    this.#runtime = runtime;
    this.#request = request;
    this.#strategy = strategy;
    this.#kept = {
      a: new KeptArray(stream),
      b: new KeptArray(stream),
      c: new KeptArray(stream),
      d: new KeptArray(stream),
    };
    // What one rank may fail at alone: to compile.
    prepareFlags(stream);
  }

  get workspaceBytes(): number {
    return NAMES.reduce((sum, name) => sum + this.#kept[name].byteLength, this.#shared?.value.byteLength ?? 0);
  }

  get choice(): string {
    return this.#strategy.name;
  }

  get report(): AlgorithmReport {
    const { problem } = this.#request;
    const { strategy, name, problemOf } = this.#strategy;
    const { sumType } = problemOf(0);
    return {
      engine: "overlap",
      algorithm: strategy.algorithm,
      variant: `${describeOneDimensional(problem, strategy)}; ${name}`,
      workspaceBytes: this.workspaceBytes,
      bytesMoved: copyTraffic(this.#strategy, problem),
      copies: this.#copied.map((name) =>
        `${matrixName(problem, name)} copied on each rank, since its columns do not lie as cuBLASLt takes them`
      ),
      times: { ...copySeconds(this.#strategy, ratesOf(this.#runtime)), basis: ratesInWords(this.#runtime) },
      notes: [
        ...strategy.travels === "d" ? [`partial sums travel in ${sumType}`] : [],
        ...this.#shared?.value.product.notes ?? [],
      ],
    };
  }

  communication(): CommunicationMatrix {
    const { problem } = this.#request;
    return new CommunicationMatrix(
      bytesBetween(problem, this.#strategy.strategy, copyTraffic(this.#strategy, problem)),
    );
  }

  open(): void {
    this.#shared = useCopyProduct(this.#runtime, this.#strategy);
  }

  prepare(locals: LocalOperands, values: EngineValues, stream: Stream | null = null): () => EpilogValues {
    const own = this.#runtime.stream!;
    const on = stream ?? own;
    this.#shared?.value.product.checkEnded();
    const { operands, before, after, copied } = this.#ready(locals, values);
    const isStaged = before.length + after.length > 0;
    return () => {
      const { product, scales } = this.#shared!.value;
      this.#copied = copied;
      // Elements are copied on the runtime's stream, between what is on the other one before and after.
      if (isStaged && on !== own) own.wait(on);
      if (isStaged) product.settle();
      for (const copy of before) copy(locals);
      if (scales !== null) {
        RunOrder.of(own).begin(on);
        scales.set(values.scales, on);
      }
      product.execute(operands, values.alpha, values.beta, on);
      if (after.length > 0) product.settle();
      for (const copy of after) copy(locals);
      if (isStaged && on !== own) on.wait(own);
      return NOTHING;
    };
  }

  timeline(locals: LocalOperands, values: EngineValues): TimelineSteps {
    const { operands, before } = this.#ready(locals, values);
    return {
      predicted: predictCopies(this.#strategy, ratesOf(this.#runtime)),
      run: () => {
        const { product, scales } = this.#shared!.value;
        // A run before, on another stream, still reads what is written here.
        product.settle();
        for (const copy of before) copy(locals);
        scales?.set(values.scales, this.#runtime.stream!);
        return product.trace(operands, values.alpha, values.beta);
      },
    };
  }

  release(): void {
    this.#recent = null;
  }

  [Symbol.dispose](): void {
    this.#shared?.value.product.settle();
    this.#shared?.[Symbol.dispose]();
    this.#shared = null;
    this.#recent = null;
    for (const kept of Object.values(this.#kept)) kept.free();
  }

  #ready({ a, b, c, d }: LocalOperands, { beta }: EngineValues): Ready {
    const added = c === null || isZero(beta) ? null : c;
    const given = [a, b, added, d].map((local) => local && { address: local.address, strides: local.strides });
    if (this.#recent !== null && isSame(this.#recent.given, given)) return this.#recent.ready;
    const before: Copying[] = [];
    const after: Copying[] = [];
    const copied: Name[] = [];
    const read = (name: Name, local: LocalArray): MatrixInMemory => {
      if (this.#takes(local)) return inMemory(local);
      const copy = this.#kept[name].have(local.dtype, local.shape, "F");
      before.push((locals) => copy.set(locals[name]!));
      copied.push(name);
      return inMemory(copy);
    };
    const write = (local: LocalArray): MatrixInMemory => {
      if (this.#takes(local)) return inMemory(local);
      const copy = this.#kept.d.have(local.dtype, local.shape, "F");
      after.push((locals) => locals.d.set(copy));
      copied.push("d");
      return inMemory(copy);
    };
    const operands = { a: read("a", a), b: read("b", b), c: added && read("c", added), d: write(d) };
    const ready = { operands, before, after, copied };
    // Memory for copies is freed where ranks do not agree on the execution.
    this.#recent = before.length + after.length > 0 ? null : { given, ready };
    return ready;
  }

  /** Whether cuBLASLt takes a matrix where it is. */
  #takes(local: LocalArray): boolean {
    const { isOnDevice, shape, strides, address, size } = local;
    if (!isOnDevice) return false;
    if (size === 0) return true;
    if (strides[0] !== 1 || strides[1] < shape[0]) return false;
    return !isQuantized(this.#request.problem.a.dtype as DType) || (address % 16n === 0n && strides[1] % 16 === 0);
  }
}
