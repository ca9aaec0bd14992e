/**
 * Sums of floats in host memory by the machine's own C compiler, in one pass and without any rounding.
 *
 * In a block each accumulator starts from a number so large that it takes a value's upper bits without rounding; what it leaves
 * is added up beside it. Both are exact as long as the block's values do not differ too much in size, which is looked at. The
 * accumulators of a block are then cut into slices, as single values are where they do differ (see sums.ts).
 *
 * @module
 */
import { findCompiler } from "../../../ffi/compiler.ts";
import { addressOf } from "../../../ffi/memory.ts";
import type { TypedArray } from "../../dtype/dtype.ts";
import { packWords } from "../../gpu/kernels/program.ts";
import { recorder } from "../../runtime/recorder.ts";
import { compileLoops } from "../compiled_loops.ts";
import { nestOf } from "../elementwise/compiled.ts";
import type { Elements } from "../elementwise/loops.ts";

/** What is added: values, their magnitudes, or their squares, rounded to float64. */
export type Terms = "values" | "magnitudes" | "squares";

/** Slices of a sum; they add up to it exactly. */
export const SLICES = 4;

/** Accumulators side by side, and how many values each takes in a block: a power of two. */
const LANES = 32;
const ROWS = 128;

/** What is known of a sum beside its slices: between which magnitudes the values are that are not 0. */
export interface Extent {
  readonly largest: number;
  readonly smallest: number;
}

interface Kind {
  readonly dtype: "float32" | "float64";
  readonly terms: Terms;
}

/** Statements that cut `y` into slices of accumulator l, and tell if something is left. */
const CUT = Array.from({ length: SLICES }, (_, i) => `
      const double q${i} = (cut[${i}] + y${i}) - cut[${i}], y${i + 1} = y${i} - q${i}; T[${i}][l] += q${i};`).join("") +
  `\n      rest |= y${SLICES} != 0;`;

const TERM: Readonly<Record<Terms, string>> = {
  values: "x",
  magnitudes: "__builtin_fabs(x)",
  squares: "x * x",
};

/** Statements that add a term to accumulator l: float32 needs no second one, unless it is squared. */
function addition({ dtype, terms }: Kind): string {
  if (dtype === "float32" && terms !== "squares") return `S[l] += ${TERM[terms]};`;
  // Squares of float32 are exact, so that it makes no difference what is fused.
  const [sum, left] = dtype === "float32" ? ["FMA(x, x, S[l])", "FMA(x, x, -q)"] : [`S[l] + y`, "y - q"];
  return `const double y = ${TERM[terms]}, t = ${sum}, q = t - S[l]; S[l] = t; R[l] += ${left};`;
}

/** How small a value may be beside the bound, as a power of two, so that a block's sums are exact. */
const REACH: Readonly<Record<Kind["dtype"], Readonly<Record<Terms, number>>>> = {
  float32: { values: 23, magnitudes: 23, squares: 22 },
  float64: { values: 39, magnitudes: 39, squares: 19 },
};

/** The smallest positive number, and the largest. */
const RANGE: Readonly<Record<Kind["dtype"], readonly [number, number]>> = {
  float32: [2 ** -149, (2 - 2 ** -23) * 2 ** 127],
  float64: [Number.MIN_VALUE, Number.MAX_VALUE],
};

/**
 * Function `sum`: its words are the counts of a line and of lines, address and stride of the values, addresses of accumulators
 * and of numbers. Numbers are the start, the cuts, and the bounds of values.
 */
