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
import { exchangeOf } from "../host/strategy.ts";
import type { Algorithm, AlgorithmContext } from "./algorithm.ts";
import { AllGatherGemm } from "./all_gather_gemm.ts";
import { GemmAllReduce, GemmReduceScatter } from "./gemm_reduce.ts";
import { libraryInWords } from "../host/library.ts";
import { LocalGemm } from "./local_gemm.ts";
import { scalapackPblas } from "./pblas.ts";
import { Pgemm } from "./pgemm.ts";
import {
  chooseStrategy,
  describeStrategy,
  leastTraffic,
  SCALAPACK_ALGORITHMS,
  SCALAPACK_NEEDS,
  type ScalapackAlgorithm,
} from "./strategy.ts";

const NAME = "scalapack";

/** The algorithm that a request names; `undefined` for the engine's own choice. */
const requested = (algorithm: string) => SCALAPACK_ALGORITHMS.find((name) => name === algorithm);

function refuse(request: EngineRequest): Refusal | null {
  const { problem, algorithm } = request;
  const refusal = refuseOnHost(request);
  if (refusal) return refusal;
  const wanted = requested(algorithm);
  if (!wanted || isEmpty(problem) || chooseStrategy(problem, wanted)) return null;
  return {
    reason: `${wanted} cannot run this product: it needs ${SCALAPACK_NEEDS[wanted]}`,
    instead: "Change the distributions, or use algorithm default, which takes any.",
  };
}

/** What multiplies: on a grid ScaLAPACK, elsewhere by what the ranks exchange. */
function multiplierOf(context: AlgorithmContext): Algorithm {
  if (context.strategy.grid) return new Pgemm(context);
  switch (exchangeOf(context.strategy)) {
    case null:
      return new LocalGemm(context);
    case "all-gather":
      return new AllGatherGemm(context);
    case "reduce-scatter":
      return new GemmReduceScatter(context);
    case "all-reduce":
      return new GemmAllReduce(context);
  }
}

/** Any distributions, real and complex floats, on CPUs. */
export const scalapackEngine: MatmulEngine<"scalapack", ScalapackAlgorithm> = {
  name: NAME,
  device: "cpu",
  isUsual: true,
  algorithms: SCALAPACK_ALGORITHMS,
  open: (runtime) => libraryInWords(runtime, openScalapack(runtime.threads)),
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
    const multiplier = multiplierOf({ problem, strategy, communicator, scalapack });
    const described = { ...strategy, variant, leastTraffic: leastTraffic(problem, strategy) };
    return new HostPlan(NAME, runtime, request, described, multiplier, scalapack.blas);
  },
  pblas: scalapackPblas,
};
