/** What others call otherwise: the tables of README and COMING_FROM.md, against the API here and lists of their names. */
import { assert, assertEquals } from "@std/assert";
import * as distmath from "../../mod.ts";
import { FFT_NORMS } from "../../src/fft/problem.ts";
import { algorithmNames } from "../../src/linalg/engines/registry.ts";
import { EPILOG_NAMES } from "../../src/linalg/matmul/epilog.ts";
import { MATMUL_OPTION_KEYS } from "../../src/linalg/matmul/options.ts";
import * as testing from "../../src/testing/mod.ts";

const root = new URL("../../", import.meta.url);
const read = (path: string) => Deno.readTextFileSync(new URL(path, root));

/** A row of a table: what stands in code in its two cells. */
type Row = readonly [theirs: string[], ours: string[]];

/** The code in a text. */
const codeIn = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, code]) => code);

/** The rows of the tables in a text, without those of headings. */
function rowsIn(text: string): Row[] {
  const tables = text.split("\n\n").filter((block) => block.trim().startsWith("|"));
  return tables.flatMap((table) =>
    table.trim().split("\n").slice(2).map((line): Row => {
      const [, theirs, ours] = line.split("|");
      return [codeIn(theirs), codeIn(ours)];
    })
  );
}

/** The tables of README's section, by their first headings. */
function tablesOfReadme(): Map<string, Row[]> {
  const [, section] = read("README.md").split("## Coming from\n");
  const tables = section.split("\n\n").filter((block) => block.trim().startsWith("|"));
  return new Map(tables.map((table) => [table.split("|")[1].trim(), rowsIn(table)]));
}

/** Rows that are about some classes or modules. */
interface Section {
  owners: string[];
  rows: Row[];
}

