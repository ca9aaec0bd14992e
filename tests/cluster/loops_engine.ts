/**
 * An engine as simple as can be: every rank gathers all matrices, multiplies them by plain loops and keeps its part of D.
 * Importing this file registers it, for CPUs, as the cheapest of all.
 */
import { dtypeInfo, type LocalArray, type Runtime } from "../../mod.ts";
import type { EnginePlan, EngineRequest, EngineValues, MatmulEngine } from "../../src/linalg/engines/engine.ts";
import { registerEngine } from "../../src/linalg/engines/registry.ts";
import { isTrivial } from "../../src/linalg/matmul/epilog.ts";
import type { LocalOperands, Matrix } from "../../src/linalg/matmul/problem.ts";
import type { Operation } from "../../src/blas/operation.ts";
import { apply, at, combine, type Complex, type Dense, dense, held, product } from "./matmul_oracle.ts";

/** The name of the engine. */
export const LOOPS = "loops";

function gathered({ communicator }: Runtime, { rows, columns, distribution }: Matrix, local: LocalArray): Dense {
  const { parts } = dtypeInfo(local.dtype);
  const whole = new Map<number, Complex>();
  for (const [rank, numbers] of communicator.allGatherObject(local.toNumbers()).entries()) {
    const itsColumns = held(distribution, rank, 1);
    const indices = held(distribution, rank, 0).flatMap((i) => itsColumns.map((j) => i * columns + j));
    indices.forEach((index, at) => whole.set(index, [numbers[at * parts], parts === 2 ? numbers[at * parts + 1] : 0]));
  }
  return dense(rows, columns, (i, j) => whole.get(i * columns + j)!);
}

const qualifier = ({ transpose, conjugate }: Operation) => ({ isTranspose: transpose, isConjugate: conjugate });
const scalar = (value: EngineValues["alpha"]): number | Complex =>
  typeof value === "object" ? [value[0], value[1]] : Number(value);

function plan(runtime: Runtime, { problem }: EngineRequest): EnginePlan {
  const { a, b, c, d, operationA, operationB } = problem;
  const multiply = (operands: LocalOperands, { alpha, beta }: EngineValues) => {
    const left = apply(gathered(runtime, a, operands.a), qualifier(operationA));
    const right = apply(gathered(runtime, b, operands.b), qualifier(operationB));
    const addend = c && Number(beta) !== 0 ? gathered(runtime, c, operands.c!) : null;
    const result = combine(scalar(alpha), product(left, right), scalar(beta), addend);
    const columns = held(d.distribution, runtime.rank, 1);
    const elements = held(d.distribution, runtime.rank, 0).flatMap((i) => columns.map((j) => at(result, i, j)));
    if (elements.length > 0) {
      operands.d.set(dtypeInfo(d.dtype).isComplex ? elements.flat() : elements.map(([re]) => re));
    }
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
