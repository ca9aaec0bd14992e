/** The operations of the soak: each makes its own arrays by chance, and tells what came out other than the model says. */
import {
  allocateSymmetricMemory,
  DistributedArray,
  type Distribution,
  type DType,
  dtypeInfo,
  dtypes,
  freeSymmetricMemory,
  geadd,
  hemm,
  her2k,
  herk,
  loadNpy,
  LocalArray,
  Matmul,
  matmul,
  type MatmulOptions,
  Replicated,
  saveNpy,
  symm,
  syr2k,
  syrk,
  tradd,
  trmm,
  trsm,
} from "../../mod.ts";
import { alongAxes, elementwise, plannedMoves, shapes } from "./array_operations.ts";
import { damaged } from "./damage.ts";
import { type Context, elements, finish, isComplex, make } from "./given.ts";
import { messages } from "./messages.ts";
import {
  at,
  combined,
  type Complex,
  conjugated,
  fromScalar,
  mapped,
  type Model,
  numbersIn,
  plus,
  product,
  sliced,
  toScalar,
  transposed,
  wrongNumbers,
  wrongPart,
} from "./model.ts";
import { transforms } from "./transforms.ts";

function changes(context: Context): void {
  const { runtime, draw } = context;
  const dtype = draw.pick(dtypes);
  const { array, model } = make(context, draw.shape(), dtype);
  const { shape } = model;
  finish(context, array.redistribute(draw.distribution(shape, runtime.size)), model, dtype);
  finish(context, array.copy(), model, dtype);
  // Small whole numbers convert exactly; negative ones become 0 in uint8, and complex ones stay complex.
  const to = draw.pick(dtypes.filter((other) => isComplex(other) || !isComplex(dtype)));
  const clamped = to === "uint8" ? mapped(model, ([x, y]) => [Math.max(0, x), y]) : model;
  finish(context, array.to({ dtype: to, order: draw.order() }), clamped, to);
  const view = array.transpose();
  context.report(wrongPart(view, transposed(model), dtype));
  const ranges = shape.map((extent) => draw.range(extent));
  const slice = array.slice(ranges);
  context.report(wrongPart(slice, sliced(model, ranges), dtype));
  finish(context, slice.transpose().copy(), transposed(sliced(model, ranges)), dtype);
  const flipped = array.map((value, ...index) => {
    const [x, y] = fromScalar(value);
    return toScalar(dtype, [Math.abs(x) + index[0] % 2, -y]);
  });
  finish(context, flipped, mapped(model, ([x, y], index) => [Math.abs(x) + index[0] % 2, -y]), dtype);
  context.report(wrongPart(array, model, dtype));
  array.free();
}

function gathers(context: Context): void {
  const { runtime: { rank, size }, draw } = context;
  const dtype = draw.pick(dtypes);
  const { array, model } = make(context, draw.shape(), dtype);
  const wanted = numbersIn(model, dtype, array.order);
  const { parts } = dtypeInfo(dtype);
  const wrongWhole = (data: Parameters<typeof numbersOf>[1]) => wrongNumbers(numbersOf(dtype, data), wanted);
  const into = draw.once(2) ? { into: new (dtypeInfo(dtype).array)(model.re.length * parts) } : {};
  context.report(wrongWhole(array.allGather(into)));
  const root = draw.below(size);
  const gathered = array.gather({ root });
  if ((gathered !== null) !== (rank === root)) context.report(`gather gave ${gathered} on rank ${rank}`);
  else if (gathered !== null) context.report(wrongWhole(gathered));
  array.free();
}

function numbersOf(dtype: DType, data: LocalArray["data"]): number[] {
  return new LocalArray({ data, dtype, shape: [data.length / dtypeInfo(dtype).parts] }).toNumbers();
}

function reductions(context: Context): void {
  const { draw } = context;
  const shape = draw.shape();
  const dtype = draw.pick(dtypes);
  const one = make(context, shape, dtype);
  const other = make(context, shape, draw.pick(dtypes));
  const sum = one.model.re.reduce((total, x, i) => plus(total, [x, one.model.im[i]]), [0, 0] as Complex);
  context.report(wrongNumbers([...fromScalar(one.array.sum())], [...sum]));
  const squares = one.model.re.reduce((total, x, i) => total + x * x + one.model.im[i] ** 2, 0);
  context.report(near(one.array.norm(), Math.sqrt(squares)));
  const distances = one.model.re.map((x, i) => Math.hypot(x - other.model.re[i], one.model.im[i] - other.model.im[i]));
  context.report(
    near(one.array.maxAbsDifference(other.array), distances.reduce((most, distance) => Math.max(most, distance), 0)),
  );
  one.array.free();
  other.array.free();
}

