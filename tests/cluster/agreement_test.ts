/** Agreement: the same error on every rank, or none. */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { agree, exchange } from "../../internals.ts";
import { runOnAll } from "../../src/runtime/agreement.ts";
import {
  allocateSymmetricMemory,
  Box,
  CollectiveError,
  ConfigurationError,
  DistmathError,
  DistributedArray,
  DistributionError,
  DTypeError,
  initialize,
  LibraryNotFoundError,
  type Runtime,
  ShapeError,
  Slab,
  StateError,
  type SymmetricArray,
} from "../../mod.ts";
import { assertThrowsEverywhere, clusterTest } from "../../src/testing/mod.ts";

const MANY = { ranks: [2, 3, 4] };

clusterTest("agree() returns when all is well, and leaves the ranks in step", (runtime) => {
  agree(runtime, "nothing", () => {});
  agree(
    runtime,
    "facts",
    () => ({ shape: [1, 2], dtype: "float64", big: 2n ** 65n, none: null, nan: NaN, un: undefined }),
  );
  assertEquals(runtime.communicator.allGatherObject(1).length, runtime.size);
});

const CLASSES = [
  CollectiveError,
  ConfigurationError,
  ShapeError,
  DistributionError,
  DTypeError,
  StateError,
  DistmathError,
  TypeError,
  RangeError,
  Error,
];

for (const errorClass of CLASSES) {
  clusterTest(`a ${errorClass.name} of one rank is thrown on every rank`, (runtime) => {
    const last = runtime.size - 1;
    const check = () => {
      if (runtime.rank === last) throw new errorClass("m is 3, it must be 4");
    };
    const error = assertThrowsEverywhere(
      runtime,
      () => agree(runtime, "matmul", check),
      errorClass,
      "m is 3, it must be 4",
    );
    assertEquals(error.constructor, errorClass);
    assertEquals((error as DistmathError).ranks, [last]);
    if (runtime.size > 1) {
      assertStringIncludes(error.message, `(on rank ${last} of ${runtime.size})`);
      assertEquals(
        error.cause instanceof errorClass,
        runtime.rank === last,
        "the original is kept where it was thrown",
      );
    }
  });
}

clusterTest("an error of all ranks keeps its message", (runtime) => {
  const fail = () => {
    throw new ShapeError("k differs");
  };
  const error = assertThrowsEverywhere(runtime, () => agree(runtime, "matmul", fail), ShapeError);
  assertEquals(error.message, "k differs");
});

clusterTest("an error of a class that does not travel arrives as its base", MANY, (runtime) => {
  const request = { name: "X", files: [], install: "apt-get install x" };
  const check = () => {
    if (runtime.rank === 0) throw new LibraryNotFoundError(request, []);
  };
  const error = assertThrowsEverywhere(
    runtime,
    () => agree(runtime, "open", check),
    ConfigurationError,
    "X was not found",
  );
  assertEquals(error.constructor, ConfigurationError);
});

clusterTest("of different errors, that of the lowest rank is thrown everywhere", MANY, (runtime) => {
  const check = () => {
    if (runtime.rank === 0) throw new ShapeError("first");
    if (runtime.rank === 1) throw new DTypeError("second");
  };
  const error = assertThrowsEverywhere(
    runtime,
    () => agree(runtime, "matmul", check),
    ShapeError,
    "first (on rank 0 of ",
  );
  assertEquals(error.ranks, [0]);
});

clusterTest("facts that differ are named with their ranks and values", MANY, (runtime) => {
  const { rank, size } = runtime;
  const facts = { shape: rank === 1 ? [4, 5] : [4, 6], dtype: "float32", alpha: rank === 1 ? 2n : 1n };
  const error = assertThrowsEverywhere(runtime, () => agree(runtime, "matmul", () => facts), CollectiveError);
  const others = size === 2 ? "rank 0" : `ranks ${size === 3 ? "0, 2" : "0, 2, 3"}`;
  assertEquals(
    error.message,
    `matmul: the ranks disagree on shape ([4, 6] on ${others}; [4, 5] on rank 1), ` +
      `alpha (1n on ${others}; 2n on rank 1). It must be the same on every rank.`,
  );
  assertEquals(error.ranks, [1]);
});

