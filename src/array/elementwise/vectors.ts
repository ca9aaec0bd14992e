/**
 * Programs as calls of MKL's vector mathematics, on memory as it lies: for large arrays of floats, block by block, so that
 * what stands between stays in the caches.
 *
 * What is exact (sums, products, extremes) is the same as in loops, bit for bit; other functions differ from them by two
 * units in the last place at most, erfc by five. Square roots and quotients, which MKL rounds wrongly on some CPUs (the
 * latter by AVX-512), are left to loops.
 *
 * @module
 */
import { addressOf } from "../../../ffi/memory.ts";
import type { BinaryName, UnaryName, VectorFunctions, VectorMath } from "../../../ffi/blas/vector_math.ts";
import { dtypeInfo, type TypedArray } from "../../dtype/dtype.ts";
import type { LocalArray } from "../local_array.ts";
import type { ElementProgram, Expression } from "./expression.ts";
import { runLoops } from "./javascript_loops.ts";
import { type Elements, loopsOf, type Part } from "./loops.ts";
import type { OperationName } from "./names.ts";

/** The types that there are functions for. */
type VectorType = keyof VectorMath;

/** Elements of a block: a few of them are in the caches together. */
const BLOCK = 8192;

/** Elements of one call that has all its operands and the result in memory. */
const MOST = 2 ** 30;

/** Arrays of fewer elements, over all ranks, are left to loops: so results do not depend on the number of ranks. */
export const LARGE = 65536;

/** Lines of fewer elements are not worth calls. */
const SHORTEST_LINE = 256;

/** A call's operand: an array or a number of the script by its number among the operands, or the result of a step. */
type Source = { readonly kind: "array" | "number" | "step"; readonly index: number };

/** One call. */
type VectorCall =
  | { readonly name: UnaryName; readonly of: readonly [Source] }
  | { readonly name: BinaryName; readonly of: readonly [Source, Source] };

/** MKL's names of operations on floats. */
const UNARY: Partial<Record<OperationName, UnaryName>> = {
  square: "Sqr",
  abs: "Abs",
  exp: "Exp",
  expm1: "Expm1",
  log: "Ln",
  log1p: "Log1p",
  log2: "Log2",
  log10: "Log10",
  sin: "Sin",
  cos: "Cos",
  tan: "Tan",
  asin: "Asin",
  acos: "Acos",
  atan: "Atan",
  sinh: "Sinh",
  cosh: "Cosh",
  tanh: "Tanh",
  erf: "Erf",
  erfc: "Erfc",
  floor: "Floor",
  ceil: "Ceil",
  trunc: "Trunc",
  round: "Rint",
};

const BINARY: Partial<Record<OperationName, BinaryName>> = {
  add: "Add",
  subtract: "Sub",
  multiply: "Mul",
  power: "Pow",
  atan2: "Atan2",
  minimum: "Fmin",
  maximum: "Fmax",
};

/** Functions whose results float32 holds as float64 does: what stands between is float64's. */
const ROUNDLESS: readonly string[] = ["Abs", "Fmin", "Fmax", "Floor", "Ceil", "Trunc", "Rint"];

/** Functions that pass over NaN, which loops keep. */
const PASSING: readonly string[] = ["Fmin", "Fmax"];

/** Functions whose results are the same in loops, bit for bit. */
const EXACT: readonly string[] = [...ROUNDLESS, "Add", "Sub", "Mul", "Sqr"];

/** The calls for an expression, the last of which makes the result; null if there are none. */
function stepsOf(expression: Expression, operands: readonly Part[], dtype: VectorType): readonly VectorCall[] | null {
  const steps: VectorCall[] = [];
  const visited = new Map<Expression, Source | null>();
  const visit = (node: Expression): Source | null => {
    if (!visited.has(node)) visited.set(node, node.kind === "operand" ? leaf(node.index) : step(node));
    return visited.get(node)!;
  };
  const leaf = (index: number): Source | null => {
    const part = operands[index];
    if (!("scalar" in part)) return part.dtype === dtype ? { kind: "array", index } : null;
    return typeof part.scalar === "number" && part.scalar === part.scalar ? { kind: "number", index } : null;
  };
  const step = (node: Expression): Source | null => {
    if (node.kind !== "apply") return null;
    const of = node.of.map(visit).filter((source) => source !== null);
    if (of.length < node.of.length || of.every(({ kind }) => kind === "number")) return null;
    const [one, two] = of;
    const unary = isSquare(node.name, two, operands) ? "Sqr" : UNARY[node.name];
    const binary = BINARY[node.name];
    if (unary !== undefined) steps.push({ name: unary, of: [one] });
    else if (binary !== undefined) steps.push({ name: binary, of: [one, two] });
    else return null;
    return { kind: "step", index: steps.length - 1 };
  };
  if (visit(expression)?.kind !== "step") return null;
  const isRounded = dtype === "float32" && !steps.slice(0, -1).every(({ name }) => ROUNDLESS.includes(name));
  // Blocks with NaN are left to loops: what else is in them must not depend on that.
  const isMixed = steps.some(({ name }) => PASSING.includes(name)) && !steps.every(({ name }) => EXACT.includes(name));
  return isRounded || isMixed ? null : steps;
}

