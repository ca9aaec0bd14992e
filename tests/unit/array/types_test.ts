/** What TypeScript knows of arrays: element types by dtype. What runs here is little more than the check that it compiles. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import * as api from "../../../mod.ts";
import {
  add,
  allocateOperand,
  type BinaryNames,
  concatenate,
  DistributedArray,
  dot,
  type DType,
  dtypes,
  equal,
  evaluate,
  exp,
  FFT,
  type fft,
  geadd,
  hemm,
  her2k,
  herk,
  type irfft,
  loadNpy,
  loadNpz,
  LocalArray,
  Matmul,
  matmul,
  multiply,
  promote,
  type redistribute,
  Redistribution,
  rfft,
  type Runtime,
  Slab,
  symm,
  syr2k,
  syrk,
  tradd,
  trmm,
  trsm,
  type UnaryNames,
  where,
} from "../../../mod.ts";

/** An error where two types differ. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false;
const same = <A, B>(_: Same<A, B>): void => {};

type Pair = readonly [re: number, im: number];

/** Only checked, never called: there are no ranks here. */
export function elements(runtime: Runtime): void {
  const a = DistributedArray.zeros(runtime, [4], Slab.X);
  const f = DistributedArray.random(runtime, [4], Slab.X, { dtype: "float32", low: 1 });
  const i = DistributedArray.full(runtime, [4], Slab.X, 1, { dtype: "int32" });
  const b = DistributedArray.full(runtime, [4], Slab.X, 1n, { dtype: "int64" });
  const z = DistributedArray.zeros(runtime, [4], Slab.X, { dtype: "complex64" });
  const any: DistributedArray = f;

  const total: number = a.sum();
  const big: bigint = b.sum();
  const [re, im] = z.sum();

  same<typeof f, DistributedArray<"float32">>(true);
  same<ReturnType<typeof z.at>, Pair>(true);
  const middle: number = b.mean();
  void [total, big, re, im, any, middle];
  const multiplied = new Matmul(f, a).execute();
  same<typeof multiplied, DistributedArray<"float32">>(true);
  const wider = new Matmul(f, f, { resultType: "float64" }).execute();
  same<typeof wider, DistributedArray<"float64">>(true);
  const added = new Matmul(f, f, { c: a, beta: 1 }).execute();
  same<typeof added, DistributedArray<"float64">>(true);
  const waves = new FFT(f).execute();
  same<typeof waves, DistributedArray<"complex64">>(true);
  const signal = new FFT(waves, { fftType: "c2r" }).execute();
  same<typeof signal, DistributedArray<"float32">>(true);
  const h = DistributedArray.zeros(runtime, [4], Slab.X, { dtype: "complex32" });
  same<ReturnType<typeof h.at>, Pair>(true);
  const pairs: Float16Array = h.allGather();
  const half = h.real();
  same<typeof half, DistributedArray<"float16">>(true);
  const halfSpectrum = rfft(half);
  same<typeof halfSpectrum, DistributedArray<"complex32">>(true);
  const turnedHalf: Pair = multiply(h, half).sum();
  void [pairs, turnedHalf];
  const doubled = a.map((v) => v * 2);
  same<typeof doubled, DistributedArray<"float64">>(true);
  const magnitudes = z.map(([x, y]) => Math.hypot(x, y), { dtype: "float32" });
  same<typeof magnitudes, DistributedArray<"float32">>(true);
  const rows = i.sum({ axis: 0 });
  same<typeof rows, DistributedArray<"int64">>(true);
  const flat: Float32Array = f.allGather();
  const part: Float32Array = f.local.view();
  void [flat, part];

  // Promotion: the same dtype, floats of two widths, integers beside a number, complex numbers.
  same<ReturnType<typeof f.add<typeof f>>, DistributedArray<"float32">>(true);
  const halves: number = multiply(i, 0.5).sum();
  const wide: number = add(f, i).max();
  const turned: Pair = multiply(f, [0, 1]).sum();
  const mask = equal(i, 1);
  same<typeof mask, DistributedArray<"uint8">>(true);
  const chosen: number = where(mask, f, 0).sum();
  const e = exp(i);
  same<typeof e, DistributedArray<"float64">>(true);
  const chained: number = i.exp().add(1).log().sum();
  const bounded = f.greater(0).where(f, 0).clip(0, 1);
  same<typeof bounded, DistributedArray<"float32">>(true);
  // Elementwise functions and methods have the dtypes that UnaryNames and BinaryNames say.
  const unary = <Kind extends keyof UnaryNames>(): UnaryNames[Kind] => null!;
  const binary = <Kind extends keyof BinaryNames>(): BinaryNames[Kind] => null!;
  const floats = [
    api[unary<"float">()](i),
    i[unary<"float">()](),
    api[binary<"float">()](i, i),
    i[binary<"float">()](i),
  ];
  same<typeof floats, DistributedArray<"float64">[]>(true);
  const kept = [api[unary<"same">()](i), i[unary<"same">()](), api[binary<"same">()](i, i), i[binary<"same">()](i)];
  same<typeof kept, DistributedArray<"int32">[]>(true);
  const truths = [
    api[unary<"truth">()](i),
    i[unary<"truth">()](),
    api[binary<"truth">()](i, i),
    i[binary<"truth">()](i),
  ];
  same<typeof truths, DistributedArray<"uint8">[]>(true);
  const reals = [api[unary<"real">()](z), z[unary<"real">()]()];
  same<typeof reals, DistributedArray<"float32">[]>(true);
  const product: number = dot(f, f);
  const inPlace = add(i, 1, { into: f });
  same<typeof inPlace, DistributedArray<"float32">>(true);
  const both: number = a.zip(i, (x, y) => x + y).sum();
  const joined: number = concatenate([f, a]).sum();
  const written = evaluate((x) => x.add(1), [i], { into: a });
  void [halves, wide, turned, chosen, chained, product, both, joined, written.sum() + 1];

  // Products and transforms.
  const d = matmul(f, f);
  same<typeof d, DistributedArray<"float32">>(true);
  const narrow = matmul(f, f, { resultType: "bfloat16" });
  same<typeof narrow, DistributedArray<"bfloat16">>(true);
  const spectrum = rfft(f);
  same<typeof spectrum, DistributedArray<"complex64">>(true);
  same<ReturnType<typeof irfft<"complex128">>, DistributedArray<"float64">>(true);
  same<ReturnType<typeof fft<"complex64">>, DistributedArray<"complex64">>(true);

  // What moves, reads and solves keeps the dtype, too.
  same<ReturnType<typeof redistribute<"float32">>, DistributedArray<"float32">>(true);
  const moved = new Redistribution(f, Slab.X).execute();
  same<typeof moved, DistributedArray<"float32">>(true);
  const loaded = loadNpy(runtime, "a.npy", Slab.X, { dtype: "float32" });
  same<typeof loaded, DistributedArray<"float32">>(true);
  const { weights } = loadNpz(runtime, "a.npz", { weights: Slab.X }, { dtype: "float32" });
  same<typeof weights, DistributedArray<"float32">>(true);
  const padded = allocateOperand(runtime, [4], Slab.X, { dtype: "float32" });
  same<typeof padded, DistributedArray<"float32">>(true);
  const solved = [trsm(f, f), trmm(f, f), symm(f, f), syr2k(f, f), syrk(f), geadd(f), tradd(f)];
  same<typeof solved, DistributedArray<"float32">[]>(true);
  const hermitian = [herk(z), her2k(z, z), hemm(z, z)];
  same<typeof hermitian, DistributedArray<"complex64">[]>(true);

  // Mistakes do not compile.
  // @ts-expect-error: there is no such dtype
  DistributedArray.zeros(runtime, [4], Slab.X, { dtype: "float" });
  // @ts-expect-error: a pair is no element of float64
  a.set([0], [1, 2]);
  // @ts-expect-error: int64 elements are bigints
  b.map((v) => v * 2);
  // @ts-expect-error: complex elements are pairs
  const wrong: number = z.sum();
  void wrong;
}

Deno.test("a wrong dtype is an error of the compiler that lists the names", async () => {
  const script = await Deno.makeTempFile({ suffix: ".ts" });
  try {
    const dtype = new URL("../../../src/dtype/dtype.ts", import.meta.url);
    await Deno.writeTextFile(script, `import type { DType } from "${dtype}";\nexport const wrong: DType = "flot32";\n`);
    const { code, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["check", "--quiet", "--no-config", script],
      env: { NO_COLOR: "1" },
    }).output();
    const text = new TextDecoder().decode(stderr);
    assertEquals(code, 1, text);
    for (const name of dtypes) assertStringIncludes(text, `"${name}"`);
  } finally {
    await Deno.remove(script);
  }
});

Deno.test("the dtypes that TypeScript knows are those that arrays get", () => {
  const local = new LocalArray({ data: Float32Array.of(1, 2), dtype: "float32", shape: [2] });
  const data: Float32Array = local.data;
  const value: number = local.at(1);
  const dtype: DType = promote(local.dtype, "int8");
  if (data.length !== 2 || value !== 2 || dtype !== "float32") throw new Error("not as typed");
});
