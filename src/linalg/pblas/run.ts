/**
 * Where the function of a PBLAS routine leads: what it asks for is run, or told to who wants to know it.
 *
 * @module
 */
import { runtimeOf } from "../../array/base_array.ts";
import type { DistributedArray } from "../../array/distributed_array.ts";
import type { DType } from "../../dtype/dtype.ts";
import { runOnce } from "../../runtime/operation.ts";
import { pblasEngineOf } from "../engines/choice.ts";
import { checkRoutine, routineFacts, type RoutineRequest } from "./checked_routine.ts";
import { prepareEmptyResult, prepareRoutine, prepareTraddInParts } from "./execution.ts";

/** What becomes of a request. */
let answer: (request: RoutineRequest) => unknown = runRequest;

/** The end of each routine. All matrices are of one dtype, which is checked. */
export function run<D extends DType>(request: RoutineRequest): DistributedArray<D> {
  return answer(request) as DistributedArray<D>;
}

/** What a call of a routine asks for; it does not run. */
export function requestOf(call: () => unknown): RoutineRequest {
  answer = (request) => request;
  try {
    return call() as RoutineRequest;
  } finally {
    answer = runRequest;
  }
}

function runRequest(request: RoutineRequest): DistributedArray {
  const runtime = runtimeOf(...request.given);
  return runOnce(runtime, request.routine, () => {
    const checked = checkRoutine(runtime, request);
    const engine = pblasEngineOf(runtime);
    const library = engine.open?.(runtime) ?? "";
    const [rows, columns] = checked.shape;
    const isEmpty = rows === 0 || columns === 0;
    const inParts = rows !== columns && engine.squareOnly.includes(request.routine);
    return {
      facts: { ...routineFacts(checked), library },
      run: isEmpty
        ? prepareEmptyResult(runtime, checked)
        : inParts
        ? prepareTraddInParts(runtime, checked)
        : prepareRoutine(runtime, request.routine, checked),
    };
  });
}
