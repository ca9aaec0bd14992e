/** Elementwise loops on one part, against NumPy's results and plain loops over random layouts. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { broadcastShapes } from "../../../src/array/elementwise/broadcast.ts";
import { applied, apply, compile, operand, type OperandType } from "../../../src/array/elementwise/expression.ts";
import type { Elements } from "../../../src/array/elementwise/loops.ts";
import { compute, runLoops } from "../../../src/array/elementwise/javascript_loops.ts";
import type { OperationName } from "../../../src/array/elementwise/names.ts";
import { operationOf, OPERATIONS } from "../../../src/array/elementwise/operations.ts";
import { LocalArray } from "../../../src/array/local_array.ts";
import { type DType, dtypeInfo, dtypes, type Scalar } from "../../../src/dtype/mod.ts";
import { DTypeError, ShapeError } from "../../../src/errors.ts";
import specialComplex from "./numpy/complex.json" with { type: "json" };
import fixtures from "./numpy/fixtures.json" with { type: "json" };

type Fixture = readonly (number | string)[];

const numbers = (list: Fixture): number[] => list.map(Number);

/** The result of an operation on whole parts, or numbers, of one shape. */
function run(name: OperationName, operands: readonly (LocalArray | { readonly scalar: Scalar })[]): LocalArray {
  const types = operands.map((operand): OperandType =>
    operand instanceof LocalArray ? { dtype: operand.dtype } : operand
  );
  const program = compile(applied(name), types);
  const { shape } = operands.find((operand) => operand instanceof LocalArray)!;
  const target = LocalArray.zeros(program.dtype, shape);
  compute(program, operands, target);
  return target;
}

function vector(dtype: DType, values: readonly number[]): LocalArray {
  const local = LocalArray.zeros(dtype, [values.length / dtypeInfo(dtype).parts]);
  local.set(values as number[]);
  return local;
}

/** All pairs of the elements of a list, which may be pairs of numbers themselves. */
function pairs(dtype: DType, values: readonly number[]): [LocalArray, LocalArray] {
  const { parts } = dtypeInfo(dtype);
  const elements = Array.from({ length: values.length / parts }, (_, i) => values.slice(i * parts, (i + 1) * parts));
  return [
    vector(dtype, elements.flatMap((a) => elements.flatMap(() => a))),
    vector(dtype, elements.flatMap(() => elements.flat())),
  ];
}

/** Equal, or as close as two libraries of mathematical functions are; the sign of a zero counts where it is exact. */
function assertClose(actual: readonly number[], wanted: readonly number[], tolerance: number, message: string): void {
  assertEquals(actual.length, wanted.length, message);
  actual.forEach((value, i) => {
    const isEqual = Object.is(value, wanted[i]) || value === wanted[i] ||
      Math.abs(value - wanted[i]) <= tolerance * Math.abs(wanted[i]);
    assert(isEqual, `${message} at ${i}: ${value}, but NumPy ${wanted[i]}`);
  });
}

Deno.test("an angle below the smallest number is a zero with its sign", () => {
  const angles = run("atan2", [vector("float64", [-1e-300, 1e-300, -0, 0, -5e-324, -1]), { scalar: 1e300 }]);
  assertEquals([...angles.data].map((value) => Object.is(value, -0) ? "-0" : value), ["-0", 0, "-0", 0, "-0", -1e-300]);
  const [, angle] = run("log", [vector("complex128", [1e300, -1e-300])]).data;
  assert(Object.is(angle, -0));
});

Deno.test("every operation on special float64 values gives what NumPy gives", () => {
  const special = numbers(fixtures.special);
  for (const [name, wanted] of Object.entries(fixtures.float64) as [OperationName, Fixture][]) {
    const operands = operationOf(name).arity === 1 ? [vector("float64", special)] : pairs("float64", special);
    assertClose(run(name, operands).toNumbers(), numbers(wanted), 1e-15, name);
  }
});

Deno.test("the error function and its complement are C's up to 2^-50 of them", () => {
  const { x, ...wanted } = fixtures.errorFunction;
  for (const name of ["erf", "erfc"] as const) {
    const actual = run(name, [vector("float64", x)]).toNumbers();
    actual.forEach((value, i) => {
      const isClose = Math.abs(value - wanted[name][i]) <= 2 ** -50 * Math.abs(wanted[name][i]);
      assert(isClose, `${name}(${x[i]}) is ${value}, not ${wanted[name][i]}`);
    });
  }
});

