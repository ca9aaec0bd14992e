import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { planRedistribution } from "../../../../src/array/redistribution/plan.ts";
import {
  BlockCyclic,
  BlockNonCyclic,
  Box,
  type Corners,
  type Distribution,
  ProcessGrid,
  Replicated,
  Slab,
} from "../../../../src/distribution/mod.ts";
import { elementsMoved, splitAlong } from "../../../../src/linalg/matrix_division.ts";
import { bytesBetween } from "../../../../src/linalg/engines/product_traffic.ts";
import { emptyStrategy } from "../../../../src/linalg/engines/host/empty_product.ts";
import type { Strategy } from "../../../../src/linalg/engines/host/strategy.ts";
import {
  chooseStrategy,
  describeStrategy,
  leastTraffic,
  SCALAPACK_ALGORITHMS,
} from "../../../../src/linalg/engines/scalapack/strategy.ts";
import { kept, type MatmulProblem, matrixName, summed } from "../../../../src/linalg/matmul/problem.ts";
import { type GivenProduct, problemOf as givenProblem } from "../given_product.ts";

type Given = Partial<GivenProduct> & Pick<GivenProduct, "size" | "a" | "b" | "d">;

const problemOf = (given: Given) => givenProblem({ m: 12, n: 24, k: 36, ...given });

const { X, Y } = Slab;

Deno.test("chooseStrategy() takes slabs where they are, as cuBLASMp's table says", () => {
  const table = [
    [[true, false], [Y, Y, X], [X, X, Y]],
    [[false, false], [X, Y, X], [Y, X, Y]],
    [[false, true], [X, X, X], [Y, Y, Y]],
    [[true, true], [Y, X, X], [X, Y, Y]],
  ] as const;
  for (const [transposes, gather, scatter] of table) {
    for (const [[a, b, d], algorithm] of [[gather, "all_gather_gemm"], [scatter, "gemm_reduce_scatter"]] as const) {
      const problem = problemOf({ size: 4, transposes, a, b, d });
      const strategy = chooseStrategy(problem)!;
      assertEquals(strategy.algorithm, algorithm);
      assertEquals(strategy.moves, 0);
      const travelling = algorithm === "all_gather_gemm" ? problem.k * problem.n : problem.m * problem.n;
      assertEquals(strategy.traffic, 3 * travelling * 8);
      // Each rank sends its quarter to all others, or each other one its quarter of the sums.
      const bytes = bytesBetween(problem, strategy, strategy.traffic);
      assertEquals(bytes, bytes.map((_, from) => bytes.map((_, to) => from === to ? 0 : travelling * 8 / 4)));
    }
  }
});

Deno.test("chooseStrategy() leaves blocks on one grid to pgemm", () => {
  for (const layout of ["row-major", "column-major"] as const) {
    const blocks = new BlockCyclic(new ProcessGrid({ shape: [2, 2], layout }), [2, 3], { firstProcess: [1, 0] });
    const strategy = chooseStrategy(problemOf({ size: 4, a: blocks, b: blocks, d: blocks }))!;
    assertEquals([strategy.algorithm, strategy.moves], ["pgemm", 0]);
  }
});

Deno.test("chooseStrategy() brings a stray operand to the grid of the others", () => {
  const grid = new ProcessGrid({ shape: [2, 2] });
  const blocks = new BlockCyclic(grid, [2, 3]);
  const strategy = chooseStrategy(problemOf({ size: 4, m: 40, n: 40, k: 4, a: blocks, b: X, d: blocks }))!;
  assertEquals([strategy.algorithm, strategy.moves], ["pgemm", 1]);
  assert(strategy.b instanceof BlockCyclic && strategy.b.grid.equals(grid));
});

Deno.test("one rank, and nothing to add up, need no communication", () => {
  const strategies = [
    chooseStrategy(problemOf({ size: 1, a: X, b: Y, d: Y }))!,
    emptyStrategy(problemOf({ size: 4, k: 0, a: X, b: Y, d: Y })),
  ];
  assertEquals(strategies.map(({ algorithm }) => algorithm), ["local_gemm", "none"]);
  for (const { moves, traffic } of strategies) assertEquals([moves, traffic], [0, 0]);
});

