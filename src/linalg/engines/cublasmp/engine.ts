/**
 * The GPU engine: cuBLASMp 0.8 and newer.
 *
 * The way of a product: choose a path (`paths.ts`), bring the matrices into its form (`staging.ts`), one
 * call of cublasMpMatmul on a stream, bring D back. Nothing waits for the GPU. The workspace is NCCL symmetric memory
 * registered with all grids, without which nothing overlaps, and which all plans share; which algorithm ran is read from
 * cuBLASMp's log once a plan.
 *
 * @module
 */
import { openCublasLt } from "../../../../ffi/cuda/cublaslt.ts";
import { CublasMpError, CublasMpStatus, openCublasMp } from "../../../../ffi/cuda/cublasmp.ts";
import { taskCommand } from "../../../../ffi/task_command.ts";
import { ratesInWords, sendingRate } from "../../../array/gpu_model.ts";
import type { AlgorithmTimes } from "../../../array/host_model.ts";
import { isOne, isZero } from "../../../blas/arguments.ts";
import { dtypeInfo } from "../../../dtype/dtype.ts";
import { slownessOf } from "../../../overlap/cost_model.ts";
import { agree, agreeOnLargest, runOnAll } from "../../../runtime/agreement.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import type { Stream } from "../../../gpu/stream.ts";
import { type EpilogValues, isTrivial } from "../../matmul/epilog.ts";
import { isEmpty, type LocalOperands } from "../../matmul/problem.ts";
import { refuseScaledSums } from "../host/refusal.ts";
import { isQuantized } from "../../matmul/quantization.ts";
import {
  ALGORITHM_CODES,
  algorithmFor,
  type CublasMpAlgorithm,
  isOverlapping,
  MULTICAST_ALGORITHMS,
  TUNED_ALGORITHMS,
} from "./attributes.ts";
import { DeviceEpilogPlan, isPointwise } from "./device_epilog.ts";
import { HostEpilogPlan, withoutEpilog } from "./host_epilog.ts";
import { callCost, chooseCall, type CublasMpCall, type CublasMpPath } from "./paths.ts";
import { cublasMpPblas } from "./pblas.ts";
import { CublasMpPlan, ENGINE_NAME } from "./plan.ts";
import { ratesOf } from "../machine_rates.ts";
import type { AlgorithmReport, EnginePlan, EngineRequest, EngineValues, MatmulEngine, Refusal } from "../engine.ts";

/** The path for a request; null if there is none. */
function callFor({ problem, epilog, algorithm, scaling = null }: EngineRequest): CublasMpCall | null {
  const isOverlapped = isOverlapping(algorithm);
  const { version } = openCublasMp();
  const accepts = (path: CublasMpPath) => algorithmFor(path, algorithm, version) !== null;
  return chooseCall({ problem, epilog, scaling, isOverlapped, accepts });
}

/** Where an epilog is applied: by cuBLASMp, by a kernel that follows it, or on the host. */
type EpilogPlace = "call" | "kernel" | "host";

/** From the best to the worst. */
const EPILOG_PLACES: readonly EpilogPlace[] = ["call", "kernel", "host"];

/** A way to compute a request: by one call, or by one call and an epilog of our own. */
interface Way {
  readonly request: EngineRequest;
  readonly call: CublasMpCall;
  readonly epilog: EpilogPlace;
}

function wayFor(request: EngineRequest): Way | null {
  const call = hasEpilog(request) ? callFor(request) : null;
  if (call) return { request, call, epilog: "call" };
  if (isTrivial(request.epilog)) return null;
  const plain = withoutEpilog(request);
  const other = callFor(plain);
  return other && { request: plain, call: other, epilog: isPointwise(request.epilog) ? "kernel" : "host" };
}

