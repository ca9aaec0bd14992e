/** Errors name the function that was called and its arguments, not those of functions that it is made of. */
import * as api from "../../mod.ts";
import { DistributedArray, DistributionError, DTypeError, Replicated, ShapeError, Slab } from "../../mod.ts";
import { assertThrowsEverywhere, clusterTest, type ErrorClass } from "../../src/testing/mod.ts";

clusterTest("errors of functions that are made of others name them, and their arguments", (runtime) => {
  const full = (shape: number[], dtype: api.DType = "float64", distribution: api.Distribution = Slab.X) =>
    DistributedArray.full(runtime, shape, distribution, 1, { dtype });
  const [matrix, vector, bytes, pairs] = [full([4, 4]), full([4]), full([4], "int8"), full([4], "complex128")];
  const across = matrix.redistribute(Slab.Y);
  const word = "a" as unknown as number;
  const odd = { x: 1 } as object;
  const cases: [call: () => unknown, kind: ErrorClass<Error>, message: string][] = [
    [() => api.trace(vector), ShapeError, "trace takes a matrix, not an array of shape [4]"],
    [() => api.trace({} as DistributedArray), TypeError, "trace: the matrix must be"],
    [() => api.axpy(1000, bytes, bytes), RangeError, "axpy: int8 takes whole numbers"],
    [() => api.axpy(word, vector, vector), TypeError, "axpy: alpha must be"],
    [() => api.axpy(1, matrix, vector), ShapeError, "axpy: y has shape [4], but the result has [4,4]"],
    [() => api.scale(bytes, 1000), RangeError, "scale: int8 takes whole numbers"],
    [() => api.scale(bytes, word), TypeError, "scale: the factor must be"],
    [() => api.clip(bytes, -1000, 0), RangeError, "clip: int8 takes whole numbers"],
    [() => api.clip(pairs, 0, 1), DTypeError, "clip has no meaning for complex128 here"],
    [() => api.evaluate((x) => x.clip(0, 1), [pairs]), DTypeError, "clip has no meaning for complex128 here"],
    [() => api.fromFunction(runtime, [4], Slab.X, () => 1, odd), TypeError, "the options of fromFunction may have"],
    [() => api.eye(runtime, 4, Slab.X, odd), TypeError, "the options of eye may have no key"],
    [() => api.arange(runtime, 0, 4, 1, Slab.X, odd), TypeError, "the options of arange may have no key"],
    [() => api.linspace(runtime, 0, 4, 4, Slab.X, odd), TypeError, "the options of linspace may have no key"],
    [() => vector.show(odd), TypeError, "the options of show may have no key"],
    [() => api.stack([vector, 1 as unknown as DistributedArray]), TypeError, "stack: array 1 must be"],
    [
      () => api.matrixNorm(full([0, 3]), { ord: Infinity }),
      ShapeError,
      "matrixNorm: matrices without rows, as in an array of shape [0,3], have no largest sum",
    ],
  ];
  for (const [call, kind, message] of cases) assertThrowsEverywhere(runtime, call, kind, message);
  if (runtime.size === 1) return;
  const wanted = "kron: a is distributed as Slab.X and b as Slab.Y, and each rank needs all of one";
  assertThrowsEverywhere(runtime, () => api.kron(matrix, across), DistributionError, wanted);
  const place = { distribution: runtime.rank === 0 ? Slab.X : Replicated };
  assertThrowsEverywhere(runtime, () => api.stack([vector, vector], place), api.CollectiveError, "stack: the ranks");
});
