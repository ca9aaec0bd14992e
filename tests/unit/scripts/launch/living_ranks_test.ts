import { assertEquals } from "@std/assert";
import type { LauncherKind } from "../../../../scripts/launch/launcher.ts";
import { areAllAlive, endedRanks } from "../../../../scripts/launch/living_ranks.ts";

/** Run a shell that stands for a launcher until it has printed a line, and look at its two ranks then. */
async function lookAt<T>(
  launcher: string,
  look: (kind: LauncherKind, variable: string, ranks: number) => T,
  kind: LauncherKind = "open_mpi",
): Promise<T> {
  const variable = `DISTMATH_TELL_END=${crypto.randomUUID()}`;
  await using child = new Deno.Command("env", {
    args: [variable, "sh", "-c", `${launcher}; echo ready; wait`],
    stdout: "piped",
  }).spawn();
  const reader = child.stdout.getReader();
  await reader.read();
  const seen = look(kind, variable, 2);
  await reader.cancel();
  return seen;
}

const areBothAlive = (launcher: string) => lookAt(launcher, areAllAlive);

const rank = (number: number, command = "sleep 3", variable = "OMPI_COMM_WORLD_RANK") =>
  `${variable}=${number} sh -c '${command}' >&2 &`;

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

Deno.test("ranks in a rank of another MPI are told apart by the variable of their own", async () => {
  const [first, second] = [0, 1].map((number) => rank(number, "sleep 3", "PMI_RANK"));
  const launcher = `export OMPI_COMM_WORLD_RANK=0; ${first} ${second} sleep 0.5`;
  assertEquals(await lookAt(launcher, areAllAlive, "mpich"), true);
});

const here = "OMPI_COMM_WORLD_LOCAL_SIZE=2";

Deno.test("a rank has ended when none of its processes is left, and the others are to be seen", async () => {
  const ended = (ranks: string) => lookAt(`export ${here}; ${ranks} sleep 0.5`, endedRanks);
  assertEquals(await ended(`${rank(0)} ${rank(1)}`), []);
  assertEquals(await ended(`${rank(0)} ${rank(1, "exit")}`), [1]);
  assertEquals(await ended(`${rank(0)} ${rank(1, "sleep 3 & exit")}`), []);
  assertEquals(await ended(`${rank(0, "exit")} ${rank(1, "exit")}`), []);
});

Deno.test("of ranks that may be on another machine none has ended", async () => {
  for (const size of ["", `${here.replace("2", "1")} `]) {
    assertEquals(await lookAt(`${size}${rank(0)} sleep 0.5`, endedRanks), []);
  }
});
