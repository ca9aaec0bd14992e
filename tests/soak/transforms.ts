/** The soak's Fourier transforms, against the definition. */
import {
  DistributedArray,
  dtypeInfo,
  fft,
  type FFTDirection,
  type FFTNorm,
  type FFTType,
  ifft,
  irfft,
  rfft,
  type TransformOptions,
} from "../../mod.ts";
import { at, generate, transformed, type Whole } from "../cluster/fft_oracle.ts";
import type { Context } from "./given.ts";

const NORMS: readonly FFTNorm[] = ["backward", "ortho", "forward", "none"];

/** Relative to the largest number, for the numbers of elements that there are here. */
const TOLERANCES: Readonly<Record<string, number>> = {
  complex64: 2e-6,
  float32: 2e-6,
  complex128: 1e-14,
  float64: 1e-14,
};

/** A transform of some axes, from any distribution to any. */
export function transforms(context: Context): void {
  const { runtime, draw } = context;
  const shape = Array.from({ length: draw.between(1, 3) }, () => draw.between(1, 10));
  const axes = shape.map((_, d) => d).filter(() => draw.once(2));
  if (axes.length === 0) axes.push(draw.below(shape.length));
  if (draw.once(2)) axes.reverse();
  const type: FFTType = draw.pick(["c2c", "c2c", "r2c", "c2r"]);
  const isDouble = draw.once(2);
  const dtype = type === "r2c" ? (isDouble ? "float64" : "float32") : isDouble ? "complex128" : "complex64";
  const direction: FFTDirection = type === "r2c"
    ? "forward"
    : type === "c2r"
    ? "inverse"
    : draw.pick(["forward", "inverse"]);
  const norm = draw.pick(NORMS);
  const isOdd = draw.once(2);
  const last = axes[axes.length - 1];
  const seed = draw.below(1e6);
  const number = (index: readonly number[], part: number) =>
    Math.sin(seed + index.reduce((sum, i, d) => sum + i * (d + 1.3), part));
  const given = generate(shape, (index) => [number(index, 0), type === "r2c" ? 0 : number(index, 0.7)]);
  // Half a spectrum that is none of real numbers has parts that mean nothing.
  const real = shape.with(last, 2 * shape[last] - (isOdd ? 1 : 0));
  const half = () =>
    transformed(generate(real, (index) => [number(index, 0), 0]), { type: "r2c", axes, direction: "forward" });
  const operand = type === "c2r" ? half() : given;
  const wanted = transformed(operand, { type, axes, direction, norm, isOdd });
  using array = DistributedArray.generate(
    runtime,
    operand.shape,
    draw.distribution(operand.shape, runtime.size),
    (...index) => type === "r2c" ? at(operand, index)[0] : at(operand, index),
    { dtype, order: draw.order() },
  );
  // Boxes of one shape say nothing of another one.
  const place = draw.between(type === "c2c" ? 0 : 1, 2);
  const options: TransformOptions = {
    axes,
    norm,
    ...place === 0 && { redistribute: true },
    ...place === 1 && { distribution: draw.distribution(wanted.shape, runtime.size) },
  };
  const result: DistributedArray = type === "r2c"
    ? rfft(array as never, options)
    : type === "c2r"
    ? irfft(array as never, { ...options, lastAxisParity: isOdd ? "odd" : "even" })
    : (direction === "forward" ? fft : ifft)(array as never, options);
  context.report(wrong(result, wanted, type === "c2r"));
  if (place === 1 && !result.distribution.equals(options.distribution!.bind(wanted.shape, runtime.size))) {
    context.report(`the result is in ${result.distribution}, not in ${options.distribution}`);
  }
  result.free();
}

/** What is wrong with this rank's part of a result; null if nothing is. */
function wrong(array: DistributedArray, wanted: Whole, isReal: boolean): string | null {
  if (`${array.shape}` !== `${wanted.shape}`) return `the shape is [${array.shape}], not [${wanted.shape}]`;
  const { local, distribution, dtype, runtime: { rank } } = array;
  const numbers = local.toNumbers();
  const largest = wanted.numbers.reduce((most, x) => Math.max(most, Math.abs(x)), 1e-3);
  const { parts } = dtypeInfo(dtype);
  const index = local.shape.map(() => 0);
  for (let i = 0; i < numbers.length; i += parts) {
    const expected = at(wanted, distribution.toGlobal(rank, index));
    for (let part = 0; part < (isReal ? 1 : 2); part++) {
      const error = Math.abs(numbers[i + part] - expected[part]);
      if (!(error <= TOLERANCES[dtype] * largest)) {
        return `at [${distribution.toGlobal(rank, index)}] there is ${numbers[i + part]}, not ${
          expected[part]
        }, in ${array}`;
      }
    }
    for (let d = index.length - 1; d >= 0 && ++index[d] === local.shape[d]; d--) index[d] = 0;
  }
  return null;
}
