/**
 * What nvmath-python's tests of distributed FFTs try, as generated tables, and what holds for transforms of any size:
 * Parseval's theorem, inverses, single frequencies, shifted deltas.
 */
import { assert, assertEquals } from "@std/assert";
import {
  allocateOperand,
  Box,
  DistributedArray,
  type Distribution,
  FFT,
  fft,
  type FFTDirection,
  type FFTOptions,
  type FFTType,
  ifft,
  irfft,
  type OperandOptions,
  rfft,
  type Runtime,
  type Scalar,
  Slab,
} from "../../mod.ts";
import { clusterTest } from "../../src/testing/mod.ts";
import { isSampled } from "./sampling.ts";
import { hostTest } from "../gpu/gpu_test_kit.ts";

/** A case of the table: 8 shapes, 4 kinds, 3 ways to say where the result goes, 2 directions, how it is run, in turns in single and double precision. */
interface Row {
  readonly shape: readonly number[];
  readonly kind: "r2c" | "c2r even" | "c2r odd" | "c2c";
  readonly place: "natural" | "redistribute" | "boxes";
  readonly direction: FFTDirection;
  readonly inplace: boolean;
  readonly blocking: true | "auto";
  readonly isChecked: boolean;
  readonly isSingle: boolean;
}

const SHAPES = [[8, 9], [8, 8], [9, 11, 8], [11, 9, 8], [31, 31, 31], [128, 32], [128, 32, 64], [32, 32, 32]];

function table(): Row[] {
  const rows: Row[] = [];
  for (const shape of SHAPES) {
    for (const kind of ["r2c", "c2r even", "c2r odd", "c2c"] as const) {
      for (const place of ["natural", "redistribute", "boxes"] as const) {
        for (const direction of kind === "c2c" ? ["forward", "inverse"] as const : ["forward"] as const) {
          for (const inplace of [false, true]) {
            for (const blocking of [true, "auto"] as const) {
              for (const isChecked of [true, false]) {
                rows.push({
                  shape,
                  kind,
                  place,
                  direction: kind.startsWith("c2r") ? "inverse" : direction,
                  inplace,
                  blocking,
                  isChecked,
                  // In step with none of the loops.
                  isSingle: Math.floor(rows.length / 3) % 2 === 0,
                });
              }
            }
          }
        }
      }
    }
  }
  return rows;
}

const volume = (shape: readonly number[]) => shape.reduce((product, extent) => product * extent, 1);

/** As many boxes as ranks, cut along an axis, unevenly. */
function boxesAlong(axis: number, shape: readonly number[], size: number): Box {
  const cut = (rank: number) => rank === size ? shape[axis] : Math.floor(shape[axis] * rank * rank / (size * size));
  return new Box(Array.from({ length: size }, (_, rank) =>
    [
      shape.map((_, d) => d === axis ? cut(rank) : 0),
      shape.map((extent, d) => d === axis ? cut(rank + 1) : extent),
    ] as [number[], number[]]));
}

/**
 * A plane wave: its spectrum is one number at its frequency. Of real numbers, a cosine has half of it there and half of it
 * at the negated frequency.
 */
function wave(shape: readonly number[], frequency: readonly number[]) {
  const angle = (index: readonly number[]) =>
    2 * Math.PI * index.reduce((sum, i, d) => sum + (i * frequency[d] % shape[d]) / shape[d], 0);
  return {
    complex: (...index: number[]) => [Math.cos(angle(index)), Math.sin(angle(index))] as const,
    real: (...index: number[]) => Math.cos(angle(index)),
  };
}

/**
 * Run a case twice, on other operands the second time, and compare with what is known of waves; complex numbers then go back,
 * from where the results are, and there again.
 */