function near(given: number, wanted: number): string | null {
  return Math.abs(given - wanted) <= 1e-14 * wanted ? null : `${given}, not ${wanted}`;
}

/** The same numbers in any distribution and order. */
function randomNumbers(context: Context): void {
  const { runtime, draw } = context;
  const [shape, dtype, seed] = [draw.shape(), draw.pick(dtypes), draw.between(0, 1e9)];
  const random = (place: Distribution) =>
    DistributedArray.random(runtime, shape, place, { dtype, seed, order: draw.order() });
  using whole = random(Replicated);
  using divided = random(draw.distribution(shape, runtime.size));
  const difference = whole.maxAbsDifference(divided);
  context.report(difference === 0 ? null : `random ${dtype} differ by ${difference}`);
}

const FLOATS: readonly DType[] = [
  "float32",
  "float64",
  "complex64",
  "complex128",
  "float16",
  "bfloat16",
  "float8_e4m3",
];
const EPILOGS = ["none", "none", "relu", "bias", "relu_bias", "all_reduce"] as const;

function scalar({ draw }: Context, dtype: DType): Complex {
  return [draw.between(-2, 2), isComplex(dtype) ? draw.between(-1, 1) : 0];
}

const argument = (dtype: DType, [re, im]: Complex) => isComplex(dtype) ? [re, im] as const : re;

/** A product with everything that goes with it; now and then with other operands afterwards. */
function products(context: Context): void {
  const { runtime, draw } = context;
  const dtype = draw.pick(FLOATS);
  const [m, n, k] = [draw.between(0, 9), draw.between(0, 9), draw.once(20) ? 0 : draw.between(1, 9)];
  const isQuantized = dtype === "float8_e4m3";
  const resultType = isQuantized ? "bfloat16" : dtype;
  const epilog = isComplex(dtype) ? "none" : draw.pick(EPILOGS);
  const qualifiers = {
    a: { isTranspose: draw.once(2), isConjugate: isComplex(dtype) && draw.once(3) },
    b: { isTranspose: draw.once(2), isConjugate: isComplex(dtype) && draw.once(3) },
  };
  const factor = (name: "a" | "b", rows: number, columns: number) => {
    const { isTranspose, isConjugate } = qualifiers[name];
    const model = elements(context, isTranspose ? [columns, rows] : [rows, columns], dtype, 2);
    const stored = make(context, model.shape, dtype, model);
    const seen = isTranspose ? transposed(model) : model;
    return { array: stored.array, seen: isConjugate ? conjugated(seen) : seen };
  };
  const [a, b] = [factor("a", m, k), factor("b", k, n)];
  const hasC = draw.once(2) && epilog !== "all_reduce";
  const c = hasC ? make(context, [m, n], resultType, elements(context, [m, n], resultType)) : null;
  const [alpha, beta] = [scalar(context, dtype), scalar(context, dtype)];
  const inplace = c !== null && draw.once(3);
  const distribution = epilog === "all_reduce" ? Replicated : inplace ? null : draw.distribution([m, n], runtime.size);
  const bound = distribution ?? c!.array.distribution;
  const bias = (row: number) => row % 3 - 1;
  const rows = bound.bind([m, n], runtime.size).ranges(runtime.rank)[0]
    .flatMap(([start, end]) => Array.from({ length: end - start }, (_, i) => bias(start + i)));
  const hasBias = epilog === "bias" || epilog === "relu_bias";
  const options: MatmulOptions = {
    qualifiers,
    alpha: argument(dtype, alpha),
    ...c && { c: c.array, beta: argument(dtype, beta), inplace },
    ...distribution && { distribution },
    ...isQuantized && { quantizationScales: { a: 1, b: 1 }, resultType },
    epilog,
    ...hasBias && { epilogInputs: { bias: dtype === "float64" ? new Float64Array(rows) : new Float32Array(rows) } },
    ...!c && { order: draw.order() },
  };
  const after = (model: Model) =>
    mapped(model, ([x, y], [row]) => {
      const biased = x + (hasBias ? bias(row) : 0);
      return [epilog.startsWith("relu") ? Math.max(0, biased) : biased, y];
    });
  const wanted = after(combined(alpha, product(a.seen, b.seen), beta, c?.model ?? null));
  const done = (d: DistributedArray, model: Model) => {
    context.report(wrongPart(d, model, resultType));
    if (inplace !== (d === c?.array)) context.report(`inplace is ${inplace}, and D is ${inplace ? "not " : ""}C`);
    if (c && !inplace) context.report(wrongPart(c.array, c.model, resultType));
    if (!inplace) d.free();
  };
  if (draw.once(2)) {
    done(matmul(a.array, b.array, options), wanted);
  } else {
    using object = new Matmul(a.array, b.array, options);
    object.plan();
    done(object.execute(), wanted);
    if (!inplace) {
      const other = scalar(context, dtype);
      object.resetOperands({ alpha: argument(dtype, other) });
      done(object.execute(), after(combined(other, product(a.seen, b.seen), beta, c?.model ?? null)));
    }
  }
  for (const array of [a.array, b.array, ...c ? [c.array] : []]) array.free();
}

