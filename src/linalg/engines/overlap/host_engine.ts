/**
 * The overlap engine on CPUs: stage schedules between the ranks of one machine, by BLAS on windows that they share.
 *
 * @module
 */
import { mayViewAddresses } from "../../../../ffi/memory.ts";
import { openScalapack, type Scalapack } from "../../../../ffi/blas/scalapack.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import { isNothing, type ScalarArgument } from "../../../blas/arguments.ts";
import { HostExecutor, windowBytes } from "../../../overlap/executors/host/executor.ts";
import type { Windows } from "../../../overlap/executors/host/windows.ts";
import { scheduleOf } from "../../../overlap/schedule.ts";
import type { Interval, Span } from "../../../runtime/timeline.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { isEmpty, type MatmulProblem } from "../../matmul/problem.ts";
import type { Use } from "../communicator_resources.ts";
import type { EngineRequest, MatmulEngine, Refusal } from "../engine.ts";
import { describeOneDimensional, type OneDimensionalStrategy } from "../host/one_dimensional.ts";
import { HostPlan, type Multiplier } from "../host/plan.ts";
import { refuseOnHost } from "../host/refusal.ts";
import { libraryInWords } from "../host/library.ts";
import {
  hostPartition,
  hostStrategy,
  hostVariant,
  OVERLAP_ALGORITHMS,
  type OverlapAlgorithm,
} from "./host_strategy.ts";
import { sharedWindowBytes, useWindows } from "./shared_windows.ts";

const NAME = "overlap";

function refuse(request: EngineRequest, runtime: Runtime): Refusal | null {
  const { problem, algorithm } = request;
  const refusal = refuseOnHost(request);
  if (refusal) return refusal;
  const { size, localSize } = runtime;
  if (localSize !== size) {
    return {
      reason: `its ranks use each other's memory, and ${size} ranks are on several machines`,
      instead: "Leave engine out, or start all ranks on one machine.",
    };
  }
  if (!mayViewAddresses()) {
    return {
      reason: "it views memory by its address, which a list of folders in --allow-ffi=<folders> does not permit",
      instead: "Leave engine out, or start the script with --allow-ffi, without a list.",
    };
  }
  // Nothing leaves a single rank, whatever the distributions: there is always a way, and it costs nothing.
  if (isEmpty(problem) || size === 1 && algorithm === "default" || hostStrategy(problem, algorithm)) return null;
  return {
    reason: `it has no ${algorithm === "default" ? "algorithm" : algorithm} for these distributions`,
    instead: "Leave engine out: others take any.",
  };
}

/** d = alpha op(a) op(b) + beta d, by two schedules: with and without something that is added. */
class OverlapMultiplier implements Multiplier {
  readonly way = "in shared memory";
  readonly #runtime: Runtime;
  readonly #bytes: number;
  readonly #plain: HostExecutor;
  readonly #adding: HostExecutor;
  #windows: Use<Windows> | null = null;

  constructor(runtime: Runtime, problem: MatmulProblem, strategy: OneDimensionalStrategy, { blas }: Scalapack) {
    const { accumulator, operationA, operationB } = problem;
    const partition = hostPartition(problem, strategy);
    const schedules = [false, true].map((hasAddend) =>
      scheduleOf(partition, runtime.rank, hostVariant(partition, hasAddend))
    );
    const product = { dtype: accumulator, operationA, operationB, gemm: blas.gemm };
    [this.#plain, this.#adding] = schedules.map((schedule) => new HostExecutor(schedule, product));
    this.#runtime = runtime;
    this.#bytes = windowBytes(schedules[0], accumulator);
  }

  get workspaceBytes(): number {
    return sharedWindowBytes(this.#runtime.size, this.#bytes);
  }

  open(): void {
    this.#windows = useWindows(this.#runtime, this.#bytes);
  }

  prepare(): void {}

  multiply(a: LocalArray, b: LocalArray, d: LocalArray, alpha: ScalarArgument, beta: ScalarArgument): void {
    const executor = isNothing(beta) ? this.#plain : this.#adding;
    executor.run({ a, b, d }, alpha.address, beta.address, this.#windows!.value);
  }

  traced(body: () => void): Interval[] {
    const { communicator } = this.#runtime;
    const intervals: Interval[] = [];
    communicator.barrier();
    const met = performance.now();
    const note = (span: Span, start: number, end: number) => {
      intervals.push({ ...span, rank: communicator.rank, start: (start - met) * 1e3, end: (end - met) * 1e3 });
    };
    for (const executor of [this.#plain, this.#adding]) executor.note = note;
    try {
      body();
    } finally {
      for (const executor of [this.#plain, this.#adding]) executor.note = null;
    }
    return intervals;
  }

  [Symbol.dispose](): void {
    this.#windows?.[Symbol.dispose]();
  }
}

/** The overlap engine for runtimes on CPUs. It tells no cost, so that nobody gets it unasked: shared memory may be small. */
export const overlapHostEngine: MatmulEngine<"overlap", OverlapAlgorithm> = {
  name: NAME,
  device: "cpu",
  algorithms: OVERLAP_ALGORITHMS,
  hasTimelines: true,
  open: (runtime) => libraryInWords(runtime, openScalapack(runtime.threads)),
  supports: refuse,
  plan(runtime, request) {
    const { problem, algorithm } = request;
    const strategy = hostStrategy(problem, algorithm)!;
    const { way } = hostVariant(hostPartition(problem, strategy), false);
    const variant = `${describeOneDimensional(problem, strategy)}; schedule ${way}, in shared memory`;
    const scalapack = openScalapack(runtime.threads);
    const multiplier = new OverlapMultiplier(runtime, problem, strategy, scalapack);
    return new HostPlan(NAME, runtime, request, { ...strategy, variant }, multiplier, scalapack.blas);
  },
};
