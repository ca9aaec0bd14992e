import { assertEquals, assertThrows } from "@std/assert";
import { parseDemo } from "../../../../scripts/commands/demo.ts";
import { type Input, parseDistribution, productShape } from "../../../../scripts/commands/matmul.ts";
import { main, usage } from "../../../../scripts/main.ts";
import { shardOf } from "../../../../scripts/commands/cluster_tests.ts";
import { startScript } from "../../../../scripts/commands/run.ts";
import { parsePlace } from "../../../../scripts/launch/job_place.ts";
import { CommandError } from "../../../../scripts/terminal.ts";

const input = (path: string, rows: number, columns: number, dtype: Input["dtype"] = "float32"): Input => ({
  path,
  dtype,
  shape: [rows, columns],
});

Deno.test("parseDemo() takes three sizes and a dtype", () => {
  assertEquals(parseDemo("128,512, 1024", "float32"), { m: 128, n: 512, k: 1024, dtype: "float32" });
  for (const shape of ["1,2", "1,2,3,4", "1,2,0", "a,b,c", ""]) {
    assertThrows(() => parseDemo(shape, "float32"), CommandError, "--shape");
  }
  assertThrows(() => parseDemo("1,2,3", "float8_e4m3"), CommandError, "--dtype takes one of float32");
});

Deno.test("parseDistribution() reads slabs and block sizes", () => {
  assertEquals(parseDistribution("slab-x"), { kind: "slab-x" });
  assertEquals(parseDistribution("block-cyclic:64x32"), { kind: "block-cyclic", blockSizes: [64, 32] });
  for (const text of ["slab", "block-cyclic", "block-cyclic:64", "block-cyclic:-1x2", "block-cyclic:1x2x3"]) {
    assertThrows(() => parseDistribution(text), CommandError, "--distribution takes");
  }
});

Deno.test("productShape() checks the shapes after transposition, and the dtypes", () => {
  const [a, b] = [input("a.npy", 4, 6), input("b.npy", 6, 5)];
  assertEquals(productShape(a, b, { a: false, b: false }), [4, 5]);
  assertEquals(productShape(input("a.npy", 6, 4), b, { a: true, b: false }), [4, 5]);
  assertEquals(productShape(a, input("b.npy", 5, 6), { a: false, b: true }), [4, 5]);
  assertThrows(() => productShape(a, b, { a: true, b: false }), CommandError, "the transpose of A is 6 x 4");
  assertThrows(
    () => productShape(a, input("b.npy", 6, 5, "float64"), { a: false, b: false }),
    CommandError,
    "one dtype",
  );
});

Deno.test("startScript() takes deno test for test files", () => {
  const deno = Deno.execPath();
  assertEquals(startScript("/s/a.ts", ["-x"]), [deno, "run", "-A", "/s/a.ts", "-x"]);
  assertEquals(startScript("/s/a_test.ts", []), [deno, "test", "-A", "--no-check", "/s/a_test.ts"]);
  assertEquals(startScript("/s/a_test.ts", ["-x"]).slice(-2), ["--", "-x"]);
});

Deno.test("parsePlace() reads hosts and the time limit", () => {
  assertEquals(parsePlace({}, {}), {});
  assertEquals(parsePlace({ hosts: "a:2, b:2", timeout: "1.5" }), { hosts: ["a:2", "b:2"], timeoutSeconds: 1.5 });
});

Deno.test("shardOf() shares jobs out, each to one machine", () => {
  const jobs = [..."abcdefg"];
  const shards = ["1/3", "2/3", "3/3"].map((shard) => shardOf(jobs, shard));
  assertEquals(shards.map((shard) => shard.join("")), ["adg", "be", "cf"]);
  assertEquals(shardOf(jobs, undefined), jobs);
  for (const shard of ["0/3", "4/3", "1", "a/b"]) {
    assertThrows(() => shardOf(jobs, shard), CommandError, "--shard takes");
  }
});

Deno.test("main() has a line for each command", async () => {
  for (const name of ["demo", "test", "run", "matmul", "doctor", "native", "cluster-test", "bench"]) {
    assertEquals(usage().includes(`\n  ${name} `), true);
  }
  assertEquals(await main(["toString"]), 2);
});
