/**
 * Copies between host memory and GPUs: through pinned staging memory, so that the GPU's copy engine works while the next
 * piece is brought to or from the staging memory.
 *
 * @module
 */
import { checkCuda, CudaHostFlags, CudaMemcpyKind, openCudaRuntime } from "../../ffi/cuda/runtime.ts";
import { addressOf, copyFromAddress } from "../../ffi/memory.ts";
import { beforeMpiEnds } from "../mpi/init_finalize.ts";
import { Event, hasHappened } from "../gpu/event.ts";
import type { Stream } from "../gpu/stream.ts";
import { checkWatches } from "../gpu/watch.ts";
import { CHUNK_BYTES, CopyCrew, SLOTS } from "./copy_crew.ts";
import { PinnedBuffer } from "./pinned.ts";

/** Below this many bytes the driver's own staging is faster. */
const WORTH_STAGING = 2 ** 20;

/** From this many bytes on more threads are worth their start. */
const WORTH_A_CREW = 2 ** 26;

/** The pinned memory of this process, made at the first large copy. */
interface PinnedRoom {
  memory: PinnedBuffer;
  events: Event[];
  crew: CopyCrew;
}

let staging: PinnedRoom | undefined;

function openStaging(bytes: number): PinnedRoom {
  if (staging === undefined) {
    const events = Array.from({ length: SLOTS }, () => new Event());
    const made = { memory: new PinnedBuffer(SLOTS * CHUNK_BYTES), events, crew: new CopyCrew() };
    beforeMpiEnds(() => {
      staging = undefined;
      made.events.forEach((event) => event[Symbol.dispose]());
      made.memory.free();
    });
    staging = made;
  }
  if (bytes >= WORTH_A_CREW) staging.crew.start();
  return staging;
}

/** Up to this many bytes come through pinned memory of their own, for which nothing but the GPU is waited for. */
const BOUNCE_BYTES = 2 ** 18;

let bounce: bigint | null | undefined;

/** The pinned memory for small copies from GPUs; `null` if so little cannot be had. */
function openBounceBuffer(): bigint | null {
  if (bounce !== undefined) return bounce;
  const { symbols } = openCudaRuntime();
  const out = new BigUint64Array(1);
  const code = symbols.cudaHostAlloc(out, BigInt(BOUNCE_BYTES), CudaHostFlags.AllocDefault);
  if (code !== 0) {
    symbols.cudaGetLastError();
    return bounce = null;
  }
  beforeMpiEnds(() => {
    bounce = undefined;
    symbols.cudaFreeHost(out[0]);
  });
  return bounce = out[0];
}

/** Have ready what copies of so many bytes between host and GPU need, so that they allocate nothing. */
export function prepareCopies(bytes: number): void {
  if (bytes >= WORTH_STAGING) openStaging(bytes);
}

function copyAsync(target: bigint, source: bigint, bytes: number, kind: CudaMemcpyKind, stream: Stream): void {
  const code = openCudaRuntime().symbols.cudaMemcpyAsync(target, source, BigInt(bytes), kind, stream.handle);
  checkCuda(code, "cudaMemcpyAsync");
}

/**
 * Copy host memory to a GPU. `source` may change as soon as this returns; work on the stream finds the data.
 *
 * @example
 * ```ts no-eval
 * import { copyFromDevice, copyToDevice, DeviceBuffer, initialize } from "@distmath/distmath";
 *
 * const { stream } = initialize({ device: 0 });
 * using buffer = new DeviceBuffer(stream!, 32);
 * copyToDevice(buffer.address, Float64Array.of(1, 2, 3, 4), stream!);
 * const back = new Float64Array(4);
 * copyFromDevice(back, buffer.address, stream!);
 * ```
 */
export function copyToDevice(target: bigint, source: ArrayBufferView<ArrayBuffer>, stream: Stream): void {
  const bytes = source.byteLength;
  if (bytes === 0) return;
  if (bytes < WORTH_STAGING) {
    return copyAsync(target, addressOf(source), bytes, CudaMemcpyKind.HostToDevice, stream);
  }
  const { memory, events, crew } = openStaging(bytes);
  const count = Math.ceil(bytes / CHUNK_BYTES);
  // A stream that was disposed of says so before the crew begins.
  void stream.handle;
  crew.begin(addressOf(source), memory.address, bytes, true);
  crew.allow(Math.min(count, SLOTS));
  // A chunk is copied into a slot, sent, and lands; then the slot is free for the chunk SLOTS further on.
  let [sent, landed] = [0, 0];
  try {
    while (landed < count) {
      if (sent < count && crew.hasCopied(sent)) {
        const [start, slot] = [sent * CHUNK_BYTES, sent % SLOTS];
        const length = Math.min(CHUNK_BYTES, bytes - start);
        const from = memory.address + BigInt(slot * CHUNK_BYTES);
        copyAsync(target + BigInt(start), from, length, CudaMemcpyKind.HostToDevice, stream);
        events[slot].record(stream);
        sent++;
      } else if (landed < sent && hasHappened(events[landed % SLOTS])) {
        landed++;
        if (landed + SLOTS <= count) crew.allow(landed + SLOTS);
      } else if (sent === Math.min(count, landed + SLOTS)) {
        // Only the GPU can go on, which may be busy, or wait for other ranks.
        events[landed % SLOTS].synchronize();
      } else {
        crew.help();
      }
    }
  } finally {
    crew.end();
  }
}

