/**
 * Tile products and the memory between their ranks: made once by all ranks together, and shared by plans of the same
 * product, so that one after the other neither allocates nor compiles.
 *
 * @module
 */
import { LocalArray } from "../../../array/local_array.ts";
import { allocateForPlan, type SymmetricBuffer } from "../../../memory/symmetric_memory.ts";
import type { CompiledEpilog } from "../../../overlap/executors/tile/configuration.ts";
import { patienceFor } from "../../../gpu/waiting.ts";
import { PATIENCE_SECONDS } from "../../../overlap/executors/patience.ts";
import { exchangeLayout, padded } from "../../../overlap/executors/tile/exchange.ts";
import { TileProduct } from "../../../overlap/executors/tile/product.ts";
import { agree, freeUnlessAgreed } from "../../../runtime/agreement.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { type Use, useShared } from "../communicator_resources.ts";
import type { TileStrategy } from "./tile_strategy.ts";

/** Memory that all ranks store their parts of a sum into. */
export interface SymmetricResult {
  readonly buffer: SymmetricBuffer;
  /** This rank's, column-major. */
  readonly local: LocalArray;
}

/** What plans share. */
export interface SharedProduct {
  readonly product: TileProduct;
  readonly exchange: SymmetricBuffer;
  /** Where all ranks have the sum, if they store into each other's. */
  readonly result: SymmetricResult | null;
  /** Bytes of all of it on this rank, and of what only this rank uses. */
  readonly byteLength: number;
}

/** What a product is told apart by: the same on all ranks. */
function keyOf(runtime: Runtime, { partition, problemOf, variant }: TileStrategy): string {
  const { dtype, narrow, isRowMajorA, isRowMajorB } = problemOf(0);
  const problem = [partition, dtype, narrow, isRowMajorA, isRowMajorB];
  return `tile product ${
    JSON.stringify([problem, { ...variant, lead: String(variant.lead) }, patienceFor(runtime, PATIENCE_SECONDS)])
  }`;
}

/** The product of a strategy, whatever follows it; whoever makes it has compiled the kernel for `epilog`. Collective. */
export function useTileProduct(runtime: Runtime, strategy: TileStrategy, epilog: CompiledEpilog): Use<SharedProduct> {
  const { communicator } = runtime;
  return useShared(communicator, keyOf(runtime, strategy), () => makeProduct(runtime, strategy, epilog), (made) => {
    const { product, exchange, result } = made;
    product[Symbol.dispose]();
    exchange.end();
    result?.buffer.end();
  });
}

function makeProduct(
  runtime: Runtime,
  { problemOf, variant }: TileStrategy,
  epilog: CompiledEpilog,
): SharedProduct {
  const { size, rank } = runtime;
  const stream = runtime.stream!;
  const patienceSeconds = patienceFor(runtime, PATIENCE_SECONDS);
  const problem = problemOf(rank);
  const symmetric = (bytes: number) => allocateForPlan(runtime, "nvshmem", bytes);
  const exchange = symmetric(exchangeLayout(problem, variant).bytes);
  const { kind, m, n, dtype } = problem;
  const leading = padded(n);
  let buffer: SymmetricBuffer | null = null;
  let product!: TileProduct;
  try {
    if (kind === "all_reduce" && !variant.isExchange) buffer = symmetric(m * leading * 2);
    // One rank alone may have no memory for its list of tiles, or no link to another.
    agree(runtime, "Matmul.plan", () => {
      const peers = Array.from({ length: size }, (_, peer) => exchange.peerAddress(peer));
      freeUnlessAgreed(product = new TileProduct(stream, problem, variant, peers, { epilog, patienceSeconds }));
    });
  } catch (error) {
    exchange.end();
    buffer?.end();
    throw error;
  }
  // Nobody writes into flags that are not zero yet.
  exchange.synchronize();
  const local = buffer && new LocalArray({ data: buffer, dtype, shape: [n, m], strides: [1, leading] });
  return {
    product,
    exchange,
    result: buffer && { buffer, local: local! },
    byteLength: exchange.byteLength + (buffer?.byteLength ?? 0) + product.byteLength,
  };
}