/** Whether an operation is a power of 2, which is exact. */
function isSquare(name: OperationName, exponent: Source | undefined, operands: readonly Part[]): boolean {
  if (name !== "power" || exponent?.kind !== "number") return false;
  const part = operands[exponent.index];
  return "scalar" in part && part.scalar === 2;
}

/** Memory for blocks: kept, since calls know no more of it than addresses. */
const blocks = { float64: [] as Float64Array<ArrayBuffer>[], float32: [] as Float32Array<ArrayBuffer>[] };

function blockOf(dtype: VectorType, at: number): Float64Array<ArrayBuffer> | Float32Array<ArrayBuffer> {
  return blocks[dtype][at] ??= dtype === "float64" ? new Float64Array(BLOCK) : new Float32Array(BLOCK);
}

/**
 * Get ready to compute all elements of `target` by calls; null if the program, the types or the layouts are not for it, or
 * there is no such library. Strides of operands are 0 along dimensions that they lack.
 */
export function prepareVectors(
  program: ElementProgram,
  operands: readonly Part[],
  target: LocalArray,
  open: () => VectorMath | null,
): (() => void) | null {
  const { dtype, shape } = target;
  if (dtype !== "float64" && dtype !== "float32" || program.dtype !== dtype || shape.includes(0)) return null;
  const steps = stepsOf(program.expression, operands, dtype);
  if (steps === null) return null;
  const arrays = [...operands.map((operand) => "scalar" in operand ? null : operand), target];
  const loops = loopsOf(shape, arrays, operands.length);
  const line = loops.pop();
  const isLine = arrays.every((array, at) => array === null || line?.strides[at] === 1);
  if (line === undefined || !isLine || line.extent < SHORTEST_LINE) return null;
  const math = open();
  if (math === null) return null;
  const scalars = operands.flatMap((operand, at) =>
    "scalar" in operand ? [[at, operand.scalar as number] as const] : []
  );
  const numbers = new Map(scalars.map(([at], i) => [at, steps.length + i]));
  for (let i = 0; i < steps.length + scalars.length; i++) blockOf(dtype, i);
  const isWhole = steps.length === 1 && scalars.length === 0 && !PASSING.includes(steps[0].name);
  const most = isWhole ? MOST : BLOCK;
  return () => {
    for (const [at, value] of scalars) blockOf(dtype, numbers.get(at)!).fill(value);
    const compute = blockComputation(program, steps, operands, target, dtype, math[dtype], numbers);
    const walk = (depth: number, places: readonly number[]): void => {
      if (depth === loops.length) {
        for (let from = 0; from < line.extent; from += most) {
          compute(Math.min(most, line.extent - from), places, from);
        }
        return;
      }
      const { extent, strides } = loops[depth];
      for (let k = 0; k < extent; k++) walk(depth + 1, places.map((place, i) => place + k * strides[i]));
    };
    walk(0, arrays.map((array) => array?.offset ?? 0));
  };
}

/** What computes `n` elements, at a distance `from` of the places of all arrays, the last of which is the target's. */
function blockComputation(
  program: ElementProgram,
  steps: readonly VectorCall[],
  operands: readonly Part[],
  target: Elements,
  dtype: VectorType,
  functions: VectorFunctions,
  numbers: ReadonlyMap<number, number>,
): (n: number, places: readonly number[], from: number) => void {
  const { itemSize } = dtypeInfo(dtype);
  const start = (elements: Elements) => addressOf(elements.storage as TypedArray);
  const starts = operands.map((operand) => "scalar" in operand ? 0n : start(operand));
  const block = (at: number) => addressOf(blockOf(dtype, at));
  const results = steps.map((_, at) => block(at));
  const constants = operands.map((_, at) => numbers.has(at) ? block(numbers.get(at)!) : 0n);
  const end = start(target);
  return (n, places, from) => {
    const addressIn = ({ kind, index }: Source) =>
      kind === "array"
        ? starts[index] + BigInt((places[index] + from) * itemSize)
        : kind === "step"
        ? results[index]
        : constants[index];
    for (const [at, { name, of }] of steps.entries()) {
      const given = of.map(addressIn);
      if (PASSING.includes(name) && of.some(({ kind }, i) => kind !== "number" && functions.hasNaN(n, given[i]))) {
        const parts = operands.map((part, i) => "scalar" in part ? part : piece(part, places[i] + from));
        return runLoops(program, parts, piece(target, places[operands.length] + from), [n]);
      }
      const result = at === steps.length - 1 ? end + BigInt((places[operands.length] + from) * itemSize) : results[at];
      if (of.length === 1) functions.unary(name as UnaryName, n, given[0], result);
      else functions.binary(name as BinaryName, n, given[0], given[1], result);
    }
  };
}

/** Neighbours from an element on, as an array of the loops. */
function piece({ storage, dtype }: Elements, offset: number): Elements {
  return { storage, dtype, offset, strides: [1] };
}