clusterTest("a fact that a rank does not state is named", MANY, (runtime) => {
  const facts: Record<string, unknown> = runtime.rank === 0 ? { m: 1 } : { m: 1, c: "given" };
  const error = assertThrowsEverywhere(runtime, () => agree(runtime, "gemm", () => facts), CollectiveError);
  assertStringIncludes(error.message, 'c (nothing on rank 0; "given" on rank');
});

clusterTest("values that look alike are told apart", MANY, (runtime) => {
  for (
    const [a, b] of [[NaN, null], [Infinity, null], [1n, 1], [undefined, null], ["1", 1], [{ a: 1 }, { a: "1" }], [
      [],
      {},
    ], [0.1, 0.1 + Number.EPSILON]]
  ) {
    const facts = { value: runtime.rank === 0 ? a : b };
    assertThrowsEverywhere(runtime, () => agree(runtime, "op", () => facts), CollectiveError, "value");
  }
});

clusterTest("different operations are named with their ranks", MANY, (runtime) => {
  const operation = runtime.rank === 0 ? "matmul" : "redistribute";
  const error = assertThrowsEverywhere(runtime, () => agree(runtime, operation, () => ({ m: 1 })), CollectiveError);
  assertStringIncludes(error.message, "The ranks are in different operations: matmul on rank 0; redistribute on rank");
  const mixed = () => runtime.rank === 0 ? agree(runtime, "matmul", () => {}) : void agree(runtime, "sum", () => {});
  assertThrowsEverywhere(runtime, mixed, CollectiveError, "matmul on rank 0; sum on rank");
});

/** What one rank does while the others do something else. */
const MIXTURES: [name: string, one: (runtime: Runtime) => unknown, others: (runtime: Runtime) => unknown][] = [
  ["exchange() meets agree()", (r) => exchange(r, "boxes", () => 1), (r) => agree(r, "matmul", () => ({ m: 1 }))],
  ["collect() meets agree()", (r) => r.collect(), (r) => agree(r, "matmul", () => {})],
  ["collect() meets an array", (r) => r.collect(), (r) => DistributedArray.zeros(r, [4, 4], Slab.X)],
  [
    "a box meets an array",
    (r) => Box.fromLocal(r, [r.rank, 0], [r.rank + 1, 4]),
    (r) => DistributedArray.zeros(r, [4, 4], Slab.X),
  ],
  ["collect() meets exchange()", (r) => r.collect(), (r) => exchange(r, "boxes", () => 1)],
];

for (const [name, one, others] of MIXTURES) {
  clusterTest(`different operations do not hang: ${name}`, MANY, (runtime) => {
    const call = () => runtime.rank === 0 ? one(runtime) : others(runtime);
    const error = assertThrowsEverywhere(runtime, call, CollectiveError, "The ranks are in different operations: ");
    assertStringIncludes(error.message, " on rank 0; ");
    assertEquals(runtime.communicator.allGatherObject(runtime.rank).length, runtime.size, "the ranks are in step");
  });
}

clusterTest("a runtime that was closed is refused everywhere", (runtime) => {
  runtime[Symbol.dispose]();
  const message = "the runtime was closed; call initialize() again";
  for (const checks of ["collective", "local"] as const) {
    const inner = initialize({ device: "cpu", checks });
    inner[Symbol.dispose]();
    assertThrowsEverywhere(inner, () => agree(inner, "matmul", () => {}), StateError, `matmul: ${message}`);
    assertThrowsEverywhere(inner, () => exchange(inner, "boxes", () => 1), StateError, `boxes: ${message}`);
    assertThrowsEverywhere(inner, () => DistributedArray.zeros(inner, [2, 2], Slab.X), StateError, message);
    inner.collect();
  }
  using next = initialize({ device: "cpu" });
  const instead = "the runtime was closed; there is another one since then, which currentRuntime() returns";
  assertThrowsEverywhere(next, () => DistributedArray.zeros(runtime, [2, 2], Slab.X), StateError, instead);
});

