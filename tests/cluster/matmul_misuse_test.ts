/** Wrong uses of matmul and Matmul: the same error on every rank, and no rank left waiting. */
import { assertEquals } from "@std/assert";
import {
  BlockCyclic,
  BlockNonCyclic,
  CollectiveError,
  ConfigurationError,
  DistributedArray,
  DistributionError,
  type DType,
  DTypeError,
  LocalArray,
  Matmul,
  matmul,
  type MatmulOptions,
  matrixQualifiers,
  ProcessGrid,
  Replicated,
  type Runtime,
  ShapeError,
  Slab,
  StateError,
} from "../../mod.ts";
import type { MatmulEngine } from "../../src/linalg/engines/engine.ts";
import { scalapackEngine } from "../../src/linalg/engines/scalapack/engine.ts";
import { assertThrowsEverywhere, clusterTest, type ErrorClass } from "../../src/testing/mod.ts";

const [M, N, K] = [12, 8, 10];

/** Arrays that fit each other, to be misused. */
class Bench {
  constructor(readonly runtime: Runtime) {}

  get rank(): number {
    return this.runtime.rank;
  }

  zeros(shape: number[], slab = Slab.X, dtype: DType = "float32", order: "C" | "F" = "C"): DistributedArray {
    return DistributedArray.zeros(this.runtime, shape, slab, { dtype, order });
  }

  get a(): DistributedArray {
    return this.zeros([M, K]);
  }

  get b(): DistributedArray {
    return this.zeros([K, N], Slab.Y);
  }

  get c(): DistributedArray {
    return this.zeros([M, N]);
  }

  /** Local rows of D where it is Slab.X. */
  get localRows(): number {
    return Slab.X.bind([M, N], this.runtime.size).localShape(this.rank)[0];
  }

  /** Multiply with any options, also wrong ones. */
  run(options: unknown, a: unknown = this.a, b: unknown = this.b): unknown {
    return matmul(a as DistributedArray, b as DistributedArray, options as MatmulOptions);
  }

  planned(options: MatmulOptions = {}): Matmul {
    const object = new Matmul(this.a, this.b, options);
    object.plan();
    return object;
  }

  /** 8-bit factors. */
  eight(options: unknown, a: DType = "float8_e4m3", b: DType = "float8_e4m3"): unknown {
    return this.run(options, this.zeros([M, K], Slab.X, a), this.zeros([K, N], Slab.Y, b));
  }
}

type Misuse = (bench: Bench) => unknown;
type Case = readonly [what: string, misuse: Misuse, errorClass: ErrorClass<Error>, message: string];