const LINEAR: readonly DType[] = ["float32", "float64", "complex64", "complex128"];
const TRANSPOSITIONS = ["none", "transpose", "conjugate_transpose"] as const;
const isInside = (uplo: "lower" | "upper", [i, j]: number[]) => uplo === "lower" ? i >= j : i <= j;

function applied(model: Model, trans: typeof TRANSPOSITIONS[number]): Model {
  const seen = trans === "none" ? model : transposed(model);
  return trans === "conjugate_transpose" ? conjugated(seen) : seen;
}

function triangular(context: Context): void {
  const { draw } = context;
  const dtype = draw.pick(LINEAR);
  const [m, n] = [draw.between(0, 6), draw.between(0, 6)];
  const options = {
    side: draw.pick(["left", "right"] as const),
    uplo: draw.pick(["lower", "upper"] as const),
    trans: draw.pick(TRANSPOSITIONS),
    diag: draw.pick(["unit", "non_unit"] as const),
    inplace: draw.once(3),
  };
  const { side, uplo, trans, diag, inplace } = options;
  const extent = side === "left" ? m : n;
  // 1 and -1 on the diagonal, so that solutions are whole.
  const raw = elements(context, [extent, extent], dtype, 1);
  const stored = mapped(raw, (value, [i, j]) => i === j ? [draw.pick([1, -1]), 0] : value);
  const seen = applied(
    mapped(
      stored,
      (value, index) => index[0] === index[1] && diag === "unit" ? [1, 0] : isInside(uplo, index) ? value : [0, 0],
    ),
    trans,
  );
  const x = elements(context, [m, n], dtype, 2);
  const multiplied = side === "left" ? product(seen, x) : product(x, seen);
  const alpha = scalar(context, dtype);
  const a = make(context, [extent, extent], dtype, stored).array;
  const solves = draw.once(2);
  const b = make(context, [m, n], dtype, solves ? multiplied : x).array;
  const result = (solves ? trsm : trmm)(a, b, { ...options, alpha: argument(dtype, alpha) });
  context.report(wrongPart(result, combined(alpha, solves ? x : multiplied, [0, 0], null), dtype));
  if (inplace !== (result === b)) context.report("inplace was not heeded");
  if (!inplace) result.free();
  a.free();
  b.free();
}

const adjoint = (model: Model) => conjugated(transposed(model));

