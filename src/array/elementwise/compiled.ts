/**
 * Elementwise operations and reductions by the machine's own C compiler: what kernels are on GPUs. For each expression, dtypes
 * and layout of neighbours in memory one loop, compiled at its first use and kept on disk.
 *
 * What IEEE 754 defines is the same as in loops of JavaScript, bit for bit; other functions are those of glibc for vectors,
 * which differ from them by five units in the last place at most.
 *
 * @module
 */
import { type Compiler, findCompiler, writesPastCaches } from "../../../ffi/compiler.ts";
import { addressOf } from "../../../ffi/memory.ts";
import { type DType, dtypeInfo, type TypedArray } from "../../dtype/dtype.ts";
import { packWords } from "../../gpu/kernels/program.ts";
import { recorder } from "../../runtime/recorder.ts";
import { BEYOND_CACHES, compileLoops } from "../compiled_loops.ts";
import type { LocalArray } from "../local_array.ts";
import { C, prelude, TYPES_IN_C } from "./c.ts";
import { compile, type ElementProgram, type Expression } from "./expression.ts";
import { blockOf, type DenseStride, hostSource, LINE_BYTES } from "./host_source.ts";
import { type Accumulation, type Elements, type Loop, loopsOf, numbersOf, type Part, typeOf } from "./loops.ts";
import type { OperationName } from "./names.ts";

/** Arrays of fewer elements are not worth a compiler's tenth of a second. */
export const WORTH_COMPILING = 2 ** 20;

/** Lines of fewer elements are left to loops. */
const SHORTEST_LINE = 256;

/** Operations whose results float32 holds as float64 does: what stands between is float64's. */
const ROUNDLESS: readonly OperationName[] = [
  ...["positive", "negative", "abs", "sign", "minimum", "maximum", "where", "floor", "ceil", "trunc", "round"] as const,
  ...["equal", "notEqual", "less", "lessEqual", "greater", "greaterEqual", "isNaN", "isFinite"] as const,
  ...["logicalAnd", "logicalOr", "logicalXor", "logicalNot", "real", "imag", "conj"] as const,
];

/** Whether an expression of float32 has values that float32 holds. */
function isRoundless(node: Expression): boolean {
  if (node.kind === "apply") return ROUNDLESS.includes(node.name) && node.of.every(isRoundless);
  if (node.kind === "formula") return false;
  return node.kind === "operand" || isRoundless(node.of);
}

/** Operations that round each part of a complex number once. */
const ROUNDED_ONCE: readonly OperationName[] = ["add", "subtract"];

/**
 * Whether nothing but the last operation rounds, to float32 if to anything, so that float32 may be computed with as it is:
 * what goes into float64 is not rounded to float32 before.
 */
function isSingle({ expression, targets, accumulation }: Request, dtype: DType): boolean {
  if (accumulation !== null) return accumulation.isChoice === true && isRoundless(expression);
  if (dtype === "float64" || expression.kind !== "apply" || !expression.of.every(isRoundless)) return false;
  if (ROUNDLESS.includes(expression.name)) return true;
  const isRoundedOnce = !dtypeInfo(dtype).isComplex || ROUNDED_ONCE.includes(expression.name);
  return isRoundedOnce && dtypeInfo(targets[0].dtype).real !== "float64";
}

const SYMBOLS = { loop: { parameters: ["buffer"], result: "void" } } as const satisfies Deno.ForeignLibraryInterface;

/** A compiled loop: counts, addresses, outer strides, numbers. */
type Kernel = (words: Uint8Array<ArrayBuffer>) => void;

/** The loops that are there, by what they are for. */
export interface Nest {
  readonly inner: Loop;
  readonly outer: Loop;
  readonly others: readonly Loop[];
  readonly steps: readonly (DenseStride | null)[];
}

/** The loops of arrays whose elements are neighbours, or the same, along the innermost one; null if they are not. */
export function nestOf(shape: readonly number[], arrays: readonly (Elements | null)[], leading: number): Nest | null {
  if (shape.includes(0)) return null;
  const others = loopsOf(shape, arrays, leading);
  const inner = others.pop();
  if (inner === undefined || inner.extent < SHORTEST_LINE) return null;
  const outer = others.pop() ?? { extent: 1, strides: arrays.map(() => 0) };
  if (arrays.some((array, at) => array !== null && inner.strides[at] > 1)) return null;
  const steps = arrays.map((array, at): DenseStride | null =>
    array === null ? null : inner.strides[at] === 1 ? "next" : "same"
  );
  return { inner, outer, others, steps };
}

/** Whether C computes with elements of a dtype. */
function isKnown(dtype: DType): boolean {
  return TYPES_IN_C[dtypeInfo(dtype).real] !== undefined;
}

interface Request {
  readonly expression: Expression;
  readonly operands: readonly Part[];
  readonly targets: readonly Elements[];
  readonly nest: Nest;
  readonly accumulation: Accumulation | null;
  readonly isStreamed: boolean;
}

/**
 * Whether results can pass by the caches: in whole blocks, all their lines begin at cache lines, and in memory of their own,
 * since what an operand has just read is in the caches.
 */
