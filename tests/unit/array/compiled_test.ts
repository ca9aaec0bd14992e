/** Programs that the machine's C compiler has made, against the loops of JavaScript that are taken without it. */
import { assert, assertEquals, fail } from "@std/assert";
import { findCompiler } from "../../../ffi/compiler.ts";
import { accumulateCompiled, prepareCompiled } from "../../../src/array/elementwise/compiled.ts";
import { applied, apply, cast, compile, type Expression, operand } from "../../../src/array/elementwise/expression.ts";
import { accumulate, compute } from "../../../src/array/elementwise/javascript_loops.ts";
import { type Accumulation, type Elements, type Part, typeOf } from "../../../src/array/elementwise/loops.ts";
import type { OperationName } from "../../../src/array/elementwise/names.ts";
import { operationOf } from "../../../src/array/elementwise/operations.ts";
import { LocalArray } from "../../../src/array/local_array.ts";
import type { DType, TypedArray } from "../../../src/dtype/mod.ts";
import specialComplex from "./numpy/complex.json" with { type: "json" };
import { distance, values } from "./special_values.ts";

const ignore = findCompiler() === null;
const why = ignore ? " (skipped: no compiler)" : "";

/** Operations whose results are the same, and the units in the last place by which others may differ. */
const operations: Partial<Record<OperationName, number>> = {
  divide: 0,
  sqrt: 0,
  minimum: 0,
  sign: 0,
  round: 0,
  less: 0,
  where: 0,
  exp: 4,
  power: 4,
  tanh: 4,
};

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

for (const dtype of ["float64", "float32"] as const) {
  Deno.test({
    name: `compiled loops give what loops give, wherever elements lie: ${dtype}${why}`,
    ignore,
    fn: () => {
      const [a, b] = [values(dtype, 1500, 0), values(dtype, 1500, 1)];
      for (const [name, most] of Object.entries(operations) as [OperationName, number][]) {
        const expression = applied(name);
        const operands = [a, b, a].slice(0, operationOf(name).arity);
        const { dtype: result } = compile(expression, operands.map(typeOf));
        const [compiled, loops] = [LocalArray.zeros(result, a.shape), LocalArray.zeros(result, a.shape)];
        assert(both(expression, operands, compiled, loops), name);
        for (let i = 0; i < a.size; i++) {
          const [value, wanted] = [compiled.data[i] as number, loops.data[i] as number];
          if (distance(dtype, value, wanted) <= most) continue;
          fail(`${name}(${a.data[i]}, ${b.data[i]}) = ${value}, by loops ${wanted}`);
        }
        for (const [offset, length] of [[0, 256], [1, 257], [3, 511], [259, 1000], [7, 1493]]) {
          const parts = operands.map((array) => from(array, offset, length));
          const target = LocalArray.zeros(result, [length + 2]);
          prepareCompiled(compile(expression, parts.map(typeOf)), parts, from(target, 1, length))!();
          const wanted = [0, ...compiled.data.subarray(offset, offset + length), 0];
          assertEquals(target.data as TypedArray, (target.data.constructor as Float64ArrayConstructor).from(wanted));
        }
      }
    },
  });
}

Deno.test({
  name: `compiled functions of complex numbers give what loops give, of special and large numbers too${why}`,
  ignore,
  fn: () => {
    for (const dtype of ["complex128", "complex64"] as const) {
      const once = specialComplex[dtype].values.map(Number);
      const given = LocalArray.zeros(dtype, [once.length]);
      given.set([...once, ...once.toReversed()]);
      for (const name of ["sin", "cos", "sinh", "cosh", "square", "multiply"] as const) {
        const operands = [given, given].slice(0, operationOf(name).arity);
        // Alone, and beside one of the real functions that these are made of.
        const beside = apply("add", applied(name), apply("cosh", apply("real", operand(0))));
        for (const expression of [applied(name), beside]) {
          const [compiled, loops] = [0, 1].map(() => LocalArray.zeros(dtype, given.shape));
          // Of glibc before 2.35 there are no hyperbolic functions of vectors.
          if (!both(expression, operands, compiled, loops)) continue;
          const [parts, wanted] = [compiled, loops].map((array) => array.toNumbers());
          const real = dtype === "complex128" ? "float64" : "float32";
          parts.forEach((value, i) => {
            if (distance(real, value, wanted[i]) <= 16) return;
            const of = given.at(Math.floor(i / 2));
            fail(`${name} of ${of}, part ${i % 2}: ${value}, by loops ${wanted[i]}`);
          });
        }
      }
    }
  },
});

/** As many elements, which begin at a cache line. */
function atLine(dtype: DType, length: number): LocalArray {
  const memory = LocalArray.zeros(dtype, [length + 64]);
  const start = Number(-memory.address & 63n) / (memory.byteLength / memory.size);
  return memory.slice([start], [length]).reshaped([length], [1]);
}

