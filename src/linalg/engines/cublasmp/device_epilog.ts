/**
 * Bias and activation that cuBLASMp does not have for a product: it is computed in full precision, and a kernel of its own
 * applies them to each element, rounds it and stores it into D.
 *
 * @module
 */
import { prepareOnDevice } from "../../../array/elementwise/device_kernel.ts";
import { CUDA } from "../../../array/elementwise/cuda.ts";
import { type Part, typeOf } from "../../../array/elementwise/elements.ts";
import { apply, compile, type Expression, operand } from "../../../array/elementwise/expression.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import type { Stream } from "../../../gpu/stream.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { type Activation, biasOf, type Epilog, type EpilogValues } from "../../matmul/epilog.ts";
import type { LocalOperands, MatmulProblem } from "../../matmul/problem.ts";
import type { AlgorithmReport, EnginePlan, EngineRequest, EngineValues } from "../engine.ts";
import { KeptArray } from "../kept_array.ts";
import { asVector } from "./epilog_arrays.ts";

/** Whether each element of D follows from one of the product, and a bias. */
export function isPointwise({ aux, biasGradient, resultAmax, name }: Epilog): boolean {
  return aux === "none" && biasGradient === "none" && !resultAmax && name !== "none";
}

/** What stands for numbers in an expression, collected beside it. */
class Numbers {
  readonly parts: { readonly scalar: number }[] = [];
  readonly #first: number;

  constructor(first: number) {
    this.#first = first;
  }

  of(scalar: number): Expression {
    return operand(this.#first + this.parts.push({ scalar }) - 1);
  }
}

type Formula = (x: Expression, n: (scalar: number) => Expression) => Expression;

const times = (...of: readonly [Expression, Expression]) => apply("multiply", ...of);

/** As in `epilog.ts`. */
const FORMULAS: Readonly<Record<Activation, Formula>> = {
  none: (x) => x,
  relu: (x, n) => apply("maximum", x, n(0)),
  gelu: (x, n) => {
    const cubic = times(n(0.044715), times(x, times(x, x)));
    const rise = apply("add", apply("tanh", times(n(Math.sqrt(2 / Math.PI)), apply("add", x, cubic))), n(1));
    return times(times(n(0.5), x), rise);
  },
  gelu_erf: (x, n) => times(times(n(0.5), x), apply("erfc", times(n(-Math.SQRT1_2), x))),
  silu: (x, n) => apply("divide", x, apply("add", apply("exp", apply("negative", x)), n(1))),
};

/** A vector along the rows, or the columns, of D. */
function spread(bias: LocalArray, isOfRows: boolean): Part {
  const { dtype, buffer, offset, strides: [stride] } = asVector(bias);
  return { storage: buffer, dtype, offset, strides: isOfRows ? [stride, 0] : [0, stride] };
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

  /** `product` is the plan of the request without its epilog, in the type in which it is summed. */
  constructor(runtime: Runtime, { problem, epilog }: EngineRequest, product: EnginePlan) {
    this.#runtime = runtime;
    this.#problem = problem;
    this.#epilog = epilog;
    this.#product = product;
    [this.#c, this.#sum, this.#bias] = [1, 2, 3].map(() => new KeptArray(runtime.stream!));
    const shape = problem.d.distribution.localShape(runtime.rank);
    this.#sum.have(problem.accumulator, shape, "F");
    if (problem.c && problem.c.dtype !== problem.accumulator) this.#c.have(problem.accumulator, shape, "F");
  }

  get workspaceBytes(): number {
    const own = [this.#c, this.#sum, this.#bias];
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
    const c = operands.c && this.#widened(operands.c);
    const multiply = this.#product.prepare({ ...operands, c, d: sum }, values, stream);
    const [from, to] = transposed ? [sum.transpose(), operands.d.transpose()] : [sum, operands.d];
    const apply = this.#prepareEpilog(from, to, values);
    return () => {
      const outputs = multiply();
      if (isElsewhere) own.wait(stream);
      apply();
      if (isElsewhere) stream.wait(own);
      return outputs;
    };
  }

  release(): void {
    this.#product.release?.();
  }

  [Symbol.dispose](): void {
    this.#product[Symbol.dispose]();
    for (const memory of [this.#c, this.#sum, this.#bias]) memory.free();
  }

  /** Get ready to compute D, in the user's coordinates, from the product. */
  #prepareEpilog(sum: LocalArray, d: LocalArray, { epilog: inputs, scales }: EngineValues): () => void {
    const { bias: along, activation } = this.#epilog;
    const bias = biasOf(this.#epilog, inputs);
    const vectors = bias ? [spread(this.#near(bias), along === "rows")] : [];
    const { dtype, buffer, offset, strides } = sum;
    const arrays: Part[] = [{ storage: buffer, dtype, offset, strides }, ...vectors];
    const numbers = new Numbers(arrays.length);
    const n = (scalar: number) => numbers.of(scalar);
    const biased = bias ? apply("add", operand(0), operand(1)) : operand(0);
    const activated = FORMULAS[activation](biased, n);
    const result = scales.d === undefined ? activated : times(activated, n(scales.d));
    const parts = [...arrays, ...numbers.parts];
    const target = { storage: d.buffer, dtype: d.dtype, offset: d.offset, strides: d.strides };
    return prepareOnDevice(compile(result, parts.map(typeOf), CUDA), parts, target, d.shape);
  }

  #near(bias: LocalArray): LocalArray {
    if (bias.isOnDevice) return bias;
    const near = this.#bias.have(bias.dtype, bias.shape, "F");
    near.set(bias);
    return near;
  }

  #widened(local: LocalArray): LocalArray {
    const { accumulator } = this.#problem;
    if (local.dtype === accumulator) return local;
    const wide = this.#c.have(accumulator, local.shape, "F");
    wide.set(local);
    return wide;
  }
}
