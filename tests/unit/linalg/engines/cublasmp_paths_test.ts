/** How products are given to cuBLASMp: what a call would compute, simulated with plain loops from its descriptors alone. */
import { assert, assertEquals } from "@std/assert";
import {
  BlockCyclic,
  BlockNonCyclic,
  Box,
  type Distribution,
  ProcessGrid,
  Replicated,
  Slab,
} from "../../../../src/distribution/mod.ts";
import {
  chooseCall,
  type CublasMpCall,
  exchanged,
  type GivenMatrix,
} from "../../../../src/linalg/engines/cublasmp/paths.ts";
import { describeEpilog, type EpilogName } from "../../../../src/linalg/matmul/epilog.ts";
import type { MatmulProblem } from "../../../../src/linalg/matmul/problem.ts";
import type { Operation } from "../../../../src/blas/transposition.ts";
import { type GivenProduct, problemOf } from "../given_product.ts";

type Matrix = number[][];

const make = (rows: number, columns: number, value: (i: number, j: number) => number): Matrix =>
  Array.from({ length: rows }, (_, i) => Array.from({ length: columns }, (_, j) => value(i, j)));
const transpose = (matrix: Matrix): Matrix => make(matrix[0].length, matrix.length, (i, j) => matrix[j][i]);
const apply = (matrix: Matrix, { transpose: isTransposed }: Operation) => isTransposed ? transpose(matrix) : matrix;
const multiply = (a: Matrix, b: Matrix): Matrix =>
  make(a.length, b[0].length, (i, j) => a[i].reduce((sum, x, p) => sum + x * b[p][j], 0));

/** The descriptor of a matrix as a distribution. */
function described({ rows, columns, blockRows, blockColumns, grid }: GivenMatrix, size: number): BlockCyclic {
  const processes = new ProcessGrid({ shape: [grid.rows, grid.columns], layout: grid.layout });
  return new BlockCyclic(processes, [blockRows, blockColumns]).bind([rows, columns], size);
}

/** The part of a rank, padded with zeros, as it would lie in memory. */
function localPart(matrix: Matrix, given: GivenMatrix, rank: number): Matrix {
  const [rows, columns] = given.distribution.localShape(rank);
  const [allRows, allColumns] = given.padded ?? [rows, columns];
  return make(allRows, allColumns, (i, j) => {
    if (i >= rows || j >= columns) return 0;
    const [r, c] = given.distribution.toGlobal(rank, [i, j]);
    return matrix[r][c];
  });
}

/** What cuBLASMp reads: the matrix of the descriptor, put together from the parts. */
function read(stored: Matrix, given: GivenMatrix, size: number): Matrix {
  const matrix = given.isTransposed ? transpose(stored) : stored;
  const descriptor = described(given, size);
  const whole = make(given.rows, given.columns, () => NaN);
  for (let rank = 0; rank < size; rank++) {
    const part = localPart(matrix, given, rank);
    const [rows, columns] = descriptor.localShape(rank);
    assertEquals([part.length, part[0]?.length ?? columns], [rows, columns], "the part has the descriptor's shape");
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < columns; j++) {
        const [r, c] = descriptor.toGlobal(rank, [i, j]);
        whole[r][c] = part[i][j];
      }
    }
  }
  return whole;
}

/** D as the ranks have it after the call. */
function written(whole: Matrix, given: GivenMatrix, size: number): Matrix {
  const descriptor = described(given, size);
  const [rows, columns] = given.distribution.globalShape!;
  const result = make(rows, columns, () => NaN);
  for (let rank = 0; rank < size; rank++) {
    const [localRows, localColumns] = given.distribution.localShape(rank);
    for (let i = 0; i < localRows; i++) {
      for (let j = 0; j < localColumns; j++) {
        const [r, c] = given.distribution.toGlobal(rank, [i, j]);
        const [from, at] = descriptor.toGlobal(rank, [i, j]);
        result[r][c] = whole[from][at];
      }
    }
  }
  return given.isTransposed ? transpose(result) : result;
}

/** What cuBLASMp would make of a call. */
function simulate(call: CublasMpCall, problem: MatmulProblem, a: Matrix, b: Matrix): Matrix {
  const size = problem.d.distribution.size!;
  const [left, right] = call.isExchanged ? [b, a] : [a, b];
  const product = multiply(
    apply(read(left, call.a, size), call.operationA),
    apply(read(right, call.b, size), call.operationB),
  );
  assertEquals([product.length, product[0].length], [call.m, call.n]);
  const isReduced = call.path === "all_reduce";
  const whole = isReduced ? make(call.m, call.d.columns, (i, j) => product[i][j % call.n]) : product;
  return written(whole, call.d, size);
}

