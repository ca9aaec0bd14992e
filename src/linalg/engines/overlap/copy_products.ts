/**
 * Products by copy engines and the memory between their ranks: made once by all ranks together, and shared by plans of the
 * same product.
 *
 * @module
 */
import { prepareWords } from "../../../gpu/kernels/flag_kernels.ts";
import { DeviceBuffer } from "../../../memory/device_buffer.ts";
import { allocateForPlan } from "../../../memory/symmetric_memory.ts";
import { CopyEngineProduct, exchangeBytes } from "../../../overlap/executors/copy_engine/product.ts";
import { patienceFor } from "../../../gpu/waiting.ts";
import { PATIENCE_SECONDS } from "../../../overlap/executors/patience.ts";
import { agree, freeUnlessAgreed } from "../../../runtime/agreement.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import type { Stream } from "../../../gpu/stream.ts";
import { isQuantized } from "../../matmul/quantization.ts";
import type { EngineValues } from "../engine.ts";
import { type Use, useShared } from "../communicator_resources.ts";
import type { CopyStrategy } from "./copy_strategy.ts";

/** Scales lie this far apart. */
const CELL_BYTES = 16;

const SCALED = ["a", "b", "c", "d"] as const;

/** The scales of a product where cuBLASLt reads them. */
class ScaleCells {
  readonly #memory: DeviceBuffer;
  readonly #setWords: ReturnType<typeof prepareWords>;
  #values = "";
  #isCaptured = false;

  constructor(stream: Stream) {
    this.#memory = new DeviceBuffer(stream, SCALED.length * CELL_BYTES);
    this.#setWords = prepareWords(this.#memory.address, CELL_BYTES, stream.device);
  }

  /** Where the scales of a product's 8-bit matrices lie. */
  addresses(types: Readonly<Record<typeof SCALED[number], string>>): Record<string, bigint> {
    const cells = SCALED.map((name, i) => [name, this.#memory.address + BigInt(i * CELL_BYTES)] as const);
    return Object.fromEntries(cells.filter(([name]) => types[name].startsWith("float8")));
  }

  /** Set them for what follows on a stream, unless they are as before: once graphs set them, nobody knows. */
  set(scales: EngineValues["scales"], stream: Stream): void {
    const values = Float32Array.from(SCALED, (name) => Number(scales[name] ?? 1));
    this.#isCaptured ||= stream.isCapturing;
    if (!this.#isCaptured && values.join() === this.#values) return;
    this.#values = values.join();
    // Graphs keep what a kernel is given; a copy would read the host's memory when they are launched.
    this.#setWords(new Uint32Array(values.buffer), stream);
  }

  free(): void {
    this.#memory.free();
  }
}

/** What plans share. */
export interface SharedCopies {
  readonly product: CopyEngineProduct;
  /** Null where no matrix is 8 bits wide. */
  readonly scales: ScaleCells | null;
  /** Bytes of all of it on this rank. */
  readonly byteLength: number;
}

/** The product of a strategy. Collective. */
export function useCopyProduct(runtime: Runtime, strategy: CopyStrategy): Use<SharedCopies> {
  const { rank: _, ...same } = strategy.problemOf(0);
  const key = `copies ${JSON.stringify([same, strategy.variant, patienceFor(runtime, PATIENCE_SECONDS)])}`;
  return useShared(runtime.communicator, key, () => makeProduct(runtime, strategy), ({ product, scales, exchange }) => {
    product[Symbol.dispose]();
    scales?.free();
    exchange.end();
  });
}

function makeProduct(runtime: Runtime, { problemOf, variant }: CopyStrategy) {
  const { size, rank } = runtime;
  const stream = runtime.stream!;
  const problem = problemOf(rank);
  const bytes = exchangeBytes(problem, variant);
  const exchange = allocateForPlan(runtime, "nvshmem", bytes);
  let product!: CopyEngineProduct;
  let scales: ScaleCells | null = null;
  try {
    // One rank alone may have no memory, or no link to another.
    agree(runtime, "Matmul.plan", () => {
      const peers = Array.from({ length: size }, (_, peer) => exchange.peerAddress(peer));
      scales = isQuantized(problem.types.a) ? new ScaleCells(stream) : null;
      const addresses = (scales as ScaleCells | null)?.addresses(problem.types) ?? {};
      const options = { patienceSeconds: patienceFor(runtime, PATIENCE_SECONDS) };
      product = new CopyEngineProduct(stream, { ...problem, scales: addresses }, variant, peers, options);
      freeUnlessAgreed(product);
    });
  } catch (error) {
    (scales as ScaleCells | null)?.free();
    exchange.end();
    throw error;
  }
  // Nobody writes into flags that are not zero yet.
  exchange.synchronize();
  return {
    product,
    scales: scales as ScaleCells | null,
    exchange,
    byteLength: exchange.byteLength + product.byteLength,
  };
}
