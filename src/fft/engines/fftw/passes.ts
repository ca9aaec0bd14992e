/**
 * Passes by the FFTW3 interface.
 *
 * @module
 */
import { type Fftw, FftwError, FftwFlags, FftwSign, type FftwWisdom } from "../../../../ffi/fft/fftw.ts";
import { copyStrided } from "../../../array/layout.ts";
import { LocalArray } from "../../../array/local_array.ts";
import { type DType, dtypeInfo } from "../../../dtype/dtype.ts";
import type { FFTDirection } from "../../problem.ts";
import type { FFTEffort } from "../engine.ts";
import type { PassLibrary, PassPlan } from "../staged/local_transform.ts";
import { type Dimension, offsetsOf, type Pass, placesOn, shown } from "../staged/pass_plan.ts";
import { blockOf, inBlocks, inMemory, PAGE_BYTES } from "./blocks.ts";

/** Where MKL is there too, FFTW measures a pass for about this long at most at a time, unless it shall be patient. */
const MOST_SECONDS = 1;

/**
 * FFTW plans a pass that often, or until so many seconds are over, and the fastest plan is taken. It measures in the caches,
 * where it finds plans alike and takes one of them by chance; in memory the best ones are up to half as fast again.
 */
const [MOST_TRIES, TRYING_SECONDS] = [8, 0.5];

/**
 * Flags of these tries, in turn: without its own buffers FFTW plans lines in a sixth of the time, and finds the best plan of
 * lines of 4096 complex numbers in place in half of all tries, in place of a third; planes are better with them.
 */
const TRIED_FLAGS = [0, FftwFlags.NO_BUFFERING, FftwFlags.NO_BUFFERING, FftwFlags.NO_BUFFERING];

/** MKL takes no more dimensions at once. */
const MOST_DIMENSIONS = 7;

/** FFTW takes two paths: for arrays that begin at multiples of this, and for others. Source: `fftw_alignment_of`. */
const VECTOR_BYTES = 16;

/** Plans are compared on as many bytes, if the arrays have as many: more than the caches hold. */
const COLD_BYTES = 2 ** 26;

/** The libraries, in reports. */
const LIBRARIES = { mkl: "MKL", fftw: "FFTW" } as const;

/**
 * Passes of fewer numbers go to the first library: they take less time than to find out which is the faster, or than FFTW takes
 * to start threads, 0.2 ms each time. Calls of more than enough numbers are no faster, but take as much longer to be measured.
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
      const isLarge = source.size >= comparing.leastNumbers;
      const isWorthTrying = effort !== "estimate" && isLarge;
      const candidates = isWorthTrying ? libraries : [first];
      const blocks = passes.map((pass) => {
        // Several threads share a block less well than all of a pass.
        if (!isWorthTrying || threads > 1) return null;
        const { dtype } = pass.isInPlace ? target : source;
        const block = blockOf(pass, dtype, target.dtype, isInPlace || pass.isInPlace);
        return block && inMemory(block, dtype, target.dtype);
      });
      // What measures writes to the arrays.
      const isTried = candidates.length > 1 || first.wisdom !== null && effort !== "estimate" ||
        blocks.some((block) => block !== null);
      const { from, to } = isTried ? rehearsalMemory(passes, source, target) : { from: source, to: target };
      const isAligned = [source, target, from, to].every(({ address }) => address % BigInt(VECTOR_BYTES) === 0n);
      return passes.map((pass, i) => {
        const start = pass.isInPlace ? to : from;
        const block = blocks[i];
        const chosen = (plans: PassPlan[]) => plans.length === 1 ? plans[0] : choose(plans, rehearsed(pass, start, to));
        return chosen(candidates.flatMap((fftw) => {
          fftw.limitSeconds(candidates.length > 1 && effort !== "patient" ? MOST_SECONDS : -1);
          const best = (planned: (effort: FFTEffort, flags?: number) => PassPlan | null) => {
            const { wisdom } = fftw;
            const planWith = (threads: number, effort: FFTEffort, flags?: number) => {
              fftw.setThreads(threads);
              return planned(effort, flags);
            };
            if (wisdom === null || !isWorthTrying) return planWith(wisdom === null || isLarge ? threads : 1, effort)!;
            return bestOfTries(wisdom, effort, threads > 1 ? [threads, 1] : [1], planWith, chosen);
          };
          const whole = best((effort, flags) => create(fftw, effort, pass, start, to, direction, isAligned, flags));
          if (block === null) return [whole];
          // All calls of the pass have all blocks.
          const every = { ...block.pass, called: [...pass.called, ...block.pass.called] };
          const target = block.target ?? to;
          const some = best((effort, flags) => {
            const one = create(fftw, effort, every, block.source, target, direction, isAligned, flags);
            return one && inBlocks(block, one, to.dtype);
          });
          return [whole, some];
        }));
      });
    },
  };
}

/**
 * The plan that FFTW knows of; where it knows of none, the best of some, of so many threads in turn, which it knows from then
 * on. `planned` plans, also with further flags, where `null` is no plan.
 */
