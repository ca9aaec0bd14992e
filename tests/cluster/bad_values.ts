/** Values that hardly any argument is meant to have. They are made anew for each case, by one rank alone. */
import { DistributedArray, LocalArray, Runtime, type Runtime as RuntimeType, Slab } from "../../mod.ts";

/** What the values are made of. */
export interface Makings {
  /** The runtime of the call. */
  readonly runtime: RuntimeType;
  /** A runtime that was closed. */
  readonly closed: RuntimeType;
}

/** A 4 x 4 matrix of this rank's own making, and the buffer that it lies in. */
export function matrixIn({ runtime }: Pick<Makings, "runtime">): { array: DistributedArray; buffer: ArrayBuffer } {
  const distribution = Slab.X.bind([4, 4], runtime.size);
  const shape = distribution.localShape(runtime.rank);
  const data = new Float64Array(shape[0] * shape[1]).fill(1);
  const local = new LocalArray({ data, dtype: "float64", shape });
  return { array: DistributedArray.wrap(runtime, local, distribution, "C"), buffer: data.buffer };
}

function fail(): never {
  throw new RangeError("a user's error");
}

/** A handler all of whose traps do the same. */
function traps(trap: () => never): ProxyHandler<object> {
  return {
    get: trap,
    has: trap,
    ownKeys: trap,
    getPrototypeOf: trap,
    getOwnPropertyDescriptor: trap,
  };
}

/** Has every option, and does something when one is read. */
function optionsThat(act: () => unknown): object {
  return new Proxy({}, { get: (_, key) => typeof key === "string" && key !== "constructor" ? act() : undefined });
}

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

function cyclic(): object {
  const object: Record<string, unknown> = {};
  object.self = object;
  return object;
}

function cyclicList(): unknown[] {
  const list: unknown[] = [];
  list.push(list, list);
  return list;
}

function errorWithoutText(): Error {
  return Object.defineProperty(new Error(), "message", { get: fail });
}

function lost(makings: Makings): DistributedArray {
  const { array, buffer } = matrixIn(makings);
  buffer.transfer();
  return array;
}

function freed(makings: Makings): DistributedArray {
  const { array } = matrixIn(makings);
  array.free();
  return array;
}

function detached(): Float64Array {
  const data = new Float64Array(8);
  data.buffer.transfer();
  return data;
}

/** What arrays may have become while they wait to be used. */
export const ARRAY_STATES: Record<string, (makings: Makings) => unknown> = {
  "a freed array": freed,
  "an array whose memory was transferred away": lost,
  "a view of a freed array": (m) => {
    const { array } = matrixIn(m);
    const view = array.transpose();
    array.free();
    return view;
  },
  "a view of memory that was transferred away": (m) => {
    const { array, buffer } = matrixIn(m);
    const view = array.transpose();
    buffer.transfer();
    return view;
  },
  "an array of a closed runtime": (m) => matrixIn({ runtime: m.closed }).array,
};

/** All of them, by what a message of the test calls them. */
export const BAD_VALUES: Record<string, (makings: Makings) => unknown> = {
  "nothing": () => undefined,
  "null": () => null,
  "true": () => true,
  "zero": () => 0,
  "minus one": () => -1,
  "a fraction": () => 1.5,
  "NaN": () => NaN,
  "infinity": () => Infinity,
  "2^53": () => 2 ** 53,
  "a bigint": () => 2n ** 70n,
  "empty text": () => "",
  "a word": () => "float63",
  "half a surrogate": () => "\ud800",
  "a symbol": () => Symbol("s"),
  "an empty object": () => ({}),
  "an object without prototype": () => Object.create(null),
  "an unknown option": () => ({ dtyp: 1 }),
  "an empty list": () => [],
  "a list of NaN": () => [NaN, NaN],
  "a long list": () => new Array(100).fill(1),
  "a list with a getter that throws": () => Object.defineProperty([4, 4], 0, { get: fail }),
  "a list with a getter that changes": () => {
    let count = 0;
    return Object.defineProperty([4, 4], 0, { get: () => ++count });
  },
  "an object that contains itself": cyclic,
  "a list that contains itself": cyclicList,
  "a proxy that throws": () => new Proxy({}, traps(fail)),
  "a proxy that throws what has no text": () =>
    new Proxy(
      {},
      traps(() => {
        throw Object.create(null);
      }),
    ),
  "a revoked proxy": revoked,
  "options whose getters throw": () => optionsThat(fail),
  "options whose getters throw what has no text": () =>
    optionsThat(() => {
      throw errorWithoutText();
    }),
  "options whose getters contain themselves": () => optionsThat(cyclic),
  "options whose getters call a collective": ({ runtime }) => optionsThat(() => matrixIn({ runtime }).array.sum()),
  "text that throws": () => ({ toString: fail, valueOf: fail, toJSON: fail }),
  "a class": () => Map,
  "a function": () => () => 1,
  "a function that throws": () => fail,
  "a function that throws no error": () => () => {
    throw Object.create(null);
  },
  "a function that throws an error without text": () => () => {
    throw errorWithoutText();
  },
  "a function that throws a proxy": () => () => {
    throw revoked();
  },
  "a function that calls a collective": ({ runtime }) => () => matrixIn({ runtime }).array.sum(),
  "a promise": () => Promise.resolve(1),
  "a date": () => new Date(0),
  "a typed array": () => new Float64Array(16),
  "a typed array without memory": detached,
  "a typed array in memory that can be resized": () => new Float64Array(new ArrayBuffer(128, { maxByteLength: 256 })),
  "a view of data": () => new DataView(new ArrayBuffer(128)),
  "a proxy of a typed array": () => new Proxy(new Float64Array(16), {}),
  "a local array without memory": () => {
    const data = new Float64Array(8);
    const local = new LocalArray({ data, dtype: "float64", shape: [2, 4] });
    data.buffer.transfer();
    return local;
  },
  "a proxy of the runtime": ({ runtime }) => new Proxy(runtime, {}),
  "what looks like a runtime": () => Object.create(Runtime.prototype),
  "a closed runtime": ({ closed }) => closed,
  "a proxy of an array": (m) => new Proxy(matrixIn(m).array, {}),
  "what looks like an array": () => Object.create(DistributedArray.prototype),
  "an array of other extents": ({ runtime }) => {
    const distribution = Slab.X.bind([3], runtime.size);
    const local = LocalArray.zeros("int64", distribution.localShape(runtime.rank));
    return DistributedArray.wrap(runtime, local, distribution, "C");
  },
  "a distribution": () => Slab.Y,
  "a distribution of other extents": () => Slab.X.bind([5, 5], 7),
  "a proxy of a distribution": () => new Proxy(Slab.X, {}),
  "the class of a distribution": () => Slab,
  ...ARRAY_STATES,
};
