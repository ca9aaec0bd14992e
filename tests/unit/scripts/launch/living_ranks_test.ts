import { assertEquals } from "@std/assert";
import { areAllAlive } from "../../../../scripts/launch/living_ranks.ts";

/** Run a shell that stands for a launcher until it has printed a line, and hear whether its two ranks live then. */
async function areBothAlive(launcher: string): Promise<boolean> {
  const variable = `DISTMATH_TELL_END=${crypto.randomUUID()}`;
  await using child = new Deno.Command("env", {
    args: [variable, "sh", "-c", `${launcher}; echo ready; wait`],
    stdout: "piped",
  }).spawn();
  const reader = child.stdout.getReader();
  await reader.read();
  const areAlive = areAllAlive(variable, 2);
  await reader.cancel();
  return areAlive;
}

const rank = (number: number, command = "sleep 3") => `OMPI_COMM_WORLD_RANK=${number} sh -c '${command}' >&2 &`;

Deno.test("all ranks are alive if each has a process that the launcher has started", async () => {
  assertEquals(await areBothAlive(`${rank(0)} ${rank(1)} sleep 0.5`), true);
  assertEquals(await areBothAlive(`${rank(0)} ${rank(1, "exit 3")} sleep 0.5`), false);
});

Deno.test("what a rank has started stands for it neither beside it nor when it is no more", async () => {
  // The first is the number of the rank above, the second that of a job in this one.
  for (const inner of ["", "OMPI_COMM_WORLD_RANK=1 "]) {
    assertEquals(await areBothAlive(`${rank(0, `${inner}sleep 3; true`)} sleep 0.5`), false);
  }
  assertEquals(await areBothAlive(`${rank(0)} ${rank(1, "sleep 3 & exit 3")} sleep 0.5`), false);
});

Deno.test("ranks of another job are not alive in this one", async () => {
  const foreign = `DISTMATH_TELL_END=other ${rank(1)}`;
  assertEquals(await areBothAlive(`${rank(0)} ${foreign} sleep 0.5`), false);
});
