/**
 * Loops over elements, made for an expression, the kinds of memory that it reads and writes, and the way that these lie.
 *
 * A loop of its own for each of these is what makes them fast: V8 compiles one that has seen two kinds of typed arrays, or
 * calls one of several functions, to code that takes ten times as long.
 *
 * @module
 */
import { allocate, type DType, dtypeInfo, isNarrowFloat, type TypedArray } from "../../dtype/dtype.ts";
import { decode } from "../../dtype/narrow_floats.ts";
import { recorder } from "../../runtime/recorder.ts";
import { LocalArray } from "../local_array.ts";
import { type Accumulation, type Elements, loopsOf, numbersOf, type Part } from "./loops.ts";
import type { ElementProgram } from "./expression.ts";
import { helpers } from "./helpers.ts";

/** How the inner loop goes through an array: neighbour by neighbour, always the same element, or with a stride. */
type Stride = "next" | "same" | "stride";

/** A loop: `n` elements in each of `m` lines; `p`, `i`, `j` are offsets, inner and outer strides of all arrays, in elements. */
type Kernel = (
  arrays: readonly TypedArray[],
  numbers: readonly (number | bigint)[],
  p: readonly number[],
  i: readonly number[],
  j: readonly number[],
  n: number,
  m: number,
) => void;

const kernels = new Map<string, Kernel>();

/** Where formulas put two numbers to choose one. */
const words = new Float64Array(2);

/** bfloat16 and float8 by their bits; float16 has a typed array. */
const tables = new Map<DType, Float32Array>();

/** Whether elements are bits that only a table can read. */
export function isBits(dtype: DType): boolean {
  return isNarrowFloat(dtype) && dtype !== "float16";
}

function tableOf(dtype: DType): Float32Array {
  let table = tables.get(dtype);
  if (table === undefined) {
    const bits = allocate(dtype, 2 ** (8 * dtypeInfo(dtype).itemSize));
    for (let i = 0; i < bits.length; i++) bits[i] = i;
    table = new Float32Array(bits.length);
    if (isNarrowFloat(dtype)) decode(dtype, bits, table as Float32Array<ArrayBuffer>);
    tables.set(dtype, table);
  }
  return table;
}

/** How an element of array `at` is read: one expression, or two for a complex number. */
function load(dtype: DType, at: number, place: string): string[] {
  if (dtypeInfo(dtype).isComplex) return [`A${at}[2 * (${place})]`, `A${at}[2 * (${place}) + 1]`];
  return [isBits(dtype) ? `T${at}[A${at}[${place}]]` : `A${at}[${place}]`];
}

/** The statements that write the result. */
function store(dtype: DType, result: ElementProgram, at: number, place: string): string {
  const isBig = dtype === "int64" && result.dtype !== "int64";
  const isNumber = dtype !== "int64" && result.dtype === "int64";
  const parts = result.result.map((part) => isBig ? `BigInt(${part})` : isNumber ? `Number(${part})` : part);
  if (!dtypeInfo(dtype).isComplex) return `A${at}[${place}] = ${parts[0]};`;
  return `A${at}[2 * (${place})] = ${parts[0]}; A${at}[2 * (${place}) + 1] = ${parts[1] ?? "0"};`;
}

/** Operands, results and what happens between them, from which a loop is made. */
interface Plan {
  readonly program: ElementProgram;
  /** The dtypes of all arrays: operands, null for numbers, and targets. */
  readonly dtypes: readonly (DType | null)[];
  readonly steps: readonly (Stride | null)[];
  /** How many of them are operands. */
  readonly operands: number;
  readonly accumulate: Accumulation | null;
}

/** The loop as source. */
function sourceOf({ program, dtypes, steps, operands, accumulate }: Plan): string {
  const there = [...dtypes.keys()].filter((at) => dtypes[at] !== null);
  const [used, targets] = [there.filter((at) => at < operands), there.filter((at) => at >= operands)];
  const place = (at: number) =>
    steps[at] === "next" ? `p${at} + k` : steps[at] === "same" ? `p${at}` : `p${at} + k * i${at}`;
  const reading = (at: number) => {
    const parts = load(dtypes[at]!, at, place(at));
    const names = parts.length === 1 ? [`x${at}`] : [`x${at}r`, `x${at}i`];
    return names.map((name, i) => `const ${name} = ${parts[i]};`).join(" ");
  };
  const taking = (at: number) => `let a${at - operands} = A${at}[${place(at)}];`;
  const giving = (at: number) => `A${at}[${place(at)}] = a${at - operands};`;
  const isSame = (at: number) => steps[at] === "same";
  const isOther = (at: number) => !isSame(at);
  const accumulators = accumulate === null ? [] : targets;
  let count = 0;
  const numbers = program.parameters.flatMap(({ dtype }, at) =>
    (dtypeInfo(dtype).isComplex ? [`s${at}r`, `s${at}i`] : [`s${at}`]).map((name) => `const ${name} = S[${count++}];`)
  );
  return [
    // Named, since V8 shares what it has learned among functions of the same text.
    `// ${dtypes.join(" ")}`,
    ...there.map((at) => `const A${at} = arrays[${at}];`),
    ...numbers,
    ...there.map((at) => `let p${at} = p[${at}]; const i${at} = i[${at}], j${at} = j[${at}];`),
    `for (let line = 0; line < m; line++) {`,
    ...used.filter(isSame).map(reading),
    ...accumulators.filter(isSame).map(taking),
    `for (let k = 0; k < n; k++) {`,
    ...used.filter(isOther).map(reading),
    ...program.statements,
    ...accumulators.filter(isOther).map(taking),
    accumulate?.take(program.result) ?? store(dtypes[operands]!, program, operands, place(operands)),
    ...accumulators.filter(isOther).map(giving),
    `}`,
    ...accumulators.filter(isSame).map(giving),
    ...there.map((at) => `p${at} += j${at};`),
    `}`,
  ].join("\n");
}

