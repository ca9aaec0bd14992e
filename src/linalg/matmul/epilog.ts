/**
 * Epilogs: what follows the product, D = epilog(alpha op(A) op(B) + beta C), and its extra inputs and outputs.
 *
 * The names are those of `cublasMpMatmulEpilogue_t`, and some that it does not have. Everything here is plain arithmetic on this rank's part of D, in
 * the coordinates of the user's matrices; no communication.
 *
 * @module
 */
import { type DType, dtypeInfo, isNarrowFloat } from "../../dtype/dtype.ts";
import { decode, encode } from "../../dtype/narrow_floats.ts";
import { erfc } from "../../array/elementwise/error_function.ts";
import { LocalArray } from "../../array/local_array.ts";

/**
 * The names of the epilogs: those of `cublasMpMatmulEpilogue_t` in lower snake case, and some more.
 *
 * - `gelu` is the tanh form on every device, `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, and `dgelu` its
 *   derivative.
 * - `gelu_erf` is the exact form, `0.5 x (1 + erf(x / sqrt(2)))`; the two differ by up to 0.0005.
 * - `silu` is `x / (1 + exp(-x))`, also called swish.
 * - `..._bias` adds one value a row of D before that, `..._column_bias` one value a column.
 *
 * cuBLASMp has no `gelu_erf`, no `silu`, and a bias of columns only where D is row-major: what it lacks follows its product
 * as a kernel of its own on the GPU, which the report tells.
 */
export type EpilogName =
  | "all_reduce"
  | "relu"
  | "relu_aux"
  | "bias"
  | "relu_bias"
  | "relu_aux_bias"
  | "drelu"
  | "drelu_bgrad"
  | "gelu"
  | "gelu_aux"
  | "gelu_bias"
  | "gelu_aux_bias"
  | "column_bias"
  | "relu_column_bias"
  | "relu_aux_column_bias"
  | "gelu_column_bias"
  | "gelu_aux_column_bias"
  | "gelu_erf"
  | "gelu_erf_bias"
  | "gelu_erf_column_bias"
  | "silu"
  | "silu_bias"
  | "silu_column_bias"
  | "dgelu"
  | "dgelu_bgrad"
  | "bgrada"
  | "bgradb";

/** The names that mean that nothing follows the product; `default` is cuBLASMp's. */
export const NO_EPILOG_NAMES: readonly string[] = ["none", "default"];

/** The epilog that an option names; `none` if it is left out, null, `none`, `default`, or not known. */
export function epilogNamed(option: unknown): EpilogName | "none" {
  return EPILOG_NAMES.find((name) => name === option) ?? "none";
}

/** Functions of the elements of D. */
export type Activation = "none" | "relu" | "gelu" | "gelu_erf" | "silu";

/** What follows the product. */
export interface Epilog {
  /** Its name, or `none`. */
  readonly name: EpilogName | "none";
  /** Whether a bias is added before the activation: one value a row of D, or one a column. */
  readonly bias: "none" | "rows" | "columns";
  /** The activation function, or the one whose derivative is taken if `aux` is `input`; `gelu` is the tanh form. */
  readonly activation: Activation;
  /** Whether what the activation was given is written, or read to multiply by the derivative there. */
  readonly aux: "none" | "output" | "input";
  /** Which sums are returned: of the rows of D, of the rows of op(A), or of the columns of op(B). */
  readonly biasGradient: "none" | "d" | "a" | "b";
  /** Whether D is the sum over ranks, held by all of them. */
  readonly allReduce: boolean;
  /** The type of gelu's aux matrix. */
  readonly auxDType: DType;
  /** Whether the largest absolute value of gelu's aux matrix is returned. */
  readonly auxAmax: boolean;
  /** Whether the largest absolute value of D, before it is scaled and rounded, is returned. */
  readonly resultAmax: boolean;
}

