/** `demo` and `doctor`. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { main } from "./command.ts";

Deno.test("demo runs the worked example on 2 ranks and compares it", async () => {
  const { code, stdout, stderr } = await main(["demo"]);
  assertEquals(code, 0, stderr);
  for (
    const text of [
      "D = 0.45 Aᵀ B + 0.67 C, float32, m, n, k = 128, 512, 1024",
      "rank 0      local A 1024 x 64, B 1024 x 256, C 64 x 512, D 64 x 512",
      "rank 1      local A 1024 x 64, B 1024 x 256, C 64 x 512, D 64 x 512",
      "A: Slab.Y of [1024, 128] on 2 ranks",
      "C, D: Slab.X of [128, 512] on 2 ranks",
      "GFLOP/s",
      "library     MPI: ",
      "library     ScaLAPACK: ",
    ]
  ) assertStringIncludes(stdout, text);
  // Which of them is faster is measured.
  assertMatch(stdout, /^engine +(scalapack|overlap), /m);
  const last = /^max error (\S+)$/.exec(stdout.trim().split("\n").at(-1)!);
  const error = Number(last?.[1]);
  assert(error > 0 && error < 1e-5, stdout);
});

Deno.test("demo takes ranks, shape and dtype", async () => {
  for (
    const [ranks, shape, dtype] of [
      ["3", "7,5,11", "float64"],
      ["1", "16,8,4", "complex64"],
      ["4", "20,30,40", "bfloat16"],
      ["2", "9,9,9", "float16"],
      ["2", "9,8,7", "complex128"],
    ]
  ) {
    const { code, stdout, stderr } = await main(["demo", "--ranks", ranks, "--shape", shape, "--dtype", dtype]);
    assertEquals(code, 0, stdout + stderr);
    assertStringIncludes(stdout, `${dtype}, m, n, k = ${shape.replaceAll(",", ", ")}`);
    assertStringIncludes(stdout, `rank ${Number(ranks) - 1}      local A`);
  }
});

Deno.test("demo refuses wrong arguments with exit code 2", async () => {
  for (
    const [args, message] of [
      [["--shape", "1,2"], "--shape takes three numbers"],
      [["--shape", "1,2,x"], "--shape takes a whole number"],
      [["--dtype", "int8"], "--dtype takes one of"],
      [["--ranks", "0"], "--ranks takes"],
      [["more"], "demo takes options only"],
    ] as const
  ) {
    const { code, stderr } = await main(["demo", ...args]);
    assertEquals(code, 2);
    assertStringIncludes(stderr, message);
  }
});

Deno.test("doctor tells what was found, as text and as JSON", async () => {
  const { code, stdout } = await main(["doctor"]);
  assertEquals(code, 0, stdout);
  for (const text of ["Deno", Deno.version.deno, "launcher", "ScaLAPACK", "cores"]) assertStringIncludes(stdout, text);
  const json = await main(["doctor", "--json"]);
  assertEquals(json.code, 0);
  const findings = JSON.parse(json.stdout);
  assertEquals(findings.canMultiply, true);
  assertEquals(findings.deno.path, Deno.execPath());
  const [first] = findings.launchers;
  assert(first.libraries.some(({ name }: { name: string }) => name === "MPI"));
  assert(first.threads >= 1);
});
