/**
 * What transforms parts in host memory: the FFTW3 interface.
 *
 * @module
 */
import { type Fftw, type FftwPrecision, openFftw } from "../../../../ffi/fft/fftw.ts";
import { mergeAxes } from "../../../array/layout.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import { dtypeInfo } from "../../../dtype/dtype.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import type { FFTProblem } from "../../problem.ts";
import type { FFTRequest } from "../engine.ts";
import type { PassLibrary } from "../staged/local_transform.ts";
import type { Transformer } from "../staged/transformer.ts";
import { fftwPasses } from "./passes.ts";
import { fromFirstHalf, toFirstHalf } from "./reflect.ts";
import { transformRate } from "./rate.ts";
import { Roots } from "./twiddle.ts";

/** What the libraries say of themselves. */
export function versionsOf(libraries: readonly Fftw[]): string {
  return libraries.map(({ version }) => version).join("; ");
}

/** The precision of a problem that was not refused. */
export function precisionOf({ precision }: Pick<FFTProblem, "precision">): FftwPrecision {
  return precision as FftwPrecision;
}

/** The FFTW3 interface, for a plan. */
export function fftwTransformer({ threads, rank, size }: Runtime, { problem, effort }: FFTRequest): Transformer {
  const precision = precisionOf(problem);
  const libraries = openFftw(precision, threads);
  // What each rank transforms for itself is to be the same on all of them, and each would find another plan the fastest.
  const passes = problem.to.isReplicated && size > 1
    ? withoutWisdom(fftwPasses(libraries, "estimate", threads), libraries[0])
    : fftwPasses(libraries, effort, threads);
  return {
    engine: "fftw",
    library: versionsOf(libraries),
    notes: libraries.flatMap(({ warnings }) => warnings),
    passes,
    operationsPerSecond: () =>
      Math.max(...openFftw(precision, threads).map((library) => transformRate(library, precision))),
    workspaceBytes: 0,
    allocate: passes.allocate,
    roots: (n) => {
      const roots = new Roots(n);
      return (matrix, first, direction) => roots.multiply(matrix, first, direction);
    },
    reflect: ({ halves, isToVector }, source, target) =>
      (isToVector ? toFirstHalf : fromFirstHalf)(halves, rank, source, target),
    copy: passes.copy,
    scale: multiply,
    inOrder: (run) => run,
    [Symbol.dispose]: () => {},
  };
}

/** Passes planned by what FFTW knows before it has measured anything. */
function withoutWisdom(passes: PassLibrary, { wisdom }: Fftw): PassLibrary {
  if (wisdom === null) return passes;
  return {
    ...passes,
    plan(...given) {
      const known = wisdom.known();
      wisdom.forget();
      try {
        return passes.plan(...given);
      } finally {
        wisdom.add(known);
      }
    },
  };
}

/** Elements between those of a view are somebody else's. */
function multiply({ data, dtype, offset, shape, strides }: LocalArray, factor: number): void {
  const { parts } = dtypeInfo(dtype);
  const numbers = data as Float64Array;
  const lines = mergeAxes(shape.map((length, d) => (
    { runs: [{ source: 0, target: 0, length }], source: strides[d] * parts, target: strides[d] * parts }
  )));
  const isLine = lines.at(-1)?.target === parts;
  const [count] = isLine ? lines.pop()!.runs.map(({ length }) => length * parts) : [parts];
  const visit = (depth: number, start: number): void => {
    if (depth === lines.length) {
      for (let i = start; i < start + count; i++) numbers[i] *= factor;
      return;
    }
    const { runs: [{ length }], target } = lines[depth];
    for (let i = 0; i < length; i++) visit(depth + 1, start + i * target);
  };
  if (!shape.includes(0)) visit(0, offset * parts);
}