clusterTest("an error that names ranks already keeps them", { ranks: [1] }, (runtime) => {
  const fail = (error: Error) => () => {
    throw error;
  };
  const named = new ShapeError("part 3 is empty", { ranks: [3] });
  assertEquals(assertThrows(() => agree(runtime, "op", fail(named)), ShapeError).ranks, [3]);
  const plain = assertThrows(() => exchange(runtime, "op", fail(new TypeError("no array"))), TypeError);
  assertEquals((plain as unknown as DistmathError).ranks, [0]);
});

clusterTest("local checks do not communicate, but for one in sixteen", (runtime) => {
  using communicator = runtime.communicator.duplicate();
  const local = { communicator, checks: "local" } as const;
  const refuse = () => {
    throw new ShapeError("here only");
  };
  const fifteen = () => {
    assertThrows(() => agree(local, "matmul", refuse), ShapeError, "here only");
    for (let i = 0; i < 14; i++) agree(local, "matmul", () => ({ m: i }));
  };
  if (runtime.rank === 0) fifteen();
  runtime.communicator.barrier();
  if (runtime.rank !== 0) fifteen();
  const last = () => agree(local, runtime.rank === 0 ? "matmul" : "trsm", () => {});
  if (runtime.size === 1) last();
  else assertThrowsEverywhere(runtime, last, CollectiveError, "matmul on rank 0; trsm on rank");
});

clusterTest(
  'with checks: "local" what was disposed of is freed within sixteen operations, and where ranks exchange something',
  (runtime) => {
    runtime[Symbol.dispose]();
    using local = initialize({ device: "cpu", checks: "local" });
    const freed: number[] = [];
    const a = DistributedArray.full(local, [7], Slab.X, 1);
    const operateUntil = (done: () => boolean) => {
      let count = 0;
      for (; !done() && count < 100; count++) a.map((value) => value + 1);
      return count;
    };
    local.onCollect(() => freed.push(1));
    const most = local.size === 1 ? 1 : 16;
    assert(operateUntil(() => freed.length === 1) <= most, "freed late");

    // A rank that queues late, and one whose operation fails: the others are not kept waiting, nor is it freed early.
    if (local.rank > 0) local.onCollect(() => freed.push(2));
    if (local.rank === local.size - 1) assertThrows(() => a.map(null as never), TypeError);
    else a.map(Number);
    for (let i = 0; i < 2 * most; i++) a.map(Number);
    if (local.rank === 0) local.onCollect(() => freed.push(2));
    assert(operateUntil(() => freed.length === 2) <= most, "freed late");
    assertEquals(freed, [1, 2]);

    local.onCollect(() => freed.push(3));
    DistributedArray.fromLocal(local, a.local, Slab.X);
    assertEquals(freed, [1, 2, 3]);
    const views = [1, 2, 3].map(() => {
      using memory = allocateSymmetricMemory(local, [4]);
      return memory.view();
    });
    assertEquals(views.map(({ length }) => length), [0, 0, 4]);
    local.collect();
    assertEquals(views[2].length, 0);
  },
);

clusterTest("exchange() gives every rank everybody's value", (runtime) => {
  const { rank, size } = runtime;
  const values = exchange(runtime, "boxes", () => ({ lower: [rank, 0], upper: [rank + 1, 5n] }));
  assertEquals(values, Array.from({ length: size }, (_, r) => ({ lower: [r, 0], upper: [r + 1, 5n] })));
  assertEquals(exchange(runtime, "nothing", () => undefined), new Array(size).fill(undefined));
  const local = { communicator: runtime.communicator, checks: "local" } as const;
  assertEquals(exchange(local, "also local", () => rank).length, size);
});

