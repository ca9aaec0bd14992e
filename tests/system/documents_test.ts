/** Every command and code block of the documents is run, or checked where running it would be the test itself. */
import { fileURLToPath } from "node:url";
import { assert, assertEquals } from "@std/assert";
import { nativePrefix } from "../../internals.ts";
import { downloadBytes, sets } from "../../scripts/native/sets.ts";
import { formatBytes } from "../../scripts/terminal.ts";
import { mpiInstallations } from "../mpi_installations.ts";
import { temporaryFolder } from "./command.ts";
import { serve } from "./server.ts";

const root = new URL("../../", import.meta.url);
const documents = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

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

/** Commands that stand in code spans, such as those of README's table of tasks. */
const spans = documents.flatMap((document) =>
  [...Deno.readTextFileSync(new URL(document, root)).matchAll(/`((?:deno|npx|mpirun|apt-get) [^`]+)`/g)].map(([, c]) =>
    c
  )
);

const commands = [
  ...blocks.filter(({ language }) => language === "sh").flatMap(({ text }) => text.trim().split("\n")),
  ...spans,
].map((command) => command.replace(/\s+#.*/, ""));

async function run(command: string, cwd: URL | string): Promise<{ code: number; output: string }> {
  const script = command.replace(/^npx --yes deno@[\d.]+ /, "deno ");
  const path = `${new URL(".", `file://${Deno.execPath()}`).pathname}:${Deno.env.get("PATH")}`;
  const { code, stdout, stderr } = await new Deno.Command("sh", {
    args: ["-c", script],
    cwd,
    env: { PATH: path, INIT_CWD: cwd instanceof URL ? fileURLToPath(cwd) : cwd, NO_COLOR: "1", ...forOpenMpi },
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

/** Commands that this test runs, in the repository or in a folder with the files that they name. */
const isRun = (command: string) =>
  /^~\/\.cache\/distmath\/native\/cpu\/bin\/mpirun .* -n 4 deno run -A examples\/slab\.ts$/.test(command) ||
  /^mpirun -n 4 deno run -A examples\/slab\.ts$/.test(command) ||
  /^deno run -A http:\/\/localhost:8000\/scripts\/main\.ts run /.test(command) ||
  /^(npx --yes deno@[\d.]+|deno) task (demo|run|matmul|doctor|cluster-test)\b/.test(command) ||
  /^deno (task native list|test -A tests\/cluster\/operation_test\.ts)$/.test(command);

/** Commands that run this test, take minutes, or need root: how each is checked instead. */
const checkedOtherwise: [command: RegExp, check: () => void][] = [
  [/^npx --yes deno@[\d.]+ task test$/, () => assertTask("test")],
  [/^deno task (check|bench|test)$/, () => ["check", "bench", "test"].forEach(assertTask)],
  [/^deno task bench (pgemm|redistribution|fft|communicator|elementwise|overlap)$/, () => {
    assertTask("bench");
    const main = Deno.readTextFileSync(new URL("bench/main.ts", root));
    for (const group of ["pgemm", "redistribution", "fft", "communicator", "elementwise", "overlap"]) {
      assert(main.includes(`"${group}"`) || main.includes(`${group},`));
    }
  }],
  // As .ci/run starts it.
  [/^deno task test --retries 1$/, () => {
    assert(Deno.readTextFileSync(new URL(".ci/run", root)).includes("task test --retries 1"));
  }],
  [/^deno task test:(abi|gpu -n 2)$/, () => ["test:abi", "test:gpu"].forEach(assertTask)],
  // url_test.ts has it serve what it then runs.
  [/^python3 -c "from http\.server import /, () => {
    assert(Deno.readTextFileSync(new URL("tests/system/url_test.ts", root)).includes("python3 -c"));
  }],
  [/^deno task test:slurm$/, () => assertTask("test:slurm")],
  // view_test.ts opens pages.
  [/^deno task view FILE$/, () => assertTask("view")],
  // soak_test.ts runs shorter ones.
  [/^deno task soak -n 3 --seconds 600$/, () => assertTask("soak")],
  // native_test.ts installs the sets, from small wheels.
  [
    /^deno task native install cuda$/,
    () => assert(Deno.readTextFileSync(new URL("README.md", root)).includes(sizes())),
  ],
  [/^deno test -A tests\/unit$/, () => assert(Deno.statSync(new URL("tests/unit", root)).isDirectory)],
  [/^deno doc --lint$/, () => assertTask("check")],
  [/^apt-get install openmpi-bin libscalapack-openmpi2.2 libopenblas0-pthread$/, () => {
    const scripts = ["ffi/blas/scalapack.ts", "ffi/blas/blas.ts", "scripts/commands/native.ts"].map((path) =>
      Deno.readTextFileSync(new URL(path, root))
    ).join("");
    for (const name of ["openmpi-bin", "libscalapack-openmpi2.2", "libopenblas0-pthread"]) {
      assert(scripts.includes(name));
    }
  }],
  // The list of variables is the one that permissions_test.ts finds to be enough.
  [/^deno run --allow-ffi=\S+ --allow-env=\S+ script\.ts$/, () => {
    const [list] = Deno.readTextFileSync(new URL("README.md", root)).match(/--allow-env=\S+/)!;
    assert(Deno.readTextFileSync(new URL("tests/system/permissions_test.ts", root)).includes(`"${list}"`));
  }],
];

/** What README says of the downloads for GPUs. */
function sizes(): string {
  const [cuda13, cuda12] = [sets.cuda13, sets.cuda12].map((set) => formatBytes(downloadBytes(set)));
  return `a download of ${cuda13}, ${cuda12} for CUDA 12`;
}

function assertTask(name: string): void {
  const { tasks } = JSON.parse(Deno.readTextFileSync(new URL("deno.json", root)));
  assert(name in tasks, `there is no task ${name}`);
}

for (const command of new Set(commands)) {
  Deno.test(`documents: ${command}`, async () => {
    if (isRun(command)) {
      const folder = Deno.makeTempDirSync();
      try {
        Deno.writeFileSync(`${folder}/A.npy`, npy(4, 6));
        Deno.writeFileSync(`${folder}/B.npy`, npy(6, 5));
        Deno.copyFileSync(new URL("examples/slab.ts", root), `${folder}/script.ts`);
        const script = Deno.readTextFileSync(`${folder}/script.ts`).replace("../mod.ts", new URL("mod.ts", root).href);
        Deno.writeTextFileSync(`${folder}/script.ts`, script);
        await using server = serve();
        const local = command.replace(/\b(script\.ts|[ABD]\.npy)\b/g, `${folder}/$1`)
          .replaceAll("localhost:8000", `localhost:${server.addr.port}`)
          .replace("~/.cache/distmath/native", nativePrefix()!)
          .replace(/^mpirun/, mpi.mpirun);
        const { code, output } = await run(local, root);
        assertEquals(code, 0, output);
      } finally {
        Deno.removeSync(folder, { recursive: true });
      }
      return;
    }
    const other = checkedOtherwise.find(([pattern]) => pattern.test(command));
    assert(other !== undefined, `nothing says how the command "${command}" is checked`);
    other?.[1]();
  });
}

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