function isStreamed(compiler: Compiler, operands: readonly Part[], target: LocalArray, nest: Nest): boolean {
  if (!writesPastCaches(compiler)) return false;
  if (nest.inner.extent < blockOf(target.dtype, true)) return false;
  const { itemSize } = dtypeInfo(target.dtype);
  const steps = [nest.outer, ...nest.others].map(({ strides }) => BigInt(strides[operands.length] * itemSize));
  const isAligned = [target.address, ...steps].every((bytes) => bytes % BigInt(LINE_BYTES) === 0n);
  const { buffer } = target.data as TypedArray;
  return isAligned && operands.every((part) => "scalar" in part || (part.storage as TypedArray).buffer !== buffer);
}

/** The loop for a request; null if C has not all that it takes, or there is no compiler. */
function kernelFor(request: Request, compiler: Compiler): { kernel: Kernel; program: ElementProgram } | null {
  const { expression, operands, targets, nest, accumulation } = request;
  const dtypes = [
    ...operands.map((part) => "scalar" in part ? null : part.dtype),
    ...targets.map(({ dtype }) => dtype),
  ];
  if (!dtypes.every((dtype) => dtype === null || isKnown(dtype))) return null;
  const program = compile(expression, operands.map(typeOf), C);
  if (program.mayThrow || !isKnown(program.dtype)) return null;
  const code = hostSource({
    program,
    dtypes,
    steps: nest.steps,
    operands: operands.length,
    accumulation,
    isSingle: isSingle(request, program.dtype),
    isStreamed: request.isStreamed,
  });
  const beginning = prelude(code, compiler, accumulation !== null);
  if (beginning === null) return null;
  const functions = compileLoops("loop", beginning + code, SYMBOLS);
  return functions && { kernel: functions.loop as Kernel, program };
}

/** What runs a compiled loop over all elements. */
function runner({ operands, targets, nest }: Request, kernel: Kernel, program: ElementProgram): () => void {
  const arrays = [...operands.map((part) => "scalar" in part ? null : part), ...targets];
  const numbers = numbersOf(program, operands.map((part) => "scalar" in part ? part.scalar : null));
  const isInteger = program.parameters
    .flatMap(({ dtype }) => Array.from({ length: dtypeInfo(dtype).parts }, () => dtypeInfo(dtype).isInteger));
  const words = numbers.map((value, i) => isInteger[i] ? BigInt(value) : value);
  const { inner, outer, others } = nest;
  const counts = [inner.extent, outer.extent].map(BigInt);
  const strides = outer.strides.map(BigInt);
  return () => {
    const starts = arrays.map((array) => array === null ? 0n : addressOf(array.storage as TypedArray));
    const sizes = arrays.map((array) => array === null ? 0 : dtypeInfo(array.dtype).itemSize);
    const walk = (depth: number, places: readonly number[]): void => {
      if (depth === others.length) {
        const addresses = starts.map((start, at) => start + BigInt(places[at] * sizes[at]));
        return kernel(packWords([...counts, ...addresses, ...strides, ...words]));
      }
      const { extent, strides: steps } = others[depth];
      for (let k = 0; k < extent; k++) walk(depth + 1, places.map((place, i) => place + k * steps[i]));
    };
    const span = recorder?.begin("compute", `compiled loop over ${inner.extent} x ${outer.extent}`);
    walk(0, arrays.map((array) => array?.offset ?? 0));
    span?.end();
  };
}

/**
 * Get ready to compute all elements of `target`, in host memory; null if the program, its types or layouts are not for it, or
 * there is no compiler. Strides of operands are 0 along dimensions that they lack. Results of `streamedBytes` and more pass by
 * the caches, where they can.
 */
export function prepareCompiled(
  { expression }: ElementProgram,
  operands: readonly Part[],
  target: LocalArray,
  streamedBytes = BEYOND_CACHES,
): (() => void) | null {
  const compiler = findCompiler();
  if (compiler === null) return null;
  const arrays = [...operands.map((part) => "scalar" in part ? null : part), target];
  const nest = nestOf(target.shape, arrays, operands.length);
  if (nest === null || nest.steps[operands.length] !== "next") return null;
  const isPast = target.byteLength >= streamedBytes && isStreamed(compiler, operands, target, nest);
  const request = { expression, operands, targets: [target], nest, accumulation: null, isStreamed: isPast };
  const found = kernelFor(request, compiler);
  return found && runner(request, found.kernel, found.program);
}

/**
 * Have accumulators take in every value of an expression, in whatever order. Whether it was done: what is no use here is left
 * as it was.
 */
export function accumulateCompiled(
  expression: Expression,
  operands: readonly Part[],
  targets: readonly Elements[],
  shape: readonly number[],
  accumulation: Accumulation,
): boolean {
  const compiler = findCompiler();
  if (compiler === null) return false;
  const arrays = [...operands.map((part) => "scalar" in part ? null : part), ...targets];
  const nest = nestOf(shape, arrays, arrays.findIndex((array) => array !== null));
  if (nest === null) return false;
  const request = { expression, operands, targets, nest, accumulation, isStreamed: false };
  const found = kernelFor(request, compiler);
  if (found === null) return false;
  targets.forEach(({ storage }, i) => (storage as Float64Array).fill(accumulation.start[i] as number));
  runner(request, found.kernel, found.program)();
  return true;
}
