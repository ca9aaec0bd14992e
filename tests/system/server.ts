/** A plain HTTP server on the repository, as a user may have one. */
import { root } from "./command.ts";

const types: Record<string, string> = { ts: "application/typescript", json: "application/json", txt: "text/plain" };

/** What another version of the library has in a file in place of this text. */
export type Rewrite = (path: string, text: string) => string;

/**
 * Serves the repository's files, and at /script.ts a script that imports mod.ts by its URL; below /other/ they are those of
 * another version. Each answer takes some milliseconds more.
 */
export function serve(
  rewrite: Rewrite = (_, text) => text,
  milliseconds = 0,
): Deno.HttpServer<Deno.NetAddr> & { requested: string[] } {
  const requested: string[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const { origin, pathname } = new URL(request.url);
    requested.push(pathname);
    await new Promise((resolve) => setTimeout(resolve, milliseconds));
    const type = types[pathname.split(".").at(-1)!] ?? "application/octet-stream";
    const headers = { "content-type": type };
    if (pathname === "/script.ts") return new Response(script(origin), { headers });
    try {
      const [, other, path] = /^\/(other\/)?(.*)$/.exec(pathname)!;
      if (other === undefined) return new Response(await Deno.readFile(root + path), { headers });
      return new Response(rewrite(path, await Deno.readTextFile(root + path)), { headers });
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
