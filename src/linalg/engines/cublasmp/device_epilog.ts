/**
 * Bias and activation that cuBLASMp does not have for a product: it is computed in full precision, and a kernel of its own
 * applies them to each element, rounds it and stores it into D.
 *
 * @module
 */
import { prepareStridedCopy } from "../../../array/on_device/copies.ts";
import type { AlgorithmTimes } from "../../../array/host_model.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import { dtypeInfo } from "../../../dtype/dtype.ts";
import { ELEMENT_TYPES, elementAccess } from "../../../gpu/kernels/array_kernels.ts";
import { blocksFor, Program } from "../../../gpu/kernels/program.ts";
import type { Stream } from "../../../gpu/stream.ts";
import { recordSpan } from "../../../runtime/recorder.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { type Activation, biasOf, type Epilog, type EpilogValues } from "../../matmul/epilog.ts";
import type { LocalOperands, MatmulProblem } from "../../matmul/problem.ts";
import type { AlgorithmReport, EnginePlan, EngineRequest, EngineValues } from "../engine.ts";
import { KeptArray } from "../kept_array.ts";
import { asVector } from "./epilog_arrays.ts";

/** The source, for tests that compile it without a GPU. */
export const POINTWISE_SOURCE = `${elementAccess}
// Strides of the bias are 0 along the dimension that it lacks; without a bias, address and strides are 0.
struct Pointwise {
  i64 rows, columns, sum, sumType, sumRow, sumColumn, d, dType, dRow, dColumn, bias, biasType, biasRow, biasColumn, activation;
  double scale;
};

enum Activation { NONE, RELU, GELU, GELU_ERF, SILU };

__device__ double activate(double x, i64 activation) {
  switch (activation) {
    case RELU: return x < 0 ? 0 : x;
    case GELU: return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case GELU_ERF: return 0.5 * x * erfc(-0.7071067811865476 * x);
    case SILU: return x / (1 + exp(-x));
    default: return x;
  }
}

// Threads that follow each other take what lies in sequence in D.
extern "C" __global__ void pointwise(const Pointwise p) {
  const bool isDown = p.dRow <= p.dColumn;
  const i64 step = (i64)gridDim.x * blockDim.x, inner = isDown ? p.rows : p.columns;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.rows * p.columns; i += step) {
    const i64 row = isDown ? i % inner : i / inner, column = isDown ? i / inner : i % inner;
    double x = load(p.sum, (int)p.sumType, row * p.sumRow + column * p.sumColumn);
    if (p.bias) x += load(p.bias, (int)p.biasType, row * p.biasRow + column * p.biasColumn);
    store(p.d, (int)p.dType, row * p.dRow + column * p.dColumn, activate(x, p.activation) * p.scale);
  }
}
`;

const program = new Program("pointwise", POINTWISE_SOURCE);

/** `Activation` of the source. */
const ACTIVATIONS: Readonly<Record<Activation, bigint>> = { none: 0n, relu: 1n, gelu: 2n, gelu_erf: 3n, silu: 4n };

/** Whether each element of D follows from one of the product, and a bias. */
export function isPointwise({ aux, biasGradient, resultAmax, name }: Epilog): boolean {
  return aux === "none" && biasGradient === "none" && !resultAmax && name !== "none";
}

/** A matrix or vector of real numbers in a kernel's argument. */
function wordsOf({ address, dtype, strides }: LocalArray): bigint[] {
  return [address, ELEMENT_TYPES[dtypeInfo(dtype).real as keyof typeof ELEMENT_TYPES], ...strides.map(BigInt)];
}

/** The plan of a product and what follows it. */
export class DeviceEpilogPlan implements EnginePlan {
  readonly #runtime: Runtime;
  readonly #problem: MatmulProblem;
  readonly #epilog: Epilog;
  readonly #product: EnginePlan;
  /** C in the type in which the product is summed, the product, and a bias that is given on the host. */
  readonly #c: KeptArray;
  readonly #sum: KeptArray;
  readonly #bias: KeptArray;
  /** D on its way to host memory. */
  readonly #d: KeptArray;

