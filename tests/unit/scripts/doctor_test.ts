import { assertEquals, assertStringIncludes } from "@std/assert";
import { findProblems } from "../../../scripts/doctor.ts";

const launcher = { path: "/usr/bin/mpirun", kind: "open_mpi", version: "4.1.4", source: "PATH" } as const;
const library = { name: "ScaLAPACK", version: "2.2 with OpenBLAS", path: "/l/libscalapack.so", source: "OS loader" };
const working = { ...launcher, libraries: [library], threads: 2, canMultiply: true, error: null };
const broken = { ...launcher, libraries: [], threads: null, canMultiply: false, error: "ScaLAPACK was not found" };

Deno.test("findProblems() is silent where all is well", () => {
  assertEquals(findProblems([working, broken], []), []);
});

Deno.test("findProblems() says what to do", () => {
  const cases: [launchers: Parameters<typeof findProblems>[0], lacking: string[], message: string][] = [
    [[], [], "no MPI launcher (mpirun) was found; to install one: deno task native install cpu"],
    [[broken], [], "no MPI here has a ScaLAPACK that works; to install one"],
    [[broken, { ...working, path: "/n/mpirun" }], [], "set DISTMATH_MPIRUN=/n/mpirun"],
    [[working], ["ffi", "run"], "lacks permissions (ffi, run): start it with -A"],
    [
      [{ ...working, libraries: [{ ...library, version: "2.2 with reference BLAS" }] }],
      [],
      "about 7 times slower than an optimised one; install one: apt-get install libopenblas0-pthread",
    ],
  ];
  for (const [launchers, lacking, message] of cases) {
    const problems = findProblems(launchers, lacking);
    assertEquals(problems.length, 1);
    assertStringIncludes(problems[0], message);
  }
});