/** Uses that are wrong on every rank. */
const EVERYWHERE: readonly Case[] = [
  ["a is no array", (t) => t.run({}, new Float32Array(4)), TypeError, "a must be a DistributedArray"],
  ["b is missing", (t) => t.run({}, t.a, null), TypeError, "b must be a DistributedArray; got null"],
  ["a is freed", (t) => t.run({}, freed(t.a)), StateError, "a was freed"],
  ["b is freed", (t) => t.run({}, t.a, freed(t.b)), StateError, "b was freed"],
  ["c is freed", (t) => t.run({ c: freed(t.c), beta: 1 }), StateError, "c was freed"],
  ["a has three dimensions", (t) => t.run({}, t.zeros([2, 3, 4])), ShapeError, "of 2 dimensions"],
  ["b is a vector", (t) => t.run({}, t.a, t.zeros([K])), ShapeError, "b has shape [10]"],
  ["inner extents differ", (t) => t.run({}, t.a, t.zeros([K + 1, N])), ShapeError, "the inner extents 10 and 11"],
  [
    "inner extents differ by a qualifier",
    (t) => t.run({ qualifiers: { a: { isTranspose: true } } }),
    ShapeError,
    "a [12, 10] transposed",
  ],
  ["c of another shape", (t) => t.run({ c: t.zeros([N, M]), beta: 1 }), ShapeError, "c has shape [8, 12]"],
  ["c of another dtype", (t) => t.run({ c: t.zeros([M, N], Slab.X, "float64"), beta: 1 }), DTypeError, "float64"],
  ["c without beta", (t) => t.run({ c: t.c }), TypeError, "c needs beta"],
  ["beta is null", (t) => t.run({ c: t.c, beta: null }), TypeError, "beta must be a number"],
  ["alpha is null", (t) => t.run({ alpha: null }), TypeError, "alpha must be a number"],
  ["beta without c", (t) => t.run({ beta: 1 }), TypeError, "there is no c"],
  ["c null with beta", (t) => t.run({ c: null, beta: 1 }), TypeError, "there is no c"],
  ["c null in place", (t) => t.run({ c: null, inplace: true }), TypeError, "inplace writes the result into c"],
  ["c is a number", (t) => t.run({ c: 0, beta: 1 }), TypeError, "c must be a DistributedArray; got 0"],
  ["inplace without c", (t) => t.run({ inplace: true }), TypeError, "inplace writes the result into c"],
  [
    "inplace over a part of an operand",
    (t) => {
      const whole = t.zeros([6, 12]);
      const [a, b, c] = [0, 6, 3].map((start) => whole.slice([[0, 6], [start, start + 6]]));
      return t.run({ c, beta: 1, inplace: true }, a, b);
    },
    StateError,
    "c shares memory with a",
  ],
  ["inplace over an operand", (t) => square(t, (a) => ({ c: a, beta: 1, inplace: true })), StateError, "shares memory"],
  ["factors of different dtypes", (t) => t.run({}, t.zeros([M, K], Slab.X, "float64")), DTypeError, "Convert one"],
  [
    "integers",
    (t) => t.run({}, t.zeros([M, K], Slab.X, "int32"), t.zeros([K, N], Slab.X, "int32")),
    DTypeError,
    "No engine multiplies integers",
  ],
  ["e5m2 times e5m2", (t) => t.eight({}, "float8_e5m2", "float8_e5m2"), DTypeError, "must be float8_e4m3"],
  ["a result type that does not fit", (t) => t.run({ resultType: "float16" }), DTypeError, "no result of"],
  ["an unknown result type", (t) => t.run({ resultType: "float_32" }), TypeError, 'Did you mean "float32"'],
  ["a compute type that does not fit", (t) => t.run({ computeType: "float64" }), DTypeError, "computeType float64"],
  ["an unknown compute type", (t) => t.run({ computeType: "tf32" }), TypeError, "computeType must be one of"],
  ["a scale type that does not fit", (t) => t.run({ scaleType: "float64" }), DTypeError, "allowed: float32"],
  ["alpha is a string", (t) => t.run({ alpha: "2" }), TypeError, "alpha must be a number"],
  ["alpha is complex", (t) => t.run({ alpha: [1, 2] }), DTypeError, "alpha is complex"],
  ["beta is a bigint", (t) => t.run({ c: t.c, beta: 1n }), TypeError, "beta must be a number"],
  [
    "c as a third matrix",
    (t) => matmul(t.a, t.b, t.c as unknown as MatmulOptions),
    TypeError,
    "matmul(a, b, options) takes c among the options: { c, beta }",
  ],
  [
    "c as a third matrix of a Matmul",
    (t) => new Matmul(t.a, t.b, t.c as unknown as MatmulOptions),
    TypeError,
    "new Matmul(a, b, options) takes c among the options",
  ],
  [
    "options twice",
    (t) => Reflect.apply(matmul, null, [t.a, t.b, {}, { alpha: 2 }]),
    TypeError,
    "matmul(a, b, options) takes three arguments; got 4",
  ],
  ["an unknown option", (t) => t.run({ transA: true }), TypeError, 'no key "transA"'],
  ["options that are none", (t) => t.run("fast"), TypeError, "must be an object"],
  ["C is transposed", (t) => t.run({ qualifiers: { c: { isTranspose: true } } }), TypeError, "qualifiers.c"],
  [
    "C is conjugated by a packed qualifier",
    (t) => {
      const qualifiers = matrixQualifiers(3);
      qualifiers[2].isConjugate = true;
      return t.run({ qualifiers });
    },
    TypeError,
    "qualifiers.c",
  ],
  ["a real conjugate", (t) => t.run({ qualifiers: { a: { isConjugate: true } } }), DTypeError, "complex dtype"],
  ["a misspelt qualifier", (t) => t.run({ qualifiers: { a: { transpose: true } } }), TypeError, "isTranspose"],
  ["a distribution that is none", (t) => t.run({ distribution: "Slab.X" }), TypeError, "distribution must be"],
  ["the class of a distribution", (t) => t.run({ distribution: Slab }), TypeError, "Did you mean Slab.X?"],
  ["a slab of a third dimension", (t) => t.run({ distribution: Slab.Z }), DistributionError, "Slab.Z"],
  [
    "a grid that is too large",
    (t) => t.run({ distribution: new BlockNonCyclic(new ProcessGrid({ shape: [t.runtime.size + 1, 1] })) }),
    DistributionError,
    "ranks",
  ],
  [
    "a distribution of 3-D arrays",
    (t) => t.run({ distribution: new BlockCyclic(new ProcessGrid({ shape: [1, 1, 1] }), [1, 1, 1]) }),
    DistributionError,
    "dimensions",
  ],
  [
    "a distribution bound to another shape",
    (t) => t.run({ distribution: Slab.X.bind([N, M], t.runtime.size) }),
    DistributionError,
    "Slab.X is bound to shape [8, 12]",
  ],
  [
    "a distribution bound to another number of ranks",
    (t) => t.run({ distribution: Slab.X.bind([M, N], t.runtime.size + 1) }),
    DistributionError,
    "Pass it unbound",
  ],
  ["an unknown engine", (t) => t.run({ engine: "mkl" }), TypeError, "engine must be one of"],
  ["an engine for GPUs", (t) => t.run({ engine: "cublasmp" }), ConfigurationError, "multiplies on GPUs"],
  ["an unknown algorithm", (t) => t.run({ algorithm: "summa" }), TypeError, "algorithm must be one of"],
  ["an algorithm for GPUs", (t) => t.run({ algorithm: "split_p2p" }), ConfigurationError, "on CPUs"],
  ["a stream", (t) => t.run({ stream: 1n }), ConfigurationError, "stream is for GPUs"],
  ["blocking false", (t) => t.run({ blocking: false }), TypeError, "blocking must be true"],
  ["a count of 0", (t) => t.run({ communicationSmCount: 0 }), RangeError, "communicationSmCount"],
  ["an order that is none", (t) => t.run({ order: "row" }), TypeError, "order must be one of"],
  ["inplace is no boolean", (t) => t.run({ inplace: 1 }), TypeError, "inplace must be true or false"],
  ["a logger without methods", (t) => t.run({ logger: { info() {} } }), TypeError, "debug, info and warn"],
  ["block scaling", (t) => t.run({ blockScaling: true }), ConfigurationError, "compute capability 10.0"],
  ["8 bits without scales", (t) => t.eight({}), DTypeError, "needs a scale for a (float8_e4m3)"],
  ["no scale for an 8-bit D", (t) => t.eight({ quantizationScales: { a: 1, b: 1 } }), DTypeError, "d (float8_e4m3)"],
  ["scales for float32", (t) => t.run({ quantizationScales: { a: 1 } }), DTypeError, "leave out a"],
  [
    "a scale for a wide D",
    (t) => t.eight({ quantizationScales: { a: 1, b: 1, d: 1 }, resultType: "float32" }),
    DTypeError,
    "leave out d",
  ],
  ["a scale of 0", (t) => t.eight({ quantizationScales: { a: 0, b: 1, d: 1 } }), RangeError, "positive"],
  [
    "a scale a row",
    (t) => t.eight({ quantizationScales: { a: new Float32Array(M), b: 1, d: 1 } }),
    TypeError,
    "one number a tensor",
  ],
  ["amax of a wide D", (t) => t.run({ resultAmax: true }), TypeError, "class Matmul"],
  ["amax of a wide D, planned", (t) => t.planned({ resultAmax: true }), DTypeError, "results of 8 bits"],
  ["an unknown epilog", (t) => t.run({ epilog: "relubias" }), TypeError, 'Did you mean "relu_bias"'],
  ["an epilog with more outputs", (t) => t.run({ epilog: "relu_aux" }), TypeError, "Use class Matmul"],
  ["a bias that is missing", (t) => t.run({ epilog: "bias" }), TypeError, "needs epilogInputs: { bias }"],
  ["an input for nothing", (t) => t.run({ epilogInputs: { bias: new Float32Array(1) } }), TypeError, "without epilog"],
  ["an input too many", (t) => t.run({ epilog: "relu", epilogInputs: { geluAux: t.a } }), TypeError, "takes no"],
  ["an unknown input", (t) => t.run({ epilog: "bias", epilogInputs: { Bias: t.a } }), TypeError, '"bias"'],
  [
    "a bias of integers",
    (t) => t.run({ epilog: "bias", epilogInputs: { bias: new Int32Array(t.localRows) } }),
    DTypeError,
    "real floating point",
  ],
  ["a bias that is a number", (t) => t.run({ epilog: "bias", epilogInputs: { bias: 1 } }), TypeError, "a typed array"],
  [
    "a mask of another type",
    (t) => t.run({ epilog: "drelu", epilogInputs: { reluAux: new Float32Array(4) } }),
    DTypeError,
    "a bit mask",
  ],
  ["an aux type without aux", (t) => t.run({ epilog: "relu", auxType: "float32" }), TypeError, "auxType is for"],
  ["an epilog of complex numbers", (t) => complex(t, { epilog: "relu" }), DTypeError, "for real matrices"],
  [
    "all_reduce into slabs",
    (t) => t.run({ epilog: "all_reduce", distribution: Slab.X }),
    DistributionError,
    "it must be Replicated",
  ],
  [
    "all_reduce with C in slabs",
    (t) => t.run({ epilog: "all_reduce", distribution: Replicated, c: t.c, beta: 1 }),
    DistributionError,
    "leaves c on every rank",
  ],
  ["an array of another runtime", (t) => t.run({}, t.a, elsewhere(t.b)), StateError, "another runtime"],
  ["scattered elements", (t) => t.run({}, scattered(t)), ShapeError, "neither rows nor columns"],
  ["e5m2 out of e4m3", (t) => t.eight({ resultType: "float8_e5m2" }), DTypeError, "no result of"],
  [
    "a wide C for an 8-bit D",
    (t) => t.eight({ c: t.c, beta: 1, resultType: "float8_e4m3" }),
    DTypeError,
    "c of float16 or bfloat16",
  ],
  [
    "inplace in another dtype",
    (t) => t.eight({ c: t.zeros([M, N], Slab.X, "bfloat16"), beta: 1, resultType: "float8_e4m3", inplace: true }),
    DTypeError,
    "inplace: D is float8_e4m3 and c is bfloat16",
  ],
  ["a freed bias", (t) => t.run({ epilog: "bias", epilogInputs: { bias: freed(t.a) } }), StateError, "bias was freed"],
  [
    "a bias of another length",
    (t) => t.run({ epilog: "bias", epilogInputs: { bias: new Float32Array(99) } }),
    ShapeError,
    "has shape [99]",
  ],
  [
    "an aux input of another shape",
    (t) => t.run({ epilog: "dgelu", epilogInputs: { geluAux: new Float32Array(3) } }),
    ShapeError,
    "as gelu_aux returns geluAux",
  ],
  [
    "an aux input of integers",
    (t) => t.run({ epilog: "dgelu", epilogInputs: { geluAux: new Int32Array(3) } }),
    DTypeError,
    "geluAux must be real",
  ],
  ["an aux type of integers", (t) => t.planned({ epilog: "gelu_aux", auxType: "int8" }), DTypeError, "auxType must be"],
  ["an aux maximum without aux", (t) => t.run({ epilog: "gelu", auxAmax: true }), TypeError, "auxAmax is for"],
  ["no scale for an 8-bit aux", (t) => t.planned(AUX8), TypeError, "auxQuantizationScale is missing"],
  [
    "a negative scale of an aux",
    (t) => t.planned({ ...AUX8, epilogInputs: { auxQuantizationScale: -1 } }),
    RangeError,
    "auxQuantizationScale must be positive",
  ],
  [
    "plan with a freed operand",
    (t) => {
      const a = t.a;
      const object = new Matmul(a, t.b);
      a.free();
      return object.plan();
    },
    StateError,
    "a was freed",
  ],
  ["reset to a complex alpha", (t) => t.planned().resetOperands({ alpha: [1, 1] }), DTypeError, "alpha is complex"],
  [
    "reset to scales that are not used",
    (t) => t.planned().resetOperands({ quantizationScales: { a: 1 } }),
    DTypeError,
    "leave out a",
  ],
  ["execute before plan", (t) => new Matmul(t.a, t.b).execute(), StateError, "before plan()"],
  ["autotune before plan", (t) => new Matmul(t.a, t.b).autotune(), StateError, "autotune() was used before plan()"],
  ["algorithm before plan", (t) => new Matmul(t.a, t.b).algorithm, StateError, "Matmul.algorithm"],
  ["plan after free", (t) => disposed(t.planned()).plan(), StateError, "after free()"],
  ["execute after free", (t) => disposed(t.planned()).execute(), StateError, "after free()"],
  ["reset after free", (t) => disposed(t.planned()).resetOperands({ a: t.a }), StateError, "after free()"],
  ["plan with another option", (t) => t.planned().plan({ alpha: 2 } as never), TypeError, 'no key "alpha"'],
  ["execute with another option", (t) => t.planned().execute({ c: 1 } as never), TypeError, 'no key "c"'],
  ["reset of nothing", (t) => t.planned().resetOperands({}), TypeError, "was given nothing"],
  ["reset to another shape", (t) => t.planned().resetOperands({ a: t.zeros([K, M]) }), ShapeError, "made for [12, 10]"],
  [
    "reset to another order",
    (t) => t.planned().resetOperands({ a: t.zeros([M, K], Slab.X, "float32", "F") }),
    ShapeError,
    'order "F"',
  ],
  [
    "reset to another dtype",
    (t) => t.planned().resetOperands({ b: t.zeros([K, N], Slab.Y, "float64") }),
    DTypeError,
    "made for float32",
  ],
  [
    "reset to another distribution",
    (t) => t.planned().resetOperands({ b: t.zeros([K, N]) }),
    DistributionError,
    "made for Slab.Y",
  ],
  ["reset of a C that is not there", (t) => t.planned().resetOperands({ c: t.c }), TypeError, "c was not there"],
  ["reset of beta without C", (t) => t.planned().resetOperands({ beta: 1 }), TypeError, "made without c"],
  ["reset to a freed array", (t) => t.planned().resetOperands({ a: freed(t.a) }), StateError, "a was freed"],
  [
    "an unchecked reset of less than was released",
    (t) => released(t.planned({ c: t.c, beta: 1 })).resetOperandsUnchecked({ a: t.a }),
    StateError,
    "resetOperandsUnchecked needs b and c too",
  ],
  [
    "an unchecked reset after a bias was released",
    (t) => {
      const bias = new Float32Array(t.localRows);
      const object = released(t.planned({ distribution: Slab.X, epilog: "bias", epilogInputs: { bias } }));
      return object.resetOperandsUnchecked({ a: t.a, b: t.b });
    },
    StateError,
    "needs bias too, since the operands were released. Pass them to resetOperands()",
  ],
  [
    "an unchecked reset after free()",
    (t) => {
      const object = t.planned();
      object.free();
      object.resetOperandsUnchecked({ alpha: 2 });
    },
    StateError,
    "Matmul.resetOperandsUnchecked was used after free(). Make a new Matmul.",
  ],
  [
    "a bias that was freed since",
    (t) => {
      const bias = DistributedArray.zeros(t.runtime, [t.a.shape[0]], Slab.X, { dtype: "float32" });
      const object = t.planned({ distribution: Slab.X, epilog: "bias", epilogInputs: { bias } });
      bias.free();
      object.execute();
    },
    StateError,
    "epilogInputs.bias was freed",
  ],
  ["execute after a release", (t) => released(t.planned()).execute(), StateError, "releaseOperands()"],
  [
    "too few operands after a release",
    (t) => released(t.planned()).resetOperands({ a: t.a }),
    StateError,
    "needs b too",
  ],
  [
    "an operand that was freed since",
    (t) => {
      const a = t.a;
      const object = new Matmul(a, t.b);
      object.plan();
      a.free();
      return object.execute();
    },
    StateError,
    "a was freed",
  ],
  ["no repetitions", (t) => t.planned().autotune({ repetitions: 0 }), RangeError, "repetitions"],
];

