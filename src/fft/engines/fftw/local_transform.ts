/**
 * Transforms of one rank's part by the FFTW3 interface: along some axes of an array of any strides.
 *
 * @module
 */
import { type Fftw, FftwError, FftwFlags, FftwSign } from "../../../../ffi/fft/fftw.ts";
import { LocalArray } from "../../../array/local_array.ts";
import { dtypeInfo } from "../../../dtype/dtype.ts";
import type { FFTDirection, FFTType } from "../../problem.ts";
import type { FFTEffort } from "../engine.ts";

/** One dimension of a transform or of a loop: its extent, and the distances of neighbours in input and output. */
export interface Dimension {
  readonly extent: number;
  readonly source: number;
  readonly target: number;
}

/** One plan of the library, called once for each offset. */
export interface Pass {
  /** The type. */
  readonly type: FFTType;
  /** The dimensions that are transformed; what `r2c` and `c2r` halve comes last. */
  readonly transformed: readonly Dimension[];
  /** The dimensions that the library loops over. */
  readonly looped: readonly Dimension[];
  /** The dimensions that remain to be looped over. */
  readonly called: readonly Dimension[];
  /** Whether it works on the output of the pass before it. */
  readonly isInPlace: boolean;
}

/** Where the elements are. */
interface Strides {
  readonly shape: readonly number[];
  readonly strides: readonly number[];
}

/** MKL takes no more dimensions at once. */
const MOST_DIMENSIONS = 7;

/** Fewer neighbours than these are not worth a loop of their own. */
const FEW = 16;

/**
 * How to transform: `r2c` and `c2r` halve the last of the axes. Axes that are neighbours in memory are transformed
 * together. `shape` is that of the real numbers for `r2c`, `c2r`, else of the complex ones.
 */
export function planPasses(
  type: FFTType,
  axes: readonly number[],
  source: Strides,
  target: Strides,
  mostLoops: number,
): Pass[] {
  const shape = type === "c2r" ? target.shape : source.shape;
  const halved = type === "c2c" ? null : axes[axes.length - 1];
  // Outermost in memory first.
  const order = shape.map((_, d) => d).sort((a, b) => target.strides[b] - target.strides[a] || a - b);
  const groups: number[][] = [];
  for (const [i, axis] of order.entries()) {
    if (!axes.includes(axis)) continue;
    const last = groups.at(-1);
    const follows = last !== undefined && last.at(-1) === order[i - 1] && last.length < MOST_DIMENSIONS;
    // The halved axis has to be the last one of its group.
    if (follows && last.at(-1) !== halved) last.push(axis);
    else groups.push([axis]);
  }
  const first = halved === null ? 0 : groups.findIndex((group) => group.includes(halved));
  // From real to complex comes first. From complex to real there is no other group.
  const ordered = [groups[first], ...groups.filter((_, i) => i !== first)];
  return ordered.map((group, i) => {
    const isInPlace = i > 0;
    const sourceStrides = isInPlace ? target.strides : source.strides;
    const extents = type === "r2c" && isInPlace ? target.shape : shape;
    const at = (d: number): Dimension => ({
      extent: extents[d],
      source: sourceStrides[d],
      target: target.strides[d],
    });
    const loops = merged(order.filter((d) => !group.includes(d)).map((d) => loopOf(d, i, at)));
    const [looped, called] = dealt(loops, mostLoops);
    return { type: isInPlace ? "c2c" : type, transformed: group.map(at), looped, called, isInPlace };
  });

  /** A loop goes over what both sides have: along the halved axis over the half. */
  function loopOf(d: number, pass: number, at: (d: number) => Dimension): Dimension {
    return d === halved && pass > 0 ? { ...at(d), extent: target.shape[d] } : at(d);
  }
}

/** Neighbouring loops that lie one after the other in both memories become one; those of one turn are left out. */
function merged(loops: readonly Dimension[]): Dimension[] {
  const result: Dimension[] = [];
  for (const inner of loops.filter(({ extent }) => extent > 1)) {
    const outer = result.at(-1);
    if (outer && outer.source === inner.extent * inner.source && outer.target === inner.extent * inner.target) {
      result[result.length - 1] = { ...inner, extent: outer.extent * inner.extent };
    } else {
      result.push(inner);
    }
  }
  return result;
}

/** Which loops the library takes: neighbours in memory if they are not few, else the longest ones. */
function dealt(loops: readonly Dimension[], most: number): readonly [Dimension[], Dimension[]] {
  if (loops.length <= most) return [[...loops], []];
  const inner = loops[loops.length - 1];
  const byWorth = loops.toSorted((a, b) => worth(b) - worth(a));
  return [byWorth.slice(0, most), byWorth.slice(most)];

  function worth(loop: Dimension): number {
    return loop === inner && loop.extent >= FEW ? Infinity : loop.extent;
  }
}

/** A pass with its plans for both ways to call it. */
interface PlannedPass {
  readonly pass: Pass;
  readonly plan: bigint;
  readonly sourceOffsets: readonly bigint[];
  readonly targetOffsets: readonly bigint[];
}

/** Transforms of parts of one shape. It keeps a plan for each layout that it has seen. */
export class LocalTransform implements Disposable {
  readonly #fftw: Fftw;
  readonly #type: FFTType;
  readonly #axes: readonly number[];
  readonly #direction: FFTDirection;
  readonly #effort: FFTEffort;
  readonly #threads: number;
  readonly #planned = new Map<string, PlannedPass[]>();

