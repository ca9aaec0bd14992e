/**
 * A transform by cuFFTMp. It works in place in memory of NVSHMEM: in the operand's, if that is such and may be written over,
 * else in some of its own, to which and from which elements are copied.
 *
 * @module
 */
import { checkCufft, CufftDirection, CufftType } from "../../../../ffi/cuda/cufft.ts";
import { CufftMpComm, openCufftMp } from "../../../../ffi/cuda/cufftmp.ts";
import { openNvshmem } from "../../../../ffi/cuda/nvshmem.ts";
import { copyStridedOnDevice } from "../../../array/on_device/copies.ts";
import { predictOnGpu } from "../../../array/gpu_model.ts";
import type { AlgorithmTimes } from "../../../array/host_model.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import { planRedistribution } from "../../../array/redistribution/plan.ts";
import { dtypeInfo } from "../../../dtype/dtype.ts";
import { complexOf } from "../../../dtype/promotion.ts";
import { RunOrder } from "../../../gpu/run_order.ts";
import type { DeviceMemory } from "../../../memory/device_buffer.ts";
import { allocateForPlan, SymmetricBuffer } from "../../../memory/symmetric_memory.ts";
import { agreeStrictly } from "../../../runtime/agreement.ts";
import { callJointly } from "../../../runtime/joint_call.ts";
import { recordSpan } from "../../../runtime/recorder.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { inShape } from "../../pass_places.ts";
import type { FFTDirection, FFTProblem } from "../../problem.ts";
import { isWholeInSymmetric } from "../../operand_room.ts";
import { scaleOnDevice } from "../device_kernels.ts";
import type { FFTEnginePlan, FFTReport, FFTRequest } from "../engine.ts";
import { algorithmsOf, bytesOf, type CufftMpAlgorithm, extentsOf, layoutOf, stridesIn } from "./layout.ts";

/** Its name and version, and NVSHMEM's, for people. */
export function cufftMpVersion(): string {
  const { version } = openCufftMp();
  const parts = [Math.floor(version / 1000), Math.floor(version % 1000 / 100), version % 100];
  return `cuFFTMp ${parts.join(".")} on NVSHMEM ${openNvshmem().version.join(".")}`;
}

/** The types of plans, by what they transform: half precision was refused. */
const TYPES = {
  float32: { c2c: CufftType.C2C, r2c: CufftType.R2C, c2r: CufftType.C2R },
  float64: { c2c: CufftType.Z2Z, r2c: CufftType.D2Z, c2r: CufftType.Z2D },
} as const;

/** A planned transform. */
export class CufftMpPlan implements FFTEnginePlan {
  readonly #runtime: Runtime;
  readonly #request: FFTRequest;
  readonly #algorithm: CufftMpAlgorithm;
  readonly #bytes: number;
  readonly #plans = new Map<FFTDirection, number>();
  /** What it has of symmetric memory. The plans end with the first. */
  readonly #held: SymmetricBuffer[] = [];
  /** Where elements are transformed that lie elsewhere; null if there are none so far. */
  #elements: SymmetricBuffer | null = null;

  /** Nothing is allocated before all ranks do so. */
  constructor(runtime: Runtime, request: FFTRequest) {
    const { problem, algorithm } = request;
    this.#runtime = runtime;
    this.#request = request;
    this.#algorithm = algorithm === "default" ? algorithmsOf(problem)[0] : algorithm as CufftMpAlgorithm;
    this.#bytes = bytesOf(problem);
  }

  /** See {@linkcode FFTEnginePlan}. */
  get report(): FFTReport {
    const { problem, inplace } = this.#request;
    const copies = inplace
      ? "copied to symmetric memory and back, unless they are in such memory already, made by allocateOperand with " +
        'memory: "symmetric"'
      : "copied to symmetric memory, the result from there";
    return {
      engine: "cufftmp",
      algorithm: this.#algorithm,
      variant: `${problem.from} -> ${problem.to}`,
      library: cufftMpVersion(),
      workspaceBytes: this.#held.reduce((sum, { byteLength }) => sum + byteLength, 0),
      bytesMoved: leastBytesMoved(problem),
      steps: [`transform all axes by cuFFTMp, ${problem.type}, told of ${this.#algorithm}`],
      notes: [`cuFFTMp works in place in symmetric memory: elements are ${copies}`],
    };
  }

