/**
 * Waiting for a GPU, which may itself wait for other ranks: for NCCL, or in a kernel.
 *
 * CUDA's own waits are native calls in which nothing else can be looked at. Here the GPU is asked again and again in their
 * place: at first without a pause, as they do themselves. What lasts longer is told to those who look at ranks that wait,
 * and errors that NCCL finds on the way end it.
 *
 * @module
 */
import { Asking } from "../../ffi/awaiting.ts";
import { checkCuda, CudaStatus, openCudaRuntime } from "../../ffi/cuda/runtime.ts";
import { GPU_WAITS } from "../../ffi/cuda/waiting_functions.ts";
import { lineOfScript, lookAtWaits } from "../../ffi/script_line.ts";
import { begun, noteWaiting, within } from "../../ffi/waiting.ts";
import { checkWatches, lookAround } from "./watch.ts";

/** How a stream or an event tells whether all has been done. */
type Query = (handle: bigint) => number;

/** More would not fit into the words of kernels. */
const LONGEST_PATIENCE_SECONDS = 1e9;

/** How long kernels wait for other ranks: as long as a runtime's time limit, if that is longer than usual. */
export function patienceFor(
  { timeoutSeconds }: { readonly timeoutSeconds: number | null },
  usualSeconds: number,
): number {
  return Math.min(Math.max(usualSeconds, timeoutSeconds ?? 0), LONGEST_PATIENCE_SECONDS);
}

/** So long the GPU is asked without a pause. */
const HASTE_MILLISECONDS = 20;

/** Then pauses are this part of what has been waited for, so that they hardly count, up to a longest one. */
const PAUSE_SHARE = 1 / 256;
const LONGEST_PAUSE_MILLISECONDS = 1;

const LOOK_MILLISECONDS = 50;

const never = new Int32Array(new SharedArrayBuffer(4));

/** What was found while waiting. What is told around calls, when they end, would not be told if they threw it. */
let found: { readonly error: unknown } | null = null;

function askPatiently(query: Query, handle: bigint): number {
  const start = performance.now();
  let lookAt = start;
  while (true) {
    const code = query(handle);
    if (code !== CudaStatus.ErrorNotReady) return code;
    const now = performance.now();
    if (now >= lookAt) {
      lookAt = now + LOOK_MILLISECONDS;
      try {
        lookAround();
      } catch (error) {
        found = { error };
        return CudaStatus.Success;
      }
    }
    Atomics.wait(never, 0, 0, Math.min(LONGEST_PAUSE_MILLISECONDS, (now - start) * PAUSE_SHARE));
  }
}

/** What a script waits for that asks whether a GPU is done, under the name of CUDA's function for such a wait. */
export function askingFor(name: "cudaStreamSynchronize" | "cudaEventSynchronize"): Asking {
  return new Asking(() => ({ name, scope: 0, turn: 0, line: lineOfScript() }));
}

/** Tell that it was asked for, and what the answer is. */
export function told(isDone: boolean, asking: Asking): boolean {
  if (isDone) asking.end();
  else asking.again();
  return isDone;
}

const waits = {
  cudaStreamSynchronize: askPatiently,
  cudaEventSynchronize: askPatiently,
  cudaDeviceSynchronize: (synchronize: () => number): number => synchronize(),
};
noteWaiting(waits, GPU_WAITS);

/**
 * Wait until a query says that all has been done, under the name of CUDA's function for that.
 *
 * @throws {CudaError} if the GPU's work has failed.
 * @throws what is found by those who look around meanwhile, or afterwards.
 */
export function waitForGpu(name: "cudaStreamSynchronize" | "cudaEventSynchronize", query: Query, handle: bigint): void {
  let code = query(handle);
  if (code === CudaStatus.ErrorNotReady) {
    code = keepAsking(name, query, handle);
    forgetNotReady();
  }
  checkCuda(code, name);
  checkWatches();
}

/** A library that asks for CUDA's last error would take it for one of its own that a query found a GPU at work. */
export function forgetNotReady(): void {
  openCudaRuntime().symbols.cudaGetLastError();
}

function keepAsking(name: "cudaStreamSynchronize" | "cudaEventSynchronize", query: Query, handle: bigint): number {
  const end = performance.now() + HASTE_MILLISECONDS;
  let code: number;
  do {
    code = query(handle);
    if (code !== CudaStatus.ErrorNotReady) return code;
  } while (performance.now() < end);
  // What is waited for was put on the GPU by the operation that was begun last.
  lookAtWaits(1);
  code = within(begun ?? "", () => waits[name](query, handle));
  if (found === null) return code;
  const { error } = found;
  found = null;
  throw error;
}

/** Wait for all of this process's work on the current GPU: by a native call, since there is nothing to ask. */
export function waitForDevice(synchronize: () => number): void {
  checkCuda(waits.cudaDeviceSynchronize(synchronize), "cudaDeviceSynchronize");
  checkWatches();
}
