/** Every command and code block of the documents is run: long ones in short, of all tests a few. */
import { fileURLToPath } from "node:url";
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { nativePrefix } from "../../internals.ts";
import { isInstalled } from "../../scripts/native/install.ts";
import { downloadBytes, sets } from "../../scripts/native/sets.ts";
import { formatBytes } from "../../scripts/terminal.ts";
import { mpiInstallations, slowdown } from "../mpi_installations.ts";
import { whyNoCluster } from "../slurm/cluster.ts";
import { temporaryFolder } from "./command.ts";
import { serve } from "./server.ts";

const root = new URL("../../", import.meta.url);
const documents = [
  "README.md",
  "COMING_FROM.md",
  "ARCHITECTURE.md",
  "CONTRIBUTING.md",
  "CHANGELOG.md",
  "bench/README.md",
];

interface Block {
  document: string;
  language: string;
  text: string;
}

function blocksOf(document: string): Block[] {
  const text = Deno.readTextFileSync(new URL(document, root));
  return [...text.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language, text]) => ({ document, language, text }));
}

const blocks = documents.flatMap(blocksOf);

/** What stands for plain mpirun. */
const [mpi] = mpiInstallations;

/** Open MPI asks root to mean it, and plain mpirun is for machines with a core a rank. */
const forOpenMpi = {
  OMPI_ALLOW_RUN_AS_ROOT: "1",
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1",
  OMPI_MCA_rmaps_base_oversubscribe: "1",
  PRTE_MCA_rmaps_default_mapping_policy: ":oversubscribe",
};

const { tasks } = JSON.parse(Deno.readTextFileSync(new URL("deno.json", root)));

/** What stands in code spans and begins so. */
function spansOf(beginning: string): string[] {
  const span = new RegExp(`\`(${beginning})\``, "g");
  return documents.flatMap((document) =>
    [...Deno.readTextFileSync(new URL(document, root)).matchAll(span)].map(([, text]) => text)
  );
}

/** Commands that stand in code spans, such as those of README's table of tasks. */
const spans = spansOf("(?:\\w+=\\S+ )*(?:deno|npx|mpirun|apt-get|python3) [^`]+");

/** Tasks by their names alone, such as `run --profile`; one word is a whole command only of these two. */
const short = spansOf(`(?:${Object.keys(tasks).join("|")}) [^\`]+|demo|doctor`);

