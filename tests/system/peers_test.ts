/** Jobs in which another program is a rank: one in Python by mpi4py, one in C. Each only calls MPI. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { libraryFile, type MpiInstallation, mpiInstallations, runPrograms } from "../mpi_installations.ts";

const fixture = (name: string): string => fileURLToPath(new URL(`./fixtures/${name}`, import.meta.url));

/** What a command prints; `null` if it fails or does not exist. */
function outputOf(command: string, ...args: string[]): string | null {
  try {
    const { success, stdout } = new Deno.Command(command, { args, stderr: "null" }).outputSync();
    return success ? new TextDecoder().decode(stdout).trim() : null;
  } catch {
    return null;
  }
}

/** The Python that has mpi4py. */
const python = outputOf("python3", "-c", "import mpi4py, sys; print(sys.executable)");

/** The compiler for an MPI. All releases of Open MPI from 3 on have one binary interface, and wheels bring no headers. */
function compilerOf({ name, family, libraryPath }: MpiInstallation): string | null {
  const own = `${libraryPath}/../bin/${name === "MPI standard ABI" ? "mpicc_abi" : "mpicc"}`;
  if (family === "mpich" && libraryPath !== null) return existsSync(own) ? own : null;
  const command = family === "open_mpi" ? "mpicc.openmpi" : "mpicc.mpich";
  return outputOf(command, "--version") === null ? null : command;
}

/** A command, run with the library of an MPI before all others. */
function withLibrary(mpi: MpiInstallation, folder: string, command: readonly string[]): string[] {
  const library = libraryFile(mpi);
  if (mpi.family === "open_mpi") return ["env", `LD_PRELOAD=${library}`, ...command];
  // mpi4py asks for the name that newer releases give it.
  if (mpi.libraryPath === null) Deno.symlinkSync(library, `${folder}/libmpi.so.12`);
  return ["env", "MPI4PY_MPIABI=mpich", `LD_LIBRARY_PATH=${mpi.libraryPath ?? folder}`, ...command];
}

/** Programs that are a rank, by language: how to start one under an MPI, or why not. */
const PEERS: Record<string, (mpi: MpiInstallation) => { skipped: string } | { start: (folder: string) => string[] }> = {
  mpi4py: (mpi) => {
    if (python === null) return { skipped: "python3 has no mpi4py" };
    // It knows the interfaces of Open MPI and of MPICH, whose ranks can be beside those of the standard one.
    const { DISTMATH_MPI: _, ...environment } = mpi.environment;
    const own = mpi.name === "MPI standard ABI" ? { ...mpi, name: "MPICH 5", environment } : mpi;
    return { start: (folder) => withLibrary(own, folder, [python, fixture("peer.py")]) };
  },
  C: (mpi) => {
    const compiler = compilerOf(mpi);
    if (compiler === null) return { skipped: "no mpicc" };
    return {
      start: (folder) => {
        const { success, stderr } = new Deno.Command(compiler, { args: [fixture("peer.c"), "-o", `${folder}/peer`] })
          .outputSync();
        assertEquals(success, true, new TextDecoder().decode(stderr));
        return withLibrary(mpi, folder, [`${folder}/peer`]);
      },
    };
  },
};

/**
 * Open MPI 5's PMIx wants shared memory at an address of the launcher's choice, where a peer may have something else: "local
 * rank: Not found". Ranks of distmath ask for the other way by themselves.
 */
const environmentOf = ({ family, release }: MpiInstallation): Record<string, string> =>
  family === "open_mpi" && release !== 4 ? { PMIX_MCA_gds: "hash" } : {};

for (const [language, peerOf] of Object.entries(PEERS)) {
  for (const mpi of mpiInstallations) {
    const peer = peerOf(mpi);
    const name = `split, splitShared, duplicate and a product beside a rank in ${language} [${mpi.name}]`;
    if ("skipped" in peer) {
      Deno.test({ name: `${name} (skipped: ${peer.skipped})`, ignore: true, fn: () => {} });
      continue;
    }
    Deno.test(name, async (test) => {
      const folder = Deno.makeTempDirSync();
      try {
        const other = peer.start(folder);
        for (const method of ["split", "splitShared", "duplicate", "product"]) {
          // No ScaLAPACK exists for the standard interface.
          const ignore = method === "product" && mpi.name === "MPI standard ABI";
          const fn = async () => {
            const script = [Deno.execPath(), "run", "-A", fixture("beside_peer.ts"), method];
            const programs = [{ ranks: 1, command: [...other, method] }, { ranks: 2, command: script }];
            if (method === "split") programs.reverse();
            const { code, output } = await runPrograms(mpi, programs, { environment: environmentOf(mpi) });
            assertEquals(code, 0, output);
            const size = method === "product" ? 1 : 3;
            assertStringIncludes(output, `the peer is one of ${size}`);
            const ranks = { split: [0, 1], product: [0, 1] }[method] ?? [1, 2];
            const rest = method === "product" ? "of 2: 120 and 120" : "of 3";
            // A launcher may forward a rank's text and the end of its line apart, with another's text between.
            const told = output.match(/rank \d of \d(: \d+ and \d+)?/g)?.toSorted();
            assertEquals(told, ranks.map((rank) => `rank ${rank} ${rest}`), output);
          };
          await test.step({ name: method, ignore, fn });
        }
      } finally {
        Deno.removeSync(folder, { recursive: true });
      }
    });
  }
}