Deno.test("chooseStrategy() refuses messages of more than 2^31 elements", () => {
  const huge = problemOf({ size: 2, m: 100_000, n: 100_000, k: 4, a: Y, b: X, d: Y });
  assertEquals(chooseStrategy(huge, "gemm_reduce_scatter"), null);
  assertEquals(chooseStrategy(huge)!.algorithm !== "gemm_reduce_scatter", true);
});

Deno.test("chooseStrategy() divides the user's row-major matrices as the user sees them", () => {
  const problem = problemOf({
    size: 2,
    m: 128,
    n: 512,
    k: 1024,
    a: Y,
    b: Y,
    d: X,
    transposes: [true, false],
    orders: ["C", "C", "C"],
    dtype: "float32",
  });
  const strategy = chooseStrategy(problem)!;
  assertEquals(matrixName(problem, "a"), "B");
  assertEquals(
    describeStrategy(problem, strategy),
    "A divided along m, D divided along m; the blocks of B divided along n, go to all 2 ranks",
  );
});

Deno.test("splitAlong() is null for what is not one range a rank", () => {
  const grid = new ProcessGrid({ shape: [2, 1] });
  assertEquals(splitAlong(X.bind([5, 3], 2), 0), [[0, 3], [3, 5]]);
  assertEquals(splitAlong(X.bind([5, 3], 2), 1), null);
  assertEquals(splitAlong(X.bind([1, 3], 3), 0), [[0, 1], [0, 0], [0, 0]]);
  assertEquals(splitAlong(new BlockCyclic(grid, [1, 3]).bind([5, 3], 2), 0), null);
  assertEquals(splitAlong(Replicated.bind([5, 3], 2), 0), null);
});

/** Distributions of all kinds on `size` ranks. */
function distributions(size: number, shape: readonly [number, number]): fc.Arbitrary<Distribution> {
  const divisors = Array.from({ length: size }, (_, i) => i + 1).filter((rows) => size % rows === 0);
  const grid = fc.tuple(fc.constantFrom(...divisors), fc.constantFrom("row-major", "column-major")).map((
    [rows, layout],
  ) => new ProcessGrid({ shape: [rows, size / rows], layout: layout as "row-major" }));
  const cuts = (extent: number) =>
    fc.array(fc.integer({ min: 0, max: extent }), { minLength: size - 1, maxLength: size - 1 })
      .map((values) => [0, ...values.sort((x, y) => x - y), extent]);
  const box = fc.constantFrom(0, 1).chain((dimension) =>
    cuts(shape[dimension]).map((edges) =>
      new Box(Array.from({ length: size }, (_, rank): Corners => {
        const [start, end] = [edges[rank], edges[rank + 1]];
        return dimension === 0 ? [[start, 0], [end, shape[1]]] : [[0, start], [shape[0], end]];
      }))
    )
  );
  return fc.oneof(
    fc.constantFrom<Distribution>(X, Y, Replicated),
    grid.map((value) => new BlockNonCyclic(value)),
    fc.tuple(grid, fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 6 })).map(([value, rows, columns]) =>
      new BlockCyclic(value, [rows, columns])
    ),
    box,
  );
}

const problems = fc.record({
  size: fc.integer({ min: 1, max: 6 }),
  m: fc.integer({ min: 1, max: 12 }),
  n: fc.integer({ min: 1, max: 12 }),
  k: fc.integer({ min: 1, max: 12 }),
  transposes: fc.tuple(fc.boolean(), fc.boolean()),
}).chain(({ size, m, n, k, transposes }) =>
  fc.record({
    size: fc.constant(size),
    m: fc.constant(m),
    n: fc.constant(n),
    k: fc.constant(k),
    transposes: fc.constant(transposes),
    a: distributions(size, transposes[0] ? [k, m] : [m, k]),
    b: distributions(size, transposes[1] ? [n, k] : [k, n]),
    d: distributions(size, [m, n]),
  })
);

Deno.test("elementsMoved() is what a redistribution moves", () => {
  fc.assert(fc.property(problems, (given) => {
    const { distribution: from } = problemOf(given).d;
    const { distribution: to } = problemOf({ ...given, d: given.size % 2 ? X : Y }).d;
    assertEquals(elementsMoved(from, to), planRedistribution(from, to, 0).elementsMoved);
  }));
});

