/**
 * Transforms of one rank's part by a library: along some axes of an array of any strides.
 *
 * @module
 */
import type { LocalArray } from "../../../array/local_array.ts";
import { dtypeInfo } from "../../../dtype/dtype.ts";
import type { FFTDirection, FFTType } from "../../problem.ts";
import { offsetsOf, type Pass, type PassLimits, planPasses } from "./passes.ts";

/** A library's plan for one pass. */
export interface PassPlan extends Disposable {
  /** Transform what begins at one address to what begins at another one. */
  execute(from: bigint, to: bigint): void;
}

/** What plans passes. */
export interface PassLibrary {
  /** What it takes at once. */
  readonly limits: PassLimits;
  /** Plan the passes from one array to another, which may be the same; later ones work on the second. */
  plan(passes: readonly Pass[], source: LocalArray, target: LocalArray, direction: FFTDirection): PassPlan[];
}

/** A pass with its plan, and where each call of it begins. */
interface PlannedPass {
  readonly pass: Pass;
  readonly plan: PassPlan;
  readonly sourceOffsets: readonly bigint[];
  readonly targetOffsets: readonly bigint[];
}

/** Transforms of parts of one shape. It keeps a plan for each layout that it has seen. */
export class LocalTransform implements Disposable {
  readonly #library: PassLibrary;
  readonly #type: FFTType;
  readonly #axes: readonly number[];
  readonly #direction: FFTDirection;
  readonly #planned = new Map<string, PlannedPass[]>();

  /** Nothing is planned before it is known where the elements lie. */
  constructor(library: PassLibrary, type: FFTType, axes: readonly number[], direction: FFTDirection) {
    this.#library = library;
    this.#type = type;
    this.#axes = axes;
    this.#direction = direction;
  }

  /**
   * Plan, unless it is planned; returns what transforms `source` to `target`, which may be the same. The source stays as
   * it is otherwise.
   */
  prepare(source: LocalArray, target: LocalArray): () => void {
    if (source.size === 0 || target.size === 0) return () => {};
    const isInPlace = source.address === target.address;
    const key = `${source.strides};${target.strides};${isInPlace}`;
    let passes = this.#planned.get(key);
    if (passes === undefined) this.#planned.set(key, passes = this.#plan(source, target));
    const calls = passes.map((planned) => callsOf(planned, source.address, target.address));
    return () => {
      for (const call of calls) call();
      // The calls know addresses only: the arrays have to stay alive for them.
      return void [source, target];
    };
  }

  /** Free all plans. */
  [Symbol.dispose](): void {
    for (const passes of this.#planned.values()) {
      for (const { plan } of passes) plan[Symbol.dispose]();
    }
    this.#planned.clear();
  }

  #plan(source: LocalArray, target: LocalArray): PlannedPass[] {
    const passes = planPasses(this.#type, this.#axes, source, target, this.#library.limits);
    const plans = this.#library.plan(passes, source, target, this.#direction);
    return passes.map((pass, i): PlannedPass => {
      const from = pass.isInPlace ? target : source;
      return {
        pass,
        plan: plans[i],
        sourceOffsets: offsetsOf(pass.called, "source", dtypeInfo(from.dtype).itemSize),
        targetOffsets: offsetsOf(pass.called, "target", dtypeInfo(target.dtype).itemSize),
      };
    });
  }
}

function callsOf({ pass, plan, sourceOffsets, targetOffsets }: PlannedPass, source: bigint, to: bigint): () => void {
  const from = pass.isInPlace ? to : source;
  if (sourceOffsets.length === 1) return () => plan.execute(from, to);
  const [starts, ends] = [sourceOffsets.map((offset) => from + offset), targetOffsets.map((offset) => to + offset)];
  return () => {
    for (let i = 0; i < starts.length; i++) plan.execute(starts[i], ends[i]);
  };
}
