/**
 * The choice of an epilog and its inputs, checked against D.
 *
 * @module
 */
import { checkAlive } from "../../array/base_array.ts";
import { DistributedArray } from "../../array/distributed_array.ts";
import { type DType, dtypeInfo, dtypeOf, dtypes, type TypedArray } from "../../dtype/dtype.ts";
import { LocalArray } from "../../array/local_array.ts";
import { sameSet } from "../../distribution/index_map.ts";
import { DistributionError, DTypeError, ShapeError, StateError } from "../../errors.ts";
import { checkBoolean, checkName, describe, readOptions } from "../../options.ts";
import type { CheckedProduct } from "./checked_product.ts";
import {
  auxName,
  describeEpilog,
  type Epilog,
  EPILOG_NAMES,
  epilogNamed,
  type EpilogValues,
  geluAuxShape,
  needsRealNumbers,
  NO_EPILOG_NAMES,
  reluAuxShape,
  requiredInputs,
} from "./epilog.ts";
import { EPILOG_INPUT_KEYS, type EpilogInputs, type PlanOptions } from "./options.ts";
import { isQuantized, scaleOf } from "./quantization.ts";

/** The epilog that options ask for; its inputs are not looked at. */
export function checkEpilog(product: CheckedProduct, options: PlanOptions): Epilog {
  const { epilog: name, auxType, auxAmax } = options;
  if (name !== null) checkName("epilog", name, [...EPILOG_NAMES, ...NO_EPILOG_NAMES]);
  checkName("auxType", auxType, dtypes);
  checkBoolean("auxAmax", auxAmax);
  const { d, c, runtime } = product;
  const epilog = describeEpilog(epilogNamed(name), {
    auxDType: auxType ?? (isQuantized(d.dtype) ? c?.dtype ?? "bfloat16" : d.dtype),
    auxAmax: auxAmax ?? false,
    resultAmax: product.resultAmax,
  });
  if (needsRealNumbers(epilog) && dtypeInfo(product.types.accumulator).isComplex) {
    throw new DTypeError(`epilog ${epilog.name} is for real matrices; D is ${d.dtype}. Only all_reduce takes complex.`);
  }
  if (epilog.allReduce) {
    for (const [matrix, described] of [["D", d], ["c", c]] as const) {
      if (described && !described.distribution.isReplicated) {
        throw new DistributionError(
          `epilog all_reduce leaves ${matrix} on every rank, so it must be Replicated; got ${described.distribution}. ` +
            `Pass distribution: Replicated to the constructor, and c.redistribute(Replicated).`,
        );
      }
    }
  }
  const hasGeluAux = returnsGeluAux(epilog);
  if ((auxType !== undefined || auxAmax) && !hasGeluAux) {
    throw new TypeError(
      `${
        auxAmax ? "auxAmax" : "auxType"
      } is for the epilogs gelu_aux, gelu_aux_bias and gelu_aux_column_bias; got ${epilog.name}. ` +
        `Leave it out.`,
    );
  }
  if (hasGeluAux) checkReal("auxType", epilog.auxDType, runtime.rank);
  return epilog;
}

const returnsGeluAux = ({ activation, aux }: Pick<Epilog, "activation" | "aux">) =>
  activation === "gelu" && aux === "output";

/** The options of a product with those that change: what was said of the input of a GELU goes with its epilog. */
export function changedOptions<O extends PlanOptions>(given: O, changes: PlanOptions): O {
  const { auxType: _type, auxAmax: _amax, ...others } = given;
  const isGone = changes.epilog !== undefined &&
    !returnsGeluAux(describeEpilog(epilogNamed(changes.epilog), { auxDType: "float32" }));
  return { ...isGone ? others as O : given, ...changes };
}

/** The inputs of an epilog as local arrays; those of `kept` where nothing new is given. */
export function checkEpilogInputs(
  product: CheckedProduct,
  epilog: Epilog,
  inputs: EpilogInputs | undefined,
  kept: EpilogValues = {},
): EpilogValues {
  const given = readOptions("epilogInputs", inputs, EPILOG_INPUT_KEYS);
  const required = requiredInputs(epilog);
  const needs = required.length > 0 ? `needs epilogInputs: { ${required.join(", ")} }` : "takes no epilogInputs";
  const superfluous = Object.keys(given).find((name) => !required.includes(name as keyof EpilogInputs));
  if (superfluous !== undefined) {
    const what = epilog.name === "none" ? "A product without epilog" : `epilog ${epilog.name}`;
    throw new TypeError(`${what} ${needs}; ${superfluous} was given. Leave it out, or choose another epilog.`);
  }
  const values: EpilogValues = {};
  for (const name of required as readonly (keyof EpilogInputs)[]) {
    const input = given[name];
    if (input === undefined) {
      if (kept[name] === undefined) throw new TypeError(`epilog ${epilog.name} ${needs}; ${name} is missing.`);
      values[name] = kept[name];
    } else if (name === "auxQuantizationScale") {
      const scale = scaleOf("epilogInputs.auxQuantizationScale", given.auxQuantizationScale!);
      values[name] = new LocalArray({ data: Float32Array.of(scale), dtype: "float32", shape: [1] });
    } else {
      values[name] = checkInput(name, given[name]!, product, epilog);
    }
  }
  checkInputsAlive(values);
  return values;
}

/** The arrays whose parts are inputs: their memory may still be there when they have been freed. */
const owners = new WeakMap<LocalArray, DistributedArray>();

/**
 * Refuse inputs whose memory has gone since they were given.
 *
 * @throws {StateError} naming the input.
 */
