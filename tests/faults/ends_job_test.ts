/** A job ends as a whole, soon, and with the right exit code, whatever happens on one of its ranks. */
import { assert, assertEquals, assertMatch, assertNotEquals, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import {
  type JobResult,
  libraryFile,
  type MpiInstallation,
  mpiInstallations,
  runAlone,
  runJob,
  slowdown,
  testUnderEveryMpi,
} from "../mpi_installations.ts";
import { lineOf } from "../script_lines.ts";
import { finish, main, start, temporaryFolder } from "../system/command.ts";
import { assertCleanEnd, MEMORY_AT_START } from "./clean_end.ts";
import { until } from "./processes.ts";

function fixture(name: string): string {
  return fileURLToPath(new URL(`./fixtures/${name}.ts`, import.meta.url));
}

function run(mpi: MpiInstallation, name: string, ...args: string[]): Promise<JobResult> {
  return runJob(mpi, 2, ["run", "-A", fixture(name), ...args]);
}

/** What is told of a rank that ends otherwise than by an error. */
const EXIT = "Deno.exit or Deno.exitCode";

function filesIn(folder: string): string[] {
  return Array.from(Deno.readDirSync(folder), ({ name }) => name);
}

function occurrences(text: string, part: string): number {
  return text.split(part).length - 1;
}

testUnderEveryMpi("an uncaught error on one rank ends the job and is printed once", async (mpi) => {
  const result = await run(mpi, "throws");
  assertCleanEnd(result, { rank: 1, why: "Error: broken on purpose", code: 1 });
  assertEquals(occurrences(result.output, "Error: broken on purpose"), 1, result.output);
});

testUnderEveryMpi("an uncaught error beside output of another rank ends the job with code 1", async (mpi) => {
  using folder = temporaryFolder();
  const file = `${folder.path}/fault`;
  const result = await run(mpi, "ends_beside_output", file);
  const faultAt = Number(Deno.readTextFileSync(file));
  const fault = { rank: 1, why: "an uncaught error", faultAt };
  // Intel's launcher may die of SIGPIPE then, also after MPI_Abort of a program in C.
  const isSigpipe = mpi.name === "Intel MPI" && result.code === 128 + 13;
  assertCleanEnd(result, isSigpipe ? fault : { ...fault, code: 1 });
});

testUnderEveryMpi("a rank that is killed beside output of another one is named", async (mpi) => {
  using folder = temporaryFolder();
  const file = `${folder.path}/fault`;
  const result = await run(mpi, "ends_beside_output", file, "killed");
  const faultAt = Number(Deno.readTextFileSync(file));
  assertCleanEnd(result, { rank: 1, why: /\bsignal:? 9\b/i, faultAt });
});

testUnderEveryMpi("a rank that aborts beside output of another one is not told to be killed", async (mpi) => {
  using folder = temporaryFolder();
  const file = `${folder.path}/fault`;
  const result = await run(mpi, "ends_beside_output", file, "aborts");
  const faultAt = Number(Deno.readTextFileSync(file));
  assertCleanEnd(result, { rank: 1, why: "exit code 3: abort()", faultAt });
  assertEquals(result.output.match(/distmath: rank.* was (killed|ended)/), null);
});

const REQUEST = /^distmath-end: (?<words>.*)\ncmd=abort exitcode=(?<code>\d+)\n$/m;

for (
  const [when, way, code] of [
    ["early", "throws", 1],
    ["early", "exits", 3],
    ["early", "handles", null],
    ["late", "throws", 1],
    ["late", "handles", null],
  ]
) {
  Deno.test(`Hydra is asked to end the job of a rank that fails, after all that it prints: ${when}, ${way}`, async () => {
    // A pipe stands for Hydra's socket.
    const command = ["-c", 'exec "$@" 2>&1 7>&1', "sh", Deno.execPath(), "run", "-A", "--no-check"];
    const env = { DISTMATH_MPI: libraryFile(mpiInstallations[0]) };
    const { stdout } = await finish(
      start("sh", [...command, fixture("asks_hydra"), String(when), String(way)], { env }),
    );
    const asked = REQUEST.exec(stdout)?.groups;
    assertEquals([asked && Number(asked.code), asked && JSON.parse(asked.words).code], [
      code ?? undefined,
      code ?? undefined,
    ]);
    assertEquals(
      stdout.slice(0, stdout.search(REQUEST)).includes("Error: broken on purpose"),
      way === "throws",
      stdout,
    );
  });
}

testUnderEveryMpi("an unhandled rejection on one rank ends the job and is printed once", async (mpi) => {
  const result = await run(mpi, "rejects");
  assertCleanEnd(result, { rank: 1, why: "Error: broken on purpose", code: 1 });
  assertEquals(occurrences(result.output, "Error: broken on purpose"), 1, result.output);
});

testUnderEveryMpi("Deno.exit(3) on one rank ends the job with code 3", async (mpi) => {
  assertCleanEnd(await run(mpi, "exits", "3"), { rank: 1, why: `exit code 3: ${EXIT}`, code: 3 });
});

testUnderEveryMpi("Deno.exit(256), whose last 8 bits are 0, is no success", async (mpi) => {
  assertCleanEnd(await run(mpi, "exits", "256"), { rank: 1, why: `exit code 1: ${EXIT}`, code: 1 });
});

testUnderEveryMpi("abort() with a code that is no success ends the job with it, and with 1 otherwise", async (mpi) => {
  for (const [given, code] of [["7", 7], ["0", 1], ["256", 1]] as const) {
    assertCleanEnd(await run(mpi, "exits", given, "abort"), { rank: 1, why: `exit code ${code}: abort()`, code });
  }
});

for (const way of ["throws", "rejects", "exits", "library"]) {
  testUnderEveryMpi(`a rank that fails before MPI starts ends the job: ${way}`, async (mpi) => {
    const result = await run(mpi, "fails_early", way);
    const why = { library: "LibraryNotFoundError: ", exits: EXIT }[way] ?? "Error: broken on purpose";
    assertCleanEnd(result, { rank: 1, why, code: way === "exits" ? 3 : 1, mayLeave: MEMORY_AT_START });
    assertEquals(occurrences(result.output, why), 1, result.output);
  });
}

testUnderEveryMpi("a rank that fails before MPI starts ends the job while another one starts it", async (mpi) => {
  const result = await run(mpi, "fails_as_another_starts", String(Date.now() + Math.ceil(1000 * slowdown())));
  assertCleanEnd(result, { rank: 1, why: EXIT, code: 3, mayLeave: MEMORY_AT_START });
  assertEquals(occurrences(result.output, "has started"), 0, result.output);
});

/** Run a script on two ranks, with less patience than usual. */
const runImpatient = (mpi: MpiInstallation, ...script: string[]) =>
  main(["run", "--mpirun", mpi.mpirun, "-n", "2", ...script], { env: { DISTMATH_PATIENCE_SECONDS: "2" } });

testUnderEveryMpi(
  "run ends the job of a rank that ends well without distmath while another one starts MPI",
  async (mpi) => {
    const script = fixture("ends_without_distmath");
    const { code, stdout, stderr } = await runImpatient(mpi, script);
    assertEquals(code, 1, stderr);
    const place = `rank 0 waits in MPI_Init at ${lineOf(script, "initialize()").source}`;
    const told =
      `error: rank 1 ended the job with exit code 1: it ended before it started MPI, and ${place} for rank 1; `;
    assertMatch(stderr, RegExp(`^${told}`, "m"));
    const seconds = (Date.now() - Number(/fault at (\d+)/.exec(stdout)?.[1])) / 1000;
    assert(seconds < 10 * slowdown(), `${seconds} s`);
  },
);

testUnderEveryMpi("run waits for a rank that starts MPI late, and for none that does not", async (mpi) => {
  for (const how of ["joins", "well"]) {
    const { code, stderr } = await runImpatient(mpi, fixture("imports_only"), how, "3000");
    assertEquals([code, stderr], [0, ""]);
  }
});

testUnderEveryMpi("MPI starts after an error that the script handles", async (mpi) => {
  const { code, output } = await run(mpi, "fails_early", "handles");
  assertEquals(code, 0, output);
  assertEquals(occurrences(output, "is done"), 2, output);
});

testUnderEveryMpi("ranks end with what has started them on their machine", async (mpi) => {
  const { code, output, left } = await run(mpi, "loses_launcher");
  assertNotEquals(code, 0, output);
  // Nobody is left to remove their memory, which goes when ranks start later; nor what one was about to remove.
  const isMemory = (what: string) => MEMORY_AT_START.test(what) || what.startsWith("/dev/shm/mpich_shar_tmp");
  assertEquals(left.filter((what) => !isMemory(what)), [], output);
});

testUnderEveryMpi(
  "a rank that is killed while a file is written ends the job, and nothing of the file is left",
  async (mpi) => {
    using folder = temporaryFolder();
    const why = /\bsignal:? 9\b/i;
    const files = { folder: folder.path, names: [] };
    assertCleanEnd(await run(mpi, "killed", `${folder.path}/a.npy`), { rank: 1, why, files });
  },
);

testUnderEveryMpi("nothing is left of a file that several hosts write when a rank is killed", async (mpi) => {
  using folder = temporaryFolder();
  const result = await run(mpi, "killed", `${folder.path}/a.npy`, "apart");
  assertCleanEnd(result, { rank: 1, why: /\bsignal:? 9\b/i });
  assertMatch(result.output, /writes a\.npy\.[0-9a-f]{8}\.part/);
  await until(() => filesIn(folder.path).length === 0, 5, () => `${filesIn(folder.path)} is left`);
});

testUnderEveryMpi("a file that several hosts write is there, and nothing beside it", async (mpi) => {
  using folder = temporaryFolder();
  const { code, output } = await run(mpi, "killed", `${folder.path}/a.npy`, "apart", "alive");
  assertEquals(code, 0, output);
  assertEquals(filesIn(folder.path), ["a.npy"]);
});

testUnderEveryMpi("a job that goes well ends with code 0", async (mpi) => {
  const { code, output } = await run(mpi, "ends");
  assertEquals(code, 0, output);
  assertEquals(occurrences(output, "is done"), 2, output);
  assertEquals(occurrences(output, "frees what it has queued"), 2, output);
});

testUnderEveryMpi("finalize() ends MPI once and for all", async (mpi) => {
  const { code, output } = await run(mpi, "ends", "finalize");
  assertEquals(code, 0, output);
  assertEquals(occurrences(output, "frees what it has queued"), 2, output);
  assertEquals(occurrences(output, "is done"), 2, output);
  assertEquals(occurrences(output, "then: StateError: MPI was finalized"), 2, output);
  assertEquals(occurrences(output, "collect: StateError: Runtime.collect: MPI was finalized"), 2, output);
  assertEquals(occurrences(output, "again: StateError: initialize: MPI was finalized"), 2, output);
});

testUnderEveryMpi("requests that nobody awaits are told of at the end", async (mpi) => {
  const { code, output } = await run(mpi, "ends", "requests");
  assertEquals(code, 0, output);
  assertEquals(occurrences(output, "distmath: MPI ends while requests are under way (1); await them"), 2, output);
});

testUnderEveryMpi("MPI that other code has ended cannot start again", async (mpi) => {
  const { output } = await run(mpi, "finalized_elsewhere");
  assertEquals(occurrences(output, "StateError: MPI was finalized in this process and cannot start again"), 2, output);
});

testUnderEveryMpi("MPI that another copy of the library has ended is used no more by this one", async (mpi) => {
  const { code, output } = await run(mpi, "finalized_by_copy");
  assertEquals(code, 0, output);
  const words = "StateError: MPI was finalized; no communicator or array can be used any more.";
  assertEquals(occurrences(output, `barrier: ${words}`), 2, output);
  assertEquals(occurrences(output, `zeros: StateError: `), 2, output);
  assertEquals(occurrences(output, "initialize: StateError: initialize: MPI was finalized in this process"), 2, output);
  assertEquals(occurrences(output, "is done"), 2, output);
});

const DASHES = "-".repeat(74);

/** What is told of the end of a rank, in a job that is none of these. */
const TOLD = [
  DASHES,
  "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD",
  "with errorcode 13.",
  DASHES,
  "Abort(13) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 13) - process 1",
  'distmath-end: {"rank":1,"code":13}',
];

/** Run a script that prints it, and lives for longer than `run` is patient with launchers. */
const runPrinting = (mpi: MpiInstallation, code: string) =>
  runImpatient(mpi, fixture("prints_ends"), code, TOLD.join("\n"));

testUnderEveryMpi("run ends no job for what a script prints, and shows all of it", async (mpi) => {
  const { code, stdout, stderr } = await runPrinting(mpi, "0");
  assertEquals(code, 0, stderr);
  for (const shown of [stdout, stderr]) assertEquals(shown.trimEnd().split("\n").toSorted(), TOLD.toSorted());
});

testUnderEveryMpi("run takes what a script has printed not for the end of a rank that fails later", async (mpi) => {
  const { code, stderr } = await runPrinting(mpi, "4");
  assertEquals(code, 4, stderr);
  const lines = stderr.trimEnd().split("\n");
  // Open MPI 5's launcher does not always tell which.
  const isError = (line: string) =>
    /^error: (rank 0 ended the job|a rank failed, and the job ended) with exit code 4$/.test(line);
  assertEquals(lines.filter(isError).length, 1, stderr);
  assertEquals(lines.filter((line) => !isError(line)).toSorted(), TOLD.toSorted());
});

/** What a launcher sets that the MPI under test takes no notice of. */
const CLAIMS = {
  open_mpi: { OMPI_COMM_WORLD_RANK: "0", OMPI_COMM_WORLD_SIZE: "2" },
  mpich: { SLURM_PROCID: "0", SLURM_STEP_NUM_TASKS: "2" },
};

testUnderEveryMpi("a launcher that MPI does not know is told of, and how to start", async (mpi) => {
  const claims: Record<string, string> = { ...CLAIMS[mpi.family], DISTMATH_MPI: libraryFile(mpi) };
  if (mpi.family === "open_mpi" && mpi.release === 5) claims.OMPI_VERSION = "5.0";
  const { output } = await runAlone(mpi, ["run", "-A", fixture("alone")], { environment: claims });
  assertStringIncludes(output, "ConfigurationError: The launcher started 2 ranks, but MPI (");
  assertStringIncludes(
    output,
    " sees only 1, so that every process would be alone. Start the script by " +
      (mpi.family === "mpich"
        ? "srun --mpi=pmi2, where srun --mpi=list names that, or by the mpirun of "
        : "the mpirun of "),
  );
  assertStringIncludes(output, "deno task run -n 4 script.ts");
});

const withNativeLibrary = mpiInstallations.filter(({ name }) => name !== "MPI standard ABI");

for (const mpi of withNativeLibrary) {
  for (
    const other of withNativeLibrary.filter(({ family, release }) => family !== mpi.family || release !== mpi.release)
  ) {
    // All releases of Hydra start all releases of MPICH.
    if (other.family === "mpich" && mpi.family === "mpich") continue;
    Deno.test(`the library of ${other.name} is refused on every rank under the launcher of ${mpi.name}`, async () => {
      const options = { environment: { DISTMATH_MPI: libraryFile(other) } };
      const { output } = await runJob(mpi, 2, ["run", "-A", fixture("alone")], options);
      assertEquals(occurrences(output, "ConfigurationError: "), 2, output);
      assertEquals(occurrences(output, " started 2 ranks, but the MPI in use is "), 2, output);
      assertEquals(occurrences(output, "deno task run -n 4 script.ts"), 2, output);
    });
  }
}

Deno.test("a process without a launcher is rank 0 of 1", async () => {
  const { code, stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", fixture("ends")],
    env: { NO_COLOR: "1" },
  }).output();
  assertEquals(code, 0);
  assertStringIncludes(new TextDecoder().decode(stdout), "rank 0 is done");
});
