/**
 * Passes by the FFTW3 interface.
 *
 * @module
 */
import { type Fftw, FftwError, FftwFlags, FftwSign } from "../../../../ffi/fft/fftw.ts";
import { copyStrided } from "../../../array/layout.ts";
import { LocalArray } from "../../../array/local_array.ts";
import { type DType, dtypeInfo } from "../../../dtype/dtype.ts";
import type { FFTDirection } from "../../problem.ts";
import type { FFTEffort } from "../engine.ts";
import type { PassLibrary, PassPlan } from "../staged/local_transform.ts";
import { type Dimension, offsetsOf, type Pass, placesOn, shown } from "../staged/pass_plan.ts";
import { blockOf, inBlocks, inMemory } from "./blocks.ts";

/** Where MKL is there too, FFTW measures a pass for about this long at most, unless it shall be patient. */
const MOST_SECONDS = 1;

/** MKL takes no more dimensions at once. */
const MOST_DIMENSIONS = 7;

/** FFTW takes two paths: for arrays that begin at multiples of this, and for others. Source: `fftw_alignment_of`. */
const VECTOR_BYTES = 16;

/** Plans are compared on as many bytes, if there are as many: more than the caches hold. */
const COLD_BYTES = 2 ** 26;

/** The libraries, in reports. */
const LIBRARIES = { mkl: "MKL", fftw: "FFTW" } as const;

/**
 * Passes of fewer numbers go to the first library: they take less time than to find out which is the faster. Calls of more
 * than enough numbers are no faster, but take as much longer to be measured.
 */
export const comparing = { leastNumbers: 2 ** 15, enoughNumbers: 2 ** 19 };

/**
 * Plans of the FFTW3 interface, of some effort and for some threads. Where plans may measure, each pass takes the way that
 * was the fastest: of all libraries, as a whole and in blocks. `choose` takes one of some plans, and frees the others.
 */
export function fftwPasses(
  libraries: readonly Fftw[],
  effort: FFTEffort,
  threads: number,
  choose = fastest,
): PassLibrary {
  const [first] = libraries;
  return {
    limits: {
      dimensions: MOST_DIMENSIONS,
      loops: Math.min(...libraries.map(({ mostLoops }) => mostLoops)),
      enough: comparing.enoughNumbers,
      isNested: false,
    },
    alignment: 1,
    alignedAt: VECTOR_BYTES,
    // What begins between cache lines, as plain memory does, takes vectors of 64 bytes up to a fifth longer.
    allocate: (dtype, count) => LocalArray.empty(dtype, [count]).data,
    copy: (source, target) => copyStrided(source, target, target.shape, dtypeInfo(target.dtype).parts),
    plan(passes, source, target, direction) {
      const isInPlace = source.address === target.address;
      const isWorthTrying = effort !== "estimate" && source.size >= comparing.leastNumbers;
      const candidates = isWorthTrying ? libraries : [first];
      const blocks = passes.map((pass) => {
        // Several threads share a block less well than all of a pass.
        if (!isWorthTrying || threads > 1) return null;
        const { dtype } = pass.isInPlace ? target : source;
        const block = blockOf(pass, dtype, target.dtype, isInPlace || pass.isInPlace);
        return block && inMemory(block, dtype, target.dtype);
      });
      // What measures writes to the arrays.
      const isTried = candidates.length > 1 || first.measures && effort !== "estimate" ||
        blocks.some((block) => block !== null);
      const { from, to } = isTried ? rehearsalMemory(passes, source, target) : { from: source, to: target };
      const isAligned = [source, target, from, to].every(({ address }) => address % BigInt(VECTOR_BYTES) === 0n);
      return passes.map((pass, i) => {
        const start = pass.isInPlace ? to : from;
        const block = blocks[i];
        const plans = candidates.flatMap((fftw) => {
          fftw.setThreads(threads);
          fftw.limitSeconds(candidates.length > 1 && effort !== "patient" ? MOST_SECONDS : -1);
          const whole = create(fftw, effort, pass, start, to, direction, isAligned);
          if (block === null) return [whole];
          // All calls of the pass have all blocks.
          const every = { ...block.pass, called: [...pass.called, ...block.pass.called] };
          const one = create(fftw, effort, every, block.source, block.target ?? to, direction, isAligned);
          return [whole, inBlocks(block, one, to.dtype)];
        });
        return plans.length === 1 ? plans[0] : choose(plans, rehearsed(pass, start, to));
      });
    },
  };
}

/** How often each plan is timed, one after the other in turns, so that whatever else the machine does hits all alike. */
const ROUNDS = 5;

/** The plan that takes the least time for some calls; the others are freed. */
function fastest(plans: readonly PassPlan[], calls: readonly (readonly [from: bigint, to: bigint])[]): PassPlan {
  const shortest = plans.map(() => Infinity);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, plan] of plans.entries()) {
      const start = performance.now();
      for (const [from, to] of calls) plan.execute(from, to);
      shortest[i] = Math.min(shortest[i], performance.now() - start);
    }
  }
  const best = plans[shortest.indexOf(Math.min(...shortest))];
  for (const plan of plans) if (plan !== best) plan[Symbol.dispose]();
  return best;
}

