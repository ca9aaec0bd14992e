/**
 * What transforms parts in the memory of GPUs: cuFFT, and a few kernels.
 *
 * @module
 */
import { openCufft } from "../../../../ffi/cuda/cufft.ts";
import { copyStridedOnDevice } from "../../../array/on_device/copies.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import { type DType, dtypeInfo } from "../../../dtype/dtype.ts";
import { blocksFor } from "../../../gpu/kernels/program.ts";
import type { Stream } from "../../../gpu/stream.ts";
import { DeviceBuffer } from "../../../memory/device_buffer.ts";
import { recordSpan } from "../../../runtime/recorder.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { rowsOf } from "../../half_spectra.ts";
import { halfOf } from "../../problem.ts";
import type { ReflectStep } from "../../steps.ts";
import { kernelsFor, scaleOnDevice } from "../device_kernels.ts";
import type { FFTRequest } from "../engine.ts";
import type { Transformer } from "../staged/transformer.ts";
import { cufftPasses, WorkArea } from "./passes.ts";

/** cuFFT's name and version, for people. */
export function cufftVersion(): string {
  const { version } = openCufft();
  return `cuFFT ${Math.floor(version / 1000)}.${Math.floor(version % 1000 / 100)}.${version % 100}`;
}

/** cuFFT, for a plan. Everything is put on the runtime's stream. */
export function cufftTransformer(runtime: Runtime, { problem }: FFTRequest): Transformer {
  const stream = runtime.stream!;
  const workArea = new WorkArea(stream);
  const buffers: DeviceBuffer[] = [];
  const allocate = (dtype: DType, count: number) => {
    const buffer = new DeviceBuffer(stream, count * dtypeInfo(dtype).itemSize);
    buffers.push(buffer);
    return buffer;
  };
  return {
    engine: "cufft",
    library: cufftVersion(),
    notes: [],
    passes: cufftPasses(openCufft(), problem.precision, stream, workArea, allocate),
    get workspaceBytes() {
      return workArea.byteLength;
    },
    allocate,
    roots: (n) => (matrix, first, direction) => {
      const [rows, columns] = matrix.shape;
      if (rows * columns === 0) return;
      const sign = direction === "forward" ? -1 : 1;
      const numbers = [rows, columns, first, n, sign].map(BigInt);
      recordSpan(stream, { kind: "compute", label: `roots of unity of ${n}` }, () => {
        kernelsFor(matrix).launch("multiply_by_roots", stream, blocksFor(rows * columns), [matrix.address, ...numbers]);
      });
    },
    reflect: (step, source, target) => reflectOnDevice(step, runtime.rank, source, target, stream),
    copy: copyStridedOnDevice,
    scale: (array, factor) => scaleOnDevice(array, factor, stream),
    inOrder(run, operand, result) {
      workArea.allocate();
      return () => {
        for (const { buffer } of [operand, result]) stream.wait(buffer.stream);
        run();
        for (const { buffer } of [operand, result]) buffer.stream.wait(stream);
      };
    },
    [Symbol.dispose]() {
      workArea[Symbol.dispose]();
      for (const buffer of buffers) buffer.free();
    },
  };
}

/** One half of the spectrum of real numbers from another one, on a stream. */
function reflectOnDevice(
  { halves, isToVector }: ReflectStep,
  rank: number,
  source: LocalArray,
  target: LocalArray,
  stream: Stream,
): void {
  const mine = rowsOf(halves, rank);
  if (mine === null || target.size === 0) return;
  const { rows, columns } = halves;
  const { own: [first, end], mirrored: [mirrored, mirroredEnd] } = mine;
  const height = end - first;
  const width = height + mirroredEnd - mirrored;
  const numbers = [target.size, rows, columns, first, height, mirrored, width, halfOf(rows * columns)].map(BigInt);
  const words = [source.address, target.address, ...numbers];
  recordSpan(stream, { kind: "compute", label: "conjugates" }, () => {
    const kernel = isToVector ? "to_first_half" : "from_first_half";
    kernelsFor(source).launch(kernel, stream, blocksFor(target.size), words);
  });
}
