/** Every public call that all ranks make together, with arguments that are right. */
import { agree, exchange } from "../../internals.ts";
import {
  add,
  allocateOperand,
  allocateSymmetricMemory,
  arange,
  axpy,
  Box,
  broadcastTo,
  cg,
  clip,
  concatenate,
  cumulativeSum,
  diagonal,
  DistributedArray,
  dot,
  eigh,
  type EngineName,
  evaluate,
  exp,
  expandDims,
  eye,
  FFT,
  fft,
  flip,
  freeSymmetricMemory,
  fromFunction,
  geadd,
  hemm,
  her2k,
  herk,
  ifft,
  initialize,
  irfft,
  kron,
  linspace,
  loadNpy,
  loadNpz,
  LocalArray,
  Matmul,
  matmul,
  matrixNorm,
  outer,
  redistribute,
  Redistribution,
  Replicated,
  reshape,
  rfft,
  roll,
  type Runtime,
  saveNpy,
  saveNpz,
  scale,
  Slab,
  solve,
  squeeze,
  stack,
  symm,
  syr2k,
  syrk,
  tradd,
  trmm,
  trsm,
  vecdot,
  where,
} from "../../mod.ts";
import { matrixIn } from "./bad_values.ts";

/** Where the calls are made. */
export interface Site {
  /** The runtime. */
  readonly runtime: Runtime;
  /** A folder that all ranks see. */
  readonly folder: string;
}

// deno-lint-ignore no-explicit-any
type Any = any;

/** A call, and what belongs into its arguments. */
export interface CollectiveCall {
  /** Right arguments, the array of a method first; made by each rank alone. */
  readonly given: (site: Site) => Any[];
  /** Make the call. */
  readonly call: (given: Any[], site: Site) => unknown;
  /** The position of the options, and the keys that are tried one by one. */
  readonly options?: readonly [position: number, keys: readonly string[]];
  /** What the first argument is, if it is the object of a method: only what it may have become may stand in for it. */
  readonly self?: "array" | "runtime";
}

const words = (text: string) => text.split(" ");
const ARRAY_KEYS = words("dtype order memory");
const ADDEND_KEYS = words("c alpha beta inplace distribution");
const array = (site: Site) => matrixIn(site).array;
const complex = ({ runtime }: Site) => {
  const distribution = Slab.X.bind([4, 4], runtime.size);
  const local = LocalArray.zeros("complex128", distribution.localShape(runtime.rank));
  return DistributedArray.wrap(runtime, local, distribution, "C");
};
const onEveryRank = ({ runtime }: Site) => {
  const data = Float64Array.from({ length: 16 }, (_, at) => at % 5 === 0 ? 2 : 1);
  const local = new LocalArray({ data, dtype: "float64", shape: [4, 4] });
  return DistributedArray.wrap(runtime, local, Replicated.bind([4, 4], runtime.size), "C");
};

/** A constructor that takes runtime, shape, distribution, what `rest` says, and options. */
function making(
  name: "zeros" | "full" | "random" | "generate",
  keys: readonly string[],
  ...rest: unknown[]
): CollectiveCall {
  return {
    given: ({ runtime }) => [runtime, [4, 4], Slab.X, ...rest, {}],
    call: (given) => (DistributedArray[name] as Any)(...given),
    options: [3 + rest.length, keys],
  };
}

/** A method of an array. */
function method(name: keyof DistributedArray, keys: readonly string[] = [], ...rest: unknown[]): CollectiveCall {
  return {
    given: (site) => [array(site), ...rest, ...keys.length > 0 ? [{}] : []],
    call: ([self, ...others]) => self[name](...others),
    self: "array",
    ...keys.length > 0 && { options: [1 + rest.length, keys] },
  };
}

/** A routine of PBLAS. */
function routine(
  run: (...given: Any[]) => unknown,
  matrices: number,
  keys: readonly string[],
  make = array,
): CollectiveCall {
  return {
    given: (site) => [...Array.from({ length: matrices }, () => make(site)), {}],
    call: (given) => run(...given),
    options: [matrices, keys],
  };
}

