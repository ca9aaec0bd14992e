/**
 * The CPU engine: BLAS on each rank, MPI between them, or ScaLAPACK's p?gemm.
 *
 * @module
 */
import { openScalapack } from "../../../../ffi/blas/scalapack.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { isEmpty } from "../../matmul/problem.ts";
import type { EnginePlan, EngineRequest, MatmulEngine, Refusal } from "../engine.ts";
import { HostPlan } from "../host/plan.ts";
import { refuseOnHost } from "../host/refusal.ts";
import type { Algorithm, AlgorithmContext } from "./algorithm.ts";
import { AllGatherGemm } from "./all_gather_gemm.ts";
import { GemmAllReduce, GemmReduceScatter } from "./gemm_reduce.ts";
import { scalapackLibrary } from "../host/library.ts";
import { LocalGemm } from "./local_gemm.ts";
import { scalapackPblas } from "./pblas.ts";
import { Pgemm } from "./pgemm.ts";
import {
  chooseStrategy,
  describeStrategy,
  leastTraffic,
  SCALAPACK_ALGORITHMS,
  type ScalapackAlgorithm,
} from "./strategy.ts";

const NAME = "scalapack";

/** The algorithm that a request names; `undefined` for the engine's own choice. */
const requested = (algorithm: string) => SCALAPACK_ALGORITHMS.find((name) => name === algorithm);

function refuse({ problem, epilog, algorithm }: EngineRequest): Refusal | null {
  const refusal = refuseOnHost(problem, epilog);
  if (refusal) return refusal;
  const wanted = requested(algorithm);
  if (!wanted || isEmpty(problem) || chooseStrategy(problem, wanted)) return null;
  return {
    reason: `${wanted} cannot run this product: it needs ${NEEDS[wanted]}`,
    instead: "Change the distributions, or use algorithm default, which takes any.",
  };
}

/** What an algorithm cannot run without; other distributions are moved to those that it takes. */
const NEEDS: Readonly<Record<ScalapackAlgorithm, string>> = {
  local_gemm: "one rank, or a factor that is Replicated",
  all_gather_gemm: "a factor that is not Replicated, with at most 2^31 - 1 numbers on a rank",
  gemm_reduce_scatter: "a D that is not Replicated, of at most 2^31 - 1 numbers",
  gemm_all_reduce: "a D that is Replicated, of at most 2^31 - 1 numbers",
  pgemm: "a grid of processes",
};

const ALGORITHMS: Readonly<Record<ScalapackAlgorithm, new (context: AlgorithmContext) => Algorithm>> = {
  local_gemm: LocalGemm,
  all_gather_gemm: AllGatherGemm,
  gemm_reduce_scatter: GemmReduceScatter,
  gemm_all_reduce: GemmAllReduce,
  pgemm: Pgemm,
};

/** Any distributions, real and complex floats, on CPUs. */
export const scalapackEngine: MatmulEngine<"scalapack", ScalapackAlgorithm> = {
  name: NAME,
  device: "cpu",
  algorithms: SCALAPACK_ALGORITHMS,
  open: scalapackLibrary,
  supports: refuse,
  cost({ problem, algorithm }: EngineRequest): number {
    const { moved, traffic } = chooseStrategy(problem, requested(algorithm))!;
    return moved + traffic;
  },
  plan(runtime: Runtime, request: EngineRequest): EnginePlan {
    const { problem, algorithm } = request;
    const { communicator, threads } = runtime;
    const scalapack = openScalapack(threads);
    const strategy = chooseStrategy(problem, requested(algorithm))!;
    const variant = describeStrategy(problem, strategy);
    const multiplier = new ALGORITHMS[strategy.algorithm]({ problem, strategy, communicator, scalapack });
    const described = { ...strategy, variant, leastTraffic: leastTraffic(problem, strategy) };
    return new HostPlan(NAME, runtime, request, described, multiplier);
  },
  pblas: scalapackPblas,
};
