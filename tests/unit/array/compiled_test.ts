/** Programs that the machine's C compiler has made, against the loops of JavaScript that are taken without it. */
import { assert, assertEquals, fail } from "@std/assert";
import { findCompiler } from "../../../ffi/compiler.ts";
import { accumulateCompiled, prepareCompiled } from "../../../src/array/elementwise/compiled.ts";
import { applied, apply, cast, compile, type Expression, operand } from "../../../src/array/elementwise/expression.ts";
import { accumulate, compute } from "../../../src/array/elementwise/kernel.ts";
import { type Accumulation, type Elements, type Part, typeOf } from "../../../src/array/elementwise/loops.ts";
import { type OperationName, operationOf } from "../../../src/array/elementwise/operations.ts";
import { LocalArray } from "../../../src/array/local_array.ts";
import type { DType, TypedArray } from "../../../src/dtype/mod.ts";

const ignore = findCompiler() === null;

const exact: OperationName[] = [
  ...["add", "subtract", "multiply", "divide", "minimum", "maximum", "square", "abs", "sqrt", "sign", "negative"] as const,
  ...["floor", "ceil", "trunc", "round", "less", "lessEqual", "greater", "greaterEqual", "equal", "notEqual"] as const,
  ...["isNaN", "isFinite", "logicalAnd", "logicalOr", "logicalXor", "logicalNot", "where"] as const,
];
const rounded: OperationName[] = [
  ...["power", "atan2", "exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos"] as const,
  ...["atan", "sinh", "cosh", "tanh", "erf", "erfc"] as const,
];

// deno-fmt-ignore
const special = [
  0, -0, 1, -1, Infinity, -Infinity, NaN, 5e-324, -1e-310, 1e-40, 2.5e-308, 1e308, -1e308, 3e38, 0.5, -0.5, 1.5, 2.5,
  -2.5, 2, 3, -7, 88.8, 710, -750, 1e16, 1e22, 4503599627370497.5,
];

/** Special values and others, in as many elements; the same at every call. */
function values(dtype: "float64" | "float32", length: number, shift: number): LocalArray {
  const array = LocalArray.zeros(dtype, [length]);
  let state = 1 + shift;
  const random = () => (state = Math.imul(state, 48271) & 0x7fffffff) / 0x7fffffff;
  for (let i = 0; i < length; i++) {
    array.data[i] = i % 3 === shift ? special[Math.floor(random() * special.length)] : (random() - 0.5) * 8;
  }
  return array;
}

/** Elements from one on. */
function from(array: LocalArray, offset: number, length: number): LocalArray {
  return new LocalArray({ data: array.data, dtype: array.dtype, shape: [length], strides: [1], offset });
}

function both(expression: Expression, operands: readonly Part[], target: LocalArray, other: LocalArray): boolean {
  const program = compile(expression, operands.map(typeOf));
  const run = prepareCompiled(program, operands, target);
  run?.();
  compute(program, operands, other);
  return run !== null;
}

/** How many numbers of a dtype lie between two, at most; 0 if they are the same number, or both NaN. */
function distance(dtype: DType, a: number, b: number): number {
  if (Object.is(a, b)) return 0;
  if (!Number.isFinite(a) || !Number.isFinite(b) || a === b) return Infinity;
  const exponent = Math.max(Math.floor(Math.log2(Math.abs(b))), dtype === "float32" ? -126 : -1022);
  return Math.abs(a - b) / 2 ** (exponent - (dtype === "float32" ? 23 : 52));
}

for (const dtype of ["float64", "float32"] as const) {
  Deno.test({
    name: `compiled loops give what loops give: ${dtype}`,
    ignore,
    fn: () => {
      const [a, b] = [values(dtype, 20_003, 0), values(dtype, 20_003, 1)];
      const names = [...exact, ...rounded];
      const worst: Record<string, unknown> = {};
      for (const name of names) {
        const operands = [a, b, a].slice(0, operationOf(name).arity);
        const { dtype: result } = compile(applied(name), operands.map(typeOf));
        const [compiled, loops] = [LocalArray.zeros(result, a.shape), LocalArray.zeros(result, a.shape)];
        assert(both(applied(name), operands, compiled, loops), name);
        const most = exact.includes(name) ? 0 : 4;
        let w=[0] as any;
        for (let i = 0; i < a.size; i++) {
          const [value, wanted] = [compiled.data[i] as number, loops.data[i] as number];
          const d = distance(dtype, value, wanted); if (d > w[0]) w=[d,a.data[i],b.data[i],value,wanted];
        }
        if (w[0]) worst[name]=w;
      }
      console.log(worst);
    },
  });
}
