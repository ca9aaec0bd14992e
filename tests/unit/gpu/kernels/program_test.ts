/** Kernels compile for every architecture that CUDA 13 serves; needs NVRTC, but no GPU. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { ConfigurationError } from "../../../../ffi/errors.ts";
import { LibraryNotFoundError } from "../../../../ffi/library.ts";
import { cacheFolder, unsealed } from "../../../../ffi/kernel_cache.ts";
import { addressOf, toCString } from "../../../../ffi/memory.ts";
import { NvrtcError, openNvrtc } from "../../../../ffi/cuda/nvrtc.ts";
import { CUDA } from "../../../../src/array/elementwise/cuda.ts";
import { elementwiseSource, type Nest, reductionSource } from "../../../../src/array/elementwise/device_source.ts";
import { apply, compile as compileExpression, operand } from "../../../../src/array/elementwise/expression.ts";
import { dtypeInfo } from "../../../../src/dtype/dtype.ts";
import { kernelSources } from "../../../../src/gpu/kernels/array_kernels.ts";
import { copyKernelSources } from "../../../../src/gpu/kernels/copy_kernels.ts";
import { exchangeKernelSource } from "../../../../src/gpu/kernels/exchange_kernel.ts";
import { fftKernelSources } from "../../../../src/gpu/kernels/fft_kernels.ts";
import { flagKernelSource } from "../../../../src/gpu/kernels/flag_kernels.ts";
import { sumSource } from "../../../../src/gpu/kernels/sum_kernels.ts";
import { meetingKernelSource } from "../../../../src/gpu/kernels/meeting_kernel.ts";
import { POINTWISE_SOURCE } from "../../../../src/linalg/engines/cublasmp/device_epilog.ts";
import { AUX_SOURCE } from "../../../../src/linalg/engines/overlap/tile_epilog.ts";
import {
  compile,
  compileAhead,
  compileBeside,
  jobsOf,
  type KernelSource,
  startCompiling,
  waitForJob,
} from "../../../../src/gpu/kernels/compiler.ts";
import { packWords } from "../../../../src/gpu/kernels/program.ts";

function hasNvrtc(): boolean {
  try {
    openNvrtc();
    return true;
  } catch (error) {
    if (error instanceof LibraryNotFoundError) return false;
    throw error;
  }
}

const ignore = !hasNvrtc();
const reason = ignore ? " (skipped: no NVRTC)" : "";

for (
  const [name, source] of Object.entries({
    ...kernelSources,
    ...copyKernelSources,
    exchange: exchangeKernelSource,
    ...Object.fromEntries(
      Object.entries(fftKernelSources).map(([precision, source]) => [`transforms of ${precision}`, source]),
    ),
    meeting: meetingKernelSource,
    auxiliary: AUX_SOURCE,
    pointwise: POINTWISE_SOURCE,
    flags: flagKernelSource,
    sums: sumSource("bfloat16"),
  })
) {
  Deno.test({
    name: `the kernels of ${name} compile${reason}`,
    ignore,
    fn: () => {
      const image = compile({ name, source }, [9, 0]);
      assertEquals(new TextDecoder().decode(image.subarray(1, 4)), "ELF");
    },
  });
}

const nest = (name: string, extent: number, strides: readonly number[]): Nest => ({
  loops: [{ extent, strides }],
  name,
});

Deno.test({
  name: `kernels of expressions compile, for floats, integers and complex numbers${reason}`,
  ignore,
  fn: () => {
    const [a, b] = [operand(0), operand(1)];
    const expression = apply("where", apply("less", apply("real", a), b), apply("power", a, b), apply("divide", a, b));
    for (const dtype of ["bfloat16", "int8", "int64", "complex64"] as const) {
      const types = [{ dtype }, { dtype: dtypeInfo(dtype).real }, { scalar: 2 }];
      const program = compileExpression(expression, types, CUDA);
      const dtypes = [dtype, dtypeInfo(dtype).real, null, program.dtype];
      const source = elementwiseSource({ program, dtypes, nest: nest("k", 9, [1, 0, 0, 2]) });
      const image = compile({ name: "expression", source }, [9, 0]);
      assertEquals(new TextDecoder().decode(image.subarray(1, 4)), "ELF", dtype);
    }
    const names = ["sqrt", "exp", "log", "sin", "cos", "sinh", "cosh", "tanh", "sign", "square"] as const;
    const types = [{ dtype: "complex64" }] as const;
    const functions = names.map((name) => apply(name, a)).reduce((sum, one) => apply("add", sum, one));
    const program = compileExpression(functions, types, CUDA);
    const source = elementwiseSource({ program, dtypes: ["complex64", "complex64"], nest: nest("k", 9, [1, 1]) });
    const image = compile({ name: "expression", source }, [9, 0]);
    assertEquals(new TextDecoder().decode(image.subarray(1, 4)), "ELF", "functions of complex numbers");
    for (const start of [1, 1n]) {
      const dtype = typeof start === "bigint" ? "int64" : "float64";
      const take = ([value]: readonly string[]) => `a0 = a0 * ${value};`;
      const source = reductionSource({
        program: compileExpression(a, [{ dtype }], CUDA),
        dtypes: [dtype, dtype],
        kept: nest("k", 300, [7, 1]),
        reduced: nest("r", 7, [1, 0]),
        isShared: false,
        width: 32,
        accumulation: { start: [start], take, merge: take, isAnyOrder: true },
      });
      const image = compile({ name: "expression", source }, [9, 0]);
      assertEquals(new TextDecoder().decode(image.subarray(1, 4)), "ELF");
    }
  },
});

/** A program that was never compiled before. */
function uncompiled(): KernelSource {
  const name = `ahead_${crypto.randomUUID().replaceAll("-", "")}`;
  return { name, source: `extern "C" __global__ void ${name}() {}` };
}