/** The routines with a C: a sum in a triangle or everywhere. */
function sums(context: Context): void {
  const { runtime, draw } = context;
  const dtype = draw.pick(LINEAR);
  const hermitian = isComplex(dtype) ? ["herk", "her2k", "hemm"] as const : [];
  const routine = draw.pick(["syrk", "syr2k", "symm", "geadd", "tradd", ...hermitian] as const);
  const isHermitian = routine.startsWith("he");
  const uplo = draw.pick(["lower", "upper"] as const);
  const isMirrored = routine === "symm" || routine === "hemm";
  const isUpdate = routine.endsWith("k");
  const trans = draw.pick(
    !isUpdate
      ? TRANSPOSITIONS
      : isHermitian
      ? ["none", "conjugate_transpose"] as const
      : ["none", "transpose"] as const,
  );
  const [m, columns, k] = [draw.between(0, 7), draw.between(0, 7), draw.between(0, 7)];
  const n = isUpdate ? m : columns;
  const inner = isUpdate ? k : n;
  const shape = isMirrored ? [m, m] : trans === "none" ? [m, inner] : [inner, m];
  const stored = elements(context, shape, dtype, 2);
  const a = make(context, shape, dtype, stored).array;
  const seen = applied(stored, isMirrored ? "none" : trans);
  // What keeps a result Hermitian is real.
  const alpha = scalar(context, routine === "herk" ? "float64" : dtype);
  const beta = scalar(context, isHermitian && isUpdate ? "float64" : dtype);
  const before = mapped(
    elements(context, [m, n], dtype),
    ([x, y], [i, j]) => [x, isHermitian && isUpdate && i === j ? 0 : y],
  );
  const c = draw.once(2) ? make(context, [m, n], dtype, before).array : null;
  const inplace = c !== null && draw.once(2);
  const options = {
    alpha: argument(dtype, alpha),
    ...c ? { c, beta: argument(dtype, beta), inplace } : {},
    ...!inplace && { distribution: draw.distribution([m, n], runtime.size) },
  };
  const realBeta = { ...options, ...c && { beta: beta[0] } };
  const shapeOfB = isMirrored ? [m, n] : shape;
  const other = isMirrored || routine.includes("2")
    ? make(context, shapeOfB, dtype, elements(context, shapeOfB, dtype, 2))
    : null;
  const mirror = (of: (value: Complex) => Complex) =>
    mapped(stored, (value, [i, j]) => isInside(uplo, [i, j]) ? value : of(at(stored, [j, i])));
  const right = () => applied(other!.model, trans);
  const call = {
    syrk: () => syrk(a, { uplo, trans, ...options }),
    herk: () => herk(a, { uplo, trans, ...realBeta, alpha: alpha[0] }),
    syr2k: () => syr2k(a, other!.array, { uplo, trans, ...options }),
    her2k: () => her2k(a, other!.array, { uplo, trans, ...realBeta }),
    symm: () => symm(a, other!.array, { uplo, ...options }),
    hemm: () => hemm(a, other!.array, { uplo, ...options }),
    geadd: () => geadd(a, { trans, ...options }),
    tradd: () => tradd(a, { uplo, trans, ...options }),
  };
  const computed = {
    syrk: () => product(seen, transposed(seen)),
    herk: () => product(seen, adjoint(seen)),
    syr2k: () => combined(alpha, product(seen, transposed(right())), alpha, product(right(), transposed(seen))),
    her2k: () => {
      const [first, second] = [product(seen, adjoint(right())), product(right(), adjoint(seen))];
      return combined(alpha, first, [alpha[0], -alpha[1]], second);
    },
    symm: () => product(mirror((value) => value), other!.model),
    hemm: () => {
      const whole = mirror(([x, y]) => [x, -y]);
      return product(mapped(whole, ([x, y], [i, j]) => [x, i === j ? 0 : y]), other!.model);
    },
    geadd: () => seen,
    tradd: () => seen,
  };
  const result = call[routine]();
  // Of updates of rank 2k alpha is in both halves.
  const sum = combined(routine.includes("2") ? [1, 0] : alpha, computed[routine](), beta, c && before);
  const isTriangle = isUpdate || routine === "tradd";
  const rest = (index: number[]): Complex => c ? at(before, index) : [0, 0];
  const wanted = mapped(sum, (value, index) => !isTriangle || isInside(uplo, index) ? value : rest(index));
  context.report(wrongPart(result, wanted, dtype));
  if (inplace !== (result === c)) context.report("inplace was not heeded");
  if (!inplace) result.free();
  for (const array of [a, c, other?.array]) array?.free();
}

function files(context: Context): void {
  const { runtime, draw, folder } = context;
  const dtype = draw.pick(dtypes);
  const { array, model } = make(context, draw.shape(), dtype);
  const path = `${folder}/saved.npy`;
  saveNpy(array, path);
  const isRaw = dtypeInfo(dtype).npy === null;
  const distribution = draw.distribution(model.shape, runtime.size);
  finish(context, loadNpy(runtime, path, distribution, isRaw ? { dtype } : {}), model, dtype);
  array.free();
}