clusterTest("exchange() throws everywhere what one rank threw", MANY, (runtime) => {
  const produce = () => {
    if (runtime.rank === 1) throw new RangeError("lower is above upper");
    return 1;
  };
  const error = assertThrowsEverywhere(
    runtime,
    () => exchange(runtime, "boxes", produce),
    RangeError,
    "(on rank 1 of ",
  );
  assertEquals((error as unknown as DistmathError).ranks, [1]);
  assertThrowsEverywhere(
    runtime,
    () => exchange(runtime, `op ${runtime.rank}`, () => 1),
    CollectiveError,
    "op 0 on rank 0",
  );
});

clusterTest("something thrown that is no Error arrives as one", MANY, (runtime) => {
  const check = () => {
    if (runtime.rank === 1) throw "just text";
  };
  assertThrowsEverywhere(runtime, () => agree(runtime, "op", check), Error, "just text (on rank 1");
});

clusterTest("what waits for other ranks fails on every rank, or on none", (runtime) => {
  const { rank, size, communicator } = runtime;
  const sum = () => communicator.allReduce(Float64Array.of(rank))[0];
  assertEquals(runOnAll(runtime, "sum", sum), size * (size - 1) / 2);
  const body = (thrown: unknown) => () => {
    sum();
    if (rank === size - 1) throw thrown;
  };
  // A call that a check may not make, in the body; and what is thrown need not be an error.
  assertThrowsEverywhere(
    runtime,
    () => runOnAll(runtime, "sum", body(new RangeError("no room"))),
    RangeError,
    "no room",
  );
  if (size > 1) {
    assertThrowsEverywhere(
      runtime,
      () => runOnAll(runtime, "sum", body(undefined)),
      Error,
      "undefined (on",
    );
  }
  assertEquals(sum(), size * (size - 1) / 2);
  runtime[Symbol.dispose]();
  using local = initialize({ device: "cpu", checks: "local" });
  assertThrowsEverywhere(local, () => runOnAll(local, "sum", body(new RangeError("no room"))), RangeError, "no room");
});

clusterTest("many agreements, one after the other, keep the ranks in step", (runtime) => {
  for (let i = 0; i < 50; i++) agree(runtime, "execute", () => ({ m: 1, n: 2, k: 3, i }));
  assert(runtime.communicator.allReduce(Float64Array.of(1))[0] === runtime.size);
});

/** What is thrown, and what arrives of it. */
const STRANGE: [what: string, thrown: () => unknown, message: string][] = [
  ["an object without text", () => Object.create(null), "something was thrown that has no text"],
  ["a symbol", () => Symbol("s"), "Symbol(s)"],
  ["a proxy of nothing", () => revokedProxy(), "something was thrown that has no text"],
  [
    "an error whose message throws",
    () => Object.defineProperty(new Error(), "message", { get: () => JSON.parse("{") }),
    "something was thrown that has no text",
  ],
  ["a frozen error", () => Object.freeze(new Error("as it is")), "as it is"],
];