const BROKEN: KernelSource = { name: "broken", source: "int f() { return x; }" };

Deno.test({
  name: `several programs are compiled at the same time; what is wrong with one is told when it is used${reason}`,
  ignore,
  fn: () => {
    const sources = Array.from({ length: 3 }, uncompiled);
    compileAhead([...sources, BROKEN], [9, 0]);
    const folder = cacheFolder()!;
    const files = Array.from(Deno.readDirSync(folder), ({ name }) => name);
    for (const given of sources) {
      const file = files.find((file) => file.startsWith(given.name));
      assert(file !== undefined, "it was compiled before it was used");
      const path = `${folder}/${file}`;
      const whole = Deno.readFileSync(path);
      assertEquals(compile(given, [9, 0]), unsealed(whole));
      // One that was cut off or changed is made again.
      for (const damaged of [whole.subarray(0, 100), new Uint8Array(), whole.with(50, whole[50] ^ 1)]) {
        Deno.writeFileSync(path, damaged);
        assertEquals([compile(given, [9, 0]), Deno.readFileSync(path)], [unsealed(whole), whole]);
      }
      Deno.removeSync(path);
    }
    assertThrows(() => compile(BROKEN, [9, 0]), NvrtcError);
  },
});

Deno.test({
  name: `what is needed is compiled, and beside it what may be needed later where there are cores for it${reason}`,
  ignore,
  fn: () => {
    const [needed, ...later] = Array.from({ length: 2 + navigator.hardwareConcurrency }, uncompiled);
    const folder = cacheFolder()!;
    const compiled = () =>
      [needed, ...later].flatMap(({ name }) =>
        Array.from(Deno.readDirSync(folder)).filter((file) => file.name.startsWith(name)).map((file) => file.name)
      );
    compile(needed, [9, 0]);
    compileBeside(needed, later, [9, 0]);
    assertEquals(compiled().length, 1);
    Deno.removeSync(`${folder}/${compiled()[0]}`);
    compileBeside(needed, later, [9, 0]);
    // One core compiles one program, which is compiled once it is used.
    const cores = navigator.hardwareConcurrency;
    assertEquals(compiled().length, cores === 1 ? 0 : cores);
    compiled().forEach((file) => Deno.removeSync(`${folder}/${file}`));
  },
});

Deno.test({
  name: `a thread compiles${reason}`,
  ignore,
  fn: () => {
    const { symbols, path } = openNvrtc();
    const program = new BigUint64Array(1);
    const text = toCString(`extern "C" __global__ void nothing() {}`);
    assertEquals(symbols.nvrtcCreateProgram(program, text, toCString("nothing.cu"), 0, null, null), 0);
    const option = toCString("--gpu-architecture=sm_90");
    const jobs = jobsOf([program[0]], [addressOf(option)]);
    startCompiling(jobs, path);
    assertEquals(waitForJob(jobs, 0), 0);
    const size = new BigUint64Array(1);
    assertEquals(symbols.nvrtcGetCUBINSize(program[0], size), 0);
    assert(size[0] > 0n);
    symbols.nvrtcDestroyProgram(program);
  },
});

Deno.test({
  name: `a GPU that is newer than NVRTC gets PTX, and a broken kernel an error with the compiler's text${reason}`,
  ignore,
  fn: () => {
    const source = `extern "C" __global__ void nothing() {} // ${crypto.randomUUID()}`;
    assert(new TextDecoder().decode(compile({ name: "nothing", source }, [99, 0])).includes(".entry nothing"));
    const error = assertThrows(() => compile(BROKEN, [9, 0]), NvrtcError);
    assert(error.message.includes('identifier "x" is undefined'), error.message);
  },
});

Deno.test({
  name: `a GPU that is too old for NVRTC gets advice${reason}`,
  ignore,
  fn: () => {
    const error = assertThrows(() => compile({ name: "nothing", source: "" }, [1, 0]), ConfigurationError);
    assert(/capability 1\.0, and NVRTC \d+\.\d+ compiles for \d+(\.\d)? and newer/.test(error.message), error.message);
  },
});

Deno.test("a kernel's argument is a struct of 8-byte fields", () => {
  const view = new DataView(packWords([-1n, 2n ** 63n, 0.5]).buffer);
  assertEquals([view.getBigInt64(0, true), view.getBigUint64(8, true), view.getFloat64(16, true)], [
    -1n,
    2n ** 63n,
    0.5,
  ]);
});