function freed(array: DistributedArray): DistributedArray {
  array.free();
  return array;
}

function disposed(object: Matmul): Matmul {
  object.free();
  return object;
}

function released(object: Matmul): Matmul {
  object.releaseOperands();
  return object;
}

const AUX8: MatmulOptions = { epilog: "gelu_aux", auxType: "float8_e4m3" };

/** The same array, as if another initialize() had made it. */
function elsewhere({ runtime, local, distribution, order }: DistributedArray): DistributedArray {
  return DistributedArray.wrap(Object.create(runtime), local, distribution, order);
}

/** A factor with gaps between its elements in both directions. */
function scattered({ runtime, rank }: Bench): DistributedArray {
  const distribution = Slab.X.bind([M, K], runtime.size);
  const shape = distribution.localShape(rank);
  const data = new Float32Array(4 * M * K);
  const local = new LocalArray({ data, dtype: "float32", shape, strides: [2 * K, 2] });
  return DistributedArray.wrap(runtime, local, distribution, "C");
}

function square(bench: Bench, options: (a: DistributedArray) => MatmulOptions): unknown {
  const a = bench.zeros([N, N]);
  return matmul(a, a, options(a));
}

function squareTransposed(bench: Bench, isTranspose: boolean): unknown {
  return square(bench, () => ({ qualifiers: { a: { isTranspose } } }));
}