/** An elementwise function of so many arrays and numbers, which may be written into another array. */
function elementwise(run: (...given: Any[]) => unknown, arrays: number, ...numbers: number[]): CollectiveCall {
  return {
    given: (site) => [...Array.from({ length: arrays }, () => array(site)), ...numbers, { into: array(site) }],
    call: ([...given]) => void run(...given),
    options: [arrays + numbers.length, ["into", "redistribute"]],
  };
}

const PLAN_KEYS = words(
  "epilog epilogInputs auxType auxAmax algorithm communicationSmCount communicationType allowMulticast",
);
const MATMUL_KEYS = [
  ...PLAN_KEYS,
  ...words("c alpha beta qualifiers distribution quantizationScales computeType scaleType resultType resultAmax"),
  ...words("blockScaling engine inplace order blocking stream logger"),
];

/** A product of two arrays; what is done with it may find an array that is not there any more. */
function product(isPlanned: boolean, a: DistributedArray, b: DistributedArray, engine: EngineName = "auto"): Matmul {
  const made = new Matmul(a, b, { engine });
  if (isPlanned) made.plan();
  return made;
}

const FFT_PLAN_KEYS = words("algorithm effort");
const TRANSFORM_KEYS = [
  ...FFT_PLAN_KEYS,
  ...words("axes distribution redistribute norm inplace engine blocking stream logger"),
];

/** A function that transforms an array of this dtype. */
function transform(run: (...given: Any[]) => unknown, make: (site: Site) => Any, ...keys: string[]): CollectiveCall {
  return {
    given: (site) => [make(site), {}],
    call: (given) => run(...given),
    options: [1, [...TRANSFORM_KEYS, ...keys]],
  };
}

/** A method of a transform whose operand may have been lost; of one that is planned, or not. */
function transformMethod(
  isPlanned: boolean,
  keys: readonly string[],
  call: (made: FFT, options: Any) => unknown,
): CollectiveCall {
  return {
    given: (site) => [array(site), ...keys.length > 0 ? [{}] : []],
    call: ([replaced, options], site) => {
      const lost = standBesideRuntime(site, replaced);
      using made = new FFT(lost.array);
      if (isPlanned) made.plan();
      lost.end();
      return call(made, options);
    },
    ...keys.length > 0 && { options: [1, keys] as const },
    self: "array",
  };
}

