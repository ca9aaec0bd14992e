/**
 * Assertions that hold on all ranks, or fail on all of them with the same words.
 *
 * @module
 */
import { AssertionError } from "node:assert";
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { inspect } from "node:util";
import type { DistributedArray } from "../array/distributed_array.ts";
import type { LocalArray } from "../array/local_array.ts";
import { type DType, dtypeInfo } from "../dtype/dtype.ts";
import { describe, keysOf, readOptions } from "../options.ts";
import type { Runtime } from "../runtime/runtime.ts";

function messageOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}

/** The class of an error, such as `ShapeError`; its constructor does not matter. */
// deno-lint-ignore no-explicit-any
export type ErrorClass<E extends Error> = abstract new (...values: any[]) => E;

/**
 * Assert that `fn` throws on every rank an error of this class, with the same class and message everywhere, and return
 * it. Collective.
 *
 * @throws {AssertionError} on every rank if it does not.
 *
 * @example
 * ```ts
 * import { assertThrowsOnAllRanks, testRuntime } from "@distmath/distmath/testing";
 * const runtime = testRuntime();
 * assertThrowsOnAllRanks(runtime, () => runtime.communicator.broadcast(new Int8Array(1), { root: 99 }), RangeError, "99");
 * ```
 */
export function assertThrowsOnAllRanks<E extends Error>(
  runtime: Pick<Runtime, "communicator">,
  fn: () => unknown,
  errorClass: ErrorClass<E>,
  messagePart = "",
): E {
  let thrown: unknown = null;
  try {
    fn();
  } catch (error) {
    thrown = error;
  }
  return agreeOnError(runtime, thrown, errorClass, messagePart);
}

/**
 * As {@linkcode assertThrowsOnAllRanks}, of the promise that `fn` returns: assert that it is rejected, or that `fn` throws.
 * Collective.
 *
 * @throws {AssertionError} on every rank, as a rejection, if it is not.
 *
 * @example
 * ```ts
 * import { assertRejectsOnAllRanks, testRuntime } from "@distmath/distmath/testing";
 * await assertRejectsOnAllRanks(testRuntime(), () => Deno.readTextFile("/none"), Deno.errors.NotFound);
 * ```
 */
export async function assertRejectsOnAllRanks<E extends Error>(
  runtime: Pick<Runtime, "communicator">,
  fn: () => PromiseLike<unknown>,
  errorClass: ErrorClass<E>,
  messagePart = "",
): Promise<E> {
  let thrown: unknown = null;
  try {
    await fn();
  } catch (error) {
    thrown = error;
  }
  return agreeOnError(runtime, thrown, errorClass, messagePart);
}

/** The error of this rank if all have the same, of this class; what was thrown is `null` where nothing was. */
function agreeOnError<E extends Error>(
  runtime: Pick<Runtime, "communicator">,
  thrown: unknown,
  errorClass: ErrorClass<E>,
  messagePart: string,
): E {
  const isRight = thrown instanceof errorClass && thrown.message.includes(messagePart);
  const mine = { text: thrown === null ? "nothing" : messageOf(thrown), isRight };
  const everyone = runtime.communicator.allGatherObject(mine);
  if (everyone.every(({ text, isRight }) => isRight && text === everyone[0].text)) return thrown as E;
  const list = everyone.map(({ text }, rank) => `  rank ${rank}: ${text}`).join("\n");
  const wanted = `${errorClass.name}${messagePart && ` with "${messagePart}"`}`;
  throw new AssertionError({ message: `Every rank should throw the same ${wanted}, but they threw:\n${list}` });
}

/** A value as text, the same for equal ones. */
function textOf(value: unknown): string {
  const buffers: { [inspect.custom]?: unknown } = Buffer.prototype;
  const own = buffers[inspect.custom];
  // It leaves out what is behind the first 50 bytes.
  buffers[inspect.custom] = undefined;
  try {
    return inspect(value, {
      depth: Infinity,
      maxArrayLength: Infinity,
      maxStringLength: Infinity,
      breakLength: Infinity,
      getters: true,
      sorted: true,
    });
  } finally {
    buffers[inspect.custom] = own;
  }
}

/** What is compared of a value, and shown; what cannot be looked at is the same as nothing else. */
function traitsOf(value: unknown, rank: number): { digest: string; start: string } {
  try {
    const text = textOf(value);
    return { digest: createHash("sha256").update(text).digest("hex"), start: shown(text) };
  } catch (error) {
    return { digest: `of rank ${rank}`, start: `what cannot be looked at: ${shown(messageOf(error))}` };
  }
}

