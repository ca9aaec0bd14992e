/** Products of matrices in symmetric memory. */
import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { DistributedArray } from "../../src/array/distributed_array.ts";
import { allocateSymmetricMemory, freeSymmetricMemory, SymmetricArray } from "../../src/array/symmetric_array.ts";
import { Slab } from "../../src/distribution/mod.ts";
import { geadd, Matmul, matmul } from "../../src/linalg/mod.ts";
import { clusterTest } from "../../src/testing/mod.ts";
import { assertMatrix, combine, type Dense, distribute, integers, product } from "./matmul_oracle.ts";

clusterTest("the result is symmetric when all operands are", (runtime) => {
  const [m, n, k] = [4 * runtime.size + 1, 3 * runtime.size, 5 * runtime.size + 2];
  const [a, b, c] = [integers(m, k, 1), integers(k, n, 2), integers(m, n, 3)];
  const place = (matrix: Dense, distribution: Slab, isSymmetric: boolean): DistributedArray => {
    const array = distribute(runtime, matrix, { distribution, dtype: "float64" });
    if (!isSymmetric) return array;
    const { shape } = array.local;
    const local = allocateSymmetricMemory(runtime, shape, { dtype: "float64", makeSymmetric: true });
    local.set(array.local);
    return DistributedArray.fromLocal(runtime, local, array.distribution);
  };
  const ab = product(a, b);
  for (const addend of ["none", "symmetric", "other"] as const) {
    const [left, right] = [place(a, Slab.X, true), place(b, Slab.Y, true)];
    const sum = addend === "none" ? null : place(c, Slab.X, addend === "symmetric");
    using object = new Matmul(left, right, { distribution: Slab.X, ...sum && { c: sum, beta: 2 } });
    object.plan();
    const results = [object.execute(), object.execute()];
    const isSymmetric = addend !== "other";
    for (const d of results) {
      assertMatrix(d, sum ? combine(1, ab, 2, c) : ab, addend);
      assertEquals(d.local instanceof SymmetricArray, isSymmetric, addend);
      assertEquals(d.memory, isSymmetric ? "symmetric" : runtime.stream ? "device" : "host", addend);
    }
    if (isSymmetric) freeSymmetricMemory(...results);
    freeSymmetricMemory(left, right, ...sum !== null && isSymmetric ? [sum] : []);
  }
  const summand = place(c, Slab.Y, true);
  const sum = geadd(summand, { distribution: Slab.X });
  assertEquals(sum.memory, "symmetric");
  assertMatrix(sum, c, "geadd");
  freeSymmetricMemory(summand, sum);
  const mixed = matmul(place(a, Slab.X, false), place(b, Slab.Y, false), { distribution: Slab.X });
  assert(mixed.memory !== "symmetric");
  const [left, right, into] = [place(a, Slab.X, true), place(b, Slab.Y, true), place(c, Slab.X, true)];
  assertStrictEquals(matmul(left, right, { c: into, beta: 1, inplace: true }), into);
  assertMatrix(into, combine(1, ab, 1, c), "in place");
  freeSymmetricMemory(left, right, into);
});