/** Whether cuBLASLt has the epilog for the types of a product. */
function hasEpilog({ problem, epilog }: EngineRequest): boolean {
  if (isTrivial(epilog) || epilog.name === "all_reduce") return true;
  if (epilog.activation === "gelu_erf" || epilog.activation === "silu") return false;
  const isDistributed = problem.d.distribution.size! > 1;
  // A gradient of float64 comes out as zeros where partial products are summed.
  if (epilog.biasGradient === "d" && problem.d.dtype === "float64" && isDistributed) return false;
  // A rank without columns of D ends up without the sums of its rows.
  const { transposed, m, n, d: { distribution: { size } } } = problem;
  const columns = transposed ? m : n;
  const isShort = Math.ceil(columns / size!) * (size! - 1) >= columns;
  if (epilog.biasGradient === "d" && isDistributed && isShort) return false;
  return !(epilog.aux === "input" && problem.k === 1);
}

function refuseNumbers(
  { problem, epilog, scaling }: EngineRequest,
  capability: readonly [number, number],
): Refusal | null {
  const { a, accumulator } = problem;
  if (dtypeInfo(a.dtype).isInteger) {
    return { reason: `integers (${a.dtype}) cannot be multiplied`, instead: "Convert to float32 or float64." };
  }
  const [major, minor] = capability;
  if (isQuantized(a.dtype) && 10 * major + minor < 89) {
    return {
      reason: `${a.dtype} needs a GPU of compute capability 8.9 or newer; this one has ${major}.${minor}`,
      instead: "Convert to bfloat16 or float16.",
    };
  }
  if (scaling && major !== 9) {
    return {
      reason: `arrays of scales are for GPUs of compute capability 9.0; this one has ${major}.${minor}`,
      instead: "Pass quantizationScales as numbers.",
    };
  }
  const ofSums = refuseScaledSums(epilog, scaling);
  if (ofSums) return ofSums;
  const isReal = accumulator === "float32" || accumulator === "float64";
  if (!isReal && epilog.name !== "none" && epilog.name !== "all_reduce") {
    return { reason: `the epilog ${epilog.name} is for real numbers only`, instead: "Use a real dtype, or no epilog." };
  }
  return null;
}

/** What emulated compute types need. cuBLASLt 13.1 takes that of float64, too; NVIDIA's tables begin with 13.2. */
const EMULATION: Readonly<Record<string, { cublasMp?: number; cublasLt: number; text: string }>> = {
  float32_emulated_16bfx9: { cublasLt: 120900, text: "cuBLASLt 12.9" },
  float64_emulated_fixedpoint: { cublasMp: 900, cublasLt: 130100, text: "cuBLASMp 0.9 and cuBLASLt 13.1" },
};

function refuseEmulation({ settings }: EngineRequest): Refusal | null {
  const needed = EMULATION[settings?.computeType ?? ""];
  if (needed === undefined) return null;
  const { cublasMp = 0, cublasLt, text } = needed;
  if (openCublasMp().version >= cublasMp && openCublasLt().version >= cublasLt) return null;
  return {
    reason: `computeType ${settings!.computeType} needs ${text}`,
    instead: `Leave computeType out, or install newer ones: ${taskCommand("native install cuda")}`,
  };
}

function refuseAlgorithm(request: EngineRequest): Refusal | null {
  const { algorithm, settings } = request;
  if (MULTICAST_ALGORITHMS.includes(algorithm as CublasMpAlgorithm) && !settings?.allowMulticast) {
    return {
      reason: `algorithm ${algorithm} uses NVLink multicast, which is off by default`,
      instead: `Use ${
        TUNED_ALGORITHMS.join(" or ")
      }, or pass allowMulticast: true if the machine's GPUs are yours alone.`,
    };
  }
  if (isEmpty(request.problem) || wayFor(request) !== null) return null;
  return {
    reason: `cuBLASMp has no ${algorithm === "default" ? "path" : `algorithm ${algorithm}`} for this product`,
    instead: "Use algorithm default.",
  };
}

/** Bytes that a request moves between ranks, and for an epilog on the host to it and back. */
function cost(request: EngineRequest): number {
  const { call: { moved, traffic }, epilog } = wayFor(request)!;
  const { problem: { m, n, accumulator } } = request;
  return moved + traffic + (epilog === "host" ? 2 * m * n * dtypeInfo(accumulator).itemSize : 0);
}

