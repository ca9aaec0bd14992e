/**
 * The product without communication.
 *
 * @module
 */
import type { GemmCall, MatrixInMemory } from "../../../blas/gemm.ts";
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

  /** Take the addresses of other matrices. */
  protected override bind(a: MatrixInMemory, b: MatrixInMemory, d: MatrixInMemory): void {
    this.#call.setMatrices(a, b, d);
  }

  protected override run(): void {
    this.#call.run(this.alpha.address, this.beta.address);
  }
}