/** What a message shows of a text. */
const shown = (text: string) => text.length > 200 ? `${text.slice(0, 200)}…` : text;

/**
 * Assert that a value is the same on every rank: numbers, texts, typed arrays, objects of these. Of other objects what
 * `inspect` of `node:util` shows is compared, and not what is private to them, such as what a Blob holds. Collective.
 *
 * @throws {AssertionError} on every rank if it is not, with the ranks that have each value.
 *
 * @example
 * ```ts
 * import { assertSameOnAllRanks, testRuntime } from "@distmath/distmath/testing";
 * const runtime = testRuntime();
 * assertSameOnAllRanks(runtime, runtime.communicator.allReduce(new Float64Array([1])));
 * ```
 */
export function assertSameOnAllRanks(runtime: Pick<Runtime, "communicator">, value: unknown, what = "the value"): void {
  const mine = traitsOf(value, runtime.communicator.rank);
  const everyone = runtime.communicator.allGatherObject(mine).map((value, rank) => ({ ...value, rank }));
  const values = [...Map.groupBy(everyone, ({ digest }) => digest).values()];
  if (values.length === 1) return;
  const list = values.map((same) => {
    const ranks = same.map(({ rank }) => rank);
    return `  ${ranks.length === 1 ? "rank" : "ranks"} ${ranks.join(", ")}: ${same[0].start}`;
  });
  throw new AssertionError({
    message: `Every rank should have the same for ${what}, but they have:\n${list.join("\n")}`,
  });
}

/** Options of {@linkcode assertAllCloseDistributed}. */
export interface CloseOptions {
  /** The difference that is allowed, as a part of what is expected; by the dtype when left out. */
  relative?: number;
  /** The difference that is allowed whatever is expected; by the dtype when left out. */
  absolute?: number;
}

const CLOSE_KEYS = keysOf<CloseOptions>({ relative: true, absolute: true });

function readLimits(options: CloseOptions, dtype: DType): Required<CloseOptions> {
  const [relative, absolute] = TOLERANCES[dtype] ?? [0, 0];
  const limits = { relative, absolute, ...readOptions("assertAllCloseDistributed: options", options, CLOSE_KEYS) };
  for (const key of CLOSE_KEYS) {
    if (typeof limits[key] === "number" && limits[key] >= 0) continue;
    throw new TypeError(
      `assertAllCloseDistributed: ${key} must be a number from 0 on, not ${describe(limits[key])}.`,
    );
  }
  return limits;
}

/** Differences that are allowed, relative and absolute: PyTorch's (`torch.testing.assert_close`). */
const TOLERANCES: Readonly<Partial<Record<DType, readonly [relative: number, absolute: number]>>> = {
  float16: [1e-3, 1e-5],
  complex32: [1e-3, 1e-5],
  bfloat16: [1.6e-2, 1e-5],
  float32: [1.3e-6, 1e-5],
  complex64: [1.3e-6, 1e-5],
  float64: [1e-7, 1e-7],
  complex128: [1e-7, 1e-7],
};

/** The largest difference on a rank that is not allowed. */
interface Worst {
  /** How many elements differ too much. */
  count: number;
  difference: number;
  at: readonly number[];
  actual: string;
  expected: string;
}

/** An element, or one of the two parts of a complex one: exactly what the array holds. */
type Exact = number | bigint;

function valuesOf(local: LocalArray): readonly Exact[] {
  return local.dtype === "int64" ? Array.from(local.toTypedArray() as BigInt64Array) : local.toNumbers();
}

/** The difference of two numbers; that of whole ones of 64 bits is not lost to rounding. */
function minus(a: Exact, b: Exact): number {
  const isWhole = (value: Exact) => typeof value === "bigint" || Number.isInteger(value);
  const isLong = typeof a === "bigint" || typeof b === "bigint";
  return isLong && isWhole(a) && isWhole(b) ? Number(BigInt(a) - BigInt(b)) : Number(a) - Number(b);
}