Deno.test("float32 is rounded as NumPy rounds it, to the last bit", () => {
  const operands = pairs("float32", numbers(fixtures.special));
  for (const [name, wanted] of Object.entries(fixtures.float32) as [OperationName, Fixture][]) {
    assertClose(run(name, operands).toNumbers(), numbers(wanted), 0, name);
  }
});

Deno.test("integers wrap around as NumPy's do", () => {
  for (const [name, wanted] of Object.entries(fixtures.int8) as [OperationName, Fixture][]) {
    const isOne = operationOf(name).arity === 1;
    const operands = isOne ? [vector("int8", fixtures.integers)] : pairs("int8", fixtures.integers);
    assertClose(run(name, operands).toNumbers(), numbers(wanted), 0, name);
  }
  const large = vector("int32", [2 ** 31 - 1, -(2 ** 31), 65537, -3]);
  assertEquals(run("multiply", [large, large]).toNumbers(), [1, 0, 131073, 9]);
  assertEquals(run("add", [large, { scalar: 1 }]).toNumbers(), [-(2 ** 31), 1 - 2 ** 31, 65538, -2]);
  assertEquals(run("power", [large, { scalar: 3 }]).toNumbers(), [2 ** 31 - 1, 0, 196609, -27]);
  const big = vector("int64", [3, -2]);
  assertEquals([...run("power", [big, { scalar: 62 }]).view()], [BigInt.asIntN(64, 3n ** 62n), 2n ** 62n]);
  assertEquals([...run("multiply", [run("power", [big, { scalar: 62 }]), { scalar: 2 }]).view()], [
    BigInt.asIntN(64, 2n * 3n ** 62n),
    -(2n ** 63n),
  ]);
});

Deno.test("complex results are NumPy's", () => {
  const values = numbers(fixtures.complex);
  for (const [name, wanted] of Object.entries(fixtures.complex128) as [OperationName, Fixture][]) {
    // What overflows in between is left out: libraries differ in where they give NaN.
    const isOne = operationOf(name).arity === 1;
    const some = ["add", "subtract", "equal", "notEqual", "negative", "abs", "conj", "real", "imag", "sqrt", "log"]
      .includes(name);
    const list = some ? values : values.slice(0, -2);
    const { parts } = dtypeInfo(run(name, isOne ? [vector("complex128", [1, 0])] : pairs("complex128", [1, 0])).dtype);
    const results = isOne ? run(name, [vector("complex128", list)]) : run(name, pairs("complex128", list));
    const count = values.length / 2;
    const kept = numbers(wanted).filter((_, i) => {
      const element = Math.floor(i / parts);
      const indices = isOne ? [element] : [Math.floor(element / count), element % count];
      return some || indices.every((index) => index < count - 1);
    });
    const actual = results.toNumbers();
    kept.forEach((value, i) => {
      // Cancellation: parts are compared with the size of the whole.
      const scale = Math.max(Math.abs(value), parts === 2 ? Math.abs(kept[i ^ 1]) : 0);
      const isEqual = Object.is(actual[i], value) || actual[i] === value ||
        Math.abs(actual[i] - value) <= 4e-15 * scale ||
        Number.isNaN(value) || !Number.isFinite(value);
      assert(isEqual, `${name} at ${i}: ${actual[i]}, but NumPy ${value}`);
    });
  }
});

/** Whether C99 leaves the signs of a function's results open: beside angles that are not finite, and NaN. */
function isSignOpen(name: string, re: number, im: number): boolean {
  if (name === "sqrt" || name === "log") return false;
  const [angle, other] = name === "sin" || name === "cos" ? [re, im] : [im, re];
  return !Number.isFinite(angle) || Number.isNaN(other);
}

