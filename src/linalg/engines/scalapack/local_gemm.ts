/**
 * The product without communication.
 *
 * @module
 */
import type { LocalArray } from "../../../array/local_array.ts";
import type { ScalarArgument } from "../../../blas/arguments.ts";
import { type GemmCall, inMemory } from "../../../blas/gemm.ts";
import { Algorithm, type AlgorithmContext } from "./algorithm.ts";

/** Every rank has all that its part of D needs. */
export class LocalGemm extends Algorithm {
  readonly #call: GemmCall;

  /** One call of BLAS. */
  constructor(context: AlgorithmContext) {
    super(context);
    const [m, n] = this.strategy.d.localShape(this.rank);
    this.#call = this.gemm({ m, n, k: this.problem.k });
  }

  override multiply(a: LocalArray, b: LocalArray, d: LocalArray, alpha: ScalarArgument, beta: ScalarArgument): void {
    this.#call.setMatrices(inMemory(a), inMemory(b), inMemory(d));
    this.#call.run(alpha.address, beta.address);
  }
}
