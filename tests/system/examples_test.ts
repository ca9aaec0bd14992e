/** Every example runs on two ranks, as its first lines say, and says something. */
import { assert, assertEquals } from "@std/assert";

const root = new URL("../../", import.meta.url);

for (const { name } of [...Deno.readDirSync(new URL("examples/", root))].sort((a, b) => a.name < b.name ? -1 : 1)) {
  Deno.test(`examples/${name} runs on 2 ranks`, async () => {
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "scripts/main.ts", "run", "-n", "2", "--timeout", "60", `examples/${name}`],
      cwd: root,
      env: { INIT_CWD: "", NO_COLOR: "1" },
    }).output();
    const decoder = new TextDecoder();
    const output = decoder.decode(stdout);
    assertEquals(code, 0, `${output}\n${decoder.decode(stderr)}`);
    assert(output.trim() !== "", "it printed nothing");
  });
}
