/**
 * The few statistics that a benchmark needs.
 *
 * @module
 */

/** What many measurements of one quantity say. */
export interface Summary {
  /** The middle value. */
  median: number;
  /** The lower quartile. */
  low: number;
  /** The upper quartile. */
  high: number;
  /** How many measurements there are. */
  count: number;
}

/** The value below which a fraction of the samples lies, interpolated between neighbours. */
export function quantile(samples: readonly number[], fraction: number): number {
  if (samples.length === 0) throw new RangeError("No samples: a quantile needs at least one.");
  const sorted = [...samples].sort((one, other) => one - other);
  const position = fraction * (sorted.length - 1);
  const below = Math.floor(position);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (position - below) * (sorted[above] - sorted[below]);
}

/** The middle of the samples. */
export function median(samples: readonly number[]): number {
  return quantile(samples, 0.5);
}

/** Median, quartiles and number of samples. */
export function summarize(samples: readonly number[]): Summary {
  return {
    median: median(samples),
    low: quantile(samples, 0.25),
    high: quantile(samples, 0.75),
    count: samples.length,
  };
}

/** The ratios of two series that were measured side by side, round by round. */
export function ratios(numerators: readonly number[], denominators: readonly number[]): number[] {
  return byRound(numerators, denominators, (numerator, denominator) => numerator / denominator);
}

/** The difference of two series, round by round. */
export function differences(values: readonly number[], others: readonly number[]): number[] {
  return byRound(values, others, (value, other) => value - other);
}

function byRound(
  values: readonly number[],
  others: readonly number[],
  combine: (value: number, other: number) => number,
): number[] {
  if (values.length !== others.length) {
    throw new RangeError(`Two series of ${values.length} and ${others.length} rounds have no common rounds.`);
  }
  return values.map((value, round) => combine(value, others[round]));
}

/** The slowest rank's value, call by call: a collective call lasts until its last rank is done. */
export function slowest(ranks: readonly (readonly number[])[]): number[] {
  return ranks[0].map((_, call) => Math.max(...ranks.map((times) => times[call])));
}