function kernelFor(plan: Plan): Kernel {
  const source = sourceOf(plan);
  const { dtypes } = plan;
  let kernel = kernels.get(source);
  if (kernel === undefined) {
    const bits = dtypes.flatMap((dtype, at) =>
      dtype !== null && isBits(dtype) ? [[`T${at}`, tableOf(dtype)] as const] : []
    );
    const names = bits.map(([name]) => name);
    const make = new Function("H", "W", ...names, `return function (arrays, S, p, i, j, n, m) {\n${source}\n};`);
    kernel = make(helpers, words, ...bits.map(([, table]) => table)) as Kernel;
    kernels.set(source, kernel);
  }
  return kernel;
}

/**
 * Compute all elements of `target`. `operands` are arrays whose strides are 0 along dimensions that they lack, or numbers of
 * the script.
 */
export function compute(
  program: ElementProgram,
  operands: readonly Part[],
  target: LocalArray,
): void {
  const { dtype, shape } = target;
  if (!isBits(dtype)) return runLoops(program, operands, target, shape);
  // Numbers as bits are rounded all at once.
  const numbers = LocalArray.empty("float64", shape, target.isDense("F") ? "F" : "C");
  runLoops(program, operands, numbers, shape);
  target.set(numbers);
  numbers.release();
}

/** As {@linkcode compute}, where elements are no bits. */
export function runLoops(
  program: ElementProgram,
  operands: readonly Part[],
  target: Elements,
  shape: readonly number[],
): void {
  loop(program, operands, [target], shape, null, operands.length);
}

/**
 * Have accumulators take in every value of a program: targets whose strides are 0 along the dimensions that are reduced. The
 * elements are visited in the order of the first operand.
 */
export function accumulate(
  program: ElementProgram,
  operands: readonly Part[],
  targets: readonly Elements[],
  shape: readonly number[],
  accumulation: Accumulation,
): void {
  targets.forEach(({ storage }, i) => (storage as Float64Array).fill(accumulation.start[i] as number));
  loop(program, operands, targets, shape, accumulation, operands.findIndex((operand) => !("scalar" in operand)));
}

function loop(
  program: ElementProgram,
  operands: readonly Part[],
  targets: readonly Elements[],
  shape: readonly number[],
  accumulate: Accumulation | null,
  leading: number,
): void {
  if (shape.includes(0)) return;
  const arrays = [...operands.map((operand) => "scalar" in operand ? null : operand), ...targets];
  const scalars = operands.map((operand) => "scalar" in operand ? operand.scalar : null);
  const numbers = numbersOf(program, scalars);
  const loops = loopsOf(shape, arrays, leading);
  const still = arrays.map(() => 0);
  const inner = loops.pop() ?? { extent: 1, strides: still };
  const outer = loops.pop() ?? { extent: 1, strides: still };
  const steps = arrays.map((array, at): Stride | null => {
    if (array === null) return null;
    const stride = inner.strides[at];
    return stride === 1 ? "next" : stride === 0 ? "same" : "stride";
  });
  const dtypes = arrays.map((array) => array?.dtype ?? null);
  const kernel = kernelFor({ program, dtypes, steps, operands: operands.length, accumulate });
  const data = arrays.map((array) => (array ?? targets[0]).storage as TypedArray);
  const walk = (depth: number, at: readonly number[]): void => {
    if (depth === loops.length) {
      return kernel(data, numbers, at, inner.strides, outer.strides, inner.extent, outer.extent);
    }
    const { extent, strides } = loops[depth];
    for (let k = 0; k < extent; k++) walk(depth + 1, at.map((place, i) => place + k * strides[i]));
  };
  const span = recorder?.begin("compute", `${accumulate ? "reduction" : "loop"} over ${shape.join(" x ")}`);
  walk(0, arrays.map((array) => array?.offset ?? 0));
  span?.end();
}
