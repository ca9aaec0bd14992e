/**
 * How arrays are made: of a rule, of parts that the ranks have, of a whole array that one has.
 *
 * @module
 */
import { checkDistribution } from "../distribution/distribution.ts";
import type { Distribution } from "../distribution/mod.ts";
import { type DType, dtypeInfo, type Scalar, type TypedArray } from "../dtype/dtype.ts";
import { checkExact } from "../dtype/scalar.ts";
import { prepareCopies } from "../memory/copy.ts";
import { keysOf, readOptions } from "../options.ts";
import { agree, exchange, type Facts } from "../runtime/agreement.ts";
import { agreeWith, type Runtime } from "../runtime/runtime.ts";
import type { Held } from "./base_array.ts";
import { fillLinearOnDevice, fillRandomOnDevice } from "./on_device/filling.ts";
import {
  checkRank,
  commonOrder,
  dtypeOfWhole,
  FROM_LOCAL_KEYS,
  type FromLocalOptions,
  isOrdered,
  localPart,
  nothing,
  wholeArray,
} from "./given_data.ts";
import { bindToParts } from "./global_shape.ts";
import type { Order } from "./layout.ts";
import { LocalArray, type Memory } from "./local_array.ts";
import {
  ARRAY_KEYS,
  type ArrayOptions,
  checkStorage,
  newPart,
  type PartPlan,
  planOf,
  usualMemory,
} from "./new_part.ts";
import { fillRandom, RANDOM_KEYS, type RandomOptions, randomSource } from "./random.ts";
import { onRoot } from "./redistribution/plan.ts";
import { prepareOnce } from "./redistribution/redistributor.ts";
import {
  checkLinearForm,
  type ElementFunction,
  fillByFunction,
  holdsForm,
  type LinearForm,
  linearFunction,
} from "./traverse.ts";

/** Options of {@linkcode DistributedArray.scatter}. */
export interface ScatterArrayOptions<D extends DType = DType> extends ArrayOptions<D> {
  /** The type of the elements; by default the usual one of the root's typed array. */
  dtype?: D;
  /** The rank that has the data; 0 by default. */
  root?: number;
}

const SCATTER_KEYS = keysOf<ScatterArrayOptions>({ dtype: true, order: true, memory: true, root: true });

/** How many arrays of random numbers were made without a seed. */
const randomCalls = new WeakMap<Runtime, number>();

/** A new array whose elements are still to be written. */
interface Blank extends Held {
  readonly shape: readonly number[];
  readonly dtype: DType;
}

/** Gives a new array its elements, as the options ask; returns what else all ranks must share. */
type Fill<Options> = (array: Blank, given: Options) => Facts;

/** Agree on a new array, make it, and fill it, with zeros or by `fill`. Collective, as all that follows. */
export function newArray<Options extends ArrayOptions>(
  runtime: Runtime,
  operation: string,
  shape: readonly number[],
  distribution: Distribution,
  options: Options,
  fill: Fill<Options> | null,
  keys: readonly (keyof Options & string)[] = ARRAY_KEYS,
): Held {
  let held!: Held;
  let bound!: Distribution;
  let given!: Options;
  const plan = (): PartPlan => {
    given = readOptions(`the options of ${operation}`, options, keys);
    const { dtype, order, memory, ...planned } = planOf(runtime, shape, distribution, given);
    bound = planned.bound;
    const facts = { shape: bound.globalShape, dtype, distribution: String(bound), order, memory };
    return { dtype, order, memory, shape: bound.localShape(runtime.rank), facts, isCleared: fill === null };
  };
  newPart(runtime, (check) => agreeWith(runtime, operation, check), plan, (local, { dtype, order }) => {
    held = { runtime, local, distribution: bound, order };
    return fill?.({ ...held, shape: bound.globalShape!, dtype }, given);
  });
  return held;
}

/** An array of one value. */
export function full(
  runtime: Runtime,
  shape: readonly number[],
  distribution: Distribution,
  value: Scalar,
  options: ArrayOptions,
): Held {
  return newArray(runtime, "DistributedArray.full", shape, distribution, options, ({ dtype, local }) => {
    checkExact(dtype, value);
    local.fill(value);
    return { value };
  });
}

/** An array of random numbers, the same global one for any number of ranks. */
export function random(
  runtime: Runtime,
  shape: readonly number[],
  distribution: Distribution,
  options: ArrayOptions & RandomOptions,
): Held {
  const calls = randomCalls.get(runtime) ?? 0;
  let isNumbered = false;
  const fill: Fill<ArrayOptions & RandomOptions> = ({ shape, dtype, order, local, distribution }, given) => {
    const source = randomSource(dtype, given, calls);
    isNumbered = given.seed === undefined;
    const ranges = distribution.ranges(runtime.rank);
    if (local.isOnDevice) fillRandomOnDevice(local, ranges, order, shape, source);
    else fillRandom(dtype, local.data, ranges, order, shape, source);
    return { ...source };
  };
  const keys = [...ARRAY_KEYS, ...RANDOM_KEYS];
  const result = newArray(runtime, "DistributedArray.random", shape, distribution, options, fill, keys);
  // Only now: the ranks must go on counting alike if they failed.
  if (isNumbered) randomCalls.set(runtime, calls + 1);
  return result;
}