/** The calls by their names in mod.ts; a method's has a dot before it. */
export const COLLECTIVE_CALLS: Record<string, CollectiveCall> = {
  "agree": {
    given: ({ runtime }) => [runtime, () => ({ fact: 1 })],
    call: ([runtime, check]) => agree(runtime, "agree", () => check()),
  },
  "exchange": {
    given: ({ runtime }) => [runtime, 1],
    call: ([runtime, value]) => exchange(runtime, "exchange", () => value),
  },
  "initialize": {
    given: () => [{ device: "cpu" }],
    call: (given) => initialize(...given)[Symbol.dispose](),
    options: [0, words("device communicator checks timeoutSeconds threads")],
  },
  "Runtime .collect": { given: ({ runtime }) => [runtime], call: ([runtime]) => runtime.collect(), self: "runtime" },
  "Runtime .nccl": { given: ({ runtime }) => [runtime], call: ([runtime]) => runtime.nccl(), self: "runtime" },
  "Box fromLocal": {
    given: ({ runtime }) => [runtime, [runtime.rank, 0], [runtime.rank + 1, 2]],
    call: (given) => (Box.fromLocal as Any)(...given),
  },
  "DistributedArray zeros": making("zeros", ARRAY_KEYS),
  "DistributedArray full": making("full", ARRAY_KEYS, 1),
  "DistributedArray random": making("random", [...ARRAY_KEYS, ...words("seed low high")]),
  "DistributedArray generate": making("generate", ARRAY_KEYS, (i: number) => i),
  "DistributedArray fromLocal": {
    given: ({ runtime }) => [runtime, new Float64Array(4), Slab.X, { localShape: [2, 2] }],
    call: (given) => (DistributedArray.fromLocal as Any)(...given),
    options: [3, [...ARRAY_KEYS, "localShape"]],
  },
  "DistributedArray scatter": {
    given: ({ runtime }) => [runtime, runtime.rank === 0 ? new Float64Array(16) : null, [4, 4], Slab.X, {}],
    call: (given) => (DistributedArray.scatter as Any)(...given),
    options: [4, [...ARRAY_KEYS, "root"]],
  },
  "DistributedArray .gather": method("gather", ["root", "into"]),
  "DistributedArray .allGather": method("allGather", ["into"]),
  "DistributedArray .map": method("map", ["dtype"], (x: number) => x + 1),
  "DistributedArray .sum": method("sum", words("axis keepDims")),
  "DistributedArray .norm": method("norm", words("axis keepDims ord")),
  "DistributedArray .var": method("var", words("axis keepDims correction")),
  "DistributedArray .argmax": method("argmax", words("axis keepDims")),
  "DistributedArray .maxAbsDifference": {
    given: (site) => [array(site), array(site)],
    call: ([self, other]) => self.maxAbsDifference(other),
    self: "array",
  },
  "DistributedArray .format": method("format", ["precision"]),
  "DistributedArray .at": method("at", [], 1, 2),
  "DistributedArray .set": method("set", [], [1, 2], 3),
  "DistributedArray .slice": method("slice", [], [[0, 2], [1, 4]]),
  "DistributedArray .redistribute": method("redistribute", [], Slab.Y),
  "DistributedArray .copy": method("copy"),
  "DistributedArray .to": method("to", ARRAY_KEYS),
  "DistributedArray .zip": {
    given: (site) => [array(site), array(site), (x: number, y: number) => x + y, {}],
    call: ([self, ...others]) => self.zip(...others),
    options: [3, ["dtype"]],
    self: "array",
  },
  "DistributedArray .add": {
    given: (site) => [array(site), array(site), {}],
    call: ([self, ...others]) => self.add(...others),
    options: [2, ["into"]],
    self: "array",
  },
  "DistributedArray .exp": method("exp", ["into"]),
  "DistributedArray .where": method("where", ["into"], 1, 2),
  "DistributedArray .clip": method("clip", ["into"], 1, 2),
  "DistributedArray .assign": method("assign", [], 2),
  "expandDims": { given: (site) => [array(site), 1], call: ([a, axis]) => expandDims(a, axis) },
  "squeeze": {
    given: (site) => [expandDims(array(site), 0), 0],
    call: ([a, axis]) => squeeze(a, axis),
  },
  "broadcastTo": { given: (site) => [array(site), [2, 4, 4]], call: ([a, shape]) => broadcastTo(a, shape) },
  "reshape": {
    given: (site) => [array(site), [2, 8], {}],
    call: (given) => (reshape as Any)(...given),
    options: [2, ["distribution"]],
  },
  "concatenate": {
    given: (site) => [[array(site), array(site)], {}],
    call: (given) => (concatenate as Any)(...given),
    options: [1, words("axis distribution")],
  },
  "stack": {
    given: (site) => [[array(site), array(site)], {}],
    call: (given) => (stack as Any)(...given),
    options: [1, words("axis distribution")],
  },
  "roll": { given: (site) => [array(site), 1, 0], call: ([a, shift, axis]) => roll(a, shift, axis) },
  "fromFunction": {
    given: ({ runtime }) => [runtime, [4, 4], Slab.X, (i: number) => i, {}],
    call: (given) => (fromFunction as Any)(...given),
    options: [4, ARRAY_KEYS],
  },
  "eye": {
    given: ({ runtime }) => [runtime, 4, Slab.X, {}],
    call: (given) => (eye as Any)(...given),
    options: [3, ["dtype"]],
  },
  "arange": {
    given: ({ runtime }) => [runtime, 0, 4, 1, Slab.X, {}],
    call: (given) => (arange as Any)(...given),
    options: [5, ["dtype"]],
  },
  "linspace": {
    given: ({ runtime }) => [runtime, 0, 4, 5, Slab.X, {}],
    call: (given) => (linspace as Any)(...given),
    options: [5, ["dtype"]],
  },
  "dot": { given: (site) => [array(site), array(site)], call: ([a, b]) => dot(a, b) },
  "axpy": { given: (site) => [2, array(site), array(site)], call: ([alpha, x, y]) => void axpy(alpha, x, y) },
  "scale": { given: (site) => [array(site), 2], call: ([a, factor]) => void scale(a, factor) },
  "outer": {
    given: ({ runtime }) => [0, 0].map(() => arange(runtime, 0, 3, 1, Replicated)),
    call: ([a, b]) => outer(a, b),
  },
  "kron": {
    given: (site) => [array(site), DistributedArray.full(site.runtime, [2, 2], Replicated, 1)],
    call: ([a, b]) => kron(a, b),
  },
  "vecdot": {
    given: (site) => [array(site), array(site), {}],
    call: ([a, b, options]) => vecdot(a, b, options),
    options: [2, ["axis"]],
  },
  "matrixNorm": {
    given: (site) => [array(site), {}],
    call: (given) => void (matrixNorm as Any)(...given),
    options: [1, words("ord axis keepDims")],
  },
  "flip": { given: (site) => [array(site), 0], call: ([a, axis]) => flip(a, axis) },
  "cumulativeSum": {
    given: (site) => [array(site), { axis: 0 }],
    call: ([a, options]) => cumulativeSum(a, options),
    options: [1, ["axis"]],
  },
  "cg": {
    given: ({ runtime }) => [
      eye(runtime, 4, Slab.X),
      DistributedArray.full(runtime, [4], Slab.X, 1),
      {},
    ],
    call: (given) => (cg as Any)(...given),
    options: [2, words("x0 tolerance absoluteTolerance maxSteps preconditioner")],
  },
  "diagonal": { given: (site) => [array(site)], call: ([a]) => diagonal(a) },
  "add": elementwise(add, 1, 2),
  "exp": elementwise(exp, 1),
  "where": elementwise(where, 3),
  "clip": elementwise(clip, 1, -1, 1),
  "evaluate": {
    given: (site) => [(a: Any, b: Any) => a.multiply(b).add(1), [array(site), array(site)], {}],
    call: ([make, operands, options]) => evaluate(make, operands, options),
    options: [2, ["into"]],
  },
  "redistribute": { given: (site) => [array(site), Slab.Y], call: ([a, to]) => redistribute(a, to) },
  "Redistribution": { given: (site) => [array(site), array(site)], call: ([a, to]) => new Redistribution(a, to) },
  "Redistribution .plan": {
    given: () => [{}],
    call: ([options], site) => {
      using plan = new Redistribution(array(site), Slab.Y);
      plan.plan(options);
    },
    options: [0, ["algorithm"]],
  },
  "Redistribution .autotune": {
    given: (site) => [array(site), { repetitions: 1 }],
    call: ([replaced, options], site) => {
      using plan = new Redistribution(array(site), Slab.Y);
      const lost = stand(site, replaced);
      plan.resetOperands({ array: lost.array });
      lost.end();
      return plan.autotune(options);
    },
    options: [1, ["repetitions"]],
    self: "array",
  },
  "Redistribution .execute": {
    given: (site) => [array(site)],
    call: ([replaced], site) => {
      using plan = new Redistribution(array(site), Slab.Y);
      const lost = stand(site, replaced);
      plan.resetOperands({ array: lost.array });
      lost.end();
      return plan.execute();
    },
    self: "array",
  },
  "Redistribution .resetOperands": {
    given: (site) => [array(site)],
    call: ([replacement], site) => {
      using plan = new Redistribution(array(site), Slab.Y);
      plan.resetOperands({ array: replacement });
    },
  },
  "loadNpy": {
    given: ({ runtime, folder }) => [runtime, `${folder}/a.npy`, Slab.X, {}],
    call: (given) => (loadNpy as Any)(...given),
    options: [3, ARRAY_KEYS],
  },
  "saveNpy": {
    given: (site) => [array(site), `${site.folder}/b.npy`],
    call: ([a, path]) => saveNpy(a, path),
  },
  "loadNpz": {
    given: ({ runtime, folder }) => [runtime, `${folder}/a.npz`, Slab.X, {}],
    call: (given) => (loadNpz as Any)(...given),
    options: [3, ARRAY_KEYS],
  },
  "saveNpz": {
    given: (site) => [{ a: array(site), b: array(site) }, `${site.folder}/b.npz`],
    call: ([arrays, path]) => saveNpz(arrays, path),
  },
  "allocateSymmetricMemory": {
    given: ({ runtime }) => [runtime, [2, 2], {}],
    call: (given) => freeSymmetricMemory((allocateSymmetricMemory as Any)(...given)),
    options: [2, words("dtype order makeSymmetric backend")],
  },
  "freeSymmetricMemory": {
    given: () => [true],
    call: ([wrong], { runtime }) => {
      const made = allocateSymmetricMemory(runtime, [2]);
      try {
        freeSymmetricMemory(wrong === true ? made : wrong);
      } finally {
        made[Symbol.dispose]();
      }
    },
  },
  "SymmetricArray .synchronize": {
    given: (site) => [array(site)],
    call: ([replaced], site) => {
      const made = allocateSymmetricMemory(site.runtime, [2]);
      if (!stand(site, replaced).isThere) made[Symbol.dispose]();
      try {
        made.synchronize();
      } finally {
        made[Symbol.dispose]();
      }
    },
    self: "array",
  },
  "SymmetricBuffer .synchronize": {
    given: (site) => [array(site)],
    call: ([replaced], site) => {
      const made = allocateSymmetricMemory(site.runtime, [2]);
      if (!stand(site, replaced).isThere) made[Symbol.dispose]();
      try {
        made.symmetric.synchronize();
      } finally {
        made[Symbol.dispose]();
      }
    },
    self: "array",
  },
  "matmul": routine(matmul, 2, MATMUL_KEYS),
  "Matmul": routine((a, b, options) => new Matmul(a, b, options).free(), 2, MATMUL_KEYS),
  "Matmul .plan": {
    given: (site) => [array(site), {}],
    call: ([replaced, options], site) => {
      const lost = stand(site, replaced);
      using made = product(false, lost.array, array(site));
      lost.end();
      made.plan(options);
    },
    options: [1, PLAN_KEYS],
    self: "array",
  },
  "Matmul .execute": {
    given: (site) => [array(site), {}],
    call: ([replaced, options], site) => {
      const lost = stand(site, replaced);
      using made = product(true, array(site), lost.array);
      lost.end();
      return made.execute(options);
    },
    options: [1, ["stream"]],
    self: "array",
  },
  "Matmul .autotune": {
    given: (site) => [array(site), { repetitions: 1 }],
    call: ([replaced, options], site) => {
      const lost = stand(site, replaced);
      using made = product(true, array(site), lost.array);
      lost.end();
      return made.autotune(options);
    },
    options: [1, ["repetitions"]],
    self: "array",
  },
  "Matmul .timeline": {
    given: (site) => [array(site)],
    call: ([replaced], site) => {
      const lost = stand(site, replaced);
      using made = product(true, array(site), lost.array, "overlap");
      lost.end();
      return made.timeline();
    },
    self: "array",
  },
  "Recording .timeline": {
    given: () => [],
    call: (_, { runtime }) => {
      using recording = runtime.record();
      return recording.timeline();
    },
  },
  "Matmul .resetOperands": {
    given: (site) => [{ a: array(site) }],
    call: ([options], site) => {
      using made = product(true, array(site), array(site));
      made.resetOperands(options);
      return made.execute();
    },
    options: [0, words("a b c alpha beta quantizationScales epilogInputs")],
  },
  "Matmul .free": {
    given: (site) => [array(site)],
    call: ([replaced], site) => {
      const lost = stand(site, replaced);
      const made = product(true, lost.array, array(site));
      lost.end();
      made.free();
    },
    self: "array",
  },
  "fft": transform(fft, complex),
  "ifft": transform(ifft, complex),
  "rfft": transform(rfft, array),
  "irfft": transform(irfft, complex, "lastAxisParity"),
  "allocateOperand": {
    given: ({ runtime }) => [runtime, [4, 4], Slab.X, {}],
    call: (given) => (allocateOperand as Any)(...given),
    options: [3, words("dtype order memory fftType axes resultDistribution redistribute lastAxisParity")],
  },
  "FFT": transform((operand, options) => new FFT(operand, options).free(), array, "lastAxisParity", "fftType"),
  "FFT .plan": transformMethod(false, FFT_PLAN_KEYS, (made, options) => made.plan(options)),
  "FFT .execute": transformMethod(true, words("direction stream"), (made, options) => made.execute(options)),
  "FFT .autotune": transformMethod(true, ["repetitions"], (made, options) => made.autotune(options)),
  "FFT .resetOperands": {
    given: (site) => [standBesideRuntime(site, array(site)).array],
    call: ([operand], site) => {
      using made = new FFT(standBesideRuntime(site, array(site)).array);
      made.plan();
      made.resetOperands(operand);
      return made.execute();
    },
  },
  "FFT .free": transformMethod(true, [], (made) => made.free()),
  "trsm": routine(trsm, 2, words("side uplo trans diag alpha inplace")),
  "trmm": routine(trmm, 2, words("side uplo trans diag alpha inplace")),
  "syrk": routine(syrk, 1, [...ADDEND_KEYS, "uplo", "trans"]),
  "herk": routine(herk, 1, [...ADDEND_KEYS, "uplo", "trans"], complex),
  "syr2k": routine(syr2k, 2, [...ADDEND_KEYS, "uplo", "trans"]),
  "her2k": routine(her2k, 2, [...ADDEND_KEYS, "uplo", "trans"], complex),
  "symm": routine(symm, 2, [...ADDEND_KEYS, "side", "uplo"]),
  "hemm": routine(hemm, 2, [...ADDEND_KEYS, "side", "uplo"], complex),
  "geadd": routine(geadd, 1, [...ADDEND_KEYS, "trans"]),
  "tradd": routine(tradd, 1, [...ADDEND_KEYS, "uplo", "trans"]),
  "solve": routine(solve, 2, ["assume"], onEveryRank),
  "eigh": { given: (site) => [onEveryRank(site)], call: ([a]) => eigh(a)[Symbol.dispose]() },
};