  /** Nothing is planned before it is known where the elements lie. */
  constructor(
    fftw: Fftw,
    what: { type: FFTType; axes: readonly number[]; direction: FFTDirection; effort: FFTEffort; threads: number },
  ) {
    this.#fftw = fftw;
    this.#type = what.type;
    this.#axes = what.axes;
    this.#direction = what.direction;
    this.#effort = what.effort;
    this.#threads = what.threads;
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
    if (passes === undefined) this.#planned.set(key, passes = this.#plan(source, target, isInPlace));
    const calls = passes.map((planned) => this.#calls(planned, source, target));
    return () => {
      for (const call of calls) call();
      // The calls know addresses only: the arrays have to stay alive for them.
      return void [source, target];
    };
  }

  /** Free all plans. */
  [Symbol.dispose](): void {
    for (const passes of this.#planned.values()) {
      for (const { plan } of passes) this.#fftw.destroyPlan(plan);
    }
    this.#planned.clear();
  }

  #plan(source: LocalArray, target: LocalArray, isInPlace: boolean): PlannedPass[] {
    const passes = planPasses(this.#type, this.#axes, source, target, this.#fftw.mostLoops);
    // What measures writes to the arrays.
    const isTried = this.#fftw.measures && this.#effort !== "estimate";
    const scratch = (array: LocalArray) => isTried ? likeOf(array) : array;
    const to = scratch(target);
    const from = isInPlace ? to : scratch(source);
    this.#fftw.setThreads(this.#threads);
    return passes.map((pass): PlannedPass => {
      const plan = this.#create(pass, pass.isInPlace ? to.address : from.address, to.address);
      const [sourceBytes, targetBytes] = pass.isInPlace
        ? [dtypeInfo(target.dtype).itemSize, dtypeInfo(target.dtype).itemSize]
        : [dtypeInfo(source.dtype).itemSize, dtypeInfo(target.dtype).itemSize];
      return {
        pass,
        plan,
        sourceOffsets: offsets(pass.called, "source", sourceBytes),
        targetOffsets: offsets(pass.called, "target", targetBytes),
      };
    });
  }

  #create({ type, transformed, looped }: Pass, source: bigint, target: bigint): bigint {
    const { planComplex, planRealToComplex, planComplexToReal } = this.#fftw;
    const flags = this.#flags(source === target);
    const [dims, loops] = [packed(transformed), packed(looped)];
    const [rank, count] = [transformed.length, looped.length];
    const sign = this.#direction === "forward" ? FftwSign.FORWARD : FftwSign.BACKWARD;
    const plan = type === "c2c"
      ? planComplex(rank, dims, count, loops, source, target, sign, flags)
      : type === "r2c"
      ? planRealToComplex(rank, dims, count, loops, source, target, flags)
      : planComplexToReal(rank, dims, count, loops, source, target, flags);
    if (plan !== 0n) return plan;
    throw new FftwError({
      functionName: `fftw_plan_guru64_dft${type === "c2c" ? "" : `_${type}`}`,
      code: 0,
      symbol: "NULL",
      text: `${this.#fftw.version} has no plan for ${shown(transformed)}, ${looped.length} loops of ${shown(looped)}`,
    });
  }

  #flags(isInPlace: boolean): number {
    const effort = { estimate: FftwFlags.ESTIMATE, measure: FftwFlags.MEASURE, patient: FftwFlags.PATIENT };
    return effort[this.#effort] | FftwFlags.UNALIGNED | (isInPlace ? 0 : FftwFlags.PRESERVE_INPUT);
  }

  #calls(
    { pass, plan, sourceOffsets, targetOffsets }: PlannedPass,
    source: LocalArray,
    target: LocalArray,
  ): () => void {
    const { executeComplex, executeRealToComplex, executeComplexToReal } = this.#fftw;
    const execute = { c2c: executeComplex, r2c: executeRealToComplex, c2r: executeComplexToReal }[pass.type];
    const to = target.address;
    const from = pass.isInPlace ? to : source.address;
    if (sourceOffsets.length === 1) return () => execute(plan, from, to);
    const [starts, ends] = [sourceOffsets.map((offset) => from + offset), targetOffsets.map((offset) => to + offset)];
    return () => {
      for (let i = 0; i < starts.length; i++) execute(plan, starts[i], ends[i]);
    };
  }
}

/** An array that is laid out as another one. */
function likeOf({ dtype, shape, strides }: LocalArray): LocalArray {
  const span = 1 + shape.reduce((sum, extent, d) => sum + (extent - 1) * strides[d], 0);
  return new LocalArray({ data: LocalArray.zeros(dtype, [span]).data, dtype, shape, strides });
}

/** Dimensions in a message. */
function shown(dimensions: readonly Dimension[]): string {
  return `[${dimensions.map(({ extent, source, target }) => `${extent} (${source}, ${target})`).join(", ")}]`;
}

/** As the library takes dimensions. */
function packed(dimensions: readonly Dimension[]): BigInt64Array<ArrayBuffer> {
  return BigInt64Array.from(dimensions.flatMap(({ extent, source, target }) => [extent, source, target].map(BigInt)));
}

/** Where each turn of some loops begins, in bytes. */
function offsets(loops: readonly Dimension[], side: "source" | "target", itemSize: number): bigint[] {
  return loops.reduce<bigint[]>(
    (starts, loop) =>
      starts.flatMap((start) =>
        Array.from({ length: loop.extent }, (_, i) => start + BigInt(i * loop[side] * itemSize))
      ),
    [0n],
  );
}
