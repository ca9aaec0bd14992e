/**
 * Norms of arrays as vectors.
 *
 * @module
 */
import { dtypeInfo } from "../../dtype/dtype.ts";
import { floatOf } from "../../dtype/promotion.ts";
import { describe } from "../../options.ts";
import type { BaseArray } from "../base_array.ts";
import { apply, cast, type Expression } from "../elementwise/expression.ts";
import { ANY, sizesOf } from "./device_slices.ts";
import { type DeviceValues, extremesOnDevice, sumOnDevice } from "./device_sums.ts";
import { type AxisOptions, elementsOf, ownPart } from "./plan.ts";
import { finished, finishedOnDevice, knownOf, type Prepared, type Reduced, reduced, X } from "./reduction.ts";
import {
  extremes,
  extremesOfAll,
  LEAST_IN_UNITS,
  squaresByGuess,
  squaresOf,
  sumMemory,
  sumOf,
  unitOf,
} from "./sums.ts";

/** Options of norms. */
export interface NormOptions extends Partial<AxisOptions> {
  /** 2 or "fro" (the default): the root of the sum of squares; 1: the sum, Infinity: the largest of magnitudes. */
  ord?: "fro" | number;
}

/** The norm of all elements as one vector, or along dimensions. Collective. */
export function norm(array: BaseArray, options?: NormOptions): Reduced<number> {
  return reduced(
    "norm",
    array,
    dtypeInfo(floatOf(array.dtype)).real,
    options,
    ["ord"],
    ({ plan }, given) => {
      const ord = given.ord === "fro" ? 2 : given.ord ?? 2;
      if (ord !== 1 && ord !== 2 && ord !== Infinity) {
        throw new RangeError(`ord must be 1, 2, Infinity or "fro", not ${describe(ord)}.`);
      }
      const size = plan.isLocal ? plan.size : plan.all.size;
      const [units, own] = ord === 2
        ? [size, plan.isLocal ? 0 : plan.size].map((length) => new Float64Array(length))
        : [];
      return { ord, sums: sumMemory(plan), largest: new Float64Array(ord === 1 ? 0 : size), units, own };
    },
    (prepared) => {
      const { plan, local, shape, made: { ord, sums, largest, units, own } } = prepared;
      const magnitude = apply("abs", cast(floatOf(array.dtype), X));
      const quick = normOnDevice(prepared, magnitude, ord);
      if (quick !== null) return finishedOnDevice(prepared, quick) as Reduced<number>;
      if (ord === 1) {
        const known = knownOf(array.dtype, "magnitudes");
        return finished(prepared, sumOf(plan, magnitude, [local], shape, sums, known)) as Reduced<number>;
      }
      const guess = ord === 2 ? squaresByGuess(plan, magnitude, local, sums) : null;
      if (guess === null) extremes(plan, magnitude, [local], shape, "max", sums.own[0]);
      largest.set(extremesOfAll(plan, "max", sums.own[0], sums.whole[0]));
      for (let i = 0; i < largest.length; i++) if (largest[i] === -Infinity) largest[i] = 0;
      if (ord === Infinity) return finished(prepared, largest) as Reduced<number>;
      // Squares are taken in units of the largest magnitude, so that they neither overflow nor underflow.
      for (let i = 0; i < units.length; i++) units[i] = unitOf(largest[i]);
      const factors = ownPart(plan, units, own);
      // In their units the largest are about 1, except infinity and the smallest there are.
      const isKnown = largest.every((value) => value < Infinity && (value === 0 || value >= LEAST_IN_UNITS));
      const parts = [local, elementsOf(plan, factors)];
      const known = isKnown ? { bound: 1, isCut: guess !== null && guess(factors[0]) } : {};
      const squares = sumOf(plan, squaresOf(magnitude), parts, shape, sums, known);
      for (let i = 0; i < squares.length; i++) squares[i] = Math.sqrt(squares[i]) / units[i];
      return finished(prepared, squares) as Reduced<number>;
    },
  );
}

/** The norms of vectors along dimensions on the GPU that has all of them. */
function normOnDevice({ plan, local, shape }: Prepared, magnitude: Expression, ord: number): DeviceValues | null {
  if (ord === Infinity) return extremesOnDevice(plan, magnitude, [local], shape, "max");
  if (ord === 1) return sumOnDevice(plan, magnitude, [local], shape, sizesOf(local, "magnitudes"));
  const sums = sumOnDevice(plan, apply("square", cast("float64", magnitude)), [local], shape, ANY, true);
  return sums && { ...sums, expression: apply("sqrt", sums.expression) };
}