/**
 * Assert that an array is close to another one, whose distribution may be another, or to a number, which is real. Real and
 * imaginary parts are compared each; NaN is close to NaN. Collective.
 *
 * A real array may be expected of a complex one, whose imaginary parts then have to be close to 0.
 *
 * @throws {TypeError} for options that are none.
 * @throws {AssertionError} on every rank if it is not: where the difference is largest, and how many elements differ; of
 * arrays of other shapes, and of a real array where a complex one is expected.
 *
 * @example
 * ```ts
 * import { DistributedArray, Slab } from "@distmath/distmath";
 * import { assertAllCloseDistributed, testRuntime } from "@distmath/distmath/testing";
 * using ones = DistributedArray.full(testRuntime(), [4, 3], Slab.X, 1);
 * assertAllCloseDistributed(ones, 1);
 * ```
 */
export function assertAllCloseDistributed(
  actual: DistributedArray,
  expected: DistributedArray | number,
  options: CloseOptions = {},
): void {
  const limits = readLimits(options, actual.dtype);
  if (typeof expected !== "number" && expected.shape.join() !== actual.shape.join()) {
    throw new AssertionError({ message: `The shapes differ: [${actual.shape}] and, expected, [${expected.shape}].` });
  }
  if (typeof expected !== "number" && dtypeInfo(expected.dtype).isComplex && !dtypeInfo(actual.dtype).isComplex) {
    throw new AssertionError({
      message:
        `The expected array is ${expected.dtype}, and the actual one ${actual.dtype}. Compare complex numbers, as ` +
        `of actual.to({ dtype: "${expected.dtype}" }).`,
    });
  }
  const moved = typeof expected === "number" || actual.distribution.coincidesWith(expected.distribution)
    ? null
    : expected.redistribute(actual.distribution);
  const wanted = typeof expected === "number" ? null : valuesOf((moved ?? expected).local);
  const isImaginary = (i: number) => dtypeInfo(actual.dtype).parts === 2 && i % 2 === 1;
  const isPaired = typeof expected !== "number" &&
    dtypeInfo(actual.dtype).parts === dtypeInfo(expected.dtype).parts;
  // A real number beside a complex one has no imaginary part.
  const wantedAt = (i: number): Exact =>
    isPaired ? wanted![i] : isImaginary(i) ? 0 : wanted === null ? expected as number : wanted[i >> 1];
  const mine = worstOf(actual, wantedAt, limits);
  moved?.[Symbol.dispose]();
  const everyone = actual.runtime.communicator.allGatherObject(mine);
  const failed = everyone.flatMap((worst, rank) => worst.count > 0 ? [{ ...worst, rank }] : []);
  if (failed.length === 0) return;
  const { rank, at, actual: is, expected: should } = failed.reduce((a, b) => b.difference > a.difference ? b : a);
  const total = failed.reduce((sum, { count }) => sum + count, 0);
  throw new AssertionError({
    message: `${total} elements are not close (relative ${limits.relative}, ` +
      `absolute ${limits.absolute}); the largest difference is at [${at}], on rank ${rank}: ${is}, expected ${should}. ` +
      `Ranks with differences: ${failed.map(({ rank }) => rank).join(", ")}.`,
  });
}

function worstOf(
  array: DistributedArray,
  expected: (i: number) => Exact,
  { relative, absolute }: Required<CloseOptions>,
): Worst {
  const worst = { count: 0, difference: -1, at: [] as readonly number[], actual: "", expected: "" };
  let place = 0;
  const values = valuesOf(array.local);
  values.forEach((actual, i) => {
    const wanted = expected(i);
    // Infinities are close to themselves alone.
    if (Object.is(actual, wanted) || actual === wanted) return;
    const difference = Math.abs(minus(actual, wanted));
    const isFinite = Number.isFinite(Number(wanted));
    if (isFinite && difference <= absolute + relative * Math.abs(Number(wanted))) return;
    worst.count++;
    // What is no number is the largest difference.
    const size = Number.isNaN(difference) ? Infinity : difference;
    if (size <= worst.difference) return;
    [worst.difference, worst.actual, worst.expected, place] = [size, String(actual), String(wanted), i];
  });
  if (worst.count === 0) return worst;
  const { shape } = array.local;
  const parts = values.length / shape.reduce((product, extent) => product * extent, 1);
  let rest = Math.floor(place / parts);
  const index = shape.toReversed().map((extent) => {
    const at = rest % extent;
    rest = Math.floor(rest / extent);
    return at;
  }).reverse();
  return { ...worst, at: array.distribution.toGlobal(array.runtime.rank, index) };
}