function complex(bench: Bench, options: MatmulOptions): unknown {
  return bench.run(options, bench.zeros([M, K], Slab.X, "complex64"), bench.zeros([K, N], Slab.Y, "complex64"));
}

for (const [what, misuse, errorClass, message] of EVERYWHERE) {
  clusterTest(`misuse: ${what}`, (runtime) => {
    const bench = new Bench(runtime);
    assertThrowsEverywhere(runtime, () => misuse(bench), errorClass, message);
  });
}

clusterTest("misuse: inplace into another distribution", { ranks: [2, 3, 4] }, (runtime) => {
  const bench = new Bench(runtime);
  const misuse = () => bench.run({ c: bench.c, beta: 1, inplace: true, distribution: Slab.Y });
  // On one rank all distributions are the same.
  assertThrowsEverywhere(runtime, misuse, DistributionError, "the result is to be distributed as Slab.Y");
});

/** One value on the last rank, another one on the others. */
const differ = <T>({ runtime }: Bench, last: T, others: T): T => runtime.rank === runtime.size - 1 ? last : others;

/** Uses that are wrong on one rank only, or in which the ranks differ. */
const BETWEEN_RANKS: readonly Case[] = [
  ["alpha", (t) => t.run({ alpha: differ(t, 1, 2) }), CollectiveError, "alpha"],
  ["beta", (t) => t.run({ c: t.c, beta: differ(t, 1, 2) }), CollectiveError, "beta"],
  ["inplace", (t) => t.run({ c: t.c, beta: 1, inplace: differ(t, true, false) }), CollectiveError, "inplace"],
  ["qualifiers", (t) => squareTransposed(t, differ(t, true, false)), CollectiveError, "qualifiers.a"],
  ["distribution", (t) => t.run({ distribution: differ(t, Slab.X, Slab.Y) }), CollectiveError, "Slab.Y, order C"],
  ["order", (t) => t.run({ order: differ(t, "C", "F") }), CollectiveError, "order F"],
  ["computeType", (t) => t.run({ computeType: differ(t, "float32", "float32_fast_tf32") }), CollectiveError, "tf32"],
  ["algorithm", (t) => t.run({ algorithm: differ(t, "pgemm", "default") }), CollectiveError, "algorithm"],
  ["communicationSmCount", (t) => t.run({ communicationSmCount: differ(t, 1, 2) }), CollectiveError, "SmCount"],
  ["blocking", (t) => t.run({ blocking: differ<unknown>(t, true, "auto") }), CollectiveError, "blocking"],
  ["epilog", (t) => t.run({ epilog: differ(t, "relu", "gelu") }), CollectiveError, "epilog"],
  ["engine", (t) => t.run({ engine: differ(t, "scalapack", "auto") }), CollectiveError, "engine"],
  [
    "which arrays are multiplied",
    (t) => {
      const [x, y] = [t.zeros([N, N]), t.zeros([N, N], Slab.Y)];
      return t.run({}, differ(t, x, y), x);
    },
    CollectiveError,
    "Slab.Y",
  ],
  ["whether there is a C", (t) => withC(t), CollectiveError, 'c ("none"'],
  ["scales", (t) => t.eight({ quantizationScales: { a: 1, b: differ(t, 1, 2), d: 1 } }), CollectiveError, "Scales"],
  ["an option that one misspells", (t) => t.run(differ(t, { alhpa: 1 }, { alpha: 1 })), TypeError, "alpha"],
  ["an array that one rank freed", (t) => onlyLast(t, t.a), StateError, "a was freed"],
  ["an argument that is none on one rank", (t) => t.run({}, differ<unknown>(t, 5, t.a)), TypeError, "got 5"],
  [
    "a bias that is too short on one rank",
    (t) => t.run({ epilog: "bias", epilogInputs: { bias: new Float32Array(differ(t, 99, t.localRows)) } }),
    ShapeError,
    "one value a local row of D",
  ],
  [
    "the dtype of a bias",
    (t) => {
      const [narrow, wide] = [new Float16Array(t.localRows), new Float32Array(t.localRows)];
      return t.run({ epilog: "bias", epilogInputs: { bias: differ<unknown>(t, narrow, wide) } });
    },
    CollectiveError,
    "epilogInputs.bias",
  ],
  [
    "a row-major mask on one rank",
    (t) => {
      const shape = [16, N];
      const data = new Uint8Array(16 * N);
      const strides = differ(t, [N, 1], [1, 16]);
      const reluAux = new LocalArray({ data, dtype: "uint8", shape, strides });
      return t.run({ epilog: "drelu", epilogInputs: { reluAux } });
    },
    ShapeError,
    "must be column-major",
  ],
  ["a replan", (t) => t.planned().plan({ epilog: differ(t, "relu", null) }), CollectiveError, "Matmul.plan"],
  ["a reset", (t) => t.planned().resetOperands({ alpha: differ(t, 3, 4) }), CollectiveError, "alpha"],
  ["what is reset", (t) => resetOne(t), CollectiveError, "given"],
  [
    "the operation",
    (t) => {
      const object = t.planned();
      return differ(t, () => object.plan(), () => object.execute())();
    },
    CollectiveError,
    "Matmul.plan",
  ],
  [
    "the memory of an operand",
    (t) => {
      const { shape, distribution, dtype } = t.a;
      using symmetric = DistributedArray.zeros(t.runtime, shape, distribution, { dtype, memory: "symmetric" });
      return t.run({}, differ(t, symmetric, t.a));
    },
    CollectiveError,
    "memory",
  ],
  [
    "a release on one rank",
    (t) => {
      const object = t.planned();
      if (differ(t, true, false)) object.releaseOperands();
      return object.execute();
    },
    StateError,
    "releaseOperands()",
  ],
];

