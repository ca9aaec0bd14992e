/**
 * Epilogs that cuBLASMp does not have for a product: the product is computed on the GPUs in full precision, and the epilog
 * follows on the host, as on CPUs. Slow, and said so in reports.
 *
 * @module
 */
import type { DType } from "../../../dtype/dtype.ts";
import { decode, encode } from "../../../dtype/narrow_floats.ts";
import { LocalArray } from "../../../array/local_array.ts";
import { agree } from "../../../runtime/agreement.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import type { Stream } from "../../../gpu/stream.ts";
import { describeEpilog, type Epilog, type EpilogValues, mapValues } from "../../matmul/epilog.ts";
import type { LocalOperands, MatmulProblem } from "../../matmul/problem.ts";
import { applyOnAllRanks } from "../host/epilog.ts";
import type { AlgorithmReport, EnginePlan, EngineRequest, EngineValues } from "../engine.ts";

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

/** A plan for the product, and an epilog on the host. */
export class HostEpilogPlan implements EnginePlan {
  readonly #runtime: Runtime;
  readonly #problem: MatmulProblem;
  readonly #epilog: Epilog;
  readonly #product: EnginePlan;

  /** `product` is the plan of {@linkcode withoutEpilog}. */
  constructor(runtime: Runtime, { problem, epilog }: EngineRequest, product: EnginePlan) {
    this.#runtime = runtime;
    this.#problem = problem;
    this.#epilog = epilog;
    this.#product = product;
  }

  get workspaceBytes(): number {
    return this.#product.workspaceBytes;
  }

  get report(): AlgorithmReport {
    const { copies, notes, ...others } = this.#product.report;
    const { name } = this.#epilog;
    return {
      ...others,
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
    const d = LocalArray.empty(accumulator, operands.d.shape, "F", own);
    const c = operands.c && this.#widened(operands.c);
    const multiply = this.#product.prepare({ ...operands, c, d }, values, stream);
    return () => {
      try {
        multiply();
        if (stream !== null && stream !== own) own.wait(stream);
        return this.#apply(d, operands, values);
      } finally {
        d.release();
        if (c !== operands.c) c?.release();
      }
    };
  }

  release(): void {
    this.#product.release?.();
  }

  [Symbol.dispose](): void {
    this.#product[Symbol.dispose]();
  }

  #widened(local: LocalArray): LocalArray {
    const { accumulator } = this.#problem;
    if (local.dtype === accumulator) return local;
    const wide = LocalArray.empty(accumulator, local.shape, "F", this.#runtime.stream);
    wide.set(local);
    return wide;
  }

  /** Round to D's type, times a factor. */
  #store(block: LocalArray, d: LocalArray, scale: number): void {
    if (d.dtype === block.dtype) return d.set(block);
    const data = block.data as Float32Array<ArrayBuffer>;
    if (scale !== 1) { for (let i = 0; i < data.length; i++) data[i] *= scale; }
    const { shape, strides } = block;
    d.set(new LocalArray({ data: encode(d.dtype, data), dtype: d.dtype, shape, strides }));
  }

  /** Apply the epilog to the product on the host, and bring the results back; each step once all ranks have done it. */
  #apply(product: LocalArray, operands: LocalOperands, { epilog, scales }: EngineValues): EpilogValues {
    const runtime = this.#runtime;
    const problem = this.#problem;
    let block!: LocalArray;
    let inputs!: EpilogValues;
    agree(runtime, "Matmul.execute", () => {
      block = onHost(product, problem.accumulator);
      inputs = mapValues(epilog, (input) => input.toHost("F"));
    });
    const onHosts = applyOnAllRanks(runtime, problem, this.#epilog, block, inputs, (name) => ({
      local: onHost(operands[name], problem.accumulator),
      distribution: problem[name].distribution,
    }));
    let outputs!: EpilogValues;
    agree(runtime, "Matmul.execute", () => {
      outputs = mapValues(onHosts, (output) => output.toDevice(runtime.stream!, "F"));
      this.#store(block, operands.d, scales.d ?? 1);
    });
    return outputs;
  }
}
