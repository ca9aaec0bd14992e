/** The library and the command line run from a URL, from a plain HTTP server. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { mpiInstallations, runJob } from "../mpi_installations.ts";
import { finish, root, start, temporaryFolder } from "./command.ts";

const types: Record<string, string> = { ts: "application/typescript", json: "application/json", txt: "text/plain" };

/** Serves the repository's files, and at /script.ts a script that imports mod.ts by its URL. */
function serve(): Deno.HttpServer<Deno.NetAddr> & { requested: string[] } {
  const requested: string[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const { origin, pathname } = new URL(request.url);
    requested.push(pathname);
    const type = types[pathname.split(".").at(-1)!] ?? "application/octet-stream";
    const headers = { "content-type": type };
    if (pathname === "/script.ts") return new Response(script(origin), { headers });
    try {
      return new Response(await Deno.readFile(root + pathname.slice(1)), { headers });
    } catch {
      return new Response("not found", { status: 404 });
    }
  });
  return Object.assign(server, { requested });
}

function script(origin: string): string {
  return `import { DistributedArray, initialize, matmul, Slab } from "${origin}/mod.ts";
using runtime = initialize();
const a = DistributedArray.generate(runtime, [4, 4], Slab.X, (i, j) => i === j ? 2 : 0, { dtype: "float64" });
using square = matmul(a, a);
const values = square.allGather();
if (runtime.rank === 0) console.log(runtime.size + " ranks: " + [0, 5, 10, 15, 1].map((i) => values[i]));
`;
}

for (const mpi of mpiInstallations.filter(({ name }) => name !== "MPI standard ABI")) {
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
}

Deno.test("scripts/main.ts runs from a URL: run, demo, doctor", async () => {
  await using server = serve();
  using cache = temporaryFolder();
  const origin = `http://127.0.0.1:${server.addr.port}`;
  const env = { DENO_DIR: cache.path };
  const main = (...args: string[]) =>
    finish(start(Deno.execPath(), ["run", "-A", `${origin}/scripts/main.ts`, ...args], { cwd: cache.path, env }));

  const run = await main("run", "-n", "2", `${origin}/script.ts`);
  assertEquals(run.code, 0, run.stderr);
  assertStringIncludes(run.stdout, "2 ranks: 4,4,4,4,0");

  const demo = await main("demo", "--shape", "8,12,16");
  assertEquals(demo.code, 0, demo.stderr);
  assertMatch(demo.stdout, /\nmax error \S+\n$/);

  const native = await main("native", "list");
  assertEquals(native.code, 0, native.stderr);
  assertStringIncludes(native.stdout, "openmpi 5.0.11");
});
