/** A short soak under every MPI, and that a soak tells of what is wrong, with the command that does it again. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { launchers, newestLaunchers } from "../mpi_installations.ts";
import { Draw } from "../soak/draw.ts";
import { growth } from "../soak/rank.ts";
import { main } from "./command.ts";

const soak = (args: string[], env: Record<string, string> = {}) => main(["soak", ...args], { env, seconds: 240 });

for (const mpi of launchers) {
  const count = newestLaunchers.includes(mpi) ? "800" : "200";
  Deno.test(`${count} random operations on 2 ranks are as a plain model has them [${mpi.name}]`, async () => {
    const { code, stdout, stderr } = await soak(["--seed", "2026", "--operations", count, "--mpirun", mpi.mpirun]);
    assertEquals(code, 0, stdout + stderr);
    assertStringIncludes(stdout, "seed 2026, 2 ranks");
    // A shorter one does not measure what grows.
    if (count === "800") assertMatch(stdout, /rank 1: \d+ to \d+ MiB of objects/);
    assertStringIncludes(stdout, `${count} operations on 2 ranks, 0 wrong`);
  });
}

Deno.test("a soak takes seeds and counts only, and tells how it is called", async () => {
  const { code, stderr } = await soak(["--seed", "x"]);
  assertEquals([code, stderr.trim()], [2, "error: --seed takes a whole number below 2^32, not x"]);
  assertStringIncludes((await soak(["--help"])).stdout, "Usage: soak [options]");
});

Deno.test("a model that is wrong on purpose is found, with the command that does it again", async () => {
  const { code, stdout } = await soak(["--seed", "5", "--operations", "400"], { DISTMATH_SOAK_WRONG: "1" });
  assertEquals(code, 1, stdout);
  const again = /again: deno task soak (-n 2 --seed 5 --first \d+ --operations 1)/.exec(stdout)?.[1] ?? stdout;
  const same = await soak(again.split(" "), { DISTMATH_SOAK_WRONG: "1" });
  assertEquals([same.code, /wrong: (.*)/.exec(same.stdout)?.[1]], [1, /wrong: (.*)/.exec(stdout)?.[1]]);
});

Deno.test("memory and files that grow are told of", () => {
  const before = { heap: 10, resident: 130, files: 40, shared: 2, device: 500 };
  assertEquals(growth(before, { heap: 15, resident: 250, files: 41, shared: 3, device: 530 }), null);
  assertEquals(growth(before, { ...before, files: 90 }), "40 to 90 open files");
  assertEquals(
    growth(before, { heap: 30, resident: 500, files: 40, shared: 9, device: 900 }),
    "10 to 30 MiB of objects, 130 to 500 MiB of memory, 2 to 9 mapped files of /dev/shm, 500 to 900 MiB of the GPU",
  );
});

Deno.test("draws follow from the seed and the number, and are evenly spread", () => {
  const numbers = (seed: number, stream: number) => {
    const draw = new Draw(seed, stream);
    return Array.from({ length: 6000 }, () => draw.below(6));
  };
  assertEquals(numbers(1, 2), numbers(1, 2));
  for (const [seed, stream] of [[1, 3], [2, 2]]) {
    const other = numbers(seed, stream);
    assertEquals(other.filter((value, i) => value === numbers(1, 2)[i]).length < 1300, true);
    for (let face = 0; face < 6; face++) {
      const count = other.filter((value) => value === face).length;
      assertEquals(count > 850 && count < 1150, true, `${face}: ${count}`);
    }
  }
});