function tryRow(runtime: Runtime, row: Row): void {
  const { kind, place, direction, inplace, blocking, isChecked, isSingle } = row;
  const type = kind.slice(0, 3) as FFTType;
  const isOdd = kind === "c2r odd";
  const real = type === "c2r" && row.shape.at(-1)! % 2 !== Number(isOdd)
    ? row.shape.with(-1, row.shape.at(-1)! + 1)
    : row.shape;
  const half = real.with(-1, Math.floor(real.at(-1)! / 2) + 1);
  const [before, after] = type === "c2c" ? [real, real] : type === "r2c" ? [real, half] : [half, real];
  const from: Distribution = place === "boxes"
    ? boxesAlong(type === "c2r" ? 1 : 0, before, runtime.size)
    : type === "c2r"
    ? Slab.Y
    : Slab.X;
  const to = place === "boxes" ? boxesAlong(type === "c2r" ? 0 : 1, after, runtime.size) : undefined;
  const [ofReals, ofComplex] = isSingle ? ["float32", "complex64"] as const : ["float64", "complex128"] as const;
  const dtype = type === "r2c" ? ofReals : ofComplex;
  const options: FFTOptions = {
    fftType: type,
    blocking,
    inplace,
    norm: "none",
    ...to && { distribution: to },
    ...place === "redistribute" && { redistribute: true },
    ...type === "c2r" && { lastAxisParity: isOdd ? "odd" : "even" },
  };
  const room: OperandOptions = {
    dtype,
    fftType: type,
    ...to && { resultDistribution: to },
    ...place === "redistribute" && { redistribute: true },
    ...type === "c2r" && { lastAxisParity: isOdd ? "odd" : "even" },
  };
  const frequencies = [real.map((extent) => Math.floor(extent / 3)), real.map((_, d) => d + 1)];
  const operands = frequencies.map((frequency) => {
    const { complex, real: cosine } = wave(real, frequency);
    const array = inplace
      ? allocateOperand(runtime, before, from, room)
      : DistributedArray.zeros(runtime, before, from, { dtype });
    const peak = (...index: number[]) => Number(index.every((i, d) => i === frequency[d]));
    const value = type === "c2c" ? complex : type === "r2c" ? cosine : peak;
    using filled = DistributedArray.generate(runtime, before, from, value, { dtype });
    array.local.set(filled.local);
    return array;
  });
  const name = JSON.stringify(row);
  using transform = new FFT(operands[0], options);
  transform.plan({ effort: "estimate" });
  const reset = (operand: DistributedArray) =>
    isChecked ? transform.resetOperands(operand) : transform.resetOperandsUnchecked(operand);
  const n = volume(real);
  /** cuFFT's errors of complex64 there and back are beyond those of one transform, by torch.fft as well: 1.19e-6 at times. */
  const roundings = (transforms: number) => isSingle && runtime.stream !== null ? transforms : 1;
  const assertClose = (
    array: DistributedArray,
    value: (...index: number[]) => Scalar,
    scale: number,
    transforms: number,
  ) => {
    using wanted = DistributedArray.generate(runtime, array.shape, array.distribution, value, { dtype: array.dtype });
    let worst = 0;
    const [mine, theirs] = [array.local.toNumbers(), wanted.local.toNumbers()];
    for (let j = 0; j < mine.length; j++) worst = Math.max(worst, Math.abs(mine[j] - theirs[j]));
    assert(worst < (isSingle ? 1e-6 : 1e-12) * roundings(transforms) * scale, `${name}: the error is ${worst}`);
  };
  for (const [i, frequency] of frequencies.entries()) {
    if (i > 0) reset(operands[i]);
    using result = transform.execute({ direction });
    assertEquals([...result.shape], after, name);
    const { cos, PI } = Math;
    const opposite = frequency.map((f, d) => (real[d] - f) % real[d]);
    // From one number at a frequency come waves; two of them, conjugates, if it has an opposite.
    const isOwn = frequency.at(-1) === 0 || 2 * frequency.at(-1)! === real.at(-1);
    const expected = (...index: number[]) => {
      if (type === "c2r") {
        const angle = 2 * PI * index.reduce((sum, j, d) => sum + (j * frequency[d] % real[d]) / real[d], 0);
        return (isOwn ? 1 : 2) * cos(angle);
      }
      const is = (where: readonly number[]) => Number(index.every((k, d) => k === where[d]));
      if (type === "r2c") return n / 2 * (is(frequency) + is(opposite));
      return n * is(direction === "forward" ? frequency : opposite);
    };
    assertClose(result, expected, n, 1);
    if (type !== "c2c" || i === 0) continue;
    reset(result);
    using back = transform.execute({ direction: direction === "forward" ? "inverse" : "forward" });
    const { complex } = wave(real, frequency);
    assertClose(back, (...index) => complex(...index).map((part) => n * part) as [number, number], n, 2);
    reset(back);
    using again = transform.execute({ direction });
    assertClose(again, (...index) => n * expected(...index), n * n, 3);
  }
}

