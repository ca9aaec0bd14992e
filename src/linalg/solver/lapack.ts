/**
 * LAPACK's routines on matrices in the memory of one rank.
 *
 * @module
 */
import type { Lapack } from "../../../ffi/blas/lapack.ts";
import { LocalArray } from "../../array/local_array.ts";
import { character, integers, type NativeArgument } from "../../blas/arguments.ts";
import { dtypeInfo } from "../../dtype/dtype.ts";
import { recorder } from "../../runtime/recorder.ts";
import type { Computation } from "./on_root.ts";

/** What a caller knows of the matrix A of a system. */
export type Assumption = "general" | "positive_definite";

/** What a routine tells by a positive info. */
const FAULTS = {
  gesv: (info: number) => `the matrix is singular: pivot ${info} is zero.`,
  posv: (info: number) => `the matrix is not positive definite: its leading minor of order ${info} is not positive.`,
  syevd: () => "the eigenvalues did not converge.",
  heevd: () => "the eigenvalues did not converge.",
} as const;

type Routine = keyof typeof FAULTS;
type NativeRoutine = (...addresses: bigint[]) => void;

/** What LAPACK's info says is wrong, in words; null if nothing is. */
export function faultOf(routine: Routine, info: number): string | null {
  if (info < 0) return `LAPACK refuses argument ${-info} of ?${routine}.`;
  return info === 0 ? null : FAULTS[routine](info);
}

/**
 * The length of a workspace, as LAPACK answers in the type of the matrix: float32 has 24 bits, and may have rounded it
 * down.
 */
export function workspaceLength(answer: number): number {
  return Math.ceil(answer * (1 + 2 ** -23));
}

/** A routine with its arguments, whose memory it keeps until the call is over. */
class LapackCall {
  readonly #routine: Routine;
  readonly #function: NativeRoutine;
  readonly #passed: readonly { readonly address: bigint }[];
  readonly #lengths: readonly bigint[];
  readonly #info: NativeArgument<Int32Array<ArrayBuffer>>;

  /** Of the arguments, which info follows, the first `characters` are characters. */
  constructor(lapack: Lapack, routine: Routine, characters: number, passed: readonly { readonly address: bigint }[]) {
    this.#routine = routine;
    this.#function = lapack[routine] as NativeRoutine;
    this.#info = integers(0);
    this.#passed = [...passed, this.#info];
    this.#lengths = new Array(characters).fill(1n);
  }

  /** Returns what is wrong, in words. */
  run(): string | null {
    const span = recorder?.begin("compute", this.#routine);
    this.#function(...this.#passed.map(({ address }) => address), ...this.#lengths);
    span?.end();
    return faultOf(this.#routine, this.#info.values[0]);
  }
}

/** Get ready to solve A X = B, both column-major: A is overwritten, B becomes X. */
export function prepareSolution(lapack: Lapack, a: LocalArray, b: LocalArray, assume: Assumption): Computation {
  if (a.size === 0) return { results: [b], scratch: [a], run: () => null };
  // Without any, some LAPACKs do not look at A.
  const sides = b.size > 0 ? b : LocalArray.zeros(b.dtype, [b.shape[0]]);
  const [n, k] = [integers(b.shape[0]), integers(sides.shape[1] ?? 1)];
  const isGeneral = assume === "general";
  const pivots = LocalArray.empty("int32", [isGeneral ? b.shape[0] : 0]);
  const call = isGeneral
    ? new LapackCall(lapack, "gesv", 0, [n, k, a, n, pivots, sides, n])
    : new LapackCall(lapack, "posv", 1, [character("L"), n, k, a, n, sides, n]);
  const scratch = sides === b ? [a, pivots] : [a, pivots, sides];
  return { results: [b], scratch, run: () => faultOfElements(a, isGeneral) ?? call.run() };
}

/** Get ready to find the eigenvalues of a column-major A, which becomes its eigenvectors; its lower triangle is read. */
export function prepareEigenpairs(lapack: Lapack, a: LocalArray, values: LocalArray): Computation {
  if (a.size === 0) return { results: [values, a], scratch: [], run: () => null };
  const { isComplex, real } = dtypeInfo(a.dtype);
  const n = integers(a.shape[0]);
  const dtypes = isComplex ? [a.dtype, real, "int32"] as const : [a.dtype, "int32"] as const;
  const callIn = (spaces: readonly LocalArray[], lengths: readonly number[]) => {
    const workspaces = spaces.flatMap((space, i) => [space, integers(lengths[i])]);
    const passed = [character("V"), character("L"), n, a, n, values, ...workspaces];
    return new LapackCall(lapack, isComplex ? "heevd" : "syevd", 2, passed);
  };
  // A length of -1 asks for the lengths.
  const answers = dtypes.map((dtype) => LocalArray.zeros(dtype, [1]));
  callIn(answers, answers.map(() => -1)).run();
  const lengths = answers.map((answer) => workspaceLength(answer.toNumbers()[0]));
  const spaces = dtypes.map((dtype, i) => LocalArray.empty(dtype, [lengths[i]]));
  const call = callIn(spaces, lengths);
  return { results: [values, a], scratch: spaces, run: () => faultOfElements(a, false) ?? call.run() };
}

/** LAPACK looks for neither NaN nor Infinity, with which it may crash, or never end, as SciPy's documentation warns. */
function faultOfElements(a: LocalArray, isGeneral: boolean): string | null {
  return isFiniteMatrix(a, isGeneral) ? null : "the matrix has elements that are not finite.";
}

/** Whether the elements of a dense column-major matrix, or of its lower triangle, are finite. */
export function isFiniteMatrix(a: LocalArray, isWhole: boolean): boolean {
  const { parts } = dtypeInfo(a.dtype);
  const [n] = a.shape;
  const data = a.view() as Float32Array | Float64Array;
  for (let j = 0; j < n; j++) {
    const end = (j + 1) * n * parts;
    for (let at = (j * n + (isWhole ? 0 : j)) * parts; at < end; at++) if (!Number.isFinite(data[at])) return false;
  }
  return true;
}
