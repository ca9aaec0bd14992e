import { assert, assertEquals } from "@std/assert";
import { type Fftw, FftwFlags } from "../../../ffi/fft/fftw.ts";
import { LocalArray } from "../../../src/array/local_array.ts";
import { fftwPasses } from "../../../src/fft/engines/fftw/passes.ts";
import type { Pass } from "../../../src/fft/engines/staged/pass_plan.ts";

/** A planner that finds another plan each time that it knows none, and remembers what it found. */
function planner() {
  let known = new Set(["of others"]);
  const [freed, measured]: [bigint[], bigint[]] = [[], []];
  const threads: number[] = [];
  let [next, count] = [1n, 0];
  const fftw: Fftw = {
    vendor: "fftw",
    version: "a planner of a test",
    path: "",
    mostLoops: Infinity,
    wisdom: {
      forget: () => known.clear(),
      known: () => [...known].join(),
      add: (more) => void (known = new Set([...known, ...more.split(",").filter((one) => one !== "")])),
    },
    planComplex(_rank, _dims, _count, _loops, source, target, _sign, flags) {
      const problem = `${source === target ? "whole" : "block"} `;
      const found = [...known].find((one) => one.startsWith(problem));
      if (found !== undefined) return BigInt(found.slice(problem.length));
      if (flags & FftwFlags.WISDOM_ONLY) return 0n;
      known.add(problem + next);
      measured.push(next);
      threads.push(count);
      return next++;
    },
    planRealToComplex: () => 0n,
    planComplexToReal: () => 0n,
    executeComplex: () => {},
    executeRealToComplex: () => {},
    executeComplexToReal: () => {},
    destroyPlan: (plan) => void freed.push(plan),
    limitSeconds: () => {},
    setThreads: (threads) => void (count = threads),
    warnings: [],
  };
  return { fftw, freed, measured, threads, known: () => [...known].sort() };
}

const lines: Pass = {
  type: "c2c",
  transformed: [{ extent: 1024, source: 1, target: 1 }],
  looped: [{ extent: 64, source: 1024, target: 1024 }],
  called: [],
  isInPlace: false,
};

Deno.test("of the plans that FFTW finds the chosen one stays, is known from then on, and what else was known, too", () => {
  const { fftw, freed, measured, known } = planner();
  const compared: number[] = [];
  const passes = fftwPasses([fftw], "measure", 1, (plans, calls) => {
    assert(calls.length > 0);
    compared.push(plans.length);
    const chosen = plans[Math.min(2, plans.length - 1)];
    for (const plan of plans) if (plan !== chosen) plan[Symbol.dispose]();
    return chosen;
  });
  const array = LocalArray.zeros("complex128", [64, 1024]);
  const [plan] = passes.plan([lines], array, array, "forward");
  assertEquals(compared, [8, 8, 2], "eight of the whole pass, eight in blocks, the best of both");
  assertEquals(measured, Array.from({ length: 16 }, (_, i) => BigInt(i + 1)));
  assertEquals(plan.library, "FFTW in blocks");
  assertEquals(known(), ["block 11", "of others", "whole 3"]);
  assertEquals(freed.toSorted(), measured.filter((one) => one !== 11n).toSorted());

  passes.plan([lines], array, array, "forward");
  assertEquals([compared.slice(3), measured.length], [[2], 16], "what is known is not measured again");
});

Deno.test("plans are compared all over the memory of an array, of which a pass may transform a small part", () => {
  const { fftw } = planner();
  const places: bigint[] = [];
  const passes = fftwPasses([fftw], "measure", 1, (plans, calls) => {
    places.push(...calls.map(([from]) => from));
    return plans[0];
  });
  const whole = LocalArray.zeros("complex128", [8 * 64, 1024]);
  const { dtype, data, strides } = whole;
  const part = new LocalArray({ data, dtype, shape: [64, 1024], strides });
  passes.plan([lines], part, part, "forward");
  const different = [...new Set(places)].sort((a, b) => Number(a - b));
  assertEquals(different.map((place) => Number(place - different[0])), [...Array(8).keys()].map((i) => i * 2 ** 20));
});

Deno.test("FFTW starts threads for large passes only, and only if they are faster", () => {
  const { fftw, threads, measured } = planner();
  const passes = fftwPasses([fftw], "measure", 4, (plans) => plans[1]);
  const array = LocalArray.zeros("complex128", [64, 1024]);
  passes.plan([lines], array, array, "forward");
  assertEquals(threads, [4, 1, 4, 1, 4, 1, 4, 1]);
  passes.plan([lines], array, array, "forward");
  assertEquals(measured.length, 8, "the plan with one thread is known");

  const few = LocalArray.zeros("complex128", [16, 1024]);
  const small = planner();
  const part: Pass = { ...lines, looped: [{ ...lines.looped[0], extent: 16 }] };
  for (const effort of ["estimate", "measure"] as const) {
    fftwPasses([small.fftw], effort, 4).plan([part], few, few, "forward");
  }
  assertEquals(new Set(small.threads), new Set([1]));
});

Deno.test("a real transform of which FFTW has no plan without its buffers is planned with them", () => {
  const { fftw, freed } = planner();
  let made = 0;
  const picky: Fftw = {
    ...fftw,
    planRealToComplex: (_rank, _dims, _count, _loops, _source, _target, flags) =>
      flags & (FftwFlags.WISDOM_ONLY | FftwFlags.NO_BUFFERING) ? 0n : BigInt(++made),
  };
  const passes = fftwPasses([picky], "measure", 1, (plans) => {
    for (const plan of plans.slice(1)) plan[Symbol.dispose]();
    return plans[0];
  });
  const real: Pass = { ...lines, type: "r2c", looped: [{ extent: 64, source: 1024, target: 513 }] };
  const [source, target] = [LocalArray.zeros("float64", [64, 1024]), LocalArray.zeros("complex128", [64, 513])];
  const [plan] = passes.plan([real], source, target, "forward");
  assert(plan.library?.startsWith("FFTW"));
  assertEquals(freed.length, made - 1);
});
