/**
 * CUDA C++ of elementwise operations and reductions: a kernel for an expression, its dtypes, and the loops that its arrays'
 * layouts make. Pure; nothing here needs a GPU.
 *
 * @module
 */
import { type DType, dtypeInfo } from "../../dtype/dtype.ts";
import { ELEMENT_TYPES } from "../../gpu/kernels/array_kernels.ts";
import { CUDA, INTEGERS_IN_CUDA, PRELUDE, typeInCuda } from "./cuda.ts";
import type { Accumulation, Loop } from "./loops.ts";
import type { ElementProgram } from "./expression.ts";

/** Threads of a block. */
export const THREADS = 256;

/** Elements that a thread reads before it computes, so that reads are under way together. */
export const UNROLL = 4;

/** A variable that the statements of a program know, and how it is read. */
interface Variable {
  readonly name: string;
  readonly type: string;
  readonly code: string;
}

/**
 * A loop over `i`, from `first` to `end` by `step`: the variables of some elements are read, then each element has its turn.
 * `indices` names what both need.
 */
function loopOver(
  { first, end, step }: { first: string; end: string; step: string },
  named: readonly Variable[],
  indices: string,
  turn: string,
): string {
  const each = (what: string) => `
    #pragma unroll
    for (int u = 0; u < ${UNROLL}; u++) {
      const Count i = next + u * (${step});
      if (i < ${end}) {
        ${indices}
        ${what}
      }
    }`;
  return `for (Count next = ${first}; next < ${end}; next += ${UNROLL} * (${step})) {
    ${named.map(({ name, type }) => `${type} ${name}_[${UNROLL}];`).join(" ")}${
    each(named.map(({ name, code }) => `${name}_[u] = ${code};`).join("\n        "))
  }${each(`${named.map(({ name, type }) => `const ${type} ${name} = ${name}_[u];`).join(" ")}\n        ${turn}`)}
  }`;
}

// ---- code that both kinds of kernels share ----------------------------------------------------------------------------

/** The variables of an element: one, or two for a complex number. */
function variables(dtype: DType, at: number): string[] {
  return dtypeInfo(dtype).isComplex ? [`x${at}r`, `x${at}i`] : [`x${at}`];
}

/** The expressions that read an element of array `at`. */
function read(dtype: DType, at: number, place: string): string[] {
  const { isComplex, isInteger, real } = dtypeInfo(dtype);
  const address = `p.address[${at}]`;
  const places = isComplex ? [`2 * (${place})`, `2 * (${place}) + 1`] : [place];
  return places.map((where) => {
    if (real === "int64") return `Big{((const i64*)${address})[${where}]}`;
    return isInteger
      ? `(i64)((const ${INTEGERS_IN_CUDA[real as keyof typeof INTEGERS_IN_CUDA]}*)${address})[${where}]`
      : `load(${address}, ${ELEMENT_TYPES[real as keyof typeof ELEMENT_TYPES]}, ${where})`;
  });
}

/** The variables of an operand, and how they are read; none of a number. */
function reading(dtype: DType | null, at: number, place: string): Variable[] {
  if (dtype === null) return [];
  const codes = read(dtype, at, place);
  const type = typeInCuda(dtypeInfo(dtype).real);
  return variables(dtype, at).map((name, part) => ({ name, type, code: codes[part] }));
}

/** The statements that write the result. */
function write(dtype: DType, program: ElementProgram, at: number, place: string): string {
  const { isComplex, isInteger, real } = dtypeInfo(dtype);
  const address = `p.address[${at}]`;
  const from = dtypeInfo(program.dtype).real;
  const one = (code: string, where: string) => {
    const value = CUDA.cast(code, from, real);
    if (!isInteger) {
      return `store(${address}, ${ELEMENT_TYPES[real as keyof typeof ELEMENT_TYPES]}, ${where}, ${value});`;
    }
    const type = INTEGERS_IN_CUDA[real as keyof typeof INTEGERS_IN_CUDA];
    return `((${type}*)${address})[${where}] = (${type})(${value})${real === "int64" ? ".value" : ""};`;
  };
  const [re, im = "0.0"] = program.result;
  return isComplex ? `${one(re, `2 * (${place})`)} ${one(im, `2 * (${place}) + 1`)}` : one(re, place);
}

/** The statements that name the numbers of the script. */
function parameters(program: ElementProgram): string {
  let count = 0;
  const lines = program.parameters.flatMap(({ dtype }, at) => {
    const { isComplex, real } = dtypeInfo(dtype);
    const type = typeInCuda(real);
    return (isComplex ? [`s${at}r`, `s${at}i`] : [`s${at}`]).map((name) => {
      const word = `p.number[${count++}]`;
      const value = type === "double" ? `__longlong_as_double(${word})` : type === "Big" ? `Big{${word}}` : word;
      return `const ${type} ${name} = ${value};`;
    });
  });
  return lines.join("\n  ");
}

