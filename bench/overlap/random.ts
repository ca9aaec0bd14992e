/**
 * Operands of random normal numbers: on zeros GPUs are faster than on real data.
 *
 * @module
 */
import { Program } from "../../src/gpu/kernels/program.ts";
import { DeviceBuffer } from "../../src/memory/device_buffer.ts";
import type { Stream } from "../../src/gpu/stream.ts";

const program = new Program(
  "normal",
  `
  struct Parameters { unsigned short* target; long long count; long long seed; long long isNarrow; };
  __device__ unsigned mix(unsigned x) {
    x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; return x ^ x >> 16;
  }
  extern "C" __global__ void normal(const Parameters p) {
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < p.count; i += gridDim.x * 256ll) {
      unsigned x = mix((unsigned)i * 2u + (unsigned)p.seed), y = mix((unsigned)i * 2u + 1u ^ (unsigned)(p.seed * 77));
      float u = (x + 1.0f) * 2.3283064e-10f, v = y * 2.3283064e-10f;
      float z = sqrtf(-2.0f * logf(u)) * cospif(2.0f * v);
      if (p.isNarrow) {
        unsigned short both;
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(0.0f), "f"(z));
        ((unsigned char*)p.target)[i] = (unsigned char)both;
      } else p.target[i] = (unsigned short)(__float_as_uint(z) >> 16);
    }
  }`,
);

/** Normal numbers in bfloat16 or float8_e4m3, on a GPU. */
export function randomNormal(stream: Stream, count: number, seed: number, isNarrow = false): DeviceBuffer {
  const buffer = new DeviceBuffer(stream, count * (isNarrow ? 1 : 2));
  fillNormal(stream, buffer.address, count, seed, isNarrow);
  return buffer;
}

/** Fill memory with normal numbers in bfloat16 or float8_e4m3. */
export function fillNormal(stream: Stream, address: bigint, count: number, seed: number, isNarrow = false): void {
  program.launch("normal", stream, 1024, [address, BigInt(count), BigInt(seed), isNarrow ? 1n : 0n]);
}