function bestOfTries(
  wisdom: FftwWisdom,
  effort: FFTEffort,
  threads: readonly number[],
  planned: (threads: number, effort: FFTEffort, flags?: number) => PassPlan | null,
  chosen: (plans: PassPlan[]) => PassPlan,
): PassPlan {
  for (const flags of new Set(TRIED_FLAGS)) {
    for (const count of threads) {
      const known = planned(count, effort, FftwFlags.WISDOM_ONLY | flags);
      if (known !== null) return known;
    }
  }
  const others = wisdom.known();
  const tries = new Map<PassPlan, string>();
  const isPatient = effort === "patient";
  const end = performance.now() + 1000 * TRYING_SECONDS;
  do {
    // One patient plan is enough to wait for; measured ones may still win in memory.
    const turn = tries.size;
    const [count, flags] = [threads[turn % threads.length], TRIED_FLAGS[turn % TRIED_FLAGS.length]];
    const tried = isPatient && turn > 0 ? "measure" : effort;
    // Of many real transforms FFTW has no plan without its buffers.
    const plan = planned(count, tried, flags) ?? planned(count, tried)!;
    tries.set(plan, wisdom.known());
    wisdom.forget();
  } while (tries.size < MOST_TRIES && (isPatient || performance.now() < end));
  const best = chosen([...tries.keys()]);
  wisdom.add(others);
  wisdom.add(tries.get(best)!);
  return best;
}

/** Plans are timed for so many milliseconds in all, and each of them so many times at least, and at most. */
const [COMPARED_MILLISECONDS, LEAST_TIMES, MOST_TIMES] = [200, 2, 50];

/**
 * The plan with the shortest call; the others are freed. They are called in turns, so that whatever else the machine does hits
 * all alike, each at another place, which the caches have forgotten when its turn comes again.
 */
function fastest(plans: readonly PassPlan[], calls: readonly Call[]): PassPlan {
  const shortest = plans.map(() => Infinity);
  const end = performance.now() + COMPARED_MILLISECONDS;
  for (let times = 0; times < LEAST_TIMES || times < MOST_TIMES && performance.now() < end; times++) {
    for (const [i, plan] of plans.entries()) {
      const [from, to] = calls[(times * (plans.length + 1) + i) % calls.length];
      const start = performance.now();
      plan.execute(from, to);
      shortest[i] = Math.min(shortest[i], performance.now() - start);
    }
  }
  const best = plans[shortest.indexOf(Math.min(...shortest))];
  for (const plan of plans) if (plan !== best) plan[Symbol.dispose]();
  return best;
}

/** Where a call reads, and where it writes. */
type Call = readonly [from: bigint, to: bigint];

/**
 * Calls of a pass all over the memory that there is, again and again where the pass is smaller: in the caches, where it would
 * stay, all plans are faster.
 */
function rehearsed(pass: Pass, from: LocalArray, to: LocalArray): Call[] {
  const spans = { source: spanOf(pass, "source", from.dtype), target: spanOf(pass, "target", to.dtype) };
  const shared = from.address === to.address ? Math.max(spans.source, spans.target) : null;
  const places = (side: "source" | "target", { address, dtype, byteLength }: LocalArray) => {
    const { itemSize } = dtypeInfo(dtype);
    const length = Math.ceil((shared ?? spans[side]) / PAGE_BYTES) * PAGE_BYTES;
    const last = byteLength - placesOn(pass, side).span * itemSize;
    const offsets = offsetsOf(pass.called, side, itemSize).map(Number);
    const times = Math.max(1, Math.floor(byteLength / length));
    return {
      times,
      /** Where a call begins when the pass is repeated for the n-th time; `null` beyond the memory. */
      at: (n: number, call: number) => {
        const offset = n % times * length + offsets[call];
        return offset <= last ? address + BigInt(offset) : null;
      },
    };
  };
  const [starts, ends] = [places("source", from), places("target", to)];
  const calls = pass.called.reduce((product, { extent }) => product * extent, 1);
  return Array.from({ length: Math.max(starts.times, ends.times) * calls }, (_, i) => {
    const [n, call] = [Math.floor(i / calls), i % calls];
    return [starts.at(n, call), ends.at(n, call)];
  }).filter((call): call is [bigint, bigint] => call[0] !== null && call[1] !== null);
}

/** Bytes from the first number of all calls of a pass to behind the last one. */
function spanOf(pass: Pass, side: "source" | "target", dtype: DType): number {
  return placesOn({ ...pass, looped: [...pass.looped, ...pass.called] }, side).span * dtypeInfo(dtype).itemSize;
}

function create(
  fftw: Fftw,
  effort: FFTEffort,
  pass: Pass,
  { address: source, dtype: from }: LocalArray,
  { address: target, dtype: to }: LocalArray,
  direction: FFTDirection,
  isAligned: boolean,
  further = 0,
): PassPlan | null {
  const { type, transformed, looped } = pass;
  const mayBeAligned = isAligned && staysAligned(pass, from, to) && !endsProcess(pass, to);
  const flags = flagsFor(effort, source === target, mayBeAligned) | further;
  const [dims, loops] = [packed(transformed), packed(looped)];
  const [rank, count] = [transformed.length, looped.length];
  const sign = direction === "forward" ? FftwSign.FORWARD : FftwSign.BACKWARD;
  const plan = type === "c2c"
    ? fftw.planComplex(rank, dims, count, loops, source, target, sign, flags)
    : type === "r2c"
    ? fftw.planRealToComplex(rank, dims, count, loops, source, target, flags)
    : fftw.planComplexToReal(rank, dims, count, loops, source, target, flags);
  if (plan === 0n) {
    if (further !== 0) return null;
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

/** Memory for as many calls of each pass as leave the caches, or as much as there is; for one call at least. */
function rehearsalMemory(
  passes: readonly Pass[],
  source: LocalArray,
  target: LocalArray,
): { readonly from: LocalArray; readonly to: LocalArray } {
  const bytesOf = (pass: Pass, side: "source" | "target", { dtype, data }: LocalArray) => {
    const call = placesOn(pass, side).span * dtypeInfo(dtype).itemSize;
    return Math.max(call, Math.min(COLD_BYTES, Math.max(spanOf(pass, side, dtype), (data as Float64Array).byteLength)));
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
