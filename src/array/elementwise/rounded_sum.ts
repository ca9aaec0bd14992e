/**
 * Sums of a few numbers, rounded once.
 *
 * @module
 */

/** The sum of two numbers, and what rounding has left of it. */
function sumAndRest(a: number, b: number): [sum: number, rest: number] {
  const sum = a + b;
  const other = sum - a;
  return [sum, (a - (sum - other)) + (b - other)];
}

/** A bound of the error of two additions, relative to what is added. */
const DOUBT = 2 ** -50;

/** The sum of four numbers, rounded once. */
export function roundedSum(a: number, b: number, c: number, d: number): number {
  const [ends, third] = sumAndRest(c, d);
  const [middle, second] = sumAndRest(b, ends);
  const [sum, first] = sumAndRest(a, middle);
  if (second === 0 && third === 0) return sum;
  const rest = first + (second + third);
  const doubt = DOUBT * (Math.abs(first) + Math.abs(second) + Math.abs(third));
  const lower = sum + (rest - doubt);
  return lower === sum + (rest + doubt) ? lower : roundedSumOf([sum, first, second, third]);
}

/** The sum of any numbers, rounded once: as parts that do not overlap, from the largest on (Shewchuk's). */
function roundedSumOf(values: readonly number[]): number {
  const parts: number[] = [];
  for (const value of values) {
    let [sum, rest] = [value, 0];
    let count = 0;
    for (const part of parts.splice(0)) {
      [sum, rest] = sumAndRest(sum, part);
      if (rest !== 0) parts[count++] = rest;
    }
    parts.push(sum);
  }
  let sum = parts.pop() ?? 0;
  while (parts.length > 0) {
    const before = sum;
    const part = parts.pop()!;
    sum = before + part;
    const rest = part - (sum - before);
    if (rest === 0) continue;
    // Half of a unit is rounded to even, unless what follows is on its side.
    const next = parts.at(-1) ?? 0;
    if (rest > 0 && next > 0 || rest < 0 && next < 0) {
      const further = sum + 2 * rest;
      if (2 * rest === further - sum) sum = further;
    }
    break;
  }
  return sum;
}