  /**
   * See {@linkcode FFTEnginePlan}. Elements are read and written once an axis, and twice more if they are copied, as results
   * in new memory are.
   */
  predict(): AlgorithmTimes | null {
    const { problem, inplace } = this.#request;
    const { size } = this.#runtime;
    const passes = problem.operand.length + (inplace ? 0 : 2);
    return predictOnGpu(this.#runtime, {
      bytes: 2 * passes * this.#bytes,
      sent: leastBytesMoved(problem) / size,
      starts: passes + 2 * size - 1,
    });
  }

  /** See {@linkcode FFTEnginePlan}. */
  open(): void {
    if (this.#held.length > 0) return;
    const { directions, inplace } = this.#request;
    const { symbols } = openCufftMp();
    const { stream } = this.#runtime;
    // The first starts NVSHMEM, which cuFFTMp would do otherwise. Elements in place may be in such memory already.
    const first = this.#allocate(inplace ? 1 : this.#bytes);
    if (!inplace) this.#elements = first;
    first.beforeEnd(() => {
      stream!.synchronize();
      for (const plan of this.#plans.values()) symbols.cufftDestroy(plan);
    });
    const workBytes = directions.map((direction) => this.#make(direction));
    const { address } = this.#allocate(Math.max(1, ...workBytes));
    for (const plan of this.#plans.values()) checkCufft(symbols.cufftSetWorkArea(plan, address), "cufftSetWorkArea");
  }

  /** See {@linkcode FFTEnginePlan}. */
  prepare(operand: LocalArray, result: LocalArray, direction: FFTDirection, scale: number): () => void {
    const stream = this.#runtime.stream!;
    return () => {
      this.open();
      RunOrder.of(stream).settle();
      for (const { buffer } of [operand, result]) stream.wait(buffer.stream);
      const isThere = this.#isInPlace(operand, result);
      const memory = isThere ? operand.buffer : this.#elements ??= this.#allocate(this.#bytes);
      if (!isThere) copyStridedOnDevice(operand, this.#part(memory, "from", operand));
      // What the others write into is not read any more.
      recordSpan(stream, { kind: "wait", label: "for all ranks" }, () => {
        openNvshmem().symbols.nvshmemx_sync_all_on_stream(stream.handle);
      });
      const sign = direction === "forward" ? CufftDirection.FORWARD : CufftDirection.INVERSE;
      const { address } = memory;
      recordSpan(stream, { kind: "fft", label: "cufftXtExec, with what travels in it" }, () => {
        checkCufft(
          openCufftMp().symbols.cufftXtExec(this.#plans.get(direction)!, address, address, sign),
          "cufftXtExec",
        );
      });
      if (!isThere) copyStridedOnDevice(this.#part(memory, "to", result), result);
      for (const { buffer } of [operand, result]) stream.wait(buffer.stream);
      if (scale !== 1) scaleOnDevice(result, scale, stream);
      for (const { buffer } of [operand, result]) buffer.stream.wait(stream);
    };
  }

  /** It keeps nothing of executions. */
  release(): void {}

  /** Free it, with what all ranks free next. */
  [Symbol.dispose](): void {
    for (const buffer of this.#held) buffer[Symbol.dispose]();
  }

  /** Make the plan for a direction; returns the bytes that it works in. Collective. */
  #make(direction: FFTDirection): number {
    const runtime = this.#runtime;
    const { problem } = this.#request;
    const { symbols } = openCufftMp();
    const extents = extentsOf(problem);
    const [plan, bytes] = [new Int32Array(1), new BigUint64Array(1)];
    agreeStrictly(runtime, "FFT.plan", () => {
      checkCufft(symbols.cufftCreate(plan), "cufftCreate");
      this.#plans.set(direction, plan[0]);
      const { formats, boxes } = layoutOf(problem, this.#algorithm, direction, runtime.rank);
      checkCufft(symbols.cufftSetAutoAllocation(plan[0], 0), "cufftSetAutoAllocation");
      checkCufft(symbols.cufftMpAttachComm(plan[0], CufftMpComm.COMM_NONE, 0n), "cufftMpAttachComm");
      checkCufft(symbols.cufftSetStream(plan[0], runtime.stream!.handle), "cufftSetStream");
      if (boxes !== null) {
        const [input, output] = boxes;
        const lists = [input.lower, input.upper, output.lower, output.upper, input.strides, output.strides];
        const [a, b, c, d, e, f] = lists.map((list) => BigInt64Array.from(list, BigInt));
        checkCufft(
          symbols.cufftXtSetDistribution(plan[0], extents.length, a, b, c, d, e, f),
          "cufftXtSetDistribution",
        );
      }
      checkCufft(symbols.cufftXtSetSubformatDefault(plan[0], ...formats), "cufftXtSetSubformatDefault");
    });
    const type = TYPES[problem.precision as keyof typeof TYPES][problem.type];
    const [x, y, z] = extents;
    const [name, make] = extents.length === 2
      ? ["cufftMakePlan2d", () => symbols.cufftMakePlan2d(plan[0], x, y, type, bytes)] as const
      : ["cufftMakePlan3d", () => symbols.cufftMakePlan3d(plan[0], x, y, z, type, bytes)] as const;
    callJointly(runtime, "FFT.plan", () => checkCufft(make(), name));
    return Number(bytes[0]);
  }

  #allocate(bytes: number): SymmetricBuffer {
    const buffer = allocateForPlan(this.#runtime, "nvshmem", bytes);
    this.#held.push(buffer);
    return buffer;
  }

  /** Whether the elements lie where cuFFTMp can work, as it takes and gives them: the same on all ranks. */
  #isInPlace(operand: LocalArray, result: LocalArray): boolean {
    const { buffer } = operand;
    return isWholeInSymmetric(operand) && buffer instanceof SymmetricBuffer && buffer.backend === "nvshmem" &&
      buffer.byteLength >= this.#bytes && operand.address === result.address &&
      this.#lies("from", operand) && this.#lies("to", result);
  }

  #lies(which: "from" | "to", { strides }: LocalArray): boolean {
    return strides.join() === stridesIn(this.#request.problem, which, this.#runtime.rank).join();
  }

  /** The operand's or the result's elements where cuFFTMp works. */
  #part(memory: DeviceMemory, which: "from" | "to", { dtype, shape }: LocalArray) {
    const strides = stridesIn(this.#request.problem, which, this.#runtime.rank);
    return { buffer: memory, dtype, shape, strides, offset: 0 };
  }
}

/** Bytes that have to leave ranks, whatever else cuFFTMp moves. */
function leastBytesMoved(problem: FFTProblem): number {
  const { type, from, to, precision } = problem;
  const [start, end] = type === "c2r" ? [from, inShape(to, problem.operand)] : [inShape(from, problem.result), to];
  if (start === null || end === null) return 0;
  return planRedistribution(start, end, 0).bytesMoved(dtypeInfo(complexOf(precision)).itemSize);
}