Deno.test({
  name: `results that pass by the caches are those that do not, in whole lines of the cache and beside them${why}`,
  ignore,
  fn: () => {
    const cases: [OperationName, DType][] = [
      ["add", "float32"],
      ["multiply", "complex128"],
      ["less", "float64"],
      ["power", "float64"],
      ["exp", "float32"],
      ["subtract", "int32"],
    ];
    for (const [name, dtype] of cases) {
      for (const length of [2048, 4133]) {
        const [a, b] = [0, 1].map((shift) => {
          const given = LocalArray.zeros(dtype, [length]);
          const { data } = given;
          const numbers = values("float64", data.length, shift).data;
          for (let i = 0; i < data.length; i++) data[i] = numbers[i];
          return given;
        });
        const operands = [a, b].slice(0, operationOf(name).arity);
        const program = compile(applied(name), operands.map(typeOf));
        const [past, plain] = [0, 1].map(() => atLine(program.dtype, length));
        prepareCompiled(program, operands, past, 0)!();
        prepareCompiled(program, operands, plain)!();
        const [results, wanted] = [past, plain].map((array) => Array.from(array.toTypedArray(), Number));
        assertEquals(results, wanted, `${name} ${dtype}`);
        const isThere = (value: unknown) => Number(value) !== 0;
        assertEquals(Array.from(past.data, Number).filter(isThere), wanted.filter(isThere), "nothing beside them");
      }
    }
  },
});

Deno.test({
  name: `powers of ordinary numbers, beside some that are none, and in place${why}`,
  ignore,
  fn: () => {
    for (const dtype of ["float64", "float32"] as const) {
      const [a, b] = [LocalArray.zeros(dtype, [2048]), LocalArray.zeros(dtype, [2048])];
      const reach = dtype === "float64" ? 1000 : 120;
      for (let i = 0; i < a.size; i++) {
        // Bases of all sizes, and results of all sizes.
        a.data[i] = 2 ** ((i * 7919 % 2003 - 1001) / 1001 * (i % 3 === 0 ? 1 : reach));
        b.data[i] = (i * 104729 % 1999 - 999) / 999 * (i % 3 === 0 ? reach : 1);
      }
      [a.data[700], a.data[1500], b.data[1900]] = [-2, 0, NaN];
      const [powers, base] = [LocalArray.zeros(dtype, [2048]), a.copy()];
      const program = compile(applied("power"), [a, b].map(typeOf));
      compute(program, [base, b], powers);
      prepareCompiled(program, [a, b], a)!();
      for (let i = 0; i < a.size; i++) {
        assert(
          distance(dtype, a.data[i] as number, powers.data[i] as number) <= 2,
          `${dtype} ${i}: ${a.data[i]}, ${powers.data[i]}`,
        );
      }
    }
  },
});

/** Powers by IEEE 754, which JavaScript departs from where the base is 1 or -1. */
function powerOf(x: number, y: number): number {
  return x === 1 || x === -1 && Math.abs(y) === Infinity ? 1 : x ** y;
}

Deno.test({
  name:
    `powers of float32 are less than a unit in the last place from the exact ones, and special ones are IEEE 754's${why}`,
  ignore,
  fn: () => {
    const size = 2 ** 18;
    const [x, y, result] = Array.from({ length: 3 }, () => LocalArray.zeros("float32", [size]));
    let state = 1;
    const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
    for (let i = 0; i < size; i++) {
      // Bases of all sizes, and those near 1; results of all sizes, also below the normal range.
      x.data[i] = i % 2 === 0 ? 2 ** (252 * random() - 126) : 0.7 + 0.72 * random();
      y.data[i] = (2 * random() - 1) * 149 / Math.max(1e-6, Math.abs(Math.log2(x.data[i] as number)));
    }
    const program = compile(applied("power"), [x, y].map(typeOf));
    prepareCompiled(program, [x, y], result)!();
    for (let i = 0; i < size; i++) {
      const [got, exact] = [result.data[i] as number, (x.data[i] as number) ** (y.data[i] as number)];
      const unit = 2 ** (Math.max(-126, Math.floor(Math.log2(exact))) - 23);
      if (exact >= 2 ** 128 ? got !== Infinity : Math.abs(got - exact) >= unit) {
        fail(`${x.data[i]} ** ${y.data[i]} = ${got}, exactly ${exact}`);
      }
    }
    for (const dtype of ["float32", "float64"] as const) {
      const below = 1 - 2 ** (dtype === "float32" ? -24 : -53);
      const numbers = [
        0,
        1,
        2,
        3,
        0.5,
        2.5,
        below,
        Infinity,
        NaN,
        2 ** 24,
        2 ** 53,
        dtype === "float32" ? 1e-45 : 5e-324,
      ];
      const all = [...numbers, ...numbers.map((value) => -value)];
      const [bases, exponents, powers] = Array.from({ length: 3 }, () => LocalArray.zeros(dtype, [all.length ** 2]));
      bases.data.set(all.flatMap((base) => all.map(() => base)) as never);
      exponents.data.set(all.flatMap(() => all) as never);
      prepareCompiled(compile(applied("power"), [bases, exponents].map(typeOf)), [bases, exponents], powers)!();
      for (let i = 0; i < bases.size; i++) {
        const exact = powerOf(bases.data[i] as number, exponents.data[i] as number);
        const wanted = dtype === "float32" ? Math.fround(exact) : exact;
        const most = Number.isFinite(wanted) && wanted !== 0 ? 1 : 0;
        const got = powers.data[i] as number;
        assert(
          Object.is(got, wanted) || most === 1 && distance(dtype, got, wanted) <= most,
          `${dtype}: ${bases.data[i]} ** ${exponents.data[i]} = ${got}, not ${wanted}`,
        );
      }
    }
  },
});

