/**
 * A PBLAS routine in words.
 *
 * @module
 */
import { PBLAS_ROUTINES } from "../../../ffi/blas/pblas.ts";
import { runtimeOf } from "../../array/base_array.ts";
import type { DistributedArray } from "../../array/distributed_array.ts";
import { explainPlan } from "../../array/explanation.ts";
import { predictOnGpu } from "../../array/gpu_model.ts";
import { type AlgorithmTimes, predictOnHost } from "../../array/host_model.ts";
import { elementsBetween, elementsCopied } from "../../array/redistribution/plan.ts";
import { operationsOf } from "../../blas/host_rate.ts";
import { addBytes, busiestBytes, noBytes } from "../../distribution/communication.ts";
import { CommunicationMatrix, type Distribution } from "../../distribution/mod.ts";
import { type AccumulatorDType, dtypeInfo } from "../../dtype/dtype.ts";
import { slownessOf } from "../../overlap/cost_model.ts";
import { describe } from "../../options.ts";
import { historyOf } from "../../runtime/operation.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { pblasEngineOf } from "../engines/choice.ts";
import { isInPlace } from "../matrix_division.ts";
import { argumentsOf, type PblasRoutine, type RoutineLetters, traitsOf } from "./call.ts";
import { type CheckedRoutine, checkRoutine } from "./checked_routine.ts";
import { planRoutine } from "./execution.ts";
import * as routines from "./routines.ts";
import { requestOf } from "./run.ts";

/** Whether a function is that of a routine. */
function isRoutine(given: unknown): boolean {
  return (Object.keys(PBLAS_ROUTINES) as PblasRoutine[]).some((name) => routines[name] === given);
}

/**
 * What a routine would do with these operands and options, in words, without doing it: the matrices, the engine, what is
 * copied where, the bytes that each rank sends, how long it takes by a model (on CPUs), and what its last call that was
 * recorded took. Local.
 *
 * @example
 * ```ts no-eval
 * import { DistributedArray, explain, initialize, Slab, trsm } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.full(runtime, [64, 64], Slab.X, 1);
 * using b = DistributedArray.full(runtime, [64, 8], Slab.X, 1);
 * console.log(explain(trsm, a, b, { uplo: "upper" }));
 * ```
 *
 * @param routine the function of a PBLAS routine, such as `trsm`
 * @param given what it would be called with
 * @throws {TypeError} if it is none
 * @throws what the routine would throw of what it is given
 */
// deno-lint-ignore no-explicit-any
export function explain<Given extends any[]>(
  routine: (...given: Given) => DistributedArray,
  ...given: Given
): string {
  if (!isRoutine(routine)) {
    throw new TypeError(
      `explain takes a PBLAS routine and its arguments, such as explain(trsm, a, b); got ${describe(routine)}. ` +
        "Matmul, FFT and Redistribution have an explain() of their own.",
    );
  }
  const request = requestOf(() => routine(...given));
  const runtime = runtimeOf(...request.given);
  const checked = checkRoutine(runtime, request);
  pblasEngineOf(runtime).open?.(runtime);
  return [...explainRoutine(runtime, request.routine, checked), historyOf(runtime, request.routine)].join("\n");
}

/** The letters that a routine looks at. */
function lettersOf(routine: PblasRoutine, { side, uplo, trans, diag }: RoutineLetters): string {
  const letters = { side: `side ${side}`, uplo: `uplo ${uplo}`, trans: `trans ${trans}`, diag: `diag ${diag}` };
  const extents = { m: [], n: [], k: [] };
  const matrices = { a: [], b: [], result: [], output: [] };
  const all = { ...letters, ...extents, ...matrices, alpha: [], beta: [], computeType: [] };
  return argumentsOf<string>(routine, all).join(", ");
}

/** What is computed, in a formula. */
function formulaOf(routine: PblasRoutine, { side }: RoutineLetters): string {
  const inOrder = (a: string, other: string) => side === "left" ? `${a} ${other}` : `${other} ${a}`;
  switch (traitsOf(routine).kind) {
    case "triangular":
      return routine === "trsm" ? `${inOrder("op(A)", "X")} = alpha B` : `alpha ${inOrder("op(A)", "B")}`;
    case "rank_k":
      return "alpha op(A) op(A)' + beta C";
    case "rank_2k":
      return "alpha op(A) op(B)' + its transpose + beta C";
    case "symmetric":
      return `alpha ${inOrder("A", "B")} + beta C`;
    default:
      return "alpha op(A) + beta C";
  }
}

