/**
 * CUDA graphs: work of a GPU that was put on a stream once, and is launched again as one.
 *
 * @module
 */
import { checkCuda, CudaStreamCaptureMode, openCudaGraphs, openCudaRuntime } from "../../ffi/cuda/runtime.ts";
import { ConfigurationError, StateError } from "../errors.ts";
import { describe } from "../options.ts";
import { RunOrder } from "./run_order.ts";
import type { Stream } from "./stream.ts";

/** Whose stream work is captured from: a runtime. */
export interface StreamOwner {
  /** Where work is queued by default; `null` on a CPU. */
  readonly stream: Stream | null;
}

/**
 * Work that was captured from a runtime's stream. Source: cudaStreamBeginCapture, cudaGraphInstantiate, cudaGraphLaunch.
 *
 * What is captured must have run once before (plans, communicators and kernels are made at first use), must write into
 * arrays that exist already (products with `inplace: true`), and must not wait for the GPU. A launch reads and writes the
 * same memory as the capture did: keep the arrays. All ranks launch what they captured together equally often.
 *
 * @example
 * ```ts no-eval
 * import { DistributedArray, Graph, initialize, Matmul, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize({ device: 0 });
 * const [a, b, c] = [Slab.X, Slab.Y, Slab.X].map((slab) => DistributedArray.full(runtime, [64, 64], slab, 1));
 * using product = new Matmul(a, b, { c, beta: 1, inplace: true });
 * product.plan();
 * product.execute();
 * using graph = Graph.capture(runtime, () => product.execute());
 * for (let i = 0; i < 10; i++) graph.launch();
 * ```
 */
export class Graph implements Disposable {
  readonly #stream: Stream;
  /** Whether it waits for other GPUs. */
  readonly #isJoint: boolean;
  #handle: bigint | null;

  private constructor(stream: Stream, handle: bigint, isJoint: boolean) {
    this.#stream = stream;
    this.#handle = handle;
    this.#isJoint = isJoint;
  }

  /**
   * Capture what `body` puts on the runtime's stream; it does not run. Collective if what is captured is.
   *
   * @throws {ConfigurationError} on a CPU.
   * @throws {TypeError} if `body` is no function, or an asynchronous one: what follows its first `await` would not be captured.
   * @throws what `body` throws.
   */
  static capture(runtime: StreamOwner, body: () => void): Graph {
    const { stream } = runtime;
    if (stream === null) throw new ConfigurationError("Graph.capture is for GPUs; this runtime's device is a CPU.");
    if (typeof body !== "function") {
      throw new TypeError(`Graph.capture takes a function that puts work on the stream, not ${describe(body)}.`);
    }
    const symbols = openCudaGraphs();
    checkCuda(symbols.cudaStreamBeginCapture(stream.handle, CudaStreamCaptureMode.Relaxed), "cudaStreamBeginCapture");
    const out = new BigUint64Array(1);
    const order = RunOrder.of(stream);
    const { count } = order;
    let failure: { error: unknown } | null = null;
    try {
      const returned: unknown = body();
      if (returned instanceof Promise) {
        throw new TypeError(
          "Graph.capture: the function is asynchronous, and what follows its first await would not be captured. Await before, " +
            "and pass a function that is not.",
        );
      }
    } catch (error) {
      failure = { error };
    }
    const code = symbols.cudaStreamEndCapture(stream.handle, out);
    if (failure) {
      if (code === 0 && out[0] !== 0n) symbols.cudaGraphDestroy(out[0]);
      openCudaRuntime().symbols.cudaGetLastError();
      throw failure.error;
    }
    checkCuda(code, "cudaStreamEndCapture");
    const graph = out[0];
    try {
      checkCuda(symbols.cudaGraphInstantiate(out, graph, 0n), "cudaGraphInstantiate");
    } finally {
      checkCuda(symbols.cudaGraphDestroy(graph), "cudaGraphDestroy");
    }
    return new Graph(stream, out[0], order.count > count);
  }

  /**
   * Put all of it on a stream, by default the runtime's. Does not wait. On another one it follows what is on the runtime's if
   * it holds a product or a redistribution between GPUs: these are done in turn.
   *
   * @throws {StateError} after it was disposed of.
   */
  launch(stream: Stream = this.#stream): void {
    if (this.#handle === null) throw new StateError("This Graph was disposed of; capture a new one.");
    const order = this.#isJoint ? RunOrder.of(this.#stream) : null;
    order?.begin(stream);
    checkCuda(openCudaGraphs().cudaGraphLaunch(this.#handle, stream.handle), "cudaGraphLaunch");
    order?.end(stream);
  }

  /** Let go of it, after what was launched. */
  [Symbol.dispose](): void {
    if (this.#handle === null) return;
    this.#stream.synchronize();
    checkCuda(openCudaGraphs().cudaGraphExecDestroy(this.#handle), "cudaGraphExecDestroy");
    this.#handle = null;
  }
}

/**
 * Refuse what a graph cannot hold, while a stream is captured. Local.
 *
 * @throws {StateError} that names `what`, in the plural.
 */
export function refuseCapture(stream: Stream | null, what: string): void {
  if (!stream?.isCapturing) return;
  throw new StateError(`${what} cannot be captured in a CUDA graph. Call them before or after Graph.capture.`);
}