export function checkInputsAlive(values: EpilogValues): void {
  for (const [name, input] of Object.entries(values)) {
    const owner = input && owners.get(input);
    if (owner) checkAlive(`epilogInputs.${name}`, owner);
    if (!input?.isLost) continue;
    throw new StateError(
      `The memory of epilogInputs.${name} is gone: it was freed, or its buffer was transferred away. Pass one that is there.`,
    );
  }
}

/** What all ranks must agree on. */
export function epilogFacts(epilog: Epilog, values: EpilogValues): Record<string, unknown> {
  const inputs = Object.entries(values).map(([name, value]) => [`epilogInputs.${name}`, (value as LocalArray).dtype]);
  const scale = values.auxQuantizationScale?.toNumbers() ?? [];
  return {
    epilog: epilog.name,
    auxType: epilog.auxDType,
    auxAmax: epilog.auxAmax,
    auxQuantizationScale: scale,
    ...Object.fromEntries(inputs),
  };
}

function checkInput(
  name: "bias" | "columnBias" | "reluAux" | "geluAux",
  input: NonNullable<EpilogInputs["bias"]>,
  { d, runtime }: CheckedProduct,
  epilog: Epilog,
): LocalArray {
  const what = `epilogInputs.${name}`;
  const [rows, columns] = d.distribution.localShape(runtime.rank);
  if (name === "bias" || name === "columnBias") {
    const bias = localInput(what, input, d.dtype, (length) => [length]);
    checkReal(what, bias.dtype, runtime.rank);
    const isOfRows = name === "bias";
    const [length, one] = isOfRows ? [rows, "row"] : [columns, "column"];
    if (input instanceof DistributedArray) checkPlaces(what, input, d, isOfRows ? 0 : 1, runtime.rank);
    const fits = bias.shape[0] === length &&
      (bias.shape.length === 1 || bias.shape.length === 2 && bias.shape[1] === 1);
    if (!fits) throw wrongShape(what, bias, `[${length}]: one value a local ${one} of D`, runtime.rank);
    return bias;
  }
  const shape = name === "reluAux" ? reluAuxShape(rows, columns) : geluAuxShape(rows, columns);
  const dtype = name === "reluAux" ? "uint8" : isQuantized(d.dtype) ? "bfloat16" : d.dtype;
  const aux = localInput(what, input, dtype, (length) => length === shape[0] * shape[1] ? shape : [length]);
  if (name === "reluAux" ? aux.dtype !== "uint8" : !isReal(aux.dtype)) {
    throw new DTypeError(`${what} must be ${name === "reluAux" ? "uint8, a bit mask" : "real"}; got ${aux.dtype}.`);
  }
  if (name === "geluAux" && isQuantized(aux.dtype)) {
    throw new DTypeError(
      `${what} is of dtype ${aux.dtype}, and has been multiplied by a scale that is not known here. Have gelu_aux return ` +
        'it with auxType: "bfloat16" or D\'s dtype.',
    );
  }
  if (aux.shape.join() !== shape.join()) {
    const from = epilog.activation === "relu" ? "relu_aux" : "gelu_aux";
    throw wrongShape(what, aux, `[${shape}], as ${from} returns ${auxName(epilog)} for this D`, runtime.rank);
  }
  if (name === "reluAux" && shape[0] > 1 && aux.strides[0] !== 1) {
    throw new ShapeError(`${what} must be column-major; its strides are [${aux.strides}].`, { ranks: [runtime.rank] });
  }
  return aux;
}

/** Refuse a bias that has other global rows, or columns, on this rank than D. */
function checkPlaces(
  what: string,
  bias: DistributedArray,
  d: CheckedProduct["d"],
  dimension: 0 | 1,
  rank: number,
): void {
  const [given, needed] = [bias.distribution.indexSets(rank)[0], d.distribution.indexSets(rank)[dimension]];
  if (bias.shape[0] === d.shape[dimension] && sameSet(given, needed)) return;
  const places = ["rows", "columns"][dimension];
  throw new DistributionError(
    `${what} has shape [${bias.shape}] and is distributed as ${bias.distribution}; on rank ${rank} these are other ` +
      `${places} than those of D, which has shape [${d.shape}] and is ${d.distribution}. Redistribute it like D's ` +
      `${places}, or pass this rank's part as a LocalArray.`,
    { ranks: [rank] },
  );
}

function localInput(
  what: string,
  input: unknown,
  preferred: DType,
  shapeOf: (length: number) => readonly number[],
): LocalArray {
  if (input instanceof DistributedArray) {
    checkAlive(what, input);
    owners.set(input.local, input);
    return input.local;
  }
  if (input instanceof LocalArray) return input;
  const dtype = input instanceof dtypeInfo(preferred).array ? preferred : dtypeOf(input);
  if (dtype === null) {
    throw new TypeError(
      `${what} must be a typed array, a LocalArray or a DistributedArray; got ${describe(input)}. Wrap bits of ` +
        `bfloat16 or float8 in a LocalArray.`,
    );
  }
  const shape = shapeOf((input as TypedArray).length);
  const strides = shape.length === 2 ? [1, shape[0]] : [1];
  return new LocalArray({ data: input as TypedArray, dtype, shape, strides });
}

function isReal(dtype: DType): boolean {
  return !dtypeInfo(dtype).isComplex && !dtypeInfo(dtype).isInteger;
}

function checkReal(what: string, dtype: DType, rank: number): void {
  if (isReal(dtype)) return;
  throw new DTypeError(`${what} must be a real floating point type; got ${dtype}.`, { ranks: [rank] });
}

function wrongShape(what: string, given: LocalArray, needed: string, rank: number): ShapeError {
  return new ShapeError(`${what} on rank ${rank} has shape [${given.shape}], but must have ${needed}.`, {
    ranks: [rank],
  });
}
