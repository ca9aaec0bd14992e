/**
 * C of elementwise operations and reductions: a loop for an expression, its dtypes, and the way that its arrays lie. Pure;
 * nothing here needs a compiler.
 *
 * @module
 */
import { type DType, dtypeInfo } from "../../dtype/dtype.ts";
import { C, TYPES_IN_C } from "./c.ts";
import type { ElementProgram } from "./expression.ts";
import type { Accumulation } from "./loops.ts";

/**
 * Elements of a block, all of which are computed alike: the last one is filled up, so that a result does not depend on where
 * in an array it is.
 */
const BLOCK = 256;

/** Accumulators side by side, of one value or of each of several: enough to keep a CPU busy, and few enough for its registers. */
const LANES = { ofOne: 32, ofSeveral: 16 };

/** What is written past the caches begins at a cache line. */
export const LINE_BYTES = 64;

/** As many bytes of results, or more, are computed in the caches, then written past them: line by line took twice as long. */
const STREAMED_BLOCK_BYTES = 2048;

const ALIGNED = `__attribute__((aligned(${LINE_BYTES})))`;

/** How the inner loop goes through an array: neighbour by neighbour, or always the same element. */
export type DenseStride = "next" | "same";

/** Operands, targets and what happens between them, from which a loop is made. */
export interface HostShape {
  readonly program: ElementProgram;
  /** The dtypes of all arrays: operands, null for numbers, and targets. */
  readonly dtypes: readonly (DType | null)[];
  readonly steps: readonly (DenseStride | null)[];
  /** How many of them are operands. */
  readonly operands: number;
  readonly accumulation: Accumulation | null;
  /** Whether floats of 32 bits are computed with as they are. */
  readonly isSingle: boolean;
  /** Whether results pass by the caches; they begin at cache lines then. */
  readonly isStreamed: boolean;
}

/** How many elements are computed alike, and written past the caches together. */
export function blockOf(dtype: DType, isStreamed: boolean): number {
  return isStreamed ? Math.max(BLOCK, STREAMED_BLOCK_BYTES / dtypeInfo(dtype).itemSize) : BLOCK;
}

const REAL = (dtype: DType) => TYPES_IN_C[dtypeInfo(dtype).real]!;

/** The C type that a dtype is computed with. */
function typeOf(dtype: DType, isSingle: boolean): string {
  const { isInteger, real } = dtypeInfo(dtype);
  return isInteger ? "i64" : isSingle && real === "float32" ? "float" : "double";
}

/** The variables of an element: one, or two for a complex number. */
function variables(letter: string, dtype: DType, at: number): string[] {
  return dtypeInfo(dtype).isComplex ? [`${letter}${at}r`, `${letter}${at}i`] : [`${letter}${at}`];
}

/** The numbers of the script: their names, C types, and where they are. */
function numbersIn({ program, isSingle }: HostShape) {
  let count = 0;
  return program.parameters.flatMap(({ dtype }, at) =>
    variables("s", dtype, at).map((name) => {
      const type = typeOf(dtype, isSingle);
      return {
        name,
        type,
        code: type === "i64" ? `number[${count++}]` : `(${type})((const double*)number)[${count++}]`,
      };
    })
  );
}

/** The statements that read an element. */
function read(dtype: DType, at: number, place: string, isSingle: boolean): string {
  const names = variables("x", dtype, at);
  const parts = names.length === 1 ? [place] : [`2 * (${place})`, `2 * (${place}) + 1`];
  return names.map((name, i) => `const ${typeOf(dtype, isSingle)} ${name} = A${at}[${parts[i]}];`).join(" ");
}

/** The statements that write the result. */
function write(dtype: DType, { dtype: from, result }: ElementProgram, at: number | string, place: string): string {
  const { isComplex, real } = dtypeInfo(dtype);
  const one = (code: string, where: string) =>
    `A${at}[${where}] = (${REAL(dtype)})(${C.cast(code, dtypeInfo(from).real, real)});`;
  const [re, im = "0"] = result;
  return isComplex ? `${one(re, `2 * (${place})`)} ${one(im, `2 * (${place}) + 1`)}` : one(re, place);
}

/**
 * Additions to accumulators, half of all that sums take, by the units that multiply: those that add are what sums wait for. `one`
 * is a number that the compiler does not know.
 */
const ADDITION = `
#ifdef __FMA__
#define ADD(a, b) __builtin_fma(b, one, a)
#else
#define ADD(a, b) ((a) + (b))
#endif
`;

function withAdditions(code: string): string {
  return code.replace(/\b(a\d) \+= (\w+);/g, "$1 = ADD($1, $2);");
}

