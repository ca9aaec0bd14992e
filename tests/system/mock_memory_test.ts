/** On a machine without a GPU: the mock's symmetric memory, and a GPU whose work has failed. */
import { assert, assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { runJob } from "../mpi_installations.ts";
import { mockTest, mpi } from "./mock.ts";

/** Run `deno` on two mock GPUs with some arguments. */
const run = (args: readonly string[], environment: Record<string, string>) =>
  runJob(mpi, 2, args, { seconds: 240, environment });

const pathOf = (file: string) => fileURLToPath(new URL(`../${file}`, import.meta.url));

mockTest(
  "symmetric memory of mock GPUs: both backends, every misuse, many rounds, what is never freed",
  async (environment) => {
    for (const file of ["gpu/symmetric_test.ts", "cluster/symmetric_test.ts"]) {
      const { code, output } = await run(["test", "-A", "--no-check", pathOf(file)], environment);
      assertEquals(code, 0, `${file}:\n${output}`);
      assert(!output.includes("skipped: no GPU"), output);
    }
    const script = pathOf("faults/fixtures/leaks.ts");
    const { code, output } = await run(["run", "-A", script, "finalize", "auto"], environment);
    assertEquals(code, 0, output);
    const reports = output.split("\n").filter((line) => line.includes("were never freed"));
    assertEquals(reports.map((line) => /of symmetric memory a rank \((\w+)\)/.exec(line)?.[1]), ["nvshmem"], output);
  },
  "none",
);

mockTest(
  "an error on a GPU whose work has failed is the one that is told, not that of freeing",
  async (environment) => {
    const script = pathOf("faults/fixtures/lost_gpu.ts");
    const { code, output } = await run(["run", "-A", script], { ...environment, MOCK_LOST: "1" });
    assertNotEquals(code, 0, output);
    assertStringIncludes(output, "Error: the first cause");
    assert(!output.includes("SuppressedError"), output);
  },
  "none",
);