/**
 * How long what travels takes besides the multiplication, over what a link of 390 GB/s needs for it: of cuBLASMp 0.10 on two
 * H200, in bfloat16 (`bench/results/overlap_h200.json`). Of paths without a measurement, what two passes take.
 */
const EXPOSED: Readonly<Record<CublasMpPath, number>> = {
  local: 0,
  all_gather: 0.65,
  reduce_scatter: 3.5,
  all_reduce: 4,
  generic: 2,
  fallback: 2,
};

/**
 * The time of a request: the multiplication, what is not hidden behind it, and what starts both. `call` and `epilog` are how
 * it is computed.
 */
function timesOf(
  request: EngineRequest,
  { call: { path, moved, traffic }, epilog }: Pick<Way, "call" | "epilog">,
  runtime: Runtime,
): AlgorithmTimes {
  const { problem: { m, n, k, a, d, accumulator } } = request;
  const { memory, ...rates } = ratesOf(runtime);
  const link = sendingRate(runtime) ?? rates.link;
  const flops = rates.flops / slownessOf(a.dtype);
  const ranks = d.distribution.size!;
  // A kernel reads and writes D once more; to the host and back it goes a hundred times as slowly.
  const passes = { call: 0, kernel: 1, host: 100 }[epilog];
  const after = passes * 2 * m * n * dtypeInfo(accumulator).itemSize / ranks / memory;
  const exposed = (EXPOSED[path] * traffic + 2 * moved) / ranks / link;
  const multiplying = 2 * m * n * k / ranks / flops;
  return {
    predicted: (multiplying + exposed + after + 20) / 1e6,
    limit: Math.max(multiplying, traffic / ranks / link) / 1e6,
    basis: ratesInWords(runtime),
  };
}

function seconds(request: EngineRequest, runtime: Runtime): number {
  return timesOf(request, wayFor(request)!, runtime).predicted;
}

function costOfOrder(request: EngineRequest): readonly number[] | null {
  const way = wayFor(request);
  return way && [EPILOG_PLACES.indexOf(way.epilog), ...callCost(way.call)];
}

function plan(runtime: Runtime, request: EngineRequest): EnginePlan {
  const way = wayFor(request)!;
  const planned = (way: Way) => new CublasMpPlan(runtime, way.request, way.call, () => timesOf(request, way, runtime));
  const plan = planned(way);
  if (way.epilog !== "call") return ownEpilogPlan(runtime, request, plan);
  return isTrivial(request.epilog) ? plan : new TriedPlan(runtime, plan, () => {
    const plain = withoutEpilog(request);
    const epilog = isPointwise(request.epilog) ? "kernel" : "host";
    return ownEpilogPlan(runtime, request, planned({ request: plain, call: callFor(plain)!, epilog }));
  });
}

/** cuBLASMp on the GPUs of a runtime. */
export const cublasMpEngine: MatmulEngine<"cublasmp", CublasMpAlgorithm> = {
  name: ENGINE_NAME,
  device: "gpu",
  isUsual: true,
  algorithms: Object.keys(ALGORITHM_CODES) as CublasMpAlgorithm[],
  tuned: TUNED_ALGORITHMS,
  open: () => `cuBLASMp ${openCublasMp().version}`,
  supports: (request, runtime) =>
    refuseNumbers(request, computeCapabilityOf(runtime)) ?? refuseEmulation(request) ?? refuseAlgorithm(request),
  cost,
  seconds,
  costOfOrder,
  plan,
  pblas: cublasMpPblas,
};

function computeCapabilityOf({ device }: Runtime): readonly [number, number] {
  return device.kind === "gpu" ? device.computeCapability : [0, 0];
}