/** The statements for one element. */
function bodyOf({ program, accumulation }: HostShape): string {
  return [
    ...program.statements,
    ...accumulation === null ? [] : [withAdditions(C.translate(accumulation.take(program.result)))],
  ].join(
    "\n",
  );
}

/** The code of a shape, without what it begins with. Function `loop` takes counts, addresses, outer strides and numbers. */
export function hostSource(shape: HostShape): string {
  return shape.accumulation === null ? elementwiseSource(shape) : reductionSource(shape, shape.accumulation);
}

/** What each line begins with: where its elements are. */
function lineOf(shape: HostShape): string {
  const { dtypes, operands } = shape;
  const there = [...dtypes.keys()].filter((at) => dtypes[at] !== null);
  const arrays = there.map((at) => {
    const type = `${at < operands ? "const " : ""}${REAL(dtypes[at]!)}`;
    const parts = dtypeInfo(dtypes[at]!).isComplex ? "2 * " : "";
    return `${type}* A${at} = (${type}*)p[${2 + at}] + ${parts}line * p[${2 + dtypes.length + at}];`;
  });
  return arrays.join("\n    ");
}

const beginning = (dtypes: readonly unknown[]) =>
  `void loop(const i64* p) {
  const i64 n = p[0], m = p[1], *number = p + ${2 + 2 * dtypes.length};`;

/**
 * A cache line written as one, past the caches: without that it is read from memory before, as long as it takes to read an
 * operand.
 */
const STREAM = `
typedef i64 Words8 __attribute__((vector_size(64))), Words4 __attribute__((vector_size(32))), Words2 __attribute__((vector_size(16)));
static inline void stream(void* to, const void* from) {
#ifdef __AVX512F__
  __builtin_ia32_movntdq512(to, *(const Words8*)from);
#elif defined(__AVX__)
  for (int i = 0; i < 2; i++) __builtin_ia32_movntdq256((Words4*)to + i, ((const Words4*)from)[i]);
#else
  for (int i = 0; i < 4; i++) __builtin_ia32_movntdq((Words2*)to + i, ((const Words2*)from)[i]);
#endif
}`;

// ---- elementwise ------------------------------------------------------------------------------------------------------

function elementwiseSource(shape: HostShape): string {
  const { program, dtypes, steps, operands, isSingle, isStreamed } = shape;
  const there = [...dtypes.keys()].filter((at) => dtypes[at] !== null);
  const block = blockOf(dtypes[operands]!, isStreamed);
  const numbers = numbersIn(shape);
  const [moving, still] = [there.filter((at) => steps[at] === "next"), there.filter((at) => steps[at] === "same")];
  const stillVariables = still.flatMap((at) => variables("x", dtypes[at]!, at).map((name) => ({ at, name })));
  const parameters = [
    ...moving.map((at) => `${at < operands ? "const " : ""}${REAL(dtypes[at]!)}* A${at}`),
    ...stillVariables.map(({ at, name }) => `${typeOf(dtypes[at]!, isSingle)} ${name}`),
    ...numbers.map(({ name, type }) => `${type} ${name}`),
  ];
  const partsOf = (at: number) => dtypeInfo(dtypes[at]!).isComplex ? 2 : 1;
  const call = (place: (at: number) => string) =>
    `block(${
      [...moving.map(place), ...stillVariables.map(({ name }) => name), ...numbers.map(({ name }) => name)].join()
    });`;
  const filled = moving.filter((at) => at < operands).map((at) =>
    `for (i64 l = 0; l < ${block * partsOf(at)}; l++) B${at}[l] = A${at}[${partsOf(at)} * k + (l < ${
      partsOf(at)
    } * (n - k) ? l : ${partsOf(at) === 1 ? "0" : "l % 2"})];`
  );
  const loop = (target: number | string, body: string, clause = "") => `
  #pragma omp simd ${clause}
  for (int k = 0; k < ${block}; k++) {
    ${moving.filter((at) => at < operands).map((at) => read(dtypes[at]!, at, "k", isSingle)).join("\n    ")}
    ${body}
    ${write(dtypes[operands]!, program, target, "k")}
  }`;
  const body = bodyOf(shape);
  const parts = partsOf(operands);
  const line = LINE_BYTES / dtypeInfo(dtypes[operands]!).itemSize;
  const results = `${REAL(dtypes[operands]!)} Aq[${block * parts}] ${ALIGNED};`;
  // The operands of the next block come in meanwhile: what a CPU foresees by itself ends with each page of memory.
  const fetching = moving.filter((at) => at < operands).map((at) =>
    `__builtin_prefetch(A${at} + ${partsOf(at)} * (${block} + k));`
  );
  const streaming = `
  for (int k = 0; k < ${block}; k += ${line}) {
    stream(A${operands} + ${parts} * k, Aq + ${parts} * k);
    ${fetching.join(" ")}
  }`;
  // Powers of ordinary numbers first; where one of a block is none, all of it again.
  const withPowers = () => `
  ${results}
  int isHard = 0;
  ${
    loop(
      "q",
      `int hard = 0; ${body.replace(/H_power(\(.*\));/g, "QUICK_POWER$1;")} isHard |= hard;`,
      "reduction(|:isHard)",
    )
  }
  if (isHard) ${loop("q", body)}
  ${isStreamed ? streaming : `for (int k = 0; k < ${block * parts}; k++) A${operands}[k] = Aq[k];`}`;
  const plain = () => isStreamed ? `${results}${loop("q", body)}${streaming}` : loop(operands, body);
  const statements = body.includes("H_power(") ? withPowers() : plain();
  return `${isStreamed ? STREAM : ""}
static __attribute__((noinline)) void block(${parameters.join(", ")}) {${statements}
}
${beginning(dtypes)}
  ${numbers.map(({ name, type, code }) => `const ${type} ${name} = ${code};`).join("\n  ")}
  for (i64 line = 0; line < m; line++) {
    ${lineOf(shape)}
    ${still.map((at) => read(dtypes[at]!, at, "0", isSingle)).join("\n    ")}
    i64 k = 0;
    for (; k + ${block} <= n; k += ${block}) ${call((at) => `A${at} + ${partsOf(at)} * k`)}
    if (k == n) continue;
    ${moving.map((at) => `${REAL(dtypes[at]!)} B${at}[${block * partsOf(at)}] ${ALIGNED};`).join(" ")}
    ${filled.join("\n    ")}
    ${call((at) => `B${at}`)}
    for (i64 l = 0; l < ${parts} * (n - k); l++) A${operands}[${parts} * k + l] = B${operands}[l];
  }${isStreamed ? "\n  __builtin_ia32_sfence();" : ""}
}
`;
}

