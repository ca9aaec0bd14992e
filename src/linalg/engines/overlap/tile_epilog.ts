/**
 * What follows a product by tile kernels. Bias, relu and gelu are the kernel's own, before it rounds; auxiliary matrices are
 * written and read by another kernel, which goes over D once more.
 *
 * @module
 */
import { ELEMENT_TYPES } from "../../../gpu/kernels/array_kernels.ts";
import { blocksFor, Program } from "../../../gpu/kernels/program.ts";
import type { Stream } from "../../../gpu/stream.ts";
import type { TileEpilog } from "../../../overlap/executors/tile/parameters.ts";
import { LocalArray } from "../../../array/local_array.ts";
import { recordSpan } from "../../../runtime/recorder.ts";
import type { CompiledEpilog, TileDType } from "../../../overlap/executors/tile/configuration.ts";
import { type Activation, auxName, type Epilog, geluAuxShape, reluAuxShape } from "../../matmul/epilog.ts";

/** What the kernel does with D and the auxiliary matrix. */
const ACTIONS = { relu: { output: 0n, input: 1n }, gelu: { output: 2n, input: 3n } } as const;

/** The source, for tests that compile it without a GPU. */
export const AUX_SOURCE = `
typedef long long i64;
typedef unsigned int u32;
typedef unsigned short u16;

struct Parameters { i64 d, rows, columns, rowStride, columnStride, aux, auxStride, type, action; };

__device__ float load(const u16* at, bool isBfloat16) {
  if (isBfloat16) return __uint_as_float((u32)*at << 16);
#ifdef __CUDA_ARCH__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(*at));
  return value;
#else
  return half_to_float(*at);
#endif
}

__device__ void store(u16* at, float value, bool isBfloat16) {
#ifdef __CUDA_ARCH__
  if (isBfloat16) asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(*at) : "f"(value));
  else asm("cvt.rn.f16.f32 %0, %1;" : "=h"(*at) : "f"(value));
#else
  *at = isBfloat16 ? float_to_bfloat16(value) : float_to_half(value);
#endif
}

// 1 + tanh(u), by which gelu and its derivative are written: 2 / (1 + exp(-2u)).
__device__ float rise(float x) { return 2.0f / (1.0f + expf(-1.5957691216057308f * (x + 0.044715f * x * x * x))); }

__device__ float derivative(float x) {
  float r = rise(x), slope = r * (2.0f - r);
  // Far out the square overflows while the slope is 0.
  return 0.5f * (r + (slope == 0.0f ? 0.0f : x * slope * 0.7978845608028654f * (1.0f + 0.134145f * x * x)));
}

// A thread takes 8 rows of a column, which share a byte of relu's mask. Threads that follow each other take what lies in
// sequence.
extern "C" __global__ void auxiliary(const Parameters p) {
  i64 groups = (p.rows + 7) / 8, step = (i64)gridDim.x * blockDim.x;
  bool isBfloat16 = p.type == 1;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < groups * p.columns; i += step) {
    bool isDown = p.rowStride <= p.columnStride;
    i64 group = isDown ? i % groups : i / p.columns, column = isDown ? i / groups : i % p.columns;
    unsigned char* mask = (unsigned char*)p.aux + column * p.auxStride + group;
    u32 bits = p.action == 1 ? *mask : 0;
    #pragma unroll 1
    for (int j = 0; j < 8 && group * 8 + j < p.rows; j++) {
      i64 row = group * 8 + j;
      u16* at = (u16*)p.d + row * p.rowStride + column * p.columnStride;
      u16* other = (u16*)p.aux + row + column * p.auxStride;
      float value = load(at, isBfloat16);
      if (p.action == 0) {
        bits |= (value > 0.0f) << j;
        value = value < 0.0f ? 0.0f : value;
      } else if (p.action == 1) {
        value = bits >> j & 1 ? value : 0.0f;
      } else if (p.action == 2) {
        *other = *at;
        value = 0.5f * value * rise(value);
      } else {
        value *= derivative(load(other, isBfloat16));
      }
      store(at, value, isBfloat16);
    }
    if (p.action == 0) *mask = bits;
  }
}
`;

const program = new Program("auxiliary", AUX_SOURCE);

/** The activations that tile kernels have. */
type OwnActivation = NonNullable<CompiledEpilog["activation"]>;

/** Whether tile kernels have an activation. */
export function isOwnActivation(activation: Activation): activation is OwnActivation {
  return activation === "none" || activation in ACTIONS;
}

/** What the tile kernel does itself, and is compiled with. */
export function kernelEpilog({ aux, bias, activation }: Epilog): Required<CompiledEpilog> {
  return {
    hasBias: bias !== "none",
    activation: aux === "none" && isOwnActivation(activation) ? activation : "none",
  };
}

/** What it is told of it; `given` is the bias, float32 on the GPU. */
export function givenEpilog(epilog: Epilog, given: LocalArray | null, isTransposed: boolean): TileEpilog {
  // The kernel's rows are the user's where the canonical product is transposed.
  const isOfRows = isTransposed === (epilog.bias === "rows");
  return {
    ...given && { bias: { address: given.address, count: given.size, isOfRows } },
    activation: kernelEpilog(epilog).activation,
  };
}

/** Memory for the auxiliary matrix of this rank's D in the user's coordinates. */
export function auxiliaryFor(epilog: Epilog, dtype: TileDType, { shape }: LocalArray, stream: Stream): LocalArray {
  const [rows, columns] = shape;
  return epilog.activation === "relu"
    ? LocalArray.zeros("uint8", reluAuxShape(rows, columns), "F", stream)
    : LocalArray.zeros(dtype, geluAuxShape(rows, columns), "F", stream);
}

/** Load the kernel, where one rank may fail alone. */
export function prepareAuxiliary(stream: Stream): void {
  program.function("auxiliary", stream.device);
}

/** Apply the activation to D, in the user's coordinates, or its derivative; the auxiliary matrix is written, or read. */
export function applyAuxiliary(epilog: Epilog, d: LocalArray, aux: LocalArray, stream: Stream): void {
  const { activation, aux: use } = epilog;
  if (activation === "none" || use === "none" || !isOwnActivation(activation)) return;
  const { shape: [rows, columns], strides: [rowStride, columnStride], address, dtype } = d;
  const type = ELEMENT_TYPES[dtype as TileDType];
  const action = ACTIONS[activation][use];
  const words = [
    address,
    ...[rows, columns, rowStride, columnStride].map(BigInt),
    aux.address,
    BigInt(aux.strides[1]),
    type,
    action,
  ];
  recordSpan(stream, { kind: "compute", label: "epilog" }, () => {
    program.launch("auxiliary", stream, blocksFor(Math.ceil(rows / 8) * columns), words);
  });
}

/** The name under which the auxiliary matrix is given or returned; null if there is none. */
export function auxiliaryName(epilog: Epilog): "reluAux" | "geluAux" | null {
  return epilog.aux === "none" ? null : auxName(epilog);
}
