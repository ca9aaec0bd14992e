/** Every example runs on two ranks, as its first lines say, and says something; programs say on 1, 2 and 3 ranks what NumPy does. */
import { assert, assertEquals } from "@std/assert";
import programs from "./programs.json" with { type: "json" };

const root = new URL("../../", import.meta.url);

async function run(name: string, ranks: number): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "scripts/main.ts", "run", "-n", `${ranks}`, "--timeout", "60", `examples/${name}`],
    cwd: root,
    env: { INIT_CWD: "", NO_COLOR: "1" },
  }).output();
  const decoder = new TextDecoder();
  const output = decoder.decode(stdout);
  assertEquals(code, 0, `${output}\n${decoder.decode(stderr)}`);
  return output;
}

/** The numbers of an output, in their order, among which those wanted are found. */
function assertSays(output: string, wanted: readonly number[], message: string): void {
  const numbers = output.match(/-?\d+(\.\d+)?(e[-+]?\d+)?/g)?.map(Number) ?? [];
  let next = 0;
  for (const value of wanted) {
    next = numbers.findIndex((number, i) => i >= next && Math.abs(number - value) <= 1e-8 * Math.abs(value)) + 1;
    assert(next > 0, `${message} does not say ${value}, as NumPy does:\n${output}`);
  }
}

for (const { name } of [...Deno.readDirSync(new URL("examples/", root))].sort((a, b) => a.name < b.name ? -1 : 1)) {
  const numbers = (programs as Record<string, number[]>)[name.replace(".ts", "")];
  if (numbers === undefined) {
    Deno.test(`examples/${name} runs on 2 ranks`, async () => {
      assert((await run(name, 2)).trim() !== "", "it printed nothing");
    });
  } else {
    Deno.test(`examples/${name} computes what NumPy does, on 1, 2 and 3 ranks`, async () => {
      for (const ranks of [1, 2, 3]) assertSays(await run(name, ranks), numbers, `${name} on ${ranks} ranks`);
    });
  }
}
