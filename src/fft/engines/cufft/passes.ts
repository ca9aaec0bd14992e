/**
 * Passes by cuFFT. All plans of a transform work in the same memory, one after the other.
 *
 * @module
 */
import { checkCufft, type Cufft, CufftDirection } from "../../../../ffi/cuda/cufft.ts";
import { copyStridedOnDevice } from "../../../array/on_device/copies.ts";
import { dtypeInfo } from "../../../dtype/dtype.ts";
import { complexOf } from "../../../dtype/promotion.ts";
import type { Stream } from "../../../gpu/stream.ts";
import { DeviceBuffer } from "../../../memory/device_buffer.ts";
import { dtypesOf, type FFTDirection, type FFTPrecision } from "../../problem.ts";
import type { PassLibrary, PassPlan } from "../staged/local_transform.ts";
import type { Dimension, Pass } from "../staged/pass_plan.ts";

/** What plans of cuFFT work in, as large as the largest of them needs. */
export class WorkArea implements Disposable {
  readonly #stream: Stream;
  #planned = 0;
  /** The last is the largest. Captured graphs may still use the others. */
  #buffers: DeviceBuffer[] = [];

  /** Nothing is allocated yet. */
  constructor(stream: Stream) {
    this.#stream = stream;
  }

  /** Where it lies; 0 if nobody needs any. */
  get address(): bigint {
    return this.#buffers.at(-1)?.address ?? 0n;
  }

  /** Bytes that it holds, or will hold. */
  get byteLength(): number {
    return Math.max(this.#planned, this.#buffers.reduce((sum, { byteLength }) => sum + byteLength, 0));
  }

  /** Plan for at least so many bytes. */
  reserve(bytes: number): void {
    this.#planned = Math.max(this.#planned, bytes);
  }

  /** Have what was planned for. */
  allocate(): void {
    // Ranks that did not agree have freed what they had allocated.
    this.#buffers = this.#buffers.filter(({ isFreed }) => !isFreed);
    if (this.#planned <= (this.#buffers.at(-1)?.byteLength ?? 0)) return;
    this.#buffers.push(new DeviceBuffer(this.#stream, this.#planned));
  }

  /** Free it. */
  [Symbol.dispose](): void {
    for (const buffer of this.#buffers) buffer.free();
    this.#buffers = [];
  }
}

/**
 * Elements of fewer bytes a call are moved to where one call does for all: they take less time than it takes the host to start
 * the calls. Tests and benchmarks ask for others.
 */
export const calling = { worthBytes: 2 ** 22 };

/** Plans of cuFFT on a stream. */
export function cufftPasses(
  cufft: Cufft,
  precision: FFTPrecision,
  stream: Stream,
  workArea: WorkArea,
  allocate: PassLibrary["allocate"],
): PassLibrary {
  return {
    stream,
    limits: { dimensions: 3, loops: 1, isNested: true },
    // cuFFT takes real numbers where complex ones could begin.
    alignment: 2 * dtypeInfo(precision).itemSize,
    alignedAt: 1,
    takesLines: precision === "float16",
    worthOfCall: calling.worthBytes,
    allocate,
    copy: copyStridedOnDevice,
    plan(passes, _source, _target, direction) {
      const plans: PassPlan[] = [];
      try {
        for (const pass of passes) plans.push(create(cufft, precision, stream, workArea, pass, direction));
      } catch (error) {
        for (const plan of plans) plan[Symbol.dispose]();
        throw error;
      }
      return plans;
    },
  };
}

function create(
  cufft: Cufft,
  precision: FFTPrecision,
  stream: Stream,
  workArea: WorkArea,
  { type, transformed: dimensions, looped }: Pass,
  direction: FFTDirection,
): PassPlan {
  // Of one element there is no next; cuFFT refuses half precision with another distance to it than 1.
  const transformed = dimensions.map((dimension, i) =>
    i === dimensions.length - 1 && dimension.extent === 1 ? { ...dimension, source: 1, target: 1 } : dimension
  );
  const { symbols } = cufft;
  const out = new Int32Array(1);
  checkCufft(symbols.cufftCreate(out), "cufftCreate");
  const [plan] = out;
  const destroy = () => void symbols.cufftDestroy(plan);
  const [loop] = looped;
  const workBytes = new BigUint64Array(1);
  const { operand, result } = dtypesOf({ type, precision });
  try {
    checkCufft(symbols.cufftSetAutoAllocation(plan, 0), "cufftSetAutoAllocation");
    const code = symbols.cufftXtMakePlanMany(
      plan,
      transformed.length,
      BigInt64Array.from(transformed, ({ extent }) => BigInt(extent)),
      embedding(transformed, "source"),
      distance(transformed.at(-1), "source"),
      distance(loop, "source"),
      dtypeInfo(operand).cuda,
      embedding(transformed, "target"),
      distance(transformed.at(-1), "target"),
      distance(loop, "target"),
      dtypeInfo(result).cuda,
      BigInt(loop?.extent ?? 1),
      workBytes,
      dtypeInfo(complexOf(precision)).cuda,
    );
    checkCufft(code, "cufftXtMakePlanMany");
    checkCufft(symbols.cufftSetStream(plan, stream.handle), "cufftSetStream");
    workArea.reserve(Number(workBytes[0]));
  } catch (error) {
    destroy();
    throw error;
  }
  const sign = direction === "forward" ? CufftDirection.FORWARD : CufftDirection.INVERSE;
  let worksAt: bigint | null = null;
  return {
    execute(from, to) {
      if (worksAt !== workArea.address && workBytes[0] > 0n) {
        worksAt = workArea.address;
        checkCufft(symbols.cufftSetWorkArea(plan, worksAt), "cufftSetWorkArea");
      }
      checkCufft(symbols.cufftXtExec(plan, from, to, sign), "cufftXtExec");
    },
    [Symbol.dispose]: destroy,
  };
}

/** The extents of the array that the transformed dimensions are cut out of. The first is not looked at. */
function embedding(dimensions: readonly Dimension[], side: "source" | "target"): BigInt64Array<ArrayBuffer> {
  return BigInt64Array.from(dimensions, (dimension, i) => {
    const outer = dimensions[i - 1];
    return BigInt(outer === undefined ? dimension.extent : Math.max(1, outer[side] / dimension[side]));
  });
}

/** From one element to the next. Of one element there is no next. */
function distance(dimension: Dimension | undefined, side: "source" | "target"): bigint {
  return BigInt(Math.max(1, dimension?.[side] ?? 1));
}