for (
  const [dtype, results] of Object.entries(specialComplex) as ["complex128" | "complex64", Record<string, Fixture>][]
) {
  const isDouble = dtype === "complex128";
  const [tolerance, step] = isDouble ? [2e-15, 2 ** -1074] : [1e-6, 2 ** -149];
  Deno.test(`functions of special and large ${dtype} numbers are NumPy's: part by part, zeros with their signs`, () => {
    const { values, ...functions } = results;
    const given = vector(dtype, numbers(values));
    const parts = given.toNumbers();
    for (const [name, wanted] of Object.entries(functions)) {
      run(name as OperationName, [given]).toNumbers().forEach((value, i) => {
        const [re, im] = [parts[i - i % 2], parts[i - i % 2 + 1]];
        const exact = isDouble ? Number(wanted[i]) : Math.fround(Number(wanted[i]));
        const isClose = Object.is(value, exact) ||
          value !== 0 && exact !== 0 && Math.abs(value - exact) <= tolerance * Math.abs(exact) ||
          value !== exact && Math.abs(value - exact) <= step ||
          isSignOpen(name, re, im) && Object.is(Math.abs(value), Math.abs(exact));
        assert(isClose, `${name} of ${re}, ${im}, part ${i % 2}: ${value}, but NumPy ${exact}`);
      });
    }
  });
}

Deno.test("quotients, powers and signs of infinite complex numbers, and quotients by zero, are NumPy's", () => {
  const [inf, nan] = [Infinity, NaN];
  const cases: [OperationName, number[], number[] | null, number[]][] = [
    ["divide", [inf, 1], [0, 0], [inf, inf]],
    ["divide", [1, inf], [0, 0], [inf, inf]],
    ["divide", [1, nan], [0, 0], [inf, nan]],
    ["divide", [1, 1], [-0, -0], [inf, inf]],
    ["divide", [0, 1], [0, 0], [nan, inf]],
    ["power", [inf, 0], [-0.5, 0], [0, -0]],
    ["power", [0, inf], [-2.5, 0], [0, -0]],
    ["power", [2, 0], [-inf, 0], [0, -0]],
    ["sign", [inf, nan], null, [1, 0]],
    ["sign", [nan, -inf], null, [0, -1]],
    ["sign", [inf, -inf], null, [nan, nan]],
  ];
  for (const [name, z, w, wanted] of cases) {
    const given = [z, ...w === null ? [] : [w]].map((parts) => vector("complex128", parts));
    const found = run(name, given).toNumbers().map((value) => value + 0);
    assertEquals(found, wanted.map((value) => value + 0), `${name} of ${z} and ${w}`);
  }
});

Deno.test("squares of complex numbers, and powers of 2, are products with themselves", () => {
  for (const dtype of ["complex128", "complex64"] as const) {
    const given = vector(dtype, [...numbers(specialComplex[dtype].values), 1e308, 0.5, -0.25, 1.5e308]);
    const two = vector(dtype, Array.from({ length: given.size }, () => [2, 0]).flat());
    const wanted = run("multiply", [given, given]).toNumbers();
    assertEquals(run("square", [given]).toNumbers(), wanted);
    assertEquals(run("power", [given, { scalar: 2 }]).toNumbers(), wanted);
    assertEquals(run("power", [given, two]).toNumbers(), wanted);
  }
  const [, im, , other] = run("square", [vector("complex128", [1e308, 0.5, -0.25, 1.5e308])]).toNumbers();
  assertEquals([im, other], [1e308, -0.75e308]);
});

Deno.test("logarithms and powers of complex numbers near length 1 lose no digits", () => {
  // |z|^2 - 1 by integers: where it is as small as here, the logarithm of |z| is half of it.
  for (
    const [x, y] of [[0.6, 0.8], [1, 1e-9], [1, -1e-12], [Math.SQRT1_2, Math.SQRT1_2], [1 - 2 ** -53, 1e-8], [
      0.28,
      0.96,
    ]]
  ) {
    const unit = 2n ** 160n;
    const integer = (value: number) => BigInt(value * 2 ** 100) * 2n ** 60n;
    const beyond = integer(x) * integer(x) + integer(y) * integer(y) - unit * unit;
    const exact = Number(beyond) / 2 ** 320 / 2;
    for (const [re, im] of [[x, y], [y, x], [-x, y]]) {
      const [length] = run("log", [vector("complex128", [re, im])]).toNumbers();
      assert(Math.abs(length - exact) <= 1e-15 * Math.abs(exact), `log of ${re}, ${im}: ${length}, not ${exact}`);
    }
  }
  const [re, im] = run("power", [vector("complex128", [1, 1e-9]), { scalar: 1e18 }]).toNumbers();
  assert(Math.abs(Math.hypot(re, im) - Math.exp(0.5)) < 1e-8, "(1 + 1e-9 i)^(10^18) has length e^(1/2)");
});