function revokedProxy(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

for (const [what, thrown, message] of STRANGE) {
  clusterTest(`${what}, thrown by one rank, is an error on every rank`, MANY, (runtime) => {
    const value = (i: number) => {
      if (i === 7) throw thrown();
      return i;
    };
    assertThrowsEverywhere(runtime, () => DistributedArray.generate(runtime, [8], Slab.X, value), Error, message);
  });
}

clusterTest("a fact that contains itself is refused everywhere", MANY, (runtime) => {
  const fact: Record<string, unknown> = {};
  fact.self = fact;
  const facts = () => ({ fact: runtime.rank === 0 ? fact : 1 });
  assertThrowsEverywhere(runtime, () => agree(runtime, "op", facts), TypeError, "contains itself");
  const dtype = runtime.rank === 0 ? fact as never : "float64";
  const make = () => DistributedArray.zeros(runtime, [4], Slab.X, { dtype });
  assertThrowsEverywhere(runtime, make, DTypeError, "There is no dtype an object with the keys [self]");
});

clusterTest("exchange() refuses on every rank what cannot be sent", MANY, (runtime) => {
  const value = () => runtime.rank === 1 ? () => 1 : 1;
  assertThrowsEverywhere(runtime, () => exchange(runtime, "op", value), TypeError, "the value cannot be sent");
});

clusterTest("what is no runtime is refused everywhere, also if one rank passes it", (runtime) => {
  for (const wrong of [null, 5, {}, new Proxy(runtime, {}), Object.create(runtime), { communicator: 1 }]) {
    for (const last of [0, runtime.size - 1]) {
      const given = runtime.rank >= last ? wrong as never : runtime;
      const message = "the runtime must be what initialize() returned, not ";
      const corner = [runtime.rank, 0];
      const calls = [
        () => DistributedArray.zeros(given, [4], Slab.X),
        () => allocateSymmetricMemory(given, [4]),
        () => void Box.fromLocal(given, corner, [runtime.rank + 1, 2]),
      ];
      for (const call of calls) assertThrowsEverywhere(runtime, call, TypeError, message);
    }
  }
});

clusterTest("a collective call in a callback or a getter is an error on every rank", (runtime) => {
  using a = DistributedArray.full(runtime, [5], Slab.X, 1);
  // The ranks have different numbers of elements: without a check, they would wait for each other.
  const inside: [string, () => unknown][] = [
    ["generate", () => DistributedArray.generate(runtime, [5], Slab.X, () => a.sum())],
    ["map", () => a.map(() => a.norm())],
    ["random", () =>
      DistributedArray.random(runtime, [5], Slab.X, {
        get seed() {
          return Number(a.sum());
        },
      })],
    ["map", () => a.map((x) => [x, runtime.collect()] as never)],
  ];
  for (const [name, call] of inside) {
    const message = `it needs all ranks, and was called inside DistributedArray.${name}`;
    assertThrowsEverywhere(runtime, call, StateError, message);
  }
  assertEquals(a.sum(), 5);
});

clusterTest(
  "a function of onCollect() that throws on one rank is an error on all, and the others are called",
  (runtime) => {
    const called: string[] = [];
    runtime.onCollect(() => called.push("before"));
    runtime.onCollect(() => {
      if (runtime.rank === 0) throw new RangeError("not freed");
    });
    runtime.onCollect(() => called.push("after"));
    assertThrowsEverywhere(runtime, () => runtime.collect(), RangeError, "not freed");
    assertEquals(called, ["before", "after"]);
    runtime.collect();
    assertThrows(() => runtime.onCollect(1 as never), TypeError, "onCollect takes a function that frees, not 1");
  },
);

clusterTest("memory that can be resized is refused everywhere", (runtime) => {
  const resizable = () => new Float64Array(new ArrayBuffer(64, { maxByteLength: 128 }));
  const growable = () => new Float64Array(new SharedArrayBuffer(64, { maxByteLength: 128 }));
  using a = DistributedArray.full(runtime, [4, 2], Slab.X, 1);
  const message = "An array needs memory of a fixed size, and the buffer of this Float64Array can be resized";
  for (const data of [resizable(), growable() as never]) {
    const localShape = [2, 4];
    const isLast = runtime.rank === runtime.size - 1;
    const own = isLast ? data : new Float64Array(8);
    const calls = [
      () => DistributedArray.fromLocal(runtime, own, Slab.X, { localShape }),
      () => DistributedArray.scatter(runtime, data, [8], Slab.X),
      () => a.gather({ into: data }),
      () => a.allGather({ into: own }),
    ];
    for (const call of calls) assertThrowsEverywhere(runtime, call, TypeError, message);
  }
});

clusterTest("symmetric memory that one rank has let go of is told of everywhere", MANY, (runtime) => {
  const memory = allocateSymmetricMemory(runtime, [4]);
  if (runtime.rank === 0) memory[Symbol.dispose]();
  assertThrowsEverywhere(runtime, () => memory.synchronize(), StateError, "was freed");
  memory[Symbol.dispose]();
  const array = DistributedArray.zeros(runtime, [4], Slab.X, { memory: "symmetric" });
  if (runtime.rank === 0) (array.local as SymmetricArray)[Symbol.dispose]();
  assertThrowsEverywhere(runtime, () => array.sum(), StateError, "is gone on this rank");
  array.free();
});
