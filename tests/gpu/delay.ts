/** Ranks that are late: a kernel that keeps a stream busy. */
import { Program } from "../../src/gpu/kernels/program.ts";
import type { Stream } from "../../src/gpu/stream.ts";

const program = new Program(
  "delay",
  `
  struct Parameters { long long nanoseconds; };
  __device__ long long now() { long long t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }
  extern "C" __global__ void delay(const Parameters p) { long long end = now() + p.nanoseconds; while (now() < end) {} }`,
);

/** Keep a stream busy for so many nanoseconds. */
export function delayStream(stream: Stream, nanoseconds: number): void {
  program.launch("delay", stream, 1, [BigInt(Math.floor(nanoseconds))], 1);
}
