/** A short soak under every MPI, and that a soak tells of what is wrong, with the command that does it again. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { launchers, newestLaunchers, runJob } from "../mpi_installations.ts";
import { Draw } from "../soak/draw.ts";
import { LiveHandles } from "../soak/handles.ts";
import { growth } from "../soak/rank.ts";
import { main } from "./command.ts";
import { mockTest, mpi } from "./mock.ts";

const soak = (args: string[], env: Record<string, string> = {}) => main(["soak", ...args], { env, seconds: 240 });

for (const mpi of launchers) {
  const [ranks, count] = newestLaunchers.includes(mpi) ? ["4", "400"] : ["2", "200"];
  Deno.test(`${count} random operations on ${ranks} ranks are as a plain model has them [${mpi.name}]`, async () => {
    const args = ["-n", ranks, "--seed", "2026", "--operations", count, "--mpirun", mpi.mpirun];
    const { code, stdout, stderr } = await soak(args);
    assertEquals(code, 0, stdout + stderr);
    assertStringIncludes(stdout, `seed 2026, ${ranks} ranks`);
    assertMatch(stdout, /rank 1: \d+ to \d+ MiB of objects, .* to (\d+) communicators.* (\d+) to \2 datatypes/);
    assertStringIncludes(stdout, `${count} operations on ${ranks} ranks, 0 wrong`);
  });
}

mockTest("random operations on 2 mock GPUs leave no handles of their libraries", async (environment) => {
  const rank = fileURLToPath(new URL("../soak/rank.ts", import.meta.url));
  const given = JSON.stringify({ seed: 7, first: 0, operations: 60, seconds: null });
  const args = ["run", "-A", "--no-check", "--v8-flags=--expose-gc", rank, given];
  const { code, output } = await runJob(mpi, 2, args, { seconds: 240, environment });
  assertEquals(code, 0, output);
  const counted = [
    "streams",
    "events",
    "modules",
    "allocations",
    "handles of NCCL",
    "handles of cuBLAS",
    "plans of transforms",
  ];
  for (const kind of counted) assertMatch(output, new RegExp(`rank 1: .* (\\d+) to \\1 ${kind}`), kind);
  assertStringIncludes(output, "60 operations on 2 ranks, 0 wrong");
});

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

Deno.test("a communicator that is left over is found, with the command that does it again", async () => {
  const { code, stdout } = await soak(["--seed", "5", "--operations", "100"], { DISTMATH_SOAK_LEAK: "1" });
  assertEquals(code, 1, stdout);
  assertMatch(
    stdout,
    /wrong: rank 0 went from (\d+) to (?!\1 )\d+ communicators while it did the same 50 operations again/,
  );
  assertStringIncludes(stdout, "again: deno task soak -n 2 --seed 5 --operations 100");
});

Deno.test("memory, files and handles that grow are told of", () => {
  const before = {
    "MiB of objects": 10,
    "MiB resident": 130,
    "open files": 40,
    "mapped files of /dev/shm": 2,
    "MiB of its GPU": 500,
    communicators: 3,
  };
  const more = {
    "MiB of objects": 15,
    "MiB resident": 250,
    "open files": 41,
    "mapped files of /dev/shm": 3,
    "MiB of its GPU": 530,
    communicators: 2,
  };
  assertEquals(growth(before, more, 5000), null);
  assertEquals(growth(before, more, 400), "130 to 250 MiB resident");
  assertEquals(growth(before, { ...before, "open files": 90 }, 5000), "40 to 90 open files");
  assertEquals(growth(before, { ...before, communicators: 4, streams: 1 }, 10), "3 to 4 communicators, 0 to 1 streams");
  assertEquals(
    growth(
      before,
      { ...before, "MiB of objects": 30, "MiB resident": 500, "mapped files of /dev/shm": 9, "MiB of its GPU": 900 },
      5000,
    ),
    "10 to 30 MiB of objects, 130 to 500 MiB resident, 2 to 9 mapped files of /dev/shm, 500 to 900 MiB of its GPU",
  );
});

/** Functions as those of libraries, each of which makes the next handle, or frees what it is told to. */
function fakeLibrary() {
  let next = 1n;
  const write = (cell: BigUint64Array, handle: bigint) => {
    cell[0] = handle;
    return 0;
  };
  const NONE = 99n;
  return {
    MPI_Comm_dup: (_: bigint, cell: BigUint64Array) => write(cell, next++),
    MPI_Comm_split: (_: bigint, color: number, __: number, cell: BigUint64Array) =>
      write(cell, color < 0 ? NONE : next++),
    MPI_Comm_free: (cell: BigUint64Array) => write(cell, NONE),
    MPI_Isend: (cell: BigUint64Array) => write(cell, next++),
    MPI_Test: (cell: BigUint64Array, isDone: boolean) => isDone ? write(cell, NONE) : 0,
    cudaStreamCreateWithFlags: (cell: BigUint64Array, flags: number) => flags === 0 ? write(cell, next++) : 1,
    cudaStreamDestroy: () => 0,
    fftw_plan_guru64_dft: (isPossible: boolean) => isPossible ? next++ : 0n,
    fftw_destroy_plan: () => undefined,
    cudaEventQuery: () => 0,
    ncclCommShrink: null,
  };
}

Deno.test("handles are counted from the call that makes them to the one that frees them", () => {
  const handles = new LiveHandles();
  const library = handles.counted(fakeLibrary() as never) as Record<string, (...given: unknown[]) => unknown>;
  assertEquals([handles.counts(), library.ncclCommShrink], [{}, null as never]);
  const cells = Array.from({ length: 4 }, () => new BigUint64Array(1));
  library.MPI_Comm_dup(0n, cells[0]);
  library.MPI_Comm_dup(0n, cells[1]);
  library.MPI_Comm_split(0n, -1, 0, cells[2]);
  library.MPI_Comm_free(cells[1]);
  library.MPI_Comm_split(0n, -1, 0, cells[2]);
  library.MPI_Isend(cells[1]);
  library.MPI_Test(cells[1], false);
  assertEquals(handles.counts(), { communicators: 1, requests: 1 });
  library.MPI_Test(cells[1], true);
  library.MPI_Test(cells[1], true);
  library.cudaStreamCreateWithFlags(cells[3], 1);
  library.cudaStreamCreateWithFlags(cells[3], 0);
  library.fftw_plan_guru64_dft(false);
  const plan = library.fftw_plan_guru64_dft(true);
  assertEquals(handles.counts(), { communicators: 1, requests: 0, streams: 1, "plans of transforms": 1 });
  library.cudaStreamDestroy(cells[3][0]);
  library.fftw_destroy_plan(plan);
  library.MPI_Comm_free(cells[0]);
  assertEquals(handles.counts(), { communicators: 0, requests: 0, streams: 0, "plans of transforms": 0 });
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