Deno.test("powers 0 and 1 of complex numbers are exact, also of what is infinite; signs have length 1, also of large ones", () => {
  const values = [Infinity, 0, NaN, 1, 3, 4, -Infinity, 2, 0, -0];
  const given = vector("complex128", values);
  assertEquals(run("power", [given, { scalar: 0 }]).toNumbers(), values.map((_, i) => i % 2 === 0 ? 1 : 0));
  assertEquals(run("power", [given, { scalar: 1 }]).toNumbers(), values);
  const large = [1.5e308, 1.5e308, Infinity, 5, 2, -Infinity, Infinity, Infinity, 3, -4, 0, 0];
  const wanted = [Math.SQRT1_2, Math.SQRT1_2, 1, 0, 0, -1, NaN, NaN, 0.6, -0.8, 0, 0];
  const signs = run("sign", [vector("complex128", large)]).toNumbers();
  signs.forEach((value, i) =>
    assert(Object.is(value, wanted[i]) || Math.abs(value - wanted[i]) < 2e-16, `${i}: ${value}`)
  );
});

Deno.test("numbers of the script that no dtype decides on are checked as well", () => {
  const mask = vector("uint8", [1, 0]);
  const where = (a: bigint | number, b: bigint) => () => run("where", [mask, { scalar: a }, { scalar: b }]);
  assertThrows(where(2n ** 63n, 0n), RangeError, "where: int64 takes whole numbers");
  assertThrows(where(0.5, 2n ** 53n + 1n), DTypeError, "where: 9007199254740993n is not exact as a float");
  assertThrows(() => run("logicalAnd", [mask, { scalar: 2n ** 64n }]), RangeError, "logicalAnd: uint8");
  const both = () => run("logicalAnd", [vector("float64", [1]), { scalar: 2n ** 64n }]);
  assertThrows(both, RangeError, "logicalAnd: int64 takes whole numbers");
  assertThrows(
    () => run("add", [vector("float64", [1]), { scalar: 10n ** 400n }]),
    DTypeError,
    "is not exact as a float",
  );
});

Deno.test("narrow floats are computed in float64 and rounded once", () => {
  const a = vector("bfloat16", [1, 3, 256]);
  const b = vector("bfloat16", [2 ** -9, 2 ** -8, 1]);
  // bfloat16 has 8 bits: 1 + 2^-9 rounds down, 3 + 2^-8 too, 257 to even.
  assertEquals(run("add", [a, b]).toNumbers(), [1, 3, 256]);
  assertEquals(run("add", [a, vector("float16", [2 ** -9, 2 ** -8, 1])]).toNumbers(), [1 + 2 ** -9, 3 + 2 ** -8, 257]);
  assertEquals(run("multiply", [vector("float8_e4m3", [448, 1.125]), { scalar: 2 }]).toNumbers(), [448, 2.25]);
});

Deno.test("numbers of the script are rounded to the dtype beside them, as NumPy's scalars", () => {
  const tenth = vector("float32", [0.1, 0.2]);
  assertEquals(run("equal", [tenth, { scalar: 0.1 }]).toNumbers(), [1, 0]);
  assertEquals(run("where", [vector("float64", [0, NaN]), { scalar: 1 }, tenth]).toNumbers(), [Math.fround(0.1), 1]);
  assertEquals(run("divide", [{ scalar: 1 }, vector("int32", [4, 0])]).dtype, "float64");
});

const someDTypes = fc.constantFrom<DType>(...dtypes);

/** Strides of a layout with permuted dimensions and gaps; 0 along some. */
function layout(
  shape: readonly number[],
  order: readonly number[],
  gap: number,
  repeated: readonly boolean[],
): number[] {
  const strides = shape.map(() => 0);
  let stride = gap;
  for (const d of order) {
    if (repeated[d]) continue;
    strides[d] = stride;
    stride *= shape[d] + (gap > 1 ? 1 : 0);
  }
  return strides;
}

