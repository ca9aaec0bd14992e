/** Where the FFTW3 interface is found: MKL's first, then FFTW's own, then a refusal that says what to install. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";

const module = new URL("../../ffi/fft/fftw.ts", import.meta.url).href;

/** How a process may look for libraries: in which it may open alone, and as if its processor were another one. */
interface Looking {
  readonly only?: string;
  readonly arch?: string;
}

/** What a process prints that transforms a few numbers by the first library in some folders. */
async function transformed(
  folders: { native: string; path?: string },
  precision: string,
  { only, arch = Deno.build.arch }: Looking = {},
) {
  const code = `
    import { openFftw } from "${module}";
    import { addressOf } from "${new URL("../../ffi/memory.ts", import.meta.url).href}";
    Object.defineProperty(Deno, "build", { value: { ...Deno.build, arch: "${arch}" } });
    const [fftw] = openFftw("${precision}", 2);
    const numbers = new ${precision === "float32" ? "Float32Array" : "Float64Array"}([1, 0, 2, 0, 3, 0, 4, 0]);
    const address = addressOf(numbers);
    const plan = fftw.planComplex(1, BigInt64Array.of(4n, 1n, 1n), 0, new BigInt64Array(0), address, address, -1, 64);
    fftw.executeComplex(plan, address, address);
    fftw.destroyPlan(plan);
    console.log(fftw.vendor, [...numbers].map((x) => Math.round(x)).join());`;
  const allow = only === undefined ? "-A" : `--allow-ffi=${only}`;
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      allow,
      ...only === undefined ? [] : ["--allow-env"],
      `data:application/typescript,${encodeURIComponent(code)}`,
    ],
    env: { DISTMATH_NATIVE: folders.native, DISTMATH_LIBRARY_PATH: folders.path ?? "", NO_COLOR: "1" },
  }).output();
  const decoder = new TextDecoder();
  return decoder.decode(stdout).trim() || decoder.decode(stderr);
}

const folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"];
const system = folders.find((folder) => {
  try {
    return Deno.statSync(`${folder}/libfftw3.so.3`).isFile && Deno.statSync(`${folder}/libfftw3f.so.3`).isFile;
  } catch {
    return false;
  }
});

Deno.test({
  name: `FFTW of the system transforms where there is no MKL${system ? "" : " (skipped: it has none)"}`,
  ignore: system === undefined,
  async fn() {
    const native = Deno.makeTempDirSync();
    // A system may have MKL in the same folder.
    const path = Deno.makeTempDirSync();
    for (const { name } of Deno.readDirSync(system!)) {
      if (name.startsWith("libfftw3")) Deno.symlinkSync(`${system}/${name}`, `${path}/${name}`);
    }
    for (const precision of ["float64", "float32"]) {
      assertEquals(await transformed({ native, path }, precision), "fftw 10,0,-2,2,-2,0,-2,-2");
    }
  },
});

const libc = `/lib/${Deno.build.arch}-linux-gnu/libc.so.6,/lib64/libc.so.6`;

// Where processes of another processor look, there is none.
const isEverywhere = system === "/usr/lib64";
Deno.test({
  name: `without any library the message has the commands that install one${
    isEverywhere ? " (skipped: all processors look where it is)" : ""
  }`,
  ignore: isEverywhere,
  async fn() {
    const arch = Deno.build.arch === "aarch64" ? "x86_64" : "aarch64";
    const message = await transformed({ native: Deno.makeTempDirSync() }, "float64", { only: libc, arch });
    assertStringIncludes(message, "FFTW was not found. Tried:");
    assertStringIncludes(message, "native install cpu");
    assertStringIncludes(message, "(or: apt-get install libfftw3-double3 libfftw3-single3)");
  },
});

Deno.test({
  name: `a library that may not be opened is named${system ? "" : " (skipped: the system has none)"}`,
  ignore: system === undefined,
  async fn() {
    const message = await transformed({ native: Deno.makeTempDirSync() }, "float64", { only: libc });
    assertStringIncludes(message, `${system} (system folder): it has lib`);
    assertStringIncludes(message, `Start the script with ${system} in its --allow-ffi.`);
  },
});

/** What a process with so many threads a rank prints: threads before and after a transform, and the spectrum's norm. */
async function threadsOf(
  threads: number,
  env: Record<string, string>,
): Promise<[before: number, after: number, norm: number]> {
  const code = `
    import { DistributedArray, FFT, initialize, Slab } from "${new URL("../../mod.ts", import.meta.url).href}";
    using runtime = initialize({ device: "cpu", threads: ${threads} });
    const count = () => Array.from(Deno.readDirSync("/proc/self/task")).length;
    const field = DistributedArray.random(runtime, [128, 128, 64], Slab.X, { dtype: "complex128", seed: 1 });
    const before = count();
    using transform = new FFT(field);
    transform.plan({ effort: "estimate" });
    const spectrum = transform.execute();
    console.log(JSON.stringify([before, count(), spectrum.norm()]));`;
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", `data:application/typescript,${encodeURIComponent(code)}`],
    env: { ...env, NO_COLOR: "1" },
  }).output();
  const line = new TextDecoder().decode(stdout).trim();
  assert(line.startsWith("["), new TextDecoder().decode(stderr));
  return JSON.parse(line);
}

for (
  const [library, env] of [["the first library", {}], ["FFTW of the system", { DISTMATH_NATIVE: "/nowhere" }]] as const
) {
  const isMissing = library !== "the first library" && system === undefined;
  Deno.test({
    name: `transforms by ${library} take the threads that the rank has${isMissing ? " (skipped: it has none)" : ""}`,
    ignore: isMissing,
    async fn() {
      const [one, two] = [await threadsOf(1, env), await threadsOf(2, env)];
      assertEquals(one[1], one[0]);
      assert(two[1] > two[0], `${two[0]} threads before, ${two[1]} after`);
      assert(Math.abs(two[2] / one[2] - 1) < 1e-12);
    },
  });
}