Deno.test({
  name:
    `powers of zeros, infinities and negative numbers have the signs that loops give, also beside odd exponents${why}`,
  ignore,
  fn: () => {
    const bases = [0, -0, -Infinity, Infinity, -1, -2, -0.5, NaN, 1, -5e-324];
    const whole = [0, 1, 2, 3, 4, 5, 2 ** 52 + 1, 2 ** 53 - 1, 2 ** 53, Infinity];
    for (const [dtype, step] of [["float64", 2 ** -53], ["float32", 2 ** -24]] as const) {
      const beside = whole.flatMap((y) => [y, y * (1 - step), y * (1 + 2 * step), y + 0.5]);
      const exponents = [...beside, ...beside.map((y) => -y), NaN];
      const shape = [bases.length * exponents.length];
      const [a, b, powers, loops] = [0, 1, 2, 3].map(() => LocalArray.zeros(dtype, shape));
      for (let i = 0; i < a.size; i++) {
        a.data[i] = bases[i % bases.length];
        b.data[i] = exponents[Math.floor(i / bases.length)];
      }
      assert(both(applied("power"), [a, b], powers, loops));
      for (let i = 0; i < a.size; i++) {
        const [value, wanted] = [powers.data[i] as number, loops.data[i] as number];
        if (distance(dtype, value, wanted) > 2) {
          fail(`${a.data[i]} to the power ${b.data[i]}: ${value}, by loops ${wanted}`);
        }
      }
    }
  },
});

Deno.test({
  name: `expressions, repeated operands, numbers, lines, integers and complex numbers are compiled${why}`,
  ignore,
  fn: () => {
    const [rows, columns] = [5, 301];
    const matrix = (dtype: DType) => {
      const array = LocalArray.zeros(dtype, [rows, columns]);
      const { data } = array;
      for (let i = 0; i < data.length; i++) {
        // Products of these are rounded.
        data[i] = (i * 7919 % 2003 - 1000) / (array.data instanceof Int32Array ? 1 : 63);
      }
      return array;
    };
    const [x, y, z] = [0, 1, 2].map(operand);
    const fused = apply("add", apply("multiply", x, y), apply("sqrt", apply("abs", apply("subtract", x, z))));
    const clip = apply("minimum", apply("maximum", x, y), z);
    for (const dtype of ["float64", "float32", "int32", "complex128", "complex64"] as const) {
      const a = matrix(dtype);
      const row: Elements = { ...a, storage: a.storage, dtype, offset: 3, strides: [0, 1] };
      const column: Elements = { ...a, storage: a.storage, dtype, offset: 4, strides: [columns, 0] };
      const cases: [Expression, Part[]][] = [
        [apply("multiply", x, apply("add", y, z)), [a, row, column]],
        [applied("multiply"), [a, row]],
        [apply("subtract", apply("multiply", x, y), apply("square", z)), [a, row, column]],
      ];
      if (dtype.startsWith("complex")) {
        cases.push([apply("add", apply("conj", apply("multiply", x, y)), z), [a, row, column]]);
      }
      if (dtype === "float64" || dtype === "float32") cases.push([fused, [a, row, { scalar: 0.3 }]]);
      if (dtype === "float32") cases.push([clip, [a, { scalar: -0.7 }, { scalar: 1.2 }]]);
      for (const [expression, operands] of cases) {
        const [compiled, loops] = [LocalArray.zeros(dtype, a.shape), LocalArray.zeros(dtype, a.shape)];
        assert(both(expression, operands, compiled, loops), dtype);
        assertEquals(compiled.data, loops.data);
      }
    }
  },
});