// ---- reductions -------------------------------------------------------------------------------------------------------

function reductionSource(shape: HostShape, { start, merge }: Accumulation): string {
  const { dtypes, steps, operands, isSingle } = shape;
  const there = [...dtypes.keys()].filter((at) => dtypes[at] !== null && at < operands);
  const targets = [...start.keys()].map((i) => operands + i);
  const type = typeOf(dtypes[operands]!, isSingle);
  const reading = (step: DenseStride, place: string) =>
    there.filter((at) => steps[at] === step).map((at) => read(dtypes[at]!, at, place, isSingle)).join(" ");
  const each = (text: (i: number, at: number) => string) => targets.map((at, i) => text(i, at)).join(" ");
  const isShared = steps[operands] === "same";
  const turn = (place: string) =>
    `${reading("next", place)}
        ${bodyOf(shape)}`;
  const lanes = start.length === 1 ? LANES.ofOne : LANES.ofSeveral;
  const begin = (value: number | bigint) =>
    Math.abs(Number(value)) === Infinity ? `${value < 0 ? "-" : ""}__builtin_inf()` : String(value);
  const shared = `
    ${each((i) => `${type} T${i}[${lanes}];`)}
    for (int l = 0; l < ${lanes}; l++) { ${each((i) => `T${i}[l] = ${begin(start[i])};`)} }
    i64 k = 0;
    for (; k + ${lanes} <= n; k += ${lanes}) {
      #pragma omp simd
      for (int l = 0; l < ${lanes}; l++) {
        ${each((i) => `${type} a${i} = T${i}[l];`)}
        ${turn("k + l")}
        ${each((i) => `T${i}[l] = a${i};`)}
      }
    }
    ${each((i, at) => `${type} a${i} = A${at}[0];`)}
    for (; k < n; k++) {
      ${turn("k")}
    }
    for (int l = 0; l < ${lanes}; l++) {
      ${each((i) => `const ${type} b${i} = T${i}[l];`)}
      ${C.translate(merge(targets.map((_, i) => `b${i}`)))}
    }
    ${each((i, at) => `A${at}[0] = a${i};`)}`;
  const neighbours = `
    #pragma omp simd
    for (i64 k = 0; k < n; k++) {
      ${each((i, at) => `${type} a${i} = A${at}[k];`)}
      ${turn("k")}
      ${each((i, at) => `A${at}[k] = a${i};`)}
    }`;
  return `${ADDITION}
${beginning(dtypes)}
  volatile double unit = 1;
  const double one = unit;
  ${numbersIn(shape).map(({ name, type, code }) => `const ${type} ${name} = ${code};`).join("\n  ")}
  for (i64 line = 0; line < m; line++) {
    ${lineOf(shape)}
    ${reading("same", "0")}
    ${isShared ? shared : neighbours}
  }
}
`;
}
