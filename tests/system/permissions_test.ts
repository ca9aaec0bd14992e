/** The smallest set of permissions, as README gives it, is enough; and less is refused with a message that helps. */
import { assert, assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import { type MpiInstallation, mpiInstallations, runJob } from "../mpi_installations.ts";
import { root } from "./command.ts";
import { mockTest, mpi as first } from "./mock.ts";

const system = "/usr/lib/x86_64-linux-gnu";
/** Where glibc lies. */
const libc = "/lib/x86_64-linux-gnu";
const variables = "--allow-env=DISTMATH_*,HOME,MPI_*,OMPI_*,PMI_*,PMIX_*,SLURM_*,XDG_CACHE_HOME";
const script = `${root}tests/system/fixtures/multiplies.ts`;

/** The folders with an installation's libraries, and the variables that choose a ScaLAPACK that lies in them. */
function folders(mpi: MpiInstallation): { list: string; environment: Record<string, string> } {
  return mpi.libraryPath === null
    ? { list: `${system},${libc}`, environment: { DISTMATH_NATIVE: "/nonexistent" } }
    : { list: `${mpi.libraryPath},${libc}`, environment: {} };
}

/** MPICH 5 comes without a ScaLAPACK of its own. */
const complete = mpiInstallations.filter(({ name }) => ["Open MPI 4", "Open MPI 5", "MPICH 4"].includes(name));

for (const mpi of complete) {
  Deno.test(`--allow-ffi=<folders> --allow-env=<list> is enough [${mpi.name}]`, async () => {
    const { list, environment } = folders(mpi);
    const permissions = [`--allow-ffi=${list}`, variables];
    const { code, output } = await runJob(mpi, 2, ["run", ...permissions, script], { environment });
    assertEquals(code, 0, output);
    assertEquals(output.split("5,35,35,365").length - 1, 2, output);
  });

  Deno.test(`timeoutSeconds takes no further permission [${mpi.name}]`, async () => {
    const { list, environment } = folders(mpi);
    const args = ["run", `--allow-ffi=${list}`, variables, `${root}tests/faults/fixtures/stuck.ts`, "barrier"];
    const { code, output } = await runJob(mpi, 2, args, { environment });
    assertEquals(code, 124, output);
    assertStringIncludes(output, "rank 0 has waited for more than 3 s (timeoutSeconds) in MPI_Barrier");
  });

  if (mpi.libraryPath === null) {
    Deno.test(`with libraries of the system --allow-ffi=<folders> is enough for a product [${mpi.name}]`, async () => {
      const { list, environment } = folders(mpi);
      const { code, output } = await runJob(mpi, 2, ["run", `--allow-ffi=${list}`, script], { environment });
      assertEquals(code, 0, output);
      assertEquals(output.split("5,35,35,365").length - 1, 2, output);
    });
  }

  Deno.test(`without --allow-ffi the message names the flag, and each folder in a line [${mpi.name}]`, async () => {
    const { code, output } = await runJob(mpi, 1, ["run", variables, script], folders(mpi));
    assertNotEquals(code, 0);
    assertStringIncludes(
      output,
      "MPI was not found where this process may open libraries.\nNot permitted by --allow-ffi:",
    );
    const [folder] = folders(mpi).list.split(",");
    const lines = output.split("\n").filter((line) => line.startsWith("  /"));
    assertEquals(lines.filter((line) => line.startsWith(`  ${folder} (`)).length, 1, output);
    assertEquals(new Set(lines).size, lines.length, output);
    assertStringIncludes(output, `or with --allow-ffi=<the folder that has MPI>,${libc}`);
    assertEquals(output.includes("native install cpu"), false, output);
  });

  Deno.test(`with glibc's folder alone the message names the folder that is missing [${mpi.name}]`, async () => {
    const { list, environment } = folders(mpi);
    const run = (...folders: string[]) =>
      runJob(mpi, 1, ["run", `--allow-ffi=${folders.join()}`, variables, script], { environment });
    const [folder] = list.split(",");
    const { code, output } = await run(libc);
    assertNotEquals(code, 0);
    assertStringIncludes(output, `\nStart the script with ${folder} in its --allow-ffi.`);
    assertEquals(output.match(new RegExp(`^  ${folder} \\(.*\\): it has libmpi`, "gm"))?.length, 1, output);
    assertEquals(output.includes("native install cpu"), false, output);
    assertEquals((await run(libc, folder)).code, 0);
  });

  if (mpi.libraryPath !== null) {
    Deno.test(`without glibc's folder the message names it, and calls no library damaged [${mpi.name}]`, async () => {
      const { code, output } = await runJob(mpi, 1, ["run", `--allow-ffi=${mpi.libraryPath}`, variables, script]);
      assertNotEquals(code, 0, output);
      assertStringIncludes(output, "ConfigurationError: This process may not open glibc");
      assertStringIncludes(output, libc);
      assert(!output.includes("cannot be loaded"), output);
    });
  }

  Deno.test(`symmetric memory takes --allow-ffi without a list, and says so [${mpi.name}]`, async () => {
    const { list, environment } = folders(mpi);
    const symmetric = `${root}tests/system/fixtures/symmetric.ts`;
    const withAll = await runJob(mpi, 2, ["run", "--allow-ffi", variables, symmetric], { environment });
    assertEquals(withAll.code, 0, withAll.output);
    assertEquals(withAll.output.match(/next: [12]/g)?.sort(), ["next: 1", "next: 2"]);
    // Of two ranks that fail, Hydra may kill the one that ends later: the code is looked at where there is one.
    for (const ranks of [1, 2]) {
      const args = ["run", `--allow-ffi=${list}`, variables, symmetric];
      const { code, output } = await runJob(mpi, ranks, args, { environment });
      assert(ranks === 1 ? code === 1 : code !== 0, `${code}: ${output}`);
      assertStringIncludes(output, "does not permit. Start the script with --allow-ffi, without a list.");
    }
    const readme = Deno.readTextFileSync(`${root}README.md`).replaceAll(/\s+/g, " ");
    assertStringIncludes(readme, "Symmetric memory on CPUs takes `--allow-ffi` without a list");
  });
}

mockTest("on GPUs two variables more are enough, and are asked for", async (env) => {
  const { list, environment } = folders(first);
  const run = (names: string) => {
    const permissions = [`--allow-ffi=${env.DISTMATH_LIBRARY_PATH},${list}`, `${variables}${names}`];
    const multiplies = `${root}tests/system/fixtures/multiplies_on_gpu.ts`;
    const settings = { ...environment, ...env, NCCL_NVLS_ENABLE: "" };
    return runJob(first, 2, ["run", ...permissions, multiplies], { environment: settings });
  };
  const { code, output } = await run(",NCCL_NVLS_ENABLE,NVSHMEM_DISABLE_NVLS");
  assertEquals(code, 0, output);
  assertEquals(output.split("sum 512").length - 1, 2, output);
  assertStringIncludes((await run("")).output, "--allow-env=NCCL_NVLS_ENABLE");
});

Deno.test("importing mod.ts takes no permission", async () => {
  const source = `import { Slab } from "${root}mod.ts"; console.log(String(Slab.X));`;
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", source],
    env: { NO_COLOR: "1" },
  }).output();
  assertEquals(new TextDecoder().decode(stderr), "");
  assertEquals([code, new TextDecoder().decode(stdout)], [0, "Slab.X\n"]);
});
