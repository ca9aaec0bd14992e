/**
 * The windows of the products of a runtime in host memory: made once by all ranks together, and shared by plans.
 *
 * @module
 */
import { ConfigurationError } from "../../../errors.ts";
import { allocateForPlan } from "../../../memory/symmetric_memory.ts";
import { sharedBytes, Windows } from "../../../overlap/executors/host/windows.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { type Use, useShared } from "../communicator_resources.ts";

/** Plans of about the same size share windows: bytes are rounded up to a power of two, and this many at least. */
const LEAST_BYTES = 2 ** 16;

function roundedUp(bytes: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(bytes, LEAST_BYTES)));
}

/** Two for each rank: what it sends to the others, and what they get back. */
const flagsFor = (size: number) => 2 * size;

/** Bytes of shared memory on each rank, for windows of so many. */
export function sharedWindowBytes(size: number, bytes: number): number {
  return size === 1 ? 0 : sharedBytes(flagsFor(size), roundedUp(bytes));
}

/**
 * Windows of at least so many bytes. Collective.
 *
 * @throws {ConfigurationError} on every rank if there is not so much shared memory.
 */
export function useWindows(runtime: Runtime, bytes: number): Use<Windows> {
  const { communicator, rank, size } = runtime;
  if (size === 1) return { value: aloneWindows(), [Symbol.dispose]() {} };
  const rounded = roundedUp(bytes);
  const shared = useShared(communicator, `overlap windows of ${rounded} bytes`, () => {
    try {
      const buffer = allocateForPlan(runtime, "mpi", sharedWindowBytes(size, bytes));
      const layout = { rank, size, flags: flagsFor(size), windowBytes: rounded };
      // MPI may have something to go on with that the rank that is waited for needs.
      const progress = () => void communicator.probeNow();
      return { buffer, windows: new Windows(buffer, layout, progress) };
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error;
      throw new ConfigurationError(
        `engine overlap: its windows in shared memory cannot be made. ${error.message} Or leave engine out.`,
        { cause: error },
      );
    }
  }, ({ buffer }) => buffer.end());
  return { value: shared.value.windows, [Symbol.dispose]: () => shared[Symbol.dispose]() };
}

/** One rank shares nothing. */
function aloneWindows(): Windows {
  const nothing = new ArrayBuffer(0);
  const memory = { peerHost: () => nothing, peerAddress: () => 0n };
  return new Windows(memory, { rank: 0, size: 1, flags: 0, windowBytes: 0 });
}
