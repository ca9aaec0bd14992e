/**
 * Transforms of one rank's part by a library: along some axes of an array of any strides.
 *
 * @module
 */
import { LocalArray } from "../../../array/local_array.ts";
import { type DType, dtypeInfo, type TypedArray } from "../../../dtype/dtype.ts";
import type { Stream } from "../../../gpu/stream.ts";
import { recordSpan } from "../../../runtime/recorder.ts";
import type { DeviceMemory } from "../../../memory/device_buffer.ts";
import type { FFTDirection, FFTType } from "../../problem.ts";
import { offsetsOf, type Pass, type PassLimits, planPasses } from "./pass_plan.ts";

/** A library's plan for one pass. */
export interface PassPlan extends Disposable {
  /** Who transforms, where there is a choice. */
  readonly library?: string;
  /** Transform what begins at one address to what begins at another one. */
  execute(from: bigint, to: bigint): void;
}

/** What plans passes. */
export interface PassLibrary {
  /** The stream of a GPU that it puts everything on; left out on CPUs. */
  readonly stream?: Stream;
  /** What it takes at once. */
  readonly limits: PassLimits;
  /** Bytes at multiples of which every call has to begin, where real numbers are laid out so. */
  readonly alignment: number;
  /** Bytes of which plans may know whether arrays begin at multiples of them. */
  readonly alignedAt: number;
  /** Whether it takes real numbers only that lie one after the other along the halved axis; left out if not. */
  readonly takesLines?: boolean;
  /**
   * Bytes that a call is worth: where calls along an axis between others have fewer, elements are moved to where one call does;
   * left out if calls cost nothing.
   */
  readonly worthOfCall?: number;
  /** Memory for numbers that have to be moved there. */
  allocate(dtype: DType, count: number): TypedArray | DeviceMemory;
  /** Copy elements to an array of the same shape. */
  copy(source: LocalArray, target: LocalArray): void;
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

/** Transforms of parts. It keeps a plan for each shape and layout that it has seen. */
export class LocalTransform implements Disposable {
  readonly #library: PassLibrary;
  readonly #type: FFTType;
  readonly #axes: readonly number[];
  readonly #direction: FFTDirection;
  readonly #planned = new Map<string, PlannedPass[]>();
  readonly #moved = new Map<string, LocalArray>();

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
    if (this.#type === "r2c" && !this.#isAligned(source, target, "source")) {
      const moved = this.#aligned(source, target);
      const transform = this.prepare(moved, target);
      return () => {
        this.#library.copy(source, moved);
        transform();
      };
    }
    if (this.#type === "c2r" && !this.#isAligned(source, target, "target")) {
      const moved = this.#aligned(target, source);
      const transform = this.prepare(source, moved);
      return () => {
        transform();
        this.#library.copy(moved, target);
      };
    }
    if (this.#type === "c2c" && this.#takesManyCalls(source, target)) {
      const moved = this.#outermost(source);
      const transform = this.prepare(moved, moved);
      return () => {
        this.#library.copy(source, moved);
        transform();
        this.#library.copy(moved, target);
      };
    }
    const isInPlace = source.address === target.address;
    const beyond = [source, target].map(({ address }) => address % BigInt(this.#library.alignedAt) === 0n);
    const key = `${source.shape};${source.strides};${target.strides};${isInPlace};${beyond}`;
    let passes = this.#planned.get(key);
    if (passes === undefined) this.#planned.set(key, passes = this.#plan(source, target));
    const calls = passes.map((planned) => callsOf(planned, source.address, target.address));
    const [type, axes, { shape }] = [this.#type, this.#axes, source];
    // Made when somebody records, not for each of many small transforms.
    const span = {
      kind: "fft",
      get label() {
        return `${type} of ${shape.join(" x ")}, ${axes.length > 1 ? "axes" : "axis"} ${axes}`;
      },
    } as const;
    const transform = () => calls.forEach((call) => call());
    const { stream = null } = this.#library;
    return () => {
      recordSpan(stream, span, transform);
      // The calls know addresses only: the arrays have to stay alive for them.
      return void [source, target];
    };
  }

  /** Bytes of the memory that elements are moved to. */
  get byteLength(): number {
    return [...this.#moved.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /** Who transforms, by what was planned so far; empty if there is no choice. */
  get libraries(): readonly string[] {
    const plans = [...this.#planned.values()].flat().map(({ plan }) => plan.library);
    return [...new Set(plans.filter((library) => library !== undefined))].sort();
  }

  /** Whether real numbers lie such that every call begins where the library takes them. */
  #isAligned(source: LocalArray, target: LocalArray, real: "source" | "target"): boolean {
    const { alignment, limits, takesLines } = this.#library;
    const { address, dtype } = real === "source" ? source : target;
    const { itemSize } = dtypeInfo(dtype);
    if (alignment <= itemSize) return true;
    const [{ called, transformed }] = planPasses(this.#type, this.#axes, source, target, limits);
    if (takesLines && transformed.at(-1)![real] !== 1) return false;
    return address % BigInt(alignment) === 0n && called.every((loop) => loop[real] * itemSize % alignment === 0);
  }

  /** Whether one axis lies between others, and transforming it takes many small calls. */
  #takesManyCalls(source: LocalArray, target: LocalArray): boolean {
    const { worthOfCall, limits } = this.#library;
    if (worthOfCall === undefined) return false;
    const [{ called }, ...others] = planPasses(this.#type, this.#axes, source, target, limits);
    const calls = called.reduce((product, { extent }) => product * extent, 1);
    return others.length === 0 && calls > 1 && source.byteLength < calls * worthOfCall;
  }

  /** Memory for an array with the transformed axes outermost. */
  #outermost({ dtype, shape }: LocalArray): LocalArray {
    const order = [...this.#axes, ...[...shape.keys()].filter((d) => !this.#axes.includes(d))];
    const strides = shape.map(() => 1);
    let span = 1;
    for (const d of order.reverse()) {
      strides[d] = span;
      span *= shape[d];
    }
    return this.#keep(`outermost ${shape}`, { dtype, shape, strides, span });
  }

  /** Memory for so many numbers, the same each time. */
  #keep(
    key: string,
    { dtype, shape, strides, span }: Pick<LocalArray, "dtype" | "shape" | "strides"> & { readonly span: number },
  ): LocalArray {
    const known = this.#moved.get(key);
    if (known !== undefined && !known.isLost) return known;
    const moved = new LocalArray({ data: this.#library.allocate(dtype, span), dtype, shape, strides });
    this.#moved.set(key, moved);
    return moved;
  }

  /** Memory for the real numbers of an array where calls may begin anywhere: rows of an even length, in the order of the others. */
  #aligned({ dtype, shape }: LocalArray, { strides: others }: LocalArray): LocalArray {
    const halved = this.#axes[this.#axes.length - 1];
    const order = [...shape.keys()].filter((d) => d !== halved).sort((a, b) => others[b] - others[a] || a - b);
    const strides = shape.map(() => 1);
    let span = shape[halved] + shape[halved] % 2;
    for (const d of order.reverse()) {
      strides[d] = span;
      span *= shape[d];
    }
    return this.#keep(`aligned ${shape};${strides}`, { dtype, shape, strides, span });
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