function source(kind: Kind): string {
  const { dtype, terms } = kind;
  const [real, word, signless] = dtype === "float32"
    ? ["float", "unsigned", "0x7fffffffu"]
    : ["double", "unsigned long long", "0x7fffffffffffffffull"];
  return `
typedef long long i64; typedef ${real} Real; typedef ${word} Word;
#ifdef __FMA__
#define FMA(a, b, c) __builtin_fma(a, b, c)
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif
typedef struct { double slices[${SLICES}], largest, smallest, rest; } Sum;
typedef union { Real real; Word bits; } Bits;
static __attribute__((noinline)) int block(
  const Real* a, int rows, const double* number, Word low, Word high, double (*T)[${LANES}], Word* all
) {
  const double start = number[0], *cut = number + 1;
  double S[${LANES}], R[${LANES}];
  Word M[${LANES}], m[${LANES}];
  for (int l = 0; l < ${LANES}; l++) S[l] = start, R[l] = 0, M[l] = 0, m[l] = ~(Word)0;
  for (int k = 0; k < rows; k++) {
    const Real* row = a + ${LANES} * k;
    #pragma omp simd
    for (int l = 0; l < ${LANES}; l++) {
      const Bits b = { row[l] };
      const Word size = b.bits & ${signless}, less = size - 1;
      M[l] = size > M[l] ? size : M[l];
      m[l] = less < m[l] ? less : m[l];
      const double x = row[l];
      ${addition(kind)}
    }
  }
  Word most = 0, least = ~(Word)0;
  for (int l = 0; l < ${LANES}; l++) {
    most = M[l] > most ? M[l] : most;
    least = m[l] < least ? m[l] : least;
  }
  all[0] = most > all[0] ? most : all[0];
  all[1] = least < all[1] ? least : all[1];
  if (most > high) return 1;
  int rest = 0;
  if (least >= low - 1) {
    #pragma omp simd reduction(|:rest)
    for (int l = 0; l < ${LANES}; l++) {
      double y0 = S[l] - start;
      {${CUT}
      }
      y0 = R[l];
      {${CUT}
      }
    }
    return rest;
  }
  for (int k = 0; k < rows; k++) {
    const Real* row = a + ${LANES} * k;
    #pragma omp simd reduction(|:rest)
    for (int l = 0; l < ${LANES}; l++) {
      const double x = row[l], y0 = ${TERM[terms]};${CUT}
    }
  }
  return rest;
}
void sum(const i64* p) {
  const i64 n = p[0], m = p[1], stride = p[3];
  Sum* sum = (Sum*)p[4];
  const double* number = (const double*)p[5];
  const Bits low = { number[${1 + SLICES}] }, high = { number[${2 + SLICES}] };
  double T[${SLICES}][${LANES}] = { 0 };
  Word all[2] = { 0, ~(Word)0 };
  int rest = 0;
  for (i64 line = 0; line < m && !rest; line++) {
    const Real* a = (const Real*)p[2] + line * stride;
    i64 k = 0;
    while (n - k >= ${LANES} && !rest) {
      const i64 rows = (n - k) / ${LANES} < ${ROWS} ? (n - k) / ${LANES} : ${ROWS};
      rest = block(a + k, rows, number, low.bits, high.bits, T, all);
      k += rows * ${LANES};
    }
    if (k == n || rest) continue;
    Real last[${LANES}] = { 0 };
    for (int l = 0; l < n - k; l++) last[l] = a[k + l];
    rest = block(last, 1, number, low.bits, high.bits, T, all);
  }
  for (int i = 0; i < ${SLICES}; i++) for (int l = 0; l < ${LANES}; l++) sum->slices[i] += T[i][l];
  const Bits most = { .bits = all[0] }, least = { .bits = all[1] + 1 };
  sum->largest = most.real > sum->largest ? most.real : sum->largest;
  if (all[1] != ~(Word)0 && least.real < sum->smallest) sum->smallest = least.real;
  sum->rest += rest;
}
`;
}

const SYMBOLS = { sum: { parameters: ["buffer"], result: "void" } } as const satisfies Deno.ForeignLibraryInterface;

/** A function that compiles on demand. */
function compiled(kind: Kind): ((words: Uint8Array<ArrayBuffer>) => void) | null {
  const functions = compileLoops("sum", source(kind), SYMBOLS);
  return functions && ((words) => functions.sum(words));
}

/**
 * Add terms of all elements into slices, those of a cut for 2^`bits` terms of at most `bound`, a power of two. Returns between
 * which magnitudes the elements are; null if that is no use here, one of them is larger than `largest`, a power of two, or the
 * slices do not hold all bits of all terms.
 */
export function sumCompiled(
  array: Elements,
  shape: readonly number[],
  terms: Terms,
  largest: number,
  bits: number,
  slices: readonly Float64Array<ArrayBuffer>[],
): Extent | null {
  const { dtype, storage, offset } = array;
  if (findCompiler() === null || dtype !== "float32" && dtype !== "float64") return null;
  const nest = nestOf(shape, [array], 0);
  if (nest?.steps[0] !== "next") return null;
  const run = compiled({ dtype, terms });
  if (run === null) return null;
  const bound = terms === "squares" ? largest ** 2 : largest;
  const cuts = Array.from({ length: SLICES }, (_, i) => bound * 2 ** bits * 2 ** (i * (bits - 53)));
  const start = dtype === "float32" && terms !== "squares" ? 0 : 1.5 * 2 * ROWS * bound;
  const [least, most] = RANGE[dtype];
  const limits = [Math.max(least, largest * 2 ** -REACH[dtype][terms]), Math.min(most, largest)];
  const numbers = Float64Array.from([start, ...cuts, ...limits]);
  const sum = new Float64Array(SLICES + 3);
  sum[SLICES + 1] = Infinity;
  const { inner, outer, others } = nest;
  const size = dtype === "float64" ? 8 : 4;
  const begin = addressOf(storage as TypedArray);
  const [to, from] = [addressOf(sum), addressOf(numbers)];
  const walk = (depth: number, place: number): void => {
    if (depth === others.length) {
      const address = begin + BigInt(place * size);
      return run(packWords([BigInt(inner.extent), BigInt(outer.extent), address, BigInt(outer.strides[0]), to, from]));
    }
    const { extent, strides: [stride] } = others[depth];
    for (let k = 0; k < extent; k++) walk(depth + 1, place + k * stride);
  };
  const span = recorder?.begin("compute", `compiled sum over ${shape.join(" x ")}`);
  walk(0, offset);
  span?.end();
  if (sum[SLICES + 2] > 0) return null;
  slices.forEach((slice, i) => slice[0] = sum[i]);
  return { largest: sum[SLICES], smallest: sum[SLICES + 1] };
}
