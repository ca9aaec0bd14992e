/**
 * `view`: a picture or a trace on a page that this machine alone can open.
 *
 * @module
 */
import { basename } from "node:path";
import { traceSvg } from "../results/trace_picture.ts";
import { CommandError, oneLine, parseCommand, userPath } from "../terminal.ts";

const help = `Show an SVG, or a trace such as "run --profile" writes, on a page of this machine, until Ctrl-C.

Usage: view [options] FILE

  --port N   the port of the page (a free one)
`;

/** The picture in a file: an SVG as it is, a trace drawn. */
function pictureOf(path: string): string {
  let text: string;
  try {
    text = Deno.readTextFileSync(path);
  } catch (error) {
    throw new CommandError(`cannot read ${path}: ${oneLine(error)}`);
  }
  if (/^\s*<(\?xml|!--|!DOCTYPE svg|svg)/.test(text)) return text;
  const trace = parseTrace(text);
  if (trace === null) throw new CommandError(`${path} is neither an SVG nor a trace with "traceEvents"`);
  return traceSvg(trace);
}

/** The trace that a text is; `null` if it is none. */
function parseTrace(text: string): Parameters<typeof traceSvg>[0] | null {
  try {
    const trace = JSON.parse(text);
    return Array.isArray(trace?.traceEvents) ? trace : null;
  } catch {
    return null;
  }
}

const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };

/** A page with the picture, which cannot run scripts there, as large as it says, or as wide as the page. */
function pageOf(name: string, picture: string): string {
  const width = /<svg[^>]*\swidth=/.test(picture) ? "" : ' style="width: 100%"';
  const title = name.replaceAll(/[&<>]/g, (sign) => escapes[sign]);
  return `<!doctype html>
<meta charset="utf-8">
<title>${title}</title>
<h1 style="font: 16px monospace">${title}</h1>
<object type="image/svg+xml" data="picture.svg"${width}></object>
`;
}

export async function view(args: string[]): Promise<number> {
  const { values, positionals } = parseCommand(args, {
    port: { type: "string", default: "0" },
  }, help);
  if (positionals.length !== 1) throw new CommandError(`view takes one file; see "view --help"`);
  const port = Number(values.port);
  if (!/^\d+$/.test(values.port) || port > 65535) {
    throw new CommandError(`--port takes a number up to 65535, not "${values.port}"`);
  }
  const path = userPath(positionals[0]);
  const picture = pictureOf(path);
  // Pictures may hold others, and fonts.
  const allowed =
    "default-src 'self'; img-src 'self' data:; font-src data:; style-src 'unsafe-inline'; script-src 'none'";
  const headers = { "content-security-policy": allowed };
  const onListen = ({ port }: Deno.NetAddr) => console.log(`http://127.0.0.1:${port}/ shows ${path}; Ctrl-C ends it`);
  const server = Deno.serve({ hostname: "127.0.0.1", port, onListen }, ({ url }) => {
    const { pathname } = new URL(url);
    if (pathname === "/") {
      return new Response(pageOf(basename(path), picture), {
        headers: { ...headers, "content-type": "text/html; charset=utf-8" },
      });
    }
    if (pathname !== "/picture.svg") return new Response("there is no such page\n", { status: 404 });
    return new Response(picture, { headers: { ...headers, "content-type": "image/svg+xml" } });
  });
  for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, () => server.shutdown());
  await server.finished;
  return 0;
}