function withC(bench: Bench): unknown {
  const c = bench.c;
  return bench.run(differ(bench, { c, beta: 0 }, {}));
}

function onlyLast(bench: Bench, a: DistributedArray): unknown {
  if (differ(bench, true, false)) a.free();
  return bench.run({}, a);
}

function resetOne(bench: Bench): unknown {
  const object = bench.planned();
  const { a, b } = bench;
  return object.resetOperands(differ(bench, { a }, { b }));
}

for (const [what, misuse, errorClass, message] of BETWEEN_RANKS) {
  clusterTest(`ranks differ: ${what}`, { timeoutSeconds: 20, ranks: [2, 3, 4] }, (runtime) => {
    const bench = new Bench(runtime);
    const error = assertThrowsEverywhere(runtime, () => misuse(bench), errorClass, message);
    assertEquals((error as unknown as { ranks: number[] }).ranks.length > 0, true, "the error names ranks");
  });
}

clusterTest("misuse: an algorithm that cannot run the product", { ranks: [2, 3, 4] }, (runtime) => {
  const bench = new Bench(runtime);
  const misuse = () => bench.run({ algorithm: "gemm_all_reduce" });
  assertThrowsEverywhere(runtime, misuse, ConfigurationError, "gemm_all_reduce cannot run this product: it needs a D");
});

