/** What operations of the soak work with: random arrays, each beside a model of what it should hold. */
import { DistributedArray, type DType, dtypeInfo, LocalArray, type Runtime } from "../../mod.ts";
import type { Draw } from "./draw.ts";
import { at, type Complex, type Model, numbersIn, partOf, tabulate, toScalar, wrongPart } from "./model.ts";

/** What an operation works with. */
export interface Context {
  readonly runtime: Runtime;
  readonly draw: Draw;
  /** A folder that all ranks see. */
  readonly folder: string;
  /** Say that something is wrong on this rank; null for nothing. */
  readonly report: (wrong: string | null) => void;
}

/** A distributed array, and what it should hold. */
export interface Given {
  readonly array: DistributedArray;
  readonly model: Model;
}

export const isComplex = (dtype: DType): boolean => dtypeInfo(dtype).isComplex;

/** Small whole numbers, which every dtype holds: -3 to 3, from 0 for uint8. */
export function elements({ draw }: Context, shape: readonly number[], dtype: DType, largest = 3): Model {
  const least = dtype === "uint8" ? 0 : -largest;
  return tabulate(shape, () => [draw.between(least, largest), isComplex(dtype) ? draw.between(least, largest) : 0]);
}

/** A new array, made in one of the ways that there are, and found right. */
export function make(context: Context, shape: readonly number[], dtype: DType, given?: Model): Given {
  const { runtime, draw } = context;
  const options = { dtype, order: draw.order() };
  const distribution = draw.distribution(shape, runtime.size);
  const bound = distribution.bind(shape, runtime.size);
  let model = given ?? elements(context, shape, dtype);
  let array: DistributedArray;
  switch (draw.below(given ? 3 : 6)) {
    case 0:
      array = DistributedArray.generate(
        runtime,
        shape,
        distribution,
        (...index) => toScalar(dtype, at(model, index)),
        options,
      );
      break;
    case 1: {
      const root = draw.below(runtime.size);
      const { array: typed } = dtypeInfo(dtype);
      const data = new typed(model.re.length * dtypeInfo(dtype).parts);
      const whole = new LocalArray({ data, dtype, shape: [model.re.length] });
      const numbers = numbersIn(model, dtype, options.order);
      if (whole.size > 0) whole.set(dtype === "int64" ? numbers.map(BigInt) : numbers);
      array = DistributedArray.scatter(runtime, runtime.rank === root ? data : null, shape, distribution, {
        ...options,
        root,
      });
      break;
    }
    case 2: {
      const ranges = bound.ranges(runtime.rank).map((list) =>
        list.flatMap(([start, end]) => Array.from({ length: end - start }, (_, i) => start + i))
      );
      const part = tabulate(
        ranges.map(({ length }) => length),
        (index) => at(model, index.map((i, d) => ranges[d][i])),
      );
      array = DistributedArray.fromLocal(runtime, partOf(part, dtype, options.order), bound, { order: options.order });
      break;
    }
    case 3:
      model = tabulate(shape, () => [0, 0]);
      array = DistributedArray.zeros(runtime, shape, distribution, options);
      break;
    case 4: {
      const value: Complex = [draw.between(0, 3), isComplex(dtype) ? draw.between(-3, 3) : 0];
      model = tabulate(shape, () => value);
      array = DistributedArray.full(runtime, shape, distribution, toScalar(dtype, value), options);
      break;
    }
    default: {
      const form = { factors: shape.map(() => draw.between(0, 3)), offset: draw.between(0, 3), modulus: 4 };
      model = tabulate(
        shape,
        (index) => [index.reduce((sum, i, d) => sum + i * form.factors[d], form.offset) % form.modulus, 0],
      );
      array = DistributedArray.generate(runtime, shape, distribution, form, options);
    }
  }
  context.report(wrongPart(array, model, dtype));
  return { array, model };
}

/** Check an array and let go of it. */
export function finish(context: Context, array: DistributedArray, model: Model, dtype: DType): void {
  context.report(wrongPart(array, model, dtype));
  array.free();
}
