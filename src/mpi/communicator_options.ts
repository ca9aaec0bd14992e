/**
 * What the methods of `Communicator` take beside arrays and ranks.
 *
 * @module
 */
import { checkKeys, keysOf } from "../options.ts";
import type { Counts } from "./counts.ts";
import type { ElementName, NumericArray } from "./elements.ts";
import type { OperationWord, ReductionOperator } from "./operator.ts";

/** What all methods for typed arrays take. */
export interface ElementOptions {
  /** What the entries mean where the class of the array does not say it: `"bfloat16"`, `"complex64"`, …. */
  dtype?: ElementName;
}

/** Options of a method with a result on every rank. */
export interface IntoOptions<T extends NumericArray> extends ElementOptions {
  /** Where the result goes, instead of a new array. */
  into?: T;
}

/** Options of a method with a result on one rank. */
export interface RootOptions<T extends NumericArray> extends IntoOptions<T> {
  /** The rank with the result; 0 when left out. */
  root?: number;
}

/** Options of a reduction with a result on every rank. */
export interface ReduceOptions<T extends NumericArray> extends IntoOptions<T> {
  /**
   * How entries are combined; `"sum"` when left out. `"maxloc"` and `"minloc"` take pairs of a value and its place, both of
   * the dtype, and give the extreme one with the first place that has it, or NaN's, where there is one. What `"max"` and
   * `"min"` make of NaN depends on the MPI, and may differ between ranks. Reductions in the background take MPI's own
   * operations alone.
   */
  op?: OperationWord | ReductionOperator<T>;
}

/** Options of a reduction with a result on one rank. */
export interface ReduceRootOptions<T extends NumericArray> extends ReduceOptions<T> {
  /** The rank with the result; 0 when left out. */
  root?: number;
}

/** Options of a gathering of parts of different lengths: on every rank, in entries. */
export interface GatherVOptions<T extends NumericArray> extends IntoOptions<T> {
  /** The length of each rank's part. */
  counts: Counts;
  /** Where each rank's part begins in `into`; one after the other when left out. */
  displacements?: Counts;
}

/** Options of a gathering to one rank; only that one needs `counts`. */
export interface GatherVRootOptions<T extends NumericArray> extends RootOptions<T> {
  /** The length of each rank's part. */
  counts?: Counts;
  /** Where each rank's part begins in `into`; one after the other when left out. */
  displacements?: Counts;
}

/** Options of a scattering of equal parts. */
export interface ScatterOptions extends ElementOptions {
  /** The rank whose array is scattered; 0 when left out. */
  root?: number;
}

/** Options of a scattering of parts of different lengths; only the root needs `counts`. */
export interface ScatterVOptions extends ScatterOptions {
  /** The length of each rank's part. */
  counts?: Counts;
  /** Where each rank's part begins; one after the other when left out. */
  displacements?: Counts;
}

/** Options of an exchange of parts of different lengths, in entries. */
export interface AllToAllVOptions<T extends NumericArray> extends IntoOptions<T> {
  /** The length of the part for each rank. */
  sendCounts: Counts;
  /** Where each of these parts begins in the array that is sent; one after the other when left out. */
  sendDisplacements?: Counts;
  /** The length of the part from each rank. */
  receiveCounts: Counts;
  /** Where each of these parts begins in `into`; one after the other when left out. */
  receiveDisplacements?: Counts;
}

/** Options of a reduction whose result is split over the ranks. */
export interface ReduceScatterOptions<T extends NumericArray> extends ReduceOptions<T> {
  /** The length of each rank's part; equal parts when left out. */
  counts?: Counts;
}

/** Options of a method that carries values to or from one rank. */
export interface ObjectOptions {
  /** The rank with the values; 0 when left out. */
  root?: number;
}

/** Options of a message. */
export interface SendOptions extends ElementOptions {
  /** A number of your choice that the receiver can select by; 0 when left out. */
  tag?: number;
}