/** How many words these numbers take in the kernel's argument. */
function numberField({ parameters }: ElementProgram): string {
  const count = parameters.reduce((sum, { dtype }) => sum + dtypeInfo(dtype).parts, 0);
  return count === 0 ? "" : `i64 number[${count}];`;
}

/** Loops, the innermost first, with the names of what a kernel is told of them. */
export interface Nest {
  readonly loops: readonly Loop[];
  readonly name: string;
}

/** The fields of a nest in the kernel's argument. */
function fieldsOf({ loops, name }: Nest, arrays: number): string {
  return loops.length === 0 ? "" : `i64 ${name}Extent[${loops.length}], ${name}Stride[${loops.length * arrays}];`;
}

/** The statements that cut an index of a nest into the indices of its loops. */
function indices({ loops, name }: Nest, index: string): string {
  if (loops.length === 0) return "";
  const rest = `${name}Rest`;
  const cut = loops.map((_, d) =>
    d === loops.length - 1
      ? `const Count ${name}${d} = ${rest};`
      : `const Count ${name}${d} = ${rest} % (Count)p.${name}Extent[${d}]; ${rest} /= (Count)p.${name}Extent[${d}];`
  );
  return `Count ${rest} = ${index}; ${cut.join(" ")}`;
}

/** How many indices a nest of loops has. */
export function sizeOfNest({ loops }: Nest): number {
  return loops.reduce((product, { extent }) => product * extent, 1);
}

/** Where the element of array `at` is that belongs to these indices. Strides of 0 and 1 are known when it is compiled. */
function place({ loops, name }: Nest, at: number, arrays: number): string {
  const terms = loops.flatMap(({ strides }, d) => {
    if (strides[at] === 0) return [];
    const index = `(i64)${name}${d}`;
    return [strides[at] === 1 ? index : `${index} * p.${name}Stride[${d * arrays + at}]`];
  });
  return terms.join(" + ") || "(i64)0";
}

const OBJECTS = `Helpers H{(i64*)p.refused}; MathObject Math; BigIntObject BigInt;
  (void)H, (void)Math, (void)BigInt;`;

const countType = (count: number) => `typedef ${count < 2 ** 31 ? "u32" : "i64"} Count;`;

// ---- elementwise ------------------------------------------------------------------------------------------------------

/** Operands and a target, from which a kernel is made: the dtypes of all, null for numbers; the last is the target. */
export interface ElementwiseShape {
  readonly program: ElementProgram;
  readonly dtypes: readonly (DType | null)[];
  readonly nest: Nest;
}

/**
 * Kernel `elementwise`. Its argument: the number of elements, where a refused value is told, addresses, extents and strides,
 * numbers.
 */
export function elementwiseSource({ program, dtypes, nest }: ElementwiseShape): string {
  const arrays = dtypes.length;
  const own = arrays - 1;
  const named = dtypes.slice(0, own).flatMap((dtype, at) => reading(dtype, at, place(nest, at, arrays)));
  const loop = {
    first: "blockIdx.x * blockDim.x + threadIdx.x",
    end: "p.count",
    step: "step",
  };
  const turn = `${program.statements.join("\n        ")}
        ${write(dtypes[own]!, program, own, place(nest, own, arrays))}`;
  return `${PRELUDE}
${countType(sizeOfNest(nest))}
struct Elementwise {
  i64 count, refused, address[${arrays}];
  ${fieldsOf(nest, arrays)}
  ${numberField(program)}
};
extern "C" __global__ void elementwise(const Elementwise p) {
  ${OBJECTS}
  ${parameters(program)}
  const Count step = gridDim.x * blockDim.x;
  ${loopOver(loop, named, indices(nest, "i"), turn)}
}
`;
}

// ---- reductions -------------------------------------------------------------------------------------------------------

/** How many results a block merges side by side. */
export const MERGE_WIDTH = 8;

/** Operands and accumulators, from which a kernel is made. */
export interface ReductionShape {
  readonly program: ElementProgram;
  /** The dtypes of operands, null for numbers; the last is that of the accumulators. */
  readonly dtypes: readonly (DType | null)[];
  /** The loops over results, and over what makes one. */
  readonly kept: Nest;
  readonly reduced: Nest;
  /** How many results a block of threads has side by side; so many threads share one each. */
  readonly width: number;
  /** Whether threads that are neighbours share a result, or have results side by side. */
  readonly isShared: boolean;
  readonly accumulation: Accumulation;
}

/** Threads that need no barrier of the whole block to see what the others have written. */
const WARP = 32;

