/**
 * The product alone, by cuBLASLt: what its heuristic proposes, in the order in which it does.
 *
 * @module
 */
import {
  checkCublas,
  CublasComputeType,
  CUBLASLT_MATMUL_HEURISTIC_RESULT as RESULT,
  CublasLtMatmulDescAttribute,
  CublasLtMatmulPreferenceAttribute,
  CublasOperation,
  openCublasLt,
} from "../../ffi/cuda/cublaslt.ts";
import { CudaDataType } from "../../ffi/cuda/runtime.ts";
import { DeviceBuffer } from "../../src/memory/device_buffer.ts";
import type { DeviceMatrix } from "../../src/overlap/executors/tile/operands.ts";
import type { TileProblem } from "../../src/overlap/tile_order.ts";
import type { Stream } from "../../src/gpu/stream.ts";

const TYPES = {
  bfloat16: CudaDataType.R_16BF,
  float16: CudaDataType.R_16F,
  float8_e4m3: CudaDataType.R_8F_E4M3,
  float8_e5m2: CudaDataType.R_8F_E5M2,
} as const;

const WORKSPACE_BYTES = 32 * 2 ** 20;

/** D = A B of a problem's layouts; each of the results is one algorithm. */
export function cublasLtCalls(
  stream: Stream,
  { dtype, narrow, m, n, k, isRowMajorA, isRowMajorB }: Pick<
    TileProblem,
    "dtype" | "narrow" | "m" | "n" | "k" | "isRowMajorA" | "isRowMajorB"
  >,
  { a, b, d }: Record<"a" | "b" | "d", DeviceMatrix>,
  count: number,
): (() => void)[] {
  const { symbols } = openCublasLt();
  const out = new BigUint64Array(1);
  checkCublas(symbols.cublasLtCreate(out), "cublasLtCreate");
  const handle = out[0];
  checkCublas(
    symbols.cublasLtMatmulDescCreate(out, CublasComputeType["32F"], CudaDataType.R_32F),
    "cublasLtMatmulDescCreate",
  );
  const product = out[0];
  // cuBLASLt computes the transpose: its first operand is B, and what has its rows in sequence is transposed to it.
  const { TRANSA, TRANSB } = CublasLtMatmulDescAttribute;
  for (const [attribute, isTransposed] of [[TRANSA, !isRowMajorB], [TRANSB, !isRowMajorA]] as const) {
    const value = Int32Array.of(isTransposed ? CublasOperation.T : CublasOperation.N);
    checkCublas(
      symbols.cublasLtMatmulDescSetAttribute(product, attribute, value, 4n),
      "cublasLtMatmulDescSetAttribute",
    );
  }
  const [ofA, ofB] = narrow ?? [dtype, dtype];
  const layout = (type: keyof typeof TYPES, rows: number, columns: number, leading: number) => {
    checkCublas(
      symbols.cublasLtMatrixLayoutCreate(out, TYPES[type], BigInt(rows), BigInt(columns), BigInt(leading)),
      "cublasLtMatrixLayoutCreate",
    );
    return out[0];
  };
  const layoutB = isRowMajorB ? layout(ofB, n, k, b.leading) : layout(ofB, k, n, b.leading);
  const layoutA = isRowMajorA ? layout(ofA, k, m, a.leading) : layout(ofA, m, k, a.leading);
  const layoutD = layout(dtype, n, m, d.leading);
  checkCublas(symbols.cublasLtMatmulPreferenceCreate(out), "cublasLtMatmulPreferenceCreate");
  const preference = out[0];
  checkCublas(
    symbols.cublasLtMatmulPreferenceSetAttribute(
      preference,
      CublasLtMatmulPreferenceAttribute.MAX_WORKSPACE_BYTES,
      BigUint64Array.of(BigInt(WORKSPACE_BYTES)),
      8n,
    ),
    "cublasLtMatmulPreferenceSetAttribute",
  );
  const results = new Uint8Array(RESULT.size * count);
  const found = new Int32Array(1);
  checkCublas(
    // deno-fmt-ignore
    symbols.cublasLtMatmulAlgoGetHeuristic(handle, product, layoutB, layoutA, layoutD, layoutD, preference, count, results, found),
    "cublasLtMatmulAlgoGetHeuristic",
  );
  const workspace = new DeviceBuffer(stream, WORKSPACE_BYTES);
  const [alpha, beta] = [Float32Array.of(1), Float32Array.of(0)];
  return Array.from({ length: found[0] }, (_, i) => {
    const algorithm = results.slice(RESULT.size * i, RESULT.size * i + 64);
    return () => {
      // deno-fmt-ignore
      const code = symbols.cublasLtMatmul(handle, product, alpha, b.address, layoutB, a.address, layoutA, beta, d.address, layoutD,
        d.address, layoutD, algorithm, workspace.address, BigInt(WORKSPACE_BYTES), stream.handle);
      checkCublas(code, "cublasLtMatmul");
    };
  });
}