/** Extra inputs and outputs of an execution: this rank's parts. */
export interface EpilogValues {
  /** Input: one value a local row of D. */
  bias?: LocalArray;
  /** Input: one value a local column of D. */
  columnBias?: LocalArray;
  /** Output of `relu_aux*`, input of `drelu*`: a bit mask, see {@linkcode reluAuxShape}. */
  reluAux?: LocalArray;
  /** Output of `gelu_aux*`, input of `dgelu*`: what gelu was given, see {@linkcode geluAuxShape}. */
  geluAux?: LocalArray;
  /** Output: the largest absolute value in `geluAux` before scaling, shape `[1]`. */
  geluAuxAmax?: LocalArray;
  /** Output: sums of the rows of D, one a local row. */
  dreluBgrad?: LocalArray;
  /** Output: sums of the rows of D, one a local row. */
  dgeluBgrad?: LocalArray;
  /** Output: sums of the rows of op(A), one a local row of D. */
  bgrada?: LocalArray;
  /** Output: sums of the columns of op(B), one a global column of D. */
  bgradb?: LocalArray;
  /** Input: what an 8-bit `geluAux` is multiplied by before it is rounded, shape `[1]`. */
  auxQuantizationScale?: LocalArray;
  /** Output: the largest absolute value of D before it is scaled and rounded, shape `[1]`. */
  resultAmax?: LocalArray;
}

/** The same inputs or outputs, each changed alike. */
export function mapValues(values: EpilogValues, change: (local: LocalArray) => LocalArray): EpilogValues {
  return Object.fromEntries(Object.entries(values).map(([name, local]) => [name, change(local as LocalArray)]));
}

/** Real numbers, one after the other. */
export type RealVector = Float32Array<ArrayBuffer> | Float64Array<ArrayBuffer>;

/** This rank's part of D in accumulator precision, in the user's coordinates. */
export interface EpilogBlock {
  readonly data: Float32Array | Float64Array;
  /** Local rows of the user's D. */
  readonly rows: number;
  /** Local columns of the user's D. */
  readonly columns: number;
  /** Elements between two rows, never 0: loops end where the next column's row would be. */
  readonly rowStride: number;
  /** Elements between two columns, never 0. */
  readonly columnStride: number;
}

/** Choices that an epilog's name leaves open. */
export interface EpilogChoices {
  /** The type of gelu's aux matrix. */
  auxDType: DType;
  /** Return the largest absolute value of gelu's aux matrix. */
  auxAmax?: boolean;
  /** Return the largest absolute value of D. */
  resultAmax?: boolean;
}

type Traits = Pick<Epilog, "bias" | "activation" | "aux" | "biasGradient" | "allReduce">;

const PLAIN: Traits = { bias: "none", activation: "none", aux: "none", biasGradient: "none", allReduce: false };

const TRAITS: Readonly<Record<EpilogName | "none", Traits>> = {
  none: PLAIN,
  all_reduce: { ...PLAIN, allReduce: true },
  relu: { ...PLAIN, activation: "relu" },
  relu_aux: { ...PLAIN, activation: "relu", aux: "output" },
  bias: { ...PLAIN, bias: "rows" },
  relu_bias: { ...PLAIN, activation: "relu", bias: "rows" },
  relu_aux_bias: { ...PLAIN, activation: "relu", bias: "rows", aux: "output" },
  drelu: { ...PLAIN, activation: "relu", aux: "input" },
  drelu_bgrad: { ...PLAIN, activation: "relu", aux: "input", biasGradient: "d" },
  gelu: { ...PLAIN, activation: "gelu" },
  gelu_aux: { ...PLAIN, activation: "gelu", aux: "output" },
  gelu_bias: { ...PLAIN, activation: "gelu", bias: "rows" },
  gelu_aux_bias: { ...PLAIN, activation: "gelu", bias: "rows", aux: "output" },
  column_bias: { ...PLAIN, bias: "columns" },
  relu_column_bias: { ...PLAIN, activation: "relu", bias: "columns" },
  relu_aux_column_bias: { ...PLAIN, activation: "relu", bias: "columns", aux: "output" },
  gelu_column_bias: { ...PLAIN, activation: "gelu", bias: "columns" },
  gelu_aux_column_bias: { ...PLAIN, activation: "gelu", bias: "columns", aux: "output" },
  gelu_erf: { ...PLAIN, activation: "gelu_erf" },
  gelu_erf_bias: { ...PLAIN, activation: "gelu_erf", bias: "rows" },
  gelu_erf_column_bias: { ...PLAIN, activation: "gelu_erf", bias: "columns" },
  silu: { ...PLAIN, activation: "silu" },
  silu_bias: { ...PLAIN, activation: "silu", bias: "rows" },
  silu_column_bias: { ...PLAIN, activation: "silu", bias: "columns" },
  dgelu: { ...PLAIN, activation: "gelu", aux: "input" },
  dgelu_bgrad: { ...PLAIN, activation: "gelu", aux: "input", biasGradient: "d" },
  bgrada: { ...PLAIN, biasGradient: "a" },
  bgradb: { ...PLAIN, biasGradient: "b" },
};

