import { assert, assertEquals, assertThrows } from "@std/assert";
import { splitDenoFlags, withPermissions } from "../../../../scripts/launch/deno_flags.ts";
import { perRank, RANK } from "../../../../scripts/launch/job.ts";
import { CommandError } from "../../../../scripts/terminal.ts";

Deno.test("splitDenoFlags() takes Deno's flags out, with their values", () => {
  const own = ["-n", "2", "--timeout", "5"];
  const flags = ["--config", "a.json", "--allow-ffi=/lib", "-A", "--unstable-ffi", "--v8-flags=--prof", "-c=b.json"];
  flags.push("-RW", "--coverage=folder", "--cpu-prof", "--cpu-prof-dir=folder");
  assertEquals(splitDenoFlags([...own, ...flags]), { flags, rest: own });
  assertEquals(splitDenoFlags(["--alow-ffi", "--n"]), { flags: [], rest: ["--alow-ffi", "--n"] });
  assertThrows(() => splitDenoFlags(["--config"]), CommandError, "--config takes a value: --config=VALUE");
});

Deno.test("withPermissions() permits all, unless flags say what is permitted", () => {
  assertEquals(withPermissions(["--no-check"]), ["-A", "--no-check"]);
  for (const flag of ["--allow-ffi=/lib", "-R", "-RW", "--permission-set=x", "-A"]) {
    assertEquals(withPermissions([flag]), [flag]);
  }
  for (const flag of ["--allow-scripts=npm:x", "-r"]) assertEquals(withPermissions([flag])[0], "-A");
});

Deno.test("perRank() gives ranks their own flags", async () => {
  const start = (flags: readonly string[]) => ["echo", ...flags, "it's", RANK];
  assertEquals(perRank({ kind: "mpich" }, start, { flags: ["-x"] }), ["echo", "-x", "it's", RANK]);
  // As in a rank of another MPI.
  const outer = { OMPI_COMM_WORLD_RANK: "7", PMI_RANK: "8", SLURM_PROCID: "9" };
  for (
    const [kind, own, words] of [
      ["open_mpi", { OMPI_COMM_WORLD_RANK: "0" }, "--file=a b 0 it's {rank}\n"],
      ["mpich", { PMI_RANK: "1" }, "--file=a b 1 --only it's {rank}\n"],
      ["slurm", { SLURM_PROCID: "2" }, "--file=a b 2 it's {rank}\n"],
    ] as const
  ) {
    const program = perRank({ kind }, start, { flags: [`--file=a b ${RANK}`], only: { rank: 1, flags: ["--only"] } });
    const { stdout } = await new Deno.Command(program[0], { args: program.slice(1), env: { ...outer, ...own } })
      .output();
    assertEquals(new TextDecoder().decode(stdout), words);
  }
});

Deno.test("splitDenoFlags() knows all flags of deno run but those that are the job's", async () => {
  const command = new Deno.Command(Deno.execPath(), { args: ["run", "--help=full"], env: { NO_COLOR: "1" } });
  const help = new TextDecoder().decode((await command.output()).stdout);
  const flags = [...help.matchAll(/^ +(?:-\w, )?--([a-z][a-z0-9-]*)( <)?/gm)];
  assert(flags.length > 60, help);
  // run watches by itself, and takes the rank that waits for a debugger.
  const ofJob = /^(watch|watch-exclude|hmr|no-clear-screen|inspect|inspect-brk|inspect-wait|inspect-publish-uid|help)$/;
  for (const [, name, value] of flags) {
    if (ofJob.test(name)) continue;
    const args = [`--${name}`, ...value === undefined ? [] : ["value"]];
    assertEquals(splitDenoFlags([...args, "script.ts"]), { flags: args, rest: ["script.ts"] });
  }
});