/** Options of a receive. */
export interface ReceiveOptions extends ElementOptions {
  /** The tag that the message must have; any when left out. */
  tag?: number;
}

/** Options of a combined send and receive. */
export interface SendReceiveOptions extends ElementOptions {
  /** The tag of what is sent; 0 when left out. */
  tag?: number;
  /** The rank to receive from; the one that is sent to when left out, `"any"` for whoever comes first. */
  source?: Source;
  /** The tag that the received message must have; any when left out. */
  receiveTag?: number;
}

/** A rank to receive from; `"any"` takes what comes first, `null` receives nothing. */
export type Source = number | "any" | null;

/** The options of a method that is called without. */
export const NO_OPTIONS: Readonly<Record<string, never>> = Object.freeze({});

/** As {@linkcode keysOf}, to be looked up. */
const keys = <O extends object>(names: Readonly<Record<keyof O, true>>): ReadonlySet<string> =>
  new Set(keysOf<O>(names));

const [ELEMENT, ROOT, PARTS] = [{ dtype: true }, { root: true }, { counts: true, displacements: true }] as const;
const INTO = { ...ELEMENT, into: true } as const;
const REDUCE = { ...INTO, op: true } as const;

export const OptionKeys = {
  into: keys<IntoOptions<never>>(INTO),
  root: keys<RootOptions<never>>({ ...INTO, ...ROOT }),
  reduce: keys<ReduceOptions<never>>(REDUCE),
  reduceRoot: keys<ReduceRootOptions<never>>({ ...REDUCE, ...ROOT }),
  gatherV: keys<GatherVOptions<never>>({ ...INTO, ...PARTS }),
  gatherVRoot: keys<GatherVRootOptions<never>>({ ...INTO, ...ROOT, ...PARTS }),
  scatter: keys<ScatterOptions>({ ...ELEMENT, ...ROOT }),
  scatterV: keys<ScatterVOptions>({ ...ELEMENT, ...ROOT, ...PARTS }),
  allToAllV: keys<AllToAllVOptions<never>>({
    ...INTO,
    sendCounts: true,
    sendDisplacements: true,
    receiveCounts: true,
    receiveDisplacements: true,
  }),
  reduceScatter: keys<ReduceScatterOptions<never>>({ ...REDUCE, counts: true }),
  object: keys<ObjectOptions>(ROOT),
  objectMessage: keys<Pick<SendOptions, "tag">>({ tag: true }),
  objectSendReceive: keys<Omit<SendReceiveOptions, "dtype">>({ tag: true, source: true, receiveTag: true }),
  send: keys<SendOptions>({ ...ELEMENT, tag: true }),
  receive: keys<ReceiveOptions>({ ...ELEMENT, tag: true }),
  sendReceive: keys<SendReceiveOptions>({ ...ELEMENT, tag: true, source: true, receiveTag: true }),
} as const;

/**
 * Check that options are an object with known keys. It runs before each MPI call, so that it makes nothing.
 *
 * @throws {TypeError} naming the allowed keys.
 */
export function checkOptions(method: string, options: object | undefined, allowed: ReadonlySet<string>): void {
  if (options !== NO_OPTIONS) checkGiven(method, options, allowed);
}

function checkGiven(method: string, options: object | undefined, allowed: ReadonlySet<string>): void {
  if (typeof options === "object" && options !== null && !Array.isArray(options)) {
    let isKnown = true;
    for (const key in options) if (!allowed.has(key)) isKnown = false;
    if (isKnown) return;
  }
  checkKeys(`${method}: options`, options, [...allowed]);
}

/**
 * Refuse more arguments than a method takes: nobody would read them.
 *
 * @throws {TypeError} with the right form, in which a root and the like belong to the options.
 */
export function refuseExtra(method: string, parameters: string, options?: ReadonlySet<string>): never {
  const all = options ? `${parameters}, { ${[...options].join(", ")} }` : parameters;
  throw new TypeError(`${method}: too many arguments were given; call it as ${method}(${all}).`);
}