const commands = [
  ...blocks.filter(({ language }) => language === "sh").flatMap(({ text }) => text.trim().split("\n")),
  ...spans,
  ...short.map((command) => `deno task ${command}`),
].map((command) => command.replace(/\s+#.*/, ""));

interface Ended {
  code: number;
  output: string;
}

/** The environment in which a command is typed: `deno` is this one, and root may start ranks. */
function environmentIn(cwd: URL | string): Record<string, string> {
  const path = `${new URL(".", `file://${Deno.execPath()}`).pathname}:${Deno.env.get("PATH")}`;
  return { PATH: path, INIT_CWD: cwd instanceof URL ? fileURLToPath(cwd) : cwd, NO_COLOR: "1", ...forOpenMpi };
}

async function run(command: string, cwd: URL | string, env: Record<string, string> = {}): Promise<Ended> {
  const script = command.replace(/^npx --yes deno@[\d.]+ /, "deno ");
  const { code, stdout, stderr } = await new Deno.Command("sh", {
    args: ["-c", script],
    cwd,
    env: { ...environmentIn(cwd), ...env },
  }).output();
  return { code, output: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}

/** NumPy's format 1.0: a small float32 matrix. */
function npy(rows: number, columns: number): Uint8Array {
  const text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows}, ${columns}), }`.padEnd(117) + "\n";
  const magic = Uint8Array.from([0x93, ...new TextEncoder().encode("NUMPY"), 1, 0, text.length, 0]);
  const body = new Uint8Array(new Float32Array(rows * columns).fill(1).buffer);
  return new Uint8Array([...magic, ...new TextEncoder().encode(text), ...body]);
}

/** Run a command in the repository, with the files that it names in a folder of its own. */
async function runIn(folder: string, command: string, env: Record<string, string> = {}): Promise<Ended> {
  Deno.writeFileSync(`${folder}/A.npy`, npy(4, 6));
  Deno.writeFileSync(`${folder}/B.npy`, npy(6, 5));
  const script = Deno.readTextFileSync(new URL("examples/slab.ts", root)).replace(
    "../mod.ts",
    new URL("mod.ts", root).href,
  );
  Deno.writeTextFileSync(`${folder}/script.ts`, script);
  await using server = serve();
  const local = command.replace(/(?<=^| )(script\.ts|[ABD]\.npy|\w+\.json|bench\/results\/\w+)(?= |$)/g, `${folder}/$1`)
    .replaceAll("localhost:8000", `localhost:${server.addr.port}`)
    .replace("~/.cache/distmath/native", nativePrefix()!)
    .replace(/(?<=^|^OMPI_.* )mpirun/, mpi.mpirun);
  return await run(local, root, env);
}

/** What is done for a command: it runs well as it stands. */
const asItStands = async (command: string, folder: string): Promise<void> => {
  const { code, output } = await runIn(folder, command);
  assertEquals(code, 0, output);
};

/** A row of each group of benchmarks that takes little time. */
const quickRows: Record<string, string> = {
  pgemm: "float32 n = 1024, nb = 64, in place",
  scaling: "float32, Slab.X, Slab.X -> Slab.X",
  overhead: "float32 in place",
  communicator: "allReduce",
  startup: "initialize",
  arrays: "random float32, 1 rank",
  elementwise: "add float64",
  redistribution: "Slab.X to block-cyclic",
  fft: "16 x 16, Slab.X",
  shared: "gemm_all_reduce, float32, 16 x 16",
};

/** The groups of benchmarks that a command names; none if it runs all. */
const groupsOf = (command: string): string[] =>
  /^deno task bench((?: [a-z]+)*)/.exec(command)?.[1].split(" ").slice(1) ?? [];

/**
 * Benchmarks are run once, on rows that take little time; a peer that would have to be built in a minute is missing. The
 * command for all of them measures what no other command names.
 */
async function benchmarksInShort(command: string, folder: string): Promise<void> {
  const [named, others] = [groupsOf(command), commands.flatMap(groupsOf)];
  const isAll = named.length === 0;
  const measured = isAll ? Object.keys(quickRows).filter((name) => !others.includes(name)) : named;
  const filter = measured.map((name) => quickRows[name]).join("|");
  const rows = command.includes("--filter") ? "" : ` --rounds 1 --filter "/${filter}/"`;
  const json = command.includes("--json") ? "" : " --json bench.json";
  const env = isAll || named.includes("fft") ? { PIP_NO_INDEX: "1" } : {};
  const { code, output } = await runIn(folder, command + rows + json, env);
  assertEquals(code, 0, output);
  const { groups } = JSON.parse(Deno.readTextFileSync(`${folder}/${/--json (\S+)/.exec(command + json)![1]}`));
  assertEquals(groups.length, isAll ? 10 : named.length);
  for (const { name, rows } of groups) {
    assert(rows.length > 0 || isAll && others.includes(name), `${name} has no row that is quick`);
    for (const { title, seconds } of rows) assert(seconds.distmath?.count === 1, `${title}: ${output}`);
  }
}

/** A row of small messages, once. */
async function messagesInShort(command: string, folder: string): Promise<void> {
  const { code, output } = await runIn(folder, `${command} 1 "^64.2"`);
  assertEquals(code, 0, output);
  assertMatch(output, /64\^2.*\d/);
}

/** On GPUs these take minutes, as their records say; here they see none, and say so. */
async function withoutGpus(command: string, folder: string): Promise<void> {
  const { output } = await runIn(folder, command, { CUDA_VISIBLE_DEVICES: "" });
  assertMatch(output, /needs (a GPU|two GPUs)|the tests on 2 GPUs need as many|No module named 'torch'|torch.*CUDA/);
}

/** The record of products on two GPUs is made again from its parts. */
async function recordOfOverlap(command: string, folder: string): Promise<void> {
  const { overlap, torch } = JSON.parse(Deno.readTextFileSync(new URL("bench/results/overlap_h200.json", root)));
  const parts = {
    ours: { program: "distmath", ranks: 2, geometry: null, rows: overlap[0].rows },
    geometry4: { program: "distmath", ranks: 2, geometry: "4", rows: overlap[1].rows },
    torch: torch[0],
  };
  for (const [name, part] of Object.entries(parts)) {
    Deno.writeTextFileSync(`${folder}/${name}.json`, JSON.stringify(part));
  }
  Deno.mkdirSync(`${folder}/bench/results`, { recursive: true });
  await asItStands(command, folder);
  const made = JSON.parse(Deno.readTextFileSync(`${folder}/bench/results/overlap_h200.json`));
  assertEquals([made.machine, made.overlap, made.torch], ["…", overlap, torch]);
}

/** Start a command that serves until it is interrupted; its page is fetched. */
async function served(
  command: string,
  cwd: URL | string,
  path: string,
  env: Record<string, string> = {},
  use: (origin: string) => Promise<void> = () => Promise.resolve(),
): Promise<string> {
  const child = new Deno.Command("sh", {
    args: ["-c", `exec ${command}`],
    cwd,
    env: { ...environmentIn(cwd), ...env },
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  try {
    let told = "";
    // The whole line: a server ends if nobody takes the rest of what it writes.
    while (!/http:\/\/[\d.]+:\d+.*\n/.test(told)) {
      const { done, value } = await reader.read();
      assert(!done, told);
      told += value;
    }
    const [origin] = /http:\/\/[\d.]+:\d+/.exec(told)!;
    const page = await fetch(new URL(path, origin));
    assertEquals(page.status, 200);
    await use(origin);
    return `${page.headers.get("content-type")}\n${await page.text()}`;
  } finally {
    child.kill("SIGINT");
    await reader.cancel();
    await child.status;
  }
}

/** The smallest set of permissions, with the folders of an MPI that is here. */
async function withFewPermissions(command: string, folder: string): Promise<void> {
  const system = mpiInstallations.some(({ libraryPath }) => libraryPath === null);
  const local = system ? command : command.replace("/usr/lib/x86_64-linux-gnu", `${nativePrefix()}/cpu/lib`);
  const { code, output } = await runIn(folder, local, system ? { DISTMATH_NATIVE: "/nonexistent" } : {});
  assertEquals(code, 0, output);
}

/** Why apt-get cannot say what it would install; null if it can. */
function whyNoPackages(): string | null {
  try {
    const { stdout } = new Deno.Command("apt-cache", { args: ["policy", "libscalapack-openmpi2.2"] }).outputSync();
    return stdout.length > 0 ? null : "apt-get does not know the package";
  } catch {
    return "there is no apt-get";
  }
}

/** Commands that download gigabytes, or what is not there yet for CPUs. */
const downloading = await isInstalled(sets.cpu)
  ? /^deno task (test:abi|native install cuda)$/
  : /^deno task (test:abi|native install( cuda| cpu)?)$/;

/** What is downloaded goes with the folder. */
async function withDownloads(command: string, folder: string): Promise<void> {
  const env = { DISTMATH_NATIVE: `${folder}/native`, DISTMATH_ABI_CACHE: `${folder}/abi`, PIP_NO_CACHE_DIR: "1" };
  const { code, output } = await runIn(folder, command, env);
  assertEquals(code, 0, output);
}

/** The command for all tests, of which this is one, runs those of a file under every MPI. */
async function testsOfOneFile(command: string, folder: string): Promise<void> {
  const { code, output } = await runIn(folder, command.replace("task test", "task test cluster --filter /operation_"));
  assertEquals(code, 0, output);
  assertMatch(output, /operation_test\.ts, .* on 2 ranks: [1-9]\d* passed, 0 failed[^]*^[1-9]\d* passed, 0 failed/m);
}

/** A profile has a file for each rank, and one for all. */
async function profiled(command: string, folder: string): Promise<void> {
  await asItStands(command.replace("run --profile", `run -n 2 --profile ${folder}/profile script.ts`), folder);
  assert(Array.from(Deno.readDirSync(`${folder}/profile`)).length >= 3);
  assertStringIncludes(Deno.readTextFileSync(`${folder}/profile/trace.json`), "traceEvents");
}

/** Ranks of which one waits in vain are listed when the time is over. */
async function outOfTime(command: string, folder: string): Promise<void> {
  const waiting = `${folder}/waiting.ts`;
  const code = `import { initialize } from ${JSON.stringify(new URL("mod.ts", root).href)};
    const { communicator, rank } = initialize({ device: "cpu" });
    if (rank === 0) communicator.barrier();
    while (true) await new Promise((resolve) => setTimeout(resolve, 100));`;
  Deno.writeTextFileSync(waiting, code);
  const whole = command.replace("run --timeout", `run -n 2 --timeout 10 ${waiting}`);
  const { code: status, output } = await runIn(folder, whole);
  assert(status !== 0, output);
  assertMatch(output, /rank 0 .*(barrier|MPI_Barrier).*waiting\.ts:3/);
}

/** What the package exports. */
const entryPoints = /deno doc --lint (.*)/.exec(tasks.check.command)![1];

/** How a command of the documents is run. */
type Way = (command: string, folder: string) => Promise<void>;

const ways: [command: RegExp, way: Way][] = [
  [/^~\/\.cache\/distmath\/native\/cpu\/bin\/mpirun .* -n 4 deno run -A examples\/slab\.ts$/, asItStands],
  [/^mpirun -n 4 deno run -A examples\/slab\.ts$/, asItStands],
  [/^deno task run --profile$/, profiled],
  [/^deno task run --timeout$/, outOfTime],
  [/^deno run -A http:\/\/localhost:8000\/scripts\/main\.ts run /, asItStands],
  [/^deno task run -n 2 bench\/first_call\.ts rs$/, withoutGpus],
  [/^(npx --yes deno@[\d.]+|deno) task (demo|run|matmul|doctor|cluster-test)\b/, asItStands],
  [/^(npx --yes deno@[\d.]+|deno) task test( --retries 1)?$/, testsOfOneFile],
  [downloading, withDownloads],
  [
    /^deno (task (native (list|install|install cpu)|check|test:slurm)|test -A tests\/cluster\/operation_test\.ts)$/,
    asItStands,
  ],
  [/^deno test -A tests\/unit$/, (command, folder) => asItStands(`${command}/dtype`, folder)],
  [/^deno doc --lint$/, (command, folder) => asItStands(`${command} ${entryPoints}`, folder)],
  [/^deno task bench overlap/, withoutGpus],
  [/^deno task bench\b/, benchmarksInShort],
  [/^(mpirun --bind-to none -n [24] )?deno run -A bench\/(staged|gpu_\w+|overlap)\.ts/, withoutGpus],
  [/^(mpirun --bind-to none -n 2 )?python3 bench\/peers\/(gpu_fft|overlap)\.py/, withoutGpus],
  [/^deno run -A bench\/overlap\/merge\.ts /, recordOfOverlap],
  [/^(NCCL_MULTI_RANK_GPU_ENABLE=1 )?deno task test:gpu -n 2$/, withoutGpus],
  [/^OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,tcp mpirun -n 2 deno run -A bench\/messages\.ts$/, messagesInShort],
  [/^deno task soak -n 3 --seconds 600$/, (command, folder) => asItStands(command.replace("600", "3"), folder)],
  [/^deno run --allow-ffi=\S+ --allow-env=\S+ script\.ts$/, withFewPermissions],
  [/^apt-get install [a-z\d.\- ]+$/, (command, folder) => asItStands(`${command} --simulate`, folder)],
  [/^python3 -c "from http\.server import .*test\(H, S\)"$/, async (command, folder) => {
    const here = command.replace("test(H, S)", "test(H, S, port=0, bind='127.0.0.1')");
    const module = await served(here, root, "/mod.ts", { PYTHONUNBUFFERED: "1" }, async (origin) => {
      // Of a server that lets few connections wait a part of them is repeated after seconds, and others after minutes.
      const limit = 40 * slowdown();
      const load = `DENO_DIR=${folder}/cache timeout ${limit} deno cache --allow-import ${origin}/scripts/main.ts`;
      const { code, output } = await run(load, folder);
      assertEquals(code, 0, output);
    });
    assertEquals(module, `text/typescript\n${Deno.readTextFileSync(new URL("mod.ts", root))}`);
  }],
  [/^deno task view FILE$/, async (command) => {
    const page = await served(command.replace("FILE", "bench/results/overlap_h200.svg"), root, "/");
    assertStringIncludes(page, "<title>overlap_h200.svg</title>");
  }],
];

/** What README says of the downloads for GPUs. */
function sizes(): string {
  const [cuda13, cuda12] = [sets.cuda13, sets.cuda12].map((set) => formatBytes(downloadBytes(set)));
  return `a download of ${cuda13}, ${cuda12} for CUDA 12`;
}

/** Why a command is not run here; `null` if it is. */
function whyNot(command: string): string | null {
  if (command.startsWith("apt-get ")) return whyNoPackages();
  if (command === "deno task test:slurm") return whyNoCluster();
  if (downloading.test(command) && Deno.env.get("DISTMATH_TEST_DOWNLOADS") !== "1") {
    return "DISTMATH_TEST_DOWNLOADS=1 lets it download gigabytes";
  }
  return null;
}

for (const command of new Set(commands)) {
  const reason = whyNot(command);
  const name = `documents: ${command}${reason === null ? "" : ` (skipped: ${reason})`}`;
  Deno.test({ name, ignore: reason !== null }, async () => {
    const way = ways.find(([pattern]) => pattern.test(command))?.[1];
    assert(way !== undefined, `nothing says how the command "${command}" is run`);
    using folder = temporaryFolder();
    await way!(command, folder.path);
  });
}

Deno.test("documents: a command measures again what README says was measured", () => {
  const [table] = Deno.readTextFileSync(new URL("README.md", root)).match(/^\|.*\| again +\|\n(\|.*\n)*/m)!;
  const cells = table.trim().split("\n").slice(2).map((row) => row.split("|").at(-2)!.trim());
  assert(cells.length > 0);
  for (const cell of cells) assert(spans.includes(cell.slice(1, -1)), `${cell} is no command`);
});

Deno.test("documents: README tells how much is downloaded for GPUs", () => {
  assertStringIncludes(Deno.readTextFileSync(new URL("README.md", root)), sizes());
});

Deno.test("documents: the permissions that README names are those that are enough", () => {
  const [list] = Deno.readTextFileSync(new URL("README.md", root)).match(/--allow-env=\S+/)!;
  assert(Deno.readTextFileSync(new URL("tests/system/permissions_test.ts", root)).includes(`"${list}"`));
});

for (const { document, text } of blocks.filter(({ language }) => language === "text")) {
  Deno.test(`documents: the files and folders in the picture of ${document} are there`, () => {
    for (const [path] of text.matchAll(/^\S+/gm)) assert(Deno.statSync(new URL(path, root)), path);
  });
}

const scripts = blocks.filter(({ language }) => language === "ts").map(({ document, text }, index) => {
  // "deno run" passes over tests.
  const ending = text.includes("clusterTest(") ? "_test.ts" : ".ts";
  const path = fileURLToPath(new URL(`.document_block_${index}${ending}`, root));
  return { name: `TypeScript block ${index + 1} of ${document}`, path, text };
});

const config = fileURLToPath(new URL("deno.json", root));

/** Run a command for some of the scripts, which are there meanwhile, in a folder for what they write. */
async function runWith(given: typeof scripts, command: string): Promise<void> {
  using folder = temporaryFolder();
  try {
    for (const { path, text } of given) Deno.writeTextFileSync(path, text);
    const { code, output } = await run([command, ...given.map(({ path }) => `"${path}"`)].join(" "), folder.path);
    assertEquals(code, 0, output);
  } finally {
    for (const { path } of given) Deno.removeSync(path);
  }
}

Deno.test("documents: TypeScript blocks type-check", () => runWith(scripts, `deno check --config ${config}`));

for (const script of scripts) {
  Deno.test(`documents: ${script.name} runs on 2 ranks`, () =>
    runWith([script], `deno task --config ${config} run -n 2`));
}
