/** `view`: a page on this machine, until it is interrupted. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { main, root, startMain, temporaryFolder } from "./command.ts";

Deno.test("view shows a trace or an SVG on a page of this machine until Ctrl-C", async () => {
  using folder = temporaryFolder();
  const call = { name: "a call", ph: "X", pid: 0, tid: 0, ts: 0, dur: 5 };
  const trace = { traceEvents: [call, { ...call, name: undefined, ts: 5 }] };
  Deno.writeTextFileSync(`${folder.path}/a&b.json`, JSON.stringify(trace));
  Deno.writeTextFileSync(`${folder.path}/a.svg`, '<!-- of any program -->\n<svg xmlns="http://www.w3.org/2000/svg"/>');
  for (const [file, title, content] of [["a&b.json", "a&amp;b.json", "a call"], ["a.svg", "a.svg", "\n<svg xmlns"]]) {
    const child = startMain(["view", file], { cwd: folder.path });
    const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
    const { value = "" } = await reader.read();
    const url = /^http:\/\/127\.0\.0\.1:\d+\//.exec(value)?.[0] ?? "";
    assert(url !== "", value);
    const page = await fetch(url);
    assertStringIncludes(await page.text(), `<title>${title}</title>`);
    assertStringIncludes(page.headers.get("content-security-policy")!, "script-src 'none'");
    const picture = await fetch(`${url}picture.svg`);
    assertEquals(picture.headers.get("content-type"), "image/svg+xml");
    assertStringIncludes(await picture.text(), content);
    const other = await fetch(`${url}../../etc/passwd`);
    assertEquals([other.status, await other.text()], [404, "there is no such page\n"]);
    child.kill("SIGINT");
    await reader.cancel();
    await child.stderr.cancel();
    assertEquals((await child.status).code, 0);
  }
});

Deno.test("view refuses what it cannot show", async () => {
  for (
    const [args, message] of [
      [[], "view takes one file"],
      [["/nonexistent"], "cannot read /nonexistent"],
      [[`${root}deno.json`], 'is neither an SVG nor a trace with "traceEvents"'],
      [["--port", "x", "a"], '--port takes a number up to 65535, not "x"'],
    ] as const
  ) {
    const { code, stderr } = await main(["view", ...args]);
    assertEquals(code, 2);
    assertStringIncludes(stderr, message);
  }
});
