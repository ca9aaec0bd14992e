import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { ConfigurationError } from "../../../ffi/errors.ts";
import { checkScalapackAbi, scalapackRefusal } from "../../../ffi/scalapack.ts";

const openMpi = { abi: "open_mpi", path: "/opt/openmpi/lib/libmpi.so.40" } as const;
const mpich = { abi: "mpich", path: "/opt/mpich/lib/libmpi.so.12" } as const;
const debianMpich = { abi: "mpich", path: "/usr/lib/libmpich.so.12" } as const;

Deno.test("scalapackRefusal() refuses MKL before 2026 under Open MPI, whose handles it cuts off", () => {
  for (const suffix of ["", ".1"]) {
    const path = `/opt/lib/libmkl_scalapack_lp64.so${suffix}`;
    assertStringIncludes(scalapackRefusal(path, openMpi) ?? "", "take MKL 2026.2, or MPICH");
    assertEquals(scalapackRefusal(path, mpich), null);
  }
  assertEquals(scalapackRefusal("/opt/lib/libmkl_scalapack_lp64.so.2", openMpi), null);
});

Deno.test("scalapackRefusal() refuses a file that would load a second MPI", () => {
  const path = "/usr/lib/libscalapack-mpich.so.2.2";
  assertStringIncludes(scalapackRefusal(path, mpich) ?? "", `a second MPI beside ${mpich.path}`);
  assertEquals(scalapackRefusal(path, debianMpich), null);
  assertEquals(scalapackRefusal("/usr/lib/libscalapack-openmpi.so.2.2", openMpi), null);
});

Deno.test("scalapackRefusal() asks a file of no telling name where its MPI is", () => {
  const path = "/usr/lib/libscalapack.so";
  const addresses = (own: bigint) => (file: string, name: string) => {
    assertEquals(name, "MPI_Init");
    return file === path ? own : 1n;
  };
  assertEquals(scalapackRefusal(path, mpich, addresses(1n)), null);
  assertStringIncludes(scalapackRefusal(path, mpich, addresses(2n)) ?? "", `another MPI than ${mpich.path}`);
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
