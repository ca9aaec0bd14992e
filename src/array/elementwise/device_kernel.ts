/**
 * Elementwise operations and reductions on GPUs: for each expression, dtypes and layout one kernel, compiled by NVRTC at its
 * first use and kept on disk. All operations of an expression are in it, so that elements are read and written once.
 *
 * @module
 */
import { type DType, dtypeInfo, type TypedArray } from "../../dtype/dtype.ts";
import { ELEMENT_TYPES } from "../../gpu/kernels/array_kernels.ts";
import { Program as KernelProgram } from "../../gpu/kernels/program.ts";
import type { Stream } from "../../gpu/stream.ts";
import { copyFromDevice, copyToDevice } from "../../memory/copy.ts";
import { DeviceBuffer } from "../../memory/device_buffer.ts";
import { CUDA, INTEGERS_IN_CUDA, PRELUDE, typeInCuda } from "./cuda.ts";
import { type Accumulation, type Elements, isOnDevice, type Loop, loopsOf, numbersOf, type Part } from "./elements.ts";
import type { Program } from "./expression.ts";
import { refuseNegative } from "./helpers.ts";

const THREADS = 256;

/** Elements that a thread reads before it computes: so many reads are under way at a time. */
const UNROLL = 4;

/** The most blocks that are worth having: threads loop over the rest. */
const MOST_BLOCKS = 65536;

const programs = new Map<string, KernelProgram>();