function checkShapes({ a, b, d }: Strategy, problem: MatmulProblem): void {
  assertEquals(a.globalShape, [problem.a.rows, problem.a.columns]);
  assertEquals(b.globalShape, [problem.b.rows, problem.b.columns]);
  assertEquals(d.globalShape, [problem.m, problem.n]);
}

Deno.test("chooseStrategy() gives every algorithm the distributions that it takes", () => {
  fc.assert(fc.property(problems, fc.constantFrom(undefined, ...SCALAPACK_ALGORITHMS), (given, algorithm) => {
    const problem = problemOf(given);
    const strategy = chooseStrategy(problem, algorithm);
    if (strategy === null) return assert(algorithm !== undefined);
    checkShapes(strategy, problem);
    const [ka, kb] = [summed("a", problem), summed("b", problem)];
    const [ma, nb] = [kept("a", problem), kept("b", problem)];
    const { a, b, d } = strategy;
    const same = (one: unknown, other: unknown) => assertEquals(JSON.stringify(one), JSON.stringify(other));
    switch (strategy.algorithm) {
      case "all_gather_gemm":
        assert(strategy.travels === "a" || strategy.travels === "b");
        if (strategy.travels === "b") same(splitAlong(a, ma), splitAlong(d, 0));
        else same(splitAlong(b, nb), splitAlong(d, 1));
        break;
      case "gemm_reduce_scatter":
      case "gemm_all_reduce":
        assert(splitAlong(a, ka) !== null);
        same(splitAlong(a, ka), splitAlong(b, kb));
        assertEquals(d.isReplicated, strategy.algorithm === "gemm_all_reduce");
        assertEquals(strategy.travels, "d");
        break;
      case "pgemm":
        for (const distribution of [a, b, d]) assert(distribution.to(BlockCyclic).grid.equals(strategy.grid!));
        break;
      case "local_gemm":
        assertEquals([strategy.traffic, strategy.travels], [0, undefined]);
    }
    assert(describeStrategy(problem, strategy).length > 0);
  }));
});

Deno.test("chooseStrategy() takes matrices where they are if it can, and else the fewest bytes", () => {
  fc.assert(fc.property(problems, fc.constantFrom(...SCALAPACK_ALGORITHMS), (given, algorithm) => {
    const problem = problemOf(given);
    const best = chooseStrategy(problem)!;
    const other = chooseStrategy(problem, algorithm);
    if (other === null) return;
    if (other.moves === 0) assertEquals(best.moves, 0);
    else if (best.moves > 0) assert(best.moved + best.traffic <= other.moved + other.traffic);
  }));
});

/** What has to travel if each rank multiplies what it has of one matrix, counted product by product. */
function elementsSent(problem: MatmulProblem, strategy: Strategy, stays: "a" | "b" | "d"): number {
  const { m, n, k } = problem;
  const ranks = Array.from({ length: strategy.d.size! }, (_, rank) => rank);
  const ownerOf = (name: "a" | "b" | "d") => {
    const distribution = strategy[name];
    const isFlipped = name !== "d" && problem[name === "a" ? "operationA" : "operationB"].transpose;
    const [rows, columns] = distribution.globalShape!;
    const owners = new Map<string, number>();
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < columns; j++) {
        const owner = ranks.find((rank) =>
          distribution.ranges(rank).every((ranges, d) =>
            ranges.some(([start, end]) => start <= [i, j][d] && [i, j][d] < end)
          )
        )!;
        owners.set(isFlipped ? `${j},${i}` : `${i},${j}`, owner);
      }
    }
    return (row: number, column: number) => owners.get(`${row},${column}`)!;
  };
  const owners = { a: ownerOf("a"), b: ownerOf("b"), d: ownerOf("d") };
  const sent = new Set<string>();
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < n; j++) {
      for (let l = 0; l < k; l++) {
        const at = { a: [i, l], b: [l, j], d: [i, j] } as const;
        const worker = owners[stays](...at[stays]);
        for (const name of ["a", "b", "d"] as const) {
          if (owners[name](...at[name]) !== worker) sent.add(`${name} ${at[name]} ${worker}`);
        }
      }
    }
  }
  return sent.size;
}