/** All names of epilogs. */
export const EPILOG_NAMES: readonly EpilogName[] = Object.keys(TRAITS).filter((name) =>
  name !== "none"
) as EpilogName[];

/** What an epilog's name stands for. */
export function describeEpilog(name: EpilogName | "none", choices: EpilogChoices): Epilog {
  const { auxDType, auxAmax = false, resultAmax = false } = choices;
  return { name, ...TRAITS[name], auxDType, auxAmax, resultAmax };
}

/** Whether nothing has to be done after the product. */
export function isTrivial(epilog: Epilog): boolean {
  return epilog.name === "none" && !epilog.resultAmax;
}

/** Whether an execution returns more than D. */
export function hasExtraOutputs(epilog: Epilog): boolean {
  return epilog.aux === "output" || epilog.biasGradient !== "none" || epilog.resultAmax;
}

/** Whether what {@linkcode applyEpilog} does needs the elements of D to be real. */
export function needsRealNumbers(epilog: Epilog): boolean {
  return epilog.bias !== "none" || epilog.activation !== "none" || epilog.biasGradient !== "none" || epilog.resultAmax;
}

/** The names of the inputs that an epilog must be given. */
export function requiredInputs(epilog: Epilog): readonly (keyof EpilogValues)[] {
  const names: (keyof EpilogValues)[] = [];
  if (epilog.bias !== "none") names.push(epilog.bias === "rows" ? "bias" : "columnBias");
  if (epilog.aux === "input") names.push(auxName(epilog));
  if (epilog.aux === "output" && epilog.activation === "gelu" && dtypeInfo(epilog.auxDType).itemSize === 1) {
    names.push("auxQuantizationScale");
  }
  return names;
}

/** The bias among the inputs of an epilog; null if it has none. */
export function biasOf({ bias }: Epilog, inputs: EpilogValues): LocalArray | null {
  return bias === "none" ? null : (bias === "rows" ? inputs.bias : inputs.columnBias)!;
}

/** Under which name an epilog reads or writes its aux matrix. */
export function auxName(epilog: Epilog): "reluAux" | "geluAux" {
  return epilog.activation === "relu" ? "reluAux" : "geluAux";
}

/** Under which name an epilog with a derivative writes the sums of the rows of D. */
export function gradientName(epilog: Epilog): "dreluBgrad" | "dgeluBgrad" {
  return epilog.activation === "relu" ? "dreluBgrad" : "dgeluBgrad";
}

/**
 * The shape of relu's bit mask of `rows` x `columns` local elements: uint8, order F, bytes a column rounded up to 16.
 *
 * @example
 * ```ts
 * import { reluAuxShape } from "@distmath/distmath";
 * console.assert(reluAuxShape(130, 7).join() === "32,7"); // 130 bits are 17 bytes
 * ```
 */
export function reluAuxShape(rows: number, columns: number): [number, number] {
  return [roundUp(Math.ceil(rows / 8), 16), columns];
}

/**
 * The shape of gelu's aux matrix of `rows` x `columns` local elements: order F, rows rounded up to 8.
 *
 * @example
 * ```ts
 * import { geluAuxShape } from "@distmath/distmath";
 * console.assert(geluAuxShape(130, 7).join() === "136,7");
 * ```
 */
export function geluAuxShape(rows: number, columns: number): [number, number] {
  return [roundUp(rows, 8), columns];
}

function roundUp(value: number, multiple: number): number {
  return Math.ceil(value / multiple) * multiple;
}

const SQRT_2_OVER_PI = Math.sqrt(2 / Math.PI);
const CUBIC = 0.044715;

/** gelu in the tanh form, 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), which cuBLASLt computes too. */
export function gelu(x: number): number {
  return 0.5 * x * (1 + Math.tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x)));
}

/** gelu in its exact form, 0.5 x (1 + erf(x / sqrt(2))), of which 1 + erf(y) is erfc(-y). */
export function geluErf(x: number): number {
  return 0.5 * x * erfc(-Math.SQRT1_2 * x);
}

/** x / (1 + exp(-x)). */
export function silu(x: number): number {
  return x / (1 + Math.exp(-x));
}

