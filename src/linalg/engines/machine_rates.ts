/**
 * What this machine's GPUs can do: measured once, by `autotune`, and kept on disk. Until then the rates are those of H200s.
 *
 * @module
 */
import { CublasComputeType, openCublasLt } from "../../../ffi/cuda/cublaslt.ts";
import { CudaDeviceAttribute } from "../../../ffi/cuda/runtime.ts";
import { type MeasuredRates, measuredRates, noteRates } from "../../array/gpu_model.ts";
import { scalar } from "../../blas/arguments.ts";
import { GEMM_WORKSPACE_BYTES, GpuGemm } from "../../blas/gpu_gemm.ts";
import { Event } from "../../gpu/event.ts";
import type { Stream } from "../../gpu/stream.ts";
import { copyOnDevice, copyToDevice } from "../../memory/copy.ts";
import { DeviceBuffer } from "../../memory/device_buffer.ts";
import { allocateSymmetric } from "../../memory/symmetric_memory.ts";
import { H200_RATES, type Rates } from "../../overlap/cost_model.ts";
import { agree } from "../../runtime/agreement.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { cachedFile, readFacts, writeFacts } from "./measurements.ts";

const MEASURED = ["flops", "link", "memory", "gemmStart", "copyStart"] as const satisfies (keyof MeasuredRates)[];

/** What a runtime's GPUs can do, as far as is known. Local, and the same on all ranks. */
export function ratesOf(runtime: Runtime): Rates {
  const measured = measuredRates(runtime);
  if (!measured) return H200_RATES;
  // What kernels store is to what copy engines send as on H200s.
  return { ...H200_RATES, ...measured, stores: H200_RATES.stores * measured.link / H200_RATES.link };
}

/** Read what was measured on this machine, unless it is known. Collective. */
export function loadRates(runtime: Runtime): void {
  const { communicator, rank } = runtime;
  if (measuredRates(runtime) !== undefined) return;
  noteRates(runtime, communicator.broadcastObject(rank === 0 ? read(fileOf(runtime)) : null));
}

/** Measure the rates of this machine, unless they are known: a tenth of a second, between ranks on one machine. Collective. */
export function measureRates(runtime: Runtime): void {
  const { communicator, rank, size, localSize } = runtime;
  loadRates(runtime);
  if (measuredRates(runtime) || size === 1 || localSize !== size) return;
  const own = measure(runtime);
  // The slowest rank counts: of rates the least, of times the most.
  const values = MEASURED.map((name) => name.endsWith("Start") ? -own[name] : own[name]);
  const least = communicator.allReduce(Float64Array.from(values), { op: "min" });
  const entries = MEASURED.map((name, i) => [name, Math.abs(least[i])]);
  const measured = Object.fromEntries(entries) as Record<keyof MeasuredRates, number>;
  if (rank === 0) writeFacts(fileOf(runtime), { device: runtime.device.name, ranks: size, measured });
  noteRates(runtime, measured);
}

function fileOf({ device, size }: Runtime): string | undefined {
  return cachedFile("rates", [device.name, String(size), String(openCublasLt().version)]);
}

function read(file: string | undefined): MeasuredRates | null {
  const { measured } = readFacts(file) as { measured?: MeasuredRates } ?? {};
  return measured && MEASURED.every((name) => measured[name] > 0) ? measured : null;
}

const COPY_BYTES = 2 ** 25;
const RANDOM_BYTES = 2 ** 20;
const SMALL_BYTES = 2 ** 12;

/** This rank's rates, while all ranks measure theirs. Collective. */
function measure(runtime: Runtime): MeasuredRates {
  const { communicator, rank, size } = runtime;
  const stream = runtime.stream!;
  // As many tiles as keep each multiprocessor busy for a while.
  const extent = 32 * stream.device.attribute(CudaDeviceAttribute.MultiProcessorCount);
  const bytes = Math.max(COPY_BYTES, 2 * extent * extent);
  const buffers: DeviceBuffer[] = [];
  const { buffer: target } = allocateSymmetric(
    runtime,
    () => ({ bytes: COPY_BYTES, backend: "nvshmem", makeSymmetric: true, facts: {}, offer: null }),
  );
  try {
    let factors!: DeviceBuffer, result!: DeviceBuffer, workspace!: DeviceBuffer, peer!: bigint;
    // One rank alone may have no memory, or no link to the next one.
    agree(runtime, "Matmul.autotune", () => {
      peer = target.peerAddress((rank + 1) % size);
      [factors, result, workspace] = [bytes, bytes, GEMM_WORKSPACE_BYTES].map((length) => {
        const buffer = new DeviceBuffer(stream, length);
        buffers.push(buffer);
        return buffer;
      });
    });
    fill(factors, stream);
    using gemm = new GpuGemm(workspace, {
      types: { a: "bfloat16", b: "bfloat16", c: "bfloat16", d: "bfloat16" },
      operationA: { transpose: true, conjugate: false },
      operationB: { transpose: false, conjugate: false },
      computeType: CublasComputeType["32F"],
      scaleType: "float32",
    });
    const [one, zero] = [scalar("float32", 1), scalar("float32", 0)];
    const product = (extent: number) => {
      const [a, d] = [factors, result].map(({ address }) => ({ address, leadingDimension: extent }));
      const extents = { m: extent, n: extent, k: extent };
      const launch = gemm.prepare({ extents, matrices: { a, b: a, c: d, d } });
      return () => launch(one.values, zero.values, stream);
    };
    /** Microseconds, of some after each other, while all ranks do the same. */
    const time = (body: () => void, count: number): number => {
      body();
      stream.synchronize();
      communicator.barrier();
      using start = stream.record(new Event({ timing: true }));
      for (let i = 0; i < count; i++) body();
      using end = stream.record(new Event({ timing: true }));
      end.synchronize();
      return Math.max(1e-3, end.elapsedSince(start) * 1e6 / count);
    };
    return {
      flops: 2 * extent ** 3 / time(product(extent), 8),
      gemmStart: time(product(64), 50),
      link: COPY_BYTES / time(() => copyOnDevice(peer, factors.address, COPY_BYTES, stream), 8),
      copyStart: time(() => copyOnDevice(peer, factors.address, SMALL_BYTES, stream), 50),
      memory: 2 * COPY_BYTES / time(() => copyOnDevice(result.address, factors.address, COPY_BYTES, stream), 8),
    };
  } finally {
    for (const buffer of buffers) buffer.free();
    target.end();
  }
}

/** Numbers between -2 and 2 in bfloat16: multiplying zeros would be faster. */
function fill(buffer: DeviceBuffer, stream: Stream): void {
  const bits = new Uint16Array(RANDOM_BYTES / 2);
  let x = 1;
  for (let i = 0; i < bits.length; i++) {
    x = Math.imul(x, 1664525) + 1013904223 | 0;
    bits[i] = x >>> 16 & 0x80ff | 0x3f00;
  }
  copyToDevice(buffer.address, bits, stream);
  for (let at = RANDOM_BYTES; at < buffer.byteLength; at += RANDOM_BYTES) {
    const length = Math.min(RANDOM_BYTES, buffer.byteLength - at);
    copyOnDevice(buffer.address + BigInt(at), buffer.address, length, stream);
  }
}
