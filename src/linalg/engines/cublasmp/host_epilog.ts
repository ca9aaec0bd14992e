/**
 * Epilogs that cuBLASMp does not have for a product: the product is computed on the GPUs in full precision, and the epilog
 * follows on the host, as on CPUs. Slow, and said so in reports.
 *
 * @module
 */
import type { DType } from "../../../dtype/dtype.ts";
import { decode, encode } from "../../../dtype/narrow_floats.ts";
import type { AlgorithmTimes } from "../../../array/host_model.ts";
import { LocalArray } from "../../../array/local_array.ts";
import { copyFromDevice, prepareCopies } from "../../../memory/copy.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import type { Stream } from "../../../gpu/stream.ts";
import { describeEpilog, type Epilog, type EpilogValues, mapValues } from "../../matmul/epilog.ts";
import type { LocalOperands, MatmulProblem } from "../../matmul/problem.ts";
import { prepareOnAllRanks } from "../host/epilog.ts";
import type { AlgorithmReport, EnginePlan, EngineRequest, EngineValues } from "../engine.ts";
import { KeptArray } from "../kept_array.ts";

/** The same product without its epilog, in the type in which it is summed. */
export function withoutEpilog(request: EngineRequest): EngineRequest {
  const { problem, epilog, settings } = request;
  const { accumulator, c, d } = problem;
  const { computeType, ...others } = settings ?? {};
  const isNarrow = computeType?.startsWith("float16");
  return {
    ...request,
    problem: { ...problem, c: c && { ...c, dtype: accumulator }, d: { ...d, dtype: accumulator } },
    epilog: describeEpilog("none", { auxDType: epilog.auxDType }),
    settings: { ...others, ...computeType && !isNarrow && { computeType } },
  };
}

/** A local part on the host as numbers of another type, column-major. */
function onHost(local: LocalArray, dtype: DType): LocalArray {
  const host = local.toHost("F");
  if (host.dtype === dtype) return host;
  const wide = LocalArray.zeros(dtype, host.shape, "F");
  decode(host.dtype, host.data, wide.data as Float32Array<ArrayBuffer>);
  return wide;
}

export class HostEpilogPlan implements EnginePlan {
  readonly #runtime: Runtime;
  readonly #problem: MatmulProblem;
  readonly #epilog: Epilog;
  readonly #product: EnginePlan;
  /** C in the type in which the product is summed, and D: there, then on the host, then rounded. */
  readonly #c: KeptArray;
  readonly #d: KeptArray;
  readonly #block: LocalArray;
  readonly #rounded: LocalArray;
  /** For a D with gaps between its columns. */
  readonly #dense: KeptArray;

  /** `product` is the plan of {@linkcode withoutEpilog}. */
  constructor(runtime: Runtime, { problem, epilog }: EngineRequest, product: EnginePlan) {
    const { accumulator, d } = problem;
    const shape = d.distribution.localShape(runtime.rank);
    this.#runtime = runtime;
    this.#problem = problem;
    this.#epilog = epilog;
    this.#product = product;
    [this.#c, this.#d, this.#dense] = [1, 2, 3].map(() => new KeptArray(runtime.stream!));
    this.#d.have(accumulator, shape, "F");
    if (problem.c && problem.c.dtype !== accumulator) this.#c.have(accumulator, shape, "F");
    this.#block = LocalArray.zeros(accumulator, shape, "F");
    this.#rounded = d.dtype === accumulator ? this.#block : LocalArray.zeros(d.dtype, shape, "F");
    prepareCopies(this.#block.byteLength);
  }

  get workspaceBytes(): number {
    const { byteLength } = this.#rounded;
    return [this.#c, this.#d, this.#dense, this.#block].reduce(
      (sum, memory) => sum + memory.byteLength,
      this.#product.workspaceBytes + (this.#rounded === this.#block ? 0 : byteLength),
    );
  }

  get report(): AlgorithmReport {
    const { copies, notes, ...others } = this.#product.report;
    const { name } = this.#epilog;
    return {
      ...others,
      workspaceBytes: this.workspaceBytes,
      copies: [...copies, `D copied to the host for the epilog ${name === "none" ? "resultAmax" : name}, and back`],
      notes: [...notes, "cuBLASMp does not have this epilog for these types and distributions: the CPU applies it"],
    };
  }

  open(): void {
    this.#product.open();
  }

  prepare(operands: LocalOperands, values: EngineValues, stream: Stream | null = null): () => EpilogValues {
    const own = this.#runtime.stream!;
    const { accumulator } = this.#problem;
    const isElsewhere = stream !== null && stream !== own;
    if (isElsewhere) own.wait(stream);
    const d = this.#d.have(accumulator, operands.d.shape, "F");
    const c = operands.c && this.#c.converted(operands.c, accumulator);
    const multiply = this.#product.prepare({ ...operands, c, d }, values, stream);
    const inputs = mapValues(values.epilog, (input) => input.toHost("F"));
    const epilog = prepareOnAllRanks(this.#runtime, this.#problem, this.#epilog, this.#block, inputs, (name) => ({
      local: onHost(operands[name], accumulator),
      distribution: this.#problem[name].distribution,
    }));
    const outputs = mapValues(epilog.outputs, ({ dtype, shape }) => LocalArray.empty(dtype, shape, "F", own));
    const store = this.#prepareStore(operands.d);
    return () => {
      multiply();
      if (isElsewhere) own.wait(stream);
      copyFromDevice(this.#block.view(), d.address, own);
      epilog.apply();
      for (const [name, output] of Object.entries(outputs)) {
        (output as LocalArray).set(epilog.outputs[name as keyof EpilogValues]!);
      }
      store(values.scales.d ?? 1);
      if (isElsewhere) stream.wait(own);
      return outputs;
    };
  }

  predict(): AlgorithmTimes | null {
    return this.#product.predict?.() ?? null;
  }

  release(): void {
    this.#product.release?.();
  }

  [Symbol.dispose](): void {
    this.#product[Symbol.dispose]();
    for (const memory of [this.#c, this.#d, this.#dense]) memory.free();
  }

  /** Get ready to round the result to D's type, times a factor, and to bring it there. */
  #prepareStore(d: LocalArray): (scale: number) => void {
    const near = !d.isOnDevice || d.isDense("F") ? d : this.#dense.have(d.dtype, d.shape, "F");
    return (scale) => {
      if (this.#rounded !== this.#block) {
        const data = this.#block.view() as Float32Array<ArrayBuffer>;
        if (scale !== 1) { for (let i = 0; i < data.length; i++) data[i] *= scale; }
        encode(d.dtype, data, this.#rounded.view());
      }
      near.set(this.#rounded);
      if (near !== d) d.set(near);
    };
  }
}