/** The derivative of {@linkcode gelu}. */
export function geluDerivative(x: number): number {
  const tanh = Math.tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x));
  // Far out the squares overflow to Infinity while 1 - tanh^2 is 0; the product's limit is 0.
  const slope = tanh * tanh === 1 ? 0 : (1 - tanh * tanh) * SQRT_2_OVER_PI * (1 + 3 * CUBIC * x * x);
  return 0.5 * (1 + tanh + x * slope);
}

/** An epilog that is ready to be applied. */
export interface PreparedEpilog {
  /** What it produces besides D, once it was applied. */
  readonly outputs: EpilogValues;
  /** Apply it. Allocates nothing. */
  readonly apply: () => void;
}

/**
 * Get ready to change this rank's part of D in place, from alpha op(A) op(B) + beta C to the epilog's result, and to
 * produce what else the epilog gives here: aux matrices, sums over the local columns, absolute maxima over the local
 * elements.
 *
 * Sums and maxima over several ranks are the caller's business, and so are `bgrada` and `bgradb`, which do not depend
 * on D: see {@linkcode rowSums}. The order is that of cuBLASLt: bias, aux, activation; or derivative, bias gradient.
 */
export function prepareEpilog(epilog: Epilog, block: EpilogBlock, inputs: EpilogValues): PreparedEpilog {
  const outputs: EpilogValues = {};
  const steps: (() => void)[] = [];
  const bias = biasOf(epilog, inputs);
  if (bias !== null) {
    const numbers = toReal(bias);
    const along = epilog.bias === "rows" ? block : transposed(block);
    steps.push(() => addBias(along, numbers));
  }
  if (epilog.aux === "input") {
    if (epilog.activation === "relu") {
      steps.push(() => multiplyByMask(block, inputs.reluAux!));
    } else {
      const [given, [paddedRows]] = [toReal(inputs.geluAux!), inputs.geluAux!.shape];
      steps.push(() => multiplyByGeluDerivative(block, given, paddedRows));
    }
  } else if (epilog.activation !== "none") {
    if (epilog.aux === "output" && epilog.activation === "relu") {
      const mask = outputs.reluAux = LocalArray.zeros("uint8", reluAuxShape(block.rows, block.columns), "F");
      steps.push(() => markPositive(block, mask));
    } else if (epilog.aux === "output") {
      const { local, copy } = prepareScaledCopy(block, epilog.auxDType, inputs.auxQuantizationScale);
      outputs.geluAux = local;
      steps.push(copy);
      if (epilog.auxAmax) steps.push(prepareMaximum(block, outputs, "geluAuxAmax"));
    }
    const activate = ACTIVATIONS[epilog.activation];
    steps.push(() => activate(block));
  }
  if (epilog.biasGradient === "d") {
    const gradient = newVector(block.data, block.rows);
    outputs[gradientName(epilog)] = vector(gradient);
    steps.push(() => void rowSums(block, gradient));
  }
  if (epilog.resultAmax) steps.push(prepareMaximum(block, outputs, "resultAmax"));
  return { outputs, apply: () => steps.forEach((step) => step()) };
}

/** Zeros of the same precision as other numbers. */
export function newVector(like: RealVector | Float32Array | Float64Array, length: number): RealVector {
  return like instanceof Float64Array ? new Float64Array(length) : new Float32Array(length);
}

/** The sums of the rows of a block, in its own precision (added up in float64). */
export function rowSums({ data, rows, columns, rowStride, columnStride }: EpilogBlock, into: RealVector): RealVector {
  for (let i = 0; i < rows; i++) {
    let sum = 0;
    for (let j = 0, at = i * rowStride; j < columns; j++, at += columnStride) sum += data[at];
    into[i] = sum;
  }
  return into;
}

/** The largest absolute value in a block; 0 if it is empty, NaN if it holds one. */
export function absoluteMaximum(block: EpilogBlock): number {
  let maximum = 0;
  forEachColumn(block, (data, start, end, step) => {
    // A variable of this function: one that it shares with others is stored at each turn.
    let largest = maximum;
    for (let at = start; at !== end; at += step) largest = Math.max(largest, Math.abs(data[at]));
    maximum = largest;
  });
  return maximum;
}

/** Visit the columns of a block: its elements from `start` to before `end`, `step` apart. */
function forEachColumn(
  { data, rows, columns, rowStride, columnStride }: EpilogBlock,
  visit: (data: Float32Array | Float64Array, start: number, end: number, step: number, column: number) => void,
): void {
  for (let column = 0; column < columns; column++) {
    const start = column * columnStride;
    visit(data, start, start + rows * rowStride, rowStride, column);
  }
}

