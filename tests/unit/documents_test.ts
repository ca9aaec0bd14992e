/** Names and files that the documents speak of: the tables of README, the container's files, the changelog. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import * as distmath from "../../mod.ts";
import { commandLine } from "../../scripts/launch/launcher.ts";
import { FFT_NORMS } from "../../src/fft/problem.ts";
import { EPILOG_NAMES } from "../../src/linalg/matmul/epilog.ts";
import { MATMUL_OPTION_KEYS } from "../../src/linalg/matmul/options.ts";
import * as testing from "../../src/testing/mod.ts";

const root = new URL("../../", import.meta.url);
const read = (path: string) => Deno.readTextFileSync(new URL(path, root));

/** The code in a cell of a table. */
const codeIn = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, code]) => code);

/** The tables under "Coming from", by their first headings: what stands in code in each cell of a row. */
function tablesOfNames(): Map<string, [theirs: string[], ours: string[]][]> {
  const [, section] = read("README.md").split("## Coming from\n");
  const tables = section.split("\n\n").filter((block) => block.trim().startsWith("|"));
  return new Map(tables.map((table) => {
    const [head, , ...rows] = table.trim().split("\n").map((line) => line.split("|").slice(1, -1));
    return [head[0].trim(), rows.map(([theirs, ours]) => [codeIn(theirs), codeIn(ours)])];
  }));
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

/** What constructors set, which only the type checker finds. */
const SET_BY_CONSTRUCTORS: Readonly<Record<string, readonly string[]>> = {
  Communicator: ["rank", "size"] satisfies (keyof distmath.Communicator)[],
};

/** Options whose values the tables name. */
const VALUES: Readonly<Record<string, readonly string[]>> = { epilog: EPILOG_NAMES, norm: FFT_NORMS };

/**
 * What a name such as `Matmul.plan` stands for: an export, a static member, a method or property of instances, an option of
 * `matmul`, or one with its value.
 */
function isThere(name: string): boolean {
  const [, option, value] = /^(\w+): "(\w+)"$/.exec(name) ?? [];
  if (option !== undefined) return VALUES[option]?.includes(value) ?? false;
  const [first, member] = name.split(".");
  const exported = ({ ...distmath, ...testing } as Record<string, unknown>)[first];
  if (member === undefined) return exported !== undefined || (MATMUL_OPTION_KEYS as readonly string[]).includes(first);
  if (exported === undefined) return false;
  const { prototype } = exported as { prototype: object };
  return member in (exported as object) || member in prototype ||
    (SET_BY_CONSTRUCTORS[first]?.includes(member) ?? false);
}

Deno.test("README's names for what others call otherwise are there", () => {
  const rows = [...tablesOfNames().values()].flat();
  const names = rows.flatMap(([, ours]) => inFull(ours)).filter((name) => !["using", "await"].includes(name));
  assert(names.length > 100, `${names.length}`);
  assertEquals(names.filter((name) => !isThere(name)), []);
  for (const name of ["Matmul.fly", "fly", "Communicator.fly", 'epilog: "fly"', 'fly: "relu"']) assert(!isThere(name));
  assertEquals(inFull(["Matmul.plan", ".fly", "FFT", ".land"]), ["Matmul.plan", "Matmul.fly", "FFT", "Matmul.land"]);
});

/** What people look up who come from elsewhere, by the heading of the table; more may be there. */
const LOOKED_UP: Readonly<Record<string, string>> = {
  "nvmath-python": `initialize finalize get_context allocate_symmetric_memory free_symmetric_memory matmul Matmul plan
    execute autotune reset_operands reset_operand release_operands matrix_qualifiers_dtype MatmulEpilog epilog_inputs
    fft ifft rfft irfft FFT allocate_operand reshape Reshape Slab Box BlockCyclic BlockNonCyclic ProcessGrid`,
  mpi4py: `COMM_WORLD COMM_SELF Get_rank Get_size Send Recv Sendrecv Probe Iprobe ANY_SOURCE ANY_TAG PROC_NULL
    Isend Irecv Wait Waitall Waitany Send_init Recv_init Start Startall Create_vector Create_subarray
    Bcast Scatter Gather Allgather Alltoall Scatterv Gatherv Allgatherv Alltoallv
    Reduce Allreduce Reduce_scatter Scan Exscan Barrier
    Ibcast Iscatter Igather Iallgather Ialltoall Ireduce Iallreduce Ibarrier
    send recv sendrecv isend irecv bcast scatter gather allgather alltoall reduce allreduce scan exscan
    Create_cart Get_coords Shift Neighbor_allgather Neighbor_alltoall Split Split_type Dup Free Abort
    Win File Spawn MPICommExecutor`,
  ScaLAPACK: `blacs_gridinit descinit numroc indxl2g indxg2l indxg2p psgemm pdgemm pcgemm pzgemm pdtrsm pdtrmm pdsyrk
    pzherk pdgeadd pdtradd pdsymm pdsyr2k pzher2k pzhemm pdgemr2d pdgesv pdposv pdsyevd pzheevd`,
  "PyTorch's DTensor":
    `init_process_group DeviceMesh init_device_mesh Shard Replicate Partial distribute_tensor from_local
    to_local full_tensor redistribute CommDebugMode assert_close`,
};

Deno.test("README has the names that people look up who come from elsewhere", () => {
  const tables = tablesOfNames();
  assertEquals([...tables.keys()], Object.keys(LOOKED_UP));
  for (const [whose, text] of Object.entries(LOOKED_UP)) {
    const words = new Set(tables.get(whose)!.flatMap(([theirs]) => theirs.flatMap((code) => code.match(/\w+/g) ?? [])));
    const missing = (names: string) => names.trim().split(/\s+/).filter((name) => !words.has(name));
    assertEquals(missing(text), [], whose);
    assertEquals(missing("Teleport"), ["Teleport"]);
  }
});

Deno.test("README names what run sets and plain mpirun does not", () => {
  const text = read("README.md");
  // Names that differ in their last word are given once, and then by that.
  const isTold = ([name, value]: [string, string]) =>
    [name, name.slice(name.lastIndexOf("_"))].some((told) => text.includes(`\`${told}=${value}\``));
  const machine = { cores: 2, isRoot: false, environment: {} };
  const jobs = [{ ranks: 4, program: [] }, { ranks: 4, program: [], hosts: ["a:2", "b:2"] }];
  const launchers = [{ kind: "open_mpi", version: "5.0.11" }, { kind: "mpich", version: "4.3.1" }] as const;
  const set = launchers.flatMap((one) =>
    jobs.flatMap((job) => Object.entries(commandLine({ path: "mpirun", source: "PATH", ...one }, job, machine).env))
  ).filter(([name]) => name !== "PRTE_MCA_rmaps_default_mapping_policy"); // told of as --oversubscribe
  assertEquals(new Set(set.map(([name]) => name)).size, 10);
  assertEquals(set.filter((one) => !isTold(one)), []);
  assert(!isTold(["OMPI_MCA_fly", "1"]));
});

/** The rows of a section's tables, in cells. */
function rowsOf(section: string): string[][] {
  const [, text] = read("README.md").split(`## ${section}\n`);
  const lines = text.split("\n## ")[0].split("\n").filter((line) => line.startsWith("|"));
  return lines.slice(2).map((line) => line.split(/ *\| */).slice(1, -1));
}

/** All of the published source, in one text, strings that go on in the next line joined. */
function source(): string {
  const texts: string[] = [];
  const visit = (folder: URL) => {
    for (const { name, isDirectory } of Deno.readDirSync(folder)) {
      if (isDirectory) visit(new URL(`${name}/`, folder));
      else if (name.endsWith(".ts")) texts.push(Deno.readTextFileSync(new URL(name, folder)));
    }
  };
  for (const folder of ["src/", "ffi/", "scripts/"]) visit(new URL(folder, root));
  return texts.join("\n");
}

Deno.test("README's troubleshooting is by messages that there are", () => {
  const text = source();
  const messages = rowsOf("Troubleshooting").map(([message]) => /^`(.*)`$/.exec(message)?.[1] ?? message);
  assert(messages.length > 5, `${messages.length}`);
  assertEquals(messages.filter((message) => !text.includes(message)), []);
});

Deno.test("README's measured results are those of the records that it names", () => {
  const measured = rowsOf("Measured");
  assert(measured.length > 2);
  const ratios = (record: string, quantity: string, group: string, { title = "", ranks = 0 } = {}) => {
    const { groups } = JSON.parse(read(`bench/results/${record}`)) as {
      groups: {
        name: string;
        ranks: number;
        rows: { title: string; verdicts: { quantity: string; value: { median: number } }[] }[];
      }[];
    };
    const found = groups.find((one) => one.name === group && (ranks === 0 || one.ranks === ranks))!;
    const rows = found.rows.filter((row) => row.title.startsWith(title));
    const values = rows.flatMap(({ verdicts }) => verdicts.filter((one) => one.quantity === quantity))
      .map(({ value }) => value.median);
    return [Math.min(...values), Math.max(...values)];
  };
  const shown = (cell: string) => [...cell.matchAll(/([\d.]+) to ([\d.]+)/g)].map(([, ...ends]) => ends.map(Number));
  const near = (found: readonly number[], said: readonly number[], digits: number) =>
    assertEquals(found.map((value) => Number(value.toPrecision(digits))), said);
  const peers: Record<string, readonly string[]> = {
    redistribution: ["speed / p?gemr2d", "speed / mpi4py"],
    fft: ["speed / FFTW-MPI", "speed / mpi4py-fft"],
    communicator: ["time / mpi4py"],
    elementwise: ["time / NumPy"],
  };
  let checked = 0;
  for (const [what, said, cell] of measured) {
    const record = cell.replaceAll("`", "");
    assert(Deno.statSync(new URL(`bench/results/${record}`, root)).isFile);
    const [group] = record.split("_");
    const ranks = what.includes("4 ranks") ? 4 : what.includes("2 ranks") ? 2 : 0;
    for (const [i, quantity] of (peers[group] ?? []).entries()) {
      near(ratios(record, quantity, group, { ranks }), shown(said)[i], 2);
      checked++;
    }
  }
  // Two peers of each of five, one of each of two.
  assertEquals(checked, 12);
  const onGpus: Record<string, readonly [ours: string, peer: string]> = {
    gpu_redistribution: ["distmath", "NCCL, packed"],
    gpu_fft: ["FFT, Slab.X to Slab.Y", "cuFFTMp, in place"],
  };
  const rowsOnGpus = measured.filter(([, , cell]) => cell.startsWith("`gpu_"));
  assertEquals(rowsOnGpus.length, 3);
  for (const [, said, cell] of rowsOnGpus) {
    const record = cell.replaceAll("`", "");
    const [ours, peer] = onGpus[record.replace(/_\w\d+\.json$/, "")];
    const found = JSON.parse(read(`bench/results/${record}`));
    const rows: { results: Record<string, { microseconds: number }> }[] = Object.values(
      found["two GPUs"] ?? found.results,
    );
    const speeds = rows.map(({ results }) => results[peer].microseconds / results[ours].microseconds);
    const [[least, most]] = shown(said);
    near([Math.min(...speeds)], [least], String(least).replace(/^0?\./, "").replace(".", "").length);
    near([Math.max(...speeds)], [most], String(most).replace(".", "").length);
  }
  near(
    ratios("2026-11-22-amd-epyc-2-cores.json", "speed / C", "pgemm", { title: "float64" }),
    shown(measured[0][1])[0],
    3,
  );
  for (const [, path] of read("README.md").matchAll(/\]\(([^)#:]+)\)/g)) {
    assert(Deno.statSync(new URL(path, root)).isFile);
  }
});

/** The instructions of a container file, with lines that go on joined. */
function instructionsOf(text: string): [name: string, rest: string][] {
  const lines = text.replaceAll(/^#.*\n/gm, "").replaceAll(/\\\n/g, " ").split("\n").filter(Boolean);
  return lines.map((line) => {
    const [, name, rest] = /^([A-Z]+) (\S.*)$/.exec(line) ?? [];
    assert(name !== undefined, `no instruction: ${line}`);
    return [name, rest];
  });
}

Deno.test("the container file has instructions that there are, and shell that sh takes", async () => {
  const instructions = instructionsOf(read("Containerfile"));
  assertEquals(instructions.map(([name]) => name), ["FROM", "COPY", "RUN", "COPY", "WORKDIR", "RUN", "CMD"]);
  for (const [, script] of instructions.filter(([name]) => name === "RUN")) {
    const { code, stderr } = await new Deno.Command("sh", { args: ["-n", "-c", script] }).output();
    assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
  }
  assert(Array.isArray(JSON.parse(instructions.at(-1)![1])));
  const [version] = read("README.md").match(/deno@[\d.]+/)!;
  assertStringIncludes(instructions[1][1], `deno:bin-${version.slice(5)} `);
  const { build } = JSON.parse(read(".devcontainer/devcontainer.json"));
  assert(Deno.statSync(new URL(build.dockerfile, new URL(".devcontainer/", root))).isFile);
});

Deno.test("the changelog tells of this version", () => {
  const { version } = JSON.parse(read("deno.json"));
  assert(RegExp(`^## ${version.replaceAll(".", "\\.")}\\b`, "m").test(read("CHANGELOG.md")));
});

Deno.test("the package has the command line, and what README shows and links", () => {
  const { exports, publish } = JSON.parse(read("deno.json")) as {
    exports: Record<string, string>;
    publish: { include: string[] };
  };
  assertEquals(exports["./cli"], "./scripts/main.ts");
  const paths = [...read("README.md").matchAll(/\]\(([^)#:]+)\)/g)].map(([, path]) => path);
  assert(paths.includes("bench/results/overlap_h200.svg"));
  const isPublished = (path: string) => publish.include.some((one) => path === one || path.startsWith(`${one}/`));
  assertEquals([...paths, ...Object.values(exports)].filter((path) => !isPublished(path.replace(/^\.\//, ""))), []);
});
