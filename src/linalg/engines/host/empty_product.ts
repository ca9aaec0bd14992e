/**
 * Products without elements to multiply: D = epilog(beta C), for every engine. No library is called, and the host does it
 * also where matrices are on GPUs.
 *
 * @module
 */
import type { CommunicationMatrix } from "../../../distribution/mod.ts";
import { dtypeInfo } from "../../../dtype/dtype.ts";
import { LocalArray } from "../../../array/local_array.ts";
import { agree } from "../../../runtime/agreement.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import type { Stream } from "../../../gpu/stream.ts";
import { type EpilogValues, mapValues } from "../../matmul/epilog.ts";
import type { LocalOperands, MatmulProblem } from "../../matmul/problem.ts";
import type { AlgorithmReport, EnginePlan, EngineRequest, EngineValues } from "../engine.ts";
import { isNothing, type ScalarArgument } from "../../../blas/arguments.ts";
import { scalarOf } from "./block_scaling.ts";
import { HostPlan, type Multiplier } from "./plan.ts";
import { type Strategy, withMoves } from "./strategy.ts";

/** All matrices stay, but C is brought to D. */
export function emptyStrategy(problem: MatmulProblem): Strategy {
  const [a, b, d] = [problem.a.distribution, problem.b.distribution, problem.d.distribution];
  return withMoves(problem, { algorithm: "none", a, b, d, traffic: 0 });
}

/** The plan of an empty product for an engine of this name. Local. */
export function planEmptyProduct(runtime: Runtime, request: EngineRequest, engine: string): EnginePlan {
  const strategy = { ...emptyStrategy(request.problem), variant: "nothing to multiply" };
  const plan = new HostPlan(engine, runtime, request, strategy, SCALING, null);
  return runtime.stream === null ? plan : new OnHost(runtime, plan);
}

/** d = beta d. */
const SCALING: Multiplier = {
  workspaceBytes: 0,
  open(): void {},
  prepare(): void {},
  multiply(_a, _b, d, _alpha, beta): void {
    if (isNothing(beta)) d.fill(0);
    else scale(d, beta);
  },
  [Symbol.dispose](): void {},
};

function scale({ data, dtype, shape, strides, offset }: LocalArray, { values: [re, im] }: ScalarArgument): void {
  const { parts } = dtypeInfo(dtype);
  const numbers = data as Float64Array;
  for (let j = 0; j < shape[1]; j++) {
    for (let i = 0; i < shape[0]; i++) {
      const at = (offset + i * strides[0] + j * strides[1]) * parts;
      const [x, y] = [numbers[at], parts === 2 ? numbers[at + 1] : 0];
      // Without an imaginary part an infinite element does not become NaN.
      numbers[at] = im === 0 ? re * x : re * x - im * y;
      if (parts === 2) numbers[at + 1] = im === 0 ? re * y : re * y + im * x;
    }
  }
}

/** A plan for the memory of the host, on matrices in that of a GPU. */
class OnHost implements EnginePlan {
  readonly #plan: EnginePlan;
  readonly #runtime: Runtime;

  constructor(runtime: Runtime, plan: EnginePlan) {
    this.#runtime = runtime;
    this.#plan = plan;
  }

  get workspaceBytes(): number {
    return this.#plan.workspaceBytes;
  }

  communication(): CommunicationMatrix | null {
    return this.#plan.communication!();
  }

  get report(): AlgorithmReport {
    const { notes, ...others } = this.#plan.report;
    return { ...others, notes: [...notes, "the CPU makes D, and copies it to the GPU"] };
  }

  open(): void {
    this.#plan.open();
  }

  prepare(operands: LocalOperands, values: EngineValues, stream: Stream | null = null): () => EpilogValues {
    const own = this.#runtime.stream!;
    if (stream !== null && stream !== own) own.wait(stream);
    const [a, b] = [operands.a.toHost("F"), operands.b.toHost("F")];
    const c = operands.c && operands.c.toHost("F");
    const d = LocalArray.empty(operands.d.dtype, operands.d.shape, "F");
    const epilog = mapValues(values.epilog, (input) => input.toHost("F"));
    // There are no elements that arrays of scales, which are on the GPU, would multiply.
    const scales = { ...values.scales, a: scalarOf(values.scales.a), b: scalarOf(values.scales.b) };
    const make = this.#plan.prepare({ a, b, c, d }, { ...values, epilog, scales });
    return () => {
      const onHost = make();
      let outputs!: EpilogValues;
      agree(this.#runtime, "Matmul.execute", () => {
        outputs = mapValues(onHost, (output) => output.toDevice(own, "F"));
        operands.d.set(d);
      });
      if (stream !== null && stream !== own) stream.wait(own);
      return outputs;
    };
  }

  [Symbol.dispose](): void {
    this.#plan[Symbol.dispose]();
  }
}
