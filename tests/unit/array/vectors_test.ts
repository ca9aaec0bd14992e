/** Programs as calls of MKL's vector mathematics, against the loops that are taken without it. */
import { assert, assertEquals, assertStringIncludes, fail } from "@std/assert";
import { missingKernel, openVectorMath } from "../../../ffi/blas/vector_math.ts";
import { applied, apply, compile, type Expression, operand } from "../../../src/array/elementwise/expression.ts";
import { compute } from "../../../src/array/elementwise/javascript_loops.ts";
import { type Elements, type Part, typeOf } from "../../../src/array/elementwise/loops.ts";
import type { OperationName } from "../../../src/array/elementwise/names.ts";
import { operationOf } from "../../../src/array/elementwise/operations.ts";
import { prepareVectors } from "../../../src/array/elementwise/vectors.ts";
import { LocalArray } from "../../../src/array/local_array.ts";
import { distance, values } from "./special_values.ts";

const math = openVectorMath(1);
const ignore = math === null;
const why = ignore ? " (skipped: no MKL with vector mathematics)" : "";

const exact: OperationName[] = [
  ...["add", "subtract", "multiply", "minimum", "maximum", "square", "abs"] as const,
  ...["floor", "ceil", "trunc", "round"] as const,
];
const rounded: OperationName[] = [
  ...["power", "atan2", "exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos"] as const,
  ...["atan", "sinh", "cosh", "tanh", "erf", "erfc"] as const,
];

function both(expression: Expression, operands: readonly Part[], target: LocalArray, other: LocalArray): boolean {
  const program = compile(expression, operands.map(typeOf));
  const run = prepareVectors(program, operands, target, () => math);
  run?.();
  compute(program, operands, other);
  return run !== null;
}

for (const dtype of ["float64", "float32"] as const) {
  Deno.test({
    name: `vector mathematics gives what loops give: ${dtype}${why}`,
    ignore,
    fn: () => {
      const [a, b] = [values(dtype, 20_000, 0), values(dtype, 20_000, 1)];
      for (const name of [...exact, ...rounded]) {
        const operands = operationOf(name).arity === 1 ? [a] : [a, b];
        const [vectors, loops] = [LocalArray.zeros(dtype, a.shape), LocalArray.zeros(dtype, a.shape)];
        assert(both(applied(name), operands, vectors, loops), name);
        const most = exact.includes(name) ? 0 : name === "erfc" ? 5 : 2;
        for (let i = 0; i < a.size; i++) {
          const [value, wanted] = [vectors.data[i] as number, loops.data[i] as number];
          if (distance(dtype, value, wanted) <= most) continue;
          fail(`${name}(${a.data[i]}, ${b.data[i]}) = ${value}, by loops ${wanted}`);
        }
      }
    },
  });

  Deno.test({
    name: `results of vector mathematics do not depend on where elements lie: ${dtype}${why}`,
    ignore,
    fn: () => {
      const [a, b] = [values(dtype, 3000, 0), values(dtype, 3000, 1)];
      for (const name of rounded) {
        const parts = operationOf(name).arity === 1 ? [a] : [a, b];
        const whole = LocalArray.zeros(dtype, a.shape);
        assert(both(applied(name), parts, whole, LocalArray.zeros(dtype, a.shape)));
        for (const [offset, length] of [[1, 2999], [3, 1001], [7, 511], [1234, 256]]) {
          const moved = parts.map((part) => ({ storage: part.data, dtype, offset, strides: [1] }));
          const result = LocalArray.zeros(dtype, [length]);
          assert(both(applied(name), moved, result, LocalArray.zeros(dtype, [length])));
          assertEquals(result.data, whole.data.slice(offset, offset + length), name);
        }
      }
    },
  });
}

Deno.test({
  name: `vector mathematics of expressions, numbers, rows with gaps, in place${why}`,
  ignore,
  fn: () => {
    const x = operand(0);
    const grown = apply("multiply", x, apply("add", apply("exp", apply("multiply", x, operand(1))), operand(2)));
    const clip = apply("minimum", apply("maximum", x, operand(1)), operand(2));
    const numbers = [{ scalar: -0.5 }, { scalar: 1 }];
    for (const dtype of ["float64", "float32"] as const) {
      const matrix = values(dtype, 9 * 2000, 0).reshaped([9, 2000], [2000, 1]);
      const rows = LocalArray.zeros(dtype, [9, 2100]).slice([0, 50], [9, 2000]);
      const others = LocalArray.zeros(dtype, [9, 2000]);
      // What stands between is float64's.
      assertEquals(both(grown, [matrix, ...numbers], rows, others), dtype === "float64");
      if (dtype === "float64") {
        const [vectors, loops] = [rows.toNumbers(), others.toNumbers()];
        vectors.forEach((value, i) => {
          assert(
            Object.is(value, loops[i]) || Math.abs(value - loops[i]) <= 1e-14 * Math.abs(value),
            `${value} ${loops[i]}`,
          );
        });
      }
      assert(both(clip, [matrix, ...numbers], rows, others));
      assertEquals(rows.toNumbers(), others.toNumbers());
      assert(both(applied("power"), [matrix, { scalar: 2 }], rows, others));
      assertEquals(rows.toNumbers(), others.toNumbers());
      assert(both(clip, [matrix, ...numbers], rows, others));
      prepareVectors(compile(clip, [matrix, ...numbers].map(typeOf)), [matrix, ...numbers], matrix, () => math)!();
      assertEquals(matrix.toNumbers(), others.toNumbers());
    }
  },
});

Deno.test("programs that vector mathematics does not compute are left to loops", () => {
  const never = () => assert(false, "asked for vector mathematics");
  const [double, single] = (["float64", "float32"] as const).map((dtype) => LocalArray.zeros(dtype, [1000]));
  const integers = LocalArray.zeros("int32", [1000]);
  const rows = LocalArray.zeros("float64", [500, 4]);
  const one = { ...parts(double), strides: [0] };
  const cases: [OperationName, Part[], LocalArray][] = [
    ["add", [double, single], double],
    ["add", [single, single], double],
    ["add", [integers, double], double],
    ["add", [double, { scalar: 1n }], double],
    ["add", [double, { scalar: NaN }], double],
    ["add", [double, one], double],
    ["less", [double, double], integers],
    ["sign", [double], double],
    ["sqrt", [double], double],
    ["divide", [double, double], double],
    ["positive", [double], double],
    ["exp", [rows.slice([0, 1], [500, 2])], LocalArray.zeros("float64", [500, 2])],
    ["exp", [LocalArray.zeros("float64", [0])], LocalArray.zeros("float64", [0])],
  ];
  for (const [name, operands, target] of cases) {
    const program = compile(applied(name), operands.map(typeOf));
    assertEquals(prepareVectors(program, operands, target, never as () => null), null, name);
  }
  const mixed = compile(apply("maximum", apply("exp", operand(0)), operand(1)), [double, { scalar: 0 }].map(typeOf));
  assertEquals(prepareVectors(mixed, [double, { scalar: 0 }], double, never as () => null), null);
  const program = compile(applied("exp"), [double].map(typeOf));
  assertEquals(prepareVectors(program, [double], double, () => null), null);
});

function parts(array: LocalArray): Elements {
  return { storage: array.data, dtype: array.dtype, offset: 0, strides: [1] };
}

Deno.test("an MKL that lacks a part of its vector mathematics is not used, since it would end the process", () => {
  const folder = Deno.makeTempDirSync();
  try {
    assertStringIncludes(missingKernel(`${folder}/libmkl_intel_lp64.so.3`)!, `${folder}/libmkl_vml_def.so.3`);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});
