import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { ConfigurationError } from "../../../../ffi/errors.ts";
import { checkScalapackAbi, type LibraryFacts, scalapackRefusal } from "../../../../ffi/blas/scalapack.ts";

const openMpi = { abi: "open_mpi", path: "/opt/openmpi/lib/libmpi.so.40" } as const;
const mpich = { abi: "mpich", path: "/opt/mpich/lib/libmpi.so.12" } as const;
const debianMpich = { abi: "mpich", path: "/usr/lib/libmpich.so.12" } as const;

/** Files without links, of which one needs an MPI; `addresses` are those of MPI_Init. */
function facts(needed: string | null, addresses: Record<string, bigint> = {}): LibraryFacts {
  return {
    mpiNeededBy: () => needed,
    realPath: (path) => path,
    addressOf: (path, name) => {
      assertEquals(name, "MPI_Init");
      return addresses[path];
    },
  };
}

Deno.test("scalapackRefusal() refuses MKL before 2026 under Open MPI, whose handles it cuts off", () => {
  for (const suffix of ["", ".1"]) {
    const path = `/opt/lib/libmkl_scalapack_lp64.so${suffix}`;
    assertStringIncludes(scalapackRefusal(path, openMpi) ?? "", "take MKL 2026.2, or MPICH");
    assertEquals(scalapackRefusal(path, mpich), null);
  }
  assertEquals(scalapackRefusal("/opt/lib/libmkl_scalapack_lp64.so.2", openMpi), null);
});

Deno.test("scalapackRefusal() refuses a file that was built for another MPI, also one of the same name", () => {
  const cases = [
    ["/usr/lib/libscalapack-mpich.so.2.2", mpich, debianMpich.path],
    ["/usr/lib/libscalapack-openmpi.so.2.2", openMpi, "/usr/lib/libmpi.so.40"],
    ["/usr/lib/libscalapack.so.2.2", openMpi, "/usr/lib64/openmpi/lib/libmpi.so.40"],
  ] as const;
  for (const [path, mpi, needed] of cases) {
    assertEquals(
      scalapackRefusal(path, mpi, facts(needed)),
      `it is built for ${needed}, another MPI than ${mpi.path}`,
    );
    assertEquals(scalapackRefusal(path, mpi, facts(mpi.path)), null);
  }
});

Deno.test("scalapackRefusal() asks a file that names no MPI where its MPI is", () => {
  const path = "/usr/lib/libscalapack.so";
  assertEquals(scalapackRefusal(path, mpich, facts(null, { [path]: 1n, [mpich.path]: 1n })), null);
  const message = scalapackRefusal(path, mpich, facts(null, { [path]: 2n, [mpich.path]: 1n }));
  assertEquals(message, `it is built for another MPI than ${mpich.path}`);
});

Deno.test("checkScalapackAbi() refuses the MPI standard ABI", () => {
  checkScalapackAbi(openMpi);
  const error = assertThrows(
    () => checkScalapackAbi({ abi: "standard", path: "/opt/lib/libmpi_abi.so.1" }),
    ConfigurationError,
    "no ScaLAPACK exists for the MPI standard ABI (/opt/lib/libmpi_abi.so.1)",
  );
  assertStringIncludes((error as Error).message, "deno task native install cpu");
});