function programOf(source: string): KernelProgram {
  let program = programs.get(source);
  if (program === undefined) {
    program = new KernelProgram("expression", PRELUDE + source);
    programs.set(source, program);
  }
  return program;
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

/** The statements that write the result. */
function write(dtype: DType, program: Program, at: number, place: string): string {
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

/** The numbers of the script, and their bits. */
function parametersOf(program: Program, numbers: readonly (number | bigint)[]) {
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
  let next = 0;
  const words = program.parameters.flatMap(({ dtype }) => {
    const { parts, isInteger } = dtypeInfo(dtype);
    return Array.from({ length: parts }, () => {
      const number = numbers[next++];
      return isInteger ? BigInt(number) : number;
    });
  });
  return { lines, words };
}

/** Loops, the innermost first, with the names of what a kernel is told of them. */
interface Nest {
  readonly loops: readonly Loop[];
  readonly name: string;
}

/** The fields of a nest in the kernel's argument. */
function fieldsOf({ loops, name }: Nest, arrays: number): string {
  return loops.length === 0 ? "" : `i64 ${name}Extent[${loops.length}], ${name}Stride[${loops.length * arrays}];`;
}

function wordsOf({ loops }: Nest): bigint[] {
  return [...loops.map(({ extent }) => extent), ...loops.flatMap(({ strides }) => strides)].map(BigInt);
}

/** The statements that cut an index of a nest into the indices of its loops. */
function indices({ loops, name }: Nest, index: string): string {
  if (loops.length === 0) return "";
  const rest = `${name}Rest`;
  const cut = loops.map((_, d) =>
    d === loops.length - 1
      ? `const Index ${name}${d} = ${rest};`
      : `const Index ${name}${d} = ${rest} % (Index)p.${name}Extent[${d}]; ${rest} /= (Index)p.${name}Extent[${d}];`
  );
  return `Index ${rest} = ${index}; ${cut.join(" ")}`;
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

/** Arrays whose memory is a GPU's: what lies in the host's is brought there until `free`. */
function onDevice(arrays: readonly (Elements | null)[], stream: Stream) {
  const uploads: DeviceBuffer[] = [];
  const addresses = arrays.map((array) => {
    if (array === null) return 0n;
    const skipped = BigInt(array.offset * dtypeInfo(array.dtype).itemSize);
    if (isOnDevice(array)) {
      stream.wait(array.storage.stream);
      return array.storage.address + skipped;
    }
    const data = array.storage as TypedArray;
    const buffer = new DeviceBuffer(stream, data.byteLength);
    uploads.push(buffer);
    copyToDevice(buffer.address, data, stream);
    return buffer.address + skipped;
  });
  return { addresses, free: () => uploads.forEach((buffer) => buffer.free()) };
}

/** Run what may refuse a value of integers, and throw what it then says. */
function withRefusal(program: Program, stream: Stream, launch: (refused: bigint) => void): void {
  if (!program.mayThrow) return launch(0n);
  using word = new DeviceBuffer(stream, 8);
  const exponent = new BigInt64Array(1);
  copyToDevice(word.address, exponent, stream);
  launch(word.address);
  copyFromDevice(exponent, word.address, stream);
  if (exponent[0] !== 0n) refuseNegative(exponent[0]);
}

const OBJECTS = `Helpers H{(i64*)p.refused}; MathObject Math; BigIntObject BigInt;
  (void)H, (void)Math, (void)BigInt;`;

const indexType = (count: number) => `typedef ${count < 2 ** 31 ? "u32" : "i64"} Index;`;

// ---- elementwise ------------------------------------------------------------------------------------------------------

/** Compute all elements of a target on its GPU. */
export function computeOnDevice(
  program: Program,
  operands: readonly Part[],
  target: Elements,
  shape: readonly number[],
): void {
  if (shape.includes(0) || !isOnDevice(target)) return;
  const { stream } = target.storage;
  const arrays = [...operands.map((operand) => "scalar" in operand ? null : operand), target];
  const there = [...operands.keys()].filter((at) => arrays[at] !== null);
  const loops = loopsOf(shape, arrays, operands.length).reverse();
  const nest: Nest = { loops, name: "k" };
  const count = loops.reduce((product, { extent }) => product * extent, 1);
  const scalars = operands.map((operand) => "scalar" in operand ? operand.scalar : null);
  const { lines, words } = parametersOf(program, numbersOf(program, scalars));
  const named = there.flatMap((at) =>
    variables(arrays[at]!.dtype, at).map((name, part) => ({
      name,
      type: typeInCuda(dtypeInfo(arrays[at]!.dtype).real),
      code: read(arrays[at]!.dtype, at, place(nest, at, arrays.length))[part],
    }))
  );
  const source = `
${indexType(count)}
struct Elementwise {
  i64 count, refused, address[${arrays.length}];
  ${fieldsOf(nest, arrays.length)}
  ${words.length === 0 ? "" : `i64 number[${words.length}];`}
};
extern "C" __global__ void elementwise(const Elementwise p) {
  ${OBJECTS}
  ${lines.join("\n  ")}
  const Index step = gridDim.x * blockDim.x;
  for (Index first = blockIdx.x * blockDim.x + threadIdx.x; first < p.count; first += ${UNROLL} * step) {
    ${named.map(({ name, type }) => `${type} ${name}_[${UNROLL}];`).join(" ")}
    #pragma unroll
    for (int u = 0; u < ${UNROLL}; u++) {
      const Index i = first + u * step;
      if (i < p.count) {
        ${indices(nest, "i")}
        ${named.map(({ name, code }) => `${name}_[u] = ${code};`).join("\n        ")}
      }
    }
    #pragma unroll
    for (int u = 0; u < ${UNROLL}; u++) {
      const Index i = first + u * step;
      if (i < p.count) {
        ${indices(nest, "i")}
        ${named.map(({ name, type }) => `const ${type} ${name} = ${name}_[u];`).join(" ")}
        ${program.statements.join("\n        ")}
        ${write(target.dtype, program, operands.length, place(nest, operands.length, arrays.length))}
      }
    }
  }
}
`;
  const { addresses, free } = onDevice(arrays, stream);
  const blocks = Math.min(MOST_BLOCKS, Math.ceil(count / (THREADS * UNROLL)));
  withRefusal(program, stream, (refused) => {
    const argument = [BigInt(count), refused, ...addresses, ...wordsOf(nest), ...words];
    programOf(source).launch("elementwise", stream, blocks, argument);
  });
  free();
}

// ---- reductions -------------------------------------------------------------------------------------------------------

/** So many blocks keep a GPU busy. */
const ENOUGH_BLOCKS = 1024;

/** At least so many values a thread are worth a division among more blocks. */
const WORTH_A_BLOCK = 8;

const powerAbove = (n: number): number => 2 ** Math.ceil(Math.log2(Math.max(1, n)));

/** How the threads of a block stand: `width` of them side by side have results of their own, the others share one each. */
function widthOf(kept: readonly Loop[], reduced: readonly Loop[], leading: number, results: number, length: number) {
  const rows = Math.min(THREADS, powerAbove(length));
  const alone = THREADS / rows;
  const innermost = (loops: readonly Loop[]) =>
    Math.min(Infinity, ...loops.map(({ strides }) => strides[leading]).filter((stride) => stride > 0));
  const isReducedInside = innermost(reduced) < innermost(kept);
  return Math.min(powerAbove(results), isReducedInside ? alone : Math.max(32, alone), THREADS);
}

/**
 * Have accumulators take in every value of a program on a GPU. They are float64 or int64, and end in the targets, which are in
 * host memory. The order in which values are taken in depends on the shape alone.
 */
export function accumulateOnDevice(
  program: Program,
  operands: readonly Part[],
  targets: readonly Elements[],
  shape: readonly number[],
  { start, take, merge }: Accumulation,
  stream: Stream,
): void {
  const hosts = targets.map(({ storage }) => storage as Float64Array<ArrayBuffer>);
  hosts.forEach((host, i) => host.fill(start[i] as number));
  if (shape.includes(0)) return;
  const arrays = [...operands.map((operand) => "scalar" in operand ? null : operand), targets[0]];
  const [count, own] = [arrays.length, operands.length];
  const there = [...operands.keys()].filter((at) => arrays[at] !== null);
  const loops = loopsOf(shape, arrays, there[0]).reverse();
  const kept: Nest = { loops: loops.filter(({ strides }) => strides[own] > 0), name: "k" };
  const reduced: Nest = { loops: loops.filter(({ strides }) => strides[own] === 0), name: "r" };
  const sizeOf = ({ loops }: Nest) => loops.reduce((product, { extent }) => product * extent, 1);
  const [results, length, size] = [sizeOf(kept), sizeOf(reduced), hosts[0].length];
  const width = widthOf(kept.loops, reduced.loops, there[0], results, length);
  const rows = THREADS / width;
  const tiles = Math.ceil(results / width);
  const splits = Math.max(
    1,
    Math.min(Math.ceil(ENOUGH_BLOCKS / tiles), Math.floor(length / (rows * WORTH_A_BLOCK))),
  );
  const scalars = operands.map((operand) => "scalar" in operand ? operand.scalar : null);
  const { lines, words } = parametersOf(program, numbersOf(program, scalars));
  const type = typeInCuda(targets[0].dtype);
  const all = targets.map((_, i) => i);
  const begin = (i: number) =>
    typeof start[i] === "bigint" ? `Big{p.start[${i}]}` : `__longlong_as_double(p.start[${i}])`;
  const merging = CUDA.translate(merge(all.map((i) => `b${i}`)));
  const at = (which: number) =>
    [place(kept, which, count), place(reduced, which, count)].filter((code) => code !== "(i64)0").join(" + ") ||
    "(i64)0";
  const reading = there.map((which) => {
    const { dtype } = arrays[which]!;
    const codes = read(dtype, which, at(which));
    const real = typeInCuda(dtypeInfo(dtype).real);
    return variables(dtype, which).map((name, part) => `const ${real} ${name} = ${codes[part]};`).join(" ");
  });
  const source = `
${indexType(Math.max(results * 2, length * 2, tiles * splits))}
struct Reduction {
  i64 results, length, splits, size, refused, address[${count}], partials[${all.length}], start[${all.length}];
  ${fieldsOf(kept, count)} ${fieldsOf(reduced, count)}
  ${words.length === 0 ? "" : `i64 number[${words.length}];`}
};
extern "C" __global__ void reduce(const Reduction p) {
  __shared__ ${type} shared[${all.length}][${THREADS}];
  ${OBJECTS}
  ${lines.join("\n  ")}
  const int x = threadIdx.x % ${width}, y = threadIdx.x / ${width};
  const Index tiles = (Index)((p.results + ${width - 1}) / ${width}), splits = (Index)p.splits;
  for (Index block = blockIdx.x; block < tiles * splits; block += gridDim.x) {
    const Index split = block % splits, result = block / splits * ${width} + x;
    ${all.map((i) => `${type} a${i} = ${begin(i)};`).join(" ")}
    ${indices(kept, "result")}
    if (result < p.results) {
      for (Index i = split * ${rows} + y; i < p.length; i += splits * ${rows}) {
        ${indices(reduced, "i")}
        ${reading.join("\n        ")}
        ${program.statements.join("\n        ")}
        ${CUDA.translate(take(program.result))}
      }
    }
    ${all.map((i) => `shared[${i}][threadIdx.x] = a${i};`).join(" ")}
    __syncthreads();
    for (int half = ${THREADS / 2}; half >= ${width}; half /= 2) {
      if (threadIdx.x < half) {
        ${all.map((i) => `${type} b${i} = shared[${i}][threadIdx.x + half];`).join(" ")}
        ${merging}
        ${all.map((i) => `shared[${i}][threadIdx.x] = a${i};`).join(" ")}
      }
      __syncthreads();
    }
    if (y == 0 && result < p.results) {
      const i64 to = split * p.size + ${place(kept, own, count)};
      ${all.map((i) => `((${type}*)p.partials[${i}])[to] = a${i};`).join(" ")}
    }
    __syncthreads();
  }
}
extern "C" __global__ void merge(const Reduction p) {
  ${OBJECTS}
  const i64 step = (i64)gridDim.x * blockDim.x;
  for (i64 to = (i64)blockIdx.x * blockDim.x + threadIdx.x; to < p.size; to += step) {
    ${all.map((i) => `${type} a${i} = ((${type}*)p.partials[${i}])[to];`).join(" ")}
    for (i64 split = 1; split < p.splits; split++) {
      ${all.map((i) => `${type} b${i} = ((${type}*)p.partials[${i}])[split * p.size + to];`).join(" ")}
      ${merging}
    }
    ${all.map((i) => `((${type}*)p.partials[${i}])[to] = a${i};`).join(" ")}
  }
}
`;
  const partials = hosts.map(() => new DeviceBuffer(stream, splits * size * 8));
  const { addresses, free } = onDevice(arrays.with(own, null), stream);
  withRefusal(program, stream, (refused) => {
    const kernels = programOf(source);
    const argument = [
      ...[results, length, splits, size].map(BigInt),
      refused,
      ...addresses,
      ...partials.map(({ address }) => address),
      ...start,
      ...wordsOf(kept),
      ...wordsOf(reduced),
      ...words,
    ];
    kernels.launch("reduce", stream, Math.min(MOST_BLOCKS, tiles * splits), argument);
    if (splits > 1) kernels.launch("merge", stream, Math.min(MOST_BLOCKS, Math.ceil(size / THREADS)), argument);
  });
  hosts.forEach((host, i) => copyFromDevice(host, partials[i].address, stream));
  free();
  partials.forEach((buffer) => buffer.free());
}