function checkBlocks({ operationA, operationB, a, b, d, path }: CublasMpCall): void {
  const [mOfA, kOfA] = operationA.transpose ? [a.blockColumns, a.blockRows] : [a.blockRows, a.blockColumns];
  const [kOfB, nOfB] = operationB.transpose ? [b.blockColumns, b.blockRows] : [b.blockRows, b.blockColumns];
  assertEquals([mOfA, kOfA, nOfB], [d.blockRows, kOfB, d.blockColumns], `blocks of ${path}`);
}

function kinds(size: number, [rows, columns]: readonly [number, number]): Distribution[] {
  const shape = size === 4 ? [2, 2] : [1, size];
  const grid = new ProcessGrid({ shape, layout: "column-major" });
  const cut = Array.from({ length: size + 1 }, (_, i) => Math.ceil(rows * (i / size) ** 2));
  const boxes = cut.slice(1).map((end, i) => [[cut[i], 0], [end, columns]] as const);
  return [
    Slab.X,
    Slab.Y,
    Replicated,
    new BlockNonCyclic(grid),
    new BlockCyclic(grid, [2, 2]),
    new BlockCyclic(grid, [3, 1]),
    new Box(boxes),
  ];
}

/** Choose a call and compare what it would compute with the product. */
function check({ epilog = "none", ...given }: GivenProduct & { epilog?: EpilogName | "none" }): CublasMpCall | null {
  const { dtype = "float32" } = given;
  const problem = problemOf({ dtype, ...given });
  const call = chooseCall({ problem, epilog: describeEpilog(epilog, { auxDType: dtype }), isOverlapped: false });
  if (call === null) return null;
  // Stored matrices, column-major as the problem sees them.
  const a = make(problem.a.rows, problem.a.columns, (i, j) => (3 * i + 5 * j) % 7 - 3);
  const b = make(problem.b.rows, problem.b.columns, (i, j) => (2 * i + 3 * j) % 5 - 2);
  const expected = multiply(apply(a, problem.operationA), apply(b, problem.operationB));
  const text = `${call.path}, ${Object.entries(given).map(([name, value]) => `${name}: ${value}`).join(", ")}`;
  if (call.path !== "fallback" && call.path !== "all_reduce") checkBlocks(call);
  assertEquals(simulate(call, problem, a, b), expected, text);
  return call;
}

const SHAPES = [[8, 12, 16], [7, 13, 11], [1, 1, 5], [3, 17, 2], [16, 8, 8]] as const;
const ORDERS = ["C", "F"] as const;

Deno.test("any distributions, orders and transposes become a call that computes the product", () => {
  let [count, step] = [0, 0];
  for (const size of [1, 2, 3, 4]) {
    for (const [m, n, k] of SHAPES) {
      for (let kind = 0; kind < 7; kind++) {
        for (const shift of [0, 1, 4]) {
          step++;
          const transposes = [step % 2 === 0, step % 3 === 0] as const;
          const a = kinds(size, transposes[0] ? [k, m] : [m, k])[kind];
          const b = kinds(size, transposes[1] ? [n, k] : [k, n])[(kind + shift) % 7];
          const d = kinds(size, [m, n])[(kind + 2 * shift) % 7];
          const orders = [ORDERS[step % 2], ORDERS[(step >> 1) % 2], ORDERS[(step >> 2) % 2]] as const;
          for (const dtype of ["float32", "float8_e4m3"] as const) {
            const call = check({ size, m, n, k, a, b, d, transposes, orders, dtype });
            if (call === null) throw new Error("every product has a path");
            if (dtype === "float8_e4m3") {
              assertEquals([call.operationA.transpose, call.operationB.transpose], [true, false], "8 bits: TN");
              const extents = [call.a, call.b].flatMap(({ blockRows, blockColumns }) => [blockRows, blockColumns]);
              assert(extents.every((extent) => extent % 16 === 0), `${extents}`);
            }
            count++;
          }
        }
      }
    }
  }
  assertEquals(count, 4 * 5 * 7 * 3 * 2);
});

/** Uniform slabs, column-major. */
function slabs(size: number, transposes: readonly [boolean, boolean], names: string): CublasMpCall {
  const [a, b, d] = Array.from(names, (name) => name === "X" ? Slab.X : Slab.Y);
  return check({ size, m: 8 * size, n: 16 * size, k: 24 * size, a, b, d, transposes })!;
}

Deno.test("the overlapped paths take uniform slabs as they are", () => {
  const [N, T] = [false, true];
  for (const size of [2, 4]) {
    for (
      const [transposes, gather, reduce] of [
        [[N, N], "XYX", "YXY"],
        [[T, N], "YYX", "XXY"],
        [[N, T], "XXX", "YYY"],
        [[T, T], "YXX", "XYY"],
      ] as const
    ) {
      for (const [names, path] of [[gather, "all_gather"], [reduce, "reduce_scatter"]]) {
        const call = slabs(size, transposes, names);
        assertEquals([call.path, call.isExchanged, call.moved, call.copied], [path, false, 0, 0], names);
        assertEquals([call.a.padded, call.b.padded, call.d.padded], [null, null, null]);
      }
    }
  }
});