/** One rank alone on a CPU tries all of the table, in parts that take about 10 s each. */
for (const kind of ["r2c", "c2r even", "c2r odd", "c2c forward", "c2c inverse"]) {
  hostTest(`nvmath's table on one rank: ${kind}`, { ranks: [1], timeoutSeconds: 120 }, (runtime) => {
    const rows = table().filter((row) => kind === (row.kind === "c2c" ? `c2c ${row.direction}` : row.kind));
    assertEquals(rows.length, 8 * 3 * 8);
    for (const row of rows) tryRow(runtime, row);
  });
}

const isAll = Deno.env.get("DISTMATH_CASES") === "all";
const limit = { timeoutSeconds: isAll ? 1800 : 60 };

const isLarge = ({ shape }: Row) => volume(shape) > 5000;

/** Some on each number of ranks; all of them with DISTMATH_CASES=all. */
const sampled = (rows: readonly Row[], ranks: number) =>
  rows.filter((row) => isAll || isSampled(JSON.stringify(row), ranks, isLarge(row) ? 60 : 13));

clusterTest("nvmath's table: shapes, types, parities, directions, slabs, boxes, in place, resets", limit, (runtime) => {
  // The tests before have all of it.
  if (runtime.size === 1 && runtime.stream === null) return;
  const tried = sampled(table(), runtime.size);
  assert(tried.length > 30);
  for (const row of tried) tryRow(runtime, row);
});

/** The values of rows, and any two values that a row has. */
function combinations(rows: readonly Row[]): { readonly single: string[]; readonly pairs: string[] } {
  const valuesOf = (row: Row) => Object.entries(row).map(([key, value]) => `${key} ${value}`);
  const pairsOf = (values: string[]) =>
    values.flatMap((one, i) => values.slice(i + 1).map((other) => `${one}, ${other}`));
  const sorted = (all: string[]) => [...new Set(all)].sort();
  return { single: sorted(rows.flatMap(valuesOf)), pairs: sorted(rows.flatMap((row) => pairsOf(valuesOf(row)))) };
}

clusterTest("what 2, 3 and 4 ranks try of nvmath's table has everything: small arrays any two values", () => {
  const rows = table();
  assertEquals(rows.length, 8 * 3 * 5 * 8);
  const tried = [2, 3, 4].flatMap((ranks) => sampled(rows, ranks));
  const isSmall = (row: Row) => !isLarge(row);
  assertEquals(combinations(tried.filter(isSmall)).pairs, combinations(rows.filter(isSmall)).pairs);
  assertEquals(combinations(tried.filter(isLarge)).single, combinations(rows.filter(isLarge)).single);
});