Deno.test("loops reach every element, whatever the layouts and dtypes", () => {
  const layouts = fc.record({
    order: fc.shuffledSubarray([0, 1, 2], { minLength: 3, maxLength: 3 }),
    gap: fc.integer({ min: 1, max: 2 }),
    repeated: fc.tuple(fc.boolean(), fc.boolean(), fc.boolean()),
    offset: fc.integer({ min: 0, max: 3 }),
    dtype: someDTypes,
  });
  const shapes = fc.tuple(...[1, 2, 3].map(() => fc.integer({ min: 0, max: 4 })));
  fc.assert(
    fc.property(shapes, layouts, layouts, layouts, (shape, one, other, to) => {
      const [a, b] = [one, other].map(({ dtype, order, gap, repeated, offset }, k): Elements => {
        const strides = layout(shape, order, gap, repeated);
        const memory = LocalArray.zeros(dtype, [200]);
        const { parts } = dtypeInfo(dtype);
        memory.set(Array.from({ length: 200 * parts }, (_, i) => (i * (k + 2)) % 5));
        return { storage: memory.data, dtype, offset, strides };
      });
      const program = compile(applied("add"), [a, b]);
      const strides = layout(shape, to.order, to.gap, [false, false, false]);
      const memory = LocalArray.zeros(
        ["bfloat16", "float8_e4m3", "float8_e5m2"].includes(program.dtype) ? "float64" : program.dtype,
        [200],
      );
      const target = { storage: memory.data, dtype: memory.dtype, offset: to.offset, strides };
      runLoops(program, [a, b], target, shape);
      const at = ({ storage, dtype, offset, strides }: Elements, index: number[]) => {
        const place = index.reduce((sum, i, d) => sum + i * strides[d], offset);
        return new LocalArray({ data: storage, dtype, shape: [1], offset: place }).toNumbers();
      };
      let count = 0;
      for (let i = 0; i < shape[0]; i++) {
        for (let j = 0; j < shape[1]; j++) {
          for (let k = 0; k < shape[2]; k++, count++) {
            const [[ar, ai = 0], [br, bi = 0]] = [at(a, [i, j, k]), at(b, [i, j, k])];
            const [re, im = 0] = at(target, [i, j, k]);
            assertEquals([re, im], [ar + br, ai + bi]);
          }
        }
      }
      if (count === 0) assertEquals(memory.toNumbers().every((value) => value === 0), true);
    }),
    { numRuns: 300 },
  );
});

Deno.test("what an expression uses twice is computed once", () => {
  let power = operand(0);
  for (let i = 0; i < 16; i++) power = apply("multiply", power, power);
  assertEquals(compile(power, [{ dtype: "float64" }]).statements.length, 16);
});

Deno.test("operations that have no meaning for a dtype say so", () => {
  const complex = vector("complex64", [1, 2]);
  assertThrows(
    () => run("less", [complex, complex]),
    DTypeError,
    "less has no meaning for complex64 here. Take real(), imag()",
  );
  assertThrows(() => run("floor", [complex]), DTypeError, "complex numbers have positive, negative, add");
  assertThrows(() => run("add", [vector("uint8", [1]), { scalar: 256 }]), RangeError, "add: uint8 takes whole numbers");
  assertThrows(() => run("add", [complex, { scalar: 2n ** 60n + 1n }]), DTypeError, "add: ");
  assertThrows(
    () => run("power", [vector("int32", [2]), { scalar: -1 }]),
    RangeError,
    "integers have no negative powers, and an exponent is -1",
  );
  assertThrows(
    () => run("power", [vector("int64", [2]), { scalar: -1 }]),
    RangeError,
    "integers have no negative powers",
  );
});

Deno.test("every operation has a formula for int64, or refuses it", () => {
  for (const name of Object.keys(OPERATIONS) as OperationName[]) {
    const operands = Array.from({ length: operationOf(name).arity }, () => vector("int64", [2, 0]));
    assertEquals(run(name, operands).size, 2, name);
  }
});

Deno.test("shapes broadcast as NumPy's", () => {
  assertEquals(broadcastShapes("add", [[4, 1, 3], [5, 1]]), [4, 5, 3]);
  assertEquals(broadcastShapes("add", [[0], [1]]), [0]);
  assertThrows(
    () => broadcastShapes("add", [[2, 3], [2]]),
    ShapeError,
    "add: shapes [2,3] and [2] do not fit together.",
  );
});