Deno.test("p?gemm sends at least what it takes to leave one matrix where it is", () => {
  const extent = fc.integer({ min: 1, max: 6 });
  const products = fc.record({
    shape: fc.constantFrom([1, 2], [2, 1], [2, 2], [1, 3], [3, 2]),
    extents: fc.tuple(extent, extent, extent),
    block: fc.integer({ min: 1, max: 4 }),
    transposes: fc.tuple(fc.boolean(), fc.boolean()),
  });
  fc.assert(fc.property(products, ({ shape, extents: [m, n, k], block, transposes }) => {
    const grid = new ProcessGrid({ shape, layout: "row-major" });
    const blocks = new BlockCyclic(grid, [block, 2], { firstProcess: shape.map((extent) => extent - 1) });
    const size = shape[0] * shape[1];
    const problem = problemOf({ size, m, n, k, a: blocks, b: blocks, d: blocks, transposes });
    const strategy = chooseStrategy(problem, "pgemm")!;
    const least = Math.min(...(["a", "b", "d"] as const).map((stays) => elementsSent(problem, strategy, stays)));
    const told = leastTraffic(problem, strategy)!;
    assert(told <= 8 * least, `${told} of ${8 * least}`);
  }));
});

Deno.test("what p?gemm sends at least is all of it where blocks fit together", () => {
  const least = (shape: [number, number], m: number, n: number, k: number, transposes: [boolean, boolean]) => {
    const blocks = new BlockCyclic(new ProcessGrid({ shape, layout: "row-major" }), [2, 2]);
    const size = shape[0] * shape[1];
    const problem = problemOf({ size, m, n, k, a: blocks, b: blocks, d: blocks, transposes });
    return leastTraffic(problem, chooseStrategy(problem, "pgemm")!);
  };
  const neither: [boolean, boolean] = [false, false];
  // D stays: two thirds of A come to each rank, and half of B.
  assertEquals(least([2, 3], 60, 60, 12, neither), 8 * (2 * 60 * 12 + 12 * 60));
  // A stays: B is needed on both rows of the grid, and sums of three terms make D.
  assertEquals(least([2, 3], 60, 4, 60, neither), 8 * (60 * 4 + 2 * 60 * 4));
  // The rows of op(A) lie along the columns of the grid: nothing but B has to travel.
  assertEquals(least([1, 2], 60, 4, 60, [true, false]), 8 * 60 * 4);
  // All of it lies on one rank.
  assertEquals(least([2, 2], 2, 2, 2, neither), 0);
  assertEquals(least([1, 1], 8, 8, 8, neither), null);
});

Deno.test("bytes from rank to rank are those that are moved and those that travel, as they are divided", () => {
  // B's 12 columns on 4 ranks in parts of 5, 4, 3 and 0.
  const uneven = new Box([[[0, 0], [36, 5]], [[0, 5], [36, 9]], [[0, 9], [36, 12]], [[0, 12], [36, 12]]]);
  const gather = problemOf({ size: 4, m: 24, n: 12, a: X, b: uneven, d: X });
  const gathering = chooseStrategy(gather, "all_gather_gemm")!;
  const sent = [5, 4, 3, 0].map((columns) => columns * 36 * 8);
  assertEquals([gathering.moves, gathering.travels], [0, "b"]);
  assertEquals(
    bytesBetween(gather, gathering, gathering.traffic),
    sent.map((bytes, from) => sent.map((_, to) => from === to ? 0 : bytes)),
  );
  for (const algorithm of SCALAPACK_ALGORITHMS) {
    for (const d of [X, Y, Replicated]) {
      for (const [a, b] of [[X, X], [Y, X], [X, Y], [Replicated, X], [X, Replicated]]) {
        for (const shape of [{}, { m: 2, n: 2, k: 7 }, { m: 7, n: 5, k: 1 }]) {
          const problem = problemOf({ size: 3, a, b, d, ...shape });
          const strategy = chooseStrategy(problem, algorithm);
          if (strategy === null) continue;
          const traffic = algorithm === "pgemm" ? 0 : strategy.traffic;
          const bytes = bytesBetween(problem, strategy, traffic);
          const total = bytes.flat().reduce((sum, n) => sum + n, 0);
          assertEquals(total, strategy.moved + traffic, `${algorithm}: ${a} ${b} ${d} ${JSON.stringify(shape)}`);
          assert(bytes.every((row, rank) => row[rank] === 0));
        }
      }
    }
  }
});