/**
 * Kernels `reduce` and, where results are shared among blocks, `merge`. Their argument: the numbers of results, of values for
 * each, of shares, of places for results; where a refused value is told; addresses, those of the shares and of the results,
 * what accumulators start from; extents and strides of both nests; numbers.
 */
export function reductionSource(
  { program, dtypes, kept, reduced, width, isShared, accumulation }: ReductionShape,
): string {
  const { start, take, merge } = accumulation;
  const arrays = dtypes.length;
  const own = arrays - 1;
  const rows = THREADS / width;
  const type = typeInCuda(dtypes[own]!);
  const all = [...start.keys()];
  const begin = (i: number) =>
    typeof start[i] === "bigint" ? `Big{p.start[${i}]}` : `__longlong_as_double(p.start[${i}])`;
  const merging = CUDA.translate(merge(all.map((i) => `b${i}`)));
  const sharing = all.map((i) => `shared[${i}][threadIdx.x] = a${i};`).join(" ");
  const at = (array: string, i: number, place: string) => `((${type}*)p.${array}[${i}])[${place}]`;
  const named = dtypes.slice(0, own).flatMap((dtype, at) =>
    reading(dtype, at, `${place(kept, at, arrays)} + ${place(reduced, at, arrays)}`)
  );
  const loop = {
    first: `split * ${rows} + y`,
    end: "p.length",
    step: `(Count)p.splits * ${rows}`,
  };
  const turn = `${program.statements.join("\n        ")}
        ${CUDA.translate(take(program.result))}`;
  /** The accumulators of threads come together, those of `distance` from each other to `rows` with the same result. */
  const tree = (rows: number, distance: number) => {
    const barrier = rows * distance <= WARP ? "__syncwarp()" : "__syncthreads()";
    return `${sharing}
    ${barrier};
    for (int half = ${rows / 2}; half >= 1; half /= 2) {
      if (y < half) {
        ${all.map((i) => `${type} b${i} = shared[${i}][threadIdx.x + half * ${distance}];`).join(" ")}
        ${merging}
        ${sharing}
      }
      ${barrier};
    }`;
  };
  const mergeRows = THREADS / MERGE_WIDTH;
  return `${PRELUDE}
${countType(2 * Math.max(sizeOfNest(kept), sizeOfNest(reduced)))}
struct Reduction {
  i64 results, length, splits, size, refused, address[${arrays}], partials[${all.length}], target[${all.length}];
  i64 start[${all.length}];
  ${fieldsOf(kept, arrays)} ${fieldsOf(reduced, arrays)}
  ${numberField(program)}
};
extern "C" __global__ void reduce(const Reduction p) {
  __shared__ ${type} shared[${all.length}][${THREADS}];
  ${OBJECTS}
  ${parameters(program)}
  const int x = threadIdx.x ${isShared ? `/ ${rows}` : `% ${width}`}, y = threadIdx.x ${
    isShared ? `% ${rows}` : `/ ${width}`
  };
  const i64 tiles = (p.results + ${width - 1}) / ${width};
  for (i64 block = blockIdx.x; block < tiles * p.splits; block += gridDim.x) {
    const Count split = (Count)(block % p.splits), result = (Count)(block / p.splits * ${width} + x);
    ${all.map((i) => `${type} a${i} = ${begin(i)};`).join(" ")}
    ${indices(kept, "result")}
    if (result < p.results) {
      ${loopOver(loop, named, indices(reduced, "i"), turn)}
    }
    ${tree(rows, isShared ? 1 : width)}
    if (y == 0 && result < p.results) {
      const i64 to = split * p.size + ${place(kept, own, arrays)};
      ${all.map((i) => `${at("partials", i, "to")} = a${i};`).join(" ")}
    }
    ${isShared && rows <= WARP ? "__syncwarp()" : "__syncthreads()"};
  }
}
extern "C" __global__ void merge(const Reduction p) {
  __shared__ ${type} shared[${all.length}][${THREADS}];
  ${OBJECTS}
  const int x = threadIdx.x % ${MERGE_WIDTH}, y = threadIdx.x / ${MERGE_WIDTH};
  for (i64 first = (i64)blockIdx.x * ${MERGE_WIDTH}; first < p.size; first += (i64)gridDim.x * ${MERGE_WIDTH}) {
    const i64 to = first + x;
    ${all.map((i) => `${type} a${i} = ${begin(i)};`).join(" ")}
    if (to < p.size) {
      for (i64 split = y; split < p.splits; split += ${mergeRows}) {
        ${all.map((i) => `${type} b${i} = ${at("partials", i, "split * p.size + to")};`).join(" ")}
        ${merging}
      }
    }
    ${tree(mergeRows, MERGE_WIDTH)}
    if (y == 0 && to < p.size) {
      ${all.map((i) => `${at("target", i, "to")} = a${i};`).join(" ")}
    }
    __syncthreads();
  }
}
`;
}
