/** Libraries that are damaged, or for another MPI: a job says so, and takes no other in their place. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { existsSync } from "node:fs";
import { nativePrefix } from "../../internals.ts";
import { launchers, mpiInstallations, runAlone, runJob } from "../mpi_installations.ts";
import { main, root, temporaryFolder } from "./command.ts";

const script = `${root}tests/system/fixtures/multiplies.ts`;
const lib = `${nativePrefix()}/cpu/lib`;
/** Without `native install cpu` there is nothing to damage: its tests are counted as skipped. */
const ignore = !existsSync(lib);
const why = ignore ? " (skipped: native install cpu is not there)" : "";

/** Links in `folder` to the libraries that `native install` brought, but for some; `copied` is a copy. */
function linkLibraries(folder: string, isLeftOut: (name: string) => boolean, copied?: string): void {
  for (const { name } of Deno.readDirSync(lib)) {
    if (name === copied) Deno.copyFileSync(`${lib}/${name}`, `${folder}/${name}`);
    else if (!isLeftOut(name)) Deno.symlinkSync(`${lib}/${name}`, `${folder}/${name}`);
  }
}

function cut(path: string): void {
  Deno.truncateSync(path, Math.floor(Deno.statSync(path).size / 2));
}

const isMpi = (name: string) => /^(libmpi|libopen-pal|libuc|libfabric|libpmix|openmpi)/.test(name);

for (const mpi of launchers) {
  for (const file of ["libmkl_scalapack_lp64.so.2", "libmkl_core.so.3", "libmkl_avx2.so.3"]) {
    Deno.test(`of MKL, ${file} that was cut short is an error, not a signal or another ScaLAPACK [${mpi.name}]${why}`, {
      ignore,
    }, async () => {
      using folder = temporaryFolder();
      linkLibraries(folder.path, isMpi, file);
      cut(`${folder.path}/${file}`);
      // By "run", which tells of the rank that failed: of two that fail, Hydra may kill the one that ends later.
      const env = { ...mpi.environment, DISTMATH_LIBRARY_PATH: folder.path };
      const { code, stderr: output } = await main(["run", "--mpirun", mpi.mpirun, "-n", "2", script], { env });
      assertEquals(code, 1, output);
      assertStringIncludes(
        output,
        `ScaLAPACK: ${folder.path}/libmkl_scalapack_lp64.so.2 (DISTMATH_LIBRARY_PATH) is there`,
      );
      assertStringIncludes(
        output,
        `${file === "libmkl_scalapack_lp64.so.2" ? "" : `${folder.path}/${file}: `}it was cut short`,
      );
      assertStringIncludes(output, "No other library is taken in its place");
      assertEquals(output.includes("5,35,35,365"), false, output);
    });
  }
}

for (const mpi of mpiInstallations.filter(({ name }) => name === "Open MPI 5")) {
  Deno.test(`a ScaLAPACK that was built for Open MPI 4 is never loaded into Open MPI 5${why}`, { ignore }, async () => {
    using folder = temporaryFolder();
    linkLibraries(folder.path, (name) => /^libmkl/.test(name));
    const environment = { DISTMATH_LIBRARY_PATH: folder.path, DISTMATH_NATIVE: "/nonexistent" };
    // Alone, since mpirun puts its own folder, which has MKL, into LD_LIBRARY_PATH.
    const { code, output } = await runAlone(mpi, ["run", "-A", script], { environment });
    assertEquals(code, 1, output);
    assertStringIncludes(output, "ScaLAPACK was not found");
    const system = "/usr/lib/x86_64-linux-gnu/libscalapack-openmpi.so.2.2";
    if (mpiInstallations.some(({ name }) => name === "Open MPI 4")) {
      assertStringIncludes(output, `${system} (system folder): it is built for /usr/lib/x86_64-linux-gnu/libmpi.so.40`);
      assertStringIncludes(output, `another MPI than ${folder.path}/libmpi.so.40`);
    }
  });

  for (const file of ["libmpi.so.40", "libopen-pal.so.80"]) {
    Deno.test(`of Open MPI 5, ${file} that was cut short is an error, not a signal${why}`, { ignore }, async () => {
      using folder = temporaryFolder();
      linkLibraries(folder.path, (name) => !isMpi(name), file);
      cut(`${folder.path}/${file}`);
      const environment = { DISTMATH_LIBRARY_PATH: folder.path };
      const { code, output } = await runJob(mpi, 2, ["run", "-A", script], { environment });
      assertEquals(code, 1, output);
      assertStringIncludes(
        output,
        `MPI: ${folder.path}/libmpi.so.40 (DISTMATH_LIBRARY_PATH) is there, but cannot be loaded`,
      );
      assertStringIncludes(output, "it was cut short");
    });
  }
}

Deno.test(
  `an install with a file that was cut short is told of by native list, run and doctor${why}`,
  { ignore },
  async () => {
    using folder = temporaryFolder();
    const record = JSON.parse(Deno.readTextFileSync(`${lib}/../distmath.json`));
    Deno.mkdirSync(`${folder.path}/cpu/lib`, { recursive: true });
    Deno.writeTextFileSync(`${folder.path}/cpu/distmath.json`, JSON.stringify({ ...record, bytes: 1000 }));
    Deno.writeFileSync(`${folder.path}/cpu/lib/libmpi.so.40`, new Uint8Array(999));
    const env = { DISTMATH_NATIVE: folder.path };
    const damage =
      "damaged: its files have 999 bytes, and 1000 were installed; to mend it: deno task native install cpu";

    const list = await main(["native", "list"], { env });
    assertStringIncludes(list.stdout.split("\n")[0], damage);
    const run = await main(["run", "-n", "2", script], { env });
    assertEquals([run.code, run.stdout], [1, ""]);
    assertStringIncludes(run.stderr, `error: what is installed in ${folder.path}/cpu is ${damage}\n`);
    const doctor = await main(["doctor", "--json"], { env });
    assertStringIncludes(JSON.parse(doctor.stdout).problems[0], damage);
  },
);