/** An epilog of our own after a product without one. */
function ownEpilogPlan(runtime: Runtime, request: EngineRequest, product: EnginePlan): EnginePlan {
  return isPointwise(request.epilog)
    ? new DeviceEpilogPlan(runtime, request, product)
    : new HostEpilogPlan(runtime, request, product);
}

/** What an execution returns; null if cuBLASLt has not what it takes. */
function unlessUnavailable(execute: () => EpilogValues): EpilogValues | null {
  try {
    return execute();
  } catch (error) {
    if (error instanceof CublasMpError && UNAVAILABLE.includes(error.code)) return null;
    throw error;
  }
}

/**
 * A plan with an epilog. Only the first execution tells whether cuBLASLt has the epilog for these types and sizes; if it
 * does not, a kernel or the host applies it from then on. They also do where alpha is 0 and beta 1: cuBLASMp then ends
 * without applying it.
 */
class TriedPlan implements EnginePlan {
  readonly #runtime: Runtime;
  readonly #makeOwn: () => EnginePlan;
  /** With the epilog in the call; null once cuBLASLt does not have it. */
  #called: EnginePlan | null;
  /** With an epilog of our own; null until it is needed. */
  #own: EnginePlan | null = null;
  #isTried = false;

  constructor(runtime: Runtime, called: EnginePlan, makeOwn: () => EnginePlan) {
    this.#runtime = runtime;
    this.#called = called;
    this.#makeOwn = makeOwn;
  }

  get workspaceBytes(): number {
    return (this.#called?.workspaceBytes ?? 0) + (this.#own?.workspaceBytes ?? 0);
  }

  get report(): AlgorithmReport {
    return { ...(this.#called ?? this.#own!).report, workspaceBytes: this.workspaceBytes };
  }

  open(): void {
    this.#called!.open();
  }

  prepare(operands: LocalOperands, values: EngineValues, stream?: Stream | null): () => EpilogValues {
    const executeOwn = () => this.#openOwn(operands, values, stream)();
    if (this.#called === null || operands.c !== null && isZero(values.alpha) && isOne(values.beta)) {
      return this.#own?.prepare(operands, values, stream) ?? executeOwn;
    }
    const execute = this.#called.prepare(operands, values, stream);
    return () => {
      if (!this.#isTried) return this.#try(execute, executeOwn);
      // An execution before this one, which was got ready at the same time, may have found that it is not there.
      return this.#called === null ? executeOwn() : execute();
    };
  }

  predict(): AlgorithmTimes | null {
    return (this.#called ?? this.#own!).predict?.() ?? null;
  }

  release(): void {
    this.#called?.release?.();
    this.#own?.release?.();
  }

  [Symbol.dispose](): void {
    this.#called?.[Symbol.dispose]();
    this.#own?.[Symbol.dispose]();
  }

  #try(execute: () => EpilogValues, executeOwn: () => EpilogValues): EpilogValues {
    this.#isTried = true;
    const called = runOnAll(this.#runtime, "Matmul.execute", () => unlessUnavailable(execute));
    const isLacking = agreeOnLargest(this.#runtime, "Matmul.execute", () => Number(called === null)) > 0;
    if (!isLacking) return called!;
    this.#called![Symbol.dispose]();
    this.#called = null;
    const outputs = executeOwn();
    const note = this.report.notes.at(-1)!;
    this.#runtime.warnOnce(note, note);
    return outputs;
  }

  /** Plan with an epilog of our own, and get an execution ready. Collective. */
  #openOwn(operands: LocalOperands, values: EngineValues, stream: Stream | null | undefined): () => EpilogValues {
    const isNew = this.#own === null;
    let execute!: () => EpilogValues;
    agree(this.#runtime, "Matmul.execute", () => {
      this.#own ??= this.#makeOwn();
      execute = this.#own.prepare(operands, values, stream);
    });
    if (isNew) this.#own!.open();
    return execute;
  }
}

/** What cuBLASMp answers if cuBLASLt has no kernel. */
const UNAVAILABLE: readonly number[] = [CublasMpStatus.NOT_SUPPORTED, CublasMpStatus.INVALID_VALUE];