Deno.test({
  name: `imaginary parts of real numbers are zeros of floats: they have signs, and quotients of them are NaN${why}`,
  ignore,
  fn: () => {
    const [x, z] = [operand(0), operand(1)];
    const imag = apply("imag", x);
    const cases: Expression[] = [
      apply("divide", imag, imag),
      apply("negative", imag),
      apply("negative", cast("complex128", x)),
      apply("multiply", apply("conj", cast("complex128", x)), z),
    ];
    const operands = [values("float64", 1000, 0), LocalArray.zeros("complex128", [1000])];
    (operands[1].data as Float64Array).set(values("float64", 2000, 1).data as Float64Array);
    for (const expression of cases) {
      const { dtype } = compile(expression, operands.map(typeOf));
      const [compiled, loops] = [LocalArray.zeros(dtype, [1000]), LocalArray.zeros(dtype, [1000])];
      assert(both(expression, operands, compiled, loops));
      assert(compiled.data.every((value, i) => Object.is(value, loops.data[i])));
    }
  },
});

Deno.test({
  name: `what goes into float64 is not rounded to float32 before${why}`,
  ignore,
  fn: () => {
    const cases: [OperationName, DType, DType][] = [
      ["multiply", "float32", "float64"],
      ["add", "complex64", "complex128"],
      ["subtract", "float32", "complex128"],
      ["maximum", "float32", "float64"],
      ["multiply", "float64", "float32"],
    ];
    for (const [name, dtype, into] of cases) {
      const [a, b] = [0, 1].map((shift) => {
        const array = LocalArray.zeros(dtype, [1000]);
        for (let i = 0; i < array.data.length; i++) array.data[i] = 1 / (1 + i * 7919 % 2003 + shift);
        return array;
      });
      const [compiled, loops] = [LocalArray.zeros(into, [1000]), LocalArray.zeros(into, [1000])];
      assert(both(applied(name), [a, b], compiled, loops), name);
      assertEquals(compiled.data, loops.data, name);
    }
  },
});

Deno.test({
  name: `what C has not, or arrays that do not lie side by side, is left to others${why}`,
  ignore,
  fn: () => {
    const prepared = (name: OperationName, dtype: DType, strides = [1], length = 1000) => {
      const target = LocalArray.zeros(dtype, [length]);
      const data = LocalArray.zeros(dtype, [2000]);
      const operands = Array.from({ length: operationOf(name).arity }, () => ({
        storage: data.storage,
        dtype,
        offset: 0,
        strides,
      }));
      return prepareCompiled(compile(applied(name), operands.map(typeOf)), operands, target);
    };
    assertEquals(prepared("add", "bfloat16"), null);
    assertEquals(prepared("add", "float16"), null);
    assertEquals(prepared("power", "int32"), null);
    assertEquals(prepared("exp", "complex128"), null);
    assertEquals(prepared("sqrt", "float64", [2]), null);
    assertEquals(prepared("sqrt", "float64", [1], 255), null);
    assert(prepared("sqrt", "float64") !== null);
  },
});

const better = ([value]: readonly string[]) => `if (!(${value} <= a0)) a0 = a0 !== a0 ? a0 : ${value};`;

Deno.test({
  name: `compiled reductions give what loops give: of all, of rows, of columns${why}`,
  ignore,
  fn: () => {
    const [rows, columns] = [300, 301];
    const add: Accumulation = {
      start: [0, 0],
      take: ([value]) => `a0 += ${value}; a1 += x1;`,
      merge: ([one, other]) => `a0 += ${one}; a1 += ${other};`,
      isAnyOrder: true,
    };
    const largest: Accumulation = { start: [-Infinity], take: better, merge: better, isAnyOrder: true, isChoice: true };
    const magnitude = apply("abs", operand(0));
    for (const dtype of ["float64", "float32"] as const) {
      for (const [accumulation, expression] of [[add, cast("float64", magnitude)], [largest, magnitude]] as const) {
        const array = LocalArray.zeros(dtype, [rows, columns]);
        for (let i = 0; i < array.size; i++) array.data[i] = (i * 7919 % 20011 - 10000) / 64;
        if (accumulation === largest) array.data[77777] = NaN;
        for (const [size, strides] of [[1, [0, 0]], [rows, [1, 0]], [columns, [0, 1]]] as const) {
          const one: Elements = { storage: Float64Array.of(0.5), dtype: "float64", offset: 0, strides: [0, 0] };
          const results = [0, 1].map(() =>
            accumulation.start.map((): Elements => ({
              storage: new Float64Array(size),
              dtype: "float64",
              offset: 0,
              strides,
            }))
          );
          const parts = [array, one];
          assert(accumulateCompiled(expression, parts, results[0], array.shape, accumulation));
          accumulate(compile(expression, parts.map(typeOf)), parts, results[1], array.shape, accumulation);
          assertEquals(results[0].map(({ storage }) => storage), results[1].map(({ storage }) => storage));
        }
      }
    }
  },
});
