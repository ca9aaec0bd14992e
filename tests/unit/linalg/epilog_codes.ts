/** The values that cuBLASMp's header gives the names of epilogs. */
import type { EpilogName } from "../../../src/linalg/matmul/epilog.ts";

/** Epilogs that cuBLASMp's header does not have. */
type OwnEpilog = EpilogName & (`${string}column_bias` | `gelu_erf${string}` | `silu${string}`);

export const EPILOG_CODES: Readonly<Record<Exclude<EpilogName, OwnEpilog>, number>> = {
  all_reduce: 1,
  relu: 2,
  relu_aux: 130,
  bias: 4,
  relu_bias: 6,
  relu_aux_bias: 134,
  drelu: 136,
  drelu_bgrad: 152,
  gelu: 32,
  gelu_aux: 160,
  gelu_bias: 36,
  gelu_aux_bias: 164,
  dgelu: 192,
  dgelu_bgrad: 208,
  bgrada: 256,
  bgradb: 512,
};