/** A file with bytes changed, cut off or put in: an array, or the same error on every rank. */
function damagedFiles(context: Context): void {
  const { runtime, draw, folder } = context;
  const { communicator, rank } = runtime;
  const dtype = draw.pick(dtypes.filter((name) => dtypeInfo(name).npy !== null));
  const { array } = make(context, draw.shape(), dtype);
  const path = `${folder}/damaged.npy`;
  saveNpy(array, path);
  array.free();
  const harm = damaged(draw);
  if (rank === 0) Deno.writeFileSync(path, harm(Deno.readFileSync(path)));
  communicator.barrier();
  let outcome: string;
  try {
    using read = loadNpy(runtime, path, draw.distribution([1, 1], runtime.size));
    read.norm();
    outcome = `${read}`;
  } catch (error) {
    outcome = String(error).split("\n")[0];
  }
  const outcomes = communicator.allGatherObject(outcome.replace(/ \(on rank.*/, ""));
  if (new Set(outcomes).size > 1) context.report(`the ranks differ: ${outcomes.join(" | ")}`);
  // deno-lint-ignore no-control-regex
  if (/[\x00-\x1f\x7f-\x9f]/.test(outcome) || outcome.length > 2000) context.report(`a message as ${outcome}`);
  if (!/^(DistributedArray\(|(Configuration|DType|Shape|Distribution|Range|Collective)Error: )/.test(outcome)) {
    context.report(`it ended in ${outcome}`);
  }
}

/** Symmetric memory that all ranks write, and read from each other. */
function symmetric(context: Context): void {
  const { runtime, draw } = context;
  const [length, value] = [draw.between(1, 100), draw.between(0, 9)];
  const memory = allocateSymmetricMemory(runtime, [length], { dtype: "int32" });
  memory.fill(value + runtime.rank);
  memory.synchronize();
  const peer = draw.below(runtime.size);
  context.report(wrongNumbers(memory.peer(peer).toNumbers(), Array(length).fill(value + peer)));
  memory.synchronize();
  freeSymmetricMemory(memory);
}

/** A wrong argument on one rank is an error on all. */
function misuse(context: Context): void {
  const { runtime, draw } = context;
  const isWrong = runtime.rank === draw.below(runtime.size);
  const shape = draw.shape(2);
  const { array, model } = make(context, shape, "float64");
  const calls: (() => unknown)[] = [
    () => array.gather(isWrong ? runtime.size : 0),
    () => array.redistribute(isWrong ? null as never : Replicated),
    () => array.to({ dtype: isWrong ? "float31" as never : "float32" }),
    () => array.map((value) => isWrong ? "x" as never : value),
    () => matmul(array, isWrong ? 5 as never : array),
    () => DistributedArray.random(runtime, shape, Replicated, { low: isWrong ? null as never : 0 }),
    () => trsm(array, array, { side: isWrong ? "middle" as never : "left" }),
  ];
  const which = draw.below(calls.length);
  // The function of map is never called where there is nothing.
  const isHarmless = which === 3 &&
    runtime.communicator.allReduce(Int32Array.of(isWrong ? array.local.size : 0))[0] === 0;
  let error: unknown = null;
  try {
    calls[which]();
  } catch (thrown) {
    error = thrown;
  }
  if (error === null && !isHarmless) context.report(`call ${which} did not fail on rank ${runtime.rank}`);
  context.report(wrongPart(array, model, "float64"));
  array.free();
}

/** All of them, by name; those named twice come twice as often. */
export const operations: readonly (readonly [name: string, run: (context: Context) => void])[] = [
  ["changes", changes],
  ["changes", changes],
  ["gathers", gathers],
  ["reductions", reductions],
  ["elements", elementwise],
  ["elements", elementwise],
  ["along dimensions", alongAxes],
  ["shapes", shapes],
  ["planned moves", plannedMoves],
  ["transforms", transforms],
  ["transforms", transforms],
  ["random numbers", randomNumbers],
  ["products", products],
  ["products", products],
  ["products", products],
  ["triangular matrices", triangular],
  ["sums", sums],
  ["sums", sums],
  ["files", files],
  ["damaged files", damagedFiles],
  ["damaged files", damagedFiles],
  ["symmetric memory", symmetric],
  ["misuse", misuse],
  ["messages", messages],
];