Deno.test("other mixtures of slabs are taken where they are, overlapped if a local copy makes them fit", () => {
  for (const names of ["XXX", "XXY", "XYY", "YXX", "YYX", "YYY"]) {
    const call = slabs(2, [false, false], names);
    assertEquals(call.moved, 0, names);
    const isOverlapped = !["generic", "fallback"].includes(call.path);
    assertEquals([isOverlapped, call.copied > 0, call.isExchanged], [
      names === "XYY" || names === "YXX",
      isOverlapped,
      isOverlapped,
    ], names);
  }
});

Deno.test("an uneven division is padded where it lies", () => {
  const call = check({ size: 4, m: 9, n: 8, k: 4, a: Slab.X, b: Slab.Y, d: Slab.X })!;
  assertEquals([call.path, call.moved, call.m], ["all_gather", 0, 12]);
  assertEquals([call.a.padded, call.b.padded, call.d.padded], [[3, 4], null, [3, 8]]);
});

Deno.test("D in the other memory order is computed transposed, and only then", () => {
  const given = { size: 2, m: 4, n: 6, k: 8, a: Slab.Y, b: Slab.Y, d: Slab.X, transposes: [true, false] } as const;
  const columns = check({ ...given, orders: ["C", "C", "F"] })!;
  assertEquals([columns.path, columns.isExchanged, columns.copied], ["all_gather", false, 0]);
  const rows = check({ ...given, orders: ["C", "C", "C"] })!;
  assertEquals([rows.path, rows.isExchanged, rows.d.isTransposed, rows.moved], ["all_gather", true, true, 0]);
  assert(rows.copied > 0);
});

Deno.test("an epilog that belongs to rows keeps D where it is wanted, in the user's orientation", () => {
  const extents = { size: 4, m: 8, n: 12, k: 16 };
  for (const epilog of ["bias", "relu_aux", "bgrada", "bgradb", "drelu_bgrad"] as const) {
    for (const order of ORDERS) {
      const places = { a: Slab.Y, b: Slab.Y, d: Slab.X };
      const call = check({ ...extents, ...places, transposes: [true, false], orders: ["F", "F", order], epilog })!;
      assertEquals([call.path, call.d.isMoved, call.isExchanged], ["all_gather", false, order === "C"], epilog);
      if (epilog === "bgrada") assertEquals(call.operationA.transpose, false);
      if (epilog === "bgradb") assertEquals(call.operationB.transpose, true);
    }
    const grid = new ProcessGrid({ shape: [2, 2], layout: "row-major" });
    const blocks = new BlockCyclic(grid, [2, 2]);
    assertEquals(check({ ...extents, a: blocks, b: blocks, d: blocks, epilog }), null, `${epilog} on blocks`);
  }
});

Deno.test("all_reduce transposes A, and sums what every rank has", () => {
  for (const size of [2, 4]) {
    for (const [ta, tb] of [[true, false], [false, false], [true, true], [false, true]] as const) {
      const places = { a: ta ? Slab.X : Slab.Y, b: tb ? Slab.Y : Slab.X, d: Replicated };
      const call = check({ size, m: 6, n: 4, k: 8, ...places, transposes: [ta, tb], epilog: "all_reduce" })!;
      assertEquals([call.path, call.moved], ["all_reduce", 0]);
      assertEquals([call.operationA.transpose, call.operationB.transpose], [true, false]);
      // The product's transpose may need fewer copies.
      assertEquals(Number(call.a.isTransposed) + Number(call.b.isTransposed) <= Number(!ta) + Number(tb), true);
    }
  }
});

Deno.test("a conjugation that is not a transposition becomes one, on a transposed copy", () => {
  // D is larger than A, so that A is what is transposed.
  const slabs = { a: Slab.X, b: Slab.X, d: Slab.X };
  const conjugates = [true, false] as const;
  const problem = problemOf({ size: 1, m: 8, n: 60, k: 4, ...slabs, conjugates, dtype: "complex64" });
  const epilog = describeEpilog("none", { auxDType: "float32" });
  const call = chooseCall({ problem, epilog, isOverlapped: false })!;
  assertEquals([call.a.isTransposed, call.operationA], [true, { transpose: true, conjugate: true }]);
});

Deno.test("exchanged() twice is the problem itself", () => {
  const places = { a: Slab.X, b: Slab.Y, c: Slab.X, d: Slab.X };
  const problem = problemOf({ size: 2, m: 4, n: 6, k: 8, ...places, orders: ["C", "F", "F"] });
  const twice = exchanged(exchanged(problem));
  const plain = (value: MatmulProblem) =>
    JSON.stringify(value, (_, v) => typeof v?.bind === "function" ? String(v) : v);
  assertEquals(plain(twice), plain(problem));
});
