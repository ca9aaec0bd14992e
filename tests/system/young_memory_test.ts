/** What one call of matmul leaves behind: nothing that only a collection of all memory finds. */
import { assert } from "@std/assert";
import { finish, start } from "./command.ts";

const SCRIPT = `
  import { DistributedArray, initialize, matmul, Slab } from "${new URL("../../mod.ts", import.meta.url)}";
  using runtime = initialize({ device: "cpu", threads: 1 });
  const [a, b] = [1, 2].map((seed) => DistributedArray.random(runtime, [16, 16], Slab.X, { seed }));
  const multiply = (count) => { for (let i = 0; i < count; i++) matmul(a, b).free(); };
  multiply(1000);
  gc();
  gc({ type: "minor" });
  // What is compiled meanwhile grows once, what calls leave behind each time.
  const grown = [1, 2, 3, 4].map(() => {
    const before = Deno.memoryUsage().heapUsed;
    for (let round = 0; round < 5; round++) {
      multiply(50);
      gc({ type: "minor" });
    }
    return (Deno.memoryUsage().heapUsed - before) / 250;
  });
  console.log(Math.min(...grown));
`;

Deno.test("what a call of matmul has made is young when it is dropped", async () => {
  const { code, stdout, stderr } = await finish(
    start(Deno.execPath(), [
      "run",
      "-A",
      "--no-check",
      "--v8-flags=--expose-gc",
      `data:text/javascript,${encodeURIComponent(SCRIPT)}`,
    ]),
  );
  const bytes = Number(stdout);
  // Some 11,000 once, when plans had hidden classes of their own.
  assert(code === 0 && stdout.trim() !== "" && bytes < 1500, `${bytes} bytes a call\n${stderr}`);
});
