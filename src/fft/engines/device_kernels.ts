/**
 * What engines for GPUs share of kernels.
 *
 * @module
 */
import { mergeAxes, sizeOfShape } from "../../array/layout.ts";
import type { LocalArray } from "../../array/local_array.ts";
import { dtypeInfo } from "../../dtype/dtype.ts";
import { fftKernels, MOST_NUMBER_AXES } from "../../gpu/kernels/fft_kernels.ts";
import { blocksFor, type Program } from "../../gpu/kernels/program.ts";
import type { Stream } from "../../gpu/stream.ts";
import { recordSpan } from "../../runtime/recorder.ts";
import type { FFTPrecision } from "../problem.ts";

/** The kernels for real numbers, or parts, of an array. */
export function kernelsFor({ dtype }: LocalArray): Program {
  return fftKernels[dtypeInfo(dtype).real as FFTPrecision];
}

/** Multiply all elements by a number, on a stream. */
export function scaleOnDevice(array: LocalArray, factor: number, stream: Stream): void {
  const { address, dtype, shape, strides } = array;
  const { parts } = dtypeInfo(dtype);
  const [extents, distances] = [[...shape, parts], [...strides.map((stride) => stride * parts), 1]];
  const axes = mergeAxes(extents.map((length, d) => {
    const stride = distances[d];
    return { runs: [{ source: 0, target: 0, length }], source: stride, target: stride };
  }));
  const count = sizeOfShape(extents);
  if (count === 0) return;
  const words = axes.reverse().flatMap(({ runs, target }) => [runs[0].length, target]);
  const padding = new Array<number>(2 * MOST_NUMBER_AXES - words.length).fill(0);
  const integers = [count, axes.length, ...words, ...padding].map(BigInt);
  recordSpan(stream, { kind: "compute", label: "scale" }, () => {
    kernelsFor(array).launch("scale", stream, blocksFor(count), [address, ...integers, factor]);
  });
}
