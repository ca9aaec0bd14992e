/**
 * The steps of a transform with what each of them needs: what moves, or what transforms.
 *
 * @module
 */
import type { Order } from "../../../array/layout.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import { Scratch } from "../../../array/redistribution/gpu_executor.ts";
import { Redistributor } from "../../../array/redistribution/redistributor.ts";
import type { DType } from "../../../dtype/dtype.ts";
import { complexOf } from "../../../dtype/promotion.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import type { FFTDirection, FFTPrecision } from "../../problem.ts";
import type { RouteStep } from "../../steps.ts";
import { LocalTransform } from "./local_transform.ts";
import type { Transformer } from "./transformer.ts";

type Transforms = Readonly<Record<FFTDirection, LocalTransform>>;

/** A step, ready to be prepared for arrays. */
export interface Operation extends Disposable {
  readonly step: RouteStep;
  /** The dtypes before and after it. */
  readonly source: DType;
  readonly target: DType;
  /** What moves, if it is a move. */
  readonly move?: Redistributor;
  /** What transforms, by direction, if it is a transform. */
  readonly transforms?: Transforms;
  /** The same for parts of it. */
  readonly partTransforms?: Transforms;
  prepare(source: LocalArray, target: LocalArray, direction: FFTDirection): () => void;
}

/** Plan them. Local; what moves shares memory. */
export function operationsFor(
  runtime: Runtime,
  steps: readonly RouteStep[],
  { precision, order }: { readonly precision: FFTPrecision; readonly order: Order },
  transformer: Transformer,
): readonly Operation[] {
  const scratch = new Scratch();
  const complex = complexOf(precision);
  return steps.map((step): Operation => {
    if (step.kind === "move") {
      const redistributor = new Redistributor(runtime, step.from, step.to, { scratch });
      const dtype = step.isReal ? precision : complex;
      return {
        step,
        source: dtype,
        target: dtype,
        move: redistributor,
        prepare: (source, target) => redistributor.prepare(source, target, order),
        [Symbol.dispose]: () => redistributor.free(),
      };
    }
    if (step.kind === "twiddle") {
      const multiply = transformer.roots(step.length);
      const first = step.from.ranges(runtime.rank)[1][0]?.[0] ?? 0;
      return {
        step,
        source: complex,
        target: complex,
        prepare: (array, _, direction) => () => multiply(array, first, direction),
        [Symbol.dispose]: () => {},
      };
    }
    if (step.kind === "reflect") {
      return {
        step,
        source: complex,
        target: complex,
        prepare: (source, target) => () => transformer.reflect(step, source, target),
        [Symbol.dispose]: () => {},
      };
    }
    const { type, axes } = step;
    const transformFor = (direction: FFTDirection) => new LocalTransform(transformer.passes, type, axes, direction);
    const both = (): Transforms => ({ forward: transformFor("forward"), inverse: transformFor("inverse") });
    const [transforms, partTransforms] = [both(), both()];
    return {
      step,
      source: type === "r2c" ? precision : complex,
      target: type === "c2r" ? precision : complex,
      transforms,
      partTransforms,
      prepare: (source, target, direction) => transforms[direction].prepare(source, target),
      [Symbol.dispose]: () => {
        for (const { forward, inverse } of [transforms, partTransforms]) {
          forward[Symbol.dispose]();
          inverse[Symbol.dispose]();
        }
      },
    };
  });
}