/** Engine scalapack, opening something else on the last rank. */
function withOpen(runtime: Runtime, open: NonNullable<MatmulEngine["open"]>): Disposable {
  const original = scalapackEngine.open!;
  if (runtime.rank === runtime.size - 1) scalapackEngine.open = open;
  return { [Symbol.dispose]: () => void (scalapackEngine.open = original) };
}

clusterTest("ranks differ: one has no ScaLAPACK", { ranks: [2, 3, 4] }, (runtime) => {
  const { a, b } = new Bench(runtime);
  using _missing = withOpen(runtime, () => {
    throw new ConfigurationError("ScaLAPACK was not found");
  });
  assertThrowsEverywhere(runtime, () => new Matmul(a, b), ConfigurationError, "ScaLAPACK was not found (on rank");
});

clusterTest("ranks differ: one has another ScaLAPACK", { ranks: [2, 3, 4] }, (runtime) => {
  const { a, b } = new Bench(runtime);
  using _other = withOpen(runtime, () => "netlib, libscalapack-2.1");
  assertThrowsEverywhere(runtime, () => new Matmul(a, b), CollectiveError, 'library ("');
});

clusterTest("a logger that throws on one rank leaves no rank waiting", (runtime) => {
  const { a, b, rank } = new Bench(runtime);
  const calls: string[] = [];
  const log = (level: string) => () => {
    calls.push(level);
    if (rank === runtime.size - 1) throw new Error(`no ${level}`);
  };
  const logger = { debug: log("debug"), info: log("info"), warn: log("warn") };
  const warnings: unknown[][] = [];
  const { warn } = console;
  console.warn = (...data) => warnings.push(data);
  try {
    using object = new Matmul(a, b, { logger, communicationSmCount: 1 });
    object.plan();
    object.execute();
    object.autotune({ repetitions: 1 });
  } finally {
    console.warn = warn;
  }
  for (const level of ["debug", "info", "warn"]) assertEquals(calls.includes(level), true, level);
  const own = warnings.filter(([text]) => String(text).includes("the logger of rank"));
  assertEquals(own.length, rank === runtime.size - 1 ? 1 : 0, "the first error is printed, on its rank");
});

clusterTest("after an error the same objects still work", (runtime) => {
  const bench = new Bench(runtime);
  const object = bench.planned();
  const before = object.explain();
  const reset = () => object.resetOperandsUnchecked({ a: freed(bench.a), alpha: 5 });
  assertThrowsEverywhere(runtime, reset, StateError, "freed");
  assertEquals(object.explain(), before);
  assertThrowsEverywhere(runtime, () => object.plan({ epilog: "bias" }), TypeError, "bias");
  assertThrowsEverywhere(runtime, () => object.resetOperands({ a: bench.b }), ShapeError, "a has shape");
  assertEquals(object.execute().shape.join(), "12,8");
});

clusterTest(
  "free() on one rank and execute() on the others do not hang",
  { ranks: [2, 3, 4] },
  (runtime) => {
    using a = DistributedArray.zeros(runtime, [4, 4], Slab.X, { dtype: "float64" });
    using b = DistributedArray.zeros(runtime, [4, 4], Slab.X, { dtype: "float64" });
    using product = new Matmul(a, b);
    product.plan();
    const call = () => runtime.rank === 0 ? product.free() : product.execute();
    assertThrowsEverywhere(runtime, call, CollectiveError, "The ranks are in different operations: ");
  },
);