/**
 * Copy memory of a GPU to the host, after all that is on the stream; it is there when this returns.
 *
 * @example
 * ```ts no-eval
 * import { copyFromDevice, DistributedArray, initialize, Slab } from "@distmath/distmath";
 *
 * const runtime = initialize({ device: 0 });
 * using array = DistributedArray.full(runtime, [4 * runtime.size], Slab.X, 1, { dtype: "float32" });
 * const { local } = array;
 * const part = new Float32Array(4);
 * if (local.isOnDevice) copyFromDevice(part, local.address, runtime.stream!);
 * ```
 */
export function copyFromDevice(target: ArrayBufferView<ArrayBuffer>, source: bigint, stream: Stream): void {
  const bytes = target.byteLength;
  if (bytes === 0) return;
  const bounce = bytes <= BOUNCE_BYTES ? openBounceBuffer() : null;
  if (bounce !== null) {
    copyAsync(bounce, source, bytes, CudaMemcpyKind.DeviceToHost, stream);
    stream.synchronize();
    return copyFromAddress(target, bounce);
  }
  // The driver would wait inside of the copy, where errors of NCCL are not looked for.
  stream.synchronize();
  if (bytes < WORTH_STAGING) {
    copyAsync(addressOf(target), source, bytes, CudaMemcpyKind.DeviceToHost, stream);
    return stream.synchronize();
  }
  const { memory, events, crew } = openStaging(bytes);
  const count = Math.ceil(bytes / CHUNK_BYTES);
  crew.begin(addressOf(target), memory.address, bytes, false);
  // A chunk is fetched into a slot, lands, and is copied to the target; then the slot is free for another.
  let [fetched, landed, copied] = [0, 0, 0];
  try {
    while (copied < count) {
      if (fetched < count && fetched < copied + SLOTS) {
        const [start, slot] = [fetched * CHUNK_BYTES, fetched % SLOTS];
        const length = Math.min(CHUNK_BYTES, bytes - start);
        const to = memory.address + BigInt(slot * CHUNK_BYTES);
        copyAsync(to, source + BigInt(start), length, CudaMemcpyKind.DeviceToHost, stream);
        events[slot].record(stream);
        fetched++;
      } else if (landed < fetched && hasHappened(events[landed % SLOTS])) {
        crew.allow(++landed);
      } else if (crew.hasCopied(copied)) {
        copied++;
      } else {
        crew.help();
      }
    }
  } finally {
    crew.end();
  }
  checkWatches();
}

/** Copy memory of the GPU to other memory of it, in the order of the stream. */
export function copyOnDevice(target: bigint, source: bigint, bytes: number, stream: Stream): void {
  if (bytes > 0) copyAsync(target, source, bytes, CudaMemcpyKind.DeviceToDevice, stream);
}

/** Rows of bytes: how long they are, how many, and from one to the next. */
export interface Plane {
  readonly width: number;
  readonly height: number;
  readonly sourcePitch: number;
  readonly targetPitch: number;
}

/** Copy rows in the memory of GPUs by a copy engine, in the order of the stream. */
export function copyPlaneOnDevice(target: bigint, source: bigint, plane: Plane, stream: Stream): void {
  const { width, height, sourcePitch, targetPitch } = plane;
  const code = openCudaRuntime().symbols.cudaMemcpy2DAsync(
    target,
    BigInt(targetPitch),
    source,
    BigInt(sourcePitch),
    BigInt(width),
    BigInt(height),
    CudaMemcpyKind.DeviceToDevice,
    stream.handle,
  );
  checkCuda(code, "cudaMemcpy2DAsync");
}

/** Set bytes of a GPU's memory to zero, in the order of the stream. */
export function clearOnDevice(target: bigint, bytes: number, stream: Stream): void {
  if (bytes === 0) return;
  checkCuda(openCudaRuntime().symbols.cudaMemsetAsync(target, 0, BigInt(bytes), stream.handle), "cudaMemsetAsync");
}
