/**
 * The overlap engine on GPUs of compute capability 9.0: tile kernels between GPUs that address each other's memory.
 *
 * The kernels ran on one and two GPUs (`tests/gpu/tile_test.ts`, `bench/results/overlap_h200.json`). This engine around
 * them has never run on a GPU: what it plans is tested without one, and what it executes is not tested at all. So it is
 * taken only when it is asked for by name, and neither `engine: "auto"` nor `autotune` look at it.
 *
 * @module
 */
import { openNvrtc } from "../../../../ffi/cuda/nvrtc.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import { inMemory } from "../../../blas/gemm.ts";
import { isOne } from "../../../blas/arguments.ts";
import { ConfigurationError } from "../../../errors.ts";
import { copyOnDevice } from "../../../memory/copy.ts";
import { allocateSymmetric, type SymmetricBuffer } from "../../../memory/symmetric_memory.ts";
import { TileKernel } from "../../../overlap/executors/tile/kernel.ts";
import {
  type DeviceMatrix,
  exchangeLayout,
  TileProduct,
  tileRefusal,
} from "../../../overlap/executors/tile/product.ts";
import type { TileProblem } from "../../../overlap/tile_order.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import type { EpilogValues } from "../../matmul/epilog.ts";
import { isEmpty, type LocalOperands } from "../../matmul/problem.ts";
import type { AlgorithmReport, EnginePlan, EngineRequest, EngineValues, MatmulEngine, Refusal } from "../engine.ts";
import { describeOneDimensional } from "../host/one_dimensional.ts";
import { OVERLAP_ALGORITHMS, type OverlapAlgorithm } from "./host_strategy.ts";
import { type TileStrategy, tileStrategy, tileTraffic } from "./tile_strategy.ts";

const NAME = "overlap";
const NOTHING: EpilogValues = Object.freeze({});
const CHANGE = "Leave engine out: cublasmp takes the product.";

/** Null if a tile kernel can run a request on this runtime's GPUs. */
export function refuseTiles(request: EngineRequest, { device, size, localSize }: Runtime): Refusal | null {
  const [major, minor] = device.computeCapability ?? [0, 0];
  if (major !== 9 || minor !== 0) {
    return {
      reason:
        `tile kernels are for GPUs of compute capability 9.0 (H100, H200), and ${device.name} has ${major}.${minor}`,
      instead: CHANGE,
    };
  }
  if (localSize !== size) {
    return { reason: `its GPUs use each other's memory, and ${size} ranks are on several machines`, instead: CHANGE };
  }
  if (size === 1) return { reason: "one GPU has nothing to exchange", instead: CHANGE };
  if (isEmpty(request.problem)) return null;
  const found = tileStrategy(request);
  if ("reason" in found) return found;
  for (let rank = 0; rank < size; rank++) {
    const problem = found.problemOf(rank);
    const reason = tileRefusal(problem, denseLeading(problem));
    if (reason !== null) return { reason, instead: CHANGE };
  }
  return null;
}

/** The leading dimensions of matrices without gaps. */
function denseLeading({ kind, m, n, k, split, rank, size, isRowMajorA, isRowMajorB }: TileProblem) {
  const part = (extent: number, name: "rows" | "columns", isParted: boolean) =>
    isParted && split === name ? Math.floor(extent / size) + (rank < extent % size ? 1 : 0) : extent;
  const rowsOfA = part(m, "rows", kind === "gather");
  const columnsOfB = part(n, "columns", kind === "gather");
  return {
    a: isRowMajorA ? k : rowsOfA,
    b: isRowMajorB ? columnsOfB : k,
    d: part(n, "columns", kind === "reduce"),
  };
}

/** A product by a tile kernel. */
class TilePlan implements EnginePlan {
  readonly #runtime: Runtime;
  readonly #request: EngineRequest;
  readonly #tiles: TileStrategy;
  readonly #problem: TileProblem;
  #exchange: SymmetricBuffer | null = null;
  /** Where all ranks store into, if they store into each other's result. */
  #result: SymmetricBuffer | null = null;
  #product: TileProduct | null = null;

  constructor(runtime: Runtime, request: EngineRequest, tiles: TileStrategy) {
    this.#runtime = runtime;
    this.#request = request;
    this.#tiles = tiles;
    this.#problem = tiles.problemOf(runtime.rank);
    const { dtype, isRowMajorA, isRowMajorB } = this.#problem;
    // What one rank may fail at alone: to compile.
    TileKernel.of({ ...tiles.variant.shape, dtype, isRowMajorA, isRowMajorB }).prepare(runtime.stream!.device);
  }

