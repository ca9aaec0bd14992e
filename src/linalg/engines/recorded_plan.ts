/**
 * A plan of which it turns out, once all ranks have it, whether another one was measured to be faster on this machine.
 *
 * @module
 */
import type { AlgorithmTimes } from "../../array/host_model.ts";
import type { CommunicationMatrix } from "../../distribution/mod.ts";
import type { Stream } from "../../gpu/stream.ts";
import { agree } from "../../runtime/agreement.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { EpilogValues } from "../matmul/epilog.ts";
import type { LocalOperands } from "../matmul/problem.ts";
import type { AlgorithmReport, EnginePlan, EngineValues, TimelineSteps } from "./engine.ts";

/** A plan by what was measured, and how long that took. */
export interface FasterPlan {
  /** Make it; null if it is the one that there is. Local. */
  readonly make: (() => EnginePlan) | null;
  /** The time of an execution, in seconds. */
  readonly seconds: number;
}

/** A plan that may be replaced when it is opened. */
export class RecordedPlan implements EnginePlan {
  readonly #runtime: Runtime;
  readonly #lookUp: () => FasterPlan | null;
  #plan: EnginePlan;
  #seconds: number | null = null;

  /** `lookUp` is collective, and finds the same on all ranks. */
  constructor(runtime: Runtime, plan: EnginePlan, lookUp: () => FasterPlan | null) {
    this.#runtime = runtime;
    this.#plan = plan;
    this.#lookUp = lookUp;
  }

  get workspaceBytes(): number {
    return this.#plan.workspaceBytes;
  }

  get report(): AlgorithmReport {
    const { report } = this.#plan;
    const measured = this.#seconds;
    return measured === null || !report.times ? report : { ...report, times: { ...report.times, measured } };
  }

  open(): void {
    const faster = this.#lookUp();
    if (faster !== null) this.#seconds = faster.seconds;
    if (faster?.make) {
      let next!: EnginePlan;
      agree(this.#runtime, "Matmul.plan", () => {
        next = faster.make!();
      });
      this.#plan[Symbol.dispose]();
      this.#plan = next;
    }
    this.#plan.open();
  }

  prepare(operands: LocalOperands, values: EngineValues, stream: Stream | null = null): () => EpilogValues {
    const plan = this.#plan;
    const execute = plan.prepare(operands, values, stream);
    return () => {
      if (plan === this.#plan) return execute();
      let other!: () => EpilogValues;
      agree(this.#runtime, "Matmul.execute", () => {
        other = this.#plan.prepare(operands, values, stream);
      });
      return other();
    };
  }

  timeline(operands: LocalOperands, values: EngineValues): TimelineSteps | null {
    return this.#plan.timeline?.(operands, values) ?? null;
  }

  /** Null if the library of the plan does not tell. */
  communication(): CommunicationMatrix | null {
    return this.#plan.communication?.() ?? null;
  }

  predict(): AlgorithmTimes | null {
    const times = this.#plan.predict?.() ?? null;
    return times && this.#seconds !== null ? { ...times, measured: this.#seconds } : times;
  }

  release(): void {
    this.#plan.release?.();
  }

  [Symbol.dispose](): void {
    this.#plan[Symbol.dispose]();
  }
}