/** What a routine is, and how it runs. Local. */
function explainRoutine(runtime: Runtime, routine: PblasRoutine, checked: CheckedRoutine): string[] {
  const { a, b, start, letters, distribution, order, shape, inplace } = checked;
  const { kind } = traitsOf(routine);
  const matrix = (name: string, { shape, distribution, order }: Matrix) =>
    `  ${name} ${shape.join(" x ")}, ${a.dtype}, ${distribution}, order ${order}`;
  return [
    `${routine}: ${formulaOf(routine, letters)}; ${lettersOf(routine, letters)}`,
    matrix("A", a),
    ...b ? [matrix("B", b)] : [],
    ...start ? [matrix(kind === "triangular" ? "B" : "C", start) + (inplace ? ", overwritten by the result" : "")] : [],
    matrix("result", { shape, distribution, order }),
    ...shape.includes(0) ? ["nothing to compute"] : planned(runtime, routine, checked),
  ];
}

type Matrix = Pick<DistributedArray, "shape" | "distribution" | "order">;

/** A matrix that moves. */
interface Move {
  readonly name: string;
  readonly from: Distribution;
  readonly to: Distribution;
}

function planned(runtime: Runtime, routine: PblasRoutine, checked: CheckedRoutine): string[] {
  const { start, distribution } = checked;
  const { rank, size } = runtime;
  const engine = pblasEngineOf(runtime);
  const dtype = checked.a.dtype as AccumulatorDType;
  const { itemSize } = dtypeInfo(dtype);
  const { a, b, result, blocks: { grid, blockSize } } = planRoutine(runtime, routine, checked);
  const all: Move[] = [
    { name: "A", from: a.distribution, to: a.there },
    ...b ? [{ name: "B", from: b.distribution, to: b.there }] : [],
    ...start
      ? [{ name: traitsOf(routine).kind === "triangular" ? "B" : "C", from: start.distribution, to: result.there }]
      : [],
    { name: "the result", from: result.there, to: distribution },
  ];
  const moves = all.filter(({ from, to }) => !isInPlace(from, to));
  const bytes = noBytes(size);
  for (const { from, to } of moves) addBytes(bytes, elementsBetween(from, to), itemSize);
  const communication = new CommunicationMatrix(bytes, ["without what the library sends while it computes"]);
  const written = checked.shape[0] * checked.shape[1] / size;
  return explainPlan({
    engine: engine.name,
    algorithm: routine,
    variant: `blocks of ${blockSize} x ${blockSize} on a grid of ${grid.shape.join(" x ")}`,
    steps: moves.map(({ name, from, to }) => `copy: ${name} from ${from} to ${to}`),
    workspaceBytes: moves.reduce(
      (sum, { to }) => sum + itemSize * to.localShape(rank).reduce((count, n) => count * n, 1),
      0,
    ),
    bytesMoved: communication.total,
    ...size > 1 && { libraryBytes: null },
    communication,
    times: predict(runtime, dtype, {
      multiplications: multiplications(routine, checked) / (grid.shape[0] * grid.shape[1]),
      bytes: itemSize * moves.reduce((sum, { from, to }) => sum + elementsCopied(from, to), written),
      sent: busiestBytes(communication),
      moves: moves.length,
      // Parts of factors go round block by block.
      rounds: size === 1 ? 0 : 2 * Math.ceil(Math.max(...checked.a.shape) / blockSize),
    }),
  }, runtime);
}

/** What the busiest rank does. */
interface RoutineWork {
  /** How often it multiplies two numbers and adds them. */
  readonly multiplications: number;
  /** Bytes that it copies, and those of them that it sends. */
  readonly bytes: number;
  readonly sent: number;
  /** How often matrices move, and how often the ranks meet while they compute. */
  readonly moves: number;
  readonly rounds: number;
}

/** How long it takes; on GPUs without what the library sends while it computes, which it does not tell. */
function predict(
  runtime: Runtime,
  dtype: AccumulatorDType,
  { multiplications, bytes, sent, moves, rounds }: RoutineWork,
): AlgorithmTimes | null {
  if (runtime.stream !== null) {
    const operations = 2 * multiplications * slownessOf(dtype);
    return predictOnGpu(runtime, { operations, bytes: 2 * bytes, sent, starts: 1 + moves + rounds });
  }
  const operationsPerSecond = pblasEngineOf(runtime).operationsPerSecond?.(runtime, dtype);
  if (operationsPerSecond === undefined) return null;
  const operations = operationsOf(dtype) * multiplications;
  return predictOnHost(runtime, { operations, operationsPerSecond, bytes, sent, meetings: moves + rounds });
}

/** How often two numbers are multiplied and added; sums take as long as to read and write. */
function multiplications(routine: PblasRoutine, { shape: [m, n], k, letters: { side } }: CheckedRoutine): number {
  const extent = side === "left" ? m : n;
  switch (traitsOf(routine).kind) {
    case "triangular":
      return m * n * extent / 2;
    case "rank_k":
      return n * n * k / 2;
    case "rank_2k":
      return n * n * k;
    case "symmetric":
      return m * n * extent;
    default:
      return 0;
  }
}
