/**
 * The arguments of a solver, checked on this rank.
 *
 * @module
 */
import type { DistributedArray } from "../../array/distributed_array.ts";
import { DistributionError, ShapeError } from "../../errors.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { checkBlasTypes, checkOperand, matrixFact, text } from "../operands.ts";

/** Above this LAPACK cannot count its workspace of 1 + 6 n + 2 n^2 elements in 32 bits. */
const MOST_ROWS_OF_EIGH = 32766;

/** Check the matrix and the right-hand sides of a system. Local. */
export function checkSystem(runtime: Runtime, a: unknown, b: unknown): void {
  checkReplicated("a", a, runtime);
  checkReplicated("b", b, runtime);
  checkBlasTypes("solve", [a, b]);
  checkSquare(a);
  const [n] = a.shape;
  const { shape } = b;
  if ((shape.length === 1 || shape.length === 2) && shape[0] === n) return;
  throw new ShapeError(
    `b has shape ${text(shape)}, but must have [${n}] or [${n}, k], to fit a, which has ${text(a.shape)}.`,
  );
}

/** Check the matrix of eigh. Local. */
export function checkHermitian(runtime: Runtime, a: unknown): void {
  checkReplicated("a", a, runtime);
  checkBlasTypes("eigh", [a]);
  checkSquare(a);
  if (a.shape[0] <= MOST_ROWS_OF_EIGH) return;
  throw new ShapeError(
    `a has shape ${text(a.shape)}; eigh takes matrices of up to ${MOST_ROWS_OF_EIGH} rows, since LAPACK counts its ` +
      "workspace in 32 bits.",
  );
}

function checkReplicated(name: string, array: unknown, runtime: Runtime): asserts array is DistributedArray {
  checkOperand(name, array, runtime);
  if (array.distribution.isReplicated) return;
  throw new DistributionError(
    `${name} is distributed as ${array.distribution}, but LAPACK takes matrices that fit one rank. Pass ` +
      `${name}.redistribute(Replicated).`,
  );
}

function checkSquare({ shape }: DistributedArray): void {
  if (shape.length === 2 && shape[0] === shape[1]) return;
  throw new ShapeError(`a has shape ${text(shape)}; it must be a square matrix.`);
}

/** What all ranks must agree on. */
export function operandFact(array: DistributedArray): string {
  return `${matrixFact(array)}, ${array.memory} memory`;
}
