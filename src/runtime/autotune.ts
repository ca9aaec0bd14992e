/**
 * Autotune: try the ways to run an operation, and plan it by the fastest.
 *
 * @module
 */
import type { ConfigurationError } from "../errors.ts";
import { describe, keysOf, readOptions } from "../options.ts";
import type { Facts } from "./agreement.ts";
import type { Change, CollectiveOperation, OperationPlan } from "./operation.ts";

/** Options of `autotune`, whatever the operation. */
interface Options {
  repetitions?: number;
}

const KEYS = keysOf<Options>({ repetitions: true });

/** How an operation is tuned. A trial is one of the ways to run it, as plain data. */
export interface Tuning<Operands, Plan extends OperationPlan, Trial> {
  /** What has to be the same on every rank. */
  readonly facts?: Facts;
  /** What is tried. The same on all ranks. */
  readonly trials: readonly Trial[];
  /** What messages call a trial. */
  readonly titleOf: (trial: Trial) => string;
  /** Get ready for all trials. Collective. */
  readonly begin?: () => void;
  /** The plan of a trial. Local. */
  readonly make: (trial: Trial) => { readonly plan: Plan; readonly facts?: Facts };
  /** Allocate what an execution needs that is measured. Local; what it returns is collective. */
  readonly prepare: (plan: Plan) => () => unknown;
  /** Let go of what executions were measured on, also if one failed. Local. */
  readonly release?: () => void;
  /** Take note of what was measured, the fastest first, before the fastest is planned. Local. */
  readonly note?: (measured: readonly Measured<Trial>[]) => void;
  /** Plan by the fastest. Local. */
  readonly replan: (
    fastest: Trial,
    operands: Operands | null,
  ) => Change & { readonly plan: Plan; readonly operands: Operands | null };
}

/** A trial, and the time of an execution on the slowest rank, in seconds. */
export type Measured<Trial> = Trial & { readonly seconds: number };

/**
 * Measure all trials, plan by the fastest, and return the times, the fastest first. `check` says how, and what an execution
 * needs. Collective.
 *
 * @throws {TypeError | RangeError} if an option is unknown, or repetitions are no whole number from 1
 * @throws {StateError} if the operation has no plan, or no operands
 * @throws {ConfigurationError} if the machine refuses all trials, such as for want of shared memory
 */
export function autotune<Operands, Plan extends OperationPlan, Trial>(
  operation: CollectiveOperation<Operands, Plan>,
  options: Options | undefined,
  check: (plan: Plan, operands: Operands) => Tuning<Operands, Plan, Trial>,
): Measured<Trial>[] {
  const { repetitions, tuning } = operation.agree("autotune", () => {
    const { repetitions = 3 } = readOptions("the options of autotune", options, KEYS);
    checkRepetitions(repetitions);
    const tuning = check(...operation.ready("autotune"));
    return { repetitions, tuning, facts: { repetitions, ...tuning.facts } };
  });
  const measured = measureAll(operation, tuning, repetitions);
  tuning.note?.(measured);
  const [fastest] = measured;
  if (fastest) operation.plan("autotune", (operands) => tuning.replan(fastest, operands), fastest.seconds);
  return measured;
}

function measureAll<Operands, Plan extends OperationPlan, Trial>(
  operation: CollectiveOperation<Operands, Plan>,
  { trials, titleOf, begin, make, prepare, release }: Tuning<Operands, Plan, Trial>,
  repetitions: number,
): Measured<Trial>[] {
  try {
    begin?.();
    operation.rest();
    const refusals: ConfigurationError[] = [];
    const measured = trials.flatMap((trial) => {
      const title = `autotune: ${titleOf(trial)}`;
      const seconds = operation.measure(title, () => make(trial), prepare, repetitions);
      if (typeof seconds === "number") return [{ ...trial, seconds }];
      refusals.push(seconds);
      return [];
    });
    if (measured.length === 0 && refusals.length > 0) throw refusals[0];
    return measured.sort((one, other) => one.seconds - other.seconds);
  } finally {
    release?.();
  }
}

/** What is measured more often than this is a mistake. */
const MOST_REPETITIONS = 2 ** 20;

/** Refuse what is no number of measurements. */
function checkRepetitions(repetitions: number): void {
  if (Number.isInteger(repetitions) && repetitions >= 1 && repetitions <= MOST_REPETITIONS) return;
  throw new RangeError(
    `repetitions must be a whole number from 1 to ${MOST_REPETITIONS}; got ${describe(repetitions)}.`,
  );
}