/** An array of the values that a function, or a closed form, has for each global index. */
export function generate(
  runtime: Runtime,
  operation: string,
  shape: readonly number[],
  distribution: Distribution,
  value: ElementFunction | LinearForm,
  options: ArrayOptions,
): Held {
  return newArray(runtime, operation, shape, distribution, options, (array) => {
    const form = typeof value === "function" ? null : checkLinearForm(value, array.shape.length);
    const { dtype, local, order } = array;
    const ranges = array.distribution.ranges(runtime.rank);
    // A GPU would cut what is none of the dtype's whole numbers.
    if (form !== null && local.isOnDevice && holdsForm(dtype, form, array.shape)) {
      fillLinearOnDevice(local, ranges, order, form);
      return { form };
    }
    const element = form === null ? value as ElementFunction : linearFunction(dtype, form, array.shape);
    const target = local.isOnDevice ? LocalArray.empty(dtype, local.shape, order) : local;
    fillByFunction(dtype, target.data, ranges, order, element);
    if (target !== local) local.set(target);
    return { form };
  });
}

/** An array of parts that the ranks have. */
export function fromLocal(
  runtime: Runtime,
  local: TypedArray | LocalArray,
  distribution: Distribution,
  options: FromLocalOptions,
): Held {
  const operation = "DistributedArray.fromLocal";
  let part!: LocalArray;
  let memory!: Memory;
  let wanted: Order | undefined;
  agreeWith(runtime, operation, () => {
    const given = readOptions(`the options of ${operation}`, options, FROM_LOCAL_KEYS);
    checkDistribution(distribution);
    part = localPart(local, given);
    wanted = given.order;
    ({ memory = part.memory === "symmetric" ? part.memory : usualMemory(runtime) } = given);
    checkStorage(runtime, { dtype: part.dtype, memory });
    const { globalShape, size } = distribution;
    const boundTo = globalShape && { shape: globalShape, size };
    return { dtype: part.dtype, distribution: String(distribution), boundTo, order: wanted ?? null, memory };
  });
  const offers = exchange(runtime, operation, () => ({
    shape: part.shape,
    memory: part.memory,
    orders: (["C", "F"] as const).filter((order) => isOrdered(part, order)),
  }));
  // From here on all ranks compute the same from the same data, so that they fail together.
  const order = commonOrder(offers.map((offer) => offer.orders), wanted);
  const bound = bindToParts(distribution, offers.map((offer) => offer.shape));
  const shape = bound.localShape(runtime.rank);
  const fitting = part.shape.join() === shape.join() ? part : LocalArray.zeros(part.dtype, shape, order);
  if (offers.every((offer) => offer.memory === memory)) {
    return { runtime, local: fitting, distribution: bound, order, isBorrowed: fitting === part };
  }
  const plan = { dtype: part.dtype, shape, order, memory, facts: {} };
  const copy = newPart(runtime, (check) => agree(runtime, operation, check), () => plan, (to) => to.set(fitting));
  return { runtime, local: copy, distribution: bound, order };
}

/** A whole array of one rank, spread over all. */
export function scatter(
  runtime: Runtime,
  data: TypedArray | null,
  shape: readonly number[],
  distribution: Distribution,
  options: ScatterArrayOptions,
): Held {
  const operation = "DistributedArray.scatter";
  let root!: number;
  let given!: ScatterArrayOptions;
  agreeWith(runtime, operation, () => {
    given = readOptions(`the options of ${operation}`, options, SCATTER_KEYS);
    root = checkRank(given.root === undefined ? 0 : given.root, runtime.size, "root");
    if (given.dtype !== undefined) dtypeInfo(given.dtype);
    return { root, dtype: given.dtype ?? null };
  });
  const isRoot = runtime.rank === root;
  const dtype = given.dtype ?? exchange(runtime, operation, () => isRoot ? dtypeOfWhole(data) : null)[root]!;
  const { order = "C", memory = usualMemory(runtime) } = given;
  let move!: () => void;
  const array = newArray(runtime, operation, shape, distribution, { dtype, order, memory }, (array) => {
    const { local, shape } = array;
    const source = isRoot ? wholeArray(data, dtype, shape, order) : nothing(dtype, shape);
    const target = local.isOnDevice ? LocalArray.empty(dtype, local.shape, order) : local;
    const bring = prepareOnce(runtime, onRoot(shape, runtime.size, root), array.distribution, source, target, order);
    if (target !== local) prepareCopies(local.byteLength);
    move = () => {
      bring();
      if (target !== local) local.set(target);
    };
    return {};
  });
  move();
  return array;
}