/** An array that becomes, once `end` is called, what the given one is: freed, or without memory. */
function stand(site: Site, replaced: DistributedArray): { array: DistributedArray; isThere: boolean; end: () => void } {
  const { array, buffer } = matrixIn(site);
  const { isFreed, isLost } = replaced;
  const end = () => {
    if (isFreed) array.free();
    if (isLost) buffer.transfer();
  };
  return { array, isThere: !isFreed && !isLost, end };
}

/** As {@linkcode stand}, of an array that is where the runtime computes; on a GPU memory is lost by being freed. */
function standBesideRuntime(site: Site, replaced: DistributedArray): { array: DistributedArray; end: () => void } {
  const { array, isThere, end } = stand(site, replaced);
  if (site.runtime.stream === null) return { array, end };
  const copy = array.to({ memory: "device" });
  return { array: copy, end: () => isThere || copy.free() };
}

/** What else mod.ts exports, and who answers for it: classes whose members all are local, or checked otherwise. */
export const OTHER_CLASSES: Record<string, string> = {
  "local":
    `LocalArray Distribution Slab BlockCyclic BlockNonCyclic ReplicatedDistribution Sliced ProcessGrid Device Stream
    Event Graph DeviceBuffer MemoryPool PinnedBuffer MatrixQualifiers MatrixQualifierRecord Request PersistentRequest
    ReductionOperator`,
  "checks each call locally, as MPI and NCCL do": "Communicator NcclCommunicator",
  "errors":
    `CollectiveError ConfigurationError DistmathError DistributionError DTypeError NativeError ShapeError StateError
    MpiError LibraryNotFoundError`,
};