/** As many calls of a pass as there is memory for: in the caches, where one alone stays, all plans are faster. */
function rehearsed(pass: Pass, from: LocalArray, to: LocalArray): (readonly [from: bigint, to: bigint])[] {
  const fits = (array: LocalArray, side: "source" | "target") => {
    const { itemSize } = dtypeInfo(array.dtype);
    const last = BigInt((array.size - placesOn(pass, side).span) * itemSize);
    return offsetsOf(pass.called, side, itemSize).map((offset) => ({
      address: array.address + offset,
      fits: offset <= last,
    }));
  };
  const [starts, ends] = [fits(from, "source"), fits(to, "target")];
  return starts.flatMap((start, i) => start.fits && ends[i].fits ? [[start.address, ends[i].address] as const] : []);
}

function create(
  fftw: Fftw,
  effort: FFTEffort,
  pass: Pass,
  { address: source, dtype: from }: LocalArray,
  { address: target, dtype: to }: LocalArray,
  direction: FFTDirection,
  isAligned: boolean,
): PassPlan {
  const { type, transformed, looped } = pass;
  const mayBeAligned = isAligned && staysAligned(pass, from, to) && !endsProcess(pass, to);
  const flags = flagsFor(effort, source === target, mayBeAligned);
  const [dims, loops] = [packed(transformed), packed(looped)];
  const [rank, count] = [transformed.length, looped.length];
  const sign = direction === "forward" ? FftwSign.FORWARD : FftwSign.BACKWARD;
  const plan = type === "c2c"
    ? fftw.planComplex(rank, dims, count, loops, source, target, sign, flags)
    : type === "r2c"
    ? fftw.planRealToComplex(rank, dims, count, loops, source, target, flags)
    : fftw.planComplexToReal(rank, dims, count, loops, source, target, flags);
  if (plan === 0n) {
    throw new FftwError({
      functionName: `fftw_plan_guru64_dft${type === "c2c" ? "" : `_${type}`}`,
      code: 0,
      symbol: "NULL",
      text: `${fftw.version} has no plan for ${shown(transformed)}, ${looped.length} loops of ${shown(looped)}`,
    });
  }
  const { executeComplex, executeRealToComplex, executeComplexToReal } = fftw;
  const execute = { c2c: executeComplex, r2c: executeRealToComplex, c2r: executeComplexToReal }[type];
  return {
    library: LIBRARIES[fftw.vendor],
    execute: (from, to) => execute(plan, from, to),
    [Symbol.dispose]: () => fftw.destroyPlan(plan),
  };
}

/** Whether all calls of a pass begin where vectors do if the first one does. */
function staysAligned({ called }: Pass, source: DType, target: DType): boolean {
  const isWhole = (elements: number, dtype: DType) => elements * dtypeInfo(dtype).itemSize % VECTOR_BYTES === 0;
  return called.every((loop) => isWhole(loop.source, source) && isWhole(loop.target, target));
}

/**
 * Whether FFTW 3.3.10 ends the process when it measures plans for arrays that begin where vectors do: of numbers of 8 bytes,
 * some lines at a time, from one stride to another, and to lines that begin between vectors.
 */
function endsProcess({ type, transformed, looped }: Pass, target: DType): boolean {
  const { itemSize } = dtypeInfo(target);
  const isBetween = looped.some((loop) => loop.target * itemSize % VECTOR_BYTES !== 0);
  return type === "c2c" && isBetween && transformed.some((axis) => axis.source !== axis.target);
}

function flagsFor(effort: FFTEffort, isInPlace: boolean, isAligned: boolean): number {
  const flag = { estimate: FftwFlags.ESTIMATE, measure: FftwFlags.MEASURE, patient: FftwFlags.PATIENT }[effort];
  return flag | (isAligned ? 0 : FftwFlags.UNALIGNED) | (isInPlace ? 0 : FftwFlags.PRESERVE_INPUT);
}

/** Memory for as many calls of each pass as leave the caches, or for all; for one at least. */
function rehearsalMemory(
  passes: readonly Pass[],
  source: LocalArray,
  target: LocalArray,
): { readonly from: LocalArray; readonly to: LocalArray } {
  const bytesOf = (pass: Pass, side: "source" | "target", { dtype }: LocalArray) => {
    const { itemSize } = dtypeInfo(dtype);
    const all = placesOn({ ...pass, looped: [...pass.looped, ...pass.called] }, side).span * itemSize;
    return Math.max(placesOn(pass, side).span * itemSize, Math.min(COLD_BYTES, all));
  };
  // The first pass reads from the source, all others work on the target.
  const read = bytesOf(passes[0], "source", source);
  const written = Math.max(...passes.map((pass) => bytesOf(pass, "target", target)));
  if (source.address !== target.address) {
    return { from: writtenMemory(source.dtype, read), to: writtenMemory(target.dtype, written) };
  }
  const to = writtenMemory(target.dtype, Math.max(read, written));
  const shape = [Math.floor(to.byteLength / dtypeInfo(source.dtype).itemSize)];
  return { from: new LocalArray({ data: to.data, dtype: source.dtype, shape, strides: [1] }), to };
}

/** Memory for as many bytes that was written to: reading what never was costs less. */
function writtenMemory(dtype: DType, bytes: number): LocalArray {
  const shape = [Math.ceil(bytes / dtypeInfo(dtype).itemSize)];
  const { data } = LocalArray.zeros(dtype, shape);
  (data as Float64Array).fill(0);
  return new LocalArray({ data, dtype, shape, strides: [1] });
}

/** As the library takes dimensions. */
function packed(dimensions: readonly Dimension[]): BigInt64Array<ArrayBuffer> {
  return BigInt64Array.from(dimensions.flatMap(({ extent, source, target }) => [extent, source, target].map(BigInt)));
}
