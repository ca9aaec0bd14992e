/**
 * An engine as simple as can be: every rank gathers all matrices, and sums its part of D by plain loops. Importing this
 * registers it, at a cost that is below all others.
 */
import { dtypeInfo } from "../../src/dtype/dtype.ts";
import { DistributedArray } from "../../src/array/distributed_array.ts";
import type { LocalArray } from "../../src/array/local_array.ts";
import type { EnginePlan, EngineRequest, MatmulEngine } from "../../src/linalg/engines/engine.ts";
import { registerEngine } from "../../src/linalg/engines/registry.ts";
import { isTrivial } from "../../src/linalg/matmul/epilog.ts";
import { isEmpty, type MatmulProblem, type Matrix } from "../../src/linalg/matmul/problem.ts";
import type { Operation } from "../../src/blas/operation.ts";
import type { Scalar } from "../../src/mod_types.ts";