clusterTest("Parseval, inverses, shifts: what holds for large arrays", (runtime) => {
  const shapes: [readonly number[], Distribution][] = [[[240, 270], Slab.Y], [[32, 25, 42], Slab.X], [[6000], Slab.X]];
  for (const [shape, from] of shapes) {
    using field = DistributedArray.random(runtime, shape, from, { dtype: "complex128", seed: 9 });
    using spectrum = fft(field, { norm: "ortho" });
    assert(Math.abs(spectrum.norm() / field.norm() - 1) < 1e-13, "Parseval");
    using back = ifft(spectrum, { norm: "ortho" });
    assert(back.maxAbsDifference(field) < 1e-13, "the inverse");
    const shift = shape.map((extent) => Math.floor(extent / 3));
    const isThere = (...index: number[]) => Number(index.every((i, d) => i === shift[d]));
    using delta = DistributedArray.generate(runtime, shape, from, isThere, { dtype: "complex128" });
    using shifted = fft(delta);
    const { complex } = wave(shape, shift);
    const conjugate = (...index: number[]) => {
      const [re, im] = complex(...index);
      return [re, -im] as const;
    };
    using expected = DistributedArray.generate(runtime, shape, shifted.distribution, conjugate, {
      dtype: "complex128",
    });
    assert(shifted.maxAbsDifference(expected) < 1e-10, "a delta becomes a wave");
    using real = DistributedArray.random(runtime, shape, from, { dtype: "float32", seed: 9 });
    using half = rfft(real);
    using again = irfft(half, { lastAxisParity: shape.at(-1)! % 2 === 0 ? "even" : "odd" });
    assert(again.maxAbsDifference(real) < 1e-5, "real numbers");
  }
});

clusterTest(
  "long vectors of real numbers by four steps: frequencies, Parseval, and back",
  { ranks: [2, 3, 4] },
  (runtime) => {
    const cases = [[98304, "float64"], [98304, "float32"], [3 ** 10, "float64"]] as const;
    for (const [n, dtype] of cases) {
      const precision = dtype === "float32" ? 1e-6 : 1e-13;
      const from = new Box(boxesAlong(0, [n], runtime.size).boxes);
      const algorithm = "four_step";
      // Of the first rows, of the rows that mirror them, and the highest one.
      const frequencies = [0, 1, Math.floor(n / 7), Math.floor(n / 2)];
      const waves = Float64Array.from(
        { length: n },
        (_, j) => frequencies.reduce((sum, f, i) => sum + (i + 1) * Math.cos(2 * Math.PI * (f * j % n) / n), 0),
      );
      using field = DistributedArray.generate(runtime, [n], from, (j) => waves[j], { dtype });
      using transform = new FFT(field, { algorithm, distribution: Slab.X, norm: "forward" });
      transform.plan({ effort: "estimate" });
      assertEquals(transform.algorithm.algorithm, algorithm);
      using spectrum = transform.execute();
      const heights = new Map(frequencies.map((f, i) => [f, (i + 1) * (f === 0 || 2 * f === n ? 1 : 0.5)]));
      using expected = DistributedArray.generate(runtime, spectrum.shape, Slab.X, (k) => heights.get(k) ?? 0, {
        dtype: spectrum.dtype,
      });
      assert(spectrum.maxAbsDifference(expected) < precision, `the frequencies of ${n}, ${dtype}`);

      using noise = DistributedArray.random(runtime, [n], from, { dtype, seed: 4 });
      transform.resetOperands(noise);
      using noisy = transform.execute();
      const [middle] = spectrum.shape;
      // What has no conjugate in the first half counts once.
      const alone = [noisy.slice([[0, 1]]), ...n % 2 === 0 ? [noisy.slice([[middle - 1, middle]])] : []];
      const energy = 2 * noisy.norm() ** 2 - alone.reduce((sum, part) => sum + part.norm() ** 2, 0);
      assert(Math.abs(n * energy / noise.norm() ** 2 - 1) < precision, `Parseval of ${n}, ${dtype}`);

      const lastAxisParity = n % 2 === 0 ? "even" : "odd";
      using inverse = new FFT(noisy, {
        algorithm,
        fftType: "c2r",
        distribution: from,
        norm: "forward",
        lastAxisParity,
      });
      inverse.plan({ effort: "estimate" });
      assertEquals(inverse.algorithm.algorithm, algorithm);
      using back = inverse.execute();
      assert(back.maxAbsDifference(noise) < precision, `the inverse of ${n}, ${dtype}`);
    }
  },
);
