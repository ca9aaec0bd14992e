/**
 * What one rank computes, and all get.
 *
 * Rank 0 alone calls LAPACK: libraries run other code on other CPUs and at other alignments, and round differently then.
 * Results would not have the same bits on all ranks, and scripts whose loops stop by a value would part.
 *
 * @module
 */
import { DistributedArray } from "../../array/distributed_array.ts";
import { nothing } from "../../array/given_data.ts";
import { LocalArray } from "../../array/local_array.ts";
import { onRoot } from "../../array/redistribution/plan.ts";
import { Redistributor } from "../../array/redistribution/redistributor.ts";
import { Replicated } from "../../distribution/mod.ts";
import type { DType } from "../../dtype/dtype.ts";
import { prepareCopies } from "../../memory/copy.ts";
import { agree } from "../../runtime/agreement.ts";
import type { Runtime } from "../../runtime/runtime.ts";

const ROOT = 0;

/** What the root is ready to compute. */
export interface Computation {
  /** What it writes: dense column-major arrays in host memory. */
  readonly results: readonly LocalArray[];
  /** What else it holds until it is over. */
  readonly scratch: readonly LocalArray[];
  /** Compute. Returns what is wrong with the matrix, in words; null if nothing is. */
  readonly run: () => string | null;
}

/** A result before there is one. */
export interface ResultPlan {
  readonly dtype: DType;
  readonly shape: readonly number[];
}

/** A result that is about to come. */
interface Coming {
  readonly array: DistributedArray;
  /** Bring it from the root. Collective. */
  readonly bring: () => void;
  readonly temporary: DisposableStack;
}

/**
 * Get ready for the root to compute, and for all ranks to have the results, in the order and memory of `like`. Local; what
 * it returns is collective, and throws a RangeError on every rank if something is wrong with the matrix.
 */
export function prepareOnRoot(
  runtime: Runtime,
  operation: string,
  like: DistributedArray,
  plans: readonly ResultPlan[],
  prepare: () => Computation,
): () => DistributedArray[] {
  const computation = runtime.rank === ROOT ? prepare() : null;
  const coming = plans.map((plan, i) => prepareResult(runtime, like, plan, computation?.results[i]));
  return () => {
    using temporary = new DisposableStack();
    for (const local of computation?.scratch ?? []) temporary.defer(() => local.release());
    for (const result of coming) temporary.use(result.temporary);
    const fault = runtime.communicator.broadcastObject(computation?.run() ?? null, { root: ROOT });
    if (fault !== null) {
      for (const { array } of coming) array.free();
      agree(runtime, operation, () => {
        throw new RangeError(`${operation}: ${fault}`);
      });
    }
    for (const { bring } of coming) bring();
    return coming.map(({ array }) => array);
  };
}

function prepareResult(
  runtime: Runtime,
  { order, local: { isOnDevice } }: DistributedArray,
  { dtype, shape }: ResultPlan,
  computed: LocalArray = nothing(dtype, shape),
): Coming {
  const { size, stream } = runtime;
  const temporary = new DisposableStack();
  temporary.defer(() => computed.release());
  const distribution = Replicated.bind(shape, size);
  const local = LocalArray.empty(dtype, shape, order, isOnDevice ? stream : null);
  const host = isOnDevice ? LocalArray.empty(dtype, shape, order) : local;
  const move = temporary.use(new Redistributor(runtime, onRoot(shape, size, ROOT), distribution))
    .prepare(computed, host, "F");
  if (isOnDevice) {
    prepareCopies(local.byteLength);
    temporary.defer(() => host.release());
  }
  const bring = () => {
    move();
    if (isOnDevice) local.set(host);
  };
  return { array: DistributedArray.wrap(runtime, local, distribution, order), bring, temporary };
}
