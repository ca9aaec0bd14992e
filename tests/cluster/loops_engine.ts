/**
 * An engine as simple as can be: every rank gathers all matrices and computes its part of D from them, by plain loops.
 * Importing this file registers it, for CPUs, as the cheapest of all.
 */
import { dtypeInfo, type LocalArray, type Runtime } from "../../mod.ts";
import type { EnginePlan, EngineRequest, EngineValues, MatmulEngine } from "../../src/linalg/engines/engine.ts";
import { registerEngine } from "../../src/linalg/engines/registry.ts";
import { isTrivial } from "../../src/linalg/matmul/epilog.ts";
import type { LocalOperands, Matrix } from "../../src/linalg/matmul/problem.ts";
import type { Operation } from "../../src/blas/transposition.ts";
import { apply, at, combine, type Complex, type Dense, dense, held, product } from "./matmul_oracle.ts";

/** The name of the engine. */
export const LOOPS = "loops";

function gathered({ communicator, size }: Runtime, { rows, columns, distribution }: Matrix, local: LocalArray): Dense {
  const { parts } = dtypeInfo(local.dtype);
  const counts = Array.from(
    { length: size },
    (_, rank) => parts * held(distribution, rank, 0).length * held(distribution, rank, 1).length,
  );
  const numbers = communicator.allGatherV(Float64Array.from(local.toNumbers()), { counts });
  const whole = dense(rows, columns, () => [0, 0]);
  let from = 0;
  for (let rank = 0; rank < size; rank++) {
    const itsColumns = held(distribution, rank, 1);
    for (const i of held(distribution, rank, 0)) {
      for (const j of itsColumns) {
        whole.re[i * columns + j] = numbers[from];
        if (parts === 2) whole.im[i * columns + j] = numbers[from + 1];
        from += parts;
      }
    }
  }
  return whole;
}

const rowsOf = (matrix: Dense, rows: readonly number[]) =>
  dense(rows.length, matrix.columns, (i, j) => at(matrix, rows[i], j));
const columnsOf = (matrix: Dense, columns: readonly number[]) =>
  dense(matrix.rows, columns.length, (i, j) => at(matrix, i, columns[j]));

const qualifier = ({ transpose, conjugate }: Operation) => ({ isTranspose: transpose, isConjugate: conjugate });
const scalar = (value: EngineValues["alpha"]): number | Complex =>
  typeof value === "object" ? [value[0], value[1]] : Number(value);

function plan(runtime: Runtime, { problem }: EngineRequest): EnginePlan {
  const { a, b, c, d, operationA, operationB } = problem;
  const multiply = (operands: LocalOperands, { alpha, beta }: EngineValues) => {
    const left = apply(gathered(runtime, a, operands.a), qualifier(operationA));
    const right = apply(gathered(runtime, b, operands.b), qualifier(operationB));
    const addend = c && Number(beta) !== 0 ? gathered(runtime, c, operands.c!) : null;
    const [rows, columns] = [held(d.distribution, runtime.rank, 0), held(d.distribution, runtime.rank, 1)];
    const own = product(rowsOf(left, rows), columnsOf(right, columns));
    const { re, im } = combine(scalar(alpha), own, scalar(beta), addend && columnsOf(rowsOf(addend, rows), columns));
    if (re.length > 0) operands.d.set(dtypeInfo(d.dtype).isComplex ? Array.from(re, (x, i) => [x, im[i]]).flat() : re);
    return {};
  };
  return {
    workspaceBytes: 0,
    report: {
      engine: LOOPS,
      algorithm: "triple_loop",
      variant: "every rank computes its part of D from whole matrices",
      workspaceBytes: 0,
      bytesMoved: (runtime.size - 1) * (a.rows * a.columns + b.rows * b.columns) * dtypeInfo(a.dtype).itemSize,
      copies: ["A and B gathered on every rank"],
      notes: [],
    },
    open() {},
    prepare: (operands, values) => () => multiply(operands, values),
    [Symbol.dispose]() {},
  };
}

/** The engine. */
export const loopsEngine: MatmulEngine = {
  name: LOOPS,
  device: "cpu",
  algorithms: ["triple_loop"],
  supports({ problem: { a, b, d }, epilog }) {
    const isNarrow = [a, b, d].some(({ dtype }) => dtypeInfo(dtype).itemSize === 1);
    if (isTrivial(epilog) && !isNarrow) return null;
    return { reason: "epilogs and 8-bit types are too much for loops", instead: "Leave engine out." };
  },
  cost: () => -1,
  plan,
};

registerEngine(loopsEngine);