function addBias(block: EpilogBlock, bias: Float32Array | Float64Array): void {
  forEachColumn(block, (data, start, end, step) => {
    for (let at = start, row = 0; at !== end; at += step) data[at] += bias[row++];
  });
}

// A loop for each activation: one that is given the function would call it for every element.
const ACTIVATIONS = {
  relu: (block: EpilogBlock) =>
    forEachColumn(block, (data, start, end, step) => {
      for (let at = start; at !== end; at += step) if (data[at] < 0) data[at] = 0;
    }),
  gelu: (block: EpilogBlock) =>
    forEachColumn(block, (data, start, end, step) => {
      for (let at = start; at !== end; at += step) data[at] = gelu(data[at]);
    }),
  gelu_erf: (block: EpilogBlock) =>
    forEachColumn(block, (data, start, end, step) => {
      for (let at = start; at !== end; at += step) data[at] = geluErf(data[at]);
    }),
  silu: (block: EpilogBlock) =>
    forEachColumn(block, (data, start, end, step) => {
      for (let at = start; at !== end; at += step) data[at] = silu(data[at]);
    }),
};

function transposed({ data, rows, columns, rowStride, columnStride }: EpilogBlock): EpilogBlock {
  return { data, rows: columns, columns: rows, rowStride: columnStride, columnStride: rowStride };
}

/** One bit an element, the lowest first: whether it is positive. */
function markPositive(block: EpilogBlock, { data, strides }: LocalArray): void {
  const mask = data as Uint8Array;
  forEachColumn(block, (data, start, end, step, column) => {
    for (let at = start, row = 0; at !== end; at += step, row++) {
      if (data[at] > 0) mask[column * strides[1] + (row >> 3)] |= 1 << (row & 7);
    }
  });
}

function multiplyByMask(block: EpilogBlock, aux: LocalArray): void {
  const mask = aux.data as Uint8Array;
  forEachColumn(block, (data, start, end, step, column) => {
    const base = aux.offset + column * aux.strides[1];
    for (let at = start, row = 0; at !== end; at += step, row++) {
      if (!(mask[base + (row >> 3)] >> (row & 7) & 1)) data[at] = 0;
    }
  });
}

function multiplyByGeluDerivative(block: EpilogBlock, given: RealVector, paddedRows: number): void {
  forEachColumn(block, (data, start, end, step, column) => {
    for (let at = start, from = column * paddedRows; at !== end; at += step) {
      data[at] *= geluDerivative(given[from++]);
    }
  });
}

/** The block as a padded column-major matrix of another type, scaled before it is rounded if there is a scale. */
function prepareScaledCopy(
  block: EpilogBlock,
  dtype: DType,
  scale: LocalArray | undefined,
): { local: LocalArray; copy: () => void } {
  const shape = geluAuxShape(block.rows, block.columns);
  const factor = scale ? toReal(scale)[0] : 1;
  const local = LocalArray.zeros(dtype, shape, "F");
  const isNarrow = isNarrowFloat(dtype);
  const wide = isNarrow ? new Float32Array(local.size) : local.view() as RealVector;
  const copy = () => {
    forEachColumn(block, (data, start, end, step, column) => {
      for (let at = start, to = column * shape[0]; at !== end; at += step) wide[to++] = data[at] * factor;
    });
    if (isNarrow) encode(dtype, wide as Float32Array<ArrayBuffer>, local.view());
  };
  return { local, copy };
}

/** The elements of a local array of real numbers as numbers, dense, in column-major order. */
function toReal(local: LocalArray): RealVector {
  const dense = local.toTypedArray("F");
  return dense instanceof Float32Array || dense instanceof Float64Array ? dense : decode(local.dtype, dense);
}

/** Numbers as a local array. */
export function vector(data: RealVector): LocalArray {
  return new LocalArray({ data, dtype: data instanceof Float64Array ? "float64" : "float32", shape: [data.length] });
}

function prepareMaximum(block: EpilogBlock, outputs: EpilogValues, name: "geluAuxAmax" | "resultAmax"): () => void {
  const maximum = new Float32Array(1);
  outputs[name] = vector(maximum);
  return () => void (maximum[0] = absoluteMaximum(block));
}