/** The sections of COMING_FROM.md about a library. */
function sectionsOf(library: string): Section[] {
  const [, chapter] = read("COMING_FROM.md").split(`\n## ${library}\n`);
  const sections = chapter.split(/\n## /)[0].split("\n### ").slice(1);
  return sections.map((text) => ({ owners: codeIn(text.split("\n")[0]), rows: rowsIn(text) }));
}

/** Names with the class that those that begin with a dot have from the one before. */
function inFull(names: readonly string[]): string[] {
  let owner = "";
  return names.map((name) => {
    if (name.startsWith(".")) return owner + name;
    if (name.includes(".")) [owner] = name.split(".");
    return name;
  });
}

// ---- the right column -----------------------------------------------------------------------------------------------

/** Members that only the type checker finds: what constructors set, and what types are made of. */
const TYPED: Readonly<Record<string, readonly string[]>> = {
  BlockCyclic: ["grid", "blockSizes", "firstProcess"] satisfies (keyof distmath.BlockCyclic)[],
  Box: ["boxes"] satisfies (keyof distmath.Box)[],
  Communicator: ["rank", "size"] satisfies (keyof distmath.Communicator)[],
  DistributedArray: ["distribution"] satisfies (keyof distmath.DistributedArray)[],
  Distribution: ["dimensions", "grid"] satisfies (keyof distmath.Distribution)[],
  ElementOptions: ["dtype"] satisfies (keyof NonNullable<Parameters<distmath.Communicator["broadcast"]>[1]>)[],
  FFTExecuteOptions: ["direction"] satisfies (keyof distmath.FFTExecuteOptions)[],
  FFTOptions: [
    "inplace",
    "blocking",
    "fftType",
    "lastAxisParity",
    "logger",
    "redistribute",
  ] satisfies (keyof distmath.FFTOptions)[],
  GeaddOptions: ["trans"] satisfies (keyof distmath.GeaddOptions)[],
  InitializeOptions: ["communicator", "device"] satisfies (keyof distmath.InitializeOptions)[],
  IntoOptions: ["into"] satisfies (keyof distmath.IntoOptions<Float64Array>)[],
  MatmulOptions: MATMUL_OPTION_KEYS,
  ProcessGrid: ["layout", "processes", "shape", "size"] satisfies (keyof distmath.ProcessGrid)[],
  QuantizationScales: ["a", "b", "c", "d"] satisfies (keyof distmath.QuantizationScales)[],
  ReduceOptions: ["op"] satisfies (keyof distmath.ReduceOptions<Float64Array>)[],
  ReduceScatterOptions: ["counts"] satisfies (keyof distmath.ReduceScatterOptions<Float64Array>)[],
  ReductionOperator: ["commutes"] satisfies (keyof distmath.ReductionOperator)[],
  Runtime: ["device", "rank", "size"] satisfies (keyof distmath.Runtime)[],
  Slab: ["partitionDimension"] satisfies (keyof distmath.Slab)[],
  SolveOptions: ["assume"] satisfies (keyof distmath.SolveOptions)[],
  Status: ["count", "source", "tag"] satisfies (keyof distmath.Status)[],
};

/** Options whose values the tables name. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  algorithm: ["default", ...algorithmNames()],
  epilog: EPILOG_NAMES,
  norm: FFT_NORMS,
};

/** What is no name of this library: JavaScript's words, and a variable. */
const OTHERS = ["using", "await", "MASTER_ADDR"];

/**
 * What a name such as `Matmul.plan` stands for: an export, a static member, a method or property of instances, an option of
 * `matmul`, or one with its value; or what Deno itself has, such as `performance.now`.
 */
function isThere(name: string): boolean {
  const [, option, value] = /^(\w+): "(\w+)"$/.exec(name) ?? [];
  if (option !== undefined) return VALUES[option]?.includes(value) ?? false;
  const [first, member] = name.split(".");
  const exported = ({ ...distmath, ...testing } as Record<string, unknown>)[first];
  if (member === undefined) {
    return exported !== undefined || first in TYPED || (MATMUL_OPTION_KEYS as readonly string[]).includes(first);
  }
  if (TYPED[first]?.includes(member)) return true;
  const owner = (exported ?? (globalThis as unknown as Record<string, unknown>)[first]) as object | undefined;
  const prototype = (owner as { prototype?: object } | undefined)?.prototype;
  return owner !== undefined && (member in owner || prototype !== undefined && member in prototype);
}

const LIBRARIES = ["nvmath-python", "mpi4py", "ScaLAPACK", "PyTorch's DTensor"];

for (
  const [document, rows, atLeast] of [
    ["README", [...tablesOfReadme().values()].flat(), 100],
    ["COMING_FROM", LIBRARIES.flatMap(sectionsOf).flatMap(({ rows }) => rows), 400],
  ] as const
) {
  Deno.test(`the names in ${document} for what others call otherwise are there`, () => {
    const names = rows.flatMap(([, ours]) => inFull(ours)).filter((name) => !OTHERS.includes(name));
    assert(names.length > atLeast, `${names.length}`);
    assertEquals(names.filter((name) => !isThere(name)), []);
  });
}

Deno.test("names that are not there are found out", () => {
  const wrong = ["Matmul.fly", "fly", "Communicator.fly", "Status.fly", "Fly.plan", 'epilog: "fly"', 'fly: "relu"'];
  for (const name of [...wrong, "Deno.fly", "IntoOptions.plan"]) assert(!isThere(name), name);
  assertEquals(inFull(["Matmul.plan", ".fly", "FFT", ".land"]), ["Matmul.plan", "Matmul.fly", "FFT", "Matmul.land"]);
});

// ---- the left column ------------------------------------------------------------------------------------------------

/** The names of a library, by their class or module. */
function namesOf(file: string): Map<string, string[]> {
  const names = new Map<string, string[]>();
  for (const line of read(`tests/unit/names/${file}.txt`).split("\n").filter((line) => line && !line.startsWith("#"))) {
    const [owner, list] = line.split(": ");
    names.set(owner, [...names.get(owner) ?? [], ...list.split(" ")]);
  }
  return names;
}

/** A pattern of names: `*` stands for any characters, `?` for one. */
const patternOf = (text: string) => RegExp(`^${text.replaceAll("*", "\\w*").replaceAll("?", "\\w")}$`);

/** The names, with their classes, that a word of the left column covers in a section. */
function coveredBy(word: string, owners: readonly string[], names: ReadonlyMap<string, string[]>): string[] {
  const [name, owner = "*"] = word.split(".").reverse();
  const [isOwner, isName] = [owner, name].map(patternOf);
  return owners.filter((one) => isOwner.test(one)).flatMap((one) =>
    (names.get(one) ?? []).filter((other) => isName.test(other)).map((other) => `${one}.${other}`)
  );
}

/** What the sections about a library lack, and have too much. */
function compare(sections: readonly Section[], names: ReadonlyMap<string, string[]>) {
  const covered = new Set<string>();
  const strange: string[] = [];
  for (const { owners, rows } of sections) {
    for (const word of rows.flatMap(([theirs]) => theirs)) {
      const found = coveredBy(word, owners, names);
      if (found.length === 0) strange.push(`${owners}: ${word}`);
      for (const name of found) covered.add(name);
    }
  }
  const all = [...names].flatMap(([owner, list]) => list.map((name) => `${owner}.${name}`));
  return { missing: all.filter((name) => !covered.has(name)), strange };
}

for (
  const [library, file, atLeast] of [
    ["nvmath-python", "nvmath", 100],
    ["mpi4py", "mpi4py", 900],
    ["ScaLAPACK", "scalapack", 400],
    ["PyTorch's DTensor", "dtensor", 80],
  ] as const
) {
  Deno.test(`COMING_FROM has each name of ${library}, and no other`, () => {
    const names = namesOf(file);
    assert([...names.values()].flat().length > atLeast);
    assertEquals(compare(sectionsOf(library), names), { missing: [], strange: [] });
  });
}

/** The list of the mpi4py that is installed, and its version; null where there is none. */
function installedMpi4py(): string | null {
  try {
    const args = ["tests/unit/names/mpi4py.py"];
    const { success, stdout } = new Deno.Command("python3", { args, cwd: root, stderr: "null" }).outputSync();
    return success ? new TextDecoder().decode(stdout) : null;
  } catch {
    return null;
  }
}

const listed = read("tests/unit/names/mpi4py.txt");
const [version] = listed.split(",");
const installed = installedMpi4py();
const reason = installed?.startsWith(`${version},`) ? "" : ` (skipped: no ${version.slice(2)})`;

Deno.test({ name: `the list of mpi4py's names is that of ${version.slice(2)}${reason}`, ignore: reason !== "" }, () => {
  assertEquals(installed, listed);
});

Deno.test("a name that a table lacks is found, and one that the library lacks", () => {
  const names = new Map([["Comm", ["Send", "Ssend", "Recv"]], ["Win", ["Send"]]]);
  const section = (...theirs: string[]): Section => ({ owners: ["Comm"], rows: [[theirs, []]] });
  assertEquals(compare([section("*end", "Recv")], names), { missing: ["Win.Send"], strange: [] });
  assertEquals(compare([section("?end", "Win.Send", "Fly")], names), {
    missing: ["Comm.Ssend", "Comm.Recv", "Win.Send"],
    strange: ["Comm: Win.Send", "Comm: Fly"],
  });
});

/** What people look up most who come from elsewhere, by the heading of README's table; more may be there. */
const LOOKED_UP: Readonly<Record<string, string>> = {
  "nvmath-python": `initialize finalize get_context allocate_symmetric_memory free_symmetric_memory matmul Matmul plan
    execute autotune reset_operands reset_operand release_operands matrix_qualifiers_dtype MatmulEpilog epilog_inputs
    fft ifft rfft irfft FFT allocate_operand reshape Reshape Slab Box BlockCyclic BlockNonCyclic ProcessGrid DirectSolver direct_solver`,
  mpi4py: `COMM_WORLD COMM_SELF Get_rank Get_size Send Recv Sendrecv Probe Iprobe ANY_SOURCE ANY_TAG PROC_NULL
    Isend Irecv Wait Waitall Waitany Send_init Recv_init Start Startall Create_vector Create_subarray
    Bcast Scatter Gather Allgather Alltoall Scatterv Gatherv Allgatherv Alltoallv
    Reduce Allreduce Reduce_scatter Scan Exscan Barrier
    Ibcast Iscatter Igather Iallgather Ialltoall Ireduce Iallreduce Ibarrier
    send recv sendrecv isend irecv bcast scatter gather allgather alltoall reduce allreduce scan exscan
    Create_cart Get_coords Shift Neighbor_allgather Neighbor_alltoall Split Split_type Dup Free Abort
    Win File Spawn MPICommExecutor Test Testall Testany Waitsome Cancel Bsend Issend Sendrecv_replace Reduce_scatter_block
    Alltoallw Wtime Get_processor_name Group`,
  ScaLAPACK: `blacs_gridinit descinit numroc indxl2g indxg2l indxg2p psgemm pdgemm pcgemm pzgemm pdtrsm pdtrmm pdsyrk
    pzherk pdgeadd pdtradd pdsymm pdsyr2k pzher2k pzhemm pdgemr2d pdgesv pdposv pdsyevd pzheevd
    blacs_gridinfo blacs_gridexit pdgemv pdpotrf pdgetrf pdgeqrf pdgels pdgesvd pdtran`,
  "PyTorch's DTensor":
    `init_process_group DeviceMesh init_device_mesh Shard Replicate Partial distribute_tensor from_local
    to_local full_tensor redistribute CommDebugMode assert_close distribute_module parallelize_module local_map zeros full rand visualize_sharding`,
};

Deno.test("README has the names that people look up who come from elsewhere", () => {
  const tables = tablesOfReadme();
  assertEquals([...tables.keys()], Object.keys(LOOKED_UP));
  for (const [whose, text] of Object.entries(LOOKED_UP)) {
    const words = new Set(tables.get(whose)!.flatMap(([theirs]) => theirs.flatMap((code) => code.match(/\w+/g) ?? [])));
    const missing = (names: string) => names.trim().split(/\s+/).filter((name) => !words.has(name));
    assertEquals(missing(text), [], whose);
    assertEquals(missing("Teleport"), ["Teleport"]);
  }
});