  get workspaceBytes(): number {
    return exchangeLayout(this.#problem, this.#tiles.variant).bytes + this.#resultBytes;
  }

  get report(): AlgorithmReport {
    const { strategy, shape, variant } = this.#tiles;
    const order = variant.isExchange ? ", exchanged" : variant.lead === Infinity ? ", peers first" : "";
    return {
      engine: NAME,
      algorithm: strategy.algorithm,
      variant: `${describeOneDimensional(this.#request.problem, strategy)}; ${shape} tiles${order}`,
      workspaceBytes: this.workspaceBytes,
      bytesMoved: tileTraffic(this.#tiles, this.#request.problem),
      copies: this.#resultBytes > 0 ? ["D copied from memory that all ranks store into"] : [],
      notes: ["engine overlap has never run on a GPU: compare its results with engine cublasmp's"],
    };
  }

  open(): void {
    const symmetric = (bytes: number) =>
      allocateSymmetric(
        this.#runtime,
        () => ({ bytes, backend: "nvshmem", makeSymmetric: true, facts: {}, offer: null }),
      ).buffer;
    const { size, stream } = this.#runtime;
    const { variant } = this.#tiles;
    const exchange = this.#exchange = symmetric(exchangeLayout(this.#problem, variant).bytes);
    if (this.#resultBytes > 0) this.#result = symmetric(this.#resultBytes);
    const peers = Array.from({ length: size }, (_, rank) => exchange.peerAddress(rank));
    this.#product = new TileProduct(stream!, this.#problem, variant, peers);
    // Nobody writes into flags that are not zero yet.
    stream!.synchronize();
    exchange.synchronize();
  }

  prepare({ a, b, d }: LocalOperands, { alpha }: EngineValues): () => EpilogValues {
    if (!isOne(alpha)) {
      throw new ConfigurationError(`engine overlap: tile kernels have no alpha but 1, on GPUs. ${CHANGE}`);
    }
    const matrix = (local: LocalArray): DeviceMatrix => {
      const { address, leadingDimension } = inMemory(local);
      return { address, leading: leadingDimension };
    };
    // The transpose, with the factors exchanged.
    const operands = { a: matrix(b), b: matrix(a), d: matrix(d) };
    const reason = tileRefusal(this.#problem, {
      a: operands.a.leading,
      b: operands.b.leading,
      d: operands.d.leading,
    });
    if (reason !== null) throw new ConfigurationError(`engine overlap: ${reason}. ${CHANGE}`);
    return () => {
      this.#multiply(operands);
      return NOTHING;
    };
  }

  [Symbol.dispose](): void {
    this.#product?.[Symbol.dispose]();
    this.#exchange?.[Symbol.dispose]();
    this.#result?.[Symbol.dispose]();
  }

  /** Bytes of a result that the others store into; 0 if they do not. */
  get #resultBytes(): number {
    const { kind, m, n } = this.#problem;
    return kind === "all_reduce" && !this.#tiles.variant.isExchange ? m * n * 2 : 0;
  }

  #multiply(operands: { a: DeviceMatrix; b: DeviceMatrix; d: DeviceMatrix }): void {
    const product = this.#product!;
    if (this.#result === null) product.execute(operands);
    else this.#multiplyInto(this.#result, operands);
    // A rank that did not come is an error here, and never a wrong result.
    product.check();
  }

  /** All ranks store into memory that all address; from there it goes to D. */
  #multiplyInto(result: SymmetricBuffer, operands: { a: DeviceMatrix; b: DeviceMatrix; d: DeviceMatrix }): void {
    const { size, stream } = this.#runtime;
    const { m, n } = this.#problem;
    const { address, leading } = operands.d;
    const peersOfD = Array.from({ length: size }, (_, rank) => result.peerAddress(rank));
    this.#product!.execute({ ...operands, d: { address: result.address, leading: n }, peersOfD });
    const [runs, bytes] = leading === n ? [1, 2 * m * n] : [m, 2 * n];
    for (let run = 0; run < runs; run++) {
      copyOnDevice(address + BigInt(2 * run * leading), result.address + BigInt(2 * run * n), bytes, stream!);
    }
  }
}

/** The overlap engine for runtimes on GPUs. */
export const overlapTileEngine: MatmulEngine<"overlap", OverlapAlgorithm> = {
  name: NAME,
  device: "gpu",
  isOnlyByName: true,
  algorithms: OVERLAP_ALGORITHMS,
  open: () => `NVRTC ${openNvrtc().version}`,
  supports: refuseTiles,
  cost: (request) => {
    const found = tileStrategy(request);
    return "reason" in found ? Infinity : tileTraffic(found, request.problem);
  },
  plan(runtime, request) {
    const found = tileStrategy(request);
    if ("reason" in found) throw new ConfigurationError(`engine overlap: ${found.reason}. ${found.instead}`);
    return new TilePlan(runtime, request, found);
  },
};
