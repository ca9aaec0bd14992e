/**
 * The distributed matrix product in one call.
 *
 * @module
 */
import { type DistributedArray, runtimeOf } from "../../array/distributed_array.ts";
import { agree } from "../../runtime/agreement.ts";
import { readArguments } from "./checked_product.ts";
import { describeEpilog, epilogNamed, hasExtraOutputs } from "./epilog.ts";
import { Matmul } from "./matmul_class.ts";
import type { MatmulOptions } from "./options.ts";

/**
 * Multiply distributed matrices: D = epilog(alpha op(A) op(B) + beta C). Collective.
 *
 * The same as making a {@linkcode Matmul}, planning, executing and disposing it, which is the way to go when more than
 * one such product is needed, or an epilog with more outputs than D.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, matmul, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * const a = DistributedArray.random(runtime, [1024, 128], Slab.Y, { dtype: "float32" });
 * const b = DistributedArray.random(runtime, [1024, 512], Slab.Y, { dtype: "float32" });
 * using d = matmul(a, b, { qualifiers: { a: { isTranspose: true } }, distribution: Slab.X });
 * console.assert(d.shape.join() === "128,512");
 * ```
 *
 * @param a the left factor, m x k after its qualifiers
 * @param b the right factor, k x n after its qualifiers
 * @returns D, m x n, in new memory; C itself with `inplace`
 * @throws {TypeError} if an option is unknown, missing or of the wrong type, or the epilog has more outputs than D
 * @throws {ShapeError | DTypeError | DistributionError} if the matrices do not fit each other
 * @throws {StateError} if a matrix was freed
 * @throws {ConfigurationError} if no engine on this machine can do what is asked
 * @throws {CollectiveError} if ranks differ in what they ask for
 */
export function matmul(a: DistributedArray, b: DistributedArray, options: MatmulOptions = {}): DistributedArray {
  const count = arguments.length;
  let given!: MatmulOptions;
  agree(runtimeOf(a, b), "matmul", () => {
    given = readArguments("matmul(a, b, options)", options, count);
    checkOutputs(given);
  });
  using product = new Matmul(a, b, given);
  product.plan();
  return product.execute();
}

/** There is nobody to take other outputs than D. */
function checkOutputs(options: MatmulOptions): void {
  const name = epilogNamed(options.epilog);
  const epilog = describeEpilog(name, { auxDType: "float32", resultAmax: options.resultAmax ?? false });
  if (!hasExtraOutputs(epilog)) return;
  const what = epilog.resultAmax ? "resultAmax" : `epilog ${name}`;
  throw new TypeError(`${what} has more outputs than D. Use class Matmul, whose auxiliary holds them after execute().`);
}