  /** `product` is the plan of the request without its epilog, in the type in which it is summed. */
  constructor(runtime: Runtime, { problem, epilog }: EngineRequest, product: EnginePlan) {
    this.#runtime = runtime;
    this.#problem = problem;
    this.#epilog = epilog;
    this.#product = product;
    [this.#c, this.#sum, this.#bias, this.#d] = [1, 2, 3, 4].map(() => new KeptArray(runtime.stream!));
    const shape = problem.d.distribution.localShape(runtime.rank);
    this.#sum.have(problem.accumulator, shape, "F");
    if (problem.c && problem.c.dtype !== problem.accumulator) this.#c.have(problem.accumulator, shape, "F");
  }

  get workspaceBytes(): number {
    const own = [this.#c, this.#sum, this.#bias, this.#d];
    return own.reduce((sum, { byteLength }) => sum + byteLength, this.#product.workspaceBytes);
  }

  get report(): AlgorithmReport {
    const { notes, ...others } = this.#product.report;
    const note = `cuBLASMp does not have the epilog ${this.#epilog.name} for these types, orders and distributions: ` +
      "a kernel of its own follows the product";
    return { ...others, workspaceBytes: this.workspaceBytes, notes: [...notes, note] };
  }

  open(): void {
    this.#product.open();
  }

  prepare(operands: LocalOperands, values: EngineValues, stream: Stream | null = null): () => EpilogValues {
    const own = this.#runtime.stream!;
    const { accumulator, transposed } = this.#problem;
    const isElsewhere = stream !== null && stream !== own;
    if (isElsewhere) own.wait(stream);
    const sum = this.#sum.have(accumulator, operands.d.shape, "F");
    const c = operands.c && this.#c.converted(operands.c, accumulator);
    const multiply = this.#product.prepare({ ...operands, c, d: sum }, values, stream);
    // C in host memory, written in place.
    const isNear = operands.d.isOnDevice;
    const d = isNear ? operands.d : this.#d.have(operands.d.dtype, operands.d.shape, "F");
    const [from, to] = transposed ? [sum.transpose(), d.transpose()] : [sum, d];
    const apply = this.#prepareEpilog(from, to, values);
    return () => {
      const outputs = multiply();
      if (isElsewhere) own.wait(stream);
      apply();
      if (!isNear) operands.d.set(d);
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
    for (const memory of [this.#c, this.#sum, this.#bias, this.#d]) memory.free();
  }

  /** Get ready to compute D, in the user's coordinates, from the product. */
  #prepareEpilog(sum: LocalArray, d: LocalArray, { epilog: inputs, scales }: EngineValues): () => void {
    // Complex numbers have no epilog but the sum over all ranks, and that is done.
    if (dtypeInfo(sum.dtype).isComplex) return prepareStridedCopy(sum, d);
    const own = this.#runtime.stream!;
    const { bias: along, activation } = this.#epilog;
    const given = biasOf(this.#epilog, inputs);
    const bias = given && wordsOf(asVector(this.#near(given)));
    const [address, type, stride] = bias ?? [0n, 0n, 0n];
    const biasWords = [address, type, ...along === "rows" ? [stride, 0n] : [0n, stride]];
    const [rows, columns] = d.shape;
    const words = [
      BigInt(rows),
      BigInt(columns),
      ...wordsOf(sum),
      ...wordsOf(d),
      ...biasWords,
      ACTIVATIONS[activation],
    ];
    program.function("pointwise", own.device);
    return () => {
      if (d.size === 0) return;
      recordSpan(own, { kind: "compute", label: "epilog" }, () => {
        program.launch("pointwise", own, blocksFor(d.size), [...words, Number(scales.d ?? 1)]);
      });
    };
  }

  #near(bias: LocalArray): LocalArray {
    if (bias.isOnDevice) return bias;
    const near = this.#bias.have(bias.dtype, bias.shape, "F");
    near.set(bias);
    return near;
  }
}