/** Functions that are local, and members of the other classes. */
export const LOCAL_CALLS = `
  currentRuntime fromNdarray toNdarray waitAll waitAny startAll Timeline Timeline.toSVG Timeline.toChromeTrace makePresencePage LongWaits LongWaits.look processesInMpi toldEnds whereRanksAre SymmetricArray.order
  findGpuDriver inspectGpus isHeld taskCommand roomOnGpus launcher copyFromDevice copyToDevice liveAllocations numroc allocate decode promote
  dtypeInfo dtypeOf encode fromFloat32 isNarrowFloat toFloat32 parseNpyHeader geluAuxShape reluAuxShape inferDistribution
  matrixQualifiers explain nearest packQualifiers qualifiersObject environment findCompiler nativePrefix openedLibraries searchFolders
  Recording Recording.collectives Recording.exchanges Recording.stop
  Runtime Runtime.print Runtime.record Runtime.versions Runtime.onCollect Runtime.warnOnce Runtime.isFinalized Runtime.isClosed
  DistributedArray DistributedArray:wrap DistributedArray:of DistributedArray:share DistributedArray.local DistributedArray.isLost DistributedArray.size
  DistributedArray.entries DistributedArray.owner DistributedArray.hostPart DistributedArray.besides
  DistributedArray.isFreed DistributedArray.isView DistributedArray.toString DistributedArray.transpose DistributedArray.free
  CommunicationMatrix CommunicationMatrix.total CommunicationMatrix.sent CommunicationMatrix.received CommunicationMatrix.toText CommunicationMatrix.toSVG
  Matmul.communication FFT.communication Redistribution.communication Redistribution.explain
  Redistribution.algorithm Redistribution.bytesMoved Redistribution.releaseOperands Redistribution.free
  Matmul.isFreed Matmul.auxiliary Matmul.algorithm Matmul.resetOperandsUnchecked Matmul.releaseOperands Matmul.explain
  Matmul.toString
  FFT.isFreed FFT.algorithm FFT.resetOperandsUnchecked FFT.releaseOperands FFT.explain FFT.toString
  Box Box:from Box:ofSlice Box.bind Box.toString Box.hasParametersOf Box.permuted Box.sliced
  SymmetricArray SymmetricArray.symmetric SymmetricArray.backend SymmetricArray.isFreed SymmetricArray.isLost
  SymmetricArray.data SymmetricArray.address SymmetricArray.peerAddress SymmetricArray.peer SymmetricArray.release
  SymmetricBuffer SymmetricBuffer.isFreed SymmetricBuffer.isGone SymmetricBuffer.address SymmetricBuffer.host
  SymmetricBuffer.stream SymmetricBuffer.peerHost SymmetricBuffer.peerMemory SymmetricBuffer.peerAddress SymmetricBuffer.beforeEnd`;

/** Elementwise functions that are called as those in the table are: `exp` and `add`. */
const ELEMENTWISE = words(
  "abs acos asin atan atan2 ceil conj cos cosh divide equal erf erfc expm1 floor greater greaterEqual imag isFinite isNaN " +
    "less lessEqual log log10 log1p log2 logicalAnd logicalNot logicalOr logicalXor maximum minimum multiply negative " +
    "notEqual positive power real round sign sin sinh sqrt square subtract tan tanh trunc",
);

/**
 * Collective, but tested elsewhere: it ends MPI, is called when all ranks have agreed already, or is another name of what is
 * in the table.
 */
export const TESTED_ELSEWHERE = `
  Runtime.finalize SymmetricBuffer.end mapTasks
  DistributedArray.show DistributedArray.prod DistributedArray.mean
  DistributedArray.std DistributedArray.min DistributedArray.max DistributedArray.argmin DistributedArray.all
  DistributedArray.any
  trace vdot ${ELEMENTWISE.join(" ")} ${ELEMENTWISE.map((name) => `DistributedArray.${name}`).join(" ")}`;
